"""The policies of the workbench paper, as published, and one with an honest stop rule for
comparison.

Algorithm 2, *Searching for the Peak Rate*, with its load-picking algorithms `binsearch` (Algorithm
3), `linear`, `model` (Algorithm 4) and `model-polynomial`; the `strawman`; and `binsearch-honest`,
the same search with a stop rule that reaches its stated confidence. `--policy` selects them. They
share only the interface with the default policy. The paper's inputs are members of the goal
(`accuracy`, `increment`, `trials_each`, and those that all policies have); their defaults are the
paper's and are defined here, with its constants.
Decision: the history is replayed through the algorithm, so a policy has no state.
Source: Workbench paper; docs/peak-method.md lists what the paper leaves open and our choices.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from benchwright.core.criterion import Criterion, criterion_name, criterion_value_text
from benchwright.core.results import Estimate, Figure, Finding, states
from benchwright.core.text import percent_text, plural
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe, rounded_rate
from benchwright.features.search.peak.policies.evidence import SEARCH_SUBJECT, counted_rate
from benchwright.features.search.peak.policies.policy import share_of_limit, within_bounds
from benchwright.features.search.types import (
    ClaimKind,
    ClaimResult,
    CurvePoint,
    PeakGoal,
    PeakStatus,
)
from benchwright.findings.codes import make_finding
from benchwright.stats.intervals import t_interval
from benchwright.stats.sample import anderson_darling

PAPER_RUN_LENGTH_S = 180.0
"""The paper's sweet spot (section 4.3) [s]."""
PAPER_WIDTH = 0.10
"""The paper's s, the width of the peak region, where the goal's claim is not a region."""
OVERLAP_CONFIDENCE = 0.95
"""Confidence of the overlap test in step 10, independent of the target confidence."""
PAPER_ACCURACY = 0.90
"""The paper's a, where the goal has none (section 6.3)."""
LINEAR_STEP_PER_S = 10.0
"""The small fixed increment of the linear policies [1/s], where the goal has none; the paper gives
no value."""
STRAWMAN_RUN_LENGTH_S = 300.0
"""Run length of the strawman, section 3 [s]."""
STRAWMAN_TRIALS = 10
"""Trials at each load of the strawman, where the goal has none; section 3."""
NORMALITY_LEVEL = 0.02
"""Level at which responses are reported as not normal (tests/calibration/test_normality.py)."""
CLOSED_BRACKET = 1e-4
"""A bracket narrower than this share of its upper end contains no load to test."""
MOST_LEAP = 16.0
"""A prediction this many times beyond all loads tested counts as undefined: two nearly equal
responses predict millions of requests per second, which no generator can offer."""
HONEST_MIDDLE = 0.5
"""The honest stop rule's limit for the mean's distance from the region's middle, and for the
interval's half-width, as a share of the region's half-width."""

# -- the response at one test load ---------------------------------------------------------------
#
# The paper has one mean response and one share of requests; a goal may have any criteria. At a
# load, the binding criterion is the one whose mean is highest relative to its limit; its Student-t
# interval is compared with its peak region.
# Source: Workbench paper, section 2.1 (interval, accuracy), section 4 (region,
# [R_sat +- s R_sat] and in the same way [P_sat +- s P_sat]), appendix.


class LoadResponse(msgspec.Struct, frozen=True):
    """A test load's response, by the means of its trials."""

    rate: float
    """Mean of the trials' rates [1/s]."""
    criterion: Criterion
    """The criterion that binds here."""
    values: tuple[float, ...]
    """One mean per trial."""
    saturated: bool
    """Whether any criterion's mean exceeds its limit."""
    lost: bool = False
    """Whether the server failed here or a value is infinite; then there is no interval."""

    @property
    def mean(self) -> float:
        """The mean of the trials' values; infinite where `lost`."""
        if self.lost:
            return math.inf
        return sum(self.values) / len(self.values)

    def interval(self, confidence: float) -> Estimate:
        """Return the Student-t interval of the mean; NaN ends for one trial."""
        return _interval(self.values, confidence, self.criterion.unit)

    def overlaps(self, width: float, confidence: float) -> bool:
        """Return whether the interval and the peak region have a value in common.

        `width` is the paper's s, a share of the limit.
        """
        mean = self._of_limit(confidence)
        return mean.low <= 1 + width and mean.high >= 1 - width

    def accuracy(self, confidence: float) -> float:
        """Return the paper's accuracy, 1 - (high - low) / (high + low), equation 2."""
        mean = self._of_limit(confidence)
        if mean.high == mean.low:
            return 1.0
        total = mean.high + mean.low
        return 1 - (mean.high - mean.low) / total if total > 0 else -math.inf

    def _of_limit(self, confidence: float) -> Estimate:
        """Return the interval of the mean as a share of the limit: of the requests that are too
        slow, as in the paper, where the criterion is a share that should be high."""
        shares = tuple(1 + excess(self.criterion, value) for value in self.values)
        return _interval(shares, confidence, "")


