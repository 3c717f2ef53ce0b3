"""How far a test is from its end: for a person to watch, never for a decision."""

from __future__ import annotations

import math

import msgspec

from benchwright.control.history import History
from benchwright.control.stage import stages
from benchwright.control.watched import watched_summaries
from benchwright.model.plan import (
    FixedCount,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.stats.overhead import percent_of_mean


class Progress(msgspec.Struct, frozen=True):
    """Where a test stands."""

    fraction: float | None
    """Share of the expected epochs that are done, 0 .. 1; None when not known."""
    half_width_percent: dict[str, float]
    """Half width of each watched quantity's interval in % of its mean, as it would be
    now; NaN where there is none yet."""
    target_percent: float | None
    """What the half widths must come down to [%]; None without such a target."""
    expected_total: int | None
    """Epochs expected in all; None when not known."""
    at_most: bool = False
    """True when `expected_total` is a limit and the test may well end before it."""


def progress(rule: StoppingRule, history: History) -> Progress:
    """Return where a test stands under its rule."""
    if isinstance(rule, UntilPrecise):
        return _precise(rule, history)
    widths = {
        summary.name: percent_of_mean(summary.half_width, summary.mean)
        for summary in watched_summaries(history)
    }
    total, at_most = _total(rule)
    return Progress(_share(history.epochs, total), widths, None, total, at_most)


def _total(rule: FixedCount | UntilPredicate | UntilProgram) -> tuple[int | None, bool]:
    if isinstance(rule, FixedCount):
        return rule.count, False
    if isinstance(rule, UntilPredicate):
        return rule.maximum, True
    return None, False


def _precise(rule: UntilPrecise, history: History) -> Progress:
    found = stages(rule, history)
    widths = {
        stage.name: percent_of_mean(stage.estimate.half_width, stage.estimate.value)
        for stage in found
    }
    total: int | None = None
    if all(stage.pilot_complete for stage in found):
        more = max(
            rule.maximum if stage.need is None else stage.need - stage.have
            for stage in found
        )
        total = min(rule.maximum, history.epochs + max(more, 0))
    return Progress(_share(history.epochs, total), widths, 100 * rule.target, total)


def _share(done: int, total: int | None) -> float | None:
    if total is None:
        return None
    return min(done / total, 1.0) if total else 1.0


def telling_width(shown: Progress) -> tuple[str, float] | None:
    """Return the quantity to watch, and its half width [%].

    The widest of those that must come down to the target; elapsed time where a
    predicate decides, which need not ask about the widest.
    """
    known = {
        name: width
        for name, width in shown.half_width_percent.items()
        if math.isfinite(width)
    }
    if shown.target_percent is None and "elapsed" in known:
        return "elapsed", known["elapsed"]
    return max(known.items(), key=lambda pair: pair[1]) if known else None
