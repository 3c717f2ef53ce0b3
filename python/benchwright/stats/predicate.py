"""Stability predicates over summaries, and figures as percentages of a mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchwright.core.expression import PREDICATE_VARIABLES, Expression, parse
from benchwright.core.results import Summary

# --------------------------------------------------------------------------------------
# Stability predicates: `("$delta" < 0.05 * $mean) || ($count > 30)`, per quantity.
#
# A predicate is evaluated for each quantity separately and holds only if it holds for all
# (Auto-pilot paper, section 3.3). Computed quantities (Wait, CPU%) are left out.
# Non-goal: a guaranteed confidence; a predicate that is evaluated repeatedly has only a nominal
# confidence (finding `nominal-confidence`).


def parse_predicate(text: str) -> Expression:
    """Return the parsed predicate. Raises InputError with the column for bad syntax and for
    an unknown variable."""
    return parse(text, variables=PREDICATE_VARIABLES, file="--predicate")


def predicate_variables(summary: Summary) -> dict[str, float | str]:
    """Return the variables of a predicate for one quantity; `$name` is its label and
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


def predicate_answers(expression: Expression, summaries: Sequence[Summary]) -> dict[str, bool]:
    """Return the predicate's answer for each quantity, by the quantity's name."""
    return {s.name: expression.truth(predicate_variables(s)) for s in summaries}


def evaluate_predicate(expression: Expression, summaries: Iterable[Summary]) -> bool:
    """Return True when the predicate holds for every quantity; False without any."""
    found = predicate_answers(expression, tuple(summaries))
    return bool(found) and all(found.values())


# --------------------------------------------------------------------------------------
# Overhead: by how much a mean lies above a baseline's, in percent (the O/H column).


def overhead_percent(mean: float, baseline: float) -> float:
    """Return 100 * (mean - baseline) / |baseline| [%]; NaN where the baseline is 0.

    Positive when the value is larger, whatever the sign of the baseline. A point
    estimate without an interval; `bw compare` gives verdicts.
    Source: Auto-pilot paper, section 3.3.
    """
    if not baseline or not math.isfinite(baseline):
        return math.nan
    return 100 * ((mean - baseline) / abs(baseline))


def percent_of_mean(value: float, mean: float) -> float:
    """Return `value` in percent of |mean| (SDEV% and HW%) [%].

    NaN where the mean is 0 and the value is not; 0 where both are.
    """
    if not mean:
        return 0.0 if value == 0 else math.nan
    return 100 * (value / abs(mean))
