"""The ground truth of `bw why`: limiters made to happen, and what it names first.

Usage: python tests/limiters/limiter_matrix.py [--repetitions 20] [--only NAME] [--json FILE] [--busy]

Prints, for each case, in how many repetitions the limiter was named first, and what was
named instead; for clean runs, in how many anything was named as the limit; for two limits at
once, also whether the remedy of the first one helped. Exit status 1 if a case is under 95 %
or was not tried, or a clean run has a limiter. Where strangers used the machine, as /proc
says, what others cost is true and left out of account.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from limiter_cases import CASES, CLEAN, Case
from limiter_means import Lacking
from limiter_mixed import MIXED
from limiter_named import named
from limiter_remedies import MixedTally

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.busy_machine import add_busy_option, refuse_busy

sys.path.pop(0)

WANTED = 0.95


@dataclass
class Tally:
    """What was named first in the repetitions of one case."""

    case: Case
    named: Counter[str] = field(default_factory=Counter)
    lacking: str = ""

    @property
    def repetitions(self) -> int:
        """How often it was really tried."""
        return self.named.total()

    @property
    def right(self) -> int:
        """How often the limiter was named first; of a clean run: none was."""
        return self.named[self.case.code]

    @property
    def holds(self) -> bool:
        """Whether it was right often enough; a clean run has no room for a false one, and
        what was not tried holds nothing."""
        wanted = WANTED if self.case.code else 1.0
        return self.repetitions > 0 and self.right >= wanted * self.repetitions


def tallied(case: Case, repetitions: int) -> Tally:
    """Return what is named first in so many repetitions."""
    tally = Tally(case)
    for _ in range(repetitions):
        try:
            tally.named[named(case).first(case.code)] += 1
        except Lacking as why:
            tally.lacking = str(why)
            break
        except (AssertionError, subprocess.TimeoutExpired) as error:
            tally.named[f"failed: {error}"] += 1
    return tally


def line_of(tally: Tally) -> str:
    """Return a tally as a line of the table."""
    case = tally.case
    what = case.code or "(clean)"
    if tally.lacking:
        return f"| {case.name} | {what} | SKIPPED: {tally.lacking} | |"
    others = {name or "nothing": n for name, n in tally.named.items()}
    others.pop(case.code or "nothing", None)
    instead = ", ".join(f"{name} {n}" for name, n in others.items())
    return f"| {case.name} | {what} | {tally.right} of {tally.repetitions} | {instead} |"


def main() -> int:
    """Print the tables; return 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--json", type=Path)
    add_busy_option(parser)
    arguments = parser.parse_args()
    load_average = refuse_busy(arguments.busy)
    wanted, repetitions = arguments.only, arguments.repetitions
    print("| case | limiter | named first | instead |\n|---|---|---|---|")
    tallies = []
    for case in (*CASES, *CLEAN):
        if wanted is None or case.name in wanted:
            tallies.append(tallied(case, repetitions))
            print(line_of(tallies[-1]), flush=True)
    print(MixedTally.HEADER)
    mixed = []
    for one in MIXED:
        if wanted is None or one.name in wanted:
            mixed.append(MixedTally(one).filled(repetitions))
            print(mixed[-1].line, flush=True)
    if arguments.json:
        found = {t.case.name: dict(t.named) for t in tallies}
        found |= {t.name: t.as_json() for t in mixed}
        found["load average before"] = load_average
        arguments.json.write_text(json.dumps(found, indent=1))
    return 0 if all(tally.holds for tally in (*tallies, *mixed)) else 1


if __name__ == "__main__":
    sys.exit(main())
