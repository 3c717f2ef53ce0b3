"""Metrics, stopping rules and the rule of a comparison in a TOML suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchwright.core.comparison import ComparisonRule
from benchwright.core.plan import (
    Command,
    FixedCount,
    MetricSpec,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.quantity import parse_share
from benchwright.inputs.form import (
    Form,
    form_of,
    keys_of,
    needed,
    of_type,
    optional,
    place_mistakes,
    read_form,
    texts_of,
)
from benchwright.inputs.mistakes import fault_of
from benchwright.inputs.options import Option, Reader
from benchwright.inputs.toml_table import TomlTable
from benchwright.suite import rules
from benchwright.suite.command_line import CommandRequest, stopping_rule
from benchwright.suite.comparison import ComparisonRequest, rule_and_mistakes
from benchwright.suite.rules import predicate_faults

# -- `until` and `metrics` of a TOML suite: stopping rules and metric specs ------------

DEFAULT = FixedCount(10)
_PREDICATE_RUNS = 10
"""Default number of trials before the first look of a predicate or a program."""


def metrics(table: TomlTable) -> list[MetricSpec]:
    """Return the metrics that a `metrics` table declares; of a wrong declaration the name, so that
    no rule with it is a mistake too."""
    specs = []
    for name in table.values:
        fault = fault_of(rules.metric_name, name)
        if fault is not None:
            table.wrong(table.at(name), fault.code, fault.message, fault.hint)
        one = table.table(name) if fault is None else None
        specs.append(MetricSpec(name) if one is None else _metric(name, one))
    return specs


def _predicate(table: TomlTable, key: str) -> str | None:
    """Return a predicate; each of its faults is reported at its character."""
    text = table.text(key)
    faults = predicate_faults(text) if text is not None else []
    table.faults(faults, text or "", key)
    return None if faults else text


def _text(parse: Callable[[str], Any]) -> Reader:
    """Return the reader of a string, whose value `parse` returns."""
    return lambda table, key: table.read(key, parse) if table.has(key, str) else None


_METRIC = {
    "pointer": Option(read=_text(rules.pointer)),
    "pattern": Option(key="regex", read=_text(rules.pattern)),
    "drift": Option(read=_text(parse_share)),
}


def _metric(name: str, table: TomlTable) -> MetricSpec:
    if "pointer" in table and "regex" in table:
        message = "a metric has a pointer or a regex, not both"
        table.wrong(table.at("regex"), rules.METRIC_CODE, message)
    if name in rules.ALWAYS and ("pointer" in table or "regex" in table):
        message = f"{name} is measured, not read from the output"
        hint = "give the metric another name"
        table.wrong(table.where, rules.METRIC_CODE, message, hint)
    spec: MetricSpec | None = read_form(table, form_of(MetricSpec, _METRIC, name=name))
    # The name is known, even if a key is wrong.
    return spec or MetricSpec(name)


def stopping(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    """Return the rule of an `until` table; `declared` are the test's metrics."""
    kinds = [kind for kind in _RULES if kind in table]
    if len(kinds) != 1:
        message = "until has more than one rule" if kinds else "until has no rule"
        hint = f"exactly one of {', '.join(_RULES)}"
        table.wrong(table.where, "suite-until", message, hint)
        known = (*_RULES, *_PRECISION, *(name for form in _FORMS.values() for name in form.names))
        table.only(tuple(dict.fromkeys(known)))
        return DEFAULT
    (kind,) = kinds
    if kind == "precision":
        return _precise(table, declared)
    _check_limits(table)
    rule: StoppingRule | None = read_form(table, _FORMS[kind])
    return rule or DEFAULT


def _precise(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    table.only(_PRECISION)
    named = _wanted(declared, table) if "metrics" in table else []
    texts = texts_of(table, CommandRequest)
    # Without a precision, which was reported, its options would be mistakes too.
    request = CommandRequest(**({"precision": "5%"} | texts))
    names = named or ["elapsed", *(spec.name for spec in declared)]
    rule, mistakes = stopping_rule(request, names)
    place_mistakes(table, CommandRequest, mistakes, "suite-range")
    return rule


def _check_limits(table: TomlTable) -> None:
    """Report a `max_runs` below `min_runs`, or below its default."""
    minimum, maximum = table.values.get("min_runs", _PREDICATE_RUNS), table.values.get("max_runs")
    if type(minimum) is type(maximum) is int and 0 < maximum < minimum:
        message = f"max_runs {maximum} is less than min_runs {minimum}"
        table.wrong(table.at("max_runs"), "suite-range", message)


# -- readers of the values of rules and metrics ----------------------------------------


def _wanted(declared: Sequence[MetricSpec], table: TomlTable) -> list[str]:
    names = [*rules.ALWAYS, *(spec.name for spec in declared)]
    texts = table.texts("metrics")
    for index, name in enumerate(texts):
        if name not in names:
            hint = (
                f"known: {', '.join(dict.fromkeys(names))}; others are declared in [test.metrics]"
            )
            where = table.at("metrics", index)
            table.wrong(where, "suite-metric", f"there is no metric {name!r}", hint)
    return texts


def _program(table: TomlTable, key: str) -> Command | None:
    text = table.text(key)
    if text is None or text.strip():
        return None if text is None else Command.from_text(text)
    table.wrong(table.at(key), "suite-no-command", "the program is empty")
    return None


_RULES = ("count", "runs", "precision", "predicate", "program")
"""The keys that select a rule."""
_PRECISION = ("precision", "metrics", *Form(keys_of(CommandRequest)).names[1:])
_LOOKS = (
    optional("min_runs", read=of_type(int), field="minimum"),
    optional("increment", read=of_type(int)),
)
_FORMS = {
    "count": Form((needed("count", read=of_type(int)),), FixedCount),
    # The name of the option on the command line.
    "runs": Form((needed("runs", read=of_type(int), field="count"),), FixedCount),
    "predicate": Form(
        (
            needed("predicate", read=_predicate),
            *_LOOKS,
            optional("max_runs", read=of_type(int), field="maximum"),
        ),
        partial(UntilPredicate, minimum=_PREDICATE_RUNS, increment=1),
    ),
    "program": Form(
        (needed("program", read=_program, field="command"), *_LOOKS),
        partial(UntilProgram, minimum=_PREDICATE_RUNS, increment=1),
    ),
}

# -- The rule of a `[[compare]]` table: its keys are options of `bw compare` -----------
#
# Decision: the values are read by the code for the command line; mistakes are then placed at
# the keys.

COMPARISON = Form(keys_of(ComparisonRequest)).names
"""Keys of `[[compare]]` that are also options of `bw compare`."""


def rule_of(table: TomlTable, arms: int, declared: Sequence[MetricSpec]) -> ComparisonRule:
    """Return the rule that a table describes; report mistakes in the table."""
    given = texts_of(table, ComparisonRequest)
    # A fixed default seed: every run of a suite has the same order of trials.
    request = ComparisonRequest((), **({"seed": "0"} | given))
    rule, mistakes = rule_and_mistakes(request, arms, declared)
    place_mistakes(table, ComparisonRequest, mistakes)
    return rule
