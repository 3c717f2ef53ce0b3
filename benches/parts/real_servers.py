"""The real servers of benches/peak_real.py, each started here and stopped at the end.

Decision: a server runs for a whole series of searches and fixed-rate runs, so `bw` meets it as any
server that runs already (--target), and both kinds of runs meet the same server. All are on the
loopback, with files of their own. A limited disk is the product's own ([server.resources] of a
spec): a loop device whose operations a cgroup limits (io.max, or blkio.throttle of version 1).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchwright.core.errors import BenchError
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.quiet.types import IoLimits, ServerDisks, ServerResources
from benchwright.features.search.server.host import ServerResourcesHeld

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, STAND_INS = ROOT / "examples", ROOT / "tests" / "stand_ins"
READY_S = 60.0
STOP_S = 30.0
SCALE = 10
"""Of pgbench's tables: 150 MB, more branches than connections."""
IOPS = 150
DISK_BYTES = 2 << 30
TPCB = """
CREATE OR REPLACE FUNCTION tpcb(branches int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  account int := 1 + floor(random() * 100000 * branches);
  teller int := 1 + floor(random() * 10 * branches);
  branch int := 1 + floor(random() * branches);
  delta int := floor(random() * 10001) - 5000;
BEGIN
  UPDATE pgbench_accounts SET abalance = abalance + delta WHERE aid = account;
  PERFORM abalance FROM pgbench_accounts WHERE aid = account;
  UPDATE pgbench_tellers SET tbalance = tbalance + delta WHERE tid = teller;
  UPDATE pgbench_branches SET bbalance = bbalance + delta WHERE bid = branch;
  INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (teller, branch, account, delta, now());
END $$
"""
"""pgbench's TPC-B-like transaction, as one statement."""
PROXY = """
worker_processes 1;
daemon off;
pid {place}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    {temporary}
    keepalive_requests 1000000;
    upstream behind {{ server 127.0.0.1:{upstream}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


class Running(NamedTuple):
    """A server that runs, as `bw load` and `bw peak` are told of it."""

    words: tuple[str, ...]
    """A workload, --target and its options."""
    prefix: tuple[str, ...] = ()
    """A command that leads to its network."""


class Refused(Exception):
    """This machine cannot run a server; the text says why."""


class RealServer(NamedTuple):
    """A server of the matrix, and what is asked of it."""

    name: str
    run: Callable[[Path], contextlib.AbstractContextManager[Running]]
    programs: tuple[str, ...]
    """They must be installed."""
    limits: tuple[str, ...]
    budget: str = "60s"
    run_s: float = 5.0
    """Length of a run at a fixed rate [s]."""
    depth: int = 64
    """Operations in progress in the closed loop by which the ladder begins; 0: it begins at
    `begin_rate`."""
    begin_rate: float = 0.0
    fixed: tuple[str, ...] = ()
    """Further words of a run at a fixed rate."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the programs that are not installed."""
        return tuple(one for one in self.programs if not _found(one))


def _found(program: str) -> bool:
    if program == "initdb":
        return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return shutil.which(program) is not None


# -- processes -----------------------------------------------------------------------------------


