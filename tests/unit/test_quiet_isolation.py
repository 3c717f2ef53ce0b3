"""Isolation by version 2 of cgroups: its controller comes and goes with the transaction."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from benchwright.features.quiet.hold import Quieted, QuietRequest
from benchwright.features.quiet.report import restore_findings
from benchwright.features.quiet.types import AS_BEFORE, parse_settings
from made_up_machine import MadeUp, made_up, snapshot

CONTROL = "cgroup.subtree_control"


def isolated(host: MadeUp, place: Path) -> Quieted:
    wanted = parse_settings(["isolation"])
    return Quieted(QuietRequest(wanted, host=host, directory=place / "state"))


def into_the_box(host: MadeUp) -> None:
    """Put all tasks of the root into a group, as systemd does."""
    tasks = (host.groups / "cgroup.procs").read_text().split()
    with (host.groups / "box/cgroup.procs").open("a") as box:
        box.write("\n".join(tasks))
    for pid in tasks:
        (host.proc / pid / "cgroup").write_text("0::/box")
    (host.groups / "cgroup.procs").write_text("")


def test_the_controller_is_switched_on_first_and_off_last(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m", version=2)
    before = snapshot(host)
    assert "sys/fs/cgroup/box/cpuset.cpus" not in before
    with isolated(host, tmp_path) as held:
        items = [done.change.item for done in held.quiet.done]
        assert "cpuset" in (host.groups / CONTROL).read_text()
    assert items[0] == "controller"
    assert held.restored is not None
    assert held.restored.undone[-1].change.item == "controller"
    assert snapshot(host) == before


def test_groups_that_had_no_processors_of_their_own_are_narrowed(tmp_path: Path) -> None:
    """Their file is not there before the controller is: all of a systemd's services."""
    host = made_up(tmp_path / "m", version=2)
    into_the_box(host)
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        assert (host.groups / "box/cpuset.cpus").read_text().strip() == "0"
        assert (host.groups / "bw-bench/cpuset.cpus").read_text().strip() == "1-3"
        assert not (host.groups / "box/web/cpuset.cpus").exists()
        assert held.quiet.lacking == ()
    assert snapshot(host) == before


def test_a_controller_that_is_on_stays_on(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m", version=2)
    host.write(host.groups / CONTROL, "+cpuset")
    (host.groups / "box/cpuset.cpus").write_text("1-3")
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        items = [done.change.item for done in held.quiet.done]
        assert "controller" not in items
        assert (host.groups / "box/cpuset.cpus").read_text().strip() == "0"
    assert snapshot(host) == before


@pytest.mark.parametrize("tasks", [True, False])
def test_a_group_that_had_no_processors_of_its_own_gets_all_back(
    tmp_path: Path, tasks: bool
) -> None:
    """Where the controller stays on: the kernel refuses to give it none while it has tasks."""
    host = made_up(tmp_path / "m", version=2)
    host.write(host.groups / CONTROL, "+cpuset")
    if not tasks:
        (host.groups / "box/web/cgroup.procs").write_text("")
    with isolated(host, tmp_path) as held:
        assert (host.groups / "box/cpuset.cpus").read_text().strip() == "0"
    given = (host.groups / "box/cpuset.cpus").read_text().strip()
    assert given == ("0-3" if tasks else "")
    assert held.restored is not None
    assert held.restored.failed == held.restored.foreign == ()


def test_a_controller_that_somebody_switched_off_meanwhile_is_as_before(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m", version=2)
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        host.write(host.groups / CONTROL, "-cpuset")
    assert held.restored is not None
    assert held.restored.failed == ()
    assert held.restored.undone[-1].how == AS_BEFORE
    assert snapshot(host) == before
    (doubt,) = restore_findings(held.restored, late=False)
    assert (doubt.code, doubt.subject) == ("quiet-reverted", "quiet isolation")
    assert "reverted before the end: " in doubt.evidence
    told = "controller (bw set 'on', at the end it was 'off')"
    assert told in doubt.evidence


@pytest.mark.parametrize("ended", [True, False])
def test_processors_that_were_taken_from_a_group_are_told_and_a_group_that_ended_not(
    tmp_path: Path, ended: bool
) -> None:
    host = made_up(tmp_path / "m", version=2)
    host.write(host.groups / CONTROL, "+cpuset")
    (host.groups / "box/cpuset.cpus").write_text("1-3")
    with isolated(host, tmp_path) as held:
        if ended:
            shutil.rmtree(host.groups / "box")
        else:
            host.write(host.groups / CONTROL, "-cpuset")
    assert held.restored is not None
    told = [one.evidence for one in restore_findings(held.restored, late=False)]
    assert ["box/cpuset.cpus" in text for text in told] == ([] if ended else [True])


@pytest.mark.parametrize("others", [True, False])
def test_tasks_without_an_id_here_are_counted_and_not_moved(tmp_path: Path, others: bool) -> None:
    """The kernel tells them as 0; written back, that would move the one that writes."""
    host = made_up(tmp_path / "m")
    root = host.groups / "cgroup.procs"
    root.write_text("0\n" + (root.read_text() if others else "31"))
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        assert root.read_text().split() == ["0", "2"][: 1 + others]
        (told,) = (o.why for o in held.quiet.lacking if "cannot be moved" in o.why)
        kernel = "1 threads" if others else "0 threads"
        assert f"({kernel} of the kernel, 1 outside our PID namespace)" in told
        assert told.startswith(f"{1 + others} tasks")
    assert snapshot(host) == before


def test_a_root_with_tasks_without_an_id_here_is_not_empty(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m", version=2)
    into_the_box(host)
    (host.groups / "cgroup.type").write_text("domain")
    (host.groups / "cgroup.procs").write_text("0")
    with isolated(host, tmp_path) as held:
        (one,) = held.quiet.lacking
        assert "belongs to a container" in one.why


def test_each_process_of_ours_is_moved_once_and_a_child_of_meanwhile_too(tmp_path: Path) -> None:
    class Forking(MadeUp):
        """The first of ours that is moved had begun another just before."""

        moved: ClassVar[list[str]] = []

        def write(self, path: Path, text: str) -> None:
            if path.parent.name == "bw-bench" and path.name == "cgroup.procs":
                if not self.moved:
                    self._fork()
                self.moved.append(text)
            super().write(path, text)

        def _fork(self) -> None:
            (self.proc / "32").mkdir()
            stat = (self.proc / "31/stat").read_text().split()
            text = " ".join(["32", "(child)", "S", "31", *stat[4:]])
            (self.proc / "32/stat").write_text(text)
            (self.proc / "32/cgroup").write_text("3:cpuset:/")
            with (self.groups / "cgroup.procs").open("a") as tasks:
                tasks.write("\n32")

    made_up(tmp_path / "m")
    host = Forking(tmp_path / "m")
    with isolated(host, tmp_path):
        assert host.moved == ["31", "32"]
        bench = (host.groups / "bw-bench/cgroup.procs").read_text().split()
        assert bench == ["31", "32"]


def test_in_a_containers_root_tasks_could_not_return_and_are_left(tmp_path: Path) -> None:
    """It has a type, as only a root that is a part of another tree has."""
    host = made_up(tmp_path / "m", version=2)
    (host.groups / "cgroup.type").write_text("domain")
    with isolated(host, tmp_path) as held:
        assert held.quiet.done == ()
        (one,) = held.quiet.lacking
        assert "belongs to a container: tasks could not return" in one.why
    into_the_box(host)
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        assert held.quiet.lacking == ()
    assert snapshot(host) == before
