"""A code has one meaning: one entry in the table, one remedy."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import parser
from benchwright.core.results import FORMER_CODES, Finding, Severity
from benchwright.features.autopilot.language import KEYWORDS
from benchwright.findings.codes import (
    LIMITER_CODES,
    MACHINE_FINDING_CODES,
    Code,
    all_codes,
    finding_of_mark,
    make_finding,
    merge_tables,
)

ROOT = parser()
OPTIONS = {
    option
    for words in ROOT.commands()
    for action in ROOT.of(words)._actions
    for option in action.option_strings
}


def test_a_code_cannot_be_defined_twice() -> None:
    one = {"idle": Code(Severity.NOTE, "Wait.")}
    assert merge_tables(one, {"busy": one["idle"]}) == {"idle": one["idle"], "busy": one["idle"]}
    with pytest.raises(ValueError, match="idle is defined twice"):
        merge_tables(one, {"idle": Code(Severity.WARNING, "Run.")})


@pytest.mark.parametrize("code", sorted(LIMITER_CODES | MACHINE_FINDING_CODES))
def test_what_the_machine_says_has_its_own_remedy(code: str) -> None:
    assert all_codes()[code] is (LIMITER_CODES | MACHINE_FINDING_CODES)[code]


def test_a_bound_generator_has_the_limiters_remedy() -> None:
    assert "not the target's" in make_finding("generator-bound", "t", "").remedy


def test_a_mark_of_an_earlier_version_has_its_code_of_today() -> None:
    found = finding_of_mark("generator-bound", "t", "in 2 of 3 trials")
    assert found == finding_of_mark("generator-saturated", "t", "in 2 of 3 trials")
    assert found.remedy == all_codes()["generator-saturated"].remedy
    assert finding_of_mark("odd", "t", "once").severity is Severity.WARNING


@pytest.mark.parametrize(("former", "code"), FORMER_CODES.items())
def test_a_former_code_is_read_as_the_code_of_today(former: str, code: str) -> None:
    assert former not in all_codes()
    assert code in all_codes()
    stored = f'{{"code":"{former}","severity":"note","subject":"t","evidence":"e"}}'
    assert msgspec.json.decode(stored, type=Finding).code == code
    assert Finding(former, Severity.NOTE, "t", "e").code == code
    assert finding_of_mark(former, "t", "e").code == code


@pytest.mark.parametrize("code", sorted(all_codes()))
def test_a_remedy_names_an_option_for_each_keyword_of_suites(code: str) -> None:
    remedy = all_codes()[code].remedy
    named = re.findall(r"(?<![\w-])--[a-z][a-z-]*", remedy)
    assert set(named) <= OPTIONS
    for word in re.findall(r"[A-Z]{4,}", remedy):
        assert word not in KEYWORDS or f"--{word.lower()}" in named


def test_the_documented_codes_are_those_of_the_table() -> None:
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "scripts/finding_codes.py"))
    assert (root / "docs/findings.md").read_text(encoding="utf-8") == script["page"]()
