"""How long `bw --help` takes, bytecode compiled, beside a bare interpreter.

Aim: under 100 ms. The floor is `python -c pass` in the same minute. Run with the
installed `bw` (`make bench`); PYTHONDONTWRITEBYTECODE is cleared, or the compiler would
be measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 21


def wall_ms(command: list[str]) -> float:
    """Return the wall-clock time of a command [ms]."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begun = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return (time.monotonic() - begun) * 1e3


def main() -> int:
    """Print medians and minima of both, run in turn."""
    tool = str(Path(sys.executable).parent / "bw")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "bw --help": [tool, "--help"],
        "bw run --help": [tool, "run", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _run in range(RUNS):
        for name, command in commands.items():
            times[name].append(wall_ms(command))
    for name, figures in times.items():
        print(
            f"{name:15} median {statistics.median(figures):6.1f} ms, "
            f"minimum {min(figures):6.1f} ms over {RUNS} runs"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
