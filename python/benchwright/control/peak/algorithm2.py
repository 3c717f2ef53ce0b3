"""Algorithm 2 of the workbench paper, "Searching for the Peak Rate", as published.

At a load at least two trials; then, after every trial, the t-interval of their means: no
overlap with the peak region, on to the next load; overlap, and accuracy reached, the
search ends; else one more trial. Which load is next is the load-picking algorithm's.
Decision: the history is replayed through the algorithm, so a policy has no state.
What is known against it: the interval need only overlap the region,
and is looked at after every trial, so its 95 % is 53 to 70 %. That is why no probability
is stated with its answers. `control/peak/honest.py` has the rule that earns its 95 %.
Source: Workbench paper, section 4.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from benchwright.control.peak.bounds import within_bounds
from benchwright.control.peak.load_picking import LoadPicking, Pick, TestLoad
from benchwright.control.peak.reading import Reading, excess, reading
from benchwright.finding.load_words import name_of, value_text
from benchwright.finding.words import counted
from benchwright.model.estimate import Estimate
from benchwright.model.peak import (
    ClaimKind,
    CurvePoint,
    LoadTrial,
    PeakGoal,
    PeakResult,
    PeakStatus,
    Probe,
    written_rate,
)

RUN_LENGTH_S = 180.0
"""The paper's sweet spot (section 4.3) [s]."""
WIDTH = 0.10
"""s where the goal's claim is not a region."""
OVERLAP_CONFIDENCE = 0.95
"""Step 10 names it, whatever the target confidence is."""


class Verdict(enum.Enum):
    """What Algorithm 2 does after a trial."""

    MORE = "more"
    MOVE_ON = "move-on"
    PEAK = "peak"


class Targets(msgspec.Struct, frozen=True):
    """The inputs of Algorithm 2."""

    width: float = WIDTH
    """s, of the peak region."""
    confidence: float = 0.95
    """c."""
    accuracy: float = 0.90
    """a."""
    run_length_s: float = RUN_LENGTH_S
    """r."""


Judge = Callable[[Targets, Reading], Verdict]
"""Steps 7 to 10: what the trials at a load, two at least, lead to."""


def as_published(targets: Targets, found: Reading) -> Verdict:
    """Return the verdict of steps 7 to 10: overlap first, then accuracy."""
    if found.lost:
        return Verdict.MOVE_ON
    if len(found.values) < 2:
        return Verdict.MORE
    if not found.overlaps(targets.width, OVERLAP_CONFIDENCE):
        return Verdict.MOVE_ON
    enough = found.accuracy(targets.confidence) >= targets.accuracy
    return Verdict.PEAK if enough else Verdict.MORE


class Standing(msgspec.Struct, frozen=True):
    """Where a search by Algorithm 2 is after a history."""

    loads: tuple[Reading, ...]
    """Tested, in order; a load that was returned to is there again, with all trials."""
    verdict: Verdict
    """Of the last load, or MOVE_ON with no pick: nothing is left to test."""
    pick: Pick | None = None
    """The load at which the next trial is due; beyond a bound before its first one."""
    undefined: int = 0
    """How often the model predicted no load."""


def searching_for_the_peak_rate(
    rule: Algorithm2, goal: PeakGoal, history: Sequence[LoadTrial]
) -> Standing:
    """Return where Algorithm 2 stands after a history, by playing it again.

    Trials are found by their intended rate; those at other rates (another claim's, or
    another policy's) are left aside.
    """
    targets = rule.targets(goal)
    waiting = by_rate(history)
    trials_at: dict[float, list[LoadTrial]] = {}
    loads: list[Reading] = []
    undefined = 0
    while True:
        pick = rule.picking(goal.start_rate, [tested(load) for load in loads])  # step 2
        if pick is None:
            return Standing(tuple(loads), Verdict.MOVE_ON, None, undefined)
        undefined += "undefined" in pick.purpose
        rate = within_bounds(goal, pick.rate)  # step 3
        here = trials_at.setdefault(rate, [])
        verdict = Verdict.MORE
        while verdict is Verdict.MORE:  # step 4
            if not waiting.get(rate):
                known = (*loads, reading(goal, here)) if here else tuple(loads)
                return Standing(known, verdict, pick, undefined)
            here.append(waiting[rate].pop())  # steps 5 and 6
            pick = Pick(rate, pick.purpose)
            verdict = rule.judge(targets, reading(goal, here))  # steps 7 to 10
        loads.append(reading(goal, here))
        if verdict is Verdict.PEAK:
            return Standing(tuple(loads), verdict, None, undefined)


def by_rate(history: Sequence[LoadTrial]) -> dict[float, list[LoadTrial]]:
    """Return the trials at each intended rate, the earliest last."""
    found: dict[float, list[LoadTrial]] = {}
    for trial in reversed(history):
        found.setdefault(trial.rate, []).append(trial)
    return found


def tested(load: Reading) -> TestLoad:
    """Return a reading as the load-picking algorithms take it."""
    return TestLoad(load.rate, load.mean, load.criterion.limit, load.saturated)


