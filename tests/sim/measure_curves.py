"""Measures the curves of servers without a closed form, once, into curves.json.

`python tests/sim/measure_curves.py [--servers a,b]`. Each curve comes from many independent
long runs, without their first part. Every rate sees the same random numbers, so the curve
is smooth, and where it meets the limit is known better than any of its values.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass

import numpy as np

from curves import CURVES
from held_out import BY_NAME
from servers import SimServer
from world import State, simulate

MARKS = (0.82, 0.91, 1.0, 1.09, 1.18)
"""Where the curve is measured: values as shares of the limit."""
SEED = 20_080_609


@dataclass(frozen=True)
class Effort:
    """How long a curve is measured."""

    runs: int
    run_s: float
    settle_s: float = 200.0
    """Left out at each run's begin [s]."""


THOROUGH = Effort(240, 2200.0)
ROUGH = Effort(12, 2200.0)
STEPS = 3


GUESSES = {
    "C-mg4-cold-slow": 231.0,
    "mg4-heavy": 195.0,
    "slow-noise": 235.0,
    "per-trial": 235.0,
    "stalls": 190.0,
    "batching": 370.0,
    "held-out-mh3": 260.0,
    "held-out-bursty": 260.0,
}
"""Near which rate to look [1/s]."""


def run_means(server: SimServer, rate: float, effort: Effort) -> list[float]:
    """Return the mean response of each run [ms], weighted by its operations."""
    means = []
    for number in range(effort.runs):
        run = simulate(server, rate, effort.run_s, State(SEED, number))
        settled = run.arrivals >= effort.settle_s
        means.append(1000 * float(run.responses[settled].mean()))
    return means


def roughly(server: SimServer, rate: float) -> float:
    """Return the reciprocal of a roughly measured mean [1/ms]."""
    return 1 / statistics.fmean(run_means(server, rate, ROUGH))


def rough_roots(server: SimServer) -> list[float]:
    """Return the rates at which roughly measured means meet each mark.

    The reciprocal of a response is nearly straight in the rate, so a line through the
    two nearest points found so far leads there in a few steps.
    """
    guess = GUESSES[server.name]
    points = {rate: roughly(server, rate) for rate in (guess, 0.97 * guess)}
    roots = []
    for mark in MARKS:
        wanted = 1 / (mark * server.binding.limit)
        for _ in range(STEPS):
            near = sorted(points.items(), key=lambda p: abs(p[1] - wanted))[:2]
            (x0, y0), (x1, y1) = near
            rate = x0 + (wanted - y0) * (x1 - x0) / (y1 - y0)
            points[rate] = roughly(server, rate)
        roots.append(min(points, key=lambda r: abs(points[r] - wanted)))
    return sorted(float(f"{rate:.6g}") for rate in roots)


def measure(server: SimServer) -> dict[str, object]:
    """Return a server's curve around its peak, with standard errors."""
    limit = server.binding.limit
    rates = rough_roots(server)
    by_rate = [run_means(server, rate, THOROUGH) for rate in rates]
    values = np.array([statistics.fmean(means) for means in by_rate])
    errors = [statistics.stdev(m) / math.sqrt(len(m)) for m in by_rate]
    peak = float(np.interp(-1 / limit, -1 / values, rates))
    k = MARKS.index(1.0)
    slope = (values[k + 1] - values[k - 1]) / (rates[k + 1] - rates[k - 1])
    return {
        "rates": rates,
        "values": [round(v, 4) for v in values.tolist()],
        "values_se": [round(e, 4) for e in errors],
        "peak_rate": round(peak, 3),
        "peak_rate_se": round(errors[k] / float(slope), 4),
        "runs": THOROUGH.runs,
        "run_s": THOROUGH.run_s - THOROUGH.settle_s,
    }


def main() -> None:
    """Measure what is named, or everything, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", help="names, by commas; all without")
    named = parser.parse_args().servers
    names = named.split(",") if named else list(BY_NAME)
    stored = json.loads(CURVES.read_text()) if CURVES.exists() else {}
    for name in names:
        server = BY_NAME[name]
        if server.exact(server.start_rate) is None:
            stored[name] = measure(server)
            print(name, stored[name]["peak_rate"], "+-", stored[name]["peak_rate_se"])
            CURVES.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
