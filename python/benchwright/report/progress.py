"""Progress while a session runs: plain lines, or a live line on a terminal.

Purpose: which sample, which epoch, how far the interval still is from its target,
elapsed and expected time; all on stderr, between trials and never during one.
Decision: a listener is told of events with the elapsed time in them and keeps no clock,
so a test can replay any session. rich is imported only for a terminal.
Non-goal: the final table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from benchwright.core.comparison import ComparisonProgress, ComparisonResult
from benchwright.core.plan import Pairs, StopDecision
from benchwright.core.text import duration_text, plural
from benchwright.core.untrusted import visible_lines
from benchwright.decide.stopping import TestProgress, watched_width
from benchwright.report.parts import stop_line
from benchwright.run.session import ProgressListener

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


_QUIET_S = 2.0
"""Plain lines of one test are at least this far apart [s]: logs stay readable."""


def listener(stream: TextIO | None = None, *, quiet: bool = False) -> ProgressListener:
    """Return what shows progress on `stream`, by default stderr: live on a terminal,
    lines elsewhere, nothing when `quiet`."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return SilentProgress()
    if stream.isatty():
        return TerminalProgress(stream)
    return PlainProgress(stream)


class SilentProgress:
    """Shows nothing."""

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str
    ) -> None:
        """Show nothing."""

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
    ) -> None:
        """Show nothing."""

    def test_closed(self, name: str, stop: StopDecision) -> None:
        """Show nothing."""

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """Show nothing."""

    def block_done(self, so_far: ComparisonProgress) -> None:
        """Show nothing."""

    def comparison_closed(self, result: ComparisonResult) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class PlainProgress:
    """One line per event, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown_s = -math.inf
        self._opening = Opening()

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str
    ) -> None:
        """Write which test begins, at which sample, under which rule."""
        self._shown_s = -math.inf
        self._write(self._opening.text(name, threads, sample, rule_text))

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
    ) -> None:
        """Write how far the test is, unless a line came within the last two seconds."""
        finished = progress.fraction is not None and progress.fraction >= 1
        if elapsed_s - self._shown_s < _QUIET_S and not finished:
            return
        self._shown_s = elapsed_s
        self._write(f"{name}: {state_text(done, failed, progress, elapsed_s)}")

    def test_closed(self, name: str, stop: StopDecision) -> None:
        """Write why the test ended."""
        self._write(stop_line(name, stop))

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """Write what is compared, and what ends it."""
        self._shown_s = -math.inf
        self._write(f"{' against '.join(reversed(names))}: {rule_text}")

    def block_done(self, so_far: ComparisonProgress) -> None:
        """Write how far it is, unless a line came within the last two seconds."""
        if so_far.elapsed_s - self._shown_s >= _QUIET_S:
            self._shown_s = so_far.elapsed_s
            self._write(block_text(so_far))

    def comparison_closed(self, result: ComparisonResult) -> None:
        """Write why it ended."""
        self._write(stop_line(" and ".join(result.arms), result.stop))

    def note(self, text: str) -> None:
        """Write the line."""
        self._write(text)

    def close(self) -> None:
        """Push out what is buffered."""
        self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write(visible_lines(text) + "\n")
        self._stream.flush()


class TerminalProgress:
    """A line at the terminal's foot that follows the running test; the rest scrolls."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console: Console = Console(file=stream, highlight=False)
        self._live: Live | None = None
        self._opening = Opening()

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str
    ) -> None:
        """Print which test begins, and start its live line."""
        self._start(self._opening.text(name, threads, sample, rule_text))

    def _start(self, text: str) -> None:
        self._end_live()
        self._print(text)
        from rich.live import Live

        # No refresh thread: nothing of ours may run while a trial does.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
    ) -> None:
        """Redraw the live line."""
        text = f"{name}  {bar(progress.fraction)}{state_text(done, failed, progress, elapsed_s)}"
        self._update(text)

    def _update(self, text: str) -> None:
        if self._live is None:
            self._print(text)
            return
        from rich.text import Text

        self._live.update(
            Text(visible_lines(text), no_wrap=True, overflow="ellipsis"), refresh=True
        )

    def test_closed(self, name: str, stop: StopDecision) -> None:
        """End the live line and print why the test ended."""
        self._end_live()
        self._print(stop_line(name, stop))

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """Print what is compared, and start its live line."""
        self._start(f"{' against '.join(reversed(names))}: {rule_text}")

    def block_done(self, so_far: ComparisonProgress) -> None:
        """Redraw the live line."""
        share = (so_far.blocks + so_far.failed) / so_far.maximum
        if so_far.trials is not None:
            share = so_far.trials[0] / so_far.trials[1]
        self._update(bar(min(share, 1.0)) + block_text(so_far))

    def comparison_closed(self, result: ComparisonResult) -> None:
        """End the live line and print why it ended."""
        self._end_live()
        self._print(stop_line(" and ".join(result.arms), result.stop))

    def note(self, text: str) -> None:
        """Print the line above the live one."""
        self._print(text)

    def close(self) -> None:
        """Put the terminal back."""
        self._end_live()

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, text: str) -> None:
        self._console.print(visible_lines(text), markup=False, soft_wrap=True)


