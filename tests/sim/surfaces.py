"""Response surfaces whose peaks are known: a soft minimum of limits, with mild thrash.

A disk limit that grows with disks, a limit that grows with threads, and a network limit; the
least of them is the peak, rounded off where two are close. Threads beyond a number cost
something (thrash). Every parameter is drawn anew for a seed, so that nothing is tuned
to one surface. Shaped after figure 2 of the Workbench paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchwright.core.results import Estimate
from benchwright.features.search.surface.coding import candidates
from benchwright.features.search.surface.types import Factor, Sample, SampleResult, make_factor
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus

DISKS = ("1", "2", "3", "4")
NFSDS = ("1", "2", "4", "8", "16", "32", "64", "100")


class Bottlenecks(msgspec.Struct, frozen=True):
    """The limits of one server [1/s]."""

    disk: float
    """Of one disk."""
    disk_power: float
    """Of the number of disks."""
    thread: float
    """Of one thread."""
    network: float
    sharpness: float
    """How abruptly one limit takes over from another."""
    thrash_from: float
    """Threads."""
    thrash: float
    """Lost with each doubling beyond."""

    def peak(self, disks: float, threads: float) -> float:
        """Return the peak rate at a sample [1/s]."""
        limits = np.array([self.disk * disks**self.disk_power, self.thread * threads, self.network])
        least = float((limits**-self.sharpness).sum() ** (-1 / self.sharpness))
        over = max(0.0, float(np.log2(threads / self.thrash_from)))
        return least / (1 + self.thrash * over)


SURFACES = {
    "db": Bottlenecks(260, 0.9, 60, 3000, 4, 24, 0.12),
    "web": Bottlenecks(900, 0.6, 140, 2400, 4, 40, 0.08),
    "mail": Bottlenecks(400, 0.75, 380, 1500, 4, 32, 0.05),
}
_SPREADS = Bottlenecks(0.35, 0.15, 0.35, 0.35, 0.4, 0.4, 0.5)
"""Each parameter is multiplied by exp(U(-spread, spread))."""


def randomised(name: str, seed: int) -> Bottlenecks:
    """Return a surface with its parameters drawn around those of its name."""
    rng = np.random.default_rng((seed, sum(name.encode())))
    base = msgspec.structs.asdict(SURFACES[name])
    spreads = msgspec.structs.asdict(_SPREADS)
    drawn = {
        field: value * float(np.exp(rng.uniform(-spreads[field], spreads[field])))
        for field, value in base.items()
    }
    drawn["disk_power"] = min(1.0, drawn["disk_power"])
    return Bottlenecks(**drawn)


def factors() -> tuple[Factor, ...]:
    """Return the paper's two factors: 4 x 8 samples."""
    return make_factor("disks", DISKS), make_factor("nfsd", NFSDS)


def true_peaks(server: Bottlenecks) -> dict[Sample, float]:
    """Return the peak of every sample [1/s]."""
    return {
        sample: server.peak(float(sample[0][1]), float(sample[1][1]))
        for sample in candidates(factors())
    }


def measured_peaks(peaks: dict[Sample, float], noise: float, seed: int) -> dict[Sample, float]:
    """Return what a search would find at every sample: the peak with relative noise."""
    rng = np.random.default_rng((seed, 7))
    errors: NDArray[np.float64] = rng.normal(0, noise, len(peaks))
    return {
        sample: peak * float(np.exp(error))
        for (sample, peak), error in zip(peaks.items(), errors, strict=True)
    }


def searched(sample: Sample, rate: float, noise: float) -> SampleResult:
    """Return the result of a search that found a rate, with an interval of 95 %."""
    reach = float(np.exp(1.96 * noise))
    interval = Estimate(rate, rate / reach, rate * reach, 0.95, "simulated", 1, "1/s")
    found = ClaimResult(
        status=PeakStatus.FOUND,
        detail="simulated",
        claim=Claim(ClaimKind.RATE, 0.05),
        policy="simulated",
        peak_rate=rate,
        interval=interval,
        cost_s=600.0,
        load_s=570.0,
        trials=8,
    )
    return SampleResult(sample, found)


def ending(
    sample: Sample,
    status: PeakStatus,
    rate: float | None,
    ends: tuple[float, float] | None = None,
    bound: Literal["lower", "upper"] | None = None,
) -> SampleResult:
    """Return the result of a search that ended in this way; `ends`: of its interval."""
    interval = None
    if rate is not None and ends is not None:
        interval = Estimate(rate, *ends, 0.95, "simulated", 1, "1/s")
    found = ClaimResult(
        status=status,
        detail="it said so",
        claim=Claim(),
        policy="simulated",
        peak_rate=rate,
        interval=interval,
        bound=bound,
        cost_s=5.0,
        load_s=5.0,
        trials=1,
    )
    return SampleResult(sample, found)


def searched_all(
    samples: Sequence[Sample], rates: dict[Sample, float], noise: float
) -> tuple[SampleResult, ...]:
    """Return the results of searches at several samples."""
    return tuple(searched(sample, rates[sample], noise) for sample in samples)
