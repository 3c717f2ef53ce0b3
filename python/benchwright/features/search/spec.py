"""The contents of a spec: a server with its commands, its load, factors, and the goal of the
search.

Purpose: the frozen types behind `bw peak SPEC.toml`, `bw ramp` and `bw surface`; spec_toml.py
reads them. Decision: a spec is read at a sample: `{name}` of a factor is replaced by its level
in every value before the value is read, so each key accepts factors without code of its own.
Only texts and commands keep their names as slots until a trial, because `{port}` and `{state}`
are known no sooner. A command is split into words before values are inserted, so a level can
never become shell syntax; in a shell command that the user wrote, the values are quoted.
Rejected: slots in every key (a second type for each number). docs/workbench.md is the
reference for users.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from benchwright.core.hosts import HostsSettings, NamedServer, RemoteSettings
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import Command, Pairs
from benchwright.features.load.tables import refuse_unknown_names, template_of
from benchwright.features.quiet.types import ServerResources
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.types import PeakGoal
from benchwright.inputs.mistakes import Where
from benchwright.inputs.template import (
    NAME_IN_BRACES,
    OffsetLocator,
    Template,
    brace_template,
    fill_placeholders,
    split_words,
)
from benchwright.inputs.toml_table import TomlTable


class CommandText(msgspec.Struct, frozen=True):
    """A command whose words may have slots."""

    words: tuple[Template, ...]
    shell: bool = False
    """Whether the user wrote a shell command; its text is then the only word."""

    def filled(self, values: Mapping[str, str]) -> Command:
        """Return the command with its slots filled."""
        if not self.shell:
            return Command(tuple(fill_placeholders(word, values) for word in self.words))
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return Command(("/bin/sh", "-c", fill_placeholders(self.words[0], quoted)))


def read_command(table: TomlTable, key: str) -> CommandText | None:
    """Return one command: a text, or an array of words."""
    table = table.as_written
    if not table.has(key, str, list):
        return None
    return _command(table, table.values[key], key)


def read_commands(table: TomlTable, key: str) -> tuple[CommandText, ...]:
    """Return commands: one text, or an array of texts and of arrays of words."""
    table = table.as_written
    if not table.has(key, str, list):
        return ()
    value = table.values[key]
    if isinstance(value, str):
        command_texts = [_command(table, value, key)]
    else:
        command_texts = [_command(table, one, key, at) for at, one in enumerate(value)]
    return tuple(command_text for command_text in command_texts if command_text is not None)


def _command(table: TomlTable, value: Any, *keys: str | int) -> CommandText | None:
    where = table.at(*keys)
    if not isinstance(value, (str, list)):
        table.mistyped(where, f"a command of {keys[0]}", value, (str, list))
        return None
    empty = not value or not (value if isinstance(value, str) else value[0])
    if empty or (isinstance(value, str) and not value.strip()):
        table.wrong(where, "spec-no-command", f"a command of {keys[0]} is empty")
        return None
    if isinstance(value, str):
        return _text_command(table, value, *keys)
    return _word_command(table, value, *keys)


def _word_command(table: TomlTable, value: list[Any], *keys: str | int) -> CommandText | None:
    templates = []
    for index, word in enumerate(value):
        if not isinstance(word, str):
            where = table.at(*keys, index)
            table.mistyped(where, f"a word of {keys[0]}", word, (str,))
            return None
        templates.append(template_of(table, word, *keys, index))
    return CommandText(tuple(templates))


def _text_command(table: TomlTable, text: str, *keys: str | int) -> CommandText:
    """Return the command of a text: split into words, or for a shell if it is a shell command."""
    place = table.inside(text, *keys)
    # Braces around a name are ours; the rest decides, as everywhere in a suite.
    shell = Command.from_text(NAME_IN_BRACES.sub("x", text)).argv[:2] == ("/bin/sh", "-c")
    refuse_unknown_names(table, text, place, shell=shell)
    if shell:
        return CommandText((brace_template(text, place, tuple(table.known)),), shell=True)
    words, _ = split_words(text)
    return CommandText(
        tuple(
            brace_template(word.text, _shifted(place, word.offset), tuple(table.known))
            for word in words
        )
    )


def _shifted(place: OffsetLocator, by: int) -> OffsetLocator:
    return lambda offset: place(by + offset)


SERVER_ADDRESS = "server_address"
PLACEHOLDERS = ("here", "state", "port", SERVER_ADDRESS)
"""Names that are known in addition to the factors: the spec's directory, a private directory
of the workbench, a free port, and the address of the server's host in a gang of a pool."""
RESERVED = (*PLACEHOLDERS, "rate", "duration", "users", "seed", "directory")
"""Names that a factor must not have."""


class TcpReady(msgspec.Struct, frozen=True):
    """Ready if the server accepts a connection."""

    address: Template
    """Address as HOST:PORT."""

    def shown(self, values: Mapping[str, str]) -> str:
        """Return a description of the check for messages."""
        return fill_placeholders(self.address, values)


class HttpReady(msgspec.Struct, frozen=True):
    """Ready if the response is not a server error (status below 500)."""

    url: Template

    def shown(self, values: Mapping[str, str]) -> str:
        """Return a description of the check for messages."""
        return fill_placeholders(self.url, values)


