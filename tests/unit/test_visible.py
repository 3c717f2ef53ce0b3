"""Nothing that others wrote reaches a terminal as a command to it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchwright.cli import main as bw
from benchwright.cli import terminal as streams
from benchwright.cli.session_output import warn
from benchwright.core import notice as model_notice
from benchwright.core.errors import BenchError
from benchwright.core.notice import NoticeDelivery
from benchwright.core.observation import MeasurementBlock
from benchwright.core.plan import StopDecision
from benchwright.core.progress import PlainProgress, TerminalProgress
from benchwright.core.results import Finding, Severity
from benchwright.core.untrusted import one_line, shell_text, visible, visible_json, visible_lines
from benchwright.features.quiet.chill_types import (
    CachedMemory,
    ChillMethod,
    ChillReport,
    chill_document,
    chill_text,
)
from benchwright.features.quiet.report import Offer, Status, offer_lines, status_lines
from benchwright.features.quiet.types import QuietOwner, SettingChange
from benchwright.findings.explanation import explain_test
from benchwright.findings.result import TestResult
from benchwright.notice import text as notice_text
from benchwright.notice.deliver import FILE, record_notice
from benchwright.report.answer import finding_groups
from benchwright.report.documents import FindingEntry, encode, finding_line, stop_line
from benchwright.report.run import plan_lines
from benchwright.report.stats_document import InputSection, StatsNotice, StatsReport, compose_report
from benchwright.run.findings import send_notice
from benchwright.stats.aggregate import summarise
from benchwright.suite.plan import PlannedStep
from benchwright.views.stats import render_dump, render_stats
from benchwright.views.terminal import finding_paragraphs, group_lines
from benchwright.views.why import render_why
from watched_uses import trial, use

EVIL = "\x1b]0;PWN\x07\x1b[2J\x9b31m\u202eevil"
SHOWN = r"\x1b]0;PWN\x07\x1b[2J\x9b31m\u202eevil"


def test_what_is_not_printable_is_escaped_and_the_rest_stays() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("a ± b – ü") == "a ± b – ü"
    assert visible("a\nb\udc80") == r"a\nb\udc80"
    assert visible_lines("a\n\tb\r") == "a\n\tb\\r"
    assert one_line(f"a \n b\t{EVIL}") == f"a b {SHOWN}"


def test_one_line_keeps_the_spaces_of_an_argument() -> None:
    assert one_line(" `grep 'a  b'` \n exited ") == "`grep 'a  b'` exited"


@pytest.mark.parametrize(
    "word", ["", "a b", "x  y", "a\tb\nc", "it's \\n\n", EVIL, "\u2028", "\udc80/x", "-ü"]
)
def test_a_shell_reads_the_words_that_were_written_for_it(word: str) -> None:
    line = shell_text(["printf", "%s.%s", word, "end"])
    assert line.isprintable()
    read = subprocess.run(
        ["bash", "-c", line],
        env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    )
    assert read.stdout == f"{word}.end".encode(errors="surrogateescape")


@pytest.mark.parametrize("severity", list(Severity))
def test_findings_have_no_control_characters(severity: Severity) -> None:
    finding = Finding("noisy-neighbour", severity, EVIL, EVIL, EVIL)
    assert finding_line(finding).isprintable()
    assert finding_line(finding).startswith(f"{SHOWN}: ")
    paragraphs = finding_paragraphs([(EVIL, finding), (EVIL, finding)], 2000)
    assert len(paragraphs) == 2
    assert all(line.isprintable() for line in paragraphs)
    groups = finding_groups([(EVIL, finding)])
    assert all(line.isprintable() for line in group_lines(groups, 1, 2000))


def test_why_has_no_control_characters() -> None:
    found = [
        Finding(code, severity, "t", EVIL, EVIL)
        for code in ("noisy-neighbour", "cpu-saturated", "made-up")
        for severity in Severity
    ]
    seen = (trial(1, use()), trial(2, use()))
    told = explain_test(TestResult(EVIL, whole_trials=seen, sample=((EVIL, EVIL),)), EVIL, found)
    row = msgspec.structs.replace(told.table[0], name=EVIL)
    told = msgspec.structs.replace(told, sentence=EVIL, table=(row,))
    lines = render_why([told]).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert sum(SHOWN in line for line in lines) >= 4


def test_progress_has_no_control_characters() -> None:
    plain, live = io.StringIO(), io.StringIO()
    PlainProgress(plain).line(EVIL)
    TerminalProgress(live).line(EVIL)
    assert (plain.getvalue(), live.getvalue()) == (f"{SHOWN}\n", f"{SHOWN}\n")


@pytest.mark.parametrize("error", [BenchError("chill-busy", EVIL, EVIL), OSError(2, EVIL, EVIL)])
def test_errors_have_no_control_characters(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "silence_stdout", lambda: None)
    bw._reported(error, argparse.Namespace())
    said = capsys.readouterr().err
    assert said.count(SHOWN) == 2
    assert said.replace("\n", "").isprintable()


def test_a_report_of_chill_has_no_control_characters(tmp_path: Path) -> None:
    chilled = ChillReport(
        ChillMethod.REMOUNT, CachedMemory(1, 1), CachedMemory(1, 1), 1, mounted=EVIL, notes=(EVIL,)
    )
    text = chill_text(chilled, [])
    assert text.count(SHOWN) == 2
    assert text.replace("\n", "").isprintable()
    odd = msgspec.structs.replace(chilled, mounted=ODD + "\udc80")
    document = chill_document(odd, [])
    assert document.replace("\n", "").isprintable()
    assert json.loads(document)["mounted"] == ODD + "\udc80"


# -- forms for programs, documents and mail --------------------------------------------

ODD = EVIL + '\x7f"\U000e0001'
"""With a quote, and with a character beyond the first 65,536."""


def test_json_is_printable_and_means_the_same() -> None:
    finding = FindingEntry(ODD, Severity.NOTE, "ü ±", ODD, "")
    text = encode(finding)
    assert text.replace("\n", "").isprintable()
    assert "ü ±" in text
    assert json.loads(text) == msgspec.to_builtins(finding)
    assert visible_json('"\x7f\x9b\U000e0001"') == r'"\u007f\u009b\udb40\udc01"'


def evil_document() -> StatsReport:
    """Return a report in which every name is somebody else's."""
    name = f"| <b>`x`</b> & [a](b)\n\r{EVIL}"
    one = summarise("elapsed", [1.0, 2.0, 3.0], label=name, unit="s")
    return compose_report(
        [InputSection(name, (one,)), InputSection("b", (one,))],
        [Finding("`code`\n| x", Severity.WARNING, name, f"* {name}")],
        notices=[StatsNotice(name, f"High.\n{name}")],
    )


