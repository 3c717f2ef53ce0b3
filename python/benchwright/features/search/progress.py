"""Progress of peak searches, ramps and surfaces: a line for each trial or sample."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.core.criterion import Criterion, criterion_name, criterion_value_text
from benchwright.core.text import (
    ABSENT,
    duration_text,
    number_text,
    percent_text,
    plural,
    probability_text,
    rate_text,
)
from benchwright.features.load.trial import LoadEnding, LoadTrial, Probe
from benchwright.features.search.ramp.levels import trial_throughput
from benchwright.features.search.ramp.report import level_text
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.features.search.surface.types import SampleRequest, SampleResult, SurfaceGoal
from benchwright.features.search.text import (
    interval_text,
    load_value_text,
    open_answer_text,
    sample_text,
)
from benchwright.features.search.types import ClaimResult, PeakStatus, SearchTrial


def peak_opening_text(criteria: Sequence[str], claims: Sequence[str], policy: str) -> str:
    """Return the line that opens a search."""
    return (
        f"searching for the peak rate with {' and '.join(criteria)}; "
        f"claim {', '.join(claims)}; policy {policy}"
    )


def probe_text(number: int, probe: Probe) -> str:
    """Return the line of the trial that starts: `trial 7: 236.3/s for 120 s (hold)`, `trial 7: 64
    users for 10 s (climb)`."""
    load = load_value_text(probe.rate, in_users=probe.users is not None)
    text = f"trial {number}: {load} for {duration_text(probe.duration_s)}"
    return text + (f" ({probe.purpose})" if probe.purpose else "")


def running_text(number: int, probe: Probe, so_far: LoadTrial, figures: str) -> str:
    """Return the status line of the running trial, with its figures so far."""
    return f"{probe_text(number, probe)}; after {duration_text(so_far.lasted_s)}: {figures}"


def criterion_figure_text(trial: LoadTrial, criterion: Criterion) -> str:
    """Return the value of a criterion: `mean response 30.5 ms`."""
    value = criterion_value_text(criterion, trial.values.get(criterion.key))
    return f"{criterion_name(criterion)} {value}"


def peak_trial_text(
    done: SearchTrial, criterion: Criterion, best: ClaimResult | None, spent_s: float
) -> str:
    """Return a trial's line: request, measurement, the peak so far, cost.

    The value of `criterion` is shown; `best` is the answer from the trials so far.
    """
    parts = [f"{probe_text(done.number, done.probe)}: {_outcome(done.trial, criterion)}"]
    if best is not None:
        parts.append(peak_so_far_text(best))
    parts.append(f"{duration_text(spent_s)} spent")
    return "; ".join(part for part in parts if part)


def peak_so_far_text(best: ClaimResult) -> str:
    """Return the current estimate of the peak: `peak 231 to 242/s at 95 %, claim 87 %`."""
    if best.status in (PeakStatus.FAILED, PeakStatus.FAILS_AT_LOWEST):
        return ""
    known = interval_text(best.interval)
    if not known and best.peak_rate is not None:
        known = f"about {rate_text(best.peak_rate)}"
    if not known:
        return ""
    claim = best.claim_probability
    tail = "" if claim is None else f", claim {probability_text(claim)}"
    return f"peak {known}{tail}"


def _outcome(trial: LoadTrial, criterion: Criterion) -> str:
    if trial.ending is LoadEnding.FAILED:
        return f"failed: {trial.failure or 'no reason reported'}"
    text = criterion_figure_text(trial, criterion)
    if trial.ending is LoadEnding.LEFT:
        text += f", stopped after {duration_text(trial.lasted_s)} because the result was clear"
    return text


# -- Progress of a ramp: a line for each trial --------------------------------------

_MEAN = "response_ms_mean"


def ramp_opening_text(goal: RampGoal) -> str:
    """Return the line that opens a ramp."""
    rise = f"times {goal.factor:g}" if goal.step is None else f"by {goal.step:g}"
    highest = level_text(goal.highest, goal.axis)
    after = "then a low level once more, as a control"
    if goal.repeats > 1:
        more = plural(goal.repeats - 1, "more time")
        after = f"then each level {more}, in random order"
    elif goal.axis is RampAxis.RATE:
        after = ""
    return (
        f"ramping from {level_text(goal.start, goal.axis)}, rising {rise}, to at most "
        f"{highest}, {duration_text(goal.hold_s)} each; until throughput grows by less "
        f"than {percent_text(goal.growth, 10)} at {plural(goal.flat_levels, 'level')}"
        f"{after and '; ' + after}"
    )


def ramp_trial_text(done: SearchTrial, axis: RampAxis) -> str:
    """Return a trial's line: the requested load and the measurements."""
    trial = done.trial
    came = throughput_text(trial, axis)
    if trial.ending is LoadEnding.FAILED:
        came = f"failed: {trial.failure or 'no reason reported'}"
    return f"{probe_text(done.number, done.probe)}: {came}"


def throughput_text(trial: LoadTrial, axis: RampAxis) -> str:
    """Return the throughput of a trial, and its mean response if it is known."""
    flow = trial_throughput(trial, axis)
    throughput = ABSENT if flow is None else f"{rate_text(flow.throughput)}"
    mean = trial.values.get(_MEAN)
    text = f"throughput {throughput}"
    return text if mean is None else f"{text}, mean response {number_text(mean)} ms"


# -- Progress of a surface: a line when a sample's search starts, and one when it ends --


def surface_opening_text(goal: SurfaceGoal, criteria: Sequence[str]) -> str:
    """Return the line that opens the measurement of a surface."""
    within = ""
    if goal.deadline_s is not None:
        within = f", within {duration_text(goal.deadline_s)}"
    return (
        f"mapping the peak rate with {' and '.join(criteria)}: "
        f"{goal.samples} of {plural(goal.count, 'sample')}, design {goal.design}{within}"
    )


def sample_opening_text(number: int, count: int, wanted: SampleRequest) -> str:
    """Return which sample is searched and why, and the start of its search."""
    text = f"sample {number} of {count}: {sample_text(wanted.sample)} ({wanted.why})"
    if wanted.goal.budget_s is not None:
        text += f", for at most {duration_text(wanted.goal.budget_s)}"
    if wanted.goal.guess_users is not None:
        users = plural(wanted.goal.guess_users, "user")
        return f"{text}, starting with a closed loop of {users}"
    if not wanted.seeded_from:
        return f"{text}, starting at {rate_text(wanted.goal.start_rate)}"
    near = sample_text(wanted.seeded_from)
    return f"{text}, starting at the rate of {near}, {rate_text(wanted.goal.start_rate)}"


def sample_ending_text(number: int, result: SampleResult) -> str:
    """Return the result of a sample's search."""
    found = result.found
    if result.peak_rate is None:
        return f"sample {number}: {open_answer_text(found)}: {found.detail}"
    interval = interval_text(found.interval)
    ends = f" ({interval})" if interval else ""
    return f"sample {number}: {found.status}: {rate_text(result.peak_rate)}{ends}"
