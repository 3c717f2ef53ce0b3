"""What is told of a ramp while it runs: a line for each trial."""

from __future__ import annotations

from benchwright.control.ramp.flow import flow_of
from benchwright.finding.load_words import ABSENT, number_text
from benchwright.finding.words import counted
from benchwright.model.peak import LoadEnding, LoadTrial, Probe
from benchwright.model.ramp import Axis, RampGoal
from benchwright.model.search import SearchTrial
from benchwright.report.peak_words import seconds_text
from benchwright.report.ramp import level_text

_MEAN = "response_ms_mean"


def opening_text(goal: RampGoal) -> str:
    """Return the line that opens a ramp."""
    rise = f"times {goal.factor:g}" if goal.step is None else f"by {goal.step:g}"
    highest = level_text(goal.highest, goal.axis)
    return (
        f"ramping from {level_text(goal.start, goal.axis)}, rising {rise}, to at most "
        f"{highest}, {seconds_text(goal.hold_s)} each; until throughput grows by less "
        f"than {100 * goal.growth:g} % at {counted(goal.flat_levels, 'level')}"
    )


def probe_text(number: int, probe: Probe, axis: Axis) -> str:
    """Return what is being run: `trial 7: 64 users for 10 s (climb)`."""
    level = level_text(probe.rate, axis)
    text = f"trial {number}: {level} for {seconds_text(probe.duration_s)}"
    return text + (f" ({probe.purpose})" if probe.purpose else "")


def running_text(number: int, probe: Probe, so_far: LoadTrial, axis: Axis) -> str:
    """Return how far the running trial is."""
    seen = f"after {seconds_text(so_far.lasted_s)}: {_figures(so_far, axis)}"
    return f"{probe_text(number, probe, axis)}; {seen}"


def trial_text(done: SearchTrial, axis: Axis) -> str:
    """Return a trial's line: what was asked, and what came."""
    trial = done.trial
    came = _figures(trial, axis)
    if trial.ending is LoadEnding.FAILED:
        came = f"failed: {trial.failure or 'it did not say how'}"
    return f"{probe_text(done.number, done.probe, axis)}: {came}"


def _figures(trial: LoadTrial, axis: Axis) -> str:
    flow = flow_of(trial, axis)
    throughput = ABSENT if flow is None else f"{number_text(flow.throughput)}/s"
    mean = trial.values.get(_MEAN)
    text = f"throughput {throughput}"
    return text if mean is None else f"{text}, mean response {number_text(mean)} ms"
