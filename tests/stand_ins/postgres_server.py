"""A real PostgreSQL for tests: a private cluster on a free port, with pgbench's tables.

Tests are skipped where it, or pgbench, is not installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssh_server import free_port

PATIENCE_S = 60.0


class Postgres:
    """A server that runs."""

    def __init__(self, port: int, home: Path) -> None:
        self.port = port
        self.where = ("-h", "127.0.0.1", "-p", str(port), "-U", "bench")
        """Words by which its clients find it."""
        lines = (home / "data" / "postmaster.pid").read_text().splitlines()
        self.pid = int(lines[0])
        """Of the postmaster."""


@contextlib.contextmanager
def postgres(home: Path) -> Iterator[Postgres]:
    """Run a server in an empty directory of its own."""
    for program in ("pgbench", *(() if os.geteuid() else ("runuser",))):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    programs, port = _programs(), free_port()
    data = home / "data"
    shared = Path(tempfile.gettempdir())
    for directory in (home, *home.parents):
        # PostgreSQL's user has to get there, however deep the runner's directories are.
        if directory.is_relative_to(shared) and directory != shared:
            directory.chmod(0o755)
    if not os.geteuid():
        shutil.chown(home, "postgres")
    made = _words(programs / "initdb", "-D", data, "-A", "trust", "-U", "bench", "-N")
    subprocess.run(made, check=True, capture_output=True, cwd=home)
    options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    server = subprocess.Popen(
        _words(
            programs / "postgres", "-D", data, "-p", str(port), "-k", home, *options
        ),
        cwd=home,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(programs / "pg_isready", port, server)
        one = Postgres(port, home)
        tables = ["pgbench", "-i", "-q", "-s", "1", *one.where, "postgres"]
        subprocess.run(tables, check=True, capture_output=True)
        yield one
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _programs() -> Path:
    """Return where initdb and postgres are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    program = str(found[-1]) if found else shutil.which("initdb")
    if program is None:
        pytest.skip("PostgreSQL's initdb is not installed")
    return Path(program).parent


def _words(*words: str | Path) -> list[str]:
    """Return a command that a server may be run by: PostgreSQL refuses root."""
    texts = [str(word) for word in words]
    return texts if os.geteuid() else ["runuser", "-u", "postgres", "--", *texts]


def _wait_for(ready: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server accepts queries, which is later than its port accepts."""
    end_s = time.monotonic() + PATIENCE_S
    question = [ready, "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(question, check=False).returncode != 0:
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < end_s, "the server did not get ready"
        time.sleep(0.02)
