"""A map of peaks that was measured on a real server: its error from few samples, and what the
published policies would cost on servers with its peaks.

The document of `bw surface --json` has the peaks. Errors are against the truth: longer
searches at the same samples where there are some, else the same searches. Costs are of
simulated servers (parts/nfs_servers.py) with the measured peaks, in virtual time. The
strawman's are computed: it makes all its trials at every load up to the first that fails,
and answers with the last that holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from nfs_servers import Peaks
from paper_designs import SIZES, adaptive, quadratic
from paper_searches import (
    BINSEARCH,
    BINSEARCH_SEEDED,
    LINEAR,
    MODEL,
    MONOTONE,
    POLYNOMIAL_LINES,
    START_RATE,
    STRAWMAN,
    Mapping,
    Targets,
    mapped,
)
from scipy.optimize import isotonic_regression

from benchwright.core.results import Estimate
from benchwright.features.search.surface.coding import candidates
from benchwright.features.search.surface.types import Factor, Sample, SampleResult, make_factor
from benchwright.features.search.types import Claim, ClaimKind, ClaimResult, PeakStatus

PUBLISHED = {"DB_TP": (14, 14, 15), "Web server": (9, 9, 9), "Mail": (3.3, 2.8, 2.7)}
"""Table 4 of the Workbench paper: mean absolute errors from 6, 8 and 10 samples [%]."""
STEPS_TO_THE_PEAK = 45
"""Loads from the first to the largest peak of a map: 10/s up to 447/s, the largest simulated
peak of DB_TP. A step of 10/s takes 677 loads to 6,774/s."""
STRAWMAN_LOAD_S = 10 * 300.0
"""Its time at each load [s]."""
NEAR = 0.05
"""Of our claim, `rate:5%`, and of the answers that are counted."""
PUBLISHED_LINES = (LINEAR, BINSEARCH, BINSEARCH_SEEDED, MODEL, POLYNOMIAL_LINES[0])
OUR_LINES = (MONOTONE,)
OUR_TARGETS = Targets(NEAR, kind=ClaimKind.RATE)
"""What the examples ask; it is less than the published policies' region where a curve is steep, so
ours are also asked for that."""
_SPREAD = 0.02
"""Assumed error of a search without an interval."""


def factors_of(document: dict[str, Any]) -> tuple[Factor, ...]:
    """Return the factors that have more than one level."""
    return tuple(
        make_factor(one["name"], tuple(one["levels"]))
        for one in document["factors"]
        if len(one["levels"]) > 1
    )


def results_of(document: dict[str, Any]) -> tuple[SampleResult, ...]:
    """Return the searches with a peak, their samples reduced to the factors that vary. Of a sample
    that every gang of a pool searched, the first one."""
    names = [factor.name for factor in factors_of(document)]
    found: dict[Sample, SampleResult] = {}
    for one in document["samples"]:
        sample = tuple((name, one["sample"][name]) for name in names)
        if one["peak_rate"] is not None:
            found.setdefault(sample, _result(sample, one))
    return tuple(found.values())


def _result(sample: Sample, found: dict[str, Any]) -> SampleResult:
    rate = found["peak_rate"]
    reach = (rate * (1 - _SPREAD), rate * (1 + _SPREAD))
    low, high = found["interval"] or reach
    return SampleResult(
        sample,
        ClaimResult(
            status=PeakStatus(found["status"]),
            detail=found["detail"],
            claim=Claim(ClaimKind.RATE, 0.05),
            policy="measured",
            peak_rate=rate,
            interval=Estimate(rate, low, high, 0.95, "measured", 1, "1/s"),
            cost_s=found["seconds"],
            load_s=found["load_s"],
            trials=found["trials"],
        ),
    )


def peaks_of(name: str, results: Sequence[SampleResult], like: dict[str, Any]) -> Peaks:
    """Return the peaks of searches, in the order of the factors' levels of a document."""
    factors = factors_of(like)
    rates = {one.sample: one.found.peak_rate for one in results}
    ordered = {
        sample: rate for sample in candidates(factors) if (rate := rates.get(sample)) is not None
    }
    return Peaks(name, factors, ordered)


