"""`bw load --hosts`: engines in network namespaces of their own, over a real sshd in each.

The namespaces have one clock, so the true offset between them is known: zero, or that of a time
namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ssh_server
from benchwright.core.processes import all_processes
from benchwright.load import read_samples
from bw_command import Done, bw, bw_words
from own_network import captured
from ssh_server import SshServer, namespace
from web_server import nginx

pytestmark = [
    pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-"),
    pytest.mark.timeout(300),
]
PATIENCE_S = 60
NAMES = ("a", "b", "c", "d")
SHIFTS_NS = {"b": 1_000 * 10**9, "c": 77_777 * 10**9}
"""How much later the clocks of these hosts are, by time namespaces."""


# -- the hosts -----------------------------------------------------------------------------


class Hosts:
    """Hosts in namespaces, and the configuration of ssh that names them."""

    def __init__(self, config: Path, address: str) -> None:
        self.config = config
        self.address = address
        """An address of this machine that all hosts reach."""
        self.servers: dict[str, SshServer] = {}
        self.spaces: dict[str, str] = {}
        self.addresses: dict[str, str] = {}

    def load(self, directory: Path, *words: str, hosts: str = "a,b") -> Done:
        """Run a load on the hosts."""
        return bw(directory, *self.words(*words, hosts=hosts))

    def words(self, *words: str, hosts: str = "a,b") -> tuple[str, ...]:
        """Return the words of a load on the hosts."""
        named = ("--hosts", hosts, "--ssh-config", str(self.config))
        return ("load", *words, *named, "--quiet")

    def engines(self, name: str) -> list[int]:
        """Return the engines that run on a host: those with a private directory of its sshd."""
        found = []
        for process in all_processes():
            with contextlib.suppress(OSError):
                program = os.readlink(f"/proc/{process.pid}/exe")
                ours = program.startswith(str(self.servers[name].temporary))
                if ours and "bw-engine" in program and process.is_alive:
                    found.append(process.pid)
        return found

    def left(self) -> list[str]:
        """Return what is left on the hosts: directories and engines."""
        found: list[str] = []
        for name, server in self.servers.items():
            found += [str(one) for one in server.temporary.iterdir()]
            found += map(str, self.engines(name))
        return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Four hosts; two of them have another clock."""
    if os.geteuid() or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("it needs root, ip and unshare, for namespaces")
    directory = tmp_path_factory.mktemp("hosts")
    with ExitStack() as stack:
        hosts = Hosts(directory / "config", "")
        texts = []
        for number, name in enumerate(NAMES, 1):
            space, address = namespace(stack, number)
            shift_s = SHIFTS_NS.get(name, 0) // 10**9
            clock = ("unshare", "-T", "--fork", "--kill-child", "--monotonic")
            shifted = (*clock, str(shift_s)) if shift_s else ()
            (directory / name).mkdir()
            server = SshServer(directory / name, address)
            server.write()
            stack.enter_context(server.running("ip", "netns", "exec", space, *shifted))
            texts.append(
                server.config.read_text().replace("Host server", f"Host {name}")
            )
            hosts.servers[name], hosts.spaces[name] = server, space
            hosts.addresses[name] = address
            hosts.address = hosts.address or _gateway(address)
        hosts.config.write_text("".join(texts))
        yield hosts


def _gateway(address: str) -> str:
    network, _, last = address.rpartition(".")
    return f"{network}.{int(last) - 1}"


@pytest.fixture
def hosts(made: Hosts) -> Iterator[Hosts]:
    yield made
    assert until(lambda: not made.left()), made.left()


