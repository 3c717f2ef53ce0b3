"""How much the trials of a test wrote to stdout and stderr, kept or not, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchwright.model.observation import Trial
from benchwright.model.plan import Mode


def writes(trials: Sequence[Trial]) -> bool:
    """Return whether any of the trials is known to have written anything."""
    return any(p.out_bytes or p.err_bytes for t in trials for p in t.processes)


def output_object(mode: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what was asked for, and the bytes of EXEC by trial and stream."""
    return {"mode": mode, "trials": [_trial(trial) for trial in trials]}


def _trial(trial: Trial) -> dict[str, Any]:
    executed = [p for p in trial.processes if p.mode == Mode.EXEC]
    return {
        "epoch": trial.epoch,
        "stdout_bytes": sum(p.out_bytes or 0 for p in executed),
        "stderr_bytes": sum(p.err_bytes or 0 for p in executed),
    }
