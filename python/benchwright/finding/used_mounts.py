"""Which file systems a session's commands use, by its captures.

Purpose: a file system of somebody else that changes is no change of what was measured.
Decision: used is what the working directory, the programs, the directory for temporary files,
the study and every path in a command lie on, and what is mounted below a path in a command.
What a program opens by itself elsewhere is not known: `bw env --diff` has every mount.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from benchwright.model.machine import Machine
from benchwright.model.machine_difference import Change

_MOUNT = "mount."
_WORDS = re.compile(r"[^\s'\"=:,;|&<>()]+")


def of_used_mounts(
    changes: Sequence[Change], captures: Sequence[Machine], places: Sequence[str]
) -> tuple[Change, ...]:
    """Return the changes without those of mounts that nothing uses.

    `places` are directories that are used though no command names them. Where the
    working directory was not captured nothing is left out.
    """
    facts = [capture.named() for capture in captures]
    if not all(one.get("workdir.path") for one in facts):
        return tuple(changes)
    points = {
        name.removeprefix(_MOUNT).rpartition(".")[0]
        for one in facts
        for name in one
        if name.startswith(_MOUNT)
    }
    named = {path for capture in captures for path in _in_commands(capture)}
    used = {path for capture in captures for path in _around(capture)}
    used |= named | set(places)
    on = {max(_above(path, points), key=len, default="") for path in used}
    below = {point for point in points for path in named if _is_below(point, path)}
    return tuple(
        change
        for change in changes
        if not change.name.startswith(_MOUNT)
        or _point_of(change.name, points) in on | below
    )


def _point_of(name: str, points: set[str]) -> str:
    point = name.removeprefix(_MOUNT)
    return point if point in points else point.rpartition(".")[0]


def _above(path: str, points: set[str]) -> list[str]:
    return [point for point in points if point == path or _is_below(path, point)]


def _is_below(path: str, above: str) -> bool:
    return path.startswith(above.rstrip("/") + "/")


def _around(capture: Machine) -> Iterator[str]:
    """Yield where a session's commands run and what they are, whatever their words."""
    yield "/tmp"
    for name, fact in capture.named().items():
        program = name.startswith("program.") and name.endswith(".path")
        if fact.value and (program or name in ("workdir.path", "env.TMPDIR")):
            yield fact.value


def _in_commands(capture: Machine) -> Iterator[str]:
    """Yield the paths that the words of commands may be, from the working directory on."""
    facts = capture.named()
    directory = facts["workdir.path"].value or "/"
    for name, fact in facts.items():
        if name.startswith("command.") and fact.value:
            for word in _WORDS.findall(fact.value):
                yield os.path.normpath(os.path.join(directory, word))
