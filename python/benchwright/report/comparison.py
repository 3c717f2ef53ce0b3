"""The result of a comparison in sentences, and for JSON.

Decision: tables have ratios (candidate / baseline, views/comparison.py); the sentences say by how
much a candidate is slower or faster: `slower by x` means 1 + x times as slow in the metric's
direction. Sentences, margins and gates therefore use the same measure. Only times are slower and faster: sizes are larger and smaller,
everything else is higher and lower, by a share of the baseline. Non-goal: deciding verdicts.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.comparison import (
    Better,
    ComparisonResult,
    GateOutcome,
    GateVerdict,
    MetricVerdict,
    NullFloor,
    NullResult,
    Verdict,
)
from benchwright.core.results import Estimate, Population
from benchwright.core.text import list_text, number_text, p_text, percent_text, plural, plural_of
from benchwright.report.documents import StopEntry, entry, stop_entry
from benchwright.report.observed import FailureEntry, ObservedEntry, OutputEntry
from benchwright.stats.aggregate import MetricRules

WIDENED = 1.1
"""Minimum factor of a widened interval that is reported."""

# -- sentences ---------------------------------------------------------------------------


def _unit_of(metric: str, comparison: ComparisonResult) -> str:
    declared = {metric.name: metric.unit for metric in comparison.rule.metrics}
    return declared.get(metric) or MetricRules().row(metric).unit


def unit_of(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return the unit of a verdict's metric, which tests of one suite may declare differently."""
    return v.unit or _unit_of(v.metric, comparison)


