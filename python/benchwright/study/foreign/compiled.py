"""Results of benchmark libraries of compiled languages: Go, Java, C++, Rust.

Sources: golang.org/design/14313-benchmark-format and golang.org/x/perf/benchunit; JMH 1.37, `-rf json`;
Google Benchmark 1.7, `--benchmark_format=json`; criterion.rs 0.5, files of target/criterion;
cargo-criterion 1.1, `--message-format=json`.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec, Pairs
from benchwright.core.results import Summary
from benchwright.study.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    input_error,
    is_object,
    load_json,
    parse_json,
)
from benchwright.study.foreign.python_tools import blocks_of, moment_ns
from benchwright.study.foreign.units import (
    ELAPSED,
    THROUGHPUT,
    BaseUnit,
    base_unit,
    scaled,
    spec_of,
    stated,
)
from benchwright.study.parsers.api import (
    FileOrigin,
    ParsedInput,
    ParseErrors,
    parse_finite,
    read_mixed_text,
)

# -- Go: one line for each repetition ----------------------------------------------------

_GO_LINE = re.compile(r"Benchmark(\S*)\s+([0-9]+)\s+(.*)\Z")
_GO_HEAD = re.compile(
    rb"^Benchmark\S*[ \t]+[0-9]+[ \t]+[-+.0-9eE]+[ \t]+\S", re.MULTILINE
)
_GO_CONFIGURATION = re.compile(r"([a-z][^\s:A-Z]*):[ \t]*(.*)\Z")
_GO_UNIT = re.compile(r"Unit\s+(\S+)\s+(.*)\Z")
_GO_PROCS = re.compile(r"-[0-9]+\Z")
_GO_EVENT = b'{"Time":'
_GO_NAMES = {
    "sec/op": (ELAPSED, "s"),
    "B/s": (THROUGHPUT, "B/s"),
    "B/op": ("B/op", "B"),
}


class _GoParser:
    name = "benchfmt"
    description = "the output of go test -bench (benchfmt)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether a line near the start of the file is a result, or its first line is an event
        of `go test -json`."""
        if not path.is_file():
            return False
        return bool(_GO_HEAD.search(head)) or (
            head.startswith(_GO_EVENT) and b'"Action":' in head
        )

    def read(self, path: Path) -> list[ParsedInput]:
        """Return one test for each name; a line is a trial. Raises InputError with
        file:line:column."""
        complaints = ParseErrors(path, "benchfmt-syntax")
        text = read_mixed_text(path)
        if text.startswith(_GO_EVENT.decode()):
            text = _go_output(text)
        results = _GoResults(complaints)
        for number, line in enumerate(text.split("\n"), 1):
            results.take(number, line.rstrip("\r"))
        if not results.blocks:
            hint = "write it again: go test -bench . -count 10 > FILE"
            complaints.add((1, 1), "", "there is no line of a benchmark", hint)
        complaints.check()
        return results.tests()


def _go_output(text: str) -> str:
    """Return the output in the events of `go test -json`; an event that is damaged has none."""
    outputs = []
    for line in text.split("\n"):
        try:
            event = parse_json(line) if line else None
        except DamagedJson:
            continue
        if isinstance(event, dict) and isinstance(event.get("Output"), str):
            outputs.append(event["Output"])
    return "".join(outputs)


