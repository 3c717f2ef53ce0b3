"""Results of tools that measure commands: hyperfine, and redis-benchmark.

Sources: hyperfine 1.12, 1.15 and 1.20, `--export-json`, and its benchmark_result.rs; of 2.0 its
export/json.rs and measurement.rs, because its compiler is newer than ours;
redis-benchmark 7.0, `--csv`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import MetricSpec
from benchwright.features.exchange.foreign.json_file import JsonFormat, Node, is_object
from benchwright.features.exchange.foreign.units import ELAPSED, THROUGHPUT, stated
from benchwright.findings.result import FileOrigin, TestResult
from benchwright.study.parsers.api import read_text
from benchwright.study.parsers.text import CSV_PARSER
from benchwright.study.parsers.units import spec_of

_BY_SIGNAL = 128
"""Status of a run that a signal ended: hyperfine does not say which."""
_MOST_STATUS = 2**32
"""Windows has exit statuses of 32 bits."""


def _is_hyperfine(value: Any) -> bool:
    results = value.get("results") if isinstance(value, dict) else None
    return (
        isinstance(results, list)
        and bool(results)
        and all(is_object(result, "command", "mean") for result in results)
        and any(is_object(result, key) for result in results for key in ("times", "user"))
    )


def _is_hyperfine_2(value: Any) -> bool:
    results = value.get("results") if isinstance(value, dict) else None
    return (
        is_object(value, "schema_version", "primary_metric", "results")
        and isinstance(results, list)
        and all(is_object(result, "command", "measurements") for result in results)
    )


def _hyperfine_2(document: Node) -> list[TestResult]:
    """Return one test for each command of version 2.0, whose runs have all quantities."""
    results = list(document["results"].elements())
    names = Counter(_name_of(result) for result in results)
    return [_command_of_2(result, names) for result in results]


def _name_of(result: Node) -> str:
    return result["name"].text() if result.has("name") else result["command"].text()


_METRICS_OF_2 = {
    "time_wall_clock": ELAPSED,
    "time_user": "user",
    "time_system": "system",
    "memory_peak_resident": "rss_bytes",
    "cpu_cycles": "cycles",
    "instructions": "instructions",
    "cache_references": "cache_references",
    "cache_misses": "cache_misses",
    "branch_misses": "branch_misses",
}
"""What `bw` calls the quantities; the whole CPU time is the sum of two others."""
_COUNTS_OF_2 = tuple(_METRICS_OF_2.values())[4:]


_UNITS_OF_2 = {"time": "second", "memory": "byte"}
"""The unit of a quantity, by how its name begins; counts have none."""
_NO_METRICS_OF_2 = ("time_cpu", "exit_code")


def _value_of_2(key: str, quantity: Node) -> float | None:
    """Return the value of a quantity; None, which is named, in another unit than the tool's own."""
    unit = _UNITS_OF_2.get(key.partition("_")[0], "")
    if quantity["unit"].text() != unit:
        quantity.not_read(f"is not in the unit {unit!r}")
        return None
    return quantity["value"].number()


def _command_of_2(result: Node, names: Counter[str]) -> TestResult:
    name = _name_of(result)
    sample = tuple((key, node["value"].text()) for key, node in result["parameters"].members())
    blocks = []
    for epoch, run in enumerate(result["measurements"].elements(), 1):
        read = []
        for key, quantity in run.members():
            if key in _METRICS_OF_2:
                read.append((_METRICS_OF_2[key], _value_of_2(key, quantity)))
            elif key not in _NO_METRICS_OF_2:
                quantity.not_read("is a quantity that is not known")
        code = run["exit_code"]
        blocks.append(
            MeasurementBlock(
                thread=0,
                epoch=epoch,
                command=result["command"].text(),
                status=_exit_codes([code], 1)[0],
                values={key: value for key, value in read if value is not None},
                failure="a signal ended it" if code.absent else "",
            )
        )
    levels = ",".join(f"{key}={value}" for key, value in sample)
    counted = [one for one in _COUNTS_OF_2 if any(one in block.values for block in blocks)]
    return TestResult(
        name=f"{name}:{levels}" if names[name] > 1 and levels else name,
        blocks=tuple(blocks),
        specs=(spec_of(ELAPSED, "s", "lower"), *(spec_of(one, "", "lower") for one in counted)),
        sample=sample,
        origin=FileOrigin(tool="hyperfine"),
    )


def _hyperfine(document: Node) -> list[TestResult]:
    """Return one test for each command. Its CPU times are means, without values."""
    results = list(document["results"].elements())
    names = Counter(result["command"].text() for result in results)
    return [_hyperfine_command(result, names) for result in results]


