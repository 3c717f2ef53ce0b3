"""File sets of a load: how they grow with it, how many operations a chain has, and whether what was
drawn is what the tables say. Pure.

Decision: a user gives weights and rates of operations sent, as the published tables do; the
engine draws chains. A chain of n operations on average is drawn with weight / n, and chains
arrive at rate / (mean n of the drawn chains). n follows from the tables of sizes alone: the
engine cuts a transfer into pieces, and a whole file counts with the size of a new file.
Source: Anderson and Chase, Fstress (2002): counts per directory grow with the load.

Decision: the mix of chains, the popularity of files and directories, and sizes are compared with
their tables by chi-square tests in every run, because a generator that silently used another
working set would measure something else (SPEC, "Defects in SFS 2.0", 2001). The tests of a run
share one error probability (Bonferroni), so that at most one run in 100 has a false alarm.
Rejected: a limit for the difference of each share, which would be too wide for frequent values
and too narrow for rare ones. tests/unit/test_finding_file_set.py simulates both kinds of error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import msgspec

from benchwright.core.results import Figure, Finding, Value, states
from benchwright.core.text import binary_size_text, number_text
from benchwright.features.load import workload as w
from benchwright.features.load.types import FileSetResult
from benchwright.findings.codes import make_finding
from benchwright.stats.special import chi_square_tail, gamma_tail, normal_cdf

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
    files: FileSetResult, subject: str, false_alarms: float = FALSE_ALARMS, *, sets: int = 1
) -> Iterator[Finding]:
    """Yield the findings about what a run drew from the tables of its file set.

    `false_alarms`: probability that a correct run has the finding `mix-differs`. `sets`: of so many
    hosts with equal sets.
    """
    yield from _mix(counted_tables(files, sets), subject, false_alarms)
    draws = sum(chain.drawn for chain in files.mix)
    if files.unavailable > MISSING * draws:
        shown = states(operations=files.unavailable, chains=draws)
        yield make_finding("objects-missing", subject, shown)


def counted_tables(files: FileSetResult, sets: int = 1) -> list[CountedTable]:
    """Return the tables of a run that have draws; of so many equal sets, whose sizes were drawn
    once."""
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
            "sizes of files",
            [(_up_to(row.bytes), row.expected_share, row.files // sets) for row in sizes],
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


MOST_BYTES = 2**36
"""A file is smaller than this."""
_TRANSFERS = ("read", "write", "append")
_MAKES = ("create", "mkdir")
SPARE = Fraction(1, 10)
"""Further names that do not exist at the start, per existing one, where operations create."""
_MOST_WEIGHT = 10**9


class FileSetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A file set whose files and directories are per operation per second, or absolute."""

    tables: w.FileSet
    """`files` and `empty_directories`: those that exist at the start of each directory."""
    per_load: bool = False
    """Whether `files` of the tables is for each operation per second."""
    for_rate_micro: int | None = None
    """The rate for which the set is made [millionths of 1/s]; None: that of the run."""
    spare: Fraction | None = None
    """Names that do not exist at the start, per existing one; None: as many as are needed."""

    def made_for(self, filaments: Sequence[w.FilamentPlan]) -> w.FileSet:
        """Return the set for filaments. Raises ValueError if it needs a rate and they have none."""
        factor = Fraction(1)
        if self.for_rate_micro is not None:
            factor = Fraction(self.for_rate_micro, w.MICRO)
        elif self.per_load:
            rate = operations_per_s(
                (filament for filament in filaments if isinstance(filament, w.Files)),
                self.tables.file_size,
            )
            if rate is None:
                raise ValueError(
                    "files_per_load needs a rate, and a closed loop has none: add for_rate"
                )
            factor = Fraction(rate)
        spare = self.spare
        if spare is None:
            spare = SPARE if _makes(filaments) else Fraction(0)
        return msgspec.structs.replace(
            self.tables,
            files=multiplied(self.tables.files, factor * (1 + spare)),
            empty_directories=multiplied(self.tables.empty_directories, 1 + spare),
            present_micro=round(w.MICRO / (1 + spare)),
        )


