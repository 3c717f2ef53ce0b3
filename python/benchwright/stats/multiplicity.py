"""P-values adjusted for how many there are.

Purpose: with many comparisons some are significant by chance. Decision: Holm where one
false alarm is one too many (a gate that may fail a build), because it bounds the chance
of any; Benjamini and Hochberg in a table to read, because it bounds the share of false
ones among those that are found and finds more. Bonferroni lost to Holm, which is never
worse. Non-goals: Dunnett's test, confidence intervals that hold together.
Sources: S. Holm 1979, Scandinavian Journal of Statistics 6(2); Y. Benjamini and
Y. Hochberg 1995, Journal of the Royal Statistical Society B 57(1).
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted P-values, in the order given; each in 0 .. 1.

    Called significant where they are at most a, the chance of any false one is at most
    a, however the P-values depend on each other.
    """
    count, largest = len(p), 0.0
    adjusted = [0.0] * count
    for rank, place in enumerate(sorted(range(count), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (count - rank) * p[place]))
        adjusted[place] = largest
    return tuple(adjusted)


def benjamini_hochberg(p: Sequence[float]) -> tuple[float, ...]:
    """Return Benjamini and Hochberg's adjusted P-values, in the order given.

    Called significant where they are at most a, the expected share of false ones among
    them is at most a, for P-values that are independent or positively dependent.
    """
    count, smallest = len(p), 1.0
    adjusted = [0.0] * count
    order = sorted(range(count), key=lambda i: p[i])
    for rank, place in reversed(list(enumerate(order, 1))):
        smallest = min(smallest, p[place] * count / rank)
        adjusted[place] = smallest
    return tuple(adjusted)
