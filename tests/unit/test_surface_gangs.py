"""Samples that gangs search side by side: which, on which gang, and how the gangs' effects are
removed."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import numpy as np
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.pool.stored import parts_of_attempts
from benchwright.features.pool.types import Attempt, VoidReason
from benchwright.features.search.surface.design import (
    ANCHOR,
    next_search,
    results_needed,
    searches_of,
)
from benchwright.features.search.surface.gangs import gang_effects, responses_of
from benchwright.features.search.surface.gaussian_process import fit_process
from benchwright.features.search.surface.model import sample_responses
from benchwright.features.search.surface.report import (
    SurfaceDocument,
    SurfaceReport,
    surface_document,
)
from benchwright.features.search.surface.result import surface_of
from benchwright.features.search.surface.spec import GangTimes, TimeLeft, time_share
from benchwright.features.search.surface.types import (
    DesignKind,
    GangNames,
    SampleRequest,
    SampleResult,
    SurfaceGoal,
)
from benchwright.features.search.surface.view import SurfaceView, surface_sheet
from benchwright.features.search.text import gangs_text
from benchwright.features.search.types import Claim, PeakGoal
from benchwright.findings.comparison import gang_confounded
from surfaces import factors, measured_peaks, randomised, searched, true_peaks

PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),), start_rate=20.0)
GOAL = SurfaceGoal(factors=factors(), peak=PEAK, samples=12, seed=3)
RATES = measured_peaks(true_peaks(randomised("web", 3)), 0.03, 3)
FOUR = GangNames(("g1", "g2", "g3", "g4"))


def result_of(wanted: SampleRequest, noise: float = 0.03) -> SampleResult:
    """Return what the search of a request finds."""
    result = searched(wanted.sample, RATES[wanted.sample], noise)
    return msgspec.structs.replace(result, gang=wanted.gang, seeded_from=wanted.seeded_from)


def played(
    goal: SurfaceGoal, gangs: GangNames, arrivals: random.Random | None = None
) -> tuple[list[SampleRequest], dict[int, SampleResult]]:
    """Return the searches of a map and their results, which arrive in a random order."""
    wanted: list[SampleRequest] = []
    ended: dict[int, SampleResult] = {}
    while True:
        complete = False
        while set(range(1, results_needed(len(wanted) + 1, gangs) + 1)) <= set(ended):
            following = next_search(goal, gangs, wanted, ended)
            if following is None:
                complete = True
                break
            wanted.append(following)
        running = [n for n in range(1, len(wanted) + 1) if n not in ended]
        if complete and not running:
            return wanted, ended
        arrived = running[0] if arrivals is None else arrivals.choice(running)
        ended[arrived] = result_of(wanted[arrived - 1])


def test_the_order_of_arrival_changes_nothing() -> None:
    wanted, ended = played(GOAL, FOUR)
    results = tuple(ended[n] for n in range(1, len(wanted) + 1))
    surface = surface_of(GOAL, results)
    for seed in range(3):
        again, arrived = played(GOAL, FOUR, random.Random(seed))
        assert again == wanted
        in_order = tuple(arrived[n] for n in range(1, len(again) + 1))
        assert surface_of(GOAL, in_order) == surface
    assert list(arrived) != sorted(arrived)


def test_every_gang_searches_the_anchor_first_and_an_equal_share_of_the_others() -> None:
    wanted, _ = played(GOAL, FOUR)
    assert len(wanted) == searches_of(GOAL, FOUR) == 12 + 3
    assert [one.why for one in wanted].count(ANCHOR) == 4
    assert {one.sample for one in wanted[:4]} == {wanted[0].sample}
    assert [one.gang for one in wanted[:4]] == list(FOUR.names)
    assert len({one.sample for one in wanted}) == 12
    for at in range(4, 12, 4):
        assert Counter(one.gang for one in wanted[at : at + 4]) == Counter(FOUR.names)
    other = msgspec.structs.replace(GOAL, seed=4)
    gangs = [one.gang for one in wanted[4:]]
    assert [one.gang for one in played(other, FOUR)[0][4:]] != gangs


def test_a_gang_that_joins_later_searches_the_anchor_first() -> None:
    wanted, ended = played(GOAL, GangNames(FOUR.names[:2]))
    assert len(wanted) == 13
    for one in (FOUR, GangNames(FOUR.names[:3])):
        first = next_search(GOAL, one, wanted[:8], ended)
        assert first is not None
        assert (first.why, first.gang) == (ANCHOR, "g3")
        assert first.sample == wanted[0].sample
    # With fewer gangs, the map still has all its samples.
    left = GangNames(("g2",))
    alone = list(wanted[:8])
    found = {number: result_of(one) for number, one in enumerate(alone, start=1)}
    while (following := next_search(GOAL, left, alone, found)) is not None:
        alone.append(following)
        found[len(alone)] = result_of(following)
    assert len({one.sample for one in alone}) == 12
    assert len(alone) == 13


def test_without_an_anchor_no_sample_is_searched_twice() -> None:
    wanted, _ = played(GOAL, msgspec.structs.replace(FOUR, anchor=False))
    assert len({one.sample for one in wanted}) == len(wanted) == 12


def test_searches_start_at_the_peak_of_a_sample_whose_result_is_known() -> None:
    wanted, ended = played(GOAL, FOUR)
    for number, one in enumerate(wanted, start=1):
        known = [ended[n] for n in range(1, results_needed(number, FOUR) + 1)]
        assert bool(one.seeded_from) == bool(known)
        if known:
            assert one.seeded_from in {result.sample for result in known}


def test_running_samples_are_believed_to_be_as_predicted() -> None:
    results = [result_of(SampleRequest(s, PEAK)) for s in list(RATES)[::5]]
    process = fit_process(GOAL.factors, sample_responses(results, log=True))
    assert process is not None
    running = [list(RATES)[7], list(RATES)[24]]
    believing = process.believing(running)
    before, sd_before = process.response(running)
    after, sd_after = believing.response(running)
    assert after == pytest.approx(before, abs=0.02)
    assert (sd_after < 0.7 * sd_before).all()
    assert process.believing([results[0].sample]) is process


# -- time ------------------------------------------------------------------------------

TIMED = msgspec.structs.replace(GOAL, deadline_s=3600.0)


def test_the_time_of_every_gang_is_shared_over_its_searches() -> None:
    time = TimeLeft(0.0, 3610.0, begins=True)
    first = next_search(TIMED, FOUR, [], {}, time)
    assert first is not None
    # Fifteen searches of four gangs: g1 has four of them.
    assert first.goal.budget_s == 3600 / 4
    assert (first.why, first.gang) == (ANCHOR, "g1")
    second = next_search(TIMED, FOUR, [first], {}, TimeLeft(10.0, 3600.0))
    assert second is not None
    assert (second.gang, second.goal.budget_s) == ("g2", 3590 / 4)
    assert second.spent_s == 10.0


def test_a_gang_without_time_is_passed_over() -> None:
    gangs = GangTimes(free_s=(0.0, 290.0), following=(1, 0))
    share = time_share(TIMED, (), TimeLeft(0.0, 310.0), 6, gangs)
    assert (share.gang, share.searches, share.budget_s) == (0, 5, 60.0)


def test_a_deadline_that_is_too_short_for_the_anchors_has_none() -> None:
    time = TimeLeft(0.0, 130.0, begins=True)
    short = msgspec.structs.replace(TIMED, deadline_s=120.0)
    wanted: list[SampleRequest] = []
    while len(wanted) < 7:
        following = next_search(short, FOUR, wanted, {}, time)
        assert following is not None
        assert following.why != ANCHOR
        wanted.append(following)
    assert len({one.sample for one in wanted}) == 7


BESIDE_S = 5.0
"""Time of a search beside its trials."""


def played_in_time(
    goal: SurfaceGoal, gangs: GangNames, share: tuple[float, float], seed: int
) -> tuple[list[SampleRequest], list[float]]:
    """Return the searches of a map with a deadline, and when each ended [s].

    A search takes a random part, within `share`, of its budget. A gang makes its searches one after
    another.
    """
    assert goal.deadline_s is not None
    rng = np.random.default_rng(seed)
    wanted: list[SampleRequest] = []
    ends: list[float] = []
    costs: list[float] = []
    now_s = 0.0
    while True:
        over = [n for n, end_s in enumerate(ends, start=1) if end_s <= now_s]
        needed = results_needed(len(wanted) + 1, gangs)
        if not set(range(1, needed + 1)) <= set(over):
            now_s = min(end_s for end_s in ends if end_s > now_s)
            continue
        time = TimeLeft(
            now_s,
            goal.deadline_s - now_s,
            begins=not wanted,
            held_s=sum(costs[n - 1] + BESIDE_S for n in range(1, needed + 1)),
        )
        ended = {}
        for n in over:
            result = result_of(wanted[n - 1])
            found = msgspec.structs.replace(result.found, cost_s=costs[n - 1], load_s=costs[n - 1])
            ended[n] = msgspec.structs.replace(result, found=found)
        following = next_search(goal, gangs, wanted, ended, time)
        if following is None:
            return wanted, ends
        begins_s = max(
            [now_s]
            + [end_s for one, end_s in zip(wanted, ends, strict=True) if one.gang == following.gang]
        )
        budget_s = following.goal.budget_s
        assert budget_s is not None
        wanted.append(following)
        costs.append(budget_s * float(rng.uniform(*share)))
        ends.append(begins_s + costs[-1] + BESIDE_S)


@pytest.mark.parametrize("deadline_s", [120.0, 300.0, 900.0, 3600.0])
@pytest.mark.parametrize("count", [2, 4, 7])
def test_maps_of_gangs_end_at_the_deadline(deadline_s: float, count: int) -> None:
    gangs = GangNames(tuple(f"g{n}" for n in range(count)))
    goal = msgspec.structs.replace(GOAL, deadline_s=deadline_s)
    for seed in range(5):
        # The first two searches of a gang do not know yet what is spent beside the trials.
        wanted, ends = played_in_time(goal, gangs, (0.9, 1.0), seed)
        assert max(ends) <= deadline_s + 2 * BESIDE_S
        if deadline_s >= 900:
            assert len(wanted) == searches_of(goal, gangs)
        least = min(one.goal.budget_s or 0.0 for one in wanted)
        assert least >= 30.0 - 0.1
    # Searches that end early leave their time to the others.
    early, _ = played_in_time(goal, gangs, (0.2, 0.5), 1)
    assert len(early) >= len(wanted)


# -- how the gangs differ --------------------------------------------------------------


def slowed(by: float, noise: float) -> tuple[SampleResult, ...]:
    """Return the results of a map of 24 samples, with one gang slowed."""
    goal = msgspec.structs.replace(GOAL, samples=24, design=DesignKind.I_OPTIMAL)
    wanted, _ = played(goal, FOUR)
    peaks, rng = true_peaks(randomised("web", 3)), np.random.default_rng(20261123)
    found = []
    for one in wanted:
        speed = 1 - by if one.gang == "g3" else 1.0
        rate = peaks[one.sample] * speed * float(np.exp(rng.normal(0, noise)))
        result = searched(one.sample, rate, noise)
        found.append(msgspec.structs.replace(result, gang=one.gang))
    return tuple(found)


def test_a_slow_gang_is_found_and_its_peaks_are_corrected() -> None:
    results = slowed(0.03, 0.005)
    gangs = gang_effects(GOAL, results)
    assert gangs is not None
    assert gangs.differ
    assert gangs.difference.low < 1 / 0.97 - 1 < gangs.difference.high
    slowest = min(gangs.gangs, key=lambda one: one.effect.value)
    assert (slowest.gang, slowest.searches) == ("g3", 7)
    peaks = true_peaks(randomised("web", 3))
    fitted = responses_of(GOAL, results)
    assert len(fitted.samples) == len(set(fitted.samples)) == 24
    mean_gang = 0.97**0.25
    errors = {
        sample: rate / (peaks[sample] * mean_gang) - 1
        for sample, rate in zip(fitted.samples, fitted.rates, strict=True)
    }
    on_slow = [errors[one.sample] for one in results if one.gang == "g3"]
    assert abs(np.mean(on_slow)) < 0.01
    surface = surface_of(GOAL, results)
    assert surface.gangs == gangs
    assert surface.searched == 24
    finding = next(one for one in surface.findings if one.code == "gangs-differ")
    assert finding.evidence.startswith(gangs_text(gangs))
    assert "g3 is the slowest" in finding.evidence


def test_equal_gangs_are_not_said_to_differ() -> None:
    surface = surface_of(GOAL, slowed(0.0, 0.005))
    assert surface.gangs is not None
    assert surface.gangs.difference.low == 0
    assert not any(one.code == "gangs-differ" for one in surface.findings)
    assert gangs_text(surface.gangs).startswith("no difference between gangs was found")


def test_the_order_of_the_results_does_not_matter_to_the_effects() -> None:
    results = slowed(0.03, 0.005)
    one, other = (gang_effects(GOAL, found) for found in (results, results[::-1]))
    assert one is not None
    assert other is not None
    assert other.difference.value == pytest.approx(one.difference.value, rel=1e-6)


def test_results_of_one_gang_are_left_as_they_are() -> None:
    results = [msgspec.structs.replace(one, gang="g1") for one in slowed(0.0, 0.005)]
    assert gang_effects(GOAL, results) is None
    fitted, plain = responses_of(GOAL, results), sample_responses(results, log=True)
    assert fitted.samples == plain.samples
    assert (fitted.response == plain.response).all()


# -- reports ---------------------------------------------------------------------------


def test_reports_show_the_gangs() -> None:
    goal = msgspec.structs.replace(GOAL, samples=24, design=DesignKind.I_OPTIMAL)
    surface = surface_of(goal, slowed(0.03, 0.005))
    report = SurfaceReport(
        status="complete", detail="done", goal=goal, claims=(Claim(),), policy="qgs", result=surface
    )
    assert surface.gangs is not None
    lines = SurfaceView(report).text().splitlines()
    assert lines[0].endswith("24 of 32 samples searched, the claim held at 24 of 24")
    said = next(line for line in lines if line.startswith("gangs "))
    assert said.split(maxsplit=1)[1].startswith(gangs_text(surface.gangs))
    # The anchor has a row for each gang.
    anchor = surface.results[0].sample
    levels = [level for _, level in anchor]
    rows = [line.split() for line in lines]
    assert [row[2] for row in rows if row[:2] == levels] == list(FOUR.names)
    assert "Gangs: their peaks against the mean gang's, with 95 % intervals:" in lines
    assert ["gang", "searches", "peaks", "%", "low", "high"] in rows
    text = surface_document(report, study="", session=1, exit_status=0)
    document = msgspec.json.decode(text, type=SurfaceDocument)
    assert document.gangs is not None
    assert document.gangs.differ
    assert document.gangs.interval[0] == surface.gangs.difference.low
    assert [one.gang for one in document.gangs.gangs] == list(FOUR.names)
    assert [one.gang for one in document.samples[:4]] == list(FOUR.names)
    # Exports and histories have one result for each sample.
    assert len(surface.results) == 27
    assert len(surface.by_sample) == surface.searched == 24
    grid = surface_sheet(goal, surface).panels[0].grid
    assert grid is not None
    assert len(grid.points) == 24


def test_a_gang_on_other_hosts_is_another_one() -> None:
    attempts = [
        Attempt(
            place=str(place),
            name="",
            number=number,
            gang=gang,
            lease="",
            hosts=hosts,
            began_ns=1,
            ended_ns=2,
            void=void,
        )
        for place, number, gang, hosts, void in (
            (1, 1, "g1", ("n1", "n2"), None),
            (2, 1, "g2", ("n3", "n4"), VoidReason.HOST_LOST),
            (2, 2, "g2", ("n5", "n6"), None),
            (3, 1, "g1", ("n2", "n1"), None),
            (4, 1, "g1", ("n3", "n4"), None),
        )
    ]
    parts = parts_of_attempts(attempts, is_here=False)
    assert {part.place: part.gang for part in parts} == {
        "1": "g1",
        "2": "g2",
        "3": "g1",
        "4": "g1 on n3, n4",
    }


# -- comparisons -----------------------------------------------------------------------


def test_results_of_different_gangs_are_confounded_without_an_anchor() -> None:
    finding = gang_confounded({"old": ["g1"], "new": ["g2", "g3"], "none": []})
    assert finding is not None
    assert (finding.code, finding.subject) == ("gang-confounded", "old and new")
    assert "old by g1 and new by g2 and g3" in finding.evidence
    assert gang_confounded({"old": ["g1", "g2"], "new": ["g2"]}) is None
    assert gang_confounded({"old": ["g1"], "new": ["g2"]}, ["g1", "g2"]) is None
    assert gang_confounded({"old": ["g1"], "new": ["g2"]}, ["g1"]) is not None
    assert gang_confounded({"old": [], "new": ["g2"]}) is None
    many = gang_confounded({f"test-{n}": [f"g{n % 2}"] for n in range(9)})
    assert many is not None
    assert many.subject == "test-0, test-1, test-3, test-5 and 5 more"
