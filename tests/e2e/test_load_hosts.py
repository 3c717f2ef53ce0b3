"""One load of each network protocol, split over two hosts: the server's own count is exactly the
result.

A protocol is a row of `CASES`: a server that counts what arrived, and the workload. The hosts are
network namespaces of this machine with an sshd each (`load_hosts.py`), so a server sees two
clients.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ssh_server
from benchwright.features.load.engine_values import merged
from benchwright.features.load.response_times import decode_histogram
from benchwright.load import read_samples
from bw_command import Done
from load_hosts import ArrivalServer, Hosts, running_hosts, until
from postgres_server import postgres
from running_grpc import running_grpc, skip_without_grpc
from ssh_server import free_port

pytestmark = [
    pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-"),
    pytest.mark.timeout(300),
]
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
REDIS = shutil.which("redis-server")
OPENSSL = shutil.which("openssl")
OPERATIONS = 400
PATIENCE_S = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with running_hosts(tmp_path_factory.mktemp("hosts"), ("a", "b")) as hosts:
        yield hosts


@pytest.fixture
def hosts(made: Hosts) -> Iterator[Hosts]:
    yield made
    assert until(lambda: not made.left()), made.left()


def document_of(done: Done, status: int = 0) -> dict[str, Any]:
    """Return the document of a load that ended with this status."""
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- servers that count --------------------------------------------------------------------


class Seen(NamedTuple):
    """What a server counted itself."""

    clients: Counter[str]
    """Operations by the address of the client; empty: this server does not know it."""
    requests: Counter[str]
    """Operations by the label of their request, or by the command."""
    statuses: Counter[str]
    """Operations by the class of their status: `2xx`; empty: there is none."""

    @property
    def total(self) -> int:
        return self.requests.total()


class Counting(NamedTuple):
    """A server that runs."""

    target: str
    seen: Callable[[int], Seen]
    """Return what it counted, once that is so many operations."""
    options: str = ""
    """Further keys of `[target]`."""


PAGES = {"/page": "page", "/missing": "missing", "/moved": "moved"}
"""The label of each path."""
NGINX_CONF = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
    log_format own '$remote_addr $uri $status $server_protocol';
    access_log access.log own;
    keepalive_requests 1000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    ssl_certificate server.pem;
    ssl_certificate_key server.key;
    server {{
        listen {address}:{port}{how};
        location / {{ return 200 "a page"; }}
        location /missing {{ return 404; }}
        location /moved {{ return 302 /page; }}
    }}
}}
"""


