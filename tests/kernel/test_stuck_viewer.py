"""Live views that are stopped, silent, another user's, or overrun with connections."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.page import live
from benchwright.page.live import LiveServer
from benchwright.run import viewer as viewers
from benchwright.run.viewer import SOCKET, connect_to_viewer, url_of_viewer

BW = (sys.executable, "-m", "benchwright.cli.main")
ADDRESS = b"http://127.0.0.1:4321/pZRbWM0QS9ops5r8fBlQM9Z2v2veUjVg/"
NOBODY = 65534


@contextlib.contextmanager
def another_process(study: Path, answer: bytes, user: int) -> Iterator[int]:
    """Let a process of a user have the socket of a study's live view; empty: it does not answer."""
    ready, told = os.pipe()
    process = os.fork()
    if not process:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"{study}/{SOCKET}")
            Path(study, SOCKET).chmod(0o777)
            os.setuid(user)
            listener.listen(5)
            os.write(told, b"1")
            while True:
                connection, _ = listener.accept()
                while answer and connection.recv(64):
                    connection.send(answer)
    os.read(ready, 1)
    try:
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def nobody_waits(process: int) -> None:
    raise AssertionError(f"{process} answers")


def test_the_address_of_this_users_view_is_known(tmp_path: Path) -> None:
    with another_process(tmp_path, ADDRESS, os.geteuid()):
        assert url_of_viewer(tmp_path, nobody_waits) == ADDRESS.decode()


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b[2J\x1b]0;evil\x07http://127.0.0.1:1/",
        b"http://127.0.0.1:1/" + b"a" * 30 + b"/\x1b[2J",
        b"http://example.com/pZRbWM0QS9ops5r8fBlQM9Z2v2veUjVg/",
        b"http://127.0.0.1:1/\xff" + b"a" * 30 + b"/",
    ],
)
def test_another_answer_is_no_address(tmp_path: Path, answer: bytes) -> None:
    with another_process(tmp_path, answer, os.geteuid()):
        assert url_of_viewer(tmp_path, nobody_waits) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process takes root")
def test_another_users_view_is_not_used(tmp_path: Path) -> None:
    with another_process(tmp_path, ADDRESS, NOBODY):
        assert connect_to_viewer(tmp_path) is None
        assert url_of_viewer(tmp_path, nobody_waits) is None


def test_a_silent_process_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "PATIENCE_S", 0.05)
    monkeypatch.setattr(viewers, "LAST_PATIENCE_S", 0.05)
    silent: list[int] = []
    with another_process(tmp_path, b"", os.geteuid()) as process:
        assert url_of_viewer(tmp_path, silent.append) is None
        assert silent == [process]


def viewer_of(process: int) -> int:
    """Return the viewer that a `bw` has started."""
    while True:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for child in children:
            with contextlib.suppress(OSError):
                if b"benchwright.page.live" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        time.sleep(0.05)


def test_a_stopped_viewer_holds_no_session_up(tmp_path: Path) -> None:
    words = ("run", "--live", "--study", "study", "--max-runs", "20")
    with subprocess.Popen(
        [*BW, *words, "--", "sleep", "0.05"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as bw:  # fmt: skip
        assert bw.stderr is not None
        assert "live: http://" in bw.stderr.readline()
        viewer = viewer_of(bw.pid)
        os.kill(viewer, signal.SIGSTOP)
        said = bw.stderr.read()
        assert bw.wait() == 0, said
        assert "complete" in said
    assert not Path(f"/proc/{viewer}").exists()


# -- The server's connections ----------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    made = LiveServer(tmp_path, 0, until_end=True)
    serving = threading.Thread(target=made._http.serve_forever, daemon=True)
    serving.start()
    yield made
    made._http.shutdown()
    made._http.server_close()
    made._waker.close()
    made._woken.close()
    made._selector.close()


def test_idle_connections_have_a_limited_number_of_threads(server: LiveServer) -> None:
    before = threading.active_count()
    address = (live.LOOPBACK, server.port)
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(address))
            for _ in range(2 * live.MOST_CONNECTIONS)
        ]
        # One that is refused is closed: it can be read, and has nothing.
        refused: set[socket.socket] = set()
        while len(refused) < live.MOST_CONNECTIONS:
            refused |= set(select.select(opened, [], [], 60)[0])
        assert threading.active_count() - before <= live.MOST_CONNECTIONS
        assert all(one.recv(1) == b"" for one in refused)


def test_a_thread_that_cannot_start_prints_nothing(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(live.MOST_CONNECTIONS + 1):
        with socket.create_connection((live.LOOPBACK, server.port)) as client:
            assert client.recv(1) == b""
    assert capfd.readouterr() == ("", "")


def test_a_server_without_descriptors_pauses(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    listener = server._http

    class Full:
        def accept(self) -> None:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(live.time, "sleep", pauses.append)
    monkeypatch.setattr(listener, "socket", Full())
    with pytest.raises(OSError, match="Too many open files"):
        listener.get_request()
    monkeypatch.undo()
    assert pauses == [live.EXHAUSTED_S]
