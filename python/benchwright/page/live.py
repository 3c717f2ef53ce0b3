"""The server of a live view: the page of a study while its session runs, on 127.0.0.1.

Purpose: a process of its own at nice 19, which reads the journal, renders the sections of the
report and sends those that changed (stream.py). It works only in its turns (run/viewer.py): a
session gives it one between two batches of trials, at most once a second, so nothing is rendered or
sent during a measured interval of less than a second. Without an answer to its request for
`UNANSWERED_S` the running trial is longer than that, and the viewer works without a turn. It spends
at most a twentieth of the time. Decision: threads write to the clients, one main thread decides
when. Rejected: rendering when a client asks, which happens at any time.

Who may read: 127.0.0.1 only, a secret in the path, and a Host header that names this server,
because a page of another site can let its own name point here (DNS rebinding). Nothing can be
changed: GET is the only method. Non-goal: other machines; `ssh -L` forwards a port.
"""

from __future__ import annotations

import contextlib
import html
import http.server
import os
import queue
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

from benchwright.page.html import LiveSettings, render_page
from benchwright.page.stream import JournalFollower, LivePage, LiveState, Reading
from benchwright.results.underway import UnderwayFollower
from benchwright.run.viewer import DONE, END, SESSION, SOCKET, TURN, URL, WANT, listen_for_sessions
from benchwright.study.directory import JOURNAL, writer_of
from benchwright.views.why import running_line

SHORTEST_S = 1.0
"""At least this much lies between two events, and a trial that is shorter is not disturbed."""
SHARE = 0.05
"""Largest part of the time that the viewer works."""
UNANSWERED_S = 2.0
"""A session with a viewer has batches of a second: a trial that still runs now is longer."""
DELIVERY_S = 1.0
"""A turn waits at most this long for clients to read."""
DRAWING_S = 0.25
"""A turn waits at most this long for pages to draw: then a browser works during no short trial."""
LAST_DRAWING_S = 3.0
"""The end waits at most this long for pages to draw: their reports would find no server."""
HEARTBEAT_S = 15.0
"""Idle streams get a comment this often, which shows which of them are gone."""
ABANDONED_S = 10.0
"""The viewer of a killed session ends this long after its last page was closed."""
MOST_CLIENTS = 32
MOST_CONNECTIONS = 64
"""More are closed at once: each has a thread, and anybody on the machine can connect."""
EXHAUSTED_S = 0.5
"""A wait after a connection that could not be accepted, such as without a free descriptor."""
LOOPBACK = "127.0.0.1"


class Client:
    """A request that is answered in a turn: a page (`after` is None) or a stream."""

    def __init__(self, after: int | None, name: str = "") -> None:
        self.after = after
        self.name = name
        """What it calls itself when it reports that it has drawn an event; else empty."""
        self.is_new = True
        self.drawn = True
        self.undrawn = 0
        """Number of events that it has not yet reported as drawn."""
        self.sent_at = 0.0
        self.unsent = 0
        """Number of messages that are not yet written to the socket."""
        self.messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """What to write; None: the stream ends."""


