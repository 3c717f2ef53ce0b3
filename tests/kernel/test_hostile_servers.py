"""The load engine against servers that misbehave: it ends, each operation ends once, memory stays
small."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchwright.trial.programs import find_engine

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MOST_BYTES = 100 << 20
"""No engine needs as much; one that keeps what a server sends needs more."""

Serve = Callable[[socket.socket], None]


def _asked(peer: socket.socket) -> bool:
    """Read one request; return whether there was one."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = peer.recv(4096)
        if not piece:
            return False
        head += piece
    return True


def silent(peer: socket.socket) -> None:
    while peer.recv(4096):
        pass


def garbage(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(random.Random(1).randbytes(100))


def one_byte_at_a_time(peer: socket.socket) -> None:
    while _asked(peer):
        for byte in OK * 100:
            peer.sendall(bytes([byte]))
            time.sleep(0.1)


def closes_at_random(peer: socket.socket) -> None:
    chance = random.Random(peer.getpeername()[1])
    while _asked(peer):
        if chance.random() < 0.5:
            peer.sendall(OK[: chance.randrange(len(OK))])
            return
        peer.sendall(OK)


def huge_head(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200_000)


def endless_head(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(b"HTTP/1.1 200 OK\r\nA: ")
        while True:
            peer.sendall(b"a" * 65_536)


def endless_body(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            peer.sendall(b"a" * 65_536)


def reset(peer: socket.socket) -> None:
    _asked(peer)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def endless_continue(peer: socket.socket) -> None:
    while _asked(peer):
        while True:
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def late_second_answer(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(OK)
        time.sleep(0.02)
        peer.sendall(OK)


def good(peer: socket.socket) -> None:
    while _asked(peer):
        peer.sendall(OK)


@contextlib.contextmanager
def served(serve: Serve) -> Iterator[int]:
    """Serve each connection in a thread of its own; yield the port."""
    peers: list[socket.socket] = []

    def one(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            serve(peer)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peers.append(peer)
                threading.Thread(target=one, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield listener.getsockname()[1]
        # To close it would leave the thread in accept for ever, with a descriptor reserved.
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)


def loaded(port: int) -> dict[str, Any]:
    """Apply 50 requests a second for half a second, each for at most 200 ms; return the result."""
    access = {
        "kinds": [["exchange", 1]],
        "size": {"type": "constant", "value": 0},
        "location": {"type": "uniform"},
        "align_bytes": 1,
    }
    arrivals = {"type": "open", "arrival": {"type": "constant"}, "access": access}
    request = {
        "type": "load",
        "target": {
            "kind": "http",
            "url": f"http://127.0.0.1:{port}/",
            "connections": 4,
            "timeout_ns": 200_000_000,
        },
        "workload": {"seed": 1, "filaments": [{**arrivals, "rate": {"micro_per_s": 50_000_000}}]},
        "duration_ns": 500_000_000,
        "drain_ns": 20_000_000_000,
        "lock_memory": False,
    }
    limit = (MOST_BYTES, MOST_BYTES)
    done = subprocess.run(
        [find_engine()],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit),
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, answer["type"]) == (0, "result"), done.stdout
    return answer


ALL_FAIL = {
    silent: {"ETIMEDOUT"},
    garbage: {"EPROTO"},
    one_byte_at_a_time: {"ETIMEDOUT"},
    huge_head: {"EPROTO"},
    endless_head: {"EPROTO"},
    endless_body: {"ETIMEDOUT"},
    reset: {"ECONNRESET", "EPIPE"},
    endless_continue: {"ETIMEDOUT"},
}
SOME_FAIL = {
    closes_at_random: {"ECONNRESET", "EPIPE", "response cut"},
    late_second_answer: {"ECONNRESET", "EPIPE"},
    good: set(),
}


@pytest.mark.parametrize("serve", [*ALL_FAIL, *SOME_FAIL], ids=lambda one: one.__name__)
def test_each_operation_ends_once_whatever_the_server_does(serve: Serve) -> None:
    with served(serve) as port:
        result = loaded(port)
    counts, errors = result["counts"], result["kinds"]["all"]["errors"]
    assert counts["intended"] == 25
    assert counts["issued"] + counts["waiting"] == 25, "after the end nothing begins"
    assert counts["completed"] == counts["issued"] >= 8, "at most 200 ms each"
    assert (counts["unfinished"], counts["early"]) == (0, 0)
    assert sum(errors.values()) == counts["errors"]
    expected = ALL_FAIL.get(serve)
    if expected is not None:
        # What waited for a connection meanwhile may have come to its own limit.
        assert counts["errors"] == counts["completed"], errors
        assert set(errors) <= expected | {"ETIMEDOUT"}, errors
        assert set(errors) & expected, errors
    else:
        assert counts["errors"] < counts["completed"], errors
        assert set(errors) <= SOME_FAIL[serve] | {"ETIMEDOUT"}, errors
    if serve is good:
        assert result["target"]["unrequested"] == 0
    if serve is late_second_answer:
        assert result["target"]["unrequested"] > 0
