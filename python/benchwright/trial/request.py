"""From a test's plan to the launcher's request."""

from __future__ import annotations

import msgspec

from benchwright.model.plan import Command, Mode, Pairs, TestPlan
from benchwright.trial.record import RunRequest, WireCommand, WireOutput


class Surroundings(msgspec.Struct, frozen=True):
    """What every command of a session gets, whatever its test."""

    directory: str
    """Working directory of every process."""
    environment: Pairs
    """Added to the caller's environment: PATH, TESTROOT, BW_*."""


def epochs_request(
    plan: TestPlan, first: int, count: int, around: Surroundings, logs: str
) -> RunRequest:
    """Return the request that runs epochs `first` .. `first + count - 1` of a test."""
    phases = plan.phases
    commands = (
        *_wire(Mode.SETUP, phases.setup),
        *_wire(Mode.EXEC, phases.exec),
        *_wire(Mode.CLEANUP, phases.cleanup),
    )
    return RunRequest(
        id=0,
        first_epoch=first,
        epochs=count,
        threads=plan.threads,
        commands=commands,
        environment=test_environment(plan, around),
        directory=around.directory,
        logs=logs,
        timeout_ns=plan.timeout_ns,
        hooks=plan.hooks,
        stop_on_failure=plan.fail_fast,
        output=_output(plan),
    )


def _output(plan: TestPlan) -> WireOutput:
    """A metric that is read from the output needs all of it until it is read."""
    mode = plan.output.mode
    if not plan.needs_all_output:
        return WireOutput("null" if mode == "null" else "ends")
    return WireOutput("whole", plan.output.limit_bytes, relay=mode == "inherit")


def command_request(
    mode: Mode,
    commands: tuple[Command, ...],
    around: Surroundings,
    logs: str,
    environment: Pairs = (),
) -> RunRequest:
    """Return the request for commands that run once, outside the epochs."""
    return RunRequest(
        id=0,
        first_epoch=1,
        epochs=1,
        threads=1,
        commands=_wire(mode, commands),
        environment=merged(around.environment, environment),
        directory=around.directory,
        logs=logs,
        stop_on_failure=True,
    )


def test_environment(plan: TestPlan, around: Surroundings) -> Pairs:
    """Return what a test's commands get beyond the caller's environment."""
    ours = (
        ("BW_TEST", plan.name),
        ("THREADS", str(plan.threads)),
        *((f"BW_FACTOR_{name}", level) for name, level in plan.sample),
    )
    return merged(around.environment, ours, plan.environment)


def merged(*pairs: Pairs) -> Pairs:
    """Return the pairs with later ones winning, in order of first appearance."""
    result: dict[str, str] = {}
    for group in pairs:
        result.update(group)
    return tuple(result.items())


def _wire(mode: Mode, commands: tuple[Command, ...]) -> tuple[WireCommand, ...]:
    return tuple(WireCommand(mode.value, command.argv) for command in commands)
