"""A table of rows and Getstats' transformations of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from benchwright.core.expression import EvaluationError, Expression, Value, parse, to_text, truth
from benchwright.core.numeric import np, npt
from benchwright.core.observation import MeasurementBlock, Trial
from benchwright.core.plan import Pairs
from benchwright.stats.aggregate import (
    COMPUTED_COLUMNS,
    FIXED_COLUMNS,
    HEADING_COLUMNS,
    TIMES,
    MetricRules,
    TableFold,
)
from benchwright.stats.arrays import FloatArray, IntArray
from benchwright.stats.sample import median, moments

# -- A table of rows: input and output of the transformations --------------------------
#
# Purpose: named columns of equal length, numbers or texts, for Getstats' transformations
# and for callers' own data. Decision: a table is frozen and read-only, and a transformation
# returns a new table. An absent value is NaN in a column of numbers and None in a column of
# texts, never 0 or "". Rejected: a data frame library, which takes longer to import than this
# whole package, for a few loops over some thousand rows.
# Non-goals: types beyond number and text, indexes, joins.
# Source: Auto-pilot paper, section 3.3.

Texts = npt.NDArray[np.object_]
TableColumn = FloatArray | Texts


class Table(msgspec.Struct, frozen=True, eq=False):
    """Named columns, each of shape `(rows,)`.

    `Table({"epoch": [1, 2], "elapsed": [3.5, 3.7]})` accepts any sequences. Raises
    ValueError if their lengths differ.
    """

    columns: Mapping[str, TableColumn]

    def __post_init__(self) -> None:
        columns = {name: column_of(values) for name, values in self.columns.items()}
        sizes = {column.size for column in columns.values()}
        if len(sizes) > 1:
            lengths = ", ".join(f"{name}: {c.size}" for name, c in columns.items())
            raise ValueError(f"columns of one length, not {lengths}")
        msgspec.structs.force_setattr(self, "columns", columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return next((int(column.size) for column in self.columns.values()), 0)

    def row(self, place: int) -> dict[str, float | str]:
        """Return one row's values by name, without absent values."""
        return next(self.taking([place]).each())

    def each(self, names: Collection[str] | None = None) -> Iterator[dict[str, float | str]]:
        """Yield every row's values by name, without absent values; `names` restricts the
        columns."""
        chosen = [n for n in self.columns if names is None or n in names]
        lists = [self.columns[name].tolist() for name in chosen]
        for place in range(self.rows):
            values = ((name, held[place]) for name, held in zip(chosen, lists, strict=True))
            yield {n: v for n, v in values if v is not None and v == v}

    def taking(self, places: npt.NDArray[Any] | Sequence[int]) -> Table:
        """Return the table of the rows at these indexes, or where a mask is true."""
        chosen = np.asarray(places)
        if not chosen.size:
            chosen = chosen.astype(np.int64)
        return Table({name: c[chosen] for name, c in self.columns.items()})

    def having(self, name: str, values: Any) -> Table:
        """Return the table with a column added or replaced."""
        return Table({**self.columns, name: values})


