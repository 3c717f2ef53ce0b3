"""The simulated servers with known peak rates that every policy is judged on.

A server is a station, its arrivals and its weather, with the criteria it is searched under.
Its true curve is a closed form, or was measured once by a long simulation
(measure_curves.py -> curves.json, with standard errors). A to D are those of
reference/peak.md, section 5. The held-out ones are in held_out.py.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from queues import Times
from stations import Queue, Refusing, Station
from weather import Weather
from work import Exponential, Lognormal

from benchwright.model.peak import Claim, Criterion, PeakGoal

CURVES = Path(__file__).with_name("curves.json")
MEAN = "response_ms_mean"
R_SAT = Criterion(key=MEAN, limit=40.0)


@dataclass(frozen=True)
class Bursty:
    """Poisson arrivals whose rate switches between two levels (a two-state MMPP)."""

    high: float
    """Relative to the mean rate; the low level makes the mean one."""
    share: float
    """Of time at the high level."""
    burst_s: float
    """Mean length of a stay at the high level."""

    def times(self, random: Generator, rate: float, lasts_s: float) -> Times:
        """Return arrivals in [0, lasts_s)."""
        stays = [self.burst_s, self.burst_s * (1 - self.share) / self.share]
        pace = [self.high, (1 - self.share * self.high) / (1 - self.share)]
        state = int(random.random() >= self.share)
        edges, work = [0.0], [0.0]
        while edges[-1] < lasts_s:
            stay = stays[state] * random.standard_exponential()
            edges.append(edges[-1] + stay)
            work.append(work[-1] + stay * pace[state])
            state = 1 - state
        end = float(np.interp(lasts_s, edges, work))
        return np.interp(Poisson().times(random, rate, end), work, edges)


@dataclass(frozen=True)
class Poisson:
    """Memoryless arrivals."""

    def times(self, random: Generator, rate: float, lasts_s: float) -> Times:
        """Return arrivals in [0, lasts_s)."""
        n = int(rate * lasts_s + 6 * math.sqrt(rate * lasts_s) + 20)
        times = np.cumsum(random.standard_exponential(n)) / rate
        while times[-1] < lasts_s:
            more = np.cumsum(random.standard_exponential(n)) / rate
            times = np.concatenate((times, times[-1] + more))
        return times[: np.searchsorted(times, lasts_s)]


@dataclass(frozen=True)
class Curve:
    """A measured curve of the binding criterion around the peak."""

    rates: tuple[float, ...]
    values: tuple[float, ...]
    peak_rate: float
    peak_rate_se: float
    """Standard error of the peak [1/s]."""

    def value(self, rate: float) -> float:
        """Return the criterion's value; linear in its reciprocal, also beyond the ends."""
        x, y = np.asarray(self.rates), 1 / np.asarray(self.values)
        k = int(np.clip(np.searchsorted(x, rate) - 1, 0, x.size - 2))
        line = y[k] + (y[k + 1] - y[k]) * (rate - x[k]) / (x[k + 1] - x[k])
        return float(1 / line) if line > 0 else math.inf


@dataclass(frozen=True)
class SimServer:
    """A server in virtual time, with what is to be found."""

    name: str
    station: Station
    weather: Weather = Weather()
    arrivals: Poisson | Bursty = Poisson()
    criteria: tuple[Criterion, ...] = (R_SAT,)
    binding: Criterion = R_SAT
    """The one that limits."""
    start_rate: float = 50.0
    """Where a search without knowledge begins [1/s]."""
    stationary: bool = True
    """Whether there is a steady state, the same in all trials: coverage is promised."""
    finding: str | None = None
    """What must be said of it: codes, any of them, separated by `|`."""

    @functools.cached_property
    def curve(self) -> Curve | None:
        """The measured curve; None where the closed form serves."""
        return measured_curves().get(self.name)

    def response(self, rate: float) -> float:
        """Return the true steady value of the binding criterion, in its unit."""
        exact = self.exact(rate)
        if exact is not None:
            return exact
        assert self.curve is not None, f"run measure_curves.py for {self.name}"
        return self.curve.value(rate)

    def exact(self, rate: float) -> float | None:
        """Return the closed form's value; None where there is none."""
        poisson = isinstance(self.arrivals, Poisson)
        weather = self.weather
        if not poisson or weather.slow or weather.between or weather.stall_s:
            return None
        if self.binding.statistic == "ratio" and isinstance(self.station, Refusing):
            return self.station.error_ratio(rate)
        if self.binding.key != MEAN:
            return None
        response = self.station.response_s(rate)
        return None if response is None else 1000 * response

    @functools.cached_property
    def peak_rate(self) -> float:
        """The highest rate at which the criteria hold [1/s]."""
        if self.exact(self.start_rate) is None:
            assert self.curve is not None, f"run measure_curves.py for {self.name}"
            return self.curve.peak_rate
        low, high = self.start_rate, 1e7
        for _ in range(200):
            middle = math.sqrt(low * high)
            if self.binding.holds(self.response(middle)):
                low = middle
            else:
                high = middle
        return low

    def goal(self, claim: Claim | None = None, unit: float = 1.0) -> PeakGoal:
        """Return the goal of a search; unit: factor on the rate it starts at."""
        start = float(f"{self.start_rate * unit:.5g}")
        return PeakGoal(
            criteria=self.criteria, claim=claim or Claim(), start_rate=start
        )


@functools.cache
def measured_curves() -> dict[str, Curve]:
    """Return the curves of curves.json by server."""
    if not CURVES.exists():
        return {}
    read = json.loads(CURVES.read_text())
    return {
        name: Curve(
            tuple(c["rates"]), tuple(c["values"]), c["peak_rate"], c["peak_rate_se"]
        )
        for name, c in read.items()
    }


LOGNORMAL_15 = Lognormal(0.015, 1.5)
MM4 = Queue(4, Exponential(0.015))

A = SimServer("A-mm4", MM4)
B = SimServer("B-mg1", Queue(1, Lognormal(0.005, 1.5)))
C = SimServer(
    "C-mg4-cold-slow",
    Queue(4, LOGNORMAL_15),
    Weather(cold=0.15, slow=0.01, between=0.01),
)
D = SimServer("D-mm2-elastic", Queue(2, Exponential(0.003)))

SERVERS: tuple[SimServer, ...] = (A, B, C, D)
BY_NAME = {server.name: server for server in SERVERS}
