"""Converts perf's text to samples and folded stacks; reads and writes folded text. Pure.

Decision: read the output of `perf script`, not perf.data: the text format has been stable for
a decade, and perf resolves the names of frames. A frame whose function is unknown is named
after its file, `[dash]`, and consecutive ones are merged: without frame pointers the
unwinder guesses there, and the guesses are not callers.
Sources: perf-script(1); the folded format of the FlameGraph tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from benchwright.core.observation import (
    KERNEL_SUFFIX,
    UNKNOWN_FRAME,
    CpuProfile,
    FoldedStacks,
    Stack,
    StackSample,
    TopFunction,
)

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
