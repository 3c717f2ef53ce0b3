"""Results of `go test -bench`: a line for each repetition, as text or in the events of `-json`.

Purpose: a configuration line (`cpu: ...`, `commit: ...`) applies to the results behind it, so
results of one name under different configurations are different tests; in a history, those of
different commits and notes are different runs. Decision: a benchmark that prints splits its own
result into a name, its output, and the values; these are put together where the values have ns/op,
and the output is named. Elsewhere the result is named as not read, as are benchmarks and packages
that failed. Sources: golang.org/design/14313-benchmark-format; golang.org/x/perf, benchfmt
(configuration) and benchunit (units); cmd/test2json.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import Pairs
from benchwright.core.results import Summary
from benchwright.features.exchange.foreign.json_file import DamagedJson, parse_json
from benchwright.features.exchange.foreign.python_tools import moment_ns
from benchwright.features.exchange.foreign.units import (
    CPU,
    ELAPSED,
    THROUGHPUT,
    free_name,
    stated,
    stated_machine,
)
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import ParseErrors, parse_finite, read_mixed_text
from benchwright.study.parsers.units import base_unit, spec_of

_VALUE = r"(?:[-+.0-9]\S*|NaN|[+-]?Inf)"
_RESULT = re.compile(rf"Benchmark(\S*)\s+[0-9]+\s+({_VALUE}.*)\Z", re.IGNORECASE)
_TAIL = re.compile(rf"(?<![0-9])[0-9]+\t\s*((?:{_VALUE} \S+\s+)*{_VALUE} ns/op\b.*)\Z")
"""The values of a result whose name is before the output of its benchmark."""
_TIME = re.compile(rf"[0-9]\t\s*({_VALUE} ns/op)")
_WORD = re.compile(r"(?<!\S)(\S+) *\t")
_NAME = re.compile(r"Benchmark([^a-z].*)")
_CONFIGURATION = re.compile(r"([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?\Z")
_UNIT = re.compile(r"Unit\s+(\S+)\s+(.*)\Z")
_FAILED = re.compile(r"(?:\A|\t)--- FAIL: (Benchmark\S+)|\AFAIL\t(\S+)\s?(\[.*\])?")
"""A benchmark, at the start of a line or behind its name, or a package."""
_PROCS = re.compile(r"-[0-9]+\Z")
_HEAD = re.compile(
    rb"^Benchmark\S*[ \t]+[0-9]+[ \t]+[-+.0-9eE]+[ \t]+\S|^(goos|goarch|pkg): \S", re.MULTILINE
)
_EVENT = re.compile(r'^\{"[^\n]*"Action":"', re.MULTILINE)
_NAMES = {"sec/op": (ELAPSED, "s"), "B/s": (THROUGHPUT, "B/s"), "B/op": ("B/op", "B")}
_GO_UNITS = ("ns/op", "MB/s", "B/op", "allocs/op")
_TIMES = ("date", "time", "timestamp")
_NOTES = ("note", *_TIMES)
_RUN_KEYS = ("commit", "commit-time", *_NOTES)
"""Configuration that makes runs of a history; any other makes tests."""
_MACHINE = {"cpu": CPU, "goos": "goos", "goarch": "goarch"}


class _GoParser:
    name = "benchfmt"
    description = "the output of go test -bench (benchfmt)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether a line near the start of the file is a result or the configuration of Go,
        or an event of `go test -json`."""
        if not path.is_file():
            return False
        return bool(_HEAD.search(head) or _EVENT.search(head.decode("utf-8", "ignore")))

    def read(self, path: Path) -> list[TestResult]:
        """Return one test for each name and configuration; a line is a trial. Raises InputError
        with file:line:column."""
        return self._tests(path, runs=False)

    def history(self, path: Path) -> list[TestResult]:
        """Return the tests of each run. Raises InputError with file:line:column."""
        return self._tests(path, runs=True)

    def _tests(self, path: Path, *, runs: bool) -> list[TestResult]:
        complaints = ParseErrors(path, "benchfmt-syntax")
        text = read_mixed_text(path)
        results = _Results(complaints, _own_names(path, text))
        for line in _lines(text, complaints):
            results.take(line)
        results.close()
        hint = "write it again: go test -bench . -count 10 > FILE"
        return complaints.results(results.tests(runs=runs), hint)


class _Line(NamedTuple):
    number: int
    text: str
    package: str
    """The package whose output it is in; empty in a text."""
    is_last: bool = False
    """Whether no newline is behind it: it can be cut."""


