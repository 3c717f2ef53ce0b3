"""Nothing is sent, and no CPU is used, by a pool's agent and controller while a task runs.

Each test has a network of its own, so every packet on its loopback is captured. Those of the load
go to a known port.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

import slurm_cluster
from benchwright.core.processes import process_ids
from own_network import Packet, captured, cpu_ticks, in_own_network, may_capture, send_one
from pool_sessions import PoolSession
from slurm_cluster import SlurmCluster

pytestmark = pytest.mark.skipif(
    not may_capture(), reason="it needs root, for a network and for captures"
)
LOAD_PORT, OTHER_PORT = 9, 4242
SILENT_S = 2.0
GENERATOR = f"""
import pathlib, socket, time
pathlib.Path("running").touch()
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 60
while time.monotonic() < end and not pathlib.Path("enough").exists():
    sender.sendto(b"load", ("127.0.0.1", {LOAD_PORT}))
    time.sleep(0.05)
pathlib.Path("ended").touch()
print('{{"mean_ms": 1.0, "offered": 100, "completed": 100}}')
"""
SPEC = f"""
[load]
generator = "command"
command = "{sys.executable} -S gen.py {{rate}} {{duration}} {{disks}}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/offered", completed = "/completed" }}
[factors]
disks = [1, 2]
[peak]
criteria = ["mean response < 20ms"]
start = "100"
policy = "binsearch"
run_length = "20s"
max_trials = 1
[surface]
samples = 2
"""


def processes(place: Path, module: str) -> list[int]:
    """Return the processes of a module that belong to the session: their directory, or its job's,
    is in their words or environment."""
    found = []
    for pid in process_ids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            around = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if module.encode() in words.split(b"\0") and str(place).encode() in around:
            found.append(pid)
    return found


def check_silence(
    tmp_path: Path,
    session: PoolSession,
    pool: str,
    daemons: frozenset[int],
    listener: socket.socket,
) -> list[Packet]:
    """Run a session with one gang; assert that its agent and its controller are silent during a
    trial, and that a packet would be seen. Return the packets that the end of the controller
    causes."""
    (tmp_path / "gen.py").write_text(GENERATOR)
    (tmp_path / "s.toml").write_text(SPEC)
    # Otherwise packets of the load would be answered by ICMP.
    listener.bind(("127.0.0.1", LOAD_PORT))
    known = daemons | {LOAD_PORT}

    def others(packets: list[Packet]) -> list[Packet]:
        return [one for one in packets if not known.intersection(one.ports)]

    session.begin("surface", "s.toml", "--study", "st", "--pool", pool)
    session.wait_for((tmp_path / "running").exists)
    assert session.process is not None
    (agent,) = processes(tmp_path, "benchwright.features.pool.agent")
    silent = {"agent": agent, "controller": session.process.pid}
    silent |= dict(enumerate(processes(tmp_path, "benchwright.features.pool.connect")))

    def ticks() -> dict[str | int, int]:
        return {name: cpu_ticks(pid) for name, pid in silent.items()}

    with captured("lo") as capture:
        # What follows an order takes a while on a machine that does much else.
        before, now = {}, ticks()
        while before != now:
            time.sleep(1)
            before, now = now, ticks()
        capture.packets()
        time.sleep(SILENT_S)
        packets, after = capture.packets(), ticks()
        assert not (tmp_path / "ended").exists()
        assert any(LOAD_PORT in one.ports for one in packets)
        assert others(packets) == []
        assert all(after[name] - now[name] <= 1 for name in silent), (now, after)
        # A packet in the interval would have been seen.
        send_one(OTHER_PORT)
        seen = [one for one in others(capture.packets()) if one.kind == "udp"]
        assert {one.ports[1] for one in seen} == {OTHER_PORT}
        session.process.send_signal(signal.SIGINT)
        assert session.process.wait(60) == 130, session.messages
        return others(capture.packets())


def test_a_gang_on_this_machine_is_silent_while_a_task_runs(tmp_path: Path) -> None:
    environment = os.environ | {"BW_TEST_PLACE": str(tmp_path)}
    session = PoolSession(tmp_path, environment)

    def body() -> None:
        try:
            # Its agent is reached by a socket of this machine.
            pool = "local:gangs=1"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
                after = check_silence(tmp_path, session, pool, frozenset(), listener)
            assert after == []
        finally:
            (tmp_path / "enough").touch()
            session.end()

    in_own_network(body)


def test_a_job_of_slurm_is_silent_while_a_task_runs(tmp_path: Path) -> None:
    if why := slurm_cluster.missing():
        pytest.skip(why)

    def on(slurm: SlurmCluster) -> None:
        environment = slurm.environment | {"BW_TEST_PLACE": str(tmp_path)}
        session = PoolSession(tmp_path, environment)
        try:
            # slurmctld and slurmd talk to each other, pool or not.
            pool, daemons = "slurm:partition=bench,gangs=1", frozenset(slurm.ports)
            # The channel to the agent is a connection of srun, which the capture sees at its end.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
                assert check_silence(tmp_path, session, pool, daemons, listener)
        finally:
            (tmp_path / "enough").touch()
            session.end()
            slurm.reset()

    def body() -> None:
        with slurm_cluster.slurm_cluster() as slurm:
            on(slurm)

    in_own_network(body)
