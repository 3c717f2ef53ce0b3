"""The machine captured for a session: at its beginning, at each resume, at its end.

Decision: after the machine was put in order and before the first trial: it is the machine
that the trials see. What the programs are is taken from a rehearsal, since a suite's commands
are known only once its variables are.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.machine.capture import capture
from benchwright.model.errors import InputError
from benchwright.session.start import Prepared
from benchwright.study.environment import record_environment
from benchwright.study.journal import Study
from benchwright.suite.plan import PlannedTest, describe

Commands = Sequence[tuple[str, ...]]


def record_machine(study: Study, session: int, commands: Commands = ()) -> None:
    """Capture the machine and the programs of these commands into the session's journal.

    Takes tens of milliseconds, bounded by `capture`'s patience. Raises StudyError.
    """
    record_environment(study, session, capture(commands))


def commands_of(prepared: Prepared) -> Commands:
    """Return what a program's tests measure, each command once, in order."""
    try:
        planned = describe(
            prepared.program,
            defines=prepared.defines,
            environment=prepared.environment,
        )
    except InputError:
        # It was checked before it began; a resume may rehearse in another environment.
        return ()
    tests = (item.plan for item in planned if isinstance(item, PlannedTest))
    found = (command.argv for plan in tests for command in plan.phases.exec)
    return tuple(dict.fromkeys(found))
