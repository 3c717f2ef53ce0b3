"""Results of load generators for servers of language models: vLLM's `bench serve`, AIPerf, guidellm.

A run is one trial whose values are the figures that the tool states, under its names without their
unit (`mean_ttft`, `time_to_first_token_p99`). A file that has the requests too is a test whose
trials are the requests, in the order of their starts; the figures are stated beside them. Decision:
the names are never translated, because `itl` and `tpot` mean something else in each of the three
(docs/language-models.md has the table). The requests of a file are only read if they give the
figures that it states; where they do not, they are named, and the figures are read.
Sources: vllm/benchmarks/serve.py (`calculate_metrics`, `main_async`), with `latencies` and an older
state without; AIPerf 0.13, exporters/metrics_json_exporter.py; guidellm 0.8,
schemas/base/request_stats.py and benchmark/schemas/metrics.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec
from benchwright.core.results import Summary
from benchwright.features.exchange.foreign.json_file import (
    DamagedJson,
    JsonFormat,
    Node,
    Problems,
    is_object,
    json_lines,
    load_json,
    parse_json,
)
from benchwright.features.exchange.foreign.load_tools import RunValues
from benchwright.features.exchange.foreign.python_tools import epoch_ns, moment_ns
from benchwright.features.exchange.foreign.units import stated
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import read_mixed_text
from benchwright.study.parsers.units import BaseUnit, base_unit, scaled, spec_of

_SAME = 1e-6
"""Relative difference of two means that are the same but for the order of their sum."""
_PLAIN = BaseUnit(1.0, "")


class _Requests:
    """The requests of a run, as columns of one length."""

    def __init__(self, count: int) -> None:
        self.columns: dict[str, list[float | None]] = {}
        self.failures = [""] * count
        self.started: list[float] = [float(at) for at in range(count)]

    def blocks(self) -> tuple[MeasurementBlock, ...]:
        """Return a block for each request, in the order of their starts."""
        order = sorted(range(len(self.failures)), key=self.started.__getitem__)
        return tuple(
            MeasurementBlock(
                thread=0,
                epoch=epoch,
                command="",
                status=1 if self.failures[at] else 0,
                values={
                    name: value
                    for name, column in self.columns.items()
                    if (value := column[at]) is not None and not self.failures[at]
                },
                failure=self.failures[at],
            )
            for epoch, at in enumerate(order, 1)
        )

    def mean(self, name: str, weights: Sequence[float | None] = ()) -> float | None:
        """Return the mean of a column over the requests that succeeded, with weights if there are
        any."""
        rows = zip(self.columns[name], weights or [1.0] * len(self.failures), strict=True)
        found = [
            (value * weight, weight)
            for (value, weight), failure in zip(rows, self.failures, strict=True)
            if value is not None and weight is not None and not failure
        ]
        whole = math.fsum(weight for _, weight in found)
        return math.fsum(value for value, _ in found) / whole if whole else None


def _agree(one: float | None, other: float | None) -> bool:
    return one is None or other is None or math.isclose(one, other, rel_tol=_SAME, abs_tol=1e-12)


def _test(
    name: str,
    run: RunValues,
    requests: _Requests | None,
    specs: Iterable[MetricSpec] = (),
    *,
    origin: FileOrigin,
    settings: Iterable[tuple[str, str]] = (),
    failure: str = "",
) -> TestResult:
    """Return the test of a run: its requests with the figures beside them, or the figures as the
    values of one trial."""
    if requests is None:
        block = MeasurementBlock(0, 1, "", 1 if failure else 0, run.values, failure=failure)
        return TestResult(
            name=name,
            blocks=(block,) if run.values else (),
            specs=tuple(run.specs),
            settings=tuple(settings),
            origin=origin,
        )
    units = {spec.name: spec.unit for spec in run.specs}
    summaries: list[Summary] = [
        stated(figure, units.get(figure, ""), mean=value) for figure, value in run.values.items()
    ]
    return TestResult(
        name=name,
        blocks=requests.blocks(),
        specs=(*specs, *run.specs),
        settings=tuple(settings),
        summaries=tuple(summaries),
        origin=origin,
    )


def _there(names: Sequence[str], run: RunValues, requests: _Requests | None) -> tuple[str, ...]:
    """Return the names of these that the test has as values."""
    values = run.values if requests is None else requests.columns
    return tuple(name for name in names if name in values)


def _joined(runs: Iterable[TestResult]) -> list[TestResult]:
    """Return the tests of a file, in which runs with one name and the same settings are trials of
    one."""
    tests: list[TestResult] = []
    for test in runs:
        same = next((at for at, other in enumerate(tests) if _is_repeated(test, other)), None)
        if same is None:
            tests.append(test)
            continue
        (block,) = test.blocks
        first = tests[same]
        again = msgspec.structs.replace(block, epoch=len(first.blocks) + 1)
        specs = dict.fromkeys((*first.specs, *test.specs))
        tests[same] = msgspec.structs.replace(
            first, blocks=(*first.blocks, again), specs=tuple(specs)
        )
    return tests


def _is_repeated(one: TestResult, other: TestResult) -> bool:
    """Return whether one is another run of a test, with nothing but figures."""
    return (
        (one.name, one.settings) == (other.name, other.settings)
        and len(one.blocks) == 1
        and not (one.summaries or other.summaries)
    )


# -- vLLM ----------------------------------------------------------------------------------
#
# Times of the summary are in milliseconds, those of the requests in seconds.

_VLLM_ARRAYS = (
    *("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times"),
    *("generated_texts", "errors"),
)
_VLLM_SETTINGS = (
    *("num_prompts", "request_rate", "burstiness", "max_concurrency"),
    *("ramp_up_start_rps", "ramp_up_end_rps"),
)
_VLLM_RATES = (
    *("request_throughput", "request_goodput", "output_throughput", "total_token_throughput"),
    "max_output_tokens_per_s",
)
_VLLM_TIME = re.compile(r"(.+)_ms")
_VLLM_MAIN = (
    *("request_throughput", "output_throughput", "mean_ttft", "p99_ttft", "mean_tpot", "p99_tpot"),
    *("ttft", "tpot"),
)
_VLLM_OF_REQUESTS = (*(spec_of(name, "s", "lower") for name in ("ttft", "tpot", "e2el")),)


def _load_vllm(path: Path) -> Any:
    """Return the results of a file: several with `--append-result`, each in a line."""
    try:
        return [load_json(path)]
    except DamagedJson:
        lines = read_mixed_text(path).splitlines()
        if len(lines) < 2 or '"request_throughput"' not in lines[0]:
            raise
        return [parse_json(line) for line in lines if line]


def _is_vllm(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            is_object(one, "completed", "request_throughput", "duration")
            and ("total_token_throughput" in one or "mean_ttft_ms" in one)
            for one in value
        )
    )


def _vllm(document: Node) -> list[TestResult]:
    return _joined([_vllm_run(node) for node in document.elements()])


def _vllm_run(document: Node) -> TestResult:
    run = RunValues(document.problems)
    settings = []
    for key, member in document.members():
        value = member.value
        time = _VLLM_TIME.fullmatch(key)
        if key in _VLLM_ARRAYS or member.absent or key == "date":
            continue
        if key in _VLLM_SETTINGS or isinstance(value, str | bool):
            settings.append((key, member.text()))
        elif isinstance(value, dict | list):
            if value:
                member.not_read("figures of a kind that is not known")
        elif time:
            run.add(time[1], scaled(member.number(), 1e-3), "s", "lower")
        elif key in _VLLM_RATES:
            run.add(key, member.number(), "1/s", "higher")
        elif key != "rtfx" or value:  # Of audio; 0 for all others.
            run.add(key, member.number(), "s" if key == "duration" else "")
    requests = _vllm_requests(document, run)
    return _test(
        document["label"].text() or document.problems.path.name,
        run,
        requests,
        _VLLM_OF_REQUESTS,
        settings=settings,
        origin=FileOrigin(
            tool="vLLM",
            started_ns=moment_ns(document["date"].text().replace("-", "T")),
            main=_there(_VLLM_MAIN, run, requests),
        ),
    )


def _vllm_requests(document: Node, run: RunValues) -> _Requests | None:
    """Return the requests of `--save-detailed`; None without, or if they are not those of the
    figures."""
    if not document.has("ttfts") or not document.has("output_lens"):
        return None
    firsts, lengths = document["ttfts"].numbers(), document["output_lens"].numbers()
    gaps = [[gap or 0.0 for gap in node.numbers()] for node in document["itls"].elements()]
    errors = [node.text() for node in document["errors"].elements()]
    if not len(firsts) == len(lengths) == len(gaps) == len(errors):
        document["ttfts"].wrong("has another length than output_lens, itls or errors")
        return None
    ends: Sequence[float | None] = [
        (first or 0.0) + math.fsum(gap) for first, gap in zip(firsts, gaps, strict=True)
    ]
    latencies = document["latencies"].numbers()
    if len(latencies) == len(firsts):
        ends = latencies
    requests = _Requests(len(firsts))
    requests.failures = [
        (error.strip().rpartition("\n")[2] or "failed") if error or not (first or length) else ""
        for error, first, length in zip(errors, firsts, lengths, strict=True)
    ]
    starts = document["start_times"].numbers()
    if len(starts) == len(firsts):
        requests.started = [start or 0.0 for start in starts]
    requests.columns = {
        "ttft": firsts,
        "tpot": [
            (end - first) / (length - 1) if end and first and length and length > 1 else None
            for end, first, length in zip(ends, firsts, lengths, strict=True)
        ],
        "e2el": list(ends),
    }
    succeeded = requests.failures.count("")
    if succeeded != run.values.get("completed", succeeded):
        document["ttfts"].not_read(
            f"{succeeded} requests that succeeded, where completed is {run.values['completed']:g}"
        )
        return None
    for name in list(requests.columns):
        if not _agree(requests.mean(name), run.values.get(f"mean_{name}")):
            del requests.columns[name]
            document["ttfts"].not_read(f"{name} of the requests: its mean is not mean_{name}_ms")
    return requests


VLLM = JsonFormat(
    name="vllm",
    description="vLLM's result of bench serve",
    matches=_is_vllm,
    convert=_vllm,
    load=_load_vllm,
    mark=re.compile(rb'"endpoint_type": .*"tokenizer_id": '),
    hint="write it again: vllm bench serve --save-result",
)


# -- AIPerf --------------------------------------------------------------------------------

_AIPERF_HINT = "give profile_export_aiperf.json or profile_export.jsonl of AIPerf"
_AIPERF_STATISTIC = re.compile(r"avg|min|max|std|p[0-9.]+")
_AIPERF_METRICS = ("request_count", "request_latency", "time_to_first_token")
_AIPERF_MAIN = (
    *("request_throughput", "output_token_throughput"),
    *("time_to_first_token_avg", "time_to_first_token_p99"),
    *("inter_token_latency_avg", "inter_token_latency_p99"),
)
_AIPERF_MAIN_OF_REQUESTS = ("time_to_first_token", "inter_token_latency", "request_latency")
_AIPERF_NOT_SETTINGS = ("artifacts", "runtime")
_AIPERF_RECORD = re.compile(rb'\s*\{"metadata":\s*\{[^\n]*"benchmark_phase"')


def _aiperf_unit(text: str) -> BaseUnit:
    """Return the base unit of a unit of AIPerf: `ms`, `tokens/sec/user`, `KB` of 1,024 bytes."""
    if "/sec" in text:
        return BaseUnit(1.0, "1/s", "higher")
    if text == "KB":
        return BaseUnit(1024.0, "B")
    found = base_unit(text)
    return found if found.unit in ("s", "B") else _PLAIN


def _is_aiperf(value: Any) -> bool:
    return (is_object(value, "schema_version") or is_object(value, "input_config")) and any(
        is_object(value.get(name), "unit", "avg") for name in _AIPERF_METRICS
    )


def _aiperf(document: Node) -> list[TestResult]:
    run = RunValues(document.problems)
    for name, metric in document.members():
        if not is_object(metric.value, "unit"):
            continue
        unit = _aiperf_unit(metric["unit"].text())
        figures = {
            key: scaled(node.number(), unit.factor)
            for key, node in metric.members()
            if _AIPERF_STATISTIC.fullmatch(key) and not node.absent
        }
        # One without a distribution is the figure itself.
        same = len(figures) == 1 or figures.get("min") == figures.get("max")
        for key, value in figures.items():
            if key == "avg" or not same:
                named = name if len(figures) == 1 else f"{name}_{key}"
                run.add(named, value, unit.unit, unit.better)
    for key in ("warmup_metrics", "branch_stats"):
        if document[key].value:
            document[key].not_read("figures of another part of the run")
    if any(document["telemetry_data"]["endpoints"].members()):
        document["telemetry_data"].not_read("figures of GPUs")
    failure = ""
    if document["was_cancelled"].value is True:
        failure = "the run was cancelled"
    elif document["is_complete"].value is False:
        failure = document["incomplete_reason"].text("the run is not complete")
    version = document["aiperf_version"].text()
    return [
        _test(
            document.problems.path.name,
            run,
            None,
            settings=_leaves(document["input_config"], _AIPERF_NOT_SETTINGS),
            failure=failure,
            origin=FileOrigin(
                tool=f"AIPerf {version}".rstrip(),
                started_ns=moment_ns(document["start_time"].text()),
                main=_there(_AIPERF_MAIN, run, None),
            ),
        )
    ]


def _leaves(node: Node, without: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the texts and numbers of an object with their paths below it: `phases.0.rate`."""
    found = []
    stack = [(key, member) for key, member in node.members() if key not in without]
    while stack:
        key, member = stack.pop(0)
        if isinstance(member.value, dict):
            stack += [(f"{key}.{name}", one) for name, one in member.members()]
        elif isinstance(member.value, list):
            stack += [(f"{key}.{at}", one) for at, one in enumerate(member.elements())]
        elif not member.absent:
            found.append((key, member.text()))
    return sorted(found)


