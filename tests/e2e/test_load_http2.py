"""`bw load --http 2` on a real nginx, with TLS and by prior knowledge: its access log counts too."""

from __future__ import annotations

import collections
import contextlib
import json
import os
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

from bw_command import Done, bw

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NGINX = shutil.which("nginx", path=PATH)
OPENSSL = shutil.which("openssl", path=PATH)
pytestmark = pytest.mark.skipif(
    NGINX is None or OPENSSL is None,
    reason="nginx or openssl is not installed (apt-get install nginx-light openssl)",
)
MEGABYTE = 1_000_000
# It ends a connection after `requests` requests; the format has what a request was, and what it
# took.
CONFIGURATION = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    log_format own '$server_protocol $request_method $uri $status $content_length $body_bytes_sent $connection $msec $request_time';
    access_log access.log own;
    keepalive_requests {requests};
    client_max_body_size 10m;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    ssl_certificate server.pem;
    ssl_certificate_key server.key;
    server {{
        listen 127.0.0.1:{ports[0]} ssl http2;
        listen 127.0.0.1:{ports[1]} http2;
        listen 127.0.0.1:{ports[2]} ssl;
        listen 127.0.0.1:{ports[3]};
        root www;
        location /put/ {{ dav_methods PUT; }}
        location /slow {{ alias www/large; limit_rate 500k; }}
    }}
}}
"""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody uses."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Server:
    """An nginx with one worker."""

    def __init__(self, directory: Path, requests: int) -> None:
        self.directory = directory
        self.secure, self.plain, self.secure_1, self.plain_1 = ports = free_ports(4)
        (directory / "www/put").mkdir(parents=True)
        # A worker may run as another user, who needs no more than this.
        (directory / "www/put").chmod(0o777)
        (directory / "body").mkdir(mode=0o777)
        (directory / "www/small").write_text("n" * 512)
        (directory / "www/large").write_text("n" * MEGABYTE)
        text = CONFIGURATION.format(ports=ports, requests=requests)
        if os.geteuid() == 0:
            text = "user root;" + text
        (directory / "conf").write_text(text)
        words = (
            *(str(OPENSSL), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", "server.key", "-out", "server.pem"),
        )
        subprocess.run(words, cwd=directory, check=True, stderr=subprocess.DEVNULL)
        self.authority = str(directory / "server.pem")
        command = [str(NGINX), "-e", "error.log", "-c", "conf", "-p", str(directory)]
        # A group of its own: the master replaces a worker that is killed before it.
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        while True:
            assert self.process.poll() is None, "nginx did not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.plain), 5).close()
                return
            time.sleep(0.01)

    def end(self) -> None:
        """End it at once, workers and master."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def processes(self) -> list[int]:
        """Return its workers and its master."""
        master = self.process.pid
        children = Path(f"/proc/{master}/task/{master}/children")
        texts = children.read_text().split() if children.exists() else []
        return [*map(int, texts), master]

    def reload(self) -> None:
        """Let a new worker take over, and wait until it has."""
        old = set(self.processes())
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while not set(self.processes()) - old:
            assert time.monotonic() < deadline, "nginx was not reloaded"
            time.sleep(0.01)

    def rows(self) -> list[list[str]]:
        """Return the requests of its log, by the words of its format."""
        log = self.directory / "access.log"
        return [line.split() for line in log.read_text().splitlines()]

    def wait_for_rows(self, count: int) -> list[list[str]]:
        """Return the log once it has so many requests: a row is written after its response."""
        deadline = time.monotonic() + 60
        while len(self.rows()) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.rows()

    def url(self, scheme: str, path: str) -> str:
        """Return the URL of a path, at a port with HTTP/2."""
        port = self.secure if scheme == "https" else self.plain
        return f"{scheme}://localhost:{port}{path}"

    def open_loop(self, count: int) -> str:
        """Write a workload of so many operations, 500 a second, with TLS; however late they are, it
        has all of them."""
        keys = {
            "to": self.url("https", "/small"),
            "http": "2",
            "ca": self.authority,
            "connections": 2,
            "outstanding": 16,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        filament = ["[[filament]]", 'type = "open"', 'arrival = "constant"', "rate = 500"]
        file = self.directory / "w.toml"
        file.write_text("\n".join(["[target]", *lines, *filament, f"count = {count}"]))
        return str(file)

    def closed(self, url: str, users: int, **keys: object) -> tuple[str, ...]:
        """Write a workload of some users of a URL and keys of its target; return the words that run
        it for a second."""
        keys |= {"to": url, "http": "2"}
        if url.startswith("https"):
            keys["ca"] = self.authority
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        filament = ["[[filament]]", 'type = "closed"', f"users = {users}"]
        text = "\n".join(["[target]", *lines, *filament, 'location = "sequential"'])
        file = self.directory / "w.toml"
        file.write_text(text)
        return (str(file), "--duration", "1s")


@pytest.fixture
def nginx(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a running server that ends connections after so many requests; 100,000 by default."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", getattr(request, "param", 100_000))
    try:
        yield server
    finally:
        server.end()


def load(directory: Path, *words: str) -> Done:
    """Run a load with a document."""
    return bw(directory, "load", "--json", *words)


def document(done: Done) -> dict[str, Any]:
    """Return the document of a load that was successful."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sound(found: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return how many operations a load had, all of which succeeded, and its target."""
    counts = found["result"]["counts"]
    assert counts["intended"] == counts["completed"] > 0
    assert counts["errors"] == counts["unfinished"] == 0
    return counts["completed"], found["result"]["target"]


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_the_requests_of_one_connection_are_those_of_the_log(
    scheme: str, nginx: Server, tmp_path: Path
) -> None:
    url = nginx.url(scheme, "/small")
    words = nginx.closed(url, 100, connections=1, outstanding=100)
    count, target = sound(document(load(tmp_path, *words)))
    assert (target["http"], target["outstanding"]) == ("2", 100)
    assert target["reconnects"] == 0
    assert ("tls" in target) == (scheme == "https")
    if scheme == "https":
        assert (target["tls"]["alpn"], target["tls"]["verified"]) == ("h2", True)
    rows = nginx.wait_for_rows(count)
    found = collections.Counter((row[0], row[3]) for row in rows)
    assert found == {("HTTP/2.0", "200"): count}
    assert len({row[6] for row in rows}) == 1, "one connection"


def test_a_hundred_streams_at_once_on_one_connection(nginx: Server, tmp_path: Path) -> None:
    # Each response takes two seconds, and the load one: no stream is the successor of another one.
    url = nginx.url("http", "/slow")
    words = nginx.closed(url, 100, connections=1, outstanding=100)
    count, _ = sound(document(load(tmp_path, *words)))
    rows = nginx.wait_for_rows(count)
    assert len(rows) == count == 100
    begins = [float(row[7]) - float(row[8]) for row in rows]
    assert max(begins) < min(float(row[7]) for row in rows)


def test_statuses_are_errors_by_name(nginx: Server, tmp_path: Path) -> None:
    words = nginx.closed(
        nginx.url("http", "/"), 8, paths=["/small", "/none"], connections=2, outstanding=4
    )
    found = document(load(tmp_path, *words, "--max-errors", "60%"))
    counts = found["result"]["counts"]
    errors = found["result"]["kinds"]["exchange"]["errors"]
    rows = nginx.wait_for_rows(counts["completed"])
    statuses = collections.Counter(row[3] for row in rows)
    assert statuses["200"] + statuses["404"] == len(rows) == counts["completed"]
    assert sum(errors.values()) == counts["errors"] == statuses["404"] > 0
    assert all("404" in name for name in errors)


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_megabytes_in_both_directions(scheme: str, nginx: Server, tmp_path: Path) -> None:
    several = {"connections": 2, "outstanding": 4}
    words = nginx.closed(nginx.url(scheme, "/large"), 8, **several)
    got, target = sound(document(load(tmp_path, *words)))
    assert 1 <= target["received_bytes"] / (got * MEGABYTE) < 1.01
    url = nginx.url(scheme, "/put/file")
    words = nginx.closed(url, 8, method="PUT", body=MEGABYTE, **several)
    put, target = sound(document(load(tmp_path, *words)))
    assert 1 <= target["sent_bytes"] / (put * MEGABYTE) < 1.01
    assert (nginx.directory / "www/put/file").read_bytes() == b"x" * MEGABYTE
    rows = nginx.wait_for_rows(got + put)
    lengths = collections.Counter((row[0], row[1], row[4]) for row in rows)
    assert lengths == {("HTTP/2.0", "GET", "-"): got, ("HTTP/2.0", "PUT", str(MEGABYTE)): put}
    assert {row[5] for row in rows if row[1] == "GET"} == {str(MEGABYTE)}


@pytest.mark.parametrize("nginx", [200], indirect=True)
def test_requests_behind_goaway_are_sent_again(nginx: Server, tmp_path: Path) -> None:
    url = nginx.url("https", "/small")
    words = nginx.closed(url, 64, connections=2, outstanding=32)
    count, target = sound(document(load(tmp_path, *words)))
    assert target["resent"] > 0
    rows = nginx.wait_for_rows(count)
    assert len(rows) == count, "each request was processed once"
    connections = collections.Counter(row[6] for row in rows)
    assert max(connections.values()) == 200
    assert len(connections) <= target["reconnects"] + 2


def start(directory: Path, *words: str) -> subprocess.Popen[str]:
    """Start a load."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchwright.cli.main", "load", "--json", *words],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(nginx: Server, count: int, running: subprocess.Popen[str]) -> None:
    """Return once so many requests are in the log of the server."""
    while not (nginx.directory / "access.log").exists() or len(nginx.rows()) < count:
        assert running.poll() is None, "the load has ended too early"
        time.sleep(0.01)


def test_a_reload_in_the_middle_loses_nothing(nginx: Server, tmp_path: Path) -> None:
    running = start(tmp_path, nginx.open_loop(2500))
    wait_until(nginx, 500, running)
    nginx.reload()
    wait_until(nginx, 1200, running)
    nginx.reload()
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    count, target = sound(json.loads(out))
    assert count == 2500
    # A worker that ends keeps a connection as long as it is busy.
    assert target["reconnects"] > 0
    assert target["failed_connects"] == 0
    rows = nginx.wait_for_rows(2500)
    assert collections.Counter((row[0], row[3]) for row in rows) == {("HTTP/2.0", "200"): 2500}


def test_a_killed_server_is_in_the_counts_and_the_findings(nginx: Server, tmp_path: Path) -> None:
    running = start(tmp_path, nginx.open_loop(1000))
    wait_until(nginx, 500, running)
    nginx.end()
    out, _ = running.communicate(timeout=120)
    found = json.loads(out)
    counts = found["result"]["counts"]
    assert counts["intended"] == counts["completed"] == 1000
    good = counts["completed"] - counts["errors"]
    # What the server had answered may have been under way when it was killed.
    assert good >= 500 - 32
    assert counts["errors"] > 0
    errors = found["result"]["kinds"]["exchange"]["errors"]
    assert sum(errors.values()) == counts["errors"]
    known = {"ECONNRESET", "ECONNREFUSED", "EPIPE", "EPROTO", "response cut"}
    assert set(errors) <= known, errors
    assert "operations-failed" in {finding["code"] for finding in found["findings"]}
    assert running.returncode == 1


def test_a_server_without_http_2_is_an_error_with_what_to_do(nginx: Server, tmp_path: Path) -> None:
    words = ("--http", "2", "--rate", "10", "--duration", "1s")
    secure = f"https://localhost:{nginx.secure_1}/small"
    done = load(tmp_path, *words, "--target", secure, "--ca", nginx.authority)
    assert done.returncode == 2
    assert "does not support the requested version of HTTP" in done.stderr
    assert "--http" in done.stderr
    done = load(tmp_path, *words, "--target", f"http://localhost:{nginx.plain_1}/small")
    assert done.returncode == 2
    assert "HTTP/1, not HTTP/2" in done.stderr
    assert "--http 1.1" in done.stderr
    done = load(tmp_path, *words, "--target", f"tcp://localhost:{nginx.plain_1}")
    assert done.returncode == 2
    assert "--http is not an option of a tcp target" in done.stderr


def test_the_default_is_http_1_1(nginx: Server, tmp_path: Path) -> None:
    url = f"https://localhost:{nginx.secure}/small"
    words = ("--ca", nginx.authority, "--rate", "50", "--duration", "1s")
    found = document(load(tmp_path, "--target", url, *words, "--arrival", "constant"))
    count, target = sound(found)
    assert count == 50
    assert (target["http"], target["tls"]["alpn"]) == ("1.1", "http/1.1")
    assert {row[0] for row in nginx.wait_for_rows(50)} == {"HTTP/1.1"}
