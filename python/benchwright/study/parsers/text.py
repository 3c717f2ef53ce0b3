"""Parsers of text files: Auto-pilot's `.res`, CSV with a header line, and the output of GNU time."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec, usual_direction
from benchwright.core.quantity import parse_duration_ns
from benchwright.core.text import shell_status
from benchwright.findings.result import TestResult
from benchwright.study.parsers import settings
from benchwright.study.parsers.api import (
    MOST_NOT_READ,
    ParseErrors,
    parse_finite,
    parse_whole,
    read_mixed_text,
    read_text,
)
from benchwright.study.parsers.settings import Reading
from benchwright.study.parsers.units import BaseUnit, base_unit

# --------------------------------------------------------------------------------------
# Auto-pilot's results file: blocks headed `[name]`, some of them measurement blocks.
#
# Purpose: reads Auto-pilot's own files and ours (study/export.py). Decision: only blocks named
# `[measurement]` count; any other block contains raw text of commands and is skipped,
# whatever it looks like. Known limit: a raw line `[measurement]` in a snapshot is read as a
# block; the format has no escapes. Source: Auto-pilot paper, section 3.2; Auto-pilot's manual,
# version 2.1.

_RES_HEADER = re.compile(r"\[([^\[\]\n]+)\]\s*\Z")
_RES_FIELD = re.compile(r"\s*([^=\s](?:[^=]*[^=\s])?)\s*=\s*+(|.*\S)\s*\Z")
_RES_RENAMED = {"sys": "system"}
_RES_WHOLE = ("thread", "epoch", "status")
MEASUREMENT = "measurement"


class _ResParser:
    name = "res"
    description = "Auto-pilot's results files (.res)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file has a measurement header near its start, or ends in `.res`."""
        if not path.is_file():
            return False
        return path.suffix == ".res" or b"[measurement]" in head

    def read(self, path: Path) -> list[TestResult]:
        """Return the file as one test. Raises InputError with file:line:column."""
        text = read_mixed_text(path)
        complaints = ParseErrors(path, "res-syntax")
        texts = _Texts()
        blocks = _res_blocks(text, complaints, texts)
        if not blocks:
            complaints.add((1, 1), "", "there is no [measurement] block in this file")
        complaints.check()
        texts.name({name for block in blocks for name in block.values}, complaints)
        return complaints.results([TestResult(path.name, tuple(blocks))], "")


def _res_blocks(text: str, complaints: ParseErrors, texts: _Texts) -> list[MeasurementBlock]:
    """Return the blocks; add line, name and text of each field that is not a number to `texts`."""
    blocks: list[MeasurementBlock] = []
    fields: dict[str, tuple[str, int, str]] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if header := _RES_HEADER.match(line):
            _end_block(blocks, fields, complaints, texts)
            fields = {} if header[1].strip() == MEASUREMENT else None
        elif fields is not None and line.strip():
            field = _RES_FIELD.match(line)
            if field is None:
                complaints.add(
                    (number, 1), line, "this is not a field", "a field is `name = value`"
                )
            else:
                fields[field[1]] = (field[2], number, line)
    _end_block(blocks, fields, complaints, texts)
    return blocks


def _end_block(
    blocks: list[MeasurementBlock],
    fields: dict[str, tuple[str, int, str]] | None,
    complaints: ParseErrors,
    texts: _Texts,
) -> None:
    if not fields:
        return
    place = {name: _whole_field(name, fields, complaints) for name in _RES_WHOLE}
    values = {}
    for name, (text, number, line) in fields.items():
        if name in _RES_WHOLE or name == "command":
            continue
        value = parse_finite(text)
        if name in ("user", "sys", "elapsed") and (value is None or value < 0):
            wrong = "not a number" if value is None else "a time below 0"
            place_of = (number, _value_column(line))
            complaints.add(place_of, line, f"{name} is {text!r}, {wrong}")
        elif value is not None:
            values[_RES_RENAMED.get(name, name)] = value
        elif text:
            texts.add(number, name, text)
    blocks.append(
        MeasurementBlock(
            thread=place["thread"],
            epoch=place["epoch"] or len(blocks) + 1,
            command=fields.get("command", ("", 0, ""))[0],
            status=place["status"],
            values=values,
        )
    )


def _whole_field(
    name: str, fields: dict[str, tuple[str, int, str]], complaints: ParseErrors
) -> int:
    if name not in fields:
        return 0
    text, number, line = fields[name]
    value = parse_whole(text)
    if value is None:
        what = f"{name} is {text!r}, not a whole number"
    elif value < 0 and name != "status":
        what = f"{name} is {value}, below 0"
    else:
        return value
    complaints.add((number, _value_column(line)), line, what)
    return 0


def _value_column(line: str) -> int:
    """Return the column of a field's value, counted from 1."""
    rest = line[line.find("=") + 1 :]
    return len(line) - len(rest.lstrip()) + 1


RES_PARSER = _ResParser()


# -- Comma-separated values with a header line: ours, hyperfine's, any other -----------
#
# The columns thread, epoch, command, status and test are recognised by name; any other cell with a
# number is a value of the quantity that its column names. An empty cell is absent, not zero. A cell
# of text in a column of numbers, and a column without a number, are not read: a finding names them.
# Decision: a row of hyperfine's export summarizes one command, so each row is a test of one block,
# whose elapsed time is hyperfine's mean; its spread keeps hyperfine's names. Rows with one command
# are as many tests. Non-goals: other separators, files without a header. Sources: RFC 4180;
# hyperfine 1.4, 1.12,
# 1.15 and 1.20, `--export-csv`.

