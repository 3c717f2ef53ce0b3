"""Tests played to their stop: our rules, through `decide` itself, and the peers' rules.

Each player takes series of shape `(replications, length)` and the truth, and returns a
`Play`: the share of intervals that cover, and what they cost.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from benchwright.core.plan import RunMore, StopDecision, UntilPrecise, UntilPredicate
from benchwright.core.results import Estimate
from benchwright.decide.history import History
from benchwright.decide.stopping import decide
from benchwright.stats.intervals import t_quantile
from populations import Array

TARGET = 0.05
AUTO_PILOT = '("$delta" < 0.05 * $mean) || ($count > 30)'
"""Figure 1 of the paper."""


def rules(maximum: int) -> dict[str, UntilPrecise]:
    """Return our rules by their names in the tables, with a maximum of trials."""
    watch = UntilPrecise(TARGET, minimum=20, maximum=maximum, mode="watch")
    plan = UntilPrecise(TARGET, maximum=maximum)
    return {
        "plan mean": plan,
        "long plan mean": UntilPrecise(TARGET, long_minimum=10, maximum=maximum),
        "watch mean": watch,
        "plan median": msgspec.structs.replace(plan, share=0.5),
        "watch median": msgspec.structs.replace(watch, share=0.5),
        "plan p90": msgspec.structs.replace(plan, share=0.9),
        "watch p90": msgspec.structs.replace(watch, share=0.9),
    }


class Play(msgspec.Struct, frozen=True):
    """What a rule came to over many simulated tests."""

    coverage: float
    """Share of intervals that hold the true value."""
    trials: float
    """Mean number of trials."""
    answered: float
    """Share of tests that did not end at a limit."""


Player = Callable[[Array, float], Play]


def ours(rule: UntilPrecise, trial_ns: int = 0) -> Player:
    """Return a player of one of our rules; `trial_ns` is how long each trial takes."""

    def play(series: Array, truth: float) -> Play:
        ends = [stop_of(rule, one, trial_ns) for one in series]
        found = [stop.reached[0].estimate for stop, _ in ends]
        held = [one is not None and one.low <= truth <= one.high for one in found]
        return Play(
            float(np.mean(held)),
            float(np.mean([trials for _, trials in ends])),
            float(np.mean([stop.answered for stop, _ in ends])),
        )

    return play


def play_every(rule: UntilPrecise, series: Array) -> list[Estimate | None]:
    """Return the interval that each series' test ends with."""
    return [stop_of(rule, one)[0].reached[0].estimate for one in series]


def stop_of(rule: UntilPrecise, one: Array, trial_ns: int = 0) -> tuple[StopDecision, int]:
    """Return how a test of this series ends, and after how many trials, at most those of the
    series."""
    values = tuple(one.tolist())
    done = 0
    while True:
        history = History(
            done, series={"elapsed": values[:done]} if done else {}, duration_ns=done * trial_ns
        )
        step = decide(rule, history)
        if isinstance(step, RunMore) and done + step.epochs <= len(values):
            done += step.epochs
            continue
        assert isinstance(step, StopDecision), "the series is shorter than the rule's maximum"
        return step, done


def peer_auto_pilot(series: Array, truth: float) -> Play:
    """Auto-pilot's Figure 1: from 10 trials on, until the t interval is within 5 %."""
    return _first(series, truth, (10, 31), lambda mean, half: half < 0.05 * mean)


def peer_fixed_ten(series: Array, truth: float) -> Play:
    """hyperfine's default: ten trials; it prints no interval, Student's is given to it."""
    return _first(series, truth, (10, 10), lambda mean, half: half < 0)


def peer_small_deviation(series: Array, truth: float) -> Play:
    """`until sd < 3 %`, as Phoronix: from 3 trials on, at most 30."""
    n = np.arange(1, 31)

    def small(mean: Array, half: Array) -> Array:
        counts = n[2:]
        quantiles = np.array([t_quantile(0.95, int(k) - 1) for k in counts])
        return half * np.sqrt(counts) / quantiles < 0.03 * mean

    return _first(series, truth, (3, 30), small)


def _first(
    series: Array, truth: float, limits: tuple[int, int], holds: Callable[[Array, Array], Array]
) -> Play:
    """Stop each series at the first n within limits where `holds`, or at the last."""
    low, high = limits
    n = np.arange(1, high + 1)
    mean = np.cumsum(series[:, :high], axis=1) / n
    square = np.cumsum(series[:, :high] ** 2, axis=1) - n * mean**2
    counts = n[low - 1 :]
    quantiles = np.array([t_quantile(0.95, int(k) - 1) for k in counts])
    sdev = np.sqrt(np.maximum(square[:, low - 1 :], 0) / (counts - 1))
    half = quantiles * sdev / np.sqrt(counts)
    mean = mean[:, low - 1 :]
    stop = holds(mean, half)
    at = np.where(stop.any(axis=1), stop.argmax(axis=1), len(counts) - 1)
    rows = np.arange(len(series))
    held = np.abs(mean[rows, at] - truth) <= half[rows, at]
    return Play(held.mean(), counts[at].mean(), stop.any(axis=1).mean())


LEGACY = UntilPredicate(10, 1, AUTO_PILOT)
"""The same as `peer_auto_pilot`, for the test that the fast form is the real rule."""

PEERS = {
    "Auto-pilot": peer_auto_pilot,
    "fixed 10": peer_fixed_ten,
    "sd < 3 %": peer_small_deviation,
}
"""The peers' rules by their names in the tables."""


def table_cell(found: Play) -> str:
    """Return coverage and mean trials; the share that was answered where it is not all."""
    answered = (
        ""
        if found.answered > 0.9995 or not found.answered
        else (f", {found.answered:.0%} answered")
    )
    return f"{found.coverage:.1%} ({found.trials:.0f}{answered})"
