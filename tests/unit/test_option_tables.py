"""The tables of options in docs/ are those of the declarations."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location(
    "option_tables", ROOT / "scripts" / "option_tables.py"
)
assert SPEC is not None
assert SPEC.loader is not None
option_tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(option_tables)


@pytest.mark.parametrize("name", option_tables.TABLES)
def test_a_page_has_the_table_that_is_declared(name: str) -> None:
    page = ROOT / "docs" / option_tables.TABLES[name][0]
    assert page.read_text() == option_tables.page_of(name), "run scripts/option_tables.py"
