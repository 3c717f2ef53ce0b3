"""The figures of foreign generators against the asked rate and each other."""

from __future__ import annotations

import random

import pytest

from benchwright.core.results import Severity
from benchwright.features.generators.findings import (
    COUNTS_CONTRADICT,
    LATENESS_UNKNOWN,
    OFFERED_DIFFERS,
    OPERATIONS_MISSING,
    REFUSALS_UNSEEN,
    count_marks,
    count_unit,
    counts_contradict,
    in_asked_unit,
    mark_findings,
    series_count,
)
from benchwright.features.load.plan import LoadSeries, LoadTrial


def series(*counts: int, first_s: float = 0.0, width_s: float = 1.0) -> LoadSeries:
    return LoadSeries(
        at_s=tuple(first_s + width_s * place for place in range(len(counts))),
        width_s=width_s,
        counts=counts,
    )


def trial(
    rate: float,
    offered: int | None = None,
    *,
    lasted_s: float = 10.0,
    completed: int | None = None,
    errors: int = 0,
    rows: LoadSeries | None = None,
    mean_ms: float | None = None,
    marks: tuple[str, ...] = (),
    users: int | None = None,
) -> LoadTrial:
    return LoadTrial(
        rate=rate,
        duration_s=lasted_s,
        lasted_s=lasted_s,
        cost_s=lasted_s,
        offered=offered,
        completed=completed,
        errors=errors,
        series=rows or LoadSeries(),
        values={} if mean_ms is None else {"response_ms_mean": mean_ms},
        marks=marks,
        users=users,
    )


# -- the count of a series -------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "lasted_s", "count"),
    [
        (series(10, 10, 10), 3.0, 30),
        (series(10, 10, 5), 2.5, 25),
        # The incomplete last second is missing: in proportion.
        (series(10, 10), 2.5, 25),
        (series(10, 10, 5, first_s=1), 2.5, 25),
        (series(10, 10, 10, first_s=1.7e9), 3.0, 30),
        # What came after the load is no part of it.
        (series(10, 10, 10, 7, 0), 3.0, 30),
        (series(50, 50, width_s=5), 10.0, 100),
        (series(0, 0), 2.0, 0),
        (series(10, 10), 3.0, None),
        (series(10, 10, first_s=1), 4.0, None),
        (series(10, 10, first_s=2), 4.5, None),
        (series(), 3.0, None),
        (series(10), 0.0, None),
    ],
)
def test_a_series_counts_what_covers_the_run(
    rows: LoadSeries, lasted_s: float, count: int | None
) -> None:
    assert series_count(rows, lasted_s) == count


# -- marks of a trial ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "rate", "lasted_s", "differs"),
    [
        (7200, 1000, 10, True),
        (14000, 1000, 10, True),
        (72, 100, 1, False),
        (50, 100, 1, True),
        (9700, 1000, 10, False),
        (97000, 10000, 10, True),
        (991000, 100000, 10, False),
        (989000, 100000, 10, True),
        (0, 100, 10, True),
    ],
)
def test_a_count_differs_by_more_than_a_hundredth_and_chance(
    offered: int, rate: float, lasted_s: float, differs: bool
) -> None:
    """100 Poisson arrivals are 72 in one run of 380; 1,000 are 989 every third time."""
    one = trial(rate, offered, lasted_s=lasted_s)
    assert bool(count_marks(one, rate, by_series=False)) == differs


def test_a_series_that_counts_less_does_not_say_whose_fault_that_is() -> None:
    fewer, more = trial(100, 300), trial(100, 1400)
    assert count_marks(fewer, 100, by_series=True) == (OPERATIONS_MISSING,)
    assert count_marks(fewer, 100, by_series=False) == (OFFERED_DIFFERS,)
    assert count_marks(more, 100, by_series=True) == (OFFERED_DIFFERS,)
    assert count_marks(more, 140, by_series=True) == ()
    assert count_marks(more, None, by_series=True) == ()