@lru_cache(maxsize=4096)
def _interval(values: tuple[float, ...], confidence: float, unit: str) -> Estimate:
    """Return the interval; cached, because a replay requests the same intervals again."""
    return t_interval(values, confidence, unit)


def load_response(goal: PeakGoal, trials: Sequence[LoadTrial]) -> LoadResponse:
    """Return the response at one load with at least one trial."""
    rates = {counted_rate(trial) for trial in trials}
    columns = [_criterion_values(criterion, trials) for criterion in goal.criteria]
    means = [sum(column) / len(column) for column in columns]
    pairs = list(zip(goal.criteria, means, strict=True))
    at = max(range(len(pairs)), key=lambda i: excess(*pairs[i]))
    lost = any(trial.ending is LoadEnding.FAILED for trial in trials)
    return LoadResponse(
        rate=math.fsum(rates) / len(rates),
        criterion=goal.criteria[at],
        values=columns[at],
        saturated=not all(criterion.holds(mean) for criterion, mean in pairs),
        lost=lost or not math.isfinite(means[at]),
    )


def excess(criterion: Criterion, mean: float) -> float:
    """Return by how much a mean exceeds its limit, as a share of the limit; negative within it.
    Of a limit of 0 there is no share: the mean itself."""
    if not criterion.limit:
        return mean if criterion.better == "lower" else -mean
    return float(share_of_limit(criterion, mean)) - 1


def _criterion_values(criterion: Criterion, trials: Sequence[LoadTrial]) -> tuple[float, ...]:
    """Return one value per trial; a trial that failed exceeds every limit."""
    worst = math.inf if criterion.better == "lower" else -math.inf
    return tuple(
        worst if trial.ending is LoadEnding.FAILED else trial.values.get(criterion.key, worst)
        for trial in trials
    )


# -- load-picking: which load to test next --------------------------------------------------------
#
# Each algorithm is a pure function of the loads tested so far, in order, so the paper's state
# (phase, `binsearch_low`, `binsearch_high`) is recomputed. The first load is the goal's start rate:
# 50/s, or a neighbour's peak ("with seeding", section 5.4).
# Decision: as published. Where the paper leaves a case open, the pick names our choice: after a
# first load that saturates, lower loads follow until one holds (the paper starts low); where the
# model predicts no load, the load is doubled or halved.
# Source: Workbench paper, sections 5.1 to 5.4, algorithms 3 and 4.


class LoadMean(msgspec.Struct, frozen=True):
    """A load that was tested, with the mean of its trials."""

    rate: float
    mean: float
    """Mean of the criterion that binds; infinite where the server failed."""
    limit: float
    """R_sat, or the limit of the criterion that binds."""
    saturated: bool


class LoadPick(msgspec.Struct, frozen=True):
    """The next load, and why."""

    rate: float
    purpose: str


LoadPicking = Callable[[PeakGoal, Sequence[LoadMean]], LoadPick | None]
"""(goal, loads tested) -> the next load; None: no load is left between the bounds."""


def binsearch(goal: PeakGoal, tested: Sequence[LoadMean]) -> LoadPick | None:
    """Return the next load of Algorithm 3: doubled until it saturates, then bisected."""
    if not tested:
        return LoadPick(goal.start_rate, "first")
    high = _last_rate(tested, saturated=True)
    if high is None:
        return LoadPick(2 * tested[-1].rate, "double")
    return _bisected(tested, high)