_ROLES = {
    "thread": "thread",
    "epoch": "epoch",
    "iteration": "epoch",
    "command": "command",
    "status": "status",
}
_TEST_NAMES = ("test", "name", "benchmark", "label", "input")
"""Columns with the name of a test; the first that a file has is taken."""
_CSV_TIMES = {
    "user": "user",
    "system": "system",
    "sys": "system",
    "elapsed": "elapsed",
    "real": "elapsed",
    "wall": "elapsed",
}
"""Names of columns of times in any spelling; their cells must be numbers."""
_CSV_COMPUTED = {"wait": "wait", "cpu%": "cpu_percent"}
"""Headings of quantities that are computed where a file does not state them."""
_FACTOR = "factor:"
"""How the heading of a setting begins."""
_METRIC = "metric:"
"""How the heading of a result may begin."""
_QUANTITY = re.compile(r"[-+]?\.?\d")
"""A number with a unit, a date or a time of day begins so: rather a result than a setting."""
_LARGEST_WHOLE = 1e18
_CSV_WHOLE = ("thread", "epoch", "status")
_HYPERFINE = {"command", "mean", "stddev", "user", "system", "min", "max"}
"""The columns of every version of hyperfine; `median` since 1.5."""
_HTTP_STATUS = range(100, 600)
_HTTP_SUCCESS = range(200, 209)
_HTTP_ERROR = 400
_STATUS_NAME = re.compile(
    r"(http|response|status|return)?[-_ .]?(status|code)|http[-_ .]?status[-_ .]?code",
    re.IGNORECASE,
)
"""Names of columns that may have statuses of HTTP."""
_EXIT_NAME = re.compile(r"(exit|return)[-_ .]?(code|status)|exit|rc", re.IGNORECASE)
"""Names of columns that have exit statuses, beside `status`."""
_NO_VALUE = {"-", "na", "n/a", "nan", "none", "null"}
"""Cells that say that there is no value."""
_UNIT_NAMES = ("unit", "units", "time_unit")
"""Names of columns with the unit of the values beside them."""
_GOOD_NAME = re.compile(r"(is[-_ ]?)?(success(ful)?|succeeded|ok|pass(ed)?)", re.IGNORECASE)
"""Names of columns that say whether a row succeeded."""
_OUTCOME_NAMES = ("outcome", "result", "verdict")
"""Names of columns that say it in words; numbers of them are results."""
_BAD_NAME = re.compile(
    r"(is[-_ ]?)?(fail(ed|ure)?|errors?|err|exception)([-_ ]?(message|msg|text|reason|type))?",
    re.IGNORECASE,
)
"""Names of columns that say whether, or why, a row failed."""
_GOOD_WORDS = {
    *("true", "t", "yes", "y", "ok", "pass", "passed", "success", "successful", "succeeded"),
    *("1", "1.0"),
}
_BAD_WORDS = {
    *("false", "f", "no", "n", "fail", "failed", "failure", "error", "ko", "timeout"),
    *("0", "0.0"),
}
_NO_FAILURE = {"false", "f", "no", "n", "ok", "0", "0.0", "success"}
"""Texts of a column of failures, beside those of no value, that are none."""
_CENTRE = re.compile(r"(?<![a-z])(mean|avg|average|median)(?![a-z])", re.IGNORECASE)
_SPREAD = re.compile(
    r"(?<![a-z])(std[-_ ]?(dev|err|error)?|sd|sdev|stdev|error|sem|mad|cv)(?![a-z])", re.IGNORECASE
)
"""What the names of columns have of which a row is an estimate of many runs."""
_LABELS = {
    "run",
    "trial",
    "iteration",
    "sample",
    "id",
    "uuid",
    "host",
    "hostname",
    "note",
    "comment",
}
"""Names of columns of texts that are rather labels of trials than settings of a test."""
_HYPERFINE_FACTOR = "parameter_"


class _CsvParser:
    name = "csv"
    description = "CSV with a header line"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file ends in `.csv`, or in `.tsv`, which is refused with its
        separator, or its first line has commas and names `elapsed`, or is hyperfine's."""
        if not path.is_file():
            return False
        first = head.split(b"\n", 1)[0]
        return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")) or (
            first.count(b",") > 0
            and b"=" not in first
            and (b"elapsed" in first.lower() or first.startswith(b"command,mean,"))
            and not first.lstrip().startswith((b"{", b"["))
        )

    def read(self, path: Path) -> list[TestResult]:
        """Return one test per value of the column `test` and levels; without that column, one per
        command, unless rows are Auto-pilot's blocks, of which the commands of a thread are one
        result; else the file as one test.

        Raises InputError with file:line:column; the line is the one on which a row ends.
        """
        return self.parse(path, read_text(path, "csv-syntax"))

    def parse(self, path: Path, text: str) -> list[TestResult]:
        """Return the tests of a file's text. Raises InputError as `read`."""
        complaints = ParseErrors(path, "csv-syntax")
        tests = [test for test, _ in self.with_lines(path, text, complaints)]
        return complaints.results(tests, "")

    def with_lines(
        self, path: Path, text: str, complaints: ParseErrors, about: Sequence[str] = ()
    ) -> list[tuple[TestResult, list[int]]]:
        """Return the tests of a file's text, each with the lines of its blocks; add what was not
        read to `complaints`.

        `about` are columns, in lower case, that are not results. Raises InputError as `read`.
        """
        _check_separator(text, complaints)
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        table: _CsvTable | None = None
        try:
            table = _CsvTable(next(reader, []), path.name, complaints, about)
            for row in reader:
                if any(cell.strip() for cell in row):
                    table.add(reader.line_num, row)
        except csv.Error as error:
            complaints.add((max(reader.line_num, 1), 1), "", f"not CSV: {error}")
        tests = table.tests() if table is not None else []
        if not tests:
            complaints.add((1, 1), "", "there is no row under the header line")
        complaints.check()
        return tests


