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
from benchwright.features.history.answer import HistoryQuestion, history_answer
from benchwright.features.history.inputs import read_run
from benchwright.features.history.newest import log_and_error
from benchwright.features.history.store import HistoryFile, history_of
from benchwright.features.history.types import (
    HistoryPoint,
    LevelCost,
    Run,
    SeriesKey,
    command_over,
    levels_of,
)
from benchwright.results.stored_comparison import compared_inputs, compared_together
from benchwright.stats.intervals import t_quantile
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


def test_what_is_common_to_environments_in_turns_is_no_difference(place: Path) -> None:
    """One of the four phases of a machine is slow in one session, two in the other: all environments
    see them, so their means agree within each session and differ between both."""
    (place / "p.sh").write_text(
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n\n"
        "echo v=$((10000+n%7+4000*(n/12<$(cat phases))))\n"
    )
    for study, phases in (("old", "1"), ("new", "2")):
        (place / "n").unlink(missing_ok=True)
        (place / "phases").write_text(phases)
        run(study, 1, "--runs", "8")
    found = compared_inputs(["old", "new"])
    (result,) = compared_together(found.tests, ComparisonRequest((), metrics=METRIC[1:]))
    (verdict,) = (one for one in result.verdicts if one.metric == "v")
    assert (verdict.n_baseline, verdict.n_candidate) == (6, 6)
    assert verdict.ratio.low < 1 < verdict.ratio.value < 1.1 < verdict.ratio.high


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
def test_values_that_only_environments_change_are_not_called_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("s", 1, "--runs", "3")
    assert "[constant]" not in capsys.readouterr().out


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
    # Six values, however many trials: the error of a point is that of Student's with five degrees.
    assert point.trials == 6
    assert levels_of(point.command) == ("env",)
    _, error = log_and_error(point.estimate, point.low, point.high, 0.95, point.trials)
    half = math.log(mean.high / mean.low) / 2
    assert error == pytest.approx(half / t_quantile(0.95, 5))


# -- what levels cost, in histories ------------------------------------------------------------


def points(
    values: list[float], command: str = "sort"
) -> tuple[tuple[SeriesKey, HistoryPoint], ...]:
    return tuple(
        (
            SeriesKey("t", "elapsed", "m"),
            HistoryPoint(
                run=f"r{at}",
                study="s",
                session=1,
                started_ns=at,
                estimate=value,
                trials=9,
                unit="s",
                command=command,
            ),
        )
        for at, value in enumerate(values)
    )


@pytest.mark.parametrize("later", [3, 20])
@pytest.mark.parametrize(
    ("spread", "machine", "command", "is_doubtful"),
    [
        (0.03, "m", "sort", True),
        (0.001, "m", "sort", False),
        (0.03, "other", "sort", False),
        (0.03, "m", command_over("sort", ["build", "env"]), False),
    ],
)
def test_a_change_that_a_level_alone_makes_is_doubted(
    spread: float, machine: str, command: str, is_doubtful: bool, later: int
) -> None:
    level = [1 + 0.001 * (-1) ** at for at in range(20)]
    runs = [
        Run(points=(one,), environment=None, machine="")
        for one in points([*level, *(1.05 * value for value in level[:later])], command)
    ]
    names = {"machine": machine, "metric": "elapsed", "level": "env", "command": "sort"}
    older = LevelCost(**names, spread=0.0, measured_ns=1)
    newer = LevelCost(**names, spread=spread, measured_ns=2)
    history = history_of(runs, costs=(newer, older))
    (series,) = history_answer(history, HistoryQuestion()).series
    # Of a few runs the newest differs from its level; of many, a step is open.
    assert series.newest.verdict == "slower" or series.newest.open_step is not None
    found = [one for one in series.findings if one.code == "one-replicate"]
    assert bool(found) is is_doubtful
    if found:
        assert (
            "% within one environment; two of them alone differ by up to 8.67 %"
            in found[0].evidence
        )


@pytest.mark.usefixtures("place")
def test_a_history_file_has_what_levels_cost(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--study", "s", "--seed", "1", "--replicate", "env=6", *METRIC)
    assert main(["compare", "--quiet", "--null", *words, "--", "sh p.sh"]) in (0, 3)
    run("s", 2, "--runs", "2")
    assert main(["history", "add", "s", "--file", "h.db"]) == 0
    assert "not a part of a history" not in capsys.readouterr().out
    with HistoryFile.open_to_read(Path("h.db")) as stored:
        costs = stored.costs()
    (cost,) = (one for one in costs if one.metric == "v")
    assert cost.level == "env"
    # The value is 10,000 to 14,095: a uniform one has a deviation of 10 %.
    assert 0.02 < cost.spread < 0.3
