"""Asks a server whether it is ready: by TCP, HTTP or a command.

Decision: the probes run in Python, each with a short limit of its own; a server that hangs
is one that is not ready. Any HTTP answer below 500 counts: a 404 comes from a server that
serves. Non-goal: TLS (use `tcp`).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from urllib.parse import urlsplit

from benchwright.workbench.spec import (
    CommandReady,
    HttpReady,
    Ready,
    TcpReady,
    filled,
)
from benchwright.workbench.spec_toml import parse_address

PROBE_S = 1.0
"""How long one probe may take [s]."""


def why_not_ready(
    ready: Ready, values: Mapping[str, str], environment: Mapping[str, str], cwd: str
) -> str:
    """Return why the server is not ready yet; empty when it is."""
    match ready:
        case TcpReady():
            return _tcp(filled(ready.address, values))
        case HttpReady():
            return _http(filled(ready.url, values))
        case CommandReady():
            argv = ready.command.filled(values).argv
            return _command(argv, environment, cwd)


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


def _command(argv: tuple[str, ...], environment: Mapping[str, str], cwd: str) -> str:
    """Return what a probe's command said, where it does not exit with 0 in time."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        return f"{argv[0]}: {_reason(error)}"
    with process:
        try:
            said, _ = process.communicate(timeout=PROBE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"{argv[0]} did not end within {PROBE_S:g} s"
    words = " ".join(said.decode(errors="replace").split())[:200]
    status = process.returncode
    return f"{argv[0]} ended with {status}: {words}" if status else ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
