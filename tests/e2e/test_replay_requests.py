"""`bw replay` of recorded HTTP requests to real servers, nginx and Apache, whose own logs say what
arrived.

The original logs are theirs, too, in the formats `combined` and `common`. Nothing here asserts a
time but what the engine itself reports: a request is in nginx' log between its issue and its
completion.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchwright.load import read_samples
from shared_directory import shared_directory

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NGINX = shutil.which("nginx", path=PATH)
APACHE = shutil.which("apache2", path=PATH)
APACHE_MODULES = Path("/usr/lib/apache2/modules")
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
        '"status":$status,"protocol":"$server_protocol","tls":"$ssl_protocol","host":"$http_host","cookie":"$http_cookie","token":"$http_authorization",'
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
        listen 127.0.0.1:{http2_port} http2;
        listen 127.0.0.1:{tls_port} ssl http2;
        listen unix:{directory}/socket;
        ssl_certificate server.pem;
        ssl_certificate_key server.key;
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


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody uses."""
    with contextlib.ExitStack() as together:
        sockets = [together.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


class Server:
    """A server that runs, of files in a directory."""

    def __init__(self, directory: Path, port: int, command: Sequence[str]) -> None:
        self.directory, self.port = directory, port
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while True:
            assert self.process.poll() is None, f"{command[0]} did not start"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 5).close()
                return
            time.sleep(0.01)

    def end(self) -> None:
        """End it by its process id."""
        self.process.terminate()
        self.process.wait(30)

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


class Nginx(Server):
    """An nginx of one process: HTTP/1.1 on a port and a Unix socket, HTTP/2 on another port, and
    TLS."""

    def __init__(self, directory: Path) -> None:
        port, self.http2_port, self.tls_port = free_ports(3)
        self.socket = directory / "socket"
        self.certificate = directory / "server.pem"
        words = (
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", "server.key", "-out", "server.pem"),
        )
        subprocess.run(words, cwd=directory, check=True, stderr=subprocess.DEVNULL)
        text = CONFIGURATION.format(
            port=port, http2_port=self.http2_port, tls_port=self.tls_port, directory=directory
        )
        (directory / "conf").write_text(text)
        words = ("-e", "error.log", "-c", "conf", "-p", str(directory))
        super().__init__(directory, port, [str(NGINX), *words])

    def seen(self, requests: int) -> list[dict[str, Any]]:
        """Return what the server received since the last call, once it is so much."""
        self.taken("access.log", requests)
        return [json.loads(line) for line in self.taken("seen.log", requests)]


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    """Yield a running server."""
    (tmp_path / "server").mkdir()
    server = Nginx(tmp_path / "server")
    try:
        yield server
    finally:
        server.end()


