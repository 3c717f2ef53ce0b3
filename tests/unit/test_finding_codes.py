"""A code has one meaning: one entry in the table, one remedy."""

from __future__ import annotations

import pytest

from benchwright.finding.code import Code, joined
from benchwright.finding.codes import CODES, doubt, marked
from benchwright.finding.machine_codes import DOUBT_CODES, LIMITER_CODES
from benchwright.model.finding import Severity


def test_a_code_cannot_be_defined_twice() -> None:
    one = {"idle": Code(Severity.NOTE, "Wait.")}
    assert joined(one, {"busy": one["idle"]}) == {
        "idle": one["idle"],
        "busy": one["idle"],
    }
    with pytest.raises(ValueError, match="defined twice: idle"):
        joined(one, {"idle": Code(Severity.WARNING, "Run.")})


@pytest.mark.parametrize("code", sorted(LIMITER_CODES | DOUBT_CODES))
def test_what_the_machine_says_has_its_own_remedy(code: str) -> None:
    assert CODES[code] is (LIMITER_CODES | DOUBT_CODES)[code]


def test_a_bound_generator_has_the_limiters_remedy() -> None:
    assert "not the target's" in doubt("generator-bound", "t", "").remedy


def test_a_mark_of_an_earlier_version_has_its_code_of_today() -> None:
    found = marked("generator-bound", "t", "in 2 of 3 trials")
    assert found == marked("generator-saturated", "t", "in 2 of 3 trials")
    assert "cannot be told from the server's" in found.remedy
    assert marked("odd", "t", "once").severity is Severity.WARNING
