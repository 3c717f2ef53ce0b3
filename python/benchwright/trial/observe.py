"""Makes a `Trial` from the launcher's record of an epoch.

Rule: if the script measured something itself (`bw measure`), its blocks are the thread's
result; otherwise each EXEC process is a block. Values from the script, a pattern or a hook
are added to the thread's last block, once. A script or hook cannot replace a value that
Benchwright measures: `missing` names such a line.
Source: Auto-pilot paper, section 3.2 (measurement blocks and hooks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from benchwright.core.observation import (
    MeasurementBlock,
    MissingMetric,
    ProcessRecord,
    Trial,
    TrialEnding,
)
from benchwright.core.plan import CommandMode, TestPlan
from benchwright.stats.metric_rules import EXTRAS
from benchwright.trial.metrics import (
    Aplog,
    MetricNotFound,
    extract_metric,
    parse_aplog,
    parse_number,
    parse_numbers,
)
from benchwright.trial.programs import uncounted
from benchwright.trial.protocol import EpochRecord

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
    for thread in range(1, plan.threads + 1):
        processes = [
            process
            for process in record.processes
            if process.mode == CommandMode.EXEC and process.thread == thread
        ]
        log = logs.get(thread, Aplog([], {}))
        found, absent = _thread_values(plan, processes, log, read_output)
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
    plan: TestPlan, processes: Sequence[ProcessRecord], log: Aplog, read_output: ReadOutput
) -> tuple[dict[str, float], dict[str, str]]:
    """Return a thread's own values, and why each requested metric is absent."""
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
                values[spec.name] = extract_metric(spec, out, err)
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
