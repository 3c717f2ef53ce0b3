"""`[remote]` through `bw run`: a server's figures beside a client's, over a real sshd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ssh_server
from ssh_server import SshServer

pytestmark = pytest.mark.skipif(
    bool(ssh_server.missing()), reason=ssh_server.missing() or "-"
)

SUITE = """
[remote]
host = "server"
ssh_config = "{config}"
processes = ["sshd"]
hooks = ["free-memory"]
before = "echo before >>{log}"
after = "echo after >>{log}"

[[test]]
name = "client"
exec = "true"
until = {{count = 2}}
"""


def test_a_suite_measures_its_server(tmp_path: Path) -> None:
    (tmp_path / "ssh").mkdir()
    server, log = SshServer(tmp_path / "ssh"), tmp_path / "log"
    server.write()
    (tmp_path / "s.toml").write_text(SUITE.format(config=server.config, log=log))
    with server.running():
        done = subprocess.run(
            [sys.executable, "-m", "benchwright.cli.main", "run", "s.toml", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"BW_REMOTE_HOST": "another"},
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (test,) = document["tests"]
    counts = {one["name"]: one["count"] for one in test["quantities"]}
    for name in ("sshd_cpu_s", "cpu_s", "free_memory_bytes"):
        assert counts[f"server_{name}"] == 2
    assert log.read_text() == "before\nafter\n" * 2
    assert list(server.temporary.iterdir()) == []
    # The connection is no process that a trial left behind.
    codes = {finding["code"] for finding in document["findings"]}
    assert "processes-left-running" not in codes
