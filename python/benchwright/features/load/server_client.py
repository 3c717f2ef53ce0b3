"""Connections to the server of an HTTP target, beside a load: also over TLS and Unix sockets, as the
target says."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchwright.features.load.request import HttpTarget

if TYPE_CHECKING:
    import http.client
    import ssl


def connected(target: HttpTarget, patience_s: float) -> http.client.HTTPConnection:
    """Return a connection for HTTP/1.1 to a target's server; no wait for it is longer. Raises
    OSError."""
    import http.client

    connection = http.client.HTTPConnection(*_place(target))
    connection.sock = opened(target, patience_s)
    return connection


def opened(target: HttpTarget, patience_s: float, protocol: str = "") -> socket.socket:
    """Return a connection to a target's server; no wait for it is longer. `protocol`: what TLS asks
    for by ALPN. Raises OSError."""
    host, port = _place(target)
    if target.unix_socket is None:
        plain = socket.create_connection((host, port), patience_s)
    else:
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(patience_s)
        plain.connect(target.unix_socket)
    if not _has_tls(target):
        return plain
    context = _context(target)
    if protocol:
        context.set_alpn_protocols([protocol])
    name = (target.tls.server_name if target.tls else None) or host
    return context.wrap_socket(plain, server_hostname=name)


def _has_tls(target: HttpTarget) -> bool:
    return urlsplit(target.url).scheme in ("https", "grpcs")


def _place(target: HttpTarget) -> tuple[str, int]:
    parts = urlsplit(target.url)
    return parts.hostname or "", parts.port or (443 if _has_tls(target) else 80)


def _context(target: HttpTarget) -> ssl.SSLContext:
    import ssl

    tls = target.tls
    context = ssl.create_default_context(cafile=tls.ca if tls else None)
    if tls is not None and tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
