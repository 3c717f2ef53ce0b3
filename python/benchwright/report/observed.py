"""Profiles and characterizations of trials and searches, as text and for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.observation import CpuProfile, TopFunction, Trial
from benchwright.core.plan import CommandMode
from benchwright.core.text import percent_text, plural
from benchwright.core.untrusted import visible
from benchwright.feature import observers, recorded_by
from benchwright.report.documents import entry

# -- A profile as lines, for the end of a run ------------------------------------------

_SHOWN = 3


def profile_lines(profile: CpuProfile) -> Iterator[str]:
    """Yield a profile's lines: the busiest functions, missing information, the graph's path."""
    if not profile.samples:
        yield "profile: no samples: it did not run on a CPU long enough"
        return
    tops = ", ".join(_top(one) for one in profile.top[:_SHOWN])
    kernel = (
        "the kernel's share is not visible"
        if profile.user_only
        else f"{percent_text(profile.kernel_share)} in the kernel"
    )
    yield f"profile: {tops}; {kernel} ({plural(profile.samples, 'sample')})"
    if profile.unknown_share > 0.2:
        yield (
            f"profile: {percent_text(profile.unknown_share)} in functions without a name: "
            "install debug symbols, or build with -g -fno-omit-frame-pointer"
        )
    elif profile.alone_share > 0.2:
        yield (
            f"profile: of {percent_text(profile.alone_share)} only the innermost function is "
            "known, not what called it: build with -fno-omit-frame-pointer"
        )
    if profile.svg:
        yield f"profile: flame graph {profile.svg}"


def _top(top_function: TopFunction) -> str:
    kernel = " (kernel)" if top_function.kernel else ""
    return f"{top_function.name}{kernel} {percent_text(top_function.share)}"


# --------------------------------------------------------------------------------------
# What the profiler and characterization measured of a test.

_TOP = 10


def observed_lines(
    name: str, trials: Sequence[Trial], recorded: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a test's lines: its combined profile, then those of what observers recorded of it
    (`recorded_by`); or none.

    Unprintable characters are escaped, because any program can name its functions.
    """
    yield from map(visible, _test_lines(name, trials, recorded))


class ProfileEntry(CpuProfile, frozen=True, kw_only=True, omit_defaults=True):
    """The profile of a trial. A test's trial has `epoch`; a search's trial has the members
    from `trial` to `next_to_answer`. Members with default values are left out."""

    epoch: int | UnsetType = UNSET
    trial: int | UnsetType = UNSET
    sample: dict[str, str] | UnsetType = UNSET
    load: float | UnsetType = UNSET
    """The rate [1/s], or the number of users."""
    next_to_answer: bool | UnsetType = UNSET


class _Profiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    profiles: tuple[ProfileEntry, ...] = ()


if TYPE_CHECKING:

    class ObservedEntry(_Profiles, frozen=True, kw_only=True, omit_defaults=True):
        """What was observed of a test: the profiles of its trials, and a member for each kind of
        observer that recorded something of it. Members are present only where they exist."""

else:
    ObservedEntry = msgspec.defstruct(
        "ObservedEntry",
        [
            (observer.record, observer.record_type() | None, None)
            for observer in observers()
            if observer.record
        ],
        bases=(_Profiles,),
        namespace={
            "__doc__": "Profiles and characterization of a test; members are present only where "
            "they exist."
        },
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )


def observed_entry(trials: Sequence[Trial], recorded: Mapping[str, Any]) -> ObservedEntry | None:
    """Return every trial's profile and what observers recorded of the test; None if there are
    none."""
    profiles = tuple(
        ProfileEntry(epoch=trial.epoch, **msgspec.structs.asdict(trial.profile))
        for trial in trials
        if trial.profile is not None
    )
    if not profiles and not recorded:
        return None
    return ObservedEntry(profiles=profiles, **recorded)


