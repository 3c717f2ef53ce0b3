"""A SPEC.toml: `[server]`, `[load]`, `[factors]`, `[peak]`, `[notify]`, with every error
reported at once."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.hosts import SERVER_KEYS, ServerKey, parse_named_server
from benchwright.core.plan import Pairs
from benchwright.core.text import list_text
from benchwright.features.generators.registry import GENERATORS
from benchwright.features.load import parse as targets
from benchwright.features.load import parse as words
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.criteria import stream_value
from benchwright.features.load.host_parts import target_mistakes, why_not_hosts
from benchwright.features.load.request import filament_field
from benchwright.features.load.tables import (
    TARGET,
    read_arrival,
    read_distribution,
    read_location,
    read_template,
    read_templates,
    refuse_options,
    template_value,
)
from benchwright.features.load.types import GOOD_KEY
from benchwright.features.load.workload_toml import RUN, WorkloadFile, read_filaments, read_workload
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.readers import PeakReader
from benchwright.features.search.server.toml import RESOURCES, disk_names_of, remote_of
from benchwright.features.search.spec import (
    RESERVED,
    SERVER_ADDRESS,
    CommandReady,
    FactorLevels,
    FactorUse,
    HttpReady,
    LoadPlan,
    Ready,
    ServerPlan,
    Spec,
    TcpReady,
    read_command,
    read_commands,
    samples_to_check,
)
from benchwright.features.search.types import ClaimKind, PeakGoal
from benchwright.inputs.form import (
    Form,
    keys_of,
    needed,
    nested,
    of_type,
    optional,
    place_mistakes,
    read_form,
    read_values,
    texts_of,
)
from benchwright.inputs.mistakes import (
    Fault,
    Unreadable,
    Where,
    diagnostic,
    read_regular,
    read_text,
)
from benchwright.inputs.options import Option
from benchwright.inputs.template import Template, brace_template, fill_placeholders
from benchwright.inputs.toml_table import Scalar, TomlTable, read_toml
from benchwright.suite.toml_sections import (
    SuiteTable,
    missing_tables,
    notify_of,
    servers_of,
    suite_tables,
)

# --------------------------------------------------------------------------------------
# `[load]` of a spec: the generator, its CPUs, and its own keys.
#
# Decision: our engine's keys are those of a workload's `[target]` and of `bw load`, read by
# the same parsers, so that one word means one thing; every other generator reads its own keys
# (features/generators).

ENGINE = "engine"
_LOAD_KEYS = ("generator", "cpus")
_RUN = ("depth", "workers", "full", "pacer", "clock", "fifo", "low_priority", "good")
"""Keys of a workload's `[run]` that have the same meaning here."""
_FILE_SIZE = "file_size"
"""Size of a regular file to make; in `[load]`, `size` is the size of an operation."""
_TARGET = tuple(key for key in TARGET.names if key not in ("size", "stalls"))
ENGINE_OPTIONS = (*_TARGET, _FILE_SIZE, *_RUN)
"""Options of the target and the run that `[load]` accepts for our engine."""
_ACCESS = ("arrival", "size", "read", "location", "think")
_SEARCHED = {
    "rate": "the search sets it; the first one is start of [peak]",
    "duration": "the search sets it; run_length of [peak], or hold of [ramp], fixes it",
    "users": "bw ramp sets them; the first number is start of [ramp]",
    "seed": "it belongs in [peak]",
}
"""Keys of `bw load` that the search sets itself, with the keys to use instead."""
_PLACEHOLDER_VALUES = {"here": "/here", "state": "/state", "port": "1", SERVER_ADDRESS: "127.0.0.1"}
"""Sample values of placeholders, used to check texts while a spec is read."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's settings for all rates of a search."""

    target: Template
    options: dict[str, Any] = {}
    """Fields of the target's type."""
    arrival: w.Arrival = w.PoissonArrival()
    size: w.Distribution | None = None
    read: int | None = None
    """Share of reads [millionths]."""
    location: w.Location = w.UniformLocation()
    think: w.Distribution = w.ConstantValue(0)
    """Think time of each user of a closed loop."""
    run: dict[str, Any] = {}
    """Fields of LoadRequest."""
    drain_ns: int | None = None
    """How long to wait for the last operations; None: a few times the longest limit."""
    workload: WorkloadFile | None = None
    """Filaments whose rates follow that of the search; None: one filament of the keys above."""
    hosts: tuple[str, ...] = ()
    """The hosts that issue the load together; empty: this machine."""
    ssh_config: str = ""
    """A file for `ssh -F`, relative to the spec; empty: the user's."""


