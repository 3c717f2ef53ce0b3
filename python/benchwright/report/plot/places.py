"""Where each test stands on the horizontal axis.

Purpose: a line chart of `reiserfs:*.res` has the number of threads along its axis
without being told. What varies is looked for in this order: the factor that `-x` names;
the only factor of the samples that varies within a series; the number of threads; the
only number in the tests' names that varies within a series. Else every test is a
category of its own. Decision: nothing is guessed where two things vary; a chart with a
category for each test is honest, one with points on top of each other is not.
Source: Auto-pilot paper, section 3.4, Figure 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from benchwright.model.errors import Diagnostic
from benchwright.model.quantity import parse_size_bytes
from benchwright.report.plot.source import Group, Source

THREADS = "threads"
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_SIZE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?\s*[KMGTkmgt](?:i?[Bb])?")


class Place(msgspec.Struct, frozen=True):
    """Where one test stands."""

    label: str
    number: float | None = None


class Places(msgspec.Struct, frozen=True):
    """Where all tests stand: one tuple per group, in the groups' order."""

    factor: str
    """What varies; empty where each test is its own category."""
    groups: tuple[tuple[Place, ...], ...]

    @property
    def numeric(self) -> bool:
        """Whether every place is a number."""
        return all(p.number is not None for group in self.groups for p in group)


def natural(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key that puts `ext2:4` before `ext2:16`."""
    parts = re.split(r"([0-9]+)", text)
    return [
        (0, float(part[:300]), part) if at % 2 else (1, 0.0, part)
        for at, part in enumerate(parts)
        if part
    ]


def place(
    groups: Sequence[Group], factor: str | None, wrong: list[Diagnostic]
) -> Places:
    """Return where the tests stand; a factor that some test has not is added to `wrong`."""
    if factor is not None:
        _check(groups, factor, wrong)
        return _by_factor(groups, factor)
    if all(source.arm is not None for group in groups for source in group.sources):
        return _by_name(groups)  # commands that are compared, whatever their numbers
    varying = _varying_factors(groups)
    if len(varying) == 1:
        return _by_factor(groups, varying[0])
    if varying:
        return _by_name(groups)
    if any(len({s.threads for s in group.sources}) > 1 for group in groups):
        return _by_factor(groups, THREADS)
    return _by_number(groups) or _by_name(groups)


def level(source: Source, factor: str) -> str | None:
    """Return a test's level of a factor; None where it does not say."""
    for name, value in source.sample:
        if name.lower() == factor.lower():
            return value
    if factor.lower() == THREADS and source.threads is not None:
        return str(source.threads)
    return None


def number_of(text: str) -> float | None:
    """Return `16`, `0.5` or `4k` as a number (sizes in bytes), or None."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    return float(parse_size_bytes(text)) if _SIZE.fullmatch(text.strip()) else None


def _check(groups: Sequence[Group], factor: str, wrong: list[Diagnostic]) -> None:
    sources = [source for group in groups for source in group.sources]
    without = [source for source in sources if level(source, factor) is None]
    if without:
        names = {name for source in sources for name, _ in source.sample} | {THREADS}
        message = f"{without[0].title} has no factor {factor!r}"
        hint = "there are: " + ", ".join(sorted(names))
        wrong.append(Diagnostic("bad-argument", message, hint, "-x", text=factor))


def _varying_factors(groups: Sequence[Group]) -> list[str]:
    """Return the factors with more than one level within some series."""
    names = dict.fromkeys(n for g in groups for s in g.sources for n, _ in s.sample)
    return [
        name
        for name in names
        if any(len({level(s, name) for s in group.sources}) > 1 for group in groups)
        and all(level(s, name) is not None for g in groups for s in g.sources)
    ]


def _by_factor(groups: Sequence[Group], factor: str) -> Places:
    def placed(source: Source) -> Place:
        text = level(source, factor) or source.title
        return Place(text, number_of(text))

    sources = [source for group in groups for source in group.sources]
    same = all(level(s, factor) == level(s, THREADS) for s in sources)
    return Places(
        THREADS if same else factor,
        tuple(tuple(map(placed, group.sources)) for group in groups),
    )


def _by_number(groups: Sequence[Group]) -> Places | None:
    """Return places by the one number in the names that varies; None if there is none."""
    places = {_varying_number(g.sources) for g in groups if len(g.sources) > 1}
    if len(places) != 1 or None in places:
        return None
    (from_end,) = places
    assert from_end is not None
    numbers = [[_NUMBER.findall(s.title) for s in g.sources] for g in groups]
    if any(len(found) < from_end for group in numbers for found in group):
        return None
    return Places(
        "",
        tuple(
            tuple(Place(found[-from_end], float(found[-from_end])) for found in group)
            for group in numbers
        ),
    )


def _varying_number(sources: Sequence[Source]) -> int | None:
    """Return which number of the names varies, counted from the end, if it is one only."""
    if len({_NUMBER.sub("#", source.title) for source in sources}) != 1:
        return None
    numbers = [_NUMBER.findall(source.title) for source in sources]
    varying = [
        at
        for at, column in enumerate(zip(*numbers, strict=True))
        if len(set(column)) > 1
    ]
    return len(numbers[0]) - varying[0] if len(varying) == 1 else None


def _by_name(groups: Sequence[Group]) -> Places:
    return Places("", tuple(tuple(Place(s.title) for s in g.sources) for g in groups))
