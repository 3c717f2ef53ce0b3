"""The live view's parts without a browser: turns, events, and a study that cannot be read."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import sqlite3
import struct
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.page import live
from benchwright.page.stream import JournalFollower, LivePage, LiveState, LiveUpdate
from benchwright.run import viewer as viewers
from benchwright.run.viewer import Viewer, listen_for_sessions
from benchwright.study.database import create_journal
from benchwright.study.directory import JOURNAL, StudyLock, writer_of

RUNNING = LiveState("running", "session 1 runs")


def sent(event: bytes) -> tuple[int, LiveUpdate]:
    """Return the row and the data of an event."""
    row, data = event.decode().removesuffix("\n\n").split("\n")
    update = msgspec.json.decode(data.removeprefix("data: "), type=LiveUpdate)
    return int(row.removeprefix("id: ")), update


# -- Events ----------------------------------------------------------------------------


def test_an_event_has_the_sections_that_changed_since_a_row() -> None:
    page = LivePage()
    assert page.show(5, {"answer": "a5", "test": "t5", "data": "d5"}, RUNNING)
    assert page.show(9, {"answer": "a9", "test": "t5", "data": "d5"}, RUNNING)
    assert page.show(12, {"answer": "a9", "test": "t12", "data": "d5"}, RUNNING)
    row, update = sent(page.event(9))
    assert (row, update.order) == (12, ("answer", "test", "data"))
    # That of row 9 is sent again: the page may have it from before a change of state.
    assert update.changed == {"answer": "a9", "test": "t12"}
    assert sent(page.event(0))[1].changed.keys() == {"answer", "test", "data"}
    assert sent(page.event(12))[1].changed == {"test": "t12"}


def test_the_same_sections_and_state_are_no_event() -> None:
    page = LivePage()
    page.show(5, {"answer": "a"}, RUNNING)
    assert not page.show(6, {"answer": "a"}, RUNNING)
    assert page.show(6, {"answer": "a"}, LiveState("ended", "ended: complete"))
    assert page.show(6, {}, LiveState("ended", "ended: complete"))


def test_a_page_that_is_ahead_gets_everything() -> None:
    """The study was replaced by another one with fewer rows."""
    page = LivePage()
    page.show(50, {"answer": "old", "test": "same"}, RUNNING)
    page.show(7, {"answer": "new", "test": "same"}, RUNNING)
    assert sent(page.event(50))[1].changed == {"answer": "new", "test": "same"}


# -- Turns -----------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with one session."""
    place = tmp_path / "study"
    words = ("--min-runs", "3", "--max-runs", "3", "--quiet", "--study", str(place))
    assert main(["run", *words, "--", "true"]) == 0
    return place