AIPERF = JsonFormat(
    name="aiperf",
    description="AIPerf's summary",
    matches=_is_aiperf,
    convert=_aiperf,
    mark=re.compile(rb'"aiperf_version"'),
    hint=_AIPERF_HINT,
)


class _AiperfRecords:
    name = "aiperf-records"
    description = "AIPerf's records of requests (profile_export.jsonl)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the first line is a record of AIPerf."""
        return path.is_file() and _AIPERF_RECORD.match(head) is not None

    def read(self, path: Path) -> list[TestResult]:
        """Return the run as one test whose trials are its requests. Raises InputError with all
        mistakes."""
        problems = Problems(path, self.name, _AIPERF_HINT)
        records = list(json_lines(path, problems))
        profiled = [
            node for node in records if node["metadata"]["benchmark_phase"].text() != "warmup"
        ]
        if len(profiled) < len(records):
            problems.not_read(
                "", f"the warm-up ({len(records) - len(profiled)} of {len(records)} records)"
            )
        requests = _Requests(len(profiled))
        units: dict[str, BaseUnit] = {}
        lists: dict[str, None] = {}
        for at, record in enumerate(profiled):
            requests.started[at] = record["metadata"]["request_start_ns"].number() or 0.0
            if record.has("error"):
                requests.failures[at] = record["error"]["message"].text("failed")
            for name, metric in record["metrics"].members():
                if isinstance(metric["value"].value, list):
                    lists[name] = None
                    continue
                unit = units.setdefault(name, _aiperf_unit(metric["unit"].text()))
                column = requests.columns.setdefault(name, [None] * len(profiled))
                column[at] = scaled(metric["value"].number(), unit.factor)
        for name in lists:
            problems.not_read("", f"{name}, of which a request has several; the summary has it")
        specs = [spec_of(name, unit.unit, unit.better) for name, unit in units.items() if unit.unit]
        run = RunValues(problems)
        starts = [start for start in requests.started if start]
        origin = FileOrigin(
            tool="AIPerf",
            started_ns=int(min(starts)) if starts else None,
            main=_there(_AIPERF_MAIN_OF_REQUESTS, run, requests),
        )
        test = _test(path.name, run, requests, specs, origin=origin)
        return problems.results([test] if profiled else [])


