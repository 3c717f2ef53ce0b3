"""How the gangs of a pool differ, and the peaks as the mean gang would have them.

The logarithm of a peak is the surface plus an effect of its gang plus noise. The effects are random
with one unknown standard deviation, and are estimated jointly with the surface (the process of
`gaussian_process.py`, averaged over its hyperparameters): from the anchor, which every gang
searches, and from all other samples, which are spread over the gangs. Decision: the effects are
shrunk. With a handful of samples on a gang, its own mean says little, and a correction by it would
add more error than it removes. Rejected: effects as fixed terms of the model, which cost a sample
for each gang; and anchors alone, which ignore most searches. Decision: gangs are known to differ
where one of them is known to differ from the mean of the others, at a level for all gangs together.
An interval of the estimated range would never contain 0. This interval is without shrinking, which
hid more true differences than it prevented wrong ones. Limit: the noise is that of the searches'
own intervals, because few anchors cannot show another one. Where these are too narrow, equal gangs
are said to differ too often (docs/pool.md has figures). Source: G. K. Robinson, That BLUP is a Good
Thing, Statistical Science 6 (1991), 15-32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import Matrix, points_of
from benchwright.features.search.surface.gaussian_process import prior_draws
from benchwright.features.search.surface.model import SampleResponses, sample_responses, with_value
from benchwright.features.search.surface.types import (
    GangEffect,
    GangEffects,
    SampleResult,
    SurfaceGoal,
)
from benchwright.stats import special


class Effects(msgspec.Struct, frozen=True):
    """The gangs' effects on the logarithm of a peak, relative to their mean."""

    mean: Matrix
    """`(n_gangs,)`; the sum is 0."""
    covariance: Matrix
    """`(n_gangs, n_gangs)`."""


class GangPosterior(msgspec.Struct, frozen=True):
    """What all searches show of the gangs."""

    names: tuple[str, ...]
    shrunk: Effects
    free: Effects
    """Without shrinking."""


def gang_effects(goal: SurfaceGoal, results: Sequence[SampleResult]) -> GangEffects | None:
    """Return how the gangs differ; None for fewer than two gangs with a value."""
    posterior = _posterior(goal, results)
    if posterior is None:
        return None
    searches = [result.gang for result in with_value(results)]
    each = special.normal_quantile((1 + goal.confidence) / 2)
    sds = np.sqrt(np.diag(posterior.shrunk.covariance))
    gangs = tuple(
        GangEffect(
            name,
            searches.count(name),
            _share(mean, each * sd, goal.confidence, searches.count(name)),
        )
        for name, mean, sd in zip(
            posterior.names, posterior.shrunk.mean.tolist(), sds.tolist(), strict=True
        )
    )
    difference = _difference(posterior, goal.confidence, len(searches))
    return GangEffects(gangs, difference)


def _share(mean: float, reach: float, confidence: float, n: int) -> Estimate:
    """Return a difference of logarithms as a share."""
    low, value, high = (math.expm1(mean + by) for by in (-reach, 0.0, reach))
    return Estimate(value, low, high, confidence, "random-effects", n)


def _difference(posterior: GangPosterior, confidence: float, n: int) -> Estimate:
    """Return the difference between the fastest and the slowest gang, with its interval.

    It is at least the difference between any gang and the mean of the others: the lower end is the
    largest of these differences with certainty, at a level for all gangs together (Bonferroni). The
    upper end is the largest end of a pair of gangs; it needs no such level, since it is at least
    that of the pair in question.
    """
    mean, covariance = posterior.free.mean, posterior.free.covariance
    count = len(mean)
    error = 1 - confidence
    sides = 2 if count == 2 else 2 * count
    certain = special.normal_quantile(1 - tuning.CLAIM_SHARE * error / sides)
    possible = special.normal_quantile(1 - (1 - tuning.CLAIM_SHARE) * error)
    # A gang - the mean of the others = its effect * count / (count - 1), since all sum to 0.
    apart = np.abs(mean) - certain * np.sqrt(np.diag(covariance))
    low = max(0.0, float(apart.max()) * count / (count - 1))
    variances = np.diag(covariance)
    between = variances[:, None] + variances[None, :] - 2 * covariance
    pairs = mean[:, None] - mean[None, :] + possible * np.sqrt(np.maximum(between, 0))
    value = max(low, float(np.ptp(posterior.shrunk.mean)))
    value, low, high = (math.expm1(one) for one in (value, low, float(pairs.max())))
    return Estimate(value, low, high, confidence, "random-effects", n)