@pytest.mark.parametrize("chance", [random.Random(seed) for seed in range(3)])
def test_poisson_arrivals_are_not_marked(chance: random.Random) -> None:
    for _ in range(300):
        rate, lasted_s = 10 ** chance.uniform(0, 2.5), chance.choice((2.0, 8.0, 30.0))
        count, at_s = -1, 0.0
        while at_s < lasted_s:
            at_s += chance.expovariate(rate)
            count += 1
        one = trial(rate, count, lasted_s=lasted_s)
        if rate * lasted_s > 20:
            assert count_marks(one, rate, by_series=True) == (), (rate, count)


@pytest.mark.parametrize(
    ("one", "contradicts"),
    [
        (trial(100, 1000, completed=990, errors=10), False),
        (trial(100, 1000, completed=1000, errors=100), True),
        (trial(100, 1000, errors=1100), True),
        (trial(100, 1000, completed=300), False),
        (trial(100, 1000, rows=series(*[100] * 10)), False),
        (trial(100, 1000, rows=series(*[70] * 10)), True),
        (trial(100, 700, rows=series(*[100] * 10)), True),
        (trial(100, 1000, errors=300, rows=series(*[70] * 10)), False),
        (trial(100, 1000, completed=700, rows=series(*[70] * 10)), False),
        (trial(100, 1000, completed=800, rows=series(*[70] * 10)), True),
        (trial(100, 1000, rows=series(*[70] * 5)), False),
        (trial(100, completed=700, rows=series(*[100] * 10)), False),
    ],
)
def test_counts_that_cannot_all_be_true_contradict(one: LoadTrial, contradicts: bool) -> None:
    assert counts_contradict(one) == contradicts
    marks = count_marks(one, None, by_series=False)
    assert (COUNTS_CONTRADICT in marks) == contradicts


def test_more_in_a_series_of_ends_than_ended_contradicts() -> None:
    ends = LoadSeries((0.0, 1.0), 1.0, (100, 100), binned_by="completion")
    for completed, contradicts in ((150, True), (200, False), (400, False)):
        one = trial(100, completed=completed, lasted_s=2.0, rows=ends)
        assert counts_contradict(one) == contradicts


# -- the unit of counts ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("counted", "unit"),
    [
        # Asked 100, 200, 400, 800 for 10 s.
        ((720, 1440, 2880, 5760), 0.72),
        ((1400, 2810, 5590, 11230), 1.4),
        ((1010, 1990, 4020, 7980), None),
        # A generator, or a server, at its limit.
        ((1000, 2000, 3000, 3000), None),
        ((300, 300, 300, 300), None),
        # Both: a unit, and from some rate on a limit.
        ((720, 1440, 2880, 3000), 0.72),
        ((720, 9000, 9000, 9000), None),
    ],
)
def test_a_part_that_is_the_same_at_the_lower_rates_is_a_unit(
    counted: tuple[int, ...], unit: float | None
) -> None:
    trials = [trial(100 * 2**place, count) for place, count in reversed([*enumerate(counted)])]
    assert count_unit(trials) == (None if unit is None else pytest.approx(unit, rel=0.01))
    assert count_unit(trials[-1:]) is None, "one rate shows no unit"
    assert count_unit([]) is None


def test_counts_in_the_asked_unit_compare_with_the_rate() -> None:
    rows = series(70, 77)
    one = trial(100, 147, lasted_s=2.0, completed=140, errors=7, rows=rows, mean_ms=2.0)
    same = in_asked_unit(one, 0.7)
    assert (same.offered, same.completed, same.errors) == (210, 200, 10)
    assert same.series.counts == (100, 110)
    assert (same.rate, same.values) == (one.rate, one.values)


# -- findings of a search --------------------------------------------------------------


def found(*trials: LoadTrial) -> dict[str, tuple[Severity, str]]:
    return {one.code: (one.severity, one.evidence) for one in mark_findings(trials, "search")}


