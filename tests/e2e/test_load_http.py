"""`bw load` on a real nginx that is paused for a second in the middle (SIGSTOP).

The pause is measured by this test, from after the stop to before the continuation: what the
server really stood still is longer. No other time is asserted.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.load import read_samples

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"
)
RATE = 1000
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    access_log access.log;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port}; root www; }}
}}
"""


class Server:
    """An nginx of one process, on a port of the loopback."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        (directory / "www").mkdir()
        (directory / "www/index.html").write_text("n" * 512)
        (directory / "conf").write_text(CONFIGURATION.format(port=self.port))
        self.log = directory / "access.log"
        command = [str(NGINX), "-e", "error.log", "-c", "conf", "-p", str(directory)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def wait_until_it_answers(self) -> None:
        """Return once a connection is accepted."""
        while True:
            assert self.process.poll() is None, "nginx did not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            time.sleep(0.01)

    def wait_until_it_has_answered(self, requests: int, load: subprocess.Popen[str]) -> None:
        """Return once so many requests are in its log."""
        while not self.log.exists() or self.log.read_bytes().count(b"\n") < requests:
            assert load.poll() is None, "the load has ended too early"
            time.sleep(0.01)

    def pause(self, length_s: float) -> float:
        """Stop it, continue it, and return how long it surely stood still [s]."""
        self.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{self.process.pid}/stat")
        while status.read_text().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.001)
        begun = time.monotonic()
        time.sleep(length_s)
        stood = time.monotonic() - begun
        self.process.send_signal(signal.SIGCONT)
        return stood


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Server]:
    """Yield a running server; it is ended by its process id."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        server.wait_until_it_answers()
        yield server
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.process.terminate()
        server.process.wait(30)


def start(directory: Path, port: int, *words: str) -> subprocess.Popen[str]:
    """Start a load of 5 s on the server."""
    target = f"http://127.0.0.1:{port}/"
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "benchwright.cli.main", "load", *words),
            *("--duration", "5s", "--target", target, "--samples", "rows", "--json"),
        ],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a load told at its end."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_paused_server_is_in_the_response_times_in_full(tmp_path: Path, nginx: Server) -> None:
    words = ("--rate", str(RATE), "--arrival", "constant")
    process = start(tmp_path, nginx.port, *words)
    nginx.wait_until_it_has_answered(RATE // 2, process)
    stood_s = nginx.pause(1.0)
    found = document(process)
    counts = found["result"]["counts"]
    assert counts["intended"] == counts["completed"] == 5 * RATE
    assert counts["errors"] == counts["unfinished"] == 0
    rows = read_samples(tmp_path / "rows")
    response_ns = rows["completed"] - rows["intended"]
    waited = (response_ns > stood_s * 1e8).sum()
    assert waited >= 0.8 * RATE * stood_s
    assert response_ns.max() >= stood_s * 1e9 - 50_000_000
    # 64 connections wait for their answers; all others for a connection.
    assert counts["held"] >= 0.8 * RATE * stood_s - 64
    assert nginx.log.read_bytes().count(b"\n") == 5 * RATE


def test_a_closed_loop_of_the_same_server_hides_it(tmp_path: Path, nginx: Server) -> None:
    process = start(tmp_path, nginx.port, "--depth", "4", "--connections", "4")
    nginx.wait_until_it_has_answered(500, process)
    stood_s = nginx.pause(1.0)
    found = document(process)
    rows = read_samples(tmp_path / "rows")
    response_ns = rows["completed"] - rows["intended"]
    # The four in flight saw it, nobody else: p99 knows nothing of a pause of a second.
    assert (response_ns >= stood_s * 0.9e9).sum() == 4
    assert found["result"]["kinds"]["all"]["response_ns"]["p99"] < stood_s * 0.9e9
    assert "closed-loop" in {finding["code"] for finding in found["findings"]}
