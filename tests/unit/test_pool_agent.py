"""An agent that no controller needs any more."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchwright.features.pool import protocol as p
from benchwright.features.pool.agent import SOCKET
from benchwright.run.viewer import short_path

PATIENCE_S = 60
IDLE_S = 1.0
PROGRAM = f"""
import sys
from benchwright.features.pool import agent
agent.IDLE_S = {IDLE_S}
agent.main(sys.argv[1:])
"""


def test_an_agent_ends_when_it_has_had_neither_task_nor_controller_for_its_time(
    tmp_path: Path,
) -> None:
    agent, controller = _started(tmp_path)
    try:
        with controller:
            # With a controller it stays.
            time.sleep(2 * IDLE_S)
            controller.sendall(p.line_of(p.AskHello()))
            hello = msgspec.json.decode(controller.recv(1 << 16), type=p.Answer)
            assert isinstance(hello, p.AgentHello)
            assert (hello.hosts, hello.running) == (("h1",), "")
        assert agent.wait(PATIENCE_S) == 0
        assert not (tmp_path / SOCKET).exists()
    finally:
        agent.kill()
        agent.wait()


def _started(directory: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Return an agent and a connection to it; on a busy machine an agent may end before the
    connection is made."""
    end_s = time.monotonic() + PATIENCE_S
    words = [sys.executable, "-c", PROGRAM, str(directory), "h1", "0"]
    agent = subprocess.Popen(words)
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(PATIENCE_S)
        try:
            with short_path(directory) as place:
                made.connect(f"{place}/{SOCKET}")
            return agent, made
        except OSError:
            made.close()
            assert time.monotonic() < end_s
            if agent.poll() is not None:
                assert agent.returncode == 0
                agent = subprocess.Popen(words)
            time.sleep(0.01)
