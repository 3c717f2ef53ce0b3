"""A comparison's history: for each metric and candidate, the moments of the log ratio.

`ComparisonBuilder` computes them from blocks of trials.
Decision: running moments rather than lists, so that the cost of a look does not grow with the
number of blocks. For unpaired arms the values are stored too, because the dependence between
neighbouring trials needs their order.
A block in which any trial failed counts for no metric; a block in which a metric is missing
for either arm does not count for that pair. A ratio needs positive values: blocks with others
are counted in `unfit`.
Source: B. P. Welford 1962, Technometrics 4(3), for the running moments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.comparison import ComparisonRule
from benchwright.core.plan import ReplicatePath
from benchwright.decide.history import ReplicateOutcome
from benchwright.stats.dependence import MeanError, mean_errors
from benchwright.stats.sample import Moments

if TYPE_CHECKING:
    from benchwright.stats.meta import MetaEstimate
    from benchwright.stats.nested import NestedEstimate

MetricValues = Mapping[str, float]
"""One trial's metrics; None stands for a trial that failed."""


class ArmLogs:
    """The logarithms of two arms' values, in the order of the trials. Values are only
    appended, so the first n values never change."""

    def __init__(self) -> None:
        self.baseline: list[float] = []
        self.candidate: list[float] = []
        self._size: tuple[int, int] = (0, 0)
        self._errors = (MeanError(), MeanError())

    def errors(self, n_baseline: int, n_candidate: int) -> tuple[MeanError, MeanError]:
        """Return the standard errors of the means of the first values of each arm."""
        if self._size != (n_baseline, n_candidate):
            baseline, candidate = mean_errors(
                self.baseline[:n_baseline], self.candidate[:n_candidate]
            )
            self._size, self._errors = (n_baseline, n_candidate), (baseline, candidate)
        return self._errors


class MetricEvidence(msgspec.Struct, frozen=True):
    """The evidence on one metric of one candidate. All moments are of logarithms."""

    paired: bool
    baseline: Moments
    """Moments of the baseline's logs that count, over trials."""
    candidate: Moments
    difference: Moments
    """Moments of the log ratio, over blocks, where the arms are paired."""
    pilot_sdev: float
    """Standard deviation of the pilot's log ratios (paired) or of the candidate's logs; NaN
    before the pilot is complete."""
    pilot_errors: tuple[MeanError, MeanError] = (MeanError(), MeanError())
    """Errors of the baseline's and the candidate's mean, at the end of the candidate's pilot."""
    logs: ArmLogs | None = None
    """The arms' logarithms, where they are not paired."""
    missing: int = 0
    """Blocks, or trials, without the metric."""
    unfit: int = 0
    """Blocks, or trials, with a value that is not positive."""
    baseline_trials: int = 0
    """Trials that have the metric, whatever their values."""
    candidate_trials: int = 0
    absent: int = 0
    """Blocks in which no trial has the metric."""
    nested: NestedEstimate | MetaEstimate | None = None
    """The mean log ratio over the population of the outermost level of replication, or of jobs."""

    def errors(self) -> tuple[MeanError, MeanError]:
        """Return the standard errors of the baseline's and the candidate's mean, with the
        dependence between neighbouring trials where the arms are not paired."""
        if self.logs is None:
            return MeanError(), MeanError()
        return self.logs.errors(self.baseline.n, self.candidate.n)

    @property
    def n(self) -> int:
        """The number that a pilot and a plan count: blocks, or the candidate's trials."""
        return self.difference.n if self.paired else self.candidate.n

    @property
    def log_ratio(self) -> float:
        """The estimate of log(candidate / baseline); NaN where there is none."""
        if self.nested is not None:
            return self.nested.mean.value
        if self.paired:
            return self.difference.mean
        return self.candidate.mean - self.baseline.mean