def until(true: Callable[[], object]) -> bool:
    """Wait for something; return whether it became true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False


class ArrivalServer:
    """A server that sends back what it receives, and notes when each request arrived."""

    def __init__(self, address: str) -> None:
        self._listening = socket.create_server((address, 0))
        self.port = int(self._listening.getsockname()[1])
        self.arrivals: list[tuple[int, str]] = []
        """CLOCK_REALTIME [ns] and the address of the client."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> ArrivalServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._listening:
                        client, (address, _) = self._listening.accept()
                        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        selector.register(client, selectors.EVENT_READ, address)
                        continue
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    data = client.recv(65536)
                    if not data:
                        selector.unregister(client)
                        client.close()
                        continue
                    self.arrivals.append((time.time_ns(), key.data))
                    client.sendall(data)


def document_of(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def offset_error_ns(one: dict[str, Any]) -> int:
    """Return by how much a reported clock offset is wrong."""
    return abs(int(one["clock"]["offset_ns"]) - SHIFTS_NS.get(one["host"], 0))


# -- one schedule --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrival", "names"),
    [("poisson", "a,b"), ("poisson", "a,b,c,d"), ("gamma:2", "c,a")],
)
def test_hosts_issue_the_schedule_of_one_host(
    tmp_path: Path, hosts: Hosts, arrival: str, names: str
) -> None:
    number = len(names.split(","))
    what = ("--rate", "300", "--arrival", arrival, "--duration", "3s", "--seed", "7")
    alone = bw(
        *(tmp_path, "load", *what, "--target", "null", "--samples", "alone", "--quiet")
    )
    assert alone.returncode == 0, alone.stderr
    schedule = np.sort(read_samples(tmp_path / "alone")["intended"].astype(np.int64))
    with ArrivalServer(hosts.address) as server:
        target = ("--target", f"tcp://{hosts.address}:{server.port}", "--block", "64")
        workers = ("--workers", "2", "--timeout", "none")
        kept = ("--samples", "together")
        done = hosts.load(
            tmp_path, *what, *target, *workers, *kept, "--json", hosts=names
        )
    result = document_of(done)["result"]
    rows = read_samples(tmp_path / "together")
    assert np.array_equal(rows["intended"].astype(np.int64), schedule)
    assert (rows["completed"] > rows["intended"]).all()
    assert result["samples"]["rows"] == len(schedule)
    assert result["samples"]["lost"] == 0
    assert result["counts"]["completed"] == len(schedule) == len(server.arrivals)
    assert result["kinds"]["all"]["response_ns"]["count"] == len(schedule)
    started_ns = result["started_ns"]
    for place, one in enumerate(result["hosts"]):
        part = schedule[place::number]
        assert one["counts"]["intended"] == len(part)
        # Two workers on each host.
        own = rows["intended"][rows["device"] // 2 == place]
        assert np.array_equal(own.astype(np.int64), part)
        address = hosts.addresses[one["host"]]
        arrived = [at for at, where in server.arrivals if where == address]
        # A wrong part has as many arrivals, at other times: its gaps do not match.
        gaps = np.diff(np.sort(np.array(arrived)))
        assert np.corrcoef(gaps, np.diff(part))[0, 1] > 0.7
    late_ns = np.sort([at for at, _ in server.arrivals]) - started_ns - schedule
    # Of a machine that does much else, the median is that of a gap at most.
    assert 0 < np.median(late_ns) < 1e9 / 300


def test_the_clocks_are_known_within_their_bounds(tmp_path: Path, hosts: Hosts) -> None:
    words = ("--rate", "200", "--duration", "500ms", "--target", "null", "--json")
    errors, bounds, methods = [], [], set()
    for _ in range(5):
        done = hosts.load(tmp_path, *words, hosts="a,b,c")
        for one in document_of(done)["result"]["hosts"]:
            methods.add(one["clock"]["method"])
            assert one["clock"]["round_trips"] <= 400
            errors.append(offset_error_ns(one))
            bounds.append(one["clock"]["bound_ns"])
            # Both measurements are within their bounds of the same offset.
            assert abs(one["start_skew_ns"]) <= 2 * one["clock"]["bound_ns"]
    print(f"clock errors [ns] {sorted(errors)}, bounds [ns] {sorted(bounds)}")
    assert all(error <= bound for error, bound in zip(errors, bounds, strict=True))
    # A machine that does much else may not answer a packet in time.
    assert "udp" in methods


def test_without_packets_the_clocks_are_measured_through_ssh(
    tmp_path: Path, hosts: Hosts
) -> None:
    space = hosts.spaces["b"]
    # Answers find no route.
    rule = "ipproto udp prohibit"
    done = subprocess.run(
        f"ip -n {space} rule add {rule}".split(), capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"packets cannot be refused here: {done.stderr.strip()}")
    try:
        words = ("--rate", "200", "--duration", "500ms", "--target", "null")
        done = hosts.load(tmp_path, *words, "--json")
        text = hosts.load(tmp_path, *words).stdout
    finally:
        subprocess.run(f"ip -n {space} rule del {rule}".split(), check=True)
    first, second = document_of(done)["result"]["hosts"]
    assert second["clock"] | {"method": "ssh", "round_trips": 400} == second["clock"]
    assert offset_error_ns(first) <= first["clock"]["bound_ns"]
    assert offset_error_ns(second) <= second["clock"]["bound_ns"]
    assert "because no UDP packets pass" in text


def test_hosts_load_one_nginx(tmp_path: Path, hosts: Hosts) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("there is no nginx here")
    server = nginx(tmp_path, hosts.address)
    try:
        port = (tmp_path / "port").read_text()
        target = ("--target", f"http://{hosts.address}:{port}/port")
        words = ("--rate", "600", "--duration", "2s", *target, "--connections", "9")
        open_loop = hosts.load(tmp_path, *words, "--json", hosts="a,b,c")
        closed = hosts.load(tmp_path, "--depth", "2", "--duration", "500ms", *target)
        study = hosts.load(tmp_path, *words, "--study", "kept", hosts="c,b")
        spec = tmp_path / "spec.toml"
        spec.write_text(
            f'[load]\nhosts = ["a", "b"]\nssh_config = "{hosts.config}"\n'
            f'target = "{target[1]}"\n'
            '[peak]\ncriteria = "mean response < 10s"\nstart = "50"\nrun_length = "1s"\n'
            'max_trials = 2\npolicy = "binsearch"\n'
        )
        peak = bw(tmp_path, "peak", "spec.toml", "--json", "--quiet")
    finally:
        server.terminate()
        server.wait()
    result = document_of(open_loop)["result"]
    parts = [one["counts"]["intended"] for one in result["hosts"]]
    assert sum(parts) == result["counts"]["intended"]
    assert max(parts) - min(parts) <= 1
    assert result["counts"]["errors"] == 0
    assert sum(i["intended"] for i in result["intervals"]) == sum(parts)
    assert (result["target"]["connections"], len(result["workers"])) == (9, 3)
    assert closed.returncode == 0, closed.stderr
    assert "\nhost " in closed.stdout
    assert study.returncode == 0, study.stderr
    assert peak.returncode in (0, 3), peak.stderr
    trials = json.loads(peak.stdout)["trials"]
    assert [one["failure"] for one in trials if one["failure"]] == []
    stored = tmp_path / "bw-study" / "logs" / "s1" / "trial-1" / "result.json"
    assert [one["host"] for one in json.loads(stored.read_text())["hosts"]] == [
        "a",
        "b",
    ]


# -- the silent interval -------------------------------------------------------------------


def test_nothing_is_sent_between_the_hosts_while_they_load(
    tmp_path: Path, hosts: Hosts
) -> None:
    """The load has no target, so every packet is of bw or of ssh, which sends signs of life."""
    load = RunningLoad(tmp_path, hosts)
    with ExitStack() as stack:
        captures = {
            name: stack.enter_context(captured(f"{hosts.spaces[name]}a"))
            for name in "ab"
        }
        seconds = 4.0
        time.sleep(seconds)
        for name, capture in captures.items():
            packets = [one for one in capture.packets() if one.ports]
            assert all(hosts.servers[name].port in one.ports for one in packets)
            # ServerAliveInterval of hooks/ssh-options: a request and its answer.
            signs = [one for one in packets if one.size]
            assert len(signs) <= 2 * (1 + seconds // 5)
        load.process.send_signal(signal.SIGINT)
        assert load.end()[0] == 130
        # The capture sees what is sent at the end.
        for capture in captures.values():
            assert sum(one.size > 0 for one in capture.packets()) > 4


# -- faults --------------------------------------------------------------------------------


class RunningLoad:
    """A load of 30 s on two hosts, while both engines run."""

    def __init__(self, tmp_path: Path, hosts: Hosts) -> None:
        words = ("--rate", "100", "--duration", "30s", "--target", "null", "--json")
        words += ("--samples", "together")
        self.process = subprocess.Popen(
            bw_words(*hosts.words(*words)),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Of each host one engine is the echo of its clock.
        assert until(lambda: all(len(hosts.engines(name)) == 2 for name in "ab"))
        # They are armed and have received their start.
        time.sleep(2)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@pytest.mark.parametrize("what", ["engine", "connection"])
def test_a_host_that_is_lost_fails_the_load_and_what_others_measured_is_kept(
    tmp_path: Path, hosts: Hosts, what: str
) -> None:
    load = RunningLoad(tmp_path, hosts)
    if what == "engine":
        for pid in hosts.engines("b"):
            os.kill(pid, signal.SIGKILL)
    else:
        for pid in _sessions(hosts.spaces["b"]):
            os.kill(pid, signal.SIGKILL)
    status, out, err = load.end()
    assert status == 1, err
    assert "[host-lost]" in err
    assert "b: " in err
    document = json.loads(out)
    first, second = document["result"]["hosts"]
    assert (first["lost"], first["counts"]["completed"] > 0) == ("", True)
    assert second["lost"].startswith("b: ")
    assert second["counts"] is None
    assert document["result"]["counts"] == first["counts"]
    codes = [one["code"] for one in document["findings"]]
    assert "host-lost" in codes
    assert "samples-lost" in codes
    rows = read_samples(tmp_path / "together")
    assert len(rows) == first["counts"]["issued"]
    assert document["result"]["samples"]["failed"].startswith("b: ")


def _sessions(space: str) -> list[int]:
    """Return the processes of sshd that serve a connection in a namespace."""
    said = subprocess.run(
        ["ip", "netns", "pids", space], capture_output=True, text=True, check=True
    )
    found = []
    for pid in map(int, said.stdout.split()):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if words.startswith(b"sshd:") and b"[listener]" not in words:
                found.append(pid)
    return found


def test_an_interrupted_load_reports_what_all_hosts_measured(
    tmp_path: Path, hosts: Hosts
) -> None:
    load = RunningLoad(tmp_path, hosts)
    load.process.send_signal(signal.SIGINT)
    status, out, err = load.end()
    assert status == 130, err
    result = json.loads(out)["result"]
    assert result["interrupted"] is True
    assert all(one["counts"]["completed"] > 0 for one in result["hosts"])
    rows = read_samples(tmp_path / "together")
    assert len(rows) == result["counts"]["issued"]


def test_a_killed_bw_leaves_nothing(tmp_path: Path, hosts: Hosts) -> None:
    load = RunningLoad(tmp_path, hosts)
    load.process.kill()
    load.end()
    assert until(lambda: not hosts.left()), hosts.left()


def test_a_host_that_cannot_be_reached_is_named(tmp_path: Path, hosts: Hosts) -> None:
    words = ("--rate", "100", "--target", "null")
    done = hosts.load(tmp_path, *words, hosts="a,no-such-host.invalid")
    assert done.returncode == 2
    assert "[remote-unavailable]" in done.stderr
    assert "no-such-host.invalid" in done.stderr
    refused = ("--rate", "100", "--target", f"http://{hosts.address}:9/")
    done = hosts.load(tmp_path, *refused)
    assert done.returncode in (1, 2)
    assert "[connect]" in done.stderr
