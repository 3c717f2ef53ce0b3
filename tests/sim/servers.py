"""The simulated servers with known peak rates that every policy is judged on.

A server is a station, its arrivals and its speed profile, with the criteria it is searched under.
Its true curve is a closed form, or was measured once by a long simulation
(measure_curves.py -> curves.json, with standard errors). A to D came
first. The held-out ones are in held_out.py.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from arrivals import Bursty, Poisson
from benchwright.core.criterion import Criterion
from benchwright.features.search.types import Claim, PeakGoal
from curves import Curve, measured_curves
from speed_profiles import SpeedProfile
from stations import (
    Batching,
    Growing,
    Queue,
    Refusing,
    Sharing,
    Station,
    Streaming,
    Thrashing,
    Throttled,
    waiting_share,
)
from work import BoundedPareto, Erlang, Exponential, Hyperexponential, Lognormal

MEAN = "response_ms_mean"
R_SAT = Criterion(key=MEAN, limit=40.0)
CONSTANT = SpeedProfile()
POISSON = Poisson()


@dataclass(frozen=True)
class SimServer:
    """A server in virtual time, with what is to be found."""

    name: str
    station: Station
    speed: SpeedProfile = CONSTANT
    arrivals: Poisson | Bursty = POISSON
    criteria: tuple[Criterion, ...] = (R_SAT,)
    """The last one is the one that limits."""
    start_rate: float = 50.0
    """Where a search without knowledge begins [1/s]."""
    stationary: bool = True
    """Whether there is a steady state, the same in all trials: coverage is promised."""
    finding: str | None = None
    """What must be said of it: codes, any of them, separated by `|`."""

    @property
    def binding(self) -> Criterion:
        """The criterion that limits."""
        return self.criteria[-1]

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
        """Return the closed form's value; None where there is none.

        A cold start passes, and a drift has hardly begun: neither is in it.
        """
        profile = self.speed
        if not isinstance(self.arrivals, Poisson) or not profile.settles:
            return None
        if self.binding.statistic == "ratio":
            refusing = isinstance(self.station, Refusing)
            return self.station.error_ratio(rate) if refusing else None
        if self.binding.statistic == "percentile":
            return None if isinstance(self.station, Streaming) else self._percentile_ms(rate)
        response_s = self.station.response_s(rate)
        return None if response_s is None else 1000 * response_s

    def _percentile_ms(self, rate: float) -> float:
        """Return the percentile of an M/M/c: an exponential work after no wait or an exponential
        one."""
        station = self.station
        assert isinstance(station, Queue)
        assert isinstance(station.work, Exponential)
        assert self.binding.share is not None
        load = rate * station.work.mean_s
        if load >= station.servers:
            return math.inf
        work = 1 / station.work.mean_s
        drain = station.servers * work - rate
        waits = waiting_share(station.servers, load)

        def beyond(time_s: float) -> float:
            alone, queued = math.exp(-work * time_s), math.exp(-drain * time_s)
            if math.isclose(work, drain):
                return (1 - waits) * alone + waits * alone * (1 + work * time_s)
            both = (work * queued - drain * alone) / (work - drain)
            return (1 - waits) * alone + waits * both

        low, high = 0.0, 100 * (1 / work + 1 / drain)
        for _ in range(100):
            middle = (low + high) / 2
            if beyond(middle) > 1 - self.binding.share:
                low = middle
            else:
                high = middle
        return 1000 * low

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
        return PeakGoal(criteria=self.criteria, claim=claim or Claim(), start_rate=start)


DRIFT = "drift"
NON_MONOTONIC = "response-not-monotonic"
KINK = "throughput-drops-under-overload"
STALLS = "server-stalls"
CONTRARY = "short-runs-contradict"
SHEDS = "sheds-load"

ERRORS = Criterion(key="error_ratio", limit=0.001, unit="", statistic="ratio")
P95 = Criterion(key="response_ms_p95", limit=100.0, statistic="percentile", share=0.95)
FAST_MEAN = Criterion(key=MEAN, limit=0.2)
FIRST_P95 = Criterion(key="first_ms_p95", limit=250.0, statistic="percentile", share=0.95)
TPOT_P95 = Criterion(key="tpot_ms_p95", limit=22.0, statistic="percentile", share=0.95)

MM4 = Queue(4, Exponential(0.015))
PARETO = BoundedPareto(0.005, 1.5, 300.0)

A = SimServer("A-mm4", MM4)
B = SimServer("B-mg1", Queue(1, Lognormal(0.005, 1.5)))
C = SimServer(
    "C-mg4-cold-slow",
    Queue(4, Lognormal(0.015, 1.5)),
    SpeedProfile(cold=0.15, slow=0.01, between=0.01),
)
D = SimServer("D-mm2-elastic", Queue(2, Exponential(0.003)))

TAILS = (
    SimServer("mg1-heavy", Queue(1, PARETO)),
    SimServer("mg4-heavy", Queue(4, BoundedPareto(0.015, 1.5, 300.0))),
    SimServer("mh3", Queue(3, Hyperexponential(0.006, 3.0))),
    SimServer("mg1-light", Queue(1, Erlang(0.005, 4))),
    SimServer("sharing", Sharing(1, Lognormal(0.005, 4.0))),
    SimServer("mm1-p95", Queue(1, Exponential(0.005)), criteria=(P95,)),
)
NOISES = (
    SimServer("cold", MM4, SpeedProfile(cold=0.25, cold_s=10.0)),
    SimServer(
        "mm8-cold-per-trial",
        Queue(8, Exponential(0.020)),
        SpeedProfile(cold=0.12, cold_s=6.0, between=0.01),
    ),
    SimServer("slow-noise", MM4, SpeedProfile(slow=0.01)),
    SimServer("per-trial", MM4, SpeedProfile(between=0.01)),
)
SIZES = (
    SimServer("flat", Queue(50, Exponential(0.030)), start_rate=350.0),
    SimServer("fast", Queue(4, Exponential(70e-6)), criteria=(FAST_MEAN,), start_rate=12e3),
    SimServer("steep", Queue(2, Exponential(0.0015)), start_rate=100.0),
    SimServer("thrash", Thrashing(4, Exponential(0.015), 200, 2.0)),
)
ODD = (
    SimServer("kink", Growing(4, 0.012, 200.0, 3.0), finding=KINK),
    SimServer(
        "shedding",
        Refusing(8, 0.002, 24),
        criteria=(R_SAT, ERRORS),
        start_rate=700.0,
        finding=SHEDS,
    ),
    SimServer("stalls", MM4, SpeedProfile(stall_s=0.3), stationary=False, finding=STALLS),
    SimServer(
        "stalls-rare",
        Queue(4, Exponential(0.008)),
        SpeedProfile(stall_s=0.8, stall_every_s=30.0),
        stationary=False,
        finding=f"{STALLS}|{CONTRARY}",
    ),
    SimServer("drift", MM4, SpeedProfile(drift_per_minute=0.005), stationary=False, finding=DRIFT),
    SimServer("batching", Batching(4, 0.030, 0.002, Exponential(0.002)), finding=NON_MONOTONIC),
)

WALLS = (
    SimServer("wall", Throttled(1500.0, Exponential(0.002)), start_rate=200.0),
    SimServer("wall-cache", Throttled(1000.0, Exponential(0.0005), 0.67), start_rate=200.0),
)
"""As NFS servers whose disk is limited in operations per second."""

SERVERS: tuple[SimServer, ...] = (A, B, C, D, *TAILS, *NOISES, *SIZES, *ODD, *WALLS)
"""What policies may be tuned on; held_out.py has the others."""


def p99(limit_ms: float) -> Criterion:
    """Return the criterion that 99 % of the responses are at most so long."""
    return Criterion(key="response_ms_p99", limit=limit_ms, statistic="percentile", share=0.99)


LIKE_REAL = (
    SimServer("like-postgres", Queue(8, Exponential(8 / 25_300)), criteria=(p99(20.0),)),
    SimServer("like-nginx", Queue(2, Exponential(2 / 17_100)), criteria=(p99(50.0),)),
    SimServer("like-nginx-gzip", Queue(2, Exponential(2 / 2_300)), criteria=(p99(50.0),)),
)
"""With the rates and limits of searches of real servers that were wrong on a busy machine."""


def queue_with_peak(servers: int, peak: float) -> Queue:
    """Return the M/M/c whose mean response is the limit of `R_SAT` at a rate [1/s]."""
    low_s, high_s = 0.0, servers / peak
    for _ in range(60):
        middle_s = (low_s + high_s) / 2
        response_s = Queue(servers, Exponential(middle_s)).response_s(peak)
        if response_s is not None and 1000 * response_s < R_SAT.limit:
            low_s = middle_s
        else:
            high_s = middle_s
    return Queue(servers, Exponential(low_s))
