"""`bw export`: a session in the format of another tool, a service or a CI system; and its documents
for `--json`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.cli.parser import add_command, sentence_of
from benchwright.core.errors import InputError, argument_error
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.report.documents import FileEntry
from benchwright.suite.common_options import FOR_SCRIPTS, REPLACES, Json

if TYPE_CHECKING:
    from benchwright.features.exchange.export import Exported, ExportView
    from benchwright.study.catalogue import StudyPart
    from benchwright.study.journal import Study


class ExportDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/export/1"
):
    """An export: the files that were written, or its text."""

    study: str
    session: int
    format: str
    left_out: tuple[str, ...]
    """What the session has and the files have not, a sentence for each."""
    files: tuple[FileEntry, ...]
    text: str | UnsetType = UNSET
    """Without `--output`: the export."""


class FormatEntry(msgspec.Struct, frozen=True):
    """A format of `bw export`."""

    name: str
    reader: str
    """What reads it."""


class ExportFormatsDocument(
    msgspec.Struct, frozen=True, tag_field="schema", tag="benchwright/export-formats/1"
):
    """The formats of `bw export`."""

    formats: tuple[FormatEntry, ...]


_FORMATS = (
    *("hyperfine", "pyperf", "benchfmt", "jmh", "google-benchmark"),
    *("github-action-benchmark", "bencher", "otava", "prometheus", "openmetrics"),
    *("openmetrics-intervals", "hlog", "hgrm", "vllm", "aiperf", "guidellm"),
    *("junit", "markdown", "perfherder"),
)
"""The names of `features.exchange.export.FORMATS`, which is imported only where something is exported."""
_EXAMPLES = """\
for tables of trials: bw stats --format csv, or --dump for every row

examples:
  bw export --format markdown >> "$GITHUB_STEP_SUMMARY"
  bw export before --format benchfmt > before.txt     for: benchstat before.txt after.txt
  bw export study@2 --format junit -o junit.xml
  bw export load.json --format hlog -o load.hlog      load.json: what bw load --json printed
  bw export --formats                                 the formats and what reads them
"""


class ExportOptions(msgspec.Struct, frozen=True):
    """The options of `bw export`."""

    study: Annotated[
        Text,
        Option(
            "study or a part of it: DIR, DIR@SESSION or DIR:TEST; or a file of bw load --json",
            "STUDY",
            default="./bw-study",
            positional=True,
            names="directory",
            default_key="study",
        ),
    ] = None
    format: Annotated[
        Text,
        Option(
            f"format: {', '.join(_FORMATS)}",
            "NAME",
            choices=_FORMATS,
            hint="tables of trials: bw stats --format csv, or --dump for every row",
            no_default=FOR_SCRIPTS,
        ),
    ] = None
    formats: Annotated[
        bool, Option("list the formats, and what reads them", no_default=FOR_SCRIPTS)
    ] = False
    output: Annotated[
        Text,
        Option(
            "file to write; - is stdout; of otava, the configuration, beside which the CSV "
            "files lie",
            "FILE",
            short="-o",
            default="-",
            names="file",
            no_default=REPLACES,
        ),
    ] = None
    metrics: Annotated[
        tuple[str, ...],
        Option(
            "metric to export, the first as the main one (repeatable); NAME:higher if higher "
            "is better",
            "NAME[:higher]",
            flag="--metric",
            default="the main metric, those of the stopping rule, the declared ones, the "
            "times and peak memory",
            no_default="it names the metrics of one study",
        ),
    ] = ()
    json: Json = False


def add_parser(commands: Any) -> None:
    """Add `bw export` to the commands."""
    parser = add_command(
        commands,
        "export",
        description=f"{sentence_of('export')}\nWhat a format has no place for is left out.",
        epilog=_EXAMPLES,
    )
    add_options(parser, ExportOptions)
    parser.set_defaults(handler=run)


def _has_results_of_others(place: Path) -> bool:
    from benchwright.study.directory import JOURNAL

    if not place.is_dir() or (place / JOURNAL).is_file():
        return False
    # Only a directory without a journal needs the parsers.
    from benchwright.results.inputs import is_directory_of_results

    return is_directory_of_results(place)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw export`; return the exit code. Raises InputError, StudyError."""
    from benchwright.cli.terminal import write_answer
    from benchwright.core.untrusted import visible
    from benchwright.features.exchange.export import FORMATS
    from benchwright.study.catalogue import split_selector
    from benchwright.study.journal import Study

    request = request_from(ExportOptions, arguments)
    if request.formats:
        return _list_formats(json=request.json)
    if request.format is None:
        message, hint = "no format is named", f"one of: {', '.join(_FORMATS)}"
        raise argument_error("--format", "", message, hint)
    place = None if request.output in (None, "-") else request.output
    source = split_selector(Path(request.study or "bw-study"))
    if place is not None:
        from benchwright.cli.output_file import check_output

        check_output(place, "--output", [str(source.place)])
    form = FORMATS[request.format]
    if source.place.is_file() or _has_results_of_others(source.place):
        from benchwright.features.exchange.view import read_load_file

        view = read_load_file(source.place, request.metrics)
    else:
        with contextlib.closing(Study.open_to_read(source.place)) as study:
            view = _view(study, source, request.metrics, series=form.series)
    exported = form.write(view)
    if exported.beside and place is None and not exported.needs_beside:
        names = ", ".join(name for name, _ in exported.beside)
        sentence = f"-o FILE.{form.name} also writes, beside it, {names}"
        exported = msgspec.structs.replace(
            exported, beside=(), left_out=(*exported.left_out, sentence)
        )
    if exported.beside and place is None:
        message = f"{form.name} is {1 + len(exported.beside)} files"
        hint = "name the first; the others lie beside it: -o otava.yaml"
        raise argument_error("--output", "", message, hint)
    files = () if place is None else _written(Path(place), form.name, exported)
    write_answer(
        json=request.json,
        document=lambda: ExportDocument(
            study=str(source.place),
            session=view.session,
            format=form.name,
            left_out=exported.left_out,
            files=files,
            text=exported.text if place is None else msgspec.UNSET,
        ),
        text=lambda: exported.text if place is None else "",
    )
    if not request.json:
        for sentence in exported.left_out:
            print(visible(f"bw: {sentence}"), file=sys.stderr)
    return 0


