"""Servers that no policy was tuned on: looked at once, for the published table."""

from __future__ import annotations

from arrivals import Bursty
from servers import SERVERS, SimServer
from stations import Queue, Tandem
from work import Exponential, Hyperexponential, Lognormal

HELD_OUT: tuple[SimServer, ...] = (
    SimServer("held-out-mh3", Queue(3, Hyperexponential(0.010, 4.0))),
    SimServer(
        "held-out-tandem",
        Tandem(Queue(2, Exponential(0.008)), Queue(1, Exponential(0.0038))),
    ),
    SimServer(
        "held-out-bursty",
        Queue(4, Lognormal(0.012, 0.5)),
        arrivals=Bursty(high=1.25, share=0.4, burst_s=0.4),
    ),
)
BY_NAME = {server.name: server for server in (*SERVERS, *HELD_OUT)}
"""Every server by its name."""
