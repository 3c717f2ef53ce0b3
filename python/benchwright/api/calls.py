"""`run` and `compare`: the program in a child process, its document as a type.

Decision: a child process, not the same code in this one (docs/decisions/0018-library.md). A Python
process with threads, a large heap and a garbage collector would disturb the trials beside it.

Keyword arguments become words of the command line by the options' declarations.
Decision: the declarations of the command are the list of keywords, so an option that a command gets
is a keyword too. Rejected: one Python signature for each command, which is a second list of
options.

An operating error passes from the child process to the parent as JSON in a file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from benchwright.api.results import CompareResult, Place, RunResult
from benchwright.core.errors import (
    BenchError,
    Diagnostic,
    InputError,
    Interrupted,
    OperatingError,
    StudyError,
    argument_error,
    suggestion,
)
from benchwright.inputs.options import Option, declared_in
from benchwright.report.run import CompareDocument, RunDocument

Value = (
    str
    | int
    | float
    | bool
    | timedelta
    | os.PathLike[str]
    | Sequence[object]
    | Mapping[str, object]
    | None
)
"""What a keyword argument may be."""
_ELSEWHERE = {
    "json": "the result is the document",
    "quiet": "write progress=True to see the progress",
    "verbose": "the result has each finding with its evidence and remedy",
    "live": "run bw live STUDY in a terminal",
    "check": "it runs nothing: run bw in a terminal",
    "plan": "it runs nothing: run bw in a terminal",
}
"""Options that are no keywords, and what to do instead."""


@cache
def keywords_of(command: str) -> Mapping[str, Option]:
    """Return the options of a command by keyword: the name of the field, and that of the flag."""
    from benchwright.cli.main import parser

    found: dict[str, Option] = {}
    for option in declared_in(parser((command,), listed=False).of([command])):
        if option.name in _ELSEWHERE or option.prints:
            continue
        found[option.name] = option
        if not option.positional:
            found.setdefault(option.flag.lstrip("-").replace("-", "_"), option)
    return found


def option_words(command: str, options: Mapping[str, Value]) -> list[str]:
    """Return the words of the options, then those of arguments without a flag.

    Raises InputError with all mistakes: unknown keywords, values of a type that the option has not.
    """
    known = keywords_of(command)
    wrong: list[Diagnostic] = []
    flags: list[str] = []
    arguments: list[str] = []
    for keyword, value in options.items():
        option = known.get(keyword)
        if option is None:
            wrong.append(_unknown(command, keyword, known))
            continue
        try:
            words = _words(option, value)
        except ValueError as error:
            wrong.append(Diagnostic("bad-argument", str(error), option.hint, file=keyword))
            continue
        (arguments if option.positional else flags).extend(words)
    if wrong:
        raise InputError(wrong)
    return flags + arguments


def _unknown(command: str, keyword: str, known: Mapping[str, Option]) -> Diagnostic:
    hint = _ELSEWHERE.get(keyword, "")
    if not hint:
        hint = suggestion(keyword, known) or f"`bw help {command}` lists them"
    message = f"benchwright.{command} has no argument {keyword!r}"
    return Diagnostic("bad-argument", message, hint, file=keyword)


def _words(option: Option, value: Value) -> list[str]:
    """Return the words of one option. Raises ValueError for a value of a wrong type."""
    if value is None or value is False:
        return []
    if option.kind == "flag":
        if value is not True:
            raise ValueError(f"{option.name} must be True or False, not {value!r}")
        return [option.flag]
    if value is True:
        if option.bare:
            return [option.flag]
        raise ValueError(f"{option.name} needs a value, not True")
    texts = _texts(option, value)
    if option.positional:
        return texts
    if option.flag.startswith("--"):
        return [f"{option.flag}={text}" for text in texts]
    return [word for text in texts for word in (option.flag, text)]


def _texts(option: Option, value: Value) -> list[str]:
    """Return the texts of a value: several only for an option that can be repeated."""
    if isinstance(value, Mapping):
        if option.kind != "list":
            raise ValueError(f"{option.name} must be one value, not {value!r}")
        return [f"{name}={_levels(one)}" for name, one in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if option.kind == "list":
            return [text_of(one) for one in value]
        # --threads 1,2,4: one text with commas.
        return [_levels(value)]
    return [text_of(value)]


def _levels(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(text_of, value))
    return text_of(value)


def text_of(value: object) -> str:
    """Return a value as the command line has it; a timedelta in seconds.

    Raises ValueError for other types and for text with a NUL.
    """
    if isinstance(value, timedelta):
        microseconds = value // timedelta(microseconds=1)
        return f"{microseconds}us"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} must be text or a number")
    text = str(value)
    if "\0" in text:
        raise ValueError(f"{text!r} contains a NUL character")
    return text


class _ErrorRecord(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["input", "study", "bench"]
    code: str = ""
    message: str = ""
    hint: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def encode_error(error: OperatingError) -> bytes:
    """Return an error as JSON."""
    if isinstance(error, InputError):
        record = _ErrorRecord(kind="input", diagnostics=error.diagnostics)
    else:
        record = _ErrorRecord(
            kind="study" if isinstance(error, StudyError) else "bench",
            code=error.code,
            message=getattr(error, "message", str(error)),
            hint=getattr(error, "hint", ""),
        )
    return msgspec.json.encode(record)


def decode_error(text: bytes) -> OperatingError:
    """Return the error that `encode_error` encoded."""
    record = msgspec.json.decode(text, type=_ErrorRecord)
    if record.kind == "input":
        return InputError(record.diagnostics)
    kind = StudyError if record.kind == "study" else BenchError
    return kind(record.code, record.message, record.hint)


D = TypeVar("D")
_INTERRUPTED = 130
_MOST_SHOWN = 2000
"""Characters of a message that an exception contains."""
Word = str | os.PathLike[str]


def run(
    *commands: Word | Sequence[Word],
    study: Word | None = None,
    progress: bool = False,
    config: bool = True,
    **options: Value,
) -> RunResult:
    """Measure commands, or run a suite, and return the answers.

    A text is a command line, a program or a suite, as in `bw run`; a list is one command with its
    arguments. `study`: the study directory; without it a temporary one, which lives as long as the
    result. `progress`: show it on stderr. `config`: read configuration files. Options: those of `bw
    run`, with `_` for `-`. Raises the errors of `benchwright.core.errors`; a failed or undecided
    measurement is a result.
    """
    lists = [command for command in commands if not isinstance(command, str | os.PathLike)]
    if lists and len(commands) > 1:
        message = "a command as a list is measured alone"
        raise argument_error("commands", repr(commands), message, "write each as text")
    words: list[str] = []
    after = texts_of("commands", lists[0]) if lists else []
    if not lists:
        words = texts_of("commands", commands)
    place = place_of(study)
    done = call_bw("run", words, options, after, place, progress=progress, config=config)
    document = decoded(done, RunDocument)
    return RunResult(document=document, messages=done.messages, place=place)


def compare(
    *commands: Word,
    study: Word | None = None,
    progress: bool = False,
    config: bool = True,
    **options: Value,
) -> CompareResult:
    """Compare commands side by side, or stored results, and return verdicts and gates.

    A text is one command line; the first is the baseline. A path (`pathlib.Path`) is a stored
    result, as is each text of `inputs=`. `baseline=`: a stored baseline of the commands. Other
    arguments and errors: as in `run`.
    """
    stored = [command for command in commands if isinstance(command, os.PathLike)]
    if stored and len(stored) < len(commands):
        message = "some are commands (text), others stored results (paths)"
        hint = "for a stored baseline: compare('COMMAND', baseline='STUDY')"
        raise argument_error("commands", repr(commands), message, hint)
    words = texts_of("commands", commands)
    place = None if stored or "inputs" in options else place_of(study)
    if place is None and study is not None:
        message = "stored results are compared without a study"
        raise argument_error("study", str(study), message, "leave study out")
    before, after = (words, []) if stored else ([], words)
    done = call_bw("compare", before, options, after, place, progress=progress, config=config)
    document = decoded(done, CompareDocument)
    return CompareResult(document=document, messages=done.messages, place=place)


def place_of(study: Word | None) -> Place:
    if study is not None:
        return Place(Path(os.path.abspath(os.fspath(study))))
    return Place.temporary()


def texts_of(where: str, words: Sequence[object]) -> list[str]:
    try:
        return [text_of(word) for word in words]
    except ValueError as error:
        raise InputError([Diagnostic("bad-argument", str(error), file=where)]) from None


# -- The child process -----------------------------------------------------------------


class Done(msgspec.Struct, frozen=True):
    """What the child process left."""

    status: int
    output: bytes
    messages: str
    """What it printed on stderr; empty if that was shown."""


def call_bw(
    command: str,
    words: Sequence[str],
    options: dict[str, Value],
    after: Sequence[str],
    place: Place | None,
    *,
    progress: bool,
    config: bool,
) -> Done:
    """Run a command of bw; `after`: the words after `--`.

    Raises the operating error of the program, and Interrupted if it was interrupted.
    """
    flags = option_words(command, options)
    for word in words:
        if word.startswith("-"):
            hint = "write an option as a keyword argument, and a command as a list"
            raise argument_error("commands", word, f"{word!r} is an option", hint)
    line = [command, "--json", *flags, *words]
    if place is not None:
        line.append(f"--study={place.path}")
    if not progress:
        line.append("--quiet")
    if not config:
        line.append("--no-config")
    if after:
        line += ["--", *after]
    with tempfile.TemporaryDirectory(prefix="bw-call-") as scratch:
        error = Path(scratch) / "error.json"
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchwright.api.child", str(error), *line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if progress else subprocess.PIPE,
            # Ctrl-C reaches this process only, which passes it on once.
            process_group=0,
        )
        output, messages = _wait(child)
        text = (messages or b"").decode(errors="replace")
        if error.exists():
            raise decode_error(error.read_bytes())
    if child.returncode == _INTERRUPTED:
        raise Interrupted(f"bw {command} was interrupted")
    if not output.strip():
        raise _without_document(command, child.returncode, text)
    return Done(child.returncode, output, text)


def _wait(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes | None]:
    """Return what the child printed; after Ctrl-C, stop it, wait until it has restored the machine
    and raise KeyboardInterrupt."""
    try:
        return child.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        child.communicate()
        raise


def _without_document(command: str, status: int, text: str) -> InputError | BenchError:
    """Return the error of a program that printed no document and stored no error: a refusal, or a
    crash."""
    last = text.strip()[-_MOST_SHOWN:]
    if status == 2:
        message = last or "the arguments were refused"
        return InputError([Diagnostic("bad-argument", message, file=f"bw {command}")])
    return BenchError("no-document", f"bw {command} ended with {status} and no result", last)


def decoded(done: Done, kind: type[D]) -> D:
    return msgspec.json.decode(done.output, type=kind)
