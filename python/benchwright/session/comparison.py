"""One comparison of a session: blocks of trials of its arms, until it is answered.

Each arm is a test of the study, with the keys, the plan and the trials of one; the
comparison decides in their place. A block that a crash or an interrupt cut is gone on
with where it was cut: its recorded trials are replayed, and the order of its arms is a
function of the seed and the block's number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from benchwright.bench.leftovers import TOKEN
from benchwright.control.compare import decide_comparison
from benchwright.control.compare_conclusion import comparison_progress, conclude
from benchwright.control.compare_history import ComparisonBuilder
from benchwright.control.compare_null import RELABELLINGS, false_positives, floors
from benchwright.control.design import block_order
from benchwright.finding.compared import hold_gates
from benchwright.model.comparison import (
    Comparison,
    ComparisonProgress,
    ComparisonRule,
    Design,
    NullResult,
    Verdict,
)
from benchwright.model.decision import Stop
from benchwright.model.observation import Ending, Trial
from benchwright.session.doubts import comparison_doubts
from benchwright.session.keys import Keys
from benchwright.session.ledger import Ledger
from benchwright.session.performer import Performer
from benchwright.session.test import OpenTest
from benchwright.stats.aggregate import aggregate_trial
from benchwright.stats.rows import RowBook
from benchwright.study.doubts import doubts_of_session
from benchwright.suite.effects import RunComparison


def open_comparison(
    asked: RunComparison, keys: Keys, ledger: Ledger, performer: Performer
) -> OpenComparison:
    """Return a comparison with its arms as tests, none of them begun."""
    key = keys.next("compare")
    around = dict(performer.surroundings.environment)
    asked = _named(asked, f"{around.get(TOKEN, '')}/{key}")
    tests = [
        OpenTest(keys.next("test"), plan.name, plan.stopping, ledger, performer)
        for plan in asked.plans
    ]
    return OpenComparison(key, asked, tests, ledger)


def _named(asked: RunComparison, name: str) -> RunComparison:
    """Return a comparison whose arms name it, also where the program does not: a suite
    can be run again, and its arms belong to those of the same run."""
    plans = tuple(
        msgspec.structs.replace(
            plan, arm=msgspec.structs.replace(plan.arm, comparison=name)
        )
        if plan.arm is not None and not plan.arm.comparison
        else plan
        for plan in asked.plans
    )
    return msgspec.structs.replace(asked, plans=plans)


class OpenComparison:
    """A comparison that is being run, or replayed, in a session."""

    def __init__(
        self,
        key: str,
        asked: RunComparison,
        tests: Sequence[OpenTest],
        ledger: Ledger,
    ) -> None:
        self.key = key
        self.asked = asked
        self.tests = tests
        self.result: Comparison | None = None
        self._ledger = ledger
        self._builder = ComparisonBuilder(asked.rule)
        self._book = RowBook(asked.plans[0].metrics)
        self._blocks: list[list[list[dict[str, float] | None]]] = []

    @property
    def rule(self) -> ComparisonRule:
        """What ends it."""
        return self.asked.rule

    @property
    def is_recorded(self) -> bool:
        """Whether its answer was in the journal when the session was taken up."""
        return self._ledger.knows(f"{self.key}/result")

    def progress(self) -> ComparisonProgress:
        """Return where it stands."""
        found = comparison_progress(
            self.rule, self._builder.history(), self.asked.names
        )
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

    def so_far(self, stop: Stop) -> Comparison:
        """Return what the blocks had so far come to."""
        return conclude(
            self.rule, self._builder.history(), self.asked.names, stop, self.asked.null
        )

    def run(self, tell: Callable[[OpenComparison], None]) -> None:
        """Run to the end; `tell` is called after each block.

        Raises Interrupted, Failed and BenchError as a test's epochs do.
        """
        for test, plan in zip(self.tests, self.asked.plans, strict=True):
            test.begin(plan)
        while True:
            decision = decide_comparison(self.rule, self._builder.history())
            if isinstance(decision, Stop):
                self._conclude(decision)
                return
            self._run_block(decision.order, tell)
            tell(self)

    def _run_block(
        self, order: Sequence[int], tell: Callable[[OpenComparison], None]
    ) -> None:
        stored = self.rule.arms - len(self.tests)
        trials: list[list[Trial]] = [[] for _ in range(self.rule.arms)]
        for place in order:
            test, plan = self.tests[place - stored], self.asked.plans[place - stored]
            before = len(test.trials)
            while len(test.trials) == before:
                test.run(plan, before + 1, 1)
            trials[place].append(test.trials[-1])
            if self.rule.design is Design.SEQUENCE:
                tell(self)
        block = [[self._values(trial) for trial in arm] for arm in trials]
        self._blocks.append(block)
        spent = sum(trial.duration_ns for arm in trials for trial in arm)
        self._builder.add(block, spent)

    def _values(self, trial: Trial) -> dict[str, float] | None:
        if trial.ending is not Ending.OK:
            return None
        return aggregate_trial(trial.blocks, self._book).values

    def _conclude(self, stop: Stop) -> None:
        self.result = self.so_far(stop)
        if self.rule.exactly is not None:
            null = self._null(self.result)
            self.result = msgspec.structs.replace(self.result, null=null)
        if self.result.gates:
            kept = (self._ledger.study, self._ledger.session)
            doubts = (
                *doubts_of_session(*kept),
                *comparison_doubts(self, self.result, kept),
            )
            self.result = hold_gates(self.result, doubts)
        for test in self.tests:
            test.stopped(stop)
            test.close()
        self._ledger.note(f"{self.key}/result", self.result)

    def _null(self, result: Comparison) -> NullResult:
        """Return what a command's comparison with itself told of the machine."""
        info = next(
            session.info
            for session in self._ledger.study.sessions()
            if session.number == self._ledger.session
        )
        different = (Verdict.FASTER, Verdict.SLOWER)
        return NullResult(
            command=self.asked.plans[0].phases.exec[0].text,
            # When the last trial began, not now: a replay says the same.
            measured_ns=self.tests[-1].trials[-1].started_ns,
            boot_id=info.boot_id,
            blocks=result.blocks,
            floors=floors(result),
            false_positives=false_positives(
                self.rule, self._blocks[self.rule.warmup :]
            ),
            relabellings=RELABELLINGS,
            biased=any(v.verdict in different for v in result.verdicts),
            session=self._ledger.session,
        )
