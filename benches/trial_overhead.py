"""What a trial of `true` costs beyond `true` itself: bw run beside hyperfine.

Both measure /bin/true without a shell, in alternation, several pairs. The cost per trial
is the slope between a short and a long run, so that start-up is not in it; the ratio is
ours over theirs (aim: at most 1.0). The floor is what `true` itself takes, by our own
launcher's account in the same runs. Nothing here is asserted: the machine is shared.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 7
SHORT, LONG = 200, 1200


def wall_s(command: list[str], directory: str) -> float:
    """Return the wall-clock time of a command [s]."""
    begun = time.monotonic()
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return time.monotonic() - begun


def hyperfine(runs: int) -> list[str]:
    """Return hyperfine's command line for so many runs."""
    return ["hyperfine", "-N", "--warmup", "0", "--runs", str(runs), "/bin/true"]


def bw(runs: int) -> list[str]:
    """Return our command line for so many runs, into a study of its own."""
    study = tempfile.mkdtemp(prefix="bw-bench-")
    words = ["run", "--quiet", "--json", "--study", study]
    tool = str(Path(sys.executable).parent / "bw")
    return [tool, *words, "--min-runs", str(runs), "--", "/bin/true"]


def per_trial_us(make: object, directory: str) -> float:
    """Return the slope between a short and a long run [us per trial]."""
    assert callable(make)
    short, long = wall_s(make(SHORT), directory), wall_s(make(LONG), directory)
    return (long - short) / (LONG - SHORT) * 1e6


def floor_us(directory: str) -> float:
    """Return the median elapsed time of `true` as the launcher sees it [us]."""
    done = subprocess.run(bw(LONG), cwd=directory, check=True, capture_output=True)
    (test,) = json.loads(done.stdout)["tests"]
    (elapsed,) = (q for q in test["quantities"] if q["name"] == "elapsed")
    return float(elapsed["median"]) * 1e6


def main() -> int:
    """Print the figures of every pair and their medians."""
    if shutil.which("hyperfine") is None:
        print("hyperfine is not installed: nothing to compare with", file=sys.stderr)
        return 1
    ratios, ours, theirs = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        print(f"floor: true itself {floor_us(directory):.0f} us (median elapsed)")
        for pair in range(PAIRS):
            order = [(bw, ours), (hyperfine, theirs)]
            for make, figures in order if pair % 2 else reversed(order):
                figures.append(per_trial_us(make, directory))
            ratios.append(ours[-1] / theirs[-1])
            print(
                f"pair {pair + 1}: bw {ours[-1]:.0f} us, hyperfine {theirs[-1]:.0f} us "
                f"a trial; ratio {ratios[-1]:.2f}"
            )
    print(
        f"median: bw {statistics.median(ours):.0f} us, hyperfine "
        f"{statistics.median(theirs):.0f} us a trial; ratio {statistics.median(ratios):.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