class _GoResults:
    """Collects results line by line."""

    def __init__(self, complaints: ParseErrors) -> None:
        self.blocks: dict[tuple[str, str], list[MeasurementBlock]] = {}
        self._complaints = complaints
        self._facts: dict[str, str] = {}
        self._better: dict[str, str] = {}
        self._units: dict[str, tuple[str, str]] = {}
        """Unit and direction of each quantity."""

    def take(self, number: int, line: str) -> None:
        """Read one line; what is neither a result nor configuration is skipped."""
        if match := _GO_LINE.fullmatch(line):
            self._result(number, line, match)
        elif match := _GO_UNIT.fullmatch(line):
            for word in match[2].split():
                key, _, value = word.partition("=")
                if key == "better":
                    self._better[_go_tidy(match[1])[1]] = value
        elif match := _GO_CONFIGURATION.fullmatch(line):
            self._facts[match[1]] = match[2].strip()

    def _result(self, number: int, line: str, match: re.Match[str]) -> None:
        words = match[3].split()
        if len(words) % 2:
            place = (number, match.start(3) + 1)
            self._complaints.add(place, line, "a value has no unit, or the line is cut")
            return
        values: dict[str, float] = {}
        for text, unit in zip(words[::2], words[1::2], strict=True):
            value = parse_finite(text)
            if value is None:
                if text.lower().lstrip("+-") in ("nan", "inf"):
                    continue
                place = (number, line.index(text, match.start(3)) + 1)
                self._complaints.add(place, line, f"{unit} is {text!r}, not a number")
                continue
            factor, tidy = _go_tidy(unit)
            name, base = _GO_NAMES.get(tidy, (tidy, ""))
            if math.isfinite(value * factor):
                values[name] = value * factor
                better = self._better.get(tidy) or base_unit(unit).better
                self._units[name] = (base, better)
        key = (match[1] or "Benchmark", self._facts.get("pkg", ""))
        blocks = self.blocks.setdefault(key, [])
        blocks.append(MeasurementBlock(0, len(blocks) + 1, "", 0, values))

    def tests(self) -> list[ParsedInput]:
        """Return one test for each name; with its package where packages share the name."""
        names = Counter(name for name, _ in self.blocks)
        tool = " ".join(filter(None, ("go test", self._facts.get("toolchain", ""))))
        origin = FileOrigin(
            tool=tool,
            commit=self._facts.get("commit", ""),
            commit_time_ns=moment_ns(self._facts.get("commit-time", "")),
            machine=self._facts.get("machine", ""),
        )
        tests = []
        for (name, package), blocks in self.blocks.items():
            there = {value for block in blocks for value in block.values}
            specs = [
                spec_of(quantity, *self._units[quantity])
                for quantity in self._units
                if quantity in there
            ]
            tests.append(
                ParsedInput(
                    name=f"{package}.{name}" if names[name] > 1 else name,
                    blocks=tuple(blocks),
                    specs=tuple(specs),
                    sample=_go_sample(name),
                    origin=origin,
                )
            )
        return tests


@functools.lru_cache(maxsize=256)
def _go_tidy(unit: str) -> tuple[float, str]:
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


def _go_sample(name: str) -> Pairs:
    """Return the keys of a name such as `Gzip/level=9-8`; the number at its end is that of
    GOMAXPROCS."""
    pairs = [
        (key, value)
        for part in _GO_PROCS.sub("", name).split("/")[1:]
        for key, equals, value in [part.partition("=")]
        if equals and key
    ]
    return tuple(dict(pairs).items())


BENCHFMT = _GoParser()


# -- Java: JMH ---------------------------------------------------------------------------
#
# An iteration is a trial, whichever fork ran it. The sampling mode has a histogram of single calls
# instead of values of iterations: its mean, percentiles and JMH's 99.9 % interval are shown as JMH
# states them. MB of the profiler `gc` are 2^20 bytes (its source, GCProfiler).

_JMH_CONFIDENCE = 0.999
_JMH_MIB = ("MB/sec", "MB")


def _is_jmh(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_object(one, "benchmark", "primaryMetric") for one in value)
    )


def _jmh(document: Node) -> list[ParsedInput]:
    results = list(document.elements())
    names = Counter(one["benchmark"].text() for one in results)
    modes: dict[str, set[str]] = {}
    for one in results:
        modes.setdefault(one["benchmark"].text(), set()).add(one["mode"].text())
    return [
        _jmh_benchmark(one, names, several=len(modes[one["benchmark"].text()]) > 1)
        for one in results
    ]


def _jmh_benchmark(result: Node, names: Counter[str], *, several: bool) -> ParsedInput:
    name = result["benchmark"].text()
    sample = [(key, value.text()) for key, value in result["params"].members()]
    if several:
        sample.append(("mode", result["mode"].text()))
    columns: dict[str, list[float | None]] = {}
    specs: list[MetricSpec] = []
    summaries: list[Summary] = []
    secondary = [
        (key, metric)
        for key, metric in result["secondaryMetrics"].members()
        if not re.fullmatch(r"p[0-9]+\.[0-9]+", key)
    ]
    for key, metric in [("", result["primaryMetric"]), *secondary]:
        metric["score"].required("JMH writes a score of each metric")
        unit = _jmh_unit(metric["scoreUnit"].text())
        quantity = key or _JMH_NAMES.get(unit.unit, metric["scoreUnit"].text("score"))
        specs.append(spec_of(quantity, unit.unit, unit.better))
        values = [
            scaled(one, unit.factor)
            for fork in metric["rawData"].elements()
            for one in fork.numbers()
        ]
        if values:
            columns[quantity] = values
        else:
            summaries.append(_jmh_stated(quantity, metric, unit))
    levels = ",".join(f"{key}={value}" for key, value in sample)
    version = result["jmhVersion"].text()
    return ParsedInput(
        name=f"{name}:{levels}" if names[name] > 1 and levels else name,
        blocks=tuple(_rows(columns)),
        specs=tuple(specs),
        sample=tuple(sample),
        summaries=tuple(summaries),
        origin=FileOrigin(tool=f"JMH {version}".rstrip()),
    )


