"""Mail and webhook servers that misbehave: each notice ends within its limits, with a reason
of one line, and holds up no run."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchwright.core.notice import (
    MailTarget,
    Notice,
    NoticeDelivery,
    NoticeEvent,
    NoticeSettings,
    NoticeTarget,
    WebhookTarget,
)
from benchwright.notice import send
from benchwright.notice.deliver import NoticeLimits, deliver

NOTICE = Notice(
    event=NoticeEvent.DONE,
    study="/tmp/s",
    session=1,
    host="host",
    suite="s.toml",
    status="complete",
    exit_status=0,
    reason="1 test",
)
LIMITS = NoticeLimits(pauses_s=(), answer_s=0.3, most_s=4.0)
OK = b"HTTP/1.1 200 OK\r\n"
Behaviour = Callable[[socket.socket, threading.Event], None]


def says(text: bytes, *, times: int = 1) -> Behaviour:
    """Say something, then hang until the test is over."""

    def behave(client: socket.socket, over: threading.Event) -> None:
        for _ in range(times):
            client.sendall(text)
        over.wait()

    return behave


def says_without_end(begin: bytes, again: bytes) -> Behaviour:
    """Say something, then one thing again and again."""

    def behave(client: socket.socket, over: threading.Event) -> None:
        client.sendall(begin)
        while not over.is_set():
            client.sendall(again * 1000)

    return behave


def drips(text: bytes) -> Behaviour:
    """Say a byte every 50 ms: no wait for an answer is ever long."""

    def behave(client: socket.socket, over: threading.Event) -> None:
        for at in range(len(text)):
            client.sendall(text[at : at + 1])
            if over.wait(0.05):
                return

    return behave


def closes(client: socket.socket, over: threading.Event) -> None:
    """Hang up at once."""
    del client, over


def resets(client: socket.socket, over: threading.Event) -> None:
    """Hang up by a reset."""
    del over
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def serving(behave: Behaviour) -> Iterator[int]:
    """Serve on a port of this machine until the block ends."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def one(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                behave(client, over)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    threading.Thread(target=one, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


def undelivered(target: NoticeTarget) -> NoticeDelivery:
    """Deliver a notice; a test's guard is far above all of its limits."""
    before = time.monotonic()
    (delivery,) = deliver([NoticeSettings((target,))], NOTICE, LIMITS)
    assert time.monotonic() - before < 30, "a notice held its run up"
    assert delivery.error
    assert "\n" not in delivery.error
    assert len(delivery.error) < 400
    assert not delivery.error.startswith("ended with"), "the sender failed"
    return delivery


SERVERS: dict[str, Behaviour] = {
    "silent": says(b""),
    "closes": closes,
    "resets": resets,
    "garbage": says(bytes(range(256)) * 4),
    "one-long-line": says_without_end(b"", b"x"),
}
WEBHOOKS: dict[str, Behaviour] = SERVERS | {
    "error": says(b"HTTP/1.1 500 No\x1b[2J\r\nContent-Length: 0\r\n\r\n"),
    "drips": drips(OK + b"X: " + b"x" * 10_000),
    "headers": says_without_end(OK, b"X: y\r\n"),
    "continues": says_without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "redirects": says(b"HTTP/1.1 302 F\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
}
MAILS: dict[str, Behaviour] = SERVERS | {
    "refuses": says(b"554 go away\x1b[2J\r\n"),
    "drips": drips(b"220 " + b"x" * 10_000),
    "banner": says_without_end(b"", b"220-welcome\r\n"),
    "no-smtp": says(OK + b"\r\n"),
}


@pytest.mark.parametrize("name", WEBHOOKS)
def test_a_webhook_that_misbehaves_is_given_up(name: str) -> None:
    with serving(WEBHOOKS[name]) as port:
        undelivered(WebhookTarget(f"http://127.0.0.1:{port}/"))


@pytest.mark.parametrize("name", ["silent", "closes", "garbage"])
def test_a_webhook_whose_tls_fails_is_given_up(name: str) -> None:
    with serving(SERVERS[name]) as port:
        undelivered(WebhookTarget(f"https://127.0.0.1:{port}/"))


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
@pytest.mark.parametrize("name", MAILS)
def test_a_mail_server_that_misbehaves_is_given_up(name: str, security: str) -> None:
    with serving(MAILS[name]) as port:
        to, host = ("me@example.org",), "127.0.0.1"
        undelivered(MailTarget(to=to, sender="bw@h.org", host=host, port=port, security=security))


def test_an_answer_without_end_is_read_in_part() -> None:
    body = says_without_end(OK + b"\r\n", b"x" * 1000)
    with serving(body) as port:
        target = WebhookTarget(f"http://127.0.0.1:{port}/")
        (delivery,) = deliver([NoticeSettings((target,))], NOTICE, LIMITS)
    assert not delivery.error, "it was taken: what else the server says does not matter"


def test_a_banner_without_end_takes_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(MAILS["banner"]) as port:
        undelivered(MailTarget(("m@e.org",), sender="b@h.org", host="127.0.0.1", port=port))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 50_000
    sender_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert sender_kib < send.MOST_MEMORY_BYTES / 1024
