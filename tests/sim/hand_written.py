"""Trials written by hand: what a run of a known server would have shown, without simulating it."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.features.load.plan import LoadSeries, LoadTrial

MEAN_RESPONSE = "response_ms_mean"


def run_of(rate: float, column: Sequence[float], capacity: float | None = None) -> LoadTrial:
    """Return a run with these mean responses in each second [ms].

    capacity: what the server completed [1/s]; None: all that arrived.
    """
    n = len(column)
    return LoadTrial(
        rate=rate,
        duration_s=n,
        lasted_s=n,
        cost_s=n,
        values={MEAN_RESPONSE: sum(column) / n, "error_ratio": 0.0},
        series=LoadSeries(
            at_s=tuple(float(i) for i in range(n)),
            counts=(round(rate),) * n,
            values={MEAN_RESPONSE: tuple(column)},
            binned_by="intended",
        ),
        offered=round(rate) * n,
        completed=round(rate) * n if capacity is None else round(capacity * n),
    )


def overloaded_run(rate: float, capacity: float, lasts: int = 60) -> LoadTrial:
    """Return a run whose response grows as that of a queue that never empties."""
    growth = 1000 * (rate / capacity - 1)
    return run_of(rate, [growth * (i + 0.5) for i in range(lasts)], capacity)


def mean_response_ms(rate: float) -> float:
    """Return the response of a server without noise that meets 40 ms at 236/s."""
    return 40 * (264 - 236) / (264 - rate) if rate < 264 else 5000.0