AIPERF_RECORDS = _AiperfRecords()


# -- guidellm ------------------------------------------------------------------------------
#
# A benchmark of a file is a test. Distributions over requests have a mean for each outcome; the
# figures are those of the requests that succeeded, which its console shows.

_GUIDELLM_HINT = "write it again: guidellm run --output kind=json,path=benchmarks.json"
_GUIDELLM_SECONDS = re.compile(r".*(_latency|_delay)")
_GUIDELLM_WEIGHTS = {"inter_token_latency": 1, "time_per_output_token": 0}
"""Whose figures weight each request by its tokens, without so many."""
_GUIDELLM_TOTALS = ("request_totals",)
_GUIDELLM_MODALITIES = ("text", "image", "video", "audio", "tool_call")
_GUIDELLM_MAIN = (
    *("requests_per_second_mean", "output_tokens_per_second_mean"),
    *("time_to_first_token_mean", "time_to_first_token_p99"),
    *("inter_token_latency_mean", "inter_token_latency_p99"),
    *("time_to_first_token", "inter_token_latency", "request_latency"),
)


def _is_guidellm(value: Any) -> bool:
    benchmarks = value.get("benchmarks") if isinstance(value, dict) else None
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and all(
            is_object(one, "metrics") and is_object(one["metrics"], "time_to_first_token_ms")
            for one in benchmarks
        )
    )


