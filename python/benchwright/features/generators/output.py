"""A generator's output as a trial's values and series: from its log of operations, its summary, or
values found by a JSON pointer, a CSV column or a regular expression. Errors name the position of
a missing value.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np, npt
from benchwright.core.plan import MetricSpec
from benchwright.core.text import some_text
from benchwright.features.generators.adapter import (
    OPERATIONS_SKIPPED,
    GeneratorOutput,
    Measurement,
    UnreadableOutput,
    shortened,
)
from benchwright.features.load.criteria import percentile_key, within_ns
from benchwright.features.load.plan import LoadSeries
from benchwright.inputs.mistakes import fault_of
from benchwright.suite.values import pattern, pointer
from benchwright.trial.observe import (
    MetricNotFound,
    extract_metric,
    last_json,
    parse_number,
    value_at,
)

# -- A log of single operations becomes a trial's values and series --------------------
#
# Decision: if a generator logs each operation, every percentile and share is exact and
# needs no option of the generator; its own summary is not read. An operation that failed or
# was skipped counts as slower than all others in percentiles and shares, and is in no mean.

Floats = npt.NDArray[np.float64]
MEAN = "response_ms_mean"
ERRORS = "error_ratio"
LONGEST_S = 1e6
"""Longest plausible trial; a log that reports more is damaged."""
ALWAYS = (0.5, 0.9, 0.95, 0.99, 0.999)
"""Percentiles that are always reported."""


class OperationLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in columns, `(n,)`; failed and skipped operations have the response nan."""

    at_s: Floats
    """The time since the start of the load that selects each operation's bin."""
    response_ms: Floats
    skipped: int = 0
    """Operations among those without a response that were skipped because they were late."""
    binned_by: Literal["intended", "completion", "unknown"] = "intended"
    logged: float = 1.0
    """Share of all operations that the log has, drawn at random."""
    late_ms: Floats | None = None
    """How late the generator came to each operation, without the wait for a free connection; nan
    where it is unknown; None: for all."""


def operations_measurement(
    log: OperationLog, criteria: Sequence[Criterion], lasted_s: float
) -> Measurement:
    """Return the values of a log for a run of this length [s]. Raises UnreadableOutput."""
    if not 0 <= lasted_s <= LONGEST_S or not np.isfinite(log.at_s).all():
        raise UnreadableOutput("believable time", "the log of operations", f"{lasted_s:g} s")
    good = np.isfinite(log.response_ms)
    n, ended = len(good), int(good.sum())
    values = operation_values(log.response_ms, criteria)
    return Measurement(
        values=values,
        series=_series(log, criteria, lasted_s),
        completed=ended,
        errors=n - ended,
        late_p99_ms=late_p99_ms(log),
        target_values=target_values(log, criteria, values),
        lasted_s=lasted_s,
        marks=(OPERATIONS_SKIPPED,) if log.skipped else (),
    )


def late_p99_ms(log: OperationLog) -> float | None:
    """Return the 99th percentile of the generator's lateness; None if it is unknown [ms]."""
    if log.late_ms is None:
        return None
    known = np.sort(log.late_ms[np.isfinite(log.late_ms)])
    return float(known[_rank(0.99, len(known))]) if len(known) else None


def target_values(
    log: OperationLog, criteria: Sequence[Criterion], values: Mapping[str, float]
) -> dict[str, float]:
    """Return a log's values without the generator's lateness; empty if it is unknown.

    Operations whose lateness is unknown are a random part. What the lateness of the others adds
    to their values is subtracted from `values`, so that the two differ by the lateness only.
    """
    if log.late_ms is None:
        return {}
    failed = ~np.isfinite(log.response_ms)
    known = failed | np.isfinite(log.late_ms)
    if not (known & ~failed).any():
        return {}
    response_ms, late_ms = log.response_ms[known], log.late_ms[known]
    with_late = operation_values(response_ms, criteria)
    without = operation_values(response_ms - late_ms, criteria)
    return {
        key: _without(values[key], with_late[key], one)
        for key, one in without.items()
        if key in values and key != ERRORS
    }


