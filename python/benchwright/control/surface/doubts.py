"""Doubts about a surface: samples without a peak, a model that does not fit, assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import chdtrc

from benchwright.control.surface.coding import columns_of, terms_of
from benchwright.control.surface.fit import Polynomial
from benchwright.control.surface.model import SurfaceModel
from benchwright.control.surface.observed import has_interval, measured
from benchwright.finding.codes import doubt
from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.peak import PeakStatus
from benchwright.model.surface import Sample, SampleResult, SurfaceGoal

LACK_OF_FIT_LEVEL = 0.01
"""Of the test of residuals against the searches' own noise."""
FEW_TIMES = 2
"""Samples for each term of a plane: with fewer, bands held 81 to 86 % where the peak had a step
of a factor of 4 at some level, and 99 % where it had none (docs/surface.md)."""
_SHOWN = 4
"""Samples named in one piece of evidence."""


def doubts_of(
    goal: SurfaceGoal, results: Sequence[SampleResult], model: SurfaceModel | None
) -> tuple[Finding, ...]:
    """Return every doubt about a surface, the gravest kinds first."""
    return (
        *_failed(results),
        *_no_model(results, model),
        *_bounds(results),
        *_missed(results),
        *_few(goal, results),
        *_fit_doubts(goal, model),
        *_assumed(results),
        *_of_searches(results),
    )


def sample_text(sample: Sample) -> str:
    """Return a sample in one word: `disks=2,nfsd=16`."""
    return ",".join(f"{name}={level}" for name, level in sample)


def _failed(results: Sequence[SampleResult]) -> Iterator[Finding]:
    for one in results:
        if one.found.status is PeakStatus.FAILED:
            yield doubt(
                "surface-sample-failed", sample_text(one.sample), one.found.detail
            )


def _no_model(
    results: Sequence[SampleResult], model: SurfaceModel | None
) -> Iterator[Finding]:
    if model is None:
        have, samples = len(measured(results)), counted(len(results), "sample")
        evidence = f"of {samples} {have or 'none'} {'has' if have == 1 else 'have'} a peak: too few for a model"
        yield doubt("surface-no-model", "model", evidence)


def _bounds(results: Sequence[SampleResult]) -> Iterator[Finding]:
    kinds = (PeakStatus.FAILS_AT_LOWEST, PeakStatus.NEVER_FAILS)
    for one in results:
        if one.found.status in kinds:
            yield doubt("surface-bound-only", sample_text(one.sample), one.found.detail)


def _missed(results: Sequence[SampleResult]) -> Iterator[Finding]:
    kinds = (PeakStatus.BUDGET, PeakStatus.UNDECIDED)
    missed = [one for one in measured(results) if one.found.status in kinds]
    if missed:
        evidence = (
            f"{len(missed)} of {len(results)} search{'es' if len(results) > 1 else ''} "
            f"ended before the claim held: "
            f"{_named(missed)}"
        )
        yield doubt("surface-claim-missed", "searches", evidence)


def _few(goal: SurfaceGoal, results: Sequence[SampleResult]) -> Iterator[Finding]:
    have, terms = len(measured(results)), 1 + len(columns_of(goal.factors))
    if have >= FEW_TIMES * terms or goal.samples >= goal.count:
        return
    evidence = (
        f"{counted(have, 'sample')} with a peak, of {goal.count}, where a plane over the "
        f"factors has {terms} terms: a step between two levels may go unseen, and bands do "
        "not hold it"
    )
    yield doubt("surface-few-samples", "model", evidence)


def _named(results: Sequence[SampleResult]) -> str:
    named = ", ".join(sample_text(one.sample) for one in results[:_SHOWN])
    more = f" and {len(results) - _SHOWN} more" if len(results) > _SHOWN else ""
    return named + more


def _fit_doubts(goal: SurfaceGoal, model: SurfaceModel | None) -> Iterator[Finding]:
    if not isinstance(model, Polynomial):
        return
    full = len(terms_of(columns_of(goal.factors), goal.degree))
    if len(model.terms) < full:
        evidence = (
            f"{counted(len(model.residuals), 'sample')} with a peak: too few for the {full} terms "
            f"of degree {goal.degree}: fitted were {len(model.terms)}"
        )
        yield doubt("surface-model-reduced", "model", evidence)
    scaled = model.residuals / model.observed.noise_sd
    chi_square = float(scaled @ scaled)
    if chdtrc(model.dof, chi_square) < LACK_OF_FIT_LEVEL:
        noise = float(np.median(model.observed.noise_sd))
        evidence = (
            f"residuals have a standard deviation of {model.sd:.3g}, the searches one of "
            f"{noise:.3g}: chi-square {chi_square:.1f} with {model.dof} degrees of freedom"
        )
        yield doubt("surface-lack-of-fit", "model", evidence)


def _assumed(results: Sequence[SampleResult]) -> Iterator[Finding]:
    without = [one for one in measured(results) if not has_interval(one)]
    if without:
        yield doubt(
            "surface-noise-assumed",
            "model",
            f"no interval was stated at {_named(without)}: the claim's tolerance was taken",
        )


def _of_searches(results: Sequence[SampleResult]) -> Iterator[Finding]:
    """Yield what the inner searches doubted, with the sample as part of the subject."""
    for one in results:
        for found in one.found.findings:
            subject = f"{sample_text(one.sample)} {found.subject}".strip()
            yield Finding(
                found.code, found.severity, subject, found.evidence, found.remedy
            )
