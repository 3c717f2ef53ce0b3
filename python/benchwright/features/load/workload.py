"""A workload as the engine reads it: filaments, arrivals, accesses.

Purpose: the types of `workload` in docs/engine-protocol.md; parse.py and workload_toml.py
make them from the user's texts.
Decision: numbers are whole: nanoseconds, bytes, and millionths (`_micro`) of quantities
without a smaller unit, so that Python and Rust hold the same value.
Non-goal: checks that the engine makes itself (such as a region beyond its target).
"""

from __future__ import annotations

from typing import Literal

import msgspec

MICRO = 10**6


class _Type(msgspec.Struct, frozen=True, tag_field="type"):
    """An object whose `type` selects its kind."""


# -- distributions of nanoseconds, bytes or counts, depending on the field -------------


class ConstantValue(_Type, frozen=True, tag="constant"):
    """Always the same value."""

    value: int


class UniformValue(_Type, frozen=True, tag="uniform"):
    """From low to high, both included, all equally probable."""

    low: int
    high: int


class Exponential(_Type, frozen=True, tag="exponential"):
    """Memoryless distribution."""

    mean: int


class Lognormal(_Type, frozen=True, tag="lognormal"):
    """Right-skewed distribution with a coefficient of variation."""

    mean: int
    cv_micro: int


class Gamma(_Type, frozen=True, tag="gamma"):
    """Gamma distribution: shape 1 is exponential, above is more regular."""

    mean: int
    shape_micro: int


class Pareto(_Type, frozen=True, tag="pareto"):
    """Heavy-tailed distribution: a few values are very large."""

    minimum: int
    shape_micro: int


class Weighted(_Type, frozen=True, tag="weighted"):
    """One of several values, each with a weight."""

    values: tuple[tuple[int, int], ...]


Distribution = ConstantValue | UniformValue | Exponential | Lognormal | Gamma | Pareto | Weighted


# -- arrivals --------------------------------------------------------------------------


class ConstantArrival(_Type, frozen=True, tag="constant"):
    """Evenly spaced."""


class PoissonArrival(_Type, frozen=True, tag="poisson"):
    """Memoryless: exponential gaps."""


class UniformArrival(_Type, frozen=True, tag="uniform"):
    """Gaps uniform between 0 and 2 mean gaps."""


class GammaArrival(_Type, frozen=True, tag="gamma"):
    """Gamma gaps with a coefficient of variation: above 1, burstier than Poisson."""

    cv_micro: int


class OnOffArrival(_Type, frozen=True, tag="on-off"):
    """Poisson arrivals at the rate in the on periods, none in the off periods."""

    on: Distribution
    off: Distribution


class MetronomeArrival(_Type, frozen=True, tag="metronome"):
    """At each tick, as many arrivals together as the rate makes due: Fstress's loop."""

    period_ns: int = 10**6


class RecordedArrival(_Type, frozen=True, tag="recorded"):
    """Recorded gaps, repeated [ns]."""

    gaps_ns: tuple[int, ...]


Arrival = (
    ConstantArrival
    | PoissonArrival
    | UniformArrival
    | GammaArrival
    | OnOffArrival
    | MetronomeArrival
    | RecordedArrival
)


class ConstantRate(msgspec.Struct, frozen=True):
    """A constant rate [millionths of 1/s]."""

    micro_per_s: int


class RateStep(msgspec.Struct, frozen=True):
    """A step of a profile: linear from one rate to another."""

    for_ns: int
    from_micro_per_s: int
    to_micro_per_s: int


class RateProfile(msgspec.Struct, frozen=True):
    """A rate that changes; after the last step its final rate continues."""

    steps: tuple[RateStep, ...]


class RecordedRate(msgspec.Struct, frozen=True):
    """That of recorded gaps, unchanged: of a replay, whose number of arrivals is known."""

    recorded: bool = True


Rate = ConstantRate | RateProfile | RecordedRate


def operations_until(rate: Rate, at_ns: int) -> float:
    """Return the mean number of arrivals until a time."""
    if isinstance(rate, ConstantRate):
        return rate.micro_per_s * at_ns / 1e15
    assert isinstance(rate, RateProfile), "a recording has a number of arrivals"
    total, held, left_ns = 0.0, 0, at_ns
    for step in rate.steps:
        length_ns = min(step.for_ns, left_ns)
        part = length_ns / step.for_ns if step.for_ns else 1.0
        end = step.from_micro_per_s + part * (step.to_micro_per_s - step.from_micro_per_s)
        total += length_ns * (step.from_micro_per_s + end) / 2
        left_ns -= length_ns
        held = step.to_micro_per_s
    return (total + left_ns * held) / 1e15


