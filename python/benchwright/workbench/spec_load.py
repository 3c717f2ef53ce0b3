"""`[load]` of a spec: which generator, on which processors, and the generator's own keys.

Decision: our engine's keys are those of a workload's `[target]` and of `bw load`, read by
the same parsers, so that one word means one thing; every other generator reads its own
(workbench/generators).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchwright.load import request as r
from benchwright.load import target as targets
from benchwright.load import toml, words
from benchwright.load import workload as w
from benchwright.load.places import filament_field
from benchwright.suite.program import Template, Where
from benchwright.workbench.generators import GENERATORS
from benchwright.workbench.spec import PLACES, LoadPlan, Spec, filled
from benchwright.workbench.spec_table import SpecTable

ENGINE = "engine"
_OWN = ("generator", "cpus")
_RUN = ("depth", "workers", "full", "pacer", "clock", "fifo")
"""Keys of a workload's `[run]` that mean the same here."""
_ACCESS = ("arrival", "size", "read", "location", "think")
ENGINE_KEYS = tuple(
    dict.fromkeys(
        (
            "target",
            *toml.TARGET,
            *toml.FLAGS,
            "paths",
            "headers",
            *_ACCESS,
            *_RUN,
            "drain",
        )
    )
)
_SEARCHED = {
    "rate": "the search sets it; the first one is start of [peak]",
    "duration": "the search sets it; run_length of [peak], or hold of [ramp], fixes it",
    "users": "bw ramp sets them; the first number is start of [ramp]",
    "seed": "it stands in [peak]",
}
"""Keys of a load that is run once (`bw load`), and who says them here."""
_STAND_INS = {"here": "/here", "state": "/state", "port": "1"}
"""What places are while a spec is read: of the right kind."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What our engine is asked at every rate."""

    target: Template
    options: dict[str, Any] = {}
    """Fields of the target's type."""
    arrival: w.Arrival = w.PoissonArrival()
    size: w.Distribution | None = None
    read: int | None = None
    """Share of reads [millionths]."""
    location: w.Location = w.UniformLocation()
    think: w.Distribution = w.ConstantValue(0)
    """Of each user of a closed loop."""
    run: dict[str, Any] = {}
    """Fields of LoadRequest."""
    drain_ns: int | None = None
    """None: a few times the longest limit."""


def read_load(table: SpecTable, factors: Mapping[str, tuple[str, ...]]) -> LoadPlan:
    """Return what drives the load; every mistake is reported to the table."""
    name = table.choice("generator", (ENGINE, *GENERATORS))
    cpus = table.read("cpus", words.parse_cpus)
    if name is None and "generator" in table:
        # Whose keys the others are is not known.
        return LoadPlan(cpus=cpus)
    if name is None or name == ENGINE:
        name = ENGINE
        table.only((*_OWN, *ENGINE_KEYS), _SEARCHED)
        settings: Any = _engine(table, factors)
    else:
        table.only((*_OWN, *GENERATORS[name].keys), _SEARCHED)
        settings = GENERATORS[name].read(table)
    return LoadPlan(generator=name, cpus=cpus, settings=settings)


def engine_places(spec: Spec) -> dict[str, Where]:
    """Return where a spec says the fields of the engine's request."""
    into = {key: toml.RUN[key][0] for key in (*_RUN, "cpus", "drain")}
    into |= {key: f"target.{field}" for key, (field, _) in toml.TARGET.items()}
    into |= {key: f"target.{key}" for key in (*toml.FLAGS, "paths", "headers")}
    into |= {key: f"{filament_field(0)}.{key}" for key in _ACCESS}
    into |= {"target": "target"}
    said = {field: spec.places.get(f"load.{key}") for key, field in into.items()}
    return {field: where for field, where in said.items() if where is not None}


def target_of(settings: EngineSettings, values: Mapping[str, str]) -> r.Target:
    """Return the target of one trial. Raises ValueError."""
    target = targets.parse_target(filled(settings.target, values))
    return targets.with_options(target, settings.options)


# -- engine ----------------------------------------------------------------------------


def _engine(
    table: SpecTable, factors: Mapping[str, tuple[str, ...]]
) -> EngineSettings | None:
    levels = levels_of(factors)
    table.need("target")
    target = table.template_value("target", targets.parse_target, levels)
    options = _options(table)
    if target is not None:
        _check_options(table, target, levels)
    fields: dict[str, Any] = {
        "arrival": table.arrival("arrival"),
        "size": table.distribution("size", words.operation_bytes),
        "read": table.read("read", words.share_micro),
        "location": table.location("location"),
        "think": table.distribution("think", words.duration_ns),
    }
    run, drain_ns = _run(table), table.read("drain", words.duration_ns)
    if target is None:
        return None
    return EngineSettings(
        target=target,
        options=options,
        run=run,
        drain_ns=drain_ns,
        **{name: value for name, value in fields.items() if value is not None},
    )


def levels_of(
    factors: Mapping[str, tuple[str, ...]],
) -> Callable[[str], list[str]]:
    """Return what a name in braces may stand for, while a spec is read."""

    def levels(name: str) -> list[str]:
        return [_STAND_INS[name]] if name in PLACES else list(factors.get(name, ()))

    return levels


def _options(table: SpecTable) -> dict[str, Any]:
    said = {into: table.read(key, parse) for key, (into, parse) in toml.TARGET.items()}
    options = {name: value for name, value in said.items() if value is not None}
    options |= {key: table.flag(key, False) for key in toml.FLAGS if key in table}
    if "paths" in table:
        options["paths"] = tuple(table.texts("paths"))
        if not all(path.startswith("/") for path in options["paths"]):
            table.refuse(table.at("paths"), "a path begins with /")
    headers = table.table("headers")
    if headers is not None:
        texts = {name: headers.text(name) for name in headers.values}
        options["headers"] = tuple((k, v) for k, v in texts.items() if v is not None)
    return options


def _check_options(
    table: SpecTable,
    target: Template,
    levels: Callable[[str], list[str]],
) -> None:
    """Report options that this kind of target does not take."""
    first = {slot.name: (levels(slot.name) or [""])[0] for slot in target.slots}
    try:
        kind = targets.kind_of(targets.parse_target(filled(target, first)))
    except ValueError:
        return
    keys = {key: into for key, (into, _) in toml.TARGET.items()}
    for key in (*keys, *toml.FLAGS, "paths", "headers"):
        into = keys.get(key, key)
        if key in table and into not in targets.options_of(kind):
            table.refuse(table.at(key), f"{key} is no option of a {kind} target")


def _run(table: SpecTable) -> dict[str, Any]:
    said = {}
    for key in _RUN:
        into, parse = toml.RUN[key]
        said[into] = table.read(key, parse)
    return {name: value for name, value in said.items() if value is not None}
