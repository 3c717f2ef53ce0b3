"""`bw replay` of recorded HTTP requests to a real nginx, whose own log says what arrived.

The original log is nginx' own too, in its format `combined`. Nothing here asserts a time but what
the engine itself reports: a request is in nginx' log between its issue and its completion.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
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
SECOND_NS = 10**9
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    log_format seen escape=json '{{"at":"$msec","method":"$request_method","path":"$request_uri",'
        '"status":$status,"host":"$http_host","cookie":"$http_cookie","token":"$http_authorization",'
        '"kind":"$http_x_kind","hop":"$http_x_hop","body":"$request_body"}}';
    access_log access.log combined;
    access_log seen.log seen;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "a page"; }}
        location /missing {{ return 404; }}
        location /moved {{ return 302 /; }}
        location /order {{ proxy_pass http://127.0.0.1:{port}/stored; }}
        location /stored {{ access_log off; return 201 "made"; }}
    }}
}}
"""
SENT = (
    b"GET /first?a=1 HTTP/1.1",
    b"HEAD /first HTTP/1.1",
    b"GET /missing HTTP/1.1",
    b"POST /order HTTP/1.1",
    b'GET /quote"d\\path?x=[1] HTTP/1.1',
    b"GET /b\xc3\xbccher HTTP/1.1",
    b"OPTIONS /first HTTP/1.1",
    b"GET http://elsewhere.example/absolute?q HTTP/1.1",
    b"CONNECT elsewhere.example:443 HTTP/1.1",
    b"\x16\x03\x01\x02",
    b"GET /first?a=1 HTTP/1.1",
    b"DELETE /order HTTP/1.1",
    b"GET /moved HTTP/1.1",
)
"""What the original clients sent, each on a connection of its own."""
REPLAYED = [
    ("GET", "/first?a=1", 200),
    ("HEAD", "/first", 200),
    ("GET", "/missing", 404),
    ("GET", '/quote"d\\path?x=[1]', 200),
    ("GET", "/bücher", 200),
    ("OPTIONS", "/first", 200),
    ("GET", "/absolute?q", 200),
    ("GET", "/first?a=1", 200),
    ("GET", "/moved", 302),
]


class Server:
    """An nginx of one process, on a port of the loopback."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.directory = directory
        (directory / "conf").write_text(CONFIGURATION.format(port=self.port))
        command = [str(NGINX), "-e", "error.log", "-c", "conf", "-p", str(directory)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while True:
            assert self.process.poll() is None, "nginx did not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            time.sleep(0.01)

    def send(self, request: bytes) -> None:
        """Send one request and wait for the end of its response."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as client:
            fields = b"Host: h\r\nConnection: close\r\nContent-Length: 0\r\n"
            client.sendall(request + b"\r\n" + fields + b"\r\n")
            while client.recv(65536):
                pass

    def taken(self, name: str, requests: int) -> list[str]:
        """Return the lines of a log since the last call, once there are so many."""
        path = self.directory / name
        while len(lines := path.read_text().splitlines()) < requests:
            time.sleep(0.01)
        with path.open("r+") as log:
            log.truncate()
        return lines

    def seen(self, requests: int) -> list[dict[str, Any]]:
        """Return what the server received since the last call, once it is so much."""
        self.taken("access.log", requests)
        return [json.loads(line) for line in self.taken("seen.log", requests)]


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


