"""Progress for a person: lines that stay, and one status line.

Purpose: the one display of runs, comparisons, loads and searches, on stderr. On a terminal
the last line is redrawn; elsewhere statuses are plain lines, which become rarer with time.
Decision: the display has no clock and no thread, because nothing may run beside the measured
program: it is drawn when the caller reports something, and the caller passes the
time. rich is imported only for a terminal.
"""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from benchwright.core.untrusted import visible_lines

if TYPE_CHECKING:
    from rich.live import Live

_APART_S = 2.0
_APART_SHARE = 0.1
"""Plain statuses are at least two seconds and a tenth of the time so far apart: the log of an hour
has a page of them."""
_BAR = 20
"""Characters of a bar."""


class ProgressDisplay(Protocol):
    """Where progress is shown."""

    def line(self, text: str) -> None:
        """Show a line that stays."""

    def log(self, text: str) -> None:
        """Show a line that stays where no status is redrawn: a status shows the same."""

    def status(self, text: str, fraction: float | None = None, at_s: float | None = None) -> None:
        """Show what runs now, in place of the status before.

        `fraction` is how much of it is done, from 0 to 1, for a bar. `at_s` is when this
        is, on any clock [s]; without it only a terminal shows the status.
        """

    def end_status(self) -> None:
        """Remove the status: what ran is over."""

    def close(self) -> None:
        """Stop showing progress, and restore the terminal."""


def progress_display(stream: TextIO | None = None, *, quiet: bool = False) -> ProgressDisplay:
    """Return the display on `stream`, by default stderr: a live one on a terminal that can redraw
    a line (not with TERM=dumb), plain lines elsewhere, nothing when `quiet`."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return NoProgress()
    live = stream.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalProgress(stream) if live else PlainProgress(stream)


class NoProgress:
    """Shows nothing."""

    def line(self, text: str) -> None:
        """Show nothing."""

    def log(self, text: str) -> None:
        """Show nothing."""

    def status(self, text: str, fraction: float | None = None, at_s: float | None = None) -> None:
        """Show nothing."""

    def end_status(self) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class PlainProgress:
    """Lines, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown_s = -math.inf
        self._complete = False

    def line(self, text: str) -> None:
        """Write the line."""
        self._stream.write(visible_lines(text) + "\n")
        self._stream.flush()

    def log(self, text: str) -> None:
        """Write the line."""
        self.line(text)

    def status(self, text: str, fraction: float | None = None, at_s: float | None = None) -> None:
        """Write the status, unless one was written shortly before; the first one that is
        complete in any case."""
        complete = fraction is not None and fraction >= 1
        apart_s = max(_APART_S, _APART_SHARE * (at_s or 0))
        due = at_s is not None and at_s - self._shown_s >= apart_s
        if at_s is not None and (due or (complete and not self._complete)):
            self._shown_s, self._complete = at_s, complete
            self.line(text)

    def end_status(self) -> None:
        """Write the next status without waiting."""
        self._shown_s, self._complete = -math.inf, False

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()


class TerminalProgress:
    """Lines that scroll, and the status below them."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._live: Live | None = None

    def line(self, text: str) -> None:
        """Print the line above the status."""
        self._console.print(visible_lines(text), markup=False, soft_wrap=True)

    def log(self, text: str) -> None:
        """Show nothing."""

    def status(self, text: str, fraction: float | None = None, at_s: float | None = None) -> None:
        """Redraw the status."""
        del at_s  # A terminal shows each status.
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        shown = fitted_status(visible_lines(text), fraction, self._console.width)
        self._live.update(Text(shown, no_wrap=True, overflow="ellipsis"), refresh=True)

    def end_status(self) -> None:
        """Remove the status line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        """Remove the status line."""
        self.end_status()


def fitted_status(text: str, fraction: float | None, width: int) -> str:
    """Return a status with its bar in a line of `width`.

    `text` has parts separated by `; `, the most important first. In a narrow line the bar is
    shorter, then left out, then the parts are left out from the end.
    """
    for size in (_BAR, _BAR // 2, 0):
        line = bar(fraction, size) + text
        if len(line) <= width:
            return line
    parts = text.split("; ")
    while len(parts) > 1 and len("; ".join(parts)) > width:
        parts.pop()
    return "; ".join(parts)


def bar(fraction: float | None, width: int = _BAR) -> str:
    """Return a bar and two blanks; empty where the fraction is not known, or without a width."""
    if fraction is None or not width:
        return ""
    full = min(width, int(fraction * width))
    return "━" * full + "╌" * (width - full) + "  "
