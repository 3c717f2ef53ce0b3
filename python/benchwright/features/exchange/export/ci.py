"""Exports for CI systems: test cases as JUnit XML, and a step summary as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from benchwright.core.comparison import ComparisonResult, MetricVerdict
from benchwright.core.results import Severity
from benchwright.core.text import (
    ABSENT,
    duration_ns_text,
    more_text,
    number_text,
    percent_text,
    plural,
    quantity_text,
    rate_text,
)
from benchwright.core.untrusted import one_line
from benchwright.features.exchange.export.view import (
    Exported,
    ExportLoad,
    ExportMetric,
    ExportTest,
    ExportView,
    figures_of,
    moment,
    without_unit,
)
from benchwright.features.load.document import limit_cases
from benchwright.report.answer import UNFINISHED, TestAnswer, concerned_text
from benchwright.report.comparison import gate_sentence, null_sentence, sentence, verdict_word
from benchwright.report.documents import finding_lines
from benchwright.report.junit import add_child, comparison_suite, junit_text, suite_of, xml_text
from benchwright.report.replicates import population_sentences
from benchwright.views.comparison import replicate_sentences
from benchwright.views.stats import markdown_code, markdown_table, markdown_text
from benchwright.views.terminal import table_rows
from benchwright.views.tests import answers_table

# -- JUnit -----------------------------------------------------------------------------


def junit(view: ExportView) -> Exported:
    """Return a case for each test, and the suite of each comparison as `bw compare --junit`.

    A limit of a load is a case too, which fails where it is missed and is an error where it is
    undecided. A test passes if its question was answered, is skipped if that is undecided, and is
    an error if it or one of its trials failed, or it was interrupted. A session that did not end,
    or has no test, is an error of its own: what it did not run has not passed. So is one of which
    no case is red, though its exit status was 1. The time of a test is what its trials took.
    """
    suites = [comparison_suite(comparison, view.findings) for comparison in view.comparisons]
    arms = {name for comparison in view.comparisons for name in comparison.arms}
    tests = [test for test in view.tests if test.name not in arms]
    cases = [_case(view, test) for test in tests]
    cases += [case for load in view.loads for case in _limits(view, load)]
    red = [*_red(cases), *(one for suite in suites for one in _red(suite))]
    if view.status in _CUT or not (cases or suites) or (view.failure and not red):
        cases.append(_session_case(view))
    if cases:
        name = f"{view.study}@{view.session}"
        spent = sum(trial.duration_ns for test in tests for trial in test.trials)
        findings = view.findings if not suites else [f for t in tests for f in t.findings]
        suites.insert(0, suite_of(name, cases, spent or view.duration_ns, findings))
    for suite in suites:
        suite.set("timestamp", f"{moment(view.started_ns):%Y-%m-%dT%H:%M:%S}")
        suite.insert(0, _properties(view))
    has: dict[str, list[str]] = {name: [] for name in arms}
    has |= figures_of(tests) | _compared(view, only_judged=True)
    why = "of a comparison the file has the judged metrics alone"
    return Exported(junit_text(f"bw {view.kind}", suites), has, why=why)


def _compared(view: ExportView, *, only_judged: bool) -> dict[str, list[str]]:
    """Return the arms of the comparisons with the metrics of their verdicts, as `Exported.has`."""
    found: dict[str, list[str]] = {}
    for comparison in view.comparisons:
        for v in comparison.verdicts:
            if v.judged if only_judged else _is_shown(v):
                found.setdefault(v.baseline, []).append(v.metric)
                found.setdefault(v.candidate, []).append(v.metric)
    return found


def _properties(view: ExportView) -> ElementTree.Element:
    """Return what was measured where, which readers show beside the cases."""
    named = {
        "study": f"{view.study}@{view.session}",
        "benchwright": view.version,
        **{name: view.facts.get(name, "") for name in _PROPERTIES},
    }
    element = ElementTree.Element("properties")
    for name, value in named.items():
        if value:
            ElementTree.SubElement(element, "property", name=name, value=xml_text(one_line(value)))
    return element


_PROPERTIES = ("git.commit", "host.name", "cpu.model", "cpu.threads", "kernel.release")
"""Facts of the machine."""


_CUT = (*UNFINISHED, "stopped")
"""States of a session that has not run all of its tests."""


def _red(cases: Iterable[ElementTree.Element]) -> list[ElementTree.Element]:
    return [
        case for case in cases if not {"failure", "error"}.isdisjoint(part.tag for part in case)
    ]


def _session_case(view: ExportView) -> ElementTree.Element:
    name = f"bw.{view.kind}.session"
    case = ElementTree.Element("testcase", classname=name, name=view.status)
    add_child(case, "error", f"{view.status}: {view.failure or 'not all tests were run'}")
    return case


def _case(view: ExportView, test: ExportTest) -> ElementTree.Element:
    spent = sum(trial.duration_ns for trial in test.trials)
    case = ElementTree.Element(
        "testcase",
        classname=f"bw.{view.kind}.{xml_text(test.base)}",
        name=xml_text(test.name),
        time=f"{spent / 1e9:.3f}",
    )
    if test.state not in ("answered", "undecided"):
        add_child(case, "error", test.reason)
    elif test.failed:
        add_child(case, "error", f"{plural(test.failed, 'trial')} failed")
    elif test.state == "undecided":
        add_child(case, "skipped", f"{test.state}: {test.reason}")
    lines = [_figure_line(metric) for metric in test.metrics]
    grave = [finding for finding in test.findings if finding.severity is Severity.SERIOUS]
    text = "".join(f"{line}\n" for line in lines) + finding_lines(grave)
    if text:
        add_child(case, "system-out", text=text)
    return case


def _limits(view: ExportView, load: ExportLoad) -> list[ElementTree.Element]:
    """Return the cases of the limits that a load was judged by."""
    repeated = sum(export_load.test == load.test for export_load in view.loads) > 1
    part = f".trial{load.trial}" if repeated else ""
    return limit_cases(load.limits, f"bw.load.{load.test}{part}")


def _figure_line(metric: ExportMetric) -> str:
    """Return `elapsed: 12.4 ms, 95 % interval 12.2 ms to 12.6 ms, 30 trials`."""
    value, interval, count = _figure_cells(metric)
    parts = [f"{metric.label}: {value}"]
    if metric.interval is not None:
        level = percent_text(metric.estimate.confidence, 10)
        parts.append(f"{level} interval {interval}")
    return ", ".join([*parts, *([count] if metric.values else [])])


def _figure_cells(metric: ExportMetric) -> tuple[str, str, str]:
    """Return a metric's value, the ends of its interval, and its number of trials."""
    interval = ABSENT
    if metric.interval is not None:
        interval = " to ".join(_value_text(end, metric.unit) for end in metric.interval)
    count = plural(len(metric.values), "trial") if metric.values else ABSENT
    return _value_text(metric.estimate.value, metric.unit), interval, count


