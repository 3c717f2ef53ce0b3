"""The types of a response surface: factor, sample, goal, result of a sample, model, prediction.

A surface is the peak rate over the samples that factors span. The outer loop asks for
samples; the inner search (features/search/types.py) answers each; a model predicts the rest.
Decision: a level is stored as the text that the server gets (`64MB`), and its number is
derived from it, so that the model and the configuration cannot differ.
Source: Workbench paper, algorithm 1 and section 5.5.
"""

from __future__ import annotations

import enum
import math
from typing import Literal

import msgspec

from benchwright.core.plan import Pairs
from benchwright.core.quantity import parse_duration_ns, parse_share, parse_size_bytes
from benchwright.core.results import Estimate, Finding
from benchwright.features.search.types import ClaimResult, PeakGoal, PeakStatus

Sample = Pairs
"""A level of each factor, in the factors' order: (("disks", "2"), ("nfsd", "16"))."""

LevelKind = Literal["number", "size", "duration", "share", "word"]
"""What the texts of a factor's levels are; `word`: a categorical factor."""

WIDE_RATIO = 4.0
"""Levels that span at least this ratio are placed by ratio, not by difference."""


class Transform(enum.StrEnum):
    """Transformation of a numeric factor's levels before the model is fitted."""

    NONE = "none"
    LOG = "log"
    LOG2 = "log2"
    SQRT = "sqrt"

    def of(self, number: float) -> float:
        """Return the transformed number; raises ValueError where there is none."""
        if self is Transform.NONE:
            return number
        if number < 0 or (number == 0 and self is not Transform.SQRT):
            raise ValueError(f"{number:g} has no {self}")
        if self is Transform.SQRT:
            return math.sqrt(number)
        return math.log2(number) if self is Transform.LOG2 else math.log(number)

    def back(self, transformed: float) -> float:
        """Return the number that was transformed."""
        if self is Transform.NONE:
            return transformed
        if self is Transform.SQRT:
            return transformed**2
        return 2.0**transformed if self is Transform.LOG2 else math.exp(transformed)


class Factor(msgspec.Struct, frozen=True):
    """A variable of the server, with the levels that it may have."""

    name: str
    levels: tuple[str, ...]
    """As the server gets them, in the order written; no two are alike."""
    measure: LevelKind = "word"
    transform: Transform = Transform.NONE

    def __post_init__(self) -> None:
        assert self.levels
        assert len(set(self.levels)) == len(self.levels)

    @property
    def numeric(self) -> bool:
        """Whether levels lie on a line, so that one between two others means something."""
        return self.measure != "word"

    @property
    def title(self) -> str:
        """The name of the model's axis: `disks`, `log2(nfsd)`."""
        if self.transform is Transform.NONE:
            return self.name
        return f"{self.transform}({self.name})"

    def number(self, level: str) -> float:
        """Return a level's number, not transformed; raises ValueError for none."""
        assert self.measure != "word"
        return parse_level(level, self.measure)

    def place(self, level: str) -> float:
        """Return a level in coded units: the lowest one is -1, the highest one 1.

        Other levels may lie outside. Raises ValueError for a text that is not such a number.
        """
        at = [self.transform.of(self.number(level)) for level in self.levels]
        low, high = min(at), max(at)
        if low == high:
            return 0.0
        return 2 * (self.transform.of(self.number(level)) - low) / (high - low) - 1

    def number_between(self, place: float) -> float:
        """Return the number at a place in coded units, from -1 (lowest level) to 1 (highest)."""
        numbers = [self.number(level) for level in self.levels]
        low, high = (self.transform.of(end) for end in (min(numbers), max(numbers)))
        number = self.transform.back(low + (place + 1) / 2 * (high - low))
        return min(max(number, min(numbers)), max(numbers))

    def level_between(self, place: float) -> str:
        """Return the level at a place from -1 to 1, as text that the factor can parse."""
        number = self.number_between(place)
        if self.measure == "size":
            return f"{round(number)}"
        if self.measure == "duration":
            return f"{number * 1e9:.0f}ns"
        if self.measure == "share":
            return f"{100 * number:.10f}%"
        return repr(number)


class DesignKind(enum.StrEnum):
    """Method of choosing samples."""

    FULL = "full"
    """Every one."""
    D_OPTIMAL = "d-optimal"
    """Those that determine the polynomial's coefficients best."""
    I_OPTIMAL = "i-optimal"
    """Those with which the polynomial predicts best on average."""
    ADAPTIVE = "adaptive"
    """A few D-optimal ones, then one at a time where a Gaussian process knows least."""


class ModelKind(enum.StrEnum):
    """Model that predicts the samples that were not measured."""

    POLYNOMIAL = "polynomial"
    GAUSSIAN_PROCESS = "gaussian-process"


