"""Responses of searches and loads as tests of a normal probability plot."""

from __future__ import annotations

import csv
import json
import tarfile
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.criterion import Criterion
from benchwright.features.load.page import load_responses
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.page import response_tests
from benchwright.features.search.types import (
    Claim,
    ClaimResult,
    CurvePoint,
    PeakStatus,
    SearchTrial,
)
from benchwright.page.charts import normal_sheet
from benchwright.report.charts.source import result_of_columns
from benchwright.stats.aggregate import MetricColumn

STUDIES = Path(__file__).parents[1] / "data" / "studies-0.1"
MEAN = Criterion("response_ms_mean", 40.0)
P99 = Criterion("response_ms_p99", 90.0, statistic="percentile", share=0.99)
SAMPLE = (("disks", "2"),)


def unpacked(name: str, where: Path) -> str:
    """Unpack a stored study; return its name."""
    with tarfile.open(STUDIES / f"{name}.tar.xz") as archive:
        archive.extractall(where, filter="data")
    return name


def trial(
    rate: float,
    value: float | None,
    ending: LoadEnding = LoadEnding.WHOLE,
    sample: tuple[tuple[str, str], ...] = (),
) -> SearchTrial:
    values = {} if value is None else {MEAN.key: value, P99.key: 2 * value}
    load = LoadTrial(
        rate=rate, duration_s=10.0, lasted_s=10.0, cost_s=10.0, values=values, ending=ending
    )
    return SearchTrial(1, Probe(rate, 10.0), load, sample)


def result(*rates: float) -> ClaimResult:
    """Return a result whose curve is 10 ms at 100/s and doubles every 100/s."""
    curve = tuple(CurvePoint(rate, 0.0, 10 * 2 ** (rate / 100 - 1), 99.0) for rate in rates)
    return ClaimResult(
        status=PeakStatus.FOUND, detail="", claim=Claim(), policy="p", binding=MEAN.key, curve=curve
    )


def test_each_load_with_three_responses_is_a_test_the_largest_first() -> None:
    trials = [
        *(trial(100.0, 9.0 + at) for at in range(3)),
        *(trial(200.0, 20.0 + at) for at in range(4)),
        *(trial(300.0, 50.0 + at) for at in range(2)),
        trial(100.0, None, LoadEnding.FAILED),
    ]
    group = response_tests(trials, (MEAN, P99), {})
    assert group is not None
    tests = group.sources
    assert [one.name for one in tests] == ["200/s", "100/s"]
    assert tests[1].columns[MEAN.key].values == (9.0, 10.0, 11.0)
    assert tests[0].columns[MEAN.key].epochs == (4, 5, 6, 7)
    named = {one.name: one.label for one in group.named}
    assert named == {MEAN.key: "Mean response", P99.key: "P99 response"}


def test_infinite_responses_and_other_samples_are_no_part_of_a_load() -> None:
    trials = [
        *(trial(100.0, value) for value in (9.0, 10.0, float("inf"))),
        *(trial(100.0, 20.0 + at, sample=SAMPLE) for at in range(3)),
    ]
    group = response_tests(trials, (MEAN,), {})
    assert group is not None
    (test,) = group.sources
    assert test.name == "disks=2 100/s"
    assert test.columns[MEAN.key].values == (20.0, 21.0, 22.0)


def test_without_a_repeated_load_responses_are_relative_to_the_curve() -> None:
    trials = [
        trial(100.0, 11.0),
        trial(150.0, 10 * 2**0.5),
        trial(200.0, 18.0),
        trial(300.0, 99.0),  # Beyond the curve.
        trial(120.0, 9.0, LoadEnding.LEFT),
    ]
    group = response_tests(trials, (MEAN,), {(): result(100.0, 200.0)})
    assert group is not None
    (test,) = group.sources
    (column,) = test.columns.values()
    assert column.epochs == (1, 2, 3)
    assert column.values == pytest.approx((1.1, 1.0, 0.9))
    assert response_tests(trials, (MEAN,), {}) is None
    assert response_tests(trials[:2], (MEAN,), {(): result(100.0, 200.0)}) is None


def test_a_page_has_at_most_nine_panels() -> None:
    trials = [trial(100.0 + load, 9.0 + at * (1 + load)) for load in range(12) for at in range(3)]
    group = response_tests(trials, (MEAN,), {})
    assert group is not None
    assert len(normal_sheet(group).panels) == 9


def test_responses_of_loads_are_in_milliseconds() -> None:
    column = MetricColumn("response_ns_mean", (1, 2, 4), (1e6, 2e6, 3e6))
    few = msgspec.structs.replace(column, epochs=(1, 2), values=(1e6, 2e6))
    assert load_responses([result_of_columns("few", [few])]) is None
    group = load_responses([result_of_columns("web", [column]), result_of_columns("few", [few])])
    assert group is not None
    (test,) = group.sources
    assert test.columns[column.name].values == (1.0, 2.0, 3.0)
    assert [(one.name, one.unit) for one in group.named] == [(column.name, "ms")]


def test_the_plot_of_a_stored_search_has_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = unpacked("surface", tmp_path)
    words = ("--mode", "normal", study, "--json", "--datafile", "q.csv", "-o", "q.svg")
    assert main(["plot", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mode"] == "normal"
    points = [point for one in document["series"] for point in one["points"]]
    assert points
    for point in points:
        assert len(point["scores"]) == len(point["values"]) == point["n"] >= 3
        inner = zip(point["band_low"], point["expected"], point["band_high"], strict=True)
        assert all(low < middle < high for low, middle, high in inner)
    rows = list(csv.DictReader((tmp_path / "q.csv").read_text().splitlines()))
    assert len(rows) == sum(point["n"] for point in points)
    assert float(rows[0]["score"]) == points[0]["scores"][0]
    assert float(rows[0]["band_low"]) == points[0]["band_low"][0]


def test_a_ramp_without_repeated_loads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = unpacked("ramp", tmp_path)
    assert main(["plot", "--mode", "normal", study, "-o", "q.svg"]) == 2
    assert "three trials with a response" in capsys.readouterr().err
