"""Transformations of tests of which a file states estimates: kept, left out and named, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main
from benchwright.stats.aggregate import FIXED_COLUMNS
from benchwright.stats.table import table_of_estimates

ONLY = "only estimates are stated, and"


def bw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of `bw stats`."""
    status = main(["stats", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, err = bw(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


def names(shown: Any) -> list[str]:
    return [one["name"] for one in shown["inputs"]]


def notices(shown: Any) -> list[str]:
    return [f"{one['subject']}: {one['text']}" for one in shown["notices"]]


def codes(shown: Any) -> set[str]:
    return {one["code"] for one in shown["findings"]}


def jmh(kind: str, size: int, *, sampled: bool) -> dict[str, Any]:
    """Return a result of JMH in the mode of sampling, which has no values, or of average times."""
    metric: dict[str, Any] = {"score": 2.5, "scoreUnit": "us/op", "scoreError": 0.5}
    if sampled:
        metric |= {"rawDataHistogram": [[[[2.0, 700], [9.0, 44]]]]}
    else:
        metric |= {"rawData": [[2.4, 2.5, 2.6, 2.5, 2.45, 2.55]]}
    return {
        "jmhVersion": "1.37",
        "benchmark": "p.Maps.sample" if sampled else "p.Maps.sum",
        "mode": "sample" if sampled else "avgt",
        "params": {"kind": kind, "size": str(size)},
        "primaryMetric": metric,
        "secondaryMetrics": {},
    }


def jmh_file(path: Path, *, with_trials: bool) -> str:
    results = [
        jmh(kind, size, sampled=sampled)
        for sampled in ([False, True] if with_trials else [True])
        for kind in ("hash", "tree")
        for size in (100, 10_000)
    ]
    path.write_text(json.dumps(results))
    return str(path)


def hyperfine_file(path: Path, *, with_trials: bool) -> str:
    """Return a file of parameter scans; User and System are always stated only."""
    times = [1.0, 1.1, 0.9, 1.05, 0.95]
    results = [
        {
            "command": f"sort {size}",
            "mean": 1.0,
            "stddev": 0.08,
            "user": 0.7,
            "system": 0.1,
            "parameters": {"size": str(size)},
            **({"times": times, "exit_codes": [0] * 5} if with_trials else {}),
        }
        for size in (100, 10_000)
    ]
    path.write_text(json.dumps({"results": results}))
    return str(path)


def asv_folder(path: Path) -> str:
    """Return a folder of asv with a benchmark of 2 parameters, without `--record-samples`."""
    (path / "m").mkdir(parents=True)
    (path / "m" / "machine.json").write_text('{"machine": "m", "version": 1}')
    row = [[0.5, 0.7], [["1", "2"]], "v", 1, 0.1, [0.4, 0.6], [0.6, 0.8], [0.4, 0.6]]
    row += [[0.6, 0.8], [10, 10], [10, 10]]
    columns = ["result", "params", "version", "started_at", "duration"]
    columns += ["stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75"]
    columns += ["stats_number", "stats_repeat"]
    stored = {
        "commit_hash": "a" * 40,
        "env_name": "e",
        "date": 1_700_000_000_000,
        "params": {"machine": "m"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": columns,
        "results": {"b.time_p": row},
        "durations": {},
        "version": 2,
    }
    (path / "m" / f"{'a' * 8}-e.json").write_text(json.dumps(stored))
    benchmarks = {
        "b.time_p": {
            "name": "b.time_p",
            "param_names": ["size"],
            "params": [["1", "2"]],
            "type": "time",
            "unit": "seconds",
            "version": "v",
        },
        "version": 2,
    }
    (path / "benchmarks.json").write_text(json.dumps(benchmarks))
    return str(path)


Files = Callable[[Path], str]
ESTIMATES: list[tuple[str, Files, str, str]] = [
    ("jmh", lambda path: jmh_file(path / "s.json", with_trials=False), "100", "10000"),
    ("hyperfine", lambda path: hyperfine_file(path / "h.json", with_trials=False), "100", "10000"),
    ("asv", lambda path: asv_folder(path / "results"), "1", "2"),
]


@pytest.fixture(params=ESTIMATES, ids=lambda one: one[0])
def estimates(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[str]:
    """Return a file of which all tests are estimates, and two levels of their factor `size`."""
    _, make, small, large = request.param
    return make(tmp_path), small, large


def test_a_selection_by_factors_and_names_decides_on_estimates(
    estimates: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file, small, large = estimates
    whole = document(capsys, file)
    chosen = document(capsys, file, "--select", f"$size == {small}")
    assert 0 < len(chosen["inputs"]) < len(whole["inputs"])
    assert all(dict(one["sample"])["size"] == small for one in chosen["inputs"])
    kept = {one["name"]: one["quantities"] for one in chosen["inputs"]}
    stated = {one["name"]: one["quantities"] for one in whole["inputs"]}
    for name, quantities in kept.items():
        for now, was in zip(quantities, stated[name], strict=True):
            assert (now["mean"], now["median"], now["count"], now["method"]) == (
                was["mean"],
                was["median"],
                was["count"],
                "stated",
            )
    gone = [name for name in names(whole) if name not in kept]
    number = f"{len(gone)} of {len(stated)}"
    line = f"selection: {number} left out, not selected: {', '.join(gone)}."
    assert line in notices(chosen)
    assert "too-few-trials" not in codes(chosen)

    last = names(whole)[-1]
    assert names(document(capsys, file, "--select", f'$input eq "{last}"')) == [last]
    steps = ("--derive", "double=$size * 2", "--select", f"$double == {2 * int(large)}")
    assert names(document(capsys, file, *steps)) == gone


def test_estimates_are_grouped_by_a_factor_and_not_changed_by_unifying(
    estimates: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = estimates[0]
    whole = document(capsys, file)
    grouped = document(capsys, file, "--group", "size")
    assert names(grouped) == [
        f"{one['name']} size={dict(one['sample'])['size']}" for one in whole["inputs"]
    ]
    for option in ("--unify", "--no-unify"):
        assert document(capsys, file, option)["inputs"] == whole["inputs"]


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--select", "$size == -1", "no row is left"),
        ("--select", "$nosuch == 1", "$nosuch is not known here"),
        ("--group", "nosuch", "no row has 'nosuch'"),
        ("--select", "$elapsed > 0", ONLY),
        ("--select", "$size > 0 && $epoch > 1", ONLY),
        ("--derive", "x=$elapsed*2", ONLY),
        ("--derive", "x=$size*2", ONLY),
        ("--group", "thread", ONLY),
        ("--warn", "$elapsed > 0", ONLY),
        ("--aggregate", "elapsed=max", ONLY),
        ("--command", "make", ONLY),
    ],
)
def test_what_cannot_be_applied_to_estimates_is_an_error(
    estimates: Sequence[str],
    option: str,
    text: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = bw(capsys, estimates[0], option, text)
    assert (status, out) == (2, "")
    assert err.startswith(f"{option}: {message}")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--select", "$elapsed > 0"),
        ("--derive", "x=$elapsed*2"),
        ("--group", "thread"),
        ("--aggregate", "elapsed=max"),
    ],
)
def test_estimates_beside_trials_are_left_out_with_the_reason(
    option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = jmh_file(tmp_path / "all.json", with_trials=True)
    shown = document(capsys, file, option, text)
    assert len(shown["inputs"]) == 4
    assert all(one["quantities"][0]["count"] == 6 for one in shown["inputs"])
    assert "too-few-trials" not in codes(shown)
    (notice,) = (one for one in notices(shown) if one.startswith("selection"))
    assert notice.startswith(f"selection: 4 of 8 left out, {ONLY} {option} ")
    assert notice.count("p.Maps.sample:") == 4
    left_out = "p.Maps.sample:kind=hash,size=100"
    status, _, err = bw(capsys, file, option, text, "--baseline", left_out)
    assert status == 2
    assert err.startswith(f"--baseline: left out: {ONLY} {option} ")


def test_a_command_and_a_warning_say_which_estimates_they_did_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timed = hyperfine_file(tmp_path / "h.json", with_trials=True)
    stated = jmh_file(tmp_path / "s.json", with_trials=False)
    shown = document(capsys, timed, stated, "--command", "sort")
    assert names(shown) == ["sort 100", "sort 10000"]
    assert all(len(one["quantities"]) == 3 for one in shown["inputs"])
    assert f"4 of 6 left out, {ONLY} --command sort" in " ".join(notices(shown))

    shown = document(capsys, timed, stated, "--warn", "$elapsed > 1")
    assert len(shown["inputs"]) == 6
    (notice,) = (one for one in notices(shown) if "Not examined" in one)
    assert "p.Maps.sample:kind=tree,size=10000" in notice
    assert {one["subject"] for one in shown["findings"] if one["code"] == "warned"} == {
        "sort 100",
        "sort 10000",
    }


def test_a_selection_before_a_grouping_names_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = jmh_file(tmp_path / "all.json", with_trials=True)
    shown = document(capsys, file, "--select", "$size == 100", "--group", "kind")
    assert len(shown["inputs"]) == 4
    (notice,) = (one for one in notices(shown) if one.startswith("selection"))
    assert notice.startswith("selection: 4 of 8 left out, not selected: ")
    assert notice.count("size=10000") == 4


def criterion_folder(path: Path) -> str:
    """Return a folder of criterion with a benchmark of 12 samples and the slope of its fit."""
    (path / "sort" / "new").mkdir(parents=True)
    new = path / "sort" / "new"
    ids = {
        "group_id": "sort",
        "function_id": None,
        "value_str": None,
        "throughput": None,
        "full_id": "sort",
        "directory_name": "sort",
        "title": "sort",
    }
    counts = [10.0 * (one + 1) for one in range(12)]
    times = [count * (40 + one % 3) for one, count in enumerate(counts)]
    sample = {"sampling_mode": "Linear", "iters": counts, "times": times}
    interval = {"confidence_level": 0.95, "lower_bound": 40.5, "upper_bound": 41.5}
    of = {"confidence_interval": interval, "point_estimate": 41.0}
    of["standard_error"] = 0.2
    kinds = ("mean", "median", "median_abs_dev", "slope", "std_dev")
    (new / "benchmark.json").write_text(json.dumps(ids))
    (new / "sample.json").write_text(json.dumps(sample))
    (new / "estimates.json").write_text(json.dumps(dict.fromkeys(kinds, of)))
    return str(path)


BESIDE_TRIALS: list[tuple[str, Files, str]] = [
    ("criterion", lambda path: criterion_folder(path / "criterion"), "elapsed_slope"),
    ("hyperfine", lambda path: hyperfine_file(path / "h.json", with_trials=True), "user, system"),
]


@pytest.mark.parametrize(
    ("make", "stated"), [one[1:] for one in BESIDE_TRIALS], ids=[one[0] for one in BESIDE_TRIALS]
)
def test_an_estimate_is_valid_as_long_as_all_trials_are_unchanged(
    make: Files, stated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, first = make(tmp_path), stated.partition(",")[0]
    whole = document(capsys, file)

    def rows(shown: Any) -> list[Any]:
        return [
            next((q for q in one["quantities"] if q["name"] == first), None)
            for one in shown["inputs"]
        ]

    assert all(rows(whole))
    for kept in (
        ("--select", "$elapsed > 0"),
        ("--derive", "x=$elapsed*2"),
        ("--group", "thread"),
        ("--unify",),
        ("--no-unify",),
    ):
        shown = document(capsys, file, *kept)
        assert rows(shown) == rows(whole), kept
        assert "missing-metric" not in codes(shown), kept
    for changed in (
        ("--select", "$epoch > 1"),
        ("--group", "epoch"),
        ("--aggregate", "elapsed=count"),
    ):
        shown = document(capsys, file, *changed)
        assert not any(rows(shown)), changed
        assert "missing-metric" not in codes(shown), changed
        (notice,) = (one for one in notices(shown) if "left out" in one)
        assert f": {stated} left out: stated for all" in notice


def test_a_predicate_asks_the_selected_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = jmh_file(tmp_path / "all.json", with_trials=True)
    asked = ("--predicate", "$mean < 1")
    by_name = '$input eq "p.Maps.sum:kind=hash,size=100"'
    assert bw(capsys, file, "--select", by_name, *asked)[0] == 0
    assert bw(capsys, file, "--select", "$elapsed > 0", *asked)[0] == 1


def test_what_is_not_read_is_reported_also_if_its_test_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(asv_folder(tmp_path / "results"))
    (path / "m" / f"{'a' * 8}-broken.json").write_text("{")
    whole = document(capsys, str(path))
    assert "results-not-read" in codes(whole)
    last = names(whole)[-1]
    shown = document(capsys, str(path), "--select", f'$input eq "{last}"')
    assert names(shown) == [last]
    assert "results-not-read" in codes(shown)


def test_the_row_of_a_test_without_trials_has_its_name_and_levels_alone() -> None:
    table = table_of_estimates("a", ["elapsed"], (("size", "1"), ("thread", "x")))
    assert table.rows == 1
    assert table.row(0) == {"input": "a", "size": "1"}
    assert set(table.columns) == {*FIXED_COLUMNS, "elapsed", "size"}
