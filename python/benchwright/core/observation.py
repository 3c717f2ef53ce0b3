"""What a trial recorded: processes, measurement blocks, and a CPU profile."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

import msgspec

from benchwright.core.plan import Pairs, ReplicatePath
from benchwright.core.resource_use import ResourceUse

# --------------------------------------------------------------------------------------
# Where CPU time went: stacks with their samples, and what follows from them.
#
# Decision: a profile is a table of stacks, root first, with the number of samples of each; a flame
# graph, the busiest functions and a difference of two arms are all functions of it. Frames
# of the kernel end in `_[k]`, as in the folded format that other tools read. Source: Gregg,
# The Flame Graph, CACM 59(6), 2016.

KERNEL_SUFFIX = "_[k]"
"""Ends the name of a frame that ran in the kernel."""
UNKNOWN_FRAME = "[unknown]"
"""A frame of which not even the file is known."""

Stack = tuple[str, ...]
"""Frames from the outermost to the one that ran; the first is the program's name."""


class StackSample(msgspec.Struct, frozen=True):
    """One sample: when, of whom, and where it was."""

    at_ns: int
    """CLOCK_MONOTONIC [ns]."""
    pid: int
    tid: int
    stack: Stack


class FoldedStacks(msgspec.Struct, frozen=True):
    """How many samples each stack has."""

    counts: dict[Stack, int]

    @property
    def samples(self) -> int:
        """Return the samples of all stacks together."""
        return sum(self.counts.values())


class TopFunction(msgspec.Struct, frozen=True):
    """One function, by the time in it alone, not in what it calls."""

    name: str
    samples: int
    share: float
    """Of all samples."""
    kernel: bool = False


class CpuProfile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a profile says, for findings and reports; the stacks are in its file."""

    samples: int
    hertz: int
    """Requested samples per second of CPU time."""
    kernel_share: float
    """Of the samples that were in the kernel; 0 with `user_only`."""
    unknown_share: float
    """Of the samples whose innermost frame has no name: symbols are missing."""
    top: tuple[TopFunction, ...] = ()
    """Busiest first; at most 10."""
    folded: str = ""
    """The file of the stacks, relative to the study."""
    svg: str = ""
    """The flame graph, relative to the study."""
    user_only: bool = False
    """The kernel's part was unavailable (kernel.perf_event_paranoid)."""
    epochs: tuple[int, int] | None = None
    """First and last trial that were profiled together; None: not distinguished."""
    alone_share: float = 0.0
    """Of the samples of which only the innermost function is known, not what called it."""


# -- What was recorded: processes, measurement blocks, trials ---------------------------
#
# Times are integer nanoseconds from the launcher; Python never measures a trial.
# Sources: wait4(2), getrusage(2); Auto-pilot paper, section 3.2 for blocks.


