"""Files that others left, read: one golden document per format.

The .txt files, hyperfine.csv and hyperfine-1.12.csv were written by GNU time 1.9 and hyperfine
themselves; autopilot.res follows Auto-pilot's manual, with raw text that means to mislead. To
accept a change that is meant: BW_UPDATE_GOLDEN=1 make test-python, and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from benchwright.findings.result import TestResult
from benchwright.results.inputs import parsers
from benchwright.study.parsers.api import ResultParser

HERE = Path(__file__).parent / "parsers"
FILES = {
    "autopilot.res": "res",
    "spreadsheet.csv": "csv",
    "hyperfine.csv": "csv",
    "hyperfine-1.12.csv": "csv",
    "time-default.txt": "gnu_time",
    "time-posix.txt": "gnu_time",
    "time-verbose.txt": "gnu_time",
    "time-long.txt": "gnu_time",
}
PARSERS = ("study", "res", "csv", "gnu_time")


def parser(name: str) -> ResultParser:
    found: ResultParser = {one.name: one for one in parsers()}[name]
    return found


def document(inputs: list[TestResult]) -> str:
    """Return what was read, without what a parser left at its default."""
    default = msgspec.to_builtins(TestResult(""))
    lean = [
        {name: value for name, value in msgspec.to_builtins(one).items() if value != default[name]}
        for one in inputs
    ]
    return msgspec.json.format(msgspec.json.encode(lean), indent=1).decode() + "\n"


@pytest.mark.parametrize("file", FILES)
def test_a_file_reads_as_its_golden_document(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    golden = HERE / f"{file}.json"
    text = document(parser(FILES[file]).read(Path(file)))
    if os.environ.get("BW_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_recognised_by_its_own_parser_alone(file: str) -> None:
    head = (HERE / file).read_bytes()[:4096]
    by = [name for name in PARSERS if parser(name).detect(HERE / file, head)]
    assert by == [FILES[file]]
