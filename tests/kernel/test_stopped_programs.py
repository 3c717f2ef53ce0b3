"""The launcher and the load engine stopped by SIGSTOP, and a journal that another program has
locked."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import BenchError, StudyError
from benchwright.core.processes import all_processes, is_stopped
from benchwright.features.load import engine
from benchwright.run.ledger import VoidPayload
from benchwright.run.test import STOPPED
from benchwright.study import journal
from benchwright.study.contents import tests_of
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import NewEntry, Study

BW = (sys.executable, "-m", "benchwright.cli.main")
STOPS_ITS_LAUNCHER = """
if [ ! -e stopped ] && [ -e first ]; then
    touch stopped
    launcher=$PPID
    kill -STOP $launcher
    (sleep 1; kill -CONT $launcher) &
fi
touch first
"""


def test_a_trial_during_which_the_launcher_was_stopped_is_repeated(tmp_path: Path) -> None:
    words = ("run", "--max-runs", "4", "--study", "study")
    done = subprocess.run(
        [*BW, *words, "--", "sh", "-c", STOPS_ITS_LAUNCHER],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "stopped").exists()
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        (test,) = tests_of(study, 1)
        voids = [
            msgspec.json.decode(one.payload, type=VoidPayload)
            for one in study.entries(1, ("void",))
        ]
    assert [trial.epoch for trial in test.trials] == [1, 2, 3, 4]
    assert [void.cause for void in voids] == [STOPPED]
    assert voids[0].trial is not None


@contextlib.contextmanager
def running(at: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `bw`; kill it if it is still there."""
    with subprocess.Popen([*BW, *words], cwd=at, stderr=subprocess.PIPE, text=True) as bw:
        try:
            yield bw
        finally:
            bw.kill()


def child_of(process: int, name: str) -> int:
    """Return the child with a name, once it is there."""
    while True:
        for one in all_processes():
            if one.parent == process and one.name == name:
                return one.pid
        time.sleep(0.05)


def test_bw_says_that_it_waits_for_a_stopped_launcher(tmp_path: Path) -> None:
    script = "kill -STOP $PPID; sleep 600"
    with running(tmp_path, "run", "--study", "study", "--", "sh", "-c", script) as bw:
        assert bw.stderr is not None
        line = next(line for line in bw.stderr if "was stopped" in line)
        assert "kill -CONT" in line
        bw.send_signal(signal.SIGINT)
        time.sleep(0.2)
        bw.send_signal(signal.SIGINT)
        assert bw.wait() == 130


LOAD = ("load", "--target", "null", "--rate", "100", "--duration", "600s", "--quiet")


def test_ctrl_c_ends_a_load_whose_engine_is_stopped(tmp_path: Path) -> None:
    with running(tmp_path, *LOAD) as bw:
        process = child_of(bw.pid, "bw-engine")
        os.kill(process, signal.SIGSTOP)
        while not is_stopped(process):
            time.sleep(0.01)
        bw.send_signal(signal.SIGINT)
        assert bw.wait() == 130
    assert not Path(f"/proc/{process}").exists()


def test_an_engine_that_stays_stopped_is_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_SILENCE_S", 1.5)
    monkeypatch.setattr(engine, "_STOPPED_S", 4.0)

    def stop() -> None:
        os.kill(child_of(os.getpid(), "bw-engine"), signal.SIGSTOP)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(BenchError) as caught:
        raise_error(*LOAD)
    assert caught.value.code == "engine-stopped"
    assert "was stopped" in capsys.readouterr().err


def raise_error(*words: str) -> None:
    """Run a command in this process; raise its error."""
    errors: list[Exception] = []
    assert main(words, errors.append) == 1
    raise errors[0]


def test_a_second_interrupt_of_a_load_is_an_interrupt(tmp_path: Path) -> None:
    with running(tmp_path, *LOAD) as bw:
        process = child_of(bw.pid, "bw-engine")
        os.kill(process, signal.SIGKILL)
        assert bw.wait() == 1
    with running(tmp_path, *LOAD) as bw:
        child_of(bw.pid, "bw-engine")
        bw.send_signal(signal.SIGINT)
        bw.send_signal(signal.SIGINT)
        assert bw.wait() == 130


# -- The journal -----------------------------------------------------------------------


def test_a_locked_journal_is_waited_for_and_is_no_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_BUSY_TRIES", 3)
    place = tmp_path / "study"
    assert main(["run", "--max-runs", "2", "--study", str(place), "--", "true"]) == 0
    warned: list[str] = []
    with contextlib.closing(Study.create_or_open(place)) as study:
        study.warn = warned.append
        study._database.execute("PRAGMA busy_timeout = 50")
        with contextlib.closing(sqlite3.connect(place / JOURNAL, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StudyError) as caught:
                study.append(1, [NewEntry("outcome", "k", 1)])
            other.execute("ROLLBACK")
        assert (caught.value.code, caught.value.exit_status) == (journal.BUSY, 1)
        assert len(warned) == 1
        assert study.append(1, [NewEntry("outcome", "k", 1)])
