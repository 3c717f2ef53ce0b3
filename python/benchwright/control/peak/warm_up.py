"""How long a server warms up: a slowness that fades, fitted to all runs at once.

Purpose: the seconds to leave out of every run. Where a warm-up shows is not at the peak,
where one run's bins differ by more than it does, but under overload (what is completed each
second) and at low load (the response): both are scaled to one level, and
slowness(t) = a exp(-t/tau) is fitted by weighted least squares for each of a few tau.
Decision: a test with a high threshold. MSER, which the literature prefers, lost: it cuts where
the rest has least variance, so it cuts high beginnings of clean runs: bias of 2 to 4 % of
the response at the peak on servers without any warm-up (measured).
Source: K. White 1997, Simulation 69(6) (MSER); P. Welch 1983 (averaging over runs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from benchwright.control.peak.curve import FloatArray

LEAST_S = 2.0
"""Always left out: the empty server's first moments [s]."""
ALWAYS = 0.12
"""Share of every run that is left out, seen or not: a warm-up of 15 % over 8 s is seen in
three searches of four, and unseen it moves the answer by 2 %."""
MOST_S = 40.0
FADES_S = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Time constants that are tried [s]."""
SURELY = 2.2
"""Standard errors at which a warm-up is believed: a false one only costs some seconds."""
HARMLESS = 0.01
"""Slowness that may stay in a run's first kept second."""


class Ageing(msgspec.Struct, frozen=True):
    """How slow a server was at each age, in one run; columns `(n,)`."""

    age_s: FloatArray
    slowness: FloatArray
    """Time per operation over its mean in the run, or the same of a response."""
    variance: float
    """Of one slowness, correlation included."""


class WarmUp(msgspec.Struct, frozen=True):
    """What is left out of every run, and why."""

    lasts_s: float = LEAST_S
    slowness: float = 0.0
    """At first, as a share; 0: none was seen."""
    fades_s: float = 0.0


def warm_up(runs: Sequence[Ageing]) -> WarmUp:
    """Return the warm-up that the runs show, or only the least."""
    found = WarmUp()
    surest = SURELY
    for fades_s in FADES_S:
        top, bottom = 0.0, 0.0
        for run in runs:
            shape = np.exp(-run.age_s / fades_s)
            shape = shape - shape.mean()
            top += float(shape @ run.slowness) / run.variance
            bottom += float(shape @ shape) / run.variance
        if bottom <= 0:
            continue
        slowness, sureness = top / bottom, top / math.sqrt(bottom)
        if sureness > surest:
            surest = sureness
            lasts_s = fades_s * math.log(max(slowness, HARMLESS) / HARMLESS)
            found = WarmUp(min(max(lasts_s, LEAST_S), MOST_S), slowness, fades_s)
    return found
