"""Searches over a fake workbench: replay, a crash at every trial, failures, several claims."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.core.errors import BenchError, Interrupted
from benchwright.core.plan import Pairs
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.peak.experiment import best_so_far, peak_search, peak_verdict
from benchwright.features.search.peak.policies.registry import POLICY_NAMES
from benchwright.features.search.requests import PeakPlan
from benchwright.features.search.session import (
    Search,
    SearchResult,
    SilentSearch,
    record_searches,
    run_search,
)
from benchwright.features.search.types import (
    Claim,
    ClaimKind,
    ClaimResult,
    PeakAnswer,
    PeakGoal,
    PeakStatus,
    SearchTrial,
    decode_stored,
    encode_stored,
)
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo, Study
from session_infos import session_info

CAPACITY = 300.0
SERVICE_MS = 1000 / CAPACITY * 3
"""So that the mean response is 40 ms at three quarters of the capacity."""
SAMPLE = (("workers", "2"),)


def response_ms(rate: float, second: int) -> float:
    """Return the true mean response in a second of a trial; beyond the capacity the queue
    grows as long as the load lasts."""
    if rate < CAPACITY:
        return SERVICE_MS / (1 - rate / CAPACITY)
    return SERVICE_MS + 1000 * (rate / CAPACITY - 1) * (second + 0.5)


def noise(number: int) -> float:
    """Return a deterministic factor that scatters by 2 %."""
    return 1 + 0.02 * math.sin(12.9898 * number)


class FakeServer:
    """A workbench in no time at all; the n-th trial that counts has the n-th noise."""

    watched = False

    def __init__(self, done: int = 0, breaks_at: int | None = None) -> None:
        self.done = done
        self.probes: list[Probe] = []
        self.samples: list[Pairs] = []
        self._breaks_at = breaks_at
        self._asked = False

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        if self._asked:
            raise Interrupted
        if self._breaks_at is not None and len(self.probes) == self._breaks_at:
            raise BenchError("launcher-gone", "killed")
        self.probes.append(probe)
        self.samples.append(sample)
        self.done += 1
        return trial_of(probe, self.done)

    def interrupt(self) -> None:
        self._asked = True

    def close(self) -> None:
        pass


def trial_of(probe: Probe, number: int) -> LoadTrial:
    """Return what the fake server does with a probe."""
    seconds = round(probe.duration_s)
    bins = tuple(
        response_ms(probe.rate, at) * noise(number) * noise(number * 1000 + at)
        for at in range(seconds)
    )
    mean = math.fsum(bins) / len(bins)
    return LoadTrial(
        rate=probe.rate,
        duration_s=probe.duration_s,
        lasted_s=probe.duration_s,
        cost_s=probe.duration_s,
        values={"response_ms_mean": mean},
        series=LoadSeries(
            at_s=tuple(float(at) for at in range(seconds)),
            counts=(max(1, round(probe.rate)),) * seconds,
            values={"response_ms_mean": bins},
            binned_by="intended",
        ),
        offered=round(probe.rate * probe.duration_s),
        completed=round(min(probe.rate, CAPACITY) * probe.duration_s),
    )


def plan(policy: str = "binsearch", claims: Sequence[Claim] = (Claim(),)) -> PeakPlan:
    goal = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),), claim=claims[0], seed=7)
    return PeakPlan(goal=goal, claims=tuple(claims), policy=policy, sample=SAMPLE)


def info() -> SessionInfo:
    return session_info(program_main="<request>", kind="peak")


class Outcome(msgspec.Struct):
    """What one session came to."""

    answer: PeakAnswer | None
    verdict: SessionVerdict
    trials: tuple[SearchTrial, ...]
    told: list[int]


def search(
    place: Path, server: FakeServer, asked: Search[PeakAnswer], *, again: bool = False
) -> Outcome:
    """Run a search, or go on with it, as `bw peak` and `bw resume` do."""
    with contextlib.closing(Study.create_or_open(place)) as study:
        if again:
            number = study.sessions()[-1].number
            recover(study, number, f"{CRASH_CAUSE}: test")
        else:
            number = study.begin_session(info())
        ledger = Ledger(study, number)
        told: list[int] = []
        found: list[SearchResult[PeakAnswer]] = []

        class Listener(SilentSearch):
            def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
                told.append(trials[-1].number)

        def run() -> SessionVerdict:
            found.append(run_search(asked, server, ledger, Listener()))
            return peak_verdict(found[0].result)

        verdict = record_searches(ledger, run)
        if not found:
            return Outcome(None, verdict, (), told)
        return Outcome(found[0].result, verdict, found[0].trials, told)


def counted(place: Path) -> int:
    """Return how many trials are on record."""
    with contextlib.closing(Study.open_to_read(place)) as study:
        outcomes = study.load_outcomes(1)
        return sum("/trial/" in key for key in outcomes)


@pytest.mark.parametrize("policy", ["binsearch", "monotone"])
def test_a_search_cut_at_a_trial_goes_on_to_the_same_answer(tmp_path: Path, policy: str) -> None:
    assert policy in POLICY_NAMES
    asked = peak_search(plan(policy), watched=False)
    whole = FakeServer()
    undisturbed = search(tmp_path / "whole", whole, asked)
    assert undisturbed.answer is not None
    assert undisturbed.answer.first.status is PeakStatus.FOUND
    probes = len(whole.probes)
    assert probes > 3
    # Every step of `monotone` costs a posterior: four places from the first to the last, here,
    # and every place in the next test.
    every = range(probes)
    cuts = every if policy == "binsearch" else sorted({*every[:: probes // 3], every[-1]})
    for at in cuts:
        place = tmp_path / f"at-{at}"
        with pytest.raises(BenchError):
            search(place, FakeServer(breaks_at=at), asked)
        assert counted(place) == at
        rest = FakeServer(done=at)
        resumed = search(place, rest, asked, again=True)
        assert resumed.answer == undisturbed.answer, f"cut at trial {at}"
        assert resumed.trials == undisturbed.trials
        assert rest.probes == whole.probes[at:], "nothing is measured twice"
        assert resumed.told == list(range(at + 1, probes + 1))


@pytest.mark.parametrize("policy", ["binsearch", "monotone"])
def test_a_search_cut_at_every_trial_in_turn_ends_with_the_same_answer(
    tmp_path: Path, policy: str
) -> None:
    whole = FakeServer()
    undisturbed = search(tmp_path / "whole", whole, fresh(policy))
    place = tmp_path / "cut"
    with pytest.raises(BenchError):
        search(place, FakeServer(breaks_at=0), fresh(policy))
    for at in range(len(undisturbed.trials) - 1):
        one = FakeServer(done=at, breaks_at=1)
        with pytest.raises(BenchError):
            search(place, one, fresh(policy), again=True)
        assert one.probes == whole.probes[at : at + 1]
    last = FakeServer(done=len(undisturbed.trials) - 1)
    resumed = search(place, last, fresh(policy), again=True)
    assert (resumed.answer, resumed.trials) == (undisturbed.answer, undisturbed.trials)
    assert len(last.probes) == 1


def fresh(policy: str) -> Search[PeakAnswer]:
    """Return the search as a process that was just started has it: nothing is known of
    what an earlier one decided."""
    return peak_search(plan(policy), watched=False)


def test_what_a_crash_cut_is_void_and_begun_before_it_was_done(tmp_path: Path) -> None:
    asked = peak_search(plan(), watched=False)
    with pytest.raises(BenchError):
        search(tmp_path / "study", FakeServer(breaks_at=2), asked)
    search(tmp_path / "study", FakeServer(done=2), asked, again=True)
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        kinds = [
            (one.kind, one.key)
            for one in study.entries(1, ("begin", "outcome", "void"))
            if one.key == "search/0/trial/3"
        ]
    assert [kind for kind, _ in kinds] == ["begin", "void", "begin", "outcome"]


def test_a_search_that_is_over_replays_without_the_bench(tmp_path: Path) -> None:
    asked = peak_search(plan(), watched=False)
    first = search(tmp_path / "study", FakeServer(), asked)
    server = FakeServer()
    second = search(tmp_path / "study", server, asked, again=True)
    assert server.probes == []
    assert (second.answer, second.trials) == (first.answer, first.trials)
    assert second.verdict.exit_status == 0


def test_an_interrupt_is_resumable_and_changes_nothing(tmp_path: Path) -> None:
    asked = peak_search(plan(), watched=False)
    undisturbed = search(tmp_path / "whole", FakeServer(), asked)
    stopped = FakeServer()
    step = asked.step

    def pressing(history: Sequence[LoadTrial]) -> Probe | PeakAnswer:
        if len(history) == 3:
            stopped.interrupt()
        return step(history)

    pressed = msgspec.structs.replace(asked, step=pressing)
    cut = search(tmp_path / "study", stopped, pressed)
    assert (cut.answer, cut.verdict.status) == (None, "interrupted")
    assert cut.verdict.exit_status == 130
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        resumable = study.last_resumable()
    assert resumable is not None
    resumed = search(tmp_path / "study", FakeServer(done=3), asked, again=True)
    assert resumed.answer == undisturbed.answer


DEAD: Mapping[str, object] = {"ending": LoadEnding.FAILED, "failure": "it is gone", "values": {}}


class Dying(FakeServer):
    """A server whose trials cannot be used from its n-th one on."""

    def __init__(self, works: int, dead: Mapping[str, object] = DEAD) -> None:
        super().__init__()
        self._works = works
        self._dead = dead

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        done = super().run(probe, sample, leaves)
        if self.done <= self._works:
            return done
        return msgspec.structs.replace(done, **self._dead)


@pytest.mark.parametrize(
    ("dead", "why"),
    [
        (DEAD, "it is gone"),
        ({"values": {}}, "no value of response_ms_mean"),
        ({"values": {"response_ms_mean": math.nan}}, "no value of response_ms_mean"),
        ({"values": {}, "offered": 0}, "no operation was offered"),
    ],
)
def test_a_failed_search_tries_again_when_it_is_resumed(
    tmp_path: Path, dead: Mapping[str, object], why: str
) -> None:
    asked = peak_search(plan(), watched=False)
    undisturbed = search(tmp_path / "whole", FakeServer(), asked)
    failed = search(tmp_path / "study", Dying(works=0, dead=dead), asked)
    assert failed.answer is not None
    assert failed.answer.first.status is PeakStatus.FAILED
    assert (failed.verdict.status, failed.verdict.exit_status) == ("failed", 1)
    assert why in failed.verdict.detail
    still = search(tmp_path / "study", Dying(works=0, dead=dead), asked, again=True)
    assert still.verdict.exit_status == 1, "not mended yet"
    mended = search(tmp_path / "study", FakeServer(), asked, again=True)
    assert mended.answer == undisturbed.answer
    assert mended.trials[0].number == len(failed.trials) + len(still.trials) + 1
    assert counted(tmp_path / "study") == mended.trials[-1].number, "kept, not counted"
    again = search(tmp_path / "study", FakeServer(), asked, again=True)
    assert again.trials == mended.trials, "what was forgotten stays so"


def test_the_export_has_every_trial_and_says_which_count(tmp_path: Path) -> None:
    asked = peak_search(plan(), watched=False)
    failed = search(tmp_path / "study", Dying(works=0), asked)
    mended = search(tmp_path / "study", FakeServer(), asked, again=True)
    place = tmp_path / "study" / "results" / "s1"
    with (place / "loads.csv").open() as file:
        rows = list(csv.DictReader(file))
    counts = [row["counted"] for row in rows]
    assert counts == ["0"] * len(failed.trials) + ["1"] * len(mended.trials)
    assert {row["factor:workers"] for row in rows} == {"2"}
    assert rows[0]["failure"] == "it is gone"
    assert rows[0]["response_ms_mean"] == "", "absent is not zero"
    last, done = rows[-1], mended.trials[-1].trial
    assert float(last["response_ms_mean"]) == done.values["response_ms_mean"]
    assert float(last["rate"]) == done.rate
    with (place / "series.csv").open() as file:
        bins = [row for row in csv.DictReader(file) if row["trial"] == last["trial"]]
    assert [float(row["response_ms_mean"]) for row in bins] == list(
        done.series.values["response_ms_mean"]
    )
    info = json.loads((place / "session.json").read_text())
    assert info["status"] == "found"


class Patient:
    """A policy that finds any rate within 10 % after 3 trials, and within 5 % after 5."""

    name = "patient"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        wanted = 3 if goal.claim.tolerance >= 0.1 else 5
        if len(history) < wanted:
            return Probe(100.0 + len(history), 1.0 + 10 * goal.claim.tolerance)
        return self.best(goal, history)

    def leaves(
        self, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
    ) -> bool:
        return so_far.lasted_s >= 10 * goal.claim.tolerance

    def read(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
        return history

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        return ClaimResult(
            status=PeakStatus.FOUND,
            detail=goal.claim.text,
            claim=goal.claim,
            policy=self.name,
            peak_rate=100.0,
        )


COARSE, FINE = Claim(), Claim(ClaimKind.RATE, 0.05)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "benchwright.features.search.peak.experiment.policy_named", lambda _name: Patient()
    )


@pytest.mark.usefixtures("_patient")
@pytest.mark.parametrize("claims", [(COARSE, FINE), (FINE, COARSE)])
def test_several_claims_are_all_reached_over_the_same_trials(
    tmp_path: Path, claims: tuple[Claim, ...]
) -> None:
    asked = peak_search(plan("patient", claims), watched=False)
    both = search(tmp_path / "both", FakeServer(), asked)
    assert both.answer is not None
    assert [one.claim for one in both.answer.claims] == list(claims)
    assert all(one.status is PeakStatus.FOUND for one in both.answer.claims)
    assert len(both.trials) == 5
    assert {one.trials for one in both.answer.claims} == {5}
    durations = [one.probe.duration_s for one in both.trials]
    first = [2.0, 2.0, 2.0] if claims[0] is COARSE else [1.5, 1.5, 1.5]
    assert durations == [*first, 1.5, 1.5], "the first claim that lacks something asks"


@pytest.mark.usefixtures("_patient")
def test_a_running_trial_is_left_when_it_has_told_enough_for_every_claim() -> None:
    leaves = peak_search(plan("patient", (COARSE, FINE)), watched=True).leaves
    probe = Probe(100.0, 2.0)
    whole = trial_of(probe, 1)
    for lasted_s, enough in ((0.6, False), (1.2, True)):
        so_far = msgspec.structs.replace(whole, lasted_s=lasted_s)
        assert leaves([], probe, so_far) is enough


def test_the_sample_goes_with_every_trial(tmp_path: Path) -> None:
    server = FakeServer()
    done = search(tmp_path / "study", server, peak_search(plan(), watched=False))
    assert set(server.samples) == {SAMPLE}
    assert {one.sample for one in done.trials} == {SAMPLE}


def test_the_best_so_far_is_known_after_any_number_of_trials(tmp_path: Path) -> None:
    done = search(tmp_path / "study", FakeServer(), peak_search(plan(), watched=False))
    assert best_so_far(plan(), []) is None
    for number in range(1, len(done.trials)):
        history = [one.trial for one in done.trials[:number]]
        best = best_so_far(plan(), history)
        assert best is not None
        assert best.trials == number


def test_a_running_trial_is_left_when_the_policy_says_so(tmp_path: Path) -> None:
    asked: list[LoadTrial] = []

    class Watched(FakeServer):
        watched = True

        def run(
            self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
        ) -> LoadTrial:
            whole = super().run(probe, sample, leaves)
            half = msgspec.structs.replace(
                whole, lasted_s=whole.lasted_s / 2, ending=LoadEnding.LEFT
            )
            asked.append(half)
            return half if leaves(half) else whole

    overloaded = 2.0

    def step(history: Sequence[LoadTrial]) -> Probe | PeakAnswer:
        if len(history) < 2:
            return Probe(100.0 * (1 + 4 * len(history)), 10.0)
        answer = best_so_far(plan(), history)
        assert answer is not None
        return PeakAnswer((answer,))

    def leaves(history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial) -> bool:
        assert len(history) == len(asked) - 1, "the trial itself is not in its history"
        return so_far.values["response_ms_mean"] > overloaded * 40

    found = search(tmp_path / "study", Watched(), Search(kind=PeakAnswer, step=step, leaves=leaves))
    endings = [one.trial.ending for one in found.trials]
    assert endings == [LoadEnding.WHOLE, LoadEnding.LEFT]


figures = st.floats(allow_nan=True, allow_infinity=True)


@given(st.dictionaries(st.text(max_size=8), figures, max_size=3), st.lists(figures))
def test_a_trial_comes_back_from_the_journal_as_it_was(
    values: dict[str, float], bins: list[float]
) -> None:
    series = LoadSeries(
        at_s=tuple(float(at) for at in range(len(bins))),
        counts=(1,) * len(bins),
        values={"response_ms_mean": tuple(bins)},
    )
    trial = LoadTrial(
        rate=1.0,
        duration_s=1.0,
        lasted_s=1.0,
        cost_s=1.0,
        values=values,
        series=series,
        failure="inf",
    )
    one = SearchTrial(1, Probe(1.0, 1.0, "nan"), trial, (("a", "inf"),))
    back = decode_stored(encode_stored(one), SearchTrial)
    # NaN is not equal to itself: as text it is.
    assert repr(back) == repr(one)


@pytest.mark.parametrize(
    ("status", "exit_status"),
    [
        (PeakStatus.FOUND, 0),
        (PeakStatus.FAILED, 1),
        (PeakStatus.FAILS_AT_LOWEST, 1),
        (PeakStatus.UNDECIDED, 3),
        (PeakStatus.BUDGET, 3),
        (PeakStatus.NEVER_FAILS, 3),
    ],
)
def test_each_ending_has_its_exit_status(status: PeakStatus, exit_status: int) -> None:
    found = ClaimResult(status=PeakStatus.FOUND, detail="one", claim=Claim(), policy="monotone")
    other = msgspec.structs.replace(found, status=status, detail="two")
    verdict = peak_verdict(PeakAnswer((found, other)))
    assert verdict.exit_status == exit_status, "the claim that is missing decides"
    assert peak_verdict(PeakAnswer((other,))).exit_status == exit_status
