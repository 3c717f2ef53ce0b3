"""One estimate from several jobs, beside statsmodels and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchwright.core.results import Estimate
from benchwright.stats.meta import JobEstimate, meta_estimate

JOBS = [(0.61, 0.2), (-0.35, 0.25), (0.12, 0.41), (1.43, 0.3), (0.55, 0.22), (0.9, 0.5)]


def made(jobs: list[tuple[float, float]]) -> list[JobEstimate]:
    return [JobEstimate(value, error) for value, error in jobs]


def test_mean_and_heterogeneity_are_those_of_statsmodels() -> None:
    peer = pytest.importorskip("statsmodels.stats.meta_analysis")
    values, errors = np.array(JOBS).T
    # Its variance between jobs converges to 1e-5 by default.
    theirs = peer.combine_effects(values, errors**2, method_re="iterated", atol=1e-12)
    found = meta_estimate(made(JOBS))
    assert found.mean.value == pytest.approx(float(theirs.mean_effect_re))
    assert found.error == pytest.approx(float(theirs.sd_eff_w_re_hksj))
    assert found.tau.value**2 == pytest.approx(float(theirs.tau2))
    assert found.weights == pytest.approx(theirs.weights_rel_re.tolist())
    assert found.q_p_value == pytest.approx(float(theirs.test_homogeneity().pvalue))
    half = stats.t.ppf(0.975, 5) * found.error
    assert found.mean.half_width == pytest.approx(half)


def test_the_variances_interval_is_where_q_is_as_large_as_chance_allows() -> None:
    values, errors = np.array(JOBS).T
    found = meta_estimate(made(JOBS))
    for end, p in ((found.tau.low, 0.975), (found.tau.high, 0.025)):
        weights = 1 / (errors**2 + end**2)
        mean = weights @ values / weights.sum()
        assert weights @ (values - mean) ** 2 == pytest.approx(stats.chi2.ppf(p, 5))
    assert 0 < found.i_squared.low < found.i_squared.value < found.i_squared.high < 1


def test_jobs_that_agree_too_well_have_no_narrower_interval_than_their_errors_allow() -> None:
    found = meta_estimate(made([(1.0, 0.1), (1.001, 0.1), (0.999, 0.1)]))
    assert found.tau.value == found.i_squared.value == 0
    assert found.error == pytest.approx(0.1 / math.sqrt(3))
    assert found.next_job.low <= found.mean.low


def test_jobs_without_an_error_of_their_own_are_a_sample() -> None:
    values = [0.3, 0.1, -0.4, 0.9, 0.2]
    found = meta_estimate(made([(value, 1e-9) for value in values]))
    sdev = float(np.std(values, ddof=1))
    t = stats.t.ppf(0.975, 4)
    assert found.mean.value == pytest.approx(np.mean(values))
    assert found.mean.half_width == pytest.approx(t * sdev / math.sqrt(5))
    assert found.tau.value == pytest.approx(sdev)
    half = (found.next_job.high - found.next_job.low) / 2
    assert half == pytest.approx(t * sdev * math.sqrt(1.2), rel=2e-3)
    assert found.i_squared.value == pytest.approx(1)


def test_an_error_from_few_trials_counts_as_its_interval_is_wide() -> None:
    few = [JobEstimate(value, 0.2, 3) for value in (0.1, 0.4, 0.2)]
    wide = 0.2 * stats.t.ppf(0.975, 3) / stats.norm.ppf(0.975)
    assert meta_estimate(few).error == pytest.approx(meta_estimate(made([(0.0, wide)] * 3)).error)
    own = JobEstimate.of(Estimate(0.1, -0.3, 0.5, 0.95, "any", 4))
    assert own.error == pytest.approx(0.4 / stats.norm.ppf(0.975))


def test_the_p_value_agrees_with_the_interval() -> None:
    found = meta_estimate(made(JOBS))
    assert found.p_value(found.mean.low) == pytest.approx(0.05)
    assert found.p_value(found.mean.value) == 1


def test_one_job_is_no_population() -> None:
    found = meta_estimate(made([(0.2, 0.1)]))
    assert found.mean.value == 0.2
    assert math.isnan(found.mean.low)
    assert math.isnan(found.next_job.high)
    assert found.p_value() == 1