def linear(goal: PeakGoal, tested: Sequence[LoadMean]) -> LoadPick | None:
    """Return the next load of Linear: a fixed step up until it saturates, then bisected."""
    if not tested:
        return LoadPick(goal.start_rate, "first")
    high = _last_rate(tested, saturated=True)
    if high is None:
        return LoadPick(tested[-1].rate + linear_step(goal), "step")
    return _bisected(tested, high)


def linear_step(goal: PeakGoal) -> float:
    """Return the increment of the linear policies [1/s]."""
    return LINEAR_STEP_PER_S if goal.increment is None else goal.increment


def model_guided(goal: PeakGoal, tested: Sequence[LoadMean]) -> LoadPick | None:
    """Return the next load of Algorithm 4, predicted by R = a + b / load.

    The model is fitted to two loads: the current one, and the one of the others whose response
    is nearest to the limit.
    """
    if not tested:
        return LoadPick(goal.start_rate, "first")
    current = tested[-1]
    if len(tested) == 1:
        return _doubled_or_halved(current, "")
    nearest = min(tested[:-1], key=_distance_to_limit)
    return _predicted_or_moved(predicted_load(current, nearest), tested)


def model_guided_polynomial(goal: PeakGoal, tested: Sequence[LoadMean]) -> LoadPick | None:
    """Return the next load of Algorithm 4, predicted by R = a + b load + c load^2.

    The model is fitted to three loads: the current one, and the two of the others whose responses
    are nearest to the limit. Through two loads it is a line; after one the load is doubled or
    halved.
    """
    if not tested:
        return LoadPick(goal.start_rate, "first")
    current = tested[-1]
    # A load that was tested again has all its trials, so its last entry is the best one.
    others = {load.rate: load for load in tested if load.rate != current.rate}
    if not others:
        return _doubled_or_halved(current, "")
    nearest = sorted(others.values(), key=_distance_to_limit)
    predicted = load_of_polynomial((current, *nearest[:2]))
    return _predicted_or_moved(predicted, tested)


def _distance_to_limit(load: LoadMean) -> float:
    return abs(load.mean - load.limit)


def _predicted_or_moved(predicted: float | None, tested: Sequence[LoadMean]) -> LoadPick:
    """Return the predicted load; double or halve the current one if there is none, or a leap."""
    if predicted is None or _is_leap(predicted, tested):
        return _doubled_or_halved(tested[-1], ": the model is undefined")
    return LoadPick(predicted, "model")


def _is_leap(rate: float, tested: Sequence[LoadMean]) -> bool:
    """Return whether a load is more than `MOST_LEAP` times beyond those tested."""
    rates = [load.rate for load in tested]
    return rate > MOST_LEAP * max(rates) or rate < min(rates) / MOST_LEAP


def predicted_load(one: LoadMean, other: LoadMean) -> float | None:
    """Return the load at which R = a + b / load through two loads meets the limit [1/s].

    None where there is no such load: equal loads or responses, an infinite response, or an
    asymptote `a` on the wrong side of the limit.
    """
    if one.rate == other.rate or not math.isfinite(one.mean - other.mean):
        return None
    b = (one.mean - other.mean) / (1 / one.rate - 1 / other.rate)
    a = one.mean - b / one.rate
    if one.limit == a:
        return None
    load = b / (one.limit - a)
    return load if 0 < load < math.inf else None


def load_of_polynomial(loads: Sequence[LoadMean]) -> float | None:
    """Return the load at which R = a + b load + c load^2 through three loads, or a line through
    two, meets the limit on its rising branch [1/s].

    None where there is no such load: equal loads, an infinite response, or a curve that stays on
    one side of the limit.
    """
    rates = [load.rate for load in loads]
    if len(set(rates)) < len(loads) or not all(math.isfinite(x.mean) for x in loads):
        return None
    first, second = loads[:2]
    # Newton's divided differences.
    slope = (second.mean - first.mean) / (second.rate - first.rate)
    c = 0.0
    for third in loads[2:]:
        next_slope = (third.mean - second.mean) / (third.rate - second.rate)
        c = (next_slope - slope) / (third.rate - first.rate)
    b = slope - c * (first.rate + second.rate)
    a = first.mean - first.rate * (b + c * first.rate)
    square = b * b - 4 * c * (a - first.limit)
    if square <= 0 or (c == 0 and b < 0):
        return None
    # The slope where the curve meets the limit; its negative belongs to the falling branch. Two
    # forms of the same root: neither subtracts nearly equal numbers.
    rise = math.sqrt(square)
    load = 2 * (first.limit - a) / (rise + b) if b >= 0 else (rise - b) / (2 * c)
    return load if 0 < load < math.inf else None


