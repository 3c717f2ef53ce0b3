"""How fast and how punctual the engine requests over HTTP/1.1: beside wrk, shb and oha on the same
nginx.

A closed loop first: one thread on one processor, keep-alive, a body of 13 bytes, nginx on the other
processors; wrk, shb and the engine in turn, with the CPU time of client and server for a request
beside each rate: it shows which of the two is the limit. Aims: 1.25 times wrk's rate and 1.0 times
shb's. The engine and shb poll for answers for a short time before they sleep; wrk sleeps.

Then an open loop, evenly spaced, at half the rate of the engine: how late requests are against an
even grid (parts/grid.py), by the kernel's stamps of the packets on loopback (AF_PACKET,
SO_TIMESTAMPNS), beside oha at the same rate. Aim: p99 of 10 us. The stamps are read after the run.

Usage: http_speed.py [--rounds N] [--seconds S] [--servers N] [--before ENGINE]
       --servers: nginx' workers, each on a processor of its own (default 1)
       --before: another build of bw-engine, in the closed loops too
(root; nginx, wrk; shb by `cargo install shb`, oha by scripts/generators.sh)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parts.busy_machine import add_busy_option, refuse_busy
from parts.cost import Cost
from parts.device import machine
from parts.engine import ask, engine_at
from parts.grid import lateness
from parts.stand import in_turn, median_ratio

Document = dict[str, Any]
CONNECTIONS = (1, 16, 64)
LATE_CONNECTIONS = 64
BODY = "Hello, world!"
STARTED_S = 20
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
ETH_P_IP = 0x0800
HEADERS_BYTES = 128
"""Of each packet so much is read: what is before the payload."""
ACCESS = {
    "kinds": [["exchange", 1]],
    "size": {"type": "constant", "value": 1},
    "location": {"type": "uniform"},
    "align_bytes": 1,
}
NGINX = """\
worker_processes {servers}; worker_rlimit_nofile {files}; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 120000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
  server {{ listen 127.0.0.1:{port} backlog=65535; location / {{ return 200 "{body}"; }} }}
}}
"""


class Nginx(NamedTuple):
    """A server that runs."""

    port: int
    workers: list[int]

    @property
    def url(self) -> str:
        """Return what is requested."""
        return f"http://127.0.0.1:{self.port}/"


def request(server: Nginx, connections: int, filament: Document, s: float) -> Document:
    """Return a load of requests over so many connections, on the client's processor."""
    target = {"kind": "http", "url": server.url, "connections": connections}
    return {
        "type": "load",
        "target": target,
        "workload": {"seed": 1, "filaments": [{"access": ACCESS, **filament}]},
        "duration_ns": round(s * 1e9),
        "depth": connections,
        "cpus": [client_cpu()],
    }


def engine(server: Nginx, connections: int, seconds: float) -> float:
    """Return the engine's requests a second in a closed loop."""
    think = {"type": "constant", "value": 0}
    users = {"type": "closed", "users": connections, "think": think}
    result = ask(request(server, connections, users, seconds))
    errors = result["kinds"]["exchange"]["errors"]
    if errors:
        raise OSError(f"requests failed: {errors}")
    return float(result["achieved_rate_per_s"])


def engine_before(path: str, server: Nginx, connections: int, seconds: float) -> float:
    """Return the requests a second of another build of the engine."""
    with engine_at(path):
        return engine(server, connections, seconds)


def wrk(server: Nginx, connections: int, seconds: float) -> float:
    """Return wrk's requests a second."""
    words = ["-t1", f"-c{connections}", f"-d{round(seconds)}s", server.url]
    said = pinned("wrk", *words)
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None or "Non-2xx" in said:
        raise OSError(f"wrk: {said}")
    return float(found[1])


def shb(server: Nginx, connections: int, seconds: float) -> float:
    """Return shb's requests a second."""
    words = ["-t", "1", "-c", str(connections), "-z", f"{seconds:g}s"]
    said = pinned("shb", *words, server.url)
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None or re.search(r"[1-9]\d* errors", said):
        raise OSError(f"shb: {said}")
    return float(found[1])


def oha(server: Nginx, rate_per_s: int, seconds: float) -> None:
    """Let oha request at a rate."""
    words = ["--no-tui", "-c", str(LATE_CONNECTIONS), "-q", str(rate_per_s)]
    pinned("oha", *words, "-z", f"{seconds:g}s", server.url)


