"""What a resumed search says of a spec that is another by now; the end of any search, told."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

import pytest

from benchwright.cli.search_errand import SearchOutcome, SpecExperiment
from benchwright.cli.search_live import StoredSearch, changed_spec
from benchwright.core.results import Finding, Severity
from benchwright.load.spec_toml import read_spec
from benchwright.report.parts import encode
from benchwright.run.ledger import Ledger
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import Study
from benchwright.suite.program import SourceFile


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (b"a = 1\n", False),
        (b"a = 2\n", True),
        (b"", True),
        (b"\xff", True),
        (None, False),
    ],
)
def test_a_changed_spec_is_told_and_a_missing_one_is_not(
    tmp_path: Path, now: bytes | None, told: bool
) -> None:
    if now is not None:
        (tmp_path / "spec.toml").write_bytes(now)
    said = changed_spec(str(tmp_path), SourceFile("spec.toml", "a = 1\n"))
    assert ("spec.toml has changed since" in said) == told
    assert bool(said) == told


def test_a_search_without_a_spec_has_none_that_could_change(tmp_path: Path) -> None:
    assert changed_spec(str(tmp_path), None) == ""


SPEC = """
[load]
generator = "command"
command = "./gen {rate}"
values = { response_ms_mean = "/mean_ms" }
"""
FOUND = (Finding("drift", Severity.NOTE, "load", "it drifts"),)


def printed(place: Path, *, json: bool) -> tuple[str, tuple[Finding, ...]]:
    """Print an outcome as JSON or not, and return what it says was told."""
    arguments = argparse.Namespace(json=json, quiet=False)
    errand = SpecExperiment(read_spec(SPEC, "s.toml"), arguments)
    outcome = SearchOutcome(
        status="found",
        findings=FOUND,
        text="a report\n",
        document=lambda **more: encode({"schema": "s", **more}),
        trials=(),
        answers={},
    )
    with contextlib.closing(Study.create_or_open(place / "st")) as study:
        kept = StoredSearch(study.path, 7, Ledger(study, 7))
        told = errand._print(outcome, SessionVerdict("found", "", 3), kept)
    errand.close()
    return told.text, told.findings


@pytest.mark.parametrize("json", [False, True])
def test_a_search_is_told_as_a_person_reads_it_and_printed_as_asked(
    json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(tmp_path, json=json) == ("a report\n", FOUND)
    out, err = capsys.readouterr()
    members = {"study": str(tmp_path / "st"), "session": 7, "exit_status": 3}
    assert out == (encode({"schema": "s", **members}) if json else "a report\n")
    assert err == f"bw: found; kept in {tmp_path / 'st'}\n"


@pytest.mark.parametrize("json", [False, True])
def test_a_search_whose_report_nobody_reads_is_told_whole(
    json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        assert printed(tmp_path, json=json) == ("a report\n", FOUND)
