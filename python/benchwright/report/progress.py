"""Progress of a session: which test runs, how far it is, and why it ended.

Purpose: show sample, trial, the interval's width beside its target, elapsed and expected
time. It is shown between trials and never during one.
Decision: events carry the elapsed time, so a test can replay any session.
Non-goals: the display itself (`core/progress.py`), the final table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from benchwright.core.comparison import ComparisonProgress, ComparisonResult
from benchwright.core.plan import Pairs, StopDecision
from benchwright.core.progress import ProgressDisplay
from benchwright.core.text import duration_text, plural
from benchwright.decide.stopping import TestProgress, TestsProgress
from benchwright.report.answer import estimate_text
from benchwright.report.documents import stop_line


class SessionProgress:
    """Shows a session's events on a display; implements `run.session.ProgressListener`."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display
        self._rule = ""
        self._several = False

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str, tests: int
    ) -> None:
        """Show `NAME (fs=ext2, 4 threads): RULE`, unless the line before said the same rule.

        A factor whose level is a part of the name is not repeated, nor is a single thread. The
        first line of several tests begins with their number.
        """
        first = f"{tests:,} tests; " if tests > 1 and not self._several else ""
        self._several = tests > 1
        known = set(re.split(r"[\s:=,/#]", name))
        about = [f"{factor}={level}" for factor, level in sample if level not in known]
        if threads > 1:
            about.append(plural(threads, "thread"))
        if not self._several:
            self._display.end_status()
        details = f" ({', '.join(about)})" if about else ""
        if rule_text != self._rule:
            self._display.line(f"{first}{name}{details}: {rule_text}")
        elif about:
            self._display.log(f"{name}{details}: {rule_text}")
        self._rule = rule_text

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
        together: TestsProgress | None,
    ) -> None:
        """Show the test's progress; not its end, which has a line of its own. Several tests share
        one status."""
        if together is not None:
            if together.fraction is None or together.fraction < 1:
                text = together_text(name, progress, together)
                self._display.status(text, together.fraction, together.elapsed_s)
        elif progress.fraction is None or progress.fraction < 1:
            text = f"{name}: {state_text(done, failed, progress, elapsed_s)}"
            self._display.status(text, progress.fraction, elapsed_s)

    def test_closed(self, name: str, stop: StopDecision) -> None:
        """Show why the test ended; of several, where there is no status."""
        if self._several:
            self._display.log(stop_line(name, stop))
            return
        self._display.end_status()
        self._display.line(stop_line(name, stop))

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """Show the arms and the stopping rule."""
        self._display.end_status()
        self._display.line(f"{' against '.join(reversed(names))}: {rule_text}")

    def block_done(self, so_far: ComparisonProgress) -> None:
        """Show the comparison's progress."""
        fraction = (so_far.blocks + so_far.failed) / so_far.maximum
        if so_far.trials is not None:
            fraction = so_far.trials[0] / so_far.trials[1]
        self._display.status(block_text(so_far), min(fraction, 1.0), so_far.elapsed_s)

    def comparison_closed(self, result: ComparisonResult) -> None:
        """Show why the comparison ended."""
        self._display.end_status()
        self._display.line(stop_line(" and ".join(result.arms), result.stop))

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show how far the session is, where other hosts run its parts."""
        self._display.status(text, fraction, elapsed_s)

    def note(self, text: str) -> None:
        """Show a line."""
        self._display.line(text)

    def close(self) -> None:
        """Close the display."""
        self._display.close()


def state_text(done: int, failed: int, progress: TestProgress, elapsed_s: float) -> str:
    """Return `trial 24 of 57; elapsed 41.2 ms ± 7.1 %; about 17 s left; target 5 %; 12 s so far`:
    the most important first, because a narrow terminal shows fewer parts."""
    parts = [_epochs(done, failed, progress)]
    if progress.estimate is not None:
        parts.append(f"{progress.metric} {estimate_text(progress.estimate)}")
    if progress.left_s is not None:
        parts.append(f"{progress.bound} {duration_text(progress.left_s, 2)} left")
    if progress.target_percent is not None:
        parts.append(f"target {progress.target_percent:g} %")
    parts.append(f"{duration_text(elapsed_s)} so far")
    return "; ".join(parts)


def together_text(name: str, progress: TestProgress, together: TestsProgress) -> str:
    """Return `test 3 of 9, trial 23 of 72; elapsed 41.2 ms ± 7.1 %; about 4 min left; gzip:n=3;
    12 s so far`: trials and times of all tests, and the value of the one that ran last."""
    trial = f"trial {together.trials:,}"
    if together.expected_total is not None:
        bound = together.bound if together.bound != "about" else ""
        trial += " of " + f"{bound} {together.expected_total:,}".lstrip()
    parts = [f"test {together.number:,} of {together.tests:,}, {trial}"]
    if progress.estimate is not None:
        parts.append(f"{progress.metric} {estimate_text(progress.estimate)}")
    if together.left_s is not None:
        left = duration_text(together.left_s, 2)
        parts.append(f"{together.bound} {left} left")
    parts += [name, f"{duration_text(together.elapsed_s)} so far"]
    return "; ".join(parts)


def _epochs(done: int, failed: int, progress: TestProgress) -> str:
    if not done + failed:
        return "warming up"
    text = f"trial {done + failed}"
    if progress.expected_total is not None:
        bound = progress.bound if progress.bound != "about" else ""
        text += " of " + f"{bound} {progress.expected_total:,}".lstrip()
    return text + (f", {failed} failed" if failed else "")


def block_text(so_far: ComparisonProgress) -> str:
    """Return `block 24 of 200; elapsed ×1.032 (1.021 to 1.043); at most 88 s left; 12 s so far`;
    with candidates' names if there are several."""
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
    done, total = (number, so_far.maximum) if so_far.trials is None else so_far.trials
    if 0 < done < total:
        left_s = so_far.elapsed_s / done * (total - done)
        if so_far.limit_s is not None:
            left_s = min(left_s, max(so_far.limit_s - so_far.elapsed_s, 0))
        bound = "at most" if so_far.trials is None else "about"
        parts.append(f"{bound} {duration_text(left_s, 2)} left")
    return "; ".join((*parts, f"{duration_text(so_far.elapsed_s)} so far"))
