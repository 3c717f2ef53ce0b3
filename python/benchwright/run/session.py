"""Runs a program against a study: every effect through the ledger, to a verdict."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from benchwright.core.comparison import (
    ComparisonProgress,
    ComparisonResult,
    GateOutcome,
    describe_comparison,
    describe_test,
)
from benchwright.core.errors import Interrupted, OperatingError
from benchwright.core.plan import (
    AskProgram,
    Command,
    CommandMode,
    Pairs,
    Replicated,
    ReplicatePath,
    Replication,
    RunMore,
    StopDecision,
    TestPlan,
    TrialSetting,
)
from benchwright.core.text import plural, status_text
from benchwright.decide.stopping import (
    TestProgress,
    TestsProgress,
    TestsTally,
    decide,
    out_of_reach,
    progress_of,
)
from benchwright.findings.comparison import gang_confounded
from benchwright.run.findings import findings_of_session
from benchwright.run.gangs import Gangs, Task
from benchwright.run.ledger import CutTest, Ledger
from benchwright.run.performer import Performer, make_directory
from benchwright.run.preparation import (
    PreparedProgram,
    comparison_request,
    exec_environment,
    rehearsed_again,
    stored_environment,
)
from benchwright.run.test import CommandFailed, RunningTest
from benchwright.study.catalogue import hosts_of_tests
from benchwright.study.export import export_session, export_test
from benchwright.study.keys import EffectKeys, KeysOfTest, comparison_result_key
from benchwright.suite import effects as effect
from benchwright.suite.interpret import execute
from benchwright.suite.plan import DryAnswers
from benchwright.suite.program import Program

if TYPE_CHECKING:
    from benchwright.core.results import Finding
    from benchwright.run.comparison import RunningComparison
    from benchwright.run.runner import SessionSite
    from benchwright.study.contents import SessionFindings

# --------------------------------------------------------------------------------------
# What a session reports while it runs; report/progress.py shows it.


class ProgressListener(Protocol):
    """Receives a session's progress, between trials and never during one."""

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str, tests: int
    ) -> None:
        """A test starts, or continues after a resume; it is one of so many."""

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
        together: TestsProgress | None,
    ) -> None:
        """A batch ended: trials so far, how far the stopping rule is from its end, and how far all
        tests are, if there are several."""

    def test_closed(self, name: str, stop: StopDecision) -> None:
        """A test ended, for this reason."""

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        """A comparison of these arms starts, or continues after a resume."""

    def block_done(self, so_far: ComparisonProgress) -> None:
        """A block ended; `so_far` is the comparison's state."""

    def comparison_closed(self, result: ComparisonResult) -> None:
        """A comparison ended with this result."""

    def note(self, text: str) -> None:
        """Show a line: ECHO, a resume, an interruption."""

    def close(self) -> None:
        """The session ended: restore the terminal."""


# -- Runs a program against a study: every effect through the ledger, to a verdict -----
#
# The steps of a session; the parts are ledger.py (journal, crashes, checkpoints), performer.py
# (bench) and test.py (one test).

Pass = Generator[effect.Effect, effect.EffectAnswer, object]


class SessionVerdict(msgspec.Struct, frozen=True):
    """How a session ended."""

    status: str
    """`complete`, `failed`, `undecided`, `interrupted` or `stopped`."""
    detail: str
    exit_status: int
    brief: str = ""
    """The detail without the command that failed; empty if it names none."""


def run_to_end(
    ledger: Ledger, run: Callable[[], SessionVerdict], export: Callable[[], object]
) -> SessionVerdict:
    """Run the body of a session; record how it ended, export it, and return that.

    An operating error ends the session as failed and is raised again; the session can be resumed.
    The export is derived from the journal: if it fails, only the verdict's detail says so.
    """
    try:
        verdict = run()
    except OperatingError as error:
        _end(ledger, "failed", str(error), export)
        raise
    incomplete = _end(ledger, verdict.status, verdict.detail, export)
    if not incomplete:
        return verdict
    return msgspec.structs.replace(
        verdict,
        detail=f"{verdict.detail}; {incomplete}",
        brief=f"{verdict.brief}; {incomplete}" if verdict.brief else "",
    )