_OWN_TABLES = (
    (frozenset(("epoch", "thread", "status", "ending")), ("ending",)),
    (frozenset(("input", "name", "unit", "half_width")), ("input", "unit")),
)
"""Columns of tables that `bw` writes, and which of them are no results."""


_LevelsOfRow = Callable[[MeasurementBlock, Mapping[str, str]], Mapping[str, str]]
"""Returns the levels of a row, given its cells that are no numbers."""


class _CsvTest:
    """What the rows of one test have."""

    def __init__(self, sample: dict[str, str]) -> None:
        self.blocks: list[MeasurementBlock] = []
        self.lines: list[int] = []
        self.texts: list[dict[str, str]] = []
        """By row, the cells that are no numbers, by column."""
        self.sample = sample

    def remove(self, name: str) -> None:
        """Remove a column that is no result."""
        self.blocks = [
            msgspec.structs.replace(
                block, values={key: value for key, value in block.values.items() if key != name}
            )
            for block in self.blocks
        ]

    def convert(self, column: str, units: Mapping[str, BaseUnit], names: Collection[str]) -> None:
        """Convert the values of these names by the unit that the row has in a column, which has
        the base unit then."""
        found = [units[texts.get(column, "")] for texts in self.texts]
        self.blocks = [
            msgspec.structs.replace(
                block,
                values={
                    key: value * unit.factor if key in names else value
                    for key, value in block.values.items()
                },
            )
            for block, unit in zip(self.blocks, found, strict=True)
        ]
        for texts, unit in zip(self.texts, found, strict=True):
            texts[column] = unit.unit

    def specs_of(self, name: str, unit: str) -> tuple[MetricSpec, ...]:
        """Return the declaration of the only quantity where the column `unit` has its unit: what
        the test is of, its levels and the unit say which values are better."""
        if not unit:
            return ()
        names = {key for block in self.blocks for key in block.values}
        words = (name, *self.sample.values())
        return tuple(
            MetricSpec(
                one,
                unit=self.texts[0][unit],
                better=usual_direction(*words, one, self.texts[0][unit]),
            )
            for one in names
        )

    def divided(self, levels_of: _LevelsOfRow) -> Iterator[_CsvTest]:
        """Yield a test for the rows of the same levels, in the order of first rows; the epochs of
        rows are their order."""
        parts: dict[tuple[str, ...], _CsvTest] = {}
        for block, line, texts in zip(self.blocks, self.lines, self.texts, strict=True):
            levels = dict(levels_of(block, texts))
            test = parts.setdefault(tuple(levels.values()), _CsvTest(self.sample | levels))
            test.blocks.append(msgspec.structs.replace(block, epoch=len(test.blocks) + 1))
            test.lines.append(line)
            test.texts.append(texts)
        yield from parts.values()