def read_load(table: TomlTable) -> LoadPlan:
    """Return what drives the load; report all errors to the table."""
    name = table.choice("generator", (ENGINE, *GENERATORS))
    cpus = table.read("cpus", words.parse_cpus)
    if name is None and "generator" in table:
        # The generator is unknown, so its keys cannot be checked.
        return LoadPlan(cpus=cpus)
    if name is None or name == ENGINE:
        name = ENGINE
        settings: Any = _engine(table)
    else:
        settings = read_form(table, GENERATORS[name], _LOAD_KEYS, _SEARCHED)
    return LoadPlan(generator=name, cpus=cpus, settings=settings)


def engine_positions(spec: Spec) -> dict[str, Where]:
    """Return the positions in a spec of the fields of the engine's request."""
    into = {key: RUN.fields[key] for key in (*_RUN, "cpus", "drain")}
    into |= {key: f"target.{field}" for key, field in TARGET.fields.items()}
    into |= {key: f"{filament_field(0)}.{key}" for key in _ACCESS}
    into |= {"target": "target", "workload": filament_field(0)}
    into |= {"hosts": "hosts"}
    written = [(field, spec.places.get(f"load.{key}")) for key, field in into.items()]
    # Of a database the commands are the statements.
    written.append(("target.statements", spec.places.get("load.commands")))
    found: dict[str, Where] = {}
    for field, where in written:
        if where is not None:
            found.setdefault(field, where)
    return found


def target_of(settings: EngineSettings, values: Mapping[str, str]) -> r.LoadTarget:
    """Return the target of one trial. Raises ValueError."""
    target = targets.parse_target(fill_placeholders(settings.target, values))
    return targets.with_options(target, settings.options)


# -- engine ----------------------------------------------------------------------------


def _target_text(table: TomlTable, key: str) -> Template | None:
    """Return a target; report options that its kind does not accept."""
    template: Template | None = template_value(targets.parse_target)(table, key)
    if template is not None:
        # A text that is not a target has been reported already.
        with contextlib.suppress(ValueError):
            target = targets.parse_target(fill_placeholders(template, table.known))
            kind = targets.kind_of(target)
            refuse_options(table, target, keys=_TARGET)
            if _FILE_SIZE in table and kind != "file":
                message = f"{_FILE_SIZE} is not an option of a {kind} target"
                table.refuse(table.at(_FILE_SIZE), message)
    return template


def _workload_of(table: TomlTable, key: str) -> WorkloadFile | None:
    """Return the workload of a file beside the spec; its mistakes are reported at their places."""
    name = table.text(key)
    if name is None:
        return None
    path = Path(table.at(key).file).parent / name
    try:
        text = table.files.get(str(path)) or read_text(str(path), read_regular)
        if text is None:
            table.refuse(table.at(key), f"there is no file {path}")
            return None
        table.files[str(path)] = text
        return _searched(table, key, read_workload(text, str(path), None, table.files))
    except Unreadable as error:
        table.refuse(table.at(key), error.message)
    except InputError as error:
        for mistake in error.diagnostics:
            table.note(mistake)
    return None