def test_csv_is_data_and_keeps_names_as_they_came() -> None:
    block = MeasurementBlock(1, 1, EVIL, 0, {EVIL: 1.0})
    text = render_dump([(EVIL, [block], ())])
    assert [row[0] for row in csv.reader(io.StringIO(text))] == ["input", EVIL]
    assert EVIL in render_stats(evil_document(), "csv")


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
def test_reports_have_no_control_characters(form: str) -> None:
    text = render_stats(evil_document(), form)
    assert text.replace("\n", "").isprintable()
    assert text.count("x1b") >= 5


def test_markdown_takes_no_markup_from_names() -> None:
    text = render_stats(evil_document(), "markdown")
    bare = re.sub(r"\\[\\`*_\[\]<>|#&~$]", "", text)
    assert not set("<`[&") & set(bare)
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    cells = {re.sub(r"\\.", "", line).count("|") for line in tables}
    assert cells == {11, 12}, "a column of overheads more in the second"
    found = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(found) == 2
    assert found[0].startswith(r"- **warning** \`code\` \| x \| \<b\>\`x\`\</b\> \& ")


def test_latex_takes_no_command_from_names_and_a_comment_is_a_line() -> None:
    text = render_stats(evil_document(), "latex")
    comments, _, tables = text.partition("\n\n")
    assert [line[:2] for line in comments.splitlines()] == ["% ", "% "]
    name = r"\textbar{} \textless{}b\textgreater{}`x`\textless{}/b\textgreater{} \& {[}a{]}"
    assert rf"\caption{{{name}(b) \textbackslash{{}}x1b{{]}}0;PWN" in tables
    assert f"\n{name}" in tables


