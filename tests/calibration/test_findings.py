"""How often findings fire: rarely on clean series, nearly always on what they are for.

Everything goes through `examine`'s own `series_findings`, with fixed seeds. The issue
asks for 90 % at a drift of 1 sigma over 30 trials. If that is the whole drift of a study
of 30, no test can: the most powerful one at 5 % (one-sided, known sigma) finds 47 % of
them, and one that leaves room for the other findings less. Both are printed; asserted
is the same steepness in a study of 60 trials, and 3 sigma over 30.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

from benchwright.core.plan import MetricSpec
from benchwright.findings.series import series_findings
from benchwright.findings.thresholds import LEVEL_WARM_UP_ORDER
from benchwright.stats.aggregate import MetricRules, TrialValues, metric_columns
from benchwright.stats.sample import NORMAL_MAD
from populations import Array, Population, at_most, bimodal, correlated, gamma, lognormal, normal

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20_261_121
REPLICATIONS = 10_000 if FULL else 2000
DETECTIONS = 2000
CLEAN = (normal(0.02), normal(0.08), normal(0.16), lognormal(0.1), gamma(0.1))
Shape = Callable[[Array], Array]


def codes(
    series: Array, others: tuple[Array, ...] = (), names: tuple[str, ...] = ()
) -> Counter[str]:
    """Return how many of the studies, shape `(replications, n)`, have each finding.

    `others` are further metrics: declared ones, unless they are called `names`.
    """
    specs = [] if names else [MetricSpec(f"m{k}") for k in range(len(others))]
    book, names = MetricRules(specs), ("elapsed", *(names or (s.name for s in specs)))
    counts: Counter[str] = Counter()
    for row, one in enumerate(series):
        columns = (one, *(other[row] for other in others))
        observed = [
            TrialValues(epoch + 1, dict(zip(names, map(float, values), strict=True)))
            for epoch, values in enumerate(zip(*columns, strict=True))
        ]
        found = {
            finding.code for finding in series_findings("t", metric_columns(observed, book), book)
        }
        counts.update(found)
        counts["any"] += bool(found)
    return counts


def told(what: str, counts: Counter[str], total: int) -> None:
    shares = ", ".join(f"{code} {n / total:.1%}" for code, n in counts.most_common())
    print(f"{what}: {shares or 'nothing'}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", [10, 20, 30, 100] if FULL else [10, 30])
@pytest.mark.parametrize("population", CLEAN, ids=lambda p: p.name)
def test_clean_series_are_rarely_accused(population: Population, n: int) -> None:
    counts = codes(population.series(SEED, (REPLICATIONS, n)))
    told(f"clean {population.name}, {n} trials", counts, REPLICATIONS)
    assert counts["any"] <= 0.05 * REPLICATIONS


@pytest.mark.timeout(600)
def test_three_clean_metrics_together_are_rarely_accused() -> None:
    series = [normal(0.08).series(SEED + k, (REPLICATIONS, 30)) for k in range(3)]
    counts = codes(series[0], tuple(series[1:]))
    told("three clean metrics, 30 trials", counts, REPLICATIONS)
    assert counts["any"] <= 0.05 * REPLICATIONS


@pytest.mark.timeout(600)
def test_what_is_measured_beside_is_rarely_accused_of_drift() -> None:
    """A plain `bw run`: CPU times in ticks of 4 ms, and memory, are only asked for a drift."""
    shape = (REPLICATIONS, 30)
    ticks = [0.004 * np.round(normal(0.16).series(SEED + k, shape) / 0.1) for k in (1, 2)]
    memory = 1e8 * normal(0.02).series(SEED + 3, shape)
    counts = codes(
        normal(0.08).series(SEED, shape), (*ticks, memory), ("system", "user", "rss_bytes")
    )
    told("elapsed, CPU times in ticks and memory, clean", counts, REPLICATIONS)
    assert counts["any"] <= 0.05 * REPLICATIONS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_rare_slow_trials_are_rarely_a_warm_up(share: float, n: int) -> None:
    """Each trial is slow with the same probability, up to 6 times or up to 100 times."""
    rng = np.random.default_rng([SEED, n, round(100 * share)])
    for most in (5, 99):
        values = normal(0.08).series(SEED, (REPLICATIONS, n))
        slow = rng.random(values.shape) < share
        values *= 1 + slow * most * rng.random(values.shape)
        counts = codes(values)
        told(f"{share:.0%} slow, up to {1 + most}-fold, {n} trials", counts, len(values))
        assert at_most(counts["warm-up"], REPLICATIONS, LEVEL_WARM_UP_ORDER)


def with_(shape: Shape, n: int = 30, cv: float = 0.05) -> Array:
    return 1 + cv * shape(np.random.default_rng(SEED).normal(size=(DETECTIONS, n)))


def drift(sigmas: float) -> Shape:
    return lambda noise: noise + np.linspace(0, sigmas, noise.shape[1])


def step_of_five(noise: Array) -> Array:
    return noise + 3 * (np.arange(noise.shape[1]) < 5)


def cooling_off(noise: Array) -> Array:
    """Five slow trials, 4 sigma and falling by a fifth from each to the next."""
    place = np.arange(noise.shape[1])
    return noise + np.where(place < 5, 4 * 0.8**place, 0)


def one_at_8_mad(noise: Array) -> Array:
    """The unscaled MAD: 5.4 sigma, twice less far than 8 scaled ones."""
    middle = np.median(noise, axis=1, keepdims=True)
    mad = np.median(np.abs(noise - middle), axis=1)
    place = np.random.default_rng(SEED + 1).integers(0, noise.shape[1], len(noise))
    spoilt = noise.copy()
    spoilt[np.arange(len(noise)), place] = middle[:, 0] + 8 * mad
    return spoilt


DETECTED = [
    pytest.param("drift", with_(drift(3)), id="drift of 3 sigma over 30"),
    pytest.param("drift", with_(drift(2), 60), id="drift of 1 sigma per 30, 60 trials"),
    pytest.param("warm-up", with_(step_of_five), id="warm-up: 5 trials 3 sigma off"),
    pytest.param("warm-up", with_(cooling_off), id="warm-up: 5 trials from 4 sigma"),
    pytest.param("outliers", with_(one_at_8_mad), id="one outlier at 8 MAD"),
    pytest.param(
        "multimodal", bimodal(0.08).series(SEED, (DETECTIONS, 30)), id="slow mode of 15 %"
    ),
    pytest.param(
        "dependent-trials",
        correlated(0.6, 0.05).series(SEED, (DETECTIONS, 50)),
        id="correlation of 0.6, 50 trials",
    ),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("code", "series"), DETECTED)
def test_what_a_finding_is_for_is_found(
    code: str, series: Array, request: pytest.FixtureRequest
) -> None:
    counts = codes(series)
    told(request.node.callspec.id, counts, DETECTIONS)
    assert counts[code] >= 0.9 * DETECTIONS


def test_a_drift_of_1_sigma_over_30_trials_is_beyond_any_test() -> None:
    """Ours beside the bound of Neyman and Pearson at the whole level of 5 %."""
    counts = codes(with_(drift(1)))
    told("drift of 1 sigma over 30, in all", counts, DETECTIONS)
    x = np.linspace(0, 1, 30)
    noncentral = math.sqrt(float(np.sum((x - x.mean()) ** 2)))
    best, ours = float(ndtr(noncentral - 1.6449)), counts["drift"] / DETECTIONS
    print(f"the most powerful test at 5 % finds {best:.1%}, ours {ours:.1%}")
    assert best < 0.5
    assert 0.05 < ours < best


def test_a_warm_up_is_no_drift_and_a_drift_no_warm_up() -> None:
    warm, drifting = codes(with_(step_of_five)), codes(with_(drift(3)))
    assert warm["drift"] <= 0.05 * DETECTIONS
    assert drifting["warm-up"] <= 0.1 * DETECTIONS


def test_the_scale_of_mads() -> None:
    assert abs(1 / NORMAL_MAD - 1.4826) < 1e-4
