"""Algorithm 1, the two models, and doubts: pure functions of simulated results."""

from __future__ import annotations

import math
import warnings

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from benchwright.core.criterion import Criterion
from benchwright.features.search.surface import gaussian_process as gp
from benchwright.features.search.surface.coding import (
    candidates,
    coded,
    columns_of,
    model_matrix,
    points_of,
    terms_of,
)
from benchwright.features.search.surface.design import (
    DesignCriterion,
    Exchange,
    initial_samples,
    log_determinant,
    nearest_result,
    optimal_rows,
)
from benchwright.features.search.surface.gaussian_process import even_points, fit_process
from benchwright.features.search.surface.model import (
    Polynomial,
    bands,
    fit_polynomial,
    sample_responses,
)
from benchwright.features.search.surface.result import fit_surface, predict_samples, surface_of
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    ModelKind,
    Sample,
    SampleResult,
    SurfaceGoal,
    make_factor,
)
from benchwright.features.search.types import PeakGoal, PeakStatus
from surface_maps import next_sample
from surfaces import ending, factors, measured_peaks, randomised, searched, searched_all, true_peaks

PEAK = PeakGoal(criteria=(Criterion("response_ms_mean", 40.0),), start_rate=20.0)
RATES = measured_peaks(true_peaks(randomised("db", 1)), 0.03, 1)
FS = make_factor("fs", ("ext4", "xfs"))


def goal(samples: int = 10, **more: object) -> SurfaceGoal:
    base = SurfaceGoal(factors=factors(), peak=PEAK, samples=samples)
    return msgspec.structs.replace(base, **more)


def played(asked: SurfaceGoal, failing: frozenset[Sample] = frozenset()) -> list[Sample]:
    """Return the samples that a mapping searches, in order; some of them fail."""
    results: list[SampleResult] = []
    while (wanted := next_sample(asked, results)) is not None:
        sample = wanted.sample
        if sample in failing:
            results.append(ending(sample, PeakStatus.FAILED, None))
        else:
            results.append(searched(sample, RATES[sample], 0.03))
    return [one.sample for one in results]


# -- algorithm 1 -----------------------------------------------------------------------


@pytest.mark.parametrize("design", list(DesignKind))
def test_every_sample_is_searched_once_and_as_many_as_asked(design: DesignKind) -> None:
    count = 32 if design is DesignKind.FULL else 10
    order = played(goal(count, design=design))
    assert len(order) == len(set(order)) == count


def test_the_order_is_a_function_of_the_results() -> None:
    assert played(goal()) == played(goal())


def test_an_adaptive_design_begins_with_an_optimal_one() -> None:
    assert set(played(goal())[:6]) == set(initial_samples(goal()))


def test_few_samples_begin_with_levels_between_the_outermost() -> None:
    """Four rows that are optimal for a plane have the levels 1 and 32 only."""
    space = (make_factor("w", ("a", "b", "c")), make_factor("n", ("1", "2", "4", "8", "16", "32")))
    for seed in range(8):
        asked = msgspec.structs.replace(goal(6), factors=space, seed=seed)
        first = initial_samples(asked)
        assert len(set(first)) == 4
        assert len({dict(one)["n"] for one in first} & {"2", "4", "8", "16"}) >= 1
        assert len({dict(one)["w"] for one in first}) >= 2


@pytest.mark.parametrize("design", [DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL])
def test_an_optimal_design_has_levels_to_spare(design: DesignKind) -> None:
    """A quadratic needs three levels, at which it fits anything; a step between shows at others."""
    workers = make_factor("workers", tuple(map(str, range(20, 32))))
    asked = SurfaceGoal(factors=(workers,), peak=PEAK, samples=8, design=design)
    places = sorted(workers.place(one[0][1]) for one in initial_samples(asked))
    gaps = np.diff(places)
    assert len(places) == 8
    assert min(gaps) > 0
    clustered = 0.76  # of three clusters: what the D and the I criterion alone choose
    assert (gaps**2).sum() < 0.95 * clustered