def _end(ledger: Ledger, status: str, detail: str, export: Callable[[], object]) -> str:
    """Record how a session ended and export it; return why the export is incomplete."""
    ledger.study.end_session(ledger.session, status, detail)
    try:
        export()
    except OSError as error:
        return (
            f"the text export under results/ is not complete: {error.strerror} (the "
            "journal is: `bw stats` reads it)"
        )
    return ""


class ProgramListener(Protocol):
    """Shows a program of tests while it runs."""

    @property
    def progress(self) -> ProgressListener:
        """The listener of its tests."""


class ProgramExperiment:
    """The experiment of a suite, a command or a comparison: a program of tests."""

    applies_loads = False

    def __init__(
        self,
        prepared: PreparedProgram,
        only: Collection[str] | None = None,
        replicate: int | None = None,
    ) -> None:
        """`only`: the keys of the tests and comparisons to run, as a gang of a pool does; None:
        all. `replicate`: their only outermost replicate to run; None: all."""
        if prepared.planned is None:
            prepared = rehearsed_again(prepared)
        self.prepared = prepared
        self.info = prepared.info
        self._only = only
        self._replicate = replicate
        self.notify = prepared.program.notify if only is None else None
        self.servers = prepared.program.servers
        self.tables = prepared.program.tables
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The running session: its tests and comparisons."""
        assert self._session is not None, "it was run"
        return self._session

    def prepare_again(self, note: Callable[[str], None]) -> None:
        """Make the worktrees of a comparison of commits that are gone. Raises BenchError."""
        compared = comparison_request(self.info)
        if compared is not None and compared.checkouts:
            from benchwright.run.checkouts import prepare

            prepare(compared.checkouts, note)

    def programs(self) -> Sequence[tuple[str, ...]]:
        """Return the commands that its tests measure, each once, in order."""
        found = (command.argv for plan in self.prepared.tests for command in plan.phases.exec)
        return tuple(dict.fromkeys(found))

    def run(self, site: SessionSite, listener: ProgramListener) -> SessionVerdict:
        """Run the program; record how the session ended, and return that."""
        prepared, ledger = self.prepared, site.ledger
        tests = {plan.name for plan in prepared.tests if plan.arm is None}
        study = ledger.study.path
        performer = Performer(
            site.bench,
            exec_environment(prepared.info, study),
            study,
            ledger.session,
            watching=site.watching,
            viewer=site.viewer,
            capture=site.capture,
            warn=site.bench.warn,
        )

        def interrupt() -> None:
            performer.interrupt()
            if site.gangs is not None:
                site.gangs.interrupt()

        site.stop.pass_to(interrupt)
        make_directory(
            Path(stored_environment(self.info)["TESTROOT"]),
            "testroot",
            "the directory TESTROOT,",
            "set TESTROOT to a directory for the tests' files, and run again",
        )
        self._session = Session(
            prepared.program,
            ledger,
            performer,
            listener.progress,
            site.recovery.cut,
            len(tests),
            self._only,
            self._replicate,
        )
        run_parts = None
        if site.gangs is not None:
            run_parts = partial(self._run_parts, site.gangs, ledger, listener.progress)
        return self._session.run(prepared.defines, prepared.environment, run_parts)

    def _run_parts(self, gangs: Gangs, ledger: Ledger, progress: ProgressListener) -> None:
        """Have gangs run the program's parts that are not recorded. Raises Interrupted, BenchError."""
        prepared = self.prepared
        parts = gangs.parts(prepared.program, prepared.defines, prepared.environment)
        left = [part for part in parts if not _is_recorded(part, ledger)]
        gangs.expect(len(parts))
        for part in left:
            gangs.submit(part)
        for done in range(1, len(left) + 1):
            end = gangs.next_end()
            if end.failure is not None:
                raise CommandFailed(end.task.name, end.failure)
            if end.gave_up is not None:
                raise end.gave_up
            progress.note(f"{end.task.name}: recorded by gang {end.gang} ({done} of {len(left)})")

    def findings(
        self, ledger: Ledger, verdict: SessionVerdict, recorded: Sequence[Finding], /
    ) -> SessionFindings:
        """Return the findings about the session, its comparisons and its tests."""
        measured = hosts_of_tests(ledger.study, ledger.session, self.info)
        apart = gang_confounded(
            {
                test.name: {measured[test.key]}
                for test in self.session.tests
                if not test.is_arm and test.key in measured
            }
        )
        if apart is not None:
            recorded = (*recorded, apart)
        return findings_of_session(self.session, verdict, ledger, recorded)