def test_without_a_viewer_nothing_changes(tmp_path: Path) -> None:
    viewer = Viewer(tmp_path)
    viewer.give_turn()
    assert viewer.limited(1000, 5e6) == 1000
    viewer.close()


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends waits for viewers that answer; those of these tests do not."""
    monkeypatch.setattr(viewers, "LAST_PATIENCE_S", 0.2)


def test_with_a_viewer_a_batch_takes_a_second(tmp_path: Path) -> None:
    with contextlib.closing(listen_for_sessions(tmp_path)):
        viewer = Viewer(tmp_path)
        viewer.give_turn()
        assert viewer.limited(1000, None) == 1
        assert viewer.limited(1000, 5e6) == 200
        assert viewer.limited(100, 5e6) == 100
        assert viewer.limited(1000, 3e9) == 1
        viewer.close()


def test_a_session_waits_for_a_turn_that_was_asked_for(tmp_path: Path) -> None:
    with contextlib.closing(listen_for_sessions(tmp_path)) as listener:
        viewer = Viewer(tmp_path)
        viewer.give_turn()
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(64) == viewers.SESSION
            viewer.give_turn()
            assert not select.select([connection], [], [], 0)[0], "nobody asked"
            connection.send(viewers.WANT)
            turn = threading.Thread(target=viewer.give_turn)
            turn.start()
            assert connection.recv(64) == viewers.TURN
            assert turn.is_alive()
            connection.send(viewers.DONE)
            turn.join()
        viewer.close()


def test_a_viewer_that_is_gone_or_hangs_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "PATIENCE_S", 0.01)
    with contextlib.closing(listen_for_sessions(tmp_path)) as listener:
        viewer = Viewer(tmp_path)
        viewer.give_turn()
        connection, _ = listener.accept()
        connection.send(viewers.WANT)
        viewer.give_turn()  # no answer
        connection.close()
        viewer.give_turn()
    viewer.give_turn()
    assert viewer.limited(1000, 5e6) == 1000, "there is no viewer any more"
    viewer.close()


def test_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    with contextlib.closing(listen_for_sessions(deep)):
        viewer = Viewer(deep)
        viewer.give_turn()
        assert viewer.limited(1000, None) == 1
        viewer.close()


@pytest.fixture
def server(study: Path) -> Iterator[live.LiveServer]:
    """A server of the study, in a thread."""
    made = live.LiveServer(study, 0, until_end=True)
    ready = threading.Event()
    thread = threading.Thread(target=made.serve, args=(lambda _url: ready.set(),))
    thread.start()
    assert ready.wait(30)
    yield made
    with contextlib.suppress(OSError), connected(study) as session:
        session.send(viewers.END)
        session.recv(64)
    thread.join(30)
    assert not thread.is_alive()


def connected(study: Path) -> socket.socket:
    session = viewers.connect_to_viewer(study)
    if session is None:
        raise ConnectionRefusedError
    session.settimeout(30)
    session.send(viewers.SESSION)
    # The answer to a later message shows that the first one was read.
    session.send(viewers.URL)
    assert session.recv(256).startswith(b"http://127.0.0.1:")
    return session


def test_nothing_is_sent_but_in_a_turn(
    study: Path, server: live.LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "UNANSWERED_S", 3600.0)
    with connected(study) as session, socket.socket() as client:
        client.connect(("127.0.0.1", server.port))
        client.sendall(
            f"GET {server.path}events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        )
        assert session.recv(64) == viewers.WANT
        # A trial runs. What is sent now would be read here.
        assert not select.select([client], [], [], 0.5)[0]
        session.send(viewers.TURN)
        assert session.recv(64) == viewers.DONE
        assert select.select([client], [], [], 0)[0], "sent before the turn ended"
        answer = client.recv(1 << 20).decode()
        assert answer.startswith("HTTP/1.1 200 ")
        assert "frame-ancestors 'none'" in answer
        assert "Referrer-Policy: no-referrer" in answer


def test_odd_requests_print_nothing(
    server: live.LiveServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """The terminal belongs to the session."""
    host = f"Host: 127.0.0.1:{server.port}"
    for head in (
        f"GET http://[ HTTP/1.1\r\n{host}\r\n\r\n",
        f"GET {server.path}nothing?{'9' * 5000} HTTP/1.1\r\n{host}\r\n\r\n",
        f"BREW / HTTP/1.1\r\n{host}\r\n\r\n",
        "\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        f"GET {server.path} HTTP/1.1\r\n{host}\r\nOrigin: null\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), 30) as client:
            client.sendall(head.encode())
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(1 << 16)
            assert not answer.startswith(b"HTTP/1.1 200"), head
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        # Closing with this option resets the connection while the server reads.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HT")
    assert capfd.readouterr().err == ""


def test_a_row_that_is_no_number_is_the_first(study: Path, server: live.LiveServer) -> None:
    host = f"Host: 127.0.0.1:{server.port}"
    for last in ("-1", "x", "9" * 5000):
        with socket.create_connection(("127.0.0.1", server.port), 30) as client:
            client.sendall(
                f"GET {server.path}events HTTP/1.1\r\n{host}\r\nLast-Event-ID: {last}\r\n\r\n".encode()
            )
            assert client.recv(12) == b"HTTP/1.1 200"


def test_a_trial_that_is_longer_delays_no_reader(
    study: Path, server: live.LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "UNANSWERED_S", 0.1)
    with connected(study) as session, socket.socket() as client:
        client.settimeout(30)
        client.connect(("127.0.0.1", server.port))
        client.sendall(
            f"GET {server.path} HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()
        )
        assert session.recv(64) == viewers.WANT
        assert client.recv(1 << 10).startswith(b"HTTP/1.1 200 ")


# -- The journal -----------------------------------------------------------------------


def test_a_reading_is_the_report_of_the_last_session(study: Path) -> None:
    reading = JournalFollower(study).read()
    assert reading.state == LiveState("ended", "ended: complete")
    assert reading.document is not None
    assert reading.document.parts[0].session == 1
    assert next(iter(reading.sections)) == "p1-answer"


def test_a_session_runs_while_its_writer_holds_the_study(study: Path) -> None:
    assert writer_of(study) is None
    lock = StudyLock(study)
    try:
        assert writer_of(study) == os.getpid()
        assert JournalFollower(study).read().state.state == "running"
        assert JournalFollower(study).read(is_over=True).state.state == "ended"
    finally:
        lock.release()


def test_a_test_that_runs_has_not_too_few_trials(study: Path) -> None:
    """Only the first trial is recorded; it is no finding until the test has ended."""
    journal = study / JOURNAL
    with contextlib.closing(sqlite3.connect(journal)) as source:
        rows = source.execute("SELECT * FROM entry ORDER BY seq").fetchall()
        sessions = source.execute("SELECT * FROM session").fetchall()
    for left in study.glob(f"{JOURNAL}*"):
        left.unlink()
    create_journal(study)
    first = next(row for row in rows if row[3].endswith("/epoch/1") and row[2] == "outcome")
    with contextlib.closing(sqlite3.connect(journal)) as target, target:
        target.executemany("INSERT INTO session VALUES (?, ?, ?)", sessions)
        kept = [row for row in rows if row[0] <= first[0]]
        target.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", kept)

    def codes() -> set[str]:
        document = JournalFollower(study).read().document
        assert document is not None
        return {line.code for line in document.parts[0].findings}

    assert "too-few-trials" in codes()
    lock = StudyLock(study)
    try:
        assert "too-few-trials" not in codes()
    finally:
        lock.release()


def test_damage_after_the_first_reading_is_reported(study: Path) -> None:
    follower = JournalFollower(study)
    before = follower.read()
    journal = study / JOURNAL
    data = bytearray(journal.read_bytes())
    data[100:200] = bytes(100)
    shutil.move(journal, study / "moved")
    journal.write_bytes(data)
    after = follower.read()
    assert (after.state.state, after.document) == ("unreadable", None)
    assert "damaged" in after.state.text
    os.replace(study / "moved", journal)
    assert follower.read() == before


def test_rows_are_verified_as_they_are_added(study: Path) -> None:
    follower = JournalFollower(study)
    first = follower.read()
    words = ("--min-runs", "3", "--max-runs", "3", "--quiet", "--study", str(study))
    assert main(["run", *words, "--", "true"]) == 0
    second = follower.read()
    assert second.seq > first.seq
    assert second.document is not None
    assert second.document.parts[0].session == 2


OLD_STUDIES = Path(__file__).parents[1] / "data" / "studies-0.1"


@pytest.mark.parametrize("kind", ["run", "compare", "load", "ramp", "peak", "surface", "suite"])
def test_a_page_can_be_made_after_every_row(tmp_path: Path, kind: str) -> None:
    """A session of each kind, at the moments at which its live view may look."""
    with tarfile.open(OLD_STUDIES / f"{kind}.tar.xz") as packed:
        packed.extractall(tmp_path / "whole", filter="data")
    (whole,) = (tmp_path / "whole").rglob(JOURNAL)
    growing = tmp_path / "growing"
    shutil.copytree(whole.parent, growing, ignore=shutil.ignore_patterns(f"{JOURNAL}*"))
    create_journal(growing)
    follower, lock = JournalFollower(growing), StudyLock(growing)
    try:
        with (
            contextlib.closing(sqlite3.connect(whole)) as source,
            contextlib.closing(sqlite3.connect(growing / JOURNAL)) as target,
        ):
            target.executemany(
                "INSERT INTO session VALUES (?, ?, ?)", source.execute("SELECT * FROM session")
            )
            for row in source.execute("SELECT * FROM entry ORDER BY seq").fetchall():
                with target:
                    target.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                reading = follower.read()
                assert reading.state.state == "running", reading.state.text
                assert reading.sections, f"row {row[0]}"
                assert reading.document is not None
                (part,) = reading.document.parts
                assert not any("interrupted" in text for text in part.verdict)
    finally:
        lock.release()


@pytest.mark.parametrize("port", ["0", "65536", "x", ""])
def test_a_wrong_port_is_refused(
    tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "study"
    assert main(["run", f"--live={port}", "--study", str(place), "--", "true"]) == 2
    assert "--live" in capsys.readouterr().err
    assert not place.exists()


def test_a_port_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = (f"--live={port}", "--study", str(tmp_path / "study"))
        assert main(["run", *words, "--", "true"]) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


def test_a_load_without_a_study_has_no_live_view(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--rate", "100", "--duration", "1s", "--target", "null")
    assert main(["load", "--live", *words]) == 2
    assert "--study" in capsys.readouterr().err
