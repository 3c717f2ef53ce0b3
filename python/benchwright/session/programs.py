"""Whether the programs of a session are there, before its first trial.

Decision: never refuse what may work. A program that something before it may make (set-up,
an earlier test of a suite) is not asked for, nor what a shell's text does not
certainly name (trial/program_file.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchwright.model.plan import TestPlan
from benchwright.suite.plan import Planned, PlannedTest
from benchwright.trial.program_file import fault_of, program_of

_PAUSE = "sleep"
"""The program of `--rest`, which makes nothing."""


def missing_programs(
    planned: Sequence[Planned],
    environment: Mapping[str, str],
    directory: str,
    *,
    is_suite: bool,
) -> Iterator[tuple[PlannedTest, str, str]]:
    """Yield each test with a program that cannot be started, its name, and why.

    Of a suite only the first step is asked: those before a test may make its program.
    """
    for item in planned[:1] if is_suite else planned:
        if not isinstance(item, PlannedTest) or _may_make(item.plan):
            continue
        own = {**environment, **dict(item.plan.environment)}
        for command in item.plan.phases.exec:
            name = program_of(command.argv)
            why = "" if name is None else fault_of(name, own.get("PATH"), directory)
            if name is not None and why:
                yield item, name, why


def _may_make(plan: TestPlan) -> bool:
    """Tell whether something before a test's command may make its program."""
    before = (*plan.phases.presetup, *plan.phases.setup)
    return any(command.argv[0] != _PAUSE for command in before)
