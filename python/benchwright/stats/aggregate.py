"""Aggregation: a trial's measurement blocks to one number per quantity, and trials to a test's
summary.

Stability predicates over summaries, and figures as percentages of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.core.expression import PREDICATE_VARIABLES, Expression, parse
from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import SUCCESS
from benchwright.core.results import Summary
from benchwright.stats.intervals import t_half_width
from benchwright.stats.metric_rules import Fold, MetricRules
from benchwright.stats.moments import median, moments, plain_floats, slope

if TYPE_CHECKING:
    from benchwright.stats.arrays import SampleValues


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


class MetricColumn(msgspec.Struct, frozen=True):
    """One quantity over the trials that have it."""

    name: str
    epochs: tuple[int, ...]
    """The epochs of the values, in order; shape `(n,)`."""
    values: tuple[float, ...]
    """Finite numbers in the quantity's unit; shape `(n,)`."""


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
        msgspec.structs.replace(aggregate_trial(trial.blocks, book), epoch=trial.epoch)
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
