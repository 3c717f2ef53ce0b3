"""Exports for services that store results and look for changes between commits.

Sources: README of github-action-benchmark; Bencher's bmf-schema; docs/CSV.md and test_config.py of
Apache Otava 0.8; schemas/performance-artifact.json of Treeherder (Perfherder).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import msgspec

from benchwright.core.text import number_text, percent_text
from benchwright.core.text_table import csv_of_rows
from benchwright.core.untrusted import one_line
from benchwright.features.exchange.export.view import (
    Exported,
    ExportMetric,
    ExportTest,
    ExportView,
    distinct,
    figures_of,
    file_name,
    json_text,
    measured_tests,
    moment,
    units_left_out,
    without_unit,
)

# -- github-action-benchmark -----------------------------------------------------------


def github_action_benchmark(view: ExportView) -> Exported:
    """Return the input of the tools `customSmallerIsBetter` and `customBiggerIsBetter`.

    A file has one direction: that of the first test's main metric. Metrics of the other direction
    are left out.
    """
    tests = measured_tests(view, "github-action-benchmark")
    direction = tests[0].metrics[0].better
    benches, others = [], []
    has: dict[str, list[str]] = {}
    for test in tests:
        for metric in test.metrics:
            if metric.better == direction:
                benches.append(_bench(view, test, metric))
                has.setdefault(test.name, []).append(metric.name)
            else:
                others.append(metric.name)
    why = f"a file has one direction, here better {direction}"
    if others:
        why += f"; the other one: --metric {others[0]}"
    return Exported(json_text(benches), has, why=why)


def _bench(view: ExportView, test: ExportTest, metric: ExportMetric) -> dict[str, Any]:
    base = metric.base.name
    bench: dict[str, Any] = {
        "name": f"{one_line(test.name)} {one_line(metric.label)}",
        "unit": {"share": "ratio"}.get(base, base),
        "value": metric.base_value,
    }
    extra = [f"n={len(metric.values)}"] if metric.values else []
    if metric.base_interval is not None:
        low, high = metric.base_interval
        bench["range"] = f"± {number_text((high - low) / 2)}"
        level = percent_text(metric.estimate.confidence, 10)
        extra.append(f"{level} interval {_ends_text(low, high)}")
    extra.append(f"{view.study}@{view.session}: {test.state}")
    extra += sorted({f"{f.severity}: {f.code}" for f in test.findings})
    bench["extra"] = "\n".join(extra)
    return bench


def _ends_text(low: float, high: float) -> str:
    """Return the ends of an interval, rounded outward to three digits of its half width, so that no
    value in it is outside of what is printed."""
    half = (Decimal(repr(high)) - Decimal(repr(low))) / 2
    if half <= 0:
        return f"{_digits_text(low)} to {_digits_text(high)}"
    step = Decimal(10) ** (half.adjusted() - 2)
    floor = (Decimal(repr(low)) / step).to_integral_value(ROUND_FLOOR) * step
    ceiling = (Decimal(repr(high)) / step).to_integral_value(ROUND_CEILING) * step
    return f"{_digits_text(float(floor))} to {_digits_text(float(ceiling))}"


def _digits_text(value: float) -> str:
    """Return a number with all its digits: `218,062`."""
    short = f"{value:,.15g}"
    return short if float(short.replace(",", "")) == value else f"{value:,.17g}"


# -- Bencher Metric Format -------------------------------------------------------------

_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


def bencher(view: ExportView) -> Exported:
    """Return Bencher Metric Format: benchmark -> measure -> value and the ends of the interval.

    The elapsed time is Bencher's own measure `latency`, in nanoseconds.
    """
    tests = measured_tests(view, "bencher")
    document = {test.name: _measures(test) for test in tests}
    return Exported(json_text(document), figures_of(tests))


def _measures(test: ExportTest) -> dict[str, dict[str, float]]:
    slugs = distinct(_slug(metric) for metric in test.metrics)
    found = {}
    for slug, metric in zip(slugs, test.metrics, strict=True):
        scale = 1e9 if slug == "latency" else 1
        measure = {"value": metric.base_value * scale}
        if metric.base_interval is not None:
            low, high = metric.base_interval
            measure |= {"lower_value": low * scale, "upper_value": high * scale}
        found[slug] = measure
    return found


def _slug(metric: ExportMetric) -> str:
    if metric.name == "elapsed":
        return "latency"
    name = without_unit(metric.name).lower()
    return _NOT_IN_SLUG.sub("-", name).strip("-") or "value"


# -- Perfherder ------------------------------------------------------------------------

_LARGEST = 1e12
_LONGEST_UNIT = 20
_LONGEST_OPTION = 100
_MOST_OPTIONS = 8


def perfherder(view: ExportView) -> Exported:
    """Return the line `PERFHERDER_DATA: {...}`, which Treeherder reads in the log of a job.

    A suite is a test, its extra options are the levels, its subtests are the metrics.
    """
    tests = measured_tests(view, "perfherder")
    document = {"framework": {"name": "benchwright"}, "suites": [_suite(test) for test in tests]}
    line = msgspec.json.encode(document).decode()
    has = {
        test.name: [metric.name for metric in test.metrics if _fits_perfherder(metric)]
        for test in tests
    }
    return Exported(f"PERFHERDER_DATA: {line}\n", has, why="values above 1e12 are invalid there")


def _fits_perfherder(metric: ExportMetric) -> bool:
    return abs(metric.base_value) <= _LARGEST


def _suite(test: ExportTest) -> dict[str, Any]:
    options = [f"{one_line(k)}={one_line(v)}"[:_LONGEST_OPTION] for k, v in test.keys]
    fits = len(options) <= _MOST_OPTIONS and len(set(options)) == len(options)
    subtests = []
    for metric in test.metrics:
        if not _fits_perfherder(metric):
            continue
        subtests.append(
            {
                "name": one_line(metric.label),
                **_perfherder_value(metric),
                "replicates": metric.base_replicates,
            }
        )
    suite: dict[str, Any] = {"name": one_line(test.base if fits else test.name)}
    if options and fits:
        suite["extraOptions"] = options
    if subtests and subtests[0]["name"] == one_line(test.metrics[0].label):
        suite |= _perfherder_value(test.metrics[0])
    return {**suite, "subtests": subtests}


def _perfherder_value(metric: ExportMetric) -> dict[str, Any]:
    base = metric.base.name
    unit = {"share": "ratio"}.get(base, one_line(base))[:_LONGEST_UNIT]
    return {
        "value": metric.base_value,
        **({"unit": unit} if unit else {}),
        "lowerIsBetter": metric.better == "lower",
    }


# -- Apache Otava ----------------------------------------------------------------------


def otava(view: ExportView) -> Exported:
    """Return the configuration of Otava, and a CSV file for each test with a row for each session.

    Otava looks for the CSV files in the folder in which it is started. It reads a number in each
    cell, so a session that lacks a metric of the test's last session has no row.
    """
    by_test: dict[str, list[tuple[ExportView, ExportTest]]] = {}
    left_out: list[str] = []
    for export_view in (*view.earlier, view):
        for test in export_view.measured:
            by_test.setdefault(test.name, []).append((export_view, test))
        if export_view is not view:
            left_out += (
                f"session {export_view.session} of {test.name} is left out: it has no value"
                for test in export_view.tests
                if not test.metrics
            )
    if not by_test:
        measured_tests(view, "otava")
    names = distinct(map(file_name, by_test))
    config, files = ["tests:"], []
    shown: dict[str, ExportMetric] = {}
    for name, (test_name, points) in zip(names, by_test.items(), strict=True):
        metrics = points[-1][1].metrics
        whole = []
        for session, test in points:
            if missing := [m.name for m in metrics if test.metric(m.name) is None]:
                where = f"session {session.session} of {test_name}"
                left_out.append(f"{where} is left out: it has no {', '.join(missing)}")
            else:
                whole.append((session, test))
        file = f"{file_name(view.study)}-{name}.csv"
        columns = _columns(metrics)
        shown |= columns
        files.append((file, _otava_csv(whole, columns)))
        config += _otava_test(name, file, columns)
    return Exported(
        "\n".join(config) + "\n",
        figures_of(view.measured),
        beside=tuple(files),
        left_out=(*left_out, *units_left_out(shown)),
    )


def _otava_csv(
    points: Sequence[tuple[ExportView, ExportTest]], columns: Mapping[str, ExportMetric]
) -> str:
    rows: list[list[object]] = [["time", "commit", "session", *columns]]
    for view, test in sorted(points, key=lambda point: point[0].started_ns):
        when = f"{moment(view.started_ns):%Y-%m-%d %H:%M:%S} +0000"
        commit = view.facts.get("git.commit", "")
        figures = {metric.name: metric.base_value for metric in test.metrics}
        values = [figures[column.name] for column in columns.values()]
        rows.append([when, commit, f"{view.study}@{view.session}", *values])
    return csv_of_rows(rows)


def _otava_test(name: str, file: str, columns: Mapping[str, ExportMetric]) -> list[str]:
    lines = [
        f"  {_yaml(name)}:",
        "    type: csv",
        f"    file: {_yaml(file)}",
        "    time_column: time",
        "    attributes: [commit, session]",
        "    metrics:",
    ]
    for column, metric in columns.items():
        direction = 1 if metric.better == "higher" else -1
        lines.append(
            f"      {_yaml(column)}: {{column: {_yaml(column)}, direction: {direction}, scale: 1}}"
        )
    return lines


def _columns(metrics: Sequence[ExportMetric]) -> dict[str, ExportMetric]:
    """Return the metrics by their columns, of which none has the name of another column."""
    names = (
        f"metric {name}" if name in ("time", "commit", "session", "branch") else name
        for name in (metric.base_name for metric in metrics)
    )
    return dict(zip(distinct(names), metrics, strict=True))


def _yaml(text: str) -> str:
    """Return a text as a YAML scalar: JSON's strings are YAML's double-quoted ones."""
    return msgspec.json.encode(one_line(text)).decode()
