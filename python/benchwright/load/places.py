"""Where the user said what a request says: a line of a workload's file, or an option.

Purpose: the engine knows fields of its request (`workload.filaments[0].access.size`), the
user a `[[filament]]` or `--block`. Decision: one flat table from the fields to places, made
while the words are read; what is wrong inside a filament is looked up by the word that the
engine's message begins with, and is the filament's own place where that is no key of it.
Structured errors down in the engine's schedule lost: every text there begins with its
field already. Source: docs/engine-protocol.md, `error`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchwright.load.request import LoadRequest
from benchwright.suite.fault import mistake
from benchwright.suite.program import Where

Places = Mapping[str, Where]
"""A field of the request -> where it was said. A filament's are `workload.filaments[N]`
and, for each of its keys as the user writes them, `workload.filaments[N].KEY`."""

NOWHERE: Places = {}

_FILAMENT = re.compile(r"(workload\.filaments\[\d+\])(?:\.(?:access\.)?(\w+))?")
_FIRST = re.compile(r"(?:access: )?([\w-]+)")
_KEYS = {
    "align_bytes": ("align", "size"),
    "zipf": ("location",),
    "hot-cold": ("location",),
    "strided": ("location",),
    "gamma": ("arrival",),
    "on-off": ("arrival",),
    "recorded": ("arrival",),
}
"""Words of the engine that are not the user's: the keys that they may stand for."""


def filament_field(place: int) -> str:
    """Return the request's field of a filament."""
    return f"workload.filaments[{place}]"


def place_of(places: Places, field: str, message: str) -> Where | None:
    """Return where the user said what is wrong; None where that is not known."""
    filament = _FILAMENT.fullmatch(field)
    if filament is None:
        return places.get(field)
    first = _FIRST.match(message)
    words = (filament[2], first[1] if first else None)
    for word in (one for one in words if one):
        for key in _KEYS.get(word, (word,)):
            if f"{filament[1]}.{key}" in places:
                return places[f"{filament[1]}.{key}"]
    return places.get(filament[1])


def check_seats(request: LoadRequest, places: Places) -> None:
    """Check that each worker has its processor. Raises InputError."""
    cpus, workers = request.cpus, request.workers
    if cpus is None or len(cpus) == workers:
        return
    where = places.get("cpus", Where("--cpu"))
    dashes = "--" if where.file == "--cpu" else ""
    seats, threads = _number(len(cpus), "processor"), _number(workers, "thread")
    cpu = f"{dashes}cpu{'' if dashes else 's'}"
    message = f"{cpu} names {seats}, and {dashes}workers asks for {threads}"
    hint = f"name one for each thread, or ask for {_number(len(cpus), 'thread')}"
    raise mistake(where, "bad-argument", message, hint)


def _number(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
