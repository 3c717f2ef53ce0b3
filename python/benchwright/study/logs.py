"""The output of every process: one append-only file per mode, thread and stream of a test."""

from __future__ import annotations

import gzip
import hashlib
import mmap
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import quote

import msgspec

from benchwright.core.observation import ErrorText, ProcessRecord, Trial
from benchwright.core.plan import CommandMode, OutputPolicy
from benchwright.core.untrusted import open_regular

# -- Test names as file names: readable, safe, and distinct for distinct names ---------

_SAFE_CHARACTERS = " :=,+@()[]~"
_LONGEST_NAME = 120


def file_name(test: str) -> str:
    """Return one path component for a test's name.

    Letters, digits and common punctuation are unchanged; any other character is percent-encoded.
    In a name that is too long for a file, the end is replaced by `%-`, which the encoding never
    produces, and the name's hash: distinct names stay distinct.
    """
    assert test, "a test has a name"
    name = quote(test, safe=_SAFE_CHARACTERS, errors="surrogatepass")
    if name.startswith((".", "_")):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) > _LONGEST_NAME:
        key = test.encode(errors="surrogatepass")
        digest = blake2b(key, digest_size=8).hexdigest()
        name = f"{name[: _LONGEST_NAME - len(digest) - 2]}%-{digest}"
    return name


# --------------------------------------------------------------------------------------
# The output of every process: one append-only file per mode, thread and stream of a test.
#
# The record of a process contains the range of its output in the file, so a thousand epochs
# do not need a thousand files, and a trial creates none (docs/launcher-protocol.md). Output that
# equals the previous trial's is stored once: both records contain the same range. If a
# record has more bytes written than stored, the range is the first and the last
# `END_BYTES`. With `--output file` ranges are gzip members of the file's `.gz`.

Stream = Literal["out", "err"]
STREAMS: tuple[Stream, Stream] = ("out", "err")
PROGRAM_LOG = "_program"
"""Directory for the output of commands that belong to no test: SYSTEM, FASTFAIL."""
END_BYTES = 64 * 1024
"""Length of each stored end of a stream [bytes]."""
_PIECE_BYTES = 1 << 20
_LINES, _LINE_CHARACTERS = 5, 300
"""The most that a report shows of a failed command's stderr."""
_MAPPED_BYTES = 16 << 20
"""Output up to this size is decoded for metrics; decoded text takes up to four times as much."""
_GZIP_LEVEL = 1
"""Trials wait for compression: level 6 takes three times as long and saves a tenth."""


def log_directory(study: Path, session: int, test: str | None) -> Path:
    """Return the directory of a test's output; `test` is None for commands outside tests."""
    name = PROGRAM_LOG if test is None else file_name(test)
    return study / "logs" / f"s{session}" / name


def log_file(process: ProcessRecord, stream: Stream) -> str:
    """Return the name of the file that a process's stream is stored in."""
    name = f"{process.mode.lower()}-{process.thread}.{stream}"
    return f"{name}.gz" if process.packed else name


def stored_range(process: ProcessRecord, stream: Stream) -> tuple[int, int]:
    """Return the offset and length of the stored part of a stream [bytes]."""
    return process.out if stream == "out" else process.err


def written_bytes(process: ProcessRecord, stream: Stream) -> int:
    """Return the number of bytes that a process wrote to a stream, stored or not."""
    count = process.out_bytes if stream == "out" else process.err_bytes
    return stored_range(process, stream)[1] if count is None else count


def omitted_bytes(process: ProcessRecord, stream: Stream) -> int:
    """Return the number of bytes omitted between the two stored ends."""
    if process.packed:
        return 0
    return max(written_bytes(process, stream) - stored_range(process, stream)[1], 0)


def read_output(
    study: Path, session: int, test: str | None, process: ProcessRecord, stream: Stream
) -> bytes:
    """Return the stored part of a stream; empty if the log is gone."""
    offset, length = stored_range(process, stream)
    if not length:
        return b""
    path = log_directory(study, session, test) / log_file(process, stream)
    try:
        with open_regular(path) as file:
            file.seek(offset)
            data = file.read(length)
        return gzip.decompress(data) if process.packed else data
    except (OSError, EOFError, zlib.error):
        return b""


def output_text(
    study: Path, session: int, test: str | None, process: ProcessRecord, stream: Stream
) -> str | memoryview:
    """Return a stream in which to search for metrics: text, or above `_MAPPED_BYTES` the mapped
    file, which takes no memory of this process."""
    offset, length = stored_range(process, stream)
    if length <= _MAPPED_BYTES or process.packed:
        data = read_output(study, session, test, process, stream)
        return data.decode("utf-8", "replace")
    path = log_directory(study, session, test) / log_file(process, stream)
    before = offset % mmap.ALLOCATIONGRANULARITY
    try:
        with open_regular(path) as file:
            pages = mmap.mmap(
                file.fileno(), before + length, access=mmap.ACCESS_READ, offset=offset - before
            )
    except (OSError, ValueError):
        return ""
    return memoryview(pages)[before:]


def largest_packed(trials: Iterable[Trial]) -> int:
    """Return the largest offset at which a part of these trials ends in a `.gz` [bytes]."""
    return max(
        (
            sum(stored_range(process, stream))
            for trial in trials
            for process in trial.processes
            for stream in STREAMS
            if process.packed
        ),
        default=0,
    )


