"""Reading a series in passing tells what reading it as a whole tells, in bounded memory."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.resource_use import ResourceUse
from benchwright.trial.programs import find_sampler
from made_up_series import TENTH, MadeUp
from plain_use import Plain, disk, extreme, frequencies, messages, nearest_files, others, threads
from series_writer import SECOND, SeriesWriter
from use_of_series import use_between, uses_of
from whole_series import read_whole


def near(value: float | None) -> object:
    """Return what equals a figure but for the last bits of its arithmetic.

    A counter near 2^32 has a part of a million left for what it grew.
    """
    return None if value is None else pytest.approx(value, rel=1e-6, abs=1e-6)


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.data())
def test_the_figures_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, data: st.DataObject
) -> None:
    made = MadeUp(seed)
    file = made.write(tmp_path_factory.getbasetemp() / "made-up", 25)
    last = made.times[-1]
    on_samples = st.sampled_from(made.times)
    moments = st.integers(0, last + TENTH) | on_samples
    begin, end = sorted((data.draw(moments), data.draw(moments)))
    use = use_between(file, begin, end)
    series = read_whole(file)
    if max(begin, series.times[0]) >= min(end, series.times[-1]):
        assert use.cpu is None
        return
    plain = Plain(series, begin, end)
    assert use.samples == sum(begin <= t <= end for t in series.times)
    _same_machine(use, plain)
    _same_disks(use, plain)
    _same_tasks(use, plain)
    told = [msgspec.structs.replace(m, epoch=0, in_trial_s=0.0) for m in use.kernel]
    assert told == messages(plain)
    files = use.files and (use.files.pid, use.files.open)
    assert files == nearest_files(plain)


def _same_machine(use: ResourceUse, plain: Plain) -> None:
    assert use.cpu is not None
    assert use.memory is not None
    ticks = plain.series.header.ticks_per_s
    for name in ("user", "system", "iowait", "steal"):
        kinds = ("user", "nice") if name == "user" else (name,)
        names = [f"cpu/{cpu}/{kind}" for cpu in (0, 1) for kind in kinds]
        assert getattr(use.cpu, name) == near(plain.rate(*names) / ticks), name
    own = plain.growth("own/user_ns", "own/system_ns")
    assert use.cpu.own == near(own and own / 1e9 / plain.seconds)
    running = plain.gauge("kernel/running")
    assert use.cpu.runnable == near(sum(running) / len(running) - 1)
    read = plain.growth("own/read_chars")
    assert (use.own_io and use.own_io.read_chars) == near(read and round(read))
    available = extreme(min, plain.gauge("memory/available"))
    assert use.memory.available_min == (available or 0) * 1024
    swap = (plain.gauge(f"memory/swap_{of}") for of in ("total", "free"))
    used = max(total - free for total, free in zip(*swap, strict=True))
    assert use.memory.swap_used_max == used * 1024
    faults = plain.growth("vm/major_faults") or 0.0
    assert abs(use.memory.major_faults - faults) <= 0.5 + 1e-9
    each = frequencies(plain)
    busy = [value for values in each.values() for value in values]
    assert use.clock is not None
    mean = sum(busy) / len(busy) * 1000 if busy else None
    assert use.clock.frequency_mean == near(mean)
    changed = min(each.values(), key=lambda one: min(one) / max(one), default=None)
    assert use.clock.frequency_min == (changed and min(changed) * 1000)


def _same_disks(use: ResourceUse, plain: Plain) -> None:
    names = sorted(plain.named("disk/", "/reads"))
    expected = [one for name in names if (one := disk(plain, name))]
    assert len(use.disks) == len(expected)
    for found, told in zip(use.disks, expected, strict=True):
        assert found.name == told.pop("name")
        for figure, value in told.items():
            assert getattr(found, figure) == near(value), (found.name, figure)
    (eth0,) = use.networks or (None,)
    assert (eth0.send_packets_per_s if eth0 else 0) == near(plain.rate("net/eth0/tx_packets"))


def _same_tasks(use: ResourceUse, plain: Plain) -> None:
    sides = {of: threads(plain, of) for of in ("own", "target")}
    known = sides["own"] | sides["target"]
    for of, side in sides.items():
        shares = sorted((one["share"] for one in side.values()), reverse=True)
        busy = [share for share in shares if share >= 0.0005]
        kept = [task.share for task in use.tasks if task.of == of]
        assert kept == near_list(busy[:8])
    for task in use.tasks:
        assert task.waiting == near(known[task.pid, task.tid]["waiting"])
    found = others(plain)
    busy = sorted((one for one in found.values() if one >= 0.0005), reverse=True)
    assert [one.share for one in use.others] == near_list(busy[:5])
    pids = {pid for pid, _ in found}
    assert {one.pid for one in use.others} <= pids


def near_list(values: list[float]) -> object:
    """Return what equals some figures but for the last bits of their arithmetic."""
    return pytest.approx(values, rel=1e-6, abs=1e-6)


def test_windows_of_one_passing_are_those_of_their_own(tmp_path: Path) -> None:
    made = MadeUp(7)
    file = made.write(tmp_path / "s", 60)
    edges = [*range(0, made.times[-1], 4 * TENTH + 12_345), made.times[-1]]
    windows = [
        (n, begin, end)
        for n, (begin, end) in enumerate(pairwise(edges), 1)
        if end - begin > 3 * TENTH
    ]
    uses = uses_of(file, "", windows)
    alone = [use_between(file, begin, end, (n, n)) for n, begin, end in windows]
    assert uses == alone


def peak_of(path: Path, seconds: int) -> int:
    """Return the most memory that reading of so many seconds takes [KiB]."""
    writer = SeriesWriter()
    for i in range(10 * seconds):
        cpu = {f"cpu/{n}/user": 9 * i for n in range(50)}
        writer.row(i * TENTH, {**cpu, "memory/total": 9, "memory/available": i % 7})
        rows = [[100, 100 + n, "a", "R", 5 * i, i] for n in range(9)]
        writer.say("own", t=i * TENTH, rows=rows, more=0)
        # Others that live for a second each.
        passing = [[5000 + i, 1, "short", 3, i]]
        writer.say("processes", t=i * TENTH, rows=[*passing, [60, 1, "cron", i, 8]])
    file = writer.write(path / "s")
    # A process starts with the peak memory of its parent, and that of `time` is small.
    done = subprocess.run(
        ["/usr/bin/time", "-f", "%M", find_sampler(), "reduce", file],
        input=json.dumps({"windows": [(1, 0, seconds * SECOND)]}).encode(),
        capture_output=True,
        check=True,
    )
    return int(done.stderr)


def test_memory_does_not_grow_with_the_time(tmp_path: Path) -> None:
    short, long = peak_of(tmp_path, 60), peak_of(tmp_path, 240)
    assert long < 1.5 * short
