"""Modules that lie in the current directory never stand in for those that bw runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.load.session import OWN
from benchwright.features.quiet import chill
from benchwright.features.quiet.chill_types import ChillMethod

POPEN = subprocess.Popen


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with modules that end whoever imports them."""
    for name in ("msgspec", "argparse", "tempfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_parent(words: list[str], **given: Any) -> subprocess.Popen[bytes]:
    """Start the squeeze so that it sees its parent gone and takes no memory."""
    return POPEN(words, **{**given, "stdin": subprocess.DEVNULL})


@pytest.mark.usefixtures("planted")
def test_chill_runs_no_module_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", without_parent)
    with pytest.raises(BenchError) as caught:
        chill.chill(chill.ChillRequest(ChillMethod.CHILL, scratch=tmp_path))
    assert caught.value.message == "chill's child ended with 1: ?"


def test_a_load_in_a_study_runs_no_module_of_the_current_directory(planted: Path) -> None:
    done = subprocess.run([*OWN, "--version"], cwd=planted, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