def pinned(program: str, *words: str) -> str:
    """Run a program on the client's processor; return what it printed."""
    command = ["taskset", "-c", str(client_cpu()), program, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def client_cpu() -> int:
    """Return the processor of all clients."""
    return max(os.sched_getaffinity(0))


def beside(server: Nginx, arguments: argparse.Namespace) -> float:
    """Print the rates of closed loops; return the engine's with the most connections."""
    peers = {name: run for name, run in CLOSED.items() if shutil.which(name)}
    for name in CLOSED.keys() - peers.keys():
        print(f"not measured: {name} is not installed")
    if arguments.before:
        peers["before"] = partial(engine_before, arguments.before)
    clients = {"bw": engine, **peers}
    print(
        f"\nclosed loop, requests/s, and CPU time for a request [us] of client and server, "
        f"medians of {arguments.rounds} rounds; bw's rate as a multiple of the other's"
    )
    print("| connections | client | rate | bw/client | CPU client | CPU server |")
    print("|---|---|---|---|---|---|")
    rate = 0.0
    for connections in CONNECTIONS:
        runs = [partial(run, server, connections, arguments.seconds) for run in clients.values()]
        rounds = in_turn(
            arguments.rounds,
            *(partial(Cost.of, run, server.workers, arguments.seconds) for run in runs),
        )
        sides = list(zip(*rounds, strict=True))
        ours = [cost.rate_per_s for cost in sides[0]]
        rate = statistics.median(ours)
        for name, side in zip(clients, sides, strict=True):
            rates = [cost.rate_per_s for cost in side]
            client_us, server_us = (
                statistics.median(cost[place] for cost in side) for place in (1, 2)
            )
            print(
                f"| {connections} | {name} | {statistics.median(rates):,.0f} "
                f"| {median_ratio(ours, rates):.2f} | {client_us:.2f} | {server_us:.2f} |",
                flush=True,
            )
    return rate


CLOSED: dict[str, Callable[[Nginx, int, float], float]] = {"wrk": wrk, "shb": shb}


@contextlib.contextmanager
def stamping() -> Iterator[socket.socket]:
    """Let the kernel stamp the packets on loopback; they wait in the socket until they are read."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP)) as s:
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 30)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.bind(("lo", ETH_P_IP))
        s.setblocking(False)
        yield s


def arrivals_ns(packets: socket.socket, port: int) -> list[int]:
    """Return the stamps of the packets with a payload to this port that wait in the socket."""
    stamps: list[int] = []
    while True:
        try:
            data, extra, _, _ = packets.recvmsg(HEADERS_BYTES, 256)
        except BlockingIOError:
            return stamps
        ip = (data[0] & 15) * 4
        payload = int.from_bytes(data[2:4], "big") - ip - (data[ip + 12] >> 4) * 4
        if int.from_bytes(data[ip + 2 : ip + 4], "big") != port or payload <= 0:
            continue
        seconds, ns = struct.unpack("qq", extra[0][2][:16])
        stamps.append(seconds * 10**9 + ns)


def late(server: Nginx, rate_per_s: int, arguments: argparse.Namespace) -> None:
    """Print how late requests leave at a rate."""
    rate = {"micro_per_s": rate_per_s * 10**6}
    even = {"type": "open", "arrival": {"type": "constant"}, "rate": rate}
    load = request(server, LATE_CONNECTIONS, even, arguments.seconds)

    def seen(run: Callable[[], Any]) -> tuple[list[float], Any]:
        with stamping() as packets:
            result = run()
            stamps = arrivals_ns(packets, server.port)
        return list(lateness(np.array(stamps), rate_per_s)), result

    sides = {"bw": partial(seen, partial(ask, load))}
    if shutil.which("oha"):
        peer = partial(oha, server, rate_per_s, arguments.seconds)
        sides["oha"] = partial(seen, peer)
    else:
        print("not measured: oha is not installed")
    rounds = in_turn(arguments.rounds, *sides.values())
    print(
        f"\nopen loop, {rate_per_s:,}/s evenly, {LATE_CONNECTIONS} connections: lateness by the "
        f"packets' stamps [us], medians of {arguments.rounds} rounds"
    )
    print("| client | requests seen | p50 | p98 | p99 | p99.9 | own p99 |")
    print("|---|---|---|---|---|---|---|")
    for name, side in zip(sides, zip(*rounds, strict=True), strict=True):
        median = [statistics.median(run[0][place] for run in side) for place in range(5)]
        own = "none"
        if name == "bw":
            errors = [run[1]["kinds"]["exchange"]["issue_error_ns"]["p99"] for run in side]
            own = f"{statistics.median(errors) / 1e3:.2f}"
        figures = " | ".join(f"{value:.2f}" for value in median[1:])
        print(f"| {name} | {median[0]:,.0f} | {figures} | {own} |", flush=True)


@contextlib.contextmanager
def nginx(servers: int) -> Iterator[Nginx]:
    """Run nginx with so many workers, each on a processor of its own besides the client's."""
    with tempfile.TemporaryDirectory(prefix="bw-http-speed-") as name:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = Path(name) / "conf"
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        values = {"servers": servers, "files": files, "folder": name, "port": port, "body": BODY}
        configuration.write_text(NGINX.format(**values))
        process = subprocess.Popen(["nginx", "-p", name, "-c", configuration])
        try:
            workers = _workers(process.pid, port, servers)
            others = sorted(os.sched_getaffinity(0) - {client_cpu()})
            for place, worker in enumerate(workers):
                os.sched_setaffinity(worker, {others[place % len(others)]})
            yield Nginx(port, workers)
        finally:
            process.terminate()
            process.wait()


def _workers(master: int, port: int, servers: int) -> list[int]:
    until = time.monotonic() + STARTED_S
    children = Path(f"/proc/{master}/task/{master}/children")
    while time.monotonic() < until:
        found = [int(child) for child in children.read_text().split()]
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            if len(found) == servers:
                return found
        time.sleep(0.05)
    raise OSError(f"nginx did not start within {STARTED_S} s")


def main() -> int:
    """Print the tables, or why they cannot be measured here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--before")
    add_busy_option(parser)
    arguments = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("not measured: client and server need a processor each")
        return 0
    if os.geteuid() != 0 or shutil.which("nginx") is None:
        print("not measured: needs root and nginx")
        return 0
    refuse_busy(arguments.busy)
    print(machine())
    with nginx(arguments.servers) as server:
        rate = beside(server, arguments)
        late(server, round(rate / 2), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
