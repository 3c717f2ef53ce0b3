"""Results of benchmark libraries of compiled languages: Java, C++, Rust.

Sources: JMH 1.37, `-rf json`; Google Benchmark 1.4 to 1.9, `--benchmark_format=json`; criterion.rs
0.3.0 to
0.7, files of target/criterion; cargo-criterion 1.1, `--message-format=json`.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec, Pairs
from benchwright.core.results import Summary
from benchwright.core.untrusted import one_line
from benchwright.features.exchange.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    is_object,
    json_lines,
    load_json,
)
from benchwright.features.exchange.foreign.python_tools import blocks_of, moment_ns
from benchwright.features.exchange.foreign.units import (
    CPUS,
    ELAPSED,
    THROUGHPUT,
    facts_of,
    free_name,
    stated,
    stated_machine,
)
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.units import BaseUnit, base_unit, scaled, spec_of

# -- Java: JMH ---------------------------------------------------------------------------
#
# An iteration is a trial, whichever fork ran it. The sampling mode has a histogram of single calls
# instead of values of iterations: its mean, percentiles and JMH's 99.9 % interval are shown as JMH
# states them. MB of the profiler `gc` are 2^20 bytes (its source, GCProfiler).

_JMH_FACTS = ("jvm", "jdkVersion", "vmName", "vmVersion")
_JMH_CONFIDENCE = 0.999
_JMH_MIB = ("MB/sec", "MB")
_JMH_EVENTS = "#"
"""Unit of event counters: whether more are better, no unit says, so they are not declared."""


def _is_jmh(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_object(one, "benchmark", "primaryMetric") for one in value)
    )


def _jmh(document: Node) -> list[TestResult]:
    results = list(document.elements())
    names = Counter(result["benchmark"].text() for result in results)
    stated: dict[str, dict[str, set[str]]] = {}
    for node in results:
        own = stated.setdefault(node["benchmark"].text(), {})
        for key in _JMH_LEVELS:
            own.setdefault(key, set()).add(node[key].text())
    return [_jmh_benchmark(result, names, stated) for result in results]


def _jmh_benchmark(
    result: Node, names: Counter[str], stated: Mapping[str, Mapping[str, set[str]]]
) -> TestResult:
    result["benchmark"].required("JMH writes the name of each benchmark")
    name = result["benchmark"].text()
    sample = [(key, value.text()) for key, value in result["params"].members()]
    several = [key for key in _JMH_LEVELS if len(stated[name][key]) > 1]
    sample += [(key, result[key].text()) for key in several]
    columns: dict[str, list[float | None]] = {}
    specs: list[MetricSpec] = []
    summaries: list[Summary] = []
    is_sampled = result["mode"].text() == "sample"
    secondary = [
        (key, metric)
        for key, metric in result["secondaryMetrics"].members()
        # The percentiles of the sampling mode.
        if not (is_sampled and re.fullmatch(r"p[0-9]+\.[0-9]+", key))
    ]
    taken = {key for key, _ in secondary}
    for key, metric in [("", result["primaryMetric"]), *secondary]:
        for member in ("score", "scoreUnit"):
            metric[member].required(f"JMH writes a {member} of each metric")
        unit = _jmh_unit(metric["scoreUnit"].text())
        usual = _JMH_NAMES.get(unit.unit, metric["scoreUnit"].text())
        quantity = key or free_name(taken, result["bwMetric"].text(), usual, "score")
        if unit.unit != _JMH_EVENTS:
            specs.append(spec_of(quantity, unit.unit, unit.better))
        values = [
            scaled(one, unit.factor)
            for fork in metric["rawData"].elements()
            if fork.required("JMH writes the iterations of each fork")
            for one in fork.numbers()
        ]
        if values:
            columns[quantity] = values
        else:
            summaries.append(_jmh_stated(quantity, metric, unit))
    levels = ",".join(f"{key}={value}" for key, value in sample)
    version = result["jmhVersion"].text()
    return TestResult(
        name=f"{name}:{levels}" if names[name] > 1 and levels else name,
        blocks=tuple(_rows(columns)),
        specs=tuple(specs),
        sample=tuple(sample),
        settings=_jmh_settings(result),
        summaries=tuple(summaries),
        machine=stated_machine(facts_of(result, *_JMH_FACTS)),
        origin=FileOrigin(tool=f"JMH {version}".rstrip()),
    )


def _jmh_settings(result: Node) -> Pairs:
    facts = facts_of(result, *_JMH_SETTINGS)
    if result.has("jvmArgs"):
        arguments = [element.text() for element in result["jvmArgs"].elements()]
        facts["jvmArgs"] = " ".join(arguments)
    return tuple(facts.items())


_JMH_LEVELS = ("mode", "threads", "forks")
_JMH_SETTINGS = ("mode", "threads", "forks", "measurementBatchSize")
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
                count += sum(element.count() for element in list(pair.elements())[1:2])
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
    mark=re.compile(rb'"jmhVersion"'),
    hint="write it again: java -jar benchmarks.jar -rf json -rff FILE",
)


# -- C++: Google Benchmark ---------------------------------------------------------------
#
# A repetition is a trial. Aggregates are shown as the file states them only where it has no
# repetitions (`--benchmark_report_aggregates_only`). The fit of `Complexity()` (BigO, RMS) follows
# from the results, and is none. Before version 1.5 an entry does not say what it is; its name does.

_GOOGLE_FIXED = frozenset(
    (
        *("name", "family_index", "per_family_instance_index", "run_name", "run_type"),
        *("repetitions", "repetition_index", "threads", "iterations", "time_unit"),
        *("aggregate_name", "aggregate_unit", "label", "error_occurred", "skipped"),
        *("error_message", "skip_message", "real_time", "cpu_time"),
    )
)
_GOOGLE_RATES = {"bytes_per_second": "B/s", "items_per_second": "1/s"}
_GOOGLE_FIGURES = {"mean": "mean", "median": "median", "stddev": "sdev"}
_GOOGLE_DERIVED = ("cv", "BigO", "RMS")
_GOOGLE_FIT = ("cpu_coefficient", "rms")


_GOOGLE_OWN = ("num_cpus", "library_build_type", "real_time", "run_type")
"""Members of a context or of a benchmark."""


def _is_google(value: Any) -> bool:
    return (
        is_object(value, "context", "benchmarks")
        and isinstance(value["benchmarks"], list)
        and all(is_object(one, "name") for one in value["benchmarks"])
        and any(
            is_object(one, key)
            for one in (value["context"], *value["benchmarks"])
            for key in _GOOGLE_OWN
        )
    )


def _google(document: Node) -> list[TestResult]:
    context = document["context"]
    version = context["library_version"].text()
    origin = FileOrigin(
        tool=f"Google Benchmark {version}".rstrip(),
        started_ns=moment_ns(context["date"].text()),
        machine=context["host_name"].text(),
    )
    groups: dict[tuple[str, ...], list[tuple[str, Node]]] = {}
    for (name, figure), entry in _google_entries(document["benchmarks"]):
        # The indices tell benchmarks with one name apart.
        place = (entry[key].text() for key in _GOOGLE_INDICES)
        groups.setdefault((name, *place), []).append((figure, entry))
    machine = stated_machine(_google_machine(context))
    tests = (_google_test(key[0], group, origin) for key, group in groups.items())
    return [
        msgspec.structs.replace(test, machine=machine)
        for test in tests
        if test.blocks or test.summaries
    ]


def _google_machine(context: Node) -> dict[str, str]:
    """Return the facts of the context; the frequency, which can be that of the moment, to 100 MHz."""
    frequency = context["mhz_per_cpu"].number()
    caches = (
        f"L{element['level'].text()} {element['type'].text()} {element['size'].text()}"
        for element in context["caches"].elements()
    )
    return facts_of(context, *_GOOGLE_FACTS) | {
        CPUS: context["num_cpus"].text(),
        "mhz_per_cpu": f"about {round(frequency, -2):.0f}" if frequency else "",
        "caches": ", ".join(caches),
    }


_GOOGLE_FACTS = ("host_name", "cpu_scaling_enabled", "library_build_type")


_GOOGLE_INDICES = ("family_index", "per_family_instance_index")


def _google_entries(benchmarks: Node) -> Iterator[tuple[tuple[str, str], Node]]:
    """Yield each result with the benchmark's name and the name of its aggregate, empty for a
    repetition."""
    entries = list(benchmarks.elements())
    typed = any(entry.has("run_type") for entry in entries)
    names = {entry["name"].text() for entry in entries}
    base = ""
    for entry in entries:
        name, figure = entry["name"].text(), entry["aggregate_name"].text()
        if any(entry.has(key) for key in _GOOGLE_FIT) and not entry.has("iterations"):
            continue
        before, _, last = name.rpartition("_")
        if not typed and last in _GOOGLE_FIGURES and f"{before}_stddev" in names:
            name = base = before
            figure = last
        elif not typed and base and name.startswith(f"{base}_"):
            # A statistic of the user's stands behind the three others.
            name, figure = base, name.removeprefix(f"{base}_")
        elif typed and (entry["run_type"].text() == "aggregate" or figure):
            name, figure = entry["run_name"].text(name), figure or "aggregate"
        else:
            name, base = entry["run_name"].text(name), ""
        yield (name, figure), entry


def _google_test(name: str, group: Sequence[tuple[str, Node]], origin: FileOrigin) -> TestResult:
    columns: list[MeasurementBlock] = []
    units: dict[str, tuple[str, str]] = {}
    aggregates: dict[str, dict[str, float]] = {}
    count = 0
    for figure, entry in group:
        if figure in _GOOGLE_FIGURES:
            count = entry["repetitions"].count()
            for quantity, value in _google_values(entry, units).items():
                aggregates.setdefault(quantity, {})[_GOOGLE_FIGURES[figure]] = value
        elif figure:
            if figure not in _GOOGLE_DERIVED:
                entry.not_read(f"statistic {figure} of {name}")
        elif entry["skipped"].value:
            why = entry["skip_message"].text("without a message")
            entry.not_read(f"{name} was skipped: {why}")
        else:
            failed = entry["error_occurred"].value is True
            values = {} if failed else _google_values(entry, units)
            why = entry["error_message"].text() or "without a message"
            columns.append(
                MeasurementBlock(
                    thread=0,
                    epoch=len(columns) + 1,
                    command=name,
                    status=int(failed),
                    values=values,
                    failure=one_line(why) if failed else "",
                )
            )
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
    return TestResult(
        name=name,
        blocks=tuple(columns),
        specs=tuple(
            spec_of(quantity, unit, better) for quantity, (unit, better) in units.items() if better
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
    """Return the quantities of an entry in base units, which are added to `units`: times, rates,
    and the user's counters."""
    factor = base_unit(entry["time_unit"].text("ns")).factor
    values: dict[str, float] = {}
    taken = [key for key, _ in entry.members() if key not in _GOOGLE_FIXED]
    for key, usual in (("real_time", ELAPSED), ("cpu_time", "cpu_time")):
        quantity = free_name(taken, usual, key)
        value = scaled(entry[key].number(), factor)
        if value is not None:
            values[quantity] = value
            units[quantity] = ("s", "lower")
    for key, node in entry.members():
        counter = isinstance(node.value, int | float) or key in _GOOGLE_RATES
        if key in _GOOGLE_FIXED or not counter:
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
    mark=re.compile(rb'"library_build_type"|"run_type":\s*"(iteration|aggregate)"'),
    hint="write it again: PROGRAM --benchmark_out=FILE --benchmark_out_format=json",
)