class ComparisonHistory(msgspec.Struct, frozen=True):
    """A comparison's outcomes so far."""

    run: int = 0
    """Blocks run, including warm-up and failed ones; this is the next block's number."""
    blocks: int = 0
    """Blocks that count."""
    failed: int = 0
    """Blocks in which a trial failed, without warm-up blocks."""
    duration_ns: int = 0
    evidence: dict[tuple[str, int], MetricEvidence] = {}
    """The evidence by metric and the candidate's index among the arms."""
    outcomes: tuple[ReplicateOutcome, ...] = ()
    """Its blocks in their replicates, with levels of replication."""


class _RunningMoments:
    """Running count, mean and spread of numbers."""

    __slots__ = ("mean", "n", "square")

    def __init__(self) -> None:
        self.n, self.mean, self.square = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        self.n += 1
        distance = value - self.mean
        self.mean += distance / self.n
        self.square += distance * (value - self.mean)

    def moments(self) -> Moments:
        if self.n < 2:
            return Moments(self.n, self.mean if self.n else math.nan, math.nan)
        return Moments(self.n, self.mean, math.sqrt(self.square / (self.n - 1)))


class _PairEvidence:
    """One metric of one candidate."""

    def __init__(self, rule: ComparisonRule) -> None:
        self._rule = rule
        self.paired, self.pilot = rule.paired, rule.minimum
        self.baseline, self.candidate = _RunningMoments(), _RunningMoments()
        self.difference = _RunningMoments()
        self.pilot_sdev = math.nan
        self.pilot_errors = (MeanError(), MeanError())
        self.logs = ArmLogs()
        self.missing = self.unfit = self.absent = 0
        self.baseline_trials = self.candidate_trials = 0
        self.last: float | None = None
        """The log ratio of the last block; None if it has none."""
        self.ratios: list[float] = []
        self.paths: list[ReplicatePath] = []

    def add_block(
        self, baseline: list[float | None], own: list[float | None], path: ReplicatePath
    ) -> None:
        """Add a block with the same number of trials of both arms."""
        self.last = None
        values = self._all_there([*baseline, *own])
        if values is None:
            return
        self.baseline_trials += len(baseline)
        self.candidate_trials += len(own)
        logs = self._logs(values)
        if logs is None:
            return
        before, after = logs[: len(baseline)], logs[len(baseline) :]
        for value in before:
            self.baseline.add(value)
        for value in after:
            self.candidate.add(value)
        ratio = sum(after) / len(after) - sum(before) / len(before)
        self.difference.add(ratio)
        self.last = ratio
        if path:
            self.ratios.append(ratio)
            self.paths.append(path)
        self._note_pilot(self.difference)

    def add_candidate(self, value: float | None) -> None:
        """Add a trial of the candidate alone."""
        if (values := self._all_there([value])) is None:
            return
        self.candidate_trials += 1
        if (logs := self._logs(values)) is not None:
            self.candidate.add(logs[0])
            self.logs.candidate.append(logs[0])
            self._note_pilot(self.candidate)

    def add_baseline(self, value: float | None) -> None:
        """Add a trial of the baseline alone."""
        if (values := self._all_there([value])) is None:
            return
        self.baseline_trials += 1
        if (logs := self._logs(values)) is not None:
            self.baseline.add(logs[0])
            self.logs.baseline.append(logs[0])

    def evidence(self) -> MetricEvidence:
        nested, rule = None, self._rule
        if rule.replication is not None and self.ratios:
            # Few comparisons replicate anything.
            from benchwright.decide.replicated import nested_of

            nested = nested_of(rule.replication, self.ratios, self.paths, rule.confidence)
        return MetricEvidence(
            self.paired,
            self.baseline.moments(),
            self.candidate.moments(),
            self.difference.moments(),
            self.pilot_sdev,
            self.pilot_errors,
            None if self.paired else self.logs,
            self.missing,
            self.unfit,
            self.baseline_trials,
            self.candidate_trials,
            self.absent,
            nested,
        )

    def _all_there(self, values: list[float | None]) -> list[float] | None:
        present = [value for value in values if value is not None]
        if len(present) < len(values) or not all(map(math.isfinite, present)):
            self.missing += 1
            self.absent += not present
            return None
        return present

    def _logs(self, values: list[float]) -> list[float] | None:
        if min(values) <= 0:
            self.unfit += 1
            return None
        return [math.log(value) for value in values]

    def _note_pilot(self, running: _RunningMoments) -> None:
        if running.n == self.pilot:
            self.pilot_sdev = running.moments().sdev
            if not self.paired:
                self.pilot_errors = self.evidence().errors()


