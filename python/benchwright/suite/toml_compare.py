"""The rule of a `[[compare]]` table: the keys are `bw compare`'s options.

Decision: the values go through the very reading of the command line's, and its mistakes
are put at the keys that they are about, so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchwright.model.comparison import ComparisonRule
from benchwright.model.plan import MetricSpec
from benchwright.suite.comparison_rule import ComparisonRequest, rule_and_mistakes
from benchwright.suite.toml_table import Table

_TEXTS = ("design", "mode", "margin", "confidence", "power", "max_time")
_NUMBERS = ("min_blocks", "max_blocks", "warmup", "seed")
RULE = (*_TEXTS, *_NUMBERS, "fail_if", "accept")


def rule_of(table: Table, arms: int, declared: Sequence[MetricSpec]) -> ComparisonRule:
    """Return the rule that a table asks for; its mistakes are reported there."""
    given: dict[str, Any] = {key: table.text(key) for key in _TEXTS}
    for key in _NUMBERS:
        number = table.whole(key, 0, 2**53)
        given[key] = None if number is None else str(number)
    # Without a seed of its own a suite means the same each time it is run.
    given["seed"] = given["seed"] or "0"
    gates = tuple(table.texts("fail_if"))
    accepted = tuple(table.texts("accept"))
    request = ComparisonRequest((), fail_if=gates, accept=accepted, **given)
    rule, mistakes = rule_and_mistakes(request, arms, declared)
    for mistake in mistakes:
        key = mistake.file.removeprefix("--").replace("-", "_")
        where = table.at(key) if key in table else table.where
        table.wrong(where, mistake.code, mistake.message, mistake.hint)
    return rule
