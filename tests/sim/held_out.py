"""Servers that no policy was tuned on: looked at once, for the published table."""

from __future__ import annotations

from arrivals import Bursty
from servers import (
    CONTRARY,
    ERRORS,
    FIRST_P95,
    LIKE_REAL,
    R_SAT,
    SERVERS,
    SHEDS,
    STALLS,
    TPOT_P95,
    SimServer,
)
from speed_profiles import SpeedProfile
from stations import Batching, Capped, Queue, Streaming, Tandem
from work import BoundedPareto, Deterministic, Exponential, Hyperexponential, Lognormal

WARM_UP = "warm-up-not-over"

HELD_OUT: tuple[SimServer, ...] = (
    SimServer("held-out-mh3", Queue(3, Hyperexponential(0.010, 4.0))),
    SimServer(
        "held-out-tandem", Tandem(Queue(2, Exponential(0.008)), Queue(1, Exponential(0.0038)))
    ),
    SimServer(
        "held-out-bursty",
        Queue(4, Lognormal(0.012, 0.5)),
        arrivals=Bursty(high=1.25, share=0.4, burst_s=0.4),
    ),
    SimServer("held-out-batching", Batching(64, 0.0, 0.010, Deterministic(0.0015))),
    SimServer(
        "held-out-collector",
        Queue(4, Exponential(0.012)),
        SpeedProfile(stall_s=0.4, stall_every_s=20.0, stall_jitter=0.15),
        stationary=False,
        finding=f"{STALLS}|{CONTRARY}",
    ),
    SimServer(
        "held-out-cache-warms",
        Queue(4, Exponential(0.012)),
        SpeedProfile(cold=0.5, cold_s=25.0),
        finding=WARM_UP,
    ),
    SimServer(
        "held-out-capped",
        Capped(300.0, 30.0, Exponential(0.002)),
        criteria=(R_SAT, ERRORS),
        finding=SHEDS,
    ),
    SimServer(
        "held-out-streaming",
        Streaming(0.004, 0.0002, 0.006, 64, Lognormal(50.0, 0.7)),
        criteria=(FIRST_P95, TPOT_P95),
        start_rate=10.0,
    ),
    SimServer("held-out-heavy", Queue(2, BoundedPareto(0.008, 2.1, 1000.0))),
)
BY_NAME = {server.name: server for server in (*SERVERS, *LIKE_REAL, *HELD_OUT)}
"""Every server by its name."""
