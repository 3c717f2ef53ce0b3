"""Values of settings: a wrong one is told, with what is allowed, before anything is changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError, InputError
from benchwright.features.quiet.hold import Quieted, QuietRequest, hold
from benchwright.features.quiet.log_path import LOG
from benchwright.features.quiet.types import RequestedSetting, parse_settings, setting_errors
from benchwright.suite.compile import load
from made_up_machine import CPU, MadeUp, made_up, snapshot

NUMBERS = "whole numbers from 0 to 200"
PROCESSORS = "CPUs from 0 to 8191, as 2 or 2-5 or 2-5,7"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("aslr=7", "aslr cannot be '7'; allowed: 0, 1, 2"),
        ("aslr=-1", "aslr cannot be '-1'; allowed: 0, 1, 2"),
        ("aslr=0,1", "aslr takes one value, not 2: 0, 1"),
        ("nmi-watchdog=2", "nmi-watchdog cannot be '2'; allowed: 0, 1"),
        ("turbo=yes", "turbo cannot be 'yes'; allowed: off, on"),
        ("swappiness=abc", f"swappiness cannot be 'abc'; allowed: {NUMBERS}"),
        ("swappiness=-1", f"swappiness cannot be '-1'; allowed: {NUMBERS}"),
        ("swappiness=201", f"swappiness cannot be '201'; allowed: {NUMBERS}"),
        ("swappiness=007", f"swappiness cannot be '007'; allowed: {NUMBERS}"),
        ("swappiness=\N{ARABIC-INDIC DIGIT THREE}", f"allowed: {NUMBERS}"),
        ("isolation=5-2", f"isolation cannot be '5-2'; allowed: {PROCESSORS}"),
        ("isolation=-1", f"isolation cannot be '-1'; allowed: {PROCESSORS}"),
        ("isolation=0-99999999999", f"allowed: {PROCESSORS}"),
        ("irq-affinity=1,a", f"irq-affinity cannot be 'a'; allowed: {PROCESSORS}"),
        ("governor=a,b", "governor takes one value, not 2: a, b"),
        ("caches=3", "caches takes no values"),
        ("all=1", "all takes no values"),
        ("thp=", "'thp=' has no value: write thp alone"),
        ("aslr=,", "'aslr=,' has no value: write aslr alone"),
    ],
)
def test_what_no_machine_takes_is_told_with_what_is_allowed(word: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_settings([word])


def test_what_a_machine_could_take_is_left_to_it() -> None:
    words = ["aslr=2", "nmi-watchdog=1", "turbo=on", "swappiness=200", "thp=inherit"]
    words += ["isolation=2-5,7", "irq-affinity=8191", "governor=interactive"]
    assert setting_errors(words) == {}
    assert RequestedSetting("isolation", ("2-5", "7")) in parse_settings(words)
    assert setting_errors(["swappiness=0", "smt=on", "aslr=3"]).keys() == {1, 2}


# -- this machine ----------------------------------------------------------------------

ENTER: list[Callable[[QuietRequest], object]] = [
    lambda asked: Quieted(asked).__enter__(),
    lambda asked: hold(asked, 0),
]


def refused(host: MadeUp, place: Path, *words: str) -> list[str]:
    """Return what is told; nothing is changed and nothing logged by it."""
    before = snapshot(host)
    effects: list[int] = []
    host.point = lambda: effects.append(1)
    told = []
    for enter in ENTER:
        with pytest.raises(InputError) as caught:
            enter(QuietRequest(parse_settings(words), host=host, directory=place / "state"))
        assert caught.value.exit_status == 2
        told.append([d.message for d in caught.value.diagnostics])
    assert effects == []
    assert snapshot(host) == before
    assert not (place / "state" / LOG).exists()
    assert told[0] == told[1]
    return told[0]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("governor=schedutil", "'schedutil'; allowed: performance, powersave"),
        ("thp=foo", "thp cannot be 'foo'; allowed: always, madvise, never"),
        # What only one of the two files offers would be half of what is asked.
        ("thp=defer", "thp cannot be 'defer'; allowed: always, madvise, never"),
        ("isolation=2-9", "isolation cannot be '4-9'; allowed: what is online, 0-3"),
        ("irq-affinity=0,7", "irq-affinity cannot be '7'; allowed: what is online, 0-3"),
        ("swap=/dev/sdz", "now /dev/sdb1, /swap file, /dev/zram0"),
        ("swap=sdb1", "swap cannot be 'sdb1'; allowed: paths of swap devices"),
    ],
)
def test_what_this_machine_does_not_take_is_told(tmp_path: Path, word: str, told: str) -> None:
    host = made_up(tmp_path / "m")
    (message,) = refused(host, tmp_path, "swappiness", word)
    assert told in message


@pytest.mark.parametrize("name", ["dev/mapper/x", "dev/disk/by-label/x"])
def test_a_swap_device_is_known_by_a_link_to_it(tmp_path: Path, name: str) -> None:
    host = made_up(tmp_path / "m")
    link = host.root / name
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(host.root / "dev/sdb1", link.parent))
    wanted = QuietRequest(
        parse_settings([f"swap=/{name}"]), host=host, directory=tmp_path / "state"
    )
    with Quieted(wanted) as quieted:
        assert [one.change.item for one in quieted.quiet.done] == ["/dev/sdb1"]
        assert "/dev/sdb1" not in (host.proc / "swaps").read_text()
    assert "/dev/sdb1" in (host.proc / "swaps").read_text()


def test_a_swap_device_is_known_by_another_node_of_it(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    os.link(host.root / "swap file", host.root / "again")
    asked = QuietRequest(parse_settings(["swap=/again"]), host=host, directory=tmp_path / "state")
    with Quieted(asked) as quieted:
        assert [one.change.item for one in quieted.quiet.done] == ["/swap file"]


def test_a_path_that_is_no_swap_is_lacking_and_one_that_is_off_is_not(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    (host.root / "etc/passwd").write_text("root")
    page = os.sysconf("SC_PAGE_SIZE")
    (host.root / "dev/sdc1").write_bytes(bytes(page - 10) + b"SWAPSPACE2" + bytes(9))
    wanted = parse_settings(["swap=/etc/passwd,/dev/sdc1,/dev/sdb1"])
    with Quieted(QuietRequest(wanted, host=host, directory=tmp_path / "state")) as quieted:
        (one,) = quieted.quiet.lacking
        assert one.why.startswith("/etc/passwd is not a swap device")
        assert [one.change.item for one in quieted.quiet.done] == ["/dev/sdb1"]
    strict = QuietRequest(
        parse_settings(["swap=/etc/passwd"]), host=host, directory=tmp_path / "state", require=True
    )
    with pytest.raises(BenchError, match="/etc/passwd is not a swap device"):
        Quieted(strict).__enter__()


def test_without_a_list_of_the_machine_the_kernels_documentation_holds(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    for path in host.glob(f"{CPU}/cpufreq/policy*/scaling_available_governors"):
        path.unlink()
    for path in host.glob("sys/kernel/mm/transparent_hugepage/*"):
        path.unlink()
    first, second = refused(host, tmp_path, "governor=interactive", "thp=foo")
    assert "userspace, ondemand, conservative, schedutil" in first
    assert second.endswith("allowed: always, madvise, never")
    wanted = parse_settings(["governor=ondemand", "thp=always"])
    asked = QuietRequest(wanted, host=host, directory=tmp_path / "state")
    with Quieted(asked) as quieted:
        assert [done.value for done in quieted.quiet.done] == ["ondemand"] * 2
        assert [one.setting for one in quieted.quiet.lacking] == ["thp"]


def test_a_list_that_cannot_be_read_is_lacking_and_no_mistake(tmp_path: Path) -> None:
    host = made_up(tmp_path / "m")
    for path in host.glob(f"{CPU}/cpufreq/policy*/scaling_available_governors"):
        path.unlink()
        path.mkdir()
    wanted = parse_settings(["governor=schedutil"])
    with Quieted(QuietRequest(wanted, host=host, directory=tmp_path / "state")) as quieted:
        (one,) = quieted.quiet.lacking
        assert "Is a directory" in one.why


def test_second_threads_are_no_choice_beside_smt(tmp_path: Path) -> None:
    """They go offline before the benchmark could have them."""
    host = made_up(tmp_path / "m")
    for cpu, pair in enumerate(("0,2", "1,3", "0,2", "1,3")):
        path = host.root / CPU / f"cpu{cpu}/topology/thread_siblings_list"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pair)
    told = "what is online with smt off, 0-1"
    found = refused(host, tmp_path, "smt", "irq-affinity=1,3", "isolation=2-3")
    assert found == [
        f"irq-affinity cannot be '3'; allowed: {told}",
        f"isolation cannot be '2-3'; allowed: {told}",
    ]
    for words in (["isolation=2-3"], ["smt", "isolation=1"]):
        wanted = QuietRequest(parse_settings(words), host=host, directory=tmp_path / "state")
        with Quieted(wanted) as quieted:
            lacking = [o.why for o in quieted.quiet.lacking if "moved" not in o.why]
            assert lacking == []
    (host.sys / "devices/system/cpu/smt/control").write_text("notsupported")
    wanted = QuietRequest(
        parse_settings(["smt", "isolation=2-3"]), host=host, directory=tmp_path / "state"
    )
    with Quieted(wanted) as quieted:
        assert (host.groups / "bw-bench/cpuset.cpus").read_text().strip() == "2-3"


def test_every_wrong_value_is_told_at_its_place_in_the_suite(tmp_path: Path) -> None:
    text = 'quiet = ["all", "thp=foo",\n  "isolation=9", "governor=x"]\n'
    program = load("s.toml", lambda _: text + '[[test]]\nexec = "true"\n')
    wanted = program.tables.get("quiet")
    assert wanted is not None
    host, state = made_up(tmp_path / "m"), tmp_path / "state"
    asked = QuietRequest(wanted.wishes, places=wanted.places, host=host, directory=state)
    with pytest.raises(InputError) as caught:
        Quieted(asked).__enter__()
    found = caught.value.diagnostics
    assert [(d.line, d.column) for d in found] == [(1, 17), (2, 3), (2, 18)]
    assert {(d.file, d.code) for d in found} == {("s.toml", "suite-quiet")}
    assert [d.message.split()[0] for d in found] == ["thp", "isolation", "governor"]


def test_processors_that_a_killed_one_had_switched_off_are_there_again(tmp_path: Path) -> None:
    """What it left is put back first, and what is asked is held against that."""
    host = made_up(tmp_path / "m")
    state = tmp_path / "state"
    hold(QuietRequest(parse_settings(["smt"]), host=host, directory=state), 31)
    assert (host.root / CPU / "online").read_text() == "0-1"
    (host.proc / "31/stat").rename(host.proc / "31/gone")
    with Quieted(
        QuietRequest(parse_settings(["isolation=2-3"]), host=host, directory=state)
    ) as one:
        assert one.late is not None
        assert (host.groups / "bw-bench/cpuset.cpus").read_text().strip() == "2-3"
