"""A search begins with a closed loop: its throughput is the first rate, and it is no trial at a
rate."""

from __future__ import annotations

import json

import msgspec
import pytest

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.output import probe_text
from benchwright.features.search.peak.experiment import peak_meaning
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import tallies
from benchwright.features.search.peak.policies.monotone import Monotone
from benchwright.features.search.peak.policies.policy import lowest_rate
from benchwright.features.search.peak.policies.search import may_leave, next_peak_step
from benchwright.features.search.peak.policies.trials import resolve_failures
from benchwright.features.search.peak.report import PeakReport, peak_document
from benchwright.features.search.peak.view import PeakView, cost_panel, peak_sheet
from benchwright.features.search.requests import GUESS_USERS, PeakPlan, PeakRequest
from benchwright.features.search.spec import Spec
from benchwright.features.search.types import Claim, ClaimKind, PeakGoal, PeakStatus, SearchTrial
from benchwright.inputs.mistakes import SourceFile
from hand_written import MEAN_RESPONSE, mean_response_ms
from held_out import BY_NAME
from world import play

MEAN = Criterion(MEAN_RESPONSE, 40.0)
GOAL = PeakGoal(criteria=(MEAN,), claim=Claim(ClaimKind.RATE, 0.05), guess_users=GUESS_USERS)


def guess(completed: int | None, mean_ms: float = 300.0, **fields: object) -> LoadTrial:
    """Return the closed loop; by its response alone it would have failed."""
    one = LoadTrial(
        rate=GUESS_USERS,
        duration_s=1.0,
        lasted_s=1.0,
        cost_s=1.5,
        values={MEAN.key: mean_ms},
        completed=completed,
        users=GUESS_USERS,
    )
    return msgspec.structs.replace(one, **fields)


def asked(history: list[LoadTrial], goal: PeakGoal = GOAL) -> Probe:
    step = next_peak_step(Monotone(), goal, history)
    assert isinstance(step, Probe)
    return step


def test_a_search_begins_with_a_second_of_users_and_then_below_their_throughput() -> None:
    first = asked([])
    assert (first.users, first.purpose) == (GUESS_USERS, "guess")
    assert first.duration_s == tuning.SHORTEST_S
    assert not may_leave(Monotone(), GOAL, [], first, guess(1))
    second = asked([guess(4000)])
    assert second.users is None
    assert second.rate == tuning.GUESS_SHARE * 4000
    whole = msgspec.structs.replace(GOAL, rate_step=7.0)
    assert asked([guess(4000)], whole).rate % 7 == 0


@pytest.mark.parametrize(
    "failed",
    [
        guess(0),
        guess(0, values={}, ending=LoadEnding.FAILED, failure="connection refused"),
        guess(None, values={}),
        guess(0, lasted_s=0.0),
    ],
)
def test_a_guess_that_failed_is_harmless(failed: LoadTrial) -> None:
    step = asked([failed])
    assert step.users is None, "it is not tried again"
    assert step.rate == GOAL.start_rate
    resolved = resolve_failures(GOAL, [failed])
    assert (resolved.failures, resolved.retry, resolved.fatal) == (0, None, None)


def test_a_guess_is_no_trial_at_a_rate() -> None:
    """Neither one that failed at 8/s, nor one that held there."""
    for mean_ms in (1.0, 300.0):
        loop = guess(4000, mean_ms)
        held = LoadTrial(
            rate=3000.0, duration_s=20.0, lasted_s=20.0, cost_s=20.0, values={MEAN.key: 20.0}
        )
        seen = resolve_failures(GOAL, [loop, held]).trials
        assert [tally.rate for tally in tallies(GOAL.criteria, seen)] == [3000]
        assert asked([loop, held]).rate > 3000, "nothing failed"
        best = Monotone().best(GOAL, seen)
        assert best.peak_rate is not None
        assert best.peak_rate > 100


def test_the_lowest_rate_follows_the_guess() -> None:
    """Where even the lowest rate fails, the search ends at one that belongs to the first rate."""
    history = [guess(40_000)]
    while isinstance(step := next_peak_step(Monotone(), GOAL, history), Probe):
        history.append(
            LoadTrial(
                rate=step.rate,
                duration_s=step.duration_s,
                lasted_s=step.duration_s,
                cost_s=step.duration_s,
                values={MEAN.key: 500.0},
            )
        )
    assert step.status is PeakStatus.FAILS_AT_LOWEST
    begun = msgspec.structs.replace(GOAL, start_rate=tuning.GUESS_SHARE * 40_000)
    assert step.peak_rate == lowest_rate(begun)


