"""The observer behind `--profile`: perf samples the stacks of the trial and its targets. Its text
becomes samples and folded stacks, and a comparison has difference flame graphs of them.

Decision: perf follows the own tree and the targets (`-p`, inherited by children). Rejected:
a filtered profile of the whole machine, because it needs root and would store the stacks of
other users. perf starts disabled and is enabled through a control pipe that it acknowledges,
so that no early sample is missed. perf chooses the event: cycles, or the CPU clock in guests
without counters. Non-goals: off-CPU time, the kernel's own threads. Sources: perf-record(1),
perf-script(1).

Decision: difference flame graphs are drawn once, at the end, from the stacks stored with the
trials: each candidate against the baseline, the first arm. A file that cannot be read or written is
reported; it is not an error.

Decision: read the output of `perf script`, not perf.data: the text format has been stable for
a decade, and perf resolves the names of frames. A frame whose function is unknown is named
after its file, `[dash]`, and consecutive ones are merged: without frame pointers the
unwinder guesses there, and the guesses are not callers.
Sources: perf-script(1); the folded format of the FlameGraph tools.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchwright.core.observation import (
    KERNEL_SUFFIX,
    UNKNOWN_FRAME,
    CpuProfile,
    FoldedStacks,
    Stack,
    StackSample,
    TopFunction,
    Trial,
    profiles_of,
)
from benchwright.core.processes import all_processes, children_of, tree_of
from benchwright.core.untrusted import regular_bytes
from benchwright.features.profile.flame_graph import change_lines, difference_svg, share_changes
from benchwright.study.logs import file_name
from benchwright.watch.observer import ObserverError, Watch, end_child

FIELDS = "comm,pid,tid,time,ip,sym,dso"
"""The fields for `perf script -F` that `samples_of` reads."""
TOP = 10
_HEAD = re.compile(r"^(\S.*?)(?<!\s)\s+(\d+)/(\d+)\s+(\d+)\.(\d{9}):\s*$")
_LEAF = re.compile(
    r"^\s*\S.*?(?<!\s)\s+\d+/(\d+)\s+(\d+)\.(\d{9}):\s+([0-9a-f]+)\s+(\S.*?)(?<!\s)\s+\((.*)\)\s*$"
)
_FRAME = re.compile(r"^\s+([0-9a-f]+)\s+(\S.*?)(?<!\s)\s+\((.*)\)\s*$")
_KERNEL_FROM = 1 << 63
"""The lowest kernel address on every 64-bit Linux."""


def samples_of(lines: Iterable[str]) -> Iterator[StackSample]:
    """Yield the samples in the output of `perf script --ns -F FIELDS`; blank lines separate them."""
    head: re.Match[str] | None = None
    frames: list[str] = []
    for line in lines:
        if not line.strip():
            if head is not None:
                yield _sample(head, frames)
            head, frames = None, []
        elif head is None:
            head = _HEAD.match(line)
        elif (frame := _FRAME.match(line)) is not None:
            frames.append(frame_name(*frame.groups()))
    if head is not None:
        yield _sample(head, frames)


def leaves_of(lines: Iterable[str]) -> dict[tuple[int, int], str]:
    """Return each sample's innermost frame by (thread, time [ns]), from output with `-G`."""
    found = {}
    for line in lines:
        if (match := _LEAF.match(line)) is not None:
            tid, seconds, nanoseconds, *frame = match.groups()
            found[int(tid), int(seconds) * 10**9 + int(nanoseconds)] = frame_name(*frame)
    return found


def is_bare(sample: StackSample) -> bool:
    """Return whether a sample has no frame: perf discards a stack with an impossible frame."""
    return len(sample.stack) == 1


def with_leaves(
    samples: Iterable[StackSample], leaves: Mapping[tuple[int, int], str]
) -> Iterator[StackSample]:
    """Yield the samples; those without a frame get their innermost frame from `leaves`."""
    for sample in samples:
        leaf = leaves.get((sample.tid, sample.at_ns)) if is_bare(sample) else None
        yield (
            sample if leaf is None else msgspec.structs.replace(sample, stack=(*sample.stack, leaf))
        )


def frame_name(address: str, symbol: str, file: str) -> str:
    """Return a frame's name from its address (hexadecimal), symbol and file."""
    kernel = KERNEL_SUFFIX if int(address, 16) >= _KERNEL_FROM else ""
    if symbol != UNKNOWN_FRAME:
        return symbol.replace(";", ":") + kernel
    if file == UNKNOWN_FRAME:
        return UNKNOWN_FRAME + kernel
    return f"[{file.strip('[]').rpartition('/')[2].replace(';', ':')}]{kernel}"