def column_of(values: Any) -> TableColumn:
    """Return the values as a read-only column: of numbers if all are numbers, else of texts.

    None is an absent value in both.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"a column has one dimension, not {array.ndim}")
    if array.dtype.kind in "fiub":
        column: TableColumn = np.array(array, dtype=np.float64)
    else:
        column = _mixed([None if value is None else value for value in values])
    column.flags.writeable = False
    return column


def _mixed(values: list[Any]) -> TableColumn:
    if not any(isinstance(value, str) for value in values):
        return np.array(
            [np.nan if value is None else float(value) for value in values], dtype=np.float64
        )
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if value is None or value != value else str(value) for value in values]
    return texts


# -- Getstats' transformations: pure functions from a table to a table -----------------
#
# Purpose: add a column computed from others, select rows, group rows by a column, warn about
# rows, aggregate rows into one, unify the commands of an epoch.
# Decision: expressions use the language of predicates, without eval; they read a row's columns
# as `$name`. An absent value or an undefined result (a division by 0) makes the whole expression
# absent: the row is not selected, has no warning, and has no value in the derived column. Absent
# is not zero.
# In addition to its columns, a row has `$wait` and `$cpu_percent` where its three times are
# known, and the table's headings `$Elapsed`, `$System`, `$User`, `$Wait`.
# Source: Auto-pilot paper, section 3.3, first paragraphs and "Combining Results".

KEY_COLUMNS = ("trial", "epoch", "thread", "command", "input")
"""Columns that identify a row; in a merged row absent unless all rows agree."""


def names_in(table: Table) -> set[str]:
    """Return the names that an expression may read."""
    names = set(table.columns)
    if names.issuperset(TIMES):
        names.update(COMPUTED_COLUMNS)
    return names | {short for short, name in HEADING_COLUMNS.items() if name in names}


def derive(table: Table, name: str, expression: str | Expression) -> Table:
    """Return the table with the column `name`, computed from each row's values.

    A comparison gives 1 or 0; a text in any row makes a column of texts; a number that is
    not finite is absent. Raises InputError for bad syntax and unknown names.
    """
    found = list(_evaluated(table, expression))
    if any(isinstance(value, str) and value for value in found):
        texts = [None if value is None else to_text(value) for value in found]
        return table.having(name, np.array(texts, dtype=object))
    # Perl's false is the empty string.
    numbers = [np.nan if value is None else float(value or 0.0) for value in found]
    return table.having(name, np.array(numbers, dtype=np.float64))


def select(table: Table, expression: str | Expression) -> Table:
    """Return the rows for which the expression is true. Raises InputError."""
    return table.taking(_where(table, expression))


def warn(table: Table, expression: str | Expression) -> IntArray:
    """Return the indexes, from 0, of the rows for which the expression is true.

    Raises InputError."""
    return np.flatnonzero(_where(table, expression)).astype(np.int64)


def group(table: Table, column: str) -> tuple[tuple[str | None, Table], ...]:
    """Return one table per value of a column, in order of appearance, with the value as
    text; None for rows without a value. Raises KeyError for an unknown column."""
    places: dict[str | None, list[int]] = {}
    for place, value in enumerate(table.columns[column]):
        absent = value is None or value != value
        key = None if absent else to_text(value)
        places.setdefault(key, []).append(place)
    return tuple((key, table.taking(at)) for key, at in places.items())


def aggregate_rows(
    table: Table,
    by: Sequence[str] = ("epoch",),
    how: Mapping[str, TableFold] | None = None,
    book: MetricRules | None = None,
) -> Table:
    """Return one row for each group of rows that are equal in the columns `by`.

    `how` sets the fold of a column; without it the table's rules (`book`) apply: the longest
    elapsed time, summed CPU times, the mean of a metric. A value that is absent in any row
    of the group is absent in the result, except in a count.
    """
    chosen, rules = dict(how or {}), book or MetricRules()
    return _merged(table, by, lambda name: chosen.get(name, rules.row(name).threads), all_=True)


def unify(
    table: Table, by: Sequence[str] = ("epoch", "thread"), book: MetricRules | None = None
) -> Table:
    """Return one row for all commands of a thread's epoch, by the table's rules (`book`); most
    values are summed.

    A value that only some commands have is folded over these.
    """
    rules = book or MetricRules()
    present = [name for name in by if name in table.columns]
    return _merged(table, present, lambda name: rules.row(name).commands, all_=False)


def with_wait(table: Table) -> Table:
    """Return the table with `wait`, the time [s] in which a row's process did not run, where
    its three times are known. Call it before threads are aggregated."""
    if "wait" in table.columns or not set(TIMES) <= set(table.columns):
        return table
    return derive(table, "wait", "$elapsed - ($user + $system)")


def _evaluated(table: Table, expression: str | Expression) -> Iterator[Value | None]:
    """Yield the expression's value in every row; None where it is absent or not finite."""
    asked = _parsed(expression, names_in(table))
    needed = asked.variables
    read = {HEADING_COLUMNS.get(name, name) for name in needed} | needed
    if not read.isdisjoint(COMPUTED_COLUMNS):
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
    if isinstance(elapsed, float) and isinstance(user, float) and isinstance(system, float):
        busy = user + system
        values.setdefault("wait", elapsed - busy)
        if elapsed > 0:
            values.setdefault("cpu_percent", 100 * busy / elapsed)
    for heading, name in HEADING_COLUMNS.items():
        if heading in needed and heading not in values and name in values:
            values[heading] = values[name]
    return values


def _where(table: Table, expression: str | Expression) -> np.ndarray:
    found = _evaluated(table, expression)
    return np.array([v is not None and truth(v) for v in found], dtype=bool)


def _merged(
    table: Table, by: Sequence[str], rule: Callable[[str], TableFold], *, all_: bool
) -> Table:
    """Return one row per distinct key, in order of appearance."""
    places: dict[tuple[object, ...], list[int]] = {}
    keys = [table.columns[name] for name in by]
    for place in range(table.rows):
        places.setdefault(tuple(_key(k[place]) for k in keys), []).append(place)
    merged: dict[str, list[float] | list[str | None]] = {}
    for name, column in table.columns.items():
        if column.dtype.kind == "O":
            merged[name] = [_one_text(cast("Texts", column[at])) for at in places.values()]
        else:
            how = rule(name)
            merged[name] = [
                _one_number(name, cast("FloatArray", column[at]), how, all_=all_)
                for at in places.values()
            ]
    return Table({name: _column(table.columns[name], v) for name, v in merged.items()})