def test_samples_are_searched_beside_those_searched_before() -> None:
    """In a full factorial each one has a neighbour one level away."""
    order = played(goal(32, design=DesignKind.FULL))
    places = [
        tuple(f.levels.index(level) for f, (_, level) in zip(factors(), one, strict=True))
        for one in order
    ]
    for at in range(1, 32):
        steps = [abs(places[at][0] - a) + abs(places[at][1] - b) for a, b in places[:at]]
        assert min(steps) == 1


def test_the_first_search_begins_at_its_own_rate() -> None:
    wanted = next_sample(goal(), ())
    assert wanted is not None
    assert wanted.goal == PEAK
    assert wanted.seeded_from == ()


def test_a_search_begins_at_the_nearest_peak() -> None:
    first = next_sample(goal(), ())
    assert first is not None
    second = next_sample(goal(), (searched(first.sample, 123.456789, 0.03),))
    assert second is not None
    assert second.seeded_from == first.sample
    assert second.goal == msgspec.structs.replace(PEAK, start_rate=123.46)


def test_a_search_begins_at_a_rate_that_held_at_the_highest_load() -> None:
    first = next_sample(goal(), ())
    assert first is not None
    held = ending(first.sample, PeakStatus.NEVER_FAILS, 700.0)
    second = next_sample(goal(), (held,))
    assert second is not None
    assert second.seeded_from == first.sample
    assert second.goal.start_rate == 700.0


def test_a_seed_stays_within_the_bounds_of_the_search() -> None:
    bounded = msgspec.structs.replace(PEAK, highest_rate=100.0)
    asked = goal(peak=bounded)
    first = next_sample(asked, ())
    assert first is not None
    second = next_sample(asked, (searched(first.sample, 500.0, 0.03),))
    assert second is not None
    assert second.goal.start_rate == 100.0


def test_only_a_sample_with_the_same_words_is_near() -> None:
    space = (make_factor("disks", ("1", "2", "3")), FS)
    here = (("disks", "1"), ("fs", "ext4"))
    result = searched(here, 100.0, 0.03)
    assert nearest_result(space, [result], (("disks", "3"), ("fs", "ext4"))) == result
    assert nearest_result(space, [result], (("disks", "1"), ("fs", "xfs"))) is None


@pytest.mark.parametrize(
    "status", sorted(set(PeakStatus) - {PeakStatus.FOUND, PeakStatus.NEVER_FAILS})
)
def test_a_sample_where_no_rate_is_known_to_hold_seeds_nothing(status: PeakStatus) -> None:
    """Its rate may be wrong by any factor, and each search would pass its error on."""
    asked = goal(32, design=DesignKind.FULL)
    first = next_sample(asked, ())
    assert first is not None
    wrong = ending(first.sample, status, 7.0, (6.0, 8.0))
    second = next_sample(asked, (wrong,))
    assert second is not None
    assert (second.goal, second.seeded_from) == (PEAK, ())
    third = next_sample(asked, (wrong, searched(second.sample, 500.0, 0.03)))
    assert third is not None
    assert third.seeded_from == second.sample
    assert third.goal.start_rate == 500.0


def test_failures_are_counted_and_do_not_end_a_mapping() -> None:
    failing = frozenset(initial_samples(goal())[:5])
    order = played(goal(), failing)
    assert len(order) == len(set(order)) == 10


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(3, 12))
def test_any_number_of_samples_is_chosen_for_any_seed(seed: int, samples: int) -> None:
    order = played(goal(samples, seed=seed))
    assert len(set(order)) == samples


# -- models ----------------------------------------------------------------------------


def flat_results(space: tuple[Factor, ...], rate: float) -> tuple[SampleResult, ...]:
    return tuple(searched(one, rate, 0.01) for one in candidates(space))


def test_a_polynomial_finds_the_coefficients_that_made_the_rates() -> None:
    results = tuple(
        searched(one, float(np.exp(5 + 0.5 * a - 0.25 * b)), 0.01)
        for one in candidates(factors())
        for a, b in [[f.place(level) for f, (_, level) in zip(factors(), one, strict=True)]]
    )
    fitted = fit_polynomial(factors(), sample_responses(results, log=True), 2)
    assert fitted is not None
    by_name = {c.name: c.estimate.value for c in fitted.fit(0.95).coefficients}
    assert by_name["constant"] == pytest.approx(5)
    assert by_name["log2(disks)"] == pytest.approx(0.5)
    assert by_name["log2(nfsd)"] == pytest.approx(-0.25)
    assert by_name["log2(nfsd)^2"] == pytest.approx(0, abs=1e-9)


