"""Whether a server is ready, and which processes are its own."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from benchwright.features.search.server.life import why_not_ready
from benchwright.features.search.spec import HttpReady, TcpReady
from benchwright.inputs.mistakes import Where
from benchwright.inputs.template import Template

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