def marked(one: LoadTrial, *, by_series: bool = True) -> LoadTrial:
    marks = count_marks(one, one.rate, by_series=by_series)
    return trial(one.rate, one.offered, lasted_s=one.lasted_s, marks=marks)


def test_a_difference_is_told_with_its_amount_and_its_trials() -> None:
    rates = (500, 1000, 2000)
    fewer = [marked(trial(rate, round(7.2 * rate))) for rate in rates]
    whole = marked(trial(50, 500))
    severity, text = found(whole, *fewer)[OPERATIONS_MISSING]
    assert severity is Severity.WARNING
    assert "series counts 0.72 of the asked rate in 3 of 4 trials" in text
    more = [marked(trial(rate, round(14 * rate))) for rate in rates]
    severity, text = found(*more)[OFFERED_DIFFERS]
    assert severity is Severity.WARNING
    assert "counts 1.4 of the asked rate in 3 of 3 trials" in text


def test_more_in_some_and_fewer_in_other_trials_is_serious() -> None:
    trials = [marked(trial(1000, n), by_series=False) for n in (7000, 14000, 10000, 9000)]
    severity, text = found(*trials)[OFFERED_DIFFERS]
    assert severity is Severity.SERIOUS
    assert "(0.7 to 1.4)" in text
    assert "cannot be compared" in text


def test_what_is_too_small_for_one_trial_is_found_in_the_sum() -> None:
    trials = [marked(trial(100, 950)) for _ in range(20)]
    assert not any(one.marks for one in trials)
    _, text = found(*trials)[OFFERED_DIFFERS]
    assert "19,000 operations" in text
    assert "0.95 of the 20,000" in text
    assert found(*trials[:3]) == {}
    assert found(*[trial(100, 993) for _ in range(999)]) == {}, "less than 1 %"
    assert found(*[trial(100, 400)] * 3, trial(100, 1003)) == {}, "the generator's limit"
    closed = [trial(4, 950, users=4) for _ in range(20)]
    assert found(*closed) == {}, "users have no rate"


def test_contradicting_counts_are_listed() -> None:
    one = trial(100, 1000, completed=900, errors=200, marks=(COUNTS_CONTRADICT,))
    severity, text = found(one)[COUNTS_CONTRADICT]
    assert severity is Severity.SERIOUS
    assert "1,000 offered, 900 completed, 200 failed" in text


def test_refusals_that_nobody_reports_are_noted_where_the_server_got_no_slower() -> None:
    def climb(*points: tuple[float, float]) -> dict[str, tuple[Severity, str]]:
        unseen = (REFUSALS_UNSEEN,)
        return found(*(trial(r, mean_ms=ms, marks=unseen) for r, ms in points))

    severity, text = climb((50, 2.0), (1000, 1.1), (100_000, 1.2))[REFUSALS_UNSEEN]
    assert severity is Severity.NOTE
    assert "at 100,000/s the mean response was 1.2 ms, at 50/s 2 ms" in text
    severity, _ = climb((50, 5.0), (1000, 3.1), (100_000, 1.0))[REFUSALS_UNSEEN]
    assert severity is Severity.WARNING, "refusing is quicker than answering"
    assert climb((50, 2.0), (100, 2.1), (400, 3.0)) == {}, "not far above"
    assert climb((50, 2.0), (400, 9.0), (5000, 50.0)) == {}, "it got slower"
    assert climb() == {}


def test_lateness_that_is_not_reported_is_noted_once() -> None:
    trials = [trial(rate, marks=(LATENESS_UNKNOWN,)) for rate in (50, 100, 200)]
    ((code, (severity, _)),) = found(*trials).items()
    assert (code, severity) == (LATENESS_UNKNOWN, Severity.NOTE)


def test_a_mark_without_amounts_says_in_how_many_trials() -> None:
    trials = [trial(50), trial(90, marks=("generator-saturated",))]
    _, text = found(*trials)["generator-saturated"]
    assert text == "generator saturated in 1 of 2 trials"