class _CsvTable:
    """Collects the rows under one header line."""

    def __init__(
        self, header: Sequence[str], file: str, complaints: ParseErrors, about: Sequence[str]
    ) -> None:
        self._complaints = complaints
        self._about = about
        self._texts = _Texts()
        self._file = file
        self._header = list(header)
        self._columns = _columns(header, complaints)
        self._hyperfine = set(self._columns) >= _HYPERFINE
        spelled = {name.lower() for name in self._columns}
        self._is_own = any(own <= spelled for own, _ in _OWN_TABLES)
        """Whether it is a table that `bw` wrote."""
        for own, about_it in _OWN_TABLES:
            if own <= spelled:
                self._about = (*self._about, *about_it)
        named = [(name, "test") for name in _TEST_NAMES if name in spelled]
        self._roles = {**_ROLES, **dict(named[:1])}
        roles = {self._roles.get(name) for name in spelled}
        self._blocks = roles >= {"thread", "epoch"}
        """Whether rows are Auto-pilot's blocks: a trial can have several commands."""
        if not self._blocks:
            # Of another program: its loops and times, and no trial has several rows.
            self._roles = {
                name: role for name, role in self._roles.items() if role not in ("thread", "epoch")
            }
        self._tests: dict[tuple[str, str, str, int], _CsvTest] = {}
        """By name, levels and command; of hyperfine also by line, because each row is a test."""

    def tests(self) -> list[tuple[TestResult, list[int]]]:
        """Return the tests in the order of their first rows, each with the lines of its blocks."""
        self._check_statuses()
        blocks = (block for test in self._tests.values() for block in test.blocks)
        numbers = {name for block in blocks for name in block.values}
        hint = " (the heading factor:NAME makes texts levels)"
        self._fail_by_word(numbers)
        self._fail_by_status(numbers)
        self._fail_by_exit(numbers)
        unit = self._convert_units(numbers)
        levels_in = self._levels(numbers)
        self._texts.name(numbers, self._complaints, hint, levels_in)
        if levels_in:
            self._divide(lambda _, texts: {name: texts[name] for name in levels_in})
        if any(
            len({texts[unit] for texts in test.texts}) > 1 for test in self._tests.values() if unit
        ):
            self._divide(lambda _, texts: {unit: texts[unit]})
        self._read_settings()
        self._name_estimates()
        names = Counter(name for name, *_ in self._tests)
        found = []
        commands = {(name, command) for name, _, command, _ in self._tests}
        several = Counter(name for name, _ in commands)
        for (name, levels, command, _), test in self._tests.items():
            if several[name] > 1:
                levels = ",".join(filter(None, (levels, command)))
            one = TestResult(
                f"{name}:{levels}" if names[name] > 1 and levels else name,
                tuple(test.blocks),
                specs=test.specs_of(name, unit),
                sample=tuple(test.sample.items()),
            )
            found.append((one, test.lines))
        return found

    def _fail_by_word(self, numbers: set[str]) -> None:
        """Make the rows failed ones of which a column says so: `false` or 0 below `success`, a text
        below `error`. A column of other numbers is a result."""
        if self._is_own or self._hyperfine:
            return
        # Reasons first: they say more than `false`.
        for name in sorted(self._columns, key=_is_success_name):
            has_text = name in self._texts.names
            is_good = _is_success_name(name)
            is_flag = has_text or bool(_GOOD_NAME.fullmatch(name))
            if not (is_good or _BAD_NAME.fullmatch(name)) or not is_flag or numbers <= {name}:
                continue
            cells = [
                [
                    _cell_text(block, texts, name)
                    for block, texts in zip(test.blocks, test.texts, strict=True)
                ]
                for test in self._tests.values()
            ]
            if not is_good and not _are_failures([cell for of in cells for cell in of if cell]):
                continue
            whys = [[_failure_of(name, cell) if cell else "" for cell in of] for of in cells]
            if any(why is None for of_test in whys for why in of_test):
                continue
            if name in self._texts.names:
                self._texts.forget(name)
            numbers.discard(name)
            for test, of_test, why_of in zip(self._tests.values(), cells, whys, strict=True):
                for line, cell, texts in zip(test.lines, of_test, test.texts, strict=True):
                    texts.pop(name, None)
                    if is_good and not cell:
                        what = f"{name} is empty: the run is taken as one that succeeded"
                        self._complaints.not_read(line, what)
                test.remove(name)
                test.blocks = [
                    msgspec.structs.replace(block, failure=block.failure or why or "")
                    for block, why in zip(test.blocks, why_of, strict=True)
                ]

    def _fail_by_status(self, numbers: Collection[str]) -> None:
        """Make the rows with an error as their status of HTTP failed ones; it is no result."""
        for name in numbers:
            if not _STATUS_NAME.fullmatch(name):
                continue
            found = {
                block.values.get(name)
                for test in self._tests.values()
                for block in test.blocks
                if name in block.values or not block.failure
            }
            if None in found or not found <= {*_HTTP_STATUS}:
                continue
            if not found & {*_HTTP_SUCCESS} and not all(map(_is_error, found)):
                continue
            if name in self._texts.names:
                self._texts.forget(name)
            for csv_test in self._tests.values():
                csv_test.blocks = [_with_status(block, name) for block in csv_test.blocks]
                for texts in csv_test.texts:
                    texts.pop(name, None)

    def _fail_by_exit(self, numbers: Collection[str]) -> None:
        """Make exit statuses of a column with another name than `status` those of the rows. A row
        without one is named; a text that is none is a mistake."""
        if "status" in map(str.lower, self._columns):
            return
        name = next(filter(_EXIT_NAME.fullmatch, self._columns), None)
        if name is None or name not in numbers:
            return
        blocks = [block for test in self._tests.values() for block in test.blocks]
        if not all(block.values.get(name, 0.0).is_integer() for block in blocks):
            return
        if name in self._texts.names:
            self._texts.forget(name)
        for test in self._tests.values():
            for line, block, texts in zip(test.lines, test.blocks, test.texts, strict=True):
                text = texts.pop(name, "")
                if text and text.lower() not in _NO_VALUE:
                    what = f"{name} is {text!r}, not an exit status"
                    self._complaints.add((line, 1), "", what, "write a whole number, or nothing")
                elif name not in block.values:
                    what = f"{name} is empty: the run is taken as one that succeeded"
                    self._complaints.not_read(line, what)
            test.blocks = [
                msgspec.structs.replace(block, status=shell_status(int(block.values.get(name, 0))))
                for block in test.blocks
            ]
            test.remove(name)

    def _convert_units(self, numbers: Collection[str]) -> str:
        """Convert values to base units where a column has their units: of each row those of times,
        or the only number. Return the column, in which every row then has the base unit of its
        only number; empty if there is none."""
        name = next((one for one in self._texts.names if one.lower() in _UNIT_NAMES), "")
        if not name or name in numbers:
            return ""
        rows = [texts.get(name, "") for test in self._tests.values() for texts in test.texts]
        units = {text: _unit_of(text) for text in rows}
        times = {*numbers} & {*_CSV_TIMES.values()}
        if times and any(unit.unit != "s" for unit in units.values()):
            return ""
        if not times and len(numbers) != 1:
            return ""
        self._texts.forget(name)
        for test in self._tests.values():
            test.convert(name, units, times or numbers)
        return "" if times else name

    def _name_estimates(self) -> None:
        """Name the rows of one test that are estimates of many runs each, if nothing in the file
        says what they are of."""
        pair = None if self._hyperfine or self._about else _estimate_columns(self._columns)
        if pair is None:
            return
        for (name, *_), test in self._tests.items():
            if name == self._file and len(test.lines) > 1:
                what = (
                    f"rows as estimates of many runs each, though they have {pair[0]} and {pair[1]}: they are read as "
                    "trials of one test (the headings test and factor:NAME say what each is of)"
                )
                self._complaints.not_read(test.lines[1], what)
                break

    def _levels(self, numbers: Collection[str]) -> list[str]:
        """Return the columns of texts that distinguish rows of one test: trials of one test have
        the same settings. A column with empty cells has remarks."""
        if self._blocks or self._hyperfine or not numbers:
            return []
        found = []
        for name in self._texts.names:
            every = [row.get(name, "") for test in self._tests.values() for row in test.texts]
            is_setting = not (name in numbers or name.lower() in _LABELS) and all(every)
            is_setting = is_setting and not any(map(_QUANTITY.match, every))
            # What a row says that failed, such as its reason, is no setting.
            of_tests = (
                {
                    row[name]
                    for row, block in zip(test.texts, test.blocks, strict=True)
                    if is_setting and not block.failure
                }
                for test in self._tests.values()
            )
            if is_setting and any(len(of_test) > 1 for of_test in of_tests):
                found.append(name)
        return found

    def _divide(self, levels_of: _LevelsOfRow) -> None:
        """Make a test of the rows with the same levels."""
        self._tests = {
            (name, _levels_text(part.sample), command, line): part
            for (name, _, command, line), test in self._tests.items()
            for part in test.divided(levels_of)
        }

    def _read_settings(self) -> None:
        """Divide the tests by the columns of numbers that are settings, and remove those that number
        the rows; add a mistake for each that may be one."""
        if self._blocks or self._hyperfine or self._about:
            return
        times = (*_CSV_TIMES.values(), *_CSV_COMPUTED.values())
        has_estimates = _estimate_columns(self._columns) is not None
        while True:
            tests = [[block.values for block in test.blocks] for test in self._tests.values()]
            names = {key for rows in tests for row in rows for key in row}
            read = {
                name: settings.reading_of(name, tests, times, has_estimates=has_estimates)
                for heading in self._columns
                if (name := self._quantity(heading)) in names and not heading.startswith(_METRIC)
            }
            found = [name for name, reading in read.items() if reading is Reading.SETTING]
            if not found or len(names) == 1:
                break
            self._divide_by(min(found, key=lambda name: settings.comes_first(name, tests)))
        for name, reading in read.items():
            if reading is Reading.NUMBER and len(read) > 1:
                for test in self._tests.values():
                    test.remove(name)
            elif reading is Reading.UNCLEAR:
                what = f"{name} may be a setting of the rows, or a result"
                hint = f"name the column {_FACTOR}{name} if it is a setting, else {_METRIC}{name}"
                place = (1, len(",".join(self._header[: self._columns.index(name)])) + 1)
                self._complaints.add(place, ",".join(self._header), what, hint)

    def _divide_by(self, name: str) -> None:
        """Make the numbers of a column levels of the tests, and say so."""
        values = dict.fromkeys(
            settings.level_text(block.values[name])
            for test in self._tests.values()
            for block in test.blocks
        )
        self._complaints.setting(name, list(values))
        self._divide(lambda block, _: {name: settings.level_text(block.values[name])})
        for test in self._tests.values():
            test.remove(name)

    def _check_statuses(self) -> None:
        """Add a mistake if the column `status` has the statuses of HTTP responses; never in a table
        of `bw`, which has a column `ending`."""
        if "ending" in self._columns:
            return
        found = [block.status for test in self._tests.values() for block in test.blocks]
        http = all(status in _HTTP_STATUS for status in found)
        if http and any(status in _HTTP_SUCCESS for status in found):
            column = next(n for n in self._columns if n.lower() == "status")
            what = f"{column} is {found[0]}: a status of HTTP, not an exit status"
            hint = "give the column another name, such as http_status"
            self._complaints.add((1, 1), ",".join(self._columns), what, hint)

    def add(self, line: int, row: Sequence[str]) -> None:
        """Add one row; the header line once more, as where files were joined, is none."""
        if list(row) == self._header:
            return
        if len(row) != len(self._columns):
            what = f"{len(row)} cells under {len(self._columns)} columns"
            self._complaints.add((line, 1), ",".join(row), what)
            return
        if not self._tests:
            self._check_header(row)
        known: dict[str, str] = {}
        values: dict[str, float] = {}
        sample: dict[str, str] = {}
        texts: dict[str, str] = {}
        for index, (name, cell) in enumerate(zip(self._columns, row, strict=True)):
            role = self._roles.get(name.lower())
            if (factor := self._factor(name)) is not None:
                if cell:
                    sample[factor] = cell
            elif role is not None and role not in known:
                known[role] = cell if role == "command" else cell.strip()
            elif name.lower() in self._about:
                continue
            elif (value := self._value(name, cell, (line, index, row))) is not None:
                values[self._quantity(name)] = value
            elif text := cell.strip():
                self._texts.add(line, self._quantity(name), text)
                texts[self._quantity(name)] = text
        place = {role: self._whole(role, known, line, row) for role in _CSV_WHOLE}
        command = known.get("command", "")
        apart = "" if self._blocks else command.strip()
        levels = _levels_text(sample)
        test = known.get("test") or apart or self._file
        key = (test, levels, apart, line if self._hyperfine else 0)
        csv_test = self._tests.setdefault(key, _CsvTest(sample))
        csv_test.lines.append(line)
        csv_test.texts.append(texts)
        epoch = place["epoch"] if known.get("epoch") else len(csv_test.blocks) + 1
        csv_test.blocks.append(
            MeasurementBlock(place["thread"], epoch, command, shell_status(place["status"]), values)
        )

    def _check_header(self, row: Sequence[str]) -> None:
        """Add a mistake if the header line looks like the first row. Whole numbers may be
        names of columns, beside a column of names or in order, as years and sizes are."""
        both = [[parse_finite(cell) is not None for cell in line] for line in (self._header, row)]
        names = [cell for cell in self._header if parse_finite(cell) is not None]
        numbers = [float(cell) for cell in names]
        in_order = numbers in (sorted({*numbers}), sorted({*numbers}, reverse=True))
        has_role = any(cell.lower() in self._roles for cell in self._columns)
        are_names = has_role or (len(names) > 1 and in_order)
        are_names = are_names and not any("." in cell for cell in names)
        if names and both[0] == both[1] and not are_names:
            what, hint = "the first line is data", "CSV needs a line of column names"
            self._complaints.add((1, 1), ",".join(self._header), what, hint)

    def _factor(self, name: str) -> str | None:
        if name.startswith(_FACTOR):
            return name.removeprefix(_FACTOR)
        if self._hyperfine and name.startswith(_HYPERFINE_FACTOR):
            return name.removeprefix(_HYPERFINE_FACTOR)
        return None

    def _quantity(self, name: str) -> str:
        if self._hyperfine and name == "mean":
            return "elapsed"
        name = name.removeprefix(_METRIC)
        return (_CSV_TIMES | _CSV_COMPUTED).get(name.lower(), name)

    def _value(self, name: str, cell: str, place: tuple[int, int, Sequence[str]]) -> float | None:
        value = parse_finite(cell)
        wrong = value is None and cell.strip() and "not a number"
        if value is not None and value < 0:
            wrong = "a time below 0"
        if wrong and name.lower() in _CSV_TIMES:
            line, index, row = place
            column = len(",".join(row[:index])) + (2 if index else 1)
            what = f"{name} is {cell.strip()!r}, {wrong}"
            self._complaints.add((line, column), ",".join(row), what)
        return value

    def _whole(self, role: str, known: dict[str, str], line: int, row: Sequence[str]) -> int:
        text = known.get(role, "")
        if not text:
            return 0
        value = parse_whole(text)
        number = parse_finite(text)
        if (
            value is None
            and number is not None
            and number.is_integer()
            and abs(number) < _LARGEST_WHOLE
        ):
            value = int(number)  # spreadsheets write 3 as 3.0
        if value is None or (value < 0 and role != "status"):
            column = len(",".join(row[: row.index(text)])) + 1 if text in row else 1
            what = f"{role} is {text!r}, not a whole number from 0"
            self._complaints.add((line, column), ",".join(row), what)
            return 0
        return value


