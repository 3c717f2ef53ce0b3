"""docs/workbench.md and the examples say what the program reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.features.load.criteria import parse_criterion
from benchwright.features.search import spec_toml as spec_load
from benchwright.features.search.spec import PLACEHOLDERS
from benchwright.features.search.spec_toml import read_spec
from benchwright.features.search.types import PeakStatus

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/workbench.md").read_text()
POLICIES = ROOT / "python/benchwright/features/search/peak/policies"
PEAK = (ROOT / "docs/peak.md").read_text()
SPECS = sorted(
    file
    for file in (ROOT / "examples").glob("*.toml")
    if file.name.startswith(("peak-", "surface-", "ramp-"))
)


def rows(section: str, heading: str = "") -> set[str]:
    """Return the names in backticks of the first column of the tables of a text, or of its section."""
    if heading:
        section = section.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = (line.split("|")[1] for line in section.splitlines() if line[:2] == "| ")
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_key_of_the_load_is_one() -> None:
    known = {*spec_load.ENGINE_LOAD.names, *spec_load.ENGINE_OPTIONS, "generator", "cpus"}
    assert rows(TEXT, "`[load]`") <= known
    assert {"target", "arrival", "drain", "generator"} <= rows(TEXT, "`[load]`")


def test_every_place_is_described() -> None:
    assert {f"{{{name}}}" for name in PLACEHOLDERS} <= rows(TEXT, "Names in braces")


def test_every_criterion_that_is_shown_is_one() -> None:
    section = TEXT.split("Criteria are short sentences:")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line[:3] == "| `"]
    forms = [form for cell in cells for form in re.findall(r"`([^`]+)`", cell)]
    assert len({parse_criterion(form).key for form in forms}) == 10


def purposes(source: str) -> Iterator[str]:
    """Yield the purposes of the probes that a module of policies makes."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Probe":
            for word in ast.walk(call.args[2]):
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    yield word.value


def test_every_end_of_a_search_and_purpose_of_a_trial_is_described() -> None:
    names = rows(PEAK)
    assert {status.value for status in PeakStatus} <= names
    modules = [file for file in POLICIES.glob("*.py") if file.stem != "published"]
    made = {word for file in modules for word in purposes(file.read_text())}
    assert {"guess", "hold", "check"} <= made <= names


def test_the_spec_that_is_shown_is_one() -> None:
    text = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)[0]
    spec = read_spec(text, "SPEC.toml")
    assert spec.goal is not None
    assert spec.server is not None


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.name)
def test_every_example_is_a_spec(file: Path) -> None:
    spec = read_spec(file.read_text(), str(file))
    assert spec.goal is not None
    assert spec.factors
    assert file.name in TEXT
