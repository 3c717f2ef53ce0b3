"""A ramp: its goal, levels and result, the fitted Universal Scalability Law, and every tuned
constant with its reason.
"""

from __future__ import annotations

import enum

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.results import Estimate, Finding

# -- the throughput of a trial (levels.py) --------------------------------------------------

FEWEST_VARIANCE_BINS = 4
"""A series with fewer bins gives no variance; half of ten bins, after a warm-up, is enough."""
WARM_UP_P = 0.01
"""A warm-up is removed where its test has a lower P-value: in one clean run of a hundred."""
KEPT_UP_SHARE = 0.95
"""A run that ended this share of its arrivals completed in each second what arrived in it, so that
its counts of arrivals show its noise."""
UNEQUAL_NOISE = 3.84
"""Gain of twice the log likelihood from which on noise changes with the level: in 5 % of ramps
where it does not. Without this limit the intervals of such ramps cover 88 instead of 93 % (kappa).
"""
USUAL_EXPONENT = 0.5
"""Standard deviation of the exponent of the variance over the level, by which it is drawn towards
0; 1 gives kappa of profiles with equal noise 88 % coverage, and does not help where noise is
unequal."""

# -- the end of a ramp (policy.py) ------------------------------------------------------------

MOST_FAILURES = 2
"""Consecutive failures at one level that end a ramp: a single one may be chance."""

# -- findings (profile.py) ----------------------------------------------------------------------

LACK_OF_FIT_P = 0.01
"""P-value of the lack-of-fit test below which the law does not fit."""
FEWEST_REPETITIONS = 3
"""Minimum of repeated trials for a variance between runs: with fewer, the coverage of 95 %
intervals is 52 to 91 %."""
DRIFT_P = 0.04
"""P-value below which the machine's speed changed: steady machines have the finding in at most 5 %
of ramps, and half of those whose runs correlate by 0.7 have it."""
RELEVANT_CHANGE = 0.005
"""A change of a smaller share is no finding, as in a series of trials."""


# -- A fit of the Universal Scalability Law: parameters with intervals -----------------
#
# X(N) = gamma N / (1 + sigma (N-1) + kappa N (N-1)), with N users and X their throughput.
# Source: N. Gunther, Guerrilla Capacity Planning, 2007, chapter 4.


class ScalabilityModel(enum.StrEnum):
    """The simplest law that the data do not refute, from the simplest on."""

    LINEAR = "linear"
    """sigma = kappa = 0: each user adds as much as the first."""
    AMDAHL = "amdahl"
    """kappa = 0: contention; throughput levels off."""
    SATURATING = "saturating"
    """Throughput levels off with a sharper knee than Amdahl's law has: a closed network of
    queues, a pool."""
    USL = "usl"
    """kappa > 0: coherency as well; throughput has a maximum and then falls."""
    NONE = "none"
    """No law is as near to the levels as they are known."""


class BandPoint(msgspec.Struct, frozen=True):
    """The fitted throughput at a number of users, with its interval [1/s]."""

    users: float
    low: float
    middle: float
    high: float