def free_port() -> int:
    """Return a port of the loopback that neither TCP nor UDP uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", port))
        return port


@contextlib.contextmanager
def process(
    place: Path, *words: str | Path, groups: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block, in these cgroups; its output is in the place's
    `log`.

    It has a session of its own: Ctrl-C does not end it before its searches."""
    argv = [str(word) for word in words]
    if groups:
        files = " ".join(f"'{group}/cgroup.procs'" for group in groups)
        join = f'for file in {files}; do echo $$ > "$file"; done; exec "$@"'
        argv = ["sh", "-c", join, "sh", *argv]
    with (place / "log").open("ab") as log:
        one = subprocess.Popen(
            argv,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield one
        finally:
            stop(one)


def stop(one: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a process: SIGTERM, and SIGKILL if that is not enough."""
    if one.poll() is None:
        one.terminate()
        try:
            one.wait(STOP_S)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def wait_until(ready: Callable[[], bool], one: subprocess.Popen[bytes], place: Path) -> None:
    """Wait until a server is ready. Raises Refused if it ends, or does not get ready in time."""
    end_s = time.monotonic() + READY_S
    while not ready():
        if one.poll() is not None or time.monotonic() > end_s:
            end = (place / "log").read_text(errors="replace")[-400:]
            raise Refused(f"it did not get ready: {' '.join(end.split())}")
        time.sleep(0.05)


def accepts(port: int) -> bool:
    """Return whether something listens at a TCP port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def _is_healthy(port: int) -> bool:
    """Return whether a server has loaded its model: it listens before."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0).close()
    except OSError:
        return False
    return True


def done(*words: str | Path) -> None:
    """Run a program. Raises Refused with the end of what it said."""
    texts = [str(word) for word in words]
    ended = subprocess.run(texts, capture_output=True, text=True)
    if ended.returncode:
        said = " ".join((ended.stderr + ended.stdout).split())[-400:]
        raise Refused(f"{texts[0]} ended with {ended.returncode}: {said}")


# -- servers -------------------------------------------------------------------------------------


@contextlib.contextmanager
def nginx_static(place: Path) -> Iterator[Running]:
    """Run nginx with one worker, and a page of 19 kB."""
    with _nginx(place) as port:
        yield Running(("--target", f"http://127.0.0.1:{port}/page.txt"))


@contextlib.contextmanager
def _nginx(place: Path) -> Iterator[int]:
    """Run the example's nginx; yield its port. It compresses only for those who ask for it."""
    port = free_port()
    done(EXAMPLES / "nginx" / "prepare.sh", place, str(port), "1", "1")
    with process(place, "nginx", "-p", place, "-c", place / "nginx.conf") as one:
        wait_until(lambda: accepts(port), one, place)
        yield port


@contextlib.contextmanager
def nginx_proxy(place: Path) -> Iterator[Running]:
    """Run nginx as a proxy of another nginx, one worker each."""
    behind, front = place / "behind", place / "front"
    for one_place in (behind, front):
        one_place.mkdir()
    with _nginx(behind) as upstream:
        port = free_port()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {front}/{kind};" for kind in kinds)
        conf = PROXY.format(place=front, port=port, upstream=upstream, temporary=temporary)
        (front / "nginx.conf").write_text(conf)
        with process(front, "nginx", "-p", front, "-c", front / "nginx.conf") as one:
            wait_until(lambda: accepts(port), one, front)
            yield Running(("--target", f"http://127.0.0.1:{port}/page.txt"))


@contextlib.contextmanager
def postgres_select(place: Path) -> Iterator[Running]:
    """Run PostgreSQL with pgbench's tables in memory; one row is read by its key."""
    text = "SELECT abalance FROM pgbench_accounts WHERE aid = 4711"
    with _postgres(place, "off", ()) as target:
        yield Running((*target, "--commands", text, "--connections", "8"))


@contextlib.contextmanager
def postgres_disk(place: Path) -> Iterator[Running]:
    """Run PostgreSQL on a disk of 150 operations a second, for which each commit waits."""
    limits = IoLimits(read_iops=IOPS, write_iops=IOPS)
    disks = ServerDisks(count=1, size_bytes=DISK_BYTES, limits=limits, directory=str(place))
    with limited(ServerResources(disks=disks)) as held:
        disk = Path(held.names(ServerResources(disks=disks))["disk1"])
        with _postgres(disk, "on", held.groups, held.io_unlimited) as target:
            text = f"SELECT tpcb({SCALE})"
            yield Running((*target, "--commands", text, "--connections", "8"))


@contextlib.contextmanager
def _postgres(
    place: Path,
    synchronous: str,
    groups: Sequence[str],
    unlimited: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> Iterator[tuple[str, ...]]:
    """Run a private PostgreSQL with pgbench's tables and `tpcb`; yield its target."""
    scripts, port = EXAMPLES / "postgres", free_port()
    run, data = scripts / "run.sh", place / "data"
    user = ("-h", "127.0.0.1", "-p", str(port), "-U", "bench")
    settings = (str(port), str(SCALE), "256MB", synchronous)
    with unlimited():
        done(scripts / "prepare.sh", place, *settings)
        with process(place, run, "postgres", "-D", data, groups=groups) as one:
            ready = [str(run), "pg_isready", "-q", *user]
            wait_until(lambda: subprocess.run(ready).returncode == 0, one, place)
            done(run, "psql", "-X", "-q", *user, "-c", TPCB, "postgres")
    with process(place, run, "postgres", "-D", data, groups=groups) as one:
        wait_until(lambda: subprocess.run(ready).returncode == 0, one, place)
        yield ("--target", f"postgres://bench@127.0.0.1:{port}/postgres")


@contextlib.contextmanager
def redis_get(place: Path) -> Iterator[Running]:
    """Run Redis in memory; one key is read."""
    port = free_port()
    words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "")
    with process(place, "redis-server", *words, "--appendonly", "no") as one:
        wait_until(lambda: accepts(port), one, place)
        yield Running(("--target", f"redis://127.0.0.1:{port}", "--commands", "GET a"))


@contextlib.contextmanager
def memcached_udp(place: Path) -> Iterator[Running]:
    """Run memcached with one thread; one key that is not there is read over UDP."""
    port = free_port()
    ports = ("-l", "127.0.0.1", "-p", str(port), "-U", str(port))
    with process(place, "memcached", *ports, "-u", "nobody", "-t", "1") as one:
        wait_until(lambda: accepts(port), one, place)
        # The frame of a datagram (protocol.txt, "UDP protocol"): ID, number, count, reserved; then
        # the command.
        payload = "hex:0001 0000 0001 0000 " + b"get a\r\n".hex()
        yield Running(("--target", f"udp://127.0.0.1:{port}", "--payload", payload))


@contextlib.contextmanager
def python_one_thread(place: Path) -> Iterator[Running]:
    """Run a Python server with one thread and 2 to 5 ms of work for each request."""
    port = free_port()
    program = Path(__file__).with_name("one_thread_server.py")
    with process(place, sys.executable, program, str(port)) as one:
        wait_until(lambda: accepts(port), one, place)
        yield Running(("--target", f"http://127.0.0.1:{port}/"))


class Llama(NamedTuple):
    """llama.cpp with a model of random weights, on one thread, as a server of chats.

    Without a cache of earlier prompts, all of which it looks through for each request: with new
    prompts the peak fell from 11.5 to 6/s within 16 minutes.
    """

    width: int
    layers: int
    slots: int
    """Chats that it works on at once."""
    load: tuple[str, ...]
    """Lengths of prompts and answers."""

    @contextlib.contextmanager
    def run(self, place: Path) -> Iterator[Running]:
        """Run it. Raises Refused without xllamacpp."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise Refused("there is no xllamacpp")
        program, port = STAND_INS / "tiny_model.py", free_port()
        words = ("--port", str(port), "--width", str(self.width), "--layers", str(self.layers))
        model, slots = place / "model.gguf", str(self.slots)
        with process(
            place, sys.executable, program, model, slots, *words, "--no-prompt-cache"
        ) as one:
            wait_until(lambda: _is_healthy(port), one, place)
            target = ("--target", f"http://127.0.0.1:{port}", "--llm", "chat", "--model", "random")
            many = ("--connections", "256", "--depth", "256")
            yield Running((*target, *many, "--ignore-eos", *self.load))


class Nfs(NamedTuple):
    """NFS-Ganesha under one of Fstress's workloads, with 8 threads and one disk as in
    examples/workbench."""

    workload: str
    """A file in examples/load."""
    iops: int
    set_rate: int = 0
    """The file set is that for this rate at all rates, where it grows with the rate. It is made at
    the start, while the disk is not limited: a search that made a larger one for each higher rate
    would wait for the disk."""
    memory: int = 64 << 20
    sync: bool = True

    @contextlib.contextmanager
    def run(self, place: Path) -> Iterator[Running]:
        """Run it in a network of its own, with its file set."""
        scripts, state = EXAMPLES / "workbench" / "nfs-ganesha", place / "state"
        state.mkdir()
        disks = ServerDisks(
            count=1,
            size_bytes=DISK_BYTES,
            limits=IoLimits(read_iops=self.iops, write_iops=self.iops),
            file_system="btrfs",
            striped=True,
            sync=self.sync,
            directory=str(place),
        )
        resources = ServerResources(memory_bytes=self.memory, disks=disks)
        with limited(resources) as held, contextlib.closing(PrivateNetwork()) as network:
            export = Path(held.names(resources)["disk1"]) / "export"
            done(scripts / "prepare.sh", state, export, "8")
            run = (*network.prefix, str(scripts / "run.sh"), str(state))
            with process(place, *run, groups=held.groups) as one:
                ask = [*network.prefix, "rpcinfo", "-T", "tcp", "127.0.0.1"]
                ask += ["100005", "3"]
                wait_until(
                    lambda: subprocess.run(ask, capture_output=True).returncode == 0, one, place
                )
                words = (self._workload(place), "--target", "nfs://127.0.0.1/export")
                with held.io_unlimited():
                    _make_file_set(network.prefix, words)
                yield Running(words, network.prefix)

    def _workload(self, place: Path) -> str:
        """Return the name of the workload, with a file set of the same size at all rates."""
        text = (EXAMPLES / "load" / self.workload).read_text()
        if self.set_rate:
            same = f'[files]\nfor_rate = "{self.set_rate}/s"\n'
            text = text.replace("[files]\n", same, 1)
        file = place / self.workload
        file.write_text(text)
        return str(file)


def _make_file_set(prefix: Sequence[str], words: Sequence[str]) -> None:
    """Make the file set of a workload, by a short run of it."""
    bw = (sys.executable, "-m", "benchwright.cli.main", "load", "--quiet")
    short = ("--rate", "10", "--duration", "1s", "--warm-up", "0s", "--no-fail")
    done(*prefix, *bw, *words, *short, "--max-errors", "100%")


@contextlib.contextmanager
def limited(resources: ServerResources) -> Iterator[ServerResourcesHeld]:
    """Give a server its resources until the end of the block. Raises Refused where this machine
    cannot."""
    held = ServerResourcesHeld()
    if refusals := held.refusals(resources):
        raise Refused("; ".join(refusals))
    try:
        held.give(resources)
        yield held
    except BenchError as error:
        raise Refused(str(error)) from None
    finally:
        held.take_back()


@contextlib.contextmanager
def own_place() -> Iterator[Path]:
    """Make a directory that the users of servers may enter, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="bw-peak-real-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


P99 = ("p99 < 20ms", "errors < 1%")
MEAN = ("mean response < 40ms", "errors < 1%")


def llama(name: str, server: Llama, begin_rate: float) -> RealServer:
    """Return llama.cpp with a model as a server of the matrix."""
    limits = ("p95 first < 500ms", "p95 tpot < 20ms", "errors < 1%")
    return RealServer(
        name, server.run, (), limits, budget="2m", run_s=8.0, depth=0, begin_rate=begin_rate
    )


def nfs(workload: Nfs) -> RealServer:
    """Return NFS-Ganesha under a workload as a server of the matrix."""
    return RealServer(
        f"nfs-{workload.workload.removesuffix('.toml')}",
        workload.run,
        ("ganesha.nfsd", "rpcbind", "rpcinfo", "mkfs.btrfs", "nsenter", "unshare"),
        MEAN,
        budget="2m",
        run_s=10.0,
        depth=0,
        begin_rate=400.0,
        # The workload's own 10 s would take as long as what is measured.
        fixed=("--warm-up", "4s"),
    )


POSTGRES = ("initdb", "pgbench")
MATRIX = (
    RealServer("nginx-static", nginx_static, ("nginx",), P99),
    RealServer("nginx-proxy", nginx_proxy, ("nginx",), P99),
    RealServer("postgres-select", postgres_select, POSTGRES, P99, depth=8),
    RealServer("postgres-disk", postgres_disk, POSTGRES, MEAN, budget="90s", run_s=8.0, depth=8),
    RealServer("redis-get", redis_get, ("redis-server",), P99),
    RealServer("memcached-udp", memcached_udp, ("memcached",), P99),
    RealServer("python-one-thread", python_one_thread, (), ("p99 < 50ms", "errors < 1%")),
    nfs(Nfs("specsfs97.toml", 150, set_rate=400, memory=128 << 20)),
)
"""The servers that are measured unless others are named."""
OTHERS = (
    llama("llama-43mb", Llama(512, 4, 16, ("--prompt-words", "20", "--output-tokens", "32")), 20),
    llama("llama-300kb", Llama(64, 1, 16, ("--prompt-words", "200", "--output-tokens", "32")), 20),
    nfs(Nfs("db_tp.toml", 500)),
    nfs(Nfs("mail.toml", 500, set_rate=600)),
    nfs(Nfs("web-server.toml", 30, set_rate=200, memory=128 << 20, sync=False)),
)
SERVERS = {one.name: one for one in (*MATRIX, *OTHERS)}
QUICK_ONES = ("nginx-static", "redis-get", "python-one-thread")
