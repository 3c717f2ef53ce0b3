"""Counters of perf stat, as `-x` and `-j` write them.

Purpose: a run of a command (`perf stat -x, --append -o FILE COMMAND`) is a trial, and each event a
quantity. Decision: a file of `-r N` has the mean of N runs, and its spread without N, so its one run
is an estimate and no trial; several such runs are a trial each. Rows of a part of a run (`-I`) or of
the machine (`-A`, `--per-core`, `--per-thread`) are no trials and are refused. Metrics that perf
computes from the counters are not read. Known limit: what a program writes to stderr is in the file
without `-o`; such a line is named. Sources: perf-stat(1), CSV FORMAT; perf 6.1, in which the spread
stands before the run time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.text import plural
from benchwright.features.exchange.foreign.json_file import DamagedJson, parse_json
from benchwright.features.exchange.foreign.units import ELAPSED, stated
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import ParseErrors, parse_finite, read_mixed_text
from benchwright.study.parsers.units import base_unit, scaled, spec_of

_SEPARATORS = tuple(mark * times for times in (1, 2) for mark in ",;:|/!~^\t")
_VALUE = re.compile(r"<not (?:counted|supported)>|[0-9][0-9.,]*")
_TEXT = re.compile(r"(?![0-9.<])\S.*")
_START = re.compile(r"[0-9.<]")
_COUNT = re.compile(r"[0-9]+")
_SHARE = re.compile(r"[0-9]+[.,][0-9]{2}")
_SPREAD = re.compile(r"[0-9.]+%")
_LONGEST = 4096
"""A longer line is none of perf's [characters]."""
_BEFORE = 4
"""At most so many fields stand before a counter of a part: a time, a core, the number of its CPUs."""
_METRIC = re.compile(r"[,;:|/!~^\t]{4,}[^\n]*")
"""A metric without a counter: all earlier fields are empty."""
_STARTED = "# started on "
_JSON_ROW = re.compile(
    r'^\{("[a-z-]+" : [^,\n]+, )*"(counter-value|metric-value)" : ', re.MULTILINE
)
_JSON_PART = ("interval", "cpu", "core", "die", "socket", "node", "thread", "cache", "cluster")
_NAMES = {"duration_time": ELAPSED, "user_time": "user", "system_time": "system"}
"""Events that are our quantities; perf's own names of others are kept."""
_ABSENT = re.compile(r"<(not counted|not supported)>")
_HINT = (
    "write a run of the whole command: perf stat -x, --append -o FILE COMMAND, once for each run"
)


class _Counter(msgspec.Struct, frozen=True):
    """An event of a run."""

    line: int
    event: str
    value: str
    unit: str
    is_mean: bool


class _PerfStatParser:
    name = "perf-stat"
    description = "counters of perf stat -x and -j"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether a counter is near the start of the file, or perf's first line."""
        if not path.is_file():
            return False
        text = head.decode("utf-8", "replace")
        return text.startswith(_STARTED) or any(
            _row(line) or _is_of_part(line) or _JSON_ROW.match(line) for line in text.split("\n")
        )

    def read(self, path: Path) -> list[TestResult]:
        """Return the runs as one test. Raises InputError with file:line:column."""
        complaints = ParseErrors(path, "perf-syntax")
        runs: list[dict[str, _Counter]] = []
        for counter in _counters(read_mixed_text(path), complaints):
            if counter is None:
                runs.append({})
            elif not runs or counter.event in runs[-1]:
                runs.append({counter.event: counter})
            else:
                runs[-1][counter.event] = counter
        runs = [run for run in runs if run]
        return complaints.results([_test(path.name, runs, complaints)] if runs else [], _HINT)


