"""Makes a `Trial` from the launcher's record of an epoch, with the values of its metrics from APLOG
and from a command's output.

Rule: if the script measured something itself (`bw measure`), its blocks are the thread's
result; otherwise each EXEC process is a block. Values from the script, a pattern or a hook
are added to the thread's last block, once. A script or hook cannot replace a value that
Benchwright measures: `missing` names such a line.
Source: Auto-pilot paper, section 3.2 (measurement blocks and hooks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from benchwright.core.observation import (
    MeasurementBlock,
    MissingMetric,
    ProcessRecord,
    Trial,
    TrialEnding,
)
from benchwright.core.pattern import compile_pattern
from benchwright.core.plan import CommandMode, MetricSpec, TestPlan
from benchwright.core.untrusted import TooDeep, decode_json
from benchwright.stats.aggregate import EXTRAS
from benchwright.trial.programs import uncounted
from benchwright.trial.protocol import EpochRecord

# --------------------------------------------------------------------------------------
# APLOG: the measurement blocks, other blocks and `name = value` lines that a script writes.
#
# Format: blocks headed `[name]`, fields `key = value`; lines before the first header, or
# after a blank line that ends a block, belong to the thread itself. Source: Auto-pilot's
# results file (Auto-pilot paper, section 3.2; reference: its manual, CSV-Results).

_APLOG_HEADER = re.compile(r"\[([^\]]+)\]\s*\Z")
_APLOG_NAMES = {"sys": "system"}
_START = "start_ns"
_NOT_VALUES = frozenset({"thread", "epoch", "command", "status", _START})


class AplogSection(msgspec.Struct):
    """One block as written: its name, and its fields in order."""

    name: str
    fields: dict[str, str]


class Aplog(msgspec.Struct):
    """The parsed APLOG of a thread."""

    sections: list[AplogSection]
    values: dict[str, str]
    """`name = value` lines outside all blocks."""


def parse_aplog(text: str) -> Aplog:
    """Return the blocks and the free values of one thread's APLOG; never fails.

    A line that is neither a header nor a field is ignored; the log stores it.
    """
    parsed = Aplog([], {})
    current: dict[str, str] = parsed.values
    for raw in text.split("\n"):  # splitlines() would also split at other characters
        line = raw.strip()
        if not line:
            current = parsed.values
        elif header := _APLOG_HEADER.match(line):
            section = AplogSection(header[1], {})
            parsed.sections.append(section)
            current = section.fields
        else:
            name, equals, value = line.partition("=")
            if equals and name.strip():
                current[name.strip()] = value.strip()
    return parsed


def parse_number(text: str) -> float | None:
    """Return a finite number, or None if the text is not one: absent is not zero.

    Python's own `1_000` and digits of other scripts are not numbers here.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    strict = text.isascii() and "_" not in text
    return value if strict and math.isfinite(value) else None


def parse_numbers(fields: dict[str, str]) -> dict[str, float]:
    """Return the numeric fields of a block under the names that Benchwright uses."""
    result: dict[str, float] = {}
    for key, text in fields.items():
        value = parse_number(text)
        if value is not None and key not in _NOT_VALUES:
            result[_APLOG_NAMES.get(key, key)] = value
    return result


# -- Numbers in a program's output: JSON pointers and regular expressions --------------
#
# Source: RFC 6901 for pointers. Non-goals: JSONPath, arithmetic on the values found.

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
"""1,234,567.8: commas that group digits."""
_BEGIN = re.compile(r"^[{\[]", re.MULTILINE)
_BEGIN_BYTES = re.compile(_BEGIN.pattern.encode(), re.MULTILINE)
_LINES = re.compile(r"(?:^|(?<=\r))[{\[][^\r\n]*", re.MULTILINE)
"""Lines that may be a JSON document."""
_QUOTED = 60
"""Maximum length of a quotation of the output in a message [characters]."""
_PIECE_BYTES = 1 << 20
"""Size of one read when lines are read from the end of a large output."""


class MetricNotFound(Exception):
    """A metric is missing from an output; the message says why."""


def extract_metric(spec: MetricSpec, out: str | memoryview, err: str | memoryview) -> float:
    """Return the metric's value in one process's output. Raises MetricNotFound.

    An output of undecoded bytes is searched in place; the dot of a pattern then
    does not match bytes that are not valid UTF-8.
    """
    if spec.pointer is not None:
        return _by_pointer(spec.pointer, out)
    assert spec.pattern is not None, "only metrics with a source are extracted"
    return _by_pattern(spec.pattern, out, err)