def _lines(text: str, complaints: ParseErrors) -> Iterator[_Line]:
    """Yield the lines of a text; those of the output in events of `go test -json`, put together for
    each package, have the number of the event in which they begin."""
    has_events = _EVENT.search(text) is not None
    begun: dict[str, tuple[int, str]] = {}
    ends = text.count("\n")
    for number, line in enumerate(text.split("\n"), 1):
        if not has_events or not line.startswith("{"):
            yield _Line(number, line.rstrip("\r"), "", number > ends)
            continue
        event = _event(line)
        if event is None:
            complaints.not_read(number, "an event of go test -json that is damaged")
            continue
        output, package = event.get("Output"), event.get("Package", "")
        if not isinstance(output, str) or not isinstance(package, str):
            continue
        first, before = begun.pop(package, (number, ""))
        *whole, rest = (before + output).split("\n")
        for at, one in enumerate(whole):
            yield _Line(number if at else first, one.rstrip("\r"), package)
        if rest:
            begun[package] = (number if whole else first, rest)
    for package, (number, rest) in begun.items():
        yield _Line(number, rest, package, is_last=True)


def _own_names(path: Path, text: str) -> set[str]:
    """Return the units of the file itself that are names of ours."""
    usual = {name for name, _ in _NAMES.values()} - _NAMES.keys()
    if not any(name in text for name in usual):
        return set()
    return {
        word
        for line in _lines(text, ParseErrors(path, "benchfmt-syntax"))
        if (match := _RESULT.fullmatch(line.text))
        for word in usual.intersection(match[2].split()[1::2])
    }


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = parse_json(line)
    except DamagedJson:
        return None
    return event if isinstance(event, dict) else None