class SurfaceGoal(msgspec.Struct, frozen=True, kw_only=True):
    """What is mapped, with how many samples, and how."""

    factors: tuple[Factor, ...]
    peak: PeakGoal
    """Of the inner search; its first rate is the default seed."""
    design: DesignKind = DesignKind.ADAPTIVE
    samples: int
    """That are searched, those that fail included; at most all there are."""
    spread: float | None = None
    """Share of an optimal design's samples beyond the polynomial's terms that are chosen far from
    all others; None: the default (features/search/surface/tuning.py)."""
    model: ModelKind = ModelKind.GAUSSIAN_PROCESS
    degree: int = 2
    """Of the polynomial, interactions of two factors included from 2 on."""
    log_response: bool = True
    """Model the logarithm of the rate: limits multiply, and noise is relative."""
    confidence: float = 0.95
    """Of bands and intervals."""
    deadline_s: float | None = None
    """Time for the whole mapping, without interruptions [s]; None: no limit."""
    trial_s: float | None = None
    """Length of a trial, where the policy has a fixed one [s]; None: the policy chooses."""
    seed: int = 1

    def __post_init__(self) -> None:
        assert self.factors
        assert self.deadline_s is None or self.deadline_s > 0
        assert self.degree in (1, 2)
        assert 1 <= self.samples <= self.count
        assert self.spread is None or 0 <= self.spread <= 1
        assert 0.5 <= self.confidence < 1

    @property
    def count(self) -> int:
        """The number of all samples."""
        return math.prod(len(factor.levels) for factor in self.factors)


ESTIMATED_STATUSES = (PeakStatus.FOUND, PeakStatus.BUDGET, PeakStatus.UNDECIDED)
"""Endings with an estimate of the peak, which is measured only where the claim held (`FOUND`); the
others have none, or a bound."""


class SampleResult(msgspec.Struct, frozen=True):
    """The result of the search at one sample, including a failure."""

    sample: Sample
    found: ClaimResult
    seeded_from: Sample = ()
    """The neighbour at whose rate the search began; (): none."""
    gang: str = ""
    """Of a pool: the gang of hosts that measured it; "": no pool."""

    @property
    def claim_held(self) -> bool:
        """Whether the search ended with its claim: only then its peak counts as measured."""
        return self.found.status is PeakStatus.FOUND

    @property
    def peak_rate(self) -> float | None:
        """The measured peak [1/s]; None where the search did not end with its claim."""
        return self.found.peak_rate if self.claim_held else None

    @property
    def rough_rate(self) -> float | None:
        """The best answer of a search that ended before its claim held [1/s]; None of another
        search, and where it is only a bound."""
        estimated = self.found.status in ESTIMATED_STATUSES
        if self.claim_held or not estimated or self.found.bound_kind is not None:
            return None
        return self.found.peak_rate

    @property
    def rate_that_held(self) -> float | None:
        """A rate at which every criterion is known to hold, or the peak [1/s]: a neighbour's search
        may begin there. None where the search established none."""
        held = (PeakStatus.FOUND, PeakStatus.NEVER_FAILS)
        return self.found.peak_rate if self.found.status in held else None


class SampleRequest(msgspec.Struct, frozen=True):
    """The next sample to search, and the start of its search."""

    sample: Sample
    goal: PeakGoal
    seeded_from: Sample = ()
    why: str = ""
    """For a person: `anchor`, `design`, `least known`, `spread`."""
    spent_s: float = 0.0
    """Of a mapping with a deadline: time since its begin, without interruptions [s]."""
    gang: str = ""
    """Of a pool: the gang that is to search it; "": no pool."""


class LevelPair(msgspec.Struct, frozen=True):
    """Two levels of a factor whose peaks are compared."""

    factor: str
    first: str
    second: str

    def __post_init__(self) -> None:
        assert self.first != self.second


class SurfaceQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a surface beyond its map."""

    predict: tuple[Sample, ...] = ()
    """Samples to predict."""
    rates: tuple[float, ...] = ()
    """Rates of which the samples that reach them are asked [1/s]."""
    crossed: tuple[LevelPair, ...] = ()


class GangNames(msgspec.Struct, frozen=True):
    """The gangs of a pool that search the samples of a surface side by side."""

    names: tuple[str, ...]
    """One name for each set of hosts."""
    anchor: bool = True
    """Whether every gang searches the first sample, so that they can be compared."""

    def __post_init__(self) -> None:
        assert self.names
        assert len(set(self.names)) == len(self.names)


class GangEffect(msgspec.Struct, frozen=True):
    """How the peaks of one gang differ from those of the mean gang."""

    gang: str
    searches: int
    """Searches on this gang that the effect is estimated from."""
    effect: Estimate
    """Peak on this gang / peak on the mean gang - 1, shrunk towards 0."""


class GangEffects(msgspec.Struct, frozen=True):
    """How the gangs of a pool differ in the peaks that they find."""

    gangs: tuple[GangEffect, ...]
    """In the order of their names."""
    difference: Estimate
    """Peak on the fastest gang / peak on the slowest one - 1; the lower end of the interval is 0
    where no gang is known to differ from the others."""

    @property
    def differ(self) -> bool:
        """Whether gangs are known to differ, at the interval's confidence."""
        return self.difference.low > 0