def _unit_of(text: str) -> BaseUnit:
    """Return a unit in base units; minutes may be `m`."""
    unit = base_unit(text)
    try:
        return BaseUnit(parse_duration_ns(f"1{text}") / 1e9, "s", "lower") if text else unit
    except ValueError:
        return unit


def _is_success_name(name: str) -> bool:
    return name.lower() in _OUTCOME_NAMES or _GOOD_NAME.fullmatch(name) is not None


def _are_failures(cells: Collection[str]) -> bool:
    """Return whether a column of numbers and texts has failures: codes and texts of them, not
    measured numbers of which some are absent."""
    numbers = [parse_finite(cell) for cell in cells]
    return all(number is None or number.is_integer() for number in numbers) and any(
        number is None and cell.lower() not in _NO_VALUE
        for number, cell in zip(numbers, cells, strict=True)
    )


def _failure_of(name: str, text: str) -> str | None:
    """Return why a row failed that has this text in a column of successes or failures: empty if it
    succeeded, None if the text does not say it."""
    word = text.lower()
    if _is_success_name(name):
        if word in _GOOD_WORDS:
            return ""
        return f"{name} is {text}" if word in _BAD_WORDS else None
    if word in _NO_VALUE or word in _NO_FAILURE:
        return ""
    return f"{name} is {text}" if word in _GOOD_WORDS else text


