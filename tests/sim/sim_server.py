"""A simulated server as a program: `sim_server.py RATE DURATION`, for `bw peak --command`.

Prints what a generator would: mean response, a series, the 99th percentile, errors. Each
call is a run of its own: `--state FILE` counts the calls and keeps the server's age; without
it, `--seed` alone decides. Names in `--server` are those of servers.py and held_out.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchwright.core.criterion import Criterion
from benchwright.features.load.plan import LoadTrial, Probe
from held_out import BY_NAME
from servers import SimServer
from world import SimWorkbench

P99 = Criterion(key="response_ms_p99", limit=1.0, statistic="percentile", share=0.99)
MEAN = Criterion(key="response_ms_mean", limit=1.0)


def arguments(argv: list[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rate", type=float, help="operations per second")
    parser.add_argument("duration", type=float, help="seconds of load, in virtual time")
    parser.add_argument("--server", default="A-mm4", choices=sorted(BY_NAME))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, help="a file that lives between calls")
    return parser.parse_args(argv)


def bench_of(server: SimServer, seed: int, state: Path | None) -> SimWorkbench:
    """Return the workbench as the calls before left it."""
    bench = SimWorkbench(server, (MEAN, P99), seed, watched=False)
    if state is not None and state.exists():
        kept = json.loads(state.read_text())
        bench.trials, bench.age_s = kept["trials"], kept["age_s"]
    return bench


def document(trial: LoadTrial) -> dict[str, object]:
    """Return a trial as the JSON that is printed."""
    means = trial.series.values[MEAN.key]
    rows = zip(trial.series.at_s, trial.series.counts, means, strict=True)
    ended = (trial.completed or 0) + trial.errors
    return {
        "mean_ms": trial.values.get(MEAN.key),
        "p99_ms": trial.values.get(P99.key),
        "errors": trial.errors,
        "failed": trial.errors / ended if ended else 0.0,
        "late_p99_ms": trial.late_p99_ms,
        "target_mean_ms": trial.target_values.get(MEAN.key),
        "offered": trial.offered,
        "completed": trial.completed,
        "series": [list(row) for row in rows],
    }


def main(argv: list[str]) -> None:
    """Run once and print."""
    asked = arguments(argv)
    bench = bench_of(BY_NAME[asked.server], asked.seed, asked.state)
    probe = Probe(rate=asked.rate, duration_s=asked.duration)
    trial = bench.run(probe, (), lambda so_far: False)
    if asked.state is not None:
        kept = {"trials": bench.trials, "age_s": bench.age_s}
        asked.state.write_text(json.dumps(kept))
    print(json.dumps(document(trial)))


if __name__ == "__main__":
    main(sys.argv[1:])
