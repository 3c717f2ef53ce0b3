"""Measures the curves of servers without a closed form, once, into curves.json.

`python tests/sim/measure_curves.py [--servers a,b] [--runs 320]`. Each curve comes from many
independent long runs, without their first part. Every rate sees the same random numbers, so the
curve is smooth, and where it meets the limit is known better than any of its values.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass, replace

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
    settle_s: float
    """Left out at each run's begin [s]."""


EFFORT = Effort(320, 2200.0, 200.0)


GUESSES = {
    "C-mg4-cold-slow": (231.0, 5.5),
    "mg4-heavy": (211.0, 4.4),
    "slow-noise": (236.0, 6.0),
    "per-trial": (235.3, 6.0),
    "stalls": (195.0, 2.3),
    "stalls-rare": (318.0, 1.6),
    "batching": (372.0, 7.5),
    "held-out-bursty": (277.0, 7.0),
    "mm8-cold-per-trial": (361.5, 6.5),
    "held-out-batching": (396.0, 1.5),
    "held-out-collector": (261.5, 3.0),
    "held-out-capped": (278.5, 40.0),
    "held-out-heavy": (214.5, 6.2),
    "held-out-streaming": (45.05, 2.45),
}
"""About the peak [1/s], and the relative change of response per relative change of rate."""


def run_means(server: SimServer, rate: float, effort: Effort) -> list[float]:
    """Return the mean response of each run [ms], weighted by its operations; or its share of
    refused ones, or its percentile [ms], if that limits."""
    means = []
    for number in range(effort.runs):
        run = simulate(server, rate, effort.run_s, State(SEED, number))
        settled = run.arrivals >= effort.settle_s
        responses = run.of(server.binding)[settled]
        if server.binding.statistic == "ratio":
            means.append(float(np.isnan(responses).mean()))
        elif server.binding.statistic == "percentile":
            means.append(1000 * float(np.nanquantile(responses, server.binding.share or 0.5)))
        else:
            means.append(1000 * float(np.nanmean(responses)))
    return means


def rates_of(server: SimServer) -> list[float]:
    """Return the rates at which the marks are about met."""
    guess, elasticity = GUESSES[server.name]
    return [float(f"{guess * (1 + (mark - 1) / elasticity):.5g}") for mark in MARKS]


def measure(server: SimServer, effort: Effort = EFFORT) -> dict[str, object]:
    """Return a server's curve around its peak, with standard errors."""
    limit = server.binding.limit
    rates = rates_of(server)
    by_rate = [run_means(server, rate, effort) for rate in rates]
    values = np.array([statistics.fmean(means) for means in by_rate])
    errors = [statistics.stdev(m) / math.sqrt(len(m)) for m in by_rate]
    peak = float(np.interp(-1 / limit, -1 / values, rates))
    assert values[0] < 0.9 * limit
    assert values[-1] > 1.1 * limit
    k = MARKS.index(1.0)
    slope = (values[k + 1] - values[k - 1]) / (rates[k + 1] - rates[k - 1])
    return {
        "rates": rates,
        "values": [float(f"{v:.6g}") for v in values.tolist()],
        "values_se": [float(f"{e:.3g}") for e in errors],
        "peak_rate": round(peak, 3),
        "peak_rate_se": round(errors[k] / float(slope), 4),
        "runs": effort.runs,
        "run_s": effort.run_s - effort.settle_s,
    }


def main() -> None:
    """Measure what is named, or everything, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", help="names, by commas; all without")
    parser.add_argument("--runs", type=int, default=EFFORT.runs, help="at each rate")
    asked = parser.parse_args()
    named, effort = asked.servers, replace(EFFORT, runs=asked.runs)
    names = named.split(",") if named else list(BY_NAME)
    for name in names:
        server = BY_NAME[name]
        if server.exact(server.start_rate) is None:
            curve = measure(server, effort)
            print(name, curve["peak_rate"], "+-", curve["peak_rate_se"], flush=True)
            keep(name, curve)


def keep(name: str, curve: dict[str, object]) -> None:
    """Store a curve beside the others."""
    stored = json.loads(CURVES.read_text()) if CURVES.exists() else {}
    stored[name] = curve
    CURVES.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
