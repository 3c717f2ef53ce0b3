"""What is known of a simulated run as it goes on: bins by arrival, filled on completion."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchwright.core.criterion import Criterion
from benchwright.features.load.criteria import within_ns
from benchwright.features.load.plan import LoadSeries
from queues import Times

BIN_S = 1.0
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Operations:
    """One run's operations in order of arrival."""

    arrivals: Times
    """Intended starts."""
    completions: Times
    """When the generator knows of them; NaN: refused, at the start."""
    came: Times | None = None
    """When the generator came to each; None: at once."""
    arrived: Times | None = None
    """When its answer was there to be read; None: when the generator read it."""
    users: int | None = None
    """Of a closed loop, which has no intended starts."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """Of streams, by what a criterion's key begins with, `first` and `tpot` [s]; NaN: refused."""

    def of(self, criterion: Criterion) -> Times:
        """Return the times that a criterion is about [s]; NaN: refused."""
        return self.times.get(criterion.key.partition("_")[0], self.responses)

    @functools.cached_property
    def responses(self) -> Times:
        """Response times [s]; NaN: refused."""
        return self.completions - self.arrivals

    @property
    def starts(self) -> Times:
        """When each was issued [s]."""
        return self.arrivals if self.came is None else self.came

    @functools.cached_property
    def target_responses(self) -> Times:
        """Response times without the generator's lateness, at the start and in reading the answer
        [s]; NaN: refused."""
        ends = self.completions if self.arrived is None else self.arrived
        return ends - self.starts

    @functools.cached_property
    def ends(self) -> Times:
        """When each completed or was refused [s]."""
        return np.where(np.isnan(self.completions), self.starts, self.completions)

    @functools.cached_property
    def in_order(self) -> NDArray[np.intp]:
        """Operations as they end."""
        return np.argsort(self.ends, kind="stable")

    @functools.cached_property
    def ordered_ends(self) -> Times:
        """When they end, ascending [s]."""
        return self.ends[self.in_order]

    @functools.cached_property
    def well_so_far(self) -> Counts:
        """How many of the first n to end had ended well `(n + 1,)`."""
        well = ~np.isnan(self.completions[self.in_order])
        return np.concatenate(([0], np.cumsum(well)))

    def completed_by(self, moment_s: float) -> int:
        """Return how many had ended well by a moment."""
        n = np.searchsorted(self.ordered_ends, moment_s, side="right")
        return int(self.well_so_far[n])


@dataclass(frozen=True)
class Columns:
    """Sums of each bin `(n_bins,)`."""

    counts: Counts
    """Operations that ended well."""
    errors: Counts
    sums_s: Times
    """Of responses."""
    within: dict[str, Counts]
    """Operations within a share's limit, by its key."""
    tails_s: dict[str, Times]
    """Percentiles by key."""


