"""Arbitrary bytes through every parser: blocks or an InputError, never anything else."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.study.parsers import text
from benchwright.study.parsers.api import ResultParser

GOLDEN = Path(__file__).parents[1] / "golden" / "parsers"
PARSERS: tuple[ResultParser, ...] = (text.RES_PARSER, text.CSV_PARSER, text.GNU_TIME_PARSER)
SEEDS = [p.read_bytes() for p in sorted(GOLDEN.iterdir()) if p.suffix != ".json"]
LINES = sorted({line for seed in SEEDS for line in seed.split(b"\n")})


@st.composite
def edited(draw: st.DrawFn) -> bytes:
    """Return a good file with one stretch of it replaced by anything."""
    seed = draw(st.sampled_from(SEEDS))
    at = draw(st.integers(0, len(seed)))
    length = draw(st.integers(0, 30))
    return seed[:at] + draw(st.binary(max_size=30)) + seed[at + length :]


shuffled = st.lists(st.sampled_from(LINES), max_size=20).map(b"\n".join)
data = st.one_of(st.binary(max_size=300), edited(), shuffled)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@settings(max_examples=300)
@given(data=data)
def test_anything_is_blocks_or_an_input_error(parser: ResultParser, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        path.write_bytes(data)
        parser.detect(path, data[:4096])
        try:
            found = parser.read(path)
        except InputError as error:
            for one in error.diagnostics:
                assert one.file == str(path)
                assert one.line >= 1
                assert one.column >= 1
                one.render()
            return
    assert found
    for block in (block for one in found for block in one.blocks):
        assert block.epoch >= 0
        assert block.thread >= 0
        assert all(math.isfinite(value) for value in block.values.values())