def test_a_row_of_latex_does_not_begin_with_an_option_of_the_one_before() -> None:
    one = summarise("elapsed", [1.0], label="[2cm]")
    star = summarise("ops", [1.0], label="*")
    lines = render_stats(compose_report([InputSection("t", (one, star))]), "latex").splitlines()
    assert any(line.startswith("{[}2cm{]} &") for line in lines)
    assert any(line.startswith("{*} &") for line in lines)


def test_lines_about_a_session_have_no_control_characters() -> None:
    assert stop_line(EVIL, StopDecision("predicate", EVIL)).isprintable()
    steps = [PlannedStep("ECHO", EVIL)]
    assert all(line.isprintable() for line in plan_lines(steps))


def test_notices_have_no_control_characters(tmp_path: Path) -> None:
    notice = told_notice()
    text = notice_text.body(notice)
    assert text.replace("\n", "").isprintable()
    assert text.count(SHOWN) >= 4
    assert notice_text.subject(notice).isprintable()
    found = notice_text.variables(notice)
    assert found["BW_NOTICE_REASON"] == f"{SHOWN}\nsecond"
    assert found["BW_NOTICE_TESTS"] == f"{SHOWN}\\n2"
    assert found["BW_NOTICE_HOST"] == found["BW_NOTICE_SUITE"] == SHOWN
    assert found["BW_NOTICE_STUDY"] == rf"s\n{SHOWN}"
    assert found["BW_NOTICE_FINDINGS"] == rf"drift\x00{SHOWN}"
    several = {"BW_NOTICE_REASON", "BW_NOTICE_TESTS"}
    assert all(v.isprintable() for k, v in found.items() if k not in several)
    document = notice_text.document(notice).decode()
    assert document.isprintable()
    assert json.loads(document)["summary"] == EVIL + "\x7f"
    assert record_notice(tmp_path, notice, [NoticeDelivery("mail", 1, EVIL)]) == ""
    assert (tmp_path / FILE).read_text().replace("\n", "").isprintable()


def told_notice() -> model_notice.Notice:
    """Return a notice in which every text is somebody else's."""
    return model_notice.Notice(
        event=model_notice.NoticeEvent.FAILURE,
        study=f"s\n{EVIL}",
        session=1,
        host=EVIL,
        suite=EVIL,
        status="failed",
        exit_status=1,
        reason=f"{EVIL}\nsecond",
        tests=(f"{EVIL}\n2",),
        findings=(model_notice.NoticeFinding(f"drift\0{EVIL}", "warning", EVIL),),
        summary=EVIL + "\x7f",
        at_ns=1,
    )


def test_what_was_not_delivered_is_a_line_that_commands_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = (NoticeDelivery(EVIL, 1, f"{EVIL}\nsecond"),)
    monkeypatch.setattr("benchwright.notice.deliver.deliver", lambda *_: failed)
    send_notice((), told_notice(), tmp_path, warn)
    said = capsys.readouterr().err
    assert said == f"bw: notice not delivered: {SHOWN}: {SHOWN} second\n"


def test_lines_of_quiet_have_no_control_characters() -> None:
    change = SettingChange("services", EVIL, EVIL, EVIL)
    status = Status(QuietOwner(0, 0, ""), False, 0, ((change, EVIL),))
    offer = Offer("swap", EVIL, 0, (f"why {EVIL}",))
    lines = [*status_lines(status), *offer_lines((offer,))]
    assert all(line.isprintable() for line in lines)
    assert lines[0] == "held for kept until --restore, 1 change"
    assert sum(SHOWN in line for line in lines) == 3


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_the_line_of_what_runs_has_no_control_characters() -> None:
    live = Terminal()
    progress = TerminalProgress(live)
    progress.status(EVIL)
    progress.close()
    assert SHOWN in live.getvalue()
    assert "\x1b]0;PWN" not in live.getvalue()
