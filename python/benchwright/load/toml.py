"""A workload's TOML file: `[run]`, `[target]` and `[[filament]]`, all mistakes at once.

Purpose: docs/workload-toml.md describes it. Decision: what the command line says wins
over `[run]` and `[target]`, so that one file serves many targets; a filament is only said
in the file. Non-goal: factors and repetitions, which a suite has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchwright.load import request as r
from benchwright.load import target as targets
from benchwright.load import words
from benchwright.load import workload as w
from benchwright.load.filaments import PythonFilament, Surroundings, read_filament
from benchwright.load.places import NOWHERE, Places, filament_field
from benchwright.load.reading import WorkloadTable
from benchwright.model.errors import Diagnostic, InputError
from benchwright.suite.program import Where
from benchwright.suite.toml_text import decoded


class Description(msgspec.Struct, frozen=True):
    """What a workload's file says."""

    filaments: tuple[w.Filament, ...]
    """A filament in Python is a trace without a path, until it has one."""
    python: tuple[PythonFilament, ...]
    target: r.Target | None
    run: dict[str, Any]
    """Fields of LoadRequest, `seed` and `max_errors_micro`; only what was said."""
    places: Places = NOWHERE


Parsers = dict[str, tuple[str, Callable[[str], Any]]]

RUN: Parsers = {
    "duration": ("duration_ns", words.some_ns),
    "drain": ("drain_ns", words.duration_ns),
    "warm_up": ("warm_up_ns", words.duration_ns),
    "interval": ("interval_ns", words.some_ns),
    "seed": ("seed", words.count),
    "depth": ("depth", words.some),
    "workers": ("workers", words.some),
    "cpus": ("cpus", words.parse_cpus),
    "full": ("full", lambda text: words.one_of(text, r.FULL, "policy")),
    "late": ("late", words.parse_late),
    "pacer": ("pacer", lambda text: words.one_of(text, r.PACERS, "pacer")),
    "clock": ("clock", lambda text: words.one_of(text, r.CLOCKS, "clock")),
    "fifo": ("fifo", words.some),
    "max_errors": ("max_errors_micro", words.share_micro),
}
"""Keys of [run], and options of `bw load`: the field of the request or the plan, and how
it is read."""

FLAGS = ("direct", "overwrite", "allow_writes_to_mounted")
"""Keys of [target] that are true or false; options of `bw load` too."""

TARGET: Parsers = {
    "service": ("service_ns", words.duration_ns),
    "engine": (
        "engine",
        lambda text: words.one_of(text, ("auto", "io_uring", "threads"), "engine"),
    ),
    "threads": ("threads", words.some),
    "size": ("size_bytes", words.some_bytes),
    "block": ("block_bytes", words.some_bytes),
    "connections": ("connections", words.some),
    "timeout": ("timeout_ns", words.timeout_ns),
    "receive": ("receive_bytes", words.size_bytes),
    "method": ("method", str),
    "body": ("body_bytes", words.size_bytes),
}
"""Keys of [target] that are scalars; which kinds of target take them, request.py says."""


def read_workload(text: str, file: str, target: r.Target | None) -> Description:
    """Return what a file says, for this target or its own. Raises InputError."""
    values, locator = decoded(text, file, "workload-toml")
    found: list[Diagnostic] = []
    top = WorkloadTable(values, (), locator, found)
    description = _described(top, file, target)
    if found:
        found.sort(key=lambda d: (d.line, d.column))
        raise InputError(list(dict.fromkeys(found)))
    return description


def _described(top: WorkloadTable, file: str, target: r.Target | None) -> Description:
    top.only(("run", "target", "filament"))
    target = _target(top, target)
    around = Surroundings(
        network=target is not None and targets.is_network(target),
        directory=str(Path(file).parent),
    )
    tables = top.tables("filament") if top.need("filament") else []
    read = [read_filament(table, around) for table in tables]
    _check_names(tables)
    python = tuple(f for f in read if isinstance(f, PythonFilament))
    return Description(
        filaments=tuple(_placed(f) for f in read if f is not None),
        python=python,
        target=target,
        run=_run(top),
        places=_places(top, tables),
    )