def _hosts(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return the hosts of a load, from an array or from one text."""
    texts = table.texts(key)
    try:
        return targets.parse_hosts(",".join(texts))
    except ValueError as error:
        table.refuse(table.at(key), str(error))
        return None


def _searched(table: TomlTable, key: str, workload: WorkloadFile) -> WorkloadFile | None:
    """Return a workload whose rate a search can set; else report why it cannot."""
    before = table.mistakes
    for filament in workload.filaments:
        if not isinstance(filament, w.Open | w.Files):
            kind = filament.__struct_config__.tag
            message = f"{key}: a search cannot set the rate of a filament of type {kind}"
            table.refuse(table.at(key), message, "use filaments of type open or files")
    return workload if table.mistakes == before else None


ENGINE_LOAD = Form(
    (
        needed("target", read=_target_text),
        optional("arrival", read=read_arrival),
        optional("size", read=read_distribution(words.operation_bytes)),
        optional("read", words.share_micro),
        optional("location", read=read_location),
        optional("think", read=read_distribution(words.duration_ns)),
        optional("drain", words.duration_ns, field="drain_ns"),
        optional("workload", read=_workload_of),
        optional("hosts", read=_hosts),
        optional("ssh_config", str),
    ),
    EngineSettings,
)
"""The keys of `[load]` for our engine, except options of the target and the run."""


def _engine(table: TomlTable) -> EngineSettings | None:
    options = read_values(table, TARGET.keys, _TARGET)
    if _FILE_SIZE in table:
        options["size_bytes"] = table.read(_FILE_SIZE, words.some_bytes)
    run = read_values(table, RUN.keys, _RUN)
    if "workload" in table:
        for key in _ACCESS:
            if key in table:
                message = f"{key} belongs in a filament of the workload"
                table.refuse(table.at(key), message)
    settings = read_form(table, ENGINE_LOAD, (*_LOAD_KEYS, *ENGINE_OPTIONS), _SEARCHED)
    if settings is None:
        return None
    _check_hosts(table, settings)
    return msgspec.structs.replace(settings, options=options, run=run)  # type: ignore[no-any-return]


def why_not_streamed(criterion: Criterion, settings: EngineSettings) -> Fault | None:
    """Return why a load cannot have the value of streams that a criterion limits; None if it can, or
    if the criterion is of whole operations."""
    of = stream_value(criterion)
    if of is None:
        return None
    if not settings.options.keys() & targets.EVENT_OPTIONS:
        message = f"{criterion_name(criterion)}: no answer is read as events"
        return Fault("bad-argument", message, "add --events sse or --llm, or events to [load]")
    if of == GOOD_KEY and not settings.run.get("good"):
        message = "nothing says what a good stream is"
        return Fault("bad-argument", message, "add --good 'first < 500ms', or good to [load]")
    return None


def client_mistakes(spec: Spec) -> list[Diagnostic]:
    """Return why the clients of a gang cannot issue the load of a spec, each reason at its place."""

    def wrong(key: str, message: str, hint: str) -> Diagnostic:
        table = key.partition(".")[0]
        where = spec.places.get(key) or spec.places.get(table, Where(spec.file))
        return diagnostic(where, "spec-value", message, hint)

    found = []
    if spec.load.hosts is not None:
        message = "the pool has clients, which issue the load: hosts names others"
        found.append(wrong("load.hosts", message, "leave out hosts, or clients"))
    if spec.remote is not None:
        message = "the pool has clients, whose server runs on the first host of its gang"
        found.append(wrong("remote", message, "leave out [remote], or clients"))
    if spec.server is not None and spec.server.network == "private":
        message = "a private network belongs to one host: clients cannot reach it"
        hint = "leave out network, and listen at {server_address}"
        found.append(wrong("server.network", message, hint))
    if spec.load.generator != ENGINE:
        message = f"the clients of a pool run our engine, not {spec.load.generator}"
        found.append(wrong("load.generator", message, "leave out clients, or generator"))
        return found
    settings: EngineSettings = spec.load.settings
    # Any address that is not of the loopback interface: what matters is what the user wrote.
    elsewhere = {slot.name: "1" for slot in settings.target.slots} | _PLACEHOLDER_VALUES
    elsewhere[SERVER_ADDRESS] = "192.0.2.1"
    target = _target_with(settings.target, elsewhere)
    hint = "such as http://{server_address}:{port}/, at which the server listens"
    for message, _ in () if target is None else target_mistakes(target):
        found.append(wrong("load.target", message, hint))
    if settings.workload is not None:
        hint = "leave out clients: one machine can issue it"
        reasons = _reasons_against_hosts(settings.workload, target)
        found += [wrong("load.workload", why, hint) for why in reasons]
    return found


def _target_with(text: Template, known: Mapping[str, str]) -> r.LoadTarget | None:
    """Return a target with values for its names in braces; None for a text that is no target, which
    has been reported already."""
    with contextlib.suppress(ValueError):
        return targets.parse_target(fill_placeholders(text, known))
    return None


def _reasons_against_hosts(workload: WorkloadFile, target: r.LoadTarget | None) -> list[str]:
    """Return why several hosts cannot issue filaments of a workload together."""
    found = (why_not_hosts(filament, target) for filament in workload.filaments)
    return [why for why in found if why is not None]


def _check_hosts(table: TomlTable, settings: EngineSettings) -> None:
    """Report what several hosts cannot issue together."""
    if not settings.hosts:
        if settings.ssh_config:
            table.refuse(table.at("ssh_config"), "ssh_config is for hosts", "add hosts")
        return
    target = _target_with(settings.target, table.known)
    for message, hint in () if target is None else target_mistakes(target):
        table.refuse(table.at("target"), message, hint)
    if settings.workload is not None:
        _check_filaments(table, "workload", settings.workload, target)


def _check_filaments(
    table: TomlTable, key: str, workload: WorkloadFile, target: r.LoadTarget | None
) -> None:
    """Report, at a key, filaments that several hosts cannot issue together on a target."""
    for why in _reasons_against_hosts(workload, target):
        table.refuse(table.at(key), why, "leave out hosts: one machine can issue it")


# --------------------------------------------------------------------------------------
# A SPEC.toml: `[server]`, `[load]`, `[factors]`, `[peak]`, `[notify]`; all errors are
# reported at once.
#
# Purpose: one parser for `bw peak`, `bw ramp` and `bw surface`. Decision: the caller passes
# the readers of other controllers' tables (`more`), so that an error in `[ramp]` is reported
# together with one in `[server]`; a table without a reader belongs to another command and is
# ignored. docs/workbench.md is the reference for users.

ReadTable = Callable[[TomlTable, Spec], Any]
"""Reads another controller's table; the spec has the tables that are read before."""

TOP = (
    *("server", "load", "files", "filament", "factors", "peak", "ramp", "surface"),
    *("notify", "remote", "target"),
)
_PEAK = Form(keys_of(PeakRequest))
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)
MOST_LEVELS = 1000
_IN_ENVIRONMENT = re.compile(r"BW_FACTOR_(\w+)", re.ASCII)
"""A program may read a level from its environment instead of a text."""


