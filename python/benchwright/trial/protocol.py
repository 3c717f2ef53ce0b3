"""The messages between Python and the launcher, and the requests made from a test's plan."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import (
    AS_PLANNED,
    SUCCESS,
    Command,
    CommandMode,
    Pairs,
    TestPlan,
    TrialSetting,
)

# -- The wire format between Python and the launcher (docs/launcher-protocol.md) -------
#
# Decision: plain frozen records, and one encoder and one decoder for the whole process.
# A request describes a batch of epochs; its replies are the batch's records.


class WireCommand(msgspec.Struct, frozen=True):
    """One command of a request."""

    mode: str
    argv: tuple[str, ...]


class WireOutput(msgspec.Struct, frozen=True):
    """What happens to the output of EXEC."""

    keep: Literal["null", "ends", "whole"] = "whole"
    limit_bytes: int | None = None
    """With `whole`: the limit of a stream; an epoch that exceeds it is ended."""
    relay: bool = False
    """With `whole`: also copy the output to the launcher's stderr."""


BATCH_NS = 1_000_000_000
"""A batch ends after the trial in which this time has passed: a crash loses no more work."""
VISIT_NS = 300_000_000
"""The same for interleaved tests: their trials alternate often, and a batch is still long enough to
be watched (run/watching.py)."""


class RunRequest(msgspec.Struct, frozen=True, tag="run", tag_field="type"):
    """Run `epochs` epochs of these commands; times in nanoseconds."""

    id: int
    first_epoch: int
    epochs: int
    threads: int
    commands: tuple[WireCommand, ...]
    environment: tuple[tuple[str, str], ...]
    directory: str
    logs: str
    timeout_ns: int | None = None
    grace_ns: int = 2_000_000_000
    budget_ns: int = BATCH_NS
    hooks: tuple[str, ...] = ()
    stop_on_failure: bool = False
    ok_status: tuple[int, ...] = SUCCESS
    output: WireOutput = WireOutput()


class InterruptRequest(msgspec.Struct, frozen=True, tag="interrupt", tag_field="type"):
    """End what is running; with `cleanup` the CLEANUP commands still run."""

    cleanup: bool


class LauncherHello(msgspec.Struct, frozen=True, tag="hello", tag_field="type"):
    """The launcher's first line."""

    protocol: int
    pid: int
    version: str
    rss_floor_bytes: int
    """Lower bound of every peak RSS: the launcher's own resident size [bytes]."""


class EpochRecord(msgspec.Struct, frozen=True, tag="epoch", tag_field="type"):
    """One epoch as the launcher recorded it."""

    id: int
    epoch: int
    ending: TrialEnding
    started_ns: int
    duration_ns: int
    release_skew_ns: int
    left_running: int
    processes: tuple[ProcessRecord, ...]
    not_permitted: int = 0
    """Processes that are still running after the epoch because another user owns them."""
    aplog: tuple[tuple[int, str], ...] = ()
    """What each thread appended to APLOG: (thread, text)."""
    hooks: tuple[tuple[str, str, str], ...] = ()
    """What each hook printed: (name, event, text)."""
    output_full: bool = False
    """Whether a stream exceeded the request's limit."""
    stopped: bool = False
    """Whether the launcher was stopped and continued meanwhile, so that its stamps are late."""


class BatchDone(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The end of a request: the reason, and the first epoch that was not run."""

    id: int
    next_epoch: int
    reason: str


class RequestRefused(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """The request could not be run at all."""

    id: int
    message: str


LauncherReply = LauncherHello | EpochRecord | BatchDone | RequestRefused


# -- From a test's plan to the launcher's request --------------------------------------


class ExecEnvironment(msgspec.Struct, frozen=True):
    """What all commands of a session share, whatever their test."""

    directory: str
    """Working directory of every process."""
    environment: Pairs
    """Variables added to the caller's environment: PATH, TESTROOT, BW_*."""


def epochs_request(
    plan: TestPlan,
    first: int,
    count: int,
    around: ExecEnvironment,
    logs: str,
    setting: TrialSetting = AS_PLANNED,
) -> RunRequest:
    """Return the request that runs epochs `first` .. `first + count - 1` of a test."""
    phases = plan.phases
    commands = (
        *_wire_commands(CommandMode.SETUP, phases.setup, setting),
        *_wire_commands(CommandMode.EXEC, phases.exec, setting),
        *_wire_commands(CommandMode.CLEANUP, phases.cleanup, setting),
    )
    return RunRequest(
        id=0,
        first_epoch=first,
        epochs=count,
        threads=plan.threads,
        commands=commands,
        environment=merge_pairs(test_environment(plan, around), setting.environment),
        directory=setting.directory or plan.directory or around.directory,
        logs=logs,
        timeout_ns=plan.timeout_ns,
        hooks=plan.hooks,
        budget_ns=BATCH_NS if plan.place is None else VISIT_NS,
        stop_on_failure=plan.fail_fast,
        ok_status=plan.ok_status,
        output=_wire_output(plan),
    )


def _wire_output(plan: TestPlan) -> WireOutput:
    """Return how output is stored: whole if a metric has to be read from it."""
    mode = plan.output.mode
    if not plan.needs_all_output:
        return WireOutput("null" if mode == "null" else "ends")
    return WireOutput("whole", plan.output.limit_bytes, relay=mode == "inherit")


def command_request(
    mode: CommandMode,
    commands: tuple[Command, ...],
    around: ExecEnvironment,
    logs: str,
    environment: Pairs = (),
    setting: TrialSetting = AS_PLANNED,
) -> RunRequest:
    """Return the request for commands that run once, outside the epochs."""
    return RunRequest(
        id=0,
        first_epoch=1,
        epochs=1,
        threads=1,
        commands=_wire_commands(mode, commands, setting),
        environment=merge_pairs(around.environment, environment, setting.environment),
        directory=setting.directory or around.directory,
        logs=logs,
        stop_on_failure=True,
    )


def test_environment(plan: TestPlan, around: ExecEnvironment) -> Pairs:
    """Return the variables that a test's commands get in addition to the caller's."""
    ours = (
        ("BW_TEST", plan.name),
        ("THREADS", str(plan.threads)),
        *((f"BW_FACTOR_{name}", level) for name, level in plan.sample),
    )
    return merge_pairs(around.environment, ours, plan.environment)


def merge_pairs(*pairs: Pairs) -> Pairs:
    """Return the merged pairs, in order of first appearance; later values win."""
    result: dict[str, str] = {}
    for group in pairs:
        result.update(group)
    return tuple(result.items())


def _wire_commands(
    mode: CommandMode, commands: tuple[Command, ...], setting: TrialSetting
) -> tuple[WireCommand, ...]:
    return tuple(WireCommand(mode.value, setting.command(one).argv) for one in commands)
