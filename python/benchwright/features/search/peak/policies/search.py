"""One step of a peak search: the part that is the same for every policy.

This module handles the first guess, failed trials, generators that are late or behind, the lowest
and the highest rate, the maximum number of trials and the budget; the policy chooses the rate and
the length of a probe. Whatever a policy answers, its trials outweigh it (evidence.py). Decision: a
bound ends the search if the policy, after a trial at the bound, still requests a rate beyond it. So
the policy's own statistics decide, and there is no second test. Source: Workbench paper, section 4
(the loop around the load-picking algorithms).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.criterion import Criterion, criterion_name, criterion_value_text
from benchwright.core.results import Figure, Finding, Severity, states
from benchwright.core.text import plural, rate_text
from benchwright.features.generators.findings import LATE_MARK, OPERATIONS_MISSING, REFUSALS_UNSEEN
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe, rounded_rate
from benchwright.features.search.peak.policies import tuning
from benchwright.features.search.peak.policies.evidence import (
    SEARCH_SUBJECT,
    bound_result,
    counted_rate,
    is_behind,
    is_short,
    measured_bounds,
    tallies,
    weighed,
)
from benchwright.features.search.peak.policies.policy import (
    Policy,
    highest_rate,
    lowest_rate,
    within_bounds,
)
from benchwright.features.search.peak.policies.trials import (
    ResolvedHistory,
    late_findings,
    late_of_limit_text,
    resolve_failures,
    trial_findings,
)
from benchwright.features.search.types import ClaimResult, PeakGoal, PeakStatus
from benchwright.findings.codes import make_finding


def next_peak_step(
    policy: Policy, goal: PeakGoal, history: Sequence[LoadTrial]
) -> Probe | ClaimResult:
    """Return the next probe of a search, or its result.

    Pure: depends only on its arguments. `history` contains every trial so far, including
    failed ones. This function sets the result's trials, seconds, cost and common findings; a
    policy may leave them at their defaults.
    """
    resolved = resolve_failures(goal, history)
    guessed = _with_guess(goal, resolved)
    return _PeakStep(policy, guessed, history, resolved).next()


def may_leave(
    policy: Policy, goal: PeakGoal, history: Sequence[LoadTrial], probe: Probe, so_far: LoadTrial
) -> bool:
    """Return whether a running probe has shown enough, with failures in `history` resolved."""
    if not goal.watched or probe.users is not None:
        return False
    resolved = resolve_failures(goal, history)
    return policy.leaves(_with_guess(goal, resolved), resolved.trials, probe, so_far)


def _with_guess(goal: PeakGoal, resolved: ResolvedHistory) -> PeakGoal:
    """Return the goal with the start rate that the closed loop shows, if there was one that
    completed anything.

    Decision: below what it completed, because a closed loop has no bursts of arrivals.
    """
    guess = resolved.guess
    if guess is None or not guess.completed or not guess.lasted_s:
        return goal
    if guess.ending is LoadEnding.FAILED:
        return goal
    rate = tuning.GUESS_SHARE * guess.completed / guess.lasted_s
    return msgspec.structs.replace(goal, start_rate=rounded_rate(rate, goal.rate_step))


class _PeakStep(msgspec.Struct, frozen=True):
    """One decision: the policy's step, within the limits of all searches."""

    policy: Policy
    goal: PeakGoal
    history: Sequence[LoadTrial]
    resolved: ResolvedHistory

    def next(self) -> Probe | ClaimResult:
        """Return the next probe, or the result."""
        if self.resolved.fatal is not None:
            return self._failed(self.resolved.fatal)
        users = self.goal.guess_users
        if not self.history and users is not None and self._has_time_to_guess():
            return self._within_budget(Probe(users, tuning.SHORTEST_S, "guess", users=users))
        if self.resolved.retry is not None:
            return self._within_budget(self.resolved.retry)
        if self.resolved.late.ended:
            return self._untestable()
        step = self.policy.next(self.goal, self.resolved.trials)
        if isinstance(step, ClaimResult):
            return self._finished(step)
        step = self._within_earlier(step)
        end = self._at_bound(step)
        if end is not None:
            return self._finished(end)
        bounded = self._within_bounds(step)
        probe = self._testable(bounded)
        if probe is None:
            return self._untestable()
        return self._at_one_rate(probe.rate) or self._within_budget(probe)

    def _has_time_to_guess(self) -> bool:
        budget_s = self.goal.budget_s
        is_long = budget_s is None or budget_s >= tuning.LOOKS_S
        return is_long and self.goal.max_trials > 2

    def _within_earlier(self, probe: Probe) -> Probe:
        """Return a probe that doubles the rate at the upper end of an earlier peak, before a trial
        was there.

        Decision: nothing else of an earlier search is used. Its trials are of a server that may
        have changed, and a prior in the posterior would count as trials that this one did not see.
        """
        earlier = self.goal.earlier
        if earlier is None or earlier.high is None or probe.purpose != "double":
            return probe
        rate = rounded_rate(earlier.high, self.goal.rate_step)
        below = [trial.rate for trial in self.resolved.trials]
        if not below or max(below) >= rate or probe.rate <= rate:
            return probe
        return msgspec.structs.replace(probe, rate=rate)

    # The late generator ---------------------------------------------------------

    def _testable(self, probe: Probe) -> Probe | None:
        """Return a probe below the rates at which the generator is too late; None where the
        generator can offer none above what was tried."""
        ceiling = self.resolved.late.untestable
        if probe.rate < ceiling:
            return probe
        below = [t.rate for t in self.resolved.trials if t.rate < ceiling]
        low = max(below, default=ceiling / tuning.NEAR_RATES**2)
        rate = within_bounds(self.goal, math.sqrt(low * ceiling))
        if not low < rate < ceiling and below:
            return None
        return msgspec.structs.replace(probe, rate=rate)

    def _untestable(self) -> ClaimResult:
        """Return the result of a search that the generator's lateness ended: what held, as a lower
        bound, where no rate failed."""
        late = late_of_limit_text(self.goal, self.resolved.late.void)
        bounds = measured_bounds(tallies(self.goal.criteria, self.resolved.trials))
        which = "higher rates"
        if bounds.failed is not None and math.isfinite(self.resolved.late.untestable):
            which = f"rates from {rate_text(self.resolved.late.untestable)} on"
        result = msgspec.structs.replace(
            self.policy.best(self.goal, self.resolved.trials),
            status=PeakStatus.UNDECIDED,
            detail=f"{which} could not be tested: the generator came late, {late}",
        )
        if bounds.held is None:
            result = msgspec.structs.replace(
                result, peak_rate=None, interval=None, claim_probability=None, check=()
            )
        elif bounds.failed is None:
            result = bound_result(result, "lower", bounds.held)
        return self._finished(result)

    # The bounds -----------------------------------------------------------------

    def _within_bounds(self, probe: Probe) -> Probe:
        rate = within_bounds(self.goal, probe.rate)
        fewest_s = math.ceil(tuning.FEWEST_OPERATIONS / rate)
        length_s = max(probe.duration_s, fewest_s)
        return msgspec.structs.replace(probe, rate=rate, duration_s=length_s)

    def _at_bound(self, probe: Probe) -> ClaimResult | None:
        """Return the result of a search that requests a rate beyond a tested bound; else None."""
        low, high = lowest_rate(self.goal), highest_rate(self.goal)
        trials = self.policy.read(self.goal, self.resolved.trials)
        # At the lowest rate a trial whose generator is behind counts too: there is no lower one.
        lowest = [t for t in trials if t.rate <= low or math.isclose(counted_rate(t), low)]
        beyond, at = probe.rate < low, probe.rate <= low
        if self._exhausted(lowest, beyond=beyond, at=at) is False:
            return self._fails_at(low, lowest)
        highest = [t for t in trials if math.isclose(counted_rate(t), high)]
        beyond, at = probe.rate > high, probe.rate >= high
        if self._exhausted(highest, beyond=beyond, at=at):
            what = _bound_text("highest", self.goal.highest_rate)
            return self._holds_at(high, what + self._part_text(highest))
        offered = generator_limit(self.goal, trials)
        if offered is not None and probe.rate > (1 + tuning.SAME_RATE) * offered:
            what = "the most that the generator offered: it was the limit, not the server"
            if any(OPERATIONS_MISSING in trial.marks for trial in self.resolved.behind):
                what = "the most that the generator's series counts: more was not sent, or not answered"
            return self._holds_at(offered, what)
        return self._between_steps(probe)

    def _between_steps(self, probe: Probe) -> ClaimResult | None:
        """Return the result of a search that requests a rate between two adjacent rates of the
        generator and has tested both often; None while more trials there may help."""
        step = self.goal.rate_step
        if step is None:
            return None
        low = math.floor(probe.rate / step) * step
        sides = [t for t in self.resolved.trials if low <= t.rate <= low + step]
        if len(sides) < tuning.MOST_BETWEEN_STEPS:
            return None
        if len({trial.rate for trial in sides}) < 2:
            return None
        text = f"the generator cannot produce a rate between {low:.5g} and {low + step:.5g}/s"
        return self._given_up(PeakStatus.UNDECIDED, text)

    def _exhausted(self, trials: Sequence[LoadTrial], *, beyond: bool, at: bool) -> bool | None:
        """Return whether the criteria hold in the trials at a bound; None while they are not
        enough.

        One trial is enough for a policy that requests a rate beyond the bound, and
        `MOST_AT_BOUND` trials for one that stays at it.
        """
        if not trials or not (beyond or (at and len(trials) >= tuning.MOST_AT_BOUND)):
            return None
        return all_hold(self.goal, trials)

    def _fails_at(self, rate: float, trials: Sequence[LoadTrial]) -> ClaimResult:
        failing = failing_criteria(self.goal, trials)
        why = "; ".join(map(failing_text, failing)) or "every trial failed"
        where = _bound_text("lowest", self.goal.lowest_rate)
        detail = f"even at {rate_text(rate)}, {where}, a limit is exceeded: {why}"
        detail += self._part_text(trials)
        binding = failing[0][0].key if failing else ""
        return self._bound(PeakStatus.FAILS_AT_LOWEST, rate, detail, binding)

    def _holds_at(self, rate: float, what: str) -> ClaimResult:
        detail = f"every limit still holds at {rate_text(rate)}, {what}"
        return self._bound(PeakStatus.NEVER_FAILS, rate, detail, "")

    def _part_text(self, trials: Sequence[LoadTrial]) -> str:
        """Return by what trials were judged, if their whole values, which the report prints, show
        something else."""
        rates = {trial.rate for trial in trials}
        whole = [trial for trial in self.resolved.trials if trial.rate in rates]
        if all_hold(self.goal, whole) == all_hold(self.goal, trials):
            return ""
        return ", by the part of each trial that counts (its beginning is left out)"

    def _bound(self, status: PeakStatus, rate: float, detail: str, binding: str) -> ClaimResult:
        return msgspec.structs.replace(
            self.policy.best(self.goal, self.resolved.trials),
            status=status,
            detail=detail,
            peak_rate=rate,
            interval=None,
            claim_probability=None,
            binding=binding,
            check=(),
        )

    # Trials, budget, failure ----------------------------------------------------

    def _at_one_rate(self, rate: float) -> ClaimResult | None:
        """Return the result of a search that has so many trials at one rate that another one
        would not decide the claim; else None."""
        here = [trial for trial in self.resolved.trials if trial.rate == rate]
        if len(here) < tuning.MOST_AT_ONE_RATE:
            return None
        spreads = "; ".join(self._spread_text(c, here) for c in self.goal.criteria)
        shown = states(trials=len(here), rate=Figure(rate, "1/s"), spreads=spreads)
        finding = make_finding("rate-not-decided", SEARCH_SUBJECT, shown)
        result = self._given_up(PeakStatus.UNDECIDED, finding.evidence)
        return msgspec.structs.replace(result, findings=(finding, *result.findings))

    def _spread_text(self, criterion: Criterion, trials: Sequence[LoadTrial]) -> str:
        """Return the range of a criterion's values: `mean response 36 to 41 ms, limit 40 ms`."""
        values = [t.values[criterion.key] for t in trials if criterion.key in t.values]
        if not values:
            return f"{criterion_name(criterion)} unknown"
        low, high, limit = (
            criterion_value_text(criterion, value)
            for value in (min(values), max(values), criterion.limit)
        )
        return f"{criterion_name(criterion)} {low} to {high}, limit {limit}"

    def _within_budget(self, probe: Probe) -> Probe | ClaimResult:
        goal = self.goal
        if len(self.history) >= goal.max_trials:
            text = f"stopped after {plural(goal.max_trials, 'trial')} (--max-trials)"
            return self._given_up(PeakStatus.UNDECIDED, text)
        if goal.budget_s is None:
            return probe
        left = goal.budget_s - _cost_s(self.history) - self._restart_s()
        if probe.duration_s <= left:
            return probe
        least = tuning.SHORTEST_S
        if self.history:
            least = max(least, tuning.BUDGET_USEFUL_SHARE * probe.duration_s)
        if left >= least:
            # Rounded down to 0.1 s: a short number that never exceeds the budget.
            return msgspec.structs.replace(probe, duration_s=math.floor(10 * left) / 10)
        text = f"{goal.budget_s:.6g} s budget used up"
        return self._given_up(PeakStatus.BUDGET, text)

    def _restart_s(self) -> float:
        """Return the mean time of a trial without its load; the goal's estimate before any trial
        [s]."""
        worked = [t for t in self.history if t.ending is not LoadEnding.FAILED]
        if not worked:
            return self.goal.restart_s
        return sum(trial.cost_s - trial.lasted_s for trial in worked) / len(worked)

    def _given_up(self, status: PeakStatus, text: str) -> ClaimResult:
        best = self.policy.best(self.goal, self.resolved.trials)
        detail = "; ".join(part for part in (text, best.detail) if part)
        return self._finished(msgspec.structs.replace(best, status=status, detail=detail))

    def _against(self, result: ClaimResult) -> Finding | None:
        """Return the finding about a result whose own curve contradicts its answer: below the
        interval the response is beyond the limit, or below the answer by more than the claim
        allows. None where it does not."""
        criteria = {criterion.key: criterion for criterion in self.goal.criteria}
        criterion = criteria.get(result.binding)
        if criterion is None or result.peak_rate is None or criterion.better == "higher":
            return None
        low = result.peak_rate if result.interval is None else result.interval.low
        allowed = max(result.claim.tolerance, tuning.SAME_RATE)
        wrong = next(
            (
                point
                for point in result.curve
                if point.rate < result.peak_rate
                and point.middle
                > criterion.limit * (1 + (tuning.SAME_RATE if point.rate < low else allowed))
            ),
            None,
        )
        if wrong is None:
            return None
        shown = states(
            criterion=criterion_name(criterion),
            value=criterion_value_text(criterion, wrong.middle),
            rate=Figure(wrong.rate, "1/s"),
            answer=Figure(result.peak_rate, "1/s"),
        )
        return make_finding("answer-against-curve", SEARCH_SUBJECT, shown)

    def _failed(self, trial: LoadTrial) -> ClaimResult:
        detail = (
            f"the trial at {trial.rate:.5g}/s failed twice, and no lower rate has worked: "
            f"{trial.failure}"
        )
        return self._finished(
            ClaimResult(
                status=PeakStatus.FAILED,
                detail=detail,
                claim=self.goal.claim,
                policy=self.policy.name,
            )
        )

    def _finished(self, result: ClaimResult) -> ClaimResult:
        """Return the result with the trials, times and findings that every search reports."""
        result = weighed(self.goal.criteria, result, self.resolved.trials, self.goal.rate_step)
        result = _without_extrapolation(result, self.resolved.trials)
        result = _cut_at_bounds(self.goal, result)
        against = self._against(result)
        findings = (
            *_rough_finding(result),
            *_earlier_finding(self.goal, result),
            *late_findings(self.goal, result.peak_rate, self.history, self.resolved.late),
            *result.findings,
            *(() if against is None else (against,)),
            *trial_findings(self.resolved, self.history),
        )
        result = _unless_late(_unless_refused(result, findings), findings)
        return msgspec.structs.replace(
            result,
            trials=len(self.history),
            load_s=sum(trial.lasted_s for trial in self.history),
            cost_s=_cost_s(self.history),
            findings=tuple(dict.fromkeys(findings)),
        )


