"""What was converted, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.trace import ConvertResult
from benchwright.model.visible import visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.load import bytes_words
from benchwright.report.trace_reading import reading_lines, row

_FIO = (
    "opens what each line names; --replay_redirect=FILE takes another file or device, "
    "--filename does not"
)
"""Tried with fio 3.33: --read_iolog with --filename still opens the names of the log."""


def convert_text(result: ConvertResult, findings: Sequence[Finding]) -> str:
    """Return the report, ended by a newline."""
    return visible_lines("\n".join(_lines(result, findings))) + "\n"


def _lines(result: ConvertResult, findings: Sequence[Finding]) -> Iterator[str]:
    output = result.output
    size = bytes_words(result.bytes)
    yield f"{output.path}: {counted(result.rows, 'operation')} as {output.format}, {size}"
    yield row("from", ", ".join(result.trace.paths))
    yield from reading_lines(result.trace)
    for one in result.lost:
        yield row("lost", one)
    if output.format == "fio-iolog":
        yield row("fio", _FIO)
    if findings:
        yield ""
        yield from (finding_line(one) for one in findings)
