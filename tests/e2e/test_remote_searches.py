"""`bw ramp` and `bw surface` with their server on another host, over a real sshd on loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ssh_server
from bw_command import bw
from ssh_server import SshServer

pytestmark = pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-")
SERVER = """
import http.server, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(float(sys.argv[2]) / 1000)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
with open(sys.argv[3], "a") as started:
    started.write(f"{sys.argv[2]} {os.environ['SSH_CONNECTION'].split()[3]} {os.getcwd()}\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
SPEC = """
[remote]
host = "{host}"
ssh_config = "{config}"
copy = ["server.py"]
timeout_s = 60
[server]
start = "{python} server.py {{port}} {{delay_ms}} {started}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
ready_timeout = "60s"
[load]
target = "http://127.0.0.1:{{port}}/"
connections = 4
[factors]
delay_ms = [1, 5]
{factors}
"""
RAMP = """
[ramp]
axis = "users"
start = 1
factor = 2
highest = 4
hold = "1s"
"""
SURFACE = """
[peak]
criteria = ["mean response < 2s"]
start = "20"
run_length = "1s"
max_trials = 1
policy = "binsearch"
[surface]
samples = 4
"""


class Place:
    """A directory with a server's program, and an sshd that two names stand for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "ssh").mkdir()
        self.sshd = SshServer(directory / "ssh")
        self.sshd.write()
        config = self.sshd.config
        config.write_text(config.read_text().replace("Host server\n", "Host server other\n"))
        (directory / "server.py").write_text(SERVER)

    def document(
        self, command: str, table: str, host: str = "server", factors: str = ""
    ) -> dict[str, Any]:
        """Run a search and return its document."""
        text = SPEC.format(
            host=host,
            config=self.sshd.config,
            python=sys.executable,
            started=self.directory / "started",
            factors=factors,
        )
        (self.directory / "spec.toml").write_text(text + table)
        done = bw(self.directory, command, "spec.toml", "--seed", "1", "--json", "--quiet")
        assert done.returncode in (0, 3), done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def starts(self) -> list[list[str]]:
        """Return, of each server that was started, its delay, the port of its sshd and its
        directory."""
        lines = (self.directory / "started").read_text().splitlines()
        return [line.split() for line in lines]

    def loads(self) -> list[str]:
        """Return the names of what `bw why` explains."""
        done = bw(self.directory, "why", "--json")
        assert done.returncode == 0, done.stderr
        return [one["name"] for one in json.loads(done.stdout)["results"]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    with made.sshd.running():
        yield made
        assert list(made.sshd.temporary.iterdir()) == []


def test_a_ramp_raises_the_users_of_a_server_there(place: Place) -> None:
    document = place.document("ramp", RAMP)
    (start,) = place.starts()
    assert start[:2] == ["1", str(place.sshd.port)]
    assert start[2].startswith(str(place.sshd.temporary))
    trials = document["trials"]
    # A level whose growth noise hides is run again.
    assert sorted({one["users"] for one in trials}) == [1, 2, 4]
    assert not any(one["failure"] for one in trials)
    assert all(one["values"]["server_rss_bytes"] > 1e6 for one in trials)
    there = [name for name in place.loads() if name.endswith(" on server")]
    assert len(there) == len(trials)


def test_a_surface_starts_a_server_there_for_each_sample(place: Place) -> None:
    document = place.document(
        "surface", SURFACE, host="{where}", factors='where = ["server", "other"]'
    )
    samples = document["samples"]
    assert len(samples) == 4
    assert [one["failure"] for one in samples if one.get("failure")] == []
    # One server for each sample, in the private directory of its host's connection.
    starts = place.starts()
    assert {port for _, port, _ in starts} == {str(place.sshd.port)}
    directories = {directory for *_, directory in starts}
    assert len(directories) == 2
    assert sorted((where, delay) for delay, _, where in starts) == [
        (where, delay) for where in sorted(directories) for delay in ("1", "5")
    ]
    names = place.loads()
    assert any(name.endswith(" on server") for name in names)
    assert any(name.endswith(" on other") for name in names)
