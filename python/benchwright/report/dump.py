"""The raw, uninterpreted rows as CSV: for when there are problems with a benchmark."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from benchwright.model.observation import Block

_FIXED = ("input", "thread", "epoch", "command", "status")


def render_dump(inputs: Sequence[tuple[str, Sequence[Block]]]) -> str:
    """Return one line per measurement block of every input (name, blocks), in order.

    Columns: input, thread, epoch, command, status, then every value as met; a value
    that a block does not have is an empty field, one that is no number is as it came.
    """
    names = dict.fromkeys(
        name for _, blocks in inputs for block in blocks for name in block.values
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIXED, *names])
    for source, blocks in inputs:
        for b in blocks:
            values = [repr(b.values[n]) if n in b.values else "" for n in names]
            writer.writerow([source, b.thread, b.epoch, b.command, b.status, *values])
    return text.getvalue()
