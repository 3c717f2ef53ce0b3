"""Applies the transformations of `bw stats` to its inputs.

Purpose: makes inputs and the findings of `--warn` from inputs and steps; a grouping makes several
inputs of one. Decision: an unknown name is a mistake only if no input has it; otherwise the rows
of inputs without it have no value. Each step is checked against the columns after the steps
before it, so that all mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchwright.cli.stats_request import TransformStep, parsed, refused
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.expression import Expression
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.results import Finding, Severity
from benchwright.stats.metric_rules import EXTRAS, TIMES, MetricRules
from benchwright.stats.table import (
    COMPUTED_COLUMNS,
    Table,
    aggregate_rows,
    derive,
    group,
    names_in,
    select,
    table_of_trials,
    trials_of_table,
    unify,
    warn,
    with_wait,
)
from benchwright.study.parsers.api import ParsedInput, trials_of

_TOLD = 10
"""Maximum number of rows that a warning names."""
_ALWAYS = frozenset((*TIMES, *COMPUTED_COLUMNS, *EXTRAS))
"""Names that are valid even if no row has them."""


class Transformed(msgspec.Struct, frozen=True):
    """The result of all steps."""

    inputs: tuple[ParsedInput, ...]
    findings: tuple[Finding, ...] = ()


class _TransformPart(msgspec.Struct, frozen=True):
    """An input, or a group of one, while it is being transformed."""

    source: ParsedInput
    trials: tuple[Trial, ...]
    table: Table


def transformed(
    inputs: Sequence[ParsedInput], steps: Sequence[TransformStep]
) -> Transformed:
    """Return the inputs after all steps, in order.

    Raises InputError with all unknown names, or if no row is left, or if no row has a value of
    a derived column.
    """
    if not steps:
        return Transformed(tuple(inputs))
    parts = [_part(one) for one in inputs]
    if not any(part.table.rows for part in parts):
        return Transformed(tuple(inputs))  # The report says that nothing was measured.
    apart = any(step.option == "--no-unify" for step in steps)
    findings: list[Finding] = []
    wrong: list[Diagnostic] = []
    unknown: set[str] = set()  # Columns that a wrong step would have made.
    joined = _joined(steps)
    for place, step in enumerate(joined):
        try:
            parts = _apply(parts, step, (apart, unknown), findings)
            _check_text_is_used(parts, step[0], joined[place + 1 :])
        except InputError as error:
            wrong.extend(error.diagnostics)
            if step[0].option == "--derive":
                unknown.add(step[0].name)
    if wrong:
        raise InputError(wrong)
    if apart:
        parts = _grouped(parts, "command")
    return Transformed(tuple(map(_input, parts)), tuple(findings))


def _part(parsed_input: ParsedInput) -> _TransformPart:
    trials = trials_of(parsed_input)
    return _TransformPart(
        parsed_input,
        trials,
        table_of_trials(parsed_input.name, trials, parsed_input.sample),
    )


def _input(part: _TransformPart) -> ParsedInput:
    trials = trials_of_table(part.table, part.trials)
    counted = (
        t for t in trials if t.ending is not TrialEnding.INTERRUPTED and not t.warmup
    )
    blocks = tuple(block for trial in counted for block in trial.blocks)
    gone = part.source.deselected + len(part.trials) - len(trials)
    return msgspec.structs.replace(
        part.source,
        blocks=blocks,
        trials=trials,
        findings=None,
        deselected=gone,
        summaries=(),
    )


def _joined(steps: Sequence[TransformStep]) -> list[tuple[TransformStep, ...]]:
    """Return the steps, with consecutive aggregations as one group.

    An aggregation merges many rows into one, so nothing would be left for the next.
    """
    joined: list[tuple[TransformStep, ...]] = []
    for step in steps:
        if (
            step.option == "--aggregate"
            and joined
            and joined[-1][0].option == step.option
        ):
            joined[-1] = (*joined[-1], step)
        else:
            joined.append((step,))
    return joined


def _check_text_is_used(
    parts: Sequence[_TransformPart],
    transform_step: TransformStep,
    later: Sequence[tuple[TransformStep, ...]],
) -> None:
    """Raise InputError for a derived text column that no later step reads.

    Such a column has no statistics, so no table would show it.
    """
    if transform_step.option != "--derive" or not any(
        transform_step.name in p.table.columns
        and p.table.columns[transform_step.name].dtype.kind == "O"
        for p in parts
    ):
        return
    for step in (one for steps in later for one in steps):
        if step.name == transform_step.name or (
            step.body and transform_step.name in parsed(step, None).variables
        ):
            return
    hint = f"group or select by it (--group {transform_step.name}), or derive a number"
    said = (f"{transform_step.name} is text and has no statistics", hint)
    raise refused(
        transform_step.text, transform_step.option, said, transform_step.offset
    )


def _apply(
    parts: list[_TransformPart],
    steps: tuple[TransformStep, ...],
    said: tuple[bool, set[str]],
    findings: list[Finding],
) -> list[_TransformPart]:
    """Return the parts after one step or group of aggregations. Raises InputError."""
    step, (apart, unknown) = steps[0], said
    names = unknown.union(*(names_in(part.table) for part in parts))
    columns = unknown.union(*(part.table.columns for part in parts))
    match step.option:
        case "--derive" | "--select" | "--warn":
            expression = parsed(step, _ALWAYS | names)
            return _by_row(parts, step, expression, findings)
        case "--group":
            _check_column(step, columns, step.name)
            _check_not_merged(parts, step)
            return _grouped(parts, step.name)
        case "--aggregate":
            for one in steps:
                _check_column(one, columns | (names & {"wait"}), one.name)
            return [_aggregated(part, steps, apart=apart) for part in parts]
        case "--unify":
            return [_unified(part) for part in parts]
    return parts


def _check_column(step: TransformStep, names: Iterable[str], wanted: str) -> None:
    if wanted in names:
        return
    hint = "columns there: " + ", ".join(sorted(name for name in names if name))
    raise refused(step.text, step.option, (f"no row has {wanted!r}", hint))


def _check_not_merged(parts: Sequence[_TransformPart], step: TransformStep) -> None:
    """Raise InputError if no row has a value to group by."""
    if any(row for p in parts for row in p.table.each([step.name])):
        return
    hint = "an --aggregate before it merged several rows into one; put --group first"
    raise refused(step.text, step.option, (f"no row has one {step.name}", hint))


def _by_row(
    parts: list[_TransformPart],
    step: TransformStep,
    expression: Expression,
    findings: list[Finding],
) -> list[_TransformPart]:
    if step.option == "--warn":
        for part in parts:
            findings.extend(_warned(part, step, expression))
        return parts
    if step.option == "--derive":
        made = [_with(p, derive(p.table, step.name, expression)) for p in parts]
        if not any(step.name in row for p in made for row in p.table.each([step.name])):
            hint = "in every row a value that it reads is absent, or it divides by 0"
            _refuse_if_any_row(
                parts, step, (f"no row has a value of {step.name}", hint)
            )
        return made
    left = [_with(p, select(p.table, expression)) for p in parts]
    if not any(p.table.rows for p in left):
        hint = "for every row it is false, or a value that it reads is absent"
        _refuse_if_any_row(parts, step, ("no row is left", hint))
    return left


def _refuse_if_any_row(
    parts: Sequence[_TransformPart], step: TransformStep, said: tuple[str, str]
) -> None:
    """Raise InputError if the inputs had rows before the step."""
    if any(part.table.rows for part in parts):
        raise refused(step.text, step.option, said, step.offset)


def _with(part: _TransformPart, table: Table) -> _TransformPart:
    return msgspec.structs.replace(part, table=table)


def _grouped(parts: Sequence[_TransformPart], column: str) -> list[_TransformPart]:
    """Return a part for each value of a column, with the value in its name.

    Trials without rows (after a failed SETUP) are in all parts.
    """
    found = []
    for part in parts:
        if column not in part.table.columns:
            found.append(part)
            continue
        for value, table in group(part.table, column):
            said = f"{column}={value}" if value is not None else f"no {column}"
            name = f"{part.source.name} {said}"
            source = msgspec.structs.replace(part.source, name=name)
            found.append(_TransformPart(source, part.trials, table))
    return found


def _aggregated(
    part: _TransformPart, steps: Sequence[TransformStep], *, apart: bool
) -> _TransformPart:
    book = MetricRules(part.source.specs)
    how = {step.name: step.how for step in steps if step.how is not None}
    table = with_wait(part.table)
    by = ("trial", "command") if apart else ("trial",)
    if not apart:
        # Columns that are not named are first summed over commands, as without --aggregate.
        named = {name: table.columns[name] for name in how if name in table.columns}
        rest = {n: c for n, c in table.columns.items() if n not in named}
        threads = aggregate_rows(
            unify(Table(rest), ("trial", "thread"), book), by, {}, book
        )
        keyed = Table({"trial": table.columns["trial"], **named})
        told = aggregate_rows(keyed, by, how, book)
        made = Table({**threads.columns, **told.columns})
        usual = unify(table, ("trial", "thread"), book)
    else:
        made, usual = aggregate_rows(table, by, how, book), table
    if set(how).isdisjoint(TIMES) or "cpu_percent" in table.columns:
        return _with(part, made)
    return _with(part, _with_usual_cpu(made, aggregate_rows(usual, by, {}, book)))


def _with_usual_cpu(table: Table, usual: Table) -> Table:
    """Return a table with the CPU% of `usual`, which has the same rows and default aggregations.

    CPU% cannot be computed from times that are aggregated otherwise, such as counted.
    """
    if not names_in(usual).issuperset(COMPUTED_COLUMNS):
        return table
    busy = derive(usual, "cpu_percent", "$cpu_percent").columns["cpu_percent"]
    return table.having("cpu_percent", busy)


def _unified(part: _TransformPart) -> _TransformPart:
    book = MetricRules(part.source.specs)
    return _with(part, unify(with_wait(part.table), ("trial", "thread"), book))


def _warned(
    part: _TransformPart, step: TransformStep, expression: Expression
) -> list[Finding]:
    """Return a finding with the rows for which a warning's expression is true, if any."""
    places = warn(part.table, expression)
    if not places.size:
        return []
    rows = "; ".join(_place_text(part.table.row(int(p))) for p in places[:_TOLD])
    more = "; ..." if places.size > _TOLD else ""
    evidence = (
        f"{step.body} holds for {places.size} of {part.table.rows} rows: {rows}{more}"
    )
    remedy = "Look at these rows' logs; --warn requests this check."
    return [Finding("warned", Severity.WARNING, part.source.name, evidence, remedy)]


def _place_text(row: dict[str, float | str]) -> str:
    said = [f"{name} {int(row[name])}" for name in ("epoch", "thread") if name in row]
    return " ".join([*said, f"`{row.get('command', '')}`"])
