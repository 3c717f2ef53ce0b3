"""A SPEC.toml: `[server]`, `[load]`, `[factors]`, `[peak]`, `[notify]`, with every error
reported at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.search import Claim, ClaimKind, Criterion, PeakGoal
from benchwright.decide.peak.policy import POLICY_NAMES
from benchwright.load import criteria
from benchwright.load import parse as targets
from benchwright.load import parse as words
from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.generators import GENERATORS
from benchwright.load.options import FLAGS, RUN, TARGET
from benchwright.load.request import filament_field
from benchwright.load.search_options import PeakRequest
from benchwright.load.spec import (
    PLACEHOLDERS,
    RESERVED,
    CommandReady,
    FactorLevels,
    HttpReady,
    LoadPlan,
    Ready,
    ServerPlan,
    Spec,
    TcpReady,
    fill_placeholders,
)
from benchwright.load.tables import (
    TARGET_KEYS,
    read_arrival,
    read_command,
    read_commands,
    read_distribution,
    read_location,
    read_target_options,
    read_template,
    read_template_value,
    read_templates,
    refuse_options,
)
from benchwright.suite.form import Form, Key, read_form
from benchwright.suite.options import keys_of
from benchwright.suite.program import Template, Where
from benchwright.suite.toml_sections import notify_of, servers_of
from benchwright.suite.toml_table import TomlTable, read_toml

# --------------------------------------------------------------------------------------
# `[load]` of a spec: which generator, on which CPUs, and the generator's own
# keys.
#
# Decision: our engine's keys are those of a workload's `[target]` and of `bw load`, read by
# the same parsers, so that one word means one thing; every other generator reads its own
# (workbench/generators).

ENGINE = "engine"
_LOAD_KEYS = ("generator", "cpus")
_RUN = ("depth", "workers", "full", "pacer", "clock", "fifo")
"""Keys of a workload's `[run]` that mean the same here."""
_ACCESS = ("arrival", "size", "read", "location", "think")
ENGINE_KEYS = ("target", *TARGET_KEYS, *_ACCESS, *_RUN, "drain")
_SEARCHED = {
    "rate": "the search sets it; the first one is start of [peak]",
    "duration": "the search sets it; run_length of [peak], or hold of [ramp], fixes it",
    "users": "bw ramp sets them; the first number is start of [ramp]",
    "seed": "it stands in [peak]",
}
"""Keys of a load that is run once (`bw load`), and what sets them here."""
_PLACEHOLDER_VALUES = {"here": "/here", "state": "/state", "port": "1"}
"""What places are while a spec is read: of the right kind."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What our engine is requested to do at every rate."""

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


def read_load(table: TomlTable, factors: Mapping[str, tuple[str, ...]]) -> LoadPlan:
    """Return what drives the load; every error is reported to the table."""
    name = table.choice("generator", (ENGINE, *GENERATORS))
    cpus = table.read("cpus", words.parse_cpus)
    if name is None and "generator" in table:
        # Whose keys the others are is not known.
        return LoadPlan(cpus=cpus)
    if name is None or name == ENGINE:
        name = ENGINE
        settings: Any = _engine(table, factors)
    else:
        settings = read_form(table, GENERATORS[name], _LOAD_KEYS, _SEARCHED)
    return LoadPlan(generator=name, cpus=cpus, settings=settings)


def engine_positions(spec: Spec) -> dict[str, Where]:
    """Return the places in a spec of the fields of the engine's request."""
    into = {key: RUN[key][0] for key in (*_RUN, "cpus", "drain")}
    into |= {key: f"target.{field}" for key, (field, _) in TARGET.items()}
    into |= {key: f"target.{key}" for key in (*FLAGS, "paths", "headers")}
    into |= {key: f"{filament_field(0)}.{key}" for key in _ACCESS}
    into |= {"target": "target"}
    said = {field: spec.places.get(f"load.{key}") for key, field in into.items()}
    return {field: where for field, where in said.items() if where is not None}


