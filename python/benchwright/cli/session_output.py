"""The terminal output of a session of tests: progress, the outcome, the text of a notice.

Decision: report modules are imported at the end of the session, so that they do not delay its
first trial.
"""

from __future__ import annotations

import contextlib
import os
import stat
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchwright.cli.terminal import is_without_reader, silence_stdout, warn
from benchwright.core.progress import progress_display
from benchwright.core.quantity import finite
from benchwright.feature import session_kind
from benchwright.report.progress import SessionProgress
from benchwright.run.preparation import comparison_request, prepare_again
from benchwright.run.session import ProgramExperiment

if TYPE_CHECKING:
    from benchwright.cli.outcome import Outcome
    from benchwright.core.notice import NoticeResult
    from benchwright.report.answer import SessionAnswer
    from benchwright.run.findings import NoticeContents
    from benchwright.run.runner import Experiment, OutputOptions, SessionOutput, SessionResult
    from benchwright.run.test import RunningTest
    from benchwright.study.journal import SessionInfo


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ignore a closed stdout, so that it does not change the session's exit status."""
    try:
        yield
    except OSError as error:
        if not is_without_reader(error):
            raise
        silence_stdout()


class TerminalOutput(ABC):
    """The part of the output that all sessions share (`SessionOutput` in run/runner.py)."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show a line of progress."""

    def warn(self, text: str) -> None:
        """Print a line on stderr, if stderr is open."""
        warn(text)


class ProgramOutput(TerminalOutput):
    """The output of a suite, a command or a comparison."""

    def __init__(self, experiment: ProgramExperiment, options: OutputOptions) -> None:
        self._experiment = experiment
        self._json = options.json
        self._verbose = options.verbose
        self._here = Path.cwd() if options.here is None else options.here
        self.progress = SessionProgress(progress_display(quiet=options.quiet))

    def note(self, text: str) -> None:
        """Show a line of progress."""
        self.progress.note(text)

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show how far the session is, where other hosts run its parts."""
        self.progress.status(text, fraction, elapsed_s)

    def close(self) -> None:
        """Restore the terminal."""
        self.progress.close()

    def print(self, ended: SessionResult) -> None:
        """Print the outcome: of a comparison, or of a suite's tests."""
        with reader_may_leave():
            self._print(ended)

    def _outcome(self, ended: SessionResult) -> Outcome:
        from benchwright.cli.outcome import outcome_of

        session, info = self._experiment.session, self._experiment.info
        return outcome_of(ended, session, info, self._here, verbose=self._verbose)

    def _print(self, ended: SessionResult) -> None:
        session = self._experiment.session
        request = comparison_request(self._experiment.info)
        outcome = self._outcome(ended)
        if request is None or not session.comparisons:
            from benchwright.cli.outcome import print_outcome

            print_outcome(ended, session, outcome, json=self._json)
            return
        from benchwright.cli.compare_outcome import print_comparison_outcome

        (comparison,) = session.comparisons
        print_comparison_outcome(ended, comparison, outcome, request, json=self._json)

    def notice(self, ended: SessionResult) -> NoticeContents:
        """Return the answers and the findings, for a notice."""
        from benchwright.run.findings import NoticeContents
        from benchwright.views.comparison import render_comparison
        from benchwright.views.tests import answer_lines

        assert ended.findings is not None
        session, outcome = self._experiment.session, self._outcome(ended)
        compared = [
            comparison.result for comparison in session.comparisons if comparison.result is not None
        ]
        answers = "\n".join(answer_lines(outcome.answer, _NOTICE_WIDTH))
        return NoticeContents(
            summary="\n\n".join(filter(None, [answers, *map(render_comparison, compared)])),
            findings=ended.findings.all,
            results=tuple(_results(outcome.answer)),
            tests=tuple(test.name for test in session.tests if _is_unanswered(test)),
        )


_NOTICE_WIDTH = 100


def start(experiment: Experiment[Any], arguments: Namespace) -> int:
    """Run an experiment as a new session of the study in `arguments`; return the exit code."""
    from benchwright.cli.live import live_port, live_view
    from benchwright.run.runner import OutputOptions, run_session

    if _has_input():
        warn(
            "bw: warning: commands do not read this standard input, they get /dev/null: quote a "
            "command with its redirection (bw run 'wc -l < FILE')"
        )
    study = Path(arguments.study)
    options = OutputOptions(json=arguments.json, quiet=arguments.quiet, verbose=arguments.verbose)
    output = output_of(experiment, options)
    with live_view(study, live_port(arguments)):
        return run_session(experiment, study, output, undone=arguments.undone)


def _has_input() -> bool:
    """Return whether the standard input is a file with contents, as with `< FILE`."""
    try:
        about = os.fstat(0)
    except OSError:  # closed
        return False
    return stat.S_ISREG(about.st_mode) and about.st_size > 0


def experiment_of(info: SessionInfo) -> Experiment[Any]:
    """Return the experiment of a stored session. Raises InputError for a package that it needs and
    that is not installed."""
    kind = session_kind(info.kind)
    return ProgramExperiment(prepare_again(info)) if kind is None else kind.experiment(info)


def output_of(experiment: Experiment[Any], options: OutputOptions) -> SessionOutput:
    """Return the output of an experiment."""
    kind = session_kind(experiment.info.kind)
    if kind is not None:
        return kind.output(experiment, options)
    assert isinstance(experiment, ProgramExperiment), "the core's own kind of session"
    return ProgramOutput(experiment, options)


def _results(answer: SessionAnswer) -> Iterator[NoticeResult]:
    """Yield the figures of the answers: of each test's main metric and of the others asked for."""
    from benchwright.core.notice import NoticeResult

    for test in answer.tests:
        about = [(test.metric, test.estimate)]
        about += [(other.metric, other.estimate) for other in test.others]
        for metric, estimate in about:
            if estimate is not None:
                yield NoticeResult(
                    test.test,
                    metric,
                    estimate.unit,
                    estimate.n,
                    finite(estimate.value),
                    finite(estimate.half_width),
                    estimate.confidence,
                )


def _is_unanswered(test: RunningTest) -> bool:
    """Return whether a test failed or is undecided."""
    unanswered = test.stop is None or not test.stop.answered
    return bool(test.failed) or (unanswered and not test.is_arm)
