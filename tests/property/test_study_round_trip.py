"""What is exported reads back as the blocks that it was made from; names stay distinct."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import FixedCount, Phases, TestPlan
from benchwright.study.contents import TestContents, VoidBatch
from benchwright.study.export import csv_text, res_text
from benchwright.study.journal import SessionInfo, StoredSession
from benchwright.study.logs import file_name
from benchwright.study.parsers import text

SESSION = StoredSession(1, SessionInfo(0, "0", "", "/", ("a b",), (), "s.ap", (), {}), "complete")
RESERVED = {"thread", "epoch", "command", "status", "test", "name", "iteration"}
# What a line of APLOG can be called (trial/observe.py): no `=`, no space at the ends.
# The spellings of times are themselves names of quantities, never another's.
words = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=12
)
names = words.map(lambda w: w.replace("=", "-").strip()).filter(
    lambda w: (
        w
        and w.lower() not in RESERVED | {"sys", "real", "wall"}
        and w.lower() not in {"user", "system", "elapsed"}
        and not w.startswith(("[", "factor:"))
    )
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
durations = st.floats(min_value=0, allow_infinity=False)
times = st.fixed_dictionaries({}, optional=dict.fromkeys(("elapsed", "user", "system"), durations))
commands = words.map(str.strip)


@st.composite
def trials(draw: st.DrawFn) -> list[Trial]:
    found = []
    for epoch in range(1, draw(st.integers(1, 4)) + 1):
        blocks = tuple(
            MeasurementBlock(
                thread=thread,
                epoch=epoch,
                command=draw(commands),
                status=draw(st.integers(0, 255)),
                values={**draw(times), **draw(st.dictionaries(names, numbers, max_size=4))},
            )
            for thread in range(1, draw(st.integers(1, 3)) + 1)
        )
        ending = draw(st.sampled_from([TrialEnding.OK, TrialEnding.FAILED]))
        found.append(Trial("t", epoch, len(blocks), ending, 0, 1, blocks))
    return found


def contents(counted: list[Trial]) -> TestContents:
    plan = TestPlan("t", FixedCount(1), Phases(), sample=(("fs", "ext2"),))
    cut = VoidBatch("interrupted", (9,), counted[-1])
    return TestContents("0.1/test", plan, counted, [cut])


@settings(derandomize=True)
@given(counted=trials())
def test_a_res_file_reads_back_as_its_blocks(counted: list[Trial]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "t.res"
        path.write_bytes(res_text(contents(counted), SESSION).encode())
        (one,) = text.RES_PARSER.read(path)
    assert list(one.blocks) == [b for trial in counted for b in trial.blocks]


@settings(derandomize=True)
@given(counted=trials())
def test_the_csv_reads_back_as_its_blocks(counted: list[Trial]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trials.csv"
        path.write_text(csv_text([contents(counted)]), newline="")
        (one,) = text.CSV_PARSER.read(path)
    assert list(one.blocks) == [b for trial in counted for b in trial.blocks]
    assert (one.name, one.sample) == ("t", (("fs", "ext2"),))


anything = st.text(st.characters(), min_size=1, max_size=300)


@settings(derandomize=True)
@given(name=anything)
def test_a_file_name_is_one_safe_component(name: str) -> None:
    made = file_name(name)
    assert 1 <= len(made.encode("ascii")) <= 120
    assert made not in (".", "..")
    assert not made.startswith("_"), "kept for files of our own"
    assert not set(made) & set("/\0\n\\")


@settings(derandomize=True)
@given(first=anything, second=anything)
def test_distinct_names_stay_distinct(first: str, second: str) -> None:
    assert (file_name(first) == file_name(second)) == (first == second)


def test_long_names_that_share_a_beginning_stay_distinct() -> None:
    long = "ext2:" + "x" * 400
    assert file_name(long + "1") != file_name(long + "2")
    assert file_name(file_name(long)) != file_name(long), "an image is no other's name"
    assert file_name("ext2:1") == "ext2:1"