# -- accesses --------------------------------------------------------------------------


class UniformLocation(_Type, frozen=True, tag="uniform"):
    """All places with equal probability."""


class ZipfLocation(_Type, frozen=True, tag="zipf"):
    """The k-th most popular object has weight 1/k^exponent."""

    exponent_micro: int
    objects: int | None = None


class HotColdLocation(_Type, frozen=True, tag="hot-cold"):
    """A share of the accesses goes to a share of the space."""

    hot_space_micro: int
    hot_access_micro: int


class SequentialLocation(_Type, frozen=True, tag="sequential"):
    """Each operation starts where the one before ended; wraps around at the region's end."""


class StridedLocation(_Type, frozen=True, tag="strided"):
    """Each operation starts one stride after the one before."""

    stride_bytes: int


class WeightedLocation(_Type, frozen=True, tag="weighted"):
    """Each request of a server with its weight."""

    weights: tuple[int, ...]


class MixedLocation(_Type, frozen=True, tag="mixed"):
    """One of several locations, each with a weight."""

    parts: tuple[tuple[Location, int], ...]


Location = (
    UniformLocation
    | ZipfLocation
    | HotColdLocation
    | SequentialLocation
    | StridedLocation
    | WeightedLocation
    | MixedLocation
)

FORMATS = (
    "bw",
    "load",
    "fio-iolog",
    "blkparse",
    "blktrace",
    "msr",
    "systor",
    "spc",
    "vscsi",
    "alibaba",
    "tencent",
    "mqsim",
    "strace",
    "access-log",
    "har",
    "jsonl",
)
"""Formats of traces that the engine reads."""

KINDS = ("read", "write", "flush", "discard", "exchange")
"""Kinds of operation without a file set; a network target supports only the last."""
PLAIN_FILE_KINDS = (
    *("lookup", "getattr", "setattr", "access", "readlink", "readdir", "readdirplus"),
    *("create", "remove", "mkdir", "rmdir", "rename", "fsstat", "open", "close"),
)
"""Kinds of operation on a file set that transfer nothing."""
ALL_KINDS = (*KINDS, *PLAIN_FILE_KINDS, "append")


class Region(msgspec.Struct, frozen=True):
    """A part of the target; without a length it extends to the target's end."""

    offset_bytes: int = 0
    length_bytes: int | None = None


class Access(msgspec.Struct, frozen=True):
    """Kind, size and place of an operation."""

    kinds: tuple[tuple[str, int], ...]
    size: Distribution
    location: Location = UniformLocation()
    region: Region = Region()
    align_bytes: int = 4096


# -- filaments -------------------------------------------------------------------------


class _Filament(_Type, frozen=True, omit_defaults=True, kw_only=True):
    """Operations with one pattern."""

    name: str | None = None


class _Arriving(_Filament, frozen=True, omit_defaults=True, kw_only=True):
    """Operations whose arrivals do not wait for responses."""

    arrival: Arrival
    rate: Rate
    access: Access


class Open(_Arriving, frozen=True, tag="open", omit_defaults=True, kw_only=True):
    """Arrivals that do not wait for responses."""

    count: int | None = None


class Closed(_Filament, frozen=True, tag="closed", omit_defaults=True, kw_only=True):
    """Users with one operation at a time each, and a think time [ns]."""

    users: int
    think: Distribution
    access: Access


class PartlyOpen(_Arriving, frozen=True, tag="partly-open", omit_defaults=True, kw_only=True):
    """Sessions that arrive independently; each makes several requests in turn."""

    requests: Distribution
    think: Distribution


class Follow(_Filament, frozen=True, tag="follow", omit_defaults=True, kw_only=True):
    """Waits for every n-th operation of another filament."""

    leader: str
    every: int
    delay: Distribution
    access: Access


class Tpcb(_Filament, frozen=True, tag="tpcb", omit_defaults=True, kw_only=True):
    """TPC-B-like: clients in a closed loop, or transactions at a rate."""

    scale: int
    clients: int
    rate: Rate | None = None
    region: Region = Region()


class Spc1(_Filament, frozen=True, tag="spc1", omit_defaults=True, kw_only=True):
    """SPC-1-like: each business scaling unit is 50 operations a second."""

    bsus: int
    region: Region = Region()


