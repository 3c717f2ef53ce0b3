"""`command`: any program that takes a rate and a length, and prints its results.

Purpose: the adapter for a generator without an adapter of its own, and `bw peak --command`.
The user states what its figures mean: `open_loop`, `from_intended`. By default the program
is assumed to hold its rate and to count from the intended start.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated, ClassVar, TypeVar

import msgspec

from benchwright.core.errors import suggestion
from benchwright.features.generators.adapter import (
    OF_A_TRIAL,
    WHOLE_DURATION,
    WHOLE_RATE,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    LoadAxis,
    Measurement,
    UnreadableOutput,
    command_of,
    level_values,
    named_in,
    program_in,
    rate_step_in,
    whole_seconds,
)
from benchwright.features.generators.findings import count_differs, series_count
from benchwright.features.generators.output import ValueSource, members, parse_source, rows_at
from benchwright.features.load.plan import LoadSeries
from benchwright.inputs.mistakes import fault_of
from benchwright.inputs.options import Option
from benchwright.inputs.toml_table import TomlTable
from benchwright.suite.values import metric_name
from benchwright.trial.observe import MetricNotFound

T = TypeVar("T")
MEAN = "response_ms_mean"
ERRORS = "error_ratio"
_LEVELS: tuple[LoadAxis, ...] = ("rate", "users")
Sources = tuple[tuple[str, ValueSource], ...]
"""Sources of values, by the criterion's key."""


COUNTS = ("offered", "completed", "errors")


def _read_command(table: TomlTable, key: str) -> str | None:
    def checked(text: str) -> str:
        _refuse_misspelt(text, tuple(table.known))
        return _checked(text)

    return _parsed(table.as_written, key, checked)


def _read_series(table: TomlTable, key: str) -> ValueSource | None:
    return _parsed(table, key, _pointer)


def _read_source(table: TomlTable, key: str) -> ValueSource | None:
    return _parsed(table, key, parse_source)


def _read_values(table: TomlTable, key: str) -> Sources | None:
    inner = table.table(key)
    return None if inner is None else _sources(inner) or None


def _read_counts(table: TomlTable, key: str) -> Sources | None:
    inner = table.table(key)
    if inner is None:
        return None
    inner.only(COUNTS)
    return _sources(inner)


def _sources(table: TomlTable) -> Sources | None:
    pairs = [(name, _source(table, name)) for name in table.values]
    good = [(name, source) for name, source in pairs if source is not None]
    return tuple(good) if len(good) == len(pairs) else None


def _source(table: TomlTable, name: str) -> ValueSource | None:
    fault = fault_of(metric_name, name)
    if fault is not None:
        table.refuse(table.where, fault.message, fault.hint)
    source = _parsed(table, name, parse_source, f"{name}: ")
    return source if fault is None else None


def _parsed(table: TomlTable, key: str, parse: Callable[[str], T], what: str = "") -> T | None:
    """Return what a key's text means; None if an error was reported."""
    text = table.text(key)
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        table.refuse(table.at(key), f"{what}{error}")
        return None


class CommandGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and where its output has each value."""

    command: Annotated[str, Option(read=_read_command)]
    """Contains `{rate}` and `{duration}`, or `{users}` and `{duration}`, and any factors. For a
    program that accepts only whole numbers: `{rate:int}`, `{duration:int}`."""
    values: Annotated[
        Sources,
        Option(read=_read_values, hint='such as values = { response_ms_mean = "/latency/mean" }'),
    ]
    """Values by the criterion's key; times in milliseconds."""
    counts: Annotated[Sources, Option(read=_read_counts)] = ()
    """Any of `offered`, `completed`, `errors`."""
    series: Annotated[ValueSource | None, Option(read=_read_series)] = None
    series_by_end: bool = False
    """Rows count what ended in each second, not what was due to start in it."""
    late: Annotated[ValueSource | None, Option(read=_read_source)] = None
    """99th percentile of how late the program started its operations, in milliseconds."""
    target_values: Annotated[Sources, Option(read=_read_values)] = ()
    """Any of `values` without the program's own lateness: times count from the moment when the
    program came to the operation."""
    open_loop: bool = True
    from_intended: bool = True

    def __post_init__(self) -> None:
        values = {key for key, _ in self.values}
        for key, _ in self.target_values:
            if key not in values:
                raise ValueError(f"target_values has {key}, which values does not have")

    name: ClassVar = "command"

    @property
    def programs(self) -> tuple[str, ...]:
        """The command's program, if it is certain and not a placeholder."""
        name = program_in(self.command)
        return () if name is None else (name,)

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures, as the user states it."""
        return GeneratorTraits(
            open_loop=self.open_loop,
            from_intended=self.from_intended,
            reports_lateness=self.late is not None or bool(self.target_values),
            reports_errors=self._reports_errors,
            statistics=("mean", "percentile", "share", "ratio", "metric"),
            metrics=self._metrics,
            series=self.series is not None,
            axes=_axes(self.command),
            rate_step=rate_step_in(self.command),
        )

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the user's command for a trial. Raises ValueError if the command names a rate
        or users that the trial does not have."""
        known, names = level_values(request), named_in(self.command)
        for name in names:
            if _axis_of(name) is not None and name not in known:
                raise ValueError(f"{{{name}}} of the command has no value")
        whole = request.rate is not None and WHOLE_RATE in names
        return Invocation(
            commands=(command_of(self.command, request),),
            rate=float(known[WHOLE_RATE]) if whole else None,
        )

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its output. Raises UnreadableOutput for a required value."""
        wanted = {criterion.key for criterion in request.criteria}
        values = {}
        for key, source in self.values:
            try:
                values[key] = source.value(output)
            except MetricNotFound as error:
                if key in wanted:
                    raise _unreadable(key, error, output) from None
        own = _Counts(**{key: _count(key, source, output) for key, source in self.counts})
        series, lasted_s = self._series(output), self._lasted_s(request)
        counts = self._counts(own, series, values.get(ERRORS), request)
        return Measurement(
            values=_error_ratio(own) | values,
            series=series,
            offered=counts.offered,
            completed=counts.completed,
            errors=counts.errors or 0,
            offered_by_series=own.offered is None and counts.offered is not None,
            late_p99_ms=_value("late", self.late, output),
            target_values={
                key: _required(f"target_values.{key}", source, output)
                for key, source in self.target_values
            },
            lasted_s=lasted_s,
        )

    def _counts(
        self, own: _Counts, series: LoadSeries, failed: float | None, request: GeneratorRequest
    ) -> _Counts:
        """Return a run's counts: the program's own, and what its series and its share of failures
        mean."""
        run_s = self._lasted_s(request) or request.duration_s
        counted = series_count(series, run_s)
        by_end = self.series_by_end
        # Users offer no rate: what a closed loop sent is not what it was asked for.
        says_more = by_end or own.offered is None
        if counted is not None and request.rate is not None and says_more:
            asked = request.rate * run_s
            own = own.or_else(_counts_of_series(own, counted, failed, asked, by_end=by_end))
        return own.with_share(failed)

    @property
    def _metrics(self) -> tuple[str, ...]:
        """The keys that it has values for; counts of errors and of all give the error ratio."""
        keys, counts = (tuple(key for key, _ in x) for x in (self.values, self.counts))
        has_ratio = "errors" in counts and len(counts) > 1 and ERRORS not in keys
        return (*keys, ERRORS) if has_ratio else keys

    @property
    def _reports_errors(self) -> bool:
        given = {key for key, _ in (*self.values, *self.counts)}
        return bool(given & {ERRORS, "errors", "completed"})

    def _lasted_s(self, request: GeneratorRequest) -> float | None:
        """Return how long the load lasted; None: as long as was requested."""
        if WHOLE_DURATION not in named_in(self.command):
            return None
        return float(whole_seconds(request.duration_s))

    def so_far(
        self, _output: GeneratorOutput, _request_of_trial: GeneratorRequest, /
    ) -> Measurement | None:
        """Return None: it has no output that can be read before the end."""
        return None

    def _series(self, output: GeneratorOutput) -> LoadSeries:
        if self.series is None:
            return LoadSeries()
        try:
            rows = rows_at(self.series, output)
        except MetricNotFound as error:
            raise _unreadable("series", error, output) from None
        series = command_series(rows)
        if not self.series_by_end:
            return series
        return msgspec.structs.replace(series, binned_by="completion")


def command_generator(
    text: str,
    response: str,
    series: str | None = None,
    *,
    errors: str | None = None,
    offered: str | None = None,
    late: str | None = None,
    target_response: str | None = None,
) -> CommandGenerator:
    """Return the generator of `bw peak --command TEXT --response R --series S`.

    The sources are of the mean response [ms], the series, the share of failed operations, the
    number of operations that were started, the 99th percentile of the lateness [ms], and the
    mean response without it [ms]. Raises ValueError, also for a misspelt placeholder: without a
    spec it cannot be the name of a factor.
    """
    _refuse_misspelt(text)
    return CommandGenerator(
        command=_checked(text),
        values=(*_named(MEAN, response), *_named(ERRORS, errors)),
        counts=_named("offered", offered),
        series=None if series is None else _pointer(series),
        late=None if late is None else parse_source(late),
        target_values=_named(MEAN, target_response),
    )


def _named(key: str, text: str | None) -> Sources:
    return () if text is None else ((key, parse_source(text)),)


def command_series(rows: list[tuple[float, int, float]]) -> LoadSeries:
    """Return the series of rows (second, count, mean_ms), in order of time."""
    rows = sorted(rows)
    at_s = tuple(row[0] for row in rows)
    gaps = [b - a for a, b in itertools.pairwise(at_s) if b > a]
    return LoadSeries(
        at_s=at_s,
        width_s=min(gaps, default=1.0),
        counts=tuple(row[1] for row in rows),
        values={MEAN: tuple(row[2] for row in rows)},
    )


def _checked(text: str) -> str:
    if not text.strip():
        raise ValueError("the command is empty")
    if not _axes(text):
        raise ValueError(
            f"`{text}` has neither {{rate}} nor {{users}}: it would be the same load every time"
        )
    return text


def _refuse_misspelt(text: str, known: tuple[str, ...] = ()) -> None:
    """Raise ValueError for a name in braces that resembles a name of a trial and is not
    known."""
    for name in named_in(text):
        meant = suggestion(name, OF_A_TRIAL, form="{%s}")
        if meant and name not in (*OF_A_TRIAL, *known):
            raise ValueError(f"there is no variable {{{name}}}: {meant}")


def _axes(text: str) -> tuple[LoadAxis, ...]:
    named = {_axis_of(name) for name in named_in(text)}
    return tuple(axis for axis in _LEVELS if axis in named)


def _axis_of(name: str) -> LoadAxis | None:
    """Return the axis that a name in braces stands for; None for other names."""
    bare = "rate" if name == WHOLE_RATE else name
    return next((axis for axis in _LEVELS if axis == bare), None)


def _pointer(text: str) -> ValueSource:
    source = parse_source(text)
    if source.pointer is None:
        raise ValueError(f"{text!r} is not a JSON pointer: a series is an array of rows")
    return source


def _count(key: str, source: ValueSource, output: GeneratorOutput) -> int:
    return round(_required(key, source, output))


def _value(key: str, source: ValueSource | None, output: GeneratorOutput) -> float | None:
    return None if source is None else _required(key, source, output)


def _required(key: str, source: ValueSource, output: GeneratorOutput) -> float:
    try:
        return source.value(output)
    except MetricNotFound as error:
        raise _unreadable(key, error, output) from None


def _unreadable(key: str, error: MetricNotFound, output: GeneratorOutput) -> UnreadableOutput:
    seen = members(output.stdout) or output.stdout.strip() or output.stderr
    return UnreadableOutput(f"{key} ({error})", "the generator's output", seen)


# -- counts ----------------------------------------------------------------------------


class _Counts(msgspec.Struct, frozen=True):
    """Numbers of operations of a run; None: unknown."""

    offered: int | None = None
    completed: int | None = None
    errors: int | None = None

    def or_else(self, other: _Counts) -> _Counts:
        """Return these counts, with those of `other` where one is unknown."""
        return _Counts(
            *(
                b if a is None else a
                for a, b in zip(
                    msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True
                )
            )
        )

    def with_share(self, failed: float | None) -> _Counts:
        """Return these counts with the number of errors that a share of failures means."""
        if failed is None or self.errors is not None or not 0 <= failed <= 1:
            return self
        if self.offered is not None:
            return msgspec.structs.replace(self, errors=round(failed * self.offered))
        if self.completed is None or failed == 1:
            return self
        errors = round(self.completed * failed / (1 - failed))
        return msgspec.structs.replace(self, errors=errors)


def _counts_of_series(
    own: _Counts, counted: int, failed: float | None, asked: float, *, by_end: bool
) -> _Counts:
    """Return the counts that a series of `counted` operations means.

    It has what was offered, or what ended. One that makes up the asked number together with the
    failures has left these out.
    """
    beside = _Counts(completed=counted, errors=own.errors).with_share(failed).errors
    if by_end:
        inside = _Counts(offered=counted, errors=own.errors).with_share(failed).errors
        return _Counts(completed=_less(counted, inside or 0), errors=inside)
    whole = counted + (beside or 0)
    if count_differs(counted, asked) and not count_differs(whole, asked):
        return _Counts(offered=whole, completed=counted, errors=beside)
    inside = _Counts(offered=counted, errors=own.errors).with_share(failed).errors
    completed = None if inside is None else _less(counted, inside)
    return _Counts(offered=counted, completed=completed, errors=inside)


def _less(whole: int, part: int) -> int:
    """Return a number without a part; the number if it does not contain the part."""
    return whole if part > whole else whole - part


def _error_ratio(counts: _Counts) -> dict[str, float]:
    """Return the share of failed operations as a value, if the counts say it."""
    errors, whole = counts.errors, counts.offered or 0
    if counts.completed is not None:
        whole = max(whole, counts.completed + (errors or 0))
    return {ERRORS: errors / whole} if errors is not None and whole else {}
