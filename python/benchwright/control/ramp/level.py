"""From the trials of a level to its throughput with an interval.

Purpose: two kinds of noise in one interval: within a run, which its series tells, and between
runs (placement, cache, neighbours), which only repetitions tell. The second is taken to be
the same share of the throughput at every level, so that a few repetitions anywhere serve
all levels. Decision: one pooled variance; t on two runs of each level lost, whose
intervals are 13 standard errors wide.
Source: R. DerSimonian and N. Laird 1986, Controlled Clinical Trials 7(3), for the moment
estimator; F. Satterthwaite 1946, Biometrics Bulletin 2(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.control.ramp.flow import Flow
from benchwright.model.estimate import Estimate
from benchwright.stats.students_t import t_quantile

_MANY = 10**6


class Between(msgspec.Struct, frozen=True):
    """What differs between runs of one level."""

    variance: float
    """Relative, of one run, beyond what is within it; 0 where nothing is seen of it."""
    degrees: int
    """Repetitions that it is from; 0: it is unknown."""


class Level(msgspec.Struct, frozen=True):
    """The runs of one level, and what is known of its throughput."""

    level: float
    flows: tuple[Flow, ...]
    variance: float | None
    """Relative, of the level's mean; None: nothing tells the noise."""
    degrees: int

    @property
    def throughput(self) -> float:
        """The runs' mean [1/s]."""
        return sum(flow.throughput for flow in self.flows) / len(self.flows)

    def estimate(self, confidence: float) -> Estimate:
        """Return the throughput with its interval; its ends are NaN without a variance,
        and of a throughput of 0: the noise is known as a share of it."""
        middle = self.throughput
        low = high = math.nan
        if self.variance is not None and middle > 0:
            t = t_quantile(confidence, self.degrees)
            factor = math.exp(min(t * math.sqrt(self.variance), 700.0))
            low, high = middle / factor, middle * factor
        repeated = len(self.flows) > 1
        method = "long-run and between runs" if repeated else "long-run"
        return Estimate(middle, low, high, confidence, method, len(self.flows), "1/s")


def levels_of(flows: Sequence[Flow]) -> list[Level]:
    """Return the levels in rising order; the flows are of all trials that went well."""
    by_level: dict[float, list[Flow]] = {}
    for flow in flows:
        by_level.setdefault(flow.level, []).append(flow)
    between = between_runs(list(by_level.values()))
    return [_level(by_level[level], between) for level in sorted(by_level)]


def between_runs(groups: Sequence[Sequence[Flow]]) -> Between:
    """Return the variance between runs, pooled over the levels that were repeated."""
    squares = within = 0.0
    degrees = 0
    for group in groups:
        logs = [math.log(flow.throughput) for flow in group if flow.throughput > 0]
        if len(logs) < 2:
            continue
        middle = sum(logs) / len(logs)
        squares += sum((one - middle) ** 2 for one in logs)
        within += (len(logs) - 1) * (_within(group) or 0.0)
        degrees += len(logs) - 1
    if not degrees:
        return Between(0.0, 0)
    return Between(max(squares - within, 0.0) / degrees, degrees)


def _within(group: Sequence[Flow]) -> float | None:
    """Return the mean variance within a run; None where a run does not tell."""
    known = [flow.variance for flow in group if flow.variance is not None]
    return sum(known) / len(known) if len(known) == len(group) else None


def _level(group: Sequence[Flow], between: Between) -> Level:
    runs = len(group)
    inside = _within(group)
    if inside is None and not between.degrees:
        return Level(group[0].level, tuple(group), None, 0)
    own = (inside or 0.0) / runs
    other = between.variance / runs
    parts = [(own, sum(f.degrees for f in group)), (other, between.degrees)]
    return Level(group[0].level, tuple(group), own + other, _degrees(parts))


def _degrees(parts: Sequence[tuple[float, int]]) -> int:
    """Return Satterthwaite's degrees of freedom of a sum of variances, rounded down."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts if degrees)
    if not below:
        return max(degrees for _, degrees in parts)
    return max(1, min(int(total**2 / below), _MANY))