class Ledger:
    """A run's bins, filled as its operations end."""

    def __init__(self, operations: Operations, criteria: tuple[Criterion, ...]) -> None:
        self.operations = operations
        self.criteria = criteria
        self.bins = (operations.arrivals / BIN_S).astype(np.intp)
        self.n_bins = int(self.bins[-1]) + 1 if self.bins.size else 0
        self.taken = 0
        self.begun_s = 0.0
        self.last_end_s = 0.0
        self.columns = self._empty()

    def _empty(self) -> Columns:
        """Return columns of nothing."""
        n = self.n_bins
        shares = [c.key for c in self.criteria if c.statistic == "share"]
        tails = [c.key for c in self.criteria if c.statistic == "percentile"]
        return Columns(
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n),
            {key: np.zeros(n, np.int64) for key in shares},
            {key: np.full(n, np.nan) for key in tails},
        )

    @property
    def refused(self) -> int:
        """Operations refused so far."""
        return int(self.columns.errors.sum())

    def take(self, until_s: float, begun_s: float) -> None:
        """Add what ended by `until_s` of what arrived before `begun_s`."""
        operations = self.operations
        last = int(np.searchsorted(operations.ordered_ends, until_s, side="right"))
        new = operations.in_order[self.taken : last]
        new = new[operations.arrivals[new] < begun_s]
        self.taken, self.begun_s = max(self.taken, last), begun_s
        if new.size:
            self.last_end_s = max(self.last_end_s, float(operations.ends[new[-1]]))
            self._add(new)
            if self.columns.tails_s:
                self._add_tails(np.unique(self.bins[new]), until_s)

    def _add(self, new: NDArray[np.intp]) -> None:
        """Add operations to the sums of their bins."""
        responses, bins, n = self.operations.responses[new], self.bins[new], self.n_bins
        well = ~np.isnan(responses)
        columns = self.columns
        columns.counts[:] += np.bincount(bins[well], minlength=n)
        columns.errors[:] += np.bincount(bins[~well], minlength=n)
        columns.sums_s[:] += np.bincount(bins[well], responses[well], n)
        for criterion in self.criteria:
            if criterion.statistic == "share":
                inside = bins[responses <= limit_s(criterion)]
                columns.within[criterion.key][:] += np.bincount(inside, minlength=n)

    def _add_tails(self, changed: NDArray[np.intp], until_s: float) -> None:
        """Compute the percentiles of changed bins anew."""
        for criterion in self.criteria:
            if criterion.statistic == "percentile":
                column = self.columns.tails_s[criterion.key]
                for number in changed:
                    span_s = number * BIN_S, (number + 1) * BIN_S
                    known = self._well(criterion, span_s, until_s)
                    if known.size:
                        column[number] = np.quantile(known, criterion.share or 0.5)

    def _well(self, criterion: Criterion, span_s: tuple[float, float], until_s: float) -> Times:
        """Return a criterion's known times of what arrived within a span [s]."""
        operations = self.operations
        low, high = np.searchsorted(operations.arrivals, span_s)
        known = operations.ends[low:high] <= until_s
        times = operations.of(criterion)[low:high][known]
        return times[~np.isnan(times)]

    def values(self) -> dict[str, float]:
        """Return what is known by criterion's key; absent where nothing is."""
        columns = self.columns
        ended = int(columns.counts.sum()), int(columns.errors.sum())
        known = {c.key: self._value(c, *ended) for c in self.criteria}
        return {key: value for key, value in known.items() if value is not None}

    def _value(self, criterion: Criterion, well: int, refused: int) -> float | None:
        """Return one criterion's value over all that has ended."""
        if criterion.statistic in ("ratio", "share"):
            part = refused
            if criterion.statistic == "share":
                part = int(self.columns.within[criterion.key].sum())
            return part / (well + refused) if well + refused else None
        if not well:
            return None
        if criterion.statistic == "mean":
            return float(1000 * self.columns.sums_s.sum() / well)
        times = self.operations.of(criterion)[self._ended()]
        return float(1000 * np.nanquantile(times, criterion.share or 0.5))

    def _ended(self) -> NDArray[np.intp]:
        """Return the operations that have ended, of those that count."""
        taken = self.operations.in_order[: self.taken]
        return taken[self.operations.arrivals[taken] < self.begun_s]

    def target_values(self, values: dict[str, float]) -> dict[str, float]:
        """Return the `values` of the target alone, without the generator's lateness."""
        if self.operations.came is None and self.operations.arrived is None:
            return values
        values = dict(values)
        responses = self.operations.target_responses[self._ended()]
        well = responses[~np.isnan(responses)]
        for criterion in self.criteria:
            if criterion.key not in values or criterion.statistic == "ratio":
                continue
            if criterion.statistic == "share":
                inside = int((well <= limit_s(criterion)).sum())
                values[criterion.key] = inside / responses.size
            elif criterion.statistic == "mean":
                values[criterion.key] = float(1000 * well.mean())
            else:
                values[criterion.key] = float(1000 * np.quantile(well, criterion.share or 0.5))
        return values

    def late_p99_ms(self) -> float | None:
        """Return how late the generator came [ms]; None in a closed loop, or where nothing ended."""
        operations = self.operations
        if operations.users is not None:
            return None
        if operations.came is None:
            return 0.0
        ended = self._ended()
        late_s = operations.came[ended] - operations.arrivals[ended]
        return float(1000 * np.quantile(late_s, 0.99)) if late_s.size else None

    def series(self, lasted_s: float) -> LoadSeries:
        """Return the bins of the load so far, as a bench's series."""
        n = min(self.n_bins, int(np.ceil(lasted_s / BIN_S)))
        return LoadSeries(
            at_s=tuple((BIN_S * np.arange(n)).tolist()),
            width_s=BIN_S,
            counts=tuple(self.columns.counts[:n].tolist()),
            values={c.key: tuple(self._column(c)[:n].tolist()) for c in self.criteria},
            binned_by="intended",
        )

    def _column(self, criterion: Criterion) -> Times:
        """Return a criterion's value of each bin; 0 where there is none."""
        columns = self.columns
        ended = np.maximum(columns.counts + columns.errors, 1)
        if criterion.statistic == "ratio":
            return columns.errors.astype(np.float64) / ended
        if criterion.statistic == "share":
            return columns.within[criterion.key].astype(np.float64) / ended
        if criterion.statistic == "percentile":
            return 1000 * np.nan_to_num(columns.tails_s[criterion.key])
        return 1000 * columns.sums_s / np.maximum(columns.counts, 1)


def limit_s(criterion: Criterion) -> float:
    """Return the time that a share of the responses must be within [s]."""
    limit_ns = within_ns(criterion)
    assert limit_ns is not None
    return limit_ns / 1e9
