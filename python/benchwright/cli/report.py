"""`bw report`: studies as one page, or as one JSON document."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.core.errors import InputError, argument_error
from benchwright.core.untrusted import open_regular
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.suite.common_options import Json, OkStatus

if TYPE_CHECKING:
    from benchwright.page.files import FileResults
    from benchwright.study.catalogue import StudyPart

_EXAMPLES = """\
examples:
  bw report                               the last session of ./bw-study
  bw report before@2 after -o both.html   two sessions on one page
  bw report pyperf.json                   results of another tool
"""
_HEAD_BYTES = 4096


class ReportOptions(msgspec.Struct, frozen=True):
    """The options of `bw report`."""

    studies: Annotated[
        tuple[str, ...],
        Option(
            "study or a part of it: DIR, DIR@SESSION or DIR:TEST; or a file of results",
            "STUDY",
            default="./bw-study",
            positional=True,
            names="file",
            default_key="study",
        ),
    ] = ()
    output: Annotated[
        Text,
        Option(
            "page to write; - is stdout",
            "FILE",
            short="-o",
            default="STUDY.html; stdout if that is no terminal",
            names="file",
            no_default="each report would replace the one before",
        ),
    ] = None
    overwrite: Annotated[
        bool,
        Option("replace FILE even if it is not a report of bw", no_default="it destroys files"),
    ] = False
    ok_status: OkStatus = None
    json: Json = False


def add_parser(commands: Any) -> None:
    """Add `bw report` to the commands."""
    parser = add_command(commands, "report", epilog=_EXAMPLES)
    add_options(parser, ReportOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw report`; return the exit code. Raises InputError, StudyError."""
    from benchwright.cli.output_file import check_output, write_output
    from benchwright.core.plan import SUCCESS
    from benchwright.core.text import size_text
    from benchwright.core.untrusted import visible
    from benchwright.inputs.option_reader import OptionReader
    from benchwright.page.files import FileResults, gather_document
    from benchwright.page.html import has_uplot, needs_uplot, render_page
    from benchwright.report.documents import encode
    from benchwright.results.inputs import check_ok_status

    request = request_from(ReportOptions, arguments)
    texts = request.studies or ("bw-study",)
    if request.json and request.output not in (None, "-"):
        message = "--json prints on stdout"
        raise argument_error("--output", str(request.output), message, "redirect it")
    reader = OptionReader(request)
    accepted = reader.value("ok_status", SUCCESS)
    if reader.found:
        raise InputError(reader.found)
    sources = [_source(text, accepted) for text in texts]
    read = [test for s in sources if isinstance(s, FileResults) for test in s.inputs]
    check_ok_status(request.ok_status, read)
    place = None if request.json else _place(request.output, sources[0].place)
    if place is not None:
        check_output(place, "--output", list(texts))
        _check_replaceable(Path(place), overwrite=request.overwrite)
    document = gather_document(sources)
    if request.json:
        sys.stdout.write(encode(document))
        return 0
    if needs_uplot(document) and not has_uplot():
        print("bw: this installation has no uPlot, so long series have no zoom", file=sys.stderr)
    page = render_page(document).encode()
    if place is None:
        sys.stdout.buffer.write(page)
        return 0
    write_output(Path(place), page)
    print(visible(f"bw: wrote {place} ({size_text(len(page))})"), file=sys.stderr)
    return 0


def _source(text: str, accepted: Sequence[int]) -> StudyPart | FileResults:
    """Return what a text names: a study or a part of it, else a file or directory of results.

    Raises InputError for a file that cannot be read.
    """
    from benchwright.page.files import FileResults
    from benchwright.results.inputs import file_of, is_of_other_tool, read_inputs
    from benchwright.study.catalogue import split_selector
    from benchwright.study.directory import JOURNAL

    source = split_selector(Path(text))
    place = file_of(text)
    if (source.place / JOURNAL).exists() or place is None or place.name == JOURNAL:
        return source
    if place.is_dir() and not is_of_other_tool(place):
        return source
    return FileResults(place, tuple(read_inputs([text], ok_status=accepted)))


def _place(output: str | None, study: Path) -> str | None:
    """Return the file to write; None for stdout."""
    if output is not None:
        return None if output == "-" else output
    if not sys.stdout.isatty():
        return None
    return f"{study.resolve().name}.html"


def _check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Raise InputError if the file exists and is not a report that bw wrote."""
    from benchwright.page.html import GENERATOR

    if overwrite or not path.is_file():
        return
    with open_regular(path) as file:
        head = file.read(_HEAD_BYTES)
    if f'name="generator" content="{GENERATOR}'.encode() not in head:
        message = f"{str(path)!r} exists and is not a report of bw"
        hint = "give another name, or --overwrite"
        raise argument_error("--output", str(path), message, hint)
