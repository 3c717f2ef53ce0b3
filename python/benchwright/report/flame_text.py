"""A profile in words, for the end of a run, and as an object for `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from benchwright.model.profiled import Profile, TopFunction

_SHOWN = 3


def profile_lines(profile: Profile) -> Iterator[str]:
    """Yield a profile's lines: the busiest functions, what is missing, where the graph is."""
    if not profile.samples:
        yield "profile: no samples: nothing of it was on a processor long enough"
        return
    tops = ", ".join(_top(one) for one in profile.top[:_SHOWN])
    kernel = (
        "the kernel's part could not be seen"
        if profile.user_only
        else f"{100 * profile.kernel_share:.0f} % in the kernel"
    )
    yield f"profile: {tops}; {kernel} ({profile.samples:,} samples)"
    if profile.unknown_share > 0.2:
        yield (
            f"profile: {100 * profile.unknown_share:.0f} % in functions without a name: "
            "install debug symbols, or build with -g -fno-omit-frame-pointer"
        )
    elif profile.alone_share > 0.2:
        yield (
            f"profile: of {100 * profile.alone_share:.0f} % only the innermost function is "
            "known, not what called it: build with -fno-omit-frame-pointer"
        )
    if profile.svg:
        yield f"profile: flame graph {profile.svg}"


def profile_object(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain data for JSON."""
    found: dict[str, Any] = msgspec.to_builtins(profile)
    return found


def _top(one: TopFunction) -> str:
    kernel = " (kernel)" if one.kernel else ""
    return f"{one.name}{kernel} {100 * one.share:.0f} %"
