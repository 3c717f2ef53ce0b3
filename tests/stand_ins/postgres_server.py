"""A real PostgreSQL for tests: a private cluster on a free port, with pgbench's tables.

Tests are skipped where it, or pgbench, is not installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shared_directory import shared_directory
from ssh_server import free_port

PATIENCE_S = 60.0


class Postgres:
    """A server that runs, of a cluster in a directory."""

    def __init__(self, programs: Path, port: int, home: Path, addresses: Sequence[str]) -> None:
        self.programs, self.port, self.home = programs, port, home
        self._addresses = addresses
        self.data = home / "data"
        self.where = ("-h", "127.0.0.1", "-p", str(port), "-U", "bench")
        """Words by which its clients find it."""
        self.start()

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def start(self) -> None:
        """Start it, and wait until it accepts queries."""
        addresses = ",".join(("127.0.0.1", *self._addresses))
        options = ["-c", f"listen_addresses={addresses}", "-c", "fsync=off"]
        place = ["-D", str(self.data), "-p", str(self.port), "-k", str(self.home)]
        self._server = subprocess.Popen(
            _words(self.programs / "postgres", *place, *options),
            cwd=self.home,
            stderr=subprocess.DEVNULL,
        )
        _wait_for(self.programs / "pg_isready", self.port, self._server)

    def kill(self) -> None:
        """End it at once, with its connections, as a crash does."""
        os.kill(self.pid, signal.SIGQUIT)
        self._server.wait(PATIENCE_S)

    def stop(self) -> None:
        """Stop it."""
        self._server.terminate()
        self._server.wait(PATIENCE_S)

    def execute(self, sql: str) -> str:
        """Return the rows of SQL in the database `postgres`, fields separated by `|`."""
        words = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]
        place = ["-h", str(self.home), "-p", str(self.port), "-U", "bench", "postgres"]
        done = subprocess.run([*words, *place], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def set(self, **parameters: str) -> None:
        """Set parameters that a running server accepts."""
        for name, value in parameters.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self._reload()

    def admit(self, *lines: str) -> None:
        """Let clients log in as these lines of pg_hba.conf say; `bench` always on the Unix socket."""
        text = "\n".join(["local all bench trust", *lines, ""])
        (self.data / "pg_hba.conf").write_text(text)
        self._reload()

    def _reload(self) -> None:
        """Let the postmaster read its files again, and wait until it has."""
        before = self.execute("SELECT pg_conf_load_time()")
        self.execute("SELECT pg_reload_conf()")
        end_s = time.monotonic() + PATIENCE_S
        while self.execute("SELECT pg_conf_load_time()") == before:
            assert time.monotonic() < end_s, "the files were not read again"
            time.sleep(0.02)


@contextlib.contextmanager
def postgres(*addresses: str) -> Iterator[Postgres]:
    """Run a server in a directory of its own, which is removed; it listens at these addresses too."""
    for program in ("pgbench", *(() if os.geteuid() else ("runuser",))):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with shared_directory("postgres") as home:
        if not os.geteuid():
            shutil.chown(home, "postgres")
        with _cluster(home, addresses) as one:
            yield one


@contextlib.contextmanager
def _cluster(home: Path, addresses: Sequence[str]) -> Iterator[Postgres]:
    """Run a server in an empty directory that belongs to its user."""
    programs, port = _programs(), free_port()
    data = ["-D", str(home / "data")]
    made = _words(programs / "initdb", *data, "-A", "trust", "-U", "bench", "-N")
    subprocess.run(made, check=True, capture_output=True, cwd=home)
    one = Postgres(programs, port, home, addresses)
    try:
        tables = ["pgbench", "-i", "-q", "-s", "1", *one.where, "postgres"]
        subprocess.run(tables, check=True, capture_output=True)
        yield one
    finally:
        one.stop()


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
    question = [str(ready), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(question, check=False).returncode != 0:
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < end_s, "the server did not get ready"
        time.sleep(0.02)
