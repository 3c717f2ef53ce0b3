"""Metrics, stopping rules and the rule of a comparison in a TOML suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchwright.core.comparison import ComparisonRule
from benchwright.core.plan import (
    FIRST_LOOK_TRIALS,
    PILOT_TRIALS,
    Command,
    FixedCount,
    MetricSpec,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.quantity import parse_duration_ns, parse_share, parse_statistic
from benchwright.suite import rules
from benchwright.suite.comparison import ComparisonRequest, rule_and_mistakes
from benchwright.suite.options import keys_of, options_of
from benchwright.suite.rules import MODES, precise_mode, predicate_faults
from benchwright.suite.toml_table import TomlTable

# -- `until` and `metrics` of a TOML suite: stopping rules and metric specs ------------

T = TypeVar("T")

DEFAULT = FixedCount(10)
_KINDS: dict[str, tuple[str, ...]] = {
    "count": (),
    "precision": (
        "metrics",
        "min_runs",
        "max_runs",
        "max_time",
        "confidence",
        "mode",
        "of",
    ),
    "predicate": ("min_runs", "increment", "max_runs"),
    "program": ("min_runs", "increment"),
}
_METRIC_KEYS = ("pointer", "regex", "unit", "better", "across_threads", "drift")
_ACROSS = ("default", "max", "min", "sum", "mean")


def metrics(table: TomlTable) -> list[MetricSpec]:
    """Return the metrics that a `metrics` table declares."""
    specs = []
    for name in table.values:
        fault = rules.metric_name_fault(name)
        if fault is not None:
            table.wrong(table.at(name), fault.code, fault.message, fault.hint)
            continue
        one = table.table(name)
        if one is not None:
            specs.append(_metric(name, one))
    return specs


def _metric(name: str, table: TomlTable) -> MetricSpec:
    table.only(_METRIC_KEYS)
    pointer, pattern = table.text("pointer"), table.text("regex")
    for key, text, fault_of in (
        ("pointer", pointer, rules.pointer_fault),
        ("regex", pattern, rules.pattern_fault),
    ):
        fault = fault_of(text)
        if fault is not None and text is not None:
            table.faults([fault], text, key)
    if pointer is not None and pattern is not None:
        message = "a metric has a pointer or a regex, not both"
        table.wrong(table.at("regex"), rules.METRIC_CODE, message)
        pattern = None
    if name in rules.ALWAYS and (pointer is not None or pattern is not None):
        message = f"{name} is measured, not read from the output"
        hint = "give the metric another name"
        table.wrong(table.where, rules.METRIC_CODE, message, hint)
    better = _one_of(table, "better", ("lower", "higher"))
    across = _one_of(table, "across_threads", _ACROSS)
    return MetricSpec(
        name,
        pointer,
        pattern,
        unit=table.text("unit") or "",
        better="higher" if better == "higher" else "lower",
        across_threads=_across(across),
        drift=_parsed(table, "drift", parse_share) or 0.0,
    )


def _across(text: str) -> Any:
    return text or "default"


def _one_of(table: TomlTable, key: str, known: Sequence[str]) -> str:
    text = table.text(key)
    if text is None or text in known:
        return text or ""
    message = f"{key} is {text!r}"
    table.wrong(table.at(key), "suite-range", message, f"one of {', '.join(known)}")
    return ""


def stopping(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    """Return the rule of an `until` table; `declared` are the test's metrics."""
    kinds = [kind for kind in _KINDS if kind in table]
    if len(kinds) != 1:
        message = "until has more than one rule" if kinds else "until has no rule"
        hint = f"exactly one of {', '.join(_KINDS)}"
        table.wrong(table.where, "suite-until", message, hint)
        table.only(
            (*_KINDS, *dict.fromkeys(k for keys in _KINDS.values() for k in keys))
        )
        return DEFAULT
    kind = kinds[0]
    table.only((kind, *_KINDS[kind]))
    if kind == "count":
        return FixedCount(table.whole("count", 1) or 1)
    if kind == "precision":
        return _precise(table, declared)
    minimum = table.whole("min_runs", 1) or 10
    increment = table.whole("increment", 1) or 1
    if kind == "program":
        text = table.text("program")
        if text is None or not text.strip():
            table.wrong(table.at("program"), "suite-no-command", "the program is empty")
            return DEFAULT
        return UntilProgram(minimum, increment, Command.from_text(text))
    predicate = table.text("predicate")
    if predicate is not None:
        table.faults(predicate_faults(predicate), predicate, "predicate")
    maximum = _maximum(table, minimum)
    return UntilPredicate(minimum, increment, predicate or "1", maximum)


