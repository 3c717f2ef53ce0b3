"""Whether a server is ready, and which processes are its own."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.load.server import (
    ProcessIdentity,
    children_of,
    descendants_of,
    is_alive,
    stat_of,
    why_not_ready,
)
from benchwright.load.spec import HttpReady, TcpReady
from benchwright.suite.program import Template, Where

STATUS = {"/good": 200, "/missing": 404, "/starting": 503}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(STATUS[self.path])
        self.end_headers()

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def text(value: str) -> Template:
    """Return a text without slots."""
    return Template((value,), Where("s"))


def why(ready: TcpReady | HttpReady) -> str:
    """Return why a server is not ready."""
    return why_not_ready(ready, {})


def test_a_port_that_is_open_is_ready(port: int) -> None:
    assert why(TcpReady(text(f"127.0.0.1:{port}"))) == ""


def test_a_port_that_nobody_listens_to_is_not() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert why(TcpReady(text(address))) == f"{address}: Connection refused"


@pytest.mark.parametrize(
    ("path", "end"), [("/good", ""), ("/missing", ""), ("/starting", "status 503")]
)
def test_an_answer_below_500_is_ready(port: int, path: str, end: str) -> None:
    found = why(HttpReady(text(f"http://127.0.0.1:{port}{path}")))
    assert found.endswith(end)
    assert bool(found) == bool(end)


# -- processes ---------------------------------------------------------------------------


def test_a_process_is_its_id_and_its_start(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    rest = " ".join(["0"] * 17)
    (tmp_path / "7/stat").write_text(f"7 (odd) name) S 3 {rest} 4711 0 0\n")
    stat = stat_of(7, tmp_path)
    assert stat is not None
    assert (stat.process, stat.parent, stat.name) == (
        ProcessIdentity(7, 4711),
        3,
        "odd) name",
    )
    assert is_alive(ProcessIdentity(7, 4711), tmp_path)
    assert not is_alive(ProcessIdentity(7, 4712), tmp_path)
    assert not is_alive(ProcessIdentity(8, 1), tmp_path)


def test_a_zombie_does_not_live(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    rest = " ".join(["0"] * 17)
    (tmp_path / "7/stat").write_text(f"7 (x) Z 3 {rest} 1 0\n")
    assert not is_alive(ProcessIdentity(7, 1), tmp_path)
    assert children_of(3, tmp_path) == []


def test_descendants_are_children_of_children() -> None:
    script = "import subprocess; subprocess.run(['cat'])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE
    ) as child:
        while len(descendants_of(child.pid)) < 1:
            pass
        mine = {one.process.pid for one in children_of(os.getpid())}
        deep = {one.process.pid for one in descendants_of(os.getpid())}
        assert child.pid in mine
        (inner,) = descendants_of(child.pid)
        assert inner.process.pid in deep - mine
        assert child.stdin is not None
        child.stdin.close()