def _guidellm_quantity(name: str) -> tuple[str, BaseUnit]:
    """Return the name of a quantity without its unit, and the unit."""
    if name.endswith("_ms"):
        return name.removesuffix("_ms"), BaseUnit(1e-3, "s", "lower")
    if _GUIDELLM_SECONDS.fullmatch(name):
        return name, BaseUnit(1.0, "s", "lower")
    if name.endswith("_per_second") or name == "request_goodput":
        return name, BaseUnit(1.0, "1/s", "higher")
    return name, _PLAIN


def _guidellm(document: Node) -> list[TestResult]:
    version = document["metadata"]["guidellm_version"].text()
    tool = f"guidellm {version}".rstrip()
    return _joined(_guidellm_test(node, tool) for node in document["benchmarks"].elements())


def _guidellm_name(benchmark: Node) -> str:
    """Return what guidellm calls a benchmark in its progress: `constant@10.00`."""
    strategy = benchmark["config"]["strategy"]
    level = next((strategy[key].number() for key in ("rate", "streams") if strategy.has(key)), None)
    kind = strategy["type_"].text("benchmark")
    if level is None:
        return kind
    return f"{kind}@{level:.2f}" if strategy.has("rate") else f"{kind}@{level:g}"


def _guidellm_test(benchmark: Node, tool: str) -> TestResult:
    run = RunValues(benchmark.problems)
    requests = _guidellm_requests(benchmark)
    there = {} if requests is None else requests.columns
    for key, metric in benchmark["metrics"].members():
        quantity, unit = _guidellm_quantity(key)
        figures = metric["successful"] if isinstance(metric.value, dict) else metric
        if key in _GUIDELLM_MODALITIES or key in _GUIDELLM_TOTALS:
            continue
        if isinstance(figures.value, int | float):
            run.add(quantity, scaled(figures.number(), unit.factor), unit.unit, unit.better)
        elif figures["count"].number():
            mean = scaled(figures["mean"].number(), unit.factor)
            if requests is not None and not _agree(_guidellm_mean(requests, quantity), mean):
                del there[quantity]
                metric.not_read(f"{quantity} of the requests: their mean is not the stated one")
            if requests is None:
                _guidellm_figures(run, quantity, unit, figures)
            elif quantity not in there or quantity in _GUIDELLM_WEIGHTS:
                run.add(f"{quantity}_mean", mean, unit.unit, unit.better)
    totals = benchmark["metrics"]["request_totals"]
    for key in ("successful", "errored", "incomplete", "total"):
        run.add(f"requests_{key}", totals[key].number())
    specs = [
        spec_of(quantity, unit.unit, unit.better)
        for quantity, unit in map(_guidellm_quantity, _GUIDELLM_KEYS)
        if quantity in there and unit.unit
    ]
    return _test(
        _guidellm_name(benchmark),
        run,
        requests,
        specs,
        settings=_leaves(benchmark["config"], ("id_", "run_id", "run_index", "environment")),
        origin=FileOrigin(
            tool=tool,
            started_ns=epoch_ns(benchmark["start_time"], 1.0),
            main=_there(_GUIDELLM_MAIN, run, requests),
        ),
    )


