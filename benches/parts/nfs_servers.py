"""Simulated NFS servers for the workbench paper's figures: 4 disks x 8 nfsd, three workloads.

The peak of each of the 32 samples is a surface (the least of a disk, a thread and a network
limit, with mild thrash; tests/sim/surfaces.py); the server there is an M/M/c with as many
servers as disks can be kept busy by its threads, and the service time that puts its mean
response of 40 ms at that peak. So the true peak is exact, and every curve is a queue's.
The levels are chosen after figures 2 and 5 of the Workbench paper, which has no table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from benchwright.features.search.surface.coding import candidates
from benchwright.features.search.surface.types import Factor, Sample
from servers import SimServer, queue_with_peak
from surfaces import Bottlenecks, factors

WORKLOADS = {
    "DB_TP": Bottlenecks(132, 0.9, 60, 900, 4, 24, 0.05),
    "Web server": Bottlenecks(420, 0.55, 150, 1000, 4, 40, 0.04),
    "Mail": Bottlenecks(160, 0.75, 420, 600, 4, 32, 0.03),
}
"""Of DB_TP the disks count most, of the Web server threads and the network."""
FACTORS = factors()
SAMPLES = candidates(FACTORS)


def sample_of(disks: int, nfsd: int) -> Sample:
    """Return a sample by its levels."""
    return (("disks", str(disks)), ("nfsd", str(nfsd)))


class Peaks(NamedTuple):
    """The peaks of all samples of a workload, simulated or measured."""

    name: str
    factors: tuple[Factor, ...]
    rates: Mapping[Sample, float]
    """Of every sample [1/s]."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, in the order of the factors' levels."""
        return tuple(self.rates)

    def server(self, sample: Sample) -> SimServer:
        """Return a simulated server with the peak of a sample."""
        disks, threads = (int(dict(sample)[name]) for name in self._counted)
        station = queue_with_peak(min(disks, threads), self.rates[sample])
        return SimServer(f"{self.name} {disks}x{threads}", station)

    @property
    def _counted(self) -> tuple[str, str]:
        names = [factor.name for factor in self.factors]
        return names[0], names[1]


@functools.cache
def simulated(workload: str) -> Peaks:
    """Return the peaks of one of `WORKLOADS`."""
    surface = WORKLOADS[workload]
    rates = {sample: surface.peak(*(int(level) for _, level in sample)) for sample in SAMPLES}
    return Peaks(workload, FACTORS, rates)


@functools.cache
def server(workload: str, sample: Sample) -> SimServer:
    """Return the simulated server of a workload at a sample."""
    return simulated(workload).server(sample)
