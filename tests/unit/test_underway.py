"""The batch that a session runs now, by the series that its sampler writes."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

import pytest

from benchwright.results import underway
from benchwright.results.underway import batch_underway

BEGIN_NS = 5
HEAD = b'{"type":"series","begin_ns":%d}\n' % BEGIN_NS


def series(study: Path, name: str, *, finished: bool = False, session: int = 2) -> Path:
    """Write a series as the sampler does, up to its first flush or to its end."""
    place = study / "watched" / f"s{session}"
    place.mkdir(parents=True, exist_ok=True)
    stream = zlib.compressobj(wbits=31)
    data = stream.compress(HEAD) + stream.flush(zlib.Z_SYNC_FLUSH)
    file = place / name
    file.write_bytes(data + (stream.flush() if finished else b""))
    return file


@pytest.fixture(autouse=True)
def someone_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(underway, "writer_of", lambda _study: 1)


def test_an_unfinished_series_is_of_a_batch_that_runs(tmp_path: Path) -> None:
    series(tmp_path, "ext2:4-1.jsonl.gz", finished=True)
    file = series(tmp_path, "ext2:4-13~2.jsonl.gz")
    later = time.time_ns() + 1_000_000
    os.utime(file, ns=(later, later))
    found = batch_underway(tmp_path)
    assert found is not None
    assert (found.test, found.first, found.session) == ("ext2:4", 13, 2)
    assert found.begin_ns == BEGIN_NS < found.until_ns
    assert found.name == "ext2:4, trial 13 so far"


def test_of_several_sessions_the_last_is_read(tmp_path: Path) -> None:
    series(tmp_path, "a-1.jsonl.gz", session=9)
    series(tmp_path, "b-1.jsonl.gz", session=10, finished=True)
    assert batch_underway(tmp_path) is None


@pytest.mark.parametrize("case", ["finished", "old", "empty", "nobody"])
def test_nothing_is_said_of_what_does_not_run(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = series(tmp_path, "a-1.jsonl.gz", finished=case == "finished")
    assert (batch_underway(tmp_path) is None) == (case == "finished")
    if case == "old":
        os.utime(file, ns=(1, 1))
    if case == "empty":
        file.write_bytes(b"")
    if case == "nobody":
        monkeypatch.setattr(underway, "writer_of", lambda _study: None)
    assert batch_underway(tmp_path) is None
