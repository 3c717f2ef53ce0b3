"""Rows as CSV, the form of every table that other programs read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def csv_of_rows(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV (RFC 4180), each ending with `\\n`: floats have all digits, None is an
    empty field."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
