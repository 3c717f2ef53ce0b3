"""Results of tools that keep a history: github-action-benchmark and Otava.

Sources: github-action-benchmark 1.20, README and `data.js`; Otava 0.8, docs/CSV.md. The `range` of
github-action-benchmark is a text whose meaning depends on the tool (a deviation, a half width), so it is
no interval here.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.study.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    input_error,
    is_object,
    parse_json,
    read_bytes,
)
from benchwright.study.foreign.python_tools import commit_text, epoch_ns, moment_ns
from benchwright.study.foreign.units import (
    ELAPSED,
    THROUGHPUT,
    base_unit,
    scaled,
    spec_of,
)
from benchwright.study.parsers.api import FileOrigin, ParsedInput
from benchwright.study.parsers.text import CSV_PARSER

# -- github-action-benchmark: an array of results, or the store of a history ----------------

_STORE = "window.BENCHMARK_DATA"
_STORE_HINT = "give data.js of the branch gh-pages (dev/bench/data.js)"
_BIGGER = "customBiggerIsBetter"
_METRICS = {"s": ELAPSED, "1/s": THROUGHPUT, "B/s": THROUGHPUT}


def _is_action(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_object(one, "name", "unit", "value") for one in value)
    )


def _action(document: Node) -> list[ParsedInput]:
    """Return one test for each result; the array does not say which direction is better, so a
    quantity without a direction in its unit is not judged."""
    origin = FileOrigin(tool="github-action-benchmark")
    results = list(document.elements())
    names = Counter(one["name"].text() for one in results)
    return [_action_result(one, names, "", origin) for one in results]


def _action_result(
    result: Node, names: Counter[str], tool: str, origin: FileOrigin
) -> ParsedInput:
    unit = base_unit(result["unit"].text())
    metric = _METRICS.get(unit.unit, unit.unit or "value")
    value = scaled(result["value"].number(), unit.factor)
    name = result["name"].text()
    better = "higher" if tool == _BIGGER else unit.better
    blocks: tuple[MeasurementBlock, ...] = ()
    if value is not None:
        blocks = (MeasurementBlock(0, 1, "", 0, {metric: value}),)
    return ParsedInput(
        name=name if names[name] == 1 else f"{name} ({unit.unit})",
        blocks=blocks,
        specs=(spec_of(metric, unit.unit, better),),
        origin=origin,
    )


ACTION = JsonFormat(
    name="github-action-benchmark",
    description="github-action-benchmark's JSON",
    matches=_is_action,
    convert=_action,
    marks=(),
    hint="an array of objects with name, unit and value",
)


class _ActionStoreParser:
    name = "github-action-benchmark-store"
    description = "github-action-benchmark's data.js"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is a store of github-action-benchmark."""
        return path.is_file() and _STORE.encode() in head[:200]

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the newest result of each benchmark. Raises InputError."""
        newest = {
            (suite, one.name): one for suite, one in self._results(path)
        }  # a later one replaces an earlier one
        several = len({suite for suite, _ in newest}) > 1
        return [
            msgspec.structs.replace(one, name=f"{suite}: {one.name}")
            if several
            else one
            for (suite, _), one in newest.items()
        ]

    def history(self, path: Path) -> list[ParsedInput]:
        """Return the results of every commit. Raises InputError."""
        found = self._results(path)
        several = len({suite for suite, _ in found}) > 1
        return [
            msgspec.structs.replace(one, name=f"{suite}: {one.name}")
            if several
            else one
            for suite, one in found
        ]

    def _results(self, path: Path) -> list[tuple[str, ParsedInput]]:
        """Return each result with its suite, in the order of the file."""
        try:
            text = read_bytes(path).decode("utf-8-sig", "backslashreplace")
            start = text.find("=") + 1
            document = parse_json(text[start:].strip().removesuffix(";"))
        except DamagedJson as error:
            message = f"{path} is a damaged store of github-action-benchmark: {error}"
            raise input_error(path, self.name, message, _STORE_HINT) from None
        problems = Problems(path, self.name, _STORE_HINT)
        found = list(_stored_results(Node(document, problems)))
        problems.check()
        if not found:
            message = f"{path} contains no result"
            raise input_error(path, self.name, message, _STORE_HINT)
        return found


def _stored_results(store: Node) -> Iterator[tuple[str, ParsedInput]]:
    for suite, entries in store["entries"].members():
        for entry in entries.elements():
            commit = entry["commit"]
            origin = FileOrigin(
                tool="github-action-benchmark",
                commit=commit_text(commit["id"]),
                commit_time_ns=moment_ns(commit["timestamp"].text()),
                started_ns=epoch_ns(entry["date"], 1e-3),
            )
            results = list(entry["benches"].elements())
            names = Counter(one["name"].text() for one in results)
            tool = entry["tool"].text()
            for one in results:
                yield suite, _action_result(one, names, tool, origin)


ACTION_STORE = _ActionStoreParser()


# -- Otava: CSV with a time and, mostly, a commit ------------------------------------------
#
# A row is a run at its own time. `bw stats` reads the rows as trials of one test, like those of any
# other CSV file; a history has a point for each row.

_TIME_COLUMNS = ("time", "timestamp", "date")
_COMMIT_COLUMNS = ("commit", "revision", "sha", "commit_id")
_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?\Z")
_ZONE = re.compile(r"\s+([+-][0-9]{2}):?([0-9]{2})\Z")


class _OtavaParser:
    name = "otava"
    description = "Otava's CSV"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file is CSV with a column of times that has a date in its first row."""
        if not path.is_file():
            return False
        lines = head.decode("utf-8-sig", "replace").split("\n")
        if len(lines) < 2:
            return False
        try:
            names, first = (next(csv.reader([line]), []) for line in lines[:2])
        except csv.Error:
            return False
        places = [at for at, name in enumerate(names) if _is_one(name, _TIME_COLUMNS)]
        return any(
            at < len(first) and _DATE.fullmatch(first[at].rstrip("\r")) is not None
            for at in places
        )

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the rows as the trials of one test. Raises InputError with file:line:column."""
        return [
            msgspec.structs.replace(
                one,
                skipped=tuple(
                    name
                    for name in one.skipped
                    if not _is_one(name, (*_TIME_COLUMNS, *_COMMIT_COLUMNS))
                ),
                origin=FileOrigin(tool="Otava"),
            )
            for one in CSV_PARSER.read(path)
        ]

    def history(self, path: Path) -> list[ParsedInput]:
        """Return each row as one run with its time and commit. Raises InputError with
        file:line:column."""
        tests = CSV_PARSER.read(path)
        text = path.read_bytes().decode("utf-8-sig")
        rows = [
            row
            for row in csv.reader(io.StringIO(text, newline=""))
            if any(cell.strip() for cell in row)
        ]
        names = rows[0]

        def cells(row: list[str], wanted: tuple[str, ...]) -> str:
            return next(
                (
                    cell.strip()
                    for name, cell in zip(names, row, strict=False)
                    if _is_one(name, wanted)
                ),
                "",
            )

        origins = [
            FileOrigin(
                tool="Otava",
                commit=cells(row, _COMMIT_COLUMNS),
                started_ns=moment_ns(_ZONE.sub(r"\1:\2", cells(row, _TIME_COLUMNS))),
            )
            for row in rows[1:]
        ]
        if len(tests) != 1 or len(tests[0].blocks) != len(origins):
            # A column `test`: the rows of each test are numbered by the CSV parser.
            origins_of = _by_test(names, rows[1:], origins)
        else:
            origins_of = {tests[0].name: origins}
        return [
            msgspec.structs.replace(one, blocks=(block,), skipped=(), origin=origin)
            for one in tests
            for block, origin in zip(
                one.blocks, origins_of.get(one.name, []), strict=False
            )
        ]


def _by_test(
    names: list[str], rows: list[list[str]], origins: list[FileOrigin]
) -> dict[str, list[FileOrigin]]:
    place = next(
        (at for at, name in enumerate(names) if _is_one(name, ("test",))), None
    )
    found: dict[str, list[FileOrigin]] = {}
    for row, origin in zip(rows, origins, strict=True):
        if place is not None and place < len(row):
            found.setdefault(row[place].strip(), []).append(origin)
    return found


def _is_one(name: str, names: tuple[str, ...]) -> bool:
    return name.strip().lower() in names


OTAVA = _OtavaParser()