def _without(whole: float, with_late: float, without: float) -> float:
    """Return a value of all operations without what lateness adds to that of a part."""
    known = math.isfinite(whole) and math.isfinite(with_late)
    return whole - (with_late - without) if known else without


def operation_values(response_ms: Floats, criteria: Sequence[Criterion] = ()) -> dict[str, float]:
    """Return a run's values by key; empty without operations, no mean without responses.

    An operation without a response is nan.
    """
    n = len(response_ms)
    if not n:
        return {}
    known = np.sort(response_ms[np.isfinite(response_ms)])
    found = {ERRORS: 1 - len(known) / n}
    if len(known):
        found[MEAN] = float(known.mean())
    for share in _percentiles(criteria):
        rank = _rank(share, n)
        found[percentile_key(share)] = float(known[rank]) if rank < len(known) else math.inf
    for key, limit_ms in _limits(criteria):
        found[key] = float(np.searchsorted(known, limit_ms, side="right")) / n
    return found


def _rank(share: float, n: int) -> int:
    """Return the place of a percentile among `n` sorted values."""
    # Rounded first: 0.29 * 100 is a little more than 29.
    return max(int(np.ceil(round(share * n, 9))) - 1, 0)


def _percentiles(criteria: Iterable[Criterion]) -> list[float]:
    wanted = {criterion.share for criterion in criteria if criterion.statistic == "percentile"}
    return sorted({*ALWAYS, *(share for share in wanted if share is not None)})


def _limits(criteria: Iterable[Criterion]) -> list[tuple[str, float]]:
    limits = [(criterion.key, within_ns(criterion)) for criterion in criteria]
    return [(key, ns / 1e6) for key, ns in limits if ns is not None]


def _series(log: OperationLog, criteria: Sequence[Criterion], lasted_s: float) -> LoadSeries:
    """Return bins of one second within the load, up to the last with an operation."""
    # A last bin of less than a tenth of a second would have very few operations.
    bins = max(1, int(np.ceil(lasted_s - 0.1)))
    inside = (log.at_s >= 0) & (log.at_s < bins)
    place = np.floor(np.where(inside, log.at_s, -1)).astype(int)
    groups = [log.response_ms[place == one] for one in range(place.max(initial=-1) + 1)]
    found = [operation_values(group, criteria) for group in groups]
    keys = [MEAN, *(c.key for c in criteria if c.key != MEAN)]
    return LoadSeries(
        at_s=tuple(float(one) for one in range(len(groups))),
        counts=tuple(round(len(group) / log.logged) for group in groups),
        values=_columns_of(keys, found),
        binned_by=log.binned_by,
    )


def _columns_of(
    keys: Sequence[str], bins: Sequence[dict[str, float]]
) -> dict[str, tuple[float, ...]]:
    """Return the values over time; leave out a key that any bin with operations lacks."""
    known = [key for key in keys if all(key in one for one in bins if one)]
    return {key: tuple(one.get(key, 0.0) for one in bins) for key in known}


def columns(text: str, width: int) -> Floats:
    """Return the first columns of lines of numbers, `(n, width)`.

    An incomplete last line is left out. Raises ValueError if lines have different
    numbers of columns, or too few.
    """
    lines = text[: text.rfind("\n") + 1]
    first = len(lines.partition("\n")[0].split())
    if not first:
        return np.empty((0, width))
    ragged = ValueError(f"not {max(first, width)} numbers on every line")
    try:
        numbers = np.fromstring(lines, sep=" ")
    except ValueError:
        raise ragged from None
    if first < width or len(numbers) != first * lines.count("\n"):
        raise ragged
    return numbers.reshape(-1, first)[:, :width]


# --------------------------------------------------------------------------------------
# A generator's summary becomes a trial's values, if it logs no operations.
#
# Decision: a summary's percentiles cover only the operations that succeeded. A percentile
# whose rank lies among the failed operations is infinite; the others are used unchanged,
# slightly too low if some operations failed. A log of operations gives exact values.


def wanted_shares(criteria: Iterable[Criterion]) -> tuple[float, ...]:
    """Return the percentiles to request from a generator, as sorted shares."""
    wanted = {criterion.share for criterion in criteria if criterion.statistic == "percentile"}
    return tuple(sorted({*ALWAYS, *(share for share in wanted if share is not None)}))


