"""Reads the inputs of `bw stats`, result files and studies, and gives them distinct names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from errno import ENOENT
from importlib.metadata import entry_points
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.errors import Diagnostic, InputError, OperatingError
from benchwright.core.text import some_text
from benchwright.stats.metric_rules import EXTRAS, TIMES, MetricRules
from benchwright.stats.table import COMPUTED_COLUMNS
from benchwright.study.parsers.api import ParsedInput

if TYPE_CHECKING:
    from benchwright.cli.stats_request import StatsRequest
    from benchwright.study.parsers.api import ResultParser


# -- Reading inputs with the first parser that recognises them -------------------------
#
# Parsers are plug-ins of the entry-point group `benchwright.parsers`. The built-in ones are also
# imported by name, so that a checkout that is not installed reads the same files.

GROUP = "benchwright.parsers"
_HEAD_BYTES = 4096
_MOST_NAMED = 30
"""Names of tests that an error lists."""
OTHER_TOOLS = (
    "of hyperfine, pyperf, pytest-benchmark, asv, go test -bench, JMH, Google Benchmark, criterion, "
    "fio, k6, Otava or github-action-benchmark"
)
READS = (
    "it must be a study, a .res file, CSV with a header line, GNU time output, or results "
    f"{OTHER_TOOLS}"
)


def parsers() -> list[ResultParser]:
    """Return the parsers: the built-in ones, then plug-ins by name.

    A plug-in with the name of a built-in parser replaces it. Raises InputError for a plug-in
    that cannot be loaded.
    """
    from benchwright.study import foreign
    from benchwright.study.parsers import text
    from benchwright.study.parsers.study import PARSER

    # Before CSV, whose detection looks at one line.
    ours: tuple[ResultParser, ...] = (
        PARSER,
        text.RES_PARSER,
        *foreign.PARSERS,
        text.CSV_PARSER,
        text.GNU_TIME_PARSER,
    )
    found: dict[str, ResultParser] = {parser.name: parser for parser in ours}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.value.startswith("benchwright.study.parsers.") and point.name in found:
            continue
        try:
            found[point.name] = point.load()
        except Exception as error:
            message = f"parser {point.value} cannot be loaded: {error}"
            raise InputError(
                [Diagnostic("bad-parser", message, file=point.name)]
            ) from error
    return list(found.values())


def read_inputs(paths: Sequence[str], advice: str = "") -> list[ParsedInput]:
    """Return the inputs of all paths, in order.

    Raises InputError, with `advice`, for all paths that cannot be opened or that no parser
    recognises.
    """
    known = parsers()
    inputs: list[tuple[str, ParsedInput]] = []
    wrong: list[Diagnostic] = []
    for text in paths:
        try:
            inputs.extend((text, one) for one in _read(text, known, advice or READS))
        except InputError as error:
            wrong.extend(error.diagnostics)
        except OSError as error:
            message = f"{text}: {error.strerror or error}"
            wrong.append(_not_read(text, message, advice))
    if wrong:
        raise InputError(wrong)
    return _distinct(inputs)


def read_history(paths: Sequence[str]) -> list[ParsedInput]:
    """Return the tests of every commit in files of other tools, in order; each has its origin.

    A study is read like any input: by its last session. Raises InputError for all paths that cannot be
    read.
    """
    known = parsers()
    inputs: list[ParsedInput] = []
    wrong: list[Diagnostic] = []
    for text in paths:
        try:
            found = _read(text, known, READS, history=True)
            inputs += [
                msgspec.structs.replace(one, source=text, test=one.name)
                for one in found
            ]
        except InputError as error:
            wrong.extend(error.diagnostics)
        except OSError as error:
            message = f"{text}: {error.strerror or error}"
            wrong.append(_not_read(text, message, READS))
    if wrong:
        raise InputError(wrong)
    return inputs


def _read(
    text: str,
    result_parsers: Sequence[ResultParser],
    advice: str,
    *,
    history: bool = False,
) -> list[ParsedInput]:
    path = Path(text)
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    for parser in result_parsers:
        if parser.detect(path, head):
            read = getattr(parser, "history", parser.read) if history else parser.read
            try:
                found: list[ParsedInput] = read(path)
                return found
            except (OperatingError, OSError):
                raise
            except ValueError as error:
                message = f"{text}: {parser.name}: {error}"
                raise InputError([_not_read(text, message, advice)]) from error
    if not path.exists():
        place, name = _file_and_test(text)
        if place is None:
            raise FileNotFoundError(ENOENT, strerror(ENOENT), text)
        tests = _read(place, result_parsers, advice, history=history)
        return _named(text, name, tests)
    names = ", ".join(parser.name for parser in result_parsers)
    message = f"{text}: no parser recognises this input (tried: {names})"
    if path.is_file():
        message = _damage(path, head) or message
    raise InputError([_not_read(text, message, advice)])


def file_of(text: str) -> Path | None:
    """Return the file or directory of `FILE` or `FILE:TEST`; None if there is none."""
    place = text if Path(text).exists() else _file_and_test(text)[0]
    return None if place is None else Path(place)


def _file_and_test(text: str) -> tuple[str | None, str]:
    """Return the file and the test of `FILE:TEST`, the longest file first; None without one."""
    for at in reversed([at for at, letter in enumerate(text) if letter == ":"]):
        if at and Path(text[:at]).exists():
            return text[:at], text[at + 1 :]
    return None, ""


def _named(text: str, name: str, tests: Sequence[ParsedInput]) -> list[ParsedInput]:
    """Return the tests with a name. Raises InputError with the names that there are."""
    chosen = [one for one in tests if one.name == name]
    if not chosen:
        names = list(dict.fromkeys(one.name for one in tests))
        hint = f"there are: {some_text(names, _MOST_NAMED)}"
        message = f"{text}: there is no test {name!r}"
        raise InputError([_not_read(text, message, hint)])
    return chosen


def _damage(path: Path, head: bytes) -> str:
    """Return what is wrong with a file that begins like JSON; empty if it does not, or if it is JSON
    of another kind."""
    from benchwright.study.foreign import DamagedJson, load_json, may_be_json

    if not may_be_json(path, head):
        return ""
    try:
        load_json(path)
    except DamagedJson as error:
        return f"{path} begins like JSON, but is damaged or incomplete: {error}"
    return f"{path} is JSON of a form that no parser recognises"


def _not_read(file: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("unreadable-input", message, hint, file="INPUT", text=file)


def _distinct(read: Sequence[tuple[str, ParsedInput]]) -> list[ParsedInput]:
    """Return the inputs with distinct names for the report.

    Tests with the same name become `STUDY:TEST`; those that are still equal get a number.
    """
    names = Counter(one.name for _, one in read)
    seen: Counter[str] = Counter()
    result = []
    for text, one in read:
        name = one.name if names[one.name] == 1 else _full_name(text, one.name)
        seen[name] += 1
        name = name if seen[name] == 1 else f"{name}#{seen[name]}"
        result.append(
            msgspec.structs.replace(one, name=name, source=text, test=one.name)
        )
    return result


def _full_name(text: str, name: str) -> str:
    """Return a test's name with its source: `q1:sleep`; for a file, the path."""
    source = text.rstrip("/") or text
    if name in (source, source.rsplit("/", 1)[-1]):
        return source
    return source if source.endswith(f":{name}") else f"{source}:{name}"


