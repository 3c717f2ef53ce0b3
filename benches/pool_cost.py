"""What a pool costs: decisions of its controller, and the time of a map on gangs beside that of one
after the other.

Usage: python benches/pool_cost.py [--gangs 64] [--tasks 10000] [--void 5%]
       python benches/pool_cost.py --sessions [--pace 4] [--samples 32]

Without --sessions: the plan of the controller (features/pool/planning.py) in virtual time, with
tasks of random length, of which a share is void at random; decisions per second of CPU time, and
the peak of memory.

With --sessions: `bw surface` of a computed server whose trials sleep for --pace seconds, one search
after the other and on four local gangs; the ratio of the elapsed times. Each search has three
trials. Mostly waiting, so a busy machine changes little.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from benchwright.features.pool.planning import AssignTask, GiveUp, OpenLease, PoolPlan
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.run.gangs import Task

GENERATOR = """
sleep "$PACE"
exec awk -v rate="$1" -v seconds="$2" -v workers="$3" -v memory="$4" 'BEGIN {
  capacity = 100 * sqrt(workers) * (1 + memory / 10)
  mean = rate < capacity ? 1000 / (capacity - rate) : 10000
  printf "{\\"offered\\": %d, \\"mean_ms\\": %.6f}\\n", rate * seconds, mean
}'
"""
SPEC = """
[load]
generator = "command"
command = "sh gen.sh {rate} {duration} {workers} {memory}"
values = { response_ms_mean = "/mean_ms" }
counts = { offered = "/offered", completed = "/offered" }
[factors]
workers = [1, 2, 3, 4, 5, 6, 7, 8]
memory = [1, 2, 4, 8, 16, 32]
[peak]
criteria = ["mean response < 40ms"]
start = "50"
policy = "binsearch"
run_length = "20s"
max_trials = 3
seed = 1
"""
"""Times are those of a computed server: a trial of 20 s takes --pace seconds."""


def simulate(gangs: int, tasks: int, void: float) -> Counter[str]:
    """Run a plan in virtual time; return how many actions of each kind it decided."""
    settings = PoolSettings(engine=PoolKind.LOCAL, gangs=gangs, retries=20)
    plan, rng = PoolPlan(settings, seed=1), random.Random(1)
    plan.add(
        Task(place=str(one), name=f"task {one}", prefixes=(f"{one}/",)) for one in range(tasks)
    )
    running: list[tuple[int, int, AssignTask]] = []
    counts: Counter[str] = Counter()
    now_ns = 0
    while True:
        while actions := plan.next_actions(now_ns):
            for action in actions:
                counts[type(action).__name__] += 1
                match action:
                    case OpenLease(gang, number):
                        plan.lease_changed(
                            Lease(gang=gang, number=number, hosts=(gang,), state=LeaseState.RUNNING)
                        )
                    case AssignTask():
                        ends_ns = now_ns + rng.randint(10**9, 3 * 10**9)
                        heapq.heappush(running, (ends_ns, counts["AssignTask"], action))
                    case GiveUp():
                        raise AssertionError("20 retries are enough")
        if not running:
            return counts
        now_ns, number, done = heapq.heappop(running)
        attempt = Attempt(
            place=done.task.place,
            name=done.task.name,
            number=number,
            gang=done.lease.gang,
            lease=done.lease.name,
            hosts=done.lease.hosts,
            began_ns=0,
            ended_ns=now_ns,
        )
        if rng.random() < void:
            attempt = msgspec.structs.replace(attempt, void=VoidReason.PREEMPTED)
        plan.attempt_ended(attempt)


def cost(gangs: int, tasks: int, void: float) -> None:
    """Print the cost of a simulated plan."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun_s = time.process_time()
    counts = simulate(gangs, tasks, void)
    spent_s = time.process_time() - begun_s
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    decisions = counts.total()
    print(
        f"{gangs} gangs, {tasks} tasks, {void:.0%} void: {dict(counts)}; "
        f"{spent_s:.2f} s of CPU, {decisions / spent_s:,.0f} decisions/s, "
        f"{1e6 * spent_s / decisions:.0f} us each, {grown_kib / 1024:.1f} MiB"
    )


def sessions(pace: float, samples: int) -> None:
    """Print the elapsed time of a map one after the other and on four gangs."""
    bw = (sys.executable, "-P", "-m", "benchwright.cli.main", "surface", "s.toml")
    elapsed_s = {}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "s.toml").write_text(f"{SPEC}\n[surface]\nsamples = {samples}\n")
        (place / "gen.sh").write_text(GENERATOR)
        for name, words in (("pool", ("--pool", "local:gangs=4")), ("serial", ())):
            begun_s = time.monotonic()
            subprocess.run(
                [*bw, "--quiet", "--study", name, *words],
                cwd=place,
                env={**os.environ, "PACE": str(pace)},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            elapsed_s[name] = time.monotonic() - begun_s
            print(f"{name}: {elapsed_s[name]:.1f} s", flush=True)
    ratio = elapsed_s["pool"] / elapsed_s["serial"]
    print(f"{samples} samples, {3 * pace:g} s each: {ratio:.3f} of the time on 4 gangs")


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gangs", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--void", default="5%")
    parser.add_argument("--sessions", action="store_true")
    parser.add_argument("--pace", type=float, default=4.0)
    parser.add_argument("--samples", type=int, default=32)
    given = parser.parse_args()
    if given.sessions:
        sessions(given.pace, given.samples)
    else:
        cost(given.gangs, given.tasks, float(given.void.rstrip("%")) / 100)


if __name__ == "__main__":
    main()
