"""Who was busy: the benchmark's own programs, its server, or others, over real servers.

Each test asks for the class and the program of the tasks in `bw why --json`; how busy they
were is the machine's matter. Servers are real: nginx, PostgreSQL, and programs under a name of
their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postgres_server import Postgres, postgres
from ssh_server import free_port
from web_server import nginx

SBIN = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 120
# A generator whose work is done by a child of its own.
GENERATOR = """\
import json, re, subprocess, sys
url, users = sys.argv[1:3]
words = ["wrk", "-t1", f"-c{users}", "-d1s", url]
text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
print(json.dumps({"tps": float(re.search(r"Requests/sec:\\s+([0-9.]+)", text)[1])}))
"""
# Before whatever else runs on the machine, where that is allowed.
BUSY = """\
import contextlib, os, pathlib, time
with contextlib.suppress(OSError):
    pathlib.Path("/proc/self/autogroup").write_text("-5")
for _ in range(len(os.sched_getaffinity(0)) - 1):
    if os.fork() == 0:
        break
end = time.monotonic() + 60
print(flush=True)
while time.monotonic() < end:
    pass
"""


def need(*programs: str) -> None:
    """Skip the test where a program is not installed."""
    for program in programs:
        if shutil.which(program, path=SBIN) is None:
            pytest.skip(f"{program} is not installed")


def bw(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run bw in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        env={**os.environ, "PATH": SBIN},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def explained(directory: Path) -> list[dict[str, Any]]:
    """Return the results that `bw why --json` explains."""
    done = bw(directory, "why", "--json")
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    assert results
    return results


def busy(results: list[dict[str, Any]], of: str) -> set[str]:
    """Return the programs of one class that used CPU time: `own`, `target`, or `other`."""
    windows = [one["window"] for one in results]
    if of == "other":
        return {one["name"] for window in windows for one in window["programs"]}
    tasks = [task for window in windows for task in window["tasks"]]
    return {task["name"] for task in tasks if task.get("of", "own") == of}


def all_cpus_busy(results: list[dict[str, Any]]) -> bool:
    """Return whether every window had all CPUs busy, with some distance to the threshold."""
    for one in results:
        (cpu,) = (row for row in one["use"] if row["name"] == "all" and row["resource"] == "cpu")
        (used,) = (value for value in cpu["utilization"] if value["name"] == "busy")
        if used["value"] < 0.95 * used["of"]:
            return False
    return True


def told(results: list[dict[str, Any]]) -> str:
    """Return all that is said of what limited the results."""
    return json.dumps([(one["sentence"], one["causes"]) for one in results])


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Return the port of an nginx that runs already, and its process."""
    need("nginx")
    home = tmp_path_factory.mktemp("nginx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", SBIN)
        server = nginx(home, "127.0.0.1")
    try:
        yield int((home / "port").read_text()), server.pid
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


# -- searches ----------------------------------------------------------------------------


def test_a_server_that_a_spec_starts_is_the_server(tmp_path: Path) -> None:
    need("nginx")
    spec = str(EXAMPLES / "peak-nginx.toml")
    short = ("--run-length", "1s", "--max-trials", "1", "--seed", "5")
    done = bw(tmp_path, "peak", spec, *short)
    assert done.returncode in (0, 1, 3), done.stderr
    results = explained(tmp_path)
    assert busy(results, "target") == {"nginx"}
    assert "bw-worker-0" in busy(results, "own")
    assert all(name.startswith("bw-") for name in busy(results, "own")), "no bw itself"
    assert "nginx" not in busy(results, "other")


@pytest.mark.parametrize("by", ["option", "spec"])
def test_a_program_generator_is_own_and_a_named_server_is_the_server(
    tmp_path: Path, web: tuple[int, int], by: str
) -> None:
    need("wrk")
    (tmp_path / "gen.py").write_text(GENERATOR)
    port, _ = web
    command = f"{sys.executable} gen.py http://127.0.0.1:{port}/large {{users}}"
    short = ("--hold", "1s", "--highest", "1")
    if by == "option":
        said = ("--command", command, "--throughput", "/tps")
        done = bw(tmp_path, "ramp", *said, *short, "--target-port", str(port))
    else:
        values = '{ throughput_per_s = "/tps" }'
        (tmp_path / "s.toml").write_text(
            f"target = {{ port = {port} }}\n"
            f'[load]\ngenerator = "command"\ncommand = "{command}"\nvalues = {values}\n'
            '[ramp]\naxis = "users"\nhold = "1s"\nhighest = 1\n'
        )
        done = bw(tmp_path, "ramp", "s.toml")
    assert done.returncode in (0, 3), done.stderr
    results = explained(tmp_path)
    assert busy(results, "target") == {"nginx"}
    assert "wrk" in busy(results, "own")
    assert not {"wrk", "nginx"} & busy(results, "other")
    assert {one["figure"]["name"] for one in results} == {"throughput_per_s"}