def responses_of(goal: SurfaceGoal, results: Sequence[SampleResult]) -> SampleResponses:
    """Return the results with a value as numbers to fit, one for each sample: as the mean gang
    would have found them, the searches of the anchor together."""
    responses = sample_responses(results, log=goal.log_response)
    posterior = _posterior(goal, results)
    if posterior is None:
        return responses
    gangs = [posterior.names.index(result.gang) for result in with_value(results)]
    rates = responses.rates * np.exp(-posterior.shrunk.mean[gangs])
    relative = responses.noise_sd if responses.log else responses.noise_sd / responses.rates
    variance = relative**2 + np.diag(posterior.shrunk.covariance)[gangs]
    samples = tuple(dict.fromkeys(responses.samples))
    member = np.array([[one == sample for one in responses.samples] for sample in samples])
    precision = member / variance
    total = precision.sum(axis=1)
    means = np.exp(precision @ np.log(rates) / total)
    noise = np.sqrt(1 / total)
    return SampleResponses(
        samples=samples,
        rates=means,
        response=np.log(means) if responses.log else means,
        noise_sd=noise if responses.log else noise * means,
        log=responses.log,
    )


def _posterior(goal: SurfaceGoal, results: Sequence[SampleResult]) -> GangPosterior | None:
    """Return the effects given all results; None for fewer than two gangs with a value."""
    used = with_value(results)
    names = tuple(sorted({result.gang for result in used}))
    if len(names) < 2:
        return None
    responses = sample_responses(used, log=True)
    values = responses.response - responses.response.mean()
    scale = max(float(values.std()), float(np.median(responses.noise_sd)))
    points = points_of(goal.factors, responses.samples)
    draws = prior_draws(points.shape[1])
    # Searches at one sample have its own deviation in common.
    same = (np.abs(points[:, None, :] - points[None, :, :]) < 1e-12).all(axis=2)
    covariance = scale**2 * (
        draws.covariance(points, points) + draws.own[:, None, None] * same
    ) + np.diag(responses.noise_sd**2)
    member = np.array([[result.gang == name for name in names] for result in used])
    inverse = np.linalg.inv(covariance)
    information = np.einsum("ng,dnm,mh->dgh", member, inverse, member, optimize=True)
    evidence = np.einsum("ng,dnm,m->dg", member, inverse, values, optimize=True)
    _, log_determinant = np.linalg.slogdet(covariance)
    fit = -0.5 * (log_determinant + np.einsum("n,dnm,m->d", values, inverse, values, optimize=True))
    shrunk = _mixed(fit, information, evidence, tuning.GANG_SDS)
    free = _mixed(fit, information, evidence, (tuning.FREE_GANG_SD,))
    return GangPosterior(names, shrunk, free)


def _mixed(fit: Matrix, information: Matrix, evidence: Matrix, sds: Sequence[float]) -> Effects:
    """Return the effects, averaged over the draws of the surface's hyperparameters and over these
    standard deviations of the effects, by likelihood.

    `fit`: logarithm of the likelihood of each draw without effects, `(n_draws,)`; `information` and
    `evidence`: Z' K^-1 Z and Z' K^-1 y, where Z has the gang of each search.
    """
    count = information.shape[1]
    means, spreads, likelihoods = [], [], []
    for sd in sds:
        spread = np.linalg.inv(information + np.eye(count) / sd**2)
        mean = np.einsum("dgh,dh->dg", spread, evidence)
        _, shrinking = np.linalg.slogdet(spread / sd**2)
        means.append(mean)
        spreads.append(spread)
        likelihoods.append(fit + 0.5 * ((evidence * mean).sum(axis=1) + shrinking))
    likelihood = np.concatenate(likelihoods)
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    centred = np.eye(count) - 1 / count
    each = np.concatenate(means) @ centred
    mean = weights @ each
    off = each - mean
    within = np.einsum("d,dgh->gh", weights, np.concatenate(spreads))
    between = np.einsum("d,dg,dh->gh", weights, off, off)
    covariance = centred @ within @ centred + between
    return Effects(mean, tuning.GANG_WIDENING**2 * covariance)
