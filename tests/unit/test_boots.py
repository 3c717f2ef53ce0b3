"""Boots of the machine as replicates, on a machine that only says that it restarted."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.errors import Interrupted
from benchwright.machine.restart import restart_problem, resume_file
from benchwright.run import preparation, replicates
from benchwright.run.performer import Performer
from benchwright.study.journal import Study


class Machine:
    """A machine whose boots are numbers. A shutdown interrupts what runs on it."""

    def __init__(self, pointer: Path) -> None:
        self.pointer = pointer
        self.boot = 1
        self.restarts = True

    def ask(self) -> str:
        self.boot += self.restarts
        return ""


def interrupted(_performer: Performer, _until_ns: int) -> None:
    """Wait for a shutdown, which comes."""
    raise Interrupted


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    made = Machine(tmp_path / "state" / "checkpoint")
    made.pointer.parent.mkdir()
    monkeypatch.setattr("benchwright.machine.restart.restart_problem", lambda: ("", ""))
    monkeypatch.setattr(preparation, "boot_id", lambda: f"boot {made.boot}")
    monkeypatch.setattr(replicates, "boot_id", lambda: f"boot {made.boot}")
    monkeypatch.setattr(replicates, "resume_file", lambda: made.pointer)
    monkeypatch.setattr(replicates, "ask_for_restart", made.ask)
    monkeypatch.setattr(Performer, "wait_until", interrupted)
    return made


def paths_and_boots(place: Path) -> list[tuple[str, str]]:
    """Return of each trial its replicate of boot, and what it printed."""
    with (place / "bw-study" / "results" / "s1" / "trials.csv").open() as file:
        return [(row["replicate:boot"], row["value"]) for row in csv.DictReader(file)]


def run_to_the_end(machine: Machine, note: Callable[[], object], *words: str) -> list[int]:
    """Run bw, then what the machine calls at each start, until nothing is left to continue."""
    note()
    statuses = [main([*words])]
    while machine.pointer.exists():
        note()
        statuses.append(main(["resume", str(machine.pointer)]))
    return statuses


def test_each_replicate_has_a_boot_of_its_own(machine: Machine, tmp_path: Path) -> None:
    words = (
        "--metric",
        "value~value=([0-9]+)",
        "--json",
        "--",
        "sh",
        "-c",
        "echo value=$(cat boot)",
    )
    statuses = run_to_the_end(
        machine,
        lambda: (tmp_path / "boot").write_text(f"{machine.boot}0"),
        *("run", "--replicate", "boot=3", "--replicate", "env=2", "--runs", "2", *words),
    )
    assert statuses == [130, 130, 0]
    assert paths_and_boots(tmp_path) == [(n, f"{n}0") for n in "123" for _ in range(4)]
    assert list(machine.pointer.parent.iterdir()) == []


def test_arms_share_a_boot_and_a_boot_that_nobody_asked_for_is_used(
    machine: Machine, tmp_path: Path
) -> None:
    words = ("compare", "--replicate", "boot=3", "--", "true", "true 1")
    assert main([*words]) == 130
    machine.boot += 1
    statuses = [main(["resume", str(machine.pointer)])]
    while machine.pointer.exists():
        statuses.append(main(["resume", str(machine.pointer)]))
    assert statuses[:-1] == [130]
    with contextlib.closing(Study.open_to_read(tmp_path / "bw-study")) as study:
        keys = [entry.key for entry in study.entries(1, ("outcome",))]
    assert sum("/boots/" in key for key in keys) == 3
    assert sum("/restarts/" in key for key in keys) == 2


def test_a_machine_that_does_not_restart_is_not_asked_forever(machine: Machine) -> None:
    machine.restarts = False
    assert main(["run", "--replicate", "boot=2", "--runs", "1", "--", "true"]) == 130
    assert main(["resume", str(machine.pointer)]) == 130
    assert main(["resume", str(machine.pointer)]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--replicate", "boot=3", "--runs", "1", "--", "true"),
        ("compare", "--replicate", "boot=3", "--", "true", "true 1"),
    ],
)
def test_without_what_continues_it_nothing_starts(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    why = ("nothing continues a session after a restart of this machine", "set it up")
    monkeypatch.setattr("benchwright.machine.restart.restart_problem", lambda: why)
    assert main([*words]) == 2
    assert "nothing continues a session" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_tests_that_alternate_have_no_boots(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("run", "--replicate", "boot=3", "--runs", "1", "true 1", "true 2")
    assert main([*words]) == 2
    assert "alternate" in capsys.readouterr().err
    assert not (tmp_path / "bw-study").exists()


def test_the_hosts_of_a_pool_do_not_restart(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text(
        '[replicate]\nlevels = ["boot=3"]\n[[test]]\nname = "t"\nexec = "true"\nuntil = {runs = 1}\n'
    )
    assert main(["run", "--pool", "local:gangs=2", "s.toml"]) == 2
    assert "agent of a gang" in capsys.readouterr().err
    assert not (tmp_path / "bw-study").exists()


def test_boot_is_the_outermost_level(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "--replicate", "env=3", "--replicate", "boot=3", "--runs", "1", "--", "true")
    assert main([*words]) == 2
    assert "boot is the outermost level" in capsys.readouterr().err


def test_what_continues_a_session_is_found(tmp_path: Path) -> None:
    assert resume_file(tmp_path) is None
    script = tmp_path / "etc/rc.local"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n# bw-resume-at-boot /not/this\n/opt/bw-resume-at-boot /var/x y\n")
    assert resume_file(tmp_path) is None, "it is not executable"
    script.chmod(0o755)
    assert resume_file(tmp_path) == Path("/var/x")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / r"bw-resume@var-lib-my\x2dbw-c\xc3\xa9.service").touch()
    assert resume_file(tmp_path) == Path("/var/lib/my-bw/cé")


def test_a_directory_that_does_not_exist_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    script = tmp_path / "etc/rc.local"
    script.parent.mkdir()
    script.write_text(f"bw-resume-at-boot {tmp_path}/none/checkpoint\n")
    script.chmod(0o755)
    why, hint = restart_problem(tmp_path)
    assert "cannot be written" in why
    assert hint == f"install -d -m 700 {tmp_path}/none"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert restart_problem(tmp_path)[0] == "only root restarts the machine"