def is_named(frame: str) -> bool:
    """Return whether the function is known, not only its file or nothing."""
    return not frame.removesuffix(KERNEL_SUFFIX).startswith("[")


def _sample(head: re.Match[str], innermost_first: list[str]) -> StackSample:
    name, pid, tid, seconds, nanoseconds = head.groups()
    outer_first = [name.replace(";", ":"), *reversed(innermost_first)]
    return StackSample(
        int(seconds) * 10**9 + int(nanoseconds),
        int(pid),
        int(tid),
        tuple(_guesses_joined(outer_first)),
    )


def _guesses_joined(frames: list[str]) -> Iterator[str]:
    before = ""
    for frame in frames:
        if frame != before or is_named(frame):
            yield frame
        before = frame


def fold(samples: Iterable[StackSample]) -> FoldedStacks:
    """Return the number of samples of each stack."""
    return FoldedStacks(dict(Counter(sample.stack for sample in samples)))


def within(samples: Iterable[StackSample], begin_ns: int, end_ns: int) -> list[StackSample]:
    """Return the samples of a window [CLOCK_MONOTONIC ns], which excludes its end."""
    return [sample for sample in samples if begin_ns <= sample.at_ns < end_ns]


def folded_text(folded: FoldedStacks) -> str:
    """Return one line per stack, `main;read;vfs_read_[k] 12`, in order."""
    ordered = sorted(folded.counts.items())
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in ordered)


def read_folded(text: str, path: str) -> FoldedStacks:
    """Return the stacks in folded text of any tool. Raises ValueError with `PATH:LINE: why`."""
    counts: Counter[Stack] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isascii() or not count.isdigit():
            raise ValueError(f"{path}:{number}: this is not a folded stack such as `main;read 12`")
        counts[tuple(stack.split(";"))] += int(count)
    return FoldedStacks(dict(counts))


def profile_of(folded: FoldedStacks, hertz: int, *, user_only: bool = False) -> CpuProfile:
    """Return the profile: busiest functions, the kernel's share, the share without names."""
    leaves: Counter[str] = Counter()
    for stack, count in folded.counts.items():
        # The first entry is the program's name, not a function.
        leaves[stack[-1] if len(stack) > 1 else UNKNOWN_FRAME] += count
    total = folded.samples
    ordered = sorted(leaves.items(), key=lambda item: (-item[1], item[0]))
    kernel = sum(count for name, count in ordered if name.endswith(KERNEL_SUFFIX))
    unknown = sum(count for name, count in ordered if not is_named(name))
    alone = sum(count for stack, count in folded.counts.items() if len(stack) <= 2)
    return CpuProfile(
        samples=total,
        hertz=hertz,
        kernel_share=kernel / total if total else 0.0,
        unknown_share=unknown / total if total else 0.0,
        alone_share=alone / total if total else 0.0,
        top=tuple(
            TopFunction(
                name.removesuffix(KERNEL_SUFFIX), count, count / total, name.endswith(KERNEL_SUFFIX)
            )
            for name, count in ordered[:TOP]
        ),
        user_only=user_only,
    )


ENOUGH = 20
"""The least number of samples for a separate flame graph of a trial."""
HERTZ = 99
"""Not 100, to avoid sampling in step with periodic work."""
_PATIENCE_S = 20
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_CODE = "profile-unavailable"