def sentence(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return a verdict as a sentence with its evidence."""
    return f"{_claim(v, comparison)} ({_basis(v, comparison)})"


def _claim(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return what a verdict says, without its evidence."""
    if v.verdict in (Verdict.FASTER, Verdict.SLOWER):
        how = _difference(v, comparison)
        if how.of_time:
            return f"{v.candidate} is {how.text} {v.baseline}"
        return f"{v.candidate} against {v.baseline}: {v.metric} {how.text}"
    if v.verdict is Verdict.EQUIVALENT:
        margin = percent_text(comparison.rule.margin)
        return f"{v.candidate} and {v.baseline} are equivalent within {margin}"
    return f"{v.candidate} against {v.baseline}: undecided"


def _basis(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return the evidence of a verdict."""
    evidence = _evidence(v)
    if v.verdict in (Verdict.FASTER, Verdict.SLOWER):
        how = _difference(v, comparison)
        metric = f"{v.metric}: " if how.of_time else ""
        return f"{metric}{_level(v)} interval {how.interval}, {evidence}"
    interval = (
        f"ratio {number_text(v.ratio.value)}, {_level(v)} interval {number_text(v.ratio.low)} to "
        f"{number_text(v.ratio.high)}"
    )
    if v.verdict is Verdict.EQUIVALENT:
        return f"{v.metric}: {interval}, {evidence}"
    if v.reason:
        return f"{v.metric}: {v.reason}"
    seen = "no effect of 1,000 % or less"
    if v.stated_effect is not None:
        seen = f"an effect of {percent_text(v.stated_effect)}"
    power = percent_text(comparison.rule.power)
    return f"{v.metric}: {interval}, {evidence}; {seen} would have been detected with {power} probability"


HEADLINE_WIDTH = 60
"""Characters of a headline."""


def verdict_headline(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return a verdict without its evidence; long names lose their middle."""
    claim = _claim(v, comparison)
    if len(claim) <= HEADLINE_WIDTH:
        return claim
    names = (v.candidate, v.baseline)
    room = max(HEADLINE_WIDTH - len(claim) + sum(map(len, names)), 0)
    # A short name leaves its room to the other one.
    candidate, baseline = (
        _without_middle(one, max(room // 2, room - len(other)))
        for one, other in (names, names[::-1])
    )
    cut = msgspec.structs.replace(v, candidate=candidate, baseline=baseline)
    return _claim(cut, comparison)


def _without_middle(name: str, most: int) -> str:
    """Return a name in at most this many characters: its ends distinguish commands."""
    if len(name) <= most:
        return name
    kept = max(most - 3, 2)
    return f"{name[: (kept + 1) // 2]}...{name[len(name) - kept // 2 :]}"


def null_headline(null: NullResult) -> str:
    """Return the noise floor of the first metric: `Noise floor 1.1 % of elapsed`."""
    known = [floor for floor in null.floors if floor.noise_floor is not None]
    biased = ", BIASED" if null.biased else ""
    if not known:
        return f"No noise floor{biased}"
    return f"Noise floor {percent_text(known[0].noise_floor)} of {known[0].metric}{biased}"


# The words of a difference depend on the metric's unit: (more, less, `as ... as`).
_SIZE_WORDS = ("larger", "smaller", "large")
_OTHER_WORDS = ("higher", "lower", "high")
_TIMES = frozenset(["ns", "us", "µs", "ms", "s", "min", "h"])
_SIZE = re.compile(r"[kKMGT]?i?B(/(?!s).*)?")


class _Difference(msgspec.Struct, frozen=True):
    """How a candidate differs, in words."""

    text: str
    """`3.2 % slower than`, `18.4 times as slow as` the baseline; `12 % larger`."""
    interval: str
    of_time: bool


def _is_time(v: MetricVerdict, comparison: ComparisonResult) -> bool:
    """Return whether a metric is a time that a program takes: it is slower or faster."""
    return v.better == "lower" and unit_of(v, comparison) in _TIMES


def verdict_word(v: MetricVerdict, comparison: ComparisonResult) -> str:
    """Return a verdict in the words of its metric: `slower`, `larger`, `lower`; `shown` without
    one.

    Scripts read the verdict itself, which is `slower` for what is worse.
    """
    if v.verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return str(v.verdict or "shown")
    if _is_time(v, comparison):
        return str(v.verdict)
    return _words(v, comparison)[0 if _rises(v) else 1]


def _words(v: MetricVerdict, comparison: ComparisonResult) -> tuple[str, str, str]:
    is_size = _SIZE.fullmatch(unit_of(v, comparison))
    return _SIZE_WORDS if is_size else _OTHER_WORDS


def _rises(v: MetricVerdict) -> bool:
    return (v.verdict is Verdict.SLOWER) is (v.better == "lower")


def _difference(v: MetricVerdict, comparison: ComparisonResult) -> _Difference:
    """Return by how much a candidate differs: from a ratio of 2 on in times."""
    of_time, word = _is_time(v, comparison), verdict_word(v, comparison)
    by = by_how_much(v, of_baseline=not of_time)
    if by.value < 1 or not math.isfinite(by.value):
        text_of = percent_text if of_time or _rises(v) else _fall_text
        low, high = text_of(by.low).removesuffix(" %"), text_of(by.high)
        text = f"{text_of(by.value)} {word}{' than' if of_time else ''}"
        return _Difference(text, f"{low} to {high}", of_time)
    if of_time:
        way = "slow as" if v.verdict is Verdict.SLOWER else "fast as"
    else:
        way = _words(v, comparison)[2]
    times, low, high = (_times(x) for x in (by.value, by.low, by.high))
    return _Difference(f"{times} times as {way}", f"{low} to {high} times", of_time)


def _fall_text(share: float) -> str:
    """Return a fall by a share of the baseline, which is 100 % only to 0."""
    return percent_text(-share).removeprefix("-")


def _times(more: float) -> str:
    return number_text(1 + more, 3)


def by_how_much(v: MetricVerdict, *, of_baseline: bool = False) -> Estimate:
    """Return by which share the candidate differs, with its interval: ratio - 1, with the sign
    that makes it positive where the verdict holds; of a fall 1 / ratio - 1, or the share of the
    baseline."""
    ratio = v.ratio
    value, low, high = ratio.value, ratio.low, ratio.high
    if _rises(v):
        value, low, high = value - 1, low - 1, high - 1
    elif of_baseline:
        value, low, high = 1 - value, 1 - high, 1 - low
    else:
        value, high, low = (1 / x - 1 if x else math.inf for x in (value, low, high))
    return Estimate(value, low, high, ratio.confidence, ratio.method, ratio.n)


def _level(v: MetricVerdict) -> str:
    return percent_text(v.ratio.confidence, 10)


def _evidence(v: MetricVerdict) -> str:
    if v.blocks is None:
        count = f"{v.n_baseline} and {v.n_candidate} trials"
        if v.widened >= WIDENED:
            count += f", widened {v.widened:.2g} times for possible dependence"
    else:
        count = plural(v.blocks, "block")
    if v.replicates:
        count += f" in {v.replicates}"
    how = "" if v.adjustment == "none" else f" ({v.adjustment})"
    constant = f"; {v.reason}" if v.reason else ""
    return f"{count}, {p_text(v.p_adjusted)}{how}{constant}"


def gates_headline(gates: Sequence[GateVerdict]) -> str:
    """Return the worst outcome in a few words: `1 of 2 gates failed`."""
    outcomes = [gate.outcome for gate in gates]
    worst = next(
        outcome
        for outcome in (GateOutcome.FAILED, GateOutcome.UNDECIDED, GateOutcome.PASSED)
        if outcome in outcomes
    )
    return f"{outcomes.count(worst)} of {plural(len(gates), 'gate')} {worst}"


def gate_sentence(gate: GateVerdict) -> str:
    """Return the result of a gate as a sentence."""
    return f"gate `{gate.gate.text}`, {gate.candidate}: {gate.outcome}: {gate.detail}"


def null_sentence(null: NullResult) -> str:
    """Return the machine's noise as a sentence, with the time and place of its measurement."""
    day = datetime.datetime.fromtimestamp(null.measured_ns // 10**9, datetime.UTC)
    seen = ", ".join(
        f"{f.metric} {percent_text(f.noise_floor)} (interval ±{percent_text(f.half_width)})"
        for f in null.floors
        if f.noise_floor is not None and f.half_width is not None
    )
    moved = "; ".join(_levels_text(floor) for floor in null.floors if floor.levels)
    smaller = "smaller differences cannot be detected reliably here; " if seen else ""
    where = f", {null.source}" if null.source else ""
    return (
        f"noise floor, in {plural(null.blocks, 'block')} of `{null.command}` against itself: "
        f"{seen or 'too few blocks'}; {smaller}{f'{moved}; ' if moved else ''}{percent_text(null.false_positives)} of "
        f"{null.relabellings} relabellings called different{'; BIASED' if null.biased else ''} "
        f"({day:%Y-%m-%d %H:%M} UTC, boot {null.boot_id[:8] or 'unknown'}{where})"
    )


def _levels_text(floor: NullFloor) -> str:
    """Return by how much a command differs between replicates: `elapsed differs between environments
    by 1.2 %`."""
    levels = () if floor.levels is UNSET else floor.levels[:-1]
    parts = [f"between {plural_of(one.level)} by {percent_text(one.spread, 2)}" for one in levels]
    return f"{floor.metric} differs {list_text(parts)}"


# -- the document ------------------------------------------------------------------------


class RatioEntry(msgspec.Struct, frozen=True):
    """Ratio of geometric means, candidate / baseline."""

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    method: str
    n: int


class ArmCounts(msgspec.Struct, frozen=True):
    """The arm's trials that count."""

    baseline: int
    candidate: int


class VerdictEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on one candidate for one metric."""

    metric: str
    unit: str
    better: Better
    judged: bool
    """Whether the comparison continued until this verdict was decided; else it is only shown."""
    baseline: str
    candidate: str
    verdict: Verdict | None
    """`slower` stands for worse, and `faster` for better, whatever the metric is."""
    word: str
    """The verdict in the words of its metric: `larger`, `lower`; `shown` without one."""
    ratio: RatioEntry
    n: ArmCounts
    blocks: int | None
    mean_baseline: float | None
    mean_candidate: float | None
    p: float | None
    p_adjusted: float | None
    adjustment: str
    smallest_effect: float | None
    """The difference, as a share, that would have been detected with the rule's power."""
    reason: str
    widened: float
    held_by: tuple[str, ...]
    otherwise: Verdict | None
    unseen_share: float | None
    """Slow runs rarer than this share may have been missed in an arm, with a probability of 5 %."""
    test: str | UnsetType = UNSET
    """The test that both arms ran, where stored results of several tests are compared."""
    population: Population | UnsetType = UNSET
    """What replicates show; absent without levels of replication. Spreads are of log ratios."""


class GateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one gate for one candidate."""

    condition: str
    metric: str
    candidate: str
    outcome: GateOutcome
    detail: str
    held_by: tuple[str, ...]
    otherwise: GateOutcome | None
    test: str | UnsetType = UNSET


class NullEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing a command with itself: the machine's noise."""

    command: str
    measured_ns: int
    boot_id: str
    blocks: int
    metrics: tuple[NullFloor, ...]
    false_positives: float
    relabellings: int
    biased: bool
    session: int
    source: str


class CompareHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first members of `bw compare`'s document; a comparison of a suite has none."""

    study: str | UnsetType | None = UNSET
    session: int | UnsetType | None = UNSET
    status: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    exit_status: int | UnsetType = UNSET
    observed: dict[str, ObservedEntry] | UnsetType = UNSET
    stderr_tail: dict[str, FailureEntry] | UnsetType = UNSET
    output: dict[str, OutputEntry] | UnsetType = UNSET
    profile_differences: tuple[str, ...] | UnsetType = UNSET
    commits: dict[str, str] | UnsetType = UNSET
    """The commit of each arm that was checked out."""
    only_in: dict[str, tuple[str, ...]] | UnsetType = UNSET
    """Of stored results with several tests: those that only some of them have, by arm."""
    without_values: dict[str, str] | UnsetType = UNSET
    """Tests that all of them have and that cannot be compared, with the reason."""


class ComparisonEntry(CompareHead, frozen=True, kw_only=True):
    """The result of a comparison."""

    arms: tuple[str, ...]
    design: str
    mode: Literal["watch", "plan"]
    margin: float
    confidence: float
    power: float
    seed: int
    blocks: int
    failed_blocks: int
    warmup_blocks: int
    duration_s: float
    stop: StopEntry
    verdicts: tuple[VerdictEntry, ...]
    accepted: tuple[str, ...]
    gates: tuple[GateEntry, ...]
    null: NullEntry | None


def comparison_entry(comparison: ComparisonResult) -> ComparisonEntry:
    """Return a comparison's result for JSON."""
    rule, null = comparison.rule, comparison.null
    return ComparisonEntry(
        arms=comparison.arms,
        design=str(rule.design) if rule.stored is None else "stored-baseline",
        mode=rule.mode,
        margin=rule.margin,
        confidence=rule.confidence,
        power=rule.power,
        seed=rule.seed,
        blocks=comparison.blocks,
        failed_blocks=comparison.failed_blocks,
        warmup_blocks=rule.warmup,
        duration_s=comparison.duration_ns / 1e9,
        stop=stop_entry(comparison.stop),
        verdicts=tuple(_verdict_entry(v, comparison) for v in comparison.verdicts),
        accepted=rule.accepted,
        gates=tuple(map(_gate_entry, comparison.gates)),
        null=None if null is None else entry(NullEntry, null, metrics=null.floors),
    )


def _verdict_entry(v: MetricVerdict, comparison: ComparisonResult) -> VerdictEntry:
    return entry(
        VerdictEntry,
        v,
        unit=unit_of(v, comparison),
        word=verdict_word(v, comparison),
        ratio=entry(RatioEntry, v.ratio),
        n=ArmCounts(v.n_baseline, v.n_candidate),
        test=v.test or UNSET,
        population=v.population or UNSET,
    )


def _gate_entry(gate: GateVerdict) -> GateEntry:
    condition = gate.gate
    return entry(
        GateEntry, gate, condition=condition.text, metric=condition.metric, test=gate.test or UNSET
    )