_JMH_NAMES = {"s": ELAPSED, "1/s": THROUGHPUT}


def _jmh_unit(text: str) -> BaseUnit:
    unit = base_unit(text)
    if text in _JMH_MIB:
        return msgspec.structs.replace(unit, factor=2.0**20, better="")
    return unit


def _jmh_stated(name: str, metric: Node, unit: BaseUnit) -> Summary:
    """Return a metric of which there is only what JMH computed."""

    def figure(node: Node) -> float | None:
        return scaled(node.number(), unit.factor)

    percentiles = metric["scorePercentiles"]
    ends = [*map(figure, metric["scoreConfidence"].elements()), None, None]
    count = 0
    for fork in metric["rawDataHistogram"].elements():
        for iteration in fork.elements():
            for pair in iteration.elements():
                count += sum(one.count() for one in list(pair.elements())[1:2])
    return stated(
        name,
        unit.unit,
        count=count,
        mean=figure(metric["score"]),
        median=figure(percentiles["50.0"]),
        ends=(ends[0], ends[1]),
        confidence=_JMH_CONFIDENCE,
        extremes=(figure(percentiles["0.0"]), figure(percentiles["100.0"])),
    )


def _rows(columns: dict[str, list[float | None]]) -> Iterator[MeasurementBlock]:
    """Yield a block for each place of the columns."""
    for at in range(max(map(len, columns.values()), default=0)):
        values = {
            name: value
            for name, column in columns.items()
            if at < len(column) and (value := column[at]) is not None
        }
        yield MeasurementBlock(0, at + 1, "", 0, values)


JMH = JsonFormat(
    name="jmh",
    description="JMH's JSON",
    matches=_is_jmh,
    convert=_jmh,
    marks=(b'"jmhVersion"',),
    hint="write it again: java -jar benchmarks.jar -rf json -rff FILE",
)


# -- C++: Google Benchmark ---------------------------------------------------------------
#
# A repetition is a trial. Aggregates are shown as the file states them only where it has no
# repetitions (`--benchmark_report_aggregates_only`).

_GOOGLE_FIXED = frozenset(
    (
        *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
        *("repetitions", "repetition_index", "threads", "iterations", "time_unit"),
        *("aggregate_name", "aggregate_unit", "label", "error_occurred", "skipped"),
        *("error_message", "skip_message", "real_time", "cpu_time", "big_o", "rms"),
        *("cpu_coefficient", "real_coefficient"),
    )
)
_GOOGLE_RATES = {"bytes_per_second": "B/s", "items_per_second": "1/s"}
_GOOGLE_FIGURES = {"mean": "mean", "median": "median", "stddev": "sdev"}


def _is_google(value: Any) -> bool:
    return (
        is_object(value, "context", "benchmarks")
        and isinstance(value["benchmarks"], list)
        and all(is_object(one, "name") for one in value["benchmarks"])
    )


def _google(document: Node) -> list[ParsedInput]:
    context = document["context"]
    version = context["library_version"].text()
    origin = FileOrigin(
        tool=f"Google Benchmark {version}".rstrip(),
        started_ns=moment_ns(context["date"].text()),
        machine=context["host_name"].text(),
    )
    groups: dict[str, list[Node]] = {}
    for entry in document["benchmarks"].elements():
        name = entry["run_name"].text() or entry["name"].text()
        groups.setdefault(name, []).append(entry)
    return [_google_benchmark(name, group, origin) for name, group in groups.items()]