class Session:
    """One run of a program: `run()` once, `performer.interrupt` at any time."""

    def __init__(
        self,
        program: Program,
        ledger: Ledger,
        performer: Performer,
        listener: ProgressListener,
        cut: Sequence[CutTest] = (),
        planned: int = 1,
        only: Collection[str] | None = None,
        replicate: int | None = None,
    ) -> None:
        """`planned`: the number of tests, without arms of comparisons, that a dry run has. `only`:
        the keys of the tests and comparisons to run; the others get dry answers. `replicate`: their
        only outermost replicate to run."""
        self._program = program
        self._ledger = ledger
        self._performer = performer
        self._listener = listener
        self._cut = cut
        self._keys = EffectKeys()
        self._fast_fail: Command | None = None
        self._fails_fast = False
        self._halted = False
        self._shown: set[str] = set()
        """Keys of the tests that the listener was called for; not those only replayed."""
        self._exported: set[str] = set()
        self._named: dict[str, RunningTest] = {}
        self._places: dict[str, int] = {}
        """Places of interleaved tests, by key."""
        self._numbers: dict[str, int] = {}
        """Places of all tests in the order of reports, from 1, by key."""
        self._planned = planned
        self._only = only
        self._replicate = replicate
        self._dry = DryAnswers()
        self._left_out: set[str] = set()
        """Names of the tests that are not run."""
        self._paths: dict[str, ReplicatePath] = {}
        """The replicates of the next trials, by test."""
        self._tally = TestsTally(planned)
        self._warned: set[str] = set()
        """Keys of the tests whose target was reported as out of reach."""
        self.tests: list[RunningTest] = []
        """In the order in which reports list them."""
        self.comparisons: list[RunningComparison] = []

    def run(
        self,
        defines: Mapping[str, str],
        environment: Mapping[str, str],
        run_parts: Callable[[], None] | None = None,
    ) -> SessionVerdict:
        """Run the program until it ends or is ended; record and return the verdict.

        `run_parts` has parts of it run elsewhere first, and recorded.

        Raises InputError for a mistake that only a run shows, BenchError for a failure of the
        bench; the session can be resumed in both cases.
        """
        steps = execute(self._program, defines=defines, environment=environment)
        study, number = self._ledger.study, self._ledger.session
        return run_to_end(
            self._ledger,
            lambda: self._run(steps, run_parts),
            lambda: export_session(study, number, self._exported),
        )

    def _run(self, steps: Pass, run_parts: Callable[[], None] | None) -> SessionVerdict:
        try:
            self._settle()
            if run_parts is not None:
                run_parts()
            self._drive(steps)
            return self._verdict()
        except Interrupted:
            return self._interrupted()
        except CommandFailed as failure:
            return self._failed(failure)
        finally:
            for test in self.tests:
                test.remove_replicates()

    def _settle(self) -> None:
        """Clean up tests that a crash cut short, before anything new runs."""
        for cut in self._cut:
            rule = cut.plan.stopping
            RunningTest(cut.key, cut.plan.name, rule, self._ledger, self._performer).settle(cut)

    def _drive(self, steps: Pass) -> None:
        answer: effect.EffectAnswer = None
        try:
            while True:
                answer = self._answer(steps.send(answer))
        except StopIteration:
            return
        finally:
            steps.close()

    def _answer(self, step: effect.Effect) -> effect.EffectAnswer:
        if self._leaves_out(step):
            return self._dry.answer(step)
        match step:
            case effect.Say(text):
                self._say(text)
            case effect.RunSystem():
                return self._system(step)
            case effect.SetFastFail(command):
                self._fails_fast, self._fast_fail = True, command
            case effect.WriteCheckpoint():
                return self._checkpoint(step)
            case effect.BeginTest():
                self._open_test(step)
            case effect.AskNext(name):
                return self._next_epochs(self._named[name])
            case effect.RunEpochs(plan, first, count):
                return self._run_epochs(plan, first, count)
            case effect.EndTest(name):
                self._close_test(self._named[name])
            case effect.RunComparison():
                self._compare(step)
            case effect.Halt():
                self._halt()
        return None

    def _leaves_out(self, step: effect.Effect) -> bool:
        """Return whether an effect belongs to a part that is not run here; then its keys are used
        up."""
        if self._only is None:
            return False
        match step:
            case effect.Say():
                self._keys.next("say")
                return True
            case effect.BeginTest(name) if self._keys.following("test") not in self._only:
                self._keys.next("test")
                self._left_out.add(name)
                return True
            case effect.RunComparison(plans) if self._keys.following("compare") not in self._only:
                self._keys.next("compare")
                for _ in plans:
                    self._keys.next("test")
                return True
            case effect.AskNext(name) | effect.EndTest(name):
                return name in self._left_out
            case effect.RunEpochs(plan):
                return plan.name in self._left_out
        return False

    # -- single effects -----------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._ledger.once(self._keys.next("say"), "ECHO", bool, lambda: self._noted(text))

    def _noted(self, text: str) -> bool:
        self._listener.note(text)
        return True

    def _system(self, step: effect.RunSystem) -> int:
        key = self._keys.next("system")
        if self._ledger.recorded(key, int) is None:
            self._performer.check()
        status = self._ledger.command(
            key,
            f"SYSTEM {step.command.text}",
            lambda: self._performer.command(CommandMode.SYSTEM, step.command, step.environment),
            must_succeed=self._fails_fast,
        )
        if status and self._fails_fast:
            raise CommandFailed("SYSTEM", f"`{step.command.text}` {status_text(status)}")
        return status

    def _checkpoint(self, step: effect.WriteCheckpoint) -> int:
        key = self._keys.next("checkpoint")
        restore = self._ledger.restores.get(key)
        if restore is not None:
            self._keys.restore(restore)
            return 1
        if not self._ledger.has_checkpoint(key):
            self._performer.check()
            self._ledger.write_checkpoint(key, step.file)
        return 0

    # -- tests --------------------------------------------------------------------------

    def _open_test(self, step: effect.BeginTest) -> None:
        key = self._keys.next("test")
        # A session of an earlier version goes on by the rule that it began with.
        noted = self._ledger.recorded(KeysOfTest(key).plan, TestPlan)
        rule = step.stopping if noted is None else noted.stopping
        if isinstance(rule, Replicated):
            rule = msgspec.structs.replace(rule, replication=self._part_of(rule.replication))
        test = RunningTest(key, step.name, rule, self._ledger, self._performer)
        test.draws = self._program.draws
        if isinstance(rule, Replicated):
            from benchwright.run.replicates import Replicates

            made = (key, step.name, rule.replication, self._ledger, self._performer)
            test.replicates = Replicates(*made, test.restart)
        self._named[step.name] = test
        if step.place is None:
            self.tests.append(test)
            self._numbers[test.key] = len(self._numbers) + 1
            return
        self._numbers[test.key] = step.place + 1
        # Interleaved tests start in a random order, and are reported in that given.
        self._places[test.key] = step.place
        at = [self._places.get(other.key, -1) for other in self.tests]
        self.tests.insert(bisect.bisect(at, step.place), test)

    def _part_of(self, replication: Replication) -> Replication:
        """Return the levels of replication as far as this session runs them."""
        return msgspec.structs.replace(replication, only=self._replicate)

    def _elsewhere(self, test: RunningTest) -> int:
        """Return how many of a test's next epochs run elsewhere."""
        if self._replicate in (None, 1) or not isinstance(test.rule, Replicated):
            return 0
        # Few sessions are a part of another one.
        from benchwright.core.replication import trials_before

        # Its plan, with the warm-up trials, comes with its first epochs.
        plan = test.plan
        before = 1 if plan is None else trials_before(test.rule.replication, plan.warmups)
        return before - test.skipped

    def _next_epochs(self, test: RunningTest) -> int:
        if left := self._elsewhere(test):
            return left
        if (ended := test.recorded_end) is not None:
            # A later version may want more trials; what ended stays ended.
            test.stopped(ended)
            return 0
        while True:
            match decide(test.rule, test.history()):
                case RunMore(epochs, path):
                    self._paths[test.name] = path
                    return epochs
                case AskProgram():
                    test.ask_program()
                case StopDecision() as stop:
                    test.stopped(stop)
                    return 0

    def _run_epochs(self, plan: TestPlan, first: int, count: int) -> int:
        test = self._named[plan.name]
        if self._replicate is not None:
            test.plan = plan
            if ran := min(self._elsewhere(test), count):
                test.skipped += ran
                return ran
        if test.key not in self._shown and not test.has_recorded(first):
            self._shown.add(test.key)
            rule = describe_test(plan)
            self._listener.test_opened(plan.name, plan.threads, plan.sample, rule, self._planned)
        if not test.has_recorded(first):
            viewer, history = self._performer.viewer, test.history()
            viewer.give_turn()
            mean_ns = history.duration_ns / history.epochs if history.epochs else None
            count = viewer.limited(count, mean_ns)
        done = test.run(plan, first, count, TrialSetting(self._paths[plan.name]))
        if test.key in self._shown:
            self._report_progress(test)
        return done

    def _report_progress(self, test: RunningTest) -> None:
        history = test.history()
        specs = test.plan.metrics if test.plan else ()
        progress = progress_of(test.rule, history, specs)
        self._tally.put(test.key, history, progress)
        number = self._numbers[test.key]
        # A dry run cannot know all tests of a suite with conditions.
        several = 1 < self._planned >= number
        self._listener.trials_done(
            test.name,
            history.trials,
            history.failed,
            progress,
            history.duration_ns / 1e9,
            self._tally.progress(number) if several else None,
        )
        if test.key not in self._warned:
            why = out_of_reach(test.rule, history)
            if why:
                self._warned.add(test.key)
                self._listener.note(f"{test.name}: {why}")

    def _close_test(self, test: RunningTest) -> None:
        test.close()
        test.remove_replicates()
        if test.plan is None:
            return
        assert test.stop is not None, "a test is closed after a decision to stop"
        self._tally.put(test.key, test.history(), None)
        if test.key in self._shown:
            self._export_test(test.key)
            self._listener.test_closed(test.name, test.stop)

    # -- comparisons --------------------------------------------------------------------

    def _compare(self, step: effect.RunComparison) -> None:
        # Most sessions compare nothing.
        from benchwright.run.comparison import start_comparison

        if (replication := step.rule.replication) is not None:
            rule = msgspec.structs.replace(step.rule, replication=self._part_of(replication))
            step = msgspec.structs.replace(step, rule=rule)
        comparison = start_comparison(step, self._keys, self._ledger, self._performer)
        for arm in comparison.tests:
            arm.draws = self._program.draws
        self.tests += comparison.tests
        self.comparisons.append(comparison)
        live = not comparison.is_recorded
        if live:
            self._listener.comparison_opened(step.names, describe_comparison(step.rule))
        comparison.run(self._report_block if live else lambda _: None)
        if live and comparison.result is not None:
            self._listener.comparison_closed(comparison.result)
            for arm in comparison.tests:
                self._export_test(arm.key)

    def _report_block(self, comparison: RunningComparison) -> None:
        if any(test.live for test in comparison.tests):
            self._listener.block_done(comparison.progress())

    def _halt(self) -> None:
        """STOP: clean up the test in progress, unless a checkpoint was just written: a resume
        from it continues with the test as it is."""
        self._halted = True
        if self.tests and self.tests[-1].stop is None and not self._ledger.at_checkpoint:
            self.tests[-1].suspend()

    # -- how it ends --------------------------------------------------------------------

    def _verdict(self) -> SessionVerdict:
        accepted = {
            test.key
            for comparison in self.comparisons
            if comparison.accepts_failures
            for test in comparison.tests
        }
        failed = [test.name for test in self.tests if test.failed and test.key not in accepted]
        compared = [c.result for c in self.comparisons if c.result is not None]
        missed = [c for c in compared if c.exit_status == 1]
        undecided = [
            test.name
            for test in self.tests
            if test.stop and not test.stop.answered and not test.is_arm
        ]
        undecided += [" and ".join(c.arms) for c in compared if c.exit_status == 3]
        status = "undecided" if undecided and not failed else "complete"
        if self._halted:
            status = "stopped"
        if failed:
            return SessionVerdict(status, f"commands failed in {_listed(failed)}", 1)
        if missed:
            return SessionVerdict("complete", f"gate failed: {'; '.join(_failed_gates(missed))}", 1)
        if undecided:
            return SessionVerdict(status, f"no answer for {_listed(undecided)}", 3)
        if self._halted:
            return SessionVerdict(status, "the suite stopped itself (STOP)", 0)
        if compared:
            names = "; ".join(" and ".join(c.arms) for c in compared)
            return SessionVerdict(status, f"compared {names}", 0)
        count = len(self.tests)
        return SessionVerdict(status, plural(count, "test"), 0)

    def _interrupted(self) -> SessionVerdict:
        """Clean up unless the user interrupted twice; the session can be resumed."""
        for test in self.tests:
            if test.stop is None:
                with contextlib.suppress(Interrupted):
                    test.suspend()
        return SessionVerdict("interrupted", "`bw resume` continues from here", 130)

    def _failed(self, failure: CommandFailed) -> SessionVerdict:
        """Run the FASTFAIL script; CLEANUP has run, POSTCLEANUP does not, for inspection."""
        if self._fast_fail is not None:
            environment = (("BW_FAILED", failure.subject), ("BW_REASON", failure.reason))
            with contextlib.suppress(Interrupted):
                self._performer.command(CommandMode.FASTFAIL, self._fast_fail, environment)
        return SessionVerdict("failed", str(failure), 1, failure.brief)

    def _export_test(self, key: str) -> None:
        """Export a test that has ended; if that fails, the session's end tries again."""
        with contextlib.suppress(OSError):
            export_test(self._ledger.study, self._ledger.session, key)
            self._exported.add(key)


def _is_recorded(part: Task, ledger: Ledger) -> bool:
    """Return whether a part has ended: its comparison has a result, or all its tests were stopped."""
    if part.shown_by:
        return ledger.knows(part.shown_by)
    keys = [prefix.removesuffix("/") for prefix in part.prefixes]
    if keys[0].endswith("/compare"):
        return ledger.knows(comparison_result_key(keys[0]))
    return all(ledger.knows(KeysOfTest(key).stop) for key in keys)


_MOST_NAMED = 4
"""A verdict about more tests has their number; their rows are in the report."""


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMED:
        return plural(len(names), "test")
    return ", ".join(names)


def _failed_gates(compared: Sequence[ComparisonResult]) -> list[str]:
    """Return the gates that failed, each with its candidate."""
    return [
        f"{gate.candidate}: {gate.gate.text}: {gate.detail}"
        for comparison in compared
        for gate in comparison.gates
        if gate.outcome is GateOutcome.FAILED
    ]
