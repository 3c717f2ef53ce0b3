"""A library of an extra that is missing is asked for by name, before anything is done."""

from __future__ import annotations

import sys
from importlib import metadata
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
    ("source", "installed"),
    [
        ('{"url": "file:///srv/new%20dist/bw.whl"}', "'/srv/new dist/bw.whl[plot]'"),
        ('{"url": "https://example.com/bw.whl"}', "'https://example.com/bw.whl[plot]'"),
        (None, "'benchwright-VERSION-...whl[plot]'"),
        ("damaged", "'benchwright-VERSION-...whl[plot]'"),
    ],
)
def test_the_advice_names_what_was_installed(
    monkeypatch: pytest.MonkeyPatch, source: str | None, installed: str
) -> None:
    class Installed:
        def read_text(self, _name: str) -> str | None:
            return source

    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed())
    command = f"{sys.executable} -m pip install {installed}"
    assert extras.install_command("plot") == command


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["peak", "--command", "true {rate}", "--response", "/x", "--limit", "1ms"], "search"),
        (
            ["load", "--rate", "1", "--duration", "1s", "--target", "null", "--plot", "a.png"],
            "plot",
        ),
    ],
)
def test_the_extra_is_named(
    bare: Path, capsys: pytest.CaptureFixture[str], words: list[str], extra: str
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert extras.install_command(extra) in said
    assert "install benchwright[" not in said.replace("'", "")
    assert not (bare / "bw-study").exists()