def _value_text(value: float, unit: str) -> str:
    return rate_text(value) if unit == "/s" else quantity_text(value, unit)


# -- Markdown --------------------------------------------------------------------------

_MOST_FINDINGS = 10


def markdown(view: ExportView) -> Exported:
    """Return a summary for people: the verdict, the answer as a table, findings, the machine.

    It is short, because a page of CI has many; `bw stats --format markdown` has every quantity.
    """
    blocks = [
        f"### {markdown_text(f'bw {view.kind} {view.study}@{view.session}')}"
        f": {markdown_text(view.status)}\n"
    ]
    if view.failure:
        blocks.append(f"- exit status 1: {markdown_text(view.failure)}\n")
    if view.sentences:
        blocks.append("".join(f"- {markdown_text(one)}\n" for one in view.sentences))
    for comparison in view.comparisons:
        blocks += _comparison_blocks(comparison)
    has = _compared(view, only_judged=False)
    # A finding names the tests that it concerns.
    has |= {name: [] for group in view.groups for name in group.tests if name not in has}
    if view.answer is not None:
        if rows := table_rows(answers_table(view.answer)):
            blocks.append(markdown_table(rows))
            lines = [line for row in view.answer.tests for line in _of_replicates(row)]
            blocks += ["".join(f"- {markdown_text(line)}\n" for line in lines)] if lines else []
            shown = zip(view.tests, view.answer.tests, strict=False)
            for test, row in shown:
                if not row.is_arm:
                    has[test.name] = [row.metric]
    elif view.measured:
        blocks.append(markdown_table(_result_rows(view)))
        has |= figures_of(view.measured)
    blocks += _finding_blocks(view)
    blocks.append(_origin(view))
    why = "the summary has the main metric alone; all of them: bw stats --format markdown"
    return Exported("\n".join(blocks), has, why=why)