def _google_benchmark(
    name: str, group: Sequence[Node], origin: FileOrigin
) -> ParsedInput:
    columns: list[MeasurementBlock] = []
    units: dict[str, tuple[str, str]] = {}
    aggregates: dict[str, dict[str, float]] = {}
    count = 0
    for entry in group:
        figure = entry["aggregate_name"].text()
        if entry["run_type"].text("iteration") == "aggregate" or figure:
            if figure in _GOOGLE_FIGURES:
                count = entry["repetitions"].count()
                for quantity, value in _google_values(entry, units).items():
                    aggregates.setdefault(quantity, {})[_GOOGLE_FIGURES[figure]] = value
            continue
        if entry.has("skipped"):
            continue
        failed = entry["error_occurred"].value is True
        values = {} if failed else _google_values(entry, units)
        block = MeasurementBlock(0, len(columns) + 1, name, int(failed), values)
        columns.append(block)
    summaries: list[Summary] = []
    if not columns:
        summaries = [
            stated(
                quantity,
                units[quantity][0],
                count=count,
                mean=found.get("mean"),
                median=found.get("median"),
                sdev=found.get("sdev"),
            )
            for quantity, found in aggregates.items()
        ]
    return ParsedInput(
        name=name,
        blocks=tuple(columns),
        specs=tuple(
            spec_of(quantity, unit, better)
            for quantity, (unit, better) in units.items()
            if better
        ),
        sample=tuple(
            {
                key: value
                for part in name.split("/")[1:]
                for key, colon, value in [part.partition(":")]
                if colon and key
            }.items()
        ),
        summaries=tuple(summaries),
        origin=origin,
    )


def _google_values(entry: Node, units: dict[str, tuple[str, str]]) -> dict[str, float]:
    """Return the quantities of an entry in base units, which are added to `units`: times, rates, and
    the user's counters."""
    factor = base_unit(entry["time_unit"].text("ns")).factor
    values: dict[str, float] = {}
    for key, quantity in (("real_time", ELAPSED), ("cpu_time", "cpu_time")):
        value = scaled(entry[key].number(), factor)
        if value is not None:
            values[quantity] = value
            units[quantity] = ("s", "lower")
    for key, node in entry.members():
        if key in _GOOGLE_FIXED or not isinstance(node.value, int | float):
            continue
        value = node.number()
        if value is not None:
            values[key] = value
            rate = _GOOGLE_RATES.get(key, "")
            units[key] = (rate, "higher" if rate else "")
    return values


GOOGLE_BENCHMARK = JsonFormat(
    name="google-benchmark",
    description="Google Benchmark's JSON",
    matches=_is_google,
    convert=_google,
    marks=(b'"library_build_type"', b'"run_type"'),
    hint="write it again: PROGRAM --benchmark_out=FILE --benchmark_out_format=json",
)


# -- Rust: criterion ----------------------------------------------------------------------
#
# A sample is a trial: its time divided by its iterations. Criterion's own estimate of the time of one
# iteration, the slope, is not a function of equal trials, so it is a quantity of its own, with
# criterion's interval.

_CRITERION_HINT = "give the directory target/criterion, or the lines of cargo criterion --message-format=json"
_MOST_DIRECTORIES = 20_000
_DEEPEST = 5
"""From `target` to the results of a benchmark with a group, a function and a value."""
_SLOPE = "elapsed_slope"
_EVENT = b'{"reason":'


class _CriterionParser:
    name = "criterion"
    description = "criterion's directory, or cargo-criterion's lines of JSON"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the path is a directory with criterion's results, or a file of
        cargo-criterion's lines."""
        if path.is_dir():
            return next(_criterion_places(path), None) is not None
        return head.lstrip().startswith(_EVENT) and path.is_file()

    def read(self, path: Path) -> list[ParsedInput]:
        """Return one test for each benchmark. Raises InputError with all mistakes."""
        problems = Problems(path, self.name, _CRITERION_HINT)
        if path.is_dir():
            found = [
                _criterion_test(place, problems) for place in _criterion_places(path)
            ]
        else:
            found = _criterion_lines(path, problems)
        problems.check()
        if not found:
            message = f"{path} contains no benchmark"
            raise input_error(path, self.name, message, _CRITERION_HINT)
        return sorted(found, key=lambda one: one.name) if path.is_dir() else found


def _criterion_places(path: Path) -> Iterator[Path]:
    """Yield the directories `new` with the newest results of each benchmark."""
    if (path / "benchmark.json").is_file() and (path / "estimates.json").is_file():
        yield path
        return
    walk = itertools.islice(os.walk(path), _MOST_DIRECTORIES)
    for place, directories, files in walk:
        depth = len(Path(place).relative_to(path).parts)
        if depth >= _DEEPEST:
            directories.clear()
        directories[:] = sorted(
            name for name in directories if name not in ("base", "report", "change")
        )
        if "benchmark.json" in files and "estimates.json" in files:
            yield Path(place)


