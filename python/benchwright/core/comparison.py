"""What a comparison measures, the rule that ends it, and its verdicts."""

from __future__ import annotations

import enum
import math
import os
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.machine import MachineCapture
from benchwright.core.plan import (
    FixedCount,
    Replicated,
    Replication,
    StopDecision,
    StoppingRule,
    TestPlan,
    UntilPrecise,
    UntilPredicate,
)
from benchwright.core.results import Estimate, LevelSpread, Population, SlowRuns
from benchwright.core.text import duration_ns_text, percent_text, plural

# -- The question and the answer of a comparison ---------------------------------------
#
# Purpose: the types of `bw compare`: the design of its blocks, the rule that ends it, the
# verdict for each metric and candidate, and what a null comparison showed about the machine.
# Decision: a verdict is always about the candidate, in words that do not depend on whether a
# higher or a lower value is better; the ratio is always candidate / baseline.
# Non-goals: decisions (decide/compare/decision.py), text (report/comparison.py).

Better = Literal["lower", "higher"]
Variances = Literal["auto", "equal", "welch"]
"""Whether a t-test pools variances: `auto` (by an F-test), or the caller's choice."""
EQUIVALENCE_MIN_TRIALS = 30
"""Trials of each arm before two are called equivalent."""
BUILT_IN_METRICS = ("user", "system", "rss_bytes")
"""Measured for every command: shown in every comparison, judged when named."""


