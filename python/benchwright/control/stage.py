"""Where one metric stands under a rule of precision: how many values it needs.

Purpose: the three ways to size a test behind one function. Mean by plan: Stein's two
stages. Quantile by plan: the pilot's interval sets the number of trials, and what they
show sets it again if it did not do, each look counted. Watched: a confidence sequence,
looked at at fixed points of the epoch count that grow by a twentieth.
Decision: everything is computed from the values alone, again at every call, so that a
replayed history decides as the live one did.
Non-goals: limits and batches (precise.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.history import History
from benchwright.control.stein import sample_size, stein_interval
from benchwright.model.estimate import Estimate
from benchwright.model.plan import UntilPrecise
from benchwright.stats.confidence_sequence import t_mixture_interval
from benchwright.stats.longrun import inflation
from benchwright.stats.quantile import quantile_interval, quantile_sequence_interval

SAFETY = 1.1
"""A resized quantile test aims at this share more trials than its last width asks for."""
_MOST = 10**9


class Stage(msgspec.Struct, frozen=True):
    """Where one metric stands."""

    name: str
    have: int
    """Values so far."""
    need: int | None
    """Values needed, as far as known; None when no number of trials is enough (a value
    of 0, or beyond 1e9)."""
    pilot_complete: bool
    looks: int
    """How many times its values were looked at to decide."""
    estimate: Estimate

    @property
    def satisfied(self) -> bool:
        """True when the planned number of values is there."""
        return self.pilot_complete and self.need is not None and self.have >= self.need


def pilot_size(rule: UntilPrecise) -> int:
    """Return the pilot's size: the rule's minimum within its maximum, at least 2."""
    return max(2, min(rule.minimum, rule.maximum))


def stages(rule: UntilPrecise, history: History) -> tuple[Stage, ...]:
    """Return where each metric of the rule stands."""
    by_plan = _planned_mean if rule.share is None else _planned_quantile
    stage_of = by_plan if rule.mode == "plan" else _watched
    return tuple(
        stage_of(rule, name, history.series.get(name, ())) for name in rule.metrics
    )


def precise_enough(estimate: Estimate, target: float) -> bool:
    """Tell whether the interval's half width is within `target` of the value."""
    return estimate.half_width <= target * abs(estimate.value)


def _planned_mean(rule: UntilPrecise, name: str, values: Sequence[float]) -> Stage:
    size, have = pilot_size(rule), len(values)
    estimate = stein_interval(values, size, rule.confidence)
    if have < size:
        return Stage(name, have, size, False, 0, estimate)
    need = sample_size(values[:size], rule.target, rule.confidence)
    return Stage(name, have, need, True, 1, estimate)


def _planned_quantile(rule: UntilPrecise, name: str, values: Sequence[float]) -> Stage:
    assert rule.share is not None
    data, have = np.asarray(values, dtype=np.float64), len(values)
    size = need = pilot_size(rule)
    looks = 0
    while have >= need:
        looks += 1
        found = quantile_interval(data[:need], rule.share, rule.confidence)
        if precise_enough(found, rule.target):
            break
        more = _resized(found, rule.target)
        if more is None:
            return Stage(name, have, None, True, looks, found)
        need = more
    estimate = quantile_interval(data, rule.share, rule.confidence)
    return Stage(name, have, need, have >= size, looks, estimate)


def _resized(found: Estimate, target: float) -> int | None:
    """Return how many values the width seen asks for, more than there are; twice as many
    where n was too small for an interval; None where no number is enough."""
    if math.isnan(found.half_width):
        return 2 * found.n
    if not found.value:
        return None
    ratio = found.half_width / abs(found.value) / target
    if ratio > math.sqrt(_MOST / found.n / SAFETY):
        return None
    return max(found.n + 1, math.ceil(SAFETY * found.n * ratio * ratio))


def _watched(rule: UntilPrecise, name: str, values: Sequence[float]) -> Stage:
    data, size = np.asarray(values, dtype=np.float64), pilot_size(rule)
    estimate = _sequence_interval(data, rule)
    have = int(data.size)
    if have < size:
        return Stage(name, have, size, False, 0, estimate)
    looks = looks_taken(size, have)
    if precise_enough(estimate, rule.target):
        return Stage(name, have, have, True, looks, estimate)
    more = _expected(estimate, rule.target)
    return Stage(name, have, more, True, looks, estimate)


def _expected(found: Estimate, target: float) -> int | None:
    """Return roughly how many values a watched metric needs: for progress only."""
    if not math.isfinite(found.half_width):
        return 2 * found.n
    if not found.value:
        return None
    ratio = found.half_width / abs(found.value) / target
    if ratio > math.sqrt(_MOST / found.n):
        return None
    return max(found.n + 1, math.ceil(found.n * ratio * ratio))


def _sequence_interval(data: np.ndarray, rule: UntilPrecise) -> Estimate:
    if rule.share is not None:
        return quantile_sequence_interval(data, rule.share, rule.confidence)
    plain = t_mixture_interval(data, rule.confidence)
    wider = inflation(data) * plain.half_width
    return msgspec.structs.replace(
        plain, low=plain.value - wider, high=plain.value + wider
    )


def next_look(first: int, epochs: int) -> int:
    """Return the epoch count of the first look at or after `epochs`."""
    look = first
    while look < epochs:
        look += max(1, look // 20)
    return look


def looks_taken(first: int, epochs: int) -> int:
    """Return how many looks there are up to `epochs`."""
    look, count = first, 0
    while look <= epochs:
        look += max(1, look // 20)
        count += 1
    return count
