"""Isolation by version 2 of cgroups: its controller comes and goes with the transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.machine.quiet.quieted import Asked, Quieted
from benchwright.model.quiet import AS_BEFORE, wishes
from made_up_machine import MadeUp, made_up, snapshot

CONTROL = "cgroup.subtree_control"


def isolated(host: MadeUp, place: Path) -> Quieted:
    wanted = wishes(["isolation"])
    return Quieted(Asked(wanted, host=host, directory=place / "state"))


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


def test_groups_that_had_no_processors_of_their_own_are_narrowed(
    tmp_path: Path,
) -> None:
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


def test_a_controller_that_somebody_switched_off_meanwhile_is_as_before(
    tmp_path: Path,
) -> None:
    host = made_up(tmp_path / "m", version=2)
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        host.write(host.groups / CONTROL, "-cpuset")
    assert held.restored is not None
    assert held.restored.failed == ()
    assert held.restored.undone[-1].how == AS_BEFORE
    assert snapshot(host) == before


def test_in_a_containers_root_tasks_could_not_return_and_are_left(
    tmp_path: Path,
) -> None:
    """It has a type, as only a root that is a part of another tree has."""
    host = made_up(tmp_path / "m", version=2)
    (host.groups / "cgroup.type").write_text("domain")
    with isolated(host, tmp_path) as held:
        assert held.quiet.done == ()
        (one,) = held.quiet.lacking
        assert "is a container's: no task could return to it" in one.why
    into_the_box(host)
    before = snapshot(host)
    with isolated(host, tmp_path) as held:
        assert held.quiet.lacking == ()
    assert snapshot(host) == before