def _key(value: object) -> object:
    """Return a key that equals itself, for NaN too."""
    return value if value == value else None


def _column(like: TableColumn, values: list[float] | list[str | None]) -> np.ndarray:
    return np.array(values, dtype=like.dtype)


def _one_text(values: Texts) -> str | None:
    """Return the common text; different texts are joined by ` + `."""
    found = dict.fromkeys(value for value in values if value is not None)
    return " + ".join(found) or None


def _one_number(name: str, values: FloatArray, how: TableFold, *, all_: bool) -> float:
    if values.size == 1 and how != "count" and name != "status":
        # Most groups have a single row.
        value = float(values[0])
        return value if math.isfinite(value) else np.nan
    known = values[~np.isnan(values)]
    if name == "status":
        return float(known.max(initial=0.0))
    if name in KEY_COLUMNS:
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


# -- Trials as a table of their measurement blocks, and back ---------------------------
#
# Purpose: `bw stats` transforms rows before threads and commands become one number.
# Decision: a trial whose blocks are all deselected is removed; a trial that never had any (its
# SETUP failed) remains, because a selection must not hide an unrelated failure. A trial that
# failed remains failed, whichever of its rows are selected.

"""Columns of every row that are not measured values."""


def table_of_trials(name: str, trials: Sequence[Trial], sample: Pairs = ()) -> Table:
    """Return one row per measurement block: `trial` (index in `trials`), `input`,
    `thread`, `epoch`, `command`, `status`, the sample's levels as texts, and every
    value; NaN where a block does not have it."""
    rows = [(place, block) for place, t in enumerate(trials) for block in t.blocks]
    names = dict.fromkeys(value for _, block in rows for value in block.values)
    columns: dict[str, Any] = {
        "trial": [place for place, _ in rows],
        "input": np.array([name] * len(rows), dtype=object),
        "thread": [block.thread for _, block in rows],
        "epoch": [block.epoch for _, block in rows],
        "command": np.array([block.command for _, block in rows], dtype=object),
        "status": [block.status for _, block in rows],
    }
    for factor, level in sample:
        columns.setdefault(factor, np.array([level] * len(rows), dtype=object))
    for value in names:
        if value not in FIXED_COLUMNS:
            columns[value] = [block.values.get(value, np.nan) for _, block in rows]
    return Table({n: _numbers_or_texts(c) for n, c in columns.items()})


def table_of_estimates(name: str, quantities: Sequence[str], sample: Pairs) -> Table:
    """Return the one row of a test without trials: `input` and the sample's levels as in
    `table_of_trials`; what only a trial has, also the values of its quantities, is absent."""
    absent = (*FIXED_COLUMNS, *quantities)
    columns: dict[str, Any] = {column: [None] for column in absent}
    for factor, level in (("input", name), *sample):
        if factor == "input" or factor not in columns:
            columns[factor] = np.array([level], dtype=object)
    return Table(columns)


def _numbers_or_texts(values: Any) -> np.ndarray:
    """Return an array whose type is the same with and without rows."""
    return values if isinstance(values, np.ndarray) else np.array(values, dtype=float)


def trials_of_table(table: Table, trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials with the table's rows as their blocks.

    Columns of texts are not measured values and are left out.
    """
    blocks: dict[int, list[MeasurementBlock]] = {}
    for row in table.each():
        place = int(row["trial"])
        blocks.setdefault(place, []).append(_block(row, trials[place]))
    return tuple(
        msgspec.structs.replace(trial, blocks=tuple(blocks.get(place, ())))
        for place, trial in enumerate(trials)
        if place in blocks or not trial.blocks
    )


def _block(row: dict[str, float | str], trial: Trial) -> MeasurementBlock:
    thread, command = int(row.get("thread", 0)), str(row.get("command", ""))
    stated = (
        block.failure
        for block in trial.blocks
        if block.failure and (block.thread, block.command) == (thread, command)
    )
    return MeasurementBlock(
        thread=thread,
        epoch=int(row.get("epoch", 0)),
        command=command,
        failure=next(stated, ""),
        status=int(row.get("status", 0)),
        values={
            name: value
            for name, value in row.items()
            if name not in FIXED_COLUMNS and isinstance(value, float)
        },
    )