def test_leaving_out_by_leverage_is_leaving_out() -> None:
    every = candidates(factors())
    results = [searched(one, RATES[one], 0.03) for one in every[::2]]
    seen = sample_responses(results, log=True)
    whole = fit_polynomial(factors(), seen, 2)
    assert whole is not None
    quick = whole.leave_one_out().mean
    for at in (0, 5, 11):
        rest = fit_polynomial(
            factors(), sample_responses(results[:at] + results[at + 1 :], log=True), 2
        )
        assert rest is not None
        assert rest.predict([seen.samples[at]]).mean[0] == pytest.approx(quick[at])


def test_a_polynomials_bands_hold_its_left_out_errors() -> None:
    """On surfaces that it cannot follow, its residuals alone say too little."""
    held = []
    for seed in range(8):
        rates = measured_peaks(true_peaks(randomised("web", seed)), 0.03, seed)
        asked = goal(10, design=DesignKind.I_OPTIMAL, model=ModelKind.POLYNOMIAL, seed=seed)
        results = searched_all(initial_samples(asked), rates, 0.03)
        told = surface_of(asked, results).predictions
        held += [p.low <= rates[p.sample] <= p.high for p in told if not p.measured]
    assert np.mean(held) >= 0.93


def test_a_process_is_scikit_learns_with_the_same_hyperparameters() -> None:
    every = candidates(factors())
    seen = sample_responses([searched(one, RATES[one], 0.03) for one in every[::3]], log=True)
    model = fit_process(factors(), seen)
    assert model is not None
    means, variances, points = [], [], points_of(factors(), every)
    scaled = (seen.response - model.centre) / model.scale
    for at in range(len(model.draws.weights)):
        kernel = ConstantKernel(model.draws.wave[at]) * RBF(model.draws.lengths[at])
        kernel += ConstantKernel(model.draws.trend[at]) * DotProduct(0.0, "fixed")
        own = float(model.draws.own[at])
        noise = (seen.noise_sd / model.scale) ** 2 + own
        oracle = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
        oracle.fit(points_of(factors(), seen.samples), scaled)
        mean, sd = oracle.predict(points, return_std=True)
        means.append(mean)
        variances.append(sd**2 + own)
    weights = model.draws.weights
    mean = weights @ np.array(means)
    variance = weights @ (np.array(variances) + (np.array(means) - mean) ** 2)
    ours, sd = model.response(every)
    assert ours == pytest.approx(model.centre + model.scale * mean, rel=1e-6)
    assert sd == pytest.approx(model.scale * np.sqrt(variance), rel=1e-3, abs=1e-5)


def test_the_likelihood_is_scikit_learns() -> None:
    points = even_points(2, 7) * 2 - 1
    values = np.sin(points[:, 0]) + points[:, 1]
    draws = gp.prior_draws(2)
    covariance = draws.covariance(points, points) + 0.01 * np.eye(7)
    ours = gp.log_likelihood(covariance, values) - 3.5 * np.log(2 * np.pi)
    for at in (0, 17, 200):
        kernel = ConstantKernel(draws.wave[at]) * RBF(draws.lengths[at])
        kernel += ConstantKernel(draws.trend[at]) * DotProduct(0.0, "fixed")
        oracle = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None)
        theirs = oracle.fit(points, values).log_marginal_likelihood_value_
        assert ours[at] == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("model", list(ModelKind))