def summary_values(
    mean_ms: float | None, percentiles: Mapping[float, float], failed: float
) -> dict[str, float]:
    """Return values by key from a mean [ms], percentiles by share [ms], and the share of
    failed operations."""
    found = {ERRORS: failed}
    if mean_ms is not None:
        found[MEAN] = mean_ms
    for share, ms in percentiles.items():
        found[percentile_key(share)] = ms if share <= 1 - failed else math.inf
    return found


# --------------------------------------------------------------------------------------
# Sources of values in an output: a JSON pointer, a CSV column, a regular expression.
#
# Purpose: one notation for the values of `command` and for its series. Decision: JSON with
# NaN and Infinity is accepted, because many programs write it, although RFC 8259 does not
# allow it; if one of them is the value that `values` refers to, the message says so.
# Sources: RFC 6901 (pointers), RFC 4180 (CSV).

COLUMN = "column "
_MOST_MEMBERS = 12
_WORD = re.compile(r"[A-Za-z_][\w/]*", re.ASCII)
"""A pointer whose first / is missing."""


class ValueSource(msgspec.Struct, frozen=True):
    """The place of a number in an output. Exactly one of the three fields is set."""

    pointer: str | None = None
    column: str | None = None
    """A column of CSV with a header; the last row's value counts."""
    pattern: str | None = None
    """A regular expression with one group; searched in stdout, then in stderr."""

    @property
    def text(self) -> str:
        """The source as the user wrote it."""
        if self.column is not None:
            return COLUMN + self.column
        return self.pointer or self.pattern or ""

    def value(self, output: GeneratorOutput) -> float:
        """Return the number. Raises MetricNotFound with the reason."""
        if self.column is not None:
            return _last_of_column(self.column, output.stdout)
        if self.pointer is not None:
            return _number_at(self.pointer, output.stdout)
        spec = MetricSpec("value", pattern=self.pattern)
        return extract_metric(spec, output.stdout, output.stderr)


def parse_source(text: str) -> ValueSource:
    """Return the source named by `/json/pointer`, `column NAME` or a pattern. Raises ValueError."""
    if not text.strip():
        raise ValueError("it is empty: /json/pointer, column NAME or a regex(group)")
    if text.startswith("/"):
        return ValueSource(pointer=_faultless(pointer, text))
    if text.startswith(COLUMN):
        return ValueSource(column=text.removeprefix(COLUMN).strip())
    if _WORD.fullmatch(text):
        hint = f"/{text} is a JSON pointer, column {text} a column of CSV"
        raise ValueError(f"{text!r} is not the position of a value: {hint}, a regex has one ( )")
    return ValueSource(pattern=_faultless(pattern, text))


def rows_at(source: ValueSource, output: GeneratorOutput) -> list[tuple[float, int, float]]:
    """Return the rows (second, count, mean_ms) of a series. Raises MetricNotFound."""
    assert source.pointer is not None, "a series is at a pointer"
    found = _array_at(source.pointer, output.stdout)
    return [_row(one, source.pointer, place) for place, one in enumerate(found)]


def _faultless(parse: Callable[[str], str], text: str) -> str:
    """Return a text that a parser accepts. Raises ValueError with its advice."""
    fault = fault_of(parse, text)
    if fault is not None:
        raise ValueError(fault.message + (f": {fault.hint}" if fault.hint else ""))
    return text


def _number_at(pointer: str, text: str) -> float:
    found = value_at(pointer, _loose_json(text))
    scalar = isinstance(found, (int, float, str)) and not isinstance(found, bool)
    value = parse_number(str(found)) if scalar else None
    if value is None:
        raise MetricNotFound(f"{pointer} is {shown(found)}, not a number")
    return value


def _array_at(pointer: str, text: str) -> list[Any]:
    found = value_at(pointer, _loose_json(text))
    if not isinstance(found, list):
        raise MetricNotFound(f"{pointer} is {type(found).__name__}, not an array")
    return found


