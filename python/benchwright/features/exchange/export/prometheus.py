"""Exports as metrics of Prometheus: for node_exporter's textfile collector, and as OpenMetrics.

Decision: gauges in base units, the unit at the end of the name; the estimate and the ends of its
interval are series of one family, distinguished by the label `bound`, as a summary has quantiles.
No sample has a time stamp, which the textfile collector refuses, except in the format of intervals,
whose reader needs one for each sample. The times of a load are histograms, whose buckets any query
can add up. Sources: Prometheus, Exposition formats and Metric and label naming; OpenMetrics 1.0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from benchwright.core.untrusted import one_line
from benchwright.features.exchange.export.histograms import histogram_of
from benchwright.features.exchange.export.view import (
    Exported,
    ExportLoad,
    ExportMetric,
    ExportTest,
    ExportView,
    failures_left_out,
    labels_of,
    measured_loads,
    refusal,
    tests_of,
    without_unit,
)
from benchwright.features.load.types import EngineResult, IntervalResult

_UNITS = {"s": "seconds", "B": "bytes", "share": "ratio"}
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_]+")
_RESERVED = re.compile(r"_(total|count|sum|bucket|info|created)\Z")
_LABELS = ("test", "bound", "kind", "study", "session", "severity", "le", "trial", "label")


class _Family(msgspec.Struct):
    name: str
    unit: str
    """Of OpenMetrics; empty without one."""
    help: str
    samples: list[tuple[dict[str, str], float]]
    kind: str = "gauge"
    suffixes: tuple[str, ...] = ()
    """What follows the name, of each sample: `_bucket`; empty: nothing."""
    times_s: tuple[float, ...] = ()
    """The time of each sample since 1970 [s]; empty: none has one."""


def prometheus(view: ExportView) -> Exported:
    """Return a file for the textfile collector: `*.prom`."""
    families = _families(view, "prometheus")
    text = "".join(line + "\n" for family in families for line in _lines(family))
    return Exported(text, _shown(view), left_out=failures_left_out(view.loads), why=_UNKNOWN)


def openmetrics(view: ExportView) -> Exported:
    """Return the text format of OpenMetrics, with units and its end mark."""
    text = _openmetrics(_families(view, "openmetrics"))
    return Exported(text, _shown(view), left_out=failures_left_out(view.loads), why=_UNKNOWN)


_UNKNOWN = "its value is unknown"


def _shown(view: ExportView) -> dict[str, list[str]]:
    """Return what has a sample: figures, and of a test without one the number of its trials."""
    return {
        test.name: [metric.name for metric in test.metrics if _bounds(metric)]
        for test in view.tests
        if test.metrics or test.trials
    }


def intervals(view: ExportView) -> Exported:
    """Return the intervals of loads as OpenMetrics with time stamps, for backfilling."""
    text = _openmetrics(_interval_families(view))
    with_intervals = [load.test for load in view.loads if load.result.intervals]
    return Exported(
        text,
        tests_of(view, with_intervals),
        left_out=failures_left_out(view.loads),
        why="it has no intervals of loads",
    )


def _openmetrics(families: Iterator[_Family]) -> str:
    lines = []
    for family in families:
        head, kind, *samples = _lines(family)
        unit = [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines += [head, kind, *unit, *samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _lines(family: _Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for at, (labels, value) in enumerate(family.samples):
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        name = family.name + (family.suffixes[at] if family.suffixes else "")
        time = f" {family.times_s[at]:.9f}" if family.times_s else ""
        yield f"{name}{f'{{{shown}}}' if shown else ''} {value!r}{time}"


def _families(view: ExportView, form: str) -> Iterator[_Family]:
    """Yield a family for each metric, then those about the session."""
    found: dict[str, _Family] = {}
    of_name: dict[str, str] = {}
    for test in view.measured:
        for metric in test.metrics:
            name, unit = _metric_name(metric)
            if of_name.setdefault(name, metric.name) != metric.name:
                message = f"{of_name[name]} and {metric.name} have one name there, {name}"
                raise refusal(form, message, f"name one: --metric {metric.name}")
            text = f"{metric.label}, better {metric.better}"
            family = found.setdefault(name, _Family(name, unit, text, []))
            for bound, value in _bounds(metric):
                labels = {**_labels(test), "bound": bound}
                family.samples.append((labels, metric.base.of(value)))
    yield from found.values()
    yield from _load_families(view)
    yield from _about_session(view)


# -- Loads -----------------------------------------------------------------------------

_LIMITS_S = tuple(float(f"{digit}e{exponent}") for exponent in range(-6, 3) for digit in (1, 2, 5))
"""Upper limits of the buckets: 1 us to 500 s, three for each power of ten."""
_TIMES = (
    ("response", "from intended start to end, of operations that succeeded"),
    ("service", "from actual start to end, of operations that succeeded"),
)
_OUTCOMES = ("intended", "issued", "completed", "errors", "dropped", "skipped")


def _load_families(view: ExportView) -> Iterator[_Family]:
    """Yield the histograms of the times of loads, all trials of a test together, and their counts."""
    if not view.loads:
        return
    tests: dict[str, list[ExportLoad]] = {}
    for load in view.loads:
        tests.setdefault(load.test, []).append(load)
    for name, text in _TIMES:
        yield _times_family(view, tests, name, f"Time {text}.")
    if labels_of(view.loads):
        for name, text in _TIMES:
            help = f"Of each label of requests: time {text}."
            yield _times_family(view, tests, name, help, label=True)
        yield _Family(
            "bw_load_label_operations",
            "",
            "Operations of each label of requests: those that ended, and those of them that failed.",
            [
                ({**_labels_of(view, test), "label": label, "kind": kind}, count)
                for test, loads in tests.items()
                for label in labels_of(loads)
                for kind, count in _label_counts(loads, label)
            ],
        )
    counts = [
        (
            {**_labels_of(view, test), "kind": outcome},
            float(sum(getattr(load.result.counts, outcome) for load in loads)),
        )
        for test, loads in tests.items()
        for outcome in (*_OUTCOMES, "unfinished", "stray", "undeliverable")
    ]
    yield _Family("bw_load_operations", "", "Operations by outcome.", counts)


def _times_family(
    view: ExportView,
    tests: Mapping[str, list[ExportLoad]],
    name: str,
    help: str,
    *,
    label: bool = False,
) -> _Family:
    """Return the histograms of a time, of each kind of operation or of each label of requests."""
    of, key = ("label_", "label") if label else ("", "kind")
    family = _Family(f"bw_load_{of}{name}_seconds", "seconds", help, [], "histogram")
    suffixes: list[str] = []
    for test, loads in tests.items():
        for part in labels_of(loads) if label else _kinds(loads):
            labels = {**_labels_of(view, test), key: part}
            samples, names = _histogram(loads, labels, part, f"{name}_ns", label=label)
            family.samples += samples
            suffixes += names
    family.suffixes = tuple(suffixes)
    return family


def _label_counts(loads: list[ExportLoad], label: str) -> Iterator[tuple[str, float]]:
    kind_results = [part for load in loads if (part := load.part(label, label=True))]
    yield "completed", float(sum(kind_result.operations for kind_result in kind_results))
    yield "errors", float(sum(sum(kind_result.errors.values()) for kind_result in kind_results))


def _kinds(loads: list[ExportLoad]) -> list[str]:
    """Return the kinds of operation; `all` if there is no other."""
    kinds = dict.fromkeys(kind for load in loads for kind in load.result.kinds)
    return [kind for kind in kinds if kind != "all"] or ["all"]


def _histogram(
    loads: list[ExportLoad], labels: dict[str, str], name: str, times: str, *, label: bool
) -> tuple[list[tuple[dict[str, str], float]], list[str]]:
    """Return the samples of a histogram, and the suffix of each."""
    histogram = histogram_of(loads, name, times, label=label)
    kind_results = (load.part(name, label=label) for load in loads)
    parts = [getattr(kind_result, times) for kind_result in kind_results if kind_result is not None]
    samples = [
        ({**labels, "le": repr(limit)}, float(histogram.count[histogram.high <= limit * 1e9].sum()))
        for limit in _LIMITS_S
    ]
    total = float(histogram.total)
    samples.append(({**labels, "le": "+Inf"}, total))
    whole_s = sum(part.count * (part.mean or 0.0) for part in parts) / 1e9
    samples += [(labels, whole_s), (labels, total)]
    return samples, ["_bucket"] * (len(_LIMITS_S) + 1) + ["_sum", "_count"]


def _labels_of(view: ExportView, name: str) -> dict[str, str]:
    test = next((test for test in view.tests if test.name == name), None)
    return {"test": name} if test is None else _labels(test)


def _per_s(of: str) -> Callable[[IntervalResult], float | None]:
    return lambda interval_result: (
        1e9 * float(getattr(interval_result, of)) / interval_result.length_ns
    )


def _in_seconds(of: str) -> Callable[[IntervalResult], float | None]:
    def seconds(one: IntervalResult) -> float | None:
        value = getattr(one, of)
        return None if value is None else value / 1e9

    return seconds


_INTERVAL_FAMILIES = (
    (
        ("bw_load_rate_per_second", "per_second", "Operations in an interval."),
        "kind",
        {name: _per_s(name) for name in ("intended", "issued", "completed", "errors")},
    ),
    (
        (
            "bw_load_interval_response_seconds",
            "seconds",
            "Response times of operations that ended in an interval.",
        ),
        "bound",
        {name: _in_seconds(f"response_ns_{name}") for name in ("mean", "p50", "p99", "max")},
    ),
    (
        ("bw_load_pending", "", "Operations at the end of an interval."),
        "kind",
        {"in_flight": lambda one: float(one.in_flight), "waiting": lambda one: float(one.waiting)},
    ),
)
"""Name, unit and help of a family; the label of its series; how each is read from an interval."""


def _interval_families(view: ExportView) -> Iterator[_Family]:
    loads = measured_loads(view, "openmetrics-intervals")
    for (name, unit, text), label, series in _INTERVAL_FAMILIES:
        samples: list[tuple[dict[str, str], float]] = []
        times_s: list[float] = []
        for load in loads:
            labels = {**_labels_of(view, load.test), "trial": str(load.trial)}
            for which, value_of in series.items():
                for at_s, value in _course(load.result, value_of):
                    samples.append(({**labels, label: which}, value))
                    times_s.append(at_s)
        yield _Family(name, unit, text, samples, times_s=tuple(times_s))


def _course(
    result: EngineResult, value_of: Callable[[IntervalResult], float | None]
) -> Iterator[tuple[float, float]]:
    """Yield the end of each interval that has the value [s since 1970], and the value."""
    for interval in result.intervals:
        value = value_of(interval)
        if value is not None and interval.length_ns:
            end_ns = result.started_ns + interval.start_ns + interval.length_ns
            yield end_ns / 1e9, value


def _about_session(view: ExportView) -> Iterator[_Family]:
    session = {
        "study": view.study,
        "session": str(view.session),
        "kind": view.kind,
        "status": view.status,
        "version": view.version,
    }
    counted = [
        (_labels(test), float(sum(trial.counts for trial in test.trials)))
        for test in view.tests
        if test.trials
    ]
    failed = [
        (_labels(test), float(sum(not trial.ok for trial in test.trials)))
        for test in view.tests
        if test.trials
    ]
    severities = Counter(str(finding.severity) for finding in view.findings)
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
        [({"severity": name}, float(severities[name])) for name in ("serious", "warning", "note")],
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
