"""What is said where no limit is named: never that nothing was busy where something was."""

from __future__ import annotations

import msgspec
import pytest

from benchwright.core.resource_use import OffCpuUse, ProgramUse, ResourceUse, TaskUse, WaitUse
from benchwright.findings.limiter import NOTHING, TOO_SHORT, unlimited, unlimited_text
from watched_uses import cpu, disk, group, task, use

POSTGRES = (ProgramUse("postgres", 11, 1.88), ProgramUse("sshd", 1, 0.01))


def sentence(uses: list[ResourceUse]) -> str:
    return unlimited_text([unlimited(uses)]) or ""


def busy(**more: object) -> ResourceUse:
    """Return a window of two CPUs that others filled."""
    parts = {"cpu": cpu(0.02, 1.96), "tasks": (task(share=0.02),)}
    return use(**(parts | more))


def test_an_idle_machine_was_not_driven() -> None:
    assert sentence([use(), use()]) == NOTHING
    assert sentence([ResourceUse(0.01, 0, (1, 1), cpu=cpu(2.0))]) == TOO_SHORT


def test_a_busy_program_that_nobody_named_is_named_with_the_option() -> None:
    text = sentence([busy(programs=POSTGRES)])
    assert "no resource was saturated" not in text
    assert "the CPUs were 99 % busy" in text
    assert "mostly with 11 x postgres (1.88 of 2 CPUs)" in text
    assert "--target-name postgres" in text


@pytest.mark.parametrize(
    ("seen", "who"),
    [
        (use(cpu=cpu(1.3, 0.6)), "with the benchmark itself (1.30 of 2 CPUs)"),
        (use(cpu=cpu(0.4, 0.3, target=1.2)), "with its server (1.20 of 2 CPUs)"),
        (busy(), "with short-lived or unidentified processes (1.96 of 2 CPUs)"),
        (
            busy(cpu=cpu(0.02, 1.96, kernel=1.9)),
            "with the kernel's own threads and interrupts (1.90 of 2 CPUs)",
        ),
    ],
)
def test_who_was_busy_is_said(seen: ResourceUse, who: str) -> None:
    assert f"mostly {who}" in sentence([seen])


def test_a_busy_disk_and_a_quota_are_no_nothing() -> None:
    assert "the disk vda was 97 % busy" in sentence([use(disks=(disk(0.97, 1.0),))])
    stopped = group(periods=100, throttled=40, throttled_s=0.1, cpu_limit_cores=1.0)
    text = sentence([use(cgroups=(stopped,))])
    assert "/bench was throttled by its CPU quota in 40 of 100 periods" in text
    kept = use(cpu=cpu(0.3, 0.9, each=(0.97, 0.2)), cgroups=(group(cpus=(0,)),))
    assert "the CPUs that it may use (0) were all busy" in sentence([kept])


def test_what_held_for_some_windows_only_says_in_how_many() -> None:
    text = sentence([use(), busy(programs=POSTGRES), use()])
    assert text.endswith("(in 1 of 3 watched windows)")
    one = use(cpu=cpu(1.0), tasks=(task(share=0.99),))
    assert sentence([one, use(), use()]) == (
        "no limit lasted for most of the watched time: single-threaded-cpu-bound in 1 of 3 "
        "watched windows"
    )


def test_all_processes_of_a_server_count_not_only_the_busiest() -> None:
    """A generator beside a server of more processes than are kept drives it."""
    from watched_uses import codes

    seen = use(
        cpu=cpu(0.08, 1.9),
        tasks=(task("pgbench", 0.08, waiting=0.44),),
        others=tuple(TaskUse(n, 0, "postgres", 0.17, "other") for n in range(20, 25)),
        programs=POSTGRES,
    )
    assert codes(seen) == ["cpu-saturated"]


def test_a_trial_that_waited_is_not_one_without_a_limit() -> None:
    waits = (
        WaitUse("disk", 0.4, "dd", "write", "file /tmp/o"),
        WaitUse("sleep", 0.02, "sh", "nanosleep"),
    )
    text = sentence([use(off_cpu=OffCpuUse(0.42, 40, waits))])
    assert NOTHING not in text
    assert text.startswith("no single limit: it ran or was ready to run 58 % of the time")
    assert "40 % of the time for the disk, one request at a time (dd in write of /tmp/o; 40" in text
    assert "slept" not in text
    unknown = sentence([use(off_cpu=OffCpuUse(0.9, 0))])
    assert "it waited 90 % of the time" in unknown
    assert sentence([use(off_cpu=OffCpuUse(0.05, 5))]) == NOTHING


def test_one_processor_in_total_is_not_nothing_unless_samples_show_it() -> None:
    workers = tuple(task(share=0.33) for _ in range(3))
    one = use(cpu=cpu(1.0), tasks=workers)
    for off in (None, OffCpuUse(0.0, 0), OffCpuUse(0.0, 0, (), 4, 4)):
        text = sentence([msgspec.structs.replace(one, off_cpu=off)])
        assert text == (
            "no single limit: its threads used 1 CPU in total, none of them a whole one, and too few "
            "samples show whether they take turns on it"
        )
    at_once = msgspec.structs.replace(one, off_cpu=OffCpuUse(0.05, 5, (), 100, 45))
    assert sentence([at_once]) == NOTHING
