"""Results of benchmark programs whose JSON has the values of every run: llama-bench and
BenchmarkDotNet.

Decision: their CSV files and tables have means alone, each row of another benchmark, so they are
refused (`refused.py`). Sources: llama.cpp, tools/llama-bench (`json_printer`, `jsonl_printer`);
BenchmarkDotNet 0.13, Exporters/Json/JsonExporterBase.cs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchwright.core.observation import MeasurementBlock
from benchwright.features.exchange.foreign.json_file import (
    JsonFormat,
    Node,
    is_object,
    load_json,
    parse_documents,
)
from benchwright.features.exchange.foreign.units import ELAPSED, THROUGHPUT, stated
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import read_mixed_text
from benchwright.study.parsers.units import scaled, spec_of


def _blocks(columns: Mapping[str, Sequence[float | None]]) -> tuple[MeasurementBlock, ...]:
    """Return a block for each place of columns of one length; a value that is absent is left out."""
    rows = zip(*columns.values(), strict=True)
    return tuple(
        MeasurementBlock(
            0, at, "", 0, {k: v for k, v in zip(columns, row, strict=True) if v is not None}
        )
        for at, row in enumerate(rows, 1)
    )


# -- llama-bench ---------------------------------------------------------------------------
#
# A repetition is a trial: the time that it took, and its tokens per second.

_LLAMA_RESULTS = ("test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts")
_LLAMA_SAMPLES = ("samples_ns", "samples_ts")
_LLAMA_NAMED = ("n_prompt", "n_gen", "n_depth")


def _load_llama(path: Path) -> Any:
    """Return the results of a file, also of one with an object in each line (`-o jsonl`)."""
    text = read_mixed_text(path).lstrip()
    if text.startswith("{") and '"samples_ns"' in text:
        return list(parse_documents(text))
    return load_json(path)


def _is_llama(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_object(one, "n_prompt", "n_gen", *_LLAMA_SAMPLES) for one in value)
    )


def _llama(document: Node) -> list[TestResult]:
    results = list(document.elements())
    kept = (*_LLAMA_RESULTS, *_LLAMA_SAMPLES, *_LLAMA_NAMED)
    stated_by_all = [
        {key: value.text() for key, value in result.members() if key not in kept}
        for result in results
    ]
    differing = {
        key
        for settings in stated_by_all
        for key, value in settings.items()
        if stated_by_all[0].get(key) != value
    }
    return [
        _llama_test(result, settings, differing)
        for result, settings in zip(results, stated_by_all, strict=True)
    ]


def _llama_test(result: Node, settings: Mapping[str, str], differing: set[str]) -> TestResult:
    """Return the test of an entry, with llama-bench's name: `pp512`, `tg128`, `pp512+tg128`."""
    parts = [
        f"{word}{result[key].count()}"
        for word, key in (("pp", "n_prompt"), ("tg", "n_gen"))
        if result[key].count()
    ]
    name = "+".join(parts)
    if depth := result["n_depth"].count():
        name += f" @ d{depth}"
    columns = {
        ELAPSED: [scaled(value, 1e-9) for value in result["samples_ns"].numbers()],
        THROUGHPUT: result["samples_ts"].numbers(),
    }
    if len({*map(len, columns.values())}) > 1:
        result.wrong("has samples_ns and samples_ts of different lengths")
        columns = {}
    levels = {key: value for key, value in settings.items() if key in differing}
    named = ",".join([name, *(f"{key}={value}" for key, value in levels.items())])
    return TestResult(
        name=named.replace(",", ":", 1),
        blocks=_blocks(columns),
        specs=(spec_of(ELAPSED, "s", "lower"), spec_of(THROUGHPUT, "1/s", "higher")),
        sample=tuple(levels.items()),
        settings=tuple((key, value) for key, value in settings.items() if key not in differing),
        origin=FileOrigin(tool="llama-bench", main=(THROUGHPUT,)),
    )


LLAMA_BENCH = JsonFormat(
    name="llama-bench",
    description="llama-bench's JSON",
    matches=_is_llama,
    convert=_llama,
    load=_load_llama,
    mark=re.compile(rb'"model_n_params":'),
    hint="write it again: llama-bench -o json",
)


# -- BenchmarkDotNet -----------------------------------------------------------------------
#
# An iteration of the workload is a trial: the time of an operation in it, without the overhead.

_DOTNET_HOST = ("ProcessorName", "OsVersion", "RuntimeVersion", "Configuration")


def _is_dotnet(value: Any) -> bool:
    return is_object(value, "Benchmarks", "HostEnvironmentInfo")


def _dotnet(document: Node) -> list[TestResult]:
    host = document["HostEnvironmentInfo"]
    benchmarks = list(document["Benchmarks"].elements())
    names = Counter(one["FullName"].text() for one in benchmarks)
    version = host["BenchmarkDotNetVersion"].text()
    origin = FileOrigin(tool=f"BenchmarkDotNet {version}".rstrip())
    settings = tuple((key, host[key].text()) for key in _DOTNET_HOST if host.has(key))
    tests = []
    for node in benchmarks:
        node["FullName"].required("BenchmarkDotNet writes the name of each benchmark")
        # Jobs of one benchmark differ in this alone.
        name = node["FullName" if names[node["FullName"].text()] == 1 else "DisplayInfo"].text()
        values = [scaled(ns, 1e-9) for ns in node["Statistics"]["OriginalValues"].numbers()]
        if not values:
            node.not_read(f"{name} has no value")
            continue
        allocated = node["Memory"]["BytesAllocatedPerOperation"].number()
        pairs = (part.partition("=") for part in node["Parameters"].text().split("&"))
        tests.append(
            TestResult(
                name=name,
                blocks=_blocks({ELAPSED: values}),
                specs=(spec_of(ELAPSED, "s", "lower"), spec_of("allocated", "B", "lower")),
                sample=tuple(
                    (key.strip(), value.strip()) for key, is_pair, value in pairs if is_pair
                ),
                settings=settings,
                summaries=() if allocated is None else (stated("allocated", "B", mean=allocated),),
                origin=origin,
            )
        )
    return tests


BENCHMARK_DOTNET = JsonFormat(
    name="benchmarkdotnet",
    description="BenchmarkDotNet's JSON",
    matches=_is_dotnet,
    convert=_dotnet,
    mark=re.compile(rb'"BenchmarkDotNetVersion":'),
    hint="write it again: --exporters json",
)