class Profiler:
    """An observer (watch/observer.py) that samples a batch's stacks."""

    def __init__(self, hertz: int = HERTZ, perf: str = "perf", paranoid: Path = _PARANOID) -> None:
        self._hertz = hertz
        self._perf = perf
        self.user_only = _user_only(paranoid)
        """Whether this user may sample only user space."""
        self._recording: _Recording | None = None
        self._watch: Watch | None = None
        self.samples: list[StackSample] = []
        """Samples of the last batch."""

    def begin(self, watch: Watch) -> None:
        """Start sampling. Raises ObserverError `profile-unavailable`."""
        self.close()
        self.samples = []
        pids = sorted(tree_of([watch.root_pid, *watch.target_pids], all_processes()))
        data = watch.directory / f"{watch.stem}.perf"
        self._recording = _Recording(self._program(), self._hertz, pids, data)
        self._watch = watch
        try:
            self._recording.switch_on()
        except ObserverError:
            self.close()
            raise

    def end(self) -> None:
        """Stop perf and read the samples. Raises ObserverError `profile-unavailable`."""
        recording, self._recording = self._recording, None
        if recording is not None:
            try:
                recording.finish()
                self.samples = _read(self._program(), recording.data)
            finally:
                recording.discard()

    def close(self) -> None:
        """Stop perf if it still runs, and remove its data."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.discard()

    def profiles(self, windows: Sequence[tuple[int, int, int]]) -> list[tuple[int, CpuProfile]]:
        """Return each trial's profile, by epoch, and write its stacks and its flame graph.

        `windows`: (epoch, begin, end) of the last batch's trials, CLOCK_MONOTONIC [ns].
        If a trial has fewer than ENOUGH samples, the whole batch shares one. Raises OSError.
        """
        parts = [within(self.samples, begin, end) for _, begin, end in windows]
        if not any(parts):
            return []
        epochs = [window[0] for window in windows]
        if min(len(part) for part in parts) < ENOUGH:
            together = [sample for part in parts for sample in part]
            profile = self._kept(fold(together), "", (epochs[0], epochs[-1]))
            return [(epoch, profile) for epoch in epochs]
        several = len(epochs) > 1
        return [
            (epoch, self._kept(fold(part), f"+{epoch}" if several else "", (epoch,) * 2))
            for epoch, part in zip(epochs, parts, strict=True)
        ]

    def _kept(self, folded: FoldedStacks, which: str, epochs: tuple[int, int]) -> CpuProfile:
        assert self._watch is not None, "a batch was started"
        directory, stem = self._watch.directory, f"{self._watch.stem}{which}"
        stacks, picture = directory / f"{stem}.folded", directory / f"{stem}.svg"
        stacks.write_text(folded_text(folded))
        from benchwright.features.profile.flame_graph import flame_svg

        picture.write_text(flame_svg(folded, stem))
        # Relative to the study, like the sampler's series.
        study = directory.parent.parent
        return msgspec.structs.replace(
            profile_of(folded, self._hertz, user_only=self.user_only),
            folded=str(stacks.relative_to(study)),
            svg=str(picture.relative_to(study)),
            epochs=epochs,
        )

    def _program(self) -> str:
        found = shutil.which(self._perf)
        if found is None:
            what = "perf is not installed (Debian: apt install linux-perf)"
            raise ObserverError(_CODE, what)
        return found


# -- The profiler of a search's loads: the server and its generator, without `bw` itself.
#
# Decision: perf follows `bw` and everything below it, since `bw` itself starts a load engine;
# the samples of `bw` itself are removed afterwards. Otherwise a policy that computes while a load
# runs would appear in the server's flame graph.


class LoadProfiler(Profiler):
    """A profiler that keeps only the samples of the server and its generator."""

    def __init__(self) -> None:
        super().__init__()
        self._own: frozenset[int] = frozenset()

    def begin(self, watch: Watch) -> None:
        """Start sampling. Raises ObserverError `profile-unavailable`."""
        # Before a load the only children are the launcher and the sampler; a server that
        # already runs is a child of the launcher.
        children = (child.pid for child in children_of(watch.root_pid))
        self._own = frozenset((*watch.watcher_pids, *children))
        super().begin(watch)

    def end(self) -> None:
        """Stop sampling and read the samples. Raises ObserverError `profile-unavailable`."""
        super().end()
        self.samples = [sample for sample in self.samples if sample.pid not in self._own]


class _Recording:
    """One `perf record` and its control pipes."""

    def __init__(self, perf: str, hertz: int, pids: list[int], data: Path) -> None:
        self.data = data
        control, self._control = os.pipe()
        self._answers, answers = os.pipe()
        command = [
            *_dies_with_us(),
            *(perf, "record", "-q", "-B", "-N", "-g", "-F", str(hertz)),
            *("-k", "CLOCK_MONOTONIC", "-o", str(data)),
            *("-D", "-1", f"--control=fd:{control},{answers}"),
            *("-p", ",".join(map(str, pids))),
        ]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(control, answers),
                start_new_session=True,
                umask=0o077,
            )
        finally:
            os.close(control)
            os.close(answers)

    def switch_on(self) -> None:
        """Start sampling and wait until perf confirms it. Raises ObserverError."""
        # If perf has already died, the missing answer shows it below.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, b"enable\n")
        ready, _, _ = select.select([self._answers], [], [], _PATIENCE_S)
        if not ready or not os.read(self._answers, 64).startswith(b"ack"):
            raise self._refused("perf record does not start")

    def finish(self) -> None:
        """Stop the recording and wait until its file is complete. Raises ObserverError."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self._refused("perf record does not stop") from None
        if not self.data.exists():
            raise self._refused("perf record wrote no data")

    def discard(self) -> None:
        """Stop perf and remove its data."""
        end_child(self._process)
        for pipe in (self._control, self._answers):
            with contextlib.suppress(OSError):
                os.close(pipe)
        for left in (self.data, self.data.with_name(f"{self.data.name}.old")):
            left.unlink(missing_ok=True)

    def _refused(self, what: str) -> ObserverError:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None, "it is a pipe"
        text = self._process.stderr.read().decode(errors="replace")
        return ObserverError(_CODE, f"{what}: {_reason(text)}")


