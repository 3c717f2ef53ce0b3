"""Aggregation: a trial's measurement blocks to one number per quantity, and trials to a test's
summary; stability predicates over summaries, and figures as percentages of a mean.

One table of rules, the rows of Getstats' table, names, unifies and aggregates each quantity, so
that `bw run`, `bw stats` and the predicates use the same names and the same aggregation over
commands and threads. Decision: the elapsed time of a trial is the longest thread's, and CPU times
are summed (Auto-pilot paper, section 3.3, "aggregating multiple threads into a single value"). Wait
is summed over the threads like CPU times, and CPU% is computed from the aggregated times. (The
paper's order, aggregating first, makes Wait negative when two threads run concurrently.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from benchwright.core.expression import PREDICATE_VARIABLES, Expression, parse
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import SUCCESS, MetricSpec, ReplicatePath, is_rate
from benchwright.core.results import Summary
from benchwright.stats.intervals import t_half_width
from benchwright.stats.sample import median, moments, plain_floats, slope

if TYPE_CHECKING:
    from benchwright.stats.arrays import SampleValues


Fold = Literal["max", "min", "sum", "mean"]
TableFold = Literal["sum", "mean", "max", "min", "median", "count"]
TABLE_FOLDS: tuple[str, ...] = get_args(TableFold)
"""Ways to fold many values into one."""
FIXED_COLUMNS = ("trial", "input", "thread", "epoch", "command", "status")
COMPUTED_COLUMNS = ("wait", "cpu_percent")
HEADING_COLUMNS = {"Elapsed": "elapsed", "System": "system", "User": "user", "Wait": "wait"}


class MetricRule(msgspec.Struct, frozen=True):
    """The rules of one quantity."""

    name: str
    """Name in a block's values: `elapsed`, `cpu_percent`, a metric's name."""
    label: str
    """Name in the table's NAME column and in a predicate's `$name`."""
    unit: str = ""
    commands: Fold = "sum"
    """Aggregation over the commands of one thread."""
    threads: Fold = "sum"
    """Aggregation over the threads of one trial."""
    computed: bool = False
    """Derived from other rows: predicates are not evaluated for it."""
    extra: bool = False
    """Always measured by getrusage; in the table only on request."""
    signed: bool = True
    """Whether it can be negative; if not, the bounds of its mean cannot be either."""


_TIMES = (
    MetricRule("elapsed", "Elapsed", "s", threads="max", signed=False),
    MetricRule("system", "System", "s", signed=False),
    MetricRule("user", "User", "s", signed=False),
)
_COMPUTED = (
    MetricRule("wait", "Wait", "s", computed=True),
    MetricRule("cpu_percent", "CPU%", "%", computed=True, signed=False),
)
_EXTRAS = (
    MetricRule(
        "rss_bytes", "rss_bytes", "B", commands="max", threads="max", extra=True, signed=False
    ),
    MetricRule("minor_faults", "minor_faults", extra=True, signed=False),
    MetricRule("major_faults", "major_faults", extra=True, signed=False),
    MetricRule("in_blocks", "in_blocks", "512 B", extra=True, signed=False),
    MetricRule("out_blocks", "out_blocks", "512 B", extra=True, signed=False),
    MetricRule("voluntary_switches", "voluntary_switches", extra=True, signed=False),
    MetricRule("involuntary_switches", "involuntary_switches", extra=True, signed=False),
)
_GAUGES = (
    *("free_memory_bytes", "available_memory_bytes"),
    *("instructions_per_cycle", "cache_miss_share", "branch_miss_share"),
)
"""Values that shipped hooks read at one moment, or ratios: amounts, not growth."""
_CHANGE = "free_memory_change_bytes"
_GROWTH = (
    _CHANGE,
    *(f"disk_{way}_{what}" for way in ("read", "write") for what in ("operations", "bytes")),
    *(f"network_{way}_{what}" for way in ("receive", "send") for what in ("bytes", "packets")),
    "loopback_bytes",
    "loopback_packets",
    "nfsd_operations",
    "nfsd_read_bytes",
    "nfsd_write_bytes",
    "other_cpu_s",
)
"""Values that shipped hooks count from a measurement's start to its end."""
HOOK_VALUES = (*_GAUGES, *_GROWTH)
_HOOK_VALUE = re.compile(rf"(?:.+_)?({'|'.join(HOOK_VALUES)})|counter_[a-z0-9_]+")
"""A shipped hook's value, with the remote hook's prefix or without; of the hook counters any event."""
_BUILT_IN = {row.name: row for row in (*_TIMES, *_COMPUTED, *_EXTRAS)}
TIMES = tuple(row.name for row in _TIMES)
EXTRAS = frozenset(row.name for row in _EXTRAS)


