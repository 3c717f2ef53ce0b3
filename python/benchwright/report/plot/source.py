"""What a plot is made of: the tests under each NAME of the command line.

Purpose: the one place where results become columns of numbers for plots, by the same
aggregation as the tables (stats.aggregate). Trials that failed or are void are in no
column. Non-goal: finding files; that is `cli/plot_inputs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchwright.model.decision import Stop
from benchwright.model.errors import Diagnostic
from benchwright.model.observation import Ending, Trial
from benchwright.model.plan import Arm, MetricSpec, Pairs
from benchwright.stats.aggregate import Column, columns, observe_trials
from benchwright.stats.rows import RowBook

_FAILED = (Ending.FAILED, Ending.TIMEOUT)
SUFFIXES = (".res", ".csv", ".txt", ".time", ".log")


class Source(msgspec.Struct, frozen=True):
    """One test, as a plot sees it."""

    test: str
    columns: dict[str, Column]
    labels: dict[str, str]
    """Of each column: as in the table."""
    units: dict[str, str]
    sample: Pairs = ()
    threads: int | None = None
    failed: int = 0
    """Trials that failed, which are in no column."""
    stop: Stop | None = None
    arm: Arm | None = None
    """Of which comparison it is an arm, if of any."""

    @property
    def title(self) -> str:
        """The test's name without a results file's suffix."""
        for suffix in SUFFIXES:
            if self.test.endswith(suffix) and self.test != suffix:
                return self.test.removesuffix(suffix)
        return self.test


class Group(msgspec.Struct, frozen=True):
    """The tests of one NAME."""

    name: str
    sources: tuple[Source, ...]


class Component(msgspec.Struct, frozen=True):
    """A quantity that is drawn."""

    name: str
    """As in a column: `elapsed`."""
    label: str
    unit: str


def source_of(
    test: str,
    trials: Iterable[Trial],
    specs: Sequence[MetricSpec] = (),
    *,
    sample: Pairs = (),
    stop: Stop | None = None,
    arm: Arm | None = None,
) -> Source:
    """Return a test's columns; trials that do not count are in none."""
    trials = tuple(trials)
    book = RowBook(specs)
    found = columns(observe_trials(trials, book), book)
    rows = {name: book.row(name) for name in found}
    return Source(
        test=test,
        columns=found,
        labels={name: row.label for name, row in rows.items()},
        units={name: row.unit for name, row in rows.items()},
        sample=sample,
        threads=trials[0].threads if trials else None,
        failed=sum(trial.ending in _FAILED for trial in trials),
        stop=stop,
        arm=arm,
    )


def components_of(groups: Iterable[Group]) -> tuple[Component, ...]:
    """Return every quantity that some test has, in the tables' order."""
    found: dict[str, Component] = {}
    for group in groups:
        for source in group.sources:
            for name in source.columns:
                unit = source.units[name]
                found.setdefault(name, Component(name, source.labels[name], unit))
    return tuple(found[name] for name in RowBook().ordered(found))


def choose(
    words: Sequence[str], there: Sequence[Component], wrong: list[Diagnostic]
) -> tuple[Component, ...]:
    """Return the quantities of these labels or names, any case, each once.

    What no test has is a mistake, and is added to `wrong`.
    """
    known = {c.label.lower(): c for c in there} | {c.name.lower(): c for c in there}
    chosen: dict[str, Component] = {}
    for word in words:
        component = known.get(word.strip().lower())
        if component is None:
            hint = "there are: " + (", ".join(c.label for c in there) or "none at all")
            message = f"no test has a component {word.strip()!r}"
            wrong.append(Diagnostic("bad-argument", message, hint, "--components"))
        else:
            chosen.setdefault(component.name, component)
    return tuple(chosen.values())