def _read(perf: str, data: Path) -> list[StackSample]:
    """Return the samples in perf's data file. Raises ObserverError."""
    samples = list(samples_of(_stderr_text(perf, data)))
    if not any(map(is_bare, samples)):
        return samples
    return list(with_leaves(samples, leaves_of(_stderr_text(perf, data, "-G"))))


def _stderr_text(perf: str, data: Path, *options: str) -> Iterator[str]:
    """Yield the output of `perf script`, line by line. Raises ObserverError."""
    # No debuginfod (network) and no line numbers of inlined calls: both take minutes.
    quiet = {k: v for k, v in os.environ.items() if k != "DEBUGINFOD_URLS"}
    command = [perf, "script", "--no-inline", "--ns", "-F", FIELDS, "-i", str(data)]
    command += options
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=quiet,
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        yield from process.stdout
    if process.returncode:
        raise ObserverError(_CODE, f"perf script ended with {process.returncode}")


def _dies_with_us() -> list[str]:
    """Return a command prefix that ends a program if we are killed; empty without setpriv."""
    found = shutil.which("setpriv")
    return [] if found is None else [found, "--pdeathsig", "TERM", "--"]


def _reason(said: str) -> str:
    """Return perf's first meaningful line of output."""
    lines = (line.strip() for line in said.splitlines())
    words = [line for line in lines if line and line not in ("Error:", "Warning:")]
    return words[0] if words else "it gave no reason"


def _user_only(paranoid: Path) -> bool:
    if os.geteuid() == 0:
        return False
    try:
        return int(paranoid.read_text()) >= 2
    except (OSError, ValueError):
        return False


# -- Reading the stored stacks of trials ------------------------------------------------


def stored_stacks(profiles: Iterable[CpuProfile], study: Path) -> FoldedStacks:
    """Return the stacks of the profiles of trials; a file of several trials counts once.

    Raises OSError, or ValueError for a damaged file.
    """
    files = sorted({profile.folded for profile in profiles if profile.folded})
    together: Counter[Stack] = Counter()
    for file in files:
        together.update(read_folded(regular_bytes(study / file).decode(), file).counts)
    return FoldedStacks(dict(together))


Arm = tuple[str, Sequence[Trial]]


def difference_lines(arms: Sequence[Arm], study: Path, session: int) -> Iterator[str]:
    """Write `watched/sN/difference-ARM.svg` of each candidate, and yield the lines to print.

    `arms`: names and trials, the baseline first. No output unless the baseline and a candidate were
    profiled.
    """
    if len(arms) < 2:
        return
    baseline, *candidates = arms
    for candidate in candidates:
        try:
            yield from _difference((baseline, candidate), study, session)
        except (OSError, ValueError) as why:
            yield f"profile: no difference of {candidate[0]}: {why}"


def _difference(arms: tuple[Arm, Arm], study: Path, session: int) -> Iterator[str]:
    before, after = (stored_stacks(profiles_of(trials), study) for _, trials in arms)
    if not before.counts or not after.counts:
        return
    names = arms[0][0], arms[1][0]
    file = Path("watched", f"s{session}", f"difference-{file_name(names[1])}.svg")
    (study / file).write_text(difference_svg(before, after, names))
    found = list(change_lines(share_changes(before, after)))
    for line in found or ["no function's share differs beyond the noise"]:
        yield f"{names[1]} against {names[0]}: {line}"
    yield f"{names[1]} against {names[0]}: difference flame graph {file}"
