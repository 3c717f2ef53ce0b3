"""Folding: perf's text as it comes, and folded text there and back."""

from __future__ import annotations

import pytest

from benchwright.core.observation import FoldedStacks, StackSample
from benchwright.features.profile.profiler import (
    fold,
    folded_text,
    leaves_of,
    profile_of,
    read_folded,
    samples_of,
    with_leaves,
    within,
)

TEXT = """\
dd 30020/30020 60477.868690208: \n\tffffffff821eab66 do_syscall_64 ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t           f82ad read (/usr/lib/x86_64-linux-gnu/libc.so.6)

Web Content 7/9     1.000000001: \n\t            aed2 [unknown] (/usr/bin/dash)
\t    55d3ad442c50 [unknown] ([unknown])
\t    55d3ad442c48 [unknown] ([unknown])
\t            1234 operator new(unsigned long) (/usr/lib/a (deleted))

swapper 0/0     2.000000000: \n"""


def test_samples_are_read_outermost_first() -> None:
    samples = list(samples_of(TEXT.splitlines(keepends=True)))
    assert samples == [
        StackSample(
            60477868690208,
            30020,
            30020,
            ("dd", "read", "entry_SYSCALL_64_after_hwframe_[k]", "do_syscall_64_[k]"),
        ),
        StackSample(
            1_000_000_001,
            7,
            9,
            ("Web Content", "operator new(unsigned long)", "[unknown]", "[dash]"),
        ),
        StackSample(2_000_000_000, 0, 0, ("swapper",)),
    ]


def test_a_window_has_its_beginning_and_not_its_end() -> None:
    samples = [StackSample(at, 1, 1, ("a",)) for at in (9, 10, 19, 20)]
    assert [one.at_ns for one in within(samples, 10, 20)] == [10, 19]


def test_folded_text_there_and_back() -> None:
    folded = fold(samples_of(TEXT.splitlines()))
    assert read_folded(folded_text(folded), "x") == folded
    assert folded.samples == 3


@pytest.mark.parametrize("line", ["main;read", "main x", " 3", "12"])
def test_what_is_no_folded_line_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(ValueError, match=r"^x:2: this is not a folded stack"):
        read_folded(f"a 1\n{line}\n", "x")


def test_a_profile_counts_the_innermost_frames() -> None:
    counts = {("a", "b", "c"): 6, ("a", "c"): 2, ("a", "k_[k]"): 1, ("a", "[dash]"): 1}
    profile = profile_of(FoldedStacks(counts), 99)
    assert [(top.name, top.samples, top.kernel) for top in profile.top] == [
        ("c", 8, False),
        ("[dash]", 1, False),
        ("k", 1, True),
    ]
    assert (profile.samples, profile.kernel_share, profile.unknown_share) == (10, 0.1, 0.1)


def test_a_profile_of_nothing_has_no_shares_to_divide() -> None:
    assert profile_of(FoldedStacks({}), 99).top == ()


BARE = "bonnie++ 7/9     2.000000005: \n\n"
LEAVES = """\
        bonnie++ 7/9     2.000000005:      7fe852516350 write (/usr/lib/libc.so.6)
Web Content 7/8     1.000000001:  ffffffff821eab66 do_syscall_64 ([kernel.kallsyms])
"""


def test_a_stack_that_perf_throws_away_keeps_where_it_was() -> None:
    """An impossible return address makes perf print no frame at all."""
    leaves = leaves_of(LEAVES.splitlines(keepends=True))
    assert leaves[8, 1_000_000_001] == "do_syscall_64_[k]"
    [bare, *others] = with_leaves(samples_of((BARE + TEXT).splitlines()), leaves)
    assert bare.stack == ("bonnie++", "write")
    assert others == list(samples_of(TEXT.splitlines()))
    profile = profile_of(fold([bare]), 99)
    assert (profile.top[0].name, profile.alone_share) == ("write", 1.0)


def test_a_program_is_no_function() -> None:
    profile = profile_of(FoldedStacks({("a",): 3}), 99)
    assert (profile.top[0].name, profile.unknown_share) == ("[unknown]", 1.0)
