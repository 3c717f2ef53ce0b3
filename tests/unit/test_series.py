"""A series file as arrays: differences undone, columns that come and go, damaged files."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.watch.use.columns import Columns, SeriesSample
from benchwright.watch.use.series_file import (
    ColumnsLine,
    RowLine,
    SeriesError,
    read_series,
)
from series_writer import SECOND, SeriesWriter
from whole_series import Series, read_whole

TENTH = SECOND // 10


def lists(series: Series, name: str) -> tuple[list[int], list[float]]:
    """Return a column's times and values, -1 for an absent one."""
    column = series.columns[name]
    return column.times, [-1.0 if math.isnan(v) else v for v in column.values]


def small() -> SeriesWriter:
    """Return a writer with three samples of two columns, the second not always told."""
    writer = SeriesWriter(absent=[["frequency", "no cpufreq"]])
    for i, (a, b) in enumerate([(5, None), (7, 100), (7, None)]):
        writer.row(i * TENTH, {"kernel/forks": a, "kernel/running": b})
    return writer


def test_differences_are_undone_and_absent_is_nan(tmp_path: Path) -> None:
    writer = small()
    writer.row(3 * TENTH, {"kernel/forks": 1, "kernel/running": 90})
    writer.row(4 * TENTH, {"kernel/forks": 2, "kernel/running": 80})
    writer.end(0, 4 * TENTH, cost_ns=7, absent=[["kernel", "overwritten"]])
    series = read_whole(writer.write(tmp_path / "s"))
    times = [i * TENTH for i in range(5)]
    assert lists(series, "kernel/forks") == (times, [5, 7, 7, 1, 2])
    assert lists(series, "kernel/running") == (times, [-1, 100, -1, 90, 80])
    assert series.columns["kernel/running"].kind == "gauge"
    assert series.times == times
    assert series.end is not None
    assert series.end.cost_ns == 7
    assert series.absent == (("frequency", "no cpufreq"), ("kernel", "overwritten"))


def test_a_column_that_comes_and_goes_has_samples_of_its_own(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(6):
        more = {"disk/sdb/reads": 10 * i} if i in (1, 2, 4) else {}
        writer.row(i, {**more, "kernel/forks": i})
    series = read_whole(writer.write(tmp_path / "s"))
    assert lists(series, "disk/sdb/reads") == ([1, 2, 4], [10, 20, 40])
    assert lists(series, "kernel/forks") == (list(range(6)), list(range(6)))


def samples_of(path: Path) -> tuple[Columns, list[SeriesSample]]:
    """Return all samples of a series as they are handed on."""
    columns = Columns()
    found: list[SeriesSample | None] = []
    for line in read_series(path):
        if isinstance(line, ColumnsLine):
            columns.begin(line)
        elif isinstance(line, RowLine):
            found.append(columns.row(line.t, line.v))
    found.append(columns.finish())
    return columns, [sample for sample in found if sample is not None]


values = st.none() | st.integers(-(2**50), 2**50)


@given(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=12))
def test_gauges_are_handed_on_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int | None]]
) -> None:
    writer = SeriesWriter()
    for i, row in enumerate(rows):
        names = ("memory/a", "memory/b", "memory/c")
        writer.row(i, dict(zip(names, row, strict=True)))
    _, samples = samples_of(writer.write(tmp_path_factory.getbasetemp() / "gauges"))
    assert [sample.when_ns for sample in samples] == list(range(len(rows)))
    for sample, row in zip(samples, rows, strict=True):
        told = [None if math.isnan(value) else value for value in sample.gauges]
        assert told == row