def _precise(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    minimum = table.whole("min_runs", 2)
    maximum = _maximum(table, minimum or 2)
    names = [*rules.ALWAYS, *(spec.name for spec in declared)]
    wanted = table.texts("metrics") or ["elapsed", *(spec.name for spec in declared)]
    for index, name in enumerate(table.texts("metrics")):
        if name not in names:
            hint = f"known: {', '.join(dict.fromkeys(names))}; others are declared in [test.metrics]"
            where = table.at("metrics", index)
            table.wrong(where, "suite-metric", f"there is no metric {name!r}", hint)
    confidence = _number(table, "confidence")
    if confidence is not None and not 0.5 <= confidence < 1:
        hint = "from 0.5 to less than 1, such as 0.95"
        where = table.at("confidence")
        table.wrong(where, "suite-range", f"confidence is {confidence:g}", hint)
    max_time = _parsed(table, "max_time", parse_duration_ns)
    mode = precise_mode(_one_of(table, "mode", MODES))
    first = FIRST_LOOK_TRIALS if mode == "watch" else PILOT_TRIALS
    return UntilPrecise(
        target=_share(table),
        metrics=tuple(dict.fromkeys(wanted)),
        minimum=minimum or min(first, maximum or first),
        maximum=maximum or max(1000, minimum or 0),
        max_time_ns=max_time,
        confidence=0.95 if confidence is None else confidence,
        mode=mode,
        share=_parsed(table, "of", parse_statistic),
    )


def _maximum(table: TomlTable, minimum: int) -> int | None:
    maximum = table.whole("max_runs", 1)
    if maximum is not None and maximum < minimum:
        message = f"max_runs {maximum} is less than min_runs {minimum}"
        table.wrong(table.at("max_runs"), "suite-range", message)
    return maximum


def _number(table: TomlTable, key: str) -> float | None:
    return float(table.values[key]) if table.has(key, float) else None


def _share(table: TomlTable) -> float:
    if type(table.values["precision"]) is float:
        value = float(table.values["precision"])
        if 0 < value <= 1:
            return value
        hint = 'such as "5%" or 0.05'
        where = table.at("precision")
        table.wrong(where, "suite-range", f"precision is {value:g}", hint)
        return 0.05
    return _parsed(table, "precision", parse_share) or 0.05


def _parsed(table: TomlTable, key: str, parse: Callable[[str], T]) -> T | None:
    text = table.text(key)
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        table.wrong(table.at(key), "suite-range", str(error))
        return None


# -- The rule of a `[[compare]]` table: the keys are `bw compare`'s options ------------
#
# Decision: the values go through the very reading of the command line's, and its mistakes
# are placed at the keys that they are about.

COMPARISON = keys_of(ComparisonRequest)
"""Keys of a `[[compare]]` that are options of `bw compare` too."""


def rule_of(
    table: TomlTable, arms: int, declared: Sequence[MetricSpec]
) -> ComparisonRule:
    """Return the rule that a table asks for; its mistakes are reported there."""
    given: dict[str, Any] = {}
    for name, option in options_of(ComparisonRequest).items():
        if option.key and option.kind == "list":
            given[name] = tuple(table.texts(name))
        elif option.key:
            given[name] = table.read(name, str)
    # Without a seed of its own a suite means the same each time it is run.
    given["seed"] = given["seed"] or "0"
    request = ComparisonRequest((), **given)
    rule, mistakes = rule_and_mistakes(request, arms, declared)
    for mistake in mistakes:
        key = mistake.file.removeprefix("--").replace("-", "_")
        where = table.at(key) if key in table else table.where
        table.wrong(where, mistake.code, mistake.message, mistake.hint)
    return rule
