"""Asks a server whether it is ready: by TCP or HTTP.

Decision: the probes run in Python, each with a short limit of its own; a server that hangs
is one that is not ready. Any HTTP answer below 500 counts: a 404 comes from a server that
serves. A command that asks is run by the launcher, as all of the user's are (server.py): one
of ours would outlive a `bw` that is killed. Non-goal: TLS (use `tcp`).
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from benchwright.workbench.spec import HttpReady, TcpReady
from benchwright.workbench.spec_toml import parse_address

PROBE_S = 1.0
"""How long one probe may take [s]."""


def why_not_ready(ready: TcpReady | HttpReady, values: Mapping[str, str]) -> str:
    """Return why the server is not ready yet; empty when it is."""
    shown = ready.shown(values)
    return _tcp(shown) if isinstance(ready, TcpReady) else _http(shown)


def _tcp(address: str) -> str:
    try:
        with socket.create_connection(parse_address(address), PROBE_S):
            return ""
    except (OSError, ValueError) as error:
        return f"{address}: {_reason(error)}"


def _http(url: str) -> str:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(parts.netloc, timeout=PROBE_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{url}: {_reason(error)}"
    finally:
        connection.close()
    return "" if status < 500 else f"{url}: HTTP status {status}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