class ReadTrace(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A trace, and how it is read; None: the default of its format."""

    path: str | tuple[str, ...]
    """A file, or several that are merged by time."""
    format: str | None = None
    lenient: bool = False
    """Whether malformed lines are skipped."""
    window_ns: int | None = None
    duplicates: str | None = None
    """Operations with equal time stamps: burst or spread."""
    from_ns: int = 0
    for_ns: int | None = None
    devices: tuple[str, ...] | None = None
    offsets: str | None = None
    """How offsets are mapped to the target: wrap, scale or exact."""
    source_bytes: int | None = None
    """Size of the traced device or file, for `scale`."""
    align_bytes: int | None = None
    speed_micro: int | None = None
    v2_wait: str | None = None
    """Unit of the `wait` lines of fio's iolog version 2: us or ms."""
    arrivals: str | None = None
    """The event of blktrace that counts as arrival: queue or issue."""
    stamp_unit_ns: int | None = None
    """Unit of MQSim's timestamps, which the file does not contain."""
    unsafe_methods: bool = False
    """Whether recorded requests other than GET, HEAD and OPTIONS are read."""
    credentials: bool = False
    """Whether recorded requests have their Authorization, Cookie and so on."""


class Trace(
    ReadTrace, frozen=True, tag_field="type", tag="trace", omit_defaults=True, kw_only=True
):
    """Operations of a recorded trace, at their recorded times."""

    name: str | None = None
    window_rows: int | None = None
    delay: Distribution | None = None
    """Added to the time of each operation [ns]."""
    quantize_ns: int | None = None
    """Times are then rounded up to multiples of this."""


class Process(_Filament, frozen=True, tag="process", omit_defaults=True, kw_only=True):
    """A program of the user's that gets events and replies with operations."""

    command: tuple[str, ...]
    directory: str | None = None
    """Where it runs; None: where bw runs."""


class ChainStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a chain: an operation, or the pieces of a transfer."""

    kind: str
    size: Distribution | None = None
    """Bytes of a transfer; None: the whole file."""
    location: Literal["start", "random", "end"] = "start"
    object: Literal["choose", "same"] = "choose"
    """Another object, or that of the step before."""


class Chain(msgspec.Struct, frozen=True):
    """Operations that follow one another, each at the completion of the one before."""

    name: str
    weight: int
    steps: tuple[ChainStep, ...]


class Files(_Filament, frozen=True, tag="files", omit_defaults=True, kw_only=True):
    """Chains of operations on a file set: open with a rate of chains, closed with users."""

    arrival: Arrival | None = None
    rate: Rate | None = None
    count: int | None = None
    users: int | None = None
    think: Distribution | None = None
    piece_bytes: int = 8192
    chains: tuple[Chain, ...]


FilamentPlan = Open | Closed | PartlyOpen | Follow | Tpcb | Spc1 | Files | Trace | Process

OPEN = (Open, PartlyOpen, Trace, Spc1)
"""Filaments whose operations do not wait for others."""


class FileSet(msgspec.Struct, frozen=True, kw_only=True):
    """The directories and files that filaments of type `files` use."""

    seed: int = 1
    max_depth: int = 1
    """Levels of directories; 1: the root of the set alone."""
    directories: Distribution = ConstantValue(0)
    """Sub-directories of each directory above the last level."""
    files: Distribution
    """Files of each directory, those that do not exist at the start included."""
    symlinks: Distribution = ConstantValue(0)
    empty_directories: Distribution = ConstantValue(0)
    file_size: Distribution
    file_popularity: Distribution = ConstantValue(1)
    """The weight by which a file is chosen; 0: never."""
    directory_popularity: Distribution = ConstantValue(1)
    present_micro: int = MICRO
    """Share of the files and empty directories that exist at the start [millionths]."""


def kinds_of(filament: FilamentPlan) -> tuple[str, ...] | None:
    """Return the kinds of a filament's operations; None: a trace or a program decides."""
    match filament:
        case Files():
            return tuple(step.kind for chain in filament.chains for step in chain.steps)
        case Tpcb():
            return ("read", "write", "flush")
        case Spc1():
            return ("read", "write")
        case Trace() | Process():
            return None
    return tuple(kind for kind, _ in filament.access.kinds)


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Filaments, the random seed for all of them, and the files that they use."""

    filaments: tuple[FilamentPlan, ...]
    seed: int
    file_set: FileSet | None = None
