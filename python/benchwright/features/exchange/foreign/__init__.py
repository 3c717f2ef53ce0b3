"""Files of other tools, read as the inputs of `bw stats`.

Purpose: the parsers (study/parsers/api.py) of other tools' formats. Each is recognised by its
content, never by its name; values are converted to base units once, here; what a file does not say
is absent. Decision: values become measurement blocks, so tables, comparisons, charts and findings
work as for our own results. A quantity of which a file has only an estimate is a `Summary` with the
method `stated`: shown with the tool's own interval, or without one.
"""

from __future__ import annotations

from benchwright.features.exchange.foreign.commands import HYPERFINE, HYPERFINE_2, REDIS_BENCHMARK
from benchwright.features.exchange.foreign.compiled import CRITERION, GOOGLE_BENCHMARK, JMH
from benchwright.features.exchange.foreign.go_bench import BENCHFMT
from benchwright.features.exchange.foreign.json_file import json_damage
from benchwright.features.exchange.foreign.load_tools import FIO, K6_POINTS, K6_SUMMARY
from benchwright.features.exchange.foreign.perf_stat import PERF_STAT
from benchwright.features.exchange.foreign.python_tools import ASV, PYPERF, PYTEST_BENCHMARK
from benchwright.features.exchange.foreign.refused import printed_by_bw, refusal
from benchwright.features.exchange.foreign.sampled import BENCHMARK_DOTNET, LLAMA_BENCH
from benchwright.features.exchange.foreign.stream_tools import (
    AIPERF,
    AIPERF_RECORDS,
    GUIDELLM,
    VLLM,
)
from benchwright.features.exchange.foreign.trackers import ACTION, ACTION_STORE, OTAVA
from benchwright.study.parsers.api import ResultFormats, ResultParser

__all__ = ["FORMATS", "PARSERS", "printed_by_bw"]

PARSERS: tuple[ResultParser, ...] = (
    HYPERFINE,
    HYPERFINE_2,
    PYTEST_BENCHMARK,
    GOOGLE_BENCHMARK,
    PYPERF,
    JMH,
    FIO,
    K6_SUMMARY,
    K6_POINTS,
    VLLM,
    AIPERF,
    AIPERF_RECORDS,
    GUIDELLM,
    ASV,
    CRITERION,
    LLAMA_BENCH,
    BENCHMARK_DOTNET,
    ACTION,
    ACTION_STORE,
    BENCHFMT,
    REDIS_BENCHMARK,
    PERF_STAT,
    OTAVA,
)
FORMATS = ResultFormats(
    PARSERS,
    "hyperfine, pyperf, pytest-benchmark, asv, go test -bench, JMH, Google Benchmark, criterion, "
    "BenchmarkDotNet, llama-bench, fio, k6, vLLM, AIPerf, guidellm, redis-benchmark, perf stat, Otava or "
    "github-action-benchmark",
    refusal,
    json_damage,
)
