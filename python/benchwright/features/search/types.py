"""The types of a search over rates (claim, goal, result), and their JSON form."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.plan import Pairs
from benchwright.core.quantity import parse_confidence, parse_share
from benchwright.core.results import Estimate, Finding
from benchwright.features.load.plan import LoadTrial, Probe, rounded_rate

# --------------------------------------------------------------------------------------
# The types of a search over rates: claim, goal, result.
#
# A search asks for *probes*; a bench runs each and returns a `LoadTrial`
# (features/load/plan.py); a policy is a pure function of the trials so far. Nothing here uses a clock, a server or a file.
# Sources: Workbench paper, tables 1 and 2, algorithm 2; GLOSSARY.md.


class ClaimKind(enum.StrEnum):
    """Guarantee of the answer."""

    REGION = "region"
    """The true response at the answer lies within +-tolerance of the limit."""
    RATE = "rate"
    """The answer lies within +-tolerance of the true peak rate."""
    SLO = "slo"
    """The highest rate at which the criterion holds with probability `confidence`."""


class Claim(msgspec.Struct, frozen=True):
    """A promise with its tolerance and its probability."""

    kind: ClaimKind = ClaimKind.REGION
    tolerance: float = 0.10
    """Share of the limit (region) or of the peak rate (rate, slo: how far below the best
    guess the answer may lie)."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        assert 0 < self.tolerance < 1
        assert 0.5 <= self.confidence < 1

    @property
    def text(self) -> str:
        """As the command line writes it."""
        of = self.confidence if self.kind is ClaimKind.SLO else self.tolerance
        return f"{self.kind}:{100 * of:.10g}%"


def parse_claim(text: str) -> Claim:
    """Return the claim of a search's answer: `region:10%`, `rate:5%` or `slo:95%`.

    A word without a share has the default: 10 %, or 95 % for `slo`.
    """
    word, colon, rest = text.strip().partition(":")
    if word not in (kind.value for kind in ClaimKind):
        raise ValueError(f"{text!r} is not a claim: region:10%, rate:5% or slo:95%")
    kind = ClaimKind(word)
    if not colon:
        return Claim(kind)
    if kind is ClaimKind.SLO:
        return Claim(kind, confidence=parse_confidence(rest))
    share = parse_share(rest)
    if not share < 1:
        raise ValueError(f"{rest.strip()!r} is not a tolerance below 100%, such as 5%")
    return Claim(kind, tolerance=share)


