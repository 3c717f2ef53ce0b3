"""The workbench paper's figures 3 to 10 and table 4, reproduced in simulation.

The policies are the product's own (features/search/peak/policies/published.py, and the default one
beside them), the servers simulated ones with known peaks (parts/nfs_servers.py), time is virtual.
What comes out is told beside the paper's in docs/decisions/0026-workbench-paper.md. Nothing is
asserted.

Usage: python3 benches/paper_workbench.py [--only 3,7,t4,measured] [--out docs/images] [--full]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sim"), str(ROOT / "benches" / "parts")]

from measured_maps import map_errors, peaks_of, policy_costs, published_step, results_of  # noqa: E402
from nfs_servers import SAMPLES, WORKLOADS, sample_of, server, simulated  # noqa: E402
from paper_designs import SIZES, adaptive, quadratic  # noqa: E402
from paper_drawing import Cloud, Curve, Labels, SearchPath, bars, clouds, curves, searches  # noqa: E402
from paper_scatter import LENGTHS_S, over_length, over_load, trials_needed  # noqa: E402
from paper_searches import (  # noqa: E402
    BINSEARCH,
    BINSEARCH_SEEDED,
    LINES,
    MONOTONE,
    POLYNOMIAL_LINES,
    STRAWMAN,
    Line,
    Mapping,
    Targets,
    mapped,
)

BIG = sample_of(4, 32)
NEAREST = sample_of(4, 16)
SMALL = sample_of(1, 4)
FEW = [sample_of(disks, nfsd) for disks in (1, 2, 3, 4) for nfsd in (2, 8, 32, 100)]
CONFIDENCES = (0.70, 0.80, 0.90, 0.95)
ACCURACIES = (0.70, 0.80, 0.85, 0.90, 0.95)
WIDTHS = (0.20, 0.15, 0.10, 0.05, 0.025)


class Bench:
    """Where pictures go, and how thorough the simulation is."""

    def __init__(self, out: Path, repeats: int) -> None:
        self.out = out
        self.repeats = repeats
        self._known: dict[tuple[str, Line, Targets, int, int], Mapping] = {}

    def path(self, name: str) -> Path:
        """Return the picture's path."""
        return self.out / f"workbench-{name}.png"

    def maps(
        self,
        workload: str,
        line: Line,
        targets: Targets = Targets(),  # noqa: B008 - a frozen tuple
        among: list[tuple[tuple[str, str], ...]] | None = None,
    ) -> list[Mapping]:
        """Return repeated mappings, simulated once per run of the bench."""
        chosen = list(SAMPLES) if among is None else among
        found = []
        for seed in range(1, self.repeats + 1):
            key = (workload, line, targets, len(chosen), seed)
            if key not in self._known:
                self._known[key] = mapped(simulated(workload), line, targets, chosen, seed)
            found.append(self._known[key])
        return found


def mean(values: list[float]) -> float:
    """Return the mean of at least one value."""
    return sum(values) / len(values)


def seconds(maps: list[Mapping]) -> float:
    """Return the mean cost of repeated mappings [s]."""
    return mean([one.seconds for one in maps])


def in_region(maps: list[Mapping]) -> float:
    """Return the share of all searches whose answer is in its region [%]."""
    searches = sum(one.searches for one in maps)
    return 100 * sum(one.in_region for one in maps) / searches


def search_path(line: Line, targets: Targets = Targets()) -> SearchPath:  # noqa: B008
    """Return how one search of the big sample went; seeded, after its neighbour's."""
    among = [NEAREST, BIG] if line.seeded else [BIG]
    history = mapped(simulated("DB_TP"), line, targets, among).histories[-1]
    peak = server("DB_TP", BIG).peak_rate
    hours, spent = [], 0.0
    for trial in history:
        spent += trial.lasted_s
        hours.append(spent / 3600)
    return SearchPath(line.label, hours, [trial.rate / peak for trial in history])


def figure_3(bench: Bench) -> None:
    """Strawman beside an efficient policy."""
    paths = [search_path(line) for line in (STRAWMAN, BINSEARCH, MONOTONE)]
    searches([("", paths)], bench.path("figure-3"))
    for one in paths:
        print(f"  {one.label}: {one.hours[-1]:.3g} h, {len(one.hours)} trials")


