"""A server of event streams of every shape, and of what no client should trust.

The path of a request names what is answered: `/shape/NAME` a chat of a language model written in one
of the forms that servers use, `/hostile/NAME` something broken. Each piece is one chunk of the
transfer, sent by itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
NO_METRICS = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
APART_S = 0.002
"""Between pieces, so that most have a read of their own."""
LONG_S = 30.0
"""How long a hostile answer goes on at most, if the client does not end it."""


class Shape(NamedTuple):
    """A stream, and what it consists of."""

    pieces: Sequence[bytes]
    content: int
    """Events with content."""
    tokens: int | None
    """By the server's usage."""
    trouble: str | None = None
    """The result of the operation, if it fails."""


def delta(**members: object) -> str:
    """Return the JSON of a chunk of a chat."""
    choice = {"index": 0, "delta": members, "finish_reason": None}
    return json.dumps({"object": "chat.completion.chunk", "choices": [choice], "usage": None})


def usage(tokens: int, choices: Sequence[object] = ()) -> str:
    """Return the JSON of the chunk with the usage."""
    counts = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return json.dumps({"object": "chat.completion.chunk", "choices": choices, "usage": counts})


def event(data: str, end: str = "\n", field: str = "data: ") -> bytes:
    """Return an event with a line for each line of its data."""
    lines = [field + line for line in data.split("\n")]
    return (end.join(lines) + end + end).encode()


ROLE = delta(role="assistant", content="")
WORDS = [delta(content=word) for word in ("one", " two", " three")]
STOP = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
CHAT = [ROLE, *WORDS, STOP, usage(3), "[DONE]"]


def shapes() -> dict[str, Shape]:
    """Return the shapes by name; each has the words one, two, three unless it says otherwise."""
    plain = [event(data) for data in CHAT]
    first = WORDS[0]
    in_lines = json.dumps(json.loads(first), indent=1)
    with_usage = usage(3, [{"index": 0, "delta": {"content": " three"}, "finish_reason": "stop"}])
    error = json.dumps({"error": {"message": "out of memory", "code": 500}})
    return {
        "crlf": Shape([event(data, "\r\n") for data in CHAT], 3, 3),
        "cr": Shape([event(data, "\r") for data in CHAT], 3, 3),
        "bom": Shape([b"\xef\xbb\xbf" + plain[0], *plain[1:]], 3, 3),
        "comments": Shape([piece for one in plain for piece in (b": ping\n\n", one)], 3, 3),
        "no-blank": Shape([event(data, field="data:") for data in CHAT], 3, 3),
        "several-lines": Shape([event(ROLE), event(in_lines), *plain[2:]], 3, 3),
        "role-only": Shape([plain[0], plain[0], *plain[1:]], 3, 3),
        "several-tokens": Shape(
            [plain[0], event(delta(content="one two three")), *plain[4:]], 1, 3
        ),
        "late-usage": Shape([*plain[:5], b": wait\n\n", *plain[5:]], 3, 3),
        "usage-with-choices": Shape([*plain[:3], event(with_usage), plain[-1]], 3, 3),
        "error-event": Shape([*plain[:3], event(error)], 2, None, "stream error"),
        "cut": Shape(plain[:6], 3, 3, "stream cut"),
        "no-last-blank-line": Shape([*plain[:-1], plain[-1].rstrip(b"\n")], 3, 3),
        "byte-by-byte": Shape([bytes([byte]) for byte in b"".join(plain)], 3, 3),
    }


SHAPES = shapes()


class EventServer:
    """Threads that answer; a connection has one request at a time."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self) -> None:
        """Accept no more, and stop what goes on."""
        self.over.set()
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reader:
            while line := reader.readline():
                path, length = line.split()[1].decode(), 0
                while header := reader.readline().strip().lower():
                    if header.startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                reader.read(length)
                if path == "/metrics":
                    connection.sendall(NO_METRICS)
                    continue
                _, kind, name = path.split("/")[:3]
                if kind == "hostile":
                    for piece in HOSTILE[name]():
                        if self.over.is_set():
                            return
                        connection.sendall(piece)
                    return
                if line.endswith(b"1.0\r\n"):
                    connection.sendall(HEAD + b"\r\n")
                    self._send(connection, SHAPES[name].pieces)
                    return
                connection.sendall(CHUNKED)
                pieces = (b"%x\r\n%s\r\n" % (len(one), one) for one in SHAPES[name].pieces)
                self._send(connection, [*pieces, b"0\r\n\r\n"])

    def _send(self, connection: socket.socket, pieces: Sequence[bytes]) -> None:
        pause_s = APART_S if len(pieces) < 100 else 0.0
        for piece in pieces:
            time.sleep(pause_s)
            connection.sendall(piece)


def _silent() -> Iterator[bytes]:
    yield CHUNKED
    time.sleep(LONG_S)


def _endless_line() -> Iterator[bytes]:
    yield HEAD + b"\r\ndata: "
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        yield b"x" * 65536


def _trickle() -> Iterator[bytes]:
    """One word, and then a byte a second."""
    yield HEAD + b"\r\n" + event(WORDS[0])
    for byte in b"".join(event(data) for data in CHAT):
        yield bytes([byte])
        time.sleep(1.0)


def _too_short() -> Iterator[bytes]:
    """The body ends before its stated length."""
    body = b"".join(event(data) for data in CHAT[:3])
    yield HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) + 1000) + body


def _too_long() -> Iterator[bytes]:
    """The body goes on behind its stated length, in the middle of an event."""
    body = b"".join(event(data) for data in CHAT)
    yield HEAD + b"Content-Length: 150\r\n\r\n" + body
    time.sleep(0.1)


def _wrong_chunk() -> Iterator[bytes]:
    yield CHUNKED + b"5\r\ndata: too much\r\n"
    time.sleep(0.1)


HOSTILE = {
    "silent": _silent,
    "endless-line": _endless_line,
    "trickle": _trickle,
    "too-short": _too_short,
    "too-long": _too_long,
    "wrong-chunk": _wrong_chunk,
}


@contextlib.contextmanager
def event_server() -> Iterator[str]:
    """Run the server; the value is its URL."""
    server = EventServer()
    try:
        yield server.url
    finally:
        server.end()
