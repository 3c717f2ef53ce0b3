"""Binsearch with a stop rule that earns its confidence: what the published one costs so.

Same loads and trials as Algorithm 2 with Binsearch, but a load is the peak only if its
mean lies in the middle half of the region with an interval no wider than the other half:
half-width at most 5 % and mean within 38 to 42 ms for a limit of 40 ms and s = 10 %. Then
the interval lies in the region and looking again after every trial does little harm
(relative width of 5 %: Lavenberg and Sauer 1977). It is the yardstick of costs.
"""

from __future__ import annotations

from benchwright.control.peak.algorithm2 import OVERLAP_CONFIDENCE, Targets, Verdict
from benchwright.control.peak.reading import Reading, excess

MIDDLE = 0.5
"""Share of the region's half-width for the mean, and for the interval's half-width."""


def in_the_region(targets: Targets, found: Reading) -> Verdict:
    """Return PEAK only where the interval lies in the region, and is narrow."""
    if found.lost:
        return Verdict.MOVE_ON
    if len(found.values) < 2:
        return Verdict.MORE
    if not found.overlaps(targets.width, OVERLAP_CONFIDENCE):
        return Verdict.MOVE_ON
    narrow = MIDDLE * targets.width
    if 1 - found.accuracy(targets.confidence) > narrow:
        return Verdict.MORE
    past = excess(found.criterion, found.mean)
    return Verdict.PEAK if abs(past) <= narrow else Verdict.MOVE_ON