# -- Rust: criterion ----------------------------------------------------------------------
#
# A sample is a trial: its time divided by its iterations. Criterion's own estimate of the time of
# one iteration, the slope, is not a function of equal trials, so it is a quantity of its own, with
# criterion's interval.

_CRITERION_HINT = (
    "give the directory target/criterion, or the lines of cargo criterion --message-format=json"
)
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
            return any(
                (criterion_place / "estimates.json").is_file()
                for criterion_place in _criterion_places(path)
            )
        return head.lstrip().startswith(_EVENT) and path.is_file()

    def read(self, path: Path) -> list[TestResult]:
        """Return one test for each benchmark, and one for each of its named baselines. A benchmark
        of a directory that cannot be read is named, and the others are read. Raises InputError."""
        problems = Problems(path, self.name, _CRITERION_HINT)
        if not path.is_dir():
            return problems.results(_criterion_lines(path, problems))
        tests = []
        for place in _criterion_places(path):
            own = Problems(place, self.name, _CRITERION_HINT)
            test = _criterion_test(place, own, named=place != path)
            if not (test.blocks or test.summaries):
                own.add("", "has no sample and no estimate")
            if own.mistakes:
                problems.not_read(str(place.relative_to(path)), own.mistakes[0])
            else:
                tests.append(test)
        return problems.results(sorted(tests, key=lambda one: one.name))