def _earlier_finding(goal: PeakGoal, result: ClaimResult) -> Iterator[Finding]:
    """Yield that the peak is not where an earlier search found it."""
    earlier, rate = goal.earlier, result.peak_rate
    if earlier is None or rate is None or result.status is PeakStatus.FAILED:
        return
    # A bound, or an interval, that the earlier peak may be within contradicts nothing.
    interval = result.interval
    low, high = (rate, rate) if interval is None else (interval.low, interval.high)
    if result.bound_kind is not None:
        low, high = (rate, math.inf) if result.bound_kind == "lower" else (0.0, rate)
    most = math.inf if earlier.high is None else earlier.high
    if low <= most and high >= earlier.low:
        return
    shown = states(study=earlier.study, earlier=rate_text(earlier.rate), now=rate_text(rate))
    yield make_finding("earlier-peak-differs", SEARCH_SUBJECT, shown)


def _unless_late(result: ClaimResult, findings: Sequence[Finding]) -> ClaimResult:
    """Return a result that is undecided where the generator's lateness, not the server, may have
    decided it."""
    late = next((f for f in findings if f.code == LATE_MARK), None)
    if late is None or late.severity is not Severity.SERIOUS:
        return result
    if result.status is not PeakStatus.FOUND:
        return result
    return msgspec.structs.replace(
        result, status=PeakStatus.UNDECIDED, detail=late.evidence, claim_probability=None
    )


