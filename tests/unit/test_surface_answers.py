"""The answers of a surface where searches are open, few, or none; `--at-rate` and `--cross` as typed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.criterion import Criterion
from benchwright.features.search.surface.answers import (
    MOST_CANDIDATES,
    Basis,
    best_samples,
    crossed_levels,
    crossed_surfaces,
    reached_rate,
)
from benchwright.features.search.surface.types import (
    Factor,
    LevelPair,
    Sample,
    SampleResult,
    SurfaceGoal,
    make_factor,
)
from benchwright.features.search.types import PeakGoal, PeakStatus
from surfaces import ending, searched

STUDIES = Path(__file__).parent.parent / "data/studies-2026-11"
KIND = make_factor("kind", ("a", "b", "c", "d"))
DISKS = make_factor("disks", ("1", "2", "4", "8"))


def goal(*factors: Factor) -> SurfaceGoal:
    peak = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),))
    count = SurfaceGoal(factors=factors, peak=peak, samples=1).count
    return SurfaceGoal(factors=factors, peak=peak, samples=count)


def kind(level: str) -> Sample:
    return (("kind", level),)


def four(last: SampleResult) -> tuple[SampleResult, ...]:
    rates = {"a": 100.0, "b": 300.0, "c": 200.0}
    return (*(searched(kind(level), rate, 0.02) for level, rate in rates.items()), last)


def test_the_best_of_measured_samples_is_established() -> None:
    best = best_samples(goal(KIND), four(searched(kind("d"), 150, 0.02)))
    assert best is not None
    assert best.established == kind("b")
    assert best.ruled_out == 3


@pytest.mark.parametrize(
    ("status", "rate", "bound"),
    [
        (PeakStatus.BUDGET, 120.0, None),
        (PeakStatus.FAILED, None, None),
        (PeakStatus.NEVER_FAILS, 50.0, "lower"),
    ],
)
def test_a_search_that_did_not_end_cannot_be_ruled_out(
    status: PeakStatus, rate: float | None, bound: str | None
) -> None:
    best = best_samples(goal(KIND), four(ending(kind("d"), status, rate, (110, 130), bound)))
    assert best is not None
    assert best.established is None
    chances = {chance.sample: chance for chance in best.chances}
    assert chances[kind("d")].basis is Basis.OPEN
    assert chances[kind("d")].at_most == 1
    assert chances[kind("b")].at_least == 0
    assert chances[kind("b")].at_most > 0.99


def test_a_bound_above_all_others_rules_them_out_and_one_below_is_ruled_out() -> None:
    higher = ending(kind("d"), PeakStatus.NEVER_FAILS, 900, bound="lower")
    best = best_samples(goal(KIND), four(higher))
    assert best is not None
    assert best.established == kind("d")
    lower = ending(kind("d"), PeakStatus.FAILS_AT_LOWEST, 1, bound="upper")
    best = best_samples(goal(KIND), four(lower))
    assert best is not None
    assert best.established == kind("b")


def test_without_a_process_samples_that_were_not_searched_are_unknown() -> None:
    results = (searched(kind("a"), 100, 0.02), searched(kind("b"), 300, 0.02))
    best = best_samples(goal(KIND), results)
    assert best is not None
    assert {chance.basis for chance in best.chances} == {Basis.MEASURED, Basis.UNKNOWN}
    assert best_samples(goal(KIND), ()) is None


def test_a_rate_is_reached_by_bounds_with_certainty() -> None:
    higher = ending(kind("d"), PeakStatus.NEVER_FAILS, 900, bound="lower")
    reached = reached_rate(goal(KIND), four(higher), 250)
    assert reached is not None
    ends = {chance.sample[0][1]: (chance.at_least, chance.at_most) for chance in reached.chances}
    assert ends["d"] == (1, 1)
    assert ends["b"][0] > 0.99
    assert ends["a"][1] < 0.01
    rough = ending(kind("d"), PeakStatus.BUDGET, 500, (450, 550))
    reached = reached_rate(goal(KIND), four(rough), 250)
    assert reached is not None
    assert (reached.chances[3].at_least, reached.chances[3].at_most) == (0, 1)
    assert reached.crossings == ()


def test_lines_cross_where_their_order_changes() -> None:
    server = make_factor("server", ("x", "y"))
    made = goal(server, DISKS)
    rates = {"x": (100, 200, 400, 800), "y": (280, 283, 280, 282)}
    results = [
        searched((("server", name), ("disks", disks)), rate, 0.01)
        for name, of_name in rates.items()
        for disks, rate in zip(DISKS.levels, of_name, strict=True)
    ]
    (found,) = crossed_levels(made, results, LevelPair("server", "x", "y")).crossings
    assert found.crosses > 0.99
    assert found.rises
    assert found.level is not None
    assert found.level.low < 2.82 < found.level.high
    assert found.level.high / found.level.low < 1.6
    (back,) = crossed_levels(made, results, LevelPair("server", "y", "x")).crossings
    assert not back.rises


def test_a_large_space_says_how_many_samples_have_no_probability() -> None:
    many = goal(*(make_factor(name, tuple("12345678")) for name in ("a", "b", "c")))
    samples = [tuple(zip("abc", levels, strict=True)) for levels in ("111", "118", "181", "811")]
    results = [searched(sample, 100 + 10 * at, 0.02) for at, sample in enumerate(samples)]
    reached = reached_rate(many, results, 100)
    assert reached is not None
    assert reached.left_out == 512 - len(reached.chances) == 512 - 4 - MOST_CANDIDATES


def test_surfaces_cross_only_where_both_have_levels() -> None:
    def made(
        disks: tuple[str, ...], kinds: tuple[str, ...], rise: float
    ) -> tuple[SurfaceGoal, list[SampleResult]]:
        factors = make_factor("disks", disks), make_factor("kind", kinds)
        results = [
            searched((("disks", disk), ("kind", kind)), 100 * float(disk) ** rise, 0.01)
            for disk in disks
            for kind in kinds
        ]
        return goal(*factors), results

    first = made(("1", "2", "4"), ("a", "b"), 1.0)
    (found,) = crossed_surfaces(first, made(("2", "4", "8", "16"), ("b", "c"), 0.5))
    assert found.fixed == (("kind", "b"),)
    assert found.first_higher > 0.99
    assert crossed_surfaces(first, made(("8", "16"), ("b", "c"), 0.5)) == ()
    assert crossed_surfaces(first, made(("1", "2", "4"), ("c", "d"), 0.5)) == ()


def stored(place: Path) -> str:
    with tarfile.open(STUDIES / "surface.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return str(place / "surface")


def test_a_stored_surface_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["surface", "--study", stored(tmp_path), "--at-rate", "200"]
    assert main([*words, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [one["sample"] for one in answers["best"]["samples"]] == [{"workers": "8"}]
    (reached,) = answers["reached"]
    assert [one["basis"] for one in reached["samples"]] == [
        *("measured", "predicted", "measured", "measured")
    ]
    (crossing,) = reached["crossings"]
    assert 1 < crossing["interval"][0] < 2 < crossing["interval"][1] < 4
    assert main(words) == 0
    assert "Samples with a peak of 200/s or more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cross", "workers=1,4"), "no other factor is numeric"),
        (("--cross", "disks=1,2"), "there is no factor 'disks'"),
        (("--cross", "workers=1"), "it does not name two levels"),
        (("--cross", "workers=1,1.0"), "its two levels are the same"),
        (("--at-rate", "much"), "much"),
    ],
)
def test_wrong_questions_are_refused(
    words: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["surface", "--study", stored(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err
