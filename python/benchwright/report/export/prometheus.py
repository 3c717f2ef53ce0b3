"""Exports as metrics of Prometheus: for node_exporter's textfile collector, and as OpenMetrics.

Decision: gauges in base units, the unit at the end of the name; the estimate and the ends of its
interval are series of one family, distinguished by the label `bound`, as a summary has quantiles.
No sample has a time stamp, which the textfile collector refuses. Sources: Prometheus, Exposition
formats and Metric and label naming; OpenMetrics 1.0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from benchwright.core.untrusted import one_line
from benchwright.report.export.view import (
    Exported,
    ExportMetric,
    ExportTest,
    ExportView,
    refusal,
    without_unit,
)

_UNITS = {"s": "seconds", "B": "bytes", "share": "ratio"}
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_]+")
_RESERVED = re.compile(r"_(total|count|sum|bucket|info|created)\Z")
_LABELS = ("test", "bound", "kind", "study", "session", "severity")


class _Family(msgspec.Struct):
    name: str
    unit: str
    """Of OpenMetrics; empty without one."""
    help: str
    samples: list[tuple[dict[str, str], float]]


def prometheus(view: ExportView) -> Exported:
    """Return a file for the textfile collector: `*.prom`."""
    families = _families(view, "prometheus")
    return Exported("".join(line + "\n" for one in families for line in _lines(one)))


def openmetrics(view: ExportView) -> Exported:
    """Return the text format of OpenMetrics, with units and its end mark."""
    lines = []
    for family in _families(view, "openmetrics"):
        head, kind, *samples = _lines(family)
        unit = [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines += [head, kind, *unit, *samples]
    return Exported("\n".join([*lines, "# EOF"]) + "\n")


def _lines(family: _Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} gauge"
    for labels, value in family.samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{family.name}{f'{{{shown}}}' if shown else ''} {value!r}"


def _families(view: ExportView, form: str) -> Iterator[_Family]:
    """Yield a family for each metric, then those about the session."""
    found: dict[str, _Family] = {}
    of_name: dict[str, str] = {}
    for test in view.measured:
        for metric in test.metrics:
            name, unit = _metric_name(metric)
            if of_name.setdefault(name, metric.name) != metric.name:
                message = (
                    f"{of_name[name]} and {metric.name} have one name there, {name}"
                )
                raise refusal(form, message, f"name one: --metric {metric.name}")
            text = f"{metric.label}, better {metric.better}"
            family = found.setdefault(name, _Family(name, unit, text, []))
            for bound, value in _bounds(metric):
                labels = {**_labels(test), "bound": bound}
                family.samples.append((labels, metric.base.of(value)))
    yield from found.values()
    yield from _about_session(view)


def _about_session(view: ExportView) -> Iterator[_Family]:
    session = {
        "study": view.study,
        "session": str(view.session),
        "kind": view.kind,
        "status": view.status,
        "version": view.version,
    }
    counted = [
        (_labels(test), float(sum(one.counts for one in test.trials)))
        for test in view.tests
        if test.trials
    ]
    failed = [
        (_labels(test), float(sum(not one.ok for one in test.trials)))
        for test in view.tests
        if test.trials
    ]
    severities = Counter(str(one.severity) for one in view.findings)
    yield _Family("bw_session", "", "The session, always 1.", [(session, 1.0)])
    yield _Family(
        "bw_session_start_time_seconds",
        "seconds",
        "Start of the session since 1970.",
        [({}, view.started_ns / 1e9)],
    )
    if counted:
        yield _Family("bw_trials", "", "Trials that count.", counted)
        yield _Family("bw_failed_trials", "", "Trials that failed.", failed)
    yield _Family(
        "bw_findings",
        "",
        "Findings by severity.",
        [
            ({"severity": name}, float(severities[name]))
            for name in ("serious", "warning", "note")
        ],
    )
    ratios = [
        (
            {
                "baseline": v.baseline,
                "candidate": v.candidate,
                "metric": v.metric,
                "verdict": str(v.verdict or "shown"),
                "bound": bound,
            },
            value,
        )
        for comparison in view.comparisons
        for v in comparison.verdicts
        for bound, value in (
            ("estimate", v.ratio.value),
            ("low", v.ratio.low),
            ("high", v.ratio.high),
        )
        if math.isfinite(value)
    ]
    if ratios:
        yield _Family("bw_ratio", "", "Candidate divided by baseline.", ratios)


def _metric_name(metric: ExportMetric) -> tuple[str, str]:
    """Return the name of a family, and its unit."""
    base = metric.base.name
    name = _NOT_IN_NAME.sub("_", without_unit(metric.name)).strip("_").lower()
    what, per, _ = base.partition("/")
    unit = _UNITS.get(what, "")
    if base.endswith("/s"):
        unit = f"{unit}_per_second" if unit else "per_second"
    elif per:
        unit = ""
    if unit and not name.endswith(f"_{unit}"):
        name = name.removesuffix(f"_{unit.partition('_')[0]}") + f"_{unit}"
    elif _RESERVED.search(name):
        name += "_value"
    return f"bw_{name or 'value'}", unit


def _bounds(metric: ExportMetric) -> list[tuple[str, float]]:
    low, high = metric.estimate.low, metric.estimate.high
    found = (("estimate", metric.estimate.value), ("low", low), ("high", high))
    return [(bound, value) for bound, value in found if math.isfinite(value)]


def _labels(test: ExportTest) -> dict[str, str]:
    labels = {"test": test.name}
    for key, level in test.keys:
        name = _NOT_IN_NAME.sub("_", key) or "factor"
        if name[0].isdigit() or name in _LABELS or name.startswith("__"):
            name = f"factor_{name.lstrip('_')}"
        while name in labels:
            name += "_"
        labels[name] = level
    return labels


def _escaped(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')
