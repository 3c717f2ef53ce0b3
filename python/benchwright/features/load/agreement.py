"""Whether instruments that measured the same thing at the same times agree: ranks within blocks.

Decision: within each block (an interval of a run) the instruments are ranked, so whatever changes
all of them from block to block has no effect, and no distribution is assumed. The sum of the ranks
of one instrument has an exact distribution if the instruments are exchangeable; with two
instruments it is the sign test. Rejected: a test of the pooled values, which depend on each other
within a run, so that it finds differences in every run.
Source: M. Friedman, The use of ranks to avoid the assumption of normality implicit in the analysis
of variance. JASA 32 (1937).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

_EXACT = 800
"""Most ranks whose sum has its exact distribution; the sum of more is normal."""


def rank_sum_p(ranks_twice: int, blocks: int, instruments: int) -> float:
    """Return the two-sided p-value of an instrument's sum of ranks, from 0 to 1.

    `ranks_twice`: twice the sum of its ranks (1 to `instruments`) over the blocks; doubled, because
    the ranks of equal values are means. Equal values make it conservative.
    """
    if blocks * instruments > _EXACT:
        away = abs(ranks_twice / 2 - blocks * (instruments + 1) / 2) - 0.5
        sd = math.sqrt(blocks * (instruments**2 - 1) / 12)
        return math.erfc(max(0.0, away) / sd / math.sqrt(2))
    counts = _sums(blocks, instruments)
    whole = sum(counts)
    # Index 0 is the smallest sum, in which every rank is 1.
    low = ranks_twice // 2 - blocks
    high = (ranks_twice + 1) // 2 - blocks
    # A half sum is as far from both neighbours: the larger tail is the conservative one.
    below = sum(counts[: high + 1])
    above = sum(counts[max(0, low) :])
    return min(1.0, 2 * min(below, above) / whole)


@functools.lru_cache(maxsize=64)
def _sums(blocks: int, instruments: int) -> list[int]:
    """Return how many of the equally likely outcomes have each sum of ranks, from the smallest."""
    counts = [1]
    for _ in range(blocks):
        longer = [0] * (len(counts) + instruments - 1)
        for place, count in enumerate(counts):
            for rank in range(instruments):
                longer[place + rank] += count
        counts = longer
    return counts


def ranks_twice_of(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share the mean of their ranks."""
    return [
        2 * sum(other < value for other in values) + sum(other == value for other in values) + 1
        for value in values
    ]


def odd_one_out(blocks: Sequence[Sequence[float]], level: float) -> tuple[int, float] | None:
    """Return the instrument that differs most from the others, and its p-value; None if none does.

    `blocks` has the values of all instruments in each block, shape `(n_blocks, n_instruments)`.
    `level` is that of the whole question: it is divided by the number of instruments. Of two, the
    one with the larger values counts as the one that differs.
    """
    if not blocks or len(blocks[0]) < 2:
        return None
    number = len(blocks[0])
    sums = [sum(column) for column in zip(*map(ranks_twice_of, blocks), strict=True)]
    middle = len(blocks) * (number + 1)
    most = max(range(number), key=lambda one: (abs(sums[one] - middle), sums[one]))
    p = rank_sum_p(sums[most], len(blocks), number)
    # The two sums of two instruments are one question.
    questions = number if number > 2 else 1
    return (most, p) if p * questions <= level else None
