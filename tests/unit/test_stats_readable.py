"""The tables of `bw stats`: units, equal digits, constants once, findings below them."""

from __future__ import annotations

import re

import msgspec
import pytest

from benchwright.cli.stats import with_reports
from benchwright.core.observation import TrialEnding
from benchwright.core.results import Finding, Severity
from benchwright.findings.result import TestResult
from benchwright.report.answer import answer_of
from benchwright.report.stats_document import InputSection, StatsNotice, StatsReport, compose_report
from benchwright.results.stats import StudyAnswer
from benchwright.stats.aggregate import summarise
from benchwright.views.stats import render_readable, render_stats
from watched_uses import trial, use

DRIFT = Finding("drift", Severity.WARNING, "a", "elapsed rises (details)", "find it")


def report(*notices: StatsNotice) -> StatsReport:
    def entry(name: str, factor: float) -> InputSection:
        times = [factor * value for value in (0.010, 0.012, 0.011)]
        return InputSection(
            name,
            (
                summarise("elapsed", times, label="Elapsed", unit="s"),
                summarise("system", [0.0] * 3, label="System", unit="s"),
                summarise("cpu_percent", [90.0, 91, 92], label="CPU%", unit="%"),
                summarise("rss_bytes", [232781.0] * 3, unit="B"),
            ),
        )

    entries = [entry("a", 1), entry("b", 30)]
    return compose_report(entries, [DRIFT], notices=notices)


def lines_of(document: StatsReport, *, verbose: bool = False) -> list[str]:
    return render_readable(document, 100, verbose=verbose).splitlines()


def test_a_quantity_has_one_unit_and_the_same_decimals_in_all_tables() -> None:
    elapsed = [line.split() for line in lines_of(report()) if "Elapsed" in line]
    assert [[*row[:4], row[6]] for row in elapsed] == [
        ["Elapsed", "ms", "3", "11.0", "11.0"],
        ["Elapsed", "ms", "3", "330.0", "330.0"],
    ]
    (cpu, _) = [line.split() for line in lines_of(report()) if line.startswith("CPU%")]
    assert cpu[:3] == ["CPU%", "3", "91.00"]


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_a_document_has_the_units_of_the_table_and_its_constants(form: str) -> None:
    rows = [
        [cell.strip(" |") for cell in re.split(r" [&|] ", line)][:3]
        for line in render_stats(report(), form).replace("\\", "").splitlines()
    ]
    assert [row for row in rows if row[0].startswith("Elapsed")] == [
        ["Elapsed ms", "3", "11.0"],
        ["Elapsed ms", "3", "330.0"],
    ]
    assert ["CPU%", "3", "91.00"] in rows
    assert ["System s", "3", "0"] in rows


def test_a_constant_is_one_line_below_the_tables() -> None:
    lines = lines_of(report())
    assert [line for line in lines if "every trial" in line] == [
        "System is less than the resolution of its clock in every trial",
        "rss_bytes is 232.781 kB in every trial",
    ]
    assert not any(line.startswith("rss_bytes ") for line in lines if "is" not in line)


@pytest.mark.parametrize(
    ("name", "value", "unit", "shown"),
    [
        ("instructions", 1234567891.0, "", "1,234,567,891"),
        ("rss_bytes", 16777216.0, "B", "16.777216 MB"),
        ("elapsed", 0.12345678, "s", "123.45678 ms"),
        ("cpu_percent", 100 / 3, "%", "about 33.3333 %"),
        ("wait", 100.1 - 99.9, "s", "200 ms"),
    ],
)
def test_a_constant_is_exact_unless_it_was_computed(
    name: str, value: float, unit: str, shown: str
) -> None:
    entry = InputSection("a", (summarise(name, [value] * 3, label=name, unit=unit),))
    lines = lines_of(compose_report([entry], []))
    assert lines == [f"{name} is {shown} in every trial"]


def test_findings_are_below_the_tables_and_whole_only_on_request() -> None:
    assert lines_of(report())[-2:] == [
        "1 of 2 tests (a): warning: elapsed rises (details) [drift]",
        "evidence and remedies: bw stats -v",
    ]
    assert lines_of(report(), verbose=True)[-2:] == [
        "a: warning: elapsed rises (details) [drift]",
        "    = find it",
    ]


def test_z_scores_are_printed_only_on_request_and_other_notices_always() -> None:
    high = StatsNotice("a", "High z-score of 2.1 for elapsed in epoch 2.", 2.1)
    left_out = StatsNotice("a", "Left out, without any number: text.", float("inf"))
    document = report(high, left_out)
    plain, verbose = lines_of(document), lines_of(document, verbose=True)
    assert f"a: {left_out.text}" in plain
    assert not any("z-score" in line for line in plain)
    assert f"a: {high.text}" in verbose


def test_an_empty_report_is_empty() -> None:
    assert render_readable(compose_report([]), 100, verbose=False) == ""


def test_a_wait_below_zero_is_printed_as_zero_and_stored_as_measured() -> None:
    wait = summarise("wait", [-0.004, 0.002, 0.005], label="Wait", unit="s")
    document = compose_report([InputSection("a", (wait,))])
    (row,) = [line.split() for line in lines_of(document) if line.startswith("Wait")]
    assert "0.00" in row
    assert not any(cell.startswith("-") for cell in row)
    assert document.sections[0].lines[0].summary.minimum == -0.004


def test_a_void_load_has_no_report() -> None:
    """What was cut short is in no figure; a report of it looked like a result."""
    cut = msgspec.structs.replace(trial(1, use()), ending=TrialEnding.INTERRUPTED)
    answer = StudyAnswer("s", "s", answer_of([], status="interrupted"))
    load = TestResult("load", void_trials=(cut,), source="s", test="load")
    assert with_reports(answer, [load], verbose=False) is answer