def _of_replicates(row: TestAnswer) -> Iterator[str]:
    """Yield what the replicates of a test show, with levels of replication."""
    if row.population is not None and row.estimate is not None and not row.is_arm:
        for text in population_sentences(row.population, row.estimate.unit):
            yield f"{row.name}: {text}"


def _comparison_blocks(comparison: ComparisonResult) -> Iterator[str]:
    lines = [sentence(v, comparison) for v in comparison.verdicts if v.judged]
    lines += [gate_sentence(gate) for gate in comparison.gates]
    lines += replicate_sentences(comparison)
    if comparison.null is not None:
        lines.append(null_sentence(comparison.null))
    yield "".join(f"- {markdown_text(line)}\n" for line in lines)
    rows = [["metric", "candidate", "ratio", "interval", "verdict"]]
    for v in comparison.verdicts:
        if not _is_shown(v):
            continue
        low, high = number_text(v.ratio.low), number_text(v.ratio.high)
        rows.append(
            [
                v.metric,
                v.candidate,
                number_text(v.ratio.value),
                ABSENT if low == ABSENT else f"{low} to {high}",
                verdict_word(v, comparison),
            ]
        )
    if len(rows) > 1:
        yield markdown_table(rows)


def _is_shown(verdict: MetricVerdict) -> bool:
    return verdict.verdict is not None or math.isfinite(verdict.ratio.value)


def _result_rows(view: ExportView) -> list[list[str]]:
    """Return the results of a search: a row for each level or sample."""
    names = list(dict.fromkeys(m.name for test in view.measured for m in test.metrics))
    keys = list(dict.fromkeys(key for test in view.measured for key, _ in test.keys))
    rows = [[*(keys or ["test"]), *(_heading(name) for name in names), "interval"]]
    for test in view.measured:
        levels = dict(test.keys)
        shown = [test.metric(name) for name in names]
        cells = [ABSENT if metric is None else _figure_cells(metric)[0] for metric in shown]
        interval = _figure_cells(test.metrics[0])[1]
        head = [levels.get(key, "") for key in keys] or [test.name]
        rows.append([*head, *cells, interval])
    return rows


def _heading(name: str) -> str:
    return without_unit(name).replace("_", " ")


def _finding_blocks(view: ExportView) -> Iterator[str]:
    if not view.groups:
        return
    total = len(view.tests)
    lines = []
    for group in view.groups[:_MOST_FINDINGS]:
        whom = f"{concerned_text(group.tests, total)}: " if group.tests else ""
        text = markdown_text(f"{whom}{group.sentence}")
        lines.append(f"- {group.severity} {markdown_code(group.code)}: {text}\n")
    if more := view.groups[_MOST_FINDINGS:]:
        codes = ", ".join(markdown_code(group.code) for group in more)
        lines.append(f"- {more_text(len(more))}: {codes}\n")
    yield "".join(lines)


def _origin(view: ExportView) -> str:
    """Return the machine, the version and the cost as one line."""
    facts = view.facts
    parts = [
        facts.get("cpu.model", ""),
        f"{facts['cpu.threads']} CPUs" if "cpu.threads" in facts else "",
        f"Linux {facts['kernel.release']}" if "kernel.release" in facts else "",
        f"Benchwright {view.version}" if view.version else "",
        f"{moment(view.started_ns):%Y-%m-%d %H:%M} UTC",
        f"{duration_ns_text(view.duration_ns)} of trials",
    ]
    if commit := facts.get("git.commit"):
        parts.append(f"commit {commit[:12]}")
    return markdown_text(one_line(", ".join(filter(None, parts)))) + "\n"