class LiveServer:
    """Serves the live view of one study."""

    def __init__(self, study: Path, port: int, *, until_end: bool) -> None:
        """`until_end`: it ends with the session. Raises OSError if the port is in use."""
        self._http = _Listener((LOOPBACK, port), _handler_of(self))
        self.port: int = self._http.server_address[1]
        self._study = study
        self._until_end = until_end
        self._token = secrets.token_urlsafe(24)
        self._follower, self._page = JournalFollower(study), LivePage()
        self._underway = UnderwayFollower(study)
        self._reading: Reading | None = None
        self._seen: tuple[object, ...] = ()
        self._changed = threading.Condition()
        """Guards the clients; notified when one is written to or has drawn."""
        self._clients: set[Client] = set()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._session: socket.socket | None = None
        self._is_over = False
        """Whether the session that was connected has ended, although it still holds the study."""
        self._wanted_at: float | None = None
        self._next_at = 0.0
        """When the next event may be sent: CLOCK_MONOTONIC [s]."""
        self._look_at = 0.0
        """When to look at the journal next outside a turn."""
        self._alone_since: float | None = None
        self.path = f"/{self._token}/"
        self.url = f"http://{LOOPBACK}:{self.port}{self.path}"

    # -- the main thread: when to work ---------------------------------------------------

    def serve(self, announce: Callable[[str], None]) -> None:
        """Serve until the session ends, or for ever; `announce` gets the URL once it works."""
        self._selector.register(self._woken, selectors.EVENT_READ, self._drain)
        with contextlib.suppress(OSError):
            # Without a socket, as in a study of another user, the view has no turns.
            listener = listen_for_sessions(self._study)
            self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        announce(self.url)
        try:
            while not self._is_finished():
                for key, _ in self._selector.select(self._idle_s()):
                    key.data()
                self._work_if_free()
        finally:
            self._http.shutdown()
            self._http.server_close()
            with contextlib.suppress(OSError):
                (self._study / SOCKET).unlink()
            for key in list(self._selector.get_map().values()):
                cast("socket.socket", key.fileobj).close()
            self._selector.close()
            self._waker.close()

    def _is_finished(self) -> bool:
        if not self._until_end:
            return False
        if self._is_over:
            return True
        # Its `bw` was killed: the view remains for those who look at it.
        alone = self._session is None and not self._clients
        if not alone or writer_of(self._study) is not None:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        return self._alone_since is not None and time.monotonic() - self._alone_since > ABANDONED_S

    def _idle_s(self) -> float | None:
        """Return how long to wait for something to happen; None: until it does."""
        if self._clients:
            return 0.25 if self._session is not None else 1.0
        return 1.0 if self._until_end and self._session is None else None

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            time.sleep(EXHAUSTED_S)
            return
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(connection))

    def _hear(self, connection: socket.socket) -> None:
        """Answer one message of a session, or of a `bw` that asks for the URL."""
        try:
            message = connection.recv(64)
        except OSError:
            message = b""
        with contextlib.suppress(OSError):
            match message:
                case b"":
                    self._selector.unregister(connection)
                    connection.close()
                    if connection is self._session:
                        self._session, self._wanted_at = None, None
                case _ if message == URL:
                    connection.send(self.url.encode())
                case _ if message == SESSION:
                    self._session, self._is_over = connection, False
                    self._wanted_at, self._alone_since = None, None
                    self._ask()
                case _ if message == TURN:
                    self._wanted_at = None
                    self._work()
                    connection.send(DONE)
                case _ if message == END:
                    self._is_over = True
                    self._next_at = 0.0
                    self._work()
                    if self._until_end:
                        self._dismiss()
                    connection.send(DONE)

    def _demand(self) -> bool:
        """Return whether there is somebody to work for now."""
        with self._changed:
            if self._has_new():
                return True
            now = time.monotonic()
            return bool(self._clients) and now >= max(self._next_at, self._look_at)

    def _has_new(self) -> bool:
        return any(client.is_new for client in self._clients)

    def _ask(self) -> None:
        """Ask the session for a turn, if there is something to do in it."""
        if self._session is None or self._wanted_at is not None or not self._demand():
            return
        with contextlib.suppress(OSError):
            self._session.send(WANT)
            self._wanted_at = time.monotonic()

    def _work_if_free(self) -> None:
        """Work if no short trial runs; else ask for a turn."""
        if not self._demand():
            return
        if self._session is not None and not self._is_over:
            self._ask()
            waited_s = time.monotonic() - (self._wanted_at or time.monotonic())
            if waited_s < UNANSWERED_S:
                return
        elif writer_of(self._study) is not None and not self._is_over:
            # It has not connected yet: it does before its next batch.
            running = self._follower.in_flight()
            if running and self._quiet_s() < max(UNANSWERED_S, running * SHORTEST_S):
                return
        self._work()

    def _quiet_s(self) -> float:
        """Return the time since the last write to the journal [s]."""
        return time.time() - max(
            (time_ns / 1e9 for _, time_ns in self._journal_state()), default=0.0
        )

    def _journal_state(self) -> tuple[tuple[int, int], ...]:
        """Return size and time of the last change of the journal's files [ns]."""
        found = []
        for name in (JOURNAL, f"{JOURNAL}-wal"):
            with contextlib.suppress(OSError):
                state = (self._study / name).stat()
                found.append((state.st_size, state.st_mtime_ns))
        return tuple(found)

    # -- the main thread: a turn ---------------------------------------------------------

    def _work(self) -> None:
        """Render what changed, send it, and wait until it was read and drawn."""
        begun = time.monotonic()
        is_changed = False
        if self._clients and (begun >= self._next_at or self._reading is None):
            is_changed = self._refresh()
        has_page = self._send(changed=is_changed)
        self._wait_for_clients()
        if has_page:
            # Its script asks for the events when the browser has read the page.
            with self._changed:
                self._changed.wait_for(self._has_new, DRAWING_S)
            self._send(changed=False)
            self._wait_for_clients()
        ended = time.monotonic()
        self._look_at = ended + SHORTEST_S
        if is_changed:
            self._next_at = ended + max(SHORTEST_S, (ended - begun) * (1 / SHARE - 1))

    def _refresh(self) -> bool:
        """Read the journal and render it if it may have changed; return whether the page did."""
        seen = (self._journal_state(), self._is_over, writer_of(self._study) is not None)
        if seen == self._seen and self._reading is not None:
            return self._page.state_changed(self._state_now(self._reading.state))
        self._reading = self._follower.read(is_over=self._is_over)
        self._seen = seen
        state = self._reading.state
        if self._reading.document is None and state.state == "unreadable":
            # The last readable state stays on the page.
            return self._page.state_changed(state)
        return self._page.show(self._reading.seq, self._reading.sections, self._state_now(state))

    def _state_now(self, state: LiveState) -> LiveState:
        """Return a state with what limits a trial that has run for some time, up to now."""
        if state.state != "running" or self._quiet_s() < UNANSWERED_S:
            return state
        running = self._underway.look()
        if running is None:
            return state
        return LiveState(state.state, f"{state.text}; {running_line(running)}")

    def _send(self, *, changed: bool) -> bool:
        """Hand each client what it lacks; return whether one was a page."""
        now = time.monotonic()
        page: bytes | None = None
        with self._changed:
            clients = list(self._clients)
        for client in clients:
            if client.after is None:
                if page is None:
                    page = self._whole_page()
                self._hand(client, page)
            elif client.is_new or changed:
                self._hand(client, self._page.event(client.after))
                client.after, client.drawn = self._page.seq, not client.name
                client.undrawn += bool(client.name)
            elif now - client.sent_at > HEARTBEAT_S:
                self._hand(client, b":\n\n")
            client.is_new = False
        return page is not None

    def _hand(self, client: Client, message: bytes) -> None:
        with self._changed:
            client.unsent += 1
            client.sent_at = time.monotonic()
        client.messages.put(message)

    def _whole_page(self) -> bytes:
        assert self._reading is not None
        settings = LiveSettings(f"{self.path}events", self._page.seq)
        document = self._reading.document
        if document is None:
            return _PLAIN_PAGE.format(html.escape(self._page.state.text)).encode()
        return render_page(document, settings).encode()

    def _wait_for_clients(self) -> None:
        def is_read() -> bool:
            return all(client.unsent == 0 for client in self._clients)

        def is_drawn() -> bool:
            return all(client.drawn for client in self._clients)

        with self._changed:
            self._changed.wait_for(is_read, DELIVERY_S)
            self._changed.wait_for(is_drawn, DRAWING_S)
            for client in self._clients:
                client.drawn = True  # or it will not: no later turn waits for that

    def _dismiss(self) -> None:
        """End all streams: every client has the last event, or does not read."""
        with self._changed:
            self._changed.wait_for(
                lambda: not any(client.undrawn for client in self._clients), LAST_DRAWING_S
            )
            for client in self._clients:
                client.messages.put(b"event: bye\ndata:\n\n")
                client.messages.put(None)
            self._changed.wait_for(lambda: not self._clients, DELIVERY_S)

    # -- the threads of the clients --------------------------------------------------------

    def join(self, client: Client) -> bool:
        """Add a client, which waits for its turn; return whether there is room for it."""
        with self._changed:
            if len(self._clients) >= MOST_CLIENTS:
                return False
            self._clients.add(client)
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # full, or closed at the end
            self._waker.send(b"1")
        return True

    def leave(self, client: Client) -> None:
        """Remove a client that is answered or gone."""
        with self._changed:
            self._clients.discard(client)
            self._changed.notify_all()

    def written(self, client: Client) -> None:
        """Note that a message was written."""
        with self._changed:
            client.unsent -= 1
            self._changed.notify_all()

    def drawn(self, name: str) -> None:
        """Note that a page has drawn an event."""
        with self._changed:
            for client in self._clients:
                if client.name == name:
                    client.drawn, client.undrawn = True, max(client.undrawn - 1, 0)
            self._changed.notify_all()

    def is_for_us(self, host: str | None) -> bool:
        """Return whether a host with its port, as in a Host header, names this server."""
        return host in (f"{LOOPBACK}:{self.port}", f"localhost:{self.port}")

    def place_of(self, path: str) -> str | None:
        """Return what a path names below the token; None if the token is wrong."""
        token, _, place = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return None
        return place