def _estimate_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return a column of means and that of their spread: names that are the same without the word
    for it."""
    centres = {_CENTRE.sub("", name, 1): name for name in columns if _CENTRE.search(name)}
    for name in columns:
        if _SPREAD.search(name) and (centre := centres.get(_SPREAD.sub("", name, 1))):
            return centre, name
    return None


def _is_error(status: float | None) -> bool:
    return status is not None and status >= _HTTP_ERROR


def _with_status(block: MeasurementBlock, name: str) -> MeasurementBlock:
    """Return a row without its status of HTTP, and failed if that is an error."""
    if name not in block.values:
        return block
    status = int(block.values[name])
    values = {key: value for key, value in block.values.items() if key != name}
    failure = block.failure or (f"HTTP status {status}" if _is_error(status) else "")
    return msgspec.structs.replace(block, values=values, failure=failure)


def _cell_text(block: MeasurementBlock, texts: Mapping[str, str], name: str) -> str:
    """Return the cell of a row below a name, a number as it would be written; empty without one."""
    value = block.values.get(name)
    return texts.get(name, "") if value is None else f"{value:g}"


def _levels_text(sample: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sample.items())


class _Texts:
    """The texts of a file in places of numbers: of each quantity the first few, and their number."""

    def __init__(self) -> None:
        self._first: dict[str, list[tuple[int, str]]] = {}
        self._count: Counter[str] = Counter()

    def add(self, line: int, name: str, text: str) -> None:
        """Add a text of a quantity."""
        first = self._first.setdefault(name, [])
        self._count[name] += 1
        if len(first) < MOST_NOT_READ:
            first.append((line, text))

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities that have texts."""
        return tuple(self._first)

    def forget(self, name: str) -> None:
        """Remove the texts of a quantity, which were understood."""
        self._first.pop(name)

    def name(
        self,
        numbers: set[str],
        complaints: ParseErrors,
        hint: str = "",
        levels: Collection[str] = (),
    ) -> None:
        """Name the quantities without a number, at the first of their texts, and the texts of the
        others, `numbers`; `levels` are read."""
        without = [name for name in self._first if name not in numbers and name not in levels]
        if without:
            line = min(self._first[name][0][0] for name in without)
            complaints.not_read(line, f"no value of {', '.join(without)} is a number{hint}")
        texts = [(*one, name) for name, first in self._first.items() for one in first]
        for line, text, name in sorted(texts):
            if name in numbers:
                complaints.not_read(line, f"{name} is {text!r}, not a number")
        for name, first in self._first.items():
            if name in numbers and (more := self._count[name] - len(first)):
                complaints.not_read(first[-1][0], f"{more:,} more of {name} are no numbers")


