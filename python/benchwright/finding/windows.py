"""The windows in which a test was watched, and what holds for most of them.

Purpose: from trials to windows, and from windows to the limits of a test. Decision: a test's
limit must show in most of its watched time; what happened once (an error of a device) is told
of the windows in which it did. Works for the trials of a search too: one window each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.finding import thresholds as t
from benchwright.finding.limit import Capacity, Limit
from benchwright.finding.limiter import Seen, explainable, limiters, rank
from benchwright.model.observation import Ending, Trial
from benchwright.model.watched import ResourceUse

_LATE = ("generator-late", "load-not-offered", "generator-behind")
"""Findings by which our engine says that it did not keep its schedule."""


class Window(msgspec.Struct, frozen=True):
    """What was seen of one trial, or of a few that were seen together."""

    use: ResourceUse
    epochs: tuple[int, ...]
    late: bool = False
    """The engine in it said that it fell behind its schedule."""


class Named(msgspec.Struct, frozen=True):
    """Something that holds for most of a test, or for some of its windows."""

    limit: Limit
    """As it was in the longest window that showed it."""
    epochs: tuple[int, ...]
    share: float
    """Of the watched time in which it showed."""


def windows_of(trials: Sequence[Trial]) -> tuple[Window, ...]:
    """Return the windows of a test's trials, in order; void ones and those that were
    there to warm up have none."""
    counted = {trial.epoch: trial for trial in trials if counts(trial)}
    found = []
    for trial in counted.values():
        if trial.use is not None:
            first, last = trial.use.epochs
            epochs = tuple(e for e in range(first, last + 1) if e in counted)
            late = any(_is_late(counted[epoch]) for epoch in epochs)
            found.append(Window(trial.use, epochs or (trial.epoch,), late))
    return tuple(found)


def counts(trial: Trial) -> bool:
    """Tell whether a trial is one of a result, if only a failed one."""
    return trial.ending is not Ending.INTERRUPTED and not trial.warmup


def _is_late(trial: Trial) -> bool:
    return any(block.get("code") in _LATE for block in trial.extra_blocks)


def named_limits(
    windows: Sequence[Window], capacities: Sequence[Capacity] = ()
) -> tuple[Named, ...]:
    """Return what limited a test, the most explanatory first.

    Windows too short to tell are left out; without any other there is no limit.
    """
    able = [window for window in windows if explainable(window.use)]
    shown: dict[str, list[tuple[Window, Limit]]] = {}
    for window in able:
        seen = Seen(tuple(capacities), window.late)
        for limit in limiters(window.use, seen):
            shown.setdefault(limit.code, []).append((window, limit))
    named = (_named(found, able) for found in shown.values())
    most = [one for one in named if one.share > t.MAJORITY]
    return tuple(sorted(most, key=lambda one: rank(one.limit.code)))


def _named(found: Sequence[tuple[Window, Limit]], among: Sequence[Window]) -> Named:
    _longest, limit = max(found, key=lambda one: one[0].use.seconds)
    time = sum(window.use.seconds for window in among)
    share = sum(window.use.seconds for window, _ in found) / time
    return Named(limit, epochs_of([window for window, _ in found]), share)


def epochs_of(windows: Sequence[Window]) -> tuple[int, ...]:
    """Return the epochs of windows, in order."""
    return tuple(sorted({epoch for window in windows for epoch in window.epochs}))


def showing(
    windows: Sequence[Window],
    evidence_of: Callable[[ResourceUse], str],
    *,
    mostly: bool = False,
) -> tuple[str, tuple[int, ...]]:
    """Return the evidence of the longest window that has some, and the epochs of all;
    with `mostly` nothing unless they are most of the watched time. Empty: nothing."""
    told = [(window, evidence_of(window.use)) for window in windows]
    found = [(window, text) for window, text in told if text]
    if not found:
        return "", ()
    time = sum(window.use.seconds for window in windows)
    shown = sum(window.use.seconds for window, _ in found)
    if mostly and shown <= t.MAJORITY * time:
        return "", ()
    _longest, text = max(found, key=lambda one: one[0].use.seconds)
    return text, epochs_of([window for window, _ in found])