class _Results:
    """Collects results line by line."""

    def __init__(self, complaints: ParseErrors, own: Collection[str]) -> None:
        self._own = own
        """Units of the file that are names of ours."""
        self._blocks: dict[tuple[str, Pairs], list[MeasurementBlock]] = {}
        """The results of each name and configuration."""
        self._complaints = complaints
        self._facts: dict[str, dict[str, str]] = {}
        """The configuration of each package at the present line."""
        self._open: dict[str, tuple[int, str]] = {}
        """The line and the name of a benchmark without values so far, by package."""
        self._failed: dict[str, list[int]] = {}
        """The lines of what failed."""
        self._broken: list[tuple[str, Pairs]] = []
        """The benchmarks that failed, as Go writes their names there, with the configuration."""
        self._stated: dict[tuple[str, str], tuple[str, int]] = {}
        """What lines `Unit` state, with the line, by unit and key; it is of the whole file."""
        self._units: dict[str, tuple[str, str, str]] = {}
        """Unit as benchstat shows it, base unit and usual direction of each quantity."""
        self._written: set[str] = set()
        """Units as the file writes them."""

    def take(self, line: _Line) -> None:
        """Read one line; output of the benchmarks is skipped."""
        text = line.text
        if match := _RESULT.fullmatch(text):
            self._not_completed(line.package)
            self._result(line, match[1], match.start(2))
            return
        tail = _TAIL.search(text)
        for word in _WORD.finditer(text, 0, tail.start() if tail else len(text)):
            if name := _NAME.search(word[1]):
                self._not_completed(line.package)
                self._open[line.package] = (line.number, name[1])
        end = len(text)
        if tail and (named := self._open.pop(line.package, None)):
            self._result(line, named[1], tail.start(1))
            what = f"output of Benchmark{named[1]}, inside of its result"
            self._complaints.not_read(named[0], what)
            end = tail.start()
        if times := _TIME.findall(text, 0, end):
            what = f"{', '.join(times)}, without the name of a benchmark"
            self._complaints.not_read(line.number, what)
        elif tail is None:
            self._about(line)

    def _about(self, line: _Line) -> None:
        """Read a line that has no result: a unit, configuration, or what failed."""
        text = line.text
        if match := _UNIT.fullmatch(text):
            for word in match[2].split():
                key, _, value = word.partition("=")
                self._stated[_tidy(match[1])[1], key] = value, line.number
        elif match := _CONFIGURATION.fullmatch(text):
            facts = self._facts.setdefault(line.package, {})
            facts.pop(match[1], None)
            if match[2]:
                facts[match[1]] = match[2].strip()
        elif match := _FAILED.search(text):
            name = (match[1] or "").removeprefix("Benchmark")
            if self._open.get(line.package, (0, ""))[1] == name:
                self._open.pop(line.package, None)
            if match[1]:
                facts = self._facts.get(line.package, {})
                self._broken.append((name, tuple(facts.items())))
            what = match[1] or f"the package {match[2]}"
            why = f": {match[3].strip('[]')}" if match[3] else ""
            self._failed.setdefault(f"{what} failed{why}", []).append(line.number)

    def close(self) -> None:
        """Report what failed, and benchmarks that have no values."""
        for what, lines in self._failed.items():
            times = f" ({len(lines)} times)" if len(lines) > 1 else ""
            self._complaints.not_read(lines[0], f"{what}{times}")
        for package in [*self._open]:
            self._not_completed(package)

    def _not_completed(self, package: str) -> None:
        number, name = self._open.pop(package, (0, ""))
        if name:
            self._complaints.not_read(number, f"Benchmark{name} has no values")

    def _result(self, line: _Line, name: str, start: int) -> None:
        """Add the values of a line, from a place on, as a result."""
        words = line.text[start:].split()
        known = len(words) % 2 == 0 and words[-1] in {*_GO_UNITS, *self._written}
        if line.is_last and not known:
            self._complaints.not_read(line.number, f"Benchmark{name}, whose line is cut")
            return
        if len(words) % 2 or any(parse_finite(unit) is not None for unit in words[1::2]):
            what = "a value has no unit, or the line is cut"
            self._complaints.add((line.number, start + 1), line.text, what)
            return
        values: dict[str, float] = {}
        for text, unit in zip(words[::2], words[1::2], strict=True):
            value = parse_finite(text)
            if value is None:
                if text.lower().lstrip("+-") in ("nan", "inf"):
                    continue
                place = (line.number, line.text.index(text, start) + 1)
                what = f"{unit} is {text!r}, not a number"
                self._complaints.add(place, line.text, what)
                continue
            self._written.add(unit)
            factor, tidy = _tidy(unit)
            usual, base = _NAMES.get(tidy, (tidy, ""))
            quantity = usual if usual == tidy else free_name(self._own, usual, tidy)
            if math.isfinite(value * factor):
                values[quantity] = value * factor
                self._units[quantity] = (tidy, base, base_unit(unit).better)
        facts = tuple(self._facts.get(line.package, {}).items())
        blocks = self._blocks.setdefault((name or "Benchmark", facts), [])
        blocks.append(MeasurementBlock(0, len(blocks) + 1, "", 0, values))

    def _add_failed(self) -> None:
        """Add the benchmarks that failed and have no result: a gate fails for them. One that is
        written without the number of processors has that of the results; one whose part failed is
        not named itself.
        """
        procs = {match[0] for name, _ in self._blocks if (match := _PROCS.search(name))}
        failed: dict[tuple[str, Pairs], list[MeasurementBlock]] = {}
        for name, pairs in self._broken:
            whole = name
            if len(procs) == 1 and not _PROCS.search(name):
                whole += next(iter(procs))
            part = f"{_PROCS.sub('', name)}/"
            if not any(other.startswith(part) for other, _ in self._broken):
                blocks = failed.setdefault((whole, pairs), [])
                at, why = len(blocks) + 1, f"FAIL: Benchmark{name}"
                blocks.append(MeasurementBlock(0, at, "", 1, {}, failure=why))
        for key, blocks in failed.items():
            self._blocks.setdefault(key, blocks)

    def _better(self, tidy: str) -> str:
        return self._stated.get((tidy, "better"), ("", 0))[0]

    def _exact(self, name: str, blocks: Sequence[MeasurementBlock]) -> Iterator[Summary]:
        """Yield the quantities of a test whose unit is exact, taken out of its blocks: no
        statistics apply to them. One that varies is named as not read."""
        for quantity, (tidy, base, _) in self._units.items():
            assumed, line = self._stated.get((tidy, "assume"), ("", 0))
            if assumed != "exact":
                continue
            values = [block.values.pop(quantity) for block in blocks if quantity in block.values]
            if len(set(values)) == 1:
                (value,) = set(values)
                yield stated(
                    *(quantity, base),
                    count=len(values),
                    mean=value,
                    median=value,
                    extremes=(value, value),
                    sdev=0.0,
                )
            elif values:
                ends = f"{min(values):.15g} to {max(values):.15g}"
                what = f"{tidy} of Benchmark{name} is from {ends}, and its unit is exact"
                self._complaints.not_read(line, what)

    def tests(self, *, runs: bool) -> list[TestResult]:
        """Return one test for each name and configuration: with its package where packages share
        the name, and with the keys that distinguish it from the others of its name. With `runs`,
        the keys of a run are in its origin alone, and names are short: what distinguishes them is
        in the full name and in the labels."""
        if runs:
            self._add_failed()
        packages: dict[str, set[str]] = {}
        groups: dict[Hashable, list[Mapping[str, str]]] = {}
        for name, pairs in self._blocks:
            facts = dict(pairs)
            packages.setdefault(name, set()).add(facts.get("pkg", ""))
            groups.setdefault(_group(name, facts, runs=runs), []).append(facts)
        varying = {key: _varying(group) for key, group in groups.items()}
        tests = []
        for (name, pairs), blocks in self._blocks.items():
            facts = dict(pairs)
            package = facts.get("pkg", "")
            own = _own_keys(facts, varying[_group(name, facts, runs=runs)], runs=runs)
            is_short = runs or len(packages[name]) == 1
            shown = name if is_short else f"{package}.{name}"
            levels = "" if runs else ",".join(f"{key}={value}" for key, value in own)
            full = f"{package}.{name}" if package else ""
            exact = tuple(self._exact(name, blocks))
            there = {value for block in blocks for value in block.values}
            there |= {summary.name for summary in exact}
            tests.append(
                TestResult(
                    name=f"{shown}:{levels}" if levels else shown,
                    full_name=f"{full}:{levels}" if full and levels else full,
                    blocks=tuple(blocks),
                    specs=tuple(
                        spec_of(quantity, base, self._better(tidy) or usual)
                        for quantity, (tidy, base, usual) in self._units.items()
                        if quantity in there
                    ),
                    summaries=exact,
                    sample=(*_sample(name), *(() if runs else own)),
                    machine=stated_machine(
                        {_MACHINE[k]: v for k, v in facts.items() if k in _MACHINE}
                    ),
                    origin=_origin(facts, own if runs else ()),
                )
            )
        return tests