def _view(study: Study, source: StudyPart, metrics: Sequence[str], *, series: bool) -> ExportView:
    """Return the session of the source; of a `series`, with the earlier sessions."""
    from benchwright.features.exchange.view import read_view

    session = source.of(study)
    view = read_view(study, session, source.test, metrics)
    if not series or source.session is not None:
        return view
    # A time that is 0 in all trials of one session belongs to the series nevertheless.
    also = {metric.name for test in view.tests for metric in test.metrics}
    earlier = []
    for stored_session in study.sessions():
        if stored_session.number < session.number and stored_session.info.kind == session.info.kind:
            # A session without the test, or the metric, is no point of the series.
            with contextlib.suppress(InputError):
                export_view = read_view(study, stored_session, source.test, metrics, tuple(also))
                earlier.append(export_view)
    return msgspec.structs.replace(view, earlier=tuple(earlier))


def _written(place: Path, form: str, exported: Exported) -> tuple[FileEntry, ...]:
    """Write the file, and those beside it; return their entries."""
    from benchwright.cli.output_file import check_output, write_output
    from benchwright.report.documents import FileEntry

    texts = [(place, exported.text)]
    texts += [(place.parent / name, text) for name, text in exported.beside]
    files = [(path, text.encode(errors="backslashreplace")) for path, text in texts]
    for path, _ in files[1:]:
        check_output(str(path), "--output", [str(place)])
    for path, data in files:
        write_output(path, data)
    return tuple(FileEntry(str(path), form, len(data)) for path, data in files)


def _list_formats(*, json: bool) -> int:
    from benchwright.cli.terminal import write_answer
    from benchwright.features.exchange.export import FORMATS

    width = max(map(len, FORMATS))
    write_answer(
        json=json,
        document=lambda: ExportFormatsDocument(
            tuple(
                FormatEntry(export_format.name, export_format.reader)
                for export_format in FORMATS.values()
            )
        ),
        text=lambda: "".join(
            f"{export_format.name:{width}}  {export_format.reader}\n"
            for export_format in FORMATS.values()
        ),
    )
    return 0
