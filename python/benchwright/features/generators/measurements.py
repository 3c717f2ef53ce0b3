"""Makes a trial's values and series from a generator's log of operations or its summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.numeric import np, npt
from benchwright.features.generators.adapter import (
    OPERATIONS_SKIPPED,
    Measurement,
    UnreadableOutput,
)
from benchwright.features.load.criteria import percentile_key, within_ns
from benchwright.features.load.plan import LoadSeries

# -- A log of single operations becomes a trial's values and series --------------------
#
# Decision: if a generator logs each operation, every percentile and share is exact and
# needs no option of the generator; its own summary is not read. An operation that failed or
# was skipped counts as slower than all others in percentiles and shares, and is in no mean.

Floats = npt.NDArray[np.float64]
MEAN = "response_ms_mean"
ERRORS = "error_ratio"
LONGEST_S = 1e6
"""Longest plausible trial; a log that reports more is damaged."""
ALWAYS = (0.5, 0.9, 0.95, 0.99, 0.999)
"""Percentiles that are always reported."""


class OperationLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in columns, `(n,)`; failed and skipped operations have the response nan."""

    at_s: Floats
    """The time since the start of the load that selects each operation's bin."""
    response_ms: Floats
    skipped: int = 0
    """Operations among those without a response that were skipped because they were late."""
    binned_by: Literal["intended", "completion", "unknown"] = "intended"
    logged: float = 1.0
    """Share of all operations that the log has, drawn at random."""
    late_ms: Floats | None = None
    """How late the generator came to each operation, without the wait for a free connection; nan
    where it is unknown; None: for all."""


def operations_measurement(
    log: OperationLog, criteria: Sequence[Criterion], lasted_s: float
) -> Measurement:
    """Return the values of a log for a run of this length [s]. Raises UnreadableOutput."""
    if not 0 <= lasted_s <= LONGEST_S or not np.isfinite(log.at_s).all():
        raise UnreadableOutput("believable time", "the log of operations", f"{lasted_s:g} s")
    good = np.isfinite(log.response_ms)
    n, ended = len(good), int(good.sum())
    values = operation_values(log.response_ms, criteria)
    return Measurement(
        values=values,
        series=_series(log, criteria, lasted_s),
        completed=ended,
        errors=n - ended,
        late_p99_ms=late_p99_ms(log),
        target_values=target_values(log, criteria, values),
        lasted_s=lasted_s,
        marks=(OPERATIONS_SKIPPED,) if log.skipped else (),
    )


def late_p99_ms(log: OperationLog) -> float | None:
    """Return the 99th percentile of the generator's lateness; None if it is unknown [ms]."""
    if log.late_ms is None:
        return None
    known = np.sort(log.late_ms[np.isfinite(log.late_ms)])
    return float(known[_rank(0.99, len(known))]) if len(known) else None


def target_values(
    log: OperationLog, criteria: Sequence[Criterion], values: Mapping[str, float]
) -> dict[str, float]:
    """Return a log's values without the generator's lateness; empty if it is unknown.

    Operations whose lateness is unknown are a random part. What the lateness of the others adds
    to their values is subtracted from `values`, so that the two differ by the lateness only.
    """
    if log.late_ms is None:
        return {}
    failed = ~np.isfinite(log.response_ms)
    known = failed | np.isfinite(log.late_ms)
    if not (known & ~failed).any():
        return {}
    response_ms, late_ms = log.response_ms[known], log.late_ms[known]
    with_late = operation_values(response_ms, criteria)
    without = operation_values(response_ms - late_ms, criteria)
    return {
        key: _without(values[key], with_late[key], one)
        for key, one in without.items()
        if key in values and key != ERRORS
    }


def _without(whole: float, with_late: float, without: float) -> float:
    """Return a value of all operations without what lateness adds to that of a part."""
    known = math.isfinite(whole) and math.isfinite(with_late)
    return whole - (with_late - without) if known else without


