"""The contents of a spec: a server, its load, factors, and the goal of the search.

Purpose: the frozen types behind `bw peak SPEC.toml`, `bw ramp` and `bw surface`; spec_toml.py
reads them. Decision: texts keep their `{name}` as slots until a trial's sample is known; a
command is split into words before values are put in, so a level can never become shell syntax
unless the user wrote a shell command, and then it is quoted. docs/workbench.md is the
reference for users.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from benchwright.core.named_server import NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import Command
from benchwright.core.search import Claim, PeakGoal
from benchwright.suite.program import Template, Where

PLACEHOLDERS = ("here", "state", "port")
"""Names that every text knows beside the factors: the spec's directory, a private directory of
the workbench, and a free port of it."""
RESERVED = (*PLACEHOLDERS, "rate", "duration", "users", "seed", "directory")
"""Names that no factor may have."""


class CommandText(msgspec.Struct, frozen=True):
    """A command whose words have slots."""

    words: tuple[Template, ...]
    shell: bool = False
    """The user wrote a shell command: the one word is its text."""

    def filled(self, values: Mapping[str, str]) -> Command:
        """Return the command with values in its slots."""
        if not self.shell:
            return Command(
                tuple(fill_placeholders(word, values) for word in self.words)
            )
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return Command(("/bin/sh", "-c", fill_placeholders(self.words[0], quoted)))


class TcpReady(msgspec.Struct, frozen=True):
    """Ready when a connection is accepted."""

    address: Template
    """HOST:PORT."""

    def shown(self, values: Mapping[str, str]) -> str:
        """Return what is requested, for a message."""
        return fill_placeholders(self.address, values)


class HttpReady(msgspec.Struct, frozen=True):
    """Ready when an answer comes that is no server error (status below 500)."""

    url: Template

    def shown(self, values: Mapping[str, str]) -> str:
        """Return what is requested, for a message."""
        return fill_placeholders(self.url, values)


class CommandReady(msgspec.Struct, frozen=True):
    """Ready when the command exits with 0."""

    command: CommandText


Ready = TcpReady | HttpReady | CommandReady


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is configured, started, waited for and stopped."""

    configure: tuple[CommandText, ...] = ()
    """Before each start, in order."""
    configure_timeout_ns: int = 600 * 10**9
    """Of each of them."""
    start: CommandText | None = None
    """None: there is only `configure`, and a server that is there by itself."""
    daemon: bool = False
    """The start command returns, and leaves the server behind."""
    ready: Ready | None = None
    ready_timeout_ns: int = 10 * 10**9
    stop: CommandText | None = None
    """None: SIGTERM, `grace_ns`, SIGKILL."""
    grace_ns: int = 5 * 10**9
    restart: Literal["trial", "sample"] = "sample"
    """How long one server lives."""
    cpus: tuple[int, ...] | None = None
    """None: all but those of the generator (cpus.py)."""
    environment: tuple[tuple[str, Template], ...] = ()
    directory: Template | None = None
    """None: the spec's own."""


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What drives the load."""

    generator: str = "engine"
    cpus: tuple[int, ...] | None = None
    settings: Any = None
    """Of the generator, as its own reader understood them."""


FactorLevels = tuple[str, tuple[str, ...]]
"""A name and its levels, as texts in the order written."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in a SPEC.toml."""

    file: str
    directory: str
    """Where the file is, as written: relative to where the session began."""
    load: LoadPlan
    server: ServerPlan | None = None
    """None: the user's own server is simply there."""
    factors: tuple[FactorLevels, ...] = ()
    goal: PeakGoal | None = None
    """Of `[peak]`; None: there is no such table."""
    claims: tuple[Claim, ...] = ()
    """All that `[peak]` claims; the goal's is the first."""
    policy: str | None = None
    """None: the default one."""
    more: dict[str, Any] = {}
    """By table: what the readers that were handed in made of `[ramp]`, `[surface]` ..."""
    notify: NoticeSettings | None = None
    """The notices of a search's end; None: the spec names none."""
    servers: tuple[NamedServer, ...] = ()
    """Servers that the load drives and that run already."""
    places: dict[str, Where] = {}
    """The place of a table or `table.key`, for errors that are detected later."""


def fill_placeholders(template: Template, values: Mapping[str, str]) -> str:
    """Return a text with values in its slots; each has one."""
    return "".join(
        part if isinstance(part, str) else values[part.name] for part in template.parts
    )
