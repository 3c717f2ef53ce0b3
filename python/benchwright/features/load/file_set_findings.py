"""Findings about a file workload: what was drawn differs from its tables, objects were missing.

Decision: the mix of chains, the popularity of files and directories, and sizes are compared with
their tables by chi-square tests in every run, because a generator that silently used another
working set would measure something else (SPEC, "Defects in SFS 2.0", 2001). The tests of a run
share one error probability (Bonferroni), so that at most one run in 100 has a false alarm.
Rejected: a limit for the difference of each share, which would be too wide for frequent values
and too narrow for rare ones. tests/unit/test_finding_file_set.py simulates both kinds of error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.results import Figure, Finding, Value, states
from benchwright.core.text import binary_size_text, number_text
from benchwright.features.load.types import FileSetResult
from benchwright.findings.codes import make_finding
from benchwright.stats.special import chi_square_tail

FALSE_ALARMS = 0.005
"""Probability that a correct run has the finding; half of the 1 % that is promised, because the
distribution of the statistic is only approximately chi-square."""
FALSE_ALARMS_OF_A_TRIAL = FALSE_ALARMS / 100
"""The same for one of the trials of a search, of which there may be a hundred."""
LEAST_EXPECTED = 10.0
"""Minimum expected count of a class; rarer ones are tested together."""
MISSING = 0.001
"""Share of draws without a usable object that is reported."""


class CountedTable(msgspec.Struct, frozen=True):
    """A table and what was drawn from it."""

    name: str
    classes: tuple[str, ...]
    weights: tuple[float, ...]
    drawn: tuple[int, ...]


def file_set_findings(
    files: FileSetResult, subject: str, false_alarms: float = FALSE_ALARMS
) -> Iterator[Finding]:
    """Yield the findings about what a run drew from the tables of its file set.

    `false_alarms`: probability that a correct run has the finding `mix-differs`.
    """
    yield from _mix(counted_tables(files), subject, false_alarms)
    draws = sum(chain.drawn for chain in files.mix)
    if files.unavailable > MISSING * draws:
        shown = states(operations=files.unavailable, chains=draws)
        yield make_finding("objects-missing", subject, shown)


def counted_tables(files: FileSetResult) -> list[CountedTable]:
    """Return the tables of a run that have draws."""
    tables = []
    for filament in sorted({chain.filament for chain in files.mix}):
        rows = [chain for chain in files.mix if chain.filament == filament]
        tables.append(
            _table(
                "mix of chains"
                if len(rows) == len(files.mix)
                else f"mix of filament {filament + 1}",
                [(row.chain, row.weight, row.drawn) for row in rows],
            )
        )
    for name, popularity in (
        ("popularity of files", files.file_popularity),
        ("popularity of directories", files.directory_popularity),
    ):
        each = [
            (f"weight {number_text(row.weight / max(1, row.objects), 3)}", row.weight, row.drawn)
            for row in popularity
        ]
        tables.append(_table(name, each))
    sizes = files.file_sizes
    tables.append(
        _table(
            "sizes of files", [(_up_to(row.bytes), row.expected_share, row.files) for row in sizes]
        )
    )
    tables.append(
        _table(
            "sizes of the files that were drawn",
            [(_up_to(row.bytes), row.weight, row.drawn) for row in sizes],
        )
    )
    for transfer in files.transfer_sizes:
        tables.append(
            _table(
                f"sizes of {transfer.chain}, step {transfer.step + 1}",
                [(_up_to(row.bytes), row.expected_share, row.drawn) for row in transfer.sizes],
            )
        )
    return [table for table in tables if any(table.drawn)]


def _up_to(bytes_: int) -> str:
    return f"up to {binary_size_text(bytes_)}"


def _table(name: str, rows: Sequence[tuple[str, float, int]]) -> CountedTable:
    return CountedTable(
        name=name,
        classes=tuple(row[0] for row in rows),
        weights=tuple(float(row[1]) for row in rows),
        drawn=tuple(row[2] for row in rows),
    )


def _mix(tables: Sequence[CountedTable], subject: str, false_alarms: float) -> Iterator[Finding]:
    tested = [
        (probability, table) for table in tables if (probability := chance_of(table)) is not None
    ]
    for probability, table in tested:
        if probability * len(tested) < false_alarms:
            chance = number_text(probability, 2) if probability > 1e-12 else "below 1e-12"
            shown = states(table=table.name, **_worst(table), chance=chance)
            yield make_finding("mix-differs", subject, shown)


def chance_of(table: CountedTable) -> float | None:
    """Return the probability of draws at least as far from the table's weights; None if there are
    too few draws or classes for a test."""
    if any(drawn and not weight for weight, drawn in zip(table.weights, table.drawn, strict=True)):
        return 0.0
    cells = _cells(table)
    if len(cells) < 2:
        return None
    square = sum((drawn - expected) ** 2 / expected for expected, drawn in cells)
    return chi_square_tail(square, len(cells) - 1)


def _cells(table: CountedTable) -> list[tuple[float, int]]:
    """Return expected and drawn counts; the rarest classes together until they are enough."""
    scale = sum(table.drawn) / (sum(table.weights) or 1.0)
    rows = [
        (weight * scale, drawn)
        for weight, drawn in zip(table.weights, table.drawn, strict=True)
        if weight
    ]
    # By expected counts alone: an order that follows what was drawn would bias the test.
    rows.sort(key=lambda row: row[0])
    cells: list[tuple[float, int]] = []
    expected, drawn = 0.0, 0
    for more, count in rows:
        expected, drawn = expected + more, drawn + count
        if expected >= LEAST_EXPECTED:
            cells.append((expected, drawn))
            expected, drawn = 0.0, 0
    if expected and cells:
        # Only where all rows are rare: the rest belongs to the last cell.
        cells[-1] = (cells[-1][0] + expected, cells[-1][1] + drawn)
    return cells


def _worst(table: CountedTable) -> dict[str, Value]:
    """Return the class with the greatest contribution, drawn and expected share."""
    whole, weights = sum(table.drawn), sum(table.weights) or 1.0

    def distance(row: tuple[str, float, int]) -> float:
        expected = row[1] / weights * whole
        return (row[2] - expected) ** 2 / max(expected, 1e-9)

    rows = zip(table.classes, table.weights, table.drawn, strict=True)
    name, weight, drawn = max(rows, key=distance)
    return {
        "member": name,
        "drawn": Figure(drawn / whole, "%"),
        "draws": whole,
        "expected": Figure(weight / weights, "%"),
    }
