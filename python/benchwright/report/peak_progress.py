"""Progress of a search over loads: a line for each trial; on a terminal also what runs.

Decision: a line for each trial, never a redrawn one, because a trial lasts for seconds to
minutes and its line is the search's diary. On a terminal a line at the foot says what is
being run. Nothing is drawn by a thread of its own. rich is imported only for a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from benchwright.finding.load_words import name_of, value_text
from benchwright.model.peak import (
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakResult,
    PeakStatus,
    Probe,
)
from benchwright.model.search import SearchTrial
from benchwright.model.visible import visible_lines
from benchwright.report.peak_words import (
    interval_text,
    probability_text,
    rate_text,
    seconds_text,
)

if TYPE_CHECKING:
    from rich.live import Live


class SearchProgress(Protocol):
    """What is told of a search while it runs."""

    def line(self, text: str) -> None:
        """Show a line that stays."""

    def running(self, text: str) -> None:
        """Show what is being done now, where there is a place for it."""

    def close(self) -> None:
        """Put the terminal back."""


def search_progress(
    stream: TextIO | None = None, *, quiet: bool = False
) -> SearchProgress:
    """Return what shows progress on `stream`, by default stderr."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return SilentSearch()
    return TerminalSearch(stream) if stream.isatty() else PlainSearch(stream)


class SilentSearch:
    """Shows nothing."""

    def line(self, text: str) -> None:
        """Show nothing."""

    def running(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class PlainSearch:
    """Lines, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, text: str) -> None:
        """Write the line."""
        self._stream.write(visible_lines(text) + "\n")
        self._stream.flush()

    def running(self, text: str) -> None:
        """Write nothing: the trial's own line follows."""

    def close(self) -> None:
        """Push out what is buffered."""
        self._stream.flush()


class TerminalSearch:
    """Lines that scroll, and one at the foot with what runs."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._live: Live | None = None

    def line(self, text: str) -> None:
        """Print the line above the one at the foot."""
        self._console.print(visible_lines(text), markup=False, soft_wrap=True)

    def running(self, text: str) -> None:
        """Redraw the line at the foot."""
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        shown = Text(visible_lines(text), no_wrap=True, overflow="ellipsis")
        self._live.update(shown, refresh=True)

    def close(self) -> None:
        """Put the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def opening_text(criteria: Sequence[str], claims: Sequence[str], policy: str) -> str:
    """Return the line that opens a search."""
    return (
        f"searching for the peak rate with {' and '.join(criteria)}; "
        f"claim {', '.join(claims)}; policy {policy}"
    )


def probe_text(number: int, probe: Probe) -> str:
    """Return what is being run: `trial 7: 236.3/s for 120 s (focus)`."""
    text = (
        f"trial {number}: {rate_text(probe.rate)} for {seconds_text(probe.duration_s)}"
    )
    return text + (f" ({probe.purpose})" if probe.purpose else "")


def running_text(
    number: int, probe: Probe, so_far: LoadTrial, criterion: Criterion
) -> str:
    """Return how far the running trial is."""
    value = value_text(criterion, so_far.values.get(criterion.key))
    seen = f"after {seconds_text(so_far.lasted_s)}: {name_of(criterion)} {value}"
    return f"{probe_text(number, probe)}; {seen}"


def trial_text(
    done: SearchTrial, criterion: Criterion, best: PeakResult | None, spent_s: float
) -> str:
    """Return a trial's line: what was asked, what came, what is known, what it cost.

    `criterion` is the one whose value is told; `best` the answer that the trials so far
    would give.
    """
    parts = [
        f"{probe_text(done.number, done.probe)}: {_outcome(done.trial, criterion)}"
    ]
    if best is not None:
        parts.append(known_text(best))
    parts.append(f"{seconds_text(spent_s)} spent")
    return "; ".join(part for part in parts if part)


def known_text(best: PeakResult) -> str:
    """Return what is known of the peak: `peak 231 to 242/s at 95 %, claim 87 %`."""
    if best.status in (PeakStatus.FAILED, PeakStatus.FAILS_AT_LOWEST):
        return ""
    known = interval_text(best.interval)
    if not known and best.peak_rate is not None:
        known = f"about {rate_text(best.peak_rate)}"
    if not known:
        return ""
    claim = best.claim_probability
    tail = "" if claim is None else f", claim {probability_text(claim)}"
    return f"peak {known}{tail}"


def _outcome(trial: LoadTrial, criterion: Criterion) -> str:
    if trial.ending is LoadEnding.FAILED:
        return f"failed: {trial.failure or 'it did not say how'}"
    value = value_text(criterion, trial.values.get(criterion.key))
    text = f"{name_of(criterion)} {value}"
    if trial.ending is LoadEnding.LEFT:
        text += f", left after {seconds_text(trial.lasted_s)}"
    return text
