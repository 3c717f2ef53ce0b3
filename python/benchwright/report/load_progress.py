"""Progress while a load runs: a line every two seconds, or a live line on a terminal.

Decision: it is drawn only when the engine tells something, once an interval: no thread of
ours may wake up beside what is measured. rich is imported only for a terminal.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from benchwright.finding.load import rate_words, time_words
from benchwright.model.load import LoadProgress
from benchwright.report.progress import bar

if TYPE_CHECKING:
    from rich.live import Live

_APART_NS = 2 * 10**9


class LoadListener(Protocol):
    """What is told of a load's progress."""

    def __call__(self, progress: LoadProgress) -> None:
        """Show how far it is."""

    def close(self) -> None:
        """Show nothing more."""


def load_listener(
    end_ns: int | None, stream: TextIO | None = None, *, quiet: bool = False
) -> LoadListener:
    """Return what shows progress on `stream`, by default stderr."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return Silent()
    if stream.isatty():
        return TerminalLoad(stream, end_ns)
    return PlainLoad(stream, end_ns)


class Silent:
    """Shows nothing."""

    def __call__(self, progress: LoadProgress) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class PlainLoad:
    """A line at most every two seconds, for logs and pipes."""

    def __init__(self, stream: TextIO, end_ns: int | None) -> None:
        self._stream = stream
        self._end_ns = end_ns
        self._shown_ns = -math.inf

    def __call__(self, progress: LoadProgress) -> None:
        """Write how far it is, unless a line came within the last two seconds."""
        if progress.at_ns - self._shown_ns >= _APART_NS:
            self._shown_ns = progress.at_ns
            self._stream.write(progress_text(progress, self._end_ns) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Push out what is buffered."""
        self._stream.flush()


class TerminalLoad:
    """One live line."""

    def __init__(self, stream: TextIO, end_ns: int | None) -> None:
        self._stream = stream
        self._end_ns = end_ns
        self._live: Live | None = None

    def __call__(self, progress: LoadProgress) -> None:
        """Redraw the line."""
        from rich.text import Text

        done = self._end_ns and min(1.0, progress.at_ns / self._end_ns)
        text = bar(done) + progress_text(progress, self._end_ns)
        live = self._live or self._started()
        live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def _started(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        return self._live

    def close(self) -> None:
        """Put the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def progress_text(progress: LoadProgress, end_ns: int | None) -> str:
    """Return `3 s of 5 s; 9,998/s; 12 in flight, 0 waiting; response p50 80 us, p99 1 ms`.

    An interval that reaches past the end has no rate: how long it lasted is not told.
    """
    parts = [time_words(progress.at_ns)]
    over = end_ns is not None and progress.at_ns > end_ns
    if end_ns is not None:
        whole = time_words(end_ns)
        parts = [f"past its {whole}" if over else f"{parts[0]} of {whole}"]
    if progress.rate_per_s is not None and not over:
        parts.append(rate_words(progress.rate_per_s))
    parts.append(f"{progress.in_flight:,} in flight, {progress.waiting:,} waiting")
    quantiles = (("p50", progress.response_ns_p50), ("p99", progress.response_ns_p99))
    known = [f"{name} {time_words(ns)}" for name, ns in quantiles if ns is not None]
    if known:
        parts.append(f"response {', '.join(known)}")
    return "; ".join(parts)
