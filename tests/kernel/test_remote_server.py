"""`[remote]` of a spec: a server, or a generator, on another host, over a real sshd."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

import ssh_server
from benchwright.core.processes import all_processes
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.server.workbench import LocalWorkbench
from bw_command import bw
from load_hosts import until
from ssh_server import SshServer, free_port, namespace
from web_server import nginx
from workbenches import workbench_of

pytestmark = [
    pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-"),
    pytest.mark.timeout(180),
]
BW = (sys.executable, "-m", "benchwright.cli.main")
PATIENCE_S = 60
SERVER = """
import http.server, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/die":
            print("going", file=sys.stderr, flush=True)
            os._exit(9)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
open(sys.argv[1] + "/pid", "w").write(str(os.getpid()))
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""
SPEC = """
[remote]
host = "server"
ssh_config = "{config}"
copy = ["server.py"]
timeout_s = 30
[server]
configure = ["mkdir {{state}}/made"]
start = "{before}{python} server.py {{state}} {{port}}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
{server}
[load]
target = "http://127.0.0.1:{{port}}{path}"
connections = 4
[peak]
criteria = ["mean response < 500ms"]
start = "40"
run_length = "1s"
max_trials = 3
policy = "binsearch"
"""


class Place:
    """A directory with a spec of a server on another host, and an sshd."""

    def __init__(self, directory: Path, sshd: SshServer) -> None:
        self.directory, self.sshd = directory, sshd
        (directory / "server.py").write_text(SERVER)

    def spec(self, server: str = "", path: str = "/", before: str = "") -> Path:
        """Write the spec."""
        file = self.directory / "spec.toml"
        file.write_text(
            SPEC.format(
                config=self.sshd.config,
                server=server,
                before=before,
                path=path,
                python=sys.executable,
            )
        )
        return file

    def write(self, text: str) -> str:
        """Write a spec of one's own; return its name."""
        (self.directory / "spec.toml").write_text(text)
        return "spec.toml"

    def left(self) -> list[str]:
        """Return what is left of the private directories there, and of the processes in them."""
        places = [one.name for one in self.sshd.temporary.iterdir()]
        return [*places, *(str(one) for one in self.processes())]

    def processes(self) -> list[int]:
        """Return the processes whose files are in a private directory there."""
        found = []
        for process in all_processes():
            with contextlib.suppress(OSError):
                where = os.readlink(f"/proc/{process.pid}/cwd")
                words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")
                if str(self.sshd.temporary) in where + words and process.is_alive:
                    found.append(process.pid)
        return found

    def nothing_left(self) -> bool:
        """Wait until nothing is left; return whether that came to be."""
        return until(lambda: not self.left())

    def workbench(self, **texts: str) -> AbstractContextManager[LocalWorkbench]:
        """Return the workbench of the spec."""
        return workbench_of(self.spec(**texts), self.directory)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    server.write()
    with server.running():
        yield server


@pytest.fixture
def place(tmp_path: Path, sshd: SshServer) -> Iterator[Place]:
    made = Place(tmp_path, sshd)
    yield made
    assert made.nothing_left(), made.left()


def run(workbench: LocalWorkbench) -> LoadTrial:
    """Run one short trial."""
    return workbench.run(Probe(40, 1.0), (), lambda _so_far: False)