def _doubled_or_halved(load: LoadMean, why: str) -> LoadPick:
    if load.saturated:
        return LoadPick(load.rate / 2, f"halve{why}")
    return LoadPick(load.rate * 2, f"double{why}")


def _last_rate(tested: Sequence[LoadMean], *, saturated: bool) -> float | None:
    """Return the last load on one side: `binsearch_low` or `binsearch_high`."""
    rates = [load.rate for load in tested if load.saturated is saturated]
    return rates[-1] if rates else None


def _bisected(tested: Sequence[LoadMean], high: float) -> LoadPick | None:
    """Return the middle of the bracket; a lower load if none has held yet.

    The lower loads descend in growing steps (1/2, 1/8, 1/128, ... of the first): halving would need
    ten loads to the lowest rate, and bisection corrects a step that is too large in one or
    two loads.
    """
    low = _last_rate(tested, saturated=False)
    if low is None:
        return LoadPick(high * high / (2 * tested[0].rate), "descend")
    if high - low < CLOSED_BRACKET * high:
        return None
    return LoadPick((low + high) / 2, "bisect")


# -- Algorithm 2, "Searching for the Peak Rate" ----------------------------------------
#
# Each load has at least two trials. After every further trial the t-interval of their means is
# compared with the peak region. Without overlap, the load-picking algorithm chooses the next load;
# with overlap and the accuracy reached, the search ends; else one more trial follows.
# Known weakness: the interval only has to overlap the region, and is examined after every trial, so
# its true confidence is 53 to 70 % instead of 95 %. So the answers state no probability.
# Source: Workbench paper, section 4.


class LoadVerdict(enum.Enum):
    """What Algorithm 2 does after a trial."""

    MORE = "more"
    MOVE_ON = "move-on"
    PEAK = "peak"


class PaperTargets(msgspec.Struct, frozen=True):
    """The inputs of Algorithm 2."""

    width: float = PAPER_WIDTH
    """The paper's s: the peak region is the limit ± s."""
    confidence: float = 0.95
    """The paper's c."""
    accuracy: float = PAPER_ACCURACY
    """The paper's a."""
    run_length_s: float = PAPER_RUN_LENGTH_S
    """The paper's r [s]."""


LoadJudge = Callable[[PaperTargets, LoadResponse], LoadVerdict]
"""A function for steps 7 to 10: the verdict on a load's trials."""


def judge_as_published(targets: PaperTargets, load: LoadResponse) -> LoadVerdict:
    """Return the verdict of steps 7 to 10: overlap first, then accuracy."""
    if load.lost:
        return LoadVerdict.MOVE_ON
    if len(load.values) < 2:
        return LoadVerdict.MORE
    if not load.overlaps(targets.width, OVERLAP_CONFIDENCE):
        return LoadVerdict.MOVE_ON
    enough = load.accuracy(targets.confidence) >= targets.accuracy
    return LoadVerdict.PEAK if enough else LoadVerdict.MORE


def judge_in_region(targets: PaperTargets, load: LoadResponse) -> LoadVerdict:
    """Return PEAK only where the interval is narrow and inside the region.

    The honest stop rule: the mean lies in the middle half of the region, and the interval's
    half-width is at most half of the region's. For a limit of 40 ms and s = 10 %, the mean is
    within 38 to 42 ms and the half-width at most 2 ms. Then the interval is inside the region, and
    a look after every trial lowers the confidence little (relative width of 5 %: Lavenberg and
    Sauer 1977). Costs of other policies are compared with the costs of this rule.
    """
    if load.lost:
        return LoadVerdict.MOVE_ON
    if len(load.values) < 2:
        return LoadVerdict.MORE
    if not load.overlaps(targets.width, OVERLAP_CONFIDENCE):
        return LoadVerdict.MOVE_ON
    narrow = HONEST_MIDDLE * targets.width
    if 1 - load.accuracy(targets.confidence) > narrow:
        return LoadVerdict.MORE
    past = excess(load.criterion, load.mean)
    return LoadVerdict.PEAK if abs(past) <= narrow else LoadVerdict.MOVE_ON