class MetricRules:
    """The rules in force for one input: the built-in rows and the declared metrics."""

    def __init__(self, specs: Sequence[MetricSpec] = ()) -> None:
        self.declared = tuple(spec.name for spec in specs)
        self._rows = dict(_BUILT_IN)
        self._least_changes = {spec.name: spec.drift for spec in specs}
        for spec in specs:
            self._rows[spec.name] = _declared(spec)

    def least_change(self, name: str) -> float:
        """Return the smallest change over a test that counts as a drift, as a share of the
        median; 0 where none was given."""
        return self._least_changes.get(name, 0.0)

    def row(self, name: str) -> MetricRule:
        """Return the rules of a quantity. An undeclared one is summed over commands and averaged
        over threads, like a metric for which lower is better."""
        rule = self._rows.get(name)
        return rule if rule is not None else _undeclared(name)

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names in the table's order: Elapsed, System, User, Wait, CPU%,
        declared metrics, other metrics in the order given, getrusage's extras."""
        distinct = tuple(dict.fromkeys(names))
        if len(distinct) < 2:
            return distinct
        fixed = {name: place for place, name in enumerate(_BUILT_IN)}
        order: dict[str, tuple[int, int]] = {}
        for met, name in enumerate(distinct):
            if name in fixed and name not in EXTRAS:
                order[name] = (0, fixed[name])
            elif name in self.declared:
                order[name] = (1, self.declared.index(name))
            else:
                order[name] = (3, fixed[name]) if name in EXTRAS else (2, met)
        return tuple(sorted(order, key=lambda name: order[name]))

    def shown(self, names: Iterable[str], *, everything: bool = False) -> tuple[str, ...]:
        """Return the quantities of the table, in order; extras only if declared or
        if `everything` is set."""
        return tuple(
            name
            for name in self.ordered(names)
            if everything or not self.row(name).extra or name in self.declared
        )

    def judged(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the quantities that a predicate is evaluated for, in order.

        These are Elapsed, System, User and the declared metrics. For a source without
        any of them (a CSV of something else), these are all quantities in its table that
        are not computed.
        """
        present = self.shown(names)
        chosen = tuple(
            name
            for name in present
            if name in TIMES or (name in self.declared and not self.row(name).computed)
        )
        return chosen or tuple(n for n in present if not self.row(n).computed)


def _undeclared(name: str) -> MetricRule:
    """Return the rules of a quantity that was not declared.

    A gauge of a shipped hook, such as free memory, is averaged over commands, because a sum
    of amounts is meaningless.
    """
    hook = _HOOK_VALUE.fullmatch(name)
    commands: Fold = "mean" if hook and hook[1] in _GAUGES else "sum"
    signed = _is_signed(name) if hook is None else hook[1] == _CHANGE
    return MetricRule(name, name, commands=commands, threads="mean", signed=signed)


def _is_signed(*words: str) -> bool:
    """Return whether a quantity may be negative, by its name and unit: not a rate, nor what an
    operation needs (`B/op`)."""
    return not (is_rate(*words) or any(word.endswith("/op") for word in words))


def _declared(spec: MetricSpec) -> MetricRule:
    """Return the rules of a declared metric; built-in names keep theirs by default.

    A shipped hook's value is for the whole machine and the same for each thread, so it is
    averaged over threads even where higher is better.
    """
    base = _BUILT_IN.get(spec.name)
    if base is None and _HOOK_VALUE.fullmatch(spec.name):
        base = _undeclared(spec.name)
    default: Fold = "sum" if spec.better == "higher" else "mean"
    if spec.across_threads != "default":
        threads: Fold = spec.across_threads
    else:
        threads = base.threads if base else default
    if base is None:
        signed = spec.unit not in ("s", "B") and _is_signed(spec.name, spec.unit)
        return MetricRule(spec.name, spec.name, spec.unit, threads=threads, signed=signed)
    return msgspec.structs.replace(base, unit=spec.unit or base.unit, threads=threads)


# --------------------------------------------------------------------------------------
# Stability predicates: `("$delta" < 0.05 * $mean) || ($count > 30)`, per quantity.
#
# A predicate is evaluated for each quantity separately and holds only if it holds for all
# (Auto-pilot paper, section 3.3). Computed quantities (Wait, CPU%) are left out.
# Non-goal: a guaranteed confidence; a predicate that is evaluated repeatedly has only a nominal
# confidence (finding `nominal-confidence`).


def parse_predicate(text: str) -> Expression:
    """Return the parsed predicate. Raises InputError with the column for bad syntax and for
    an unknown variable."""
    return parse(text, variables=PREDICATE_VARIABLES, file="--predicate")


def predicate_variables(summary: Summary) -> dict[str, float | str]:
    """Return the variables of a predicate for one quantity; `$name` is its label and
    `$delta` the half width of its confidence interval, in the quantity's unit."""
    return {
        "name": summary.label,
        "mean": summary.mean,
        "median": summary.median,
        "delta": summary.half_width,
        "count": summary.count,
        "sdev": summary.sdev,
        "min": summary.minimum,
        "max": summary.maximum,
        "slope": summary.slope,
        "sum": summary.sum,
    }


def predicate_answers(expression: Expression, summaries: Sequence[Summary]) -> dict[str, bool]:
    """Return the predicate's answer for each quantity, by the quantity's name."""
    return {s.name: expression.truth(predicate_variables(s)) for s in summaries}


def evaluate_predicate(expression: Expression, summaries: Iterable[Summary]) -> bool:
    """Return True when the predicate holds for every quantity; False without any."""
    found = predicate_answers(expression, tuple(summaries))
    return bool(found) and all(found.values())


# --------------------------------------------------------------------------------------
# Overhead: by how much a mean lies above a baseline's, in percent (the O/H column).


def overhead_percent(mean: float, baseline: float) -> float:
    """Return 100 * (mean - baseline) / |baseline| [%]; NaN where the baseline is 0.

    Positive when the value is larger, whatever the sign of the baseline. A point
    estimate without an interval; `bw compare` gives verdicts.
    Source: Auto-pilot paper, section 3.3.
    """
    if not baseline or not math.isfinite(baseline):
        return math.nan
    return 100 * ((mean - baseline) / abs(baseline))


def percent_of_mean(value: float, mean: float) -> float:
    """Return `value` in percent of |mean| (SDEV% and HW%) [%].

    NaN where the mean is 0 and the value is not; 0 where both are.
    """
    if not mean:
        return 0.0 if value == 0 else math.nan
    return 100 * (value / abs(mean))


# -- From a trial's measurement blocks to one number per quantity ----------------------
#
# Purpose: first the commands of each thread are unified (tar, configure and make are one
# result), then Wait is computed for each thread, then the threads are aggregated, and finally
# CPU% is computed.
# Decision: absent is not zero. A quantity that is absent or not finite in any thread is absent
# from the trial and named in `partial`; an average over the threads that have it would compare
# different things.
# Source: Auto-pilot paper, section 3.3; non-goal: no statistics over trials.


class TrialValues(msgspec.Struct, frozen=True):
    """The aggregated values of one epoch."""

    epoch: int
    values: dict[str, float]
    """One finite number per quantity, including computed quantities."""
    partial: tuple[str, ...] = ()
    """Quantities that are absent or not finite in some thread."""
    status: int = 0
    """The first exit status that is not 0."""
    path: ReplicatePath = ()
    """The replicate in which it ran."""


class MetricColumn(msgspec.Struct, frozen=True):
    """One quantity over the trials that have it."""

    name: str
    epochs: tuple[int, ...]
    """The epochs of the values, in order; shape `(n,)`."""
    values: tuple[float, ...]
    """Finite numbers in the quantity's unit; shape `(n,)`."""
    paths: tuple[ReplicatePath, ...] = ()
    """The replicates of the values; shape `(n,)`, or empty without levels of replication."""


def aggregate_trial(blocks: Sequence[MeasurementBlock], book: MetricRules) -> TrialValues:
    """Return the values of one epoch's blocks, with commands unified and threads aggregated."""
    by_thread: dict[int, list[MeasurementBlock]] = {}
    for block in blocks:
        by_thread.setdefault(block.thread, []).append(block)
    threads = [_with_wait(_unify(group, book)) for group in by_thread.values()]
    values, partial = _across(threads, book)
    return TrialValues(
        epoch=blocks[0].epoch if blocks else 0,
        values=values | _computed(values),
        partial=partial,
        status=next((block.status for block in blocks if block.status), 0),
    )


def _across(
    threads: Sequence[Mapping[str, float]], book: MetricRules
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the quantities over all threads, and the names of those that are absent or not
    finite in some thread."""
    names = dict.fromkeys(name for thread in threads for name in thread)
    if len(threads) == 1:
        folded = {name: float(value) for name, value in threads[0].items()}
    else:
        folded = {
            name: _fold([t.get(name, math.nan) for t in threads], book.row(name).threads)
            for name in names
        }
    values = {name: value for name, value in folded.items() if math.isfinite(value)}
    if len(values) == len(names):
        return values, ()
    return values, tuple(name for name in names if name not in values)


def _unify(blocks: Sequence[MeasurementBlock], book: MetricRules) -> dict[str, float]:
    """Return one thread's quantities; not finite where any command's value is not."""
    if len(blocks) == 1:
        return blocks[0].values
    gathered: dict[str, list[float]] = {}
    for block in blocks:
        for name, value in block.values.items():
            gathered.setdefault(name, []).append(value)
    return {name: _fold(v, book.row(name).commands) for name, v in gathered.items()}


def _fold(values: Sequence[float], how: Fold) -> float:
    """Return the values folded to one; not finite if any of them is not."""
    if len(values) == 1:
        return float(values[0])
    if not all(math.isfinite(value) for value in values):
        return math.nan
    if how == "max":
        return float(max(values))
    if how == "min":
        return float(min(values))
    if how == "sum":
        return _fsum(values)
    return _fsum([value / len(values) for value in values])


def _fsum(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return sum(values)


def _with_wait(thread: Mapping[str, float]) -> Mapping[str, float]:
    """Return a thread's quantities with Wait, the time [s] in which it did not run, where its
    three times are known. It is computed before the threads are aggregated, and then summed
    like CPU times; computed afterwards it would be negative when threads run concurrently.
    """
    busy = _busy(thread)
    if busy is None or "wait" in thread or "elapsed" not in thread:
        return thread
    return {**thread, "wait": thread["elapsed"] - busy}


def _computed(values: dict[str, float]) -> dict[str, float]:
    """Return the computed quantities: CPU%, 100 per busy CPU, where the three times are known."""
    busy, elapsed = _busy(values), values.get("elapsed", 0)
    if busy is None or elapsed <= 0 or "cpu_percent" in values:
        return {}
    return {"cpu_percent": 100 * busy / elapsed}


def _busy(values: Mapping[str, float]) -> float | None:
    if "user" not in values or "system" not in values:
        return None
    return values["user"] + values["system"]


def observe_trials(trials: Iterable[Trial], book: MetricRules) -> tuple[TrialValues, ...]:
    """Return the values of every trial that counts: it succeeded, is not void, and is not a
    warm-up trial."""
    return tuple(
        msgspec.structs.replace(
            aggregate_trial(trial.blocks, book), epoch=trial.epoch, path=trial.path
        )
        for trial in trials
        if trial.ending is TrialEnding.OK and not trial.warmup
    )


def metric_columns(observed: Sequence[TrialValues], book: MetricRules) -> dict[str, MetricColumn]:
    """Return each quantity over the trials that have it, in the table's order."""
    names = book.ordered(name for trial in observed for name in trial.values)
    found = {}
    for name in names:
        having = [trial for trial in observed if name in trial.values]
        found[name] = MetricColumn(
            name,
            tuple(trial.epoch for trial in having),
            tuple(trial.values[name] for trial in having),
            tuple(trial.path for trial in having if trial.path),
        )
    return found


def trials_of_blocks(
    name: str, blocks: Sequence[MeasurementBlock], ok_status: Collection[int] = SUCCESS
) -> tuple[Trial, ...]:
    """Return trials built from an input's rows, grouped by epoch in order of appearance.

    For sources that contain only blocks (`.res`, CSV, GNU time). A row with another status than
    these makes its epoch a failed one.
    """
    by_epoch: dict[int, list[MeasurementBlock]] = {}
    for block in blocks:
        by_epoch.setdefault(block.epoch, []).append(block)
    return tuple(
        Trial(
            test=name,
            epoch=epoch,
            threads=len({block.thread for block in group}),
            ending=TrialEnding.FAILED
            if any(b.failed(ok_status) for b in group)
            else TrialEnding.OK,
            started_ns=0,
            duration_ns=0,
            blocks=tuple(group),
        )
        for epoch, group in by_epoch.items()
    )


# -- Describing a sample: one row of Getstats' table -----------------------------------
#
# Purpose: COUNT, MEAN, MEDIAN, LOW, HIGH, MIN, MAX, SDEV and HW of one quantity, with the
# slope and the sum that predicates may ask about.
# Source: Auto-pilot paper, section 3.3 and Figure 2. Non-goals: percentiles, robust
# or resampling estimates; rendering (report/).


def summarise(
    name: str,
    values: SampleValues,
    *,
    label: str = "",
    unit: str = "",
    confidence: float = 0.95,
    epochs: Sequence[int] | None = None,
) -> Summary:
    """Return one row of Getstats' table for `values`, shape `(n,)`, in `unit`.

    `epochs`, of the same shape, are the values' positions for the slope where trials are
    missing. A figure for which n is too small is NaN: everything except COUNT and SUM for
    n = 0; LOW, HIGH, SDEV, HW and the slope for n = 1.
    """
    every = plain_floats(values)
    if len(every) == 1 and math.isfinite(every[0]):
        # A file with many benchmarks often has one value of each.
        (value,) = every
        half = t_half_width(math.nan, 1, confidence)
        return Summary(
            name=name,
            label=label or name,
            unit=unit,
            count=1,
            mean=value,
            median=value,
            low=value - half,
            high=value + half,
            minimum=value,
            maximum=value,
            sdev=math.nan,
            half_width=half,
            slope=math.nan,
            sum=value,
            confidence=confidence,
        )
    data = [value for value in every if math.isfinite(value)]
    if epochs is not None:
        pairs = zip(epochs, every, strict=True)
        epochs = [epoch for epoch, value in pairs if math.isfinite(value)]
    found = moments(data)
    half = t_half_width(found.sdev, found.n, confidence)
    return Summary(
        name=name,
        label=label or name,
        unit=unit,
        count=found.n,
        mean=found.mean,
        median=median(data),
        low=found.mean - half,
        high=found.mean + half,
        minimum=min(data, default=math.nan),
        maximum=max(data, default=math.nan),
        sdev=found.sdev,
        half_width=half,
        slope=slope(data, epochs),
        sum=_fsum(data),
        confidence=confidence,
    )


# -- Summaries of a test's quantities, in the table's order -----------------------------


def summarise_columns(
    found: Mapping[str, MetricColumn],
    names: Iterable[str],
    book: MetricRules,
    confidence: float = 0.95,
) -> tuple[Summary, ...]:
    """Return one summary per name, in the order of `names`.

    A name that no trial has gives a summary with n = 0, so that a declared metric is never
    silently absent from the table. The interval of a quantity that cannot be negative is cut
    at 0; its half width remains Student's.
    """
    result = []
    for name in names:
        row, column = book.row(name), found.get(name)
        summary = summarise(
            name,
            column.values if column else (),
            label=row.label,
            unit=row.unit,
            confidence=confidence,
            epochs=column.epochs if column else None,
        )
        if not row.signed and summary.minimum >= 0 > summary.low:
            summary = msgspec.structs.replace(summary, low=0.0)
        result.append(summary)
    return tuple(result)