def _by_pointer(pointer: str, out: str | memoryview) -> float:
    found = value_at(pointer, last_json(out))
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        raise MetricNotFound(f"{pointer} is {type(found).__name__}, not a number")
    value = parse_number(str(found))
    if value is None:
        raise MetricNotFound(f"{pointer} is {found!r}, not a number")
    return value


def value_at(pointer: str, document: Any) -> Any:
    """Return the value at a pointer. Raises MetricNotFound."""
    found = document
    for token in pointer.split("/")[1:]:
        found = _step(found, token.replace("~1", "/").replace("~0", "~"), pointer)
    return found


def last_json(out: str | memoryview, decode: Callable[[Any], Any] = decode_json) -> Any:
    """Return an output as JSON; of one that has other lines too, the document at its end, or its
    last line that is JSON. Raises MetricNotFound."""
    deep = False
    for candidate in _candidates(out):
        try:
            return decode(candidate)
        except (TooDeep, RecursionError):
            deep = True
        except ValueError:
            pass
    what = "JSON, and it is nested too deeply" if deep else "not JSON"
    raise MetricNotFound(f"stdout is {what}")


def _candidates(out: str | memoryview) -> Iterator[Any]:
    """Yield what may be a program's JSON document: many programs log a few lines before they print
    it, on one or several lines."""
    yield out
    if isinstance(out, str):
        begin: re.Match[Any] | None = _BEGIN.search(out)
        lines: Iterable[Any] = reversed(_LINES.findall(out))
    else:
        begin = _BEGIN_BYTES.search(out)
        lines = (line for line in _backwards(out) if line[:1] in (b"{", b"["))
    if begin is not None:
        yield out[begin.start() :]
    yield from lines


def _backwards(out: memoryview) -> Iterator[bytes]:
    """Yield the lines of a large output, the last one first."""
    rest: list[bytes] = []
    for end in range(len(out), 0, -_PIECE_BYTES):
        piece = bytes(out[max(end - _PIECE_BYTES, 0) : end])
        first, *lines = piece.split(b"\n")
        if lines:
            yield b"".join([lines[-1], *reversed(rest)])
            yield from reversed(lines[:-1])
            rest = [first]
        else:
            rest.append(first)
    yield b"".join(reversed(rest))


def _step(found: Any, token: str, pointer: str) -> Any:
    if isinstance(found, dict) and token in found:
        return found[token]
    if isinstance(found, list) and token.isdecimal() and int(token) < len(found):
        return found[int(token)]
    raise MetricNotFound(f"{pointer} has no member {token!r}")


def _by_pattern(pattern: str, out: str | memoryview, err: str | memoryview) -> float:
    search = compile_pattern(pattern).search
    match = search(out) or search(err)
    if match is None:
        raise MetricNotFound(f"no line matches `{pattern}`")
    value = _grouped_number(_group_text(match))
    if value is None:
        raise MetricNotFound(f"{pattern!r} matched {_shortened(_group_text(match))}, not a number")
    return value


def further_value(pattern: str, out: str | memoryview, err: str | memoryview) -> float | None:
    """Return the first value of a later match that is not that of the first, which a metric takes;
    None if there is none."""
    compiled = compile_pattern(pattern)
    text = out if compiled.search(out) else err
    first, *_ = values = [_grouped_number(_group_text(one)) for one in compiled.finditer(text)]
    return next((value for value in values if value not in (None, first)), None)


def _group_text(match: Any) -> str:
    text = match[1] or ""
    return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")


def _grouped_number(text: str) -> float | None:
    """Return a number whose commas, if any, group its digits by three; else None.

    A decimal comma is not accepted: the meaning of 0,25 depends on the program's locale.
    """
    grouped = "," in text and _GROUPED.fullmatch(text)
    return parse_number(text.replace(",", "") if grouped else text)


def _shortened(text: str) -> str:
    """Return a text as a message quotes it."""
    if len(text) <= _QUOTED:
        return repr(text)
    return f"{text[:_QUOTED]!r}... ({len(text)} characters)"


ReadOutput = Callable[[ProcessRecord, Literal["out", "err"]], str | memoryview]
"""(process, stream) -> the text that the process wrote to it."""

ALWAYS_THERE = frozenset({"elapsed", "user", "system", "rss_bytes", "wait", "cpu_percent"})
_MEASURED = ALWAYS_THERE | EXTRAS
_HOOK_ERROR = "# error: "
_EVENTS_WITH_VALUES = frozenset({"premeasure", "start", "end"})