def crossing(responses: dict[float, float], limit: float) -> float:
    """Return the rate at which a response meets its limit, from the responses of runs at rates.

    Between the highest rate below the limit and the lowest above it the logarithm of the response
    is a line; responses are made to grow with the rate first (isotonic regression). There are runs
    on both sides.
    """
    rates = sorted(rate for rate, value in responses.items() if value > 0)
    logs = isotonic_regression([math.log(responses[rate]) for rate in rates]).x.tolist()
    wanted = math.log(limit)
    above = next((at for at, value in enumerate(logs) if value > wanted), len(rates) - 1)
    above = max(above, 1)
    low, high = rates[above - 1], rates[above]
    rise = logs[above] - logs[above - 1]
    return low + (high - low) * ((wanted - logs[above - 1]) / rise if rise else 0.5)


def map_errors(truth: Peaks, results: Sequence[SampleResult]) -> dict[str, list[float]]:
    """Return the mean absolute errors of maps from 6, 8 and 10 of the searches [%]. A search that
    ended before its claim held counts as measured, as in the published maps, which have no claims.
    """
    assert len(results) >= max(SIZES), "a map needs more samples than it is made from"
    results = [
        msgspec.structs.replace(
            one, found=msgspec.structs.replace(one.found, status=PeakStatus.FOUND)
        )
        for one in results
    ]
    return {
        "quadratic, D-optimal": quadratic(truth, results, logs=False),
        "the same in logarithms": quadratic(truth, results, logs=True),
        "adaptive samples, Gaussian process": adaptive(truth, results),
    }


class PolicyCost(NamedTuple):
    """What mapping all samples by a policy costs."""

    label: str
    hours: float
    """Of load."""
    trials: int
    found: int
    """Searches that ended with an answer."""
    near: int
    """Of all searches, those whose answer or best guess is within 5 % of the peak."""


def published_step(peaks: Peaks) -> float:
    """Return the increment of Linear and the strawman in the proportion of the simulated
    figures [1/s]."""
    return math.ceil(max(peaks.rates.values()) / STEPS_TO_THE_PEAK / 10) * 10.0


def policy_costs(peaks: Peaks) -> Iterator[PolicyCost]:
    """Yield the cost of each policy on servers with these peaks, the strawman first."""
    step = published_step(peaks)
    holds = [math.floor((peak - START_RATE) / step) for peak in peaks.rates.values()]
    errors = [
        1 - (START_RATE + step * steps) / peak
        for steps, peak in zip(holds, peaks.rates.values(), strict=True)
    ]
    # At every load up to the first that fails.
    loads = sum(steps + 2 for steps in holds)
    near = sum(error < NEAR for error in errors)
    hours = loads * STRAWMAN_LOAD_S / 3600
    label = f"{STRAWMAN.label} (computed)"
    yield PolicyCost(label, hours, 10 * loads, len(errors), near)
    for line in PUBLISHED_LINES:
        yield _cost(line.label, peaks, mapped(peaks, line, step=step))
    for line in OUR_LINES:
        for claim, targets in (("rate:5%", OUR_TARGETS), ("region:10%", Targets())):
            label = f"{line.label}, {claim}"
            yield _cost(label, peaks, mapped(peaks, line, targets))


def _cost(label: str, peaks: Peaks, found: Mapping) -> PolicyCost:
    near = sum(
        one.found.peak_rate is not None
        and abs(one.found.peak_rate / peaks.rates[one.sample] - 1) < NEAR
        for one in found.results
    )
    return PolicyCost(
        label, found.seconds / 3600, found.trials, found.searches - found.not_found, near
    )
