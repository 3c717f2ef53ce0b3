"""One load at one rate, as a search or a generator sees it: the probe and its result.

A search asks for *probes*; a bench runs each and returns a `LoadTrial`. Nothing here uses a clock,
a server or a file.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from benchwright.core.observation import CpuProfile
from benchwright.core.resource_use import RemoteUse, ResourceUse


def rounded_rate(rate: float, step: float | None = None) -> float:
    """Return a rate as it is passed to a generator [1/s]: the nearest with at most five
    significant digits, and a multiple of `step` where there is one; never 0."""
    if step is not None:
        rate = max(1, round(rate / step)) * step
    return float(f"{rate:.5g}")


class Probe(msgspec.Struct, frozen=True):
    """One trial under load that a policy asks for."""

    rate: float
    """Intended [1/s]; at most five significant digits, so that it can be written down."""
    duration_s: float
    purpose: str = ""
    """For a person: `double`, `bisect`, `hold`, `check`."""
    users: int | None = None
    """Of a closed loop: how many issue at once; `rate` is the same number then. None: an
    open loop at `rate`."""

    def __post_init__(self) -> None:
        assert self.rate > 0
        assert self.duration_s > 0
        assert self.users is None or self.users == self.rate


class LoadSeries(msgspec.Struct, frozen=True):
    """A trial's values in time, in columns of equal length `(n_bins,)`."""

    at_s: tuple[float, ...] = ()
    """Begin of each bin since the load began [s]."""
    width_s: float = 1.0
    counts: tuple[int, ...] = ()
    """Operations that the bin's values are of."""
    values: dict[str, tuple[float, ...]] = {}
    """By criterion's key; without meaning where the count is 0."""
    binned_by: Literal["intended", "completion", "unknown"] = "unknown"
    """Which moment of an operation puts it into a bin."""

    def __post_init__(self) -> None:
        assert len(self.at_s) == len(self.counts)
        assert all(len(column) == len(self.at_s) for column in self.values.values())


class LoadEnding(enum.StrEnum):
    """How a trial under load ended."""

    WHOLE = "whole"
    LEFT = "left"
    """The policy needed no more of it."""
    FAILED = "failed"
    """The server or the generator did; `failure` says how."""


class LoadTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one probe: the observation on which every search is based."""

    rate: float
    """Intended [1/s]."""
    duration_s: float
    """Asked for [s]."""
    lasted_s: float
    """Time for which the load was offered [s]."""
    cost_s: float
    """All of it: configure, start, wait, load, stop [s]; never less than `lasted_s`."""
    values: dict[str, float] = {}
    """By criterion's key, over the whole run, nothing removed; absent where not known."""
    series: LoadSeries = LoadSeries()
    offered: int | None = None
    """Operations that arrived."""
    completed: int | None = None
    """Operations that succeeded within the run."""
    errors: int = 0
    ending: LoadEnding = LoadEnding.WHOLE
    failure: str = ""
    """Of a load that did not fail: why it has no response, where it has none."""
    users: int | None = None
    """Of a closed loop: how many issued at once; None: an open loop."""
    late_p99_ms: float | None = None
    """How late the generator came to its operations, 99th percentile; None: it does not say [ms].
    """
    target_values: dict[str, float] = {}
    """`values` without the generator's lateness: a response counts from the moment when the
    generator came to the operation, and waiting for a free connection is the target's. Absent where
    the generator does not know it."""
    marks: tuple[str, ...] = ()
    """Doubts about the generator: codes such as `closed-loop-generator`."""
    started_ns: int = 0
    """CLOCK_REALTIME [ns]; 0 in a simulation."""
    making_s: float = 0.0
    """Part of the cost in which the file set was examined and made, without limits of I/O [s]."""
    use: ResourceUse | None = None
    """Use of the machine meanwhile; no policy looks at it."""
    remote_use: RemoteUse | None = None
    """Use of the host of a remote server meanwhile; no policy looks at it."""
    profile: CpuProfile | None = None
    """Where CPU time went meanwhile, if that was requested; no policy looks at it."""

    @property
    def why_failed(self) -> str:
        """Why it failed, never empty then; empty where it did not."""
        if self.ending is not LoadEnding.FAILED:
            return ""
        return self.failure or "it failed"

    @property
    def offered_rate(self) -> float:
        """The realised arrival rate, or the intended one where no count exists [1/s]."""
        if self.offered is None or not self.lasted_s:
            return self.rate
        return self.offered / self.lasted_s
