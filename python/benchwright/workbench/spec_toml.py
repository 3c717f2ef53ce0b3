"""A SPEC.toml: `[server]`, `[load]`, `[factors]`, `[peak]`, `[notify]`, all mistakes at once.

Purpose: one reading for `bw peak`, `bw ramp` and `bw surface`. Decision: the tables of other
controllers are read by readers that are handed in (`more`), so that a mistake in `[ramp]` is
told together with one in `[server]`; a table that this command has no reader for belongs to
another command and is passed over. docs/workbench.md is the reference for users.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchwright.control.peak.registry import NAMES
from benchwright.load import words
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.peak import Claim, ClaimKind, Criterion, PeakGoal
from benchwright.suite.program import Where
from benchwright.suite.toml_notify import notify_of
from benchwright.suite.toml_servers import servers_of
from benchwright.suite.toml_text import decoded
from benchwright.workbench import criteria
from benchwright.workbench.spec import (
    PLACES,
    RESERVED,
    CommandReady,
    Factor,
    HttpReady,
    LoadPlan,
    Ready,
    ServerPlan,
    Spec,
    TcpReady,
)
from benchwright.workbench.spec_load import ENGINE, levels_of, read_load
from benchwright.workbench.spec_table import SpecTable

Reader = Callable[[SpecTable, Spec], Any]
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
_PEAK = (
    "criteria",
    "claim",
    "confidence",
    "policy",
    "start",
    "lowest",
    "highest",
    "budget",
    "run_length",
    "max_trials",
    "seed",
)
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)
MOST_LEVELS = 1000


def read_spec(text: str, file: str, more: Mapping[str, Reader] | None = None) -> Spec:
    """Return what a spec says. Raises InputError with every mistake."""
    values, locator = decoded(text, file, "spec-toml")
    found: list[Diagnostic] = []
    top = SpecTable(values, (), locator, found)
    spec = _spec(top, file, more or {})
    if found:
        found.sort(key=lambda d: (d.line, d.column))
        raise InputError(list(dict.fromkeys(found)))
    return spec


def _spec(top: SpecTable, file: str, more: Mapping[str, Reader]) -> Spec:
    top.only(TOP)
    factors = _factors(top)
    known = top.knowing(*PLACES, *(name for name, _ in factors))
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
        policy=None if peak is None else peak.choice("policy", NAMES),
        notify=None if notices is None else notify_of(notices),
        servers=servers_of(top),
        places=_places(top),
    )
    if peak is not None:
        _check_rated(top, spec)
    for name, reader in more.items():
        table = known.table(name)
        if table is not None:
            spec.more[name] = reader(table, spec)
    return spec


def _check_rated(top: SpecTable, spec: Spec) -> None:
    """Report a peak rate that is sought with a generator that has none."""
    generator = spec.load.settings
    if spec.load.generator == ENGINE or generator is None:
        return
    if "rate" not in generator.traits.axes:
        message = f"{spec.load.generator} has no rate, and [peak] searches for one"
        hint = "use another generator, or [ramp] over its users"
        top.refuse(top.at("load", "generator"), message, hint)


def _places(top: SpecTable) -> dict[str, Where]:
    places = {}
    for name in top.values:
        table = top.table(name) if isinstance(top.values[name], dict) else None
        if table is not None:
            places[name] = table.where
            places |= {f"{name}.{key}": table.at(key) for key in table.values}
    return places


def _factors(top: SpecTable) -> tuple[Factor, ...]:
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


def _load(top: SpecTable, factors: tuple[Factor, ...]) -> LoadPlan:
    table = top.table("load")
    if table is None:
        if "load" not in top:
            hint = 'such as [load] with target = "http://127.0.0.1:8080/"'
            message = "there is no [load]: nothing says what is asked of the server"
            top.wrong(top.where, "spec-missing", message, hint)
        return LoadPlan()
    return read_load(table, dict(factors))


# -- server ----------------------------------------------------------------------------


def _server(top: SpecTable, levels: Callable[[str], list[str]]) -> ServerPlan | None:
    table = top.table("server")
    if table is None:
        return None
    table.only(_SERVER)
    plan = ServerPlan(
        configure=table.commands("configure"),
        configure_timeout_ns=table.read("configure_timeout", words.some_ns)
        or ServerPlan().configure_timeout_ns,
        start=table.command("start"),
        daemon=table.flag("daemon", False),
        ready=_ready(table, levels),
        ready_timeout_ns=table.read("ready_timeout", words.some_ns)
        or ServerPlan().ready_timeout_ns,
        stop=table.command("stop"),
        grace_ns=_or(table.read("grace", words.duration_ns), ServerPlan().grace_ns),
        restart=_restart(table),
        cpus=table.read("cpus", words.parse_cpus),
        environment=table.templates("environment"),
        directory=table.template("directory"),
    )
    _check_server(table)
    return plan


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _restart(table: SpecTable) -> Any:
    return table.choice("restart", ("trial", "sample")) or "sample"


def _check_server(table: SpecTable) -> None:
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
        message = "ready is missing: nothing says when the server can be loaded"
        table.wrong(table.where, "spec-missing", message, hint)


def _ready(table: SpecTable, levels: Callable[[str], list[str]]) -> Ready | None:
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
        address = inner.template_value("tcp", parse_address, levels)
        return None if address is None else TcpReady(address)
    if "http" in inner:
        url = inner.template("http")
        if url is not None and not "".join(map(str, url.parts)).startswith("http://"):
            message = "http is a URL that begins with http://"
            inner.refuse(inner.at("http"), message, "use tcp for a server with TLS")
        return None if url is None else HttpReady(url)
    command = inner.command("command")
    return None if command is None else CommandReady(command)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match[1]) < 65536:
        raise ValueError(f"{text!r} is no HOST:PORT such as 127.0.0.1:8080")
    return text.strip().rpartition(":")[0].strip("[]"), int(match[1])


# -- peak ------------------------------------------------------------------------------


def _goal(table: SpecTable) -> PeakGoal | None:
    table.only(_PEAK)
    wanted = _criteria(table) if table.need("criteria") else ()
    claims = _claims(table.silent())
    fields: dict[str, Any] = {
        "start_rate": table.rate_per_s("start"),
        "lowest_rate": table.rate_per_s("lowest"),
        "highest_rate": table.rate_per_s("highest"),
        "budget_s": table.duration_s("budget"),
        "run_length_s": table.duration_s("run_length"),
        "max_trials": table.read("max_trials", words.some),
        "seed": table.read("seed", words.count),
    }
    _check_rates(table, fields)
    said = {name: value for name, value in fields.items() if value is not None}
    if not wanted or not claims:
        return None
    return PeakGoal(criteria=wanted, claim=claims[0], **said)


def _criteria(table: SpecTable) -> tuple[Criterion, ...]:
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


def _check_rates(table: SpecTable, fields: Mapping[str, Any]) -> None:
    """Report rates that are not in order: lowest, start, highest."""
    names = ("lowest", "start", "highest")
    said = [(n, fields[f"{n}_rate"]) for n in names if fields[f"{n}_rate"] is not None]
    for (low, less), (high, more) in pairwise(said):
        if less > more or (low == "lowest" and high == "highest" and less == more):
            message = f"{high} ({more:g}/s) is below {low} ({less:g}/s)"
            table.refuse(table.at(high), message)


def _claims(table: SpecTable) -> tuple[Claim, ...]:
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


def _with_confidence(table: SpecTable, claim: Claim, confidence: float | None) -> Claim:
    if confidence is None:
        return claim
    if claim.kind is ClaimKind.SLO:
        message = "the claim slo says its confidence itself: slo:95%"
        table.refuse(table.at("confidence"), message)
    return Claim(claim.kind, claim.tolerance, confidence)