def observe(record: EpochRecord, plan: TestPlan, read_output: ReadOutput) -> Trial:
    """Return the trial of one epoch, with its blocks and what is missing from them."""
    logs = {thread: parse_aplog(text) for thread, text in record.aplog}
    hook_values, hook_blocks = _hooks(record)
    blocks: list[MeasurementBlock] = []
    extra: list[dict[str, str]] = list(hook_blocks)
    missing: list[str] = []
    several: dict[str, str] = {}
    for thread in range(1, plan.threads + 1):
        processes = [
            process
            for process in record.processes
            if process.mode == CommandMode.EXEC and process.thread == thread
        ]
        log = logs.get(thread, Aplog([], {}))
        found, absent = _thread_values(plan, processes, log, read_output, several)
        rows = _measured(log, thread, record.epoch)
        if not rows:
            rows = _executed(plan, processes, record.epoch)
            found = hook_values | found
        extra.extend(_other_blocks(log))
        if rows:
            last = rows[-1]
            rows[-1] = _joined(last, found)
        blocks.extend(rows)
        missing.extend(_missing(plan, thread, rows, absent, record.ending))
    if several:
        evidence = "; ".join(several.values())
        extra.append({"": "finding", "code": "several-matches", "evidence": evidence})
    return Trial(
        test=plan.name,
        epoch=record.epoch,
        threads=plan.threads,
        ending=_ending(record, blocks, plan.ok_status),
        started_ns=record.started_ns,
        duration_ns=record.duration_ns,
        blocks=tuple(blocks),
        extra_blocks=tuple(extra),
        processes=record.processes,
        missing=tuple(missing),
        left_running=record.left_running,
        not_permitted=record.not_permitted,
        release_skew_ns=record.release_skew_ns,
    )


def _ending(
    record: EpochRecord, blocks: Sequence[MeasurementBlock], ok_status: Sequence[int]
) -> TrialEnding:
    """Return the trial's ending: a measured command that fails makes the trial fail."""
    failed = any(block.status not in ok_status for block in blocks)
    if record.ending is TrialEnding.OK and failed:
        return TrialEnding.FAILED
    return record.ending


def _executed(
    plan: TestPlan, processes: Sequence[ProcessRecord], epoch: int
) -> list[MeasurementBlock]:
    return [
        MeasurementBlock(
            thread=process.thread,
            epoch=epoch,
            command=uncounted(plan.phases.exec[process.index]).text,
            status=process.status,
            values=process_values(process),
        )
        for process in processes
    ]


def process_values(process: ProcessRecord) -> dict[str, float]:
    """Return what wait4 reported about a process, by the names of quantities."""
    return {
        "elapsed": process.elapsed_ns / 1e9,
        "user": process.user_us / 1e6,
        "system": process.system_us / 1e6,
        "rss_bytes": process.rss_bytes,
        "minor_faults": process.minor_faults,
        "major_faults": process.major_faults,
        "in_blocks": process.in_blocks,
        "out_blocks": process.out_blocks,
        "voluntary_switches": process.voluntary_switches,
        "involuntary_switches": process.involuntary_switches,
    }


def _measured(log: Aplog, thread: int, epoch: int) -> list[MeasurementBlock]:
    rows = []
    for section in log.sections:
        if section.name == "measurement":
            status = parse_number(section.fields.get("status", "0"))
            rows.append(
                MeasurementBlock(
                    thread=thread,
                    epoch=epoch,
                    command=section.fields.get("command", ""),
                    status=1 if status is None else int(status),
                    values=parse_numbers(section.fields),
                )
            )
    return rows


def measured_window(record: EpochRecord) -> tuple[int, int] | None:
    """Return when the measured part of an epoch began and ended [CLOCK_MONOTONIC ns]: from the
    first start to the last end of the commands that `bw measure` measured, in a thread without such
    commands of its EXEC; all of EXEC where a script states times without their start.

    None if nothing was executed.
    """
    executed = [
        (process.thread, process.start_ns, process.start_ns + process.elapsed_ns)
        for process in record.processes
        if process.mode == CommandMode.EXEC and process.start_ns
    ]
    if not executed:
        return None
    begin, end = min(start for _, start, _ in executed), max(end for *_, end in executed)
    logs = {thread: list(_block_times(parse_aplog(text))) for thread, text in record.aplog}
    spans = [(start, end) for thread, start, end in executed if not logs.get(thread)]
    for start, elapsed_ns in (times for found in logs.values() for times in found):
        # The clock of another machine has other times.
        if start is None or not begin <= start <= start + elapsed_ns <= end:
            return begin, end
        spans.append((start, start + elapsed_ns))
    return min(start for start, _ in spans), max(end for _, end in spans)