class CommandReady(msgspec.Struct, frozen=True):
    """Ready if the command exits with 0."""

    command: CommandText


Ready = TcpReady | HttpReady | CommandReady


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is configured, started, checked and stopped."""

    configure: tuple[CommandText, ...] = ()
    """Commands before each start, in order."""
    configure_timeout_ns: int = 600 * 10**9
    """Time limit of each of these commands."""
    start: CommandText | None = None
    """None: the server is already running, and only `configure` is run."""
    named: NamedServer | None = None
    """The server that is already running, where the spec names its processes."""
    daemon: bool = False
    """Whether the start command returns and leaves the server running."""
    ready: Ready | None = None
    ready_timeout_ns: int = 10 * 10**9
    stop: CommandText | None = None
    """None: SIGTERM, then SIGKILL after `grace_ns`."""
    grace_ns: int = 5 * 10**9
    restart: Literal["trial", "sample"] = "sample"
    """How long a server runs: for one trial, or for all trials of a sample."""
    cpus: tuple[int, ...] | None = None
    """None: all CPUs except those of the generator (server/host.py)."""
    environment: tuple[tuple[str, Template], ...] = ()
    directory: Template | None = None
    """Working directory; None: the spec's directory."""
    network: Literal["host", "private"] = "host"
    """The machine's network, or a network namespace for the server and its generator."""
    resources: ServerResources | None = None
    """Its shares and limits of the machine, and its disks; None: all that there is."""


class RemotePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The other host, and what runs there."""

    settings: RemoteSettings
    run: Literal["server", "load"] = "server"
    copy: tuple[str, ...] = ()
    """Files to copy there, relative to the spec's directory."""


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The generator, its settings and its CPUs."""

    generator: str = "engine"
    cpus: tuple[int, ...] | None = None
    settings: Any = None
    """Settings of the generator, as its own reader made them."""

    @property
    def hosts(self) -> HostsSettings | None:
        """The hosts on which our engine issues the load; None: this machine, or another generator."""
        names = getattr(self.settings, "hosts", ())
        if not names:
            return None
        return HostsSettings(names, self.settings.ssh_config)


FactorLevels = tuple[str, tuple[str, ...]]
"""A factor's name, and its levels as texts in the written order."""
MOST_CHECKED = 64
"""Maximum number of samples that are all checked; of more, those that differ from the first
sample in one factor."""


class FactorUse(msgspec.Struct, frozen=True):
    """A place of a spec that names a factor."""

    factor: str
    table: str
    """The top-level table that it is in."""
    where: Where


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in a SPEC.toml."""

    file: str
    directory: str
    """Directory of the file, as written: relative to the session's initial directory."""
    load: LoadPlan
    server: ServerPlan | None = None
    """None: the user's own server is already running."""
    remote: RemotePlan | None = None
    """None: everything runs on this machine."""
    factors: tuple[FactorLevels, ...] = ()
    peak: PeakRequest | None = None
    """The texts of `[peak]`, over which those of options are layered; None: no such table."""
    goal: PeakGoal | None = None
    """The goal that these texts mean alone."""
    more: dict[str, Any] = {}
    """Contents of other tables (`[ramp]`, `[surface]`), as their readers returned them."""
    notify: NoticeSettings | None = None
    """Notices about the end of a search; None: the spec has none."""
    servers: tuple[NamedServer, ...] = ()
    """Running servers that the load uses."""
    tables: Mapping[str, Any] = {}
    """What the tables of features state, by key (`Feature.suite_tables`)."""
    places: dict[str, Where] = {}
    """The position of a table or `table.key`, for errors that are detected later."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and text of the files that the spec names."""
    uses: tuple[FactorUse, ...] = ()
    """Where the file names its factors."""
    sample: Pairs = ()
    """The level of each factor at which the values were read; at first, the first levels."""
    read_at: Callable[[Pairs], Spec] | None = None
    """Reads the file at another sample; None: it has no factors."""

    @property
    def server_host(self) -> str:
        """The other host on which the server runs; empty: this machine."""
        there = self.remote is not None and self.remote.run == "server"
        return self.remote.settings.host if self.remote and there else ""

    def at(self, sample: Pairs) -> Spec:
        """Return the spec with the values at this sample; other factors keep their level.

        Raises InputError for values that are wrong together, although each is valid with the
        first levels of the other factors.
        """
        levels = dict(self.sample)
        wanted = levels | {name: one for name, one in sample if name in levels}
        if self.read_at is None or wanted == levels:
            return self
        return self.read_at(tuple(wanted.items()))


def samples_to_check(factors: Sequence[FactorLevels]) -> list[Pairs]:
    """Return the samples at which a spec is checked, the first levels first."""
    names = [name for name, _ in factors]
    if math.prod(len(levels) for _, levels in factors) <= MOST_CHECKED:
        every = itertools.product(*(levels for _, levels in factors))
        return [tuple(zip(names, levels, strict=True)) for levels in every]
    first = {name: levels[0] for name, levels in factors}
    others = [first | {name: one} for name, levels in factors for one in levels[1:]]
    return [tuple(sample.items()) for sample in (first, *others)]
