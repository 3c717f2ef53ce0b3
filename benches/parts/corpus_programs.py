"""The real programs of the corpus of recorded series: what each needs, and the command of one
trial.

Each is prepared in a folder of its own in memory, and its command takes 2 to 60 ms. Servers run
beside the trials, under the same condition as they.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from limiter_means import mounted, needs
from parts.device import loop_device
from ssh_server import free_port
from web_server import nginx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEVICE_BYTES = 320 << 20
"""The smallest file system of xfs has 300 MB."""
SETTLED_S = 30.0


class Place(NamedTuple):
    """Where a program is prepared and how its server is started."""

    folder: Path
    enter: Sequence[str]
    """The words before a command that put it under the condition of the series."""


class Program(NamedTuple):
    """A program of the corpus."""

    name: str
    uses: tuple[str, ...]
    """Programs that must be installed; their versions are recorded."""
    trials: int
    prepare: Callable[[Place], AbstractContextManager[list[str]]]
    """Yields the command of a trial. Raises Lacking for what the machine does not have."""


def text(size_bytes: int) -> str:
    """Return a text of words that compresses and sorts like one; always the same."""
    rng = random.Random(size_bytes)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2000)]
    lines: list[str] = []
    size = 0
    while size < size_bytes:
        lines.append(" ".join(rng.choices(words, k=8)))
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _plain(*command: str) -> Callable[[Place], AbstractContextManager[list[str]]]:
    """Return what prepares a command that needs nothing."""

    @contextlib.contextmanager
    def prepare(_place: Place) -> Iterator[list[str]]:
        yield list(command)

    return prepare


@contextlib.contextmanager
def _gzip(place: Place) -> Iterator[list[str]]:
    (place.folder / "text").write_text(text(120_000))
    yield ["gzip", "-c", str(place.folder / "text")]


@contextlib.contextmanager
def _sort(place: Place) -> Iterator[list[str]]:
    (place.folder / "text").write_text(text(400_000))
    sorted_file = str(place.folder / "sorted")
    yield ["sort", "--parallel=1", "-o", sorted_file, str(place.folder / "text")]


@contextlib.contextmanager
def _find(place: Place) -> Iterator[list[str]]:
    for folder in range(60):
        (place.folder / "tree" / str(folder)).mkdir(parents=True)
        for file in range(40):
            (place.folder / "tree" / str(folder) / str(file)).touch()
    yield ["find", str(place.folder / "tree"), "-type", "f", "-size", "+1k"]


@contextlib.contextmanager
def _sqlite(place: Place) -> Iterator[list[str]]:
    fill = (
        "create table t(a integer primary key, b, c);"
        "with recursive n(i) as (select 1 union all select i+1 from n where i<6000)"
        " insert into t select i, i*7919%3001, hex(i*104729%99991) from n;"
    )
    subprocess.run(["sqlite3", "t.db", fill], cwd=place.folder, check=True)
    query = "select b, count(*), max(c) from t group by b order by 2 desc, 3 limit 5"
    yield ["sqlite3", str(place.folder / "t.db"), query]


@contextlib.contextmanager
def _gcc(place: Place) -> Iterator[list[str]]:
    source = "int f(int n){int s=0;for(int i=0;i<n;i++)s+=i*i%7;return s;}\n"
    file = place.folder / "small.c"
    file.write_text(source)
    yield ["gcc", "-O1", "-c", str(file), "-o", str(file.with_suffix(".o"))]


def _postmark(kind: str) -> Callable[[Place], AbstractContextManager[list[str]]]:
    @contextlib.contextmanager
    def prepare(place: Place) -> Iterator[list[str]]:
        with (
            loop_device(DEVICE_BYTES) as device,
            mounted(Path(device), place.folder / "mnt", kind) as mount,
        ):
            script = place.folder / "postmark.conf"
            script.write_text(
                f"set location {mount}\nset number 100\nset transactions 300\n"
                "set size 500 5000\nset seed 1\nrun\nquit\n"
            )
            yield ["postmark", str(script)]

    return prepare


@contextlib.contextmanager
def _redis(place: Place) -> Iterator[list[str]]:
    port = str(free_port())
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""]
    with _server(place, [*words, "--dir", str(place.folder)], ["redis-cli", "-p", port, "ping"]):
        yield ["redis-benchmark", "-p", port, "-n", "100", "-c", "1", "-t", "get", "-q"]


@contextlib.contextmanager
def _nginx(place: Place) -> Iterator[list[str]]:
    folder = place.folder / "pages"
    folder.mkdir()
    (folder / "page").write_text(text(4000))
    server = nginx(folder, "127.0.0.1", *place.enter)
    try:
        url = f"http://127.0.0.1:{(folder / 'port').read_text()}/page"
        yield ["ab", "-q", "-n", "60", "-c", "2", url]
    finally:
        server.terminate()
        server.wait(timeout=SETTLED_S)


@contextlib.contextmanager
def _postgres(place: Place) -> Iterator[list[str]]:
    port, run = str(free_port()), str(EXAMPLES / "postgres" / "run.sh")
    if subprocess.run([run, "sh", "-c", "command -v initdb"], capture_output=True).returncode:
        needs("initdb")
    state = place.folder / "postgres"
    state.mkdir(mode=0o755)
    prepare = [str(EXAMPLES / "postgres" / "prepare.sh"), str(state), port, "1", "64MB", "on"]
    subprocess.run(prepare, check=True, capture_output=True)
    # Over TCP every trial would wait 40 ms for a delayed acknowledgement.
    login = ["-h", str(state / "data"), "-p", port, "-U", "bench"]
    server = [run, "postgres", "-D", str(state / "data"), "-F"]
    with _server(place, server, [run, "pg_isready", "-q", *login]):
        yield ["pgbench", "-n", "-t", "5", *login, "postgres"]


@contextlib.contextmanager
def _server(place: Place, server: list[str], ready: list[str]) -> Iterator[None]:
    """Run a server under the condition of the series, from when it answers."""
    process = subprocess.Popen(
        [*place.enter, *server],
        cwd=place.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + SETTLED_S
        while subprocess.run(ready, capture_output=True).returncode:
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"{server[0]} does not answer")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(timeout=SETTLED_S)


# The interpreter itself, not a shim of pyenv, which is a shell script.
_PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-c", "import json")
_JAVA = ("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-version")
_FIO = (
    *("fio", "--name=r", "--rw=randread", "--size=1M", "--bs=4k"),
    *("--ioengine=psync", "--thread", "--clocksource=clock_gettime", "--eta=never"),
)


@contextlib.contextmanager
def _fio(place: Place) -> Iterator[list[str]]:
    yield [*_FIO, f"--filename={place.folder / 'data'}"]


PROGRAMS = (
    Program("gzip", ("gzip",), 4000, _gzip),
    Program("sqlite", ("sqlite3",), 4000, _sqlite),
    Program("python", (), 2500, _plain(*_PYTHON)),
    Program("postmark-ext4", ("postmark", "mkfs.ext4"), 2500, _postmark("ext4")),
    Program("postmark-xfs", ("postmark", "mkfs.xfs"), 2500, _postmark("xfs")),
    Program("redis", ("redis-server", "redis-benchmark", "redis-cli"), 2500, _redis),
    Program("nginx", ("nginx", "ab"), 3000, _nginx),
    Program("postgres", ("pgbench", "setpriv"), 2000, _postgres),
    Program("sort", ("sort",), 3000, _sort),
    Program("find", ("find",), 4000, _find),
    Program("gcc", ("gcc",), 2000, _gcc),
    Program("java", ("java",), 2000, _plain(*_JAVA)),
    # It waits for its own threads with sleeps: 0.2 s a trial.
    Program("fio", ("fio",), 2000, _fio),
)


def version(name: str) -> str:
    """Return the first line that a program prints of its version; empty if it prints none."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    for option in ("--version", "-version", "-V", "-v"):
        done = subprocess.run(
            [path or name, option], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        lines = (done.stdout + done.stderr).splitlines()
        if done.returncode == 0 and lines:
            return lines[0].strip()
    return ""
