"""Which processors the server runs on, and which its load generator.

Decision: a server and a generator on one processor measure each other, so they are parted
wherever there are two; the generator gets a quarter, because our engine needs one processor
for each worker whatever the server has. What the user says wins.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from benchwright.finding.codes import doubt
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.finding import Finding
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Where
from benchwright.workbench.spec import Spec
from benchwright.workbench.spec_load import EngineSettings

SHARED = "server-and-generator-share-cores"
Cpus = tuple[int, ...]


class Seats(msgspec.Struct, frozen=True):
    """The processors of each; empty: not bound."""

    server: Cpus
    load: Cpus
    ours: bool = True
    """Whether the server is started here; another one's processors nobody knows."""

    @property
    def shared(self) -> bool:
        """Whether they are known to run on one processor."""
        return self.ours and bool(set(self.server) & set(self.load))

    @property
    def text(self) -> str:
        """For a person: `server on processor 0, generator on 1`."""
        server = _words(self.server) if self.ours else "wherever it runs"
        return f"server on {server}, generator on {_words(self.load)}"

    def doubts(self, subject: str) -> tuple[Finding, ...]:
        """Return the doubts about this split."""
        return (doubt(SHARED, subject, self.text),) if self.shared else ()


def seats_of(spec: Spec, available: Cpus) -> Seats:
    """Return the split of the processors that there are. Raises InputError."""
    server = spec.server.cpus if spec.server is not None else None
    load = spec.load.cpus
    _check(spec, {"server.cpus": server, "load.cpus": load}, available)
    if spec.server is None or spec.server.start is None:
        return Seats((), load or (), ours=False)
    if server is None and load is None:
        few = max(len(available) // 4, _workers(spec))
        if len(available) <= few:
            return Seats(available, available)
        return Seats(available[:-few], available[-few:])
    if load is None:
        return Seats(server or (), _rest(available, server or ()))
    return Seats(_rest(available, load) if server is None else server, load)


def available_cpus() -> Cpus:
    """Return the processors that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def pinning(cpus: Cpus) -> tuple[str, ...]:
    """Return the words before a command that bind it; none where it is not bound."""
    return (*_begin("pin", cpus), "--") if cpus else ()


def leaving(cpus: Cpus, pid_file: Path, log: Path) -> tuple[str, ...]:
    """Return the words before a command that leave it in the background."""
    return (*_begin("leave", cpus), str(pid_file), str(log), "--")


def _begin(what: str, cpus: Cpus) -> tuple[str, ...]:
    script = str(Path(__file__).with_name("begin.py"))
    named = ",".join(map(str, cpus)) or "-"
    return (sys.executable, "-I", "-S", script, what, named)


def _rest(available: Cpus, taken: Cpus) -> Cpus:
    """Return the processors that are left, or all where none is."""
    return tuple(cpu for cpu in available if cpu not in taken) or available


def _workers(spec: Spec) -> int:
    """Return how many processors the generator needs: our engine one for each worker."""
    settings = spec.load.settings
    return settings.run.get("workers", 1) if isinstance(settings, EngineSettings) else 1


def _crowded(spec: Spec) -> list[Diagnostic]:
    """Return the mistake of fewer processors than workers: they would be bound to none."""
    cpus, workers = spec.load.cpus, _workers(spec)
    if cpus is None or len(cpus) >= workers:
        return []
    message = f"{_words(cpus)} cannot have {workers} workers"
    where = spec.places.get("load.cpus", Where(spec.file))
    return [diagnostic(where, "spec-value", message, "name one for each worker")]


def _check(spec: Spec, said: dict[str, Cpus | None], available: Cpus) -> None:
    found = _crowded(spec)
    for place, cpus in said.items():
        absent = [cpu for cpu in cpus or () if cpu not in available]
        if absent:
            message = f"there is no {_words(tuple(absent))} for us"
            hint = f"these are: {', '.join(map(str, available))}"
            where = spec.places.get(place, Where(spec.file))
            found.append(diagnostic(where, "spec-value", message, hint))
    if found:
        raise InputError(found)


def _words(cpus: Cpus) -> str:
    if not cpus:
        return "any processor"
    return f"processor{'s' * (len(cpus) > 1)} {', '.join(map(str, cpus))}"
