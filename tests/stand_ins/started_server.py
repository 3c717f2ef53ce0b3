"""A server of another program, from its start to its end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def started(*command: str, **how: Any) -> Iterator[str]:
    """Run a server that prints its URL; `how` are arguments of Popen."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how)
    try:
        assert process.stdout is not None
        url: str = process.stdout.readline().strip()
        assert url, "the server did not start"
        yield url
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
