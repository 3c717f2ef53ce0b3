"""Results of tools that keep a history: github-action-benchmark and Otava.

Sources: github-action-benchmark 1.20, README and `data.js`; Otava 0.8, docs/CSV.md. The `range` of
github-action-benchmark is a text whose meaning depends on the tool (a deviation, a half width), so
it is no interval here.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.features.exchange.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    input_error,
    is_object,
    load_json,
    may_be_json,
    parse_json,
)
from benchwright.features.exchange.foreign.python_tools import commit_text, epoch_ns, moment_ns
from benchwright.features.exchange.foreign.units import ELAPSED, THROUGHPUT, free_name
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import (
    ParseErrors,
    numbered,
    parse_finite,
    read_mixed_text,
    read_text,
)
from benchwright.study.parsers.text import CSV_PARSER
from benchwright.study.parsers.units import base_unit, scaled, spec_of

# -- github-action-benchmark: an array of results, or the store of a history ----------------

_STORE = "window.BENCHMARK_DATA"
_STORE_HINT = "give data.js of the branch gh-pages (dev/bench/data.js), or the file of external-data-json-path"
_STATED = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}
_PROCS = re.compile(r"^([0-9]+) procs$", re.MULTILINE)
_METRICS = {"s": ELAPSED, "1/s": THROUGHPUT, "B/s": THROUGHPUT}


def _is_action(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_object(one, "name", "unit", "value") for one in value)
    )


def _action(document: Node) -> list[TestResult]:
    """Return one test for each result; the array does not say which direction is better, so a
    quantity without a direction in its unit is not judged."""
    origin = FileOrigin(tool="github-action-benchmark")
    return _action_results(document, "", origin)


class _Result(NamedTuple):
    """One entry of github-action-benchmark."""

    name: str
    procs: str
    figures: dict[str, float | None]
    """By unit. The action stores the rest of a line of Go in the unit of its first value:
    `ns/op\\t 8 B/op`."""


def _entry(node: Node) -> _Result:
    node["name"].required("a result has a name")
    first, *rest = node["unit"].text().split() or [""]
    values = [parse_finite(word) for word in rest[::2]]
    value = node["value"].number()
    figures = {first: value}
    if not rest or len(rest) % 2 or None in values:
        figures = {" ".join([first, *rest]): value}
    else:
        figures |= dict(zip(rest[1::2], values, strict=True))
    if all(figure is None for figure in figures.values()):
        node.not_read(f"{node['name'].text()} has no value")
    procs = _PROCS.search(node["extra"].text())
    return _Result(node["name"].text(), procs[1] if procs else "", figures)


def _action_results(array: Node, tool: str, origin: FileOrigin) -> list[TestResult]:
    """Return the tests of one run, with distinct names. Repetitions are trials of one test."""
    entries = _whole([_entry(element) for element in array.elements()], tool)
    by_name: dict[str, list[_Result]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    tests: list[TestResult] = []
    for one in entries:
        name, same = one.name, by_name[one.name]
        if len({other.procs for other in same}) > 1 and one.procs:
            name = f"{name} ({one.procs} procs)"
        elif len({next(iter(other.figures)) for other in same}) > 1:
            name = f"{name} ({base_unit(next(iter(one.figures))).unit})"
        test = _action_test(name, one.figures, tool, origin)
        if tool in _REPEATING and tests and _is_alike(tests[-1], test):
            tests[-1] = _with_repetition(tests[-1], test)
        else:
            tests.append(test)
    return numbered(tests)


def _whole(entries: Sequence[_Result], tool: str) -> list[_Result]:
    """Return results with all of their figures. Of a line of Go with several figures the action has
    an entry `NAME - UNIT` for each; from 1.19.3 on also one of the whole line, before them."""
    found: list[_Result] = []
    for entry in entries:
        base, _, unit = entry.name.rpartition(" - ")
        figures: dict[str, float | None] = {}
        if found and found[-1][:2] == (base, entry.procs):
            figures = found[-1].figures
        if [*entry.figures] == [unit] and figures.get(unit) == entry.figures[unit]:
            continue
        if tool != "go" or [*entry.figures] != [unit]:
            found.append(entry)
        elif figures and unit not in figures:
            figures.update(entry.figures)
        else:
            found.append(entry._replace(name=base, figures=dict(entry.figures)))
    return found


_REPEATING = ("go", "googlecpp")
"""Tools that print the repetitions of a benchmark one after the other under one name."""


def _is_alike(one: TestResult, other: TestResult) -> bool:
    return (one.name, one.specs) == (other.name, other.specs)


def _with_repetition(one: TestResult, other: TestResult) -> TestResult:
    again = [msgspec.structs.replace(block, epoch=len(one.blocks) + 1) for block in other.blocks]
    return msgspec.structs.replace(one, blocks=(*one.blocks, *again))


def _action_test(
    name: str, figures: dict[str, float | None], tool: str, origin: FileOrigin
) -> TestResult:
    values: dict[str, float] = {}
    specs = []
    for text, stated_value in figures.items():
        unit = base_unit(text)
        own = text if len(figures) > 1 else unit.unit or "value"
        taken = {*values, *figures} - {text}
        metric = free_name(taken, _METRICS.get(unit.unit, own), text)
        value = scaled(stated_value, unit.factor)
        if value is not None:
            values[metric] = value
        better = _STATED.get(tool) or unit.better
        specs.append(spec_of(metric, unit.unit, better))
    return TestResult(
        name=name,
        blocks=(MeasurementBlock(0, 1, "", 0, values),) if values else (),
        specs=tuple(specs),
        origin=origin,
    )


ACTION = JsonFormat(
    name="github-action-benchmark",
    description="github-action-benchmark's JSON",
    matches=_is_action,
    convert=_action,
    hint="an array of objects with name, unit and value",
)


def _is_store(value: Any) -> bool:
    entries = value.get("entries") if isinstance(value, dict) else None
    suites = list(entries.values()) if isinstance(entries, dict) else []
    return any(
        is_object(run, "commit", "benches")
        for runs in suites
        if isinstance(runs, list)
        for run in runs
    )


class _ActionStoreParser:
    name = "github-action-benchmark-store"
    description = "github-action-benchmark's data.js, or its external JSON"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a store of github-action-benchmark: a script, or, with its
        option `external-data-json-path`, the same as JSON."""
        if not path.is_file():
            return False
        if _STORE.encode() in head[:200]:
            return True
        if not may_be_json(path, head):
            return False
        try:
            return _is_store(load_json(path))
        except (DamagedJson, OSError):
            return all(word in head for word in (b'"entries"', b'"lastUpdate"'))

    def read(self, path: Path) -> list[TestResult]:
        """Return the results of the newest commit of each suite, with its suite where there are
        several. Raises InputError."""
        found = self._results(path)
        commits = {
            suite: one.origin.commit
            for suite, one in sorted(found, key=lambda pair: _order(pair[1]))
            if one.origin
        }
        several = len({suite for suite, _ in found}) > 1
        named = [
            msgspec.structs.replace(one, name=f"{suite}: {one.name}") if several else one
            for suite, one in found
            if one.origin and one.origin.commit == commits[suite]
        ]
        # Of several runs of a commit, the newest with the benchmark.
        newest = {one.name: one for one in named}  # In the order of the file.
        for test in sorted(named, key=_order):
            newest[test.name] = test
        about = tuple(each for _, one in found for each in one.session_findings)
        first, *others = newest.values()
        return [msgspec.structs.replace(first, session_findings=about), *others]

    def history(self, path: Path) -> list[TestResult]:
        """Return the results of every commit; their full names have the suite. Raises InputError."""
        return [
            msgspec.structs.replace(test, full_name=f"{suite}: {test.name}")
            for suite, test in self._results(path)
        ]

    def _results(self, path: Path) -> list[tuple[str, TestResult]]:
        """Return each result with its suite, in the order of the file."""
        try:
            text = read_mixed_text(path)
            start = text.find("=") + 1 if _STORE in text[:200] else 0
            document = parse_json(text[start:].strip().removesuffix(";"))
        except DamagedJson as error:
            message = f"{path} is a damaged store of github-action-benchmark: {error}"
            raise input_error(path, self.name, message, _STORE_HINT) from None
        problems = Problems(path, self.name, _STORE_HINT)
        found = list(_stored_results(Node(document, problems)))
        tests = problems.results([test for _, test in found])
        return [(suite, test) for (suite, _), test in zip(found, tests, strict=True)]