def _block_times(log: Aplog) -> Iterator[tuple[int | None, int]]:
    """Yield the start of each measured command, None if it is not stated, and its time [ns]."""
    for section in log.sections:
        if section.name == "measurement":
            start = section.fields.get(_START, "")
            elapsed = parse_number(section.fields.get("elapsed", "")) or 0.0
            yield int(start) if start.isdecimal() else None, round(elapsed * 1e9)


def _other_blocks(log: Aplog) -> list[dict[str, str]]:
    return [
        {"": section.name, **section.fields}
        for section in log.sections
        if section.name != "measurement"
    ]


def _hooks(record: EpochRecord) -> tuple[dict[str, float], list[dict[str, str]]]:
    values: dict[str, float] = {}
    blocks: list[dict[str, str]] = []
    for _name, event, text in record.hooks:
        log = parse_aplog(text)
        if event in _EVENTS_WITH_VALUES:
            values.update(_unmeasured(parse_numbers(log.values)))
        blocks.extend({"": s.name, **s.fields} for s in log.sections)
    return values, [*blocks, *_failed_hooks(record)]


def _failed_hooks(record: EpochRecord) -> list[dict[str, str]]:
    """Return a `[finding]` block for each failed hook that reported no finding itself."""
    reported = {name for name, _, text in record.hooks if "\n[finding]" in "\n" + text}
    errors = [
        f"{name} {event}: {line.removeprefix(_HOOK_ERROR)}"
        for name, event, text in record.hooks
        for line in text.splitlines()
        if line.startswith(_HOOK_ERROR) and name not in reported
    ]
    if not errors:
        return []
    evidence = "; ".join(dict.fromkeys(errors))
    return [{"": "finding", "code": "hook-failed", "evidence": evidence}]


def _thread_values(
    plan: TestPlan,
    processes: Sequence[ProcessRecord],
    log: Aplog,
    read_output: ReadOutput,
    several: dict[str, str],
) -> tuple[dict[str, float], dict[str, str]]:
    """Return a thread's own values, and why each requested metric is absent; add to `several` the
    metrics whose pattern matches different values."""
    values = _unmeasured(parse_numbers(log.values))
    absent = {
        name: f"{name} = {text!r} in APLOG is not a number"
        for name, text in log.values.items()
        if parse_number(text) is None
    }
    for name in parse_numbers(log.values).keys() & _MEASURED:
        absent[name] = f"{name} in APLOG is not taken: {name} is measured"
    metrics = [spec for spec in plan.metrics if spec.pointer or spec.pattern]
    if not metrics:
        return values, absent
    outputs = [(read_output(p, "out"), read_output(p, "err")) for p in processes]
    for spec in metrics:
        reason = "no process ran"
        for out, err in reversed(outputs):
            try:
                value = values[spec.name] = extract_metric(spec, out, err)
                if spec.pattern and (other := further_value(spec.pattern, out, err)) is not None:
                    what = f"`{spec.pattern}` matches {value:g}, which is taken, and {other:g}"
                    several.setdefault(spec.name, f"{spec.name}: {what}")
                absent.pop(spec.name, None)
                break
            except MetricNotFound as why:
                reason = str(why)
        else:
            absent[spec.name] = reason
    return values, absent


def _unmeasured(values: dict[str, float]) -> dict[str, float]:
    """Return the values except those with the name of a measured quantity."""
    return {name: v for name, v in values.items() if name not in _MEASURED}


def _joined(block: MeasurementBlock, values: dict[str, float]) -> MeasurementBlock:
    return MeasurementBlock(
        thread=block.thread,
        epoch=block.epoch,
        command=block.command,
        status=block.status,
        values=block.values | values,
        name=block.name,
    )


def _missing(
    plan: TestPlan,
    thread: int,
    rows: Sequence[MeasurementBlock],
    absent: dict[str, str],
    ending: TrialEnding,
) -> list[str]:
    if ending is TrialEnding.INTERRUPTED:
        return []
    wanted = {spec.name for spec in plan.metrics} - ALWAYS_THERE | absent.keys()
    there = {name for block in rows for name in block.values}
    return [
        MissingMetric(name, str(thread), absent.get(name, "no such value was yielded")).line
        for name in sorted(wanted - there | absent.keys() & _MEASURED)
    ]