def _hyperfine_command(result: Node, names: Counter[str]) -> TestResult:
    command = result["command"].text()
    sample = tuple((key, value.text()) for key, value in result["parameters"].members())
    times = result["times"].numbers()
    listed = list(result["exit_codes"].elements())
    codes = _exit_codes(listed, len(times))
    memory = result["memory_usage_byte"].numbers()
    blocks = []
    for at, seconds in enumerate(times):
        values = {} if seconds is None else {ELAPSED: seconds}
        if at < len(memory) and (size := memory[at]) is not None:
            values["rss_bytes"] = size
        unknown = at < len(listed) and listed[at].absent
        blocks.append(
            MeasurementBlock(
                thread=0,
                epoch=at + 1,
                command=command,
                status=codes[at],
                values=values,
                failure="a signal ended it" if unknown else "",
            )
        )
    summaries = []
    if not blocks:
        summaries.append(
            stated(
                ELAPSED,
                "s",
                mean=result["mean"].number(),
                median=result["median"].number(),
                extremes=(result["min"].number(), result["max"].number()),
                sdev=result["stddev"].number(),
            )
        )
    for name in ("user", "system"):
        seconds = result[name].number()
        if seconds is not None:
            summaries.append(stated(name, "s", count=len(blocks), mean=seconds))
    levels = ",".join(f"{key}={value}" for key, value in sample)
    return TestResult(
        name=f"{command}:{levels}" if names[command] > 1 and levels else command,
        blocks=tuple(blocks),
        specs=(spec_of(ELAPSED, "s", "lower"),),
        sample=sample,
        summaries=tuple(summaries),
        origin=FileOrigin(tool="hyperfine"),
    )


def _exit_codes(codes: Sequence[Node], count: int) -> list[int]:
    """Return the exit status of each run; 0 where the file does not have it."""
    found = []
    for node in codes:
        code = _BY_SIGNAL if node.absent else node.number() or 0
        if abs(code) > _MOST_STATUS or code != int(code):
            node.wrong("is no exit status")
            code = 0
        found.append(int(code))
    return [*found, *[0] * (count - len(found))][:count]


HYPERFINE = JsonFormat(
    name="hyperfine",
    description="hyperfine's JSON",
    matches=_is_hyperfine,
    convert=_hyperfine,
    mark=re.compile(rb'\A\s*\{\s*"results":\s*\[\s*\{\s*"command":'),
    hint="write it again: hyperfine --export-json FILE",
)


HYPERFINE_2 = JsonFormat(
    name="hyperfine-2",
    description="hyperfine's JSON of version 2.0",
    matches=_is_hyperfine_2,
    convert=_hyperfine_2,
    mark=re.compile(rb'\A\s*\{\s*"schema_version":\s*2,\s*"metadata":\s*\{\s*"hyperfine_version"'),
    hint="write it again: hyperfine --export-json FILE",
)


# -- redis-benchmark: CSV with a row for each command ----------------------------------------

_REDIS_HEAD = b'"test","rps",'
_REDIS_LATENCY = re.compile(r"(\w+_latency)_ms")


class _RedisBenchmarkParser:
    name = "redis-benchmark"
    description = "redis-benchmark's CSV"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return whether the file has redis-benchmark's header line."""
        return path.is_file() and head.startswith(_REDIS_HEAD)

    def read(self, path: Path) -> list[TestResult]:
        """Return one test for each command; a row, the mean of a run, is a trial. Raises InputError
        with file:line:column."""
        text = _with_escaped_quotes(read_text(path, "csv-syntax"))
        return [_redis_command(test) for test in CSV_PARSER.parse(path, text)]


def _with_escaped_quotes(text: str) -> str:
    """Return redis-benchmark's CSV with the quotation marks of a command doubled; the tool writes
    them as they are. The cells behind the command are numbers."""
    columns = text.partition("\n")[0].count(",")
    row = re.compile(rf'"(.*)"((?:,"[^",\n]*"){{{columns}}}\r?)', re.ASCII)
    lines = []
    for line in text.split("\n"):
        match = row.fullmatch(line)
        if match is not None and '"' in match[1].replace('""', ""):
            escaped = match[1].replace('"', '""')
            line = f'"{escaped}"{match[2]}'
        lines.append(line)
    return "\n".join(lines)


def _redis_command(one: TestResult) -> TestResult:
    names = dict.fromkeys(name for block in one.blocks for name in block.values)
    specs: list[MetricSpec] = []
    renamed: dict[str, tuple[str, float]] = {}
    for name in names:
        if name == "rps":
            renamed[name] = (THROUGHPUT, 1.0)
            specs.append(spec_of(THROUGHPUT, "1/s", "higher"))
        elif match := _REDIS_LATENCY.fullmatch(name):
            renamed[name] = (match[1], 1e-3)
            specs.append(spec_of(match[1], "s", "lower"))
    blocks = (
        msgspec.structs.replace(
            block,
            values={
                new: value * factor
                for name, value in block.values.items()
                for new, factor in [renamed.get(name, (name, 1.0))]
            },
        )
        for block in one.blocks
    )
    main = (THROUGHPUT, "avg_latency", "p99_latency")
    return msgspec.structs.replace(
        one,
        blocks=tuple(blocks),
        specs=tuple(specs),
        origin=FileOrigin(tool="redis-benchmark", main=main),
    )


REDIS_BENCHMARK = _RedisBenchmarkParser()
