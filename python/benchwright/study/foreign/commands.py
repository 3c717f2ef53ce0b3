"""Results of tools that measure commands: hyperfine.

Source: hyperfine 1.15 and 1.20, `--export-json`, and its benchmark_result.rs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchwright.core.observation import MeasurementBlock
from benchwright.study.foreign.json_file import JsonFormat, Node, is_object
from benchwright.study.foreign.units import ELAPSED, spec_of, stated
from benchwright.study.parsers.api import FileOrigin, ParsedInput

_BY_SIGNAL = 128
"""Status of a run that a signal ended: hyperfine does not say which."""


def _is_hyperfine(value: Any) -> bool:
    results = value.get("results") if isinstance(value, dict) else None
    return (
        isinstance(results, list)
        and bool(results)
        and all(is_object(one, "command", "mean") for one in results)
    )


def _hyperfine(document: Node) -> list[ParsedInput]:
    """Return one test for each command. Its CPU times are means, without values."""
    results = list(document["results"].elements())
    names = Counter(one["command"].text() for one in results)
    return [_hyperfine_command(one, names) for one in results]


def _hyperfine_command(result: Node, names: Counter[str]) -> ParsedInput:
    command = result["command"].text()
    sample = tuple((key, value.text()) for key, value in result["parameters"].members())
    times = result["times"].numbers()
    codes = _exit_codes(result["exit_codes"], len(times))
    memory = result["memory_usage_byte"].numbers()
    blocks = []
    for at, seconds in enumerate(times):
        values = {} if seconds is None else {ELAPSED: seconds}
        if at < len(memory) and (size := memory[at]) is not None:
            values["rss_bytes"] = size
        blocks.append(MeasurementBlock(0, at + 1, command, codes[at], values))
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
    return ParsedInput(
        name=f"{command}:{levels}" if names[command] > 1 and levels else command,
        blocks=tuple(blocks),
        specs=(spec_of(ELAPSED, "s", "lower"),),
        sample=sample,
        summaries=tuple(summaries),
        origin=FileOrigin(tool="hyperfine"),
    )


def _exit_codes(codes: Node, count: int) -> list[int]:
    """Return the exit status of each run; 0 where the file does not have it."""
    found = [
        _BY_SIGNAL if one.absent else int(one.number() or 0) for one in codes.elements()
    ]
    return [*found, *[0] * (count - len(found))][:count]


HYPERFINE = JsonFormat(
    name="hyperfine",
    description="hyperfine's JSON",
    matches=_is_hyperfine,
    convert=_hyperfine,
    marks=(b'"command":', b'"stddev":'),
    hint="write it again: hyperfine --export-json FILE",
)
