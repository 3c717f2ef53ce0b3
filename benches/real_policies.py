"""The workbench paper's policies on a real server, each to its end: figures 3 and 7 to 10 for one
sample.

1. NFS-Ganesha under SPECsfs97, with one disk and 8 threads, is searched by each published policy and by
   ours, several side by side, each with a server and disks of its own. Seeded searches begin at
   the peak of the neighbouring sample, with 2 threads.
2. Figures 3 and 7 are these searches as they went. The true peak is where the mean responses of
   all their trials meet the limit.
3. Figures 8, 9 and 10 are searches by the published policies of the recorded trials
   (parts/recorded_trials.py): what they cost and how many of their answers are in their region, by
   policy, by confidence and accuracy, and by the region's width.

Nobody else should use the machine meanwhile; the servers leave the CPUs idle for most of the time
(the column `idle`). The same command with the same --out goes on where it was stopped; with --draw
it draws what is there. Every trial is a row of OUT/trials.csv.

Usage: real_policies.py [--run-length 40] [--step 10] [--at-once 5] [--only Binsearch] [--out DIR]
[--draw]
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sim"), str(ROOT / "benches" / "parts")]

from paper_drawing import Curve, Labels, SearchPath, curves, searches  # noqa: E402
from paper_searches import LINES, MOST_TRIALS, POLYNOMIAL_LINES, START_RATE, STRAWMAN, Line  # noqa: E402
from parts.busy_machine import add_busy_option, refuse_busy  # noqa: E402
from parts.bw_steps import HEADER, Step, nfs, prepare, row, run  # noqa: E402
from parts.recorded_trials import Recorded, Recording, goal_of, recording, search  # noqa: E402

from benchwright.features.search.types import Claim, ClaimKind  # noqa: E402

SERVER = nfs("specsfs97")
NEIGHBOUR_RATE = 196.0
"""Peak rate of the sample with 2 threads (docs/decisions/0026-workbench-paper.md) [1/s]."""
LIMIT_MS = 40.0
OURS = "monotone"
EVERY = (STRAWMAN, *LINES, POLYNOMIAL_LINES[0])
"""In the order in which they begin: the longest first."""
PUBLISHED = tuple(line for line in (*LINES, *POLYNOMIAL_LINES) if line.policy != OURS)
STRAWMAN_STEPS = 2
"""The strawman's step, in those of Linear: with the same it would take a night."""
BUDGET = "3h"
HIGHEST_RATE = 1500.0
"""Of searches of recorded trials: no trial was at a higher one [1/s]."""
REPEATS = 32
CONFIDENCES = (0.70, 0.80, 0.90, 0.95)
ACCURACIES = (0.70, 0.80, 0.85, 0.90, 0.95)
WIDTHS = (0.20, 0.15, 0.10, 0.05, 0.025)


class Trial(NamedTuple):
    """A row of trials.csv."""

    search: str
    number: int
    rate: float
    """[1/s]."""
    response_ms: float
    lasted_s: float
    cost_s: float

    @property
    def recorded(self) -> Recorded:
        """Return what a search of recorded trials needs of it."""
        return Recorded(self.rate, self.response_ms, self.lasted_s)


def step_of(line: Line, asked: argparse.Namespace) -> Step:
    """Return a policy's search of the server."""
    step = asked.step * (STRAWMAN_STEPS if line is STRAWMAN else 1)
    start = NEIGHBOUR_RATE if line.seeded else START_RATE
    words = ("--policy", line.policy, "--claim", "region:10%", "--budget", BUDGET)
    words += ("--start", f"{start:g}", "--run-length", f"{asked.run_length:g}s", "--seed", "1")
    words += ("--max-trials", str(MOST_TRIALS.get(line.policy, 1000)))
    if line.policy in ("linear", "strawman"):
        words += ("--step", f"{step:g}")
    return Step(SERVER, f"{line.policy}{'-seeded' if line.seeded else ''}", words)


def measured(asked: argparse.Namespace) -> Iterator[Trial]:
    """Run every search that is not on record; yield their trials."""
    chosen = [line for line in EVERY if line.label in (asked.only or [line.label])]

    def one(line: Line) -> list[Trial]:
        outcome = run(step_of(line, asked), asked.out)
        print(row(outcome), flush=True)
        return [
            Trial(
                line.label,
                *(each[key] for key in ("number", "rate", "response", "lasted_s", "cost_s")),
            )
            for each in outcome.document.get("trials", ())
            if each["response"] is not None
        ]

    print(HEADER)
    with ThreadPoolExecutor(asked.at_once) as executor:
        for trials in executor.map(one, chosen):
            yield from trials


def searched(trials: Sequence[Trial], peak: float, out: Path) -> None:
    """Draw how each search went, and print what it cost."""
    paths = {}
    for line in EVERY:
        own = [one for one in trials if one.search == line.label]
        if own:
            hours = (np.cumsum([one.cost_s for one in own]) / 3600).tolist()
            paths[line] = SearchPath(line.label, hours, [one.rate / peak for one in own])
    panels = [
        (title, [path for line, path in paths.items() if line.seeded is seeded])
        for title, seeded in (("from 50/s", False), ("seeded by the sample with 2 threads", True))
    ]
    searches(panels, out / "workbench-figure-7-measured.png")
    for one in paths.values():
        near = np.mean([abs(factor - 1) < 0.1 for factor in one.factors])
        print(
            f"  {one.label}: {one.hours[-1]:.3g} h, {len(one.hours)} trials, "
            f"{100 * near:.0f} % of them within 10 % of the peak"
        )