class TrialEnding(enum.StrEnum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    """A command of SETUP, EXEC or CLEANUP exited with a status that means failure."""
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    """Cut short by the user or by the end of the launcher: void, never counted."""


FAILED_ENDINGS = (TrialEnding.FAILED, TrialEnding.TIMEOUT)
"""How a trial ended whose benchmark failed."""


class ProcessRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process that the launcher started and waited for (wait4)."""

    mode: str
    index: int
    """Position in its mode's list of commands, from 0."""
    thread: int
    """1..N for EXEC, 0 for commands that run once."""
    status: int
    """Exit status; 128 + signal when ended by one; 127 when it could not be started."""
    elapsed_ns: int
    """From just before execve to the wake-up of wait4 [ns], CLOCK_MONOTONIC."""
    user_us: int
    system_us: int
    rss_bytes: int
    """Peak resident size, never below the launcher's own floor."""
    minor_faults: int = 0
    major_faults: int = 0
    in_blocks: int = 0
    """Block input operations of 512 bytes (ru_inblock)."""
    out_blocks: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    start_ns: int = 0
    """CLOCK_MONOTONIC at execve [ns]."""
    out: tuple[int, int] = (0, 0)
    """Offset and length of its stdout in the log file of its mode and thread [bytes]."""
    err: tuple[int, int] = (0, 0)
    out_bytes: int | None = None
    """What it wrote to stdout [bytes]. Where that is more than what is stored, the stored part is
    the first and the last half. None: as much as is stored (studies of earlier versions)."""
    err_bytes: int | None = None
    packed: bool = False
    """Whether `out` and `err` are gzip members of the log files' `.gz`."""
    error: str = ""
    """Why it could not be started; empty otherwise."""

    def failed(self, ok_status: Collection[int]) -> bool:
        """Return whether it failed; an EXEC command succeeds with each of these exit statuses."""
        accepted = ok_status if self.mode == "EXEC" else (0,)
        return bool(self.error) or self.status not in accepted


class MeasurementBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measurement block: the row that a command contributed to a trial."""

    thread: int
    """1..N; 0 where the source does not say."""
    epoch: int
    """1..; rows of a source without epochs are numbered in order."""
    command: str
    status: int
    """Exit status; 128 + signal. 0 where the source does not say, another number with a `failure`.
    """
    values: dict[str, float]
    """Everything measured: `elapsed`, `user`, `system` [s], `rss_bytes`, faults,
    switches, hooks' and scripts' `name = value`. Absent is not zero: a value that a
    source does not give is not in the mapping."""
    name: str = "measurement"
    failure: str = ""
    """Why it failed, in the words of a tool that states it without an exit status."""

    def failed(self, ok_status: Collection[int]) -> bool:
        """Return whether it failed; it succeeds with each of these exit statuses."""
        return bool(self.failure) or self.status not in ok_status


class ErrorText(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of what a failed command wrote to stderr, to stdout where that is empty."""

    lines: tuple[str, ...]
    """The last few, as they are: control characters are in them."""
    file: str
    """Where all stored output is, in the study."""


class MissingMetric(msgspec.Struct, frozen=True):
    """A requested metric that a thread did not yield. It is stored as a line, `name (thread K): why`,
    which exports contain too."""

    metric: str
    thread: str = ""
    why: str = ""

    @classmethod
    def stored(cls, line: str) -> MissingMetric:
        """Return what a stored line says."""
        metric, _, rest = line.partition(_OF_THREAD)
        thread, _, why = rest.partition("): ")
        return cls(metric, thread, why)

    @property
    def line(self) -> str:
        """The form in which it is stored."""
        return f"{self.metric}{_OF_THREAD}{self.thread}): {self.why}"


_OF_THREAD = " (thread "


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """One epoch of one test, as it is stored in the journal."""

    test: str
    epoch: int
    threads: int
    ending: TrialEnding
    started_ns: int
    """Wall-clock start, CLOCK_REALTIME [ns since 1970]."""
    duration_ns: int
    """SETUP to CLEANUP [ns]."""
    blocks: tuple[MeasurementBlock, ...] = ()
    """In order of thread, then of appearance."""
    extra_blocks: tuple[dict[str, str], ...] = ()
    """Whole blocks that hooks printed in `final`; each has its `[name]` under ''. """
    processes: tuple[ProcessRecord, ...] = ()
    missing: tuple[str, ...] = ()
    """Requested metrics that this trial did not yield, as lines of `MissingMetric`."""
    left_running: int = 0
    """Processes that had to be ended after the trial because they outlived it."""
    not_permitted: int = 0
    """Processes that still run after the trial, because they belong to another user."""
    release_skew_ns: int = 0
    """Last minus first start of the N threads [ns]."""
    attempt: int = 1
    warmup: bool = False
    """Run to warm the machine up: stored, but in no figure."""
    use: ResourceUse | None = None
    """Use of the machine: in the first of the trials that were sampled together."""
    profile: CpuProfile | None = None
    """Where CPU time went; trials of few samples share one."""
    error_text: ErrorText | None = None
    """Of a trial that failed."""
    path: ReplicatePath = ()
    """The replicate in which it ran; empty without levels of replication."""
    drawn: Pairs = ()
    """Inputs that were drawn for it, by name."""
    made_ns: tuple[int, ...] = ()
    """What it took to make each replicate that was made for it, as in its setting [ns]."""


def profiles_of(trials: Iterable[Trial]) -> tuple[CpuProfile, ...]:
    """Return the profiles of trials, without those of warm-up trials."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    return tuple(profile for profile in profiles if profile is not None)