def _unless_refused(result: ClaimResult, findings: Sequence[Finding]) -> ClaimResult:
    """Return a result without a lower bound where the server got quicker far above the first rate
    and nothing shows whether it refused: then the bound may be a multiple of what it answers."""
    refused = next((f for f in findings if f.code == REFUSALS_UNSEEN), None)
    doubted = refused is not None and refused.severity is not Severity.NOTE
    if not doubted or result.bound_kind != "lower" or refused is None:
        return result
    return msgspec.structs.replace(
        result,
        status=PeakStatus.UNDECIDED,
        detail=f"no rate is known to be answered: {refused.evidence}",
        peak_rate=None,
        bound=None,
    )


def _rough_finding(result: ClaimResult) -> tuple[Finding, ...]:
    """Return the finding about an answer without its claim that may be far off."""
    rate, interval = result.peak_rate, result.interval
    no_claim = result.status in (PeakStatus.BUDGET, PeakStatus.UNDECIDED)
    if not no_claim or rate is None or result.bound_kind is not None:
        return ()
    low, high = (0.0, math.inf) if interval is None else (interval.low, interval.high)
    within = 1 + tuning.ROUGH_ANSWER
    if rate / within <= low and high <= rate * within:
        return ()
    shown = states(
        low=None if interval is None else low,
        high=None if interval is None else high,
        rate=Figure(rate, "1/s"),
    )
    return (make_finding("answer-rough", SEARCH_SUBJECT, shown),)


