"""What trials show beside their values, for JSON: profiles, what observers recorded, the last lines of a
failed command, and the amount of output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.observation import CpuProfile, Trial
from benchwright.core.plan import CommandMode
from benchwright.feature import observers
from benchwright.findings.result import TestResult
from benchwright.report.documents import entry

T = TypeVar("T")


class ProfileEntry(CpuProfile, frozen=True, kw_only=True, omit_defaults=True):
    """The profile of a trial. A test's trial has `epoch`; a search's trial has the members
    from `trial` to `next_to_answer`. Members with default values are left out."""

    epoch: int | UnsetType = UNSET
    trial: int | UnsetType = UNSET
    sample: dict[str, str] | UnsetType = UNSET
    load: float | UnsetType = UNSET
    """The rate [1/s], or the number of users."""
    next_to_answer: bool | UnsetType = UNSET


class _Profiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    profiles: tuple[ProfileEntry, ...] = ()


if TYPE_CHECKING:

    class ObservedEntry(_Profiles, frozen=True, kw_only=True, omit_defaults=True):
        """What was observed of a test: the profiles of its trials, and a member for each kind of
        observer that recorded something of it. Members are present only where they exist."""

else:
    ObservedEntry = msgspec.defstruct(
        "ObservedEntry",
        [
            (observer.record, observer.record_type() | None, None)
            for observer in observers()
            if observer.record
        ],
        bases=(_Profiles,),
        namespace={
            "__doc__": "Profiles and characterization of a test; members are present only where "
            "they exist."
        },
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )


def observed_entry(trials: Sequence[Trial], recorded: Mapping[str, Any]) -> ObservedEntry | None:
    """Return every trial's profile and what observers recorded of the test; None if there are
    none."""
    profiles = tuple(
        ProfileEntry(epoch=trial.epoch, **msgspec.structs.asdict(trial.profile))
        for trial in trials
        if trial.profile is not None
    )
    if not profiles and not recorded:
        return None
    return ObservedEntry(profiles=profiles, **recorded)


# -- the last lines of a failed command, and the amount of output of every trial --------


class FailureEntry(msgspec.Struct, frozen=True):
    """The last lines of a failed trial's stderr, and the file that has all of it."""

    epoch: int
    file: str
    lines: tuple[str, ...]


class TrialOutput(msgspec.Struct, frozen=True):
    """The amount of output of one trial's EXEC, stored or not."""

    epoch: int
    stdout_bytes: int
    stderr_bytes: int


class OutputEntry(msgspec.Struct, frozen=True):
    """How the output of a test is stored, and its amount per trial."""

    mode: str
    trials: tuple[TrialOutput, ...]


def failure_entry(trial: Trial) -> FailureEntry:
    """Return the last lines of a failed trial's stderr, which must not be empty."""
    error_text = trial.error_text
    assert error_text is not None
    return entry(FailureEntry, error_text, epoch=trial.epoch)


def output_entry(mode: str, trials: Sequence[Trial]) -> OutputEntry | None:
    """Return the bytes that EXEC wrote, by trial and stream; None if no trial is known to
    have written anything."""
    if not any(p.out_bytes or p.err_bytes for t in trials for p in t.processes):
        return None
    return OutputEntry(mode, tuple(map(_trial_output, trials)))


def _trial_output(trial: Trial) -> TrialOutput:
    executed = [p for p in trial.processes if p.mode == CommandMode.EXEC]
    return TrialOutput(
        trial.epoch,
        sum(p.out_bytes or 0 for p in executed),
        sum(p.err_bytes or 0 for p in executed),
    )


def observed_members(
    tests: Sequence[TestResult], failed: Mapping[str, Trial]
) -> dict[str, dict[str, Any]]:
    """Return the members of a document with observations, each by the test's name; empty ones are
    left out. `failed`: of each test the trial whose command failed with an error text, if any."""
    observed = {test.name: observed_entry(test.trials, test.recorded) for test in tests}
    output = {
        test.name: output_entry(test.plan.output.mode, test.trials)
        for test in tests
        if test.plan is not None
    }
    members: dict[str, dict[str, Any]] = {
        "observed": _present(observed),
        "stderr_tail": {name: failure_entry(trial) for name, trial in failed.items()},
        "output": _present(output),
    }
    return {name: by_test for name, by_test in members.items() if by_test}


def _present(by_test: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in by_test.items() if value is not None}
