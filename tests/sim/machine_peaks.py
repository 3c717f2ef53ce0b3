"""The true peak of a server on a machine: what an answer is judged by.

The generator's own lateness is no part of the truth. Where the server alone is disturbed, its peak
is that of the server as slowed; where both stop together, the range from what a client elsewhere
would see (the server's gaps alone) to what the server does with the operations as they come to it.
Where the speed moves during a search, it is the range of the peaks meanwhile.

Peaks under gaps are measured by long runs at fixed rates, all with the same random numbers, and
kept in machine_peaks.json: `python tests/sim/machine_peaks.py [--servers a,b] [--machines x,y]`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from benchwright.core.criterion import Criterion
from benchwright.features.load.criteria import within_ns
from held_out import BY_NAME
from machine import BY_MACHINE, Machine
from queues import Times
from servers import SimServer
from world import State, simulate

STORED = Path(__file__).with_name("machine_peaks.json")
SEED = 20_261_129
RUNS = 4
RUN_S, SETTLE_S = 1000.0, 100.0
MOST_OPERATIONS = 220_000
"""In one run, of a server that is fast."""
STEPS = 11
"""Halvings of the range in which the peak is sought, on a logarithmic scale."""
LOWEST, HIGHEST = 0.02, 1.1
"""That range, in units of the peak on a calm machine."""
MOMENTS = 60
IMPOSSIBLE = 1e6
"""The factor of any rate where the criteria hold at none: finite, so that JSON keeps it."""


class PeakRange(msgspec.Struct, frozen=True):
    """The lowest and the highest of a server's true peaks during a search [1/s]."""

    low: float
    high: float

    def factor(self, rate: float) -> float:
        """Return by what factor a rate is outside; 1 inside."""
        above = rate / self.high if self.high else IMPOSSIBLE
        return max(above, self.low / rate, 1.0)

    def nearest(self, rate: float) -> float:
        """Return the peak nearest to a rate [1/s]."""
        return min(max(rate, self.low), self.high)

    def error(self, rate: float) -> float:
        """Return a rate's relative distance from the nearest peak."""
        nearest = self.nearest(rate)
        return rate / nearest - 1 if nearest else IMPOSSIBLE

    def scale(self, server: SimServer, rate: float) -> float:
        """Return the factor from a rate here to a rate as far from the peak on a calm machine."""
        nearest = self.nearest(rate)
        return server.peak_rate / nearest if nearest else IMPOSSIBLE

    def with_others(self, other: PeakRange) -> PeakRange:
        """Return the range that includes both."""
        return PeakRange(min(self.low, other.low), max(self.high, other.high))


def peak_range(server: SimServer, machine: Machine, seed: int, lasts_s: float) -> PeakRange:
    """Return the peaks of a server during a search of `lasts_s` on a machine."""
    calm = PeakRange(server.peak_rate, server.peak_rate)
    if machine.loses or machine.wave:
        paces = machine.pace(np.linspace(0.0, lasts_s, MOMENTS))
        peaks = [peak_at_pace(server, float(pace)) for pace in {*paces.tolist()}]
        return PeakRange(min(peaks), max(peaks))
    if machine.neighbour is not None:
        here = machine.neighbour.here(seed, 0.0, lasts_s)
        there = here.around(np.linspace(0.0, lasts_s, 10 * MOMENTS))
        disturbed = stored_range(server, machine)
        if not there.any():
            return calm
        return disturbed if there.all() else calm.with_others(disturbed)
    return stored_range(server, machine) if needs_runs(machine) else calm


def needs_runs(machine: Machine) -> bool:
    """Return whether the peak is known by long runs only."""
    parts = machine.server, machine.both, machine.neighbour, machine.shared
    return any(part is not None for part in parts)


def peak_at_pace(server: SimServer, pace: float) -> float:
    """Return the peak of a server whose speed is `pace` of its own [1/s].

    In its own time, the rate is 1 / pace of what it is, and so is the limit of a time.
    """
    limit = server.binding.limit
    if server.binding.unit == "ms":
        limit *= pace
    low, high = 0.3 * server.peak_rate, server.peak_rate
    for _ in range(50):
        middle = math.sqrt(low * high)
        if server.response(middle) <= limit:
            low = middle
        else:
            high = middle
    return pace * low


