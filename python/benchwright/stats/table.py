"""A table of rows: what transformations take and give.

Purpose: named columns of equal length, numbers or texts, for Getstats' transformations
and for callers' own data. Decision: frozen and read-only, a transformation gives a new
table; an absent value is NaN in a column of numbers and None in one of texts, and never
0 or "". A data frame library lost: it costs more to import than all of ours, for a few
loops over some thousand rows.
Non-goals: types beyond number and text, indexes, joins. The functions are in transform.py.
Source: Auto-pilot paper, section 3.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from benchwright.stats.moments import FloatArray

Texts = npt.NDArray[np.object_]
TableColumn = FloatArray | Texts


class Table(msgspec.Struct, frozen=True, eq=False):
    """Named columns, each of shape `(rows,)`.

    `Table({"epoch": [1, 2], "elapsed": [3.5, 3.7]})` takes any sequences; ValueError
    where their lengths differ.
    """

    columns: Mapping[str, TableColumn]

    def __post_init__(self) -> None:
        columns = {name: column_of(values) for name, values in self.columns.items()}
        sizes = {column.size for column in columns.values()}
        if len(sizes) > 1:
            told = ", ".join(f"{name}: {c.size}" for name, c in columns.items())
            raise ValueError(f"columns of one length, not {told}")
        msgspec.structs.force_setattr(self, "columns", columns)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return next((int(column.size) for column in self.columns.values()), 0)

    def row(self, place: int) -> dict[str, float | str]:
        """Return one row's values by name, without those that are absent."""
        return next(self.taking([place]).each())

    def each(
        self, names: Collection[str] | None = None
    ) -> Iterator[dict[str, float | str]]:
        """Yield every row's values by name, without those that are absent; of the
        columns in `names` only, where they are given."""
        chosen = [n for n in self.columns if names is None or n in names]
        lists = [self.columns[name].tolist() for name in chosen]
        for place in range(self.rows):
            values = (
                (name, held[place]) for name, held in zip(chosen, lists, strict=True)
            )
            yield {n: v for n, v in values if v is not None and v == v}

    def taking(self, places: npt.NDArray[Any] | Sequence[int]) -> Table:
        """Return the table of the rows at these places, or where a mask is true."""
        chosen = np.asarray(places)
        if not chosen.size:
            chosen = chosen.astype(np.int64)
        return Table({name: c[chosen] for name, c in self.columns.items()})

    def having(self, name: str, values: Any) -> Table:
        """Return the table with one more column, or with another of that name."""
        return Table({**self.columns, name: values})


def column_of(values: Any) -> TableColumn:
    """Return the values as a read-only column: numbers where all are, else texts.

    None is an absent value of either kind.
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
            [np.nan if value is None else float(value) for value in values],
            dtype=np.float64,
        )
    texts = np.empty(len(values), dtype=object)
    texts[:] = [
        None if value is None or value != value else str(value) for value in values
    ]
    return texts