def _group(name: str, facts: Mapping[str, str], *, runs: bool) -> Hashable:
    """Return what the results have in common among which configuration distinguishes: name and
    package, and with `runs` the run."""
    of_run = tuple(facts.get(key) for key in _RUN_KEYS) if runs else ()
    return (name, facts.get("pkg", ""), *of_run)


def _varying(group: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the keys of configuration that are not the same in all results of a group."""
    keys = {key for facts in group for key in facts}
    return {key for key in keys if len({facts.get(key) for facts in group}) > 1}


def _own_keys(facts: Mapping[str, str], varying: Set[str], *, runs: bool) -> Pairs:
    """Return the configuration that is not the same in all results of a name. With `runs`, all of
    it that a name can have: not the keys of a run, and of machines, the environment of a run, only
    two in one run."""
    if not runs:
        return tuple(pair for pair in facts.items() if pair[0] in varying)
    return tuple(
        (key, value)
        for key, value in facts.items()
        if key not in ("pkg", *_RUN_KEYS) and (key not in _MACHINE or key in varying)
    )


def _origin(facts: Mapping[str, str], labels: Pairs) -> FileOrigin:
    times = (moment_ns(facts.get(key, "")) for key in _TIMES)
    return FileOrigin(
        tool=" ".join(filter(None, ("go test", facts.get("toolchain", "")))),
        commit=facts.get("commit", ""),
        commit_time_ns=moment_ns(facts.get("commit-time", "")),
        started_ns=next(filter(None, times), None),
        machine=facts.get("machine", ""),
        run=",".join(f"{key}={facts[key]}" for key in _NOTES if key in facts),
        labels=labels,
    )


@functools.lru_cache(maxsize=256)
def _tidy(unit: str) -> tuple[float, str]:
    """Return a unit as benchstat shows it, with its factor: ns are seconds, MB are bytes."""
    parts = re.split(r"([/*-])", unit)
    factor = 1.0
    for at, part in enumerate(parts):
        sign = -1 if at and parts[at - 1] == "/" else 1
        if part == "ns":
            parts[at], factor = "sec", factor * 1e-9**sign
        elif part == "MB":
            parts[at], factor = "B", factor * 1e6**sign
    return factor, "".join(parts)


def _sample(name: str) -> Pairs:
    """Return the keys of a name such as `Gzip/level=9-8`; the number at its end is that of
    GOMAXPROCS."""
    pairs = [
        (key, value)
        for part in _PROCS.sub("", name).split("/")[1:]
        for key, equals, value in [part.partition("=")]
        if equals and key
    ]
    return tuple(dict(pairs).items())


BENCHFMT = _GoParser()