class Coefficient(msgspec.Struct, frozen=True):
    """One coefficient of the polynomial, in coded units (-1 to 1)."""

    name: str
    estimate: Estimate


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """The model as figures and words."""

    kind: ModelKind
    text: str
    """The formula, or the kernel with its hyperparameters."""
    n: int
    """Samples that it was fitted to."""
    rough: int = 0
    """Those of them whose search ended before its claim held: they count by the width of their
    interval."""
    coefficients: tuple[Coefficient, ...] = ()
    residual_share: float | None = None
    """Standard deviation of what the model leaves, as a share of the rate."""
    expected_error: float | None = None
    """Mean absolute error over all samples that the bands imply, as a share of the rate."""
    widening: float = 1.0
    """By what the bands are wider than the model says, so that they fit the
    cross-validated errors."""


class LeftOutPrediction(msgspec.Struct, frozen=True):
    """The prediction of a measured sample by a model that is fitted without it."""

    sample: Sample
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1


class CrossValidation(msgspec.Struct, frozen=True):
    """Error of predicting each measured sample from the others."""

    left_out: tuple[LeftOutPrediction, ...]
    error: Estimate
    """Mean absolute error, as a share of the rate, with its band."""


class Prediction(msgspec.Struct, frozen=True):
    """The model's prediction for one sample."""

    sample: Sample
    value: float
    """[1/s]."""
    low: float
    """NaN where nothing is left to judge the model, also `high`."""
    high: float
    measured: Estimate | None = None
    """What the search found there; None where none was made, or its claim did not hold."""
    outside: tuple[str, ...] = ()
    """Factors whose level lies outside the given levels: the value is extrapolated."""


class SurfaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a surface."""

    results: tuple[SampleResult, ...]
    """In the order of the searches."""
    fit: ModelFit | None = None
    """None: too few samples have a peak."""
    validation: CrossValidation | None = None
    predictions: tuple[Prediction, ...] = ()
    """Of every sample, in the factors' order."""
    findings: tuple[Finding, ...] = ()
    load_s: float = 0.0
    cost_s: float = 0.0
    trials: int = 0
    left_out: int = 0
    """Number of samples that were not searched because the deadline had come."""
    missing: tuple[Sample, ...] = ()
    """Those of them that the design names; an adaptive design chooses the others later."""
    gangs: GangEffects | None = None
    """None: fewer than two gangs have an estimate of a peak."""

    @property
    def by_sample(self) -> dict[Sample, SampleResult]:
        """One result for each sample; of the anchor, which every gang searches, the first one whose
        claim held, else the first one with an estimate, else the first one."""
        found: dict[Sample, SampleResult] = {}
        for result in self.results:
            before = found.get(result.sample)
            if before is None or _worth(result) > _worth(before):
                found[result.sample] = result
        return found

    @property
    def searched(self) -> int:
        """The number of different samples that were searched."""
        return len({result.sample for result in self.results})


def _worth(result: SampleResult) -> int:
    """Return how much a search established about its sample."""
    return 2 * result.claim_held + (result.rough_rate is not None)


def make_factor(name: str, levels: tuple[str, ...], transform: Transform | None = None) -> Factor:
    """Return the factor of these levels: numeric if all are numbers of one kind.

    Without a transform one is chosen: log2 if the levels are above 0 and span a factor of
    `WIDE_RATIO` or more, else none. Raises ValueError for an impossible transform.
    """
    measure = _level_kind(levels)
    if measure == "word":
        if transform not in (None, Transform.NONE):
            raise ValueError(f"{name} has levels that are not numbers: they have no {transform}")
        return Factor(name, levels)
    numbers = [parse_level(level, measure) for level in levels]
    low, high = min(numbers), max(numbers)
    if transform is None:
        wide = low > 0 and high >= WIDE_RATIO * low
        transform = Transform.LOG2 if wide else Transform.NONE
    if low < 0 and transform is Transform.SQRT:
        raise ValueError(f"{name} has the level {low:g}: a sqrt needs 0 or more")
    if low <= 0 and transform in (Transform.LOG, Transform.LOG2):
        raise ValueError(f"{name} has the level {low:g}: a {transform} needs more than 0")
    return Factor(name, levels, measure, transform)


def parse_level(text: str, measure: LevelKind) -> float:
    """Return the number of a level: bytes of a size, seconds of a duration.

    Raises ValueError for a text that is not such a number.
    """
    if measure == "size":
        return float(parse_size_bytes(text))
    if measure == "duration":
        return parse_duration_ns(text) / 1e9
    if measure == "share":
        return parse_share(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a number")
    return number


def _level_kind(levels: tuple[str, ...]) -> LevelKind:
    """Return the kind of all levels; equal numbers (1, 1.0) are words."""
    measures: tuple[LevelKind, ...] = ("number", "size", "duration", "share")
    for measure in measures:
        try:
            numbers = {parse_level(level, measure) for level in levels}
        except ValueError:
            continue
        if len(numbers) == len(levels):
            return measure
    return "word"
