"""Getstats' transformations, pure: a table in, a table out.

Purpose: add a column derived from the others, select rows, group them by a column, warn
of some, aggregate many into one, unify the commands of an epoch.
Decision: expressions are those of predicates, in our own language, no eval; they read a
row's columns as `$name`. What a row does not have makes the whole expression absent, and
so does what has no value (a division by 0): not selected, not warned of, and absent from
the derived column. Absent is not zero.
Beside its columns a row has `$wait` and `$cpu_percent` where its three times are known,
and the table's headings `$Elapsed`, `$System`, `$User`, `$Wait`.
Source: Auto-pilot paper, section 3.3, first paragraphs and "Combining Results".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, cast, get_args

import numpy as np

from benchwright.expression import (
    EvaluationError,
    Expression,
    Value,
    parse,
    text,
    truth,
)
from benchwright.stats.moments import FloatArray, IntArray, median, moments
from benchwright.stats.rows import TIMES, RowBook
from benchwright.stats.table import Table, TableColumn, Texts

How = Literal["sum", "mean", "max", "min", "median", "count"]
HOWS: tuple[str, ...] = get_args(How)
"""What many values can become."""
KEYS = ("trial", "epoch", "thread", "command", "input")
"""Columns that say which row it is: kept where all agree, else absent."""
COMPUTED = ("wait", "cpu_percent")
HEADINGS = {"Elapsed": "elapsed", "System": "system", "User": "user", "Wait": "wait"}


def names_in(table: Table) -> set[str]:
    """Return the names that an expression may read."""
    names = set(table.columns)
    if names.issuperset(TIMES):
        names.update(COMPUTED)
    return names | {short for short, name in HEADINGS.items() if name in names}


def derive(table: Table, name: str, expression: str | Expression) -> Table:
    """Return the table with the column `name`, computed from each row's values.

    A comparison gives 1 or 0; text in any row makes a column of texts; a number that is
    not finite is absent. Raises InputError
    for bad syntax and unknown names.
    """
    found = list(_evaluated(table, expression))
    if any(isinstance(value, str) and value for value in found):
        texts = [None if value is None else text(value) for value in found]
        return table.having(name, np.array(texts, dtype=object))
    # Perl's false is the empty string.
    numbers = [np.nan if value is None else float(value or 0.0) for value in found]
    return table.having(name, np.array(numbers, dtype=np.float64))


def select(table: Table, expression: str | Expression) -> Table:
    """Return the rows for which the expression is true. Raises InputError."""
    return table.taking(_where(table, expression))


def warn(table: Table, expression: str | Expression) -> IntArray:
    """Return the places, from 0, of the rows for which the expression is true.

    Raises InputError."""
    return np.flatnonzero(_where(table, expression)).astype(np.int64)


def group(table: Table, column: str) -> tuple[tuple[str | None, Table], ...]:
    """Return one table per value of a column, in order of appearance, with the value as
    text; None for the rows that have none. Raises KeyError for an unknown column."""
    places: dict[str | None, list[int]] = {}
    for place, value in enumerate(table.columns[column]):
        absent = value is None or value != value
        key = None if absent else text(value)
        places.setdefault(key, []).append(place)
    return tuple((key, table.taking(at)) for key, at in places.items())


def aggregate_rows(
    table: Table,
    by: Sequence[str] = ("epoch",),
    how: Mapping[str, How] | None = None,
    book: RowBook | None = None,
) -> Table:
    """Return one row for all rows that are alike in the columns `by`.

    `how` says what the values of a column become; without it they follow the table's
    rules (`book`): the longest elapsed time, summed CPU times, the mean of a metric. A
    value that is absent from any of the rows is absent, except from a count.
    """
    chosen, rules = dict(how or {}), book or RowBook()
    return _merged(
        table, by, lambda name: chosen.get(name, rules.row(name).threads), all_=True
    )


def unify(
    table: Table, by: Sequence[str] = ("epoch", "thread"), book: RowBook | None = None
) -> Table:
    """Return one row for all commands of a thread's epoch: what was measured is summed.

    A value that only some of the commands have is theirs alone.
    """
    rules = book or RowBook()
    present = [name for name in by if name in table.columns]
    return _merged(table, present, lambda name: rules.row(name).commands, all_=False)


def with_wait(table: Table) -> Table:
    """Return the table with `wait`, the time [s] in which a row's process did not run,
    where its three times are known; before threads are aggregated."""
    if "wait" in table.columns or not set(TIMES) <= set(table.columns):
        return table
    return derive(table, "wait", "$elapsed - ($user + $system)")


def _evaluated(table: Table, expression: str | Expression) -> Iterator[Value | None]:
    """Yield the expression's value in every row; None where it is absent or not finite."""
    asked = _parsed(expression, names_in(table))
    needed = asked.variables
    read = {HEADINGS.get(name, name) for name in needed} | needed
    if not read.isdisjoint(COMPUTED):
        read |= set(TIMES)
    for row in table.each(read):
        values = _with_computed(row, needed)
        if not needed <= values.keys():
            yield None
            continue
        try:
            value = asked.evaluate(values)
        except EvaluationError:
            value = np.nan
        finite = isinstance(value, str) or math.isfinite(value)
        yield value if finite else None


