"""Single requests to the server of an HTTP target, beside a load: HTTP/1.1, also over TLS and Unix
sockets, as the target says."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchwright.features.load.request import HttpTarget

if TYPE_CHECKING:
    import http.client
    import ssl


def connected(target: HttpTarget, patience_s: float) -> http.client.HTTPConnection:
    """Return a connection to a target's server; no wait for it is longer. Raises OSError."""
    import http.client

    parts = urlsplit(target.url)
    host, port = parts.hostname or "", parts.port
    context = _context(target) if parts.scheme == "https" else None
    if target.unix_socket is None and context is None:
        return http.client.HTTPConnection(host, port, timeout=patience_s)
    connection = http.client.HTTPConnection(host, port or (443 if context else 80))
    if target.unix_socket is None:
        plain = socket.create_connection((host, port or 443), patience_s)
    else:
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(patience_s)
        plain.connect(target.unix_socket)
    if context is not None:
        name = (target.tls.server_name if target.tls else None) or host
        plain = context.wrap_socket(plain, server_hostname=name)
    connection.sock = plain
    return connection


def _context(target: HttpTarget) -> ssl.SSLContext:
    import ssl

    tls = target.tls
    context = ssl.create_default_context(cafile=tls.ca if tls else None)
    if tls is not None and tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
