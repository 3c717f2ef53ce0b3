"""Standard streams that are closed or full."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    import msgspec

# --------------------------------------------------------------------------------------
# Standard streams that are closed, full or gone must not harm what is being measured.
#
# A session goes on when nobody reads its progress any more (`bw run 2>&1 | head -1`):
# hours of trials are worth more than a line that cannot be shown.


def prepare() -> None:
    """Make the standard streams safe to use; called once, at the start.

    A caller that closed stdout or stderr (`>&-`) gets what it asked for: silence. The
    descriptors are filled first: a file of ours opened as descriptor 2 would be written
    to by whatever prints an error. A character that a stream cannot show is escaped.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free one: this
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stderr, Unfailing):
        sys.stderr = cast("TextIO", Unfailing(sys.stderr))


def write_answer(
    *, json: bool, document: Callable[[], msgspec.Struct], text: Callable[[], str]
) -> None:
    """Write a command's answer to stdout: one JSON document, or the text for a person."""
    if not json:
        sys.stdout.write(text())
        return
    from benchwright.report.documents import encode

    sys.stdout.write(encode(document()))


def silence_stdout() -> None:
    """Send what is still buffered for a reader that went away to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_without_reader(error: OSError) -> bool:
    """Return whether nobody can read our output any more: a closed pipe or terminal."""
    return error.errno in (errno.EPIPE, errno.EIO)


class Unfailing:
    """A stream for prose: what cannot be written to it is lost, and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write if that is possible; return the length of the text in any case."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if that is possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()
