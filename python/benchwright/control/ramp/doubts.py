"""What a scalability profile cannot be trusted for, as findings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.control.ramp.growth import Climb, error_of_ratio, falls
from benchwright.control.ramp.level import Level
from benchwright.finding.codes import doubt, marked
from benchwright.finding.words import counted, was
from benchwright.model.finding import Finding
from benchwright.model.peak import LoadEnding, LoadTrial
from benchwright.model.ramp import Axis, RampGoal, RampPoint, RampStatus
from benchwright.model.usl import ScalabilityModel, UslFit

SUBJECT = "ramp"
_CLOSED = "closed-loop-generator"
_MISFIT_P = 0.01
_FEWEST_REPETITIONS = 3
"""For a variance between runs: with fewer, intervals at 95 % cover in 52 to 91 %."""


class Shown(msgspec.Struct, frozen=True):
    """What a ramp came to, before it is doubted."""

    goal: RampGoal
    status: RampStatus
    points: tuple[RampPoint, ...]
    levels: tuple[Level, ...]
    climb: Climb | None
    usl: UslFit | None


def doubts_of(shown: Shown, history: Sequence[LoadTrial]) -> tuple[Finding, ...]:
    """Return the doubts, those about the answer first."""
    return (
        *_of_the_end(shown),
        *_of_the_profile(shown),
        *_of_the_law(shown),
        *_of_the_noise(shown),
        *_of_the_trials(shown, history),
    )


def _of_the_end(shown: Shown) -> Iterator[Finding]:
    if shown.status is RampStatus.HIGHEST and shown.points:
        last = shown.points[-1]
        evidence = (
            f"no level saturated it: {last.throughput.value:.4g}/s at {last.level:g}, "
            f"the highest level"
        )
        yield doubt("ramp-not-saturated", SUBJECT, evidence)


def _of_the_profile(shown: Shown) -> Iterator[Finding]:
    if shown.climb is None:
        return
    best, last = shown.climb.best, shown.levels[-1]
    if falls(best, last, shown.goal):
        share = 100 * (1 - last.throughput / best.throughput)
        evidence = (
            f"throughput falls beyond {best.level:g}: {best.throughput:.4g}/s there, "
            f"{last.throughput:.4g}/s ({share:.0f} % less) at {last.level:g}"
        )
        yield doubt("throughput-falls", SUBJECT, evidence)
    if shown.goal.axis is Axis.USERS:
        yield from _superlinear(shown)


def _superlinear(shown: Shown) -> Iterator[Finding]:
    """Throughput per user above the first level's, beyond noise that is known."""
    first = shown.levels[0]
    for level in shown.levels[1:]:
        error = error_of_ratio((first, level), shown.goal.confidence)
        gain = (level.throughput / level.level) / (first.throughput / first.level or 1)
        if error and gain > math.exp(error) * (1 + shown.goal.growth):
            evidence = (
                f"{level.level:g} users have {100 * gain:.0f} % of the throughput per "
                f"user of {first.level:g}"
            )
            yield doubt("superlinear", SUBJECT, evidence)
            return


def _of_the_law(shown: Shown) -> Iterator[Finding]:
    fit = shown.usl
    if fit is None:
        return
    if fit.refuted:
        evidence = (
            "the measured curve bends otherwise than the law can: it asks for a negative "
            "sigma or kappa"
        )
        yield doubt("usl-misfit", SUBJECT, evidence)
    elif fit.misfit_p is not None and fit.misfit_p < _MISFIT_P:
        evidence = (
            f"the levels are further from the fitted curve than runs of one level are from "
            f"each other (lack of fit, p = {fit.misfit_p:.2g})"
        )
        yield doubt("usl-misfit", SUBJECT, evidence)
    if fit.preferred is not ScalabilityModel.USL:
        evidence = (
            f"the data do not tell kappa from 0: its {100 * fit.kappa.confidence:g} % "
            f"interval reaches up to {fit.kappa.high:.3g}; the simplest law that they do "
            f"not refute is {fit.preferred}"
        )
        yield doubt("kappa-not-told", SUBJECT, evidence)
    elif fit.users_at_peak is not None:
        highest = shown.points[-1].level
        if fit.users_at_peak.value > highest:
            evidence = (
                f"the fitted maximum is at {fit.users_at_peak.value:.3g} users; "
                f"{highest:g} were the most that were measured"
            )
            yield doubt("usl-extrapolated", SUBJECT, evidence)


def _of_the_noise(shown: Shown) -> Iterator[Finding]:
    levels = shown.levels
    if any(level.variance is None for level in levels):
        unknown = ", ".join(f"{one.level:g}" for one in levels if one.variance is None)
        evidence = (
            f"at {unknown}: no series tells what ended in each second, and no level was "
            f"run twice"
        )
        yield doubt("throughput-noise-unknown", SUBJECT, evidence)
        return
    again = sum(len(level.flows) - 1 for level in levels)
    if levels and again < _FEWEST_REPETITIONS:
        evidence = "each level was run once: intervals hold the noise within a run only"
        if again:
            evidence = (
                f"of {again + len(levels)} trials only {again} repeated a level: intervals "
                f"hardly hold what differs between runs"
            )
        yield doubt("single-runs", SUBJECT, evidence)


def _of_the_trials(shown: Shown, history: Sequence[LoadTrial]) -> Iterator[Finding]:
    failed = [trial for trial in history if trial.ending is LoadEnding.FAILED]
    last = history[-1:] and history[-1].ending is LoadEnding.FAILED
    again = len(failed) - (2 if shown.status is RampStatus.FAILED and last else 0)
    if again > 0:
        trials = counted(len(history), "trial")
        evidence = f"{again} of {trials} failed and {was(again)} run again"
        yield doubt("probe-failed", SUBJECT, evidence)
    marks = Counter(mark for trial in history for mark in trial.marks)
    for code, count in marks.items():
        if code == _CLOSED and shown.goal.axis is Axis.USERS:
            continue
        evidence = f"in {count} of {counted(len(history), 'trial')}"
        yield marked(code, SUBJECT, evidence)