class ComparisonDesign(enum.StrEnum):
    """Order of the arms within a block."""

    BLOCKS = "blocks"
    """Each arm once, in random order."""
    ABBA = "abba"
    """Each arm twice, in random order and back; the two log ratios of a block are averaged."""
    ROUND_ROBIN = "round-robin"
    """Each arm once, in the order given, from a random one on."""
    SEQUENCE = "sequence"
    """All of the first arm, then all of the next: drift looks like a difference."""
    STORED = "stored"
    """No design: stored results from different times."""

    @property
    def paired(self) -> bool:
        """Whether the arms of one block belong together."""
        return self not in (ComparisonDesign.SEQUENCE, ComparisonDesign.STORED)

    @property
    def trials_per_block(self) -> int:
        """Trials of each arm in one block."""
        return 2 if self is ComparisonDesign.ABBA else 1

    def blocks_for(self, trials: int) -> int:
        """Return the number of blocks in which each arm has so many trials."""
        return -(-trials // self.trials_per_block)


class Verdict(enum.StrEnum):
    """Verdict on a candidate against the baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


class GateOutcome(enum.StrEnum):
    """Result of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


class ComparedMetric(msgspec.Struct, frozen=True):
    """A metric that is compared."""

    name: str
    better: Better = "lower"
    judged: bool = True
    """Whether the comparison continues until it is answered; other metrics are only shown."""
    unit: str = ""


class Gate(msgspec.Struct, frozen=True):
    """`METRIC slower by 3%`: a difference that must not occur."""

    metric: str
    direction: Literal["slower", "faster"]
    share: float
    text: str
    """As the user wrote it."""


class ComparisonRule(msgspec.Struct, frozen=True):
    """Everything that the course of a comparison depends on, except its outcomes."""

    arms: int
    metrics: tuple[ComparedMetric, ...] = (ComparedMetric("elapsed"),)
    design: ComparisonDesign = ComparisonDesign.BLOCKS
    mode: Literal["watch", "plan"] = "watch"
    """`watch`: a confidence sequence, examined after every block. `plan`: a pilot sets
    the number of blocks, then there is one look."""
    margin: float = 0.01
    """Ratios within [1 / (1 + margin), 1 + margin] are equivalent."""
    confidence: float = 0.95
    power: float = 0.8
    minimum: int = 10
    """Number of blocks before the first look, or of the pilot."""
    maximum: int = 200
    max_time_ns: int | None = None
    warmup: int = 1
    """Blocks at the beginning that are stored but not counted."""
    seed: int = 0
    gates: tuple[Gate, ...] = ()
    accepted: tuple[str, ...] = ()
    """Codes of serious findings that do not make a gate undecided."""
    exactly: int | None = None
    """Run exactly this many blocks, fewer only at the time limit: a null comparison."""
    once: bool = False
    """Whether there is only one look, because the blocks are stored ones."""
    stored: StoredArm | None = None
    """The baseline, if it was measured at another time: only candidates run."""
    rare: SlowRuns | None = None
    """Slow runs without which no candidate is equivalent and no gate passes."""
    replication: Replication | None = None
    """Levels of replication: all its blocks run, then there is one look, at the population of the
    outermost level."""

    @property
    def error(self) -> float:
        """The allowed probability of any false difference."""
        return 1 - self.confidence

    @property
    def level(self) -> float:
        """The largest adjusted P value at which a difference is reported.

        One look at a planned size has exactly its level of false differences if logs are
        normal, so the level is four fifths of what is allowed, and the rest is a reserve for
        other data; a watched comparison stays below what is allowed without a reserve.
        """
        return self.error if self.mode == "watch" and self.paired else 0.8 * self.error

    @property
    def judged(self) -> tuple[str, ...]:
        """The metrics that get a verdict."""
        return tuple(metric.name for metric in self.metrics if metric.judged)

    @property
    def blocks_for_sameness(self) -> int:
        """The number of blocks before which no candidate is equivalent and no gate passes: 30
        trials of each arm, those that `rare` takes, or all that are allowed.

        A slow mode with a probability of 15 % is missing from 10 trials with 20 %, from 30 with
        0.8 %; a mode that did not occur cannot be excluded.
        """
        trials = max(EQUIVALENCE_MIN_TRIALS, self.rare.trials if self.rare else 0)
        return min(self.design.blocks_for(trials), self.maximum)

    @property
    def paired(self) -> bool:
        """Whether the statistic uses differences within blocks."""
        return self.design.paired and self.stored is None


class StoredArm(msgspec.Struct, frozen=True):
    """A baseline's stored trials: each metric's values in order."""

    name: str
    source: str
    """Where it is stored, as the user wrote it."""
    series: dict[str, tuple[float, ...]]
    machine: MachineCapture | None = None
    """On which they were measured, where that is stored."""


class Checkout(msgspec.Struct, frozen=True):
    """A commit to measure: where it comes from, and how it is built."""

    revision: str
    """As the user wrote it: `main`, `HEAD~3`, `v1.2`."""
    commit: str
    """Its full name."""
    repository: str
    """Top directory of the repository; absolute."""
    place: str
    """Directory of the checkout and the output of its build; absolute."""
    below: str = ""
    """The session's directory below the top one of the repository."""
    build: str | None = None
    """Command line for the shell that builds it, in its checkout."""

    @property
    def directory(self) -> str:
        """The working directory of its commands."""
        return os.path.join(self.place, "tree", self.below)


MOST_STATED_EFFECT = 10.0
"""The largest smallest effect, as a share, that a report states."""


class MetricVerdict(msgspec.Struct, frozen=True):
    """Verdict on one candidate for one metric."""

    metric: str
    better: Better
    judged: bool
    baseline: str
    candidate: str
    n_baseline: int
    """Trials of the baseline that count for this metric."""
    n_candidate: int
    blocks: int | None
    """Blocks, where the arms are paired by them."""
    mean_baseline: float
    """Geometric mean of the trials that count; NaN where there is none."""
    mean_candidate: float
    ratio: Estimate
    """candidate / baseline, of geometric means; NaN where n does not allow it."""
    p: float
    """P-value of the hypothesis that the ratio is 1; NaN where there is no interval."""
    p_adjusted: float
    adjustment: str
    """`holm`, `benjamini-hochberg`; `none` for a single hypothesis."""
    smallest_effect: float
    """The difference, as a share, that would have been detected with the rule's power."""
    verdict: Verdict | None
    """None for a metric that is only shown."""
    reason: str = ""
    """Why there is no answer, or what is unusual about it."""
    widened: float = 1.0
    """Factor by which dependence between neighbouring trials widened the interval."""
    held_by: tuple[str, ...] = ()
    """Codes of the findings that leave it undecided."""
    otherwise: Verdict | None = None
    """What it would be without them."""
    unseen_share: float | None = None
    """Slow runs that are rarer than this share may have been missed in an arm, with a probability
    of 5 %; None without trials."""
    test: str = ""
    """The test that both arms ran, where a comparison is of several tests."""
    unit: str = ""
    """The metric's unit in that test."""
    population: Population | None = None
    """What replicates show, with levels of replication; spreads are those of log ratios."""
    replicates: str = ""
    """What the interval is about, where that is not these trials alone: `5 jobs`."""

    @property
    def is_partly_zero(self) -> bool:
        """Whether both arms have values, some of which are 0 or less: there are no ratio and no
        means, as those of the others show nothing about these."""
        is_measured = bool(self.n_baseline and self.n_candidate and self.ratio.n)
        return is_measured and math.isnan(self.ratio.value)

    @property
    def stated_effect(self) -> float | None:
        """The smallest effect as reports state it: None where it says only that a comparison
        detects nothing."""
        found = self.smallest_effect
        return found if found <= MOST_STATED_EFFECT else None


class GateVerdict(msgspec.Struct, frozen=True):
    """Result of one gate for one candidate."""

    gate: Gate
    candidate: str
    outcome: GateOutcome
    detail: str
    held_by: tuple[str, ...] = ()
    """Codes of the findings that leave it undecided."""
    otherwise: GateOutcome | None = None
    """What it would be without them."""
    test: str = ""
    """As of a verdict."""


class NullFloor(msgspec.Struct, frozen=True):
    """One metric's noise, as shares; None where there is no figure."""

    metric: str
    half_width: float | None
    """Of the interval of the ratio of a command to itself."""
    noise_floor: float | None
    """The smallest difference that could have been detected in these blocks."""
    levels: tuple[LevelSpread, ...] | UnsetType = UNSET
    """By how much the command differs between replicates of levels, trials last; absent without
    levels of replication."""


class NullResult(msgspec.Struct, frozen=True):
    """What comparing a command with itself showed about the machine."""

    command: str
    measured_ns: int
    """CLOCK_REALTIME [ns]."""
    boot_id: str
    blocks: int
    floors: tuple[NullFloor, ...]
    false_positives: float
    """Share of random relabellings within blocks that were called different."""
    relabellings: int
    biased: bool
    """Whether the null comparison itself found a difference."""
    session: int = 0
    """Where it is stored: the number of its session in its study."""
    source: str = ""
    """The study, where it is another one."""


class ComparisonResult(msgspec.Struct, frozen=True):
    """The answer of a comparison."""

    arms: tuple[str, ...]
    """The baseline first."""
    rule: ComparisonRule
    verdicts: tuple[MetricVerdict, ...]
    """In the order of the metrics; for each, in the order of the candidates."""
    gates: tuple[GateVerdict, ...]
    stop: StopDecision
    blocks: int
    """That count."""
    failed_blocks: int
    duration_ns: int
    """Of all trials together [ns]."""
    null: NullResult | None = None
    failures: tuple[str, ...] = ()
    """Codes of the findings about the trials that failed, in warm-up blocks too; earlier versions
    did not store them."""

    @property
    def has_failures(self) -> bool:
        """Whether trials failed in a way that the user did not accept."""
        if not self.failures:
            return bool(self.failed_blocks)
        return not {*self.failures} <= {*self.rule.accepted}

    @property
    def exit_status(self) -> int:
        """1 if a gate or a trial failed, 3 if the question is not answered, else 0. The gates are
        the question if there are any, else the verdicts."""
        outcomes = {gate.outcome for gate in self.gates}
        if GateOutcome.FAILED in outcomes or self.has_failures:
            return 1
        answered = GateOutcome.UNDECIDED not in outcomes if outcomes else self.stop.answered
        return 0 if answered else 3


class ComparisonProgress(msgspec.Struct, frozen=True):
    """The progress of a comparison: shown to a person, never used for a decision."""

    blocks: int
    failed: int
    warming_up: bool
    maximum: int
    elapsed_s: float
    ratios: tuple[tuple[str, str, Estimate], ...]
    """Of each judged metric and candidate."""
    trials: tuple[int, int] | None = None
    """Trials so far and in all, of a sequence: its blocks end only at its end."""
    limit_s: float | None = None
    """The time limit."""


# -- A stopping rule as text: one wording for plans, progress and reports --------------


def describe_comparison(rule: ComparisonRule) -> str:
    """Return a description of how a comparison runs and what ends it."""
    names = ", ".join(metric.name for metric in rule.metrics if metric.judged)
    limit = "" if rule.max_time_ns is None else f", at most {duration_ns_text(rule.max_time_ns)}"
    if rule.replication is not None:
        from benchwright.core.replication import describe_replication

        text = describe_replication(rule.replication, "block")
        again = " of a command compared with itself" if rule.exactly is not None else ""
        return f"{text} ({rule.design}){again}{limit}"
    if rule.exactly is not None:
        return f"{rule.exactly} {rule.design} of a command compared with itself{limit}"
    if not rule.paired and rule.stored is None:
        return f"sequence: {rule.maximum} trials of each arm, one after the other"
    what = "trials" if rule.stored is not None else f"blocks ({rule.design})"
    looks = "planned by a pilot" if rule.mode == "plan" else "watched"
    return (
        f"{rule.minimum} to {rule.maximum} {what}, {looks}, until {names} is faster, "
        f"slower or within {percent_text(rule.margin, 10)}{limit}"
    )


def describe_rule(rule: StoppingRule) -> str:
    """Return a description of a stopping rule."""
    if isinstance(rule, FixedCount):
        return plural(rule.count, "trial")
    if isinstance(rule, Replicated):
        # Few sessions replicate anything.
        from benchwright.core.replication import describe_replication

        return describe_replication(rule.replication)
    if isinstance(rule, UntilPrecise):
        return _describe_precise(rule)
    words = f"{rule.minimum} trials, then {rule.increment} more at a time until "
    if isinstance(rule, UntilPredicate):
        most = "" if rule.maximum is None else f", at most {rule.maximum} trials"
        return f"{words}{rule.predicate}{most}"
    return f"{words}`{rule.command.text}` exits with 0"


def describe_test(plan: TestPlan) -> str:
    """Return a description of a test's stopping rule and warm-up."""
    words = describe_rule(plan.stopping)
    if plan.warmups:
        words += f", after {plural(plan.warmups, 'warm-up trial')}"
    return words


def _describe_precise(rule: UntilPrecise) -> str:
    of = "" if rule.share is None else f"the {rule.statistic} of "
    looks = "" if rule.mode == "plan" else ", watched"
    pilot = f"{rule.minimum}"
    if rule.long_minimum is not None and rule.long_minimum < rule.minimum:
        pilot += f" ({rule.long_minimum} if they take long)"
    words = (
        f"until {of}{', '.join(rule.metrics)} within ±{percent_text(rule.target, 10)} at "
        f"{percent_text(rule.confidence, 10)} confidence{looks}, "
        f"{pilot} to {rule.maximum} trials"
    )
    if rule.rare is not None:
        words += f", enough for slow runs of {percent_text(rule.rare.share, 10)}"
    if rule.max_time_ns is not None:
        words += f", at most {duration_ns_text(rule.max_time_ns)}"
    if rule.give_up_ns is not None:
        words += f"; gives up after {duration_ns_text(rule.give_up_ns)} if that is out of reach"
    return words