def _without_extrapolation(result: ClaimResult, trials: Sequence[LoadTrial]) -> ClaimResult:
    """Return a result whose curve ends at the highest rate that was tried."""
    most = max((trial.rate for trial in trials), default=0.0)
    curve = tuple(point for point in result.curve if point.rate <= most)
    return msgspec.structs.replace(result, curve=curve)


def _cut_at_bounds(goal: PeakGoal, result: ClaimResult) -> ClaimResult:
    """Return the result with its answer and interval within the bounds that the user set.

    An answer at a bound has no probability, and an interval beyond the bound is left out: both are
    about rates that the search may not try.
    """
    if result.peak_rate is None:
        return result
    least = 0.0 if goal.lowest_rate is None else lowest_rate(goal)
    most = math.inf if goal.highest_rate is None else highest_rate(goal)
    rate = min(max(result.peak_rate, least), most)
    interval = result.interval
    if interval is not None:
        ends = max(interval.low, least), min(interval.high, most)
        interval = (
            msgspec.structs.replace(
                interval,
                value=min(max(interval.value, ends[0]), ends[1]),
                low=ends[0],
                high=ends[1],
            )
            if ends[0] < ends[1]
            else None
        )
    is_same = rate == result.peak_rate
    return msgspec.structs.replace(
        result,
        peak_rate=rate,
        interval=interval,
        claim_probability=result.claim_probability if is_same else None,
        check=result.check if is_same else (),
    )


