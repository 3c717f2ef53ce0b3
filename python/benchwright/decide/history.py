"""The history of a test: the outcomes on which a controller decides.

Decision: a history is a value that is always built from the trials in their order. So a
replayed journal and a live session have equal histories and make equal decisions.
Limits count all epochs, completed and failed; a failed trial is in no series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.plan import MetricSpec, ReplicatePath
from benchwright.core.results import Summary
from benchwright.stats.aggregate import MetricRules, TrialValues, aggregate_trial, summarise


class ReplicateOutcome(msgspec.Struct, frozen=True):
    """One trial, or one block of a comparison, in its replicate."""

    path: ReplicatePath
    values: Mapping[str, float] | None
    """By metric; None if it failed, or does not count."""
    spent_ns: int
    """How long it took [ns]."""
    made_ns: tuple[int, ...] = ()
    """What it took to make each level's replicate for it [ns]; empty if none was made."""
    counts: bool = True
    """Whether it is no warm-up."""


class History(msgspec.Struct, frozen=True):
    """The outcomes of one test so far; void trials do not count."""

    trials: int = 0
    """Completed trials."""
    failed: int = 0
    """Trials that failed or timed out."""
    series: dict[str, tuple[float, ...]] = {}
    """Each quantity's values in trial order; a trial without it contributes none."""
    metrics: tuple[str, ...] = ()
    """Names of the declared metrics, in order."""
    program_answers: tuple[tuple[int, int], ...] = ()
    """Answers of the termination program: (epochs at which it ran, exit status)."""
    duration_ns: int = 0
    """Total time of all epochs, including failed ones [ns]."""
    outcomes: tuple[ReplicateOutcome, ...] = ()
    """Of a test with levels of replication: its epochs in order, warm-up epochs included."""

    @property
    def epochs(self) -> int:
        """Number of epochs, completed and failed; a maximum limits this number."""
        return self.trials + self.failed

    def missing(self, name: str) -> int:
        """Return how many completed trials did not yield this quantity."""
        return self.trials - len(self.series.get(name, ()))


class HistoryBuilder:
    """Gathers trials into histories; the cost of adding a trial does not depend on their number."""

    def __init__(self, specs: Sequence[MetricSpec] = ()) -> None:
        self._rules = MetricRules(specs)
        self._series: dict[str, list[float]] = {}
        self._trials = 0
        self._failed = 0
        self._duration_ns = 0
        self._answers: list[tuple[int, int]] = []
        self._outcomes: list[ReplicateOutcome] = []
        self.observed: list[TrialValues] = []
        """The values of every completed trial, in order."""

    def add(self, trial: Trial) -> None:
        """Add one trial; interrupted (void) and warm-up trials are ignored."""
        if trial.ending is TrialEnding.INTERRUPTED:
            return
        is_ok = trial.ending is TrialEnding.OK
        counts = is_ok and not trial.warmup
        values = aggregate_trial(trial.blocks, self._rules) if counts else None
        if trial.path:
            known = None if values is None else values.values
            self._outcomes.append(
                ReplicateOutcome(
                    trial.path, known, trial.duration_ns, trial.made_ns, not trial.warmup
                )
            )
        if trial.warmup:
            return
        self._duration_ns += trial.duration_ns
        if values is None:
            self._failed += 1
            return
        self._trials += 1
        self.observed.append(msgspec.structs.replace(values, epoch=trial.epoch, path=trial.path))
        for name, value in values.values.items():
            self._series.setdefault(name, []).append(value)

    def answer(self, status: int) -> None:
        """Add the exit status of the termination program after the trials so far."""
        self._answers.append((self._trials + self._failed, status))

    def history(self) -> History:
        """Return a copy of the history so far."""
        return History(
            trials=self._trials,
            failed=self._failed,
            series={name: tuple(values) for name, values in self._series.items()},
            metrics=self._rules.declared,
            program_answers=tuple(self._answers),
            duration_ns=self._duration_ns,
            outcomes=tuple(self._outcomes),
        )


def missing_text(names: Sequence[str], history: History) -> str:
    """Return a message: no completed trial has these quantities."""
    return f"{', '.join(names)} is in none of {history.trials} completed trials"


def watched_summaries(history: History) -> tuple[Summary, ...]:
    """Return summaries of the quantities that a predicate is evaluated for.

    A declared metric that no trial yielded has a summary with a count of 0, so that no
    predicate holds for it.
    """
    rules = MetricRules([MetricSpec(name) for name in history.metrics])
    return tuple(
        summarise(
            name,
            history.series.get(name, ()),
            label=rules.row(name).label,
            unit=rules.row(name).unit,
        )
        for name in rules.judged((*history.series, *history.metrics))
    )