def bw(directory: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
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


def replay(directory: Path, server: Server, *words: str, url: str = "") -> dict[str, Any]:
    """Replay a trace on one connection, so that it is in order; return the document."""
    url = url or f"http://127.0.0.1:{server.port}/"
    target = ("--target", url, "--connections", "1")
    written = ("--samples", "rows.bw", "--json")
    (directory / "rows.bw").unlink(missing_ok=True)
    found: dict[str, Any] = json.loads(bw(directory, "replay", *words, *target, *written).stdout)
    return found


def findings(document: dict[str, Any]) -> dict[str, str]:
    """Return the evidence of each finding by its code."""
    return {one["code"]: one["evidence"] for one in document["findings"]}


def check_times(document: dict[str, Any], directory: Path, seen: list[dict[str, Any]]) -> list[int]:
    """Check that the server logged each request between its issue and its completion; return the
    intended starts."""
    rows = read_samples(directory / "rows.bw")
    rows = rows[rows["intended"].argsort(kind="stable")]
    started_ns = document["result"]["started_ns"]
    for place, (row, one) in enumerate(zip(rows, seen, strict=True)):
        at_ns = round(float(one["at"]) * 1000) * 10**6 - started_ns
        assert row["intended"] <= row["issued"]
        # nginx has whole milliseconds, of a clock that may be slewed. It reads its clock once in
        # a round of events: the first request may come in the round that began with the handshake.
        assert place == 0 or row["issued"] <= at_ns + 2 * 10**6
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


def test_a_log_of_nginx_is_replayed_to_nginx(tmp_path: Path, nginx: Nginx) -> None:
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


def test_unsafe_methods_are_replayed_on_request(tmp_path: Path, nginx: Nginx) -> None:
    line = '10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "{} /order HTTP/1.1" 201 4 "-" "-"\n'
    methods = ("POST", "PUT", "DELETE")
    (tmp_path / "access.log").write_text("".join(map(line.format, methods)))
    without = bw(
        *(tmp_path, "replay", "access.log", "--json", "--target"), f"http://127.0.0.1:{nginx.port}/"
    )
    assert json.loads(without.stdout)["result"]["counts"]["intended"] == 0
    document = replay(tmp_path, nginx, "access.log", "--unsafe-methods", "--speed", "10")
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
                **({"postData": {"mimeType": "text/plain", "text": body}} if body else {}),
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
        {"time": "2026-01-31T12:00:00.12Z", "method": "GET", "path": "/c", "headers": pairs},
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("kind", ["har", "jsonl"])
def test_headers_and_bodies_are_sent_without_secrets_unless_asked(
    tmp_path: Path, nginx: Nginx, kind: str
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


def test_recorded_hosts_have_targets_of_their_own(tmp_path: Path, nginx: Nginx) -> None:
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


@pytest.mark.parametrize("way", ["https", "https/2", "http/2", "unix"])
def test_a_log_is_replayed_by_tls_http_2_and_a_unix_socket(
    tmp_path: Path, nginx: Nginx, way: str
) -> None:
    tls, plain = (f"https://127.0.0.1:{nginx.tls_port}/", f"http://127.0.0.1:{nginx.http2_port}/")
    trust = ("--ca", str(nginx.certificate))
    # The authority of a Unix socket is that of the URL.
    url, words, protocol = {
        "https": (tls, trust, "HTTP/1.1"),
        "https/2": (tls, (*trust, "--http", "2"), "HTTP/2.0"),
        "http/2": (plain, ("--http", "2"), "HTTP/2.0"),
        "unix": ("http://a.example/", ("--unix-socket", str(nginx.socket)), "HTTP/1.1"),
    }[way]
    for request in SENT:
        nginx.send(request)
    log = nginx.taken("access.log", len(SENT))
    nginx.taken("seen.log", len(SENT))
    (tmp_path / "access.log").write_text("".join(line + "\n" for line in log))
    document = replay(tmp_path, nginx, "access.log", *words, url=url)
    seen = nginx.seen(len(REPLAYED))
    found = [(one["method"], one["path"], one["status"]) for one in seen]
    assert found == REPLAYED
    assert {one["protocol"] for one in seen} == {protocol}
    assert all(one["tls"].startswith("TLSv1") == way.startswith("https") for one in seen)
    if protocol == "HTTP/1.1":
        assert {one["host"] for one in seen} == {url.split("/")[2]}
    check_times(document, tmp_path, seen)
    counts, target = document["result"]["counts"], document["result"]["target"]
    assert (counts["completed"], counts["errors"]) == (len(REPLAYED), 0)
    assert [target[f"status_{first}xx"] for first in (2, 3, 4, 5)] == [7, 1, 1, 0]
    assert (target.get("tls") is not None) == way.startswith("https")


def test_headers_and_bodies_are_sent_by_http_2(tmp_path: Path, nginx: Nginx) -> None:
    (tmp_path / "recorded").write_text(har())
    words = ("recorded", "--unsafe-methods", "--credentials", "--http", "2")
    url = f"http://127.0.0.1:{nginx.http2_port}/"
    document = replay(tmp_path, nginx, *words, url=url)
    seen = nginx.seen(3)
    assert [(one["method"], one["path"]) for one in seen] == [
        ("GET", "/a?x=1"),
        ("POST", "/order"),
        ("GET", "/c"),
    ]
    assert {one["kind"] for one in seen} == {"recorded"}
    assert {(one["cookie"], one["token"]) for one in seen} == {("secret=1", "Bearer secret")}
    assert {one["hop"] for one in seen} == {""}
    assert seen[1]["body"] == "größe=1"
    assert document["result"]["counts"]["errors"] == 0


def test_posted_parameters_are_sent_as_a_form(tmp_path: Path, nginx: Nginx) -> None:
    form = {
        "mimeType": "application/x-www-form-urlencoded",
        "params": [{"name": "größe", "value": "1 & 2"}, {"name": "b", "value": ""}],
    }
    upload = {
        "mimeType": "multipart/form-data; boundary=x",
        "params": [{"name": "f", "fileName": "f.txt", "value": "text"}],
    }
    entries = [
        {
            "startedDateTime": "2026-01-31T13:00:00.500Z",
            "request": {"method": "POST", "url": "http://h/order", "headers": [], "postData": body},
        }
        for body in (form, upload)
    ]
    (tmp_path / "recorded").write_text(json.dumps({"log": {"entries": entries}}))
    document = replay(tmp_path, nginx, "recorded", "--unsafe-methods")
    (one,) = nginx.seen(1)
    assert one["body"] == "gr%C3%B6%C3%9Fe=1+%26+2&b="
    assert document["result"]["traces"][0]["requests"]["lost_bodies"] == 1
    skipped = findings(document)["trace-requests-skipped"]
    assert "1 with a body that is described (multipart/form-data)" in skipped


# -- Apache ------------------------------------------------------------------------------

APACHE_CONFIGURATION = """
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {directory}/pid
DefaultRuntimeDir {directory}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule alias_module {modules}/mod_alias.so
{user}
DocumentRoot {directory}/www
ErrorLog {directory}/error.log
KeepAlive On
MaxKeepAliveRequests 0
Redirect 302 /moved /
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
LogFormat "%h %l %u %t \\"%r\\" %>s %b" common
LogFormat "%m %U%q %>s %B" seen
CustomLog {directory}/combined.log combined
CustomLog {directory}/common.log common
CustomLog {directory}/seen.log seen
"""
"""`combined` is that of Debian, with %O; `common` that of Apache's manual, with %b."""
APACHE_SENT = (
    *(b"GET /first?a=%d HTTP/1.1" % (number % 3) for number in range(8)),
    b"HEAD /first HTTP/1.1",
    b"GET /missing HTTP/1.1",
    b"GET /moved HTTP/1.1",
    b'GET /quote"d?x=[1] HTTP/1.1',
    b"OPTIONS /first HTTP/1.1",
    b"GET /b\xc3\xbccher HTTP/1.1",
    b"POST /first HTTP/1.1",
    b"\x16\x03\x01\x02",
)


@pytest.fixture
def apache() -> Iterator[Server]:
    """Yield a running Apache."""
    if APACHE is None or not APACHE_MODULES.is_dir():
        pytest.skip("Apache is not installed (apt-get install apache2-bin)")
    # As root it serves as another user, who reads the pages.
    with shared_directory("apache") as directory:
        (directory / "www").mkdir()
        (directory / "www" / "first").write_text("a page of 20 bytes.\n")
        (directory / "www" / "index.html").write_text("home\n")
        (port,) = free_ports(1)
        text = APACHE_CONFIGURATION.format(
            port=port,
            directory=directory,
            modules=APACHE_MODULES,
            user="" if os.geteuid() else "User www-data\nGroup www-data",
        )
        (directory / "conf").write_text(text)
        words = ("-f", str(directory / "conf"), "-d", str(directory), "-DFOREGROUND")
        server = Server(directory, port, [APACHE, *words])
        try:
            yield server
        finally:
            server.end()


@pytest.mark.parametrize("kind", ["combined", "common"])
def test_a_log_of_apache_is_replayed_to_it(tmp_path: Path, apache: Server, kind: str) -> None:
    for request in APACHE_SENT:
        apache.send(request)
    logs = {
        name: apache.taken(f"{name}.log", len(APACHE_SENT))
        for name in ("combined", "common", "seen")
    }
    (tmp_path / "access.log").write_text("".join(f"{line}\n" for line in logs[kind]))
    document = replay(tmp_path, apache, "access.log")
    kept = [line for line in logs["seen"] if re.match("GET|HEAD|OPTIONS", line)]
    assert len(kept) == len(APACHE_SENT) - 2
    # Without the sizes: the page of a redirect has the Host of its request.
    served = [line.rsplit(" ", 1)[0] for line in apache.taken("seen.log", len(kept))]
    assert Counter(served) == Counter(line.rsplit(" ", 1)[0] for line in kept)
    counts = document["result"]["counts"]
    assert counts["intended"] == counts["completed"] == len(kept)
    assert counts["errors"] == counts["early"] == 0
    target = document["result"]["target"]
    classes = Counter(line.split()[-2][0] for line in kept)
    assert [target[f"status_{first}xx"] for first in (2, 3, 4, 5)] == [
        classes[str(first)] for first in (2, 3, 4, 5)
    ]
    requests = document["result"]["traces"][0]["requests"]
    assert (requests["unsafe_methods"], requests["unreplayable"]) == (1, 1)
    # The statistics of the log are the totals of Apache itself.
    found = json.loads(bw(tmp_path, "trace", "stat", "access.log", "--json").stdout)
    (stat,) = found["traces"]
    methods = Counter(re.findall(r'"([A-Z]+) /', "\n".join(logs[kind])))
    assert {name: one["operations"] for name, one in stat["kinds"].items()} == methods
    if kind == "common":
        bodies = [int(line.split()[-1]) for line in logs["seen"][:-1]]
        assert stat["bytes"] == sum(bodies) > 0


def test_requests_need_an_http_server_or_the_null_target(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_text(jsonl())
    words = ("replay", "recorded", "--json", "--target")
    result = json.loads(bw(tmp_path, *words, "null").stdout)["result"]
    assert result["counts"]["completed"] == 2
    done = bw(tmp_path, *words, "file", "--size", "1M", status=2)
    assert "trace-option" in done.stderr
    assert "HTTP server" in done.stderr


def test_malformed_lines_have_numbers_and_most_of_them_are_refused(
    tmp_path: Path, nginx: Nginx
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
    line = '10.0.0.1 - - [10/Oct/2000:13:55:3{} +0000] "GET /{} HTTP/1.1" 200 4 "-" "-"\n'
    lines = [line.format(number // 10, number % 3) for number in range(40)]
    lines += [lines[-1].replace("GET /0", "POST /0").replace(" 200 4 ", " 503 2048 ")]
    (tmp_path / "access.log").write_text("".join(lines))
    document = json.loads(bw(tmp_path, "trace", "stat", "access.log", "--json").stdout)
    (found,) = document["traces"]
    assert found["operations"] == 41
    assert {name: one["operations"] for name, one in found["kinds"].items()} == {
        "GET": 40,
        "POST": 1,
    }
    assert found["bytes"] == 160 + 2048
    assert (found["sizes"], found["sequentiality"], found["queue"]) == (None,) * 3
    assert found["requests"]["statuses"] == {"200": 40, "503": 1}
    assert {one["name"]: one["operations"] for one in found["requests"]["paths"]} == {
        "/0": 15,
        "/1": 13,
        "/2": 13,
    }
    assert found["report"]["requests"]["distinct"] == 4
    assert findings(document).keys() == {"trace-stamps-coarse"}
    text = bw(tmp_path, "trace", "stat", "access.log").stdout
    assert "41 requests in 3.91 s" in text
    assert "2xx 97.6 %, 5xx 2.44 % (503 2.44 %)" in text
    for meaningless in ("exchange", "sequential", "block", "100 ms"):
        assert meaningless not in text