def read_spec(
    text: str,
    file: str,
    more: Mapping[str, ReadTable] | None = None,
    beside: Iterable[tuple[str, str]] = (),
) -> Spec:
    """Return the contents of a spec. Raises InputError with all errors.

    `beside`: path and text of files that the spec names, which are then not read from the disk.
    """
    return read_toml(text, file, "spec", lambda top: _spec(top, file, more or {}), beside)


def _added() -> dict[str, SuiteTable]:
    """Return the tables of a spec that features add."""
    return {key: table for key, table in suite_tables().items() if table.in_specs}


def _stated(top: TomlTable) -> dict[str, Any]:
    """Return what the tables of features state."""
    stated = {key: table.read(top) for key, table in _added().items() if key in top}
    return {key: one for key, one in stated.items() if one is not None}


def _spec(top: TomlTable, file: str, more: Mapping[str, ReadTable]) -> Spec:
    top.only((*TOP, *_added()), elsewhere=missing_tables())
    factors = _factors(top)
    typed = _typed_levels(top, factors)
    uses = _uses(top, typed)

    def read_at(sample: Pairs, table: TomlTable) -> Spec:
        levels = {name: typed[name][level] for name, level in sample}
        filled = table.filled(levels, RESERVED)
        own = _PLACEHOLDER_VALUES | disk_names_of(filled)
        for name in own.keys() & dict(factors).keys():
            message = f"{{{name}}} is a disk of [server.resources]: no factor can have this name"
            table.wrong(top.at("factors", name), "spec-name", message)
        spec = _spec_at(filled.knowing(own | dict(sample)), file, factors, more)
        return msgspec.structs.replace(spec, uses=uses, sample=sample)

    def read_again(sample: Pairs) -> Spec:
        table = top.silent()
        spec = read_at(sample, table)
        if table.found:
            wrong = (at_levels(one, sample, uses, every=True) for one in table.found)
            raise InputError([*wrong])
        return msgspec.structs.replace(spec, read_at=read_again)

    first, *others = samples_to_check(factors)
    table = top.silent()
    spec = read_at(first, table)
    found = dict.fromkeys(table.found)
    for mistake in table.found:
        top.note(at_levels(mistake, first, uses))
    for sample in others if uses else ():
        table = top.silent()
        read_at(sample, table)
        changed = tuple(one for one in sample if one not in first)
        for mistake in table.found:
            if mistake not in found:
                found[mistake] = None
                top.note(at_levels(mistake, changed, uses, every=True))
    return msgspec.structs.replace(
        spec, read_at=read_again if factors else None, files=tuple(top.files.items())
    )