# -- servers that run already ------------------------------------------------------------


@pytest.mark.parametrize("way", ["port", "pid", "name"])
def test_a_server_that_runs_already_is_named(
    tmp_path: Path, web: tuple[int, int], way: str
) -> None:
    """By its master: the workers, which answer, are below it."""
    need("wrk")
    port, pid = web
    value = {"port": str(port), "pid": str(pid), "name": "nginx"}[way]
    wrk = ("wrk", "-t1", "-c8", "-d1s", f"http://127.0.0.1:{port}/port")
    runs = ("--min-runs", "1", "--max-runs", "1")
    done = bw(tmp_path, "run", f"--target-{way}", value, *runs, "--", *wrk)
    assert done.returncode == 0, done.stderr
    results = explained(tmp_path)
    assert busy(results, "target") == {"nginx"}
    assert "wrk" in busy(results, "own")
    assert "nginx" not in busy(results, "other")


def test_backends_that_a_database_starts_meanwhile_are_its_own(
    tmp_path: Path, database: Postgres
) -> None:
    suite = f"""
target = {{ port = {database.port} }}
[[test]]
exec = {json.dumps(["pgbench", "-S", "-c", "4", "-T", "1", *database.where, "postgres"])}
until = {{ count = 2 }}
"""
    (tmp_path / "s.toml").write_text(suite)
    done = bw(tmp_path, "run", "s.toml")
    assert done.returncode == 0, done.stderr
    results = explained(tmp_path)
    assert busy(results, "target") == {"postgres"}
    assert "pgbench" in busy(results, "own")
    assert "postgres" not in busy(results, "other")
    # How busy a second of pgbench keeps the CPUs depends on the machine.
    if all_cpus_busy(results):
        assert "no resource was saturated" not in told(results)


def test_the_server_of_a_load_is_found_by_its_loopback_port(tmp_path: Path) -> None:
    """Its program is in no list of known servers."""
    program = tmp_path / "my-server"
    program.symlink_to(sys.executable)
    port = free_port()
    words = [program, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    with running(words, tmp_path, stderr=subprocess.DEVNULL):
        load = ("load", "--study", "s", "--rate", "200", "--duration", "1s")
        ready(port)
        done = bw(tmp_path, *load, "--target", f"http://127.0.0.1:{port}/")
    assert done.returncode in (0, 1), done.stderr
    done = bw(tmp_path, "why", "s", "--json")
    results = json.loads(done.stdout)["results"]
    assert busy(results, "target") == {"my-server"}
    assert "bw-worker-0" in busy(results, "own")


def test_a_busy_server_that_nobody_named_is_no_nothing(tmp_path: Path) -> None:
    program = tmp_path / "busy-server"
    program.symlink_to(sys.executable)
    # By its name a generator, which waits by its nature.
    generator = tmp_path / "wrk"
    generator.symlink_to("/bin/sleep")
    with running([program, "-c", BUSY], tmp_path, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        runs = ("--min-runs", "1", "--max-runs", "1")
        done = bw(tmp_path, "run", *runs, "--", str(generator), "1")
        assert done.returncode == 0, done.stderr
        (one,) = results = explained(tmp_path)
        assert one["limited_by"] is None
        assert "no resource was saturated" not in told(results)
        assert "busy-server" in busy(results, "other")
        # On a machine with nothing else to do that is our server.
        first = one["window"]["programs"][0]["name"]
        assert first in one["sentence"] or "unidentified" in one["sentence"]
        if first in one["sentence"]:
            assert f"name it: --target-name {first}" in one["sentence"]
        named = bw(tmp_path, "run", "--target-name", "busy-server", "--", "sleep", "1")
        assert named.returncode == 0, named.stderr
    assert "busy-server" in busy(explained(tmp_path), "target")


REST = {
    "run": ("--", "true"),
    "compare": ("--", "true", "sleep 0"),
    "peak": ("--command", "true {rate}", "--response", "/x", "--limit", "1ms"),
    "load": ("--rate", "1", "--duration", "1s", "--target", "null"),
}


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("run", ("--target-port", "1"), "no process listens on port 1"),
        ("run", ("--target-pid", "4194304"), "there is no process 4194304"),
        ("run", ("--target-unit", "none"), "no process runs in a cgroup of the unit"),
        ("compare", ("--target-name", "none"), "no process named none runs"),
        ("peak", ("--target-port", "1"), "no process listens on port 1"),
        ("load", ("--target-port", "1"), "no process listens on port 1"),
        ("run", ("--target-port", "x"), "'x' is not a port"),
        ("peak", ("--target-name", "/bin/x"), "is not the name of a program"),
    ],
)
def test_a_server_that_is_not_there_is_told_before_the_first_trial(
    tmp_path: Path, command: str, words: tuple[str, str], message: str
) -> None:
    done = bw(tmp_path, command, "--study", "s", *words, *REST[command])
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert words[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_server_that_ends_between_batches_is_a_finding(tmp_path: Path) -> None:
    """The first test's trial ends it; the second test's trials begin without it."""
    with running(["sleep", "60"], tmp_path) as server:
        pid = server.pid
        (tmp_path / "s.toml").write_text(f"""
target = {{ pid = {pid} }}
[[test]]
name = "with"
exec = ["sh", "-c", "sleep 0.3; kill {pid}"]
until = {{ count = 1 }}
[[test]]
name = "without"
exec = ["sleep", "0.3"]
until = {{ count = 1 }}
""")
        done = bw(tmp_path, "run", "--json", "s.toml")
        assert server.wait(PATIENCE_S)
    assert done.returncode == 0, done.stderr
    told = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "server-not-found"]
    assert [one["severity"] for one in told] == ["warning"]
    assert f"there is no process {pid} when trials began" in told[0]["evidence"]
    assert "--target-port" in told[0]["remedy"]