def operation_values(response_ms: Floats, criteria: Sequence[Criterion] = ()) -> dict[str, float]:
    """Return a run's values by key; empty without operations, no mean without responses.

    An operation without a response is nan.
    """
    n = len(response_ms)
    if not n:
        return {}
    known = np.sort(response_ms[np.isfinite(response_ms)])
    found = {ERRORS: 1 - len(known) / n}
    if len(known):
        found[MEAN] = float(known.mean())
    for share in _percentiles(criteria):
        rank = _rank(share, n)
        found[percentile_key(share)] = float(known[rank]) if rank < len(known) else math.inf
    for key, limit_ms in _limits(criteria):
        found[key] = float(np.searchsorted(known, limit_ms, side="right")) / n
    return found


def _rank(share: float, n: int) -> int:
    """Return the place of a percentile among `n` sorted values."""
    # Rounded first: 0.29 * 100 is a little more than 29.
    return max(int(np.ceil(round(share * n, 9))) - 1, 0)


def _percentiles(criteria: Iterable[Criterion]) -> list[float]:
    wanted = {criterion.share for criterion in criteria if criterion.statistic == "percentile"}
    return sorted({*ALWAYS, *(share for share in wanted if share is not None)})


def _limits(criteria: Iterable[Criterion]) -> list[tuple[str, float]]:
    limits = [(criterion.key, within_ns(criterion)) for criterion in criteria]
    return [(key, ns / 1e6) for key, ns in limits if ns is not None]


def _series(log: OperationLog, criteria: Sequence[Criterion], lasted_s: float) -> LoadSeries:
    """Return bins of one second within the load, up to the last with an operation."""
    # A last bin of less than a tenth of a second would have very few operations.
    bins = max(1, int(np.ceil(lasted_s - 0.1)))
    inside = (log.at_s >= 0) & (log.at_s < bins)
    place = np.floor(np.where(inside, log.at_s, -1)).astype(int)
    groups = [log.response_ms[place == one] for one in range(place.max(initial=-1) + 1)]
    found = [operation_values(group, criteria) for group in groups]
    keys = [MEAN, *(c.key for c in criteria if c.key != MEAN)]
    return LoadSeries(
        at_s=tuple(float(one) for one in range(len(groups))),
        counts=tuple(round(len(group) / log.logged) for group in groups),
        values=_columns_of(keys, found),
        binned_by=log.binned_by,
    )


def _columns_of(
    keys: Sequence[str], bins: Sequence[dict[str, float]]
) -> dict[str, tuple[float, ...]]:
    """Return the values over time; leave out a key that any bin with operations lacks."""
    known = [key for key in keys if all(key in one for one in bins if one)]
    return {key: tuple(one.get(key, 0.0) for one in bins) for key in known}


def columns(text: str, width: int) -> Floats:
    """Return the first columns of lines of numbers, `(n, width)`.

    An incomplete last line is left out. Raises ValueError if lines have different
    numbers of columns, or too few.
    """
    lines = text[: text.rfind("\n") + 1]
    first = len(lines.partition("\n")[0].split())
    if not first:
        return np.empty((0, width))
    ragged = ValueError(f"not {max(first, width)} numbers on every line")
    try:
        numbers = np.fromstring(lines, sep=" ")
    except ValueError:
        raise ragged from None
    if first < width or len(numbers) != first * lines.count("\n"):
        raise ragged
    return numbers.reshape(-1, first)[:, :width]


# --------------------------------------------------------------------------------------
# A generator's summary becomes a trial's values, if it logs no operations.
#
# Decision: a summary's percentiles cover only the operations that succeeded. A percentile
# whose rank lies among the failed operations is infinite; the others are used unchanged,
# slightly too low if some operations failed. A log of operations gives exact values.


def wanted_shares(criteria: Iterable[Criterion]) -> tuple[float, ...]:
    """Return the percentiles to request from a generator, as sorted shares."""
    wanted = {criterion.share for criterion in criteria if criterion.statistic == "percentile"}
    return tuple(sorted({*ALWAYS, *(share for share in wanted if share is not None)}))


def summary_values(
    mean_ms: float | None, percentiles: Mapping[float, float], failed: float
) -> dict[str, float]:
    """Return values by key from a mean [ms], percentiles by share [ms], and the share of
    failed operations."""
    found = {ERRORS: failed}
    if mean_ms is not None:
        found[MEAN] = mean_ms
    for share, ms in percentiles.items():
        found[percentile_key(share)] = ms if share <= 1 - failed else math.inf
    return found
