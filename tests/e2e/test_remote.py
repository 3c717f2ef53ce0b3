"""`[remote]` through `bw run`: a server's figures beside a client's, over a real sshd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ssh_server
from ssh_server import SshServer
from web_server import nginx

pytestmark = pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-")

BW = [sys.executable, "-m", "benchwright.cli.main"]
EXAMPLES = Path(__file__).parents[2] / "examples"

SUITE = """
[remote]
host = "server"
ssh_config = "{config}"
processes = ["sshd", "nobody-s-daemon"]
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
            [*BW, "run", "s.toml", "--json"],
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
    for name in ("sshd_cpu_s", "free_memory_bytes"):
        assert counts[f"server_{name}"] == 2
    assert "server_nobody_s_daemon_cpu_s" not in counts
    assert log.read_text() == "before\nafter\n" * 2
    assert list(server.temporary.iterdir()) == []
    # The connection is no process that a trial left behind.
    said = {finding["code"]: finding["evidence"] for finding in document["findings"]}
    assert "processes-left-running" not in said
    assert "there is no process nobody-s-daemon" in said["remote-incomplete"]


def test_the_example_tells_what_compressing_costs_the_server(tmp_path: Path) -> None:
    """The paper's case in small: a client's trials, the CPU time of the server's workers."""
    lacking = [name for name in ("nginx", "curl") if shutil.which(name) is None]
    if lacking:
        pytest.skip(f"there is no {', '.join(lacking)} here")
    for name in ("remote-nginx.toml", "remote-requests.sh"):
        shutil.copy(EXAMPLES / name, tmp_path)
    suite = tmp_path / "remote-nginx.toml"
    suite.write_text(suite.read_text().replace("count = 10", "count = 2"))
    for part in ("ssh", "web"):
        (tmp_path / part).mkdir()
    server = SshServer(tmp_path / "ssh")
    server.write()
    with server.running(), nginx(tmp_path / "web", "127.0.0.1") as web:
        page = f"http://127.0.0.1:{(tmp_path / 'web/port').read_text()}/large"
        settings = {"host": "server", "ssh_config": str(server.config)}
        settings |= {"page": page, "requests": "3"}
        defines = [word for item in settings.items() for word in ("-D", "=".join(item))]
        done = subprocess.run(
            [*BW, "run", suite.name, "--json", *defines],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        web.terminate()
    assert done.returncode == 0, done.stderr
    cpu_s = {}
    for test in json.loads(done.stdout)["tests"]:
        means = {one["name"]: one["mean"] for one in test["quantities"]}
        cpu_s[test["name"]] = means["server_nginx_cpu_s"]
        assert means["server_loopback_bytes"] >= 3 * (4 << 20)
    assert cpu_s["gzip"] > 2 * cpu_s["identity"]