def selected(inputs: list[ParsedInput], command: str | None) -> list[ParsedInput]:
    """Return the inputs with only the blocks of one command.

    The command is given as its whole text, its first word, or the last path component of that
    word. Raises InputError if no block has this command.
    """
    if command is None:
        return inputs
    chosen = [_with_command(one, command) for one in inputs]
    if not any(one.blocks for one in chosen):
        names = sorted({b.command for one in inputs for b in one.blocks})
        hint = "commands there: " + ", ".join(names[:10]) if names else ""
        raise InputError(
            [
                Diagnostic(
                    "bad-argument",
                    f"no block has the command {command!r}",
                    hint,
                    file="--command",
                    text=command,
                )
            ]
        )
    return chosen


def _with_command(parsed_input: ParsedInput, command: str) -> ParsedInput:
    blocks = tuple(b for b in parsed_input.blocks if _is_command(b.command, command))
    before, after = ({b.epoch for b in of} for of in (parsed_input.blocks, blocks))
    gone = len(before) - len(after)
    return msgspec.structs.replace(
        parsed_input,
        blocks=blocks,
        trials=None,
        findings=None,
        deselected=gone,
        summaries=parsed_input.summaries if not gone else (),
    )


def _is_command(text: str, wanted: str) -> bool:
    first = (text.split() or [""])[0]
    return wanted in (text, first, first.rsplit("/", 1)[-1])


# -- Names of quantities in options: as in the table or in the data --------------------
#
# `--metric` and `--drift` accept `elapsed`, `Elapsed` and `cpu%`; a name that no input has is an
# error.

_ALWAYS = (*TIMES, *COMPUTED_COLUMNS, *sorted(EXTRAS))
"""Names that are valid even if no input has them."""


def with_known_names(
    request: StatsRequest, inputs: Sequence[ParsedInput]
) -> StatsRequest:
    """Return the request with the names of quantities as in the data.

    Raises InputError with all names that no input has; if nothing was measured, any name is
    accepted.
    """
    there = dict.fromkeys(_names_of(inputs))
    if not there:
        return request
    known = dict.fromkeys((*there, *_ALWAYS))
    wrong: list[Diagnostic] = []
    metrics = [_known("--metric", name, known, wrong) for name in request.metrics]
    changes = {
        _known("--drift", name, known, wrong): share
        for name, share in request.least_changes.items()
    }
    if wrong:
        raise InputError(wrong)
    return msgspec.structs.replace(
        request, metrics=tuple(metrics), least_changes=changes
    )


def _names_of(inputs: Iterable[ParsedInput]) -> list[str]:
    found: list[str] = []
    for one in inputs:
        found += [spec.name for spec in one.specs]
        blocks = (
            one.blocks
            if one.trials is None
            else (block for trial in one.trials for block in trial.blocks)
        )
        found += dict.fromkeys(name for block in blocks for name in block.values)
        found += [summary.name for summary in one.summaries]
    return found


def _known(
    option: str, said: str, known: Iterable[str], wrong: list[Diagnostic]
) -> str:
    """Return the known name that equals the text, or matches it ignoring case, or by label."""
    names, book = list(known), MetricRules()
    if said in names:
        return said
    for name in names:
        if said.lower() in (name.lower(), book.row(name).label.lower()):
            return name
    message = f"no input has {said!r}"
    hint = "there are: " + ", ".join(names)
    wrong.append(Diagnostic("bad-argument", message, hint, file=option, text=said))
    return said
