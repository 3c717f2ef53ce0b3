"""One test of a session: PRESETUP, epochs, the decision to continue, POSTCLEANUP."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.core.draws import Draws
from benchwright.core.errors import BenchError, Interrupted
from benchwright.core.observation import FAILED_ENDINGS, ProcessRecord, Trial, TrialEnding
from benchwright.core.plan import (
    AS_PLANNED,
    SUCCESS,
    Command,
    CommandMode,
    StopDecision,
    StoppingRule,
    TestPlan,
    TrialSetting,
    UntilProgram,
)
from benchwright.core.results import Finding
from benchwright.core.text import status_text
from benchwright.decide.history import History, HistoryBuilder
from benchwright.findings.result import TestResult
from benchwright.run.ledger import CutTest, Ledger, VoidPayload
from benchwright.run.performer import Performer
from benchwright.stats.aggregate import TrialValues
from benchwright.study.export import export_test
from benchwright.study.keys import KeysOfTest
from benchwright.study.logs import (
    OutputStore,
    Stream,
    error_text,
    largest_packed,
    log_directory,
    output_text,
)
from benchwright.trial.bench import BatchResult
from benchwright.trial.observe import observe
from benchwright.trial.protocol import test_environment

if TYPE_CHECKING:
    from benchwright.run.replicates import Replicates

# -- How a session ends before its program does ----------------------------------------


class CommandFailed(Exception):
    """A command failed under FASTFAIL; the message says which."""

    def __init__(self, subject: str, reason: str, brief: str = "") -> None:
        self.subject = subject
        self.reason = reason
        self.brief = f"{subject}: {brief}" if brief else ""
        """Without the command, which the sentence of its test has; empty if there is none."""
        super().__init__(f"{subject}: {reason}")


# -- One test of a session: PRESETUP, epochs, the decision to continue, POSTCLEANUP ----

STOPPED = "the launcher was stopped meanwhile (SIGSTOP, Ctrl-Z)"
"""The cause of a void trial that is repeated: its stamps are late."""
_NOT_STARTED = (126, 127)
"""Exit statuses of the launcher and of a shell for a program that cannot be executed."""


def _drawn_for(plan: TestPlan, epoch: int) -> int:
    """Return the number that the inputs of an epoch are drawn for: of an arm, that of its block."""
    return epoch if plan.arm is None else (epoch - 1) // plan.arm.trials_per_block + 1


class RunningTest:
    """A test that a session runs or replays."""

    def __init__(
        self, key: str, name: str, rule: StoppingRule, ledger: Ledger, performer: Performer
    ) -> None:
        self.key = key
        self._keys = KeysOfTest(key)
        self.name = name
        self.rule = rule
        self.plan: TestPlan | None = None
        self.skipped = 0
        """Epochs before its own, which run elsewhere (`Replication.only`)."""
        self.trials: list[Trial] = []
        self.cut: Trial | None = None
        """The trial that ended the session under fail-fast: void, and in no figure."""
        self._output = OutputStore()
        self._history: HistoryBuilder | None = None
        self.stop: StopDecision | None = None
        self.recorded: dict[str, Any] = {}
        """What observers recorded of it (`recorded_by`)."""
        self.judged: Sequence[str] = ()
        """Metrics that a comparison judges, in addition to the test's own."""
        self.is_closed = False
        self.findings: tuple[Finding, ...] | None = None
        """The findings of a closed test, once they are computed (run/findings.py)."""
        self.live = False
        """Whether this process has run any part of the test, not only replayed it."""
        self._ledger = ledger
        self._performer = performer
        self._setting = AS_PLANNED
        """Of the trials that ran last."""
        self.replicates: Replicates | None = None
        """What makes its replicates, with levels of replication."""
        self.draws: Draws | None = None
        """What is drawn for each of its trials."""
        self._outside = AS_PLANNED
        """The setting of PRESETUP and POSTCLEANUP."""
        self._suspensions = self._count_suspensions()

    # -- epochs ------------------------------------------------------------------

    def run(
        self, plan: TestPlan, first: int, count: int, setting: TrialSetting = AS_PLANNED
    ) -> int:
        """Replay or run epochs from `first` on, all with this setting; return how many were
        replayed or run.

        Raises CommandFailed under fail-fast, Interrupted if the user asked to stop.
        """
        self.plan = plan
        if self._history is None:
            self._history = HistoryBuilder(plan.metrics)
        recorded = self._replay(first, count)
        if recorded:
            return recorded
        self._performer.check()
        if self.draws is not None and (draws := self.draws.used_by(plan.phases)).inputs:
            # Each trial has inputs of its own, so it is a batch of its own.
            count = 1
            setting = msgspec.structs.replace(setting, drawn=draws.of(_drawn_for(plan, first)))
        if self.replicates is not None:
            setting = self._replicate(self.replicates, plan, setting)
        self._prepare(plan)
        keys = tuple(self._keys.epoch(e) for e in range(first, first + count))
        noted = self._ledger.recorded(self._keys.plan, TestPlan)
        begin = self._ledger.begin(
            f"{self.name} epochs {first}..", keys, None if plan == noted else plan
        )
        self._setting = setting
        result = self._performer.epochs(plan, first, count, setting)
        trials = self._observed(plan, result, setting)
        counted, void = self._sorted(plan, trials, result, keys)
        self._ledger.finish_trials(self.key, begin, counted, void)
        self._take(counted)
        if result.reason == "interrupted":
            raise Interrupted
        if void is not None and void.cause == STOPPED:
            return len(counted) or self.run(plan, first, count, setting)
        if void is not None:
            self.cut = void.trial
            where = f"{self.name} trial {trials[-1].epoch}"
            if result.epochs[-1].output_full:
                raise CommandFailed(where, _too_much(plan, "wrote", "to a stream"))
            command, how = describe_failure(trials[-1], plan.ok_status)
            raise CommandFailed(where, f"`{command}` {how}" if command else how, how)
        if largest_packed(counted) > plan.output.limit_bytes:
            raise CommandFailed(self.name, _too_much(plan, "keeps", "of a stream on disk"))
        return len(counted)

    def _replicate(
        self, replicates: Replicates, plan: TestPlan, setting: TrialSetting
    ) -> TrialSetting:
        """Make the replicate of the next trials; return their whole setting."""
        from benchwright.run.replicates import BuildFailed

        self.live = True
        self._ledger.note(self._keys.plan, plan)
        try:
            setting = replicates.complete(setting, plan)
        except BuildFailed as failure:
            raise CommandFailed(self.name, str(failure)) from None
        self._outside = replicates.outside(setting, plan)
        return setting

    def restart(self) -> None:
        """End what PRESETUP started, so that it runs again before the next trials."""
        self.suspend(patience=1)
        self._suspensions = self._count_suspensions()

    def begin(self, plan: TestPlan) -> None:
        """Record that the test exists, so that arms are stored in their own order, whichever
        of them runs first."""
        self.plan = plan
        self._ledger.note(self._keys.plan, plan)

    def has_recorded(self, epoch: int) -> bool:
        """Return whether the outcome of an epoch is in the journal."""
        return self._ledger.knows(self._keys.epoch(epoch))

    def _replay(self, first: int, count: int) -> int:
        found = 0
        for epoch in range(first, first + count):
            trial = self._ledger.recorded(self._keys.epoch(epoch), Trial)
            if trial is None:
                break
            self._take([trial])
            found += 1
        return found

    def _take(self, trials: Sequence[Trial]) -> None:
        assert self._history is not None
        for trial in trials:
            self.trials.append(trial)
            self._history.add(trial)

    def history(self) -> History:
        """Return the outcomes so far, as a controller sees them."""
        return History() if self._history is None else self._history.history()

    @property
    def observed(self) -> Sequence[TrialValues]:
        """The values of the completed trials, in order."""
        return () if self._history is None else self._history.observed

    def result(self, findings: tuple[Finding, ...] | None = None) -> TestResult:
        """Return the test with its results so far, with these findings."""
        plan = self.plan
        return TestResult(
            name=self.name,
            specs=plan.metrics if plan else (),
            whole_trials=tuple(self.trials),
            void_trials=tuple(self._ledger.void_trials(self.key)),
            rule=self.rule,
            stop=self.stop,
            sample=plan.sample if plan else (),
            arm=plan.arm if plan else None,
            plan=plan,
            findings=findings,
            recorded=self.recorded,
            ok_status=plan.ok_status if plan else SUCCESS,
        )

    @property
    def is_arm(self) -> bool:
        """Whether it is an arm of a comparison."""
        return self.plan is not None and self.plan.arm is not None

    @property
    def failed(self) -> int:
        """Number of counted trials that failed."""
        return sum(trial.ending is not TrialEnding.OK for trial in self.trials)

    def _observed(self, plan: TestPlan, result: BatchResult, setting: TrialSetting) -> list[Trial]:
        study, session = self._ledger.study, self._ledger.session

        def output(process: ProcessRecord, stream: Stream) -> str | memoryview:
            return output_text(study.path, session, plan.name, process, stream)

        uses, profiles = dict(result.uses), dict(result.profiles)
        trials = [
            msgspec.structs.replace(
                observe(record, plan, output),
                use=uses.get(record.epoch),
                profile=profiles.get(record.epoch),
                path=setting.path,
                drawn=setting.drawn,
                made_ns=() if place else setting.made_ns,
            )
            for place, record in enumerate(result.epochs)
        ]
        trials = self._kept(plan, [self._explained(plan, trial) for trial in trials])
        warm = self._warmups(plan, setting)
        return [
            msgspec.structs.replace(trial, warmup=True) if place < warm else trial
            for place, trial in enumerate(trials)
        ]

    def _warmups(self, plan: TestPlan, setting: TrialSetting) -> int:
        """Return how many of the next trials are warm-up trials."""
        if self.replicates is None:
            return plan.warmups - len(self.trials)
        from benchwright.core.replication import cold_part

        replication = self.replicates.replication
        new = cold_part(replication, setting.path)
        since = itertools.takewhile(
            lambda trial: cold_part(replication, trial.path) == new, reversed(self.trials)
        )
        return plan.warmups - sum(1 for _ in since)

    def _explained(self, plan: TestPlan, trial: Trial) -> Trial:
        """Return a trial with the output of its failed command, if it failed."""
        if trial.ending not in FAILED_ENDINGS:
            return trial
        study, session = self._ledger.study, self._ledger.session
        said = error_text(study.path, session, plan.name, trial.processes, plan.ok_status)
        if said is not None and plan.output.mode == "file" and "/exec-" in said.file:
            said = msgspec.structs.replace(said, file=f"{said.file}.gz")
        return msgspec.structs.replace(trial, error_text=said)

    def _kept(self, plan: TestPlan, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials with their output in the form that is stored.

        Called after metrics were read from the output. Raises BenchError if it cannot be written.
        """
        study, session = self._ledger.study, self._ledger.session
        logs = log_directory(study.path, session, plan.name)
        processes = [process for trial in trials for process in trial.processes]
        try:
            process_records = iter(self._output.store(logs, processes, plan.output))
        except OSError as error:
            raise BenchError(
                "logs-unwritable",
                f"{plan.name}: cannot store the output in {logs}: {error.strerror}",
                "make room, or run it with --output null, then `bw resume`",
            ) from None
        return [
            msgspec.structs.replace(
                trial, processes=tuple(next(process_records) for _ in trial.processes)
            )
            for trial in trials
        ]

    def _sorted(
        self, plan: TestPlan, trials: Sequence[Trial], result: BatchResult, keys: tuple[str, ...]
    ) -> tuple[list[Trial], VoidPayload | None]:
        """Separate the trials that count from one that was cut short or stops the session."""
        counted = list(trials)
        last = counted[-1] if counted else None
        if result.reason == "interrupted":
            cut = counted.pop() if last and last.ending is TrialEnding.INTERRUPTED else None
            return counted, VoidPayload(
                "interrupted by the user",
                keys[len(counted) :],
                cut,
                cleanup_owed=cut is not None and self._performer.interrupts > 1,
            )
        for place, record in enumerate(result.epochs):
            if record.stopped:
                return counted[:place], VoidPayload(STOPPED, keys[place:], counted[place])
        if last is not None and result.epochs[-1].output_full:
            counted.pop()
            return counted, VoidPayload("its output exceeded the limit", keys[len(counted) :], last)
        if plan.fail_fast and last is not None and last.ending is not TrialEnding.OK:
            counted.pop()
            return counted, VoidPayload(
                "a command failed under fail-fast", keys[len(counted) :], last
            )
        return counted, None

    # -- the decision --------------------------------------------------------------

    def ask_program(self) -> None:
        """Run the test's own termination program on its results so far.

        The path of the results file is appended to the program's arguments.
        """
        assert isinstance(self.rule, UntilProgram)
        assert self._history is not None
        done = len(self.trials)
        self._performer.check()
        status = self._ledger.command(
            self._keys.termination(done),
            f"{self.name} termination program after trial {done}",
            partial(self._run_program, self.rule.command),
        )
        self._history.answer(status)

    def _run_program(self, command: Command) -> int:
        """Return the termination program's exit status. Raises BenchError if the program cannot
        be started: its status would mean "continue", forever."""
        status = self._performer.command(
            CommandMode.PREDICATE, self._with_results(command), test=self.name
        )
        if status in _NOT_STARTED:
            raise BenchError(
                "program-missing",
                f"{self.name}: the termination program `{command.text}` cannot be "
                f"started (exit status {status})",
                "fix or install it, then `bw resume`: the finished trials are stored",
            )
        return status

    def _with_results(self, command: Command) -> Command:
        try:
            results = export_test(self._ledger.study, self._ledger.session, self.key)
        except OSError as error:
            raise BenchError(
                "results-unwritable",
                f"{self.name}: cannot write the results file for the termination "
                f"program: {error.strerror}",
                "make room, then `bw resume`: the finished trials are stored",
            ) from None
        if command.argv[:2] == ("/bin/sh", "-c"):
            return Command((*command.argv[:2], command.argv[2] + ' "$@"', "sh", str(results)))
        return Command((*command.argv, str(results)))

    @property
    def recorded_end(self) -> StopDecision | None:
        """Why the test ended before the session was resumed, once all its recorded trials are here."""
        if self.has_recorded(len(self.trials) + 1):
            return None
        return self._ledger.recorded(self._keys.stop, StopDecision)

    def stopped(self, stop: StopDecision) -> None:
        """Record why the test ended; after a resume the first record holds."""
        key = self._keys.stop
        known = self._ledger.recorded(key, StopDecision)
        self.stop = known or stop
        self._ledger.note(key, self.stop)

    # -- before and after ------------------------------------------------------------

    def _prepare(self, plan: TestPlan) -> None:
        """Run what must precede the first live epoch: PRESETUP."""
        self.live = True
        self._ledger.note(self._keys.plan, plan)
        begin = self._keys.presetup(self._suspensions)
        if self._outside != AS_PLANNED:
            self._ledger.note(self._keys.outside(self._suspensions), self._outside)
        failed = self._phase(CommandMode.PRESETUP, plan.phases.presetup, begin, must_succeed=True)
        if failed:
            raise CommandFailed(self.name, failed)
        self._ledger.note(self._keys.ready(self._suspensions), True)

    def close(self) -> None:
        """Run the trials of observers that record the test, if any; then POSTCLEANUP, once, if the test
        was set up and not suspended since."""
        if self._ledger.recorded(self._keys.ready(self._suspensions), bool):
            self._record()
            self._post_cleanup(patience=1)
        self.is_closed = True

    def remove_replicates(self) -> None:
        """Remove what was made for its replicates, if anything."""
        if self.replicates is not None:
            self.replicates.remove(ended=self.stop is not None)

    def _record(self) -> None:
        """Run one more trial, in no figure, for each observer that needs one, and record what it
        recorded."""
        for kind in self._performer.extra_kinds:
            key = self._keys.recorded(kind.record)
            found = self._ledger.recorded(key, kind.record_type())
            if found is None and self.plan is not None and self.trials:
                epoch = self.trials[-1].epoch + 1
                found = self._performer.recorded(kind, self.plan, epoch, self._setting)
                if found is not None:
                    self._ledger.note(key, found)
            if found is not None:
                self.recorded[kind.record] = found

    def settle(self, cut: CutTest) -> None:
        """Clean up after a crash, as after an interrupt: what PRESETUP made (a mount, a server)
        may not have survived it.

        Runs each CLEANUP that did not run, then POSTCLEANUP; PRESETUP runs again later.
        """
        for owed in cut.cleanups:
            self.plan = owed.plan
            self._phase(
                CommandMode.CLEANUP, owed.plan.phases.cleanup, self._keys.recovery(owed.sequence)
            )
        self.plan = cut.plan
        if cut.set_up:
            self._post_cleanup(patience=1)
            self._ledger.note(self._keys.suspended(self._suspensions), True)

    def suspend(self, patience: int = 2) -> None:
        """Clean up before an interrupted session ends.

        Runs POSTCLEANUP; a resume runs PRESETUP again before the next live epoch. `patience`: the
        interrupts that end it.
        """
        if self._ledger.recorded(self._keys.ready(self._suspensions), bool):
            self._post_cleanup(patience)
            self._ledger.note(self._keys.suspended(self._suspensions), True)

    def _post_cleanup(self, patience: int) -> None:
        assert self.plan is not None, "a test that is ready has a plan"
        self._phase(
            CommandMode.POSTCLEANUP,
            self.plan.phases.postcleanup,
            self._keys.postcleanup(self._suspensions),
            patience=patience,
        )

    def _phase(
        self,
        mode: CommandMode,
        commands: Sequence[Command],
        begin: str,
        *,
        must_succeed: bool = False,
        patience: int = 1,
    ) -> str:
        """Run each command once, under keys with this prefix; return a description of the
        failure that matters, if any."""
        assert self.plan is not None
        environment = test_environment(self.plan, self._performer.surroundings)
        setting = AS_PLANNED
        if mode is not CommandMode.CLEANUP:
            key = self._keys.outside(self._suspensions)
            setting = self._ledger.recorded(key, TrialSetting) or AS_PLANNED
        for number, command in enumerate(commands):
            status = self._ledger.command(
                f"{begin}{number}",
                f"{self.name} {mode} {command.text}",
                partial(
                    self._performer.command,
                    mode,
                    command,
                    environment,
                    test=self.name,
                    patience=patience,
                    setting=setting,
                ),
                must_succeed=must_succeed,
            )
            if status and must_succeed:
                return f"{mode} `{command.text}` {status_text(status)}"
        return ""

    def _count_suspensions(self) -> int:
        count = 0
        while self._ledger.recorded(self._keys.suspended(count), bool):
            count += 1
        return count


def _too_much(plan: TestPlan, does: str, where: str) -> str:
    """Return the message that a test has written more output than is allowed."""
    limit = plan.output.limit_bytes
    more = f"{plan.output.mode}:{4 * limit // (1 << 20) or 1}M"
    instead = " or bounded" if plan.output.mode == "file" else ""
    return (
        f"it {does} more than {limit:,} bytes {where}: allow more with "
        f"--output {more}, or keep less with --output null{instead}"
    )


def describe_failure(trial: Trial, ok_status: Sequence[int]) -> tuple[str, str]:
    """Return the command of a trial that failed, empty if it is unknown, and how it failed."""
    for process in trial.processes:
        if process.error:
            return "", f"{process.mode} could not be started: {process.error}"
    if trial.ending is TrialEnding.TIMEOUT:
        return "", "EXEC exceeded its time limit"
    for block in trial.blocks:
        if block.status not in ok_status:
            of = f" (thread {block.thread})" if len(trial.blocks) > 1 else ""
            return block.command, f"{status_text(block.status)}{of}"
    for process in trial.processes:
        if process.failed(ok_status):
            what = f"{process.mode} command {process.index + 1}"
            return "", f"{what} {status_text(process.status)}"
    return "", f"ended as {trial.ending}"
