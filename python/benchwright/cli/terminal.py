"""Handles standard streams that are closed or full."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from benchwright.core.untrusted import one_line

if TYPE_CHECKING:
    import msgspec

    from benchwright.core.results import Severity
    from benchwright.views.terminal import Paint

# --------------------------------------------------------------------------------------
# Closed or full standard streams must not stop a measurement.
#
# A session continues after the reader of its progress has left (`bw run 2>&1 | head -1`): hours
# of trials are more important than a line of progress.


def prepare() -> None:
    """Make the standard streams safe to use; called once, at the start.

    If the caller closed stdout or stderr (`>&-`), nothing is printed there. Closed descriptors
    are opened on /dev/null first; otherwise error messages could be written into a file that
    `bw` opens as descriptor 2. Characters that a stream cannot encode are escaped.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free descriptor: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stdout, _Named):
        sys.stdout = cast("TextIO", _Named(sys.stdout))
    if not isinstance(sys.stderr, Unfailing):
        sys.stderr = cast("TextIO", Unfailing(sys.stderr))


def warn(text: str) -> None:
    """Print a line on stderr, if stderr is open."""
    with contextlib.suppress(OSError):
        print(one_line(text), file=sys.stderr, flush=True)


def write_answer(
    *, json: bool, document: Callable[[], msgspec.Struct], text: Callable[[], str]
) -> None:
    """Write a command's result to stdout: as a JSON document or as text."""
    if not json:
        sys.stdout.write(text())
        return
    from benchwright.report.documents import encode

    sys.stdout.write(encode(document()))


# -- The width of a report, and its colours ---------------------------------------------

_NARROWEST, _WIDEST = 60, 160
_COLOURS = {"serious": "31", "warning": "33"}
"""Codes of SGR (ECMA-48): red and yellow, in the terminal's own shades."""


def report_width() -> int:
    """Return the width of a report on stdout: the terminal's within limits, elsewhere 100."""
    columns = shutil.get_terminal_size((100, 24)).columns
    return max(_NARROWEST, min(columns, _WIDEST))


def table_width() -> int | None:
    """Return the width that a table on stdout must fit; None if it is no terminal: a file or
    another program gets all columns."""
    return report_width() if sys.stdout.isatty() else None


def painter(stream: TextIO) -> Paint:
    """Return what colours words by severity: only on a terminal, and not with NO_COLOR (any value
    but an empty one) or TERM=dumb."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"

    def paint(severity: Severity, text: str) -> str:
        code = _COLOURS.get(severity)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def unpainted(_severity: Severity, text: str) -> str:
        return text

    return unpainted if plain or not stream.isatty() else paint


def silence_stdout() -> None:
    """Discard the buffered output of stdout, whose reader has left."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_without_reader(error: OSError) -> bool:
    """Return whether an error means that the output has no reader: a closed pipe or terminal."""
    return error.errno in (errno.EPIPE, errno.EIO)


STANDARD_OUTPUT = "standard output"


class _Named:
    """Standard output, whose write errors name it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text."""
        with self._naming():
            return self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        with self._naming():
            self._stream.flush()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class Unfailing:
    """A text stream that ignores write errors; text that cannot be written is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text if possible; return its length in any case."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()
