"""The log of `bw quiet` where it is in the way, cannot be used, or was lost."""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.errors import BenchError
from benchwright.features.quiet import command as quiet_run
from benchwright.features.quiet import hold as owner
from benchwright.features.quiet import undo_leftovers
from benchwright.features.quiet.hold import Quieted, QuietRequest, hold, restore_now
from benchwright.features.quiet.host import Host
from benchwright.features.quiet.log_path import LOG
from benchwright.features.quiet.report import restore_findings, restored_lines
from benchwright.features.quiet.session import QuietSession
from benchwright.features.quiet.transaction import (
    VERSION,
    BeginRecord,
    ChangeRecord,
    TransactionLog,
)
from benchwright.features.quiet.types import (
    FAILED,
    QuietOwner,
    QuietSettings,
    SettingChange,
    parse_settings,
)
from made_up_machine import MadeUp, made_up, snapshot


def asked(host: Host, place: Path, *words: str) -> QuietRequest:
    return QuietRequest(parse_settings(words), host=host, directory=place / "state")


def read_only(*arguments: object, **_: object) -> object:
    """What opening for writing, or removing, does on a disk that became read-only."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))


# -- nothing changed, nothing held -----------------------------------------------------


@pytest.mark.parametrize("words", [("aslr",), ("dirty", "caches"), ("aslr", "smt")])
def test_keeping_what_is_so_already_holds_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    host = made_up(tmp_path / "m")
    (host.proc / "sys/kernel/randomize_va_space").write_text("0")
    (host.sys / "devices/system/cpu/smt/control").write_text("notsupported")
    hold(asked(host, tmp_path, *words), 0)
    assert not (tmp_path / "state" / LOG).exists()
    with Quieted(asked(host, tmp_path, "swappiness")) as free:
        assert len(free.quiet.done) == 1


def test_keeping_what_was_refused_holds_nothing(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    host.refuse = "randomize_va_space"
    quiet, _ = hold(asked(host, tmp_path, "aslr"), 0)
    assert [one.setting for one in quiet.lacking] == ["aslr"]
    assert not (tmp_path / "state" / LOG).exists()


def test_keeping_what_has_ended_meanwhile_holds_nothing(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m", systemd=False)
    host.point = lambda: (host.proc / "21/stat").unlink(missing_ok=True)
    quiet, _ = hold(asked(host, tmp_path, "services=atd"), 0)
    assert len(quiet.done) == 1
    assert not (tmp_path / "state" / LOG).exists()


def test_what_was_changed_is_held(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    hold(asked(host, tmp_path, "aslr", "dirty"), 0)
    assert (tmp_path / "state" / LOG).exists()


# -- a log that cannot be used ---------------------------------------------------------


@pytest.mark.parametrize("name", ["open_trusted", "TransactionLog"])
def test_a_read_only_log_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    host = made_up(tmp_path / "m")
    before = snapshot(host)
    state = tmp_path / "state"
    hold(asked(host, tmp_path, "aslr"), 0)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, read_only)
        with pytest.raises(BenchError) as caught:
            restore_now(host, state)
    assert caught.value.code == "quiet-state"
    assert f"{state}/quiet.lo" in caught.value.message
    assert "Read-only file system" in caught.value.message
    assert "`bw quiet --restore`" in caught.value.hint
    assert restore_now(host, state) is not None
    assert snapshot(host) == before


def test_a_log_that_cannot_be_removed_is_told_and_everything_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    before = snapshot(host)
    hold(asked(host, tmp_path, "aslr"), 0)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        restored = restore_now(host, tmp_path / "state")
        assert restored is not None
        assert "quiet.log cannot be removed (Read-only" in restored.log
        assert snapshot(host) == before
        (host.proc / "sys/kernel/random/boot_id").write_text("another")
        with pytest.raises(BenchError, match="cannot be removed") as caught:
            hold(asked(host, tmp_path, "thp"), 0)
        assert caught.value.code == "quiet-state"
    again = restore_now(host, tmp_path / "state")
    assert again is not None
    assert again.log == ""
    assert not (tmp_path / "state" / LOG).exists()


def test_who_cannot_write_his_log_any_more_puts_the_machine_back_by_heart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    before = snapshot(host)
    with Quieted(asked(host, tmp_path, "aslr", "swappiness")) as held:
        monkeypatch.setattr(owner, "TransactionLog", read_only)
    assert snapshot(host) == before
    assert held.restored is not None
    assert [one.how for one in held.restored.undone if one.how == FAILED] == []
    assert "cannot be written any more (Read-only file system)" in held.restored.log
    assert not (tmp_path / "state" / LOG).exists()


def test_a_log_on_a_disk_that_became_read_only_is_to_be_removed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    wanted = asked(host, tmp_path, "aslr")
    with monkeypatch.context() as patched, Quieted(wanted) as held:
        patched.setattr(owner, "TransactionLog", read_only)
        patched.setattr(Path, "unlink", read_only)
    assert held.restored is not None
    told = "quiet.log cannot be removed (Read-only file system): remove it"
    assert told in held.restored.log


def test_what_a_failed_beginning_could_not_undo_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    effects: list[int] = []

    def point() -> None:
        """After the first of them nothing can be written."""
        effects.append(1)
        host.refuse = "proc/sys"

    host.point = point
    wanted = QuietRequest(
        parse_settings(["aslr", "swappiness"]),
        host=host,
        directory=tmp_path / "state",
        require=True,
    )
    with pytest.raises(BenchError, match="swappiness is unavailable") as caught:
        Quieted(wanted).__enter__()
    place = "/proc/sys/kernel/randomize_va_space"
    assert f"the changes cannot be undone: aslr {place}" in caught.value.message
    assert caught.value.hint == "see `bw quiet --status`"
    assert effects == [1]
    assert (tmp_path / "state" / LOG).exists()


def test_a_log_that_keeping_nothing_leaves_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    (host.proc / "sys/kernel/randomize_va_space").write_text("0")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        with pytest.raises(BenchError, match="cannot be removed") as caught:
            hold(asked(host, tmp_path, "aslr"), 0)
    assert caught.value.code == "quiet-state"


def test_a_session_does_not_fail_for_a_place_that_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BW_STATE", "/" + "x" * 5000)
    with QuietSession(None, "token", str) as session:
        pass
    assert session.findings == ()


def test_a_lock_that_the_file_system_does_not_have_is_not_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(BenchError, match=r"quiet\.lock: No locks available") as caught:
        Quieted(asked(made_up(tmp_path / "m"), tmp_path, "aslr")).__enter__()
    assert caught.value.code == "quiet-state"


# -- what servers of specs were given --------------------------------------------------


def test_the_status_shows_what_a_killed_search_left_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BW_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("BW_SESSION", raising=False)
    group = f"{Host().sys}/fs/cgroup/memory/bw-server-1_{tmp_path.name}"
    left, unsafe = (tmp_path / "state/servers" / name for name in ("left", "shared"))
    for directory in (left, unsafe):
        directory.mkdir(mode=0o700, parents=True)
    unsafe.chmod(0o722)
    (unsafe / LOG).touch()
    log = TransactionLog(left / LOG)
    # No process has this number: the owner is dead.
    owner_of_it = QuietOwner(2**22 + 1, 1, Host().boot_id)
    log.add(BeginRecord(owner_of_it, VERSION, ("server-groups",), 1))
    for number, item in enumerate((f"group {group}", "group /etc/passwd"), 1):
        change = SettingChange("server-groups", item, "absent", "memory.max=64\x1b[31m")
        log.add(ChangeRecord(number, change))
    log.close()
    assert main(["quiet", "--status"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        f"server of bw, process {2**22 + 1} (not visible here: it has ended, or runs in "
        "another PID namespace), 2 changes",
        f"  server-groups group {group}: absent -> memory.max=64\\x1b[31m, now absent",
        "  server-groups group /etc/passwd: absent -> memory.max=64\\x1b[31m, now unknown: "
        "'group /etc/passwd' is not an item of server-groups",
        f"  any other bw command undoes this, such as bw quiet --restore; log {left / LOG}",
    ]
    assert "could have been written by others" in shown.err
    assert (left / LOG).exists()
    assert main(["quiet", "--status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] is None
    (server,) = document["servers"]
    assert (server["alive"], server["log"]) == (False, str(left / LOG))


# -- a doubt of the result -------------------------------------------------------------


def test_a_log_that_vanished_is_a_doubt_of_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    monkeypatch.setattr(owner, "Host", lambda: host)
    monkeypatch.setenv("BW_STATE", str(tmp_path / "state"))
    said: list[str] = []
    with QuietSession(QuietSettings(parse_settings(["aslr"])), "token", said.append) as session:
        shutil.rmtree(tmp_path / "state")
    (doubt,) = session.findings
    assert (doubt.code, doubt.subject) == ("quiet-log-broken", "quiet log")
    assert "quiet.log was removed by another program" in doubt.evidence
    assert sum("quiet-log-broken" in line for line in said) == 1


def test_a_log_that_cannot_be_read_at_a_sessions_end_is_a_doubt_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(tmp_path / "m")
    hold(asked(host, tmp_path, "aslr"), 0)
    (tmp_path / "state" / LOG).write_text("hm\n")
    monkeypatch.setenv("BW_STATE", str(tmp_path / "state"))
    said: list[str] = []
    with QuietSession(None, "token", said.append) as session:
        pass
    (left,) = session.findings
    assert left.code == "quiet-not-restored"
    assert "not a record" in left.evidence
    assert "restore them by hand, and remove it" in left.evidence
    assert len(said) == 1


def test_another_bw_at_work_at_a_sessions_end_is_no_broken_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, state = made_up(tmp_path / "m"), tmp_path / "state"
    wanted = asked(host, tmp_path, "aslr")
    wanted.session = "token"
    hold(wanted, 0)
    monkeypatch.setenv("BW_STATE", str(state))
    lock = owner.MachineLock(state, host)
    with QuietSession(None, "token", lambda _: None) as session:
        pass
    lock.release()
    (left,) = session.findings
    assert left.code == "quiet-not-restored"
    assert "the machine is already quiet" in left.evidence
    assert "`bw quiet --restore` restores it" in left.evidence


def test_a_session_that_cannot_say_what_it_did_puts_the_machine_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_: str) -> None:
        raise BrokenPipeError

    host = made_up(tmp_path / "m")
    before = snapshot(host)
    monkeypatch.setattr(owner, "Host", lambda: host)
    monkeypatch.setenv("BW_STATE", str(tmp_path / "state"))
    session = QuietSession(QuietSettings(parse_settings(["aslr"])), "token", closed)
    with pytest.raises(BrokenPipeError):
        session.__enter__()
    assert snapshot(host) == before
    assert not (tmp_path / "state" / LOG).exists()
    with Quieted(asked(host, tmp_path, "swappiness")) as free:
        assert len(free.quiet.done) == 1


def test_a_whole_log_is_no_doubt(tmp_path: Path) -> None:
    with Quieted(asked(made_up(tmp_path / "m"), tmp_path, "aslr")) as held:
        pass
    assert held.restored is not None
    assert restore_findings(held.restored, late=False) == ()
    lines = list(restored_lines(held.restored, late=False))
    assert lines == ["quiet: 1 restored (aslr)"]


# -- the exit status ------------------------------------------------------------------


def arguments(**given: object) -> argparse.Namespace:
    plain = dict.fromkeys(("list", "status", "restore", "keep", "require"), False)
    return argparse.Namespace(**{**plain, "json": False, "command_argv": [], **given})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    """A machine that the command line finds; the signals' handlers are put back."""
    made = made_up(tmp_path / "m")
    monkeypatch.setattr(owner, "Host", lambda: made)
    monkeypatch.setattr(quiet_run, "Host", lambda: made)
    monkeypatch.setenv("BW_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("BW_SESSION", raising=False)
    waiting = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in waiting}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_log_that_was_lost_or_stays_is_a_failure_of_the_command(
    tmp_path: Path, host: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is of `--restore`."""
    around = arguments(settings=["aslr"], command_argv=["true"])
    assert quiet_run.handle(around) == 0
    remove = ["rm", "-r", str(tmp_path / "state")]
    lost = arguments(settings=["aslr"], command_argv=remove)
    assert quiet_run.handle(lost) == 1
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        assert quiet_run.handle(around) == 1
        os.unlink(host.proc / "31/stat")
        assert quiet_run.handle(arguments(restore=True)) == 1
    assert (host.proc / "sys/kernel/randomize_va_space").read_text().strip() == "2"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_put_in_order_to_be_kept_undoes_it(
    tmp_path: Path, host: MadeUp, number: signal.Signals
) -> None:
    """It waits until all is made; then nobody would be told that the machine is quiet.

    In a child: what does not wait would end it.
    """
    before = snapshot(host)
    effects: list[int] = []

    def point() -> None:
        effects.append(1)
        if len(effects) == 1:
            signal.raise_signal(number)

    host.point = point
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            quiet_run.handle(arguments(settings=["aslr", "swappiness"], keep=True))
        except KeyboardInterrupt:
            os._exit(10 + len(effects))
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 14  # two made, and undone
    assert snapshot(host) == before
    assert not (tmp_path / "state" / LOG).exists()


# -- names of others -------------------------------------------------------------------


def test_what_is_not_printable_of_a_place_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "evil\x1b[2J"
    state.mkdir(mode=0o700)
    (state / LOG).write_text("hm\n")
    monkeypatch.delenv("BW_SESSION", raising=False)
    monkeypatch.setenv("BW_STATE", str(state))
    assert undo_leftovers(["run"]) == ()
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "evil\\x1b[2J/quiet.log:1: not a record" in told
