"""What a resumed search says of a spec that is another by now; the outcome of any search, printed."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from benchwright.core.results import Finding, Severity
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.output import PeakOutput
from benchwright.features.search.peak.experiment import PeakExperiment
from benchwright.features.search.peak.report import PeakReport
from benchwright.features.search.peak.view import PeakView
from benchwright.features.search.session import changed_spec, search_info
from benchwright.inputs.mistakes import SourceFile
from benchwright.run.findings import NoticeContents
from benchwright.run.ledger import Ledger
from benchwright.run.runner import OutputOptions, SessionResult
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo, Study


def info(spec: SourceFile | None, directory: str = "/") -> SessionInfo:
    """Return what a peak search with this spec is begun with."""
    made = search_info("peak", PeakRequest(drawn_seed=1), spec, ())
    return msgspec.structs.replace(made, directory=directory)


@pytest.mark.parametrize(
    ("now", "noted"),
    [(b"a = 1\n", False), (b"a = 2\n", True), (b"", True), (b"\xff", True), (None, False)],
)
def test_a_changed_spec_is_noted_and_a_missing_one_is_not(
    tmp_path: Path, now: bytes | None, noted: bool
) -> None:
    if now is not None:
        (tmp_path / "spec.toml").write_bytes(now)
    note = changed_spec(info(SourceFile("spec.toml", "a = 1\n"), str(tmp_path)))
    assert ("spec.toml has changed since" in note) == noted
    assert bool(note) == noted


def test_a_search_without_a_spec_has_none_that_could_change() -> None:
    assert changed_spec(info(None)) == ""


SPEC = """
[load]
generator = "command"
command = "./gen {rate}"
values = { response_ms_mean = "/mean_ms" }

[peak]
criteria = ["mean response < 40ms"]
"""
FOUND = (Finding("drift", Severity.NOTE, "load", "it drifts"),)


class View(PeakView):
    """A view with this text and document."""

    def ending(self) -> str:
        return "found"

    def named_findings(self) -> tuple[tuple[str, Finding], ...]:
        return (("", FOUND[0]),)

    def text(self, width: int | None = None) -> str:
        return "a report\n"

    def document(self, plots: Any = (), **stored: Any) -> str:
        return f"{stored}\n"

    def answers(self) -> dict[Any, Any]:
        return {}


class Output(PeakOutput):
    """The output of a search whose report is this."""

    def view(self, ended: SessionResult) -> PeakView:
        report = PeakReport(
            status="found",
            detail="",
            criteria=(),
            claims=(),
            results=(),
            policy="",
            seed=1,
            bench_findings=FOUND,
        )
        return View(report)


def printed(place: Path, *, json: bool) -> NoticeContents:
    """Print an outcome as JSON or not, and return what a notice says of it."""
    experiment = PeakExperiment(info(SourceFile("s.toml", SPEC)))
    output = Output(experiment, None, OutputOptions(json=json))
    with contextlib.closing(Study.create_or_open(place / "st")) as study:
        ended = SessionResult(Ledger(study, 7), SessionVerdict("found", "", 3), None)
        output.print(ended)
        contents = output.notice(ended)
    output.close()
    return contents


@pytest.mark.parametrize("json", [False, True])
def test_a_notice_has_the_report_for_a_person_whatever_is_printed(
    json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(tmp_path, json=json) == NoticeContents("a report\n", FOUND)
    out, err = capsys.readouterr()
    members = {"study": str(tmp_path / "st"), "session": 7, "exit_status": 3}
    members |= {"profiles": UNSET}
    doubts = "note: it drifts [drift]\n-v prints each finding with its evidence and remedy"
    assert out == (f"{members}\n" if json else f"a report\n\n{doubts}\n")
    assert err == f"bw: found; stored in {tmp_path / 'st'}\n"


@pytest.mark.parametrize("json", [False, True])
def test_a_notice_has_the_report_that_nobody_reads(
    json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        assert printed(tmp_path, json=json) == NoticeContents("a report\n", FOUND)
