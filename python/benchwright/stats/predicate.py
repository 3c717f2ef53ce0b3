"""Stability predicates: `("$delta" < 0.05 * $mean) || ($count > 30)`, per quantity.

A predicate is asked about each quantity by itself and holds only if it holds for all
(Auto-pilot paper, section 3.3). Computed quantities (Wait, CPU%) are not asked.
Non-goal: no promise of confidence; a predicate that is looked at repeatedly has a
nominal level only (finding `nominal-confidence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchwright.expression import PREDICATE_VARIABLES, Expression, parse
from benchwright.model.estimate import Summary


def parse_predicate(
    text: str, *, file: str = "--predicate", line: int = 1
) -> Expression:
    """Return the predicate, ready to be asked. Raises InputError with file:line:column
    for bad syntax and for a variable that no quantity has."""
    return parse(text, variables=PREDICATE_VARIABLES, file=file, line=line)


def variables(summary: Summary) -> dict[str, float | str]:
    """Return what a predicate may ask about one quantity; `$name` is its label and
    `$delta` the half width of its confidence interval, in the quantity's unit."""
    return {
        "name": summary.label,
        "mean": summary.mean,
        "median": summary.median,
        "delta": summary.half_width,
        "count": summary.count,
        "sdev": summary.sdev,
        "min": summary.minimum,
        "max": summary.maximum,
        "slope": summary.slope,
        "sum": summary.sum,
    }


def answers(expression: Expression, summaries: Sequence[Summary]) -> dict[str, bool]:
    """Return the predicate's answer for each quantity, by the quantity's name."""
    return {s.name: expression.truth(variables(s)) for s in summaries}


def evaluate_predicate(expression: Expression, summaries: Iterable[Summary]) -> bool:
    """Return True when the predicate holds for every quantity; False without any."""
    asked = answers(expression, tuple(summaries))
    return bool(asked) and all(asked.values())
