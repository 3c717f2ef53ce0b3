"""Mean responses of a real NFS server over load and over run length: the workbench paper's figures
4, 5 and 6.

NFS-Ganesha with one disk and 4 threads, as in the paper, under DB_TP, Web server and Mail. For each load factor
one long run at that share of the known peak. The run is cut into windows, and each window is a
trial of its length: their means are figure 4 (over load) and figure 5 (over length), and figure 6
draws from them until a mean is accurate, as in the simulation (parts/paper_scatter.py). Windows of
one run follow each other without a restart, so they do not differ by what differs from start to
start. The first 20 s are left out.

Nobody else should use the machine meanwhile. The same command with the same --out goes on where it
was stopped; with
--draw it draws what is there. The means are written to OUT/run-lengths.json.

Usage: run_lengths.py [--only mail] [--peak db_tp=398] [--short 8m] [--long 20m] [--at-once 1]
[--out DIR] [--draw]
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sim"), str(ROOT / "benches" / "parts")]

from paper_drawing import Cloud, Curve, Labels, clouds, curves  # noqa: E402
from paper_scatter import Values, trials_until_accurate  # noqa: E402
from parts.busy_machine import add_busy_option, refuse_busy  # noqa: E402
from parts.bw_steps import Step, fixed_run, nfs, prepare, run  # noqa: E402

PEAKS = {"db_tp": 398.0, "web-server": 177.0, "mail": 404.0}
"""Peak rates with one disk in memory and 4 threads (docs/decisions/0026-workbench-paper.md)
[1/s]."""
NAMES = {"db_tp": "DB_TP", "web-server": "Web server", "mail": "Mail"}
LOADS = {"db_tp": (0.3, 0.9, 0.5, 0.7, 1.0), "web-server": (0.3, 0.9), "mail": (0.3, 0.9)}
LONG = (0.3, 0.9)
"""The load factors of figures 5 and 6."""
LENGTHS_S = (30, 60, 90, 120, 180)
SHOWN_S = 90
"""The length of a trial in figure 4."""
LEFT_OUT_S = 20
FEWEST = 5
"""Trials that figure 6 draws from, at least."""


def step_at(workload: str, factor: float, asked: argparse.Namespace) -> Step:
    """Return the long run at a load factor."""
    length = asked.long if factor in LONG else asked.short
    words = fixed_run(factor * asked.peaks[workload], length, asked.seed)
    return Step(nfs(workload, threads=(4,)), f"load-{factor:g}", words)


def seconds_of(step: Step, out: Path) -> tuple[Values, Values]:
    """Return operations and mean response [ms] of each second of a run, both `(seconds,)`; empty
    without a run."""
    study = out / step.server.name / step.name / "study"
    file = study / "results" / "s1" / "series.csv"
    rows = list(csv.DictReader(file.open())) if file.exists() else []
    pairs = [(float(row["count"]), float(row["response_ms_mean"] or 0)) for row in rows]
    counts, means = np.array(pairs).reshape(-1, 2).T
    return counts[LEFT_OUT_S:], means[LEFT_OUT_S:]


def windows(counts: Values, means: Values, length_s: int) -> Values:
    """Return the mean response of each whole window `(windows,)` [ms]."""
    whole = len(counts) // length_s
    count, total = (
        values[: whole * length_s].reshape(whole, length_s).sum(axis=1)
        for values in (counts, counts * means)
    )
    return total / count


def spread(values: Values) -> float:
    """Return the relative standard deviation [%]."""
    return float(100 * values.std(ddof=1) / values.mean())


def drawn(found: dict[str, dict[float, tuple[Values, Values]]], out: Path) -> None:
    """Draw the figures and print their figures."""
    document: dict[str, dict[str, list[float]]] = {}
    over_load = found.get("db_tp", {})
    places = [factor for factor in sorted(over_load) if len(over_load[factor][0])]
    at_load = [windows(*over_load[factor], SHOWN_S) for factor in places]
    for factor, values in zip(places, at_load, strict=True):
        print(
            f"DB_TP, load factor {factor:g}: {len(values)} trials of {SHOWN_S} s, "
            f"{values.min():.3g} to {values.max():.3g} ms, sd {spread(values):.0f} %"
        )
    lengths, needed = [], {factor: [] for factor in LONG}
    for workload, runs in found.items():
        for factor in LONG:
            if not len(runs.get(factor, ([],))[0]):
                continue
            cut = {length: windows(*runs[factor], length) for length in LENGTHS_S}
            enough = {n: v for n, v in cut.items() if len(v) >= FEWEST}
            shown = list(map(float, enough))
            trials = [trials_until_accurate(v) for v in enough.values()]
            needed[factor].append(Curve(NAMES[workload], shown, trials))
            if workload == "db_tp":
                values = [v.tolist() for v in enough.values()]
                lengths.append(Cloud(f"load factor {factor:g}", shown, values))
            document[f"{workload} {factor:g}"] = {
                str(length): values.tolist() for length, values in cut.items()
            }
            print(
                f"{NAMES[workload]}, {factor:g}: sd [%] by length",
                *(f"{n} s {spread(v):.0f}" for n, v in enough.items()),
                "; trials needed",
                *(f"{n:.1f}" for n in trials),
            )
    label = f"trials of {SHOWN_S} s"
    response, run_s = "mean response [ms]", "run length [s]"
    load = Cloud(label, places, [v.tolist() for v in at_load])
    panels = [
        (Labels("load factor", response, "figure 4"), [load]),
        (Labels(run_s, response, "figure 5"), lengths),
    ]
    clouds(panels, out / "workbench-figures-4-5-measured.png")
    curves(
        [
            (Labels(run_s, "trials needed", f"figure 6, load factor {factor:g}"), lines)
            for factor, lines in needed.items()
        ],
        out / "workbench-figure-6-measured.png",
        log=False,
    )
    (out / "run-lengths.json").write_text(json.dumps(document, indent=1))


def _peak(text: str) -> tuple[str, float]:
    workload, _, rate = text.partition("=")
    if workload not in PEAKS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(PEAKS)}, as mail=352")
    return workload, float(rate)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PEAKS, action="append")
    parser.add_argument("--peak", type=_peak, action="append", default=[])
    parser.add_argument("--short", default="8m", help="run at other load factors")
    parser.add_argument("--long", default="20m", help="run at 0.3 and 0.9")
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where all is kept")
    parser.add_argument("--draw", action="store_true", help="run nothing")
    add_busy_option(parser)
    asked = parser.parse_args(words)
    asked.peaks = PEAKS | dict(asked.peak)
    return asked


def main() -> int:
    """Run everything, and draw; return 0 if every run has a result."""
    asked = arguments()
    prepare()
    if not asked.draw:
        refuse_busy(asked.busy)
    out = asked.out or Path(tempfile.mkdtemp(prefix="bw-run-lengths-"))
    out.mkdir(parents=True, exist_ok=True)
    wanted = [(workload, factor) for workload in asked.only or LOADS for factor in LOADS[workload]]

    def measured(one: tuple[str, float]) -> tuple[Values, Values]:
        step = step_at(*one, asked)
        if not asked.draw:
            outcome = run(step, out)
            print(step.server.name, step.name, outcome.trouble, flush=True)
        return seconds_of(step, out)

    found: dict[str, dict[float, tuple[Values, Values]]] = {}
    with ThreadPoolExecutor(asked.at_once) as executor:
        for (workload, factor), seconds in zip(wanted, executor.map(measured, wanted), strict=True):
            found.setdefault(workload, {})[factor] = seconds
    drawn(found, out)
    return 0 if all(len(one[0]) for runs in found.values() for one in runs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
