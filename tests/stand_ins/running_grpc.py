"""The server of grpc_server.py as a process, and the calls that have ended on it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROTO = """syntax = "proto3";
package demo;
import "kinds/kind.proto";
service Greeter {
  rpc Hello (Request) returns (Reply);
  rpc Watch (Request) returns (stream Reply);
  rpc Upload (stream Request) returns (Reply);
  rpc Chat (stream Request) returns (stream Reply);
}
message Request { string name = 1; int32 count = 2; int32 wait_ms = 3; string status = 4; Kind kind = 5; }
message Reply { string text = 1; }
"""
KIND = 'syntax = "proto3"; package demo; enum Kind { NONE = 0; SOME = 1; }'


def write_protos(directory: Path) -> Path:
    """Write the files of the service; return the first one."""
    (directory / "kinds").mkdir(parents=True)
    (directory / "kinds" / "kind.proto").write_text(KIND)
    (directory / "greeter.proto").write_text(PROTO)
    return directory / "greeter.proto"


def skip_without_grpc() -> None:
    """Skip the test where the server's libraries have no wheel."""
    import pytest

    for name in ("grpc_tools", "grpc_reflection"):
        pytest.importorskip(name, reason="grpcio-tools or grpcio-reflection is not installed")


class GrpcServer:
    """A server, and the calls that have ended on it."""

    def __init__(self, target: str, directory: Path, pid: int) -> None:
        self.target = target
        self.pid = pid
        self.proto = directory / "greeter.proto"
        self._calls = directory / "calls"

    def calls(self, name: str) -> list[dict[str, Any]]:
        """Return the calls whose request has this name."""
        found = map(json.loads, self._calls.read_text().splitlines())
        return [call for call in found if call["name"] == name]


@contextlib.contextmanager
def running_grpc(directory: Path, address: str = "127.0.0.1", *secret: str) -> Iterator[GrpcServer]:
    """Run the server in a new directory."""
    directory.mkdir()
    write_protos(directory)
    command = [sys.executable, str(Path(__file__).with_name("grpc_server.py"))]
    command += [str(directory / "calls"), address, *secret]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        target = process.stdout.readline().strip()
        assert target, "the server did not start"
        yield GrpcServer(target, directory, process.pid)
    finally:
        process.kill()
        process.communicate()