def _guidellm_mean(requests: _Requests, quantity: str) -> float | None:
    """Return the mean of a quantity of the requests as guidellm computes it; None without any."""
    if quantity not in requests.columns:
        return None
    weights: list[float | None] = []
    if quantity in _GUIDELLM_WEIGHTS:
        without = _GUIDELLM_WEIGHTS[quantity]
        tokens = requests.columns.get("output_tokens", [])
        weights = [None if number is None else number - without for number in tokens]
    return requests.mean(quantity, weights)


def _guidellm_figures(run: RunValues, quantity: str, unit: BaseUnit, figures: Node) -> None:
    """Add the figures of a quantity; of one that is the same in all requests the mean."""
    if figures.has("min") and figures["min"].number() == figures["max"].number():
        run.add(f"{quantity}_mean", scaled(figures["mean"].number(), unit.factor), unit.unit)
        return
    for key in ("mean", "median", "std_dev", "min", "max"):
        value = scaled(figures[key].number(), unit.factor)
        run.add(f"{quantity}_{key}", value, unit.unit, unit.better)
    for key, node in figures["percentiles"].members():
        share = key.removeprefix("p").removeprefix("0") if key != "p001" else "0.1"
        share = "99.9" if key == "p999" else share
        value = scaled(node.number(), unit.factor)
        run.add(f"{quantity}_p{share}", value, unit.unit, unit.better)


