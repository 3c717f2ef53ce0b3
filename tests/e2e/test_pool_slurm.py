"""Sessions on a real Slurm of three nodes, undisturbed and disturbed: nothing is lost, and nothing
counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slurm_cluster
from benchwright.features.pool.types import VoidReason
from bw_command import bw
from pool_sessions import PoolSession, check_counts, table, write_surface
from slurm_cluster import SlurmCluster

POOL = "slurm:partition=bench,gangs=3"
EXAMPLES = Path(__file__).parents[2] / "examples"
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
NGINX = """
[server]
configure = ["./nginx/prepare.sh {state} {port} {workers} {gzip_level} 1 18893"]
start = "nginx -p {state} -c {state}/nginx.conf"
ready = { http = "http://127.0.0.1:{port}/page.txt" }
[load]
target = "http://127.0.0.1:{port}/"
paths = ["/page-1.txt"]
headers = { Accept-Encoding = "gzip" }
[factors]
workers = [1]
gzip_level = [1, 6]
[peak]
criteria = ["mean response < 500ms"]
policy = "binsearch"
start = "20"
run_length = "1s"
max_trials = 2
[surface]
samples = 2
"""
OF_CLIENTS = """
[server]
configure = ["./nginx/prepare.sh {state} {port} 1 {gzip_level} 1 1000"]
environment = { LISTEN = "{server_address}" }
start = "nginx -p {state} -c {state}/nginx.conf"
ready = { http = "http://{server_address}:{port}/page.txt" }
[load]
target = "http://{server_address}:{port}/"
paths = ["/page-1.txt"]
[factors]
gzip_level = [1, 6]
[peak]
criteria = ["mean response < 20s"]
policy = "binsearch"
start = "100"
run_length = "1s"
max_trials = 2
seed = 1
[surface]
samples = 2
"""
SUITE = """
[factors]
n = [1, 2]
[until]
runs = 3
[[test]]
name = "sleep"
exec = "sleep 0.05 && hostname >/dev/null && echo $SLURMD_NODENAME >>hosts"
[[compare]]
arm = [{name = "a", exec = "sleep 0.01"}, {name = "b", exec = "sleep 0.02"}]
max_blocks = 6
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the table of the session, measured by gangs on this machine."""
    return on_this_machine(tmp_path_factory.mktemp("undisturbed"), samples=8)


def on_this_machine(place: Path, *, samples: int) -> list[dict[str, Any]]:
    write_surface(place, samples=samples)
    session = PoolSession(place, os.environ)
    session.begin("surface", "s.toml", "--study", "st", "--pool", "local:gangs=3")
    return table(session.ended())


@pytest.fixture
def session(slurm: SlurmCluster, tmp_path: Path) -> Iterator[PoolSession]:
    """Return a session that has not begun, in a directory with `s.toml`."""
    write_surface(tmp_path, samples=8)
    made = PoolSession(tmp_path, slurm.environment)
    yield made
    made.end()


def begin(session: PoolSession, pool: str = POOL) -> None:
    session.begin("surface", "s.toml", "--study", "st", "--pool", pool)


def wait_for_none(find: Callable[[], list[str]]) -> None:
    end_s = time.monotonic() + slurm_cluster.PATIENCE_S
    while found := find():
        assert time.monotonic() < end_s, found
        time.sleep(0.1)


def test_a_surface_is_measured_by_three_jobs(
    slurm: SlurmCluster, session: PoolSession, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    undisturbed = on_this_machine(tmp_path / "here", samples=12)
    write_surface(tmp_path, samples=12)
    begin(session)
    session.wait_for_running(3)
    names = slurm.ask("squeue", "--noheader", "--format=%j %T").splitlines()
    assert {one.rpartition("-")[2] for one in names} == {f"g{n} RUNNING" for n in (1, 2, 3)}
    assert table(session.ended()) == undisturbed
    assert not check_counts(session)
    assert {one.hosts for one in session.attempts().values()} == {("h1",), ("h2",), ("h3",)}
    wait_for_none(slurm.jobs)
    # Sessions of other tests make directories too; those of this one have its jobs' names.
    (of_session,) = {one.rpartition("-")[0] for one in names}
    wait_for_none(lambda: [str(one) for one in Path("/tmp").glob(f"{of_session}-g*-*")])


def nginx_session(slurm: SlurmCluster, place: Path, spec: str, pool: str) -> PoolSession:
    """Return a session that maps a real nginx."""
    if shutil.which("nginx", path=PATH) is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    (place / "s.toml").write_text(spec)
    shutil.copytree(EXAMPLES / "nginx", place / "nginx")
    session = PoolSession(place, slurm.environment)
    begin(session, pool)
    return session


def test_real_servers_are_mapped_by_jobs(slurm: SlurmCluster, tmp_path: Path) -> None:
    session = nginx_session(slurm, tmp_path, NGINX, "slurm:partition=bench,gangs=2")
    samples = session.ended()["samples"]
    assert all(one["status"] != "failed" for one in samples), session.messages
    assert {one["sample"]["gzip_level"] for one in samples} == {"1", "6"}
    assert all(one["trials"] for one in samples)
    assert not check_counts(session)
    assert len({one.hosts for one in session.attempts().values()}) == 2


def clients_session(slurm: SlurmCluster, place: Path) -> PoolSession:
    """Return a session whose clients load a real nginx; its criteria always hold."""
    pool = "slurm:partition=bench,gangs=1,clients=2"
    return nginx_session(slurm, place, OF_CLIENTS, pool)


def test_the_clients_of_a_job_load_its_server(slurm: SlurmCluster, tmp_path: Path) -> None:
    session = clients_session(slurm, tmp_path)
    (attempt,) = session.wait_for_running(1)
    job = session.lease_of(attempt).job
    assert slurm.ask("squeue", "--noheader", f"--job={job}", "--format=%D") == "3"
    samples = session.ended()["samples"]
    assert {one["peak_rate"] for one in samples} == {100.0}, session.messages
    assert not check_counts(session)
    for one in session.attempts().values():
        assert one.hosts == ("h1", "h2", "h3")
        logs = session.study / "pool" / "s1" / one.id / "study" / "logs" / "s1"
        load = json.loads((logs / "trial-1" / "result.json").read_text())
        assert [host["host"] for host in load["hosts"]] == ["h2", "h3"]
        parts = [host["counts"]["intended"] for host in load["hosts"]]
        assert max(parts) - min(parts) <= 1
        assert sum(parts) == load["counts"]["completed"] > 0
    wait_for_none(slurm.jobs)


def test_a_client_that_is_lost_is_replaced(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Its sample runs on another gang, when its host is back."""
    session = clients_session(slurm, tmp_path)
    (lost,) = session.wait_for_running(1)
    slurm.kill_host(lost.hosts[2])
    session.wait_for(lambda: session.attempts()[lost.id].void is not None)
    slurm.start(lost.hosts[2])
    samples = session.ended()["samples"]
    assert {one["peak_rate"] for one in samples} == {100.0}, session.messages
    assert check_counts(session)[VoidReason.HOST_LOST] == 1
    assert session.attempts()[lost.id].failed_host == lost.hosts[2]