@contextlib.contextmanager
def running_nginx(
    directory: Path, address: str, *, tls: bool = False, http: str = "1.1"
) -> Iterator[Counting]:
    """Run an nginx of one worker, which logs each request with its client."""
    if NGINX is None or OPENSSL is None:
        pytest.skip("nginx or openssl is not installed")
    words = (
        *(OPENSSL, "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=bw test"),
        *("-addext", f"subjectAltName=IP:{address}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-keyout", "server.key", "-out", "server.pem"),
    )
    subprocess.run(words, cwd=directory, check=True, stderr=subprocess.DEVNULL)
    port, how = free_port(), (" ssl" if tls else "") + (" http2" if http == "2" else "")
    text = NGINX_CONF.format(address=address, port=port, how=how)
    (directory / "conf").write_text("user root;" + text if os.geteuid() == 0 else text)
    command = [NGINX, "-e", "error.log", "-c", "conf", "-p", str(directory)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(address, port, process)
        # What the wait itself sent is no request.
        log = directory / "access.log"

        def seen(operations: int) -> Seen:
            # A row is written after its response.
            until(lambda: len(log.read_text().splitlines()) >= operations)
            rows = [line.split() for line in log.read_text().splitlines()]
            assert {row[3] for row in rows} <= {f"HTTP/{http}", f"HTTP/{http}.0"}
            return Seen(
                Counter(row[0] for row in rows),
                Counter(PAGES.get(row[1], row[1]) for row in rows),
                Counter(f"{row[2][0]}xx" for row in rows),
            )

        scheme = "https" if tls else "http"
        options = f'http = "{http}"\n' + (f'ca = "{directory}/server.pem"\n' if tls else "")
        yield Counting(f"{scheme}://{address}:{port}/", seen, options)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_for_port(address: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, "the server did not start"
        assert time.monotonic() < end_s, "the server did not get ready"
        with contextlib.suppress(OSError):
            socket.create_connection((address, port), 5).close()
            return
        time.sleep(0.02)


@contextlib.contextmanager
def running_redis(directory: Path, address: str) -> Iterator[Counting]:
    """Run a redis-server; it counts commands, not clients."""
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    words = (REDIS, "--port", str(port), "--bind", address, "--save", "")
    process = subprocess.Popen(
        (*words, "--dir", str(directory), "--protected-mode", "no"), stdout=subprocess.DEVNULL
    )
    try:
        wait_for_port(address, port, process)

        def seen(operations: int) -> Seen:
            del operations  # A reply comes after its command was counted.
            with socket.create_connection((address, port), 30) as client:
                client.sendall(b"INFO commandstats\r\n")
                replies = client.makefile("rb")
                text = replies.read(int(replies.readline()[1:])).decode()
            calls: Counter[str] = Counter()
            for line in text.splitlines():
                name, _, figures = line.partition(":calls=")
                if figures and not name.endswith("_info"):
                    name = name.removeprefix("cmdstat_").upper()
                    calls[name] = int(figures.partition(",")[0])
            return Seen(Counter(), calls, Counter())

        commands = 'commands = ["SET key:${id} value", "GET key:${id}", "INCR count"]\n'
        yield Counting(f"redis://{address}:{port}", seen, commands)
    finally:
        process.kill()
        process.wait(PATIENCE_S)


@contextlib.contextmanager
def running_postgres(directory: Path, address: str) -> Iterator[Counting]:
    """Run a PostgreSQL; each operation is a row, with its client."""
    del directory
    with postgres(address) as one:
        one.admit("host all bench 127.0.0.1/32 trust", "host all bench all trust")
        one.execute("CREATE TABLE counted (what text, client inet DEFAULT inet_client_addr())")

        insert = "INSERT INTO counted (what) VALUES"
        labels = {"one": f"{insert} ('one')", "two": f"{insert} ($1)"}

        def seen(operations: int) -> Seen:
            del operations
            rows = one.execute("SELECT host(client), what FROM counted").splitlines()
            fields = [row.split("|") for row in rows]
            return Seen(
                Counter(client for client, _ in fields),
                Counter(labels[what] for _, what in fields),
                Counter(),
            )

        statements = (
            f'statements = ["{labels["one"]}", {{sql = "{labels["two"]}", parameters = ["two"]}}]\n'
        )
        yield Counting(f"postgres://bench@{address}:{one.port}/postgres", seen, statements)


@contextlib.contextmanager
def running_echo(directory: Path, address: str) -> Iterator[Counting]:
    """Run a server that sends back what it receives."""
    del directory
    with ArrivalServer(address) as server:

        def seen(operations: int) -> Seen:
            until(lambda: len(server.arrivals) >= operations)
            clients = Counter(client for _, client in server.arrivals)
            return Seen(clients, Counter({"exchange": clients.total()}), Counter())

        yield Counting(f"tcp://{address}:{server.port}", seen)


@contextlib.contextmanager
def running_datagrams(directory: Path, address: str) -> Iterator[Counting]:
    """Run a server that sends each datagram back."""
    del directory
    received: list[tuple[bytes, str]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 0))

        def echo() -> None:
            while (datagram := server.recvfrom(2048))[0] != b"end":
                received.append((datagram[0], datagram[1][0]))
                server.sendto(*datagram)

        def seen(operations: int) -> Seen:
            until(lambda: len(received) >= operations)
            payloads = Counter(payload.decode() for payload, _ in received)
            return Seen(Counter(client for _, client in received), payloads, Counter())

        echoing = threading.Thread(target=echo)
        echoing.start()
        try:
            yield Counting(
                f"udp://{address}:{server.getsockname()[1]}",
                seen,
                'payload = ["text:one", "text:two"]\n',
            )
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"end", server.getsockname())
            echoing.join()


# -- the table -----------------------------------------------------------------------------

REQUESTS = """
[[request]]
label = "page"
path = "/page?${id}"
weight = 6
expect = {contains = "a page"}
[[request]]
label = "missing"
path = "/missing"
weight = 3
expect = {status = 404}
[[request]]
label = "moved"
path = "/moved"
"""
VALUES = '[values]\nid = "integer 1..9"\n'