def _spec_at(
    top: TomlTable, file: str, factors: tuple[FactorLevels, ...], more: Mapping[str, ReadTable]
) -> Spec:
    """Return the contents of a spec whose values are those of a sample."""
    peak = top.table("peak")
    notices = top.table("notify")
    server, load = _server(top), _load(top)
    if load.hosts is not None and server is not None and server.network == "private":
        message = "a private network belongs to this machine: other hosts cannot reach it"
        hint = "leave out network; the server listens on an address that all hosts reach"
        top.refuse(top.at("server", "network"), message, hint)
    request, goal = (None, None) if peak is None else _peak(peak)
    spec = Spec(
        file=file,
        directory=str(Path(file).parent),
        server=server,
        load=load,
        remote=remote_of(top, server, load, ENGINE),
        factors=factors,
        peak=request,
        goal=goal,
        notify=None if notices is None else notify_of(notices),
        servers=servers_of(top),
        tables=_stated(top),
        places=_positions(top),
    )
    if peak is not None and (fault := rate_fault(load)):
        top.refuse(top.at("load", "generator"), fault.message, fault.hint)
    for name, reader in more.items():
        table = top.table(name)
        if table is not None:
            spec.more[name] = reader(table, spec)
    return spec


def rate_fault(load: LoadPlan) -> Fault | None:
    """Return why there is no search for a peak rate with a generator: it cannot be given a rate."""
    if load.generator == ENGINE or load.settings is None or "rate" in load.settings.traits.axes:
        return None
    message = f"{load.generator} cannot be given a rate, and a search for a peak rate needs one"
    hint = "use another generator, or `bw ramp` over its users"
    return Fault("spec-value", message, hint)


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
            message = f"{{{name}}} has a meaning of its own: no factor can have this name"
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


def _typed_levels(
    top: TomlTable, factors: tuple[FactorLevels, ...]
) -> dict[str, dict[str, Scalar]]:
    """Return the level with its type for each level's text, by factor."""
    written: Mapping[str, Any] = top.values.get("factors", {})
    typed: dict[str, dict[str, Scalar]] = {}
    for name, levels in factors:
        values = written[name] if isinstance(written[name], list) else []
        own = {top.scalar(value): value for value in values}
        # A text that is not among the values is a number of a range.
        typed[name] = {text: own.get(text, _number(text)) for text in levels}
    return typed