def _order(one: TestResult) -> int:
    return (one.origin and one.origin.order_ns) or 0


def _stored_results(store: Node) -> Iterator[tuple[str, TestResult]]:
    for suite, entries in store["entries"].members():
        commits: set[str] = set()
        for entry in entries.elements():
            if entry["benches"].absent:
                entry.not_read("a run without results")
                continue
            commit = entry["commit"]
            text = commit_text(commit["id"])
            again = text in commits
            commits.add(text)
            origin = FileOrigin(
                tool="github-action-benchmark",
                commit=text,
                run=f"date={entry['date'].text()}" if again else "",
                commit_time_ns=moment_ns(commit["timestamp"].text()),
                started_ns=epoch_ns(entry["date"], 1e-3),
            )
            for action_result in _action_results(entry["benches"], entry["tool"].text(), origin):
                yield suite, action_result


ACTION_STORE = _ActionStoreParser()


# -- Otava: CSV with a time and, mostly, a commit ------------------------------------------
#
# A row is a run at its own time. `bw stats` reads the rows as trials of one test, like those of any
# other CSV file; a history has a point for each row.

_TIME_COLUMNS = ("timestamp", "date", "time")
"""The first that a table has is that of its rows; another `time` is measured."""
_COMMIT_COLUMNS = ("commit", "revision", "sha", "commit_id")
_DATE = re.compile(
    r"(?P<year>[0-9]{4})[-./](?P<month>[0-9]{1,2})[-./](?P<day>[0-9]{1,2})"
    r"(?:[T ] *(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<part>[0-9]+))?)?"
    r" *(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_UNIX = re.compile(r"[0-9]{9,10}(\.[0-9]+)?|[0-9]{13}(\.[0-9]+)?|[0-9]{16}|[0-9]{19}")
"""Seconds, milliseconds, microseconds or nanoseconds since 1970, from 1973 on."""
_NS_OF_DIGITS = {9: 10**9, 10: 10**9, 13: 10**6, 16: 1000, 19: 1}
_ONLY_TIMES = _TIME_COLUMNS[:2]
"""Nothing that is measured has these names."""
_YEAR = re.compile(r"\b(19|20)[0-9]{2}\b")


def _row_ns(text: str) -> int | None:
    """Return the time of a row as nanoseconds since 1970, in UTC where it has no zone; None if it
    is not understood."""
    text = text.strip()
    if _UNIX.fullmatch(text):
        return round(Decimal(text) * _NS_OF_DIGITS[len(text.partition(".")[0])])
    if match := _DATE.fullmatch(text):
        year, month, day, hour, minute, second = (
            int(match[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")
        )
        zone = match["zone"] or "Z"
        if zone[0] in "+-":
            zone = f"{zone[:3]}:{zone[3:].lstrip(':') or '00'}"
        zone = "+00:00" if zone in ("Z", "UTC", "GMT") else zone
        part = (match["part"] or "")[:9].ljust(6, "0")
        date = f"{year:04}-{month:02}-{day:02}"
        return moment_ns(f"{date}T{hour:02}:{minute:02}:{second:02}.{part}{zone}")
    try:
        return moment_ns(parsedate_to_datetime(text).isoformat())
    except ValueError:
        return None


_TIME_HINT = "write 2026-11-20 13:00:00 +0000, or seconds since 1970"


class _OtavaParser:
    name = "otava"
    description = "Otava's CSV"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is CSV with a column of times: its first row has a date there, or
        a time since 1970 that is not a duration, as the column's name, a commit or later rows show."""
        if not path.is_file():
            return False
        lines = head.decode("utf-8", "replace").split("\n")
        try:
            names, *rows = (next(csv.reader([line]), []) for line in lines[:4])
        except csv.Error:
            return False
        cells = (_cell(names, row, _TIME_COLUMNS) for row in rows)
        times = [text for text in cells if any(map(str.isdecimal, text))]
        if not times:
            return False
        if not _UNIX.fullmatch(times[0]):
            return _row_ns(times[0]) is not None or bool(
                _YEAR.search(times[0]) and parse_finite(times[0]) is None
            )
        if any(_is_one(name, (*_ONLY_TIMES, *_COMMIT_COLUMNS)) for name in names):
            return True
        later = [moment for text in times if (moment := _row_ns(text)) is not None]
        return len(later) > 1 and later == sorted(set(later))

    def read(self, path: Path) -> list[TestResult]:
        """Return the rows as the trials of one test. Raises InputError with file:line:column."""
        complaints = ParseErrors(path, "otava-syntax")
        tests = _measured(path, read_text(path, _CSV), complaints)
        found = [
            msgspec.structs.replace(test, origin=FileOrigin(tool="Otava")) for test, _ in tests
        ]
        return complaints.results(found, _TIME_HINT)

    def history(self, path: Path) -> list[TestResult]:
        """Return each row as one run with its time and commit. Raises InputError with
        file:line:column."""
        text = read_text(path, _CSV)
        complaints = ParseErrors(path, "otava-syntax")
        tests = _measured(path, text, complaints)
        reader = csv.reader(io.StringIO(text, newline=""))
        names = next(reader)
        origins: dict[int, FileOrigin] = {}
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            time = _cell(names, row, _TIME_COLUMNS)
            started_ns = _row_ns(time)
            if started_ns is None:
                what = f"the time {time!r} is not understood"
                place = (reader.line_num, 1)
                complaints.add(place, ",".join(row), what, _TIME_HINT)
            commit = _cell(names, row, _COMMIT_COLUMNS)
            origins[reader.line_num] = FileOrigin(
                tool="Otava", commit=commit, started_ns=started_ns
            )
        complaints.check()
        found = [
            msgspec.structs.replace(test, blocks=(block,), origin=origins[line])
            for test, lines in tests
            for block, line in zip(test.blocks, lines, strict=True)
        ]
        return complaints.results(found, _TIME_HINT)


_CSV = "csv-syntax"


def _measured(path: Path, text: str, complaints: ParseErrors) -> list[tuple[TestResult, list[int]]]:
    """Return the tests of the CSV file without the columns of times and commits, with the lines of
    their blocks."""
    header: list[str] = []
    with contextlib.suppress(csv.Error):  # the table names it, with its place
        header = next(csv.reader([text.partition("\n")[0]]), [])
    times = [name for name in _TIME_COLUMNS if any(_is_one(one, (name,)) for one in header)]
    about = (*times[:1], *_COMMIT_COLUMNS)
    return CSV_PARSER.with_lines(path, text, complaints, about)


def _cell(names: list[str], row: list[str], wanted: tuple[str, ...]) -> str:
    """Return the cell of a row in the column with the first of these names that there is; empty
    without one."""
    cells = dict(zip((name.strip().lower() for name in names), row, strict=False))
    return next((cells[name].strip() for name in wanted if name in cells), "")


def _is_one(name: str, names: tuple[str, ...]) -> bool:
    return name.strip().lower() in names


OTAVA = _OtavaParser()
