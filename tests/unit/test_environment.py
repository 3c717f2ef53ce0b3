"""Two captures compared: what it means, what is not known, and the finding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchwright.core.machine import Fact, FactChange, FactWeight, MachineCapture
from benchwright.core.results import Severity
from benchwright.findings.environment import (
    CODE,
    SEPARATE,
    difference,
    environment_findings,
    separate_findings,
)
from benchwright.study.contents import machines_of, record_capture
from benchwright.study.journal import SessionInfo, Study
from machine_trees import CPU, bare_metal, guest

FATAL, SUSPICIOUS, EXPECTED = (FactWeight.FATAL, FactWeight.SUSPICIOUS, FactWeight.EXPECTED)


def machine(*facts: Fact) -> MachineCapture:
    """Return a capture of these facts."""
    return MachineCapture(1, facts)


def fact(name: str, value: str | None, weight: FactWeight = SUSPICIOUS) -> Fact:
    """Return a fact, of a file that is not there without a value."""
    return Fact(name, value, "/x", "" if value is not None else "no such file", weight)


def only_change(before: MachineCapture, after: MachineCapture) -> FactChange:
    """Return the one thing that differs."""
    (change,) = difference(before, after).changes
    return change


def test_a_machine_does_not_differ_from_itself(tmp_path: Path) -> None:
    captured = bare_metal(tmp_path).capture()
    assert difference(captured, captured).changes == ()
    assert environment_findings([captured] * 3) == ()
    assert environment_findings([captured]) == environment_findings([]) == ()


def test_results_of_other_machines_are_told() -> None:
    """Each beside the first; what is measured may differ, and what is not kept is not known."""
    old = machine(fact("cpu.model", "A", FATAL), fact("git.commit", "1"))
    new = machine(fact("cpu.model", "A", FATAL), fact("git.commit", "2"))
    other = machine(fact("cpu.model", "B", FATAL), fact("git.commit", "2"))
    tuned = machine(*new.facts, fact("env.MALLOC_ARENA_MAX", "1"))
    found = separate_findings(
        [("old", old), ("new", new), ("none", None), ("other", other), ("tuned", tuned)]
    )
    assert [(f.code, f.subject, f.severity, f.evidence) for f in found] == [
        (SEPARATE, "old, other", Severity.SERIOUS, "cpu.model: A, then B"),
        (
            *(SEPARATE, "old, tuned", Severity.WARNING),
            "env.MALLOC_ARENA_MAX: absent (not set), then 1",
        ),
    ]
    assert separate_findings([("none", None), ("other", other)]) == ()
    assert separate_findings([("other", other)]) == ()


@pytest.mark.parametrize("weight", list(FactWeight))
def test_a_value_that_differs_has_its_weight(weight: FactWeight) -> None:
    a, b = (machine(fact("kernel.release", v, weight)) for v in ("6.1", "6.2"))
    found = difference(a, b)
    assert [c.name for c in found.of(weight)] == ["kernel.release"]
    assert found.matters == (weight is not EXPECTED)


def test_what_a_machine_does_not_have_is_known_to_differ() -> None:
    a = machine(fact("cpu.governor", "performance", FATAL))
    b = machine(fact("cpu.governor", None, FATAL))
    change = only_change(a, b)
    assert (change.before, change.after) == ("performance", None)
    assert change.after_absent == "no such file"
    # It may be the same machine under another kernel.
    assert (change.weight, change.known) == (SUSPICIOUS, True)


@pytest.mark.parametrize("reason", ["permission denied", "git took too long"])
def test_what_could_not_be_read_is_not_known_to_differ(reason: str) -> None:
    a = machine(fact("kernel.lsm", "apparmor"))
    b = machine(Fact("kernel.lsm", None, "/x", reason))
    for found in (difference(a, b), difference(b, a)):
        assert [c.name for c in found.unknown] == ["kernel.lsm"]
        assert not found.matters
    assert environment_findings([a, b]) == ()


@pytest.mark.parametrize("name", ["env.PATH", "kernel.lsm", "gpu.0.name", "x"])
def test_what_a_file_of_another_tool_does_not_state_is_not_known_to_differ(name: str) -> None:
    stated = MachineCapture(0, (fact("cpu.model", "A"),))
    captured = machine(fact("cpu.model", "A"), fact(name, "1"))
    for found in (difference(stated, captured), difference(captured, stated)):
        assert len(found.unknown) == 1
        assert not found.matters
    assert separate_findings([("file", stated), ("study", captured)]) == ()
    (change,) = difference(machine(), machine(fact("env.PATH", "1"))).changes
    assert change.known


def test_absent_on_both_sides_is_the_same_whatever_the_reason() -> None:
    a = machine(Fact("x.y", None, "/x", "permission denied"))
    assert difference(a, machine(fact("x.y", None))).changes == ()


def test_a_fact_that_an_older_version_did_not_capture_is_not_known() -> None:
    change = only_change(machine(), machine(fact("kernel.lsm", "apparmor")))
    assert (change.before_absent, change.known) == ("not captured", False)


def test_a_variable_that_is_not_set_is_known() -> None:
    change = only_change(machine(), machine(fact("env.LD_PRELOAD", "x.so")))
    assert (change.before_absent, change.known) == ("not set", True)


@pytest.mark.parametrize(
    ("name", "a", "b", "weight"),
    [
        ("memory.total_kib", "100000", "100050", EXPECTED),
        ("memory.total_kib", "100000", "101000", SUSPICIOUS),
        ("memory.total_kib", "100000", "110000", FATAL),
        ("sysctl.net.ipv4.tcp_mem", "100 200\t300", "101 200\t300", EXPECTED),
        ("sysctl.net.ipv4.tcp_mem", "100 200\t300", "100 200\t400", FATAL),
        ("sysctl.net.ipv4.tcp_mem", "100 200", "100 200 300", FATAL),
        ("limit.processes", "1000, hard 1000", "1001, hard 1001", EXPECTED),
        ("limit.processes", "1000, hard 1000", "1000, hard unlimited", FATAL),
        ("sysctl.vm.swappiness", "1000", "1001", FATAL),
    ],
)
def test_sizes_that_a_reboot_changes_a_little(
    name: str, a: str, b: str, weight: FactWeight
) -> None:
    before, after = (machine(fact(name, value, FATAL)) for value in (a, b))
    assert only_change(before, after).weight is weight


@pytest.mark.parametrize(
    ("name", "weight", "expected"),
    [
        ("block.sdb", SUSPICIOUS, SUSPICIOUS),
        ("block.loop3", EXPECTED, EXPECTED),
        ("mount./mnt/x.y", SUSPICIOUS, EXPECTED),
        ("net.of-a-test", SUSPICIOUS, EXPECTED),
        ("program.fio", SUSPICIOUS, EXPECTED),
    ],
)
def test_a_thing_on_one_side_only_is_one_change(
    name: str, weight: FactWeight, expected: FactWeight
) -> None:
    kind = name.partition(".")[0]
    both = fact("command.1" if kind == "program" else f"{kind}.other.size", "1")
    thing = (fact(f"{name}.size", "5", weight), fact(f"{name}.kind", "z", weight))
    change = only_change(machine(both, *thing), machine(both))
    assert (change.name, change.before, change.after) == (name, "there", None)
    assert (change.weight, change.known) == (expected, True)
    unknown = only_change(machine(*thing), machine())
    assert (unknown.name, unknown.known) == (name, False)


def test_a_network_card_on_one_side_only_is_suspicious() -> None:
    card = fact("net.eth1.mtu", "9000"), fact("net.eth1.driver", "e1000")
    other = fact("net.lo.mtu", "65536")
    assert only_change(machine(other, *card), machine(other)).weight is SUSPICIOUS


def test_a_mount_is_not_taken_for_another_that_begins_alike() -> None:
    a = machine(fact("mount./a.type", "ext4"), fact("mount./a.b.type", "ext4"))
    b = machine(fact("mount./a.b.type", "xfs"))
    assert [c.name for c in difference(a, b).changes] == ["mount./a.b.type", "mount./a"]


def test_the_gravest_comes_first(tmp_path: Path) -> None:
    a = bare_metal(tmp_path / "a").capture()
    b = guest(tmp_path / "b").capture()
    weights = [c.weight for c in difference(a, b).changes]
    assert weights == sorted(weights, key=[FATAL, SUSPICIOUS, EXPECTED].index)
    fatal = {c.name for c in difference(a, b).of(FATAL)}
    assert {"cpu.model", "cpu.online", "virtual.machine"} <= fatal


def test_a_resumed_session_on_a_changed_machine(tmp_path: Path) -> None:
    made = bare_metal(tmp_path)
    before = made.capture()
    made.write({"proc/loadavg": "9.00 9.00 9.00 5/200 9999\n", "proc/uptime": "1 1\n"})
    quiet = made.capture()
    assert environment_findings([before, quiet]) == ()
    made.write({"proc/sys/vm/swappiness": "1\n"})
    warned = made.capture()
    made.write({f"{CPU}/intel_pstate/no_turbo": "1\n"})
    found = environment_findings([before, quiet, warned, made.capture()])
    assert [f.code for f in found] == [CODE, CODE]
    assert [f.severity for f in found] == [Severity.WARNING, Severity.SERIOUS]
    assert found[0].evidence == "sysctl.vm.swappiness: 60, then 1"
    assert found[1].evidence == "cpu.no_turbo: 0, then 1"
    assert [f.subject for f in found] == ["machine, capture 2 to 3", "machine, capture 3 to 4"]


def test_many_changes_are_counted_and_the_gravest_named() -> None:
    names = [f"sysctl.{letter}" for letter in "abcdefgh"]
    a = machine(*(fact(n, "1") for n in names), fact("zz.model", "x", FATAL))
    b = machine(*(fact(n, "2") for n in names), fact("zz.model", "y", FATAL))
    (found,) = environment_findings([a, b])
    assert found.evidence.startswith("zz.model: x, then y; sysctl.a: 1, then 2; ")
    assert found.evidence.endswith("; and 3 more")


def begin(study: Study) -> int:
    """Begin a session and return its number."""
    info = SessionInfo(1, "0", "b", "/", (), (), "x", (), {})
    return study.begin_session(info)


def test_a_study_keeps_the_captures_of_each_session(tmp_path: Path) -> None:
    study = Study.create_or_open(tmp_path / "s")
    first, second = begin(study), begin(study)
    captures = [machine(fact("a.b", str(at))) for at in range(11)]
    for captured in captures:
        record_capture(study, first, captured)
    study.close()
    again = Study.open_to_read(tmp_path / "s")
    assert machines_of(again, first) == tuple(captures)
    assert machines_of(again, second) == ()
    again.close()


def test_a_capture_survives_the_journal(tmp_path: Path) -> None:
    captured = bare_metal(tmp_path).capture(["ls", "-l"])
    data = msgspec.json.encode(captured)
    assert msgspec.json.decode(data, type=MachineCapture) == captured


@pytest.mark.parametrize(
    ("mount", "counts"),
    [
        ("/somebody/mnt", False),
        ("/home/me", True),  # the working directory
        ("/home/me/other", False),
        ("/home/me/data", True),  # a relative path in a command
        ("/srv/files/deep", True),  # below an absolute one
        ("/studies", True),
        ("/", True),  # the program
    ],
)
def test_only_a_mount_that_is_used_changes_the_environment(mount: str, counts: bool) -> None:
    def capture(size: str) -> MachineCapture:
        rest = (fact(f"mount.{m}.type", "ext4") for m in ("/home/me", "/", "/studies"))
        changed = fact(f"mount.{mount}.size_bytes", size)
        return machine(
            fact("workdir.path", "/home/me", EXPECTED),
            fact("command.1", "tar -cf data/x.tar --exclude=y /srv/files", EXPECTED),
            fact("program.tar.path", "/usr/bin/tar"),
            *rest,
            changed,
        )

    captures = [capture("1000"), capture("2000")]
    assert difference(*captures).matters
    found = environment_findings(captures, ("/studies/s1",))
    assert [one.code for one in found] == ([CODE] if counts else [])


LIMIT = "cgroup.read_iops"


@pytest.mark.parametrize(
    ("before", "after", "source", "shown"),
    [
        # Of a loop device that a search elsewhere made.
        ("", "7:0 100", "/dev/vda1", None),
        ("254:0 50", "254:0 50; 7:0 100", "/dev/vda1", None),
        ("", "7:0 100", "/dev/loop0", "none, then 7:0 100"),
        # Of the session's disk, and of another.
        ("", "254:0 100; 8:0 5", "/dev/vda1", "none, then 254:0 100"),
        ("", "8:0 5", "/dev/vda1", None),
        # Which disks a volume lies on, and what a device is that was not captured, is not known.
        ("", "8:0 5; 7:0 9", "/dev/mapper/root", "none, then 8:0 5"),
        ("", "9:9 5", "/dev/vda1", "none, then 9:9 5"),
    ],
)
def test_only_a_limit_on_a_used_device_changes_the_environment(
    before: str, after: str, source: str, shown: str | None
) -> None:
    def capture(limit: str) -> MachineCapture:
        return machine(
            fact("workdir.path", "/home/u", EXPECTED),
            fact("mount./.device", source),
            fact("block.vda.number", "254:0", EXPECTED),
            fact("block.sda.number", "8:0", EXPECTED),
            fact(LIMIT, limit, FATAL),
        )

    found = environment_findings([capture(before), capture(after)])
    assert [one.evidence for one in found] == [f"{LIMIT}: {shown}"] * bool(shown)


def test_a_device_that_a_command_names_is_used() -> None:
    def capture(limit: str) -> MachineCapture:
        return machine(
            fact("workdir.path", "/home/u", EXPECTED),
            fact("mount./.device", "/dev/vda1"),
            fact("command.1", "fio --filename=/dev/loop3", EXPECTED),
            fact(LIMIT, limit, FATAL),
        )

    (one,) = environment_findings([capture(""), capture("7:3 100; 7:4 1")])
    assert one.evidence == f"{LIMIT}: none, then 7:3 100"


def test_swap_space_of_others_changes_no_environment() -> None:
    def capture(size: str) -> MachineCapture:
        where = fact("workdir.path", "/home/u", EXPECTED)
        return machine(where, fact("memory.swap_total_kib", size))

    assert environment_findings([capture("0"), capture("524284")]) == ()
    assert difference(capture("0"), capture("524284")).matters