def _number(text: str) -> Scalar:
    """Return the number of a range; a text that is none where the levels are wrong."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _uses(top: TomlTable, factors: Collection[str]) -> tuple[FactorUse, ...]:
    """Return where the texts of a spec name factors."""

    def inside(value: Any, *path: str | int) -> Iterator[FactorUse]:
        if isinstance(value, dict):
            for key, one in value.items():
                yield from inside(one, *path, key)
        elif isinstance(value, list):
            for index, one in enumerate(value):
                yield from inside(one, *path, index)
        elif isinstance(value, str):
            template = brace_template(value, top.inside(value, *path), factors)
            named = [slot.name for slot in template.slots]
            named += _IN_ENVIRONMENT.findall(value)
            for name in dict.fromkeys(named):
                yield FactorUse(name, str(path[0]), top.at(*path))

    tables = {key: value for key, value in top.values.items() if key != "factors"}
    return tuple(inside(tables))


def at_levels(
    one: Diagnostic, levels: Pairs, uses: Sequence[FactorUse], *, every: bool = False
) -> Diagnostic:
    """Return a mistake with the levels that it depends on: of the factors at its place, or, with
    `every`, of all these factors where none is at its place."""
    here = {
        use.factor for use in uses if (use.where.line, use.where.column) == (one.line, one.column)
    }
    known = [(name, level) for name, level in levels if name in here]
    known = known or [*levels] if every else known
    if not known:
        return one
    told = list_text([f"{{{name}}} = {level}" for name, level in known])
    return msgspec.structs.replace(one, message=f"{one.message} (at {told})")


def _load(top: TomlTable) -> LoadPlan:
    table = top.table("load")
    if table is None:
        if "load" not in top:
            hint = 'such as [load] with target = "http://127.0.0.1:8080/"'
            message = "[load] is missing: it describes the load on the server"
            top.wrong(top.where, "spec-missing", message, hint)
        return LoadPlan()
    plan = read_load(table)
    if "filament" not in top and "files" not in top:
        return _checked_files(table, plan)
    for key in ("filament", "files"):
        where = top.at(key) if key in top else None
        if where is not None and (plan.generator != ENGINE or "workload" in table):
            other = "workload" if "workload" in table else f"generator {plan.generator}"
            top.refuse(where, f"[{key}] has no effect with {other} of [load]")
    workload = read_filaments(top, top.where.file, None)
    if plan.generator == ENGINE and plan.settings is not None and workload.filaments:
        own = _searched(top, "filament", workload)
        if plan.settings.hosts:
            target = _target_with(plan.settings.target, table.known)
            _check_filaments(top, "filament", workload, target)
        settings = msgspec.structs.replace(plan.settings, workload=own)
        plan = msgspec.structs.replace(plan, settings=settings)
    return _checked_files(table, plan)


def _checked_files(table: TomlTable, plan: LoadPlan) -> LoadPlan:
    """Report a target with files without a workload on files."""
    settings = plan.settings
    if plan.generator != ENGINE or settings is None or settings.workload is not None:
        return plan
    with contextlib.suppress(ValueError):
        target = targets.parse_target(fill_placeholders(settings.target, table.known))
        if targets.has_files(target) and table.is_sound:
            message = f"a {targets.kind_of(target)} target needs a workload on files"
            hint = 'workload = "FILE.toml", or [files] and [[filament]] in the spec'
            table.refuse(table.at("target"), message, hint)
    return plan


# -- server ----------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match[1]) < 65536:
        raise ValueError(f"{text!r} is not HOST:PORT such as 127.0.0.1:8080")
    return text.strip().rpartition(":")[0].strip("[]"), int(match[1])


def _http_url(table: TomlTable, key: str) -> Template | None:
    url = read_template(table, key)
    if url is not None and not "".join(map(str, url.parts)).startswith("http://"):
        message = "http is a URL that begins with http://"
        table.refuse(table.at(key), message, "use tcp for a server with TLS")
    return url


READY: Mapping[str, Form] = {
    "tcp": Form((needed("tcp", read=template_value(parse_address), field="address"),), TcpReady),
    "http": Form((needed("http", read=_http_url, field="url"),), HttpReady),
    "command": Form((needed("command", read=read_command),), CommandReady),
}
"""The ways to check whether a server is ready, by their key."""


def _ready(table: TomlTable, key: str) -> Ready | None:
    if isinstance(table.values[key], str):
        hint = 'ready = { tcp = "HOST:PORT" }, or http = "http://...", or command = "..."'
        message = "ready is a string, expected a table"
        table.wrong(table.at(key), "spec-type", message, hint)
        return None
    inner = table.table(key)
    if inner is None:
        return None
    inner.only(tuple(READY))
    if len(inner.values) != 1:
        message = "ready is one of tcp, http and command"
        inner.refuse(table.at(key), message, 'ready = { tcp = "HOST:PORT" }')
        return None
    (way,) = inner.values
    ready: Ready | None = read_form(inner, READY[way]) if way in READY else None
    return ready


def _naming(key: ServerKey, text: str) -> Option:
    """Return the key of `[server]` that names a running server."""
    parse = partial(parse_named_server, key)
    return optional(key, parse, field="named", help=text, default="none")


SERVER = Form(
    (
        optional(
            "configure",
            read=read_commands,
            help="a command, or several, run in order before each start",
            default="none",
        ),
        optional(
            "configure_timeout",
            words.some_ns,
            field="configure_timeout_ns",
            help="time limit of each",
            default='`"10m"`',
        ),
        optional(
            "start",
            read=read_command,
            help="the server's command; it runs in the foreground (bw puts it in the background)",
            default="none",
        ),
        optional(
            "daemon",
            read=of_type(bool),
            help="the start command returns and leaves the server running",
            default="`false`",
        ),
        optional(
            "ready",
            read=_ready,
            help='`{ tcp = "HOST:PORT" }`, `{ http = "http://..." }` (any status below 500) or '
            '`{ command = "..." }` (exit status 0); each check may take a second',
            default="needed with `start`",
        ),
        optional(
            "ready_timeout",
            words.some_ns,
            field="ready_timeout_ns",
            help="time limit until the server is ready, and of the start command of a daemon",
            default='`"10s"`',
        ),
        optional(
            "stop",
            read=read_command,
            help="a command that is run first; then SIGTERM, then SIGKILL",
            default="none",
        ),
        optional(
            "grace",
            words.duration_ns,
            field="grace_ns",
            help="how long to wait after each of them, and the time limit of the `stop` command "
            "(at least 1 s)",
            default='`"5s"`',
        ),
        optional(
            "restart",
            read=of_type(Literal["trial", "sample"]),
            help='`"sample"`: one server for all trials of a sample; `"trial"`: a new one for '
            "each trial",
            default='`"sample"`',
        ),
        optional(
            "cpus",
            words.parse_cpus,
            help='CPUs of the server and of its commands: `"0"`, `"0-3,8"`',
            default="see below",
        ),
        optional(
            "environment",
            read=read_templates,
            help="a table of variables for its commands",
            default="none",
        ),
        optional(
            "directory", read=read_template, help="where the commands run", default="the spec's"
        ),
        optional(
            "network",
            read=of_type(Literal["host", "private"]),
            help='`"private"`: a network namespace with only the loopback interface, for the server and '
            "the generator: [below](#a-network-of-its-own)",
            default='`"host"`',
        ),
        optional(
            "resources",
            read=nested(RESOURCES),
            help="its shares and limits of the machine, and disks: [below](#serverresources)",
            default="all that there is",
        ),
        _naming(
            "pid",
            "the server runs already, with this process id, or the id in this file (`812`, "
            '`"/run/nginx.pid"`): [below](#a-server-that-runs-already)',
        ),
        _naming("port", "the same, by the TCP or UDP port that it listens on"),
        _naming("unit", 'the same, by its systemd unit: `"nginx.service"`'),
        _naming("name", "the same, by its program's name"),
    ),
    ServerPlan,
)


def _server(top: TomlTable) -> ServerPlan | None:
    table = top.table("server")
    if table is None:
        return None
    _check_server(table)
    plan: ServerPlan | None = read_form(table, SERVER)
    return plan


def _check_server(table: TomlTable) -> None:
    """Report keys that have no effect without other keys, or beside them."""
    naming = [key for key in SERVER_KEYS if key in table]
    for key in naming[1:]:
        message = f"{key} and {naming[0]} both name the server"
        hint = "leave one out; further programs: target = [...] above the first table"
        table.refuse(table.at(key), message, hint)
    if naming and "start" in table:
        message = f"start has no effect: the server of {naming[0]} runs already"
        table.refuse(table.at("start"), message, f"leave out start or {naming[0]}")
    if "start" not in table:
        hint = 'add start = "COMMAND"'
        if naming:
            hint = f"the server of {naming[0]} is neither started nor stopped"
        for needy in ("daemon", "stop", "restart", "network", "resources"):
            if needy in table:
                message = f"{needy} has no effect without start"
                table.refuse(table.at(needy), message, hint)
        if not naming and "configure" not in table and "ready" not in table:
            message = "[server] has neither start nor configure nor ready"
            table.refuse(
                table.where, message, "leave out [server] for a server that is already running"
            )
    elif "ready" not in table:
        hint = 'such as ready = { tcp = "127.0.0.1:8080" }'
        message = "ready is missing: it checks when the server can take load"
        table.wrong(table.where, "spec-missing", message, hint)


# -- peak ------------------------------------------------------------------------------


def _peak(table: TomlTable) -> tuple[PeakRequest, PeakGoal | None]:
    """Return the texts of `[peak]`, and the goal that they mean without options."""
    table.only(_PEAK.names)
    if table.need("criteria") and table.values["criteria"] == []:
        hint = 'such as criteria = ["p99 response < 100ms"]'
        table.refuse(table.at("criteria"), "criteria is empty", hint)
    request = PeakRequest(**texts_of(table, PeakRequest))
    reader = PeakReader(request)
    goal = reader.goal()
    place_mistakes(table, PeakRequest, reader.found, "spec-value")
    if "confidence" in table and any(claim.kind is ClaimKind.SLO for claim in reader.claims()):
        message = "the claim slo contains its confidence: slo:95%"
        table.refuse(table.at("confidence"), message)
    return request, goal
