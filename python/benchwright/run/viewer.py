"""The session's side of a live view: between trials, the viewer gets its turn.

Purpose: a viewer (page/live.py) is a process of its own that reads the journal. It renders and
sends a page, which takes CPU time, so a session that has a viewer lets it work before a batch of
trials and waits until it is done; during the batch the viewer is idle. A viewer asks for a turn
(`want`) at most once a second and only while a page is open, and spends at most a twentieth of the
time; without a request the session waits for nothing. Decision: a socket in the study's directory,
so that a viewer can come and go while a session runs, and a resumed session finds the viewer of the
killed one. Rejected: a pipe to a child, which serves only the viewer that the session started
itself; a viewer that reads `begin` entries, which learns of a batch after it has started.

Every message is one packet: `session` and `end` to the viewer, `want` and `done` from it, `turn` to
it; `url` asks for the address of the page.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

SOCKET = "live.sock"
"""Name of the viewer's socket in the study's directory."""
SESSION, END, TURN = b"session", b"end", b"turn"
WANT, DONE, URL = b"want", b"done", b"url"
PATIENCE_S = 2.0
"""The session waits at most this long for a turn to end."""
LAST_PATIENCE_S = 10.0
"""The same for the turn after the last trial, which delays no trial."""
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:[0-9]{1,5}/[A-Za-z0-9_-]{16,64}/")
"""The only answer to `url` that is an address of a live view."""
BATCH_S = 1.0
"""Length of a batch while there is a viewer: it has a turn between batches."""


def connect_to_viewer(study: Path) -> socket.socket | None:
    """Return a connection to the viewer of a study; None if there is none.

    Root and this user have viewers: what another user's process answers is not read.
    """
    if not (study / SOCKET).exists():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with short_path(study) as place:
            connection.connect(f"{place}/{SOCKET}")
        if _peer(connection)[1] in (0, os.geteuid()):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end. Source: unix(7), SO_PEERCRED."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, user, _group = struct.unpack("3i", found)
    return process, user


def url_of_viewer(study: Path, silent: Callable[[int], None]) -> str | None:
    """Return the URL of the live view that a study has already; None if it has none, or none that
    answers.

    `silent` gets the process of a view that has not answered for some time, before the wait goes
    on.
    """
    connection = connect_to_viewer(study)
    if connection is None:
        return None
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.send(URL)
        if not select.select([connection], [], [], PATIENCE_S)[0]:
            silent(_peer(connection)[0])
            if not select.select([connection], [], [], LAST_PATIENCE_S)[0]:
                return None
        answer = connection.recv(256)
        return answer.decode() if _ADDRESS.fullmatch(answer) else None
    return None


def listen_for_sessions(study: Path) -> socket.socket:
    """Return the socket at which a viewer waits for sessions. Raises OSError.

    The caller has made sure that no other viewer uses it.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        (study / SOCKET).unlink(missing_ok=True)
        with short_path(study) as place:
            listener.bind(f"{place}/{SOCKET}")
        (study / SOCKET).chmod(0o600)
        listener.listen(8)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """Yield a short path to a directory: an address has at most 107 bytes (unix(7))."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Viewer:
    """The viewer of a study, if there is one; everything about it may fail without effect."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self._connection: socket.socket | None = None

    def give_turn(self) -> None:
        """Let the viewer work if it requested a turn; called when no trial runs."""
        connection = self._connected()
        if connection is None:
            return
        try:
            wants = False
            while (message := self._received(0)) is not None:
                wants |= message == WANT
            if wants:
                connection.send(TURN)
                self._wait_for_end_of_turn(PATIENCE_S)
        except OSError:
            self._forget()

    def limited(self, count: int, trial_ns: float | None) -> int:
        """Return the size of the next batch of at most `count` trials.

        While there is a viewer, a batch takes about a second, or is one trial if trials take longer
        or if their length is unknown. `trial_ns` is the mean length of a trial so far.
        """
        if self._connection is None:
            return count
        if not trial_ns:
            return 1
        return max(1, min(count, math.floor(BATCH_S * 1e9 / trial_ns)))

    def close(self) -> None:
        """Give the viewer its last turn, after the session's end was recorded."""
        connection = self._connected()
        if connection is None:
            return
        with contextlib.suppress(OSError):
            connection.send(END)
            self._wait_for_end_of_turn(LAST_PATIENCE_S)
        self._forget()

    def _connected(self) -> socket.socket | None:
        if self._connection is None:
            self._connection = connect_to_viewer(self._study)
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.send(SESSION)
        return self._connection

    def _wait_for_end_of_turn(self, patience_s: float) -> None:
        while self._received(patience_s) not in (DONE, None):
            pass  # a request that crossed ours

    def _received(self, patience_s: float) -> bytes | None:
        """Return the viewer's next message; None if there is none in time. Raises OSError."""
        assert self._connection is not None
        ready, _, _ = select.select([self._connection], [], [], patience_s)
        if not ready:
            return None
        message = self._connection.recv(64)
        if not message:
            raise ConnectionResetError
        return message

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
