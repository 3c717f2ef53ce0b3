"""Tables of HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML; every text is escaped."""
    head = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