class ReplayedSearch(msgspec.Struct, frozen=True):
    """The state of a search by Algorithm 2 after a history."""

    loads: tuple[LoadResponse, ...]
    """The loads tested, in order; a load that was tested again appears again, with all its trials.
    """
    verdict: LoadVerdict
    """Verdict on the last load; MOVE_ON without a pick: no load is left to test."""
    pick: LoadPick | None = None
    """The load of the next trial; it may be beyond a bound before its first trial."""
    undefined: int = 0
    """How often the model predicted no load."""


def replay_algorithm2(
    rule: Algorithm2, goal: PeakGoal, history: Sequence[LoadTrial]
) -> ReplayedSearch:
    """Return the state of Algorithm 2 after a history, by replaying it.

    Trials are matched by their intended rate; trials at other rates (of another claim or
    another policy) are ignored.
    """
    targets = rule.targets(goal)
    waiting = trials_by_rate(history)
    trials_at: dict[float, list[LoadTrial]] = {}
    loads: list[LoadResponse] = []
    undefined = 0
    while True:
        tested = [load_mean(load) for load in loads]
        pick = rule.picking(goal, tested)  # step 2
        if pick is None:
            return ReplayedSearch(tuple(loads), LoadVerdict.MOVE_ON, None, undefined)
        undefined += "undefined" in pick.purpose
        rate = within_bounds(goal, pick.rate)  # step 3
        here = trials_at.setdefault(rate, [])
        verdict = LoadVerdict.MORE
        while verdict is LoadVerdict.MORE:  # step 4
            if not waiting.get(rate):
                known = (*loads, load_response(goal, here)) if here else tuple(loads)
                return ReplayedSearch(known, verdict, pick, undefined)
            here.append(waiting[rate].pop())  # steps 5 and 6
            pick = LoadPick(rate, pick.purpose)
            verdict = rule.judge(targets, load_response(goal, here))  # steps 7 to 10
        loads.append(load_response(goal, here))
        if verdict is LoadVerdict.PEAK:
            return ReplayedSearch(tuple(loads), verdict, None, undefined)


def trials_by_rate(history: Sequence[LoadTrial]) -> dict[float, list[LoadTrial]]:
    """Return the trials at each intended rate, the latest first."""
    by_rate: dict[float, list[LoadTrial]] = {}
    for trial in reversed(history):
        by_rate.setdefault(trial.rate, []).append(trial)
    return by_rate


def load_mean(load: LoadResponse) -> LoadMean:
    """Return a response in the form that the load-picking algorithms use."""
    return LoadMean(load.rate, load.mean, load.criterion.limit, load.saturated)