def _places(top: WorkloadTable, filaments: list[WorkloadTable]) -> dict[str, Where]:
    """Return where the fields of the request are said."""
    places = {}
    for place, table in enumerate(filaments):
        field = filament_field(place)
        places[field] = table.where
        places |= {f"{field}.{key}": table.at(key) for key in table.values}
    run = top.table("run")
    if run is not None:
        places |= {into: run.at(key) for key, (into, _) in RUN.items() if key in run}
    return places


def _placed(filament: Any) -> w.Filament:
    if isinstance(filament, PythonFilament):
        return w.Trace(path="")
    return filament  # type: ignore[no-any-return]


def _check_names(tables: list[WorkloadTable]) -> None:
    """Report a name given twice, and a leader that nobody is."""
    names = [table.values.get("name") for table in tables]
    for place, table in enumerate(tables):
        name, leader = names[place], table.values.get("leader")
        if name is not None and name in names[:place]:
            table.refuse(table.at("name"), f"the name {name!r} is there twice")
        if isinstance(leader, str) and (leader not in names or leader == name):
            known = ", ".join(str(n) for n in names if n is not None and n != name)
            hint = f"named here: {known}" if known else "give another one a name"
            table.refuse(table.at("leader"), f"no other filament is {leader!r}", hint)


def _run(top: WorkloadTable) -> dict[str, Any]:
    table = top.table("run")
    if table is None:
        return {}
    table.only((*RUN, "lock_memory"))
    said = {into: table.read(key, parse) for key, (into, parse) in RUN.items()}
    if "lock_memory" in table:
        said["lock_memory"] = table.flag("lock_memory", True)
    return {name: value for name, value in said.items() if value is not None}


# -- target ----------------------------------------------------------------------------


def _target(top: WorkloadTable, target: r.Target | None) -> r.Target | None:
    """Return the target with the file's options; the command line's one comes first."""
    table = top.table("target")
    if table is None:
        return target
    named = table.read("to", targets.parse_target)
    # `--target null` beside a file asks for the engine alone, with any file.
    alone = isinstance(target, r.NullTarget)
    target = target or named
    said = _scalars(table) | _flags(table) | _lists(table)
    table.only(("to", *TARGET, *FLAGS, "paths", "headers", "stalls"))
    if target is None:
        if "to" not in table and said:
            table.refuse(table.where, "there is no target that these options are for")
        return None
    kind = targets.kind_of(target)
    known = targets.options_of(kind)
    for key, into in _keys_into().items():
        if key in table and into not in known and not alone:
            message = f"{key} is no option of a {kind} target"
            table.refuse(table.at(key), message)
    return targets.with_options(target, {k: v for k, v in said.items() if k in known})


def _keys_into() -> dict[str, str]:
    names = (*FLAGS, "paths", "headers", "stalls")
    return {key: into for key, (into, _) in TARGET.items()} | {n: n for n in names}


def _scalars(table: WorkloadTable) -> dict[str, Any]:
    said = {into: table.read(key, parse) for key, (into, parse) in TARGET.items()}
    return {name: value for name, value in said.items() if value is not None}


def _flags(table: WorkloadTable) -> dict[str, Any]:
    return {key: table.flag(key, False) for key in FLAGS if key in table}


def _lists(table: WorkloadTable) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if "paths" in table:
        said["paths"] = tuple(table.texts("paths"))
        if not all(path.startswith("/") for path in said["paths"]):
            table.refuse(table.at("paths"), "a path begins with /")
    headers = table.table("headers")
    if headers is not None:
        texts = {name: headers.text(name) for name in headers.values}
        said["headers"] = tuple((k, v) for k, v in texts.items() if v is not None)
    if "stalls" in table:
        said["stalls"] = tuple(_stall(one) for one in table.tables("stalls"))
    return said


def _stall(table: WorkloadTable) -> r.Stall:
    table.only(("at", "for"))
    table.need("at", "for")
    at = table.read("at", words.duration_ns)
    return r.Stall(at or 0, table.read("for", words.some_ns) or 0)
