"""Which columns of numbers of a table are settings of its rows, and which are results.

A table states a size, a number of threads or a seed in the same way as what was measured. A result
that is read as a setting divides the trials of a test; a setting that is read as a result pools
tests. So a column is read as a setting by what its numbers show, by its name only where that name
has no other use, and a table that shows too little is refused.

What shows a setting: numbers that stand in the rows as a program's loops write them (in equal
blocks, or in the same cycle again and again), which measured values do with the probability
`_arrangements`; that the rows of each number have results of their own, which do not overlap with
those of another; or a geometric progression of whole numbers. Where the numbers stand in no such order,
but their rows are far apart, the table is refused: it has populations, and their mean is about none. Numbers that count the rows of each test are neither.
Known limit: a cumulative count that rises by one with every k-th row is read as a setting.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

Row = Mapping[str, float]
"""The numbers of a row, by column."""


class Reading(enum.Enum):
    """What a column of numbers is."""

    RESULT = enum.auto()
    SETTING = enum.auto()
    NUMBER = enum.auto()
    """The number of the row in its test."""
    UNCLEAR = enum.auto()
    """Perhaps a setting."""


_SETTINGS = {
    *(
        "thread",
        "threads",
        "processes",
        "procs",
        "workers",
        "jobs",
        "cores",
        "cpus",
        "nodes",
        "ranks",
    ),
    *("clients", "connections", "concurrency", "users", "depth", "batch", "batch_size"),
    *(
        "nthreads",
        "num_threads",
        "nprocs",
        "np",
        "iodepth",
        "queue_depth",
        "block_size",
        "blocksize",
    ),
    *("buffer_size", "input_size", "problem_size", "message_size", "msg_size", "chunk_size"),
    *("payload_size", "parallelism", "replicas", "shards", "partitions", "scale", "level"),
    *("version", "release", "revision", "rev", "jdk", "jvm", "java", "optimization"),
}
"""Names of columns that are settings of a test."""
_SIZES = {"n", "m", "k", "size", "sizes", "length", "len", "dim", "order"}
"""Names of columns that are settings where their numbers are round or repeated: a size can also be
a result, and beside an estimate `n` is the number of its runs."""
_NUMBERS = {
    *("run", "trial", "iteration", "sample", "rep", "repeat", "repetition", "replicate", "round"),
    *("index", "idx", "attempt", "seed"),
}
"""Names of columns that number the rows of a test."""
_COUNTERS = {"iteration", "epoch", "rep", "repetition", "replicate", "index", "idx", "attempt"}
"""Names that nothing measured has: they number rows in whatever order, as several loops do, or say
the second."""
LEAST_CHANCE = 0.01
"""The largest probability with which results may look like settings."""
_LEAST_FOLLOWING = 4
_LEAST_RANGE = 1.5
"""Ratio of the largest number of a setting to the smallest; results of one test are rarely so far
from each other, also in files that a person made up."""
_SAME = 0.1
"""Results of one quantity, of which one is rounded, have ratios that differ by less than this share."""
_LEAST_PROGRESSION = 3
_ROUND_DIGITS = 2


def reading_of(
    name: str, tests: Sequence[Sequence[Row]], times: Sequence[str], *, has_estimates: bool
) -> Reading:
    """Return what the column `name` is, given the rows of each test in their order.

    `times` are columns that are results; `has_estimates`: rows have a mean and its spread.
    """
    if name in times:
        return Reading.RESULT
    lower = name.lower()
    columns = [[row.get(name, math.nan) for row in rows] for rows in tests]
    every = [value for column in columns for value in column]
    if any(map(math.isnan, every)):
        return Reading.RESULT
    is_whole = all(value.is_integer() for value in every)
    if is_whole and lower in _COUNTERS:
        return Reading.NUMBER
    if (
        is_whole
        and lower not in _SETTINGS | _SIZES
        and _numbers_rows(columns, is_named=lower in _NUMBERS)
    ):
        if lower in _NUMBERS or _starts_again(columns):
            return Reading.NUMBER
        follows = any(_follows(tests, key) for key in times)
        return Reading.UNCLEAR if follows else Reading.RESULT
    differing = [
        (column, rows) for column, rows in zip(columns, tests, strict=True) if len({*column}) > 1
    ]
    if not differing or lower in _NUMBERS or min(every) < 0:
        return Reading.RESULT
    if lower in _SETTINGS:
        return Reading.SETTING
    is_size = is_whole and lower in _SIZES and not has_estimates
    if is_size and (
        all(map(_is_round, every))
        or all(_is_repeated(column) for column, _ in differing)
        or _numbers_rows(columns, is_named=False)
    ):
        return Reading.SETTING
    if is_whole and all(_is_progression(column) for column, _ in differing):
        return Reading.SETTING
    others = sorted({key for rows in tests for row in rows for key in row} - {name})
    if not all(_is_systematic(column) for column, _ in differing):
        rises = all(column == sorted({*column}) for column, _ in differing)
        perhaps = (is_size and rises) or _divides(differing, others)
        return Reading.UNCLEAR if perhaps else Reading.RESULT
    chance = math.prod(2 * _arrangements(column) for column, _ in differing)
    if chance <= LEAST_CHANCE:
        return Reading.SETTING
    apart = min(
        (
            math.prod(_chance_apart(column, rows, key) for column, rows in differing)
            for key in others
        ),
        default=1.0,
    )
    if apart >= 1:
        return Reading.RESULT
    return Reading.SETTING if chance * apart * len(others) <= LEAST_CHANCE else Reading.UNCLEAR


def _numbers_rows(columns: Sequence[Sequence[float]], *, is_named: bool) -> bool:
    """Return whether the numbers count the rows of each test, from 0 or 1 if its name does not say
    so."""
    return all(
        (is_named or column[0] in (0, 1))
        and list(column) == [column[0] + at for at in range(len(column))]
        for column in columns
    )


def _starts_again(columns: Sequence[Sequence[float]]) -> bool:
    """Return whether there are at least two tests of several rows: what counts in one test alone may
    be a result, such as a second."""
    return sum(len(column) > 1 for column in columns) > 1


def _follows(tests: Sequence[Sequence[Row]], key: str) -> bool:
    """Return whether the results of each test rise or fall with every row, to a multiple."""
    for rows in tests:
        values = [row.get(key, math.nan) for row in rows]
        is_steady = values == sorted({*values}) or values == sorted({*values}, reverse=True)
        if len(values) < _LEAST_FOLLOWING or not is_steady or max(values) < 2 * min(values):
            return False
    return True


def comes_first(name: str, tests: Sequence[Sequence[Row]]) -> tuple[bool, bool]:
    """Return the key by which one of several settings is taken first, which is the smallest: the
    numbers of a column that counts, and those of a cycle, may number the rows of each other one's
    level."""
    columns = [[row.get(name, math.nan) for row in rows] for rows in tests]
    counts = name.lower() not in _SETTINGS | _SIZES and all(
        _numbers_rows([list(dict.fromkeys(column))], is_named=False) for column in columns
    )
    return counts, not all(len(_blocks(column)) == len({*column}) for column in columns)


def _blocks(column: Sequence[float]) -> list[float]:
    """Return the values of the blocks of equal neighbours."""
    return [value for value, _ in itertools.groupby(column)]


def _is_systematic(column: Sequence[float]) -> bool:
    """Return whether each number has as many rows as any other, at least two, in one block or in
    the same cycle, and the numbers differ by more than noise does."""
    counts = Counter(column)
    size = len(column) // len(counts)
    if size < 2 or {*counts.values()} != {size} or max(counts) < _LEAST_RANGE * min(counts):
        return False
    order = list(counts)
    return list(column) in ([v for v in order for _ in range(size)], order * size)


def _arrangements(column: Sequence[float]) -> float:
    """Return the probability that values of these counts stand in blocks, in any order."""
    counts = Counter(column)
    possible = math.lgamma(len(column) + 1) - sum(math.lgamma(n + 1) for n in counts.values())
    return min(1.0, math.exp(math.lgamma(len(counts) + 1) - possible))


def _results_of(
    column: Sequence[float], rows: Sequence[Row], key: str
) -> dict[float, list[float]] | None:
    """Return the results of the rows of each number; None if one is missing, or if those of no number
    differ."""
    groups: dict[float, list[float]] = {}
    for number, row in zip(column, rows, strict=True):
        groups.setdefault(number, []).append(row.get(key, math.nan))
    is_whole = not any(math.isnan(value) for values in groups.values() for value in values)
    return groups if is_whole and any(len({*one}) > 1 for one in groups.values()) else None


def _ranges(groups: Mapping[float, Sequence[float]]) -> list[tuple[float, float]]:
    """Return the least and the largest result of each number, in their order."""
    return sorted((min(values), max(values)) for values in groups.values())


def _chance_apart(column: Sequence[float], rows: Sequence[Row], key: str) -> float:
    """Return the probability that the results of the rows of each number would not overlap with
    those of another by chance; 1 where they do overlap, or have no spread."""
    groups = _results_of(column, rows, key)
    if groups is None:
        return 1.0
    is_apart = all(one[1] < other[0] for one, other in itertools.pairwise(_ranges(groups)))
    return _arrangements(column) if is_apart else 1.0


def _divides(
    differing: Sequence[tuple[Sequence[float], Sequence[Row]]], others: Sequence[str]
) -> bool:
    """Return whether the rows of each number, in whatever order, are far apart in a result that is not
    the same quantity: two populations, which no one value is about."""
    if not all(_is_repeated(column) for column, _ in differing):
        return False
    chance = math.prod(_arrangements(column) for column, _ in differing)
    return chance * len(others) <= LEAST_CHANCE and any(
        all(_is_far_apart(column, rows, key) for column, rows in differing) for key in others
    )


def _is_far_apart(column: Sequence[float], rows: Sequence[Row], key: str) -> bool:
    """Return whether the results of each number differ from those of any other by more than they
    differ among themselves, and neither they nor their inverses are proportional to the numbers."""
    groups = _results_of(column, rows, key)
    if groups is None or any(
        above[0] - below[1] <= max(below[1] - below[0], above[1] - above[0])
        for below, above in itertools.pairwise(_ranges(groups))
    ):
        return False
    means = [(number, sum(values) / len(values)) for number, values in groups.items()]
    return 0 in groups or not (
        _is_level([mean / number for number, mean in means])
        or _is_level([mean * number for number, mean in means])
    )


def _is_level(values: Sequence[float]) -> bool:
    """Return whether values differ by less than a share of the largest."""
    return max(values) - min(values) <= _SAME * max(map(abs, values))


def _is_repeated(column: Sequence[float]) -> bool:
    return min(Counter(column).values()) > 1


def _is_round(value: float) -> bool:
    """Return whether a number is a power of two, or one or two digits and zeros."""
    whole = int(value)
    digits = str(whole).rstrip("0")
    return not whole & (whole - 1) or (whole % 10 == 0 and len(digits) <= _ROUND_DIGITS)


def _is_progression(column: Sequence[float]) -> bool:
    """Return whether the rows have a geometric progression of whole steps, one after the other."""
    steps = list(dict.fromkeys(column))
    if len(steps) < _LEAST_PROGRESSION or min(steps) <= 0:
        return False
    if list(column) != [v for v in steps for _ in range(column.count(v))]:
        return False
    rising = steps if steps[0] < steps[-1] else steps[::-1]
    ratio = rising[1] / rising[0]
    return (
        ratio >= 2
        and ratio.is_integer()
        and all(b == a * ratio for a, b in itertools.pairwise(rising))
    )


def level_text(value: float) -> str:
    """Return a number of a setting as a level."""
    return str(int(value) if value.is_integer() else value)