def _criterion_places(path: Path) -> Iterator[Path]:
    """Yield the directories with results of a benchmark: `new`, and named baselines. `base` is the
    run before `new`."""
    if (path / _ABOUT).is_file():
        yield path
        return
    walk = itertools.islice(os.walk(path), _MOST_DIRECTORIES)
    for name, directories, files in walk:
        place = Path(name)
        if len(place.relative_to(path).parts) >= _DEEPEST:
            directories.clear()
        directories.sort()
        before = place.name == "base" and (place.parent / _NEW / _ABOUT).is_file()
        if _ABOUT in files and not before:
            yield place


_ABOUT = "benchmark.json"
_NEW = "new"


_CRITERION_WORK = ("Elements", "Bytes", "BytesDecimal", "Bits")
"""How much work a call does, if the benchmark says it."""


def _criterion_test(place: Path, problems: Problems, *, named: bool) -> TestResult:
    def document(name: str) -> Node:
        try:
            return Node(load_json(place / name), problems, name)
        except (DamagedJson, OSError, InputError) as error:
            problems.add(name, f"cannot be read: {error}")
            return Node(None, problems, name)

    about, estimates = document(_ABOUT), document("estimates.json")
    name = about["full_id"].text() or about["group_id"].text(place.parent.name)
    if named and place.name != _NEW:
        name = f"{name} ({place.name})"
    blocks: tuple[MeasurementBlock, ...] = ()
    if (place / "sample.json").exists():
        blocks = _criterion_blocks(*_criterion_sample(document("sample.json")), 1e-9)
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
    return TestResult(
        name=name,
        blocks=blocks,
        specs=(spec_of(ELAPSED, "s", "lower"), spec_of(_SLOPE, "s", "lower"))
        if "slope" in by_name and by_name["slope"].value
        else (spec_of(ELAPSED, "s", "lower"),),
        sample=tuple(levels),
        settings=tuple(facts_of(about["throughput"], *_CRITERION_WORK).items()),
        summaries=tuple(
            _criterion_stated(
                {key: estimate(key) for key in ("mean", "median", "slope")},
                1e-9,
                has_values=bool(blocks),
            )
        ),
        origin=FileOrigin(tool="criterion"),
    )


