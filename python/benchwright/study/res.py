"""Auto-pilot's results file, written: blocks headed `[name]` of `field = value` lines.

Purpose: a test as text that Getstats, ours and the original, reads. Decision: what is
ours alone (plan, session, endings, void trials) is in blocks of other names, which a
reader of `[measurement]` passes over; comments lost, the format has none.
Non-goal: no escapes, the format has none: a line break in a value becomes a space.
Source: Auto-pilot paper, section 3.2; Auto-pilot's manual, version 2.1.
"""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator

from benchwright.model.observation import Block, Ending, Trial
from benchwright.study.contents import TestContents, VoidBatch
from benchwright.study.journal import Session

_TIMES = ("user", "system", "elapsed")
_WRITTEN = {"system": "sys"}


def res_text(test: TestContents, session: Session) -> str:
    """Return a test in the form of Auto-pilot's results file. Times are in seconds."""
    parts = [_session_head(session), _test_head(test)]
    for trial in test.trials:
        parts += _trial_parts(trial)
    for void in test.void:
        parts += _void_parts(void)
    if test.stop is not None:
        stop = {"reason": test.stop.reason, "detail": test.stop.detail}
        parts.append(_section("stop", stop))
    return "\n".join(parts)


def _session_head(session: Session) -> str:
    info = session.info
    started = datetime.datetime.fromtimestamp(info.started_ns // 10**9, datetime.UTC)
    fields = {
        "number": str(session.number),
        "started": started.isoformat(),
        "benchwright": info.version,
        "boot": info.boot_id,
        "directory": info.directory,
        "arguments": shlex.join(info.arguments),
        **{f"define {name}": value for name, value in info.defines},
    }
    return _section("session", fields)


def _test_head(test: TestContents) -> str:
    plan = test.plan
    fields = {
        "name": plan.name,
        "threads": str(plan.threads),
        **{f"factor {name}": level for name, level in plan.sample},
        **{f"command {n}": c.text for n, c in enumerate(plan.phases.exec, 1)},
    }
    return _section("test", fields)


def _trial_parts(trial: Trial) -> Iterator[str]:
    for block in trial.blocks:
        name = f"warmup {block.name}" if trial.warmup else block.name
        yield _section(name, _block_fields(block))
    for extra in trial.extra_blocks:
        fields = {"epoch": str(trial.epoch), **extra}
        yield _section(fields.pop("", "hook"), fields)
    if (
        trial.ending is not Ending.OK
        or trial.attempt > 1
        or trial.missing
        or trial.warmup
    ):
        fields = {"epoch": str(trial.epoch), "ending": trial.ending.value}
        if trial.warmup:
            fields["warmup"] = "yes"
        if trial.attempt > 1:
            fields["attempt"] = str(trial.attempt)
        if trial.missing:
            fields["missing"] = "; ".join(trial.missing)
        yield _section("trial", fields)


def _void_parts(void: VoidBatch) -> Iterator[str]:
    epochs = " ".join(str(epoch) for epoch in void.epochs)
    yield _section("void", {"epochs": epochs, "cause": void.cause})
    for block in void.trial.blocks if void.trial else ():
        yield _section("void measurement", _block_fields(block))


def _block_fields(block: Block) -> dict[str, str]:
    fields = {
        "thread": str(block.thread),
        "epoch": str(block.epoch),
        "command": block.command,
    }
    for name in _TIMES:
        if name in block.values:
            fields[_WRITTEN.get(name, name)] = number_text(block.values[name])
    fields["status"] = str(block.status)
    for name, value in block.values.items():
        if name not in _TIMES:
            fields[name] = number_text(value)
    return fields


def number_text(value: float) -> str:
    """Return a number that reads back as itself; whole ones without a fraction."""
    return repr(value).removesuffix(".0")


def _section(name: str, fields: dict[str, str]) -> str:
    lines = [f"[{name}]"]
    lines += [f"{key} = {' '.join(text.splitlines())}" for key, text in fields.items()]
    return "\n".join(lines) + "\n"