class Case(NamedTuple):
    """A protocol: its server, and what a workload for it has besides filament and target."""

    server: Callable[[Path, str], AbstractContextManager[Counting]]
    more: str = ""
    labels: bool = False


def _nginx(**how: Any) -> Callable[[Path, str], AbstractContextManager[Counting]]:
    return lambda directory, address: running_nginx(directory, address, **how)


CASES = {
    "http": Case(_nginx(), REQUESTS + VALUES, labels=True),
    "https": Case(_nginx(tls=True), REQUESTS + VALUES, labels=True),
    "http2 with TLS": Case(_nginx(tls=True, http="2"), REQUESTS + VALUES, labels=True),
    "http2 by prior knowledge": Case(_nginx(http="2"), REQUESTS + VALUES, labels=True),
    "redis": Case(running_redis, VALUES, labels=True),
    "postgres": Case(running_postgres, labels=True),
    "tcp": Case(running_echo),
    "udp": Case(running_datagrams),
}


def workload(server: Counting, more: str = "", filament: str = "") -> str:
    """Return a workload of `OPERATIONS` operations on a server."""
    return (
        f'[target]\nto = "{server.target}"\nconnections = 6\n{server.options}'
        f'[run]\nworkers = 2\n[[filament]]\ntype = "open"\nrate = "500"\n'
        f"count = {OPERATIONS}\n{filament}\n{more}"
    )


def histogram(times: dict[str, Any]) -> Any:
    """Return the histogram of a summary of times."""
    return decode_histogram(times["hdr"])


def check_whole(result: dict[str, Any], operations: int = OPERATIONS) -> None:
    """Check that a result is the sum of its hosts, each of which issued its half."""
    counts = result["counts"]
    assert counts["intended"] == counts["issued"] == counts["completed"] == operations
    hosts = result["hosts"]
    assert [one["host"] for one in hosts] == ["a", "b"]
    for name, count in counts.items():
        assert count == sum(one["counts"][name] for one in hosts), name
    assert [one["counts"]["completed"] for one in hosts] == [operations / 2] * 2
    assert sum(one["completed"] for one in result["intervals"]) == operations
    whole = result["kinds"]["all"]
    assert whole["operations"] == operations
    for times in ("response_ns", "service_ns", "issue_error_ns"):
        parts = [histogram(one["all"][times]) for one in hosts]
        together, added = histogram(whole[times]), merged(parts)
        assert np.array_equal(together.count, added.count), times
        assert np.array_equal(together.high, added.high), times
        assert together.total == whole[times]["count"]
        # Failed operations were issued, too.
        failed = 0 if times == "issue_error_ns" else counts["errors"]
        assert whole[times]["count"] == operations - failed
        assert whole[times]["max"] == max(one["all"][times]["max"] for one in hosts)


@contextlib.contextmanager
def serving(tmp_path: Path, hosts: Hosts, case: Case) -> Iterator[Counting]:
    """Run the server of a case in a directory of its own."""
    place = tmp_path / "server"
    place.mkdir()
    with case.server(place, hosts.address) as server:
        yield server


