"""Gangs of a server and clients on this machine: a real nginx, loaded by the clients' engines.

Criteria that always hold make the table known: each search ends with the last rate that it tried.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.core.processes import Process, all_processes
from benchwright.features.pool.types import VoidReason
from benchwright.trial.programs import find_engine
from bw_command import bw
from pool_sessions import PoolSession, check_counts

PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
needs_nginx = pytest.mark.skipif(
    shutil.which("nginx", path=PATH) is None,
    reason="nginx is not installed (apt-get install nginx-light)",
)
CONFIGURE = """
cat >"$1/nginx.conf" <<END
daemon off; worker_processes 1; pid $1/nginx.pid; error_log $1/error.log;
events {}
http {
  access_log $4/access-$2 combined;
  client_body_temp_path $1/a; proxy_temp_path $1/b; fastcgi_temp_path $1/c;
  uwsgi_temp_path $1/d; scgi_temp_path $1/e;
  server { listen $3:$2; location / { return 200 "$3"; } location /ready { access_log off; return 200; } }
}
END
"""
SPEC = """
[server]
configure = "sh configure.sh {{state}} {{port}} {{server_address}} {{here}}"
start = "nginx -p {{state}} -c {{state}}/nginx.conf"
ready = {{ http = "http://{{server_address}}:{{port}}/ready" }}
[load]
target = "http://{{server_address}}:{{port}}/{{level}}"
[factors]
level = [1, 2]
[peak]
criteria = ["mean response < 20s"]
policy = "binsearch"
start = "100"
run_length = "{run_length}"
max_trials = 2
seed = 1
[surface]
samples = 2
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[PoolSession]:
    """Return a session that has not begun, in a directory with `s.toml`."""
    write_spec(tmp_path)
    made = PoolSession(tmp_path, environment(tmp_path))
    yield made
    made.end()


def environment(place: Path) -> dict[str, str]:
    """Return the environment of a session; its processes are known by it."""
    return os.environ | {"PATH": PATH, "BW_TEST": str(place)}


def write_spec(place: Path, run_length: str = "1s") -> None:
    (place / "s.toml").write_text(SPEC.format(run_length=run_length))
    (place / "configure.sh").write_text(CONFIGURE)


def begin(session: PoolSession, pool: str) -> None:
    session.begin("surface", "s.toml", "--study", "st", "--pool", pool)


