"""How much the engine can hold: operations a second, and idle connections.

Operations: PING to a Redis over one connection with 1,024 outstanding, an open loop, evenly spaced,
at rising rates; the rate, the issue error and the CPU time of client and server for an operation;
beside them redis-benchmark with as many outstanding, whose loop is closed. Aim: 1,000,000/s with a
stated issue error.

Connections: 1,000/s over more and more connections to an nginx, of which nearly all are idle; the
resident memory of the engine for each connection, and the issue error. As many as this user may
have open files: `ulimit -Hn` is printed. Aim: 100,000.

Usage: engine_limits.py [--rounds N] [--seconds S] [--before ENGINE]
       --before: another build of bw-engine beside this one
(root; nginx, redis-server, redis-benchmark, GNU time)
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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from http_speed import ACCESS, nginx
from parts.busy_machine import add_busy_option, refuse_busy
from parts.cost import children_cpu_s, cpu_s
from parts.device import machine
from parts.engine import ask, engine_at

from benchwright.trial.programs import find_engine

Document = dict[str, Any]
RATES = (200_000, 500_000, 1_000_000, 1_500_000)
OUTSTANDING = 1024
CONNECTIONS = (1_000, 10_000, 100_000)
RATE = 1_000
SPARE_FILES = 100


def load(target: Document, rate_per_s: int, seconds: float, depth: int) -> Document:
    """Return the engine's result of an open loop, evenly spaced."""
    filament = {
        "type": "open",
        "access": ACCESS,
        "arrival": {"type": "constant"},
        "rate": {"micro_per_s": rate_per_s * 10**6},
    }
    return ask(
        {
            "type": "load",
            "target": target,
            "workload": {"seed": 1, "filaments": [filament]},
            "duration_ns": round(seconds * 1e9),
            "depth": depth,
            "cpus": [max(os.sched_getaffinity(0))],
        }
    )


@contextlib.contextmanager
def redis() -> Iterator[tuple[int, int]]:
    """Run a Redis on the other processors; yield its port and its process id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    others = ",".join(map(str, sorted(os.sched_getaffinity(0))[:-1]))
    with tempfile.TemporaryDirectory() as folder:
        words = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen(
            ["taskset", "-c", others, "redis-server", *words], stdout=subprocess.DEVNULL
        )
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield port, server.pid
        finally:
            server.terminate()
            server.wait()


def operations(arguments: argparse.Namespace) -> None:
    """Print the table of rates."""
    engines = {"bw": None, **({"before": arguments.before} if arguments.before else {})}
    print(
        "\n| asked | engine | achieved | issue error p50, p99 [us] | CPU client | CPU server [us] |"
    )
    print("|---:|---|---:|---|---:|---:|")
    with redis() as (port, pid):
        target = {
            "kind": "redis",
            "host": "127.0.0.1",
            "port": port,
            "connections": 1,
            "outstanding": OUTSTANDING,
            "commands": [["PING"]],
        }
        for rate_per_s in RATES:
            seen: dict[str, list[tuple[float, ...]]] = {name: [] for name in engines}
            for _ in range(arguments.rounds):
                for name, path in engines.items():
                    client_s, server_s = children_cpu_s(), cpu_s(pid)
                    with engine_at(path) if path else contextlib.nullcontext():
                        result = load(target, rate_per_s, arguments.seconds, OUTSTANDING)
                    done = result["counts"]["completed"]
                    error = result["kinds"]["all"]["issue_error_ns"]
                    seen[name].append(
                        (
                            result["achieved_rate_per_s"],
                            error["p50"] / 1e3,
                            error["p99"] / 1e3,
                            (children_cpu_s() - client_s) / done * 1e6,
                            (cpu_s(pid) - server_s) / done * 1e6,
                        )
                    )
            for name, rounds in seen.items():
                rate, p50, p99, client, server = map(statistics.median, zip(*rounds, strict=True))
                print(
                    f"| {rate_per_s:,} | {name} | {rate:,.0f} | {p50:.1f}, {p99:.1f} | {client:.2f} "
                    f"| {server:.2f} |",
                    flush=True,
                )
        words = ["-p", str(port), "-t", "ping_mbulk", "-P", str(OUTSTANDING), "-c", "1", "-q"]
        said = subprocess.run(
            ["redis-benchmark", *words, "-n", "3000000"], check=True, capture_output=True, text=True
        ).stdout
        found = re.findall(r"([\d.]+) requests per second", said)
        print(f"redis-benchmark, a closed loop: {float(found[-1]):,.0f}/s")


def connections(arguments: argparse.Namespace) -> None:
    """Print the table of connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    print(f"\nopen files: at most {most:,} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print("| connections | memory of the engine | for each | issue error p50, p99 [us] |")
    print("|---:|---:|---:|---|")
    least = 0
    with nginx(1) as server:
        for number in (1, *CONNECTIONS):
            number = min(number, most - SPARE_FILES)
            target = {"kind": "http", "url": server.url, "connections": number}
            rounds = []
            for _ in range(arguments.rounds):
                result, memory = _with_memory(
                    partial(load, target, RATE, arguments.seconds, number)
                )
                error = result["kinds"]["all"]["issue_error_ns"]
                rounds.append((memory, error["p50"] / 1e3, error["p99"] / 1e3))
            memory, p50, p99 = map(statistics.median, zip(*rounds, strict=True))
            least = least or memory
            each = f"{(memory - least) / number:,.0f} B" if number > 1 else ""
            print(
                f"| {number:,} | {memory / 1e6:.1f} MB | {each} | {p50:.1f}, {p99:.1f} |",
                flush=True,
            )
            if number == most - SPARE_FILES:
                break


def _with_memory(run: Callable[[], Document]) -> tuple[Document, int]:
    """Return what it returns, and the most resident memory of the engine that it starts [bytes].

    By GNU time: what a child of this process had before it became the engine would count as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        memory, script = Path(folder, "memory"), Path(folder, "engine")
        script.write_text(f"#!/bin/sh\nexec time -f %M -o {memory} {find_engine()}\n")
        script.chmod(0o755)
        with engine_at(str(script)):
            result = run()
        return result, int(memory.read_text()) * 1024


def main() -> int:
    """Print the tables, or why they cannot be measured here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--before")
    add_busy_option(parser)
    arguments = parser.parse_args()
    missing = [name for name in ("redis-server", "nginx", "time") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        print(f"not measured: needs root and {' and '.join(missing) or 'nginx and Redis'}")
        return 0
    refuse_busy(arguments.busy)
    print(machine())
    operations(arguments)
    connections(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