def _makes(filaments: Iterable[w.FilamentPlan]) -> bool:
    """Return whether an operation creates a file or a directory."""
    steps = (
        step
        for filament in filaments
        if isinstance(filament, w.Files)
        for chain in filament.chains
        for step in chain.steps
    )
    return any(step.kind in _MAKES for step in steps)


def multiplied(distribution: w.Distribution, factor: Fraction) -> w.Distribution:
    """Return a distribution of numbers times a factor, rounded; no number becomes 0."""

    def times(value: int) -> int:
        return max(math.floor(value * factor + Fraction(1, 2)), min(value, 1))

    match distribution:
        case w.ConstantValue(value):
            return w.ConstantValue(times(value))
        case w.UniformValue(low, high):
            return w.UniformValue(times(low), times(high))
        case w.Weighted(values):
            return w.Weighted(tuple((times(value), weight) for value, weight in values))
        case w.Pareto(minimum, shape):
            return w.Pareto(times(minimum), shape)
        case _:
            return msgspec.structs.replace(distribution, mean=times(distribution.mean))


# -- operations of a chain ---------------------------------------------------------------


def mean_pieces(size: w.Distribution, piece_bytes: int) -> Fraction:
    """Return the mean number of pieces of a transfer; a size of 0 counts as 1 byte.

    Exact for single values and for uniform sizes.
    """
    match size:
        case w.ConstantValue(value):
            return Fraction(_pieces(value, piece_bytes))
        case w.Weighted(values):
            whole = sum(weight for _, weight in values)
            pieces = sum(_pieces(value, piece_bytes) * n for value, n in values)
            return Fraction(pieces, whole)
        case w.UniformValue(low, high):
            pieces = _pieces_up_to(high, piece_bytes) - _pieces_up_to(low - 1, piece_bytes)
            return Fraction(pieces, high - low + 1)
        case _:
            return Fraction(1 + _sum_of_tail(size, piece_bytes))


