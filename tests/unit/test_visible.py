"""Nothing that others wrote reaches a terminal as a command to it."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

from benchwright.cli import main as bw
from benchwright.cli import streams
from benchwright.finding.explained import explained
from benchwright.model.chill import Cached, Chilled, Method
from benchwright.model.errors import BenchError
from benchwright.model.finding import Finding, Severity
from benchwright.model.visible import one_line, visible, visible_lines
from benchwright.report.chill import chill_text
from benchwright.report.findings import condensed_lines, finding_line
from benchwright.report.peak_progress import PlainSearch, TerminalSearch
from benchwright.report.progress import PlainProgress, TerminalProgress
from benchwright.report.why import render_why
from watched_uses import trial, use

EVIL = "\x1b]0;PWN\x07\x1b[2J\x9b31m\u202eevil"
SHOWN = r"\x1b]0;PWN\x07\x1b[2J\x9b31m\u202eevil"


def test_what_is_not_printable_is_escaped_and_the_rest_stays() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("a ± b – ü") == "a ± b – ü"
    assert visible("a\nb\udc80") == r"a\nb\udc80"
    assert visible_lines("a\n\tb\r") == "a\n\tb\\r"
    assert one_line(f"a \n b\t{EVIL}") == f"a b {SHOWN}"


@pytest.mark.parametrize("severity", list(Severity))
def test_findings_have_no_control_characters(severity: Severity) -> None:
    finding = Finding("noisy-neighbour", severity, EVIL, EVIL, EVIL)
    assert finding_line(finding).isprintable()
    assert finding_line(finding).startswith(f"{SHOWN}: ")
    assert condensed_lines([finding, finding]).count("\n") == 1


def test_why_has_no_control_characters() -> None:
    found = [
        Finding(code, severity, "t", EVIL, EVIL)
        for code in ("noisy-neighbour", "cpu-saturated", "made-up")
        for severity in Severity
    ]
    seen = (trial(1, use()), trial(2, use()))
    told = explained(EVIL, seen, found, figure=None, sample=((EVIL, EVIL),))
    row = msgspec.structs.replace(told.table[0], name=EVIL)
    told = msgspec.structs.replace(told, sentence=EVIL, table=(row,))
    lines = render_why([told]).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert sum(SHOWN in line for line in lines) >= 4


def test_progress_has_no_control_characters() -> None:
    plain, live = io.StringIO(), io.StringIO()
    PlainProgress(plain).note(EVIL)
    TerminalProgress(live).note(EVIL)
    PlainSearch(plain).line(EVIL)
    TerminalSearch(live).line(EVIL)
    assert (plain.getvalue(), live.getvalue()) == (f"{SHOWN}\n" * 2, f"{SHOWN}\n" * 2)


@pytest.mark.parametrize(
    "error", [BenchError("chill-busy", EVIL, EVIL), OSError(2, EVIL, EVIL)]
)
def test_errors_have_no_control_characters(
    error: Exception,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "silence_stdout", lambda: None)
    bw._reported(error)
    said = capsys.readouterr().err
    assert said.count(SHOWN) == 2
    assert said.replace("\n", "").isprintable()


def test_a_report_of_chill_has_no_control_characters(tmp_path: Path) -> None:
    chilled = Chilled(
        Method.REMOUNT, Cached(1, 1), Cached(1, 1), 1, mounted=EVIL, notes=(EVIL,)
    )
    text = chill_text(chilled, [])
    assert text.count(SHOWN) == 2
    assert text.replace("\n", "").isprintable()