def _row(one: Any, pointer: str, place: int) -> tuple[float, int, float]:
    """Return a row. The mean may be null or NaN in a second in which no operation started;
    it is then 0. Raises MetricNotFound."""
    three = isinstance(one, list) and len(one) == 3
    if three and one[1] == 0 and (one[2] is None or _is_nan(one[2])):
        one = [one[0], 0, 0]
    if not three or not all(map(_is_finite, one)) or one[1] < 0 or one[1] % 1:
        found = shown(one)
        raise MetricNotFound(f"{pointer}/{place} is {found}, not [second, count, mean_ms]")
    return float(one[0]), int(one[1]), float(one[2])


def _is_nan(one: Any) -> bool:
    return type(one) is float and math.isnan(one)


def _is_finite(one: Any) -> bool:
    return type(one) in (int, float) and math.isfinite(one)


def shown(value: Any) -> str:
    """Return a value of JSON as its writer wrote it, shortened: `NaN`, `Infinity`."""
    return shortened(json.dumps(value), 40)


def _loose_json(text: str) -> Any:
    """Return the text as JSON; accept NaN and Infinity too. Raises MetricNotFound."""
    try:
        return last_json(text)
    except MetricNotFound:
        return last_json(text, json.loads)


def has_json(text: str) -> bool:
    """Return whether a text is JSON, with NaN and Infinity accepted."""
    try:
        _loose_json(text)
    except MetricNotFound:
        return False
    return True


def members(text: str) -> str:
    """Return the pointers of a text's JSON with the kind of value that each leads to:
    `/mean_ms (a number), /series (an array of 60)`; empty if the text is not JSON."""
    try:
        found = list(_members(_loose_json(text), ""))
    except MetricNotFound:
        return ""
    return some_text(found, _MOST_MEMBERS)


def _members(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            token = name.replace("~", "~0").replace("/", "~1")
            yield from _members(one, f"{pointer}/{token}")
    elif isinstance(value, list):
        yield f"{pointer or 'all of it'} (an array of {len(value)})"
    elif type(value) in (int, float):
        yield f"{pointer or 'all of it'} (a number)"
    elif isinstance(value, str):
        yield f"{pointer or 'all of it'} (a text)"


def _last_of_column(name: str, text: str) -> float:
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise MetricNotFound(f"stdout is not CSV: {error}") from None
    headers = [place for place, row in enumerate(rows) if name in row]
    if not headers:
        raise MetricNotFound(f"stdout has no CSV header with the column {name!r}")
    at = rows[headers[0]].index(name)
    values = [row[at] for row in rows[headers[0] + 1 :] if len(row) > at]
    if not values:
        raise MetricNotFound(f"the CSV column {name!r} has no row")
    value = parse_number(values[-1])
    if value is None:
        raise MetricNotFound(f"{name!r} of the last row is {values[-1]!r}")
    return value


# -- A generator's JSON; errors name the place of a missing value ----------------------


class JsonOutput:
    """A JSON document and its origin."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        try:
            self._root = last_json(text)
        except MetricNotFound:
            sought = "JSON without NaN and Infinity" if has_json(text) else "JSON"
            raise UnreadableOutput(sought, where, text) from None

    def number(self, *path: str | int) -> float:
        """Return the number at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return float(found)

    def number_or(self, default: float, *path: str | int) -> float:
        """Return the number at a path, or `default` if it is missing."""
        return default if self.get(*path) is None else self.number(*path)

    def table(self, *path: str | int) -> dict[str, Any]:
        """Return the object at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if not isinstance(found, dict):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return found

    def get(self, *path: str | int) -> Any:
        """Return the value at a path; None if there is none."""
        found = self._root
        for step in path:
            inside = isinstance(found, dict) and step in found
            if isinstance(found, list):
                inside = isinstance(step, int) and step < len(found)
            if not inside:
                return None
            found = found[step]
        return found

    def _beside(self, path: tuple[str | int, ...]) -> str:
        around = self.get(*path[:-1])
        if isinstance(around, dict):
            return "the members " + ", ".join(around)
        return f"no {_text(path[:-1])}"


def _text(path: tuple[str | int, ...]) -> str:
    return "/" + "/".join(str(step) for step in path)
