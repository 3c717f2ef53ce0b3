"""A server that already runs and that `[server]` names: watched, and never started or stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.server.workbench import LocalWorkbench
from bw_command import bw
from ssh_server import free_port
from workbenches import workbench_of

SERVER = """
import http.server, os, sys, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
open("server.pid", "w").write(f"{os.getpid()}\\n")
print(flush=True)
server.serve_forever()
"""
SPEC = """
[server]
{named}
{more}
[load]
target = "http://127.0.0.1:{port}/"
connections = 4
[peak]
criteria = ["mean response < 500ms"]
start = "40"
run_length = "1s"
max_trials = 1
"""
SAMPLE_S = 1.0


class RunningServer:
    """A server that the test starts, on a port that stays the same."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        (directory / "server.py").write_text(SERVER)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> int:
        """Start it; return its process id once it listens."""
        argv = [sys.executable, "server.py", str(self.port)]
        self.process = subprocess.Popen(argv, cwd=self.directory, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        return self.process.pid

    def end(self) -> None:
        """Kill it."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def spec(self, named: str = "", more: str = "") -> Path:
        """Write a spec that names it."""
        named = named or f"port = {self.port}"
        path = self.directory / "spec.toml"
        path.write_text(SPEC.format(named=named, more=more, port=self.port))
        return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path)
    yield running
    running.end()


def workbench(server: RunningServer, more: str = "") -> AbstractContextManager[LocalWorkbench]:
    """Return a workbench of a spec that names the server's port."""
    return workbench_of(server.spec(more=more), server.directory)


def run(workbench: LocalWorkbench) -> LoadTrial:
    """Run one short trial."""
    return workbench.run(Probe(40, SAMPLE_S), (), lambda _so_far: False)


@pytest.mark.parametrize("by", ["pid", "pid file", "port", "name"])
def test_a_named_server_is_the_target_and_goes_on_running(server: RunningServer, by: str) -> None:
    assert server.process is not None
    named = {
        "pid": f"pid = {server.process.pid}",
        "pid file": f'pid = "{server.directory}/server.pid"',
        "port": f"port = {server.port}",
        "name": f'name = "{Path(sys.executable).resolve().name}"',
    }[by]
    spec = server.spec(named)
    done = bw(server.directory, "peak", str(spec), "--json", "--quiet")
    assert done.returncode in (0, 3), done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["values"]["server_cpu_s"] > 0
    assert trial["values"]["server_rss_bytes"] > 1e6
    assert trial["values"]["server_write_bytes"] >= 0
    assert server.process.poll() is None
    done = bw(server.directory, "why", "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert "target" in {task.get("of", "own") for task in result["window"]["tasks"]}


def test_a_server_that_does_not_run_is_an_error_at_its_key(server: RunningServer) -> None:
    server.end()
    done = bw(server.directory, "peak", str(server.spec()))
    assert done.returncode == 2
    assert "spec.toml:3:8: no process listens on port" in done.stderr
    assert "[server-not-found]" in done.stderr
    assert not (server.directory / "bw-study").exists()


def test_a_server_that_ended_between_trials_fails_the_trial(server: RunningServer) -> None:
    with workbench(server, 'ready_timeout = "1s"') as made:
        assert run(made).ending is LoadEnding.WHOLE
        server.end()
        trial = run(made)
        assert (trial.ending, trial.marks) == (LoadEnding.FAILED, ("server-not-found",))
        assert trial.failure == f"between two trials the server (port {server.port}) has ended"
        again = run(made)
        assert "was not ready within 1 s (no process listens on port" in again.failure
        server.start()
        assert run(made).ending is LoadEnding.WHOLE


def test_a_server_that_was_restarted_fails_one_trial(server: RunningServer) -> None:
    with workbench(server) as made:
        assert run(made).ending is LoadEnding.WHOLE
        server.end()
        server.start()
        trial = run(made)
        assert (trial.ending, trial.marks) == (LoadEnding.FAILED, ("server-restarted",))
        assert "was restarted" in trial.failure
        assert run(made).ending is LoadEnding.WHOLE


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_ends_or_is_restarted_under_load_fails_the_trial(
    server: RunningServer, again: bool
) -> None:
    assert server.process is not None
    first = server.process.pid

    def kill(_so_far: LoadTrial) -> bool:
        assert server.process is not None
        if server.process.pid == first and server.process.poll() is None:
            server.end()
            if again:
                server.start()
        return False

    with workbench(server) as made:
        trial = made.run(Probe(40, 3.0), (), kill)
    assert (trial.ending, trial.values) == (LoadEnding.FAILED, {})
    mark = "server-restarted" if again else "server-not-found"
    assert trial.marks[-1] == mark
    assert f"the server (port {server.port}) " in trial.failure


def test_commands_before_the_trials_may_start_it(server: RunningServer) -> None:
    """So its absence is no error before the first trial, but a failed trial."""
    server.end()
    spec = server.spec(more='configure = "true"\nready_timeout = "1s"')
    done = bw(server.directory, "peak", str(spec), "--json", "--quiet")
    assert done.returncode == 3, done.stderr
    failure = json.loads(done.stdout)["trials"][0]["failure"]
    assert "no process listens on port" in failure
