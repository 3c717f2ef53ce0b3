"""Traces of requests to language models: when each arrived, how long its prompt and its answer were,
and which blocks of its prompt others had too.

Purpose: lengths and times of real users, for `--prompt-trace` and `bw replay --llm`. The files have no
texts, for privacy. Decision: they are read here, whole, into rows in the order of their times; the
format is that of the fields. Rejected: the readers of the engine, whose rows are operations on bytes
or requests with all their text. A row whose request produced nothing is left out and counted.

Sources: BurstGPT (github.com/HPMLL/BurstGPT), Azure LLM inference traces
(github.com/Azure/AzurePublicDataset), Mooncake (github.com/kvcache-ai/Mooncake, FAST25-release),
Bailian (github.com/alibaba-edu/qwen-bailian-usagetraces-anon).
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.untrusted import open_regular
from benchwright.inputs.mistakes import Where, diagnostic, mistake

_SHOWN = 10
"""Bad rows that an error names."""
_MOST_TOKENS = 10**8
_GZIP = b"\x1f\x8b"
_HINT = "BurstGPT or Azure CSV, Mooncake or Bailian JSONL (docs/language-models.md)"
_CODE = "trace-format"


class PromptRow(NamedTuple):
    """One request."""

    at_ns: int
    """Since any moment that is the same for all rows [ns]."""
    prompt: int
    """Length of the prompt [tokens]."""
    output: int
    """Length of the answer [tokens]."""
    blocks: tuple[int, ...] = ()
    """The blocks of the prompt, from its beginning; equal numbers are equal texts."""


class PromptTrace(msgspec.Struct, frozen=True):
    """The rows of a trace by their times, the first at 0."""

    path: str
    rows: tuple[PromptRow, ...]
    block_tokens: int = 0
    """Length of a block [tokens]; 0: the trace has none."""
    left_out: int = 0
    """Rows without output: requests that failed."""
    skipped: int = 0
    """Malformed rows."""


class TracePart(msgspec.Struct, frozen=True):
    """Which part of a trace is read, and how."""

    from_ns: int = 0
    for_ns: int | None = None
    lenient: bool = False
    """Whether malformed rows are skipped and counted."""


_WHOLE = TracePart()


class _Format(NamedTuple):
    """How the rows of a format are read."""

    row: Callable[[dict[str, Any]], PromptRow]
    """Raises KeyError, TypeError, ValueError."""
    block_tokens: int = 0


def _tokens(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is no number of tokens")
    number = float(value)
    if not number.is_integer() or not 0 <= number <= _MOST_TOKENS:
        raise ValueError(f"{value!r} is no number of tokens")
    return int(number)


def _ns(value: Any, unit_ns: int) -> int:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError(f"{value!r} is no time")
    return round(number * unit_ns)


def _moment_ns(value: Any) -> int:
    moment = datetime.datetime.fromisoformat(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since // datetime.timedelta(microseconds=1)) * 1000


def _blocks(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        raise ValueError("hash_ids is not an array of numbers")
    return tuple(value)


def _burstgpt(row: dict[str, Any]) -> PromptRow:
    at = _ns(row["Timestamp"], 10**9)
    return PromptRow(at, _tokens(row["Request tokens"]), _tokens(row["Response tokens"]))


def _azure(row: dict[str, Any]) -> PromptRow:
    at = _moment_ns(row["TIMESTAMP"])
    return PromptRow(at, _tokens(row["ContextTokens"]), _tokens(row["GeneratedTokens"]))


def _jsonl(unit_ns: int) -> Callable[[dict[str, Any]], PromptRow]:
    def row(fields: dict[str, Any]) -> PromptRow:
        at, blocks = _ns(fields["timestamp"], unit_ns), _blocks(fields.get("hash_ids", []))
        lengths = _tokens(fields["input_length"]), _tokens(fields["output_length"])
        return PromptRow(at, *lengths, blocks)

    return row


_CSV = {"Request tokens": _Format(_burstgpt), "ContextTokens": _Format(_azure)}
"""By a column that no other has."""
_MOONCAKE, _BAILIAN = _Format(_jsonl(10**6), 512), _Format(_jsonl(10**9), 16)


def read_prompt_trace(path: str, part: TracePart = _WHOLE) -> PromptTrace:
    """Return a part of a trace. Raises InputError with the lines of malformed rows."""
    rows: list[PromptRow] = []
    wrong: list[Diagnostic] = []
    malformed = 0
    kind = _MOONCAKE
    try:
        with _opened(path) as file:
            kind, numbered = _of(path, file)
            for line, text, fields in numbered:
                try:
                    if isinstance(fields, Exception):
                        raise fields
                    rows.append(kind.row(fields))
                except (KeyError, TypeError, ValueError) as error:
                    malformed += 1
                    if len(wrong) < _SHOWN:
                        wrong.append(_malformed(path, line, text, error))
    except (OSError, UnicodeError, EOFError, zlib.error, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise mistake(Where(path), _CODE, f"{path} cannot be read: {why}") from None
    if wrong and (not part.lenient or malformed > len(rows)):
        more = malformed - len(wrong)
        if more:
            where = Where(path, wrong[-1].line)
            wrong.append(diagnostic(where, _CODE, f"{more:,} more rows are malformed"))
        raise InputError(wrong)
    return _part_of(
        path, sorted(rows, key=lambda row: row.at_ns), part, kind.block_tokens, malformed
    )


def _part_of(
    path: str, rows: list[PromptRow], part: TracePart, block_tokens: int, skipped: int
) -> PromptTrace:
    """Return a part of rows in order of their times; its first moment is 0."""
    begin_ns = rows[0].at_ns + part.from_ns if rows else 0
    inside = [
        row._replace(at_ns=row.at_ns - begin_ns)
        for row in rows
        if row.at_ns >= begin_ns and (part.for_ns is None or row.at_ns < begin_ns + part.for_ns)
    ]
    sent = tuple(row for row in inside if row.output and row.prompt)
    if not sent:
        message = f"{path} has no request with a prompt and an answer in this part"
        raise mistake(Where(path), "trace-empty", message, "--from and --for select the part")
    return PromptTrace(path, sent, block_tokens, len(inside) - len(sent), skipped)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """Yield the text of a file, also of one that gzip has compressed."""
    with open_regular(path) as file:
        compressed = file.peek(2)[:2] == _GZIP
        whole = gzip.GzipFile(fileobj=file) if compressed else file
        with io.TextIOWrapper(whole, encoding="utf-8-sig", newline="") as text:
            yield text


_Numbered = Iterator[tuple[int, str, dict[str, Any] | Exception]]
"""Number of the line, its text, and its fields or what is wrong with them."""


def _of(path: str, file: TextIO) -> tuple[_Format, _Numbered]:
    """Return the format of a file and its rows. Raises InputError for another format."""
    first = file.readline()
    if first.lstrip().startswith("{"):
        fields = _object(first)
        if isinstance(fields, dict) and {"input_length", "output_length"} <= fields.keys():
            return (_BAILIAN if "chat_id" in fields else _MOONCAKE), _lines(first, file)
    names = next(csv.reader([first]), [])
    for column, kind in _CSV.items():
        if column in names:
            return kind, _table(names, file)
    message = f"{path} is no trace of prompts: its first line has none of their fields"
    raise mistake(Where(path, text=first.rstrip()[:200]), _CODE, message, _HINT)


def _object(line: str) -> dict[str, Any] | Exception:
    try:
        fields = json.loads(line)
    except ValueError as error:
        return ValueError(f"it is no JSON: {error}")
    return fields if isinstance(fields, dict) else ValueError("it is no JSON object")


def _lines(first: str, file: TextIO) -> _Numbered:
    yield 1, first, _object(first)
    for number, line in enumerate(file, 2):
        if line.strip():
            yield number, line, _object(line)


def _table(names: list[str], file: TextIO) -> _Numbered:
    reader = csv.reader(file)
    for row in reader:
        if row:
            number, text = reader.line_num + 1, ",".join(row)
            if len(row) == len(names):
                yield number, text, dict(zip(names, row, strict=True))
            else:
                yield number, text, ValueError(f"it has {len(row)} columns of {len(names)}")


def _malformed(path: str, line: int, text: str, error: Exception) -> Diagnostic:
    what = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
    where = Where(path, line, text=text.rstrip()[:200])
    hint = "fix the row; bw replay can skip such rows: --lenient"
    return diagnostic(where, _CODE, f"a malformed row: {what}", hint)
