"""A server's reflection that answers in no useful way: each ends in one message."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.load import reflection
from benchwright.features.load.request import HttpTarget

DATA, SETTINGS, PING = 0, 4, 6
END, PADDED = 1, 8


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def padded_without_a_length(connection: socket.socket) -> None:
    connection.sendall(frame(SETTINGS, 0, 0) + frame(DATA, END | PADDED, 1))
    while connection.recv(1000):
        pass


def only_pings(connection: socket.socket) -> None:
    while True:
        connection.sendall(frame(PING, 0, 0, bytes(8)))
        connection.recv(1000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(padded_without_a_length, "Frame data missing or invalid"), (only_pings, "timed out")],
)
def test_a_server_that_answers_nothing_useful_is_named(
    answer: Callable[[socket.socket], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflection, "_PATIENCE_S", 0.2)

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        target = HttpTarget(url=f"grpc://127.0.0.1:{listener.getsockname()[1]}/")
        with pytest.raises(BenchError, match=why) as found:
            reflection.descriptors_of(target, (), "demo.Greeter")
    assert found.value.code == "no-reflection"