def _bound_text(name: str, rate: float | None) -> str:
    """Return a bound's name, and for a default bound how to set it: `the lowest rate`."""
    if rate is not None:
        return f"the {name} rate"
    return f"the {name} rate that is tried (--{name}, or {name} of [peak])"


def _cost_s(history: Sequence[LoadTrial]) -> float:
    return sum(trial.cost_s for trial in history)


# -- whether trials meet the criteria, by the means of their values -------------------------------
#
# Used where a search ends at a bound, without the policy's statistics. The values are those that
# the policy reads.

FailingCriterion = tuple[Criterion, float]
"""A criterion that is not met, and the mean of its values."""


def failing_criteria(goal: PeakGoal, trials: Sequence[LoadTrial]) -> list[FailingCriterion]:
    """Return the criteria that the trials' means do not meet, in the goal's order."""
    failing = []
    for criterion in goal.criteria:
        values = [t.values[criterion.key] for t in trials if criterion.key in t.values]
        mean = sum(values) / len(values) if values else math.nan
        if values and not criterion.holds(mean):
            failing.append((criterion, mean))
    return failing


def failing_text(failing: FailingCriterion) -> str:
    """Return a failing criterion as text: `mean response 52.9 ms, limit 40 ms`."""
    criterion, mean = failing
    limit = criterion_value_text(criterion, criterion.limit)
    return f"{criterion_name(criterion)} {criterion_value_text(criterion, mean)}, limit {limit}"


