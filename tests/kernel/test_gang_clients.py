"""The clients of a gang as processes of this machine: what happens before a load if one does not
answer."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.core.errors import HostError
from benchwright.core.hosts import LocalProcesses, RemoteSettings
from benchwright.core.processes import all_processes, descendants_among
from benchwright.features.load import hosts as load_hosts
from benchwright.features.load import workload as w
from benchwright.features.load.hosts import LoadHosts
from benchwright.features.load.parse import parse_target
from benchwright.features.load.plan import CommandLineLoad, plan_of_command
from benchwright.inputs.mistakes import Where

REQUEST = plan_of_command(
    CommandLineLoad(rate=w.ConstantRate(100_000_000)),
    {"duration_ns": 300_000_000},
    parse_target("null"),
).request


def client(name: str, **settings: str) -> RemoteSettings:
    return RemoteSettings(
        host=name,
        through=LocalProcesses(),
        address="127.0.0.1",
        timeout_s=1,
        **settings,  # type: ignore[arg-type]
    )


def engines() -> list[int]:
    """Return the engines below this process."""
    found = []
    for one in descendants_among(os.getpid(), all_processes()):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{one.pid}/exe").endswith("/bw-engine"):
                found.append(one.pid)
    return found


@pytest.fixture
def hosts() -> Iterator[LoadHosts]:
    """Return two clients; at the end no engine is left."""
    with contextlib.closing(LoadHosts((client("c1"), client("c2")), Where(""))) as made:
        yield made
    assert engines() == []


def test_clients_issue_one_load(hosts: LoadHosts) -> None:
    result = hosts.run(REQUEST).result
    assert [one.host for one in result.hosts] == ["c1", "c2"]
    issued = [one.counts.completed for one in result.hosts if one.counts is not None]
    assert sum(issued) == result.counts.completed > 0
    assert abs(issued[0] - issued[1]) <= 1
    # One machine has one clock.
    clocks = [one.clock for one in result.hosts if one.clock is not None]
    assert all(abs(one.offset_ns) <= one.bound_ns for one in clocks)


def test_a_clock_that_does_not_answer_is_uncertain(hosts: LoadHosts) -> None:
    (echo, _) = sorted(engines())
    os.kill(echo, signal.SIGSTOP)
    with pytest.raises(HostError, match="its clock could not be measured") as raised:
        hosts.run(REQUEST)
    assert raised.value.code == "clock-uncertain"
    assert raised.value.host in ("c1", "c2")


def test_an_engine_that_is_not_ready_in_time_is_not_armed(
    hosts: LoadHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_hosts, "ARMED_S", 0.0)
    with pytest.raises(HostError, match="c1 and c2: not ready to start") as raised:
        hosts.run(REQUEST)
    assert (raised.value.code, raised.value.host) == ("not-armed", "c1")


def test_a_client_without_programs_is_lost(tmp_path: Path) -> None:
    absent = client("c2", programs=str(tmp_path / "absent"))
    with pytest.raises(HostError, match="c2: ") as raised:
        LoadHosts((client("c1"), absent), Where(""))
    assert (raised.value.code, raised.value.host) == ("host-lost", "c2")
    assert engines() == []
