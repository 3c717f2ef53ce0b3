"""What the JSON documents of reports are made of.

A figure that is not there is null: absent is not zero, and NaN is not JSON. An infinite one
is null too, since JSON has none; where it means something, its key stands in `infinite`
beside the figures: a percentile that lies among operations that never ended is no absent one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from benchwright.model.decision import Stop
from benchwright.model.estimate import Estimate, Reached
from benchwright.model.finding import Finding
from benchwright.model.visible import visible_json
from benchwright.report.document import Line, Section
from benchwright.stats.overhead import percent_of_mean


def encode(document: dict[str, Any]) -> str:
    """Return plain objects as indented JSON with a newline at its end.

    What is not printable is escaped in it.
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return visible_json(text) + "\n"


def section_object(section: Section) -> dict[str, Any]:
    """Return one input with its quantities as plain objects."""
    return {
        "name": section.name,
        "threads": section.threads,
        "sample": dict(section.sample),
        "stop": None if section.stop is None else stop_object(section.stop),
        "quantities": [_line(line) for line in section.lines],
    }


def _line(line: Line) -> dict[str, Any]:
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


def stop_object(stop: Stop) -> dict[str, Any]:
    """Return why a test ended as plain objects."""
    return {
        "reason": stop.reason,
        "detail": stop.detail,
        "answered": stop.answered,
        "looks": stop.looks,
        "target": known(stop.target),
        "reached": [_reached_object(one) for one in stop.reached],
    }


def _reached_object(one: Reached) -> dict[str, Any]:
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
