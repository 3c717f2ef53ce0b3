"""What `bw chill` says: text, JSON, the doubt, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.chill import (
    CachedMemory,
    CacheResidency,
    ChillAllocation,
    ChillMethod,
    ChillReport,
    ChillStop,
)
from benchwright.core.errors import BenchError
from benchwright.findings.machine_state import chill_findings
from benchwright.machine.chill import REBOOT_PATIENCE_S, reboot
from benchwright.report.chill import chill_document, chill_text

CHILLED = ChillReport(
    ChillMethod.CHILL,
    CachedMemory(800 << 20, 100 << 20),
    CachedMemory(20 << 20, 30 << 20),
    1_500_000_000,
    squeeze=ChillAllocation(300 << 20, 0, ChillStop.SWAP, 256 << 20),
    checked=(
        CacheResidency("cold", 1, 9, 9, 0),
        CacheResidency("warm", 2, 2000, 2000, 17),
    ),
)


def test_what_is_warm_is_a_finding() -> None:
    (doubt,) = chill_findings(CHILLED)
    assert (doubt.code, doubt.subject) == ("chill-incomplete", "warm")
    assert "17 of 2,000 pages still in memory after chill" in doubt.evidence
    assert "the kernel started to swap" in doubt.evidence


def test_the_report_has_before_and_after() -> None:
    text = chill_text(CHILLED, chill_findings(CHILLED))
    assert "page cache  800 MiB before, 20 MiB after" in text
    assert "300 MiB taken, until the kernel began to swap" in text
    assert "warm (2 files): 17 of 2,000 pages in memory, 2,000 before" in text
    assert "[chill-incomplete]" in text


def test_the_document_has_its_schema_and_all_of_it() -> None:
    document = json.loads(chill_document(CHILLED, chill_findings(CHILLED)))
    assert document["schema"] == "benchwright/chill/1"
    assert document["after"] == {"page_bytes": 20 << 20, "slab_bytes": 30 << 20}
    assert document["squeeze"]["stopped"] == "swap"
    assert document["checked"][1]["after_pages"] == 17
    assert [f["code"] for f in document["findings"]] == ["chill-incomplete"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "remount"], "remount needs --mount DIR"),
        (["--mount", "/x"], "--method chill does not remount"),
        (["--strict"], "nothing is checked"),
        (["--scratch", "/no/such"], "it is not a directory"),
        (["--method", "drop-caches", "--check", "/no/such"], "no such file"),
        (["--method", "reboot"], "this restarts the machine"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BW_SESSION", raising=False)
    assert main(["chill", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("complaint", ["", "not allowed"])
def test_a_reboot_never_returns(complaint: str, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    slept: list[float] = []
    with pytest.raises(BenchError) as caught:
        reboot(
            run=lambda words: ran.append(list(words)) or complaint,
            sleep=slept.append,
            booted=tmp_path,
        )
    assert caught.value.code == "chill-no-reboot"
    assert ran == [["systemctl", "reboot"]]
    assert slept == ([] if complaint else [REBOOT_PATIENCE_S])
