"""A library of an extra that is missing is asked for by name, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core import extras


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Install nothing but the package itself; return a directory without a study."""
    monkeypatch.setattr(extras, "find_spec", lambda _name: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (
            ["peak", "--command", "true {rate}", "--response", "/x", "--limit", "1ms"],
            "search",
        ),
        (
            [
                "load",
                "--rate",
                "1",
                "--duration",
                "1s",
                "--target",
                "null",
                "--plot",
                "a.png",
            ],
            "plot",
        ),
    ],
)
def test_the_extra_is_named(
    bare: Path, capsys: pytest.CaptureFixture[str], words: list[str], extra: str
) -> None:
    assert main(words) == 2
    assert f"pip install 'benchwright[{extra}]'" in capsys.readouterr().err
    assert not (bare / "bw-study").exists()
