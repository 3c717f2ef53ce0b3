"""`bw`, `bw help` and `bw version`: what a person types first."""

from __future__ import annotations

import json
import re

import pytest

from benchwright import __version__
from benchwright.cli.main import main, parser
from benchwright.cli.parser import SUMMARIES


def test_help_fits_a_screen_and_lists_every_command() -> None:
    lines = parser(()).format_help().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 50
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == list(SUMMARIES)


def test_bw_alone_prints_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == parser(()).format_help()


@pytest.mark.parametrize("words", [("schema",), ("trace",), ("trace", "stat")])
def test_bw_help_prints_what_the_option_prints(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    of_option = capsys.readouterr().out
    assert main(["help", *words]) == 0
    assert capsys.readouterr().out == of_option
    assert f"usage: bw {' '.join(words)} " in of_option


@pytest.mark.parametrize("name", ["run", "compare"])
def test_help_of_a_command_fits_a_screen_and_bw_help_has_every_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    brief = parser((name,)).of((name,)).format_help()
    assert len(brief.splitlines()) <= 66
    assert main(["help", name]) == 0
    whole = capsys.readouterr().out
    flags = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", whole, re.MULTILINE))
    assert {"--shell", "--notify-on", "--target-port"} <= flags
    for flag in flags:
        assert f"{flag} " in f"{brief} ".replace(",", " ").replace("\n", " "), flag


def test_bw_help_alone_prints_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert capsys.readouterr().out == parser(()).format_help()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rnu"], "did you mean run?"),
        (["suite.toml"], "bw run suite.toml"),
        (["sleep", "1"], "bw run -- sleep"),
        (["no-such-thing"], "bw --help"),
        (["help", "rnu"], "did you mean run?"),
        (["help", "trace", "sta"], "did you mean stat?"),
        (["help", "run", "more"], "there is no command 'run more'"),
    ],
)
def test_an_unknown_command_is_refused_with_what_may_be_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    assert main(words) == 2
    assert hint in capsys.readouterr().err


def test_version_is_the_same_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["-V"]):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        assert capsys.readouterr().out == f"bw {__version__}\n"
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"bw {__version__}\n"
    assert main(["version", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["version"] for one in document["programs"]] == [__version__] * 3
    assert main(["version", "--verbose"]) == 0
    assert document["kernel"] in capsys.readouterr().out


def test_a_missing_program_is_reported_in_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BW_ENGINE", "/bin/false")
    assert main(["version", "--json"]) == 0
    engine = json.loads(capsys.readouterr().out)["programs"][1]
    assert engine == {"path": "/bin/false", "version": None}


def test_two_dashes_are_no_value_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--name=--", "--runs", "1", "--", "echo", "--x=--"]) == 2
    error = capsys.readouterr().err
    assert "--name" in error
    assert "--x" not in error
