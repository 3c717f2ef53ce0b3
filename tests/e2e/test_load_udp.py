"""`bw load` on UDP servers: totals that Debian's memcached and dnsmasq count themselves, lost and
late answers, and a server that is not there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bw_command import Done, bw

MEMCACHED = shutil.which("memcached")
DNSMASQ = shutil.which("dnsmasq", path=f"{os.environ['PATH']}:/usr/sbin")
FRAME = "hex:${id} 0000 0001 0000 "
"""What precedes a command of memcached over UDP: the request's ID, which its answer has too, the
number of the datagram and their count (protocol.txt of memcached, "UDP protocol")."""


def free_port() -> int:
    """Return a port of the loopback that neither TCP nor UDP uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", port))
        return port


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Memcached:
    """A private memcached, and a connection to it over TCP."""

    def __init__(self, port: int) -> None:
        self.port = port
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        self.lines = self.connection.makefile("rwb")

    def __call__(self, command: str) -> list[str]:
        """Return the lines of an answer up to the one that ends it."""
        self.lines.write(command.encode() + b"\r\n")
        self.lines.flush()
        found = []
        while not found or found[-1] not in ("END", "STORED"):
            found.append(self.lines.readline().decode().rstrip())
        return found

    def count(self, name: str) -> int:
        """Return a figure of the server's own statistics."""
        fields = (line.split() for line in self("stats"))
        return next(int(one[2]) for one in fields if one[1:2] == [name])


@pytest.fixture
def memcached() -> Iterator[Memcached]:
    if MEMCACHED is None:
        pytest.skip("memcached is not installed (apt-get install memcached)")
    port = free_port()
    words = ("-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-u", "nobody")
    with running(MEMCACHED, *words) as process:
        one = Memcached(port)
        assert process.poll() is None
        yield one
        one.lines.close()
        one.connection.close()


@pytest.fixture
def dns(tmp_path: Path) -> Iterator[int]:
    """Yield the port of a DNS server that knows one name and forwards nothing."""
    if DNSMASQ is None:
        pytest.skip("dnsmasq is not installed (apt-get install dnsmasq-base)")
    port = free_port()
    words = (
        *("--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"),
        *("--bind-interfaces", "--listen-address=127.0.0.1", f"--port={port}"),
        *("--host-record=a.test,192.0.2.1", "--local=/test/", "--user=root"),
        f"--pid-file={tmp_path}/pid",
    )
    with running(DNSMASQ, *words) as process:
        while not answers(port):
            assert process.poll() is None
        yield port


def dns_query(name: str, kind: int = 1, group: int = 1) -> bytes:
    """Return a question of DNS without its ID: type A of class IN, or another one."""
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    head = struct.pack("!5H", 0x0100, 1, 0, 0, 0)
    return head + labels + b"\0" + struct.pack("!2H", kind, group)


def asked(port: int, query: bytes) -> bytes | None:
    """Return the answer to a question of DNS; None if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(0.5)
        datagrams.connect(("127.0.0.1", port))
        try:
            datagrams.send(b"\0\1" + query)
            return datagrams.recv(4096)
        except (ConnectionRefusedError, TimeoutError):
            time.sleep(0.02)
            return None


def answers(port: int) -> bool:
    return asked(port, dns_query("a.test")) is not None


def answered_locally(port: int) -> int:
    """Return how many questions dnsmasq has answered without another server (`hits.bind`)."""
    answer = asked(port, dns_query("hits.bind", kind=16, group=3))
    assert answer is not None
    # The last zero is the high byte of the length of a text with its own length before it.
    return int(answer[answer.rindex(b"\0") + 3 :])


def load(directory: Path, target: str, *words: str) -> Done:
    return bw(directory, "load", *words, "--json", "--target", target)


def document(done: Done, status: int = 0) -> dict[str, Any]:
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def workload(directory: Path, target: str, count: int = 2000) -> str:
    """Return the name of a workload with this many operations."""
    path = directory / "w.toml"
    path.write_text(
        f'{target}\n[values]\nid = "text 4"\n[[filament]]\ntype = "open"\nrate = "2k"\n'
        f"count = {count}\n"
    )
    return path.name


def errors_of(result: dict[str, Any]) -> dict[str, int]:
    errors: dict[str, int] = result["kinds"]["exchange"]["errors"]
    return errors


def test_memcached_executed_exactly_what_the_load_counts(
    memcached: Memcached, tmp_path: Path
) -> None:
    # The value, the command and the frame of an answer.
    assert memcached("set key 0 0 5\r\nhello") == ["STORED"]
    before = {name: memcached.count(name) for name in ("cmd_get", "cmd_set")}
    commands = [b"get key\r\n", b"set other 0 0 2\r\nab\r\n"]
    payload = json.dumps([FRAME + one.hex() for one in commands])
    name = workload(
        tmp_path,
        f'[target]\nto = "udp://127.0.0.1:{memcached.port}"\npayload = {payload}\n'
        'match = 2\ntimeout = "20s"',
    )
    result = document(bw(tmp_path, "load", name, "--json"))["result"]
    counts, target = result["counts"], result["target"]
    calls = {name: memcached.count(name) - number for name, number in before.items()}
    assert counts["completed"] == counts["issued"] == sum(calls.values()) == 2000
    assert all(calls.values()), calls
    assert (counts["errors"], target["timeouts"], target["unrequested"]) == (0, 0, 0)
    lengths = [8 + len(b"VALUE key 0 5\r\nhello\r\nEND\r\n"), 8 + len(b"STORED\r\n")]
    expected = calls["cmd_get"] * lengths[0] + calls["cmd_set"] * lengths[1]
    assert target["received_bytes"] == expected
    sent = [8 + len(one) for one in commands]
    assert target["sent_bytes"] == calls["cmd_get"] * sent[0] + calls["cmd_set"] * sent[1]


def test_dnsmasq_answered_exactly_what_the_load_counts(dns: int, tmp_path: Path) -> None:
    first = answered_locally(dns)
    before = answered_locally(dns)
    own = before - first
    name = workload(
        tmp_path,
        f'[target]\nto = "udp://127.0.0.1:{dns}"\nmatch = 2\ntimeout = "20s"\n'
        # An answer without an error, with one question and one answer.
        'expect = "hex:???? 8580 0001 0001"\n'
        f'payload = "hex:${{id}}{dns_query("a.test").hex()}"',
    )
    result = document(bw(tmp_path, "load", name, "--json"))["result"]
    assert result["counts"]["completed"] == 2000
    assert errors_of(result) == {}
    assert answered_locally(dns) - before - own == 2000


def test_an_answer_with_an_error_fails_its_check(dns: int, tmp_path: Path) -> None:
    words = (
        *("--payload", f"hex:1234{dns_query('none.test').hex()}"),
        *("--expect", "hex:1234 8580", "--rate", "200", "--duration", "1s"),
    )
    found = document(load(tmp_path, f"udp://127.0.0.1:{dns}", *words), status=1)
    counts = found["result"]["counts"]
    assert errors_of(found["result"]) == {"check-failed": counts["completed"]}


@contextmanager
def server(serve: Callable[[socket.socket, int, bytes, Any], None]) -> Iterator[int]:
    """Serve each datagram, with its number, in a thread; yield the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.settimeout(0.05)
        done = threading.Event()

        def receive() -> None:
            number = 0
            while not done.is_set():
                try:
                    data, sender = datagrams.recvfrom(65_536)
                except (TimeoutError, ConnectionRefusedError):
                    continue
                serve(datagrams, number, data, sender)
                number += 1

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield datagrams.getsockname()[1]
        finally:
            done.set()
            thread.join()


