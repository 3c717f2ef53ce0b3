"""One comparison of a session: it runs blocks of trials of its arms until its rule stops it.

Each arm is a test of the study, with keys, plan and trials; the comparison decides when they
stop. A block that a crash or an interrupt cut short continues where it was cut: its recorded
trials are replayed, and the order of its arms is a function of the seed and the block's number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.core import SESSION_TOKEN
from benchwright.core.comparison import (
    ComparisonDesign,
    ComparisonProgress,
    ComparisonResult,
    ComparisonRule,
    NullFloor,
    NullResult,
    Verdict,
)
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.plan import AS_PLANNED, StopDecision, TrialSetting
from benchwright.decide.compare.conclusion import (
    RELABELLINGS,
    comparison_progress,
    conclude,
    false_positives,
    noise_floors,
)
from benchwright.decide.compare.decision import NextBlock, block_order, decide_comparison
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.decide.history import ReplicateOutcome
from benchwright.findings.comparison import hold_doubtful
from benchwright.findings.examine import codes_of_failures
from benchwright.run.findings import findings_of_comparison, findings_of_test
from benchwright.run.ledger import Ledger
from benchwright.run.performer import Performer
from benchwright.run.test import RunningTest
from benchwright.stats.aggregate import MetricRules, aggregate_trial
from benchwright.study.contents import session_findings
from benchwright.study.keys import EffectKeys, comparison_result_key
from benchwright.suite.effects import RunComparison


def start_comparison(
    request: RunComparison, keys: EffectKeys, ledger: Ledger, performer: Performer
) -> RunningComparison:
    """Return a comparison with its arms as tests, none of them started."""
    key = keys.next("compare")
    around = dict(performer.surroundings.environment)
    request = _with_name(request, f"{around.get(SESSION_TOKEN, '')}/{key}")
    tests = [
        RunningTest(keys.next("test"), plan.name, plan.stopping, ledger, performer)
        for plan in request.plans
    ]
    replication = request.rule.replication
    if replication is not None:
        # Few comparisons replicate anything.
        from benchwright.run.replicates import Replicates

        def restart() -> None:
            for test in tests:
                test.restart()

        name = " and ".join(request.names)
        shared = Replicates(key, name, replication, ledger, performer, restart)
        for test in tests:
            test.replicates = shared
    return RunningComparison(key, request, tests, ledger, performer)


def _with_name(request: RunComparison, name: str) -> RunComparison:
    """Return a comparison whose arms carry its name, even if the program gives none: a suite
    can run twice, and an arm belongs to the arms of the same run."""
    plans = tuple(
        msgspec.structs.replace(plan, arm=msgspec.structs.replace(plan.arm, comparison=name))
        if plan.arm is not None and not plan.arm.comparison
        else plan
        for plan in request.plans
    )
    return msgspec.structs.replace(request, plans=plans)


class RunningComparison:
    """A comparison that is being run, or replayed, in a session."""

    def __init__(
        self,
        key: str,
        request: RunComparison,
        tests: Sequence[RunningTest],
        ledger: Ledger,
        performer: Performer,
    ) -> None:
        self.key = key
        self.request = request
        self.tests = tests
        self.result: ComparisonResult | None = None
        self._ledger = ledger
        self._performer = performer
        self._builder = ComparisonBuilder(request.rule)
        self._book = MetricRules(request.plans[0].metrics)
        self._blocks: list[list[list[dict[str, float] | None]]] = []
        self._replicates: list[ReplicateOutcome] = []
        """Of the blocks, with levels of replication."""

    @property
    def rule(self) -> ComparisonRule:
        """The stopping rule."""
        return self.request.rule

    @property
    def is_recorded(self) -> bool:
        """Whether its result was in the journal when the session was resumed."""
        return self._ledger.knows(comparison_result_key(self.key))

    def progress(self) -> ComparisonProgress:
        """Return its progress."""
        found = comparison_progress(self.rule, self._builder.history(), self.request.names)
        if self.rule.paired:
            return found
        if self.rule.stored is not None:
            done = found.blocks + found.failed
            return msgspec.structs.replace(found, trials=(done, found.maximum))
        trials = [trial for test in self.tests for trial in test.trials]
        return msgspec.structs.replace(
            found,
            trials=(len(trials), len(block_order(self.rule, 0))),
            elapsed_s=sum(trial.duration_ns for trial in trials) / 1e9,
        )

    def so_far(self, stop: StopDecision) -> ComparisonResult:
        """Return the result of the blocks so far."""
        comparison_result = conclude(
            self.rule, self._builder.history(), self.request.names, stop, self.request.null
        )
        failures = codes_of_failures(test.result() for test in self.tests)
        return msgspec.structs.replace(comparison_result, failures=failures)

    @property
    def accepts_failures(self) -> bool:
        """Whether the user accepted every way in which its trials failed."""
        return self.result is not None and not self.result.has_failures

    def answer(self, status: str, detail: str) -> ComparisonResult:
        """Return the result; if the comparison was cut short, the result so far."""
        if self.result is not None:
            return self.result
        stop = StopDecision(status, detail, answered=False)
        return self.so_far(stop)

    def run(self, block_ended: Callable[[RunningComparison], None]) -> None:
        """Run to the end; `block_ended` is called after each block.

        Raises Interrupted, CommandFailed and BenchError, as a test's epochs do.
        """
        replication = self.rule.replication
        for test, plan in zip(self.tests, self.request.plans, strict=True):
            test.judged = self.rule.judged
            test.begin(plan)
            if replication is not None:
                from benchwright.core.replication import trials_before

                test.skipped = trials_before(replication, plan.warmups)
        while True:
            decision = decide_comparison(self.rule, self._builder.history())
            if isinstance(decision, StopDecision):
                self._conclude(decision)
                return
            self._run_block(decision, block_ended)
            block_ended(self)

    def _run_block(
        self, decision: NextBlock, block_ended: Callable[[RunningComparison], None]
    ) -> None:
        stored = self.rule.arms - len(self.tests)
        trials: list[list[Trial]] = [[] for _ in range(self.rule.arms)]
        is_between_blocks = True
        setting = TrialSetting(decision.path) if decision.path else AS_PLANNED
        for place in decision.order:
            test, plan = self.tests[place - stored], self.request.plans[place - stored]
            before = len(test.trials)
            epoch = test.skipped + before + 1
            if is_between_blocks and not test.has_recorded(epoch):
                self._performer.viewer.give_turn()
            is_between_blocks = self.rule.design is ComparisonDesign.SEQUENCE
            while len(test.trials) == before:
                test.run(plan, epoch, 1, setting)
            trials[place].append(test.trials[-1])
            if self.rule.design is ComparisonDesign.SEQUENCE:
                block_ended(self)
        block = [[self._values(trial) for trial in arm] for arm in trials]
        self._blocks.append(block)
        spent = sum(trial.duration_ns for arm in trials for trial in arm)
        replicate = None
        if decision.path:
            every = [trial for arm in trials for trial in arm]
            made = [trial.made_ns for trial in every if trial.made_ns]
            replicate = ReplicateOutcome(
                decision.path,
                None,
                spent,
                tuple(map(sum, zip(*made, strict=True))),
                not any(trial.warmup for trial in every),
            )
            self._replicates.append(replicate)
        self._builder.add(block, spent, replicate)

    def _values(self, trial: Trial) -> dict[str, float] | None:
        if trial.ending is not TrialEnding.OK:
            return None
        return aggregate_trial(trial.blocks, self._book).values

    def _conclude(self, stop: StopDecision) -> None:
        replication = self.rule.replication
        if replication is not None and replication.only is not None:
            for test in self.tests:
                test.stopped(stop)
                test.close()
            return
        result = self.so_far(stop)
        if self.rule.exactly is not None:
            result = msgspec.structs.replace(result, null=self._null(result))
        for test in self.tests:
            test.stopped(stop)
            test.close()
        if result.gates or not self.rule.paired:
            if not self.is_recorded:
                # What changed since the session began concerns its gates.
                self._performer.capture()
            kept = (self._ledger.study, self._ledger.session)
            findings = list(session_findings(*kept))
            findings += findings_of_comparison(self, result, *kept)
            for test in self.tests:
                findings += findings_of_test(test)
            result = hold_doubtful(result, findings)
        self.result = result
        self._ledger.note(comparison_result_key(self.key), result)

    def _null(self, result: ComparisonResult) -> NullResult:
        """Return what the comparison of a command with itself shows about the machine."""
        info = next(
            session.info
            for session in self._ledger.study.sessions()
            if session.number == self._ledger.session
        )
        different = (Verdict.FASTER, Verdict.SLOWER)
        return NullResult(
            command=self.request.plans[0].phases.exec[0].text,
            # The start of the last trial, not the current time: a replay gives the same value.
            measured_ns=self.tests[-1].trials[-1].started_ns,
            boot_id=info.boot_id,
            blocks=result.blocks,
            floors=self._with_levels(noise_floors(result)),
            false_positives=self._false_positives(),
            relabellings=RELABELLINGS,
            biased=any(v.verdict in different for v in result.verdicts),
            session=self._ledger.session,
        )

    def _with_levels(self, floors: tuple[NullFloor, ...]) -> tuple[NullFloor, ...]:
        """Return the floors with what levels of replication cost the command, by all its trials."""
        replication = self.rule.replication
        if replication is None:
            return floors
        from benchwright.decide.replicated import level_spreads

        columns = [test.result().columns for test in self.tests]
        found = []
        for floor in floors:
            known = [each[floor.metric] for each in columns if floor.metric in each]
            values = [value for column in known for value in column.values]
            paths = [path for column in known for path in column.paths]
            levels = level_spreads(replication, values, paths, self.rule.confidence)
            found.append(msgspec.structs.replace(floor, levels=levels))
        return tuple(found)

    def _false_positives(self) -> float:
        """Return the share of relabellings of the blocks that count which are called different."""
        if not self._replicates:
            return false_positives(self.rule, self._blocks[self.rule.warmup :])
        pairs = zip(self._blocks, self._replicates, strict=True)
        counted = [(block, one) for block, one in pairs if one.counts]
        return false_positives(
            self.rule, [block for block, _ in counted], [one for _, one in counted]
        )
