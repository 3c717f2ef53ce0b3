"""The sentence of a finding, made of its figures, and the sentence about several findings."""

from __future__ import annotations

import math

import pytest

from benchwright.core.results import Figure, Value, change, states
from benchwright.findings.codes import all_codes
from benchwright.findings.sentence import range_sentence, sentence, sizes


@pytest.mark.parametrize(
    ("template", "values", "full", "short"),
    [
        ("{a:#trial} of {b}", {"a": 1, "b": 12_345}, "1 trial of 12,345", None),
        ("{a:?once|# times}", {"a": 1}, "once", None),
        ("{a:?once|# times}", {"a": 1_200}, "1,200 times", None),
        ("by {a:.2f}", {"a": 2.0}, "by 2.00", None),
        ("at {a:.1f}", {"a": Figure(2.0, "GHz")}, "at 2.0 GHz", None),
        ("{a:.1f}", {"a": Figure(597.5, "MADs", 1800669.4)}, "597.5 to 1,801,000 MADs", None),
        ("{a} and {a:4}", {"a": Figure(200.0, "s")}, "3 min 20 s and 200 s", None),
        ("{a:4}", {"a": Figure(0.0123456, "s")}, "12.35 ms", None),
        ("x[ of {b}][ in {c}]", {"c": "y"}, "x in y", None),
        ("x< ({b})>, y[<, {c}>]", {"b": "z", "c": "w"}, "x (z), y, w", "x, y"),
        ("in <{a} ({b})|{b} trials>", {"a": "trial 3", "b": 1}, "in trial 3 (1)", "in 1 trials"),
        ("<{a} ({b})|{b}>", {"b": 1}, "", "1"),
        ("but [; {a}][; {b}][; {c}]", {"b": "x", "c": "y"}, "but x; y", None),
        ("[; {a}][; {b}]", {"b": "x"}, "x", None),
        ("{a} {b}", {"a": math.nan, "b": Figure(math.inf, "s")}, "- -", None),
        ("{a} to {b}", {"a": change(-3.0, 10.0), "b": change(0.1, 0.0)}, "-30 % to +0.1", None),
    ],
)
def test_a_template_is_filled(
    template: str, values: dict[str, Value], full: str, short: str | None
) -> None:
    assert sentence(template, states(**values)) == full
    assert sentence(template, states(**values), short=True) == (full if short is None else short)


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        (
            "{a} per trial",
            [change(-0.446, 100), change(-0.973, 100)],
            "-0.973 to -0.446 % per trial",
        ),
        ("{a}", [Figure(-0.0012, "+"), Figure(3, "+")], "-0.0012 to +3"),
        ("{a} of all", [9, 1_000], "9 to 1,000 of all"),
        ("took {a}", [Figure(200, "s"), Figure(302, "s")], "took 3 min 20 s to 5 min 2 s"),
        ("took {a}", [Figure(200, "s"), Figure(320, "s")], "took 3 min 20 s to 5 min 20 s"),
        ("took {a}", [Figure(0.2, "s"), Figure(1.5, "s")], "took 200 ms to 1.5 s"),
        ("{a}", [Figure(0.3, "%", 0.5), Figure(0.2, "%", 0.4)], "20 to 50 %"),
        ("{a}", [Figure(1.0, "CPUs"), Figure(1.24, "CPUs")], "1 to 1.24 CPUs"),
        ("{a:#process} {a:?was|were}", [1, 3], "1 to 3 processes were"),
        ("{a:.1f}", [Figure(1.0, "GHz"), Figure(2.0, "GHz")], "1.0 to 2.0 GHz"),
        ("{a} rises", ["x", "x"], "x rises"),
        ("{a} rises", ["x", "y"], None),
        ("{a}", [Figure(1.0, "s"), Figure(1.0, "B")], None),
        ("so[ by {a}]", [1, ""], None),
        ("so< by {a}>", [1, ""], "so"),
    ],
)
def test_findings_that_differ_in_numbers_have_the_range_of_each(
    template: str, values: list[Value], expected: str | None
) -> None:
    found = [states(a=value) for value in values]
    assert range_sentence(template, found) == expected
    assert range_sentence(template, found[::-1]) == expected


def test_the_larger_is_larger_in_either_direction_and_rather_in_a_relative_unit() -> None:
    both = [states(n=3, share=change(-2, 100)), states(n=2, share=change(3, 100))]
    assert sizes([("{n} {share}", one) for one in both]) == (0.02, 0.03)
    assert sizes([("{n}< {share}>", one) for one in both]) == (3, 2)
    assert sizes([("{n}", one) for one in (both[0], both[0])]) is None


@pytest.mark.parametrize("code", sorted(all_codes()))
def test_each_template_is_well_formed(code: str) -> None:
    says = all_codes()[code].says
    for template in [says] if isinstance(says, str) else says.values():
        # A `-` in brackets or a comparison would be taken for a part.
        assert template.count("[") == template.count("]"), template
        assert template.count("<") == template.count(">"), template
        assert template.count("{") == template.count("}"), template