def test_a_flat_surface_is_predicted_flat(model: ModelKind) -> None:
    space = (make_factor("disks", ("1", "2", "3")), FS)
    asked = SurfaceGoal(factors=space, peak=PEAK, samples=6, model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surface = surface_of(asked, flat_results(space, 250.0))
    assert [one.value for one in surface.predictions] == pytest.approx([250.0] * 6)


def test_bands_are_wider_where_nothing_was_measured() -> None:
    every = candidates(factors())
    measured = every[:8]
    model = fit_process(
        factors(), sample_responses([searched(one, RATES[one], 0.03) for one in measured], log=True)
    )
    assert model is not None
    _, low, high = bands(model, [measured[3], every[-1]], 0.95)
    assert high[1] / low[1] > 1.5 * high[0] / low[0]


def test_samples_that_share_nothing_have_bands_that_say_so() -> None:
    """Each sample's rate is its own: nothing is to be learnt from neighbours."""
    held = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        every = candidates(factors())
        rates = {one: 1000 * float(np.exp(rng.normal(0, 0.4))) for one in every}
        asked = goal(16, seed=seed)
        results: tuple[SampleResult, ...] = ()
        while (wanted := next_sample(asked, results)) is not None:
            found = searched(wanted.sample, rates[wanted.sample], 0.03)
            results = (*results, found)
        told = surface_of(asked, results).predictions
        held += [p.low <= rates[p.sample] <= p.high for p in told if not p.measured]
    assert np.mean(held) >= 0.85


def test_even_points_fill_the_cube() -> None:
    counts, _ = np.histogramdd(even_points(3, 512), bins=4, range=[(0, 1)] * 3)
    assert counts.min() >= 4
    assert counts.max() <= 13


@pytest.mark.parametrize("log", [True, False])
def test_a_prediction_between_levels_lies_between_their_rates(log: bool) -> None:
    space = (make_factor("disks", ("1", "2", "4")),)
    results = tuple(searched(one, 100.0 * float(one[0][1]), 0.01) for one in candidates(space))
    asked = SurfaceGoal(factors=space, peak=PEAK, samples=3, log_response=log)
    (one,) = predict_samples(asked, results, [(("disks", "3"),)])
    assert 200 < one.value < 400
    assert one.low < one.value < one.high
    assert one.outside == ()
    (far,) = predict_samples(asked, results, [(("disks", "9"),)])
    assert far.outside == ("disks",)


# -- doubts ----------------------------------------------------------------------------


def codes(asked: SurfaceGoal, results: tuple[SampleResult, ...]) -> set[str]:
    return {one.code for one in surface_of(asked, results).findings}


def test_a_clean_surface_is_not_doubted() -> None:
    results = tuple(searched(one, 100.0, 0.03) for one in candidates(factors()))
    polynomial = goal(32, design=DesignKind.FULL, model=ModelKind.POLYNOMIAL)
    assert codes(polynomial, results) == set()
    assert codes(goal(32, design=DesignKind.FULL), results) == set()


def test_failures_and_bounds_are_told_with_their_samples() -> None:
    every = candidates(factors())
    results = (
        *(searched(one, RATES[one], 0.03) for one in every[:6]),
        ending(every[6], PeakStatus.FAILED, None),
        ending(every[7], PeakStatus.NEVER_FAILS, 900.0),
    )
    surface = surface_of(goal(), results)
    told = {one.code: one.subject for one in surface.findings}
    assert told["surface-sample-failed"] == "disks=1,nfsd=64"
    assert told["surface-bound-only"] == "disks=1,nfsd=100"
    by_sample = {one.sample: one for one in surface.predictions}
    assert by_sample[every[7]].measured is None
    assert surface.fit is not None
    assert surface.fit.n == 6


def test_few_samples_are_doubted_and_enough_are_not() -> None:
    words = (make_factor("fs", ("ext4", "xfs", "btrfs", "zfs")), make_factor("n", ("1", "4")))
    every = candidates(words)
    for n, doubted in ((6, True), (7, True), (8, False)):
        asked = msgspec.structs.replace(goal(n), factors=words)
        results = tuple(searched(one, 100.0 + at, 0.03) for at, one in enumerate(every[:n]))
        found = codes(asked, results)
        assert ("surface-few-samples" in found) is doubted, n


def rough(sample: Sample, factor: float = 1.0) -> SampleResult:
    """Return a search that its budget ended at a multiple of the peak, with an interval of a factor
    of 9."""
    rate = factor * RATES[sample]
    return ending(sample, PeakStatus.BUDGET, rate, (rate / 3, 3 * rate))


def test_searches_that_ended_before_their_claim_held_are_told() -> None:
    every = candidates(factors())[::4]
    open_ended = ending(every[0], PeakStatus.BUDGET, 50.0, bound="lower")
    without = ending(every[1], PeakStatus.UNDECIDED, RATES[every[1]])
    sure = [searched(one, RATES[one], 0.03) for one in every[3:]]
    results = (open_ended, without, rough(every[2]), *sure)
    for model, used in ((ModelKind.GAUSSIAN_PROCESS, 1), (ModelKind.POLYNOMIAL, 0)):
        surface = surface_of(goal(model=model), results)
        found = {one.code: one for one in surface.findings}
        evidence = found["surface-claim-missed"].evidence
        assert f"3 of {len(every)}" in evidence
        assert "disks=1,nfsd=1" in evidence
        assert f"counts {used} of them as rough" in evidence
        assert f"leaves out {3 - used}" in evidence
        assert "surface-noise-assumed" not in found
        assert surface.fit is not None
        assert (surface.fit.n, surface.fit.rough) == (len(sure) + used, used)


def test_a_rough_sample_is_not_measured_and_bends_a_map_less_than_a_measured_one() -> None:
    every = candidates(factors())
    wrong = every[13]
    sure = tuple(searched(one, RATES[one], 0.03) for one in every[::3] if one != wrong)
    low = RATES[wrong] / 8
    values = {}
    for name, result in (
        ("measured", searched(wrong, low, 0.03)),
        ("rough", ending(wrong, PeakStatus.BUDGET, low, (low / 3, 3 * low))),
    ):
        surface = surface_of(goal(), (*sure, result))
        (values[name],) = (p for p in surface.predictions if p.sample == wrong)
        assert surface.validation is not None
        left_out = {one.sample for one in surface.validation.left_out}
        assert (wrong in left_out) is (name == "measured")
    assert values["measured"].measured is not None
    assert values["rough"].measured is None
    assert values["rough"].value == pytest.approx(RATES[wrong], rel=0.2)
    assert values["measured"].value < 0.7 * RATES[wrong]


def test_a_rough_interval_counts_as_wide_as_its_wider_side_and_as_the_claim() -> None:
    at, other = candidates(factors())[:2]
    uneven = ending(at, PeakStatus.BUDGET, 250.0, (250.0, 2000.0))
    narrow = ending(other, PeakStatus.UNDECIDED, 250.0, (249.0, 251.0))
    wide_sd, narrow_sd = sample_responses((uneven, narrow), log=True).noise_sd
    assert wide_sd == pytest.approx(math.log(8) / 1.96, rel=1e-3)
    assert narrow_sd == pytest.approx(0.10 / 1.96, rel=1e-3)


def test_a_map_of_which_a_known_bound_is_no_part_is_doubted() -> None:
    every = candidates(factors())
    sure = tuple(searched(one, RATES[one], 0.03) for one in every[:8])
    beside = every[12]
    for result, doubted in (
        (ending(beside, PeakStatus.NEVER_FAILS, 1e6), True),
        (ending(beside, PeakStatus.BUDGET, 1e6, bound="lower"), True),
        (ending(beside, PeakStatus.BUDGET, 1.0, bound="upper"), True),
        (ending(beside, PeakStatus.NEVER_FAILS, RATES[beside] / 2), False),
        (ending(beside, PeakStatus.FAILS_AT_LOWEST, 1.0), True),
        (ending(beside, PeakStatus.FAILED, None), False),
    ):
        found = surface_of(goal(), (*sure, result)).findings
        said = [one for one in found if one.code == "surface-bound-excluded"]
        assert bool(said) is doubted, result.found


def test_a_mapping_all_of_whose_samples_fail_still_chooses_and_tells() -> None:
    """Words beside numbers: no samples are points of both, too."""
    asked = msgspec.structs.replace(goal(4), factors=(FS, *factors()))
    failed: list[SampleResult] = []
    while (wanted := next_sample(asked, failed)) is not None:
        failed.append(ending(wanted.sample, PeakStatus.FAILED, None))
    assert len(failed) == 4
    told = surface_of(asked, failed)
    assert told.fit is None
    assert "surface-no-model" in {one.code for one in told.findings}


def test_too_few_peaks_have_no_model_and_say_so() -> None:
    every = candidates(factors())
    results = (searched(every[0], 50.0, 0.03), ending(every[1], PeakStatus.FAILED, None))
    surface = surface_of(goal(), results)
    assert surface.fit is None
    assert surface.predictions == ()
    assert "surface-no-model" in {one.code for one in surface.findings}


def test_a_polynomial_that_does_not_fit_is_doubted() -> None:
    results = tuple(searched(one, RATES[one], 0.03) for one in candidates(factors()))
    asked = goal(32, design=DesignKind.FULL, model=ModelKind.POLYNOMIAL)
    assert "surface-lack-of-fit" in codes(asked, results)


def d_optimal(samples: int, **more: object) -> SurfaceGoal:
    model = ModelKind.POLYNOMIAL
    return goal(samples, design=DesignKind.D_OPTIMAL, model=model, **more)


def all_searched(asked: SurfaceGoal) -> tuple[SampleResult, ...]:
    return tuple(searched(one, RATES[one], 0.03) for one in initial_samples(asked))


def test_a_model_that_was_reduced_says_so() -> None:
    """Of eight samples for six terms two failed: no error would be known of six."""
    asked = d_optimal(8)
    *results, last, other = all_searched(asked)
    failed = [ending(one.sample, PeakStatus.FAILED, None) for one in (last, other)]
    model = fit_surface(asked, (*results, *failed))
    assert isinstance(model, Polynomial)
    assert len(model.terms) < 6
    assert "surface-model-reduced" in codes(asked, (*results, *failed))


def test_as_many_terms_as_samples_go_through_each_sample_and_nothing_is_judged() -> None:
    asked = d_optimal(6)
    results = all_searched(asked)
    surface = surface_of(asked, results)
    found = {one.code: one for one in surface.findings}
    assert "surface-fit-unjudged" in found
    assert "6 samples with a peak for 6 terms" in found["surface-fit-unjudged"].evidence
    assert "surface-model-reduced" not in found
    assert "surface-lack-of-fit" not in found
    assert surface.fit is not None
    assert (surface.fit.expected_error, surface.fit.residual_share) == (None, None)
    assert surface.validation is None
    for one in surface.predictions:
        if one.measured is not None:
            assert one.value == pytest.approx(one.measured.value)
        assert np.isnan([one.low, one.high]).all()


def test_one_sample_more_than_terms_has_bands() -> None:
    asked = d_optimal(7)
    surface = surface_of(asked, all_searched(asked))
    assert surface.fit is not None
    assert len(surface.fit.coefficients) == 6
    assert all(one.low < one.value < one.high for one in surface.predictions)
    assert "surface-fit-unjudged" not in {one.code for one in surface.findings}


@pytest.mark.parametrize("samples", [6, 8, 10])
def test_without_spread_every_sample_is_d_optimal(samples: int) -> None:
    every = candidates(factors())
    terms = terms_of(columns_of(factors()), 2)
    matrix = model_matrix(coded(factors(), every), terms)
    best = optimal_rows(Exchange(matrix, DesignCriterion.D), samples, 1)
    chosen = [every.index(one) for one in initial_samples(d_optimal(samples, spread=0))]
    assert sorted(chosen) == sorted(best)
    spread = [every.index(one) for one in initial_samples(d_optimal(samples))]
    better = log_determinant(matrix, chosen) - log_determinant(matrix, spread)
    assert better >= 0
    assert (better > 0.1) is (samples == 10), "the spread samples of 8 are optimal too"


def test_all_spare_samples_can_be_far_from_the_others() -> None:
    best = set(initial_samples(d_optimal(6, spread=0.0)))
    assert best <= set(initial_samples(d_optimal(10, spread=1.0)))


def test_a_missing_interval_is_assumed_and_told() -> None:
    every = candidates(factors())
    results = (
        *(searched(one, RATES[one], 0.03) for one in every[:5]),
        ending(every[5], PeakStatus.FOUND, 100.0),
    )
    surface = surface_of(goal(), results)
    (finding,) = (one for one in surface.findings if one.code == "surface-noise-assumed")
    assert "disks=1,nfsd=32" in finding.evidence