def figure_4(bench: Bench) -> None:
    """Responses of runs over load, and over run length (figure 5)."""
    small = server("DB_TP", SMALL)
    found = over_load(small)
    load = Cloud("180-s runs", found.places, [v.tolist() for v in found.means_ms])
    lengths = []
    for factor in (0.3, 0.9):
        at = over_length(small, factor)
        values = [v.tolist() for v in at.means_ms]
        lengths.append(Cloud(f"load factor {factor:g}", at.places, values))
        spreads = [100 * v.std(ddof=1) / v.mean() for v in at.means_ms]
        told = (f"{s:.0f} s {sd:.1f}" for s, sd in zip(at.places, spreads, strict=True))
        print(f"  sd of runs at {factor:g} [%]:", *told)
    run_s = "run length [s]"
    panels = [
        (Labels("load factor", "mean response [ms]", "figure 4"), [load]),
        (Labels(run_s, "mean response [ms]", "figure 5"), lengths),
    ]
    clouds(panels, bench.path("figures-4-5"))
    for place, means in zip(found.places, found.means_ms, strict=True):
        spread = 100 * means.std(ddof=1) / means.mean()
        print(f"  load {place:g}: {means.mean():.1f} ms, sd {spread:.1f} %")


def figure_6(bench: Bench) -> None:
    """Trials to 90 % accuracy at 95 % confidence by run length."""
    panels = []
    lengths = [float(length) for length in LENGTHS_S]
    for factor in (0.3, 0.9):
        lines = []
        for workload in WORKLOADS:
            needed = trials_needed(server(workload, SMALL), factor)
            lines.append(Curve(workload, lengths, needed))
            print(f"  {workload} at {factor:g}:", *(f"{n:.1f}" for n in needed))
        title = f"figure 6, load factor {factor:g}"
        panels.append((Labels("run length [s]", "trials needed", title), lines))
    curves(panels, bench.path("figure-6"), log=False)


def figure_7(bench: Bench) -> None:
    """Each policy's way to the peak of one sample, alone and with seeding."""
    paths = [search_path(line) for line in LINES]
    panels = [
        (title, [p for p, line in zip(paths, LINES, strict=True) if line.seeded is seeded])
        for title, seeded in (("from 50/s", False), ("seeded by 4 disks, 16 nfsd", True))
    ]
    searches(panels, bench.path("figure-7"))
    for one in paths:
        near = mean([float(abs(factor - 1) < 0.1) for factor in one.factors])
        print(
            f"  {one.label}: {one.hours[-1]:.3g} h, {len(one.hours)} trials, "
            f"{100 * near:.0f} % of them within 10 % of the peak"
        )


def figure_8(bench: Bench) -> None:
    """The cost of mapping three surfaces by each policy."""
    found = {
        workload: {line.label: bench.maps(workload, line) for line in (*LINES, *POLYNOMIAL_LINES)}
        for workload in WORKLOADS
    }
    lowest = seconds(found["DB_TP"][BINSEARCH_SEEDED.label])
    costs = {
        workload: {label: seconds(maps) / lowest for label, maps in of.items()}
        for workload, of in found.items()
    }
    drawn = {line.label for line in LINES}
    bars(
        {
            workload: {label: cost for label, cost in of.items() if label in drawn}
            for workload, of in costs.items()
        },
        bench.path("figure-8"),
    )
    print(f"  1 is {lowest:.0f} s; cost, trials, not found, in region")
    for workload, of in found.items():
        for label, maps in of.items():
            n = sum(one.searches for one in maps)
            print(
                f"  {workload} | {label} | {costs[workload][label]:.2f} | "
                f"{mean([float(one.trials) for one in maps]):.0f} | "
                f"{100 * sum(one.not_found for one in maps) / n:.1f} % | "
                f"{in_region(maps):.0f} %"
            )


def table_4(bench: Bench) -> None:
    """Errors of surfaces predicted from 6, 8 and 10 samples."""
    print(f"  mean absolute error [%] by samples {SIZES}")
    for workload in WORKLOADS:
        published = bench.maps(workload, BINSEARCH)
        ours = bench.maps(workload, MONOTONE)
        ways = {
            "quadratic, D-optimal": [
                quadratic(simulated(workload), m.results, logs=False) for m in published
            ],
            "the same in logarithms": [
                quadratic(simulated(workload), m.results, logs=True) for m in published
            ],
            "adaptive, over monotone": [adaptive(simulated(workload), m.results) for m in ours],
        }
        for way, errors in ways.items():
            means = [mean(list(column)) for column in zip(*errors, strict=True)]
            print(f"  {workload} | {way} |", *(f"{value:.1f}" for value in means))


