"""Requests with labels on a real nginx, with HTTP/1.1 and HTTP/2: its log has what was sent, the
result what was answered."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"
)
OPERATIONS = 2000
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    log_format sent '$request_method $request_uri $http_x_token $content_length $status $server_protocol';
    access_log access.log sent;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{ports[0]};
        listen 127.0.0.1:{ports[1]} http2;
        root www;
        location /item/ {{ return 200 "the page of an item"; }}
        location = /item/7 {{ return 200 "another page"; }}
        location /order {{ return 201 "made"; }}
    }}
}}
"""
WORKLOAD = f"""
[values]
id = "integer 1..20"
n = "counter"
user = {{type = "line", file = "users.txt"}}
token = "text 12"

[[request]]
label = "item"
weight = 6
path = "/item/${{id}}?user=${{user}}"
expect = {{status = 200, contains = "of an item", min_bytes = 19}}

[[request]]
label = "order"
weight = 3
method = "POST"
path = "/order?n=${{n}}"
headers = {{X-Token = "${{token}}"}}
body = "item=${{id}}&n=${{n}}"
expect = {{status = 201}}

[[request]]
label = "missing"
path = "/missing"
expect = {{status = 404}}

[[request]]
label = "lost"
path = "/lost"
expect = {{contains = "never looked for"}}

[[filament]]
type = "open"
arrival = "constant"
rate = 1000
count = {OPERATIONS}
"""


class Server:
    """An nginx of one process, on ports of the loopback."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as one, socket.socket() as other:
            for free in (one, other):
                free.bind(("127.0.0.1", 0))
            ports: list[int] = [free.getsockname()[1] for free in (one, other)]
        self.port = ports[0]
        self.targets = {
            http: ("--target", f"http://127.0.0.1:{port}/", "--http", http)
            for http, port in zip(("1.1", "2"), ports, strict=True)
        }
        (directory / "www").mkdir()
        (directory / "conf").write_text(CONFIGURATION.format(ports=ports))
        self.log = directory / "access.log"
        command = [str(NGINX), "-e", "error.log", "-c", "conf", "-p", str(directory)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while True:
            assert self.process.poll() is None, "nginx did not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            time.sleep(0.01)

    def sent(self, requests: int) -> list[str]:
        """Return the lines of the log since the last call, once there are so many."""
        while len(lines := self.log.read_text().splitlines()) < requests:
            time.sleep(0.01)
        with self.log.open("r+") as log:
            log.truncate()
        return lines


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Server]:
    """Yield a running server; it is ended by its process id."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(30)


def load(directory: Path, nginx: Server, http: str, *words: str) -> dict[str, Any]:
    """Return the result of the workload on the server, with this version of HTTP."""
    (directory / "w.toml").write_text(WORKLOAD)
    (directory / "users.txt").write_text("ann\nbob\n\neve%20e\n")
    target = nginx.targets[http]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchwright.cli.main", "load", "w.toml", *target),
            *("--json", "--max-errors", "100%", *words),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["result"]
    return found


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_the_log_of_the_server_and_the_labels_agree(
    http: str, tmp_path: Path, nginx: Server
) -> None:
    result = load(tmp_path, nginx, http, "--seed", "3", "--outstanding", "4")
    lines = [line.split() for line in nginx.sent(OPERATIONS)]
    assert len(lines) == OPERATIONS
    assert result["target"]["http"] == http
    assert {line[5] for line in lines} == {"HTTP/1.1" if http == "1.1" else "HTTP/2.0"}
    by_path: Counter[str] = Counter(line[1].partition("?")[0].split("/")[1] for line in lines)
    labels = result["labels"]
    assert {name: one["operations"] for name, one in labels.items()} == by_path
    # Of 6 : 3 : 1 : 1; the seed is fixed.
    expected = {"item": 6, "order": 3, "missing": 1, "lost": 1}
    for name, weight in expected.items():
        share = OPERATIONS * weight / 11
        assert abs(by_path[name] - share) < 4 * share**0.5, name
    wrong = sum(line[1].startswith("/item/7?") for line in lines)
    assert wrong > 0
    assert labels["item"]["errors"] == {"check-failed": wrong}
    assert labels["order"]["errors"] == {}
    assert labels["missing"]["errors"] == {}, "404 is expected"
    assert labels["lost"]["errors"] == {"HTTP 404": by_path["lost"]}
    assert result["counts"]["errors"] == wrong + by_path["lost"]
    assert labels["order"]["response_ns"]["count"] == by_path["order"]
    kinds = result["kinds"]["exchange"]
    assert kinds["errors"] == {"HTTP 404": by_path["lost"], "check-failed": wrong}
    items = {line[1] for line in lines if line[1].startswith("/item/")}
    users = ("ann", "bob", "eve%20e")
    assert items <= {f"/item/{id}?user={user}" for id in range(1, 21) for user in users}
    assert len(items) == 60
    orders = [line for line in lines if line[0] == "POST"]
    numbers = [int(line[1].partition("n=")[2]) for line in orders]
    assert len(set(numbers)) == len(orders), "no two have the same number"
    assert max(numbers) < OPERATIONS
    assert all(len(line[2]) == 12 for line in orders)
    lengths = {len(f"item={id}&n={n}") for id in (1, 10) for n in (1, 10, 100, 1000)}
    assert {int(line[3]) for line in orders} <= lengths


def test_a_seed_is_the_same_requests_with_any_workers_and_version(
    tmp_path: Path, nginx: Server
) -> None:
    sent = []
    for http, workers, seed in (
        ("1.1", "1", "3"),
        ("1.1", "2", "3"),
        ("2", "1", "3"),
        ("2", "2", "3"),
        ("2", "2", "4"),
    ):
        load(tmp_path, nginx, http, "--workers", workers, "--seed", seed)
        lines = nginx.sent(OPERATIONS)
        sent.append(Counter(line.rsplit(" ", 1)[0] for line in lines))
        assert sent[-1].total() == OPERATIONS
    assert sent[0] == sent[1] == sent[2] == sent[3]
    assert sent[0] != sent[4]


def test_the_report_has_a_row_for_each_label(tmp_path: Path, nginx: Server) -> None:
    (tmp_path / "w.toml").write_text(WORKLOAD)
    (tmp_path / "users.txt").write_text("ann\n")
    target = ("--target", f"http://127.0.0.1:{nginx.port}/")
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", "load", "w.toml", *target],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, "too many failed"
    rows = done.stdout.splitlines()
    head = next(place for place, row in enumerate(rows) if row.startswith("label"))
    labels = [row.split()[0] for row in rows[head + 1 : head + 5]]
    assert labels == ["item", "lost", "missing", "order"]
    assert "check-failed" in rows[head + 1]
    assert "HTTP 404" in rows[head + 2]
