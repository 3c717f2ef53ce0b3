"""`bw load --hosts`: engines in network namespaces of their own, over a real sshd in each.

The namespaces have one clock, so the true offset between them is known: zero, or that of a time
namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ssh_server
from benchwright.load import read_samples
from bw_command import Done, bw, bw_words
from load_hosts import PATIENCE_S, ArrivalServer, Hosts, running_hosts, until
from own_network import captured
from web_server import nginx

pytestmark = [
    pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-"),
    pytest.mark.timeout(300),
]
NAMES = ("a", "b", "c", "d")
SHIFTS_NS = {"b": 1_000 * 10**9, "c": 77_777 * 10**9}
"""How much later the clocks of these hosts are, by time namespaces."""


# -- the hosts -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Four hosts; two of them have another clock."""
    shifts_s = {name: shift_ns // 10**9 for name, shift_ns in SHIFTS_NS.items()}
    with running_hosts(tmp_path_factory.mktemp("hosts"), NAMES, shifts_s) as hosts:
        yield hosts


@pytest.fixture
def hosts(made: Hosts) -> Iterator[Hosts]:
    yield made
    assert until(lambda: not made.left()), made.left()


def document_of(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def offset_error_ns(one: dict[str, Any]) -> int:
    """Return by how much a reported clock offset is wrong."""
    return abs(int(one["clock"]["offset_ns"]) - SHIFTS_NS.get(one["host"], 0))


# -- one schedule --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrival", "names"), [("poisson", "a,b"), ("poisson", "a,b,c,d"), ("gamma:2", "c,a")]
)
def test_hosts_issue_the_schedule_of_one_host(
    tmp_path: Path, hosts: Hosts, arrival: str, names: str
) -> None:
    number = len(names.split(","))
    what = ("--rate", "300", "--arrival", arrival, "--duration", "3s", "--seed", "7")
    alone = bw(*(tmp_path, "load", *what, "--target", "null", "--samples", "alone", "--quiet"))
    assert alone.returncode == 0, alone.stderr
    schedule = np.sort(read_samples(tmp_path / "alone")["intended"].astype(np.int64))
    with ArrivalServer(hosts.address) as server:
        target = ("--target", f"tcp://{hosts.address}:{server.port}", "--block", "64")
        workers = ("--workers", "2", "--timeout", "none")
        kept = ("--samples", "together")
        done = hosts.load(tmp_path, *what, *target, *workers, *kept, "--json", hosts=names)
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
        assert np.corrcoef(gaps, np.diff(part))[0, 1] > 0.5
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


def test_without_packets_the_clocks_are_measured_through_ssh(tmp_path: Path, hosts: Hosts) -> None:
    space = hosts.spaces["b"]
    # Answers find no route.
    rule = "ipproto udp prohibit"
    done = subprocess.run(f"ip -n {space} rule add {rule}".split(), capture_output=True, text=True)
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
    assert [one["host"] for one in json.loads(stored.read_text())["hosts"]] == ["a", "b"]


FILES = """[files]
files = 60
size = {1k = 50, 16k = 40, 100k = 10}
directories = 3
levels = 2
seed = 5

[[filament]]
type = "files"
rate = "600/s"
piece = "8k"
write_size = "3k"
[filament.operations]
lookup = 30
read = 30
append = 40
"""


@contextlib.contextmanager
def ganesha(directory: Path, hosts: Hosts) -> Iterator[tuple[str, Path]]:
    """Run NFS-Ganesha on a host of its own; yield its address and the directory that it exports."""
    scripts = Path(__file__).parents[2] / "examples/workbench/nfs-ganesha"
    for program in ("ganesha.nfsd", "rpcbind", "rpcinfo"):
        if shutil.which(program, path="/usr/bin:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} is not installed")
    state, exported = directory / "state", directory / "exported"
    state.mkdir()
    with ExitStack() as stack:
        space, address = ssh_server.namespace(stack, 7)
        # Packets pass from host to host.
        for name in (space, *hosts.spaces.values()):
            Path(f"/proc/sys/net/ipv4/conf/{name}a/forwarding").write_text("1")
        subprocess.run([scripts / "prepare.sh", state, exported, "4"], check=True)
        inside = ("ip", "netns", "exec", space)
        log = stack.enter_context((directory / "ganesha.log").open("w"))
        server = subprocess.Popen([*inside, scripts / "run.sh", state], stdout=log, stderr=log)
        try:
            ready = f"rpcinfo -T tcp {address} 100005 3".split()
            assert until(lambda: subprocess.run(ready, capture_output=True).returncode == 0)
            yield address, exported
        finally:
            server.terminate()
            server.wait()


def test_hosts_load_one_nfs_server(tmp_path: Path, hosts: Hosts) -> None:
    (tmp_path / "files.toml").write_text(FILES)
    with ganesha(tmp_path, hosts) as (address, exported):
        target = ("--target", f"nfs://{address}/export")
        words = ("files.toml", *target, "--duration", "3s", "--connections", "3", "--json")
        done = hosts.load(tmp_path, *words, hosts="a,b,c")
        folders = sorted(one.name for one in exported.iterdir())
        own = ("manifest.json", "lock.json")
        there = [one for one in exported.rglob("*") if one.is_file() and one.name not in own]
        sizes = [one.stat().st_size for one in there]
        spec = tmp_path / "spec.toml"
        spec.write_text(
            f'[load]\nhosts = ["a", "b"]\nssh_config = "{hosts.config}"\n'
            f'target = "{target[1]}"\nworkload = "files.toml"\n'
            '[peak]\ncriteria = "mean response < 10s"\nstart = "50"\nrun_length = "1s"\n'
            'max_trials = 2\npolicy = "binsearch"\n'
        )
        peak = bw(tmp_path, "peak", "spec.toml", "--json", "--quiet")
    document = document_of(done)
    result = document["result"]
    files = result["file_set"]
    assert folders == [f"benchwright-files-{number}-of-3" for number in (1, 2, 3)]
    # The server's own disk says the same as the hosts together, who have drawn further than the end.
    drawn = {chain["chain"]: chain["drawn"] for chain in files["mix"]}
    ahead = 3072 * (drawn["append"] - result["kinds"]["append"]["operations"])
    assert (len(there), sum(sizes)) == (files["files_at_end"], files["bytes_at_end"] - ahead)
    assert files["directories"] == 3 * 4
    assert files["bytes"] == result["target"]["size_bytes"] == files["made"]["bytes"]
    chains = result["sequences"]
    assert 0 < sum(chain["started"] for chain in chains.values()) <= sum(drawn.values())
    assert result["counts"]["errors"] == 0
    assert sum(one["counts"]["intended"] for one in result["hosts"]) == result["counts"]["intended"]
    codes = {finding["code"] for finding in document["findings"]}
    assert not codes & {"mix-differs", "objects-missing"}, document["findings"]
    assert peak.returncode in (0, 3), peak.stderr
    assert [one["failure"] for one in json.loads(peak.stdout)["trials"] if one["failure"]] == []


# -- the silent interval -------------------------------------------------------------------


def test_nothing_is_sent_between_the_hosts_while_they_load(tmp_path: Path, hosts: Hosts) -> None:
    """The load has no target, so every packet is of bw or of ssh, which sends signs of life."""
    load = RunningLoad(tmp_path, hosts)
    with ExitStack() as stack:
        captures = {name: stack.enter_context(captured(f"{hosts.spaces[name]}a")) for name in "ab"}
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
            bw_words(*hosts.words("load", *words)),
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
        hosts.kill_engines("b")
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
    # Hosts still have a count that only older engines have.
    assert {**document["result"]["counts"], "drained_completed": 0} == first["counts"]
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


def test_an_interrupted_load_reports_what_all_hosts_measured(tmp_path: Path, hosts: Hosts) -> None:
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
