"""The truth that searches are compared with: fixed-rate runs on a ladder of rates. Pure.

Decision: what a server sustains on a machine that others use is no number, but a *region* of
rates: below it (nearly) all runs held, above it (nearly) all failed, inside they did both.
The runs at different rates are pooled as far as they contradict that more load is not faster
(isotonic regression: pool adjacent violators), and nothing else is assumed. So one run that
was disturbed does not move the region by a factor, and rates with mixed results are inside.

A search is judged by where its answer lies in this region.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

STEP = 1.05
"""From one rung of the ladder to the next: the width that a search claims by default."""
NEARLY_ALL = 0.85
"""Of the runs at a rate, or at rates that are pooled: all of up to six, all but one of seven."""
ENOUGH_RUNS = 2
"""So many runs at a bound of the region or beyond it show it: one that held is chance where the
next are late."""
RUNGS = 4
"""Rates of a round."""
SPREAD = (0.15, 0.4, 0.7, 1.0)
"""Rates of the first round, as shares of what a closed loop completed."""
CLAIMED = 1.05
"""An answer within this factor of the region is inside: `rate:5%` claims no more."""
FAR = 1.2
"""An answer that is off by more than this factor is counted as wrong."""


class Outcome(enum.StrEnum):
    """Of a run at a fixed rate."""

    HELD = "held"
    FAILED = "failed"
    LATE = "late"
    """A limit was exceeded by the lateness of the generator: no evidence about the server."""
    NONE = "none"
    """There is no result."""


class Run(NamedTuple):
    """A run at a fixed rate."""

    rate: float
    outcome: Outcome


class Pool(NamedTuple):
    """Neighbouring rates whose runs count together."""

    low: float
    high: float
    runs: int
    failed: int

    @property
    def share(self) -> float:
        """Share of the runs that failed."""
        return self.failed / self.runs

    def __add__(self, other: object) -> Pool:
        assert isinstance(other, Pool)
        runs, failed = self.runs + other.runs, self.failed + other.failed
        return Pool(self.low, other.high, runs, failed)


class Region(NamedTuple):
    """What the runs leave open."""

    low: float | None
    """The highest rate up to which (nearly) all runs held [1/s]; None: no rate held."""
    high: float | None
    """The lowest rate from which (nearly) all runs failed; None: no rate failed."""
    runs: int
    late: int
    """Runs that are no evidence, not in `runs`."""

    def factor_off(self, low: float | None, high: float | None) -> float:
        """Return the factor between an answer and the region, at least 1: an answer from `low` to
        `high`, where None is unbounded. A region that is open at a side contradicts nothing there.
        """
        below = self.low / high if self.low and high else 1.0
        above = low / self.high if self.high and low else 1.0
        return max(1.0, below, above)


def pools(runs: Iterable[Run]) -> list[Pool]:
    """Return the share of failed runs by rate, pooled so that it never falls with the rate."""
    counts: dict[float, Pool] = {}
    for rate, outcome in sorted(runs):
        if outcome in (Outcome.HELD, Outcome.FAILED):
            failed = int(outcome is Outcome.FAILED)
            one = Pool(rate, rate, 1, failed)
            counts[rate] = counts[rate] + one if rate in counts else one
    found: list[Pool] = []
    for one in counts.values():
        found.append(one)
        while len(found) > 1 and found[-2].share >= found[-1].share:
            last = found.pop()
            found[-1] = found[-1] + last
    return found


def region(runs: Sequence[Run], enough: int = ENOUGH_RUNS) -> Region:
    """Return the region that the runs leave open; at least `enough` runs show each of its bounds."""
    pooled = pools(runs)
    held = [one for one in pooled if one.share <= 1 - NEARLY_ALL and one.runs >= enough]
    failed = [one for one in pooled if one.share >= NEARLY_ALL and one.runs >= enough]
    return Region(
        low=_beyond(runs, Outcome.HELD, enough, at_most=held[-1].high) if held else None,
        high=_beyond(runs, Outcome.FAILED, enough, at_least=failed[0].low) if failed else None,
        runs=sum(one.runs for one in pooled),
        late=sum(run.outcome is Outcome.LATE for run in runs),
    )


def _beyond(
    runs: Sequence[Run],
    outcome: Outcome,
    enough: int,
    *,
    at_most: float = math.inf,
    at_least: float = 0.0,
) -> float:
    """Return the rate within limits at which, or beyond which, so many runs had an outcome."""
    rates = sorted(
        (run.rate for run in runs if run.outcome is outcome and at_least <= run.rate <= at_most),
        reverse=outcome is Outcome.HELD,
    )
    return rates[min(enough, len(rates)) - 1]


def is_open(runs: Sequence[Run]) -> bool:
    """Return whether more runs can give the region an end that it lacks: not where the generator is
    late."""
    now = region(runs)
    late = [run.rate for run in runs if run.outcome is Outcome.LATE]
    ends = now.high is not None or (now.low is not None and now.low < max(late, default=0.0))
    return now.low is None or not ends


def rung(rate: float) -> float:
    """Return the rate of the ladder that is next to a rate, with four significant digits."""
    number = round(math.log(rate) / math.log(STEP))
    return float(f"{STEP**number:.4g}")


def first_rates(capacity: float) -> list[float]:
    """Return the rates of the first round, by what a closed loop completed [1/s]."""
    return [rung(share * capacity) for share in SPREAD]


def next_rates(runs: Sequence[Run], chance: random.Random) -> list[float]:
    """Return the rates of the next round in random order: both bounds of the region, and rates
    inside it; beyond the runs as long as none held, or none failed."""
    now = region(runs, enough=1)
    rates = [run.rate for run in runs]
    lowest, highest = min(rates), max(rates)
    late = [run.rate for run in runs if run.outcome is Outcome.LATE]
    if now.low is None:
        top = now.high or lowest
        chosen = [rung(top / factor) for factor in (1, 2, 4, 8)]
    elif now.high is None and any(rate > now.low for rate in late):
        # The generator is late there: higher rates show no more.
        chosen = _between(now.low, min(rate for rate in late if rate > now.low), chance)
    elif now.high is None:
        chosen = [rung(highest * factor) for factor in (1, 1.25, 1.6, 2)]
    else:
        chosen = _between(now.low, now.high, chance)
    chosen = list(dict.fromkeys(chosen))
    chance.shuffle(chosen)
    return chosen


def _between(low: float, high: float, chance: random.Random) -> list[float]:
    """Return both ends and rungs between them; beside them where there is none between."""
    steps = round(math.log(high / low) / math.log(STEP))
    inside = range(1, steps)
    if not inside:
        return [rung(low / STEP), low, high, rung(high * STEP)]
    chosen = chance.sample(inside, min(RUNGS - 2, len(inside)))
    return [low, *(rung(low * STEP**step) for step in chosen), high]


class Answer(NamedTuple):
    """What a search says, as far as it is judged."""

    status: str
    peak: float | None
    low: float | None
    """Ends of its interval; None: unknown, or unbounded."""
    high: float | None
    serious: bool
    """Whether it has a finding that is serious."""
    bound: str | None = None
    """What `peak` is a bound of, `lower` or `upper`; None: it is an estimate."""

    @property
    def is_found(self) -> bool:
        """Whether it says that its claim holds."""
        return self.status == "found"

    @property
    def states(self) -> tuple[float | None, float | None]:
        """What it states about the peak rate, from and to: its answer if the claim holds, a bound,
        or else its interval."""
        if self.bound == "lower":
            return self.peak, None
        if self.bound == "upper":
            return None, self.peak
        if self.is_found:
            return self.peak, self.peak
        if self.low is None and self.high is None:
            return self.peak, self.peak
        return self.low, self.high


class Judged(NamedTuple):
    """A search beside the truth."""

    answer: Answer
    off: float
    """Factor between what it states and the region."""
    best_off: float
    """Factor between its best answer, however doubtful or only a bound, and the region."""

    @property
    def is_inside(self) -> bool:
        """Whether what it states is consistent with the region."""
        return self.off <= CLAIMED

    @property
    def is_wrong(self) -> bool:
        """Whether it states what is off by more than `FAR`, and no serious finding warns."""
        return self.off > FAR and not self.answer.serious


def judged(answer: Answer, truth: Region) -> Judged:
    """Return a search beside the truth."""
    best = truth.factor_off(answer.peak, answer.peak)
    return Judged(answer, truth.factor_off(*answer.states), best)
