"""Filaments in Python: batches that cannot be wrong, classes that fail at their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchwright.core.errors import InputError
from benchwright.features.load.feed import batches_of
from benchwright.features.load.workload_toml import PythonFilament
from benchwright.load import Batch, Filament

HEAD = "from benchwright.load import Batch, Filament\n"


def spec(directory: Path, text: str, **arguments: Any) -> PythonFilament:
    """Return the filament P of a module that stands beside a workload."""
    (directory / "pattern.py").write_text(HEAD + text)
    return PythonFilament(
        place=0,
        module="pattern",
        name="P",
        arguments=arguments,
        directory=str(directory),
        where="w.toml:3:9",
    )


def test_a_batch_of_single_values() -> None:
    batch = Batch([1, 2, 3], kind="write", offset=8192, size=512)
    assert batch.kind.tolist() == [1, 1, 1]
    assert batch.offset.tolist() == [8192] * 3
    assert batch.size.tolist() == [512] * 3
    assert len(Batch([])) == 0


def test_kinds_are_words_or_numbers() -> None:
    words = ["read", "discard", "exchange", "flush", "write"]
    assert Batch(range(5), kind=words).kind.tolist() == [0, 3, 4, 2, 1]
    numbers = np.array([4, 0], dtype=np.uint8)
    assert Batch([0, 0], kind=numbers).kind.tolist() == [4, 0]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"at_ns": [2, 1]}, "goes back at row 1"),
        ({"at_ns": [-1]}, "outside 0"),
        ({"at_ns": 5}, "0 dimensions"),
        ({"at_ns": [0.5]}, "expected whole numbers"),
        ({"at_ns": [1], "size": 2**32}, "size has values outside"),
        ({"at_ns": [1], "offset": [1, 2]}, "offset has 2 values, at_ns has 1"),
        ({"at_ns": [1], "kind": "reed"}, "kind 'reed' must be one of"),
        ({"at_ns": [1], "kind": 5}, "kind has values outside"),
        ({"at_ns": [1], "kind": 0.5}, "neither words nor"),
    ],
)
def test_what_is_no_batch(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        Batch(**arguments)


def test_the_class_gets_its_arguments_and_is_asked(tmp_path: Path) -> None:
    text = """
class P(Filament):
    def __init__(self, n):
        self.n = n
    def batches(self):
        for i in range(self.n):
            yield Batch([i * 10, i * 10 + 5])
        yield Batch([])
"""
    batches = list(batches_of(spec(tmp_path, text, n=3)))
    assert [batch.at_ns.tolist() for batch in batches] == [[0, 5], [10, 15], [20, 25]]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("class Q: pass", "AttributeError"),
        ("class P: pass", "AttributeError"),
        ("1 / 0", "ZeroDivisionError"),
        ("class P(Filament): pass", "NotImplementedError: P has no batches"),
        (
            "class P(Filament):\n  def batches(self): yield Batch([9]); yield Batch([8])",
            "begins before 9 ns",
        ),
        ("class P(Filament):\n  def batches(self): yield 1", "int, not Batch"),
        ("class P(Filament):\n  def batches(self): yield Batch([2, 1])", "goes back"),
    ],
)
def test_a_class_that_fails_is_told_at_its_place(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        list(batches_of(spec(tmp_path, text)))
    (told,) = caught.value.diagnostics
    assert (told.file, told.line, told.column) == ("w.toml", 3, 9)
    assert part in told.message


def test_the_base_class_has_no_batches() -> None:
    with pytest.raises(NotImplementedError):
        Filament().batches()
