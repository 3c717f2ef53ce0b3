"""What each --output costs a trial, against a command that writes to /dev/null itself.

For each size the forms are run one after the other in each round, in a turning order, by
one launcher; printed are medians over the rounds and of the differences within a round.

    python benches/output_cost.py [ROUNDS]
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"0 B": 0, "64 KiB": 65536, "20 MB": 20_000_000}
WHOLE = {"keep": "whole", "limit_bytes": 1 << 30}
FORMS = {
    ">/dev/null": ({"keep": "whole"}, " >/dev/null"),
    "null": ({"keep": "null"}, ""),
    "bounded": ({"keep": "ends"}, ""),
    "file": (WHOLE, ""),
    "inherit": (WHOLE | {"relay": True}, ""),
}


class Launcher:
    """A running bw-launcher."""

    def __init__(self, directory: Path) -> None:
        found = Path(sys.executable).with_name("bw-launcher")
        self.directory = directory
        self._process = subprocess.Popen(
            [str(found), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read()

    def _read(self) -> dict:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def trial(self, text: str, output: dict) -> tuple[float, float]:
        """Return elapsed and system time [ms] of a shell command."""
        logs = Path(tempfile.mkdtemp(dir=self.directory))
        command = {"mode": "EXEC", "argv": ["/bin/sh", "-c", text]}
        request = {"type": "run", "id": 1, "first_epoch": 1, "epochs": 1, "threads": 1}
        request |= {"commands": [command], "directory": str(logs), "logs": str(logs)}
        assert self._process.stdin is not None
        print(json.dumps(request | {"output": output}), file=self._process.stdin, flush=True)
        epoch, done = self._read(), self._read()
        assert (epoch["ending"], done["reason"]) == ("ok", "complete"), epoch
        shutil.rmtree(logs)
        (process,) = epoch["processes"]
        return process["elapsed_ns"] / 1e6, process["system_us"] / 1e3


def main() -> None:
    """Print a table for each size."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as directory:
        launcher = Launcher(Path(directory))
        for size, count in SIZES.items():
            seen: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMS}
            names = list(FORMS)
            for turn in range(rounds):
                for place in range(len(names)):
                    name = names[(turn + place) % len(names)]
                    output, redirect = FORMS[name]
                    text = f"exec head -c {count} /dev/zero{redirect}"
                    seen[name].append(launcher.trial(text, output))
            base = seen[">/dev/null"]
            for name, trials in seen.items():
                figures = []
                for which in (0, 1):
                    here = [one[which] for one in trials]
                    more = [a - b[which] for a, b in zip(here, base, strict=True)]
                    figures.append(
                        f"{statistics.median(here):8.3f} ms ({statistics.median(more):+.3f})"
                    )
                print(f"{size:>7} {name:<10} elapsed {figures[0]:<24} system {figures[1]}")


if __name__ == "__main__":
    main()