def _counters(text: str, complaints: ParseErrors) -> Iterator[_Counter | None]:
    """Yield the counters, and None where perf says that it began."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        row = _row(line)
        if line.startswith(_STARTED):
            yield None
        elif row is not None:
            yield msgspec.structs.replace(row, line=number)
        elif line.startswith("{"):
            yield from _json_counter(number, line, complaints)
        elif _is_of_part(line):
            _refuse_part((number, line), complaints)
        elif line.strip() and not line.startswith("#") and not _METRIC.fullmatch(line):
            complaints.not_read(number, f"{line.strip()[:60]!r} is no counter")


def _row(line: str) -> _Counter | None:
    """Return the counter of a line, without the number of the line; None if it has none."""
    if len(line) > _LONGEST:
        return None
    found = (_of_fields(line.split(mark), mark) for mark in _SEPARATORS if mark in line)
    return next((counter for counter in found if counter is not None), None)


def _is_of_part(line: str) -> bool:
    """Return whether a counter stands behind a time, a CPU, a core, a socket or a thread."""
    if len(line) > _LONGEST or line.startswith(("#", "{")):
        return False
    for mark in _SEPARATORS:
        fields = line.split(mark)
        if any(_of_fields(fields[at:], mark) for at in range(1, min(len(fields), _BEFORE + 1))):
            return True
    return False


def _of_fields(fields: Sequence[str], mark: str) -> _Counter | None:
    """Return the counter of the fields of a line: value, unit, event, in which the separator may be,
    perhaps the spread of several runs, run time, share of it, perhaps the spread."""
    if len(fields) < 5 or not _VALUE.fullmatch(fields[0]) or _START.match(fields[1]):
        return None
    for end in range(3, len(fields) - 1):
        rest = fields[end : end + 4]
        has_spread = _SPREAD.fullmatch(rest[0]) is not None
        times = rest[1:] if has_spread else rest
        if len(times) > 1 and _COUNT.fullmatch(times[0]) and _SHARE.fullmatch(times[1]):
            event = mark.join(fields[2:end])
            is_mean = has_spread or (len(times) > 2 and bool(_SPREAD.fullmatch(times[2])))
            known = _TEXT.fullmatch(event)
            return _Counter(0, event, fields[0], fields[1], is_mean) if known else None
    return None


def _json_counter(number: int, line: str, complaints: ParseErrors) -> Iterator[_Counter]:
    try:
        row: Any = parse_json(line)
    except DamagedJson as error:
        complaints.add((number, 1), line, f"not JSON: {error.in_line}", _HINT)
        return
    if any(key in row for key in _JSON_PART):
        _refuse_part((number, line), complaints)
    elif "counter-value" in row and isinstance(row.get("event"), str):
        unit, value = (str(row.get(key, "")) for key in ("unit", "counter-value"))
        yield _Counter(number, row["event"], value, unit, "variance" in row)


def _refuse_part(place: tuple[int, str], complaints: ParseErrors) -> None:
    number, line = place
    what = "this counter is of a part of a run (-I), or of a CPU, core or thread (-A, --per-...)"
    complaints.add((number, 1), line, what, _HINT)
    complaints.check()  # every row is such a counter


def _test(name: str, runs: list[dict[str, _Counter]], complaints: ParseErrors) -> TestResult:
    columns: dict[str, list[float | None]] = {}
    units: dict[str, str] = {}
    without: dict[str, list[int]] = {}
    for at, run in enumerate(runs):
        for counter in run.values():
            unit = base_unit(counter.unit)
            quantity = _NAMES.get(counter.event, counter.event)
            value = scaled(parse_finite(counter.value), unit.factor)
            units[quantity] = unit.unit
            columns.setdefault(quantity, [None] * len(runs))[at] = value
            if value is None:
                absent = _ABSENT.fullmatch(counter.value)
                why = absent[1] if absent else f"{counter.value!r}, not a number"
                without.setdefault(f"{counter.event} is {why}", []).append(counter.line)
    for what, lines in without.items():
        complaints.not_read(lines[0], f"{what} in {len(lines)} of {plural(len(runs), 'run')}")
    measured = {key: values for key, values in columns.items() if {*values} != {None}}
    specs = tuple(spec_of(key, units[key], "") for key in measured)
    origin = FileOrigin(tool="perf stat")
    if len(runs) == 1 and any(counter.is_mean for counter in runs[0].values()):
        means = tuple(stated(key, units[key], mean=value) for key, (value,) in measured.items())
        return TestResult(name, specs=specs, summaries=means, origin=origin)
    blocks = tuple(
        MeasurementBlock(
            0,
            at + 1,
            "",
            0,
            {key: value for key, values in measured.items() if (value := values[at]) is not None},
        )
        for at in range(len(runs))
    )
    return TestResult(name, blocks, specs=specs, origin=origin)


PERF_STAT = _PerfStatParser()
