"""What ten, 500 and each further run of `true` cost: bw run beside hyperfine.

Three figures, of both tools in alternation, medians of several pairs:

- the CPU time of ten runs that is the tool's own, its children left out (required of
  `bw run`: at most 0.30 s, aim 0.15 s);
- the wall-clock time of 500 runs from start to end, findings and export included, ours
  over theirs (required: at most 2, aim 1.5);
- the time of each further run, the slope between 500 and 1,500 runs, ours over theirs
  (required: at most 1.05).

Both measure /bin/true without a shell. The floor is what `true` itself takes, by our own
launcher's account. Nothing here is asserted: the machine is shared. Neighbours lengthen
wall-clock times more than CPU times, so the CPU time of 500 runs is printed beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PAIRS = 7
FEW, SHORT, LONG = 10, 500, 1500
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

Tool = Callable[[int, str], list[str]]


class Cost(NamedTuple):
    """What one command took [s]."""

    wall: float
    own: float
    """CPU time of its main thread."""
    everything: float
    """CPU time with its children."""


def hyperfine(runs: int, directory: str) -> list[str]:
    """Return hyperfine's command line for so many runs, exported into a directory."""
    export = ["--export-json", f"{directory}/hyperfine.json"]
    return ["hyperfine", "-N", "--warmup", "0", "--runs", str(runs), *export, "true"]


def bw(runs: int, directory: str) -> list[str]:
    """Return our command line for so many runs, into a study of its own."""
    tool = str(Path(sys.executable).parent / "bw")
    words = [tool, "run", "--study", f"{directory}/study"]
    return [*words, "--min-runs", str(runs), "--max-runs", str(runs), "--", "true"]


def cost(tool: Tool, runs: int) -> Cost:
    """Return what a tool's runs took."""
    with tempfile.TemporaryDirectory(prefix="bw-bench-") as directory:
        begun = time.monotonic()
        process = subprocess.Popen(
            tool(runs, directory),
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Ended and not yet reaped, it still says what it used itself, in ns.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall = time.monotonic() - begun
        own_ns = Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"exit status {process.returncode}: {' '.join(tool(runs, '.'))}")
    return Cost(wall, int(own_ns) / 1e9, used.ru_utime + used.ru_stime)


def floor_us() -> float:
    """Return the median elapsed time of `true` as the launcher sees it [us]."""
    with tempfile.TemporaryDirectory(prefix="bw-bench-") as directory:
        words = bw(SHORT, directory)
        words.insert(words.index("--"), "--json")
        done = subprocess.run(words, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    (test,) = json.loads(done.stdout)["tests"]
    (elapsed,) = (q for q in test["quantities"] if q["name"] == "elapsed")
    return float(elapsed["median"]) * 1e6


class Pair(NamedTuple):
    """Both tools, one after the other: ours, theirs."""

    own_ms: tuple[float, float]
    """CPU time of ten runs without children."""
    wall_s: tuple[float, float]
    """Of 500 runs."""
    cpu_s: tuple[float, float]
    """Of 500 runs, with children."""
    further_us: tuple[float, float]
    """Wall-clock time of each further run."""


def measured(tool: Tool) -> tuple[float, float, float, float]:
    """Return a tool's four figures."""
    few, short, long = (cost(tool, runs) for runs in (FEW, SHORT, LONG))
    further_us = (long.wall - short.wall) / (LONG - SHORT) * 1e6
    return few.own * 1e3, short.wall, short.everything, further_us


def line(pairs: list[Pair], figure: int, name: str, unit: str) -> str:
    """Return the medians of one figure, with the median of the pairs' ratios."""
    both = [pair[figure] for pair in pairs]
    ours, theirs = (statistics.median(one[side] for one in both) for side in (0, 1))
    ratio = statistics.median(mine / other for mine, other in both)
    return f"{name}: bw {ours:.4g} {unit}, hyperfine {theirs:.4g} {unit}; ratio {ratio:.2f}"


NAMES = (
    (f"own CPU time of {FEW} runs", "ms"),
    (f"wall-clock time of {SHORT} runs", "s"),
    (f"CPU time of {SHORT} runs, children included", "s"),
    ("wall-clock time of each further run", "us"),
)


def main() -> int:
    """Print the figures of every pair and their medians."""
    if shutil.which("hyperfine") is None:
        print("hyperfine is not installed: nothing to compare with", file=sys.stderr)
        return 1
    print(f"floor: true itself {floor_us():.0f} us (median elapsed)")
    pairs: list[Pair] = []
    for number in range(PAIRS):
        if number % 2:
            ours, theirs = measured(bw), measured(hyperfine)
        else:
            theirs, ours = measured(hyperfine), measured(bw)
        pairs.append(Pair(*zip(ours, theirs, strict=True)))
        figures = (line(pairs[-1:], i, *name) for i, name in enumerate(NAMES))
        print(f"pair {number + 1}: " + "; ".join(figures), flush=True)
    print(f"medians of {PAIRS} pairs:")
    for i, name in enumerate(NAMES):
        print("  " + line(pairs, i, *name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