def target_of(settings: EngineSettings, values: Mapping[str, str]) -> r.LoadTarget:
    """Return the target of one trial. Raises ValueError."""
    target = targets.parse_target(fill_placeholders(settings.target, values))
    return targets.with_options(target, settings.options)


# -- engine ----------------------------------------------------------------------------


def _engine(
    table: TomlTable, factors: Mapping[str, tuple[str, ...]]
) -> EngineSettings | None:
    levels = levels_of(factors)

    def target(inner: TomlTable, key: str) -> Template | None:
        found = read_template_value(inner, key, targets.parse_target, levels)
        if found is not None:
            _check_options(inner, found, levels)
        return found

    form = Form(
        (
            Key("target", read=target),
            Key("arrival", read=read_arrival, required=False),
            Key("size", read=read_distribution(words.operation_bytes), required=False),
            Key("read", words.share_micro, required=False),
            Key("location", read=read_location, required=False),
            Key("think", read=read_distribution(words.duration_ns), required=False),
            Key("drain", words.duration_ns, into="drain_ns", required=False),
        ),
        partial(
            EngineSettings,
            options=read_target_options(table),
            run=table.values_by({key: RUN[key] for key in _RUN}),
        ),
    )
    settings: EngineSettings | None = read_form(
        table, form, (*_LOAD_KEYS, *TARGET_KEYS, *_RUN), _SEARCHED
    )
    return settings


def levels_of(
    factors: Mapping[str, tuple[str, ...]],
) -> Callable[[str], list[str]]:
    """Return what a name in braces may stand for, while a spec is read."""

    def levels(name: str) -> list[str]:
        return (
            [_PLACEHOLDER_VALUES[name]]
            if name in PLACEHOLDERS
            else list(factors.get(name, ()))
        )

    return levels


def _check_options(
    table: TomlTable,
    target: Template,
    levels: Callable[[str], list[str]],
) -> None:
    """Report options that this kind of target does not take."""
    first = {slot.name: (levels(slot.name) or [""])[0] for slot in target.slots}
    try:
        kind = targets.kind_of(targets.parse_target(fill_placeholders(target, first)))
    except ValueError:
        return
    refuse_options(table, kind)


# --------------------------------------------------------------------------------------
# A SPEC.toml: `[server]`, `[load]`, `[factors]`, `[peak]`, `[notify]`, all errors
# at once.
#
# Purpose: one reading for `bw peak`, `bw ramp` and `bw surface`. Decision: the tables of other
# controllers are read by readers that are handed in (`more`), so that an error in `[ramp]` is
# told together with one in `[server]`; a table that this command has no reader for belongs to
# another command and is passed over. docs/workbench.md is the reference for users.

ReadTable = Callable[[TomlTable, Spec], Any]
"""Reads the table of another controller; the spec is what stands above it."""

TOP = ("server", "load", "factors", "peak", "ramp", "surface", "notify", "target")
_SERVER = (
    "configure",
    "configure_timeout",
    "start",
    "daemon",
    "ready",
    "ready_timeout",
    "stop",
    "grace",
    "restart",
    "cpus",
    "environment",
    "directory",
)
_PEAK = ("criteria", *keys_of(PeakRequest))
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)
MOST_LEVELS = 1000


def read_spec(
    text: str, file: str, more: Mapping[str, ReadTable] | None = None
) -> Spec:
    """Return the contents of a spec. Raises InputError with every error."""
    return read_toml(text, file, "spec", lambda top: _spec(top, file, more or {}))


def _spec(top: TomlTable, file: str, more: Mapping[str, ReadTable]) -> Spec:
    top.only(TOP)
    factors = _factors(top)
    known = top.knowing(*PLACEHOLDERS, *(name for name, _ in factors))
    peak = known.table("peak")
    notices = top.table("notify")
    spec = Spec(
        file=file,
        directory=str(Path(file).parent),
        server=_server(known, levels_of(dict(factors))),
        load=_load(known, factors),
        factors=factors,
        goal=None if peak is None else _goal(peak),
        claims=() if peak is None else _claims(peak),
        policy=None if peak is None else peak.choice("policy", POLICY_NAMES),
        notify=None if notices is None else notify_of(notices),
        servers=servers_of(top),
        places=_positions(top),
    )
    if peak is not None:
        _check_rated(top, spec)
    for name, reader in more.items():
        table = known.table(name)
        if table is not None:
            spec.more[name] = reader(table, spec)
    return spec


