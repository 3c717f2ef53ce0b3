"""A comparison as JUnit XML, for CI systems that read the test results of a build.

Decision: only a gate can fail a build. One case per metric and candidate states the verdict and
never fails; if undecided, it is `skipped`. One case per gate and candidate: `failure` if the gate
failed, `error` if it is undecided or the comparison was cut short, because a build without an
answer has not passed. Failed trials are a separate `error`. So a report is green exactly when the
exit status is 0, with one exception: an undecided comparison without a gate (exit status 3) is
shown as skipped. Findings are in the suite's `system-out`, one per line; serious ones and those
that make a gate undecided also in the `system-out` of the cases of the gates that they concern,
because some CI systems (GitLab) show only the cases. Source: the JUnit schema as Jenkins reads it
(testsuites, testsuite, testcase).
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from benchwright.core.comparison import ComparisonResult, GateOutcome, Verdict
from benchwright.core.results import Finding, Severity
from benchwright.core.text import plural
from benchwright.core.untrusted import visible_lines
from benchwright.report.comparison import gate_sentence, sentence
from benchwright.report.documents import finding_lines

_CUT = ("interrupted", "stopped", "failed")
"""Reasons that end a comparison early: a gate that held so far has not passed."""


def render_junit(comparisons: Sequence[ComparisonResult], findings: Sequence[Finding] = ()) -> str:
    """Return an XML document with one `testsuite` per comparison; `findings` concern all of
    them."""
    suites = [comparison_suite(comparison, findings) for comparison in comparisons]
    return junit_text("bw compare", suites)


def junit_text(name: str, suites: Sequence[ElementTree.Element]) -> str:
    """Return a document with these elements `testsuite`."""
    root = ElementTree.Element("testsuites", name=xml_text(name))
    root.extend(suites)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def comparison_suite(
    comparison: ComparisonResult, findings: Sequence[Finding]
) -> ElementTree.Element:
    """Return the `testsuite` of a comparison; `findings` concern it or its arms."""
    gates = _gates(comparison, findings)
    cases = [*_verdicts(comparison), *gates, *_trials(comparison)]
    name = " and ".join(comparison.arms)
    return suite_of(name, cases, comparison.duration_ns, findings)


def suite_of(
    name: str, cases: Sequence[ElementTree.Element], duration_ns: int, findings: Sequence[Finding]
) -> ElementTree.Element:
    """Return a `testsuite` with these cases, and the counts of their outcomes."""
    counts = {
        outcome: sum(case.find(outcome) is not None for case in cases)
        for outcome in ("failure", "error", "skipped")
    }
    suite = ElementTree.Element(
        "testsuite",
        name=xml_text(name),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{duration_ns / 1e9:.3f}",
    )
    suite.extend(cases)
    if findings:
        add_child(suite, "system-out", text=finding_lines(findings))
    return suite


def _verdicts(comparison: ComparisonResult) -> list[ElementTree.Element]:
    cases = []
    for v in comparison.verdicts:
        if not v.judged:
            continue
        case = _case(v.candidate, v.metric)
        if v.verdict is Verdict.UNDECIDED:
            add_child(case, "skipped", "undecided")
        add_child(case, "system-out", text=sentence(v, comparison))
        cases.append(case)
    return cases


def _gates(comparison: ComparisonResult, findings: Sequence[Finding]) -> list[ElementTree.Element]:
    """Return a case for each gate, with the lines of the findings that may concern it."""
    by_test = {gate.test: _subjects(gate.test, comparison.arms) for gate in comparison.gates}
    subjects = {*comparison.arms[1:]}.union(*by_test.values())
    cases = []
    for gate in comparison.gates:
        case = _case(gate.candidate, f"not {gate.gate.text}")
        if gate.outcome is GateOutcome.FAILED:
            add_child(case, "failure", gate.detail, gate_sentence(gate))
        elif gate.outcome is GateOutcome.UNDECIDED:
            add_child(case, "error", f"undecided: {gate.detail}", gate_sentence(gate))
        elif comparison.stop.reason in _CUT:
            add_child(case, "error", comparison.stop.reason, gate_sentence(gate))
        others = subjects - by_test[gate.test] - {gate.candidate}
        grave = [
            finding
            for finding in findings
            if (finding.severity is Severity.SERIOUS or finding.code in gate.held_by)
            and finding.subject not in others
        ]
        if grave:
            add_child(case, "system-out", text=finding_lines(grave))
        cases.append(case)
    return cases


def _subjects(test: str, arms: Sequence[str]) -> set[str]:
    """Return the subjects of findings about one test of several; none where there is one alone."""
    named = [f"{arm}:{test}" for arm in arms]
    return {test, *named, " and ".join(named)} if test else set()


def _trials(comparison: ComparisonResult) -> list[ElementTree.Element]:
    count = comparison.failed_blocks
    if not count and not comparison.failures:
        return []
    case = _case(" and ".join(comparison.arms), "trials")
    message = f"a trial failed in {plural(count, 'block')}"
    if not count:
        message = "a warm-up trial failed"
    elif any(verdict.blocks is None for verdict in comparison.verdicts):
        message = f"{plural(count, 'trial')} of one arm failed"
    if comparison.has_failures:
        add_child(case, "error", message, comparison.stop.detail)
    else:
        add_child(case, "system-out", text=f"{message}, which is accepted")
    return [case]


def _case(candidate: str, name: str) -> ElementTree.Element:
    return ElementTree.Element(
        "testcase", classname=f"bw.compare.{xml_text(candidate)}", name=xml_text(name)
    )


def add_child(case: ElementTree.Element, tag: str, message: str = "", text: str = "") -> None:
    """Add an element with an attribute `message` and a text; without those that are empty."""
    child = ElementTree.SubElement(case, tag)
    if message:
        child.set("message", xml_text(message))
    if text:
        child.text = xml_text(text)


def xml_text(text: str) -> str:
    """Return a text that XML 1.0 allows: unprintable characters are escaped."""
    return visible_lines(text)
