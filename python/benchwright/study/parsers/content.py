"""The content of a results file, whatever it is packed and encoded in.

Purpose: every format is read alike as plain text, as gzip (`k6 --out json=FILE.gz`), and in UTF-16
with a byte order mark (`>` of PowerShell). Decision: the content is bytes of UTF-8 without a mark,
for detection as for reading, so that no parser knows about it.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.untrusted import open_regular

MOST_BYTES = 1 << 28
"""The largest content that is unpacked or recoded, and the largest JSON document [bytes]."""
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # Before UTF-16, whose mark is its start.
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def damaged_content(path: Path, what: str) -> InputError:
    """Return the error for a file whose content cannot be had."""
    hint = "let the tool write the file again"
    return InputError([Diagnostic("damaged-content", f"{path}: {what}", hint, file=str(path))])


@contextlib.contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its content. Raises InputError for damaged compressed data, also while it
    is read; OSError."""
    try:
        with contextlib.ExitStack() as opened:
            file: IO[bytes] = opened.enter_context(open_regular(path))
            if _starts(file, len(_GZIP)) == _GZIP:
                packed = gzip.GzipFile(fileobj=file)
                file = cast("IO[bytes]", opened.enter_context(packed))
            start = _starts(file, 4)
            for mark, encoding in _MARKS:
                if start.startswith(mark):
                    file.seek(len(mark))
                    yield (file if encoding == "utf-8" else _recoded(path, file, encoding))
                    return
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged_content(path, f"its compressed data is damaged: {error}") from None


def _starts(file: IO[bytes], size: int) -> bytes:
    start = file.read(size)
    file.seek(0)
    return start


def _recoded(path: Path, file: IO[bytes], encoding: str) -> IO[bytes]:
    text = _read_whole(path, file).decode(encoding, "replace").replace("\r\n", "\n")
    return io.BytesIO(text.encode("utf-8", "replace"))


def _read_whole(path: Path, file: IO[bytes], most: int = MOST_BYTES) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise damaged_content(path, f"it is larger than {most >> 20} MiB")
    return data


def content_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file's content, at most `size`. Raises InputError, OSError."""
    with open_content(path) as file:
        return file.read(size)


def read_content(path: Path) -> bytes:
    """Return the whole content of a file. Raises InputError, OSError."""
    most = max(MOST_BYTES, path.stat().st_size)
    with open_content(path) as file:
        return _read_whole(path, file, most)


def content_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file's content; bytes that are not UTF-8 become `\\xNN`. Raises
    InputError, OSError."""
    with open_content(path) as file:
        for line in file:
            yield line.decode("utf-8", "backslashreplace")