def _check_rated(top: TomlTable, spec: Spec) -> None:
    """Report a peak rate that is sought with a generator that has none."""
    generator = spec.load.settings
    if spec.load.generator == ENGINE or generator is None:
        return
    if "rate" not in generator.traits.axes:
        message = f"{spec.load.generator} has no rate, and [peak] searches for one"
        hint = "use another generator, or [ramp] over its users"
        top.refuse(top.at("load", "generator"), message, hint)


def _positions(top: TomlTable) -> dict[str, Where]:
    places = {}
    for name in top.values:
        table = top.table(name) if isinstance(top.values[name], dict) else None
        if table is not None:
            places[name] = table.where
            places |= {f"{name}.{key}": table.at(key) for key in table.values}
    return places


def _factors(top: TomlTable) -> tuple[FactorLevels, ...]:
    table = top.table("factors")
    if table is None:
        return ()
    found = []
    for name in table.names("a factor"):
        if name in RESERVED:
            message = (
                f"{{{name}}} has a meaning of its own: no factor can have this name"
            )
            table.wrong(table.at(name), "spec-name", message)
        levels = table.levels(name)
        if levels and len(levels) > MOST_LEVELS:
            table.refuse(table.at(name), f"{name} has more than {MOST_LEVELS} levels")
        twice = [one for one, n in Counter(levels or ()).items() if n > 1]
        if twice:
            message = f"{name} has the level {', '.join(twice)} twice"
            table.refuse(table.at(name), message, "leave one out")
        found.append((name, tuple(dict.fromkeys(levels or ("",)))))
    return tuple(found)


def _load(top: TomlTable, factors: tuple[FactorLevels, ...]) -> LoadPlan:
    table = top.table("load")
    if table is None:
        if "load" not in top:
            hint = 'such as [load] with target = "http://127.0.0.1:8080/"'
            message = "[load] is missing: it describes the load on the server"
            top.wrong(top.where, "spec-missing", message, hint)
        return LoadPlan()
    return read_load(table, dict(factors))


# -- server ----------------------------------------------------------------------------


def _server(top: TomlTable, levels: Callable[[str], list[str]]) -> ServerPlan | None:
    table = top.table("server")
    if table is None:
        return None
    table.only(_SERVER)
    plan = ServerPlan(
        configure=read_commands(table, "configure"),
        configure_timeout_ns=table.read("configure_timeout", words.some_ns)
        or ServerPlan().configure_timeout_ns,
        start=read_command(table, "start"),
        daemon=table.flag("daemon", False),
        ready=_ready(table, levels),
        ready_timeout_ns=table.read("ready_timeout", words.some_ns)
        or ServerPlan().ready_timeout_ns,
        stop=read_command(table, "stop"),
        grace_ns=_value_or(
            table.read("grace", words.duration_ns), ServerPlan().grace_ns
        ),
        restart=_restart(table),
        cpus=table.read("cpus", words.parse_cpus),
        environment=read_templates(table, "environment"),
        directory=read_template(table, "directory"),
    )
    _check_server(table)
    return plan


def _value_or(value: int | None, default: int) -> int:
    return default if value is None else value


def _restart(table: TomlTable) -> Any:
    return table.choice("restart", ("trial", "sample")) or "sample"


def _check_server(table: TomlTable) -> None:
    """Report keys that mean nothing without others."""
    if "start" not in table:
        for key in ("daemon", "stop", "restart"):
            if key in table:
                message = f"{key} means nothing without start"
                table.refuse(table.at(key), message, 'add start = "COMMAND"')
        if "configure" not in table and "ready" not in table:
            message = "[server] has neither start nor configure nor ready"
            table.refuse(table.where, message, "leave it out for a server of your own")
    elif "ready" not in table:
        hint = 'such as ready = { tcp = "127.0.0.1:8080" }'
        message = "ready is missing: it checks when the server can take load"
        table.wrong(table.where, "spec-missing", message, hint)


