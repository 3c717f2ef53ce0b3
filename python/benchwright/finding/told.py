"""Doubts that a measured command told itself: `[finding]` blocks in APLOG.

`bw load` inside a trial knows that its generator fell behind; the study must not forget
it. Decision: one finding for each code, with the epochs and what the first of them said;
a code that is not in our table is kept as a note, not dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding.codes import CODES, doubt
from benchwright.finding.words import epochs_text
from benchwright.model.finding import Finding, Severity
from benchwright.model.observation import Ending, Trial

BLOCK = "finding"


def told_findings(name: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return what the trials' own `[finding]` blocks say; void trials say nothing."""
    said: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for trial in trials:
        if trial.ending is not Ending.INTERRUPTED:
            for block in trial.extra_blocks:
                if block.get("") == BLOCK and block.get("code"):
                    said.setdefault(block["code"], []).append((trial.epoch, block))
    return [_finding(name, code, found, len(trials)) for code, found in said.items()]


def _finding(
    name: str, code: str, found: list[tuple[int, dict[str, str]]], total: int
) -> Finding:
    epochs = list(dict.fromkeys(epoch for epoch, _ in found))
    first = found[0][1].get("evidence", "")
    where = epochs_text(epochs, total)
    evidence = f"{first} ({where})" if total > 1 else first
    if code not in CODES:
        return Finding(code, Severity.NOTE, name, evidence)
    grave = {block.get("severity") for _, block in found}
    order = list(Severity)
    severity = max((s for s in order if s in grave), key=order.index, default=None)
    return doubt(code, name, evidence, severity)
