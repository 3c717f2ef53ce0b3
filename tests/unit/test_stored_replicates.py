"""Stored results over levels of replication: what counts once in a comparison, the dump, the history."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.features.history.inputs import read_run
from benchwright.results.stored_comparison import compared_inputs, compared_together
from benchwright.stats.nested import nested_estimate
from benchwright.study.contents import tests_of
from benchwright.study.journal import Study
from benchwright.suite.comparison import ComparisonRequest

SCRIPT = "echo v=$((10000+${#BW_PADDING}*${1:-1}))\n"
METRIC = ("--metric", "v~v=([0-9]+)")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a program whose value is decided by its environment alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text(SCRIPT)
    return tmp_path


def run(study: str, seed: int, *words: str, levels: str = "env=6") -> None:
    options = ("--study", study, "--seed", str(seed), "--replicate", levels, *METRIC)
    assert main(["run", "--quiet", *options, *words, "sh p.sh"]) == 0


def paths_and_values(study: str) -> tuple[list[tuple[int, ...]], list[float]]:
    with contextlib.closing(Study.open_to_read(Path(study))) as opened:
        (test,) = tests_of(opened, 1)
    return (
        [trial.path for trial in test.trials],
        [trial.blocks[0].values["v"] for trial in test.trials],
    )


@pytest.mark.usefixtures("place")
def test_a_stored_comparison_counts_outermost_replicates() -> None:
    run("old", 1, "--runs", "4")
    run("new", 2, "--runs", "4")
    found = compared_inputs(["old", "new"])
    (result,) = compared_together(found.tests, ComparisonRequest((), metrics=METRIC[1:]))
    (verdict,) = (one for one in result.verdicts if one.metric == "v")
    assert (verdict.n_baseline, verdict.n_candidate) == (6, 6)
    each = [sorted(set(paths_and_values(study)[1])) for study in ("old", "new")]
    logs = [math.fsum(map(math.log, values)) / len(values) for values in each]
    assert verdict.ratio.value == pytest.approx(math.exp(logs[1] - logs[0]))


@pytest.mark.usefixtures("place")
def test_arms_of_a_comparison_over_levels_keep_them() -> None:
    words = ("--study", "s", "--seed", "1", "--replicate", "env=5", *METRIC, "--margin", "900%")
    names = ("--name", "a", "--name", "b")
    main(["compare", "--quiet", *words, *names, "--", "sh p.sh 1", "sh p.sh 2"])
    found = compared_inputs(["s:a", "s:b"])
    (result,) = compared_together(found.tests, ComparisonRequest((), metrics=METRIC[1:]))
    (verdict,) = (one for one in result.verdicts if one.metric == "v")
    assert verdict.population is not None
    with contextlib.closing(Study.open_to_read(Path("s"))) as study:
        a, b = tests_of(study, 1)
    values = [
        math.log(after.blocks[0].values["v"] / before.blocks[0].values["v"])
        for before, after in zip(a.trials, b.trials, strict=True)
    ]
    nested = nested_estimate(values, [trial.path for trial in a.trials])
    assert verdict.ratio.low == pytest.approx(math.exp(nested.mean.low))


@pytest.mark.usefixtures("place")
def test_the_dump_has_the_replicates(capsys: pytest.CaptureFixture[str]) -> None:
    run("s", 1, "--runs", "2", "--replicate", "directory=2", levels="env=3")
    capsys.readouterr()
    assert main(["stats", "--dump", "s"]) == 0
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head[-1] == "replicate"
    each = [".".join(map(str, path)) for path in paths_and_values("s")[0]]
    assert [row[-1] for row in rows] == each
    assert each[:4] == ["1.1", "1.1", "1.2", "1.2"]


@pytest.mark.usefixtures("place")
def test_a_point_of_a_history_is_the_mean_over_replicates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("s", 1, "--runs", "3")
    with contextlib.closing(Study.open_to_read(Path("s"))) as study:
        whole = read_run(study, study.sessions()[0])
    (point,) = (point for key, point in whole.points if key.metric == "v")
    paths, values = paths_and_values("s")
    mean = nested_estimate(values, paths).mean
    assert (point.estimate, point.low, point.high) == pytest.approx(
        (mean.value, mean.low, mean.high)
    )
    capsys.readouterr()
    assert main(["history", "--json", "s"]) == 0
    (series,) = (
        one for one in json.loads(capsys.readouterr().out)["series"] if one["metric"] == "v"
    )
    assert series["points"][0]["low"] == pytest.approx(mean.low)
