"""What a failed command wrote last, for a person and for JSON.

A program's text is anybody's: what is not printable is escaped.
"""

from __future__ import annotations

from typing import Any

from benchwright.model.observation import Trial
from benchwright.model.visible import visible


def failure_text(name: str, trial: Trial) -> str:
    """Return the last lines of a failed trial's stderr and where the rest is."""
    said = trial.error_text
    assert said is not None, "only a trial that failed and said something is shown"
    head = visible(f"{name}: epoch {trial.epoch} failed; the end of {said.file}:")
    return "".join([f"{head}\n", *(f"    {visible(one)}\n" for one in said.lines)])


def failure_object(trial: Trial) -> dict[str, Any]:
    """Return the same as members of a JSON object."""
    said = trial.error_text
    assert said is not None, "only a trial that failed and said something is shown"
    return {"epoch": trial.epoch, "file": said.file, "lines": list(said.lines)}
