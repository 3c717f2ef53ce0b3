"""Keyword arguments become words by the declarations, and tables become Arrow streams."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from datetime import timedelta

import pytest

from benchwright.api import frames
from benchwright.api.calls import decode_error, encode_error, keywords_of, option_words
from benchwright.api.frames import StudyFrame
from benchwright.core.errors import BenchError, Diagnostic, InputError, OperatingError, StudyError


def test_values_become_words() -> None:
    options = {
        "precision": 0.02,
        "max_time": timedelta(seconds=1.5),
        "P": {"n": [1, 2], "m": "1..3"},
        "metric": ["a=/x", "b=/y"],
        "keep_going": True,
        "in_order": False,
        "shell": True,
        "threads": [1, 2],
        "rest": None,
    }
    assert option_words("run", options) == [
        "--precision=0.02",
        "--max-time=1500000us",
        *("-P", "n=1,2", "-P", "m=1..3"),
        *("--metric=a=/x", "--metric=b=/y"),
        "--keep-going",
        "--shell",
        "--threads=1,2",
    ]
    assert option_words("compare", {"inputs": ["a", "b"]}) == ["a", "b"]


def test_all_mistakes_are_raised_at_once() -> None:
    wrong = {"runz": 3, "json": True, "keep_going": 1, "runs": object(), "seed": True}
    with pytest.raises(InputError) as raised:
        option_words("run", wrong)
    assert [one.file for one in raised.value.diagnostics] == list(wrong)
    assert raised.value.diagnostics[0].hint == "did you mean runs?"


@pytest.mark.parametrize("command", ["run", "compare", "load", "peak"])
def test_each_option_of_a_command_is_a_keyword(command: str) -> None:
    known = keywords_of(command)
    assert {"study", "notify"} <= set(known)
    assert not {"json", "quiet", "help"} & set(known)


@pytest.mark.parametrize(
    "error",
    [
        InputError([Diagnostic("bad-argument", "m", "h", file="--x", text="t")]),
        StudyError("not-a-study", "m", "h"),
        BenchError("launcher-died", "m"),
    ],
)
def test_an_error_passes_between_processes(error: OperatingError) -> None:
    again = decode_error(encode_error(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import benchwright, sys; before = set(sys.modules); benchwright.run;"
        "print(*sorted({'msgspec', 'numpy', 'subprocess', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


FRAME = StudyFrame(
    {
        "n": [1, None, -3, *range(6), 2**62],
        "x": [0.5, 1e300, None, *([2.0] * 7)],
        "name": ["a", "", None, "ü→", *(["long"] * 6)],
    },
    {"n": "int64", "x": "float64", "name": "text"},
)


def stream_of(frame: StudyFrame) -> tuple[object, frames._Stream]:
    """Return the capsule, which owns the stream, and the stream."""
    capsule = frame.__arrow_c_stream__()
    (address,) = [at for at, (_, name) in frames._EXPORTED.items() if b"stream" in name]
    return capsule, frames._Stream.from_address(address)


def test_a_stream_is_read_moved_and_released() -> None:
    capsule, stream = stream_of(FRAME)
    schema, batch = frames._Schema(), frames._Array()
    pointer = ctypes.pointer(stream)
    assert stream.get_schema(pointer, ctypes.pointer(schema)) == 0
    fields = [schema.children[at].contents for at in range(schema.n_children)]
    assert [(one.name, one.format) for one in fields] == [
        (b"n", b"l"),
        (b"x", b"g"),
        (b"name", b"u"),
    ]
    assert stream.get_next(pointer, ctypes.pointer(batch)) == 0
    assert (batch.length, batch.n_children) == (10, 3)
    number = batch.children[0].contents
    assert (number.length, number.null_count) == (10, 1)
    assert ctypes.string_at(number.buffers[0], 2) == bytes([0b11111101, 0b11])
    values = (ctypes.c_int64 * 10).from_address(number.buffers[1])
    assert values[2] == -3
    assert values[9] == 2**62
    text = batch.children[2].contents
    offsets = (ctypes.c_int32 * 11).from_address(text.buffers[1])
    assert offsets[:5] == [0, 1, 1, 1, 6]
    assert ctypes.string_at(text.buffers[2], 6) == "aü→".encode()
    # A consumer may move a child away: it outlives its parent.
    moved = frames._Array()
    ctypes.memmove(ctypes.pointer(moved), ctypes.pointer(text), ctypes.sizeof(moved))
    text.release = frames._ReleaseArray()
    batch.release(ctypes.pointer(batch))
    assert not batch.release
    assert ctypes.string_at(moved.buffers[2], 1) == b"a"
    moved.release(ctypes.pointer(moved))
    end = frames._Array()
    assert stream.get_next(pointer, ctypes.pointer(end)) == 0
    assert not end.release
    schema.release(ctypes.pointer(schema))
    del capsule
    assert frames._ALIVE == {}
    assert frames._EXPORTED == {}


def test_a_capsule_that_nobody_reads_is_released() -> None:
    capsules = [FRAME.__arrow_c_stream__(), FRAME.__arrow_c_schema__()]
    assert len(frames._EXPORTED) == 2
    capsules.clear()
    assert frames._ALIVE == {}


def test_pyarrow_reads_a_table() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(FRAME)
    table.validate(full=True)
    assert table.to_pydict() == {k: list(v) for k, v in FRAME.columns.items()}
    assert pyarrow.schema(FRAME) == table.schema
    empty = StudyFrame({"n": [], "name": []}, {"n": "int64", "name": "text"})
    assert pyarrow.table(empty).num_rows == 0
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame.from_arrow(FRAME).columns) == ["n", "x", "name"]
    del table
    assert frames._ALIVE == {}
