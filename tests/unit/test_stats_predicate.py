"""Predicates are asked about each quantity and hold only if they hold for all."""

from __future__ import annotations

import pytest

from benchwright.core.errors import InputError
from benchwright.stats.aggregate import (
    evaluate_predicate,
    parse_predicate,
    predicate_answers,
    summarise,
)

ELAPSED = summarise("elapsed", [10.0, 10.1, 9.9, 10.05], label="Elapsed")
USER = summarise("user", [1.0, 2.0, 3.0, 4.0], label="User")
LEGACY = '("$delta" < 0.05 * $mean) || ($count > 30)'


def test_the_papers_predicate() -> None:
    predicate = parse_predicate(LEGACY)
    assert evaluate_predicate(predicate, [ELAPSED])
    assert predicate_answers(predicate, [ELAPSED, USER]) == {"elapsed": True, "user": False}
    assert not evaluate_predicate(predicate, [ELAPSED, USER])


def test_a_quantity_can_be_excused_by_its_label() -> None:
    predicate = parse_predicate(f'("$name" eq "User") || {LEGACY}')
    assert evaluate_predicate(predicate, [ELAPSED, USER])


def test_no_quantity_answers_nothing() -> None:
    assert not evaluate_predicate(parse_predicate("1"), [])


def test_every_variable_has_its_figure() -> None:
    text = (
        "$count == 4 && $median == 2.5 && $mean == 2.5 && $min == 1 && $max == 4"
        " && $sum == 10 && abs($slope - 1) < 1e-12 && $sdev > 1.29 && $sdev < 1.30"
    )
    assert evaluate_predicate(parse_predicate(text), [USER])


def test_too_few_values_are_not_precise() -> None:
    assert not evaluate_predicate(
        parse_predicate('"$delta" < 0.05 * $mean'), [summarise("elapsed", [1.0])]
    )


@pytest.mark.parametrize("text", ["$nothing > 1", "$mean >", ""])
def test_a_bad_predicate_is_bad_input(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_predicate(text)
    assert caught.value.diagnostics[0].file == "--predicate"