@pytest.mark.parametrize("server", ["A-mm4", "fast"])
def test_a_search_with_a_guess_finds_the_same_peak(server: str) -> None:
    """The loop's throughput is the capacity: 267/s, and 57,000/s where 50/s would be doubled ten
    times."""
    one = BY_NAME[server]
    goal = msgspec.structs.replace(GOAL, criteria=one.criteria)
    search = play(Monotone(), goal, one, 5)
    assert search.result is not None
    assert search.result.status is PeakStatus.FOUND
    assert search.result.peak_rate == pytest.approx(one.peak_rate, rel=0.05)
    first, second = search.probes[:2]
    assert first.users == GUESS_USERS
    assert 0.5 * one.peak_rate < second.rate < 1.05 * one.peak_rate
    assert all(probe.users is None for probe in search.probes[1:])
    # Cut and resumed after the guess it is the same search.
    again = play(Monotone(), goal, one, 5, search.history[:1])
    assert again.result == search.result


# What a user sees -------------------------------------------------------------------------------


def report() -> PeakReport:
    """Return the report of a search that was cut after a guess and two trials."""
    history = [guess(400)]
    trials = [SearchTrial(1, asked([]), history[0])]
    for number in (2, 3):
        probe = asked(history)
        held = mean_response_ms(probe.rate)
        history.append(
            LoadTrial(
                rate=probe.rate,
                duration_s=20.0,
                lasted_s=20.0,
                cost_s=20.0,
                values={MEAN.key: held},
                offered=round(20 * probe.rate),
            )
        )
        trials.append(SearchTrial(number, probe, history[-1]))
    goal = msgspec.structs.replace(GOAL, max_trials=3)
    result = next_peak_step(Monotone(), goal, history)
    assert not isinstance(result, Probe)
    return PeakReport(
        status=result.status.value,
        detail=result.detail,
        criteria=GOAL.criteria,
        claims=(GOAL.claim,),
        results=(result,),
        trials=tuple(trials),
        policy="monotone",
        seed=1,
    )


def test_a_guess_is_shown_with_its_users_and_without_a_rate() -> None:
    shown = report()
    assert probe_text(1, shown.trials[0].probe).startswith("trial 1: 8 users for 1 s")
    text = PeakView(shown).text()
    (row,) = (line for line in text.splitlines() if "guess" in line)
    assert row.split()[:2] == ["1", "-"]
    assert "8 users, a closed loop" in row
    (measured,) = (line for line in text.splitlines() if line.startswith("trials "))
    assert "8/s" not in measured.split()
    first, *_ = json.loads(peak_document(shown, study="s", session=1, exit_status=3))["trials"]
    assert (first["users"], first["purpose"]) == (8, "guess")


def test_a_guess_is_in_no_picture_of_rates() -> None:
    response, course = peak_sheet(report()).panels
    assert all(GUESS_USERS not in curve.x for curve in response.curves)
    rates = [rate for curve in course.curves for rate in curve.y]
    assert len(rates) == 2
    assert GUESS_USERS not in rates
    assert [tick.label for tick in course.x.ticks] == ["2", "3"]
    (bars, *_) = cost_panel(report().trials).curves
    assert bars.names[0] == "trial 1, 8 users"


# Where there is one
# ---------------------------------------------------------------------------------

SPEC = """
[load]
target = "http://127.0.0.1:8080/"

[peak]
criteria = ["p99 response < 10ms"]
"""


def plan_of(text: str = SPEC, **words: object) -> PeakPlan:
    request = msgspec.structs.replace(PeakRequest(drawn_seed=9), **words)
    spec: Spec
    spec, plan = peak_meaning(request, SourceFile("server.toml", text))
    assert spec.goal is not None
    return plan


def test_a_search_of_our_engine_begins_with_a_guess() -> None:
    assert plan_of().goal.guess_users == GUESS_USERS


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", {"start": "200"}),
        ("", {"highest": "5k"}),
        ('start = "200"\n', {}),
        ('highest = "5k"\n', {}),
        ("", {"policy": "binsearch"}),
        ('policy = "linear"\n', {}),
    ],
)
def test_none_where_the_user_says_where_to_begin_or_to_end(
    spec: str, words: dict[str, object]
) -> None:
    assert plan_of(SPEC + spec, **words).goal.guess_users is None


def test_none_with_another_generator() -> None:
    text = '[load]\ngenerator = "wrk2"\nurl = "http://127.0.0.1/"\n'
    assert plan_of(text + '[peak]\ncriteria = ["40ms"]\n').goal.guess_users is None
