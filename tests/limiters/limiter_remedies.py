"""Two limits at once: what is named first, and whether its remedy would help.

Decision: the remedy is applied, and the elapsed time of the same work is compared with that
before and after it, a ratio of neighbours in time; so is the other limit's remedy. A remedy
helps where the ratio's median over the repetitions is under HELPS.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from limiter_cases import Command
from limiter_means import Lacking
from limiter_mixed import Mixed, Situation
from limiter_named import causes_of

WANTED = 0.95
HELPS = 0.95
"""Of the elapsed time that is left: a few percent less is no help that is seen."""


@dataclass
class MixedTally:
    """What was named first in the repetitions of one case, and what the remedies did."""

    mixed: Mixed
    named: Counter[str] = field(default_factory=Counter)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    """By code: elapsed with its remedy to that without, of each repetition."""
    lacking: str = ""

    HEADER: ClassVar[str] = (
        "\n| two limits | strength | first is right | remedy would help | elapsed with it | "
        "with the other's remedy | instead |\n|---|---|---|---|---|---|---|"
    )

    @property
    def name(self) -> str:
        """The case, with its strength."""
        return f"{self.mixed.name}, {self.mixed.strength}"

    @property
    def right(self) -> int:
        """In how many repetitions the first was right."""
        return self.named[self.mixed.code]

    @property
    def helped(self) -> int:
        """In how many repetitions the remedy of the one that is to be first helped."""
        return sum(ratio < HELPS for ratio in self.ratios.get(self.mixed.code, []))

    @property
    def holds(self) -> bool:
        """Whether the first was right often enough, and its remedy helps."""
        ratios, tried = self.ratios.get(self.mixed.code, []), self.named.total()
        helps = bool(ratios) and statistics.median(ratios) < HELPS
        return tried > 0 and self.right >= WANTED * tried and helps

    @property
    def line(self) -> str:
        """A line of the table."""
        mixed, tried = self.mixed, self.named.total()
        if self.lacking:
            return f"| {mixed.name} | {mixed.strength} | SKIPPED: {self.lacking} | | | | |"
        instead = {name or "nothing": n for name, n in self.named.items()}
        instead.pop(mixed.code, None)
        others = ", ".join(f"{name} {n}" for name, n in instead.items())
        return (
            f"| {mixed.name} | {mixed.strength} | {self.right} of {tried} | "
            f"{self.helped} of {tried} | {self._median(mixed.code)} ({mixed.code}) | "
            f"{self._median(mixed.beside)} ({mixed.beside}) | {others} |"
        )

    def _median(self, code: str) -> str:
        ratios = self.ratios.get(code)
        return f"{statistics.median(ratios):.2f}" if ratios else "-"

    def as_json(self) -> dict[str, object]:
        """Return the counts and all ratios."""
        return {"first": dict(self.named), "elapsed_with_remedy": self.ratios}

    def filled(self, repetitions: int) -> MixedTally:
        """Make the limits happen so many times; return this."""
        for _ in range(repetitions):
            place = Path(tempfile.mkdtemp(prefix="bw-limiters-"))
            try:
                with self.mixed.make(place) as situation:
                    self._tell(situation, place / "study")
            except Lacking as why:
                self.lacking = str(why)
                break
            except (AssertionError, subprocess.SubprocessError) as error:
                self.named[f"failed: {error}"] += 1
            finally:
                shutil.rmtree(place, ignore_errors=True)
        return self

    def _tell(self, situation: Situation, study: Path) -> None:
        first = causes_of(situation.command, study).first(self.mixed.code)
        self.named[first] += 1
        before_s = elapsed_s(situation.command)
        lifted = {code: _lifted_s(remedy()) for code, remedy in situation.lifted.items()}
        around_s = (before_s + elapsed_s(situation.command)) / 2
        for code, with_s in lifted.items():
            self.ratios.setdefault(code, []).append(with_s / around_s)


def _lifted_s(remedy: AbstractContextManager[Command]) -> float:
    with remedy as command:
        return elapsed_s(command)


def elapsed_s(command: Command) -> float:
    """Return how long a command runs [s]."""
    begin_s = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return time.monotonic() - begin_s
