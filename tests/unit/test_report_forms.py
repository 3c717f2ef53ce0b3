"""The table's shape and its other forms, on odd figures."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import StopDecision
from benchwright.findings.codes import make_finding
from benchwright.report.documents import finding_line, stop_line
from benchwright.report.stats_document import (
    InputSection,
    StatsNotice,
    StatsReport,
    compose_report,
    high_z_scores,
    notice_lines,
    number,
    percent,
    row_cells,
)
from benchwright.stats.aggregate import MetricColumn, summarise
from benchwright.views.stats import CSV_COLUMNS, RENDERERS, render_dump, render_stats


def document() -> StatsReport:
    first = summarise("elapsed", [1.0, 2.0, 3.0], label="Elapsed", unit="s")
    second = summarise("elapsed", [4e6, 5e6, 6e6], label="Elapsed", unit="s")
    alone = summarise("ops_100%", [7.0], label="ops_100%")
    findings = [make_finding("command-failed", "b", "`x` exited\nwith status 1")]
    return compose_report(
        [
            InputSection("a", (first,), StopDecision("count", "3 epochs")),
            InputSection("b", (second, alone)),
        ],
        findings,
    )


def test_the_table() -> None:
    found = render_stats(document(), "table").splitlines()
    assert found[0].startswith("b: serious: `x` exited with status 1 [command-failed] ")
    assert found[1:] == [
        "",
        "a",
        "NAME      COUNT        MEAN      MEDIAN         LOW        HIGH         MIN         MAX  SDEV%     HW%",
        "Elapsed   3           2.000       2.000      -0.484       4.484       1.000       3.000 50.000 124.207",
        "",
        "b",
        "NAME      COUNT        MEAN      MEDIAN         LOW        HIGH         MIN         MAX  SDEV%     HW%           O/H",
        "Elapsed   3     5000000.000 5000000.000 2515862.288 7484137.712 4000000.000 6000000.000 20.000  49.683 249999900.000",
        "ops_100%  1           7.000       7.000           -           -       7.000       7.000      -       -             -",
    ]


def test_an_empty_document_has_every_form() -> None:
    empty = compose_report([])
    assert render_stats(empty, "table") == ""
    assert json.loads(render_stats(empty, "json"))["inputs"] == []
    for form in RENDERERS:
        assert isinstance(render_stats(empty, form), str)


def test_json_has_null_where_there_is_no_figure() -> None:
    found = json.loads(render_stats(document(), "json"))
    assert found["schema"] == "benchwright/stats/1"
    assert found["baseline"] == "a"
    first, second = found["inputs"]
    assert first["stop"]["reason"] == "count"
    assert first["quantities"][0]["overhead_percent"] is None
    assert second["quantities"][0]["overhead_percent"] == 249999900.0
    alone = second["quantities"][1]
    assert (alone["mean"], alone["low"], alone["overhead_percent"]) == (7.0, None, None)
    assert found["findings"][0]["code"] == "command-failed"


def test_csv_keeps_every_digit_and_leaves_absent_figures_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(render_stats(document(), "csv"))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert float(rows[0]["sdev"]) == 1.0
    assert float(rows[0]["low"]) == document().sections[0].lines[0].summary.low
    assert (rows[0]["overhead_percent"], rows[2]["low"]) == ("", "")


def test_markdown_and_latex_escape_names() -> None:
    markdown = render_stats(document(), "markdown")
    assert "| Elapsed s | 3 | 2.000 |" in markdown
    assert "ops\\_100%" in markdown
    latex = render_stats(document(), "latex")
    assert r"ops\_100\% & 1 & 7 &" in latex
    assert r"sdev \% & ± \% & O/H \%" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2


def test_figures_too_small_or_too_large_for_three_decimals_do_not_vanish() -> None:
    assert number(0.00012345, decimals=7) == "0.0001234"
    assert number(1.2e-12, decimals=9) == "1.2000e-12"
    assert number(0.0) == number(-0.0) == "0.000"
    assert number(1e300) == "1.0000e+300"
    assert number(float("nan")) == "-"
    assert percent(0.0001) == percent(-0.0001) == "0.000"


def test_small_values_are_shown_with_four_digits_of_the_largest() -> None:
    (section,) = compose_report(
        [InputSection("t", (summarise("elapsed", [0.00121, 0.00119]),))]
    ).sections
    assert row_cells(section.lines[0])[2:4] == ["0.001200", "0.001200"]


def test_a_note_is_its_evidence_alone() -> None:
    note = make_finding("trial-void", "a:1", "cut short and void: epoch 3")
    assert finding_line(note) == "a:1: cut short and void: epoch 3"


def test_a_high_z_score_is_a_notice_in_the_papers_words() -> None:
    values = (9.0, 10.0, 11.0) * 3 + (20.0,)
    column = MetricColumn("elapsed", tuple(range(1, 11)), values)
    (notice,) = high_z_scores("ext2:1.res", [column])
    expected = (20 - 11) / math.sqrt((6 * 1.0 + 3 * 0 + 90) / 9)
    words = notice_lines([notice]).split()
    assert words[:4] == ["ext2:1.res:", "High", "z-score", "of"]
    assert float(words[4]) == pytest.approx(expected, rel=1e-14)
    assert words[5:] == ["for", "elapsed", "in", "epoch", "10."]
    assert high_z_scores("ext2:1.res", [column], threshold=2.9) == []


def test_a_z_score_has_three_digits_where_they_are_asked_for() -> None:
    column = MetricColumn("elapsed", (1, 2, 3), (1.0, 1.0, 4.0))
    (notice,) = high_z_scores("a", [column], 1.0, digits=3)
    assert notice.text == "High z-score of 1.15 for elapsed in epoch 3."


def test_a_notice_has_its_place_in_every_form_for_people() -> None:
    found = compose_report([], notices=[StatsNotice("a_1", "High z-score of 2.5 for elapsed.")])
    assert render_stats(found, "table") == "a_1: High z-score of 2.5 for elapsed.\n"
    assert render_stats(found, "markdown") == "- a\\_1: High z-score of 2.5 for elapsed.\n"
    assert render_stats(found, "latex") == "% a_1: High z-score of 2.5 for elapsed.\n"
    object_ = json.loads(render_stats(found, "json"))
    assert object_["notices"] == [{"subject": "a_1", "text": "High z-score of 2.5 for elapsed."}]
    assert object_["findings"] == []


def test_stop_lines() -> None:
    assert stop_line("t", StopDecision("count", "10 epochs")) == "t: stopped: 10 epochs [count]"
    undecided = StopDecision("max-runs", "30 epochs; elapsed 1 ± 9 %", answered=False, looks=3)
    assert stop_line("t", undecided) == "t: stopped undecided: 30 epochs [max-runs] (3 looks)"


def test_the_dump_is_raw() -> None:
    blocks = [
        MeasurementBlock(1, 1, "tar, x", 0, {"elapsed": 0.1}),
        MeasurementBlock(1, 1, "make", 2, {"ops": 3.0}),
    ]
    assert render_dump([("a.res", blocks, ())]) == (
        "input,thread,epoch,command,status,elapsed,ops\n"
        'a.res,1,1,"tar, x",0,0.1,\n'
        "a.res,1,1,make,2,,3.0\n"
    )


def test_factors_are_the_last_columns_of_csv_and_dump() -> None:
    summary = summarise("elapsed", [1.0, 2.0])
    sample = (("level", "3"), ("count", "7"))
    entries = [InputSection("a", (summary,), sample=sample), InputSection("b", (summary,))]
    head, first, second = csv.reader(io.StringIO(render_stats(compose_report(entries), "csv")))
    assert head == [*CSV_COLUMNS, "level", "factor:count"]
    assert (first[-2:], second[-2:]) == (["3", "7"], ["", ""])
    block = MeasurementBlock(1, 1, "c", 0, {"elapsed": 1.0})
    assert render_dump([("a", [block], sample)]) == (
        "input,thread,epoch,command,status,elapsed,level,count\na,1,1,c,0,1.0,3,7\n"
    )