def _criterion_test(place: Path, problems: Problems) -> ParsedInput:
    def document(name: str) -> Node:
        try:
            return Node(load_json(place / name), problems, name)
        except (DamagedJson, OSError) as error:
            problems.add(str(place / name), f"cannot be read: {error}")
            return Node(None, problems, name)

    about, estimates = document("benchmark.json"), document("estimates.json")
    name = about["full_id"].text() or about["group_id"].text(place.parent.name)
    blocks: tuple[MeasurementBlock, ...] = ()
    if (place / "sample.json").is_file():
        sample = document("sample.json")
        blocks = _criterion_blocks(
            sample["iters"].numbers(), sample["times"].numbers(), 1e-9
        )
    by_name = {key.lower(): value for key, value in estimates.members()}

    def estimate(key: str) -> tuple[float | None, float | None, float | None, float]:
        node = by_name.get(key, Node(None, problems))
        ends = node["confidence_interval"]
        return (
            node["point_estimate"].number(),
            ends["lower_bound"].number(),
            ends["upper_bound"].number(),
            ends["confidence_level"].number() or math.nan,
        )

    levels = [
        (factor, about[key].text())
        for factor, key in (("function", "function_id"), ("value", "value_str"))
        if about.has(key)
    ]
    return ParsedInput(
        name=name,
        blocks=blocks,
        specs=(spec_of(ELAPSED, "s", "lower"), spec_of(_SLOPE, "s", "lower"))
        if "slope" in by_name and by_name["slope"].value
        else (spec_of(ELAPSED, "s", "lower"),),
        sample=tuple(levels),
        summaries=tuple(
            _criterion_stated(
                {key: estimate(key) for key in ("mean", "median", "slope")},
                1e-9,
                has_values=bool(blocks),
            )
        ),
        origin=FileOrigin(tool="criterion"),
    )


def _criterion_blocks(
    iterations: Sequence[float | None], times: Sequence[float | None], factor: float
) -> tuple[MeasurementBlock, ...]:
    """Return the time of one iteration in each sample."""
    return blocks_of(
        ELAPSED,
        [
            None if not count else scaled(scaled(time, factor), 1 / count)
            for count, time in zip(iterations, times, strict=False)
        ],
    )


def _criterion_stated(
    estimates: dict[str, tuple[float | None, float | None, float | None, float]],
    factor: float,
    *,
    has_values: bool,
) -> Iterator[Summary]:
    """Yield criterion's slope; and its mean, if there are no values."""
    median = estimates["median"][0]
    for name, key in ((ELAPSED, "mean"), (_SLOPE, "slope")):
        value, low, high, confidence = estimates[key]
        if value is None or (name == ELAPSED and has_values):
            continue
        yield stated(
            name,
            "s",
            mean=scaled(value, factor),
            median=None if key == "slope" else scaled(median, factor),
            ends=(scaled(low, factor), scaled(high, factor)),
            confidence=confidence,
        )


def _criterion_lines(path: Path, problems: Problems) -> list[ParsedInput]:
    """Return the tests of cargo-criterion's lines, of which other kinds are skipped."""
    found = []
    for number, line in enumerate(_lines(path), 1):
        if not line.startswith("{"):
            continue
        try:
            node = Node(parse_json(line), problems, f"line {number}")
        except DamagedJson as error:
            problems.add(f"line {number}", f"is damaged: {error}")
            continue
        if node["reason"].text() == "benchmark-complete":
            found.append(_criterion_event(node))
    return found


def _lines(path: Path) -> Iterable[str]:
    with path.open(encoding="utf-8", errors="backslashreplace") as file:
        yield from file


def _criterion_event(event: Node) -> ParsedInput:
    unit = base_unit(event["unit"].text("ns"))
    blocks = _criterion_blocks(
        event["iteration_count"].numbers(),
        event["measured_values"].numbers(),
        unit.factor,
    )
    estimates = {}
    for key in ("mean", "median", "slope"):
        node = event[key]
        ends = (node["lower_bound"].number(), node["upper_bound"].number())
        # cargo-criterion does not write the confidence of its intervals.
        estimates[key] = (node["estimate"].number(), *ends, math.nan)
    summaries = tuple(
        _criterion_stated(estimates, unit.factor, has_values=bool(blocks))
    )
    names = dict.fromkeys((ELAPSED, *(one.name for one in summaries)))
    return ParsedInput(
        name=event["id"].text("benchmark"),
        blocks=blocks,
        specs=tuple(spec_of(name, "s", "lower") for name in names),
        summaries=summaries,
        origin=FileOrigin(tool="cargo-criterion"),
    )


CRITERION = _CriterionParser()