def all_hold(goal: PeakGoal, trials: Sequence[LoadTrial]) -> bool:
    """Return whether no trial failed and the means meet every criterion."""
    if any(trial.ending is LoadEnding.FAILED for trial in trials):
        return False
    return not failing_criteria(goal, trials)


def generator_limit(goal: PeakGoal, trials: Sequence[LoadTrial]) -> float | None:
    """Return the highest rate that the generator offered [1/s], if it was behind twice while every
    criterion held; None where the server was the limit or no trial was behind."""
    ended = [trial for trial in trials if trial.ending is not LoadEnding.FAILED]
    behind = [trial for trial in ended if is_behind(trial)]
    if len(behind) >= 2 and all_hold(goal, behind):
        return max(trial.offered_rate for trial in behind)
    return _most_ended(goal, trials)


def _most_ended(goal: PeakGoal, trials: Sequence[LoadTrial]) -> float | None:
    """Return the highest rate of ended operations [1/s], where only these are counted, every
    criterion held, and a rate that is not near did not end more of them; else None.

    One rate alone shows nothing, because operations in flight at the end are missing too.
    """
    short = [trial for trial in trials if is_short(trial)]
    short = sorted(short, key=lambda trial: trial.rate)
    for low, high in itertools.pairwise(short):
        farther = high.rate >= tuning.NEAR_RATES * low.rate
        if farther and ended_rate(high) <= tuning.CEILING_ENDED_RATIO * ended_rate(low):
            both = (low, high)
            return max(map(ended_rate, both)) if all_hold(goal, both) else None
    return None


def ended_rate(trial: LoadTrial) -> float:
    """Return the rate of operations that ended, with or without an error [1/s]."""
    return ((trial.completed or 0) + trial.errors) / trial.lasted_s