def results(session: PoolSession) -> dict[str, list[dict[str, Any]]]:
    """Return the results of the engines' loads, by the attempt that measured them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(session.study.glob("pool/s1/*/study/logs/s1/trial-*/result.json")):
        attempt = file.relative_to(session.study).parts[2]
        found.setdefault(attempt, []).append(json.loads(file.read_text()))
    return found


def engines(place: Path) -> list[Process]:
    """Return the engines of the clients, the last one that was started at the end."""
    found = []
    mark = f"BW_TEST={place}".encode()
    for process in all_processes():
        with contextlib.suppress(OSError):
            program = os.readlink(f"/proc/{process.pid}/exe")
            parent = Path(f"/proc/{process.parent}/cmdline").read_bytes()
            own = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            # Those of the server's host are children of the task.
            of_client = parent.endswith(b"bw-engine; exit\0")
            if program.endswith("/bw-engine") and of_client and mark in own:
                found.append(process)
    return sorted(found, key=lambda one: one.identity.started_ticks)


@needs_nginx
def test_the_clients_of_two_gangs_map_one_surface(tmp_path: Path, session: PoolSession) -> None:
    begin(session, "local:gangs=2,clients=2")
    document = session.ended()
    assert {one["peak_rate"] for one in document["samples"]} == {100.0}
    assert not check_counts(session)
    attempts = session.attempts()
    assert all(
        one.hosts == (one.gang, f"{one.gang}-c1", f"{one.gang}-c2") for one in attempts.values()
    )
    issued = 0
    for place, loads in results(session).items():
        for load in loads:
            first, second = load["hosts"]
            assert (first["host"], second["host"]) == attempts[place].hosts[1:]
            parts = [one["counts"]["intended"] for one in load["hosts"]]
            assert max(parts) - min(parts) <= 1
            assert sum(parts) == load["counts"]["intended"]
            completed = [one["counts"]["completed"] for one in load["hosts"]]
            assert sum(completed) == load["counts"]["completed"] > 0
            assert all(one["clock"]["bound_ns"] > 0 for one in load["hosts"])
            issued += load["counts"]["completed"]
    served = "".join(one.read_text() for one in tmp_path.glob("access-*"))
    assert len(served.splitlines()) == issued
    assert wait_for_none(tmp_path) == []


def wait_for_none(place: Path) -> list[Process]:
    """Wait until no engine of a client is left; return those that are."""
    end_s = time.monotonic() + 30
    while (left := engines(place)) and time.monotonic() < end_s:
        time.sleep(0.1)
    return left


@needs_nginx
def test_a_sample_whose_client_is_killed_is_tried_again(
    tmp_path: Path, session: PoolSession
) -> None:
    write_spec(tmp_path, "3s")
    begin(session, "local:gangs=1,clients=2")
    session.wait_for(lambda: len(engines(tmp_path)) == 4)
    # Each client's first engine is the echo of its clock, and the last one has its part of the
    # load.
    os.kill(engines(tmp_path)[-1].pid, signal.SIGKILL)
    document = session.ended()
    assert {one["peak_rate"] for one in document["samples"]} == {100.0}
    assert check_counts(session) == {VoidReason.HOST_LOST: 1}
    (void,) = [one for one in session.attempts().values() if one.void]
    assert void.failed_host in ("g1-c1", "g1-c2")
    assert void.detail == f"{void.failed_host}: the engine ended without a result"
    assert wait_for_none(tmp_path) == []


STOPPED = """#!/bin/sh
case $0 in
{place}/*) ;;
*)  echo >>"$0.starts"
    if [ "$(wc -l <"$0.starts")" = 2 ] && mv {place}/stop {place}/stopped; then kill -STOP $$; fi 2>/dev/null ;;
esac
exec {engine}
"""


@needs_nginx
def test_a_client_that_does_not_arm_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine of its first load is stopped as it starts."""
    write_spec(tmp_path)
    (tmp_path / "stop").touch()
    wrapper = tmp_path / "bw-engine"
    wrapper.write_text(STOPPED.format(place=tmp_path, engine=find_engine()))
    wrapper.chmod(0o755)
    monkeypatch.setenv("BW_ENGINE", str(wrapper))
    session = PoolSession(tmp_path, environment(tmp_path))
    begin(session, "local:gangs=1,clients=1")
    document = session.ended()
    assert (tmp_path / "stopped").exists()
    assert {one["peak_rate"] for one in document["samples"]} == {100.0}
    assert check_counts(session) == {VoidReason.NOT_ARMED: 1}
    (void,) = [one for one in session.attempts().values() if one.void]
    assert void.failed_host == "g1-c1"
    assert wait_for_none(tmp_path) == []


# -- What is refused -----------------------------------------------------------------------

LOAD = 'target = "http://{server_address}:{port}/{level}"'
ELSEWHERE = 'target = "http://192.0.2.1/{level}"\nhosts = ["a", "b"]'


@pytest.mark.parametrize(
    ("load", "place", "message"),
    [
        (ELSEWHERE, "s.toml:8:", "the pool has clients"),
        ('target = "http://127.0.0.1:{port}/{level}"', "s.toml:7:", "loopback"),
        ('target = "{state}/{level}"', "s.toml:7:", "not one server"),
        (
            'generator = "command"\ncommand = "true {level} {rate}"\n'
            'values = { response_ms_mean = "/mean_ms" }',
            *("s.toml:7:", "run our engine, not command"),
        ),
    ],
)
def test_a_load_that_clients_cannot_issue_is_refused(
    tmp_path: Path, load: str, place: str, message: str
) -> None:
    write_spec(tmp_path)
    spec = (tmp_path / "s.toml").read_text().replace(LOAD, load)
    (tmp_path / "s.toml").write_text(spec)
    done = bw(tmp_path, "surface", "s.toml", "--pool", "local:gangs=1,clients=1")
    assert done.returncode == 2
    assert place in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "bw-study").exists()


@pytest.mark.parametrize("clients", ["-1", "two", "1.5", "1025"])
def test_a_wrong_number_of_clients_is_refused(tmp_path: Path, clients: str) -> None:
    write_spec(tmp_path)
    pool = f"local:gangs=1,clients={clients}"
    done = bw(tmp_path, "surface", "s.toml", "--pool", pool)
    assert (done.returncode, "not a whole number" in done.stderr) == (2, True)


def test_clients_need_a_load(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text('[[test]]\nname = "a"\nexec = "true"\n')
    pool = ("--pool", "local:gangs=1,clients=1")
    for words in (("run", "suite.toml", *pool), ("compare", *pool, "--", "true", ":")):
        done = bw(tmp_path, *words)
        assert (done.returncode, "clients issue the load" in done.stderr) == (2, True)


def test_the_address_of_the_server_is_this_machine_without_clients(
    tmp_path: Path, session: PoolSession
) -> None:
    if shutil.which("nginx", path=PATH) is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    begin(session, "local:gangs=1")
    document = session.ended()
    assert {one["peak_rate"] for one in document["samples"]} == {100.0}
    assert not check_counts(session)