_GUIDELLM_KEYS = (
    *("time_to_first_token_ms", "time_to_first_output_token_ms", "inter_token_latency_ms"),
    *("time_per_output_token_ms", "request_latency", "request_dispatch_delay"),
    *("request_scheduled_latency", "prompt_tokens", "output_tokens", "total_tokens"),
)
"""What is read of a request."""


def _guidellm_requests(benchmark: Node) -> _Requests | None:
    """Return the requests of a benchmark; None if they are not all there."""
    groups = {key: list(one.elements()) for key, one in benchmark["requests"].members()}
    succeeded, errored = groups.get("successful", []), groups.get("errored", [])
    totals = benchmark["metrics"]["request_totals"]
    if not succeeded:
        return None
    if totals.has("successful") and len(succeeded) != totals["successful"].count():
        whole = totals["successful"].count()
        benchmark["requests"].not_read(f"{len(succeeded)} of {whole} requests that succeeded")
        return None
    if stopped := len(groups.get("incomplete", [])):
        benchmark["requests"].not_read(f"requests still in progress at the end ({stopped})")
    both = [*succeeded, *errored]
    requests = _Requests(len(both))
    for at, node in enumerate(both):
        requests.started[at] = node["request_start_time"].number() or 0.0
        if at >= len(succeeded):
            requests.failures[at] = node["info"]["error"].text("failed")
    for key in _GUIDELLM_KEYS:
        quantity, unit = _guidellm_quantity(key)
        column = [scaled(one[key].number(), unit.factor) for one in both]
        if any(value is not None for value in column):
            requests.columns[quantity] = column
    return requests


GUIDELLM = JsonFormat(
    name="guidellm",
    description="guidellm's benchmarks",
    matches=_is_guidellm,
    convert=_guidellm,
    mark=re.compile(rb'"guidellm_version"'),
    hint=_GUIDELLM_HINT,
)
