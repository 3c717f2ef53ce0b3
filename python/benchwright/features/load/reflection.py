"""The compiled files of a gRPC server's services, by its own reflection.

Purpose: `--grpc` without `--proto`. Decision: one connection of HTTP/2 before the load, on which each
request is a stream of its own, one after the other. Only messages are read: a stream without one says
enough. Files that others import are asked for by their names, since not all servers send them at
once. Rejected: a library of gRPC, which needs a compiled module for each service.
Sources: grpc/reflection/v1/reflection.proto, google/protobuf/descriptor.proto.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, StreamEnded, StreamReset
from h2.exceptions import H2Error

from benchwright.core.errors import BenchError
from benchwright.features.load.request import HttpTarget
from benchwright.features.load.server_client import opened

_PATIENCE_S = 10.0
"""For an answer, whatever else arrives meanwhile."""
_SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_HINT = "name the .proto file that has the service: --proto FILE"
_MOST_BYTES = 64 * 2**20
"""Maximum length of an answer."""
# Fields of ServerReflectionRequest and ServerReflectionResponse.
_FILE_BY_FILENAME, _FILE_CONTAINING_SYMBOL = 3, 4
_FILES, _ERROR = 4, 7
# Fields of FileDescriptorProto.
_NAME, _DEPENDENCY = 1, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def descriptors_of(
    target: HttpTarget, metadata: Sequence[tuple[str, str]], service: str
) -> tuple[bytes, ...]:
    """Return the compiled file that has a service, and those that it imports, as the server has them.

    Raises BenchError `no-reflection` if the server does not say.
    """
    try:
        with opened(target, _PATIENCE_S, "h2") as plain:
            connection = _Connection(plain, target, metadata)
            for name in _SERVICES:
                first = connection.files(name, _FILE_CONTAINING_SYMBOL, service)
                if first is not None:
                    return _with_imports(connection, name, first)
    except (OSError, ValueError, H2Error) as error:
        raise _unknown(target, str(error) or type(error).__name__) from None
    raise _unknown(target, "it has no reflection")


def _unknown(target: HttpTarget, why: str) -> BenchError:
    message = f"the services of {target.url} are unknown: {why}"
    return BenchError("no-reflection", message, _HINT)


def _with_imports(connection: _Connection, service: str, first: list[bytes]) -> tuple[bytes, ...]:
    """Return files, and those that they import."""
    found = {_text(one, _NAME): one for one in first}
    wanted = [name for one in first for name in _imports(one)]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        more = connection.files(service, _FILE_BY_FILENAME, name)
        for one in more or ():
            found[_text(one, _NAME)] = one
            wanted += _imports(one)
        if name not in found:
            raise ValueError(f"it has no file {name}")
    return tuple(found.values())


def _imports(file: bytes) -> list[str]:
    return [value.decode() for number, value in _fields(file) if number == _DEPENDENCY]


class _Connection:
    """A connection of HTTP/2 that calls a reflection service, one call after the other."""

    def __init__(
        self, plain: socket.socket, target: HttpTarget, metadata: Sequence[tuple[str, str]]
    ) -> None:
        self._socket = plain
        parts = urlsplit(target.url)
        self._fields = [
            (":method", "POST"),
            (":scheme", "https" if parts.scheme == "grpcs" else "http"),
            (":authority", parts.netloc),
        ]
        self._others = [("te", "trailers"), ("content-type", "application/grpc")]
        self._others += [(name.lower(), value) for name, value in (*target.headers, *metadata)]
        self._session = H2Connection(H2Configuration(client_side=True))
        self._session.initiate_connection()

    def files(self, service: str, asked: int, name: str) -> list[bytes] | None:
        """Return the files of the one that a request asks for; None: there is no such service.
        Raises ValueError if the server has none."""
        request = _field(asked, name.encode())
        message = self._call(f"/{service}/ServerReflectionInfo", request)
        if message is None:
            return None
        answers = dict(_fields(message))
        if _ERROR in answers:
            raise ValueError(f"{name}: {_text(answers[_ERROR], 2)}")
        return [value for number, value in _fields(answers.get(_FILES, b"")) if number == 1]

    def _call(self, path: str, message: bytes) -> bytes | None:
        """Return the first message of an answer; None: it has none."""
        stream = self._session.get_next_available_stream_id()
        self._session.send_headers(stream, [*self._fields, (":path", path), *self._others])
        request = struct.pack(">BI", 0, len(message)) + message
        self._session.send_data(stream, request, end_stream=True)
        body = bytearray()
        for event in self._events(time.monotonic() + _PATIENCE_S):
            if isinstance(event, ConnectionTerminated):
                raise ValueError("it ended the connection (GOAWAY)")
            if getattr(event, "stream_id", None) != stream:
                continue
            if isinstance(event, DataReceived):
                body += event.data
                self._session.acknowledge_received_data(event.flow_controlled_length, stream)
            if len(body) > _MOST_BYTES:
                raise ValueError("its answer is too long")
            if isinstance(event, StreamEnded | StreamReset):
                break
        if len(body) < 5:
            return None
        compressed, length = struct.unpack(">BI", body[:5])
        if compressed or len(body) < 5 + length:
            raise ValueError("its answer is compressed, or cut")
        return bytes(body[5 : 5 + length])

    def _events(self, until_s: float) -> Iterator[Event]:
        """Yield what arrives, after what it asks for was answered, until this time of the monotonic
        clock. Raises ValueError at its end, TimeoutError after the time."""
        while True:
            self._socket.sendall(self._session.data_to_send())
            # A server that only pings would keep the socket's own time limit from ever passing.
            if time.monotonic() > until_s:
                raise TimeoutError("timed out")
            data = self._socket.recv(2**16)
            if not data:
                raise ValueError("it closed the connection, as a server without HTTP/2 does")
            yield from self._session.receive_data(data)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that are bytes, texts or messages. Raises ValueError."""
    at = 0

    def varint() -> int:
        nonlocal at
        number, shift = 0, 0
        while True:
            if at >= len(message):
                raise ValueError("its answer is no message")
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == _VARINT:
            varint()
        elif kind == _BYTES:
            length = varint()
            yield key >> 3, message[at : at + length]
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("its answer is no message")


def _text(message: bytes, number: int) -> str:
    """Return a field that is a text; empty: it is absent."""
    found = (value for own, value in _fields(message) if own == number)
    return next(found, b"").decode(errors="replace")
