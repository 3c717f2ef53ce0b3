"""docs/generators.md says what is so: its tables are read, its claims are the adapters'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchwright.features.generators import adapter
from benchwright.features.generators import findings as generators
from benchwright.features.generators.registry import GENERATORS, Generator
from benchwright.findings.codes import all_codes
from benchwright.inputs.form import read_form
from benchwright.inputs.toml_table import TomlTable, read_toml

PAGE = (Path(__file__).parents[2] / "docs" / "generators.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
ROWS = {
    cells[0].strip("`"): cells[1:]
    for line in PAGE.splitlines()
    if len(cells := [one.strip() for one in line.strip("|").split("|")]) == 10
}


def named(name: str) -> str:
    """Return the block of a generator."""
    (block,) = [one for one in BLOCKS if f'generator = "{name}"' in one]
    return block  # type: ignore[no-any-return]


def generator_of(name: str) -> Generator:
    """Return the generator that the page's block describes."""
    kind = GENERATORS[name]

    def read(top: TomlTable) -> Generator | None:
        table = top.table("load")
        assert table is not None
        return read_form(table, kind, ("generator",))  # type: ignore[no-any-return]

    generator = read_toml(named(name), "s.toml", "spec", read)
    assert generator is not None
    return generator


@pytest.mark.parametrize("name", GENERATORS)
def test_the_block_of_a_generator_is_read(name: str) -> None:
    assert generator_of(name).name == name


def test_the_keys_of_a_command_are_described() -> None:
    section = PAGE.split("### command\n")[1].split("\n###")[0]
    for key in GENERATORS["command"].names:
        assert f"`{key}" in section or f"\n{key} = " in section, key


@pytest.mark.parametrize("name", [name for name in GENERATORS if name != "command"])
def test_the_table_says_what_the_traits_say(name: str) -> None:
    row, traits = ROWS[name], generator_of(name).traits
    is_open, counts_from, late, percentiles, share, errors, series, left, axes = row
    assert (late == "yes") is traits.reports_lateness
    assert is_open.startswith("yes") is traits.open_loop
    assert counts_from.startswith("intended start") is traits.from_intended
    assert share in ("yes", "with `url`") or "share" not in traits.statistics
    assert (errors == "yes") is ("ratio" in traits.statistics)
    assert (series != "no") is traits.series
    assert (left == "yes") is traits.watched
    assert axes == ", ".join(traits.axes)
    if percentiles.startswith("any"):
        assert traits.shares is None
    else:
        told = [float(one) / 100 for one in re.findall(r"[\d.]+", percentiles)]
        assert told == pytest.approx(list(traits.shares or ()))


def test_every_mark_is_a_finding_and_on_the_page() -> None:
    marks = (
        adapter.CLOSED_LOOP,
        adapter.HIDES_LATENESS,
        adapter.GENERATOR_SATURATED,
        adapter.GENERATOR_LATE,
        adapter.RATE_ROUNDED,
        adapter.OPERATIONS_SKIPPED,
        adapter.ERRORS_IN_RESPONSE,
        adapter.BACKLOG_UNCOUNTED,
        generators.OFFERED_DIFFERS,
        generators.OPERATIONS_MISSING,
        generators.COUNTS_CONTRADICT,
        generators.LATENESS_UNKNOWN,
        generators.REFUSALS_UNSEEN,
    )
    for mark in marks:
        assert mark in all_codes()
        assert f"`{mark}`" in PAGE