def _test_lines(name: str, trials: Sequence[Trial], recorded: Mapping[str, Any]) -> Iterator[str]:
    for line in _profile_lines(_profiles(trials)):
        yield f"{name}: {line}"
    for kind, record in recorded_by(recorded):
        lines = kind.lines(record)
        yield f"{name}: {next(lines)}"
        yield from lines


def _profiles(trials: Sequence[Trial]) -> list[CpuProfile]:
    """Return the profiles of trials that count; a profile that a batch shares appears once."""
    found = (trial.profile for trial in trials if not trial.warmup)
    return list(dict.fromkeys(one for one in found if one is not None))


def _profile_lines(profiles: Sequence[CpuProfile]) -> Iterator[str]:
    if len(profiles) < 2:
        for profile in profiles:
            yield from profile_lines(profile)
        return
    yield from profile_lines(_combined(profiles))
    graphs = [profile.svg for profile in profiles if profile.svg]
    if graphs:
        which = graphs[0] if len(graphs) == 1 else f"{graphs[0]} to {graphs[-1]}"
        yield f"profile: {plural(len(graphs), 'flame graph')} {which}"


def _combined(profiles: Sequence[CpuProfile]) -> CpuProfile:
    """Return several profiles as one, weighted by samples.

    Each profile has only its busiest functions, so a function's share is too low if some
    profile does not list it.
    """
    samples = sum(profile.samples for profile in profiles)
    counts: Counter[tuple[str, bool]] = Counter()
    for profile in profiles:
        counts.update({(top.name, top.kernel): top.samples for top in profile.top})
    return CpuProfile(
        samples,
        profiles[0].hertz,
        _mean_share(profiles, lambda one: one.kernel_share),
        _mean_share(profiles, lambda one: one.unknown_share),
        top=tuple(
            TopFunction(name, count, count / max(samples, 1), kernel)
            for (name, kernel), count in counts.most_common(_TOP)
        ),
        user_only=any(profile.user_only for profile in profiles),
        alone_share=_mean_share(profiles, lambda one: one.alone_share),
    )


def _mean_share(profiles: Sequence[CpuProfile], of: Callable[[CpuProfile], float]) -> float:
    """Return a share of all samples, from that share in each profile."""
    samples = sum(profile.samples for profile in profiles)
    return sum(profile.samples * of(profile) for profile in profiles) / max(samples, 1)


# -- the last lines of a failed command, and the amount of output of every trial --------


class FailureEntry(msgspec.Struct, frozen=True):
    """The last lines of a failed trial's stderr, and the file that has all of it."""

    epoch: int
    file: str
    lines: tuple[str, ...]


class TrialOutput(msgspec.Struct, frozen=True):
    """The amount of output of one trial's EXEC, stored or not."""

    epoch: int
    stdout_bytes: int
    stderr_bytes: int


class OutputEntry(msgspec.Struct, frozen=True):
    """How the output of a test is stored, and its amount per trial."""

    mode: str
    trials: tuple[TrialOutput, ...]


def failure_entry(trial: Trial) -> FailureEntry:
    """Return the last lines of a failed trial's stderr, which must not be empty."""
    error_text = trial.error_text
    assert error_text is not None
    return entry(FailureEntry, error_text, epoch=trial.epoch)


def output_entry(mode: str, trials: Sequence[Trial]) -> OutputEntry | None:
    """Return the bytes that EXEC wrote, by trial and stream; None if no trial is known to
    have written anything."""
    if not any(p.out_bytes or p.err_bytes for t in trials for p in t.processes):
        return None
    return OutputEntry(mode, tuple(map(_trial_output, trials)))


def _trial_output(trial: Trial) -> TrialOutput:
    executed = [p for p in trial.processes if p.mode == CommandMode.EXEC]
    return TrialOutput(
        trial.epoch,
        sum(p.out_bytes or 0 for p in executed),
        sum(p.err_bytes or 0 for p in executed),
    )
