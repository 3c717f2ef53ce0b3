"""A server with `network = "private"` on the real kernel: its port is its own, and its generator is
inside."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.core.processes import descendants_of
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.quiet.private_network import PrivateNetwork
from benchwright.features.search.server.workbench import LocalWorkbench, WorkbenchConfig
from benchwright.features.search.spec_toml import read_spec
from benchwright.trial.bench import LocalBench
from benchwright.trial.protocol import ExecEnvironment
from bw_command import bw_words

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None, reason="needs root and nsenter"
)
SPEC = f"""[server]
start = ["{sys.executable}", "-m", "http.server", "80", "--bind", "127.0.0.1"]
ready = READY
ready_timeout = "60s"
network = "private"
LOAD
[peak]
criteria = ["p90 response < 10s", "errors < 50%"]
"""
ENGINE = '[load]\ntarget = "http://127.0.0.1/"\nconnections = 2\n'
COMMAND = f"""[load]
generator = "command"
command = "{sys.executable} get.py {{rate}}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/n", completed = "/n" }}
"""
GET = """import json, os, urllib.request
urllib.request.urlopen("http://127.0.0.1:80/", timeout=5).read()
print(json.dumps({"mean_ms": 1.0, "n": 1}))
"""
CONNECT = """import socket; socket.create_connection(("127.0.0.1", 80))"""
READY = {
    "tcp": 'tcp = "127.0.0.1:80"',
    "http": 'http = "http://127.0.0.1/"',
    "command": f"""command = ['{sys.executable}', '-c', '{CONNECT}']""",
}


def workbench(
    directory: Path, bench: LocalBench, ready: str, load: str = ENGINE
) -> contextlib.closing[LocalWorkbench]:
    """Return a workbench whose server listens on port 80 of its own network."""
    directory.mkdir(exist_ok=True)
    (directory / "get.py").write_text(GET)
    text = SPEC.replace("READY", f"{{ {ready} }}").replace("LOAD", load)
    setting = WorkbenchConfig(
        spec=read_spec(text, "spec.toml"),
        criteria=(),
        around=ExecEnvironment(str(directory), ()),
        logs=directory / "logs",
    )
    return contextlib.closing(LocalWorkbench(setting, bench))


def stays(_so_far: LoadTrial) -> bool:
    """Leave no load."""
    return False


def namespaces(pids: Iterable[int] | None = None) -> set[str]:
    """Return the network namespaces of processes, or of all."""
    found = set()
    every = map(int, filter(str.isdecimal, os.listdir("/proc")))
    for pid in every if pids is None else pids:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return found


@needs_namespaces
@pytest.mark.parametrize("ready", sorted(READY))
def test_two_servers_have_the_same_port_at_once(tmp_path: Path, ready: str) -> None:
    made = set()
    with (
        contextlib.closing(LocalBench()) as bench,
        contextlib.closing(LocalBench()) as other_bench,
        workbench(tmp_path / "one", bench, READY[ready]) as one,
        workbench(tmp_path / "two", other_bench, READY[ready], COMMAND) as two,
    ):
        for place, its_bench in ((one, bench), (two, other_bench)):
            trial = place.run(Probe(20, 0.5), (), stays)
            assert trial.ending is LoadEnding.WHOLE, trial.failure
            assert trial.completed > 0
            servers = [child.pid for child in descendants_of(its_bench.hello.pid)]
            (own,) = namespaces(servers)
            made.add(own)
        assert len(made - namespaces([os.getpid()])) == 2
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", 80), 5)
    assert not made & namespaces()


POOL_SPEC = f"""[server]
start = ["{sys.executable}", "-m", "http.server", "80", "--bind", "127.0.0.1"]
ready = {{ {READY["tcp"]} }}
ready_timeout = "60s"
network = "private"
[load]
target = "http://127.0.0.1/{{page}}"
connections = 2
[factors]
page = ["s.toml", "t.toml"]
[peak]
criteria = ["mean response < 10s"]
start = "20"
policy = "binsearch"
run_length = "500ms"
max_trials = 1
[surface]
samples = 2
"""


@needs_namespaces
def test_two_gangs_have_the_same_port_at_once(tmp_path: Path) -> None:
    for name in ("s.toml", "t.toml"):
        (tmp_path / name).write_text(POOL_SPEC)
    words = ("surface", "s.toml", "--pool", "local:gangs=2", "--json", "--quiet")
    process = subprocess.Popen(
        bw_words(*words), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    together: set[str] = set()
    try:
        until = time.monotonic() + 120
        while process.poll() is None and len(together) < 2:
            assert time.monotonic() < until
            children = descendants_of(process.pid)
            together = namespaces(one.pid for one in children if is_server(one.pid))
            together -= namespaces([os.getpid()])
            time.sleep(0.01)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode in (0, 3), err
    assert len(together) == 2
    samples = json.loads(out)["samples"]
    # Each gang searches the anchor; each load reached a server.
    assert {one["gang"] for one in samples} == {"g1", "g2"}
    assert [one["peak_rate"] for one in samples] == [20.0] * 3
    assert not together & namespaces()


def is_server(pid: int) -> bool:
    """Return whether a process is such a server."""
    with contextlib.suppress(OSError):
        return b"http.server\x0080" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@needs_namespaces
def test_a_private_network_has_only_a_loopback_interface_that_is_up() -> None:
    network = PrivateNetwork()
    try:
        names = network.run(socket.if_nameindex)
        assert names == [(1, "lo")]

        def echo() -> bytes:
            with (
                socket.create_server(("127.0.0.1", 111)) as server,
                socket.create_connection(server.getsockname()) as client,
                server.accept()[0] as accepted,
            ):
                accepted.sendall(b"here")
                return client.recv(4)

        assert network.run(echo) == b"here"
        with pytest.raises(OSError, match="unreachable"):
            network.run(lambda: socket.create_connection(("192.0.2.1", 80), 5))
        assert len(socket.if_nameindex()) >= 1
    finally:
        network.close()
    with pytest.raises(OSError, match="setns"):
        network.run(socket.if_nameindex)


def test_a_network_that_cannot_be_made_is_reported_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise PermissionError(1, "unshare: Operation not permitted")

    monkeypatch.setattr("benchwright.features.quiet.private_network._new_namespace", refused)
    with contextlib.closing(LocalBench()) as bench, pytest.raises(InputError) as caught:
        workbench(tmp_path, bench, READY["tcp"])
    (one,) = caught.value.diagnostics
    assert (one.code, one.line) == ("network-unavailable", 5)
    assert "Operation not permitted" in one.message
