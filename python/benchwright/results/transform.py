"""Applies the transformations of `bw stats` to its inputs.

Purpose: makes inputs and the findings of `--warn` from inputs and steps; a grouping makes several
inputs of one. Decision: an unknown name is a mistake only if no input has it; otherwise the rows of
inputs without it have no value. Each step is checked against the columns after the steps before it,
so that all mistakes are reported together. A test of which a file states only estimates has one
row, with its name and its levels: a step that reads these treats it as any other, and a step that
needs values of trials leaves it out, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.expression import Expression
from benchwright.core.observation import Trial
from benchwright.core.results import Finding, Severity
from benchwright.findings.result import TestResult
from benchwright.results.inputs import (
    ESTIMATES_HINT,
    NOT_SELECTED,
    left_out,
    only_estimates_text,
    with_valid_estimates,
)
from benchwright.results.stats_request import TransformStep, parsed, refused
from benchwright.stats.aggregate import COMPUTED_COLUMNS, EXTRAS, FIXED_COLUMNS, TIMES, MetricRules
from benchwright.stats.table import (
    Table,
    aggregate_rows,
    derive,
    group,
    names_in,
    select,
    table_of_estimates,
    table_of_trials,
    trials_of_table,
    unify,
    warn,
    with_wait,
)
from benchwright.study.parsers.api import has_only_estimates

_TOLD = 10
"""Maximum number of rows that a warning names."""
_ALWAYS = frozenset((*TIMES, *COMPUTED_COLUMNS, *EXTRAS))
"""Names that are valid even if no row has them."""


class Transformed(msgspec.Struct, frozen=True):
    """The result of all steps."""

    inputs: tuple[TestResult, ...]
    findings: tuple[Finding, ...] = ()


class _TransformPart(msgspec.Struct, frozen=True):
    """An input, or a group of one, while it is being transformed."""

    source: TestResult
    trials: tuple[Trial, ...]
    table: Table
    left_out: str = NOT_SELECTED
    """Why a test without trials has no row."""

    @property
    def is_stated(self) -> bool:
        """Whether its row is a test of which only estimates are stated."""
        return has_only_estimates(self.source)


class _Known(msgspec.Struct, frozen=True):
    """What all steps need to know beside the rows."""

    apart: bool
    """Whether each command has its own table."""
    of_tests: set[str]
    """Columns that tests have without trials."""
    unknown: set[str] = msgspec.field(default_factory=set)
    """Columns that a wrong step would have made."""


def transformed(inputs: Sequence[TestResult], steps: Sequence[TransformStep]) -> Transformed:
    """Return the inputs after all steps, in order.

    Raises InputError with all unknown names, or if no row is left, or if no row has a value of
    a derived column.
    """
    if not steps:
        return Transformed(tuple(inputs))
    parts = [_part(test) for test in inputs]
    if not any(part.table.rows for part in parts):
        return Transformed(tuple(inputs))  # The report says that nothing was measured.
    apart = any(step.option == "--no-unify" for step in steps)
    known = _Known(apart, _names_of_tests(parts, steps))
    findings: list[Finding] = []
    wrong: list[Diagnostic] = []
    done = 0
    for step in _joined(steps):
        done += len(step)
        try:
            parts = _apply(parts, step, steps[done:], known, findings)
            _check_text_is_used(parts, step[0], steps[done:])
        except InputError as error:
            wrong.extend(error.diagnostics)
            if step[0].option == "--derive":
                known.unknown.add(step[0].name)
    if wrong:
        raise InputError(wrong)
    if apart:
        parts = _grouped(parts, "command")
    return Transformed(tuple(map(_input, parts)), tuple(findings))


def _part(parsed_input: TestResult) -> _TransformPart:
    name = parsed_input.name
    if has_only_estimates(parsed_input):
        stated = [summary.name for summary in parsed_input.summaries]
        table = table_of_estimates(name, stated, parsed_input.sample)
    else:
        table = table_of_trials(name, parsed_input.trials, parsed_input.sample)
    return _TransformPart(parsed_input, parsed_input.trials, table)


def _input(part: _TransformPart) -> TestResult:
    if part.is_stated:
        return part.source if part.table.rows else left_out(part.source, part.left_out)
    trials = trials_of_table(part.table, part.trials)
    gone = part.source.deselected + len(part.trials) - len(trials)
    # What is said of void trials is of all trials, not of a selection.
    changed = msgspec.structs.replace(
        part.source,
        blocks=(),
        whole_trials=trials,
        void_trials=() if gone else part.source.void_trials,
        findings=None,
        deselected=gone,
    )
    return with_valid_estimates(changed, part.trials)


def _names_of_tests(parts: Sequence[_TransformPart], steps: Sequence[TransformStep]) -> set[str]:
    """Return the columns that a test has without its trials: its name, its levels, and what steps
    derive from these alone."""
    factors = {factor for part in parts for factor, _ in part.source.sample}
    names = {"input"} | factors.difference(FIXED_COLUMNS)
    for step in steps:
        if step.option == "--derive" and parsed(step, None).variables <= names:
            names.add(step.name)
    return names


def _for_trials(parts: list[_TransformPart], step: TransformStep) -> list[_TransformPart]:
    """Return the parts before a step that needs values of trials: a test of which only estimates
    are stated has no row any more. Raises InputError if all rows are such tests."""
    stated = [part.is_stated and part.table.rows > 0 for part in parts]
    if not any(stated):
        return parts
    why = only_estimates_text(step.option, step.text)
    if sum(stated) == sum(part.table.rows > 0 for part in parts):
        raise refused(step.text, step.option, (why, ESTIMATES_HINT))
    return [
        _without_row(part, why, step.option) if one else part
        for part, one in zip(parts, stated, strict=True)
    ]


def _without_row(part: _TransformPart, why: str, option: str) -> _TransformPart:
    """Return the part of a test to which a step cannot be applied; a warning leaves it as it is."""
    if option == "--warn":
        notes = (*part.source.notes, f"Not examined: {why}.")
        source = msgspec.structs.replace(part.source, notes=notes)
        return msgspec.structs.replace(part, source=source)
    return msgspec.structs.replace(part, table=part.table.taking([]), left_out=why)


def _reads(step: TransformStep, expression: Expression, later: Sequence[TransformStep]) -> set[str]:
    """Return the columns that a step needs; a derived one that no step reads is a value of trials."""
    read = set(expression.variables)
    if step.option == "--derive" and not _is_read(step.name, later):
        read.add("trial")
    return read


def _joined(steps: Sequence[TransformStep]) -> list[tuple[TransformStep, ...]]:
    """Return the steps, with consecutive aggregations as one group.

    An aggregation merges many rows into one, so nothing would be left for the next.
    """
    joined: list[tuple[TransformStep, ...]] = []
    for step in steps:
        if step.option == "--aggregate" and joined and joined[-1][0].option == step.option:
            joined[-1] = (*joined[-1], step)
        else:
            joined.append((step,))
    return joined


def _check_text_is_used(
    parts: Sequence[_TransformPart], transform_step: TransformStep, later: Sequence[TransformStep]
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
    if _is_read(transform_step.name, later):
        return
    hint = f"group or select by it (--group {transform_step.name}), or derive a number"
    said = (f"{transform_step.name} is text and has no statistics", hint)
    raise refused(transform_step.text, transform_step.option, said, transform_step.offset)


def _is_read(name: str, later: Sequence[TransformStep]) -> bool:
    """Return whether a later step names or reads a column."""
    return any(
        step.name == name or (step.body and name in parsed(step, None).variables) for step in later
    )


def _apply(
    parts: list[_TransformPart],
    steps: tuple[TransformStep, ...],
    later: Sequence[TransformStep],
    known: _Known,
    findings: list[Finding],
) -> list[_TransformPart]:
    """Return the parts after one step or group of aggregations. Raises InputError."""
    step, unknown = steps[0], known.unknown
    names = unknown.union(*(names_in(part.table) for part in parts))
    columns = unknown.union(*(part.table.columns for part in parts))
    match step.option:
        case "--derive" | "--select" | "--warn":
            expression = parsed(step, _ALWAYS | names)
            if not _reads(step, expression, later) <= known.of_tests:
                parts = _for_trials(parts, step)
            return _by_row(parts, step, expression, findings)
        case "--group":
            _check_column(step, columns, step.name)
            if step.name not in known.of_tests:
                parts = _for_trials(parts, step)
            _check_not_merged(parts, step)
            return _grouped(parts, step.name)
        case "--aggregate":
            for transform_step in steps:
                _check_column(transform_step, columns | (names & {"wait"}), transform_step.name)
            return [
                _aggregated(part, steps, apart=known.apart) for part in _for_trials(parts, step)
            ]
        case "--unify":
            return [part if part.is_stated else _unified(part) for part in parts]
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
            _refuse_if_any_row(parts, step, (f"no row has a value of {step.name}", hint))
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

    Trials without rows (after a failed SETUP) are in all parts. A part without rows stays as it is.
    """
    transform_parts = []
    for part in parts:
        # A test of which only estimates are stated has no column of trials to be grouped by.
        has_values = not part.is_stated or any(part.table.each([column]))
        if column not in part.table.columns or not part.table.rows or not has_values:
            transform_parts.append(part)
            continue
        for value, table in group(part.table, column):
            text = f"{column}={value}" if value is not None else f"no {column}"
            name = f"{part.source.name} {text}"
            source = msgspec.structs.replace(part.source, name=name)
            transform_parts.append(_TransformPart(source, part.trials, table))
    return transform_parts


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
        threads = aggregate_rows(unify(Table(rest), ("trial", "thread"), book), by, {}, book)
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


def _warned(part: _TransformPart, step: TransformStep, expression: Expression) -> list[Finding]:
    """Return a finding with the rows for which a warning's expression is true, if any."""
    places = warn(part.table, expression)
    if not places.size:
        return []
    rows = "; ".join(_place_text(part.table.row(int(p))) for p in places[:_TOLD])
    more = "; ..." if places.size > _TOLD else ""
    evidence = f"{step.body} holds for {places.size} of {part.table.rows} rows: {rows}{more}"
    remedy = "Look at these rows' logs; --warn requests this check."
    return [Finding("warned", Severity.WARNING, part.source.name, evidence, remedy)]


def _place_text(row: dict[str, float | str]) -> str:
    texts = [f"{name} {int(row[name])}" for name in ("epoch", "thread") if name in row]
    command = row.get("command") or row.get("input", "")
    return " ".join([*texts, f"`{command}`"])