class Opening:
    """The line that opens a test; a rule that holds for many tests is written once."""

    def __init__(self) -> None:
        self._rule = ""

    def text(self, name: str, threads: int, sample: Pairs, rule_text: str) -> str:
        """Return `NAME (fs=ext2, 4 threads): RULE`, without a rule just written."""
        about = [f"{factor}={level}" for factor, level in sample]
        about.append(plural(threads, "thread"))
        same, self._rule = rule_text == self._rule, rule_text
        return f"{name} ({', '.join(about)})" + ("" if same else f": {rule_text}")


def state_text(done: int, failed: int, progress: TestProgress, elapsed_s: float) -> str:
    """Return `epoch 24 of 57; elapsed within ±7.1 % (target 5 %); 12 s, about 17 s left`."""
    parts = [_epochs(done, failed, progress)]
    widths = _widths(progress)
    if widths:
        parts.append(widths)
    parts.append(_times(done + failed, progress, elapsed_s))
    return "; ".join(parts)


def _epochs(done: int, failed: int, progress: TestProgress) -> str:
    text = f"epoch {done + failed}"
    if progress.expected_total is not None:
        most = "at most " if progress.at_most else ""
        text += f" of {most}{progress.expected_total}"
    return text + (f", {failed} failed" if failed else "")


def _widths(progress: TestProgress) -> str:
    found = watched_width(progress)
    if found is None:
        return ""
    name, width = found
    text = f"{name} within ±{width:.3g} %"
    if progress.target_percent is not None:
        text += f" (target {progress.target_percent:g} %)"
    return text


def _times(done: int, progress: TestProgress, elapsed_s: float) -> str:
    text = duration_text(elapsed_s)
    total = progress.expected_total
    if total is None or not done or total <= done:
        return text
    left = duration_text(elapsed_s / done * (total - done))
    return f"{text}, {'at most' if progress.at_most else 'about'} {left} left"


def block_text(so_far: ComparisonProgress) -> str:
    """Return `block 24 of 200; elapsed ×1.032 (1.021 to 1.043); 12 s`; the candidates
    are named where there are several."""
    failed = f", {so_far.failed} failed" if so_far.failed else ""
    number = so_far.blocks + so_far.failed
    parts = [f"block {number} of {so_far.maximum}{failed}"]
    if so_far.warming_up:
        parts = ["warming up"]
    if so_far.trials is not None:
        parts = [f"trial {so_far.trials[0]} of {so_far.trials[1]}{failed}"]
    several = len({candidate for _, candidate, _ in so_far.ratios}) > 1
    for metric, candidate, ratio in so_far.ratios[:3]:
        if math.isfinite(ratio.high):
            of = f" of {candidate}" if several else ""
            interval = f"({ratio.low:.4g} to {ratio.high:.4g})"
            parts.append(f"{metric}{of} ×{ratio.value:.4g} {interval}")
    return "; ".join((*parts, duration_text(so_far.elapsed_s)))


def bar(fraction: float | None, width: int = 20) -> str:
    """Return a bar of text and a space; empty where the share is not known."""
    if fraction is None:
        return ""
    full = min(width, int(fraction * width))
    return "━" * full + "╌" * (width - full) + "  "