def _criterion_sample(sample: Node) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Return the iterations and the times of each sample: two arrays in versions before 0.3.3,
    members of an object since then."""
    if isinstance(sample.value, list):
        both = [element.numbers() for element in sample.elements()]
    else:
        both = [sample[key].numbers() for key in ("iters", "times")]
    if len(both) != 2 or len(both[0]) != len(both[1]) or 0 in both[0]:
        sample.wrong("is not a time for each number of iterations")
        return (), ()
    return both[0], both[1]


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


def _criterion_lines(path: Path, problems: Problems) -> list[TestResult]:
    """Return the tests of cargo-criterion's lines, of which other kinds are skipped."""
    tests = []
    for node in json_lines(path, problems, "{"):
        if node["reason"].text() == "benchmark-complete":
            tests.append(_criterion_event(node))
    return tests


def _criterion_event(event: Node) -> TestResult:
    unit = base_unit(event["unit"].text("ns"))
    blocks = _criterion_blocks(
        event["iteration_count"].numbers(), event["measured_values"].numbers(), unit.factor
    )
    estimates = {}
    for key in ("mean", "median", "slope"):
        node = event[key]
        ends = (node["lower_bound"].number(), node["upper_bound"].number())
        # cargo-criterion does not write the confidence of its intervals.
        estimates[key] = (node["estimate"].number(), *ends, math.nan)
    summaries = tuple(_criterion_stated(estimates, unit.factor, has_values=bool(blocks)))
    names = dict.fromkeys((ELAPSED, *(summary.name for summary in summaries)))
    return TestResult(
        name=event["id"].text("benchmark"),
        blocks=blocks,
        specs=tuple(spec_of(name, "s", "lower") for name in names),
        summaries=summaries,
        origin=FileOrigin(tool="cargo-criterion"),
    )


CRITERION = _CriterionParser()
