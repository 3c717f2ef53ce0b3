"""The load-picking algorithms of the workbench paper: which load to test next.

Each is a pure function of the loads tested so far, in their order, so the state that the
paper keeps (phase, `binsearch_low`, `binsearch_high`) is recomputed. `seed` is the first
load: 50/s, or a neighbour's peak ("with seeding", section 5.4).
Decision: as published, with what the paper leaves open filled in and told by the pick: a
first load that saturates is followed by lower ones until one holds (the paper starts low),
and a model that predicts no load is replaced by doubling or halving.
Source: Workbench paper, sections 5.1 to 5.4, algorithms 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

STEP_PER_S = 10.0
"""The small fixed increment of the linear policies [1/s]; the paper gives no figure."""
CLOSED_SHARE = 1e-4
"""A bracket narrower than this share of its upper end holds no load to test."""

LEAP = 16.0
"""A prediction so many times beyond all loads tested counts as undefined: two nearly equal
responses predict millions of requests a second, which no generator should be asked for."""


class TestLoad(msgspec.Struct, frozen=True):
    """A load that was tested, and what its trials came to."""

    rate: float
    mean: float
    """Of the criterion that binds; infinite where the server failed."""
    limit: float
    """R_sat, or the limit of the criterion that binds."""
    saturated: bool


class Pick(msgspec.Struct, frozen=True):
    """The next load, and why."""

    rate: float
    purpose: str


LoadPicking = Callable[[float, Sequence[TestLoad]], Pick | None]
"""(seed, loads tested) -> the next one; None: there is none left between the bounds."""


def binsearch(seed: float, tested: Sequence[TestLoad]) -> Pick | None:
    """Return the next load of Algorithm 3: doubled until it saturates, then bisected."""
    if not tested:
        return Pick(seed, "first")
    high = _last(tested, saturated=True)
    if high is None:
        return Pick(2 * tested[-1].rate, "double")
    return _bisected(tested, high)


def linear(
    seed: float, tested: Sequence[TestLoad], step: float = STEP_PER_S
) -> Pick | None:
    """Return the next load of Linear: a fixed step up until it saturates, then bisected."""
    if not tested:
        return Pick(seed, "first")
    high = _last(tested, saturated=True)
    if high is None:
        return Pick(tested[-1].rate + step, "step")
    return _bisected(tested, high)


def model_guided(seed: float, tested: Sequence[TestLoad]) -> Pick | None:
    """Return the next load of Algorithm 4, predicted by R = a + b / load.

    Two loads teach the model: the current one, and of the others that whose response is
    nearest to the limit.
    """
    if not tested:
        return Pick(seed, "first")
    current = tested[-1]
    if len(tested) == 1:
        return _doubled_or_halved(current, "")
    nearest = min(tested[:-1], key=lambda load: abs(load.mean - load.limit))
    predicted = predicted_load(current, nearest)
    if predicted is None or _is_leap(predicted, tested):
        return _doubled_or_halved(current, ": the model is undefined")
    return Pick(predicted, "model")


def _is_leap(rate: float, tested: Sequence[TestLoad]) -> bool:
    """Tell whether a load is out of all proportion to those tested."""
    rates = [load.rate for load in tested]
    return rate > LEAP * max(rates) or rate < min(rates) / LEAP


def predicted_load(one: TestLoad, other: TestLoad) -> float | None:
    """Return the load at which R = a + b / load through two loads meets the limit [1/s].

    None where it meets it nowhere: equal loads or responses, a response that never
    ended, or an asymptote `a` on the wrong side of the limit.
    """
    if one.rate == other.rate or not math.isfinite(one.mean - other.mean):
        return None
    b = (one.mean - other.mean) / (1 / one.rate - 1 / other.rate)
    a = one.mean - b / one.rate
    if one.limit == a:
        return None
    load = b / (one.limit - a)
    return load if 0 < load < math.inf else None


def _doubled_or_halved(load: TestLoad, why: str) -> Pick:
    if load.saturated:
        return Pick(load.rate / 2, f"halve{why}")
    return Pick(load.rate * 2, f"double{why}")


def _last(tested: Sequence[TestLoad], *, saturated: bool) -> float | None:
    """Return the last load on one side: `binsearch_low` or `binsearch_high`."""
    rates = [load.rate for load in tested if load.saturated is saturated]
    return rates[-1] if rates else None


def _bisected(tested: Sequence[TestLoad], high: float) -> Pick | None:
    """Return the middle of the bracket; where no load held yet, a lower load.

    Downward the share of the first load is squared (1/2, 1/8, 1/128, ...): halving
    alone needs ten loads to the lowest rate, and a bisection from a load near 0 makes
    up for the larger step in one or two.
    """
    low = _last(tested, saturated=False)
    if low is None:
        return Pick(high * high / (2 * tested[0].rate), "descend")
    if high - low < CLOSED_SHARE * high:
        return None
    return Pick((low + high) / 2, "bisect")