@pytest.mark.parametrize("name", CASES)
def test_the_result_of_two_hosts_is_what_the_server_counted(
    tmp_path: Path, hosts: Hosts, name: str
) -> None:
    case = CASES[name]
    with serving(tmp_path, hosts, case) as server:
        (tmp_path / "w.toml").write_text(workload(server, case.more))
        words = ("w.toml", "--samples", "rows", "--json")
        result = document_of(hosts.load(tmp_path, *words))["result"]
        seen = server.seen(OPERATIONS)
    assert seen.total == OPERATIONS
    check_whole(result)
    assert result["counts"]["errors"] == 0
    assert result["target"]["connections"] == 6
    if seen.clients:
        halves = dict.fromkeys(hosts.addresses.values(), OPERATIONS // 2)
        assert seen.clients == halves
    statuses = {
        one: result["target"].get(f"status_{one}", 0) for one in ("2xx", "3xx", "4xx", "5xx")
    }
    assert {one: count for one, count in statuses.items() if count} == seen.statuses
    rows = read_samples(tmp_path / "rows")
    assert len(rows) == OPERATIONS
    assert (np.diff(rows["intended"].astype(np.int64)) >= 0).all()
    if not case.labels:
        assert "labels" not in result
        return
    labels = result["labels"]
    assert {one: labels[one]["operations"] for one in labels} == seen.requests
    assert min(seen.requests.values()) > 0
    for times in ("response_ns", "service_ns"):
        parts = [histogram(one[times]) for one in labels.values()]
        whole = histogram(result["kinds"]["exchange"][times])
        assert np.array_equal(merged(parts).count, whole.count)


def test_streams_of_two_hosts_are_those_that_the_server_sent(tmp_path: Path, hosts: Hosts) -> None:
    skip_without_grpc()
    with running_grpc(tmp_path / "server", hosts.address) as server:
        keys = f'grpc = "demo.Greeter/Watch"\nproto = "{server.proto}"\noutstanding = 16\n'
        keys += 'data = {name = "hosts", count = 3, wait_ms = 1}\n'
        counting = Counting(server.target, lambda _: Seen(*[Counter[str]()] * 3), keys)
        (tmp_path / "w.toml").write_text(workload(counting))
        words = ("w.toml", "--limit", "p50 first < 60s", "--json")
        found = document_of(hosts.load(tmp_path, *words))
        calls = server.calls("hosts")
    result = found["result"]
    check_whole(result)
    streams = result["streams"]
    assert streams["operations"] == streams["succeeded"] == len(calls) == OPERATIONS
    assert streams["content_events"] == 3 * OPERATIONS
    assert streams["gap_ns"]["count"] + streams["shared_events"] == 2 * OPERATIONS
    assert histogram(streams["first_ns"]).total == OPERATIONS
    clients = Counter(call["client"].split(":")[1] for call in calls)
    assert clients == dict.fromkeys(hosts.addresses.values(), OPERATIONS // 2)
    assert [limit["outcome"] for limit in found["limits"]] == ["passed"]


def test_labels_of_two_hosts_are_those_of_one(tmp_path: Path, hosts: Hosts) -> None:
    """Each operation has the same request however the load is split: over hosts, or workers."""
    place = tmp_path / "server"
    place.mkdir()
    found = []
    with running_nginx(place, hosts.address) as server:
        (tmp_path / "w.toml").write_text(workload(server, REQUESTS + VALUES))
        for names, workers in (("a", "1"), ("a", "3"), ("a,b", "1"), ("b,a", "2")):
            words = ("w.toml", "--workers", workers, "--json")
            result = document_of(hosts.load(tmp_path, *words, hosts=names))["result"]
            assert result["counts"]["completed"] == OPERATIONS
            found.append({name: one["operations"] for name, one in result["labels"].items()})
    assert found == [found[0]] * 4
    assert sum(found[0].values()) == OPERATIONS


def test_failed_requests_are_errors_of_their_label_on_both_hosts(
    tmp_path: Path, hosts: Hosts
) -> None:
    place = tmp_path / "server"
    place.mkdir()
    unexpected = REQUESTS.replace("status = 404", 'contains = "a page"')
    with running_nginx(place, hosts.address) as server:
        (tmp_path / "w.toml").write_text(workload(server, unexpected + VALUES))
        words = ("w.toml", "--max-errors", "100%", "--json")
        document = document_of(hosts.load(tmp_path, *words))
        seen = server.seen(OPERATIONS)
    result = document["result"]
    check_whole(result)
    assert result["counts"]["errors"] == seen.requests["missing"] > 0
    assert result["labels"]["missing"]["errors"] == {"HTTP 404": seen.statuses["4xx"]}
    assert result["labels"]["page"]["errors"] == {}
    assert "operations-failed" in {one["code"] for one in document["findings"]}


def test_several_servers_share_requests_labels_and_values(tmp_path: Path, hosts: Hosts) -> None:
    """Two HTTP servers have a request in common, and each one of its own; Redis has the values."""
    for name in ("web", "api", "store"):
        (tmp_path / name).mkdir()
    with (
        running_nginx(tmp_path / "web", hosts.address) as web,
        running_nginx(tmp_path / "api", hosts.address, http="2") as api,
        running_redis(tmp_path / "store", hosts.address) as store,
    ):
        servers = {"web": (web, 200), "api": (api, 100), "store": (store, 100)}
        targets = "".join(
            f'[[target]]\nname = "{name}"\nto = "{one.target}"\nconnections = 4\n' + one.options
            for name, (one, _) in servers.items()
        )
        filaments = "".join(
            f'[[filament]]\ntype = "open"\nrate = "300"\ncount = {count}\ntarget = "{name}"\n'
            for name, (_, count) in servers.items()
        )
        requests = (
            '[[request]]\nlabel = "page"\ntarget = "web"\npath = "/page?${id}"\nweight = 4\n'
            '[[request]]\nlabel = "missing"\npath = "/missing"\nexpect = {status = 404}\n'
            '[[request]]\nlabel = "moved"\ntarget = "api"\npath = "/moved"\nweight = 2\n'
        )
        (tmp_path / "w.toml").write_text(targets + filaments + requests + VALUES)
        document = document_of(hosts.load(tmp_path, "w.toml", "--json"))
        of_web, of_api, of_store = web.seen(200), api.seen(100), store.seen(100)
    result = document["result"]
    check_whole(result)
    assert result["counts"]["errors"] == 0
    assert (of_web.total, of_api.total, of_store.total) == (200, 100, 100)
    assert of_web.requests.keys() == {"page", "missing"}
    assert of_api.requests.keys() == {"missing", "moved"}
    assert of_store.requests.keys() == {"SET", "GET", "INCR"}
    labels = {name: one["operations"] for name, one in result["labels"].items()}
    assert labels == of_web.requests + of_api.requests + of_store.requests
    for name, (_, count) in servers.items():
        whole, *each = (one for one in result["groups"] if one["target"] == name)
        assert whole["operations"] == sum(one["operations"] for one in each) == count
    assert of_web.requests["page"] > 2 * of_web.requests["missing"]
    parts = result["target"]["targets"]
    for name, seen in (("web", of_web), ("api", of_api)):
        for status, count in seen.statuses.items():
            assert parts[name][f"status_{status}"] == count
    assert [one["connections"] for one in parts.values()] == [4, 4, 4]


# -- a recorded load -----------------------------------------------------------------------


def test_recorded_requests_are_replayed_by_two_hosts(tmp_path: Path, hosts: Hosts) -> None:
    place = tmp_path / "server"
    place.mkdir()
    paths = [f"/page/{number % 7}" for number in range(OPERATIONS)]
    stamp = "[10/Oct/2025:13:55:{:02} +0000]"
    (tmp_path / "recorded.log").write_text(
        "".join(
            f'192.0.2.7 - - {stamp.format(number // 200)} "GET {path} HTTP/1.1" 200 6 "-" "curl"\n'
            for number, path in enumerate(paths)
        )
    )
    with running_nginx(place, hosts.address) as server:
        words = ("replay", "recorded.log", "--duplicates", "spread", "--json")
        whole = document_of(hosts.run(tmp_path, *words, "--target", server.target))
        seen = server.seen(OPERATIONS)
        mapped = ("replay", "recorded.log", "--map", f"other.example={server.target}")
        nothing = hosts.run(tmp_path, *mapped, "--json")
    check_whole(whole["result"])
    assert seen.requests == Counter(paths)
    assert seen.clients == dict.fromkeys(hosts.addresses.values(), OPERATIONS // 2)
    (trace,) = whole["result"]["traces"]
    assert (trace["path"], trace["operations"]) == ("recorded.log", OPERATIONS)
    assert trace["requests"]["distinct"] == 7
    assert "trace-empty" in {one["code"] for one in document_of(nothing)["findings"]}


def test_a_trace_that_cannot_be_read_is_named_by_its_path_here(
    tmp_path: Path, hosts: Hosts
) -> None:
    words = ("replay", "absent.log", "--target", f"http://{hosts.address}:9/")
    done = hosts.run(tmp_path, *words)
    assert done.returncode == 2
    assert "absent.log" in done.stderr
    (tmp_path / "odd.log").write_text("neither\na\ntrace\n")
    done = hosts.run(tmp_path, *(word.replace("absent", "odd") for word in words))
    assert done.returncode == 2
    assert "odd.log" in done.stderr
    assert "bw-remote" not in done.stderr
    done = hosts.run(tmp_path, "replay", "-", *words[2:])
    assert done.returncode == 2
    assert "standard input is read only once" in done.stderr


# -- what goes wrong -----------------------------------------------------------------------


def test_time_limits_of_both_hosts_are_added(tmp_path: Path, hosts: Hosts) -> None:
    """A server that accepts connections and never answers."""
    with contextlib.closing(socket.create_server((hosts.address, 0))) as silent:
        target = f"tcp://{hosts.address}:{silent.getsockname()[1]}"
        (tmp_path / "w.toml").write_text(
            f'[target]\nto = "{target}"\ntimeout = "100ms"\nconnections = 40\n'
            '[[filament]]\ntype = "open"\nrate = "100"\ncount = 40\n'
        )
        words = ("w.toml", "--max-errors", "100%", "--json")
        document = document_of(hosts.load(tmp_path, *words))
    result = document["result"]
    assert result["counts"]["errors"] == result["counts"]["completed"] == 40
    assert result["target"]["timeouts"] == 40
    assert [one["counts"]["errors"] for one in result["hosts"]] == [20, 20]
    errors = result["kinds"]["all"]["errors"]
    assert sum(errors.values()) == 40
    parts: Counter[str] = collections.Counter()
    for one in result["hosts"]:
        parts.update(one["all"]["errors"])
    assert parts == errors
    assert "operations-failed" in {one["code"] for one in document["findings"]}


@pytest.mark.parametrize("name", ["http", "redis", "postgres"])
def test_a_host_that_dies_leaves_the_result_of_the_other(
    tmp_path: Path, hosts: Hosts, name: str
) -> None:
    case = CASES[name]
    with serving(tmp_path, hosts, case) as server:
        text = workload(server, case.more).replace(f"count = {OPERATIONS}", "")
        (tmp_path / "w.toml").write_text(text)
        with hosts.started(tmp_path, "w.toml", "--duration", "30s", "--json") as load:
            assert until(lambda: server.seen(0).total > 50)
            hosts.kill_engines("b")
            out, err = load.communicate(timeout=PATIENCE_S)
        seen = server.seen(0)
    assert load.returncode == 1, err
    assert "[host-lost]" in err
    document = json.loads(out)
    first, second = document["result"]["hosts"]
    assert (first["lost"], second["counts"]) == ("", None)
    assert second["lost"].startswith("b: ")
    assert "host-lost" in {one["code"] for one in document["findings"]}
    counts = document["result"]["counts"]
    # Hosts still have a count that only older engines have.
    assert {**counts, "drained_completed": 0} == first["counts"]
    assert 0 < counts["completed"] <= seen.total
    if seen.clients:
        # What a was sending when the load ended has no result.
        of_a = seen.clients[hosts.addresses["a"]]
        assert counts["completed"] <= of_a <= counts["issued"]
    if case.labels:
        labels = document["result"]["labels"].values()
        assert sum(one["operations"] for one in labels) == counts["completed"]


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("http://h/", 'unix_socket = "/run/x"', "a Unix socket is another server"),
        ("redis://h", 'unix_socket = "/run/x"', "a Unix socket is another server"),
        ("redis://h", 'password_file = "x"', "the file of password_file"),
        ("postgres://u@%2Frun/d", "", "a Unix socket is another server"),
        ("postgres://u@h/d", 'password_file = "x"', "the file of password_file"),
        ("tcp://127.0.0.1:7", "", "a loopback address is another machine"),
        ("nfs://127.0.0.1/export", "", "a loopback address is another machine"),
    ],
)
def test_what_hosts_do_not_share_is_refused_before_a_connection(
    tmp_path: Path, target: str, options: str, message: str
) -> None:
    filament = 'type = "open"\nrate = "10"\n'
    if target.startswith("nfs"):
        filament = (
            'type = "files"\nrate = "10"\noperations = {read = 1}\n'
            '[files]\nfiles = 10\nsize = "4k"\n'
        )
    (tmp_path / "w.toml").write_text(
        f'[target]\nto = "{target}"\n{options}\n[[filament]]\n{filament}'
    )
    done = Hosts(tmp_path / "none", "").load(tmp_path, "w.toml")
    assert done.returncode == 2
    assert message in done.stderr
    assert "[bad-argument]" in done.stderr