def _pieces(value: int, piece_bytes: int) -> int:
    return max(1, -(-value // piece_bytes))


def _pieces_up_to(size: int, piece_bytes: int) -> int:
    """Return the sum of the pieces of all sizes from 0 to this one."""
    if size < 0:
        return 0
    whole, rest = divmod(size, piece_bytes)
    return 1 + piece_bytes * whole * (whole + 1) // 2 + rest * (whole + 1)


def _sum_of_tail(size: w.Distribution, piece_bytes: int) -> float:
    """Return the sum of P(size > k pieces) over k from 1; neighbouring k of large ones together."""
    most = MOST_BYTES // piece_bytes
    total, k = 0.0, 1
    while k <= most:
        several = min(max(1, k // 100), most - k + 1)
        tail = _tail(size, piece_bytes * (k + (several - 1) / 2))
        total += several * tail
        if tail < 1e-12:
            break
        k += several
    return total


def _tail(size: w.Distribution, bytes_: float) -> float:
    """Return P(size > bytes) of a continuous distribution."""
    match size:
        case w.Exponential(mean):
            return math.exp(-bytes_ / mean)
        case w.Lognormal(mean, cv_micro):
            variance = math.log1p((cv_micro / w.MICRO) ** 2)
            location = math.log(mean) - variance / 2
            return normal_cdf((location - math.log(bytes_)) / math.sqrt(variance))
        case w.Gamma(mean, shape_micro):
            shape = shape_micro / w.MICRO
            return gamma_tail(shape, bytes_ * shape / mean)
        case w.Pareto(minimum, shape_micro):
            return min(1.0, math.pow(minimum / bytes_, shape_micro / w.MICRO))
    raise AssertionError(f"{size} is not continuous")


def operations_of(
    steps: Sequence[w.ChainStep], piece_bytes: int, file_size: w.Distribution
) -> Fraction:
    """Return the mean number of operations of a chain with these steps."""
    return sum(
        (
            mean_pieces(step.size or file_size, piece_bytes)
            if step.kind in _TRANSFERS
            else Fraction(1)
            for step in steps
        ),
        Fraction(0),
    )


def operations_per_chain(filament: w.Files, file_size: w.Distribution) -> Fraction:
    """Return the mean number of operations of the chains that a filament draws."""
    weights = [chain.weight for chain in filament.chains]
    operations = (
        weight * operations_of(chain.steps, filament.piece_bytes, file_size)
        for chain, weight in zip(filament.chains, weights, strict=True)
    )
    return sum(operations, Fraction(0)) / sum(weights)


def whole_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return whole numbers in the ratio of the weights; rounded if they would be large."""
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    divisor = math.gcd(*whole) or 1
    if max(whole) // divisor <= _MOST_WEIGHT:
        return tuple(weight // divisor for weight in whole)
    scale = _MOST_WEIGHT / max(weights)
    return tuple(max(1, round(weight * scale)) if weight else 0 for weight in weights)


# -- the rate of a workload --------------------------------------------------------------


def operations_per_s(
    filaments: Iterable[w.FilamentPlan], file_size: w.Distribution
) -> float | None:
    """Return the rate of operations of the filaments with a rate; None if there are none.

    Of a rate that changes, the largest one counts: a file set must serve it.
    """
    total: float | None = None
    for filament in filaments:
        if isinstance(filament, w.Open | w.Files) and filament.rate is not None:
            operations = (
                float(operations_per_chain(filament, file_size))
                if isinstance(filament, w.Files)
                else 1.0
            )
            total = (total or 0.0) + _largest_micro(filament.rate) * operations / w.MICRO
    return total


def _largest_micro(rate: w.Rate) -> int:
    if isinstance(rate, w.ConstantRate):
        return rate.micro_per_s
    assert isinstance(rate, w.RateProfile), "a replay has no file set"
    return max(max(s.from_micro_per_s, s.to_micro_per_s) for s in rate.steps)


def at_rate(
    filaments: Sequence[w.FilamentPlan], rate_per_s: float, file_size: w.Distribution
) -> tuple[w.FilamentPlan, ...]:
    """Return the filaments with their rates multiplied, so that together they have this rate of
    operations."""
    now = operations_per_s(filaments, file_size)
    assert now, "a filament has a rate"
    return tuple(
        msgspec.structs.replace(filament, rate=multiplied_rate(filament.rate, rate_per_s / now))
        if isinstance(filament, w.Open | w.Files) and filament.rate is not None
        else filament
        for filament in filaments
    )


def with_users(filaments: Sequence[w.FilamentPlan], users: int) -> tuple[w.FilamentPlan, ...]:
    """Return the filaments on files as closed loops with so many users together.

    Users are shared as in the filaments; where these have rates, as evenly as possible.
    """
    on_files = [filament for filament in filaments if isinstance(filament, w.Files)]
    shares = [on_file.users or 1 for on_file in on_files]
    given, ends = 0, []
    for share in itertools.accumulate(shares):
        ends.append(round(users * share / sum(shares)) - given)
        given += ends[-1]
    return tuple(
        msgspec.structs.replace(files, users=number, rate=None, arrival=None, count=None)
        for files, number in zip(on_files, ends, strict=True)
        if number
    )


def multiplied_rate(rate: w.Rate, factor: float) -> w.Rate:
    """Return a rate times a factor."""
    if isinstance(rate, w.ConstantRate):
        return w.ConstantRate(max(1, round(rate.micro_per_s * factor)))
    assert isinstance(rate, w.RateProfile), "a replay has no file set"
    return w.RateProfile(
        tuple(
            w.RateStep(
                step.for_ns,
                round(step.from_micro_per_s * factor),
                round(step.to_micro_per_s * factor),
            )
            for step in rate.steps
        )
    )
