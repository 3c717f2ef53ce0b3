"""What `--target` names: `null`, a path, `http://...`, `tcp://...`, and its options.

Purpose: one reading of targets for the command line and for `[target]` of a workload.
Decision: an option that does not belong to the kind of target is a mistake, never
ignored: `--direct` at a server would be believed to have done something.
Every function raises ValueError with a message that says what was expected.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchwright.load.request import (
    FileTarget,
    HttpTarget,
    NullTarget,
    Target,
    TcpTarget,
)
from benchwright.model.named_server import NamedServer

_SCHEMES = ("http", "tcp")
_HTTP_PORT = 80
_HOST_PORT = re.compile(r"[\w.-]+:\d+")
_KINDS: dict[str, type[Any]] = {
    "null": NullTarget,
    "file": FileTarget,
    "tcp": TcpTarget,
    "http": HttpTarget,
}


def parse_target(text: str) -> Target:
    """Return the target that a text names, with every option at its default."""
    if text == "null":
        return NullTarget()
    scheme, colon, rest = text.partition("://")
    if not colon:
        return _file(text)
    if scheme not in _SCHEMES:
        tls = ": TLS is not spoken" if scheme == "https" else ""
        raise ValueError(
            f"{scheme}:// is no kind of target{tls}; use null, a path, http:// or tcp://"
        )
    if not rest:
        raise ValueError(f"{text!r} names no host")
    return _http(text) if scheme == "http" else _tcp(text)


def _file(text: str) -> FileTarget:
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is no path")
    if os.path.isdir(text):
        raise ValueError(f"{text!r} is a directory: name a file in it")
    # Other load generators take a server so; "no such file" would not say what is missing.
    if _HOST_PORT.fullmatch(text) and not os.path.exists(text):
        raise ValueError(
            f"{text!r} is no file; a server is http://{text}/ or tcp://{text}, "
            f"a new file of that name ./{text}"
        )
    return FileTarget(path=text)


def _http(text: str) -> HttpTarget:
    parts = _split(text)
    path = parts.path or "/"
    if parts.query:
        path += "?" + parts.query
    return HttpTarget(url=f"http://{parts.netloc}/", paths=(path,))


def _tcp(text: str) -> TcpTarget:
    parts = _split(text)
    if parts.port is None:
        raise ValueError(f"{text!r} has no port: tcp://HOST:PORT")
    if parts.path.strip("/") or parts.query:
        raise ValueError(f"{text!r} has more than tcp://HOST:PORT")
    assert parts.hostname is not None, "_split checks it"
    return TcpTarget(host=parts.hostname, port=parts.port)


def _split(text: str) -> Any:
    parts = urlsplit(text)
    try:
        good = parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{text!r} has no valid host or port (1 to 65535)")
    if parts.username is not None or parts.fragment:
        raise ValueError(f"{text!r} has a user name or a #fragment; leave it out")
    return parts


def kind_of(target: Target) -> str:
    """Return the kind of a target: null, file, tcp, http."""
    return str(target.__struct_config__.tag)


def options_of(kind: str) -> tuple[str, ...]:
    """Return the names of the options that a kind of target takes."""
    return tuple(_KINDS[kind].__struct_fields__)


def with_options(target: Target, options: dict[str, Any]) -> Target:
    """Return the target with some options set; each belongs to its kind."""
    return msgspec.structs.replace(target, **options)


def is_network(target: Target) -> bool:
    """Tell whether operations are exchanges with a server."""
    return isinstance(target, TcpTarget | HttpTarget)


def implied_server(target: Target) -> NamedServer | None:
    """Return the server that a target on this machine's loopback names by its port."""
    match target:
        case TcpTarget():
            host, port = target.host, target.port
        case HttpTarget():
            parts = urlsplit(target.url)
            host, port = parts.hostname or "", parts.port or _HTTP_PORT
        case _:
            return None
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return None
    return NamedServer("port", str(port), implied=True)


def target_text(target: Target) -> str:
    """Return a target as the user would name it."""
    match target:
        case NullTarget():
            return "null"
        case FileTarget():
            return target.path
        case TcpTarget():
            host = f"[{target.host}]" if ":" in target.host else target.host
            return f"tcp://{host}:{target.port}"
        case HttpTarget():
            only = target.paths[0] if len(target.paths) == 1 else "/"
            return target.url.removesuffix("/") + only
