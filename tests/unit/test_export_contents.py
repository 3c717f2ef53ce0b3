"""What a session has and a file of `bw export` has not is named; what it has is in base units, and
is read again.

Each test is of every format, so that a new one is in it too.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import exported_session
from benchwright.core.comparison import Better
from benchwright.core.results import Estimate
from benchwright.features.exchange.export import (
    FORMATS,
    Exported,
    ExportMetric,
    ExportTest,
    ExportTrial,
    ExportView,
)
from benchwright.features.exchange.export.view import refusal, unit_of
from benchwright.features.exchange.foreign import PARSERS
from benchwright.findings.result import TestResult
from benchwright.stats.aggregate import TIMES
from benchwright.study.parsers.api import content_head

FOR_PEOPLE = ("junit", "markdown")
"""Values have their own unit beside them."""
OF_LOADS = ("openmetrics-intervals", "hlog", "hgrm")
OF_STREAMS = ("vllm", "aiperf", "guidellm")
READABLE = (
    *("hyperfine", "pyperf", "benchfmt", "jmh", "google-benchmark"),
    *("github-action-benchmark", "otava"),
)
METRICS: tuple[tuple[str, str, Better, float], ...] = (
    ("lat", "ms", "lower", 123.4567),
    ("speed", "MB/s", "higher", 765.4321),
    ("delay_ms", "ms", "lower", 87.65432),
    ("cost", "us/op", "lower", 43.21987),
    ("rate_per_s", "/s", "higher", 2345.678),
    ("elapsed", "s", "lower", 0.3456789),
    ("user", "s", "lower", 0.2345678),
    ("rss_bytes", "B", "lower", 3456789.0),
    ("iterations", "", "lower", 9876.543),
)


def view_with(main: str = "lat", *, of_loads: bool = False) -> ExportView:
    """Return a session with a test `alpha`, one that failed, `broken`, and one with loads, `web`."""
    loads: ExportView = exported_session.loads()
    order = sorted(METRICS, key=lambda one: one[0] != main)
    values = {name: value for name, _, _, value in order}
    trials = [_trial(at, values, ok=True) for at in (1, 2)]
    alpha = ExportTest(
        name="alpha",
        base="alpha",
        keys=(),
        command="alpha",
        metrics=tuple(
            ExportMetric(
                name=name,
                label=name,
                unit=unit,
                better=better,
                estimate=Estimate(value, value, value, 0.95, "student-t", 2, unit),
                values=(value, value),
            )
            for name, unit, better, value in order
        ),
        trials=tuple(trials),
        state="answered",
        reason="2 trials",
    )
    broken = msgspec.structs.replace(
        alpha,
        name="broken",
        base="broken",
        metrics=(),
        trials=(_trial(1, values, ok=False),),
        state="failed",
        reason="it failed",
    )
    tests = (alpha, broken, *(loads.tests if of_loads else ()))
    shown = loads.loads if of_loads else ()
    view: ExportView = msgspec.structs.replace(loads, tests=tests, loads=shown)
    return view


def _trial(at: int, values: dict[str, float], *, ok: bool) -> ExportTrial:
    return ExportTrial(
        epoch=at,
        started_ns=exported_session.START_NS + at * 10**9,
        duration_ns=10**8,
        status=0 if ok else 1,
        ok=ok,
        warmup=False,
        values=values,
    )


def texts_of(exported: Exported) -> str:
    return "\n".join([exported.text, *(text for _, text in exported.beside)])


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text)]


def is_named(exported: Exported, name: str) -> bool:
    return any(
        re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", one) for one in exported.left_out
    )


@pytest.mark.parametrize("name", [one for one in FORMATS if one not in OF_STREAMS])
def test_a_test_is_in_the_file_or_is_named(name: str) -> None:
    view = view_with(of_loads=True)
    exported = FORMATS[name].write(view)
    text = texts_of(exported).lower()
    for test in view.tests:
        is_there = test.name in text or (test.name == "web" and name == "hgrm")
        if name == "hlog":  # One load has no tag, two are named.
            is_there = f"{test.name}:" in text
        assert is_there or is_named(exported, test.name), (test.name, exported.left_out)


@pytest.mark.parametrize("name", [one for one in FORMATS if one not in (*OF_LOADS, *OF_STREAMS)])
def test_a_metric_is_in_the_file_in_its_base_unit_or_is_named(name: str) -> None:
    view = view_with()
    exported = FORMATS[name].write(view)
    text = texts_of(exported)
    found = numbers(text)
    for metric in view.tests[0].metrics:
        figure, own = metric.base_value, metric.estimate.value
        if name in FOR_PEOPLE:
            is_there = metric.name in text or "123.5 ms" in text
            assert is_there or is_named(exported, metric.name), metric.name
            continue
        scaled = (figure, figure * 1e9)  # Nanoseconds where the format has them.
        is_there = any(one == pytest.approx(s, rel=1e-6) for one in found for s in scaled)
        assert is_there or is_named(exported, metric.name), metric.name
        if figure != own:
            assert own not in found, f"{metric.name} is in {metric.unit}"


@pytest.mark.parametrize("main", [name for name, *_ in METRICS])
@pytest.mark.parametrize("name", READABLE)
def test_what_is_in_a_file_is_read_again(name: str, main: str, tmp_path: Path) -> None:
    view = view_with(main)
    if name == "pyperf" and view.tests[0].metrics[0].better == "higher":
        with pytest.raises(type(refusal("", ""))):
            FORMATS[name].write(view)
        return
    exported = FORMATS[name].write(view)
    text = exported.beside[0][1] if exported.beside else exported.text
    read = parsed(tmp_path, text)
    found = [(quantity, unit, value) for one in read for quantity, unit, value in figures_of(one)]
    for metric in view.tests[0].metrics:
        same = [
            (quantity, unit)
            for quantity, unit, value in found
            if value == pytest.approx(metric.base_value, rel=1e-6)
        ]
        if is_named(exported, metric.name) and not same:
            continue
        assert same, f"{metric.name} is not in the file, and is not named"
        quantity, unit = same[0]
        assert says_unit(quantity, unit, metric.base.name) or is_named(
            exported, metric.base_name
        ), (metric.name, quantity, unit)


def says_unit(quantity: str, unit: str, base: str) -> bool:
    """Return whether a figure that was read has its base unit: beside it, in its name, or as every
    figure of that name has it."""
    if quantity in TIMES:
        return base in ("s", "s/op")
    said = f"{quantity} {unit} {unit_of(quantity, '')}"
    # A time of an operation is a time to the readers.
    return base.removesuffix("/op") in said.replace("bytes", "B").replace("sec", "s")


def parsed(folder: Path, text: str) -> list[TestResult]:
    """Return what the parser of a text reads in it."""
    path = folder / "file"
    path.write_text(text)
    head = content_head(path, 4096)
    return next(one for one in PARSERS if one.detect(path, head)).read(path)


def figures_of(one: TestResult) -> list[tuple[str, str, float]]:
    """Return the name, the unit and the value of each quantity of a test."""
    units = {spec.name: spec.unit for spec in one.specs}
    found = [(s.name, s.unit, s.mean) for s in one.summaries]
    for block in one.blocks:
        found += [(name, units.get(name, ""), v) for name, v in block.values.items()]
    return found


JMH = """[{"jmhVersion": "1.37", "benchmark": "b", "mode": "%s", "primaryMetric": {
"score": 0.5, "scoreUnit": "%s", "rawData": [[0.5]]}, "secondaryMetrics": {"%s": {
"score": 0.25, "scoreUnit": "%s", "rawData": [[0.25]]}}}]"""
GOOGLE = """{"context": {"library_build_type": "release"}, "benchmarks": [{"name": "b",
"run_type": "iteration", "iterations": 1, "real_time": 0.5, "cpu_time": 0.125, "time_unit": "s",
"%s": 0.25}]}"""
ACTION = r'[{"name": "b", "unit": "s/op\t 8 B/s\t 0.125 ops/s\t 0.25 %s", "value": 0.5}]'
GO = "BenchmarkA-2 1 0.5 sec/op 8 B/s\nBenchmarkB-2 1 0.5 sec/op 8 B/s 0.25 %s\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JMH % ("avgt", "s/op", "elapsed", "s/op"), {"score": 0.5, "elapsed": 0.25}),
        (JMH % ("thrpt", "ops/s", "throughput", "ops/s"), {"score": 0.5, "throughput": 0.25}),
        (JMH % ("avgt", "x", "x", "x"), {"score": 0.5, "x": 0.25}),
        (JMH % ("avgt", "s/op", "p99.9", "s/op"), {"elapsed": 0.5, "p99.9": 0.25}),
        (GOOGLE % "elapsed", {"real_time": 0.5, "cpu_time": 0.125, "elapsed": 0.25}),
        (GO % "elapsed", {"sec/op": 0.5, "throughput": 8.0, "elapsed": 0.25}),
        (ACTION % "elapsed", {"s/op": 0.5, "throughput": 8.0, "ops/s": 0.125, "elapsed": 0.25}),
        (ACTION % "throughput", {"elapsed": 0.5, "B/s": 8.0, "ops/s": 0.125, "throughput": 0.25}),
        (GO % "throughput", {"elapsed": 0.5, "B/s": 8.0, "throughput": 0.25}),
    ],
)
def test_no_quantity_of_a_file_replaces_another(
    text: str, expected: dict[str, float], tmp_path: Path
) -> None:
    (*_, one) = parsed(tmp_path, text)
    (block,) = one.blocks
    assert block.values == expected


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (218062.0, 218062.0, 218062.0),
        (218062.0, 218061.9, 218062.1),
        (218062.0, 218062.0, 219999.7),
        (1.23456789e-7, 1.23456788e-7, 1.2345679e-7),
        (0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2),
        (1.23456789e14, 1.23456788e14, 1.23456799e14),
        (-5.00049, -5.00051, -5.00048),
    ],
)
def test_a_value_is_between_the_ends_that_are_printed(
    value: float, low: float, high: float
) -> None:
    view = view_with()
    (alpha, *_) = view.tests
    metric = msgspec.structs.replace(
        alpha.metrics[0], unit="s", estimate=Estimate(value, low, high, 0.95, "student-t", 2, "s")
    )
    test = msgspec.structs.replace(alpha, metrics=(metric,))
    view = msgspec.structs.replace(view, tests=(test,))
    text = FORMATS["github-action-benchmark"].write(view).text
    (ends,) = re.findall(r"interval (\S+) to ([^\\]+)\\n", text)
    printed = [float(one.replace(",", "")) for one in ends]
    assert printed[0] <= value <= printed[1]
    assert printed[1] - printed[0] <= 1.05 * (high - low)


def test_an_earlier_session_without_a_value_is_named_in_a_series() -> None:
    view = view_with()
    whole = msgspec.structs.replace(view, tests=view.tests[:1])
    series = msgspec.structs.replace(
        whole, session=2, earlier=(msgspec.structs.replace(view, session=1),)
    )
    left_out = FORMATS["otava"].write(series).left_out
    assert "session 1 of broken is left out: it has no value" in left_out