class _Listener(http.server.ThreadingHTTPServer):
    """The server's socket, with one thread for each connection, up to a number."""

    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises OSError, after a pause: the waiting one would be offered
        again at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(EXHAUSTED_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection; close it if there are too many, or can be no more."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # can't start new thread
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error of ours; a client that leaves is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


_PLAIN_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    '<meta http-equiv="refresh" content="2"><title>Benchwright</title><p>{}</p></html>'
)
_HEADERS = {
    # The rest of the policy is in the page, as in a report; `frame-ancestors` works only here.
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The address of the page is a secret.
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def _handler_of(server: LiveServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """One connection of a browser."""

        timeout = 30
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer with the page, the stream of events, or an error."""
            self.close_connection = True
            origin = self.headers.get("Origin")
            path, _, words = self.path.partition("?")
            query = parse_qs(words)
            name = query.get("client", [""])[0][:64]
            if not server.is_for_us(self.headers.get("Host")):
                self._refuse(403, "this server has another name")
            elif origin and not server.is_for_us(origin.removeprefix("http://")):
                self._refuse(403, "another site has no access")
            elif (place := server.place_of(path)) == "":
                self._serve(Client(None), "text/html; charset=utf-8")
            elif place == "events":
                client = Client(self._last_event(query), name)
                self._serve(client, "text/event-stream")
            elif place == "drawn":
                self._begin(204)
                server.drawn(name)  # the server may end now
            else:
                self._refuse(404, "there is nothing at this address")

        def _last_event(self, query: dict[str, list[str]]) -> int:
            last = self.headers.get("Last-Event-ID") or query.get("after", ["0"])[0]
            is_row = last.isascii() and last.isdecimal() and len(last) < 19
            return int(last) if is_row else 0

        def _serve(self, client: Client, kind: str) -> None:
            """Write what the main thread hands to the client, when it does."""
            if not server.join(client):
                self._refuse(503, "too many pages are open")
                return
            try:
                message = client.messages.get()
                is_stream = client.after is not None
                if message is not None:
                    self._begin(200, kind, length=None if is_stream else len(message))
                while message is not None:
                    self.wfile.write(message)
                    server.written(client)
                    if not is_stream:
                        break
                    message = client.messages.get()
            except OSError:
                pass  # the browser has left
            finally:
                server.leave(client)

        def _begin(self, status: int, kind: str = "", *, length: int | None = 0) -> None:
            self.send_response_only(status)
            for header, value in _HEADERS.items():
                self.send_header(header, value)
            if kind:
                self.send_header("Content-Type", kind)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.send_header("Connection", "close")
            self.end_headers()

        def _refuse(self, status: int, why: str) -> None:
            text = f"{why}\n".encode()
            self._begin(status, "text/plain; charset=utf-8", length=len(text))
            if self.command != "HEAD":
                self.wfile.write(text)

        def _refuse_method(self) -> None:
            self.close_connection = True
            self._refuse(405, "only GET")

        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _refuse_method
        do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

        def log_message(self, *_: Any) -> None:
            """Log nothing: the terminal belongs to the session."""

    return Handler


# -- The process ---------------------------------------------------------------------------


def main() -> None:
    """Serve a study: `STUDY PORT`; the first line on stdout is the URL, or the error."""
    study, port = sys.argv[1:]
    os.nice(19)
    # Ctrl-C is for the session, which tells us that it has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def announce(line: str) -> None:
        print(line, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    try:
        server = LiveServer(Path(study), int(port), until_end=True)
    except OSError as error:
        announce(f"error: {error.strerror}")
        return
    server.serve(announce)


if __name__ == "__main__":
    main()
