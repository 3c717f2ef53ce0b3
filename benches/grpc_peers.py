"""Calls of gRPC by `bw load` beside k6 and ghz, on one server by grpcio, against its own stamps.

Each client makes an open loop of 200 calls/s for 5 s, to a method that waits 20 ms, with at most 100
calls in progress: undisturbed, and with the server stopped (SIGSTOP) for one second. They run in
turn. Undisturbed, the error is the client's mean from actual starts minus the server's, from the
begin of the method to its end: what is on the way and in the server's own queue is in it, of each
client alike. Stopped, the calls that took more than 200 ms, of `bw` from intended starts: by the rate
and the length of the stop there are about 160, and more while the backlog lasts. `Not made` are the
calls that were due and that the client left out.

Usage: grpc_peers.py [--rounds N] [--busy] (k6 and ghz on PATH; those that are not are left out)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parts.busy_machine import add_busy_option, refuse_busy
from parts.device import machine

from benchwright.features.load.response_times import decode_histogram

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "stand_ins"))

from running_grpc import GrpcServer, running_grpc

RATE_PER_S, RUN_S, WAIT_MS, CAP = 200, 5, 20, 100
SLOW_MS = 200.0
BEGIN_S, STOP_S = 2.0, 1.0
K6 = """
import grpc from 'k6/net/grpc';
import {{ Counter }} from 'k6/metrics';
const client = new grpc.Client(), slow = new Counter('slow');
client.load(['{directory}'], 'greeter.proto');
export const options = {{scenarios: {{open: {{executor: 'constant-arrival-rate', rate: {rate},
  timeUnit: '1s', duration: '{run_s}s', preAllocatedVUs: {cap}, maxVUs: {cap}}}}}}};
export default () => {{
  if (__ITER == 0) client.connect('{address}', {{plaintext: true}});
  const began = Date.now();
  client.invoke('demo.Greeter/Hello', {request});
  slow.add(Date.now() - began > {slow_ms} ? 1 : 0);
}};
export function handleSummary(data) {{ return {{stdout: JSON.stringify(data.metrics)}}; }}
"""


class Said(NamedTuple):
    """What a client says of its calls."""

    calls: int
    mean_ms: float
    """From actual starts."""
    slow: int


def by_bw(server: GrpcServer, request: dict[str, Any]) -> Said:
    """Return what `bw load` says."""
    words = [sys.executable, "-m", "benchwright.cli.main", "load", "--json", "--quiet", "--no-fail"]
    words += ["--target", server.target, "--grpc", "demo.Greeter/Hello"]
    words += ["--proto", str(server.proto), "--data", json.dumps(request), "--warm-up", "0s"]
    words += ["--rate", str(RATE_PER_S), "--duration", f"{RUN_S}s", "--connections", str(CAP)]
    done = subprocess.run([*words, "--arrival", "constant"], capture_output=True, check=True)
    times = json.loads(done.stdout)["result"]["kinds"]["all"]
    found = decode_histogram(times["response_ns"]["hdr"])
    slow = int(found.count[np.asarray(found.high) > 1e6 * SLOW_MS].sum())
    return Said(times["response_ns"]["count"], times["service_ns"]["mean"] / 1e6, slow)


def by_k6(server: GrpcServer, request: dict[str, Any]) -> Said:
    """Return what k6 says, from actual starts."""
    text = K6.format(
        directory=server.proto.parent,
        rate=RATE_PER_S,
        run_s=RUN_S,
        cap=CAP,
        address=server.target.removeprefix("grpc://"),
        request=json.dumps(request),
        slow_ms=SLOW_MS,
    )
    words = ["k6", "run", "--quiet", "--no-usage-report", "-"]
    done = subprocess.run(words, input=text, capture_output=True, check=True, text=True)
    metrics = json.loads(done.stdout)
    values = {name: metrics[name]["values"] for name in ("iterations", "grpc_req_duration", "slow")}
    mean = values["grpc_req_duration"]["avg"]
    return Said(values["iterations"]["count"], mean, values["slow"]["count"])


def by_ghz(server: GrpcServer, request: dict[str, Any]) -> Said:
    """Return what ghz says, from actual starts."""
    words = ["ghz", "--insecure", "--proto", str(server.proto), "--call", "demo.Greeter/Hello"]
    words += ["--import-paths", str(server.proto.parent), "-d", json.dumps(request), "-O", "json"]
    words += ["--rps", str(RATE_PER_S), "--total", str(RATE_PER_S * RUN_S), "-c", str(CAP)]
    words += ["--connections", "8", server.target.removeprefix("grpc://")]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    times = [one["latency"] / 1e6 for one in found["details"]]
    return Said(len(times), statistics.mean(times), sum(ms > SLOW_MS for ms in times))


CLIENTS: dict[str, Callable[[GrpcServer, dict[str, Any]], Said]] = {
    "bw": by_bw,
    "k6": by_k6,
    "ghz": by_ghz,
}


def stop(server: GrpcServer, name: str) -> None:
    """Stop the server for a time, some seconds after its first call."""
    while not server.calls(name):
        time.sleep(0.02)
    time.sleep(BEGIN_S)
    os.kill(server.pid, signal.SIGSTOP)
    time.sleep(STOP_S)
    os.kill(server.pid, signal.SIGCONT)


def main() -> int:
    """Run each client, and print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    add_busy_option(parser)
    asked = parser.parse_args()
    refuse_busy(asked.busy)
    rounds = asked.rounds
    os.environ["BW_CONFIG"] = os.devnull
    clients = [name for name in CLIENTS if name == "bw" or shutil.which(name)]
    for name in CLIENTS.keys() - set(clients):
        print(f"left out: {name} is not on PATH", file=sys.stderr)
    print(machine())
    errors: dict[str, list[float]] = {name: [] for name in clients}
    slow: dict[str, list[tuple[int, int]]] = {name: [] for name in clients}
    with tempfile.TemporaryDirectory(prefix="bw-grpc-") as place:
        for turn in range(rounds):
            for name in (*clients[turn % len(clients) :], *clients[: turn % len(clients)]):
                for kind in ("calm", "stopped"):
                    key = f"{name}-{kind}-{turn}"
                    with running_grpc(Path(place) / key) as server:
                        stopping = threading.Thread(target=stop, args=(server, key), daemon=True)
                        if kind == "stopped":
                            stopping.start()
                        said = CLIENTS[name](server, {"name": key, "wait_ms": WAIT_MS})
                        took = [one["first_ns"] - one["began_ns"] for one in server.calls(key)]
                    if kind == "calm":
                        errors[name].append(said.mean_ms - statistics.mean(took) / 1e6)
                    else:
                        slow[name].append((said.slow, max(0, RATE_PER_S * RUN_S - said.calls)))
                    print(key, said, flush=True)
    print(f"\n{rounds} rounds; load average {os.getloadavg()[0]:.1f}\n")
    print("| client | error of the mean [ms] | stopped: slow calls | not made |")
    print("|---|---:|---:|---:|")
    for name in clients:
        counts = [statistics.median(each) for each in zip(*slow[name], strict=True)]
        error = statistics.median(errors[name])
        print(f"| {name} | {error:.2f} | {counts[0]:.0f} | {counts[1]:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