class EarlierPeak(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier search found, as the guess that a new one begins with."""

    study: str
    rate: float
    """[1/s]."""
    low: float
    """The first trial is here; a limit that is exceeded here contradicts the guess."""
    high: float | None
    """The next one is here; limits that hold here contradict it. None: it was only a bound."""
    limits: tuple[str, ...]
    """The criteria as texts, sorted: a guess for others would be none."""


class PeakGoal(msgspec.Struct, frozen=True, kw_only=True):
    """The goal of a search and its bounds."""

    criteria: tuple[Criterion, ...]
    """The criteria; the peak is the highest rate at which all hold."""
    claim: Claim = Claim()
    start_rate: float = 50.0
    """Of the first probe: low, or a neighbour's peak (seeding) [1/s]."""
    guess_users: int | None = None
    """The search begins with a second of a closed loop of so many users, whose throughput is the
    first guess in place of `start_rate`; None: it does not."""
    earlier: EarlierPeak | None = None
    """The search begins around the peak of an earlier one; None: it knows nothing."""
    lowest_rate: float | None = None
    """Below this a criterion that fails ends the search; None: where a run would see
    hardly any arrival (features/search/peak/policies/policy.py)."""
    highest_rate: float | None = None
    """What the generator can do; a criterion that still holds there ends the search;
    None: a million, or 1024 times the first rate if that is more."""
    rate_step: float | None = None
    """The generator accepts multiples of this only; None: any rate [1/s]."""
    budget_s: float | None = None
    """Cost after which the best answer so far is given [s]."""
    max_trials: int = 200
    watched: bool = True
    """Whether a running probe can be observed and ended early."""
    restart_s: float = 0.0
    """Known cost of a trial in addition to its load, before the first one was run [s]."""
    run_length_s: float | None = None
    """Set by the user; None: the policy chooses."""
    accuracy: float | None = None
    """Of the mean response at the answer: a of the workbench paper's Algorithm 2, which its
    policies have; None: the paper's."""
    increment: float | None = None
    """Difference of one load from the next, of the linear policies [1/s]; None: theirs."""
    trials_each: int | None = None
    """Trials at each load, of the strawman; None: the paper's."""
    seed: int = 1

    def __post_init__(self) -> None:
        assert self.criteria
        assert self.start_rate > 0
        assert self.rate_step is None or self.rate_step > 0
        assert self.accuracy is None or 0 < self.accuracy < 1
        assert self.increment is None or self.increment > 0
        assert self.trials_each is None or self.trials_each > 0


def rounded_bound(rate: float, step: float | None, whole: Callable[[float], int]) -> float:
    """Return a bound on rates that a generator accepts [1/s]: `whole`, which is
    `math.floor` or `math.ceil`, rounds it to a multiple of `step` on the inside."""
    if step is None:
        return rounded_rate(rate)
    # A multiple that was written with five digits is one still.
    return rounded_rate(whole(round(rate / step, 3)) * step, step)


class VarianceComponents(msgspec.Struct, frozen=True):
    """Sources of noise of a response near the peak; None: unknown."""

    within_s: float | None
    """Relative variance of a run's mean at the limit, times its length [s]."""
    between: float | None
    """Relative standard deviation between runs, beyond that."""


class CurvePoint(msgspec.Struct, frozen=True):
    """The response at one rate, as the search estimates it."""

    rate: float
    low: float
    middle: float
    high: float


class RateTally(msgspec.Struct, frozen=True):
    """How often the criteria held and failed at a rate, or at rates near it."""

    rate: float
    """[1/s]."""
    held: int = 0
    failed: int = 0

    @property
    def fails(self) -> bool:
        """Whether it failed in most of its trials."""
        return self.failed > self.held


class PeakStatus(enum.StrEnum):
    """How a search ended."""

    FOUND = "found"
    """The claim holds with its probability."""
    BUDGET = "budget"
    """Time was up: the best answer by then."""
    UNDECIDED = "undecided"
    """The trials were used up, or the server cannot be distinguished from its noise."""
    FAILS_AT_LOWEST = "fails-at-lowest"
    """A criterion does not hold even at the lowest load."""
    NEVER_FAILS = "never-fails"
    """Every criterion holds at the highest load that there is."""
    FAILED = "failed"
    """The server or the generator did."""


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a peak search for one claim."""

    status: PeakStatus
    detail: str
    """Why it ended, as a sentence with figures."""
    claim: Claim
    policy: str
    peak_rate: float | None = None
    """[1/s]; in every ending but FAILED the best that is known, or a bound."""
    bound: Literal["lower", "upper"] | None = None
    """`lower`: no higher rate was shown to fail; `upper`: no lower rate was shown to hold; None:
    `peak_rate` is an estimate, or the result is of a version that did not store this
    (`bound_kind`)."""
    interval: Estimate | None = None
    """Of the peak rate."""
    claim_probability: float | None = None
    """That the claim holds; None where the policy has none to state."""
    stop_probability: float | None = None
    """Probability at which the search may stop; more than the claim's confidence, because the claim
    is checked after every trial. None where the policy has none."""
    binding: str = ""
    """Key of the criterion that limits."""
    load_s: float = 0.0
    """Seconds of load."""
    cost_s: float = 0.0
    trials: int = 0
    components: VarianceComponents = VarianceComponents(None, None)
    curve: tuple[CurvePoint, ...] = ()
    """Of the binding criterion."""
    check: tuple[RateTally, ...] = ()
    """The trials just below and above the answer, which the claim is checked by."""
    findings: tuple[Finding, ...] = ()

    @property
    def bound_kind(self) -> Literal["lower", "upper"] | None:
        """What the rate is a bound of, also of a stored result; None: it is an estimate."""
        if self.status is PeakStatus.NEVER_FAILS:
            return "lower"
        return "upper" if self.status is PeakStatus.FAILS_AT_LOWEST else self.bound

    def rate_estimate(self) -> Estimate | None:
        """Return the peak rate with its interval, whose ends are NaN where there is none; None
        without a rate."""
        if self.peak_rate is None:
            return None
        ends, confidence = (math.nan, math.nan), self.claim.confidence
        bare = Estimate(self.peak_rate, *ends, confidence, self.policy, 0)
        return self.interval or bare


# --------------------------------------------------------------------------------------
# The stored form of a search: its trials and a peak search's answer.
#
# Decision: infinities and NaN are stored as words (`"inf"`), because JSON does not have them and
# a percentile above every limit is infinite. Rejected: null, which is an error when read back.
# A policy always sees values that were read back, so a live search and a resumed one see
# the same bits.

StoredType = TypeVar("StoredType")


class SearchTrial(msgspec.Struct, frozen=True):
    """A probe and its result, at one sample."""

    number: int
    """1 is the search's first; those that were forgotten are counted too."""
    probe: Probe
    trial: LoadTrial
    sample: Pairs = ()


class PeakAnswer(msgspec.Struct, frozen=True):
    """The answer of a peak search, claim by claim, in the requested order."""

    claims: tuple[ClaimResult, ...]
    """All from the same trials; one where a single thing was claimed."""

    def __post_init__(self) -> None:
        assert self.claims

    @property
    def first(self) -> ClaimResult:
        """The result for the first claim."""
        return self.claims[0]

    @property
    def deciding(self) -> ClaimResult:
        """The first result that was not found, else the first of all: why the search ended."""
        missed = (claim for claim in self.claims if claim.status is not PeakStatus.FOUND)
        return next(missed, self.first)


def encode_stored(value: object) -> msgspec.Raw:
    """Return a value of these types as JSON that keeps every figure."""
    return msgspec.Raw(msgspec.json.encode(_with_words_for_infinities(msgspec.to_builtins(value))))


def decode_stored(text: msgspec.Raw | bytes, kind: type[StoredType]) -> StoredType:
    """Return the value that `encode_stored` wrote. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=kind, strict=False)


def _with_words_for_infinities(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _with_words_for_infinities(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_words_for_infinities(one) for one in value]
    return value
