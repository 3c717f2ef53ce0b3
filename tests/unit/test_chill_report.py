"""What `bw chill` says: text, JSON, the doubt, and what it refuses."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import BenchError
from benchwright.features.quiet.chill import file_system_in_memory, lockers, reboot
from benchwright.features.quiet.chill_types import (
    CachedMemory,
    CacheResidency,
    ChillAllocation,
    ChillMethod,
    ChillReport,
    ChillStop,
    chill_document,
    chill_text,
)
from benchwright.features.quiet.report import chill_findings
from benchwright.machine.restart import RESTART_PATIENCE_S

CHILLED = ChillReport(
    ChillMethod.CHILL,
    CachedMemory(800 << 20, 100 << 20),
    CachedMemory(20 << 20, 30 << 20),
    1_500_000_000,
    squeeze=ChillAllocation(300 << 20, 0, ChillStop.SWAP, 256 << 20),
    checked=(CacheResidency("cold", 1, 9, 9, 0), CacheResidency("warm", 2, 2000, 2000, 17)),
)


def test_what_is_warm_is_a_finding() -> None:
    (doubt,) = chill_findings(CHILLED)
    assert (doubt.code, doubt.subject) == ("chill-incomplete", "warm")
    assert "17 of 2,000 pages still in memory after chill" in doubt.evidence
    assert "the kernel started to swap" in doubt.evidence


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({"only_in": "tmpfs"}, "they cannot be dropped: tmpfs has no other copy"),
        ({"locked_by": ("db (process 7)",)}, "locked in memory (mlock) by db (process"),
    ],
)
def test_pages_that_no_method_can_drop_have_another_remedy(why: dict[str, Any], said: str) -> None:
    warm = msgspec.structs.replace(CHILLED.checked[1], **why)
    (doubt,) = chill_findings(msgspec.structs.replace(CHILLED, checked=(warm,)))
    assert said in doubt.evidence
    assert doubt.remedy.startswith("No method drops them.")


def test_a_process_that_locks_a_file_is_found(tmp_path: Path) -> None:
    """The check of this process itself, which locks one page of one file."""
    files = [tmp_path / name for name in ("locked", "free")]
    for file in files:
        file.write_bytes(bytes(mmap.PAGESIZE))
    libc = ctypes.CDLL(None, use_errno=True)
    with files[0].open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        view = ctypes.c_char.from_buffer(memory)
        address = ctypes.c_void_p(ctypes.addressof(view))
        if libc.mlock(address, ctypes.c_size_t(mmap.PAGESIZE)):
            pytest.skip(f"mlock: {os.strerror(ctypes.get_errno())}")
        (locker,) = lockers(files[:1])
        assert locker.endswith(f"(process {os.getpid()})")
        assert lockers(files[1:]) == ()
        del view


def test_a_file_system_in_memory_is_recognized(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    (tmp_path / "self").mkdir()
    for fs_type, found in (("tmpfs", "tmpfs"), ("ext4", "")):
        line = f"31 23 {device} / /t rw - {fs_type} none rw\n"
        (tmp_path / "self/mountinfo").write_text(line)
        assert file_system_in_memory(tmp_path, tmp_path) == found


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
        (["--method", "chill", "--mount", "/x"], "--method chill does not remount"),
        (["--method", "files"], "there is no file to evict"),
        (["--method", "files", "--check", "/etc/hostname", "x"], "--check takes all"),
        (["--method", "chill", "/etc/hostname"], "is about more than a file"),
        (["--most", "1G", "/etc/hostname"], "--method files takes no memory"),
        (["--method", "chill", "--most", "x"], "x"),
        (["/no/such"], "no such file"),
        (["/dev/null"], "is no regular file"),
        (["--method", "chill", "--strict"], "nothing is checked"),
        (["--scratch", "/no/such"], "it is not a directory"),
        (["--method", "drop-caches", "--check", "/no/such"], "no such file"),
        (["--method", "reboot"], "this restarts the machine"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BW_SESSION", raising=False)
    assert main(["chill", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("complaint", ["", "not allowed"])
def test_a_reboot_never_returns(complaint: str, tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    ran: list[list[str]] = []
    slept: list[float] = []
    with pytest.raises(BenchError) as caught:
        reboot(
            run=lambda words: ran.append(list(words)) or complaint,
            sleep=slept.append,
            root=tmp_path,
        )
    assert caught.value.code == "chill-no-reboot"
    assert ran == [["systemctl", "reboot"]]
    assert slept == ([] if complaint else [RESTART_PATIENCE_S])
