"""The terminal output of a session of tests: progress, the outcome, the text of a notice.

Decision: report modules are imported at the end of the session, so that they do not delay its
first trial.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchwright.cli.terminal import is_without_reader, silence_stdout
from benchwright.core.progress import progress_display
from benchwright.core.quantity import finite
from benchwright.core.untrusted import one_line
from benchwright.report.progress import SessionProgress
from benchwright.run.preparation import PreparedProgram, comparison_request
from benchwright.run.session import ProgramExperiment

if TYPE_CHECKING:
    from benchwright.core.notice import NoticeResult
    from benchwright.core.observation import FoldedStacks
    from benchwright.core.quiet import QuietResult, RestoreResult
    from benchwright.core.results import Finding
    from benchwright.report.stats_document import StatsReport
    from benchwright.run.notices import NoticeContents
    from benchwright.run.runner import SessionResult
    from benchwright.run.test import RunningTest


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ignore a closed stdout, so that it does not change the session's exit status."""
    try:
        yield
    except OSError as error:
        if not is_without_reader(error):
            raise
        silence_stdout()


def warn(text: str) -> None:
    """Print a line on stderr, if stderr is open."""
    with contextlib.suppress(OSError):
        print(one_line(text), file=sys.stderr, flush=True)


class TerminalOutput(ABC):
    """The part of the output that all sessions share (`SessionOutput` in run/runner.py)."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show a line of progress."""

    def warn(self, text: str) -> None:
        """Print a line on stderr, if stderr is open."""
        warn(text)

    def quieted(self, quiet: QuietResult) -> None:
        """Print the settings that were changed."""
        from benchwright.report.quiet import quiet_lines

        for line in quiet_lines(quiet):
            self.note(line)

    def restored(self, restored: RestoreResult, *, late: bool) -> None:
        """Print the settings that were restored."""
        from benchwright.report.quiet import restored_lines

        for line in restored_lines(restored, late=late):
            self.note(line)

    def not_restored(self, finding: Finding) -> None:
        """Print why settings could not be restored."""
        from benchwright.report.parts import finding_line

        self.note(finding_line(finding))

    def draw(self, stacks: FoldedStacks, title: str) -> str:
        """Return the flame graph of a trial's profile, as SVG."""
        from benchwright.report.flame_graph import flame_svg

        return flame_svg(stacks, title)


class ProgramOutput(TerminalOutput):
    """The output of a suite, a command or a comparison."""

    def __init__(
        self, experiment: ProgramExperiment, *, json: bool, quiet: bool
    ) -> None:
        self._experiment = experiment
        self._json = json
        self.progress = SessionProgress(progress_display(quiet=quiet))

    def note(self, text: str) -> None:
        """Show a line of progress."""
        self.progress.note(text)

    def close(self) -> None:
        """Restore the terminal."""
        self.progress.close()

    def print(self, ended: SessionResult) -> None:
        """Print the outcome: of a comparison, or of a suite's tests."""
        with reader_may_leave():
            self._print(ended)

    def _print(self, ended: SessionResult) -> None:
        session = self._experiment.session
        request = comparison_request(self._experiment.prepared)
        if request is None or not session.comparisons:
            from benchwright.cli.outcome import print_outcome

            print_outcome(ended, session, json=self._json)
            return
        from benchwright.cli.compare_outcome import print_comparison_outcome

        (comparison,) = session.comparisons
        print_comparison_outcome(
            ended, comparison, json=self._json, junit=request.junit
        )

    def notice(self, ended: SessionResult) -> NoticeContents:
        """Return the results and the report of the tests, for a notice."""
        from benchwright.cli.outcome import document_of
        from benchwright.report.comparison import render_comparison
        from benchwright.report.parts import stop_line
        from benchwright.report.stats_table import render_table
        from benchwright.run.notices import NoticeContents

        assert ended.findings is not None
        session, findings = self._experiment.session, ended.findings.all
        document = document_of(session.tests, findings)
        sections = document.sections
        stops = [
            stop_line(section.name, section.stop)
            for section in sections
            if section.stop
        ]
        compared = [
            comparison.result
            for comparison in session.comparisons
            if comparison.result is not None
        ]
        return NoticeContents(
            summary="\n".join(
                [
                    render_table(document, findings=False),
                    *stops,
                    *map(render_comparison, compared),
                ]
            ),
            findings=findings,
            results=tuple(_results(document)),
            tests=tuple(test.name for test in session.tests if _is_unanswered(test)),
        )


def run_prepared(prepared: PreparedProgram, arguments: Namespace) -> int:
    """Run a program as a new session of the study in `arguments`; return the exit code."""
    from benchwright.run.runner import run_session

    experiment = ProgramExperiment(prepared)
    output = ProgramOutput(experiment, json=arguments.json, quiet=arguments.quiet)
    study, undone = Path(arguments.study), arguments.undone
    return run_session(experiment, study, output, undone=undone)


_COMMON_QUANTITIES = frozenset({"user", "system", "wait", "cpu_percent", "rss_bytes"})


def _results(document: StatsReport) -> Iterator[NoticeResult]:
    """Yield the results of a document: elapsed time and declared metrics."""
    from benchwright.core.notice import NoticeResult

    for section in document.sections:
        for line in section.lines:
            summary = line.summary
            if summary.name not in _COMMON_QUANTITIES:
                yield NoticeResult(
                    section.name,
                    summary.name,
                    summary.unit,
                    summary.count,
                    finite(summary.mean),
                    finite(summary.half_width),
                    summary.confidence,
                )


def _is_unanswered(test: RunningTest) -> bool:
    """Return whether a test failed or is undecided."""
    unanswered = test.stop is None or not test.stop.answered
    return bool(test.failed) or (unanswered and not test.is_arm)
