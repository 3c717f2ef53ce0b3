"""What watches a session and whom it tells: from the command line to what a resume reads."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from benchwright.cli import compare, run
from benchwright.cli.main import main
from benchwright.cli.shared_options import with_session_options
from benchwright.core.errors import InputError
from benchwright.core.notice import CommandTarget, NoticeEvent, NoticeSettings
from benchwright.features.load import command as load
from benchwright.features.replay import command as replay
from benchwright.features.search.peak import command as peak
from benchwright.features.search.ramp import command as ramp
from benchwright.features.search.surface import command as surface
from benchwright.run.findings import notices_of
from benchwright.run.watching import WATCH_OPTION
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import SessionInfo

SEARCHES = (peak, ramp, surface)
WATCHING = (run, compare, *SEARCHES)
INFO = SessionInfo(0, "", "", "/", (), (), "", (), {"token": "a"})
TOLD = ("--notify", "command:tell me", "--notify-on", "done")


def named(module: ModuleType) -> str:
    """Return a command's name."""
    *_, room, name = module.__name__.split(".")
    return room if name == "command" else name


def options(module: ModuleType, *words: str) -> dict[str, str]:
    """Return what a session of a command keeps of these words."""
    parser = argparse.ArgumentParser()
    module.add_parser(parser.add_subparsers())
    more = ("t.load",) if module is replay else ()
    arguments = parser.parse_args([named(module), *more, *words])
    return with_session_options(INFO, arguments).options


@pytest.mark.parametrize("module", WATCHING, ids=named)
def test_what_watches_is_kept_with_the_session(module: ModuleType) -> None:
    assert options(module) == {"token": "a", WATCH_OPTION: "sample"}
    assert options(module, "--profile")[WATCH_OPTION] == "sample profile"
    assert options(module, "--no-watch")[WATCH_OPTION] == ""
    assert options(module, "--no-watch", "--profile")[WATCH_OPTION] == "profile"


@pytest.mark.parametrize("module", SEARCHES, ids=named)
def test_a_load_of_a_search_is_not_characterized(
    module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options(run, "--characterize")[WATCH_OPTION] == "sample characterize"
    with pytest.raises(SystemExit):
        options(module, "--characterize")
    assert "--characterize" in capsys.readouterr().err


@pytest.mark.parametrize("module", [*WATCHING, load, replay], ids=named)
def test_whom_to_tell_is_kept_with_the_session(module: ModuleType) -> None:
    info = msgspec.structs.replace(INFO, options=options(module, *TOLD))
    asked = NoticeSettings((CommandTarget(("tell", "me")),), (NoticeEvent.DONE,))
    assert notices_of(info) == (asked,)
    of_the_spec = NoticeSettings((CommandTarget(("a",)),))
    assert notices_of(info, of_the_spec) == (of_the_spec, asked)
    with pytest.raises(InputError, match="is not a notification target"):
        options(module, "--notify", "nobody")


@pytest.mark.parametrize("module", SEARCHES, ids=named)
@pytest.mark.parametrize(
    "words", [("--profile",), ("--no-watch",), TOLD[:2], TOLD[2:]], ids=" ".join
)
def test_a_search_that_is_told_again_is_neither_watched_nor_told_of(
    module: ModuleType, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / JOURNAL).touch()
    assert main([named(module), "--study", str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert "there is nothing to" in said or "there is no SPEC.toml" in said


@pytest.mark.parametrize("module", SEARCHES, ids=named)
def test_a_notice_to_nobody_is_told_before_there_is_a_study(
    module: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = '[load]\ntarget = "http://127.0.0.1:9/{size}"\n[peak]\ncriteria = "1ms"\n[factors]\nsize = [1, 2]\n'
    (tmp_path / "s.toml").write_text(spec)
    words = (str(tmp_path / "s.toml"), "--study", str(tmp_path / "study"))
    assert main([named(module), *words, "--notify", "nobody"]) == 2
    assert "'nobody' is not a notification target" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