def test_the_server_of_a_comparison_is_the_server(tmp_path: Path, web: tuple[int, int]) -> None:
    need("wrk")
    port, _ = web
    arms = (f"wrk -t1 -c8 -d1s http://127.0.0.1:{port}/port", "sleep 0.3")
    few = ("--min-blocks", "2", "--max-blocks", "2", "--target-port", str(port))
    done = bw(tmp_path, "compare", *few, "--", *arms)
    assert done.returncode in (0, 3), done.stderr
    results = explained(tmp_path)
    driven, other = results
    assert busy([driven], "target") == {"nginx"}
    assert "wrk" in busy([driven], "own")
    assert not {"wrk", "nginx"} & busy(results, "other")
    assert "wrk" not in busy([other], "own")


def test_the_server_of_a_surface_is_the_server(tmp_path: Path, web: tuple[int, int]) -> None:
    port, _ = web
    (tmp_path / "s.toml").write_text(
        f"target = {{ port = {port} }}\n"
        '[load]\ngenerator = "engine"\n'
        f'target = "http://127.0.0.1:{port}/{{page}}"\n'
        '[factors]\npage = ["port", "large"]\n'
        '[peak]\ncriteria = ["mean response < 1s"]\nstart = "200"\nrun_length = "1s"\n'
        "max_trials = 1\nseed = 1\n[surface]\nsamples = 2\n"
    )
    done = bw(tmp_path, "surface", "s.toml")
    assert done.returncode in (0, 1, 3), done.stderr
    results = explained(tmp_path)
    assert {one["sample"]["page"] for one in results} == {"port", "large"}
    assert busy(results, "target") == {"nginx"}
    assert "bw-worker-0" in busy(results, "own")
    assert "nginx" not in busy(results, "other")


def test_a_load_without_a_study_is_not_watched_and_says_so(tmp_path: Path) -> None:
    done = bw(tmp_path, "load", "--target", "null", "--target-name", "x")
    assert done.returncode == 2
    assert "add --study DIR" in done.stderr


def test_a_suite_names_servers_in_four_ways_and_its_mistakes_are_placed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'target = [{ unit = "a" }, { port = 0 }, { pid = "1" }, { name = "x", pid = 1 }]\n'
        '[[test]]\nexec = "true"\n'
    )
    done = bw(tmp_path, "run", "--check", "s.toml")
    assert done.returncode == 2
    for place, message in (
        ("s.toml:1:36:", "'0' is not a port"),
        ("s.toml:1:49:", "pid is a string, expected a whole number"),
        ("s.toml:1:56:", "a target is one of pid, port, unit and name"),
    ):
        assert any(
            line.startswith(place) and message in line for line in done.stderr.splitlines()
        ), (place, done.stderr)


@contextlib.contextmanager
def running(words: list[Any], directory: Path, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own, which is ended at the end."""
    with subprocess.Popen(words, cwd=directory, start_new_session=True, **more) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def ready(port: int) -> None:
    """Wait until a server listens on a port of loopback."""
    import socket
    import time

    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail("the server did not get ready")
