#!/usr/bin/env python3
"""The tables of options in docs/, made from the declarations of the options.

`scripts/option_tables.py` writes them between their markers; tests/unit/test_option_tables.py
fails where a page is not as this writes it.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.load.options import LoadOptions
from benchwright.load.search_options import PeakRequest, RampRequest
from benchwright.suite.options import options_of

DOCS = Path(__file__).parents[1] / "docs"
TABLES = {
    "ramp": ("ramp.md", RampRequest),
    "peak": ("workbench.md", PeakRequest),
    "run": ("workload-toml.md", LoadOptions),
}
"""The name of a marker: the page, and the request whose keys the table lists."""


def table_of(name: str) -> str:
    """Return a table in Markdown: each key that is an option too, what it means, default."""
    rows = ["| key | option | meaning | default |", "|---|---|---|---|"]
    for option in options_of(TABLES[name][1]).values():
        if option.key:
            cells = (f"`{option.key}`", f"`{option.flag}`", option.help, option.default)
            rows.append(
                "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
            )
    return "\n".join(rows)


def page_of(name: str) -> str:
    """Return the page of a table with the table as it is declared."""
    text = (DOCS / TABLES[name][0]).read_text()
    marked = rf"(<!-- options: {name} -->\n).*?(\n<!-- end -->)"
    found, count = re.subn(
        marked, lambda m: m[1] + table_of(name) + m[2], text, flags=re.DOTALL
    )
    assert count == 1, f"{TABLES[name][0]} has no place for the table {name}"
    return found


if __name__ == "__main__":
    for one in TABLES:
        (DOCS / TABLES[one][0]).write_text(page_of(one))