def _parsed(expression: str | Expression, names: Collection[str]) -> Expression:
    if isinstance(expression, Expression):
        return expression
    return parse(expression, variables=names, file="expression")


def _with_computed(
    values: dict[str, float | str], needed: Collection[str]
) -> dict[str, float | str]:
    elapsed, user, system = (values.get(name) for name in ("elapsed", "user", "system"))
    if (
        isinstance(elapsed, float)
        and isinstance(user, float)
        and isinstance(system, float)
    ):
        busy = user + system
        values.setdefault("wait", elapsed - busy)
        if elapsed > 0:
            values.setdefault("cpu_percent", 100 * busy / elapsed)
    for heading, name in HEADINGS.items():
        if heading in needed and heading not in values and name in values:
            values[heading] = values[name]
    return values


def _where(table: Table, expression: str | Expression) -> np.ndarray:
    found = _evaluated(table, expression)
    return np.array([v is not None and truth(v) for v in found], dtype=bool)


def _merged(
    table: Table, by: Sequence[str], rule: Callable[[str], How], *, all_: bool
) -> Table:
    """Return one row per distinct key, in order of appearance."""
    places: dict[tuple[object, ...], list[int]] = {}
    keys = [table.columns[name] for name in by]
    for place in range(table.rows):
        places.setdefault(tuple(_key(k[place]) for k in keys), []).append(place)
    merged: dict[str, list[float] | list[str | None]] = {}
    for name, column in table.columns.items():
        if column.dtype.kind == "O":
            merged[name] = [
                _one_text(cast("Texts", column[at])) for at in places.values()
            ]
        else:
            how = rule(name)
            merged[name] = [
                _one_number(name, cast("FloatArray", column[at]), how, all_=all_)
                for at in places.values()
            ]
    return Table({name: _column(table.columns[name], v) for name, v in merged.items()})


def _key(value: object) -> object:
    """Return a value that equals itself: NaN does not."""
    return value if value == value else None


def _column(like: TableColumn, values: list[float] | list[str | None]) -> np.ndarray:
    return np.array(values, dtype=like.dtype)


def _one_text(values: Texts) -> str | None:
    """Return the text that all have; several different ones joined by ` + `."""
    found = dict.fromkeys(value for value in values if value is not None)
    return " + ".join(found) or None


def _one_number(name: str, values: FloatArray, how: How, *, all_: bool) -> float:
    if values.size == 1 and how != "count" and name != "status":
        # Most rows are alone; the rest of this is for several.
        value = float(values[0])
        return value if math.isfinite(value) else np.nan
    known = values[~np.isnan(values)]
    if name == "status":
        return float(known.max(initial=0.0))
    if name in KEYS:
        return float(values[0]) if np.all(values == values[0]) else np.nan
    if how == "count":
        return float(known.size)
    if not known.size or (all_ and known.size < values.size):
        return np.nan
    if not np.all(np.isfinite(known)):
        return np.nan
    value = _FOLDS[how](known)
    return value if math.isfinite(value) else np.nan


def _sum(values: FloatArray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(values))


_FOLDS: Mapping[str, Callable[[FloatArray], float]] = {
    "sum": _sum,
    "mean": lambda values: moments(values).mean,
    "max": lambda values: float(values.max()),
    "min": lambda values: float(values.min()),
    "median": median,
}
