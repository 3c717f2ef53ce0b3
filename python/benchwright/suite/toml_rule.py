"""Metrics, stopping rules and the rule of a comparison in a TOML suite."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from benchwright.core.comparison import ComparisonRule
from benchwright.core.plan import (
    GIVE_UP_NS,
    Command,
    FixedCount,
    MetricSpec,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
    precision_rule,
)
from benchwright.core.quantity import (
    parse_duration_ns,
    parse_share,
    parse_slow_runs,
    parse_statistic,
)
from benchwright.suite import rules, values
from benchwright.suite.comparison import ComparisonRequest, rule_and_mistakes
from benchwright.suite.form import (
    Form,
    form_of,
    keys_of,
    needed,
    of_type,
    optional,
    read_form,
    whole,
)
from benchwright.suite.mistakes import Fault
from benchwright.suite.options import Option, Reader, options_of
from benchwright.suite.rules import predicate_faults
from benchwright.suite.toml_table import TomlTable

# -- `until` and `metrics` of a TOML suite: stopping rules and metric specs ------------

DEFAULT = FixedCount(10)
_PREDICATE_RUNS = 10
"""Default number of trials before the first look of a predicate or a program."""


def metrics(table: TomlTable) -> list[MetricSpec]:
    """Return the metrics that a `metrics` table declares; of a wrong declaration the name, so that
    no rule with it is a mistake too."""
    specs = []
    for name in table.values:
        fault = rules.metric_name_fault(name)
        if fault is not None:
            table.wrong(table.at(name), fault.code, fault.message, fault.hint)
        one = table.table(name) if fault is None else None
        specs.append(MetricSpec(name) if one is None else _metric(name, one))
    return specs


def _checked(faults_of: Callable[[str], Fault | list[Fault] | None]) -> Reader:
    """Return the reader of a string; each fault is reported at its character."""

    def read(table: TomlTable, key: str) -> str | None:
        text = table.text(key)
        found = faults_of(text) if text is not None else None
        faults = [found] if isinstance(found, Fault) else found or []
        table.faults(faults, text or "", key)
        return None if faults else text

    return read


def _text(parse: Callable[[str], Any]) -> Reader:
    """Return the reader of a string, whose value `parse` returns."""
    return lambda table, key: table.read(key, parse) if table.has(key, str) else None


_METRIC = {
    "pointer": Option(read=_checked(rules.pointer_fault)),
    "pattern": Option(key="regex", read=_checked(rules.pattern_fault)),
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
    forms = _rules(declared)
    kinds = [kind for kind in forms if kind in table]
    if len(kinds) != 1:
        message = "until has more than one rule" if kinds else "until has no rule"
        hint = f"exactly one of {', '.join(forms)}"
        table.wrong(table.where, "suite-until", message, hint)
        table.only(tuple(dict.fromkeys(k for form in forms.values() for k in form.names)))
        return DEFAULT
    (kind,) = kinds
    _check_limits(table, 2 if kind == "precision" else _PREDICATE_RUNS)
    rule: StoppingRule | None = read_form(table, forms[kind])
    return rule or DEFAULT


def _check_limits(table: TomlTable, least: int) -> None:
    """Report a `max_runs` below `min_runs`, or below its default `least`, or below the trials of
    `rare`."""
    minimum, maximum = table.values.get("min_runs", least), table.values.get("max_runs")
    if type(minimum) is type(maximum) is int and 0 < maximum < minimum:
        message = f"max_runs {maximum} is less than min_runs {minimum}"
        table.wrong(table.at("max_runs"), "suite-range", message)
    elif type(maximum) is int and maximum > 0 and type(table.values.get("rare")) is str:
        # A mistake in `rare` itself is reported where it is read.
        with contextlib.suppress(ValueError):
            rare = parse_slow_runs(table.values["rare"])
            if maximum < rare.trials:
                message = values.too_few_for(rare, maximum)
                table.wrong(table.at("max_runs"), "suite-range", message)


def _rules(declared: Sequence[MetricSpec]) -> dict[str, Form]:
    """Return the form of each rule, by the key that selects the rule."""
    most = optional("max_runs", read=of_type(int), field="maximum")
    looks = (
        optional("min_runs", read=of_type(int), field="minimum"),
        optional("increment", read=of_type(int)),
    )
    precision = (
        needed("precision", read=_share, field="target"),
        optional("metrics", read=partial(_wanted, declared)),
        optional("min_runs", read=whole(2, 10**9), field="minimum"),
        most,
        optional("max_time", read=_text(parse_duration_ns), field="max_time_ns"),
        optional(
            "give_up",
            read=_text(lambda text: (values.give_up_ns(text),)),
        ),
        optional("confidence", read=_confidence),
        optional("mode", read=of_type(Literal["plan", "watch"])),
        # In a tuple: the mean is None, which a reader returns for a mistake.
        optional("of", read=_text(lambda text: (parse_statistic(text),))),
        optional("rare", read=_text(parse_slow_runs)),
    )
    predicate = needed("predicate", read=_checked(predicate_faults))
    return {
        "count": Form((needed("count", read=of_type(int)),), FixedCount),
        # The name of the option on the command line.
        "runs": Form((needed("runs", read=of_type(int), field="count"),), FixedCount),
        "precision": Form(precision, partial(_precise, declared)),
        "predicate": Form(
            (predicate, *looks, most),
            partial(UntilPredicate, minimum=_PREDICATE_RUNS, increment=1),
        ),
        "program": Form(
            (needed("program", read=_program, field="command"), *looks),
            partial(UntilProgram, minimum=_PREDICATE_RUNS, increment=1),
        ),
    }


def _precise(declared: Sequence[MetricSpec], **said: Any) -> UntilPrecise:
    """Return a precision rule; values that are not given follow from the others."""
    wanted = said.pop("metrics", ()) or ["elapsed", *(spec.name for spec in declared)]
    (share,) = said.pop("of", (None,))
    (give_up_ns,) = said.pop("give_up", (GIVE_UP_NS,))
    return precision_rule(
        metrics=tuple(dict.fromkeys(wanted)),
        share=share,
        give_up_ns=give_up_ns,
        **said,
    )


# -- readers of the values of rules and metrics ----------------------------------------


def _wanted(declared: Sequence[MetricSpec], table: TomlTable, key: str) -> list[str] | None:
    names = [*rules.ALWAYS, *(spec.name for spec in declared)]
    texts = table.texts(key)
    for index, name in enumerate(texts):
        if name not in names:
            hint = (
                f"known: {', '.join(dict.fromkeys(names))}; others are declared in [test.metrics]"
            )
            where = table.at(key, index)
            table.wrong(where, "suite-metric", f"there is no metric {name!r}", hint)
    return texts


def _program(table: TomlTable, key: str) -> Command | None:
    text = table.text(key)
    if text is None or text.strip():
        return None if text is None else Command.from_text(text)
    table.wrong(table.at(key), "suite-no-command", "the program is empty")
    return None


def _confidence(table: TomlTable, key: str) -> float | None:
    if not table.has(key, float):
        return None
    value = float(table.values[key])
    if 0.5 <= value < 1:
        return value
    hint = "from 0.5 to less than 1, such as 0.95"
    table.refuse(table.at(key), f"confidence is {value:g}", hint)
    return None


def _share(table: TomlTable, key: str) -> float | None:
    if type(table.values[key]) is not float:
        return table.read(key, parse_share) if table.has(key, str) else None
    value = float(table.values[key])
    if 0 < value <= 1:
        return value
    table.refuse(table.at(key), f"precision is {value:g}", 'such as "5%" or 0.05')
    return None


# -- The rule of a `[[compare]]` table: its keys are options of `bw compare` -----------
#
# Decision: the values are read by the code for the command line; mistakes are then placed at
# the keys.

COMPARISON = Form(keys_of(ComparisonRequest)).names
"""Keys of `[[compare]]` that are also options of `bw compare`."""


def rule_of(table: TomlTable, arms: int, declared: Sequence[MetricSpec]) -> ComparisonRule:
    """Return the rule that a table describes; report mistakes in the table."""
    given: dict[str, Any] = {}
    for name, option in options_of(ComparisonRequest).items():
        if option.key and option.kind == "list":
            given[name] = tuple(table.texts(name))
        elif option.key:
            given[name] = table.read(name, str)
    # A fixed default seed: every run of a suite has the same order of trials.
    if "seed" not in table:
        given["seed"] = "0"
    request = ComparisonRequest((), **given)
    rule, mistakes = rule_and_mistakes(request, arms, declared)
    for mistake in mistakes:
        key = mistake.file.removeprefix("--").replace("-", "_")
        where = table.at(key) if key in table else table.where
        table.wrong(where, mistake.code, mistake.message, mistake.hint)
    return rule