# Measured peaks ---------------------------------------------------------------------


def stored_range(server: SimServer, machine: Machine) -> PeakRange:
    """Return what was measured."""
    key = f"{server.name}@{machine.name}"
    stored = _stored()
    assert key in stored, (
        f"run tests/sim/machine_peaks.py --servers {server.name} --machines {machine.name}"
    )
    return PeakRange(*stored[key])


@functools.cache
def _stored() -> dict[str, tuple[float, float]]:
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def measured_range(server: SimServer, machine: Machine) -> PeakRange:
    """Return the range of the peaks by long runs at fixed rates."""
    machine = while_there(machine)
    shared = machine.shared and replace(machine.shared, generator=None)
    outside = replace(
        machine, generator=None, server=machine.server or machine.both, both=None, shared=shared
    )
    peak = measured_peak(server, outside)
    if machine.both is None:
        return PeakRange(peak, peak)
    # Both stop together: no response is read late, because none comes in a gap.
    own = measured_peak(server, machine)
    return PeakRange(min(peak, own), max(peak, own))


def measured_peak(server: SimServer, machine: Machine) -> float:
    """Return the highest rate at which long runs hold the criteria, as the target does [1/s]; 0 if
    none does."""
    low, high = LOWEST * server.peak_rate, HIGHEST * server.peak_rate
    if not _holds(server, machine, low):
        return 0.0
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        if _holds(server, machine, middle):
            low = middle
        else:
            high = middle
    return float(f"{low:.5g}")


def _holds(server: SimServer, machine: Machine, rate: float) -> bool:
    """Return whether the mean of long runs' values holds every criterion."""
    run_s = min(RUN_S, MOST_OPERATIONS / rate)
    values = []
    for number in range(RUNS):
        run = simulate(server, rate, run_s, State(SEED, number), machine)
        settled = run.arrivals >= min(SETTLE_S, run_s / 5)
        responses = run.target_responses[settled]
        values.append([_value(c, responses) for c in server.criteria])
    means = np.mean(values, axis=0)
    return all(c.holds(float(mean)) for c, mean in zip(server.criteria, means, strict=True))


def _value(criterion: Criterion, responses: Times) -> float:
    """Return a criterion's value, as a trial has it."""
    if criterion.statistic == "ratio":
        return float(np.isnan(responses).mean())
    if criterion.statistic == "share":
        limit_ns = within_ns(criterion)
        assert limit_ns is not None
        return float((responses <= limit_ns / 1e9).mean())
    if criterion.statistic == "percentile":
        return float(1000 * np.nanquantile(responses, criterion.share or 0.5))
    return float(1000 * np.nanmean(responses))


def while_there(machine: Machine) -> Machine:
    """Return a machine whose neighbour never leaves."""
    neighbour = machine.neighbour
    if neighbour is None:
        return machine
    return Machine(machine.name, neighbour.generator, neighbour.server)


def main() -> None:
    """Measure what is named, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default=",".join(BY_NAME), help="by commas")
    parser.add_argument("--machines", default=",".join(BY_MACHINE), help="by commas")
    parser.add_argument("--missing", action="store_true", help="only what is missing")
    asked = parser.parse_args()
    for machine in map(BY_MACHINE.__getitem__, asked.machines.split(",")):
        for server in map(BY_NAME.__getitem__, asked.servers.split(",")):
            key = f"{server.name}@{machine.name}"
            stored = json.loads(STORED.read_text()) if STORED.exists() else {}
            if not needs_runs(machine) or (asked.missing and key in stored):
                continue
            found = measured_range(server, machine)
            stored = json.loads(STORED.read_text()) if STORED.exists() else {}
            stored[key] = (found.low, found.high)
            print(key, server.peak_rate, found, flush=True)
            STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
