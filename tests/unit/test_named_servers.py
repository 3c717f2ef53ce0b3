"""Servers that are named by process, port, unit or program, on a machine that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.core.hosts import NamedServer, ServerKey, parse_named_server
from benchwright.watch.named_servers import find_server, server_pids

HEAD = "  sl  local_address rem_address   st tx rx tr tm retrnsmt   uid  timeout inode\n"


class Machine:
    """A tree like /proc: init 1, a shell 20 with bw 21, nginx 30 with its worker 31."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        (proc / "net").mkdir(parents=True)
        self.process(1, 0, "systemd")
        self.process(20, 1, "python3")
        self.process(21, 20, "python3")
        self.process(30, 1, "nginx", cgroup="0::/system.slice/nginx.service")
        self.process(31, 30, "nginx", cgroup="0::/system.slice/nginx.service")
        self.process(40, 1, "a-very-long-nam", exe="/opt/a-very-long-name-of-a-server")

    def process(self, pid: int, parent: int, name: str, *, cgroup: str = "", exe: str = "") -> None:
        place = self.proc / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "stat").write_text(f"{pid} ({name}) S {parent} {'0 ' * 20}\n")
        (place / "cgroup").write_text(f"{cgroup}\n")
        if exe:
            (place / "exe").symlink_to(exe)

    def listens(
        self, port: int, inode: int, *pids: int, table: str = "tcp", state: str = "0A"
    ) -> None:
        address = f"0100007F:{port:04X} 00000000:0000 {state} 0:0 0:0 0"
        row = f"   0: {address}  113        0 {inode} 1\n"
        file = self.proc / "net" / table
        file.write_text((file.read_text() if file.exists() else HEAD) + row)
        for pid in pids:
            (self.proc / str(pid) / "fd" / "6").symlink_to(f"socket:[{inode}]")

    def find(self, by: ServerKey, value: str) -> tuple[int, ...]:
        return find_server(NamedServer(by, value), (21,), self.proc).pids

    def why(self, by: ServerKey, value: str) -> str:
        found = find_server(NamedServer(by, value), (21,), self.proc)
        assert not found.pids
        return f"{found.why}: {found.remedy}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "proc")


def test_a_process_a_program_and_a_unit_are_found(machine: Machine) -> None:
    assert machine.find("pid", "30") == (30,)
    assert machine.find("name", "nginx") == (30, 31)
    assert machine.find("unit", "nginx") == machine.find("unit", "nginx.service")
    assert machine.find("unit", "nginx") == (30, 31)
    assert machine.find("name", "a-very-long-name-of-a-server") == (40,)


def test_neither_bw_nor_what_started_it_is_the_server(machine: Machine) -> None:
    assert machine.find("name", "python3") == ()
    machine.process(50, 21, "python3")
    assert machine.find("name", "python3") == (50,)


@pytest.mark.parametrize(("table", "state"), [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07")])
def test_a_port_is_all_that_hold_its_socket(machine: Machine, table: str, state: str) -> None:
    machine.listens(80, 9001, 30, 31, table=table, state=state)
    machine.listens(81, 9002, 40, table=table, state=state)
    assert machine.find("port", "80") == (30, 31)


def test_a_connection_is_no_server(machine: Machine) -> None:
    machine.listens(80, 9001, 30, state="01")
    assert machine.why("port", "80").startswith("no process listens on port 80")


def test_another_users_socket_says_who_may_see_it(machine: Machine) -> None:
    machine.listens(5432, 9001)
    why = machine.why("port", "5432")
    assert "user 113 listens on port 5432" in why
    assert "run bw as root, or name it by --target-unit" in why


def test_what_has_ended_is_not_there(machine: Machine) -> None:
    (machine.proc / "40" / "stat").write_text("40 (nginx) Z 1 0 0 0\n")
    assert machine.why("pid", "40").startswith("there is no process 40")
    assert machine.find("name", "nginx") == (30, 31)


def test_several_are_one_set_and_an_implied_one_may_be_missing(machine: Machine) -> None:
    named = (
        NamedServer("pid", "30"),
        NamedServer("name", "nginx"),
        NamedServer("port", "80", implied=True),
        NamedServer("port", "81"),
    )
    pids, missing = server_pids(named, (21,), machine.proc)
    assert pids == (30, 31)
    assert [one.value for one, _ in missing] == ["81"]


@pytest.mark.parametrize(
    ("by", "text"), [("pid", "0"), ("port", "65536"), ("port", "-1"), ("unit", ""), ("name", "a/b")]
)
def test_what_names_nothing_is_refused(by: ServerKey, text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_named_server(by, text)


def test_a_file_with_a_process_id(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "nginx.pid"
    file.write_text("30\n/var/lib/nginx\n")
    assert parse_named_server("pid", f" {file}") == NamedServer("pid", str(file))
    assert machine.find("pid", str(file)) == (30,)
    file.write_text("99\n")
    assert machine.why("pid", str(file)).startswith(f"there is no process 99 ({file})")
    file.write_text("none")
    assert f"{file} contains no process id" in machine.why("pid", str(file))
    file.unlink()
    assert f"{file}: No such file" in machine.why("pid", str(file))