def _check_separator(text: str, complaints: ParseErrors) -> None:
    """Raise InputError, without further mistakes, for columns that are not separated by commas,
    because all other mistakes would follow from this one."""
    first = text.split("\n", 1)[0].rstrip("\r")
    for separator, name in ((";", "';'"), ("\t", "tabs")):
        if separator in first and "," not in first:
            what = f"the columns are separated by {name}, not by commas"
            hint = "export it with commas, and with points in numbers (1.5)"
            complaints.add((1, first.index(separator) + 1), first, what, hint)
            complaints.check()


def _columns(header: Sequence[str], complaints: ParseErrors) -> list[str]:
    names = [cell.strip() for cell in header]
    line = ",".join(header)
    for place, name in enumerate(names):
        column = len(",".join(header[:place])) + (2 if place else 1)
        if not name:
            complaints.add((1, column), line, f"column {place + 1} has no name")
        elif name in names[:place]:
            complaints.add((1, column), line, f"the column {name!r} appears twice")
    if names and all(parse_finite(name) is not None for name in names):
        complaints.add((1, 1), line, "the first line is data", "CSV needs a line of column names")
    return names


CSV_PARSER = _CsvParser()


# --------------------------------------------------------------------------------------
# The output of GNU time: its default form, `-p` (POSIX) and `-v`; records are epochs.
#
# Purpose: reads files written by `time -a -o FILE` or a shell's redirection. Decision: a record
# is the output of one run of time; other lines (the program's own output) are skipped, so one
# that looks like a line of a record is read as such. Non-goals: a shell's builtin `time`,
# formats of `-f`. CPU% is the stated one: it is computed by `time` before the CPU times are cut
# to their last digit. Source: time(1), version 1.9.

_DEFAULT = re.compile(
    r"(?<![\d.])(?P<user>[\d.]+)user (?P<system>[\d.]+)system (?P<elapsed>[\d:.]+)elapsed "
    r"(?P<cpu>[\d?]+)%?CPU \([\d?]*avgtext\+[\d?]*avgdata (?P<rss>\d+)maxresident\)k"
)
_DEFAULT_COUNTS = re.compile(
    r"(?<!\d)(?P<in>\d+)inputs\+(?P<out>\d+)outputs "
    r"\((?P<major>\d+)major\+(?P<minor>\d+)minor\)pagefaults \d+swaps"
)
_POSIX = re.compile(r"(real|user|sys) +([\d.]+)\Z")
_VERBOSE = re.compile(r"\t(.+?): (.*)\Z")
_STATUS = re.compile(
    r"Command exited with non-zero status (\d+)|Command terminated by signal (\d+)"
)
_VERBOSE_NAMES = {
    "User time (seconds)": ("user", 1.0),
    "System time (seconds)": ("system", 1.0),
    "Maximum resident set size (kbytes)": ("rss_bytes", 1024.0),
    "Major (requiring I/O) page faults": ("major_faults", 1.0),
    "Minor (reclaiming a frame) page faults": ("minor_faults", 1.0),
    "Voluntary context switches": ("voluntary_switches", 1.0),
    "Involuntary context switches": ("involuntary_switches", 1.0),
    "File system inputs": ("in_blocks", 1.0),
    "File system outputs": ("out_blocks", 1.0),
}
_LARGEST_NUMBER = 1e18
_STEP_S = 0.01
"""The last digit of all times [s]."""
_SHARE = "Percent of CPU this job got"
_ELAPSED = "Elapsed (wall clock) time (h:mm:ss or m:ss)"
_COUNTS = (
    ("in", "in_blocks"),
    ("out", "out_blocks"),
    ("major", "major_faults"),
    ("minor", "minor_faults"),
)


class _GnuTimeParser:
    name = "gnu_time"
    description = "output of GNU time (default, -p and -v)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether a record of any of the three forms is near the start of the file."""
        if not path.is_file():
            return False
        text = head.decode("utf-8", "replace")
        return bool(
            _DEFAULT.search(text)
            or "\tCommand being timed:" in text
            or re.search(r"^real +[\d.]+\nuser +[\d.]+\nsys +[\d.]+$", text, re.MULTILINE)
        )

    def read(self, path: Path) -> list[TestResult]:
        """Return the records as one test; of several commands as one for each, named by it.

        Raises InputError with file:line:column.
        """
        text = read_mixed_text(path)
        complaints = ParseErrors(path, "time-syntax")
        records = _TimeRecords(complaints)
        for number, line in enumerate(text.split("\n"), 1):
            records.take(number, line)
        records.close()
        if not records.blocks:
            complaints.add((1, 1), "", "there is no record of GNU time in this file")
        complaints.check()
        return [
            TestResult(name, tuple(blocks), clock_s=_STEP_S)
            for name, blocks in _by_command(path.name, records.blocks).items()
        ]