def test_columns_keep_their_places_when_others_come_and_go(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(6):
        more = {"memory/b": 7 * i, "disk/b/reads": i} if i in (1, 2, 4) else {}
        writer.row(i, {**more, "memory/a": i, "kernel/forks": 10 * i})
    columns, samples = samples_of(writer.write(tmp_path / "s"))
    assert columns.gauges.names == {"memory/a": 0, "memory/b": 1}
    gauges = [[-1.0 if math.isnan(v) else v for v in s.gauges] for s in samples[1:]]
    assert gauges == [[1, 7], [2, 14], [3, -1], [4, 28], [5, -1]]
    assert [list(s.gauges_there) for s in samples[2:4]] == [[True, True], [True, False]]
    # From what the first sample says on; a disk that came counted from 0.
    forks, reads = (columns.counters.names[n] for n in ("kernel/forks", "disk/b/reads"))
    assert [s.totals[forks] for s in samples] == [0, 10, 20, 30, 40, 50]
    assert [s.totals[reads] for s in samples[1:]] == [1, 2, 2, 4, 4]


def test_a_slip_is_known_when_its_sample_is_handed_on(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i, count in enumerate((5, 9, 6, 10, 4, 5)):
        writer.row(i, {"kernel/forks": count, "disk/a/reads": count})
    _, samples = samples_of(writer.write(tmp_path / "s"))
    # 6 is below 9 and 10; at 4 the kernel's counter stands, the device began again.
    assert [list(s.totals) for s in samples] == [
        [0, 0],
        [4, 4],
        [4, 4],
        [5, 5],
        [5, 9],
        [6, 10],
    ]


def test_all_kinds_of_lines_are_kept(tmp_path: Path) -> None:
    writer = small()
    thread = [100, 101, "postmark", "R", 5, None]
    for type_ in ("own", "target", "watcher"):
        writer.say(type_, t=1, rows=[thread], more=3)
    writer.say("processes", t=2, rows=[[100, 1, "postmark", 7, 8]])
    writer.say("files_open", t=3, rows=[[100, "postmark", 7, None]])
    io = {"device": "8:0", "name": "sda", "write_bytes_per_s": 1048576}
    writer.say(
        "cgroup",
        t=4,
        number=0,
        version=1,
        controller="cpu",
        path="/b",
        of="own",
        limits={"cpu_cores": 0.5, "io": [io]},
    )
    writer.say("kernel", t=5, level=4, text="oh")
    writer.say("file", at="before", path="/proc/vmstat", text="a 1\n")
    series = read_whole(writer.write(tmp_path / "s"))
    for tables in (series.own, series.target, series.watcher):
        assert [(row.tid, row.name, row.wait_ns) for row in tables[0].rows] == [
            (101, "postmark", None)
        ]
        assert tables[0].more == 3
    assert series.processes[0].rows[0].start_ticks == 8
    assert series.files_open[0].rows[0].limit is None
    assert series.cgroups[0].limits.cpu_cores == 0.5
    assert series.cgroups[0].limits.io[0].write_bytes_per_s == 1048576
    assert series.cgroups[0].limits.memory_bytes is None
    assert series.kernel[0].text == "oh"


def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(50):
        writer.row(i, {"kernel/forks": i * 977 % 1000})
    whole = read_whole(writer.write(tmp_path / "s"))
    size = (tmp_path / "s").stat().st_size
    lengths = set()
    for cut in range(1, size - 200, 7):
        series = read_whole(writer.write(tmp_path / "s", cut=cut))
        n = len(series.times)
        lengths.add(n)
        assert series.end is None
        assert series.times == whole.times[:n]
    assert max(lengths) > 40
    assert min(lengths) < 10


def broken(writer: SeriesWriter, index: int, **fields: object) -> bytes:
    """Return the text with some fields of one line changed."""
    writer.lines[index] |= fields
    return writer.text()


def mistakes() -> dict[str, tuple[bytes, int, str]]:
    """Return damaged texts, each with the line and the words that say so."""
    row = {"type": "row", "t": 5 * TENTH, "v": [1, 2]}
    return {
        "nothing": (b"", 1, "no complete line"),
        "no header": (small().text().split(b"\n", 1)[1], 1, "starts with exactly"),
        "two headers": (2 * small().text(), 6, "starts with exactly"),
        "no JSON": (small().text() + b"{oh\n", 6, "not a line of a series"),
        "other line": (small().text() + b'{"type":"cat"}\n', 6, "cat"),
        "newer": (broken(small(), 0, version=2), 1, "version is 2"),
        "interval": (broken(small(), 0, interval_ns=0), 1, "above 0"),
        "same names": (broken(small(), 1, names=["a", "a"]), 2, "differ"),
        "few kinds": (broken(small(), 1, kinds=["gauge"]), 2, "needs a kind"),
        "row first": (
            small().text().split(b"\n")[0] + b"\n" + json.dumps(row).encode() + b"\n",
            2,
            "before its columns",
        ),
        "short row": (broken(small(), 3, v=[1]), 4, "1 values for 2"),
        "back in time": (broken(small(), 3, t=0), 4, "must be after"),
    }


@pytest.mark.parametrize("what", mistakes())
def test_damage_is_told_with_its_line(what: str, tmp_path: Path) -> None:
    text, line, words = mistakes()[what]
    path = tmp_path / "s.gz"
    path.write_bytes(gzip.compress(text))
    with pytest.raises(SeriesError, match=words) as caught:
        read_whole(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_line_after_the_end_is_told(tmp_path: Path) -> None:
    writer = small()
    writer.end(0, 1)
    writer.say("kernel", t=5, level=4, text="oh")
    with pytest.raises(SeriesError, match="after the end"):
        read_whole(writer.write(tmp_path / "s"))


@pytest.mark.parametrize(
    ("data", "words"), [(b"no gzip at all", "damaged"), (None, "No such file")]
)
def test_no_series_at_all(data: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SeriesError, match=words):
        read_whole(path)


def test_flipped_bits_are_told(tmp_path: Path) -> None:
    data = bytearray(small().write(tmp_path / "s").read_bytes())
    data[-6] ^= 1  # In the checksum.
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(SeriesError, match="data are damaged"):
        read_whole(tmp_path / "s")