def test_a_suite_and_its_comparison_run_in_jobs(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    session = PoolSession(tmp_path, slurm.environment)
    session.begin("run", "suite.toml", "--study", "st", "--pool", POOL)
    document = session.ended()
    answers = {one["name"]: one["trials"] for one in document["answers"]}
    assert answers["sleep n=1"] == answers["sleep n=2"] == 3
    assert len(document["comparisons"]) == 2
    assert not check_counts(session)
    ran = (tmp_path / "hosts").read_text().split()
    assert len(ran) == 6
    assert set(ran) <= set(slurm.hosts)
    # A part of a session runs on one host.
    hosts = {one.place: one.hosts for one in session.attempts().values()}
    assert len(hosts) == 4
    of_tests = {
        one.hosts
        for one in session.attempts().values()
        if one.name.startswith("test ") and one.is_recorded
    }
    assert of_tests
    codes = {one["code"] for one in document["findings"]}
    assert ("gang-confounded" in codes) is (len(of_tests) == 2)
    done = bw(tmp_path, "compare", "st:sleep:n=1", "st:sleep:n=2", "--json")
    assert done.returncode in (0, 3), done.stderr
    found = {one["code"] for one in json.loads(done.stdout)["findings"]}
    assert ("gang-confounded" in found) is (len(of_tests) == 2)


def test_each_replicate_of_a_host_is_measured_by_a_node_of_its_own(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    session = PoolSession(tmp_path, slurm.environment)
    design = ("--replicate", "host=3", "--runs", "2", "--pool", POOL, "--json")
    command = "echo $SLURMD_NODENAME"
    session.begin("run", "--study", "st", *design, "--", "sh", "-c", command)
    session.ended()
    made = [one for one in session.attempts().values() if one.is_recorded]
    assert sorted(one.hosts for one in made) == [(host,) for host in sorted(slurm.hosts)]
    log = (tmp_path / "st" / "results" / "s1" / "sh.log").read_text().split("\n")
    by_number = {one.replicate: one.hosts[0] for one in made}
    expected = [by_number[number] for number in (1, 2, 3) for _ in range(2)]
    assert [line for line in log if line in slurm.hosts] == expected


def test_a_comparison_runs_in_one_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    session = PoolSession(tmp_path, slurm.environment)
    arms = ("printenv SLURMD_NODENAME >>hosts", "echo $SLURMD_NODENAME >>hosts")
    pool = "slurm:partition=bench,gangs=1"
    words = ("--max-blocks", "6", "--study", "st", "--pool", pool)
    session.begin("compare", *words, *arms)
    session.ended()
    assert not check_counts(session)
    ran = (tmp_path / "hosts").read_text().split()
    assert len(ran) >= 6
    assert len(set(ran)) == 1


def test_jobs_that_are_cancelled_suspended_and_requeued(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    begin(session)
    first, second, third = (session.lease_of(one).job for one in session.wait_for_running(3))
    slurm.ask("scancel", first)
    slurm.ask("scontrol", "suspend", second)
    assert slurm.run("scontrol", "requeue", third).returncode != 0
    time.sleep(0.3)
    slurm.ask("scontrol", "resume", second)
    assert table(session.ended()) == undisturbed
    voids = check_counts(session)
    assert voids[VoidReason.SUSPENDED] >= 1
    # An agent that is asked to end reports that before Slurm reports the end of the job.
    assert voids[VoidReason.CANCELLED] + voids[VoidReason.PREEMPTED] >= 1


def test_a_restart_of_slurmctld_loses_nothing(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    begin(session)
    session.wait_for_running(1)
    slurm.kill("slurmctld")
    slurm.start("slurmctld")
    assert table(session.ended()) == undisturbed
    check_counts(session)


def test_agents_and_controllers_that_are_killed(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    begin(session)
    lost = session.wait_for_running(2)[0]
    os.kill(session.agent_of(lost), signal.SIGKILL)
    session.wait_for(lambda: session.attempts()[lost.id].void is not None)
    session.wait_for_running(2)
    session.kill()
    session.begin("resume", "st")
    assert table(session.ended()) == undisturbed
    assert check_counts(session)[VoidReason.AGENT_LOST] >= 1
    wait_for_none(slurm.jobs)


def test_an_interrupt_ends_the_jobs_and_resume_continues(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    begin(session)
    session.wait_for_running(2)
    assert session.process is not None
    session.process.send_signal(signal.SIGINT)
    assert session.process.wait(slurm_cluster.PATIENCE_S) == 130, session.messages
    wait_for_none(slurm.jobs)
    session.begin("resume", "st")
    assert table(session.ended()) == undisturbed
    check_counts(session)


def test_a_deadline_ends_the_jobs_and_resume_continues(slurm: SlurmCluster, tmp_path: Path) -> None:
    write_surface(tmp_path, samples=8, sleep_s=1.5, deadline_s=5)
    session = PoolSession(tmp_path, slurm.environment)
    begin(session)
    try:
        for _ in range(20):
            document = session.ended()
            wait_for_none(slurm.jobs)
            if document["status"] != "deadline":
                break
            session.begin("resume", "st")
        # The searches are of three trials, whose claims may not hold.
        assert document["status"] in ("complete", "undecided")
        assert set(check_counts(session)) <= {VoidReason.DEADLINE}
    finally:
        session.end()


def test_a_host_that_is_lost(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    """Its sample runs on another host."""
    begin(session)
    lost = session.wait_for_running(3)[0]
    slurm.kill_host(lost.hosts[0])
    assert table(session.ended()) == undisturbed
    assert check_counts(session)[VoidReason.HOST_LOST] >= 1


def test_a_host_whose_slurmd_is_killed_finishes_its_samples(
    slurm: SlurmCluster, session: PoolSession, undisturbed: list[dict[str, Any]]
) -> None:
    begin(session)
    slurm.kill(session.wait_for_running(3)[0].hosts[0])
    assert table(session.ended()) == undisturbed
    check_counts(session)


def test_a_pool_that_slurm_refuses_starts_nothing(slurm: SlurmCluster, tmp_path: Path) -> None:
    write_surface(tmp_path)
    for pool, complaint in (
        ("slurm:partition=nope,gangs=1", "invalid partition specified: nope"),
        ("slurm:constraint=gpu,gangs=1", "Invalid feature specification"),
    ):
        done = bw(
            tmp_path, *("surface", "s.toml", "--study", "st", "--pool", pool), env=slurm.environment
        )
        assert done.returncode == 2
        assert complaint in done.stderr
        assert not (tmp_path / "st").exists()


def test_slurmctld_that_is_down_is_reported(slurm: SlurmCluster, tmp_path: Path) -> None:
    write_surface(tmp_path)
    slurm.kill("slurmctld")
    done = bw(
        tmp_path, *("surface", "s.toml", "--study", "st", "--pool", POOL), env=slurm.environment
    )
    assert done.returncode == 1
    assert "Slurm does not answer" in done.stderr
    assert not (tmp_path / "st").exists()


def test_without_slurm_the_packages_are_named(tmp_path: Path) -> None:
    write_surface(tmp_path)
    done = bw(
        tmp_path,
        *("surface", "s.toml", "--study", "st", "--pool", POOL),
        env=os.environ | {"PATH": "/nonexistent"},
    )
    assert done.returncode == 2
    assert "slurm-client" in done.stderr
    assert "munge" in done.stderr