def _by_command(file: str, blocks: Sequence[MeasurementBlock]) -> dict[str, list[MeasurementBlock]]:
    """Return the records of each test by its name: the command where records state several (a
    record that states none has the name of the file), else the file."""
    commands = {block.command for block in blocks} - {""}
    tests: dict[str, list[MeasurementBlock]] = {}
    for block in blocks:
        of_test = tests.setdefault((block.command or file) if len(commands) > 1 else file, [])
        of_test.append(msgspec.structs.replace(block, epoch=len(of_test) + 1))
    return tests


class _TimeRecords:
    """Collects records line by line."""

    def __init__(self, complaints: ParseErrors) -> None:
        self.blocks: list[MeasurementBlock] = []
        self._complaints = complaints
        self._values: dict[str, float] = {}
        self._command = ""
        self._status = 0
        self._pending_status = 0
        self._begun: tuple[int, str] | None = None

    def take(self, number: int, line: str) -> None:
        """Read one line."""
        line = line.rstrip("\r")
        if status := _STATUS.search(line):
            exited, signal = (parse_whole(text or "0") or 0 for text in status.groups())
            self._pending_status = exited or 128 + signal
        elif match := _DEFAULT.search(line):
            self._begin(number, line)
            self._default(number, line, match)
        elif match := _DEFAULT_COUNTS.search(line):
            for group, name in _COUNTS:
                place = (number, match.start(group) + 1, line)
                self._number(name, match[group], place)
        elif match := _POSIX.match(line):
            if match[1] == "real":
                self._begin(number, line)
            name = {"real": "elapsed", "sys": "system"}.get(match[1], match[1])
            self._number(name, match[2], (number, match.start(2) + 1, line))
        elif match := _VERBOSE.match(line):
            self._verbose(number, line, match)

    def close(self) -> None:
        """End the record in progress."""
        if "elapsed" in self._values:
            epoch = len(self.blocks) + 1
            self._add_wait(self._values)
            block = MeasurementBlock(0, epoch, self._command, self._status, self._values)
            self.blocks.append(block)
        elif self._begun is not None:
            number, line = self._begun
            self._complain((number, 1, line), "this record has no elapsed time")
        self._begun = None
        self._values, self._command, self._status = {}, "", 0

    def _add_wait(self, values: dict[str, float]) -> None:
        """Add Wait where the stated share of CPU time gives it more precisely than the CPU times
        do."""
        elapsed, share = values["elapsed"], values.get("cpu_percent")
        if share is not None and elapsed / 100 < 2 * _STEP_S:
            values["wait"] = elapsed * (1 - share / 100)

    def _begin(self, number: int, line: str) -> None:
        self.close()
        self._begun = (number, line)
        self._status, self._pending_status = self._pending_status, 0

    def _default(self, number: int, line: str, match: re.Match[str]) -> None:
        for name in ("user", "system"):
            self._number(name, match[name], (number, match.start(name) + 1, line))
        self._clock(match["elapsed"], (number, match.start("elapsed") + 1, line))
        place = (number, match.start("rss") + 1, line)
        self._number("rss_bytes", match["rss"], place, 1024.0)
        self._share(match["cpu"], (number, match.start("cpu") + 1, line))

    def _verbose(self, number: int, line: str, match: re.Match[str]) -> None:
        label, text = match[1], match[2]
        place = (number, match.start(2) + 1, line)
        if label == "Command being timed":
            self._begin(number, line)
            self._command = text.removeprefix('"').removesuffix('"')
        elif label == "Exit status":
            self._status = self._status or parse_whole(text) or 0
        elif line.startswith(f"\t{_ELAPSED}: "):
            self._clock(line.removeprefix(f"\t{_ELAPSED}: "), place)
        elif label == _SHARE:
            self._share(text.removesuffix("%"), place)
        elif label in _VERBOSE_NAMES:
            name, factor = _VERBOSE_NAMES[label]
            self._number(name, text, place, factor)

    def _number(
        self, name: str, text: str, place: tuple[int, int, str], factor: float = 1.0
    ) -> None:
        value = parse_finite(text)
        if value is None or value * factor > _LARGEST_NUMBER:
            self._complain(place, f"{name} is {text!r}, not a number")
        else:
            self._values[name] = value * factor

    def _share(self, text: str, place: tuple[int, int, str]) -> None:
        """Read a share of CPU time; `?` is that of no time."""
        if text != "?":
            self._number("cpu_percent", text, place)

    def _clock(self, text: str, place: tuple[int, int, str]) -> None:
        """Read `h:mm:ss` or `m:ss.ss` as seconds."""
        parts = [parse_finite(part) for part in text.split(":")]
        seconds = 0.0
        for part in parts:
            if part is None or part > _LARGEST_NUMBER or len(parts) > 3:
                self._complain(place, f"elapsed is {text!r}, not h:mm:ss or m:ss")
                return
            seconds = seconds * 60 + part
        self._values["elapsed"] = seconds

    def _complain(self, place: tuple[int, int, str], message: str) -> None:
        number, column, line = place
        self._complaints.add((number, column), line, message)


GNU_TIME_PARSER = _GnuTimeParser()