class PaperPolicy(msgspec.Struct, frozen=True):
    """Base of the paper's policies: the run length is fixed."""

    name: str

    def leaves(
        self, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
    ) -> bool:
        """Return False: no probe is left early, because the run length is fixed."""
        del goal, history, probe, so_far
        return False

    def read(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Sequence[LoadTrial]:
        """Return the trials unchanged: each counts by its whole values."""
        del goal
        return history


class Algorithm2(PaperPolicy, frozen=True):
    """A policy of the paper: Algorithm 2 with one of its load-picking algorithms."""

    picking: LoadPicking
    judge: LoadJudge = judge_as_published
    cautions: str = "its confidence is nominal: each load's own, looked at repeatedly"

    def targets(self, goal: PeakGoal) -> PaperTargets:
        """Return Algorithm 2's inputs for a goal; the paper has only claims of a region."""
        claim = goal.claim
        region = claim.kind is ClaimKind.REGION
        return PaperTargets(
            width=claim.tolerance if region else PAPER_WIDTH,
            confidence=claim.confidence,
            accuracy=PAPER_ACCURACY if goal.accuracy is None else goal.accuracy,
            run_length_s=goal.run_length_s or PAPER_RUN_LENGTH_S,
        )

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        replayed = replay_algorithm2(self, goal, history)
        if replayed.pick is not None:
            pick = replayed.pick
            return Probe(pick.rate, self.targets(goal).run_length_s, pick.purpose)
        if replayed.verdict is LoadVerdict.PEAK:
            return self._result(goal, replayed, PeakStatus.FOUND)
        return self._result(goal, replayed, PeakStatus.UNDECIDED)

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the best answer so far: a load near the limit, or the highest load that held."""
        replayed = replay_algorithm2(self, goal, history)
        return self._result(goal, replayed, PeakStatus.UNDECIDED)

    def _result(self, goal: PeakGoal, replayed: ReplayedSearch, status: PeakStatus) -> ClaimResult:
        answer = _best_load(self.targets(goal), replayed)
        parts = [] if answer is None else [_answer_text(answer, goal.claim.confidence)]
        if status is PeakStatus.FOUND and self.cautions:
            parts.append(self.cautions)
        if status is PeakStatus.UNDECIDED and replayed.pick is None:
            parts.append("no rate is left between bounds that noise has closed")
        if goal.claim.kind is not ClaimKind.REGION:
            width = f"±{percent_text(PAPER_WIDTH, 10)}"
            parts.append(f"this policy supports regions only: searched for {width}")
        if replayed.undefined:
            times = plural(replayed.undefined, "time")
            parts.append(f"the model predicted no rate {times}")
        end = PolicyEnd(self.name, status, "; ".join(parts))
        return result_at(goal, replayed.loads, answer, end)


def _best_load(targets: PaperTargets, replayed: ReplayedSearch) -> LoadResponse | None:
    """Return the peak; without one, a load that may be the peak, or the highest load that held."""
    loads = [load for load in replayed.loads if not load.lost]
    if replayed.verdict is LoadVerdict.PEAK:
        return loads[-1]
    near = [x for x in loads if x.overlaps(targets.width, OVERLAP_CONFIDENCE)]
    if near:
        return min(near, key=lambda load: abs(excess(load.criterion, load.mean)))
    held = [load for load in loads if not load.saturated]
    if held:
        return max(held, key=lambda load: load.rate)
    return min(loads, key=lambda load: load.rate, default=None)


def _answer_text(answer: LoadResponse, confidence: float) -> str:
    mean = answer.interval(confidence)
    text = (
        f"{criterion_name(answer.criterion)} {criterion_value_text(answer.criterion, mean.value)}"
    )
    if mean.n > 1:
        text += f" [{mean.low:.4g}, {mean.high:.4g}]"
    return f"{text} by {plural(mean.n, 'trial')} at {answer.rate:.5g}/s"


class PolicyEnd(msgspec.Struct, frozen=True):
    """How a policy's search ended."""

    policy: str
    status: PeakStatus
    detail: str


def result_at(
    goal: PeakGoal, loads: Sequence[LoadResponse], answer: LoadResponse | None, end: PolicyEnd
) -> ClaimResult:
    """Return the result of a paper's policy: the answer, its bracket and the curve."""
    return ClaimResult(
        status=end.status,
        detail=end.detail,
        claim=goal.claim,
        policy=end.policy,
        peak_rate=None if answer is None else rounded_rate(answer.rate),
        interval=None if answer is None else bracket(goal, loads, answer),
        binding="" if answer is None else answer.criterion.key,
        curve=() if answer is None else tested_curve(goal, loads, answer),
        findings=normality_findings(loads),
    )


def normality_findings(loads: Sequence[LoadResponse]) -> tuple[Finding, ...]:
    """Return the finding that the responses of a load's trials are not normal, as Student's
    intervals assume; at most one.

    By Anderson and Darling's test of each load with enough trials, at `NORMALITY_LEVEL` for all of
    them together (Bonferroni).
    """
    last = {load.rate: load for load in loads if not load.lost}
    tested = [
        (test.p, load)
        for load in last.values()
        if not math.isnan((test := anderson_darling(load.values)).p)
    ]
    if not tested:
        return ()
    p, load = min(tested, key=lambda one: one[0])
    adjusted = p * len(tested)
    if adjusted >= NORMALITY_LEVEL:
        return ()
    shown = states(
        criterion=criterion_name(load.criterion),
        trials=len(load.values),
        rate=Figure(load.rate, "1/s"),
        p=adjusted,
        rates=len(tested) if len(tested) > 1 else None,
    )
    return (make_finding("responses-not-normal", SEARCH_SUBJECT, shown),)


def bracket(goal: PeakGoal, loads: Sequence[LoadResponse], answer: LoadResponse) -> Estimate | None:
    """Return the nearest loads found below and above the peak, around an answer.

    None where one side was not tested. The confidence is that of each load's interval; it is
    nominal because the intervals are examined after every trial.
    """
    below = [load.rate for load in loads if not load.saturated and load.rate < answer.rate]
    above = [load.rate for load in loads if load.saturated and load.rate > answer.rate]
    if not below or not above:
        return None
    return Estimate(
        value=rounded_rate(answer.rate),
        low=max(below),
        high=min(above),
        confidence=goal.claim.confidence,
        method="bracket of tested loads, nominal",
        n=len(answer.values),
        unit="1/s",
    )


def tested_curve(
    goal: PeakGoal, loads: Sequence[LoadResponse], answer: LoadResponse
) -> tuple[CurvePoint, ...]:
    """Return the response at each load tested, by the answer's binding criterion."""
    points = {}
    for load in loads:
        if load.lost or load.criterion.key != answer.criterion.key:
            continue
        mean = load.interval(goal.claim.confidence)
        alone = mean.n < 2
        low, high = (mean.value, mean.value) if alone else (mean.low, mean.high)
        points[load.rate] = CurvePoint(load.rate, low, mean.value, high)
    return tuple(points[rate] for rate in sorted(points))


# -- the strawman: what scripts commonly do --------------------------------------------
#
# A fixed number of trials of a fixed length at every load of a linear sequence, until a load
# saturates the server; the answer is the highest load that did not.
# Decision: if the first load saturates (a start rate above the peak), the sequence descends;
# the paper starts low and does not consider it.
# Source: Workbench paper, section 3 and figure 3 (10 trials of 5 minutes).


class Strawman(PaperPolicy, frozen=True):
    """Linear increments, a fixed number of trials, a fixed run length."""

    name: str = "strawman"

    def next(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> Probe | ClaimResult:
        """Return the next probe, or as the result the highest load that did not saturate."""
        loads, due = self.played(goal, history)
        if due is None:
            return self._result(goal, loads, PeakStatus.FOUND)
        return Probe(due, goal.run_length_s or STRAWMAN_RUN_LENGTH_S, "step")

    def played(
        self, goal: PeakGoal, history: Sequence[LoadTrial]
    ) -> tuple[tuple[LoadResponse, ...], float | None]:
        """Return the loads so far and the rate of the next trial; None: the search has ended.

        The last load may be incomplete.
        """
        each = goal.trials_each or STRAWMAN_TRIALS
        waiting = trials_by_rate(history)
        loads: list[LoadResponse] = []
        last, due = 0.0, goal.start_rate
        while len({load.saturated for load in loads}) < 2:
            rate = within_bounds(goal, due)
            here = waiting.get(rate, [])[-each:]
            if rate == last or not here:
                return tuple(loads), due
            loads.append(load_response(goal, here))
            if len(here) < each:
                return tuple(loads), rate
            step = linear_step(goal)
            # A descending sequence stays above 0.
            due = max(rate + (-step if loads[-1].saturated else step), rate / 1024)
            last = rate
        return tuple(loads), None

    def best(self, goal: PeakGoal, history: Sequence[LoadTrial]) -> ClaimResult:
        """Return the highest load so far that does not saturate the server."""
        return self._result(goal, self.played(goal, history)[0], PeakStatus.UNDECIDED)

    def _result(
        self, goal: PeakGoal, loads: Sequence[LoadResponse], status: PeakStatus
    ) -> ClaimResult:
        held = [load for load in loads if not load.saturated]
        answer = max(held, key=lambda load: load.rate) if held else None
        detail = (
            "no rate tested met the criteria"
            if answer is None
            else f"{answer.rate:.5g}/s is the largest rate tested that did not saturate"
        )
        return result_at(goal, loads, answer, PolicyEnd(self.name, status, detail))