class Cost(NamedTuple):
    """What repeated searches of recorded trials came to."""

    hours: float
    trials: float
    found: int
    in_region: int


def repeated(
    known: Recording,
    line: Line,
    asked: argparse.Namespace,
    *,
    width: float = 0.10,
    confidence: float = 0.95,
    accuracy: float = 0.90,
) -> Cost:
    """Return the mean cost of `REPEATS` searches, and how many answers are in their region."""
    goal = goal_of(
        LIMIT_MS,
        Claim(ClaimKind.REGION, width, confidence),
        start_rate=NEIGHBOUR_RATE if line.seeded else START_RATE,
        highest_rate=HIGHEST_RATE,
        length_s=asked.run_length,
        accuracy=accuracy,
        most_trials=MOST_TRIALS.get(line.policy, 1000),
    )
    every = [search(known, line.policy, goal, asked.run_length, seed) for seed in range(REPEATS)]
    answers = [known.response(one.peak_rate) for one in every if one.peak_rate is not None]
    return Cost(
        float(np.mean([one.load_s for one in every])) / 3600,
        float(np.mean([one.trials for one in every])),
        len(answers),
        sum(abs(answer / LIMIT_MS - 1) <= width for answer in answers),
    )


def drawn_again(known: Recording, asked: argparse.Namespace) -> None:
    """Search the recorded trials, draw figures 9 and 10, and print what is in them and in 8."""
    told = f"of {REPEATS} searches"
    for line in PUBLISHED:
        cost = repeated(known, line, asked)
        print(
            f"  {line.label}: {cost.hours:.2f} h, {cost.trials:.0f} trials; {told} {cost.found} "
            f"found, {cost.in_region} in their region",
            flush=True,
        )
    binsearch, linear = _line("Binsearch"), _line("Linear")
    at = {
        confidence: [
            repeated(known, binsearch, asked, confidence=confidence, accuracy=accuracy)
            for accuracy in ACCURACIES
        ]
        for confidence in CONFIDENCES
    }
    lowest = min(cost.hours for line in at.values() for cost in line)
    over_accuracy = [
        Curve(
            f"{100 * confidence:.0f} % confidence",
            [100 * accuracy for accuracy in ACCURACIES],
            [cost.hours / lowest for cost in costs],
        )
        for confidence, costs in at.items()
    ]
    labels = Labels("target accuracy [%]", "cost of a sample, normalised")
    curves([(labels, over_accuracy)], asked.out / "workbench-figure-9-measured.png", log=False)
    over_width = {
        line: [repeated(known, line, asked, width=width) for width in WIDTHS]
        for line in (linear, binsearch, _line("Binsearch with seeding"))
    }
    lowest = min(cost.hours for costs in over_width.values() for cost in costs)
    regions = [100 * (1 - width) for width in WIDTHS]
    lines = [
        Curve(line.label, regions, [cost.hours / lowest for cost in costs])
        for line, costs in over_width.items()
    ]
    labels = Labels("target accuracy of the peak region, 100 - s [%]", "cost, normalised")
    curves([(labels, lines)], asked.out / "workbench-figure-10-measured.png", log=False)
    for curve in (*over_accuracy, *lines):
        print(f"  {curve.label}:", *(f"{value:.2f}" for value in curve.y))
    for line, costs in over_width.items():
        print(f"  in their region, {line.label}:", *(cost.in_region for cost in costs))


def _line(label: str) -> Line:
    return next(line for line in LINES if line.label == label)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run-length", type=float, default=40.0, help="of every trial [s]")
    parser.add_argument("--step", type=float, default=10.0, help="of Linear [1/s]")
    parser.add_argument("--at-once", type=int, default=5, help="searches side by side")
    parser.add_argument("--only", action="append", choices=[line.label for line in EVERY])
    parser.add_argument("--out", type=Path, help="where all is kept")
    parser.add_argument("--draw", action="store_true", help="search nothing, read OUT/trials.csv")
    add_busy_option(parser)
    return parser.parse_args(words)


def main() -> int:
    """Search, and draw; return 0 if every search has trials."""
    asked = arguments()
    prepare()
    asked.out = asked.out or Path(tempfile.mkdtemp(prefix="bw-policies-"))
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / "trials.csv"
    if asked.draw:
        with file.open() as rows:
            trials = [
                Trial(one[0], int(one[1]), *map(float, one[2:]))
                for one in list(csv.reader(rows))[1:]
            ]
    else:
        refuse_busy(asked.busy)
        trials = list(measured(asked))
        with file.open("w", newline="") as rows:
            csv.writer(rows).writerows([Trial._fields, *trials])
    known = recording([one.recorded for one in trials])
    peak = known.peak(LIMIT_MS)
    print(f"{len(trials)} trials; the response is {LIMIT_MS:g} ms at {peak:.4g}/s")
    searched(trials, peak, asked.out)
    drawn_again(known, asked)
    wanted = {line.label for line in EVERY} if not asked.only else set(asked.only)
    return int({one.search for one in trials} != wanted)


if __name__ == "__main__":
    sys.exit(main())
