"""Parts that every report has: findings, why a test stopped, estimates; as lines and for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from benchwright.core.observation import Trial
from benchwright.core.plan import CommandMode, StopDecision
from benchwright.core.results import Estimate, Finding, ReachedPrecision, Severity
from benchwright.core.untrusted import one_line, visible, visible_json
from benchwright.report.stats_document import InputSection, QuantityLine
from benchwright.stats.predicate import percent_of_mean

# -- Findings as lines for a person ----------------------------------------------------


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: `SUBJECT: what was seen`.

    Beyond a note, its severity, code and remedy too. What is not printable is escaped.
    """
    subject, evidence = visible(finding.subject), one_line(finding.evidence)
    if finding.severity is Severity.NOTE:
        return f"{subject}: {evidence}"
    line = f"{subject}: {finding.severity}: {evidence} [{finding.code}]"
    return f"{line} {visible(finding.remedy)}" if finding.remedy else line


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return findings one per line, the last ended too; empty without any."""
    return "".join(finding_line(finding) + "\n" for finding in findings)


def condensed_lines(findings: Iterable[Finding]) -> str:
    """Return findings for the end of a run, where a table follows.

    What holds for several tests alike is one line; `bw stats` lists each.
    """
    subjects: dict[Finding, list[str]] = {}
    for finding in findings:
        alike = msgspec.structs.replace(finding, subject="")
        subjects.setdefault(alike, []).append(finding.subject)
    return finding_lines(
        msgspec.structs.replace(alike, subject=", ".join(names))
        for alike, names in subjects.items()
    )


# -- Why a test ended, as a line -------------------------------------------------------


def stop_line(name: str, stop: StopDecision) -> str:
    """Return `NAME: stopped: why (looks)`, with `undecided` where no answer came."""
    verdict = "stopped" if stop.answered else "stopped undecided"
    looks = ""
    if stop.looks > 1 and " looks" not in stop.detail:
        looks = f" ({stop.looks} looks)"
    text = f"{name}: {verdict}: {stop.detail or stop.reason} [{stop.reason}]{looks}"
    return one_line(text)


# -- What a failed command wrote last, for a person and for JSON -----------------------
#
# A program's text is anybody's: what is not printable is escaped.


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


# --------------------------------------------------------------------------------------
# How much the trials of a test wrote to stdout and stderr, kept or not, for JSON.


def writes(trials: Sequence[Trial]) -> bool:
    """Return whether any of the trials is known to have written anything."""
    return any(p.out_bytes or p.err_bytes for t in trials for p in t.processes)


def output_object(mode: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what was asked for, and the bytes of EXEC by trial and stream."""
    return {"mode": mode, "trials": [_trial_output(trial) for trial in trials]}


def _trial_output(trial: Trial) -> dict[str, Any]:
    executed = [p for p in trial.processes if p.mode == CommandMode.EXEC]
    return {
        "epoch": trial.epoch,
        "stdout_bytes": sum(p.out_bytes or 0 for p in executed),
        "stderr_bytes": sum(p.err_bytes or 0 for p in executed),
    }


# -- What the JSON documents of reports are made of ------------------------------------
#
# A figure that is not there is null: absent is not zero, and NaN is not JSON. An infinite one
# is null too, since JSON has none; where it means something, its key stands in `infinite`
# beside the figures: a percentile that lies among operations that never ended is no absent one.


def encode(document: dict[str, Any]) -> str:
    """Return plain objects as indented JSON with a newline at its end.

    What is not printable is escaped in it.
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return visible_json(text) + "\n"


def section_object(section: InputSection) -> dict[str, Any]:
    """Return one input with its quantities as plain objects."""
    return {
        "name": section.name,
        "threads": section.threads,
        "sample": dict(section.sample),
        "stop": None if section.stop is None else stop_object(section.stop),
        "quantities": [_quantity_object(line) for line in section.lines],
    }


def _quantity_object(line: QuantityLine) -> dict[str, Any]:
    s = line.summary
    return {
        "name": s.name,
        "label": s.label,
        "unit": s.unit,
        "count": s.count,
        "mean": known(s.mean),
        "median": known(s.median),
        "low": known(s.low),
        "high": known(s.high),
        "min": known(s.minimum),
        "max": known(s.maximum),
        "sdev": known(s.sdev),
        "sdev_percent": known(line.sdev_percent),
        "half_width": known(s.half_width),
        "half_width_percent": known(line.half_width_percent),
        "slope": known(s.slope),
        "sum": known(s.sum),
        "confidence": s.confidence,
        "method": "student-t",
        "overhead_percent": known(line.overhead_percent),
    }


def known(value: float | None) -> float | None:
    """Return a finite figure, or None."""
    return None if value is None or not math.isfinite(value) else value


def infinite(values: Mapping[str, float | None]) -> list[str]:
    """Return the keys of the figures that are infinite, and null in JSON for that."""
    return [k for k, value in values.items() if value is not None and math.isinf(value)]


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain objects."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
    }


def stop_object(stop: StopDecision) -> dict[str, Any]:
    """Return why a test ended as plain objects."""
    return {
        "reason": stop.reason,
        "detail": stop.detail,
        "answered": stop.answered,
        "looks": stop.looks,
        "target": known(stop.target),
        "reached": [_reached_object(one) for one in stop.reached],
    }


def _reached_object(one: ReachedPrecision) -> dict[str, Any]:
    """Return the interval that a rule's metric came to; null without one."""
    found = one.estimate
    return {
        "metric": one.metric,
        "statistic": one.statistic,
        "n": one.n,
        "estimate": None if found is None else estimate_object(found),
    }


def estimate_object(found: Estimate) -> dict[str, Any]:
    """Return an estimate as plain objects."""
    width = percent_of_mean(found.half_width, found.value)
    return {
        "value": known(found.value),
        "low": known(found.low),
        "high": known(found.high),
        "half_width_percent": known(width),
        "confidence": found.confidence,
        "method": found.method,
        "n": found.n,
        "unit": found.unit,
    }
