"""A series file that is cut or damaged, and what it says is absent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.core.resource_use import ResourceUse
from benchwright.watch.sampler import SeriesError, SeriesReducer
from series_writer import SECOND, SeriesWriter
from use_of_series import use_between, uses_of

TENTH = SECOND // 10


def small() -> SeriesWriter:
    """Return a writer with three samples of two columns, the second not always told."""
    writer = SeriesWriter(absent=[["frequency", "no cpufreq"]])
    for i, (a, b) in enumerate([(5, None), (7, 100), (7, None)]):
        writer.row(i * TENTH, {"kernel/forks": a, "kernel/running": b})
    return writer


def use_of_all(path: Path) -> ResourceUse:
    """Return the use of all that a series has."""
    return use_between(path, 0, SECOND)


def test_what_is_absent_is_told_at_the_beginning_or_at_the_end(tmp_path: Path) -> None:
    writer = small()
    writer.end(0, 2 * TENTH, cost_ns=TENTH, absent=[["kernel", "overwritten"]])
    use = use_between(writer.write(tmp_path / "s"), 0, 2 * TENTH)
    assert use.absent == (("frequency", "no cpufreq"), ("kernel", "overwritten"))
    assert use.sampler_cost == 0.5


def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    writer = SeriesWriter()
    for i in range(50):
        writer.row(i, {"kernel/forks": i * 977 % 1000, "memory/total": 1000 + i})
        writer.say("kernel", t=i, level=4, text=f"{i}")
    writer.end(0, 50)
    size = writer.write(tmp_path / "s").stat().st_size
    lengths = set()
    for cut in range(40, size - 200, 7):
        use = use_between(writer.write(tmp_path / "s", cut=cut), 0, 49)
        lengths.add(use.samples)
        assert use.sampler_cost is None
        if use.memory is not None:
            assert use.memory.total == (1000 + use.samples - 1) * 1024
        assert [line.text for line in use.kernel] == [str(n) for n in range(len(use.kernel))]
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
        use_of_all(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_a_line_after_the_end_is_told(tmp_path: Path) -> None:
    writer = small()
    writer.end(0, 1)
    writer.say("kernel", t=5, level=4, text="oh")
    with pytest.raises(SeriesError, match="after the end"):
        use_of_all(writer.write(tmp_path / "s"))


@pytest.mark.parametrize(
    ("data", "words"), [(b"no gzip at all", "damaged"), (None, "No such file")]
)
def test_no_series_at_all(data: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SeriesError, match=words):
        use_of_all(path)


def test_flipped_bits_are_told(tmp_path: Path) -> None:
    data = bytearray(small().write(tmp_path / "s").read_bytes())
    data[-6] ^= 1  # In the checksum.
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(SeriesError, match="data are damaged"):
        use_of_all(tmp_path / "s")


def test_a_program_that_does_not_answer_is_told(tmp_path: Path) -> None:
    file = small().write(tmp_path / "s")
    program = tmp_path / "sampler"
    with pytest.raises(OSError, match="No such file"):
        SeriesReducer(program).uses(file, "", [(1, 0, 1)])
    for does, words in (("echo out of luck >&2; exit 1", "out of luck"), ("kill -9 $$", "-9")):
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
        with pytest.raises(SeriesError, match=f"cannot reduce it: .*{words}"):
            SeriesReducer(program).uses(file, "", [(1, 0, 1)])


def test_a_program_of_another_version_is_no_damage_of_the_series(tmp_path: Path) -> None:
    file = small().write(tmp_path / "s")
    program = tmp_path / "sampler"
    program.write_text("#!/bin/sh\necho 'no such command: reduce' >&2; echo usage >&2; exit 2\n")
    program.chmod(0o755)
    with pytest.raises(BenchError, match="no such command: reduce") as caught:
        SeriesReducer(program).uses(file, "", [(1, 0, 1)])
    assert caught.value.code == "sampler-protocol"
    assert "usage" not in caught.value.message


def test_no_window_has_no_use(tmp_path: Path) -> None:
    assert uses_of(small().write(tmp_path / "s"), "", []) == []
