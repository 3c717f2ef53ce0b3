"""`bw peak SPEC.toml` with a real server of the spec: never ready, killed, interrupted, mended;
and the examples with PostgreSQL and Redis.

Loads are short and on the loopback. Nothing here asserts a time or a rate: only what was
told, what can be gone on with, and that no server is left running.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.study.journal import Study
from benchwright.trial import bench as leftovers

PATIENCE_S = 300.0
EXAMPLES = Path(__file__).parents[2] / "examples"
SERVER = '''
"""An HTTP server: PORT; notes its process id, and does not start where `broken` is."""
import http.server, os, sys, time

if os.path.exists("broken"):
    if "hang" in open("broken").read():
        time.sleep(600)
    sys.exit("port taken")

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass

with open("pids", "a") as pids:
    print(os.getpid(), file=pids)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''
SPEC = """
[server]
start = "{python} server.py {{port}}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
ready_timeout = "{ready}"

[load]
target = "http://127.0.0.1:{{port}}/"
connections = 4

[factors]
level = ["a", "b"]

[peak]
criteria = ["p90 response < 10s", "errors < 50%"]
start = "20"
highest = "40"
run_length = "1s"
max_trials = 6
seed = 1
"""
OPTIONS = ("--json", "--study", "study")


class Place:
    """A directory with a spec and its server."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.begun: list[subprocess.Popen[str]] = []
        (directory / "server.py").write_text(SERVER)
        self.write()

    def write(self, ready: str = "60s") -> None:
        """Write the spec."""
        text = SPEC.format(python=sys.executable, ready=ready)
        (self.directory / "spec.toml").write_text(text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start bw here."""
        process = subprocess.Popen(
            [sys.executable, "-m", "benchwright.cli.main", *words],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun.append(process)
        return process

    def end(self) -> None:
        """End what a failed test left."""
        for process in self.begun:
            process.kill()
            process.communicate()

    def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Run bw here and return its exit status, its document and its progress."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert out, err
        return process.returncode, json.loads(out), err

    def servers(self) -> list[int]:
        """Return the process ids of the servers that were ever ready."""
        with contextlib.suppress(FileNotFoundError):
            words = (self.directory / "pids").read_text().split()
            return [int(word) for word in words]
        return []

    def trials(self) -> int:
        """Return how many trials are on record."""
        if not (self.directory / "study" / "journal.sqlite").exists():
            return 0
        with contextlib.closing(Study.open_to_read(self.directory / "study")) as study:
            keys = [key for s in study.sessions() for key in study.load_outcomes(s.number)]
        return sum("/trial/" in key for key in keys)

    def assert_nothing_runs(self) -> None:
        """Assert that what carries the session's token is gone, at once or soon."""
        with contextlib.closing(Study.open_to_read(self.directory / "study")) as study:
            token = study.sessions()[-1].info.options["token"]
        for _look in waits("the end of the server"):
            if not leftovers.leftover_processes(token):
                return


def waits(what: str) -> Iterator[None]:
    """Yield until it is too late."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        yield
        time.sleep(0.01)
    pytest.fail(f"waited {PATIENCE_S:g} s in vain for {what}")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A directory with a spec and its server; nothing is left running."""
    here = Place(tmp_path)
    yield here
    here.end()


def test_a_criterion_that_never_fails_ends_with_a_bound(place: Place) -> None:
    status, document, progress = place.run("peak", "spec.toml", *OPTIONS)
    assert (status, document["status"]) == (3, "never-fails")
    assert document["peak_rate"] == 40.0, "the highest rate that was allowed"
    assert document["sample"] == {"level": "a"}
    assert document["interval"] is None
    assert all(trial["offered"] > 0 for trial in document["trials"])
    assert all(trial["values"]["error_ratio"] == 0 for trial in document["trials"])
    assert progress.count("trial ") >= len(document["trials"])
    assert len(place.servers()) == 1, "one server for the whole sample"
    place.assert_nothing_runs()


@pytest.mark.parametrize(
    ("how", "ready", "told"),
    [("at once", "60s", "port taken"), ("hang", "1s", "not ready within 1 s")],
)
def test_a_server_that_never_gets_ready_is_told_and_can_be_mended(
    place: Place, how: str, ready: str, told: str
) -> None:
    place.write(ready)
    (place.directory / "broken").write_text(how)
    status, document, _ = place.run("peak", "spec.toml", *OPTIONS)
    assert (status, document["status"]) == (1, "failed")
    assert told in document["detail"]
    place.assert_nothing_runs()
    (place.directory / "broken").unlink()
    status, document, _ = place.run("resume", "study", "--json")
    assert (status, document["status"]) == (3, "never-fails")
    place.assert_nothing_runs()


def test_a_server_that_dies_in_mid_search_is_started_again(place: Place) -> None:
    process = place.start("peak", "spec.toml", *OPTIONS)
    for _look in waits("the first trial"):
        if place.trials() >= 1:
            break
    os.kill(place.servers()[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    document = json.loads(out)
    assert (process.returncode, document["status"]) == (3, "never-fails"), err
    assert len(place.servers()) >= 2
    place.assert_nothing_runs()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_that_is_stopped_leaves_no_server_and_goes_on(
    place: Place, number: signal.Signals
) -> None:
    process = place.start("peak", "spec.toml", *OPTIONS)
    for _look in waits("the first trial"):
        if place.trials() >= 1:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    if number is signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, err
        assert json.loads(out)["status"] == "interrupted"
    place.assert_nothing_runs()
    kept = place.trials()
    # What the file says now is nothing to a search that was begun with another text.
    (place.directory / "spec.toml").write_text("[nonsense]")
    status, document, _ = place.run("resume", "study", "--json")
    assert (status, document["status"]) == (3, "never-fails")
    assert len(document["trials"]) > kept >= 1
    assert [trial["number"] for trial in document["trials"]] == list(
        range(1, len(document["trials"]) + 1)
    )
    place.assert_nothing_runs()


def test_a_broken_spec_is_told_at_its_lines(place: Place) -> None:
    text = (place.directory / "spec.toml").read_text()
    broken = text.replace("p90 response < 10s", "p90 reponse < 10s")
    (place.directory / "spec.toml").write_text(broken.replace('"20"', '"fast"'))
    process = place.start("peak", "spec.toml", *OPTIONS)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "spec.toml:15:" in err
    assert "spec.toml:16:" in err
    assert not (place.directory / "study").exists()


# -- the examples ----------------------------------------------------------------------

SHORT = ("--run-length", "2s", "--budget", "8s", "--seed", "5", "--max-trials", "6")
NEEDED = {
    "nginx": shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin"),
    "redis": shutil.which("redis-server"),
    "postgres": shutil.which("pgbench")
    and next(Path("/usr/lib/postgresql").glob("*/bin/initdb"), None),
}


@pytest.mark.parametrize("server", sorted(NEEDED))
def test_an_example_ends_with_its_best_answer_and_no_server(
    place: Place, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not NEEDED[server]:
        pytest.skip(f"{server} is not installed")
    monkeypatch.setenv("PATH", os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    spec = str(EXAMPLES / f"peak-{server}.toml")
    status, document, progress = place.run("peak", spec, *OPTIONS, *SHORT)
    # How far it gets in so little time is the machine's; that it tells it is ours.
    assert document["status"] in ("found", "budget", "undecided", "never-fails"), progress
    assert status == (0 if document["status"] == "found" else 3)
    assert document["peak_rate"] > 0
    assert document["trials"]
    for trial in document["trials"]:
        assert trial["ending"] in ("whole", "left"), trial["failure"]
        assert trial["response"] > 0
        assert trial["completed"] > 0
    place.assert_nothing_runs()
    (note,) = (place.directory / "study").glob("logs/*/state-directory")
    assert not Path(note.read_text().strip()).exists()


def test_a_database_that_is_killed_in_mid_search_is_made_ready_again(place: Place) -> None:
    if not NEEDED["postgres"]:
        pytest.skip("PostgreSQL is not installed")
    spec = str(EXAMPLES / "peak-postgres.toml")
    words = (
        "-P",
        "scale=1",
        "--start",
        "20",
        "--max-trials",
        "3",
        "--run-length",
        "2s",
        "--seed",
        "5",
    )
    process = place.start("peak", spec, *OPTIONS, *words, "--policy", "binsearch")
    for _look in waits("the first trial"):
        assert process.poll() is None, "it ended before its first trial"
        if place.trials() >= 1:
            break
    os.kill(postmaster(place), signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    document = json.loads(out)
    assert process.returncode in (0, 3), err
    assert document["status"] in ("found", "undecided", "never-fails"), err
    assert any(trial["ending"] == "whole" for trial in document["trials"][1:])
    place.assert_nothing_runs()


def postmaster(place: Place) -> int:
    """Return the process id of PostgreSQL, by its own note."""
    (note,) = (place.directory / "study").glob("logs/*/state-directory")
    data = Path(note.read_text().strip()) / "data"
    return int((data / "postmaster.pid").read_text().splitlines()[0])