def error_text(
    study: Path,
    session: int,
    test: str,
    processes: Iterable[ProcessRecord],
    ok_status: Collection[int],
) -> ErrorText | None:
    """Return the last lines of stderr of the first failed process; None if it wrote none."""
    for process in processes:
        if process.error or not process.failed(ok_status):
            continue
        for stream in reversed(STREAMS):
            data = _last_bytes(study, session, test, process, stream)
            lines = [one.rstrip() for one in data.decode("utf-8", "replace").split("\n")]
            if found := [line[:_LINE_CHARACTERS] for line in lines if line]:
                place = log_directory(study, session, test) / log_file(process, stream)
                return ErrorText(tuple(found[-_LINES:]), str(place.relative_to(study)))
    return None


def _last_bytes(
    study: Path, session: int, test: str, process: ProcessRecord, stream: Stream
) -> bytes:
    """Return the end of a stream that its log contains unchanged."""
    offset, length = stored_range(process, stream)
    path = log_directory(study, session, test) / log_file(process, stream)
    try:
        with open_regular(path) as file:
            file.seek(offset + max(length - END_BYTES, 0))
            return file.read(min(length, END_BYTES))
    except OSError:
        return b""


class _StoredPiece(msgspec.Struct, frozen=True):
    """The last piece of one log."""

    digest: bytes
    written: int
    range: tuple[int, int]


class OutputStore:
    """Stores the output of trials in its final form, after metrics were read from it."""

    def __init__(self) -> None:
        self._last: dict[tuple[Path, bool], _StoredPiece] = {}

    def store(
        self, directory: Path, processes: Sequence[ProcessRecord], output: OutputPolicy
    ) -> list[ProcessRecord]:
        """Store the output; return the records, in order, with the stored ranges. Raises OSError.

        `bounded` and `inherit` keep the ends in the same file, `file` moves everything to its
        `.gz`. Output that equals that of the trial before is stored once, also over batches. The
        ranges must be those of one batch, in order, at the file's end: whole, or the ends that
        the launcher kept.
        """
        process_records = list(processes)
        for thread in {
            process_record.thread
            for process_record in process_records
            if process_record.mode == CommandMode.EXEC
        }:
            for stream in STREAMS:
                self._keep(directory, process_records, thread, stream, output.mode == "file")
        return process_records

    def _keep(
        self,
        directory: Path,
        process_records: list[ProcessRecord],
        thread: int,
        stream: Stream,
        packed: bool,
    ) -> None:
        places = [
            place
            for place, process_record in enumerate(process_records)
            if process_record.mode == CommandMode.EXEC
            and process_record.thread == thread
            and stored_range(process_record, stream)[1] > 0
        ]
        if not places:
            return
        path = directory / f"{CommandMode.EXEC.lower()}-{thread}.{stream}"
        begin = stored_range(process_records[places[0]], stream)[0]
        with path.open("r+b") as log:
            at = begin
            for place in places:
                source = stored_range(process_records[place], stream)
                written = written_bytes(process_records[place], stream)
                stored = self._moved(log, path, source, written, at, packed)
                at = max(at, sum(stored.range)) if not packed else begin
                process_records[place] = _with_stored_range(
                    process_records[place], stream, stored, packed
                )
            log.truncate(at)

    def _moved(
        self,
        log: BinaryIO,
        path: Path,
        source: tuple[int, int],
        written: int,
        at: int,
        packed: bool,
    ) -> _StoredPiece:
        """Write the stored part of a range of the log to `at`, or into the `.gz`."""
        pieces = (source,) if packed else _end_ranges(*source)
        digest = hashlib.blake2b()
        for piece in _read_ranges(log, pieces):
            digest.update(piece)
        last = self._last.get((path, packed))
        if last and (last.digest, last.written) == (digest.digest(), written):
            return last
        if packed:
            place = _pack_range(log, path.with_name(path.name + ".gz"), source)
        else:
            place = _move_ranges(log, pieces, at)
        stored = _StoredPiece(digest.digest(), written, place)
        self._last[(path, packed)] = stored
        return stored


def _with_stored_range(
    process: ProcessRecord, stream: Stream, stored: _StoredPiece, packed: bool
) -> ProcessRecord:
    changed = {stream: stored.range, f"{stream}_bytes": stored.written}
    return msgspec.structs.replace(process, packed=packed, **changed)


def _end_ranges(offset: int, length: int) -> tuple[tuple[int, int], ...]:
    """Return the parts of a range that are stored."""
    if length <= 2 * END_BYTES:
        return ((offset, length),)
    return ((offset, END_BYTES), (offset + length - END_BYTES, END_BYTES))


def _read_ranges(log: BinaryIO, ranges: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the bytes of the ranges in pieces."""
    for begin, length in ranges:
        done = 0
        while done < length:
            log.seek(begin + done)
            piece = log.read(min(_PIECE_BYTES, length - done))
            if not piece:
                return
            done += len(piece)
            yield piece


def _move_ranges(log: BinaryIO, ranges: Sequence[tuple[int, int]], at: int) -> tuple[int, int]:
    """Write the ranges, which begin at `at` or after it, to `at`."""
    end = at
    for piece in _read_ranges(log, ranges):
        log.seek(end)
        end += log.write(piece)
    return at, end - at


def _pack_range(log: BinaryIO, path: Path, source: tuple[int, int]) -> tuple[int, int]:
    """Append a range to a `.gz` as a member of its own."""
    with path.open("ab") as file:
        begin = file.seek(0, 2)
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as member:
            for piece in _read_ranges(log, [source]):
                member.write(piece)
        return begin, file.tell() - begin
