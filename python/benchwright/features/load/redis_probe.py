"""Checks before a load that the server at a Redis target's address speaks Redis.

Decision: one ECHO on a connection of its own: any Redis server answers it, also with an error such
as NOAUTH, and nobody measures it. Rejected: a command that no server knows, which is in the
server's count of errors. The engine's connections send nothing before the first command unless a
login was asked for, so a server of another protocol would be noticed only by the errors of all
operations. A server that is silent, closes, or cannot be reached is left to the engine, whose
errors say so. Not over TLS, and not from other hosts, whose network is another one.
"""

from __future__ import annotations

import socket

from benchwright.core.errors import BenchError
from benchwright.features.load.parse import each_of, target_text
from benchwright.features.load.request import LoadTarget, RedisTarget

_ECHO = b"*2\r\n$4\r\nECHO\r\n$2\r\nbw\r\n"
_TYPES = b"+-:$*_#,(!=%~>|"
"""The first bytes of replies (RESP2 and RESP3)."""
_PATIENCE_S = 1.0
_SHOWN = 60


def check_redis(target: LoadTarget) -> None:
    """Raise BenchError if the server of a Redis target answers in another protocol."""
    for one in each_of(target):
        if isinstance(one, RedisTarget) and one.tls is None:
            answer = _answer(one)
            if answer and answer[0] not in _TYPES:
                first = answer.splitlines()[0][:_SHOWN].decode("ascii", "replace")
                hint = "check the port"
                if answer.startswith((b"HTTP/", b"<")):
                    hint = "check the port; for an HTTP server: --target http://HOST:PORT/"
                raise BenchError(
                    "other-protocol",
                    f"{target_text(one)} does not speak Redis: it answered {first!r}",
                    hint,
                )


def _answer(target: RedisTarget) -> bytes:
    """Return the beginning of the answer to an ECHO; empty where there is none in time."""
    try:
        with _connected(target) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.sendall(_ECHO)
            return connection.recv(4096)
    except OSError:
        return b""


def _connected(target: RedisTarget) -> socket.socket:
    if target.unix_socket is None:
        address = (target.host, target.port)
        return socket.create_connection(address, timeout=_PATIENCE_S)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_PATIENCE_S)
        connection.connect(target.unix_socket)
    except OSError:
        connection.close()
        raise
    return connection