def measured(_bench: Bench) -> None:
    """The cost of the policies, and errors of maps, with the peaks of real servers."""
    for archive in sorted((ROOT / "docs" / "images" / "data").glob("ganesha-*.tar.xz")):
        name = archive.name.split(".")[0]
        with tempfile.TemporaryDirectory() as place, tarfile.open(archive) as study:
            study.extractall(place, filter="data")
            words = ["surface", "--study", f"{place}/{name}", "--json"]
            done = subprocess.run(
                [sys.executable, "-m", "benchwright.cli.main", *words],
                capture_output=True,
                check=True,
            )
        document = json.loads(done.stdout)
        results = results_of(document)
        peaks = peaks_of(name, results, document)
        print(f"  {name}: mean absolute error [%] by samples {SIZES}")
        for way, errors in map_errors(peaks, results).items():
            print(f"  {way} |", *(f"{value:.1f}" for value in errors))
        print(f"  hours, trials, found, within 5 %; step {published_step(peaks):.0f}/s")
        print(f"  measured | {document['load_s'] / 3600:.2f} | {document['trials']}")
        for one in policy_costs(peaks):
            print(
                f"  {one.label} | {one.hours:.3g} | {one.trials} | {one.found} | {one.near}",
                flush=True,
            )


def figure_9(bench: Bench) -> None:
    """The cost of mapping DB_TP over target accuracy, for several confidences."""
    costs = {
        confidence: [
            seconds(bench.maps("DB_TP", BINSEARCH, Targets(0.10, confidence, accuracy)))
            for accuracy in ACCURACIES
        ]
        for confidence in CONFIDENCES
    }
    lowest = min(min(line) for line in costs.values())
    lines = [
        Curve(
            f"{100 * confidence:.0f} % confidence",
            [100 * accuracy for accuracy in ACCURACIES],
            [cost / lowest for cost in line],
        )
        for confidence, line in costs.items()
    ]
    labels = Labels("target accuracy [%]", "cost of mapping DB_TP, normalised")
    curves([(labels, lines)], bench.path("figure-9"), log=False)
    _tell(lines)


def figure_10(bench: Bench) -> None:
    """The cost of mapping part of DB_TP over the width of the peak region."""
    costs = {
        line: [seconds(bench.maps("DB_TP", line, Targets(s), FEW)) for s in WIDTHS]
        for line in LINES[:-1]  # Seeded, monotone costs nearly the same, and minutes of CPU.
    }
    lowest = min(costs[BINSEARCH_SEEDED])
    regions = [100 * (1 - s) for s in WIDTHS]
    lines = [
        Curve(line.label, regions, [value / lowest for value in cost])
        for line, cost in costs.items()
    ]
    labels = Labels("target accuracy of the peak region, 100 - s [%]", "cost, normalised")
    curves([(labels, lines)], bench.path("figure-10"))
    _tell(lines)
    print("  answers in their region [%]")
    for line in costs:
        maps = [bench.maps("DB_TP", line, Targets(s), FEW) for s in WIDTHS]
        print(f"  {line.label}:", *(f"{in_region(one):.0f}" for one in maps))


def _tell(lines: list[Curve]) -> None:
    for line in lines:
        print(f"  {line.label}:", *(f"{value:.2f}" for value in line.y))


FIGURES: dict[str, Callable[[Bench], None]] = {
    "3": figure_3,
    "4": figure_4,
    "6": figure_6,
    "7": figure_7,
    "8": figure_8,
    "t4": table_4,
    "measured": measured,
    "9": figure_9,
    "10": figure_10,
}
"""4 draws figure 5 too."""


def main() -> None:
    """Draw the figures asked for and print what is in them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(FIGURES), help="such as 3,7,t4")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--full", action="store_true", help="5 repetitions, not 1")
    options = parser.parse_args()
    bench = Bench(options.out, 5 if options.full else 1)
    for name in options.only.split(","):
        begun = time.process_time()
        print(f"figure {name}", flush=True)
        FIGURES[name](bench)
        print(f"  ({time.process_time() - begun:.0f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
