"""Secrets of a command line are in no page, export or history; the journal has the command."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.machine.redact import REDACTED, without_secrets
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study

SECRETS = ("horseAbattery", "horseCbattery", "horseDbattery", "horseEbattery")
COMMANDS = (
    "echo --password=horseAbattery http://u:horseCbattery@h/",
    "echo curl -u me:horseDbattery",
    "echo --token horseEbattery --key-size=16",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies: of a run of all commands, and of a comparison of two."""
    made = tmp_path_factory.mktemp("secrets")
    with contextlib.chdir(made):
        words = ("--study", "run", "--max-runs", "3", *COMMANDS)
        assert main(["run", *words]) in (0, 3)
        words = ("--study", "compare", "--max-blocks", "3", *COMMANDS[:2])
        assert main(["compare", *words]) in (0, 3)
    return made


@pytest.mark.parametrize("study", ["run", "compare"])
@pytest.mark.parametrize(
    "words",
    ["report {}", "report {} --json"]
    + [
        f"export {{}} --format {name}"
        for name in ("junit", "prometheus", "markdown", "hyperfine", "bencher", "benchfmt")
    ],
)  # fmt: skip
def test_a_page_and_an_export_have_none(
    place: Path, study: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.chdir(place):
        assert main([*words.format(study).split(), "-o", "out"]) in (0, 2, 3)
        file = Path("out")
        written = (file.read_text() if file.exists() else "") + capfd.readouterr().out
        file.unlink(missing_ok=True)
    assert not [secret for secret in SECRETS if secret in written]


def test_a_history_has_none(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(place):
        assert main(["history", "add", "run", "--file", "h.db"]) == 0
        assert main(["history", "h.db", "--html", "h.html"]) in (0, 3)
        stored = Path("h.db").read_bytes() + Path("h.html").read_bytes()
    shown = capfd.readouterr().out.encode()
    assert not [secret for secret in SECRETS if secret.encode() in stored + shown]
    # What is no secret tells tests apart.
    assert b"--key-size=16" in stored


def test_the_journal_has_the_command(place: Path) -> None:
    stored = (place / "run" / JOURNAL).read_bytes()
    assert all(secret.encode() in stored for secret in SECRETS)
    with contextlib.closing(Study.open_to_read(place / "run")) as study:
        (session,) = study.sessions()
    assert any(COMMANDS[0] in text for text in session.info.commands)


def test_a_secret_is_removed_where_it_stands_and_a_word_alike_is_not() -> None:
    shown = ("none", "load --auth=none a", "figure: none, then 5")
    assert without_secrets(shown, ("load --auth=none a",)) == (
        "none",
        f"load --auth={REDACTED} a",
        "figure: none, then 5",
    )


def test_a_secret_that_was_cut_is_removed() -> None:
    command = "load --password=horseAbattery"
    assert without_secrets(("load --password=horseA…",), (command,)) == (
        f"load --password={REDACTED}…",
    )


def test_names_that_differ_in_a_secret_stay_different() -> None:
    arms = ("load --token aaaabbbb1", "load --token aaaabbbb2")
    shown = without_secrets(arms, arms)
    assert len(set(shown)) == 2
    assert not any("aaaabbbb" in one for one in shown)


@pytest.mark.parametrize(
    "command", ["bench --key-size=16", "bench --filter BenchmarkSortLarge1000Items", "true"]
)
def test_numbers_and_names_are_no_secrets(command: str) -> None:
    assert without_secrets((command,), (command,)) == (command,)