class Algorithm2(msgspec.Struct, frozen=True):
    """A policy of the paper: Algorithm 2 with one of its load-picking algorithms."""

    name: str
    picking: LoadPicking
    judge: Judge = as_published
    accuracy: float = 0.90
    """a, which a goal does not say."""
    cautions: str = "its confidence is nominal: each load's own, looked at repeatedly"

    def targets(self, goal: PeakGoal) -> Targets:
        """Return Algorithm 2's inputs for a goal; the paper knows only regions."""
        claim = goal.claim
        region = claim.kind is ClaimKind.REGION
        return Targets(
            width=claim.tolerance if region else WIDTH,
            confidence=claim.confidence,
            accuracy=self.accuracy,
            run_length_s=goal.run_length_s or RUN_LENGTH_S,
        )

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | PeakResult:
        """Return the next probe, or what the search came to."""
        standing = searching_for_the_peak_rate(self, goal, history)
        if standing.pick is not None:
            pick = standing.pick
            return Probe(pick.rate, self.targets(goal).run_length_s, pick.purpose)
        if standing.verdict is Verdict.PEAK:
            return self._result(goal, standing, PeakStatus.FOUND)
        return self._result(goal, standing, PeakStatus.UNDECIDED)

    def leaves(
        self,
        goal: PeakGoal,
        history: Sequence[LoadTrial],
        probe: Probe,
        so_far: LoadTrial,
    ) -> bool:
        """Tell that no probe is left early: the paper's run length is fixed."""
        del goal, history, probe, so_far
        return False

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> PeakResult:
        """Return the best answer by now: a load near the limit, or the largest that held."""
        standing = searching_for_the_peak_rate(self, goal, history)
        return self._result(goal, standing, PeakStatus.UNDECIDED)

    def _result(
        self, goal: PeakGoal, standing: Standing, status: PeakStatus
    ) -> PeakResult:
        answer = _answer(self.targets(goal), standing)
        told = [] if answer is None else [_told(answer, goal.claim.confidence)]
        if status is PeakStatus.FOUND and self.cautions:
            told.append(self.cautions)
        if status is PeakStatus.UNDECIDED and standing.pick is None:
            told.append("no load is left between the bounds, which noise has misled")
        if goal.claim.kind is not ClaimKind.REGION:
            told.append(f"it knows regions only: +-{100 * WIDTH:g} % was searched for")
        if standing.undefined:
            times = counted(standing.undefined, "time")
            told.append(f"the model predicted no load {times}")
        return result_at(
            goal, standing.loads, answer, (self.name, status, "; ".join(told))
        )


def _answer(targets: Targets, standing: Standing) -> Reading | None:
    """Return the peak; without one a load that may be it, or the largest that held."""
    loads = [load for load in standing.loads if not load.lost]
    if standing.verdict is Verdict.PEAK:
        return loads[-1]
    near = [x for x in loads if x.overlaps(targets.width, OVERLAP_CONFIDENCE)]
    if near:
        return min(near, key=lambda load: abs(excess(load.criterion, load.mean)))
    held = [load for load in loads if not load.saturated]
    if held:
        return max(held, key=lambda load: load.rate)
    return min(loads, key=lambda load: load.rate, default=None)


def _told(answer: Reading, confidence: float) -> str:
    found = answer.interval(confidence)
    text = f"{name_of(answer.criterion)} {value_text(answer.criterion, found.value)}"
    if found.n > 1:
        text += f" [{found.low:.4g}, {found.high:.4g}]"
    return f"{text} by {counted(found.n, 'trial')} at {answer.rate:.5g}/s"


def result_at(
    goal: PeakGoal,
    loads: Sequence[Reading],
    answer: Reading | None,
    ending: tuple[str, PeakStatus, str],
) -> PeakResult:
    """Return a result of the paper's policies: an answer, its bracket, the curve.

    `ending` is the policy's name, the status and the detail.
    """
    policy, status, detail = ending
    return PeakResult(
        status=status,
        detail=detail,
        claim=goal.claim,
        policy=policy,
        peak_rate=None if answer is None else written_rate(answer.rate),
        interval=None if answer is None else bracket(goal, loads, answer),
        binding="" if answer is None else answer.criterion.key,
        curve=() if answer is None else curve(goal, loads, answer),
    )


def bracket(
    goal: PeakGoal, loads: Sequence[Reading], answer: Reading
) -> Estimate | None:
    """Return the nearest loads found below and above the peak, around an answer.

    None where one side was not seen. The confidence is that of each load's interval,
    nominal for the same reason as the answer's.
    """
    below = [x.rate for x in loads if not x.saturated and x.rate < answer.rate]
    above = [x.rate for x in loads if x.saturated and x.rate > answer.rate]
    if not below or not above:
        return None
    return Estimate(
        value=written_rate(answer.rate),
        low=max(below),
        high=min(above),
        confidence=goal.claim.confidence,
        method="bracket of tested loads, nominal",
        n=len(answer.values),
        unit="1/s",
    )


def curve(
    goal: PeakGoal, loads: Sequence[Reading], answer: Reading
) -> tuple[CurvePoint, ...]:
    """Return the response at each load tested, of the criterion that binds."""
    points = {}
    for load in loads:
        if load.lost or load.criterion.key != answer.criterion.key:
            continue
        found = load.interval(goal.claim.confidence)
        alone = found.n < 2
        low, high = (found.value, found.value) if alone else (found.low, found.high)
        points[load.rate] = CurvePoint(load.rate, low, found.value, high)
    return tuple(points[rate] for rate in sorted(points))