def results(directory: Path) -> list[dict[str, Any]]:
    """Return what `bw why` explains."""
    done = bw(directory, "why", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


# -- the server there --------------------------------------------------------------------


def test_nginx_on_a_host_with_its_own_network(tmp_path: Path) -> None:
    """As in the workbench paper: the server's host and the client's are different."""
    if shutil.which("nginx") is None or shutil.which("ip") is None or os.geteuid():
        pytest.skip("it needs nginx, and root for a network namespace")
    with ExitStack() as stack:
        name, address = namespace(stack)
        (tmp_path / "ssh").mkdir()
        sshd = SshServer(tmp_path / "ssh", address)
        sshd.write()
        stack.enter_context(sshd.running("ip", "netns", "exec", name))
        # nginx's workers are another user, who may not enter a test's directory.
        public = stack.enter_context(tempfile.TemporaryDirectory(prefix="bw-test-"))
        os.chmod(public, 0o755)
        examples = Path(__file__).parents[2] / "examples"
        shutil.copytree(examples / "nginx", tmp_path / "nginx")
        text = (examples / "peak-remote-nginx.toml").read_text()
        spec = tmp_path / "spec.toml"
        spec.write_text(
            text.replace(
                'host = "web"',
                f'host = "server"\nssh_config = "{sshd.config}"\ndirectory = "{public}"',
            )
            .replace("//web:", f"//{address}:")
            .replace('"web"', f'"{address}"')
        )
        words = ("--max-trials", "2", "--run-length", "1s")
        done = bw(tmp_path, "peak", "spec.toml", *words, "--json", "--quiet")
        # On a busy machine the responses may be too long at every rate.
        assert done.returncode in (0, 1, 3), done.stderr
        trials = json.loads(done.stdout)["trials"]
        assert [one["failure"] for one in trials if one["failure"]] == []
        assert all(one["values"]["server_cpu_s"] > 0 for one in trials)
        there = [one for one in results(tmp_path) if one["name"].endswith(" on server")]
        assert there
        for one in there:
            tasks = {task["name"]: task.get("of", "own") for task in one["window"]["tasks"]}
            assert tasks["nginx"] == "target"
            # The interface of that namespace, and not those of this machine.
            rows = [row for row in one["use"] if row["resource"] == "network"]
            assert f"{name}b" in {row["name"] for row in rows}
        assert os.listdir(public) == []


def test_a_server_lives_for_a_sample_and_leaves_nothing(place: Place) -> None:
    with place.workbench() as workbench:
        assert run(workbench).ending is LoadEnding.WHOLE
        state = Path(workbench.values["state"])
        assert state.parent.parent == place.sshd.temporary
        assert (state / "made").is_dir()
        pid = (state / "pid").read_text()
        assert run(workbench).ending is LoadEnding.WHOLE
        assert (state / "pid").read_text() == pid


def test_a_daemon_there_is_found_and_ended(place: Place) -> None:
    with place.workbench(server="daemon = true", before="setsid --fork ") as workbench:
        assert run(workbench).ending is LoadEnding.WHOLE
        pid = Path(workbench.values["state"], "pid").read_text()
        assert int(pid) in place.processes()


def test_a_server_that_dies_there_is_a_failed_trial_with_its_log(place: Place) -> None:
    with place.workbench(path="/die") as workbench:
        trial = run(workbench)
    assert trial.ending is LoadEnding.FAILED
    assert "the server has ended; its log ends: going" in trial.failure


def test_a_command_that_fails_there_is_reported(place: Place) -> None:
    with place.workbench(server='directory = "made"') as workbench:
        trial = run(workbench)
    assert trial.ending is LoadEnding.FAILED
    assert trial.failure.startswith("configure (mkdir ")


def test_a_program_that_is_not_there_is_a_failed_trial(place: Place) -> None:
    file = place.spec()
    name = place.write(file.read_text().replace(sys.executable, "no-such-server"))
    done = bw(place.directory, "peak", name, "--json", "--quiet")
    assert done.returncode in (1, 3), done.stderr
    failure = json.loads(done.stdout)["trials"][0]["failure"]
    assert "the server ended before it was ready" in failure
    assert "no-such-server: not found" in failure


# -- a server that runs there already ----------------------------------------------------


@pytest.mark.parametrize("by", ["pid", "pid file", "port", "name"])
def test_a_server_that_runs_there_is_watched_there(place: Place, by: str) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("there is no nginx here")
    # Other tests run nginx at the same time.
    own_name = f"web-{os.getpid()}"
    process = nginx(place.directory, "127.0.0.1", name=own_name)
    try:
        port = (place.directory / "port").read_text()
        named = {
            "pid": f"pid = {process.pid}",
            "pid file": f'pid = "{place.directory}/nginx.pid"',
            "port": f"port = {port}",
            "name": f'name = "{own_name}"',
        }[by]
        name = place.write(
            f'[remote]\nhost = "server"\nssh_config = "{place.sshd.config}"\n'
            f'[server]\n{named}\n[load]\ntarget = "http://127.0.0.1:{port}/port"\n'
            'connections = 4\n[peak]\ncriteria = "1s"\nstart = "400"\nmax_trials = 1\n'
            'run_length = "1s"\n'
        )
        done = bw(place.directory, "peak", name, "--json", "--quiet")
        assert done.returncode == 3, done.stderr
        (trial,) = json.loads(done.stdout)["trials"]
        assert trial["values"]["server_rss_bytes"] > 1e6
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()
    done = bw(place.directory, "peak", name, "--study", "other")
    assert done.returncode == 2
    assert "[server-not-found]" in done.stderr
    assert " on server" in done.stderr
    assert "spec.toml:5:" in done.stderr


# -- the generator there -----------------------------------------------------------------

GENERATOR = """#!/bin/sh
sleep "$2"
printf '{"mean": %s, "where": "%s"}\\n' "$1" "$PWD"
cat "$3/note"
"""


def test_a_generator_there_reads_and_writes_files_there(place: Place) -> None:
    (place.directory / "gen.sh").write_text(GENERATOR)
    (place.directory / "gen.sh").chmod(0o755)
    (place.directory / "data").mkdir()
    (place.directory / "data" / "note").write_text("\n")
    name = place.write(
        f'[remote]\nhost = "server"\nrun = "load"\nssh_config = "{place.sshd.config}"\n'
        'copy = ["gen.sh", "data"]\n[load]\ngenerator = "command"\n'
        'command = "./gen.sh {rate} {duration} data"\n'
        'values = { response_ms_mean = "/mean" }\n'
        '[peak]\ncriteria = "40ms"\nstart = "10"\nrun_length = "1s"\nmax_trials = 2\n'
        'policy = "binsearch"\n'
    )
    done = bw(place.directory, "peak", name, "--json", "--quiet")
    assert done.returncode in (0, 3), done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert trials[0]["response"] == trials[0]["rate"]
    output = place.directory / "bw-study" / "logs" / "s1" / "trial-1" / "exec-1.out"
    where = json.loads(output.read_text())["where"]
    assert where.startswith(f"{place.sshd.temporary}/bw-remote.")


# -- faults of the connection ------------------------------------------------------------


def test_a_host_that_nobody_answers_at_is_an_error(place: Place) -> None:
    text = place.spec().read_text()
    config = place.directory / "config"
    known = place.sshd.config.read_text()
    config.write_text(known.replace(f"Port {place.sshd.port}", f"Port {free_port()}"))
    name = place.write(text.replace(str(place.sshd.config), str(config)))
    done = bw(place.directory, "peak", name)
    assert done.returncode == 2
    assert "spec.toml:3:8: no connection to server: ssh: connect to host" in done.stderr
    assert "[remote-unavailable]" in done.stderr


def test_a_host_whose_key_is_not_known_is_not_trusted(place: Place) -> None:
    text = place.spec().read_text()
    config, known = place.directory / "config", place.directory / "known"
    known.write_text("")
    own = place.sshd.config.read_text()
    config.write_text(own.replace(str(place.sshd.known_hosts), str(known)))
    name = place.write(text.replace(str(place.sshd.config), "config"))
    done = bw(place.directory, "peak", name)
    assert done.returncode == 2
    assert "no connection to server: Host key verification failed." in done.stderr
    assert known.read_text() == ""


def test_a_file_that_is_missing_is_an_error_at_its_key(place: Place) -> None:
    (place.directory / "server.py").unlink()
    done = bw(place.directory, "peak", str(place.spec()))
    assert done.returncode == 2
    assert "spec.toml:5:8:" in done.stderr
    assert "server.py cannot be copied: No such file or directory" in done.stderr


def sessions(sshd: SshServer) -> list[int]:
    """Return the processes of sshd that hold a connection of a client."""
    every = all_processes()
    listener = []
    for one in every:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{one.pid}/cmdline").read_bytes()
            if f"{sshd.config.parent}/sshd_config".encode() in words:
                listener.append(one.pid)
    return [one.pid for one in every if one.parent in listener]


def started(place: Place, *words: str) -> subprocess.Popen[bytes]:
    """Start a search, and wait until its server runs there."""
    process = subprocess.Popen([*BW, *words], cwd=place.directory, stderr=subprocess.PIPE)
    ready = f"{place.sshd.temporary.name}/*/state/pid"
    assert until(lambda: list(place.sshd.temporary.parent.glob(ready)))
    return process


def test_a_connection_that_is_lost_ends_the_search_which_goes_on_later(place: Place) -> None:
    place.spec()
    process = started(place, "peak", "spec.toml", "--run-length", "2s")
    for pid in sessions(place.sshd):
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, errors
    assert b"server: the connection was lost" in errors
    assert b"[remote-lost]" in errors
    assert place.nothing_left(), place.left()
    done = bw(place.directory, "resume", "--json", "--quiet")
    assert done.returncode in (0, 3), done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert len(trials) == 3
    assert not any(one["failure"] for one in trials)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_there_when_bw_is_killed_or_interrupted(
    place: Place, number: signal.Signals
) -> None:
    place.spec()
    process = started(place, "peak", "spec.toml", "--run-length", "60s")
    assert place.processes()
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert place.nothing_left(), place.left()