def _ready(table: TomlTable, levels: Callable[[str], list[str]]) -> Ready | None:
    if isinstance(table.values.get("ready"), str):
        hint = (
            'ready = { tcp = "HOST:PORT" }, or http = "http://...", or command = "..."'
        )
        message = "ready is a string, expected a table"
        table.wrong(table.at("ready"), "spec-type", message, hint)
        return None
    inner = table.table("ready")
    if inner is None:
        return None
    inner.only(("tcp", "http", "command"))
    if len(inner.values) != 1:
        message = "ready is one of tcp, http and command"
        inner.refuse(table.at("ready"), message, 'ready = { tcp = "HOST:PORT" }')
        return None
    if "tcp" in inner:
        address = read_template_value(inner, "tcp", parse_address, levels)
        return None if address is None else TcpReady(address)
    if "http" in inner:
        url = read_template(inner, "http")
        if url is not None and not "".join(map(str, url.parts)).startswith("http://"):
            message = "http is a URL that begins with http://"
            inner.refuse(inner.at("http"), message, "use tcp for a server with TLS")
        return None if url is None else HttpReady(url)
    command = read_command(inner, "command")
    return None if command is None else CommandReady(command)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match[1]) < 65536:
        raise ValueError(f"{text!r} is not HOST:PORT such as 127.0.0.1:8080")
    return text.strip().rpartition(":")[0].strip("[]"), int(match[1])


# -- peak ------------------------------------------------------------------------------


def _goal(table: TomlTable) -> PeakGoal | None:
    table.only(_PEAK)
    wanted = _criteria(table) if table.need("criteria") else ()
    claims = _claims(table.silent())
    fields = table.values_of(PeakRequest)
    _check_rates(table, fields)
    if not wanted or not claims:
        return None
    return PeakGoal(criteria=wanted, claim=claims[0], **fields)


def _criteria(table: TomlTable) -> tuple[Criterion, ...]:
    texts = table.texts("criteria")
    if not texts and isinstance(table.values["criteria"], list):
        hint = 'such as criteria = ["p99 response < 100ms"]'
        table.refuse(table.at("criteria"), "criteria has none", hint)
    found: dict[str, Criterion] = {}
    single = isinstance(table.values["criteria"], str)
    for index, text in enumerate(texts):
        where = table.at("criteria", *(() if single else (index,)))
        try:
            one = criteria.parse_criterion(text)
        except ValueError as error:
            table.refuse(where, str(error))
            continue
        if one.key in found:
            table.refuse(where, f"{one.key} has two limits: one is enough")
        found[one.key] = one
    return tuple(found.values())


def _check_rates(table: TomlTable, fields: Mapping[str, Any]) -> None:
    """Report rates that are not in order: lowest, start, highest."""
    names = ("lowest", "start", "highest")
    said = [(n, fields[f"{n}_rate"]) for n in names if f"{n}_rate" in fields]
    for (low, less), (high, more) in pairwise(said):
        if less > more or (low == "lowest" and high == "highest" and less == more):
            message = f"{high} ({more:g}/s) is below {low} ({less:g}/s)"
            table.refuse(table.at(high), message)


def _claims(table: TomlTable) -> tuple[Claim, ...]:
    """Return the claims that are made, each by its text; the default one if none is."""
    texts = [one for text in table.texts("claim") for one in text.split(",")]
    found = []
    for text in texts or ["region"]:
        try:
            found.append(criteria.parse_claim(text))
        except ValueError as error:
            table.refuse(table.at("claim"), str(error))
    confidence = table.read("confidence", criteria.parse_confidence)
    return tuple(_with_confidence(table, one, confidence) for one in found)


def _with_confidence(table: TomlTable, claim: Claim, confidence: float | None) -> Claim:
    if confidence is None:
        return claim
    if claim.kind is ClaimKind.SLO:
        message = "the claim slo contains its confidence: slo:95%"
        table.refuse(table.at("confidence"), message)
    return Claim(claim.kind, claim.tolerance, confidence)
