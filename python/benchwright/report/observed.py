"""What observers beside the sampler saw of a test: its busiest functions, its I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchwright.model.characterized import Characterized
from benchwright.model.observation import Trial
from benchwright.report.characterize import characterize_lines, characterize_object
from benchwright.report.flame_text import profile_lines, profile_object


def observed_lines(
    name: str, trials: Sequence[Trial], characterized: Characterized | None
) -> Iterator[str]:
    """Yield the lines of a test: the last profile, the characterized trial; or none."""
    profiles = [trial.profile for trial in trials if trial.profile is not None]
    if profiles:
        yield from (f"{name}: {line}" for line in profile_lines(profiles[-1]))
    if characterized is not None:
        yield from _headed(name, characterize_lines(characterized))


def observed_object(
    trials: Sequence[Trial], characterized: Characterized | None
) -> dict[str, Any]:
    """Return the same for JSON: every trial's profile; fields only where there is one."""
    profiles = {
        trial.epoch: profile_object(trial.profile)
        for trial in trials
        if trial.profile is not None
    }
    found: dict[str, Any] = {}
    if profiles:
        found["profiles"] = [{"epoch": n, **one} for n, one in profiles.items()]
    if characterized is not None:
        found["characterized"] = characterize_object(characterized)
    return found


def _headed(name: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{name}: {next(lines)}"
    yield from lines
