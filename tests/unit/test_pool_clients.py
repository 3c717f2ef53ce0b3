"""Gangs with clients: which host counts as lost, and how Slurm's nodes are reached."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import msgspec
import pytest

from benchwright.core.hosts import SlurmSteps
from benchwright.features.pool.planning import PoolPlan
from benchwright.features.pool.slurm import SlurmEngine
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.run.gangs import Task

SETTINGS = PoolSettings(engine=PoolKind.SLURM, gangs=1, clients=2, retries=9)
TOKEN = "0123456789abcdef"
HOSTS = ("h2", "h1", "h3")


@pytest.mark.parametrize(
    ("void", "failed_host", "excluded"),
    [
        (VoidReason.HOST_LOST, "h3", ("h3",)),
        (VoidReason.NOT_ARMED, "h1", ("h1",)),
        (VoidReason.CLOCK_UNCERTAIN, "h1", ("h1",)),
        (VoidReason.HOST_LOST, "", ("h2",)),
        (VoidReason.SERVER_FAILED, "", ("h2",)),
        (VoidReason.PREEMPTED, "", ()),
    ],
)
def test_two_void_attempts_exclude_the_host_that_failed(
    void: VoidReason, failed_host: str, excluded: tuple[str, ...]
) -> None:
    plan = PoolPlan(SETTINGS, seed=1)
    plan.add([Task(place="1", name="search 1", prefixes=())])
    lease = Lease(gang="g1", number=1, hosts=HOSTS, state=LeaseState.RUNNING)
    plan.lease_changed(lease)
    for number in (1, 2):
        assert plan.excluded == ()
        plan.next_actions(0)
        plan.attempt_ended(
            Attempt(
                place="1",
                name="search 1",
                number=number,
                gang="g1",
                lease="g1.1",
                hosts=HOSTS,
                began_ns=0,
                ended_ns=1,
                void=void,
                failed_host=failed_host,
            )
        )
    assert plan.excluded == excluded


NODES = """\
NodeName=h1 Arch=x86_64 CPUTot=1 NodeAddr=10.0.0.1 NodeHostName=h1 Version=22.05.8 State=IDLE+DRAIN ThreadsPerCore=1
NodeName=h2 Arch=x86_64 CPUTot=1 NodeAddr=10.0.0.2 NodeHostName=h2 Version=22.05.8 State=ALLOCATED ThreadsPerCore=1
NodeName=h3 Arch=x86_64 CPUTot=1 NodeAddr=10.0.0.3 NodeHostName=h3 Version=22.05.8 State=DOWN*+NOT_RESPONDING
"""
"""Printed by scontrol 22.05.8, shortened."""


def commands(squeue: str = "") -> tuple[SlurmEngine, list[list[str]]]:
    """Return an engine with recorded outputs, and the list of its commands."""
    calls: list[list[str]] = []

    def run(argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        del text
        words = list(argv[2:] if argv[0] == "env" else argv)
        calls.append(words)
        answers = {"sbatch": "7", "squeue": squeue, "scontrol": NODES}
        answer = "h1\nh2\nh3\n" if "hostnames" in words else answers[words[0]]
        return subprocess.CompletedProcess(words, 0, answer, "")

    return SlurmEngine(SETTINGS, TOKEN, run), calls


def test_a_job_has_a_node_for_the_server_and_for_each_client() -> None:
    engine, calls = commands()
    engine.open("g1", 1, ())
    assert "--nodes=3" in next(words for words in calls if words[0] == "sbatch")


def test_the_clients_are_reached_by_steps_and_known_by_their_addresses() -> None:
    engine, calls = commands()
    lease = Lease(gang="g1", number=1, job="7", hosts=HOSTS)
    for _ in range(2):
        clients = engine.clients(lease)
        assert clients is not None
        assert clients.server_address == "10.0.0.2"
        found = {one.host: (one.through, one.address) for one in clients.hosts}
        assert found == {"h1": (SlurmSteps("7"), "10.0.0.1"), "h3": (SlurmSteps("7"), "10.0.0.3")}
    assert len([words for words in calls if words[0] == "scontrol"]) == 1
    alone = msgspec.structs.replace(lease, hosts=("h2",))
    assert engine.clients(alone) is None


def test_the_node_that_failed_is_the_one_that_slurm_takes_for_down() -> None:
    row = f"7|NODE_FAIL|None|h[1-3]|h2|1795448900|1795456100|bw-01234567-g1|{TOKEN} 1\n"
    engine, _ = commands(row)
    lease = engine.open("g1", 1, ())
    ended = engine.state(lease)
    assert (ended.ended, ended.failed_host) == (VoidReason.HOST_LOST, "h3")