class PreferredLaw(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the simplest law that the data do not refute, fitted by itself."""

    gamma: float
    """Throughput of one user [1/s]."""
    sigma: float
    """Of the saturating law: gamma / asymptote, the share of a user's time at the bottleneck."""
    kappa: float
    asymptote: float | None
    """gamma / sigma, which throughput tends to where only kappa is 0; None: nowhere [1/s]."""
    sharpness: float | None = None
    """p of the saturating law X(N) = ((gamma N)^-p + asymptote^-p)^(-1/p), from 1, Amdahl's law;
    None: another law."""


class UslFit(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters with intervals; throughput in 1/s, users as a number."""

    gamma: Estimate
    """Throughput of one user [1/s]."""
    sigma: Estimate
    """Contention: the share of the work that is done one at a time."""
    kappa: Estimate
    """Coherency: the cost of each pair that has to agree."""
    users_at_peak: Estimate | None
    """sqrt((1 - sigma) / kappa); its upper end is infinite where another law than this is
    preferred. None where throughput never falls: kappa is 0, or contention takes all."""
    peak_throughput: float | None
    """X at `users_at_peak` [1/s]."""
    asymptote: float | None
    """gamma / sigma, which throughput tends to where kappa is 0; None: nowhere [1/s]."""
    preferred: ScalabilityModel
    law: PreferredLaw | None = None
    """Its own parameters; None without one, and in results of earlier versions. They lie in the intervals above,
    which are of the whole law: a simpler one that they left out would be refuted."""
    residual: float
    """Standard deviation of the relative differences from the curve."""
    r_squared: float | None
    """Share of the throughput's variance that the curve explains; None: there is none."""
    n: int
    sharper_fits: bool = True
    """Of Amdahl's law: whether the saturating law with a sharper knee fits about as well, so that
    the reason why throughput levels off is not known."""
    refuted: bool = False
    """Whether the data ask for a negative sigma or kappa, beyond noise."""
    misfit_p: float | None = None
    """How likely the noise between runs of one level would leave the levels so far from
    the curve; None where too few levels were repeated."""


# -- The types of a ramp: goal, level, point, result -----------------------------------
#
# A ramp raises the load in steps until throughput stops growing; the levels are the
# scalability profile. Sources: Systems Performance, 12.3.7 Ramping Load;
# N. Gunther 2007 for the law that is fitted to it.


class RampAxis(enum.StrEnum):
    """Axis of a ramp."""

    RATE = "rate"
    """Arrivals per second of an open loop [1/s]."""
    USERS = "users"
    """How many issue at once in a closed loop."""


class RampGoal(msgspec.Struct, frozen=True, kw_only=True):
    """The levels of a ramp, their length, and the conditions that end it."""

    axis: RampAxis = RampAxis.USERS
    start: float = 1.0
    """The first level: users, or arrivals per second."""
    factor: float = 2.0
    """From level to level, where no step is given."""
    step: float | None = None
    """Added from level to level."""
    highest: float = 1024.0
    """The last level, whatever happens."""
    rate_step: float | None = None
    """Rates that the generator accepts are multiples of this; None: any [1/s]."""
    hold_s: float = 10.0
    """Length of a trial [s]."""
    repeats: int = 1
    """Trials at each level; those after the first in random order of the levels."""
    most_repeats: int = 3
    """Trials at a level whose growth the noise hides."""
    growth: float = 0.05
    """By less than this share throughput does not grow."""
    flat_levels: int = 2
    """Levels without growth, one after the other, that end the ramp."""
    most_errors: float = 0.01
    """Share of operations; beyond it the ramp ends."""
    budget_s: float | None = None
    """Cost after which no further trial begins [s]."""
    confidence: float = 0.95
    criteria: tuple[Criterion, ...] = ()
    """Limits that levels are compared with; they end nothing."""
    seed: int = 1
    """Random seed of the order of the repeats, and of the generator's arrivals."""

    def __post_init__(self) -> None:
        assert self.start > 0
        assert self.highest >= self.start
        assert self.factor > 1
        assert self.step is None or self.step > 0
        assert self.hold_s > 0
        assert 1 <= self.repeats <= self.most_repeats
        assert 0 < self.growth < 1
        assert self.flat_levels >= 1
        assert 0 < self.confidence < 1


STREAM_FIGURES = ("first_ms_p50", "first_ms_p99", "tpot_ms_p50", "gap_ms_p99", "good_share")
"""Values of a trial whose answers are read as events, besides its responses."""


class RampPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one level."""

    level: float
    throughput: Estimate
    """[1/s]; the interval's ends are NaN where the noise is unknown."""
    trials: int
    offered: float | None = None
    """Arrivals per second; of an open loop [1/s]."""
    response_ms_mean: float | None = None
    response_ms_p50: float | None = None
    response_ms_p99: float | None = None
    """Means over the level's trials; None where a trial does not know it."""
    streams: dict[str, float] = {}
    """Those of STREAM_FIGURES that each trial of the level knows: means over its trials."""
    limits: dict[str, float] = {}
    """Values of the goal's criteria that each trial knows, by their keys: means over its trials."""
    exceeded: tuple[str, ...] = ()
    """Keys of the criteria that a trial did not hold, or does not know."""
    late_p99_ms: float | None = None
    """How late the generator was: the largest 99th percentile of the level's trials; None: it does
    not say [ms]."""
    error_share: float | None = None
    """Of the operations that ended; None where no count exists."""
    efficiency: float | None = None
    """Throughput per unit of level, as a share of the first level's."""


class RampStatus(enum.StrEnum):
    """How a ramp ended."""

    SATURATED = "saturated"
    """Throughput stopped growing."""
    HIGHEST = "highest"
    """It was growing still at the highest level."""
    ERRORS = "errors"
    """Too many operations failed."""
    BUDGET = "budget"
    """Time was up."""
    FAILED = "failed"
    """The server or the generator did, twice at one level."""


class RampResult(msgspec.Struct, frozen=True, kw_only=True):
    """The scalability profile, and what is read from it."""

    status: RampStatus
    detail: str
    """Why it ended, as a sentence with figures."""
    axis: RampAxis
    points: tuple[RampPoint, ...] = ()
    """By level; levels whose trials all failed are not there."""
    saturation: RampPoint | None = None
    """The last level at which throughput had grown; None unless it stopped growing."""
    within: RampPoint | None = None
    """The highest level up to which each trial held all criteria; None: not the first, or there are
    none."""
    usl: UslFit | None = None
    usl_absent: str = ""
    """Why there is no fit."""
    load_s: float = 0.0
    """Seconds of load."""
    cost_s: float = 0.0
    trials: int = 0
    findings: tuple[Finding, ...] = ()