def test_late_and_lost_answers_are_timeouts_and_the_late_ones_are_counted(tmp_path: Path) -> None:
    held: list[tuple[bytes, Any]] = []

    def serve(datagrams: socket.socket, number: int, data: bytes, sender: Any) -> None:
        # The first of three is lost, the second answered with the third, far too late.
        if number % 3 == 1:
            held.append((data, sender))
        elif number % 3 == 2:
            datagrams.sendto(*held.pop())
            datagrams.sendto(data, sender)

    with server(serve) as port:
        words = ("--timeout", "300ms", "--connections", "1", "--duration", "2s")
        done = load(tmp_path, f"udp://127.0.0.1:{port}", *words, "--max-errors", "100%")
    found = document(done)
    result = found["result"]
    timeouts = errors_of(result)["ETIMEDOUT"]
    successes = result["counts"]["completed"] - timeouts
    target = result["target"]
    assert target["timeouts"] == target["reconnects"] == timeouts >= 2
    # Whether the load ended with one that is answered late is not certain.
    assert target["late_replies"] in (successes, successes + 1)
    assert target["unrequested"] == 0


def test_a_closed_port_is_an_error_of_each_operation(tmp_path: Path) -> None:
    target = f"udp://127.0.0.1:{free_port()}"
    words = ("--rate", "500", "--duration", "1s")
    found = document(load(tmp_path, target, *words), status=1)["result"]
    assert errors_of(found) == {"ECONNREFUSED": found["counts"]["completed"]}
    # Without answers they are sent, and the network's errors are a finding.
    path = tmp_path / "s.toml"
    path.write_text(
        f'[target]\nto = "{target}"\npayload = "m:1|c"\nreceive = 0\n'
        '[[filament]]\ntype = "open"\nrate = "500"\ncount = 300\n'
    )
    found = document(bw(tmp_path, "load", path.name, "--json"))
    assert found["result"]["counts"]["completed"] == 300
    assert found["result"]["target"]["late_errors"] > 200
    codes = [finding["code"] for finding in found["findings"]]
    assert "undelivered-datagrams" in codes


def test_what_no_datagram_can_be_is_refused(tmp_path: Path) -> None:
    target = "udp://127.0.0.1:9"
    for words, message in (
        (("--payload", "hex:0"), "even number"),
        (("--payload", "hex:zz"), "--payload"),
        (("--payload", "file:none"), "No such file"),
        (("--expect", "hex:1"), "--expect"),
        (("--timeout", "none"), "time limit"),
        (("--outstanding", "2"), "not an option of a udp target"),
    ):
        done = load(tmp_path, target, *words, "--duration", "1s")
        assert done.returncode == 2, words
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_several_servers_and_ip_version_6(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other,
        server(lambda datagrams, _, data, sender: datagrams.sendto(data, sender)) as one,
    ):
        other.bind(("::1", 0))
        path = tmp_path / "two.toml"
        path.write_text(
            f'[[target]]\nname = "a"\nto = "udp://127.0.0.1:{one}"\ntimeout = "20s"\n'
            f'[[target]]\nname = "b"\nto = "udp://[::1]:{other.getsockname()[1]}"\n'
            'payload = "x"\nreceive = 0\n'
            '[[filament]]\ntype = "open"\nrate = 100\ncount = 50\ntarget = "a"\n'
            '[[filament]]\ntype = "open"\nrate = 100\ncount = 30\ntarget = "b"\n'
        )
        result = document(bw(tmp_path, "load", path.name, "--json"))["result"]
        assert (result["counts"]["completed"], errors_of(result)) == (80, {})
        targets = result["target"]["targets"]
        sent = {name: one["sent_bytes"] for name, one in targets.items()}
        assert sent == {"a": 50 * 64, "b": 30}
        other.settimeout(5)
        assert [other.recv(9) for _ in range(30)] == [b"x"] * 30