def bw(
    directory: Path, *words: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run bw in a directory."""
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    return done


def replay(directory: Path, nginx: Server, *words: str) -> dict[str, Any]:
    """Replay a trace on one connection, so that it is in order; return the document."""
    target = ("--target", f"http://127.0.0.1:{nginx.port}/", "--connections", "1")
    written = ("--samples", "rows.bw", "--json")
    (directory / "rows.bw").unlink(missing_ok=True)
    found: dict[str, Any] = json.loads(
        bw(directory, "replay", *words, *target, *written).stdout
    )
    return found


def findings(document: dict[str, Any]) -> dict[str, str]:
    """Return the evidence of each finding by its code."""
    return {one["code"]: one["evidence"] for one in document["findings"]}


def check_times(
    document: dict[str, Any], directory: Path, seen: list[dict[str, Any]]
) -> list[int]:
    """Check that the server logged each request between its issue and its completion; return the
    intended starts."""
    rows = read_samples(directory / "rows.bw")
    rows = rows[rows["intended"].argsort(kind="stable")]
    started_ns = document["result"]["started_ns"]
    for row, one in zip(rows, seen, strict=True):
        at_ns = round(float(one["at"]) * 1000) * 10**6 - started_ns
        # nginx has whole milliseconds, of a clock that may be slewed.
        assert row["intended"] <= row["issued"] <= at_ns + 2 * 10**6
        assert at_ns - 2 * 10**6 <= row["completed"]
    intended: list[int] = rows["intended"].tolist()
    return intended


def spread(seconds: list[int]) -> list[int]:
    """Return times of whole seconds spread evenly over each, since the first [ns]."""
    place = [seconds[:number].count(at) for number, at in enumerate(seconds)]
    return [
        (at - seconds[0]) * SECOND_NS + SECOND_NS * before // seconds.count(at)
        for at, before in zip(seconds, place, strict=True)
    ]


def test_a_log_of_nginx_is_replayed_to_nginx(tmp_path: Path, nginx: Server) -> None:
    for number, request in enumerate(SENT):
        nginx.send(request)
        if number % 4 == 3:
            time.sleep(0.5)  # so that the log has several seconds
    original = nginx.taken("access.log", len(SENT))
    sent = nginx.taken("seen.log", len(SENT))
    assert len(original) == len(sent) == len(SENT)
    log = tmp_path / "access.log"
    log.write_text("".join(line + "\n" for line in original))
    document = replay(tmp_path, nginx, "access.log")
    result = document["result"]
    counts = result["counts"]
    assert counts["intended"] == counts["completed"] == len(REPLAYED)
    assert counts["errors"] == counts["early"] == 0, "a recorded 404 is expected"
    target = result["target"]
    classes = [target[f"status_{first}xx"] for first in (2, 3, 4, 5)]
    assert classes == [7, 1, 1, 0]
    requests = result["traces"][0]["requests"]
    assert requests["distinct"] == len(set(REPLAYED))
    assert (requests["unsafe_methods"], requests["unreplayable"]) == (2, 2)
    seen = nginx.seen(len(REPLAYED))
    found = [(one["method"], one["path"], one["status"]) for one in seen]
    assert found == REPLAYED
    kept = [
        int(float(json.loads(line)["at"]))
        for line, request in zip(sent, SENT, strict=True)
        if request[:4] in (b"GET ", b"HEAD", b"OPTI")
    ]
    assert check_times(document, tmp_path, seen) == spread(kept)
    said = findings(document)
    assert {"trace-requests-skipped", "trace-stamps-coarse"} <= said.keys()
    assert "2 with a method other" in said["trace-requests-skipped"]


def test_unsafe_methods_are_replayed_on_request(tmp_path: Path, nginx: Server) -> None:
    line = (
        '10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "{} /order HTTP/1.1" 201 4 "-" "-"\n'
    )
    methods = ("POST", "PUT", "DELETE")
    (tmp_path / "access.log").write_text("".join(map(line.format, methods)))
    without = bw(
        *(tmp_path, "replay", "access.log", "--json", "--target"),
        f"http://127.0.0.1:{nginx.port}/",
    )
    assert json.loads(without.stdout)["result"]["counts"]["intended"] == 0
    document = replay(
        tmp_path, nginx, "access.log", "--unsafe-methods", "--speed", "10"
    )
    assert [one["method"] for one in nginx.seen(3)] == list(methods)
    assert document["result"]["target"]["status_2xx"] == 3
    assert "2 with an empty body" in findings(document)["trace-requests-changed"]


HEADERS = [
    {"name": "X-Kind", "value": "recorded"},
    {"name": "Cookie", "value": "secret=1"},
    {"name": "Authorization", "value": "Bearer secret"},
    {"name": "Connection", "value": "keep-alive, X-Hop"},
    {"name": "X-Hop", "value": "one"},
    {"name": "Host", "value": "elsewhere.example"},
    {"name": "Content-Length", "value": "999"},
]
TIMES_NS = [0, 50_000_000, 120_000_000]


def har() -> str:
    """Return an archive of three requests that is not in the order of time."""
    entries = [
        {
            "startedDateTime": f"2026-01-31T13:00:{at_ns / 1e9:06.3f}+01:00",
            "time": 3,
            "request": {
                "method": method,
                "url": f"https://elsewhere.example{path}#part",
                "httpVersion": "HTTP/2",
                "headers": HEADERS,
                **(
                    {"postData": {"mimeType": "text/plain", "text": body}}
                    if body
                    else {}
                ),
            },
            "response": {"status": 200, "content": {"text": "x" * 1000}},
        }
        for at_ns, method, path, body in (
            (TIMES_NS[2], "GET", "/c", ""),
            (TIMES_NS[0], "GET", "/a?x=1", ""),
            (TIMES_NS[1], "POST", "/order", "größe=1"),
        )
    ]
    return json.dumps({"log": {"version": "1.2", "entries": entries}}, indent=2)


def jsonl() -> str:
    """Return the same requests as lines."""
    headers = {one["name"]: one["value"] for one in HEADERS}
    pairs = [[one["name"], one["value"]] for one in HEADERS]
    body = base64.b64encode("größe=1".encode()).decode()
    lines = (
        {"time": 1769860800.0, "path": "/a?x=1", "headers": headers, "user": "me"},
        {
            "time": "1769860800.050",
            "method": "POST",
            "headers": pairs,
            "url": "https://elsewhere.example/order",
            "body_base64": body,
        },
        {
            "time": "2026-01-31T12:00:00.12Z",
            "method": "GET",
            "path": "/c",
            "headers": pairs,
        },
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("kind", ["har", "jsonl"])
def test_headers_and_bodies_are_sent_without_secrets_unless_asked(
    tmp_path: Path, nginx: Server, kind: str
) -> None:
    (tmp_path / "recorded").write_text(har() if kind == "har" else jsonl())
    document = replay(tmp_path, nginx, "recorded", "--unsafe-methods")
    assert document["result"]["traces"][0]["format"] == kind
    seen = nginx.seen(3)
    assert [(one["method"], one["path"]) for one in seen] == [
        ("GET", "/a?x=1"),
        ("POST", "/order"),
        ("GET", "/c"),
    ]
    assert {one["kind"] for one in seen} == {"recorded"}
    assert {one[key] for one in seen for key in ("cookie", "token", "hop")} == {""}
    assert {one["host"] for one in seen} == {f"127.0.0.1:{nginx.port}"}
    assert seen[1]["body"] == "größe=1"
    assert check_times(document, tmp_path, seen) == TIMES_NS
    assert "3 without their credentials" in findings(document)["trace-requests-changed"]
    assert "secret" not in json.dumps(document)
    replay(tmp_path, nginx, "recorded", "--credentials", "--for", "10ms")
    (one,) = nginx.seen(1)
    assert (one["cookie"], one["token"]) == ("secret=1", "Bearer secret")


def test_recorded_hosts_have_targets_of_their_own(
    tmp_path: Path, nginx: Server
) -> None:
    lines = (
        {"time": 1 + number / 100, "url": f"http://{host}.example/{host}/{number}"}
        for number, host in enumerate("abcab")
    )
    (tmp_path / "hosts").write_text("".join(json.dumps(line) + "\n" for line in lines))
    mapped = ("--map", "b.example=null", "--map")
    server = f"a.example=http://127.0.0.1:{nginx.port}/"
    done = bw(tmp_path, "replay", "hosts", *mapped, server, "--json")
    result = json.loads(done.stdout)["result"]
    assert result["counts"]["completed"] == 4
    assert {one["path"] for one in nginx.seen(2)} == {"/a/0", "/a/3"}
    assert [one["left_out"] for one in result["traces"]] == [3, 3]


def test_requests_need_an_http_server_or_the_null_target(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_text(jsonl())
    words = ("replay", "recorded", "--json", "--target")
    result = json.loads(bw(tmp_path, *words, "null").stdout)["result"]
    assert result["counts"]["completed"] == 2
    done = bw(tmp_path, *words, "http://127.0.0.1:1/", "--http", "2", status=2)
    assert "recorded requests are sent as HTTP/1.1" in done.stderr
    done = bw(tmp_path, *words, "file", "--size", "1M", status=2)
    assert "trace-option" in done.stderr
    assert "HTTP server" in done.stderr


def test_malformed_lines_have_numbers_and_most_of_them_are_refused(
    tmp_path: Path, nginx: Server
) -> None:
    good, target = jsonl(), f"http://127.0.0.1:{nginx.port}/"
    (tmp_path / "some").write_text(good + "{}\n")
    done = bw(tmp_path, "replay", "some", "--target", target, status=2)
    assert "some:4:" in done.stderr
    document = replay(tmp_path, nginx, "some", "--lenient")
    assert document["result"]["traces"][0]["skipped_lines"] == 1
    assert "some:4:" in document["result"]["traces"][0]["skipped_first"][0]
    (tmp_path / "most").write_text(good + "\0\n" * 100)
    words = ("--format", "jsonl", "--lenient", "--target", target)
    done = bw(tmp_path, "replay", "most", *words, status=2)
    assert "most lines are malformed (100 of 103)" in done.stderr


def test_the_statistics_of_a_log(tmp_path: Path) -> None:
    line = (
        '10.0.0.1 - - [10/Oct/2000:13:55:3{} +0000] "GET /{} HTTP/1.1" 200 4 "-" "-"\n'
    )
    lines = (line.format(number // 10, number % 3) for number in range(40))
    (tmp_path / "access.log").write_text("".join(lines))
    document = json.loads(bw(tmp_path, "trace", "stat", "access.log", "--json").stdout)
    (found,) = document["traces"]
    assert found["operations"] == found["kinds"]["exchange"]["operations"] == 40
    assert found["report"]["requests"]["distinct"] == 3
    assert found["gaps"]["cv_squared"] == 0, "evenly over each second"
    assert "exchange" in bw(tmp_path, "trace", "stat", "access.log").stdout
