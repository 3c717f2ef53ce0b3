"""Trials as a table of their measurement blocks, and back.

Purpose: `bw stats` transforms rows before threads and commands become one number.
Decision: a trial whose blocks are all deselected is gone, one that never had any (its
SETUP failed) stays: a selection must not hide a failure of something else. A trial that
failed stays failed, whichever of its rows are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from benchwright.model.observation import Block, Trial
from benchwright.model.plan import Pairs
from benchwright.stats.table import Table

FIXED = ("trial", "input", "thread", "epoch", "command", "status")
"""What every row has; not a measured value."""


def table_of_trials(name: str, trials: Sequence[Trial], sample: Pairs = ()) -> Table:
    """Return one row per measurement block: `trial` (place in `trials`), `input`,
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
        if value not in FIXED:
            columns[value] = [block.values.get(value, np.nan) for _, block in rows]
    return Table({n: _numbers_or_texts(c) for n, c in columns.items()})


def _numbers_or_texts(values: Any) -> np.ndarray:
    """Return an array whose type does not depend on whether there is any row."""
    return values if isinstance(values, np.ndarray) else np.array(values, dtype=float)


def trials_of_table(table: Table, trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials with the table's rows as their blocks.

    Columns of texts are no measured values and are left out.
    """
    blocks: dict[int, list[Block]] = {}
    for row in table.each():
        blocks.setdefault(int(row["trial"]), []).append(_block(row))
    return tuple(
        msgspec.structs.replace(trial, blocks=tuple(blocks.get(place, ())))
        for place, trial in enumerate(trials)
        if place in blocks or not trial.blocks
    )


def _block(row: dict[str, float | str]) -> Block:
    return Block(
        thread=int(row.get("thread", 0)),
        epoch=int(row.get("epoch", 0)),
        command=str(row.get("command", "")),
        status=int(row.get("status", 0)),
        values={
            name: value
            for name, value in row.items()
            if name not in FIXED and isinstance(value, float)
        },
    )
