"""What observers beside the sampler saw of a test: its busiest functions, its I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchwright.finding.words import counted
from benchwright.model.characterized import Characterized
from benchwright.model.observation import Trial
from benchwright.model.profiled import Profile, TopFunction
from benchwright.model.visible import visible
from benchwright.report.characterize import characterize_lines, characterize_object
from benchwright.report.flame_text import profile_lines, profile_object

_TOP = 10


def observed_lines(
    name: str, trials: Sequence[Trial], characterized: Characterized | None
) -> Iterator[str]:
    """Yield the lines of a test: its profiles as one, the characterized trial; or none.

    What is not printable is escaped: names of functions are from anywhere.
    """
    yield from map(visible, _lines(name, trials, characterized))


def observed_object(
    trials: Sequence[Trial], characterized: Characterized | None
) -> dict[str, Any]:
    """Return the same for JSON: every trial's profile; fields only where there is one."""
    profiles = {
        trial.epoch: profile_object(trial.profile)
        for trial in trials
        if trial.profile is not None
    }
    found: dict[str, Any] = {}
    if profiles:
        found["profiles"] = [{"epoch": n, **one} for n, one in profiles.items()]
    if characterized is not None:
        found["characterized"] = characterize_object(characterized)
    return found


def _lines(
    name: str, trials: Sequence[Trial], characterized: Characterized | None
) -> Iterator[str]:
    for line in _profile_lines(_profiles(trials)):
        yield f"{name}: {line}"
    if characterized is not None:
        yield from _headed(name, characterize_lines(characterized))


def _profiles(trials: Sequence[Trial]) -> list[Profile]:
    """Return the profiles of trials that count; one that a batch shares is taken once."""
    found = (trial.profile for trial in trials if not trial.warmup)
    return list(dict.fromkeys(one for one in found if one is not None))


def _profile_lines(profiles: Sequence[Profile]) -> Iterator[str]:
    if len(profiles) < 2:
        for one in profiles:
            yield from profile_lines(one)
        return
    yield from profile_lines(_together(profiles))
    graphs = [one.svg for one in profiles if one.svg]
    if graphs:
        which = graphs[0] if len(graphs) == 1 else f"{graphs[0]} to {graphs[-1]}"
        yield f"profile: {counted(len(graphs), 'flame graph')} {which}"


def _together(profiles: Sequence[Profile]) -> Profile:
    """Return several profiles as one, each sample counting once.

    Of each only the busiest functions are known, so that a function's share is too low by
    those profiles in which it is not among them.
    """
    samples = sum(one.samples for one in profiles)
    counts: Counter[tuple[str, bool]] = Counter()
    for one in profiles:
        counts.update({(top.name, top.kernel): top.samples for top in one.top})
    return Profile(
        samples,
        profiles[0].hertz,
        _share(profiles, lambda one: one.kernel_share),
        _share(profiles, lambda one: one.unknown_share),
        top=tuple(
            TopFunction(name, count, count / max(samples, 1), kernel)
            for (name, kernel), count in counts.most_common(_TOP)
        ),
        user_only=any(one.user_only for one in profiles),
        alone_share=_share(profiles, lambda one: one.alone_share),
    )


def _share(profiles: Sequence[Profile], of: Callable[[Profile], float]) -> float:
    """Return the share of all their samples, from the share of each one's."""
    samples = sum(one.samples for one in profiles)
    return sum(one.samples * of(one) for one in profiles) / max(samples, 1)


def _headed(name: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{name}: {next(lines)}"
    yield from lines
