"""perf's text -> samples -> folded stacks, and folded text both ways. Pure.

Decision: `perf script` is read, not perf.data: the format of the text has been the same for
a decade, and perf knows how to name frames. A frame whose function has no name is called
after its file, `[dash]`; several in a row are one: without frame pointers what the
unwinder finds there are no callers, and a tower of guesses would look like knowledge.
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
"""What `perf script -F` is asked for; `samples_of` reads these."""
TOP = 10
_HEAD = re.compile(r"^(\S.*?)\s+(\d+)/(\d+)\s+(\d+)\.(\d{9}):\s*$")
_LEAF = re.compile(
    r"^\s*\S.*?\s+\d+/(\d+)\s+(\d+)\.(\d{9}):\s+([0-9a-f]+)\s+(.*?)\s+\((.*)\)\s*$"
)
_FRAME = re.compile(r"^\s+([0-9a-f]+)\s+(.*?)\s+\((.*)\)\s*$")
_KERNEL_FROM = 1 << 63
"""Addresses from here on are the kernel's on every 64-bit Linux."""


def samples_of(lines: Iterable[str]) -> Iterator[StackSample]:
    """Yield the samples in the output of `perf script --ns -F FIELDS`; a blank line ends one."""
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
    """Return where each sample was, by (thread, time [ns]); from the same without stacks (`-G`)."""
    found = {}
    for line in lines:
        if (match := _LEAF.match(line)) is not None:
            tid, seconds, nanoseconds, *frame = match.groups()
            found[int(tid), int(seconds) * 10**9 + int(nanoseconds)] = frame_name(
                *frame
            )
    return found


def is_bare(sample: StackSample) -> bool:
    """Return whether a sample has no frame: perf throws a stack with an impossible one away."""
    return len(sample.stack) == 1


def with_leaves(
    samples: Iterable[StackSample], leaves: Mapping[tuple[int, int], str]
) -> Iterator[StackSample]:
    """Yield the samples, those without a frame with the one where they were."""
    for sample in samples:
        leaf = leaves.get((sample.tid, sample.at_ns)) if is_bare(sample) else None
        yield (
            sample
            if leaf is None
            else msgspec.structs.replace(sample, stack=(*sample.stack, leaf))
        )


def frame_name(address: str, symbol: str, file: str) -> str:
    """Return what a frame is called, from its address (hexadecimal), symbol and file."""
    kernel = KERNEL_SUFFIX if int(address, 16) >= _KERNEL_FROM else ""
    if symbol != UNKNOWN_FRAME:
        return symbol.replace(";", ":") + kernel
    if file == UNKNOWN_FRAME:
        return UNKNOWN_FRAME + kernel
    return f"[{file.strip('[]').rpartition('/')[2].replace(';', ':')}]{kernel}"


def is_named(frame: str) -> bool:
    """Return whether the function is known, not only its file or not even that."""
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
    """Return how many of the samples each stack has."""
    return FoldedStacks(dict(Counter(sample.stack for sample in samples)))


def within(
    samples: Iterable[StackSample], begin_ns: int, end_ns: int
) -> list[StackSample]:
    """Return the samples of a window [CLOCK_MONOTONIC ns], its end not included."""
    return [sample for sample in samples if begin_ns <= sample.at_ns < end_ns]


def folded_text(folded: FoldedStacks) -> str:
    """Return a line for each stack, `main;read;vfs_read_[k] 12`, in order."""
    ordered = sorted(folded.counts.items())
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in ordered)


def read_folded(text: str, path: str) -> FoldedStacks:
    """Return what `folded_text` wrote, or another tool. Raises ValueError, `PATH:LINE: why`."""
    counts: Counter[Stack] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isascii() or not count.isdigit():
            raise ValueError(
                f"{path}:{number}: this is not a folded stack such as `main;read 12`"
            )
        counts[tuple(stack.split(";"))] += int(count)
    return FoldedStacks(dict(counts))


def profile_of(
    folded: FoldedStacks, hertz: int, *, user_only: bool = False
) -> CpuProfile:
    """Return what the stacks say: the busiest functions, the kernel's share, what has no name."""
    leaves: Counter[str] = Counter()
    for stack, count in folded.counts.items():
        # The first is the program's name, which is no function.
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
                name.removesuffix(KERNEL_SUFFIX),
                count,
                count / total,
                name.endswith(KERNEL_SUFFIX),
            )
            for name, count in ordered[:TOP]
        ),
        user_only=user_only,
    )
