"""Whatever a series file holds, it is read and distilled, or told to be damaged."""

from __future__ import annotations

import copy
import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.resource_use import ResourceUse
from benchwright.watch.sampler import SeriesError
from series_writer import SECOND, SeriesWriter
from use_of_series import use_between

TENTH = SECOND // 10


def full() -> SeriesWriter:
    """Return a short series with every kind of line."""
    writer = SeriesWriter(limits={"net/eth0/speed_mbit": 1000})
    cgroup = {"version": 2, "controller": "", "path": "/b", "of": "own"}
    writer.say("cgroup", t=0, number=0, **cgroup, limits={"cpu_cores": 0.5})
    kinds = ("reads", "writes", "busy_ms", "in_flight")
    names = ["cpu/0/user", "memory/total", "memory/available", "memory/swap_free"]
    names += ["memory/swap_total", "frequency/0", "cgroup/0/usage_us", "own/user_ns"]
    names += [f"disk/sda/{kind}" for kind in kinds] + ["net/eth0/rx_packets"]
    for i in range(4):
        writer.row(i * TENTH, dict.fromkeys(names, 50 * i))
        for of in ("own", "target", "watcher"):
            writer.say(of, t=i * TENTH, rows=[[100, 100, "a", "R", 5 * i, i]], more=0)
        writer.say("processes", t=i * TENTH, rows=[[60, 1, "cron", 9 * i, 8]])
    writer.say("files_open", t=0, rows=[[100, "a", 7, 9]])
    writer.say("kernel", t=TENTH, level=4, text="oh")
    writer.say("file", at="before", path="/proc/vmstat", text="a 1\n")
    writer.end(0, 3 * TENTH)
    return writer


LINES = full().lines
whole = st.integers(-(2**65), 2**65)
anything = st.recursive(
    st.none() | st.booleans() | st.just("x") | whole | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


def distilled(path: Path) -> ResourceUse:
    """Return the use of all that a series covers."""
    return use_between(path, TENTH // 2, 3 * TENTH)


def test_the_series_that_is_damaged_below_is_whole(tmp_path: Path) -> None:
    use = distilled(full().write(tmp_path / "s"))
    assert use.cpu is not None
    assert use.disks
    assert use.networks
    assert use.cgroups
    assert use.files
    assert use.kernel


def _places(found: Any) -> list[tuple[Any, Any]]:
    """Return every place in a line where a value stands: its container and key."""
    keys = found if isinstance(found, dict) else range(len(found))
    places = [(found, key) for key in list(keys)]
    for container, key in list(places):
        if isinstance(container[key], dict | list):
            places += _places(container[key])
    return places


@settings(max_examples=300)
@given(st.data())
def test_a_changed_value(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    writer = full()
    writer.lines = copy.deepcopy([_plain(line) for line in LINES])
    line = data.draw(st.sampled_from(writer.lines))
    container, key = data.draw(st.sampled_from(_places(line)))
    container[key] = data.draw(anything)
    _is_read_or_told(writer.write(tmp_path_factory.getbasetemp() / "changed"))


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.binary(max_size=4), st.booleans())
def test_changed_bytes(
    tmp_path_factory: pytest.TempPathFactory, at: int, new: bytes, inside: bool
) -> None:
    text = full().text() if inside else gzip.compress(full().text(), mtime=0)
    at %= len(text)
    text = text[:at] + new + text[at + 1 :]
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(gzip.compress(text) if inside else text)
    _is_read_or_told(path)


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in line.items()}


def _is_read_or_told(path: Path) -> None:
    told: SeriesError | None = None
    try:
        assert distilled(path).seconds == pytest.approx(0.25)
    except SeriesError as error:
        told = error
    assert told is None or str(told).startswith(f"{path}:{told.line}: ")
