"""A fit of the Universal Scalability Law: what it found, and how sure it is.

X(N) = gamma N / (1 + sigma (N-1) + kappa N (N-1)), with N users and X their throughput.
Source: N. Gunther, Guerrilla Capacity Planning, 2007, chapter 4.
"""

from __future__ import annotations

import enum

import msgspec

from benchwright.model.estimate import Estimate


class ScalabilityModel(enum.StrEnum):
    """The simplest law that the data do not refute, from the simplest on."""

    LINEAR = "linear"
    """sigma = kappa = 0: each user adds as much as the first."""
    AMDAHL = "amdahl"
    """kappa = 0: contention; throughput levels off."""
    USL = "usl"
    """kappa > 0: coherency as well; throughput has a maximum and then falls."""


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
    kappa: float
    asymptote: float | None
    """gamma / sigma, which throughput tends to where only kappa is 0; None: nowhere [1/s]."""


class UslFit(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters with intervals; throughput in 1/s, users as a number."""

    gamma: Estimate
    """Throughput of one user [1/s]."""
    sigma: Estimate
    """Contention: the share of the work that is done one at a time."""
    kappa: Estimate
    """Coherency: the cost of each pair that has to agree."""
    users_at_peak: Estimate | None
    """sqrt((1 - sigma) / kappa); its upper end is infinite where kappa may be 0. None
    where throughput never falls: kappa is 0, or contention takes all."""
    peak_throughput: float | None
    """X at `users_at_peak` [1/s]."""
    asymptote: float | None
    """gamma / sigma, which throughput tends to where kappa is 0; None: nowhere [1/s]."""
    preferred: ScalabilityModel
    law: PreferredLaw | None = None
    """Its own parameters; None in results of earlier versions. They lie in the intervals above,
    which are of the whole law: a simpler one that they left out would be refuted."""
    residual: float
    """Standard deviation of the relative differences from the curve."""
    r_squared: float | None
    """Share of the throughput's variance that the curve explains; None: there is none."""
    n: int
    refuted: bool = False
    """Whether the data ask for a negative sigma or kappa, beyond noise."""
    misfit_p: float | None = None
    """How likely the noise between runs of one level would leave the levels so far from
    the curve; None where too few levels were repeated."""
