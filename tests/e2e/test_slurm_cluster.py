"""The Slurm that other tests use: it runs gangs, for an ordinary user too, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ordinary_user
import slurm_cluster
from slurm_cluster import SlurmCluster

GANG = ("srun", "--nodes=2", "--exclusive", "--constraint=[sut*1&loadgen*1]")

HELD = """
import sys, time
from slurm_cluster import slurm_cluster
with slurm_cluster() as cluster:
    cluster.ask("sbatch", "--exclusive", "--nodelist=h1", "--wrap=setsid sleep 1000")
    while "RUNNING" not in "".join(cluster.jobs()):
        time.sleep(0.05)
    cluster.kill("h1")
    print(cluster.home, *cluster.ports, flush=True)
    time.sleep(1000)
"""

USED = """
from slurm_cluster import slurm_cluster
with slurm_cluster() as cluster:
    print(cluster.ask("srun", "--nodes=3", "--exclusive", "id", "--user"))
"""


def test_a_gang_runs(slurm: SlurmCluster) -> None:
    done = slurm.ask(*GANG, "printenv", "SLURMD_NODENAME")
    hosts = set(done.split())
    assert len(hosts) == 2
    assert "h3" in hosts


def test_a_lost_host_comes_back(slurm: SlurmCluster) -> None:
    slurm.kill("h2")
    assert not slurm.runs("h2")
    slurm.start("h2")
    slurm.wait_until_idle()
    assert slurm.ask("srun", "--nodelist=h2", "printenv", "SLURMD_NODENAME") == "h2"


def test_an_ordinary_user_can_run_it() -> None:
    if why := slurm_cluster.missing():
        pytest.skip(why)
    with ordinary_user.ordinary_user() as (user, why):
        if user is None:
            pytest.skip(why)
        shutil.copy(slurm_cluster.__file__, user.home)
        script = user.home / "used.py"
        script.write_text(USED)
        done = user.run(sys.executable, str(script))
        uid = user.run("id", "--user").stdout
    assert done.returncode == 0, done.stderr
    assert done.stdout == uid * 3


def test_nothing_is_left_even_of_a_killed_test() -> None:
    if why := slurm_cluster.missing():
        pytest.skip(why)
    held = subprocess.Popen(
        [sys.executable, "-c", HELD],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(slurm_cluster.__file__).resolve().parent)},
    )
    assert held.stdout is not None
    home, *ports = held.stdout.readline().split()
    assert len(_processes_of(home)) > 5
    held.send_signal(signal.SIGKILL)
    held.communicate()
    end_s = time.monotonic() + slurm_cluster.PATIENCE_S
    while Path(home).exists() or _processes_of(home):
        assert time.monotonic() < end_s, _processes_of(home)
        time.sleep(0.05)
    assert [port for port in ports if _answers(int(port))] == []


def _processes_of(home: str) -> list[str]:
    """Return the processes whose environment or command names the cluster's directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
        except OSError:
            continue
        if home.encode() in text:
            found.append(place.name)
    return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