class ComparisonBuilder:
    """Gathers blocks into histories."""

    def __init__(self, rule: ComparisonRule) -> None:
        self._rule = rule
        self._run = self._blocks = self._failed = self._duration_ns = 0
        self._outcomes: list[ReplicateOutcome] = []
        self._is_failed = False
        """Whether a trial of the last block failed."""
        self._pairs = {
            (metric.name, place): _PairEvidence(rule)
            for metric in rule.metrics
            for place in range(1, rule.arms)
        }
        if rule.stored is not None:
            for (name, _), pair in self._pairs.items():
                for value in rule.stored.series.get(name, ()):
                    pair.add_baseline(value)

    def add(
        self,
        block: Sequence[Sequence[MetricValues | None]],
        duration_ns: int = 0,
        replicate: ReplicateOutcome | None = None,
    ) -> None:
        """Add a block: for each arm the values of its trials, None for a failed trial.

        A stored baseline has no trials in a block; a sequence is one block. `replicate`: where the
        block ran, with levels of replication; it then says whether the block counts.
        """
        self._run += 1
        self._duration_ns += duration_ns
        if replicate is not None:
            self._duration_ns += sum(replicate.made_ns)
            self._outcomes.append(replicate)
            if replicate.counts:
                self._add_block(block, replicate.path)
                self._outcomes[-1] = msgspec.structs.replace(replicate, values=self._ratios())
            return
        if self._rule.stored is None and not self._rule.paired:
            self._add_sequence(block)
        elif self._run > self._rule.warmup:
            self._add_block(block)

    def history(self) -> ComparisonHistory:
        """Return a copy of the evidence so far."""
        return ComparisonHistory(
            self._run,
            self._blocks,
            self._failed,
            self._duration_ns,
            {key: pair.evidence() for key, pair in self._pairs.items()},
            tuple(self._outcomes),
        )

    def _ratios(self) -> dict[str, float] | None:
        """Return the log ratios of the block that was added last, by `ratio_name`; None if it failed."""
        if self._is_failed:
            return None
        return {
            ratio_name(pair): one.last for pair, one in self._pairs.items() if one.last is not None
        }

    def _add_block(
        self, block: Sequence[Sequence[MetricValues | None]], path: ReplicatePath = ()
    ) -> None:
        self._is_failed = any(values is None for arm in block for values in arm)
        if self._is_failed:
            self._failed += 1
            return
        self._blocks += 1
        for (name, place), pair in self._pairs.items():
            own = _metric_of(block[place], name)
            if self._rule.paired:
                pair.add_block(_metric_of(block[0], name), own, path)
            else:
                pair.add_candidate(own[0])

    def _add_sequence(self, block: Sequence[Sequence[MetricValues | None]]) -> None:
        counted = [arm[self._rule.warmup :] for arm in block]
        good = [[values for values in arm if values is not None] for arm in counted]
        self._failed += max(len(arm) - len(fine) for arm, fine in zip(counted, good, strict=True))
        self._blocks += min(len(arm) for arm in good)
        for (name, place), pair in self._pairs.items():
            for values in good[0]:
                pair.add_baseline(values.get(name))
            for values in good[place]:
                pair.add_candidate(values.get(name))


def ratio_name(pair: tuple[str, int]) -> str:
    """Return the name of the log ratio of a metric and a candidate in outcomes of blocks."""
    return f"{pair[0]}/{pair[1]}"


def _metric_of(trials: Sequence[MetricValues | None], name: str) -> list[float | None]:
    return [None if values is None else values.get(name) for values in trials]
