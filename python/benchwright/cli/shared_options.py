"""Options that several commands share (study, name and tags, watching, named servers, and
`--notify`: the targets of the notice when a session or a load ends), and the port of features
that add options to commands of others.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.core.errors import InputError, argument_error
from benchwright.core.hosts import SERVER_KEYS, NamedServer, parse_named_server
from benchwright.core.notice import (
    ALL_EVENTS,
    NOTIFY_OPTION,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    NoticeEvent,
    NoticeSettings,
    NoticeTarget,
    Secret,
    WebhookTarget,
    parse_events,
)
from benchwright.feature import features, observers
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.study.directory import JOURNAL
from benchwright.study.keys import (
    ABOUT_OPTION,
    NAME_FLAG,
    SessionAbout,
    parse_name,
    parse_note,
    parse_tag,
)
from benchwright.suite.common_options import Json, Quiet, Verbose

if TYPE_CHECKING:
    from benchwright.run.preparation import PreparedProgram
    from benchwright.study.journal import SessionInfo
    from benchwright.watch.observer import ObserverKind


# -- Reading --notify and --notify-on --------------------------------------------------
#
# A target is `mail:ADDRESS[,ADDRESS]` (through this machine's mail server), `https://...`,
# `env:NAME` (a variable with the URL of a webhook or of apprise), `command:PROGRAM WORDS`, or
# FILE.toml with a table [notify]. Decision: the session's options contain the settings, so that
# `bw resume` notifies the same targets. The settings cannot contain secrets.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "mail:ADDRESS, https://..., env:NAME, command:PROGRAM, or FILE.toml"


def read_notify(words: Sequence[str], on: str | None) -> tuple[NoticeSettings, ...]:
    """Return the settings of --notify and --notify-on. Raises InputError."""
    events = ALL_EVENTS if on is None else _events(on)
    if on is not None and not words:
        raise argument_error("--notify-on", on, "there is no --notify", _HINT)
    files = tuple(_of_file(word) for word in words if word.endswith(".toml"))
    if on is not None:
        files = tuple(msgspec.structs.replace(file, on=events) for file in files)
    targets = tuple(_target(word) for word in words if not word.endswith(".toml"))
    return (*files, *((NoticeSettings(targets, events),) if targets else ()))


def with_notify(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return a session's info with the settings of --notify added. Raises InputError."""
    notify = read_notify(arguments.notify, arguments.notify_on)
    if not notify:
        return info
    options = {**info.options, NOTIFY_OPTION: msgspec.json.encode(notify).decode()}
    return msgspec.structs.replace(info, options=options)


def _events(text: str) -> tuple[NoticeEvent, ...]:
    try:
        return parse_events(text)
    except ValueError as error:
        hint = "one of " + ", ".join(ALL_EVENTS)
        raise argument_error("--notify-on", text, str(error), hint) from None


def _target(word: str) -> NoticeTarget:
    kind, _, rest = word.partition(":")
    match kind:
        case "mail":
            return _with_apprise(word, _mail(word, rest))
        case "http" | "https":
            return _webhook(word)
        case "env":
            return _with_apprise(word, _variable(word, rest))
        case "command":
            return _command(word, rest)
    raise argument_error("--notify", word, f"{word!r} is not a notification target", _HINT)


def _with_apprise(word: str, target: NoticeTarget) -> NoticeTarget:
    """Return the target. Raises InputError if it needs apprise, which is not installed."""
    from benchwright.core.extras import require

    if isinstance(target, MailTarget | AppriseTarget):
        require("apprise", "--notify", "this target", word)
    return target


def _mail(word: str, rest: str) -> MailTarget:
    from benchwright.suite.toml_sections import ADDRESS

    to = tuple(address.strip() for address in rest.split(","))
    for address in to:
        if not ADDRESS.fullmatch(address):
            message = f"{address!r} is not a mail address"
            raise argument_error("--notify", word, message, "mail:NAME@HOST")
    return MailTarget(to)


def _webhook(word: str) -> WebhookTarget:
    from benchwright.notice.text import url_fault

    fault = url_fault(word, with_token=False)
    if fault:
        raise argument_error("--notify", word, fault)
    return WebhookTarget(word)


def _variable(word: str, name: str) -> NoticeTarget:
    """Return the target of an environment variable: a webhook for https://, else apprise."""
    import os

    if not _NAME.fullmatch(name):
        message = f"{name!r} is not the name of a variable"
        raise argument_error("--notify", word, message, "env:NAME")
    value = os.environ.get(name, "").strip()
    if not value:
        raise argument_error("--notify", word, f"the variable {name} is not set")
    secret = Secret("variable", name)
    if value.startswith(("https://", "http://")):
        return WebhookTarget(url_from=secret)
    return AppriseTarget(secret)


def _command(word: str, rest: str) -> CommandTarget:
    try:
        argv = shlex.split(rest)
    except ValueError as error:
        raise argument_error("--notify", word, f"{error}") from None
    if not argv or not argv[0]:
        raise argument_error("--notify", word, "there is no command", "command:PROGRAM")
    return CommandTarget(tuple(argv))


def _of_file(path: str) -> NoticeSettings:
    from benchwright.inputs.mistakes import Unreadable, read_regular, read_text
    from benchwright.suite.toml_sections import notify_file

    try:
        text = read_text(path, read_regular)
    except Unreadable as error:
        raise argument_error("--notify", path, error.message) from None
    if text is None:
        raise argument_error("--notify", path, "there is no such file")
    settings = notify_file(path, text)
    for target in settings.targets:
        _with_apprise(path, target)
    return settings


class BegunSession(msgspec.Struct, frozen=True):
    """A session that a command is about to start."""

    info: SessionInfo
    tables: Mapping[str, Any] = {}
    """What the tables of features in its suite or spec state."""
    program: PreparedProgram | None = None
    """Of a session of tests."""
    suite: str | None = None
    """Path of the suite, if there is one."""


class AddedOptions(msgspec.Struct, frozen=True):
    """Options of one feature for one command."""

    declared: type[msgspec.Struct]
    """The request that declares them."""
    apply: Callable[[BegunSession, Namespace], SessionInfo]
    """Returns the info of a session with what they say. Raises InputError."""
    group: str = ""
    """The heading in `--help`."""
    helps: Mapping[str, str] = {}
    """Help texts that replace those declared, by field."""
    answer: Callable[[Namespace], int | None] | None = None
    """Answers in place of the command and returns the exit status, if its options ask for that;
    else returns None. Raises InputError."""


def added_to(command: str) -> Iterator[AddedOptions]:
    """Yield what the installed features add to a command."""
    for feature in features():
        yield from feature.options(command)


def answered_by_feature(arguments: Namespace, command: str) -> int | None:
    """Return the exit status of what a feature answered in place of the command; None if its
    options do not ask for that. Raises InputError."""
    for added_options in added_to(command):
        if added_options.answer is not None:
            status = added_options.answer(arguments)
            if status is not None:
                return status
    return None


def add_features_options(parser: ArgumentParser, command: str) -> None:
    """Add the options of features to the parser of a command."""
    for added_options in added_to(command):
        add_options(parser, added_options.declared, added_options.group, helps=added_options.helps)


def with_features_options(begun: BegunSession, arguments: Namespace, command: str) -> SessionInfo:
    """Return the info of a session with what the options of features say. Raises InputError."""
    for added_options in added_to(command):
        info = added_options.apply(begun, arguments)
        begun = msgspec.structs.replace(begun, info=info)
    return begun.info


# -- The study, observers of trials, named servers, notices ----------------------------
#
# Decision: the session's options contain the observers, so that `bw resume` uses the same ones.


class StudyOptions(msgspec.Struct, frozen=True):
    """The study's directory, and the output format."""

    study: Annotated[
        str, Option("study directory", "DIR", default="./bw-study", names="directory")
    ] = "bw-study"
    json: Json = False
    quiet: Quiet = False


def study_here() -> tuple[str, ...]:
    """Return the study that commands use if none is named, `./bw-study`; empty without one."""
    name = StudyOptions().study
    return (name,) if (Path(name) / JOURNAL).is_file() else ()


class DetailOptions(msgspec.Struct, frozen=True):
    """How much of the outcome is printed."""

    verbose: Verbose = False


def parse_port(text: str) -> int:
    """Return the number of a TCP port; 0, which is any free one, for `any`.

    Raises ValueError.
    """
    if text == "any":
        return 0
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise ValueError("a port is a number from 1 to 65535")
    return int(text)


class LiveOptions(msgspec.Struct, frozen=True):
    """Whether the results are shown in a browser while the session runs."""

    live: Annotated[
        Text,
        Option("follow the session in a browser (docs/live.md)", "=PORT", parse_port, bare="any"),
    ] = None


def _parse_events(text: str) -> object:
    # Most commands have the option, and few notify.
    from benchwright.core.notice import parse_events

    return parse_events(text)


class NotifyOptions(msgspec.Struct, frozen=True):
    """The targets of notices, and the events that they report."""

    notify: Annotated[
        tuple[str, ...],
        Option(
            "notify when the session ends: mail:ADDRESS, https://..., env:NAME, "
            "command:PROGRAM, FILE.toml (docs/notices.md)",
            "TARGET",
            only_user=True,
            rare=True,
        ),
    ] = ()
    notify_on: Annotated[
        str | None,
        Option(
            "notify only of: fail-fast,failure,done,undecided,interrupted",
            "EVENTS",
            _parse_events,
            needs="notify",
            rare=True,
        ),
    ] = None


class AboutOptions(msgspec.Struct, frozen=True):
    """What the user says about the session."""

    session_name: Annotated[
        Text,
        Option(
            "name of the session, unique in its study: STUDY@NAME",
            "NAME",
            parse_name,
            flag=NAME_FLAG,
            hint=f"write {NAME_FLAG} before",
            rare=True,
            no_default="a name is unique in its study",
        ),
    ] = None
    tag: Annotated[
        tuple[str, ...],
        Option(
            "tag of the session (repeatable)",
            "TAG",
            parse_tag,
            hint="write --tag nightly --tag release-2.1",
            rare=True,
        ),
    ] = ()
    note: Annotated[
        Text,
        Option(
            "note about the session",
            "TEXT",
            parse_note,
            rare=True,
            no_default="it is about one session",
        ),
    ] = None


def about_of(arguments: Namespace) -> SessionAbout:
    """Return what the options say about the session. Raises InputError with all mistakes."""
    reader = OptionReader(request_from(AboutOptions, arguments))
    about = SessionAbout(
        reader.value("session_name") or "",
        tuple(dict.fromkeys(reader.values("tag"))),
        reader.value("note") or "",
    )
    if reader.found:
        raise InputError(reader.found)
    return about


class ServerOptions(msgspec.Struct, frozen=True):
    """Running servers that the benchmark drives."""

    target_port: Annotated[
        tuple[str, ...],
        Option(
            "running server to watch, by its port",
            "PORT",
            partial(parse_named_server, "port"),
            rare=True,
        ),
    ] = ()
    target_unit: Annotated[
        tuple[str, ...],
        Option(
            "the same, by its systemd unit", "UNIT", partial(parse_named_server, "unit"), rare=True
        ),
    ] = ()
    target_name: Annotated[
        tuple[str, ...],
        Option(
            "the same, by its program's name",
            "NAME",
            partial(parse_named_server, "name"),
            rare=True,
        ),
    ] = ()
    target_pid: Annotated[
        tuple[str, ...],
        Option("the same, by its process id", "PID", partial(parse_named_server, "pid"), rare=True),
    ] = ()


class _NoWatch(ServerOptions, frozen=True):
    no_watch: Annotated[
        bool, Option("do not watch the machine during trials (disables `bw why`)", rare=True)
    ] = False


def _watch_options(name: str, kinds: Iterable[ObserverKind]) -> type[msgspec.Struct]:
    """Return the options of servers and of observers: no sampler, and each of these kinds."""
    fields = [(kind.name, Annotated[bool, Option(kind.help, rare=True)], False) for kind in kinds]
    return msgspec.defstruct(name, fields, bases=(_NoWatch,), frozen=True)


WatchOptions = _watch_options(
    "WatchOptions", [observer for observer in observers() if observer.of_loads]
)
"""Observers of all trials, and named servers."""
TrialWatchOptions = _watch_options("TrialWatchOptions", observers())
"""Observers of trials that run commands, and named servers."""
WATCHING = "what watches the trials"
RESULT = "result"


def named_servers(arguments: Namespace) -> tuple[NamedServer, ...]:
    """Return the servers that the options name, in the order of `SERVER_KEYS`.

    Raises InputError with all mistakes.
    """
    reader = OptionReader(request_from(ServerOptions, arguments))
    found = [one for way in SERVER_KEYS for one in reader.values(f"target_{way}")]
    if reader.found:
        raise InputError(reader.found)
    return tuple(dict.fromkeys(found))


def with_session_options(info: SessionInfo, arguments: Namespace) -> SessionInfo:
    """Return a session's info with the options for observers, named servers and notices, with its
    name, tags and note, and with the defaults from configuration files, which are also printed.

    Raises InputError.
    """
    from benchwright.run.watching import WATCH_OPTION, with_servers
    from benchwright.study.contents import DEFAULTS_OPTION, StoredDefault

    options = {**info.options, WATCH_OPTION: watch_setting(arguments)}
    about = about_of(arguments)
    if about != SessionAbout():
        options[ABOUT_OPTION] = msgspec.json.encode(about).decode()
    if getattr(arguments, "defaults", ()):
        # Most sessions have none, and do not pay for the import.
        from benchwright.cli.defaults import applied, defaults_lines

        defaults = applied(arguments)
        stored = [StoredDefault(default.key, default.shown, default.place) for default in defaults]
        options[DEFAULTS_OPTION] = msgspec.json.encode(stored).decode()
        if not arguments.quiet:
            print(*defaults_lines(arguments), sep="\n", file=sys.stderr)
    begun = with_notify(msgspec.structs.replace(info, options=options), arguments)
    return with_servers(begun, named_servers(arguments))


def drawn_seed() -> int:
    """Return a random seed, for a command without --seed; below 2**32.

    Not from `secrets`: its import takes 4 ms.
    """
    return int.from_bytes(os.urandom(4))


def watch_setting(arguments: Namespace) -> str:
    """Return the observers as the session stores them: words separated by spaces.

    An option that the command does not have counts as not given.
    """
    from benchwright.run.watching import SAMPLE

    wish = [] if getattr(arguments, "no_watch", False) else [SAMPLE]
    names = (observer.name for observer in observers())
    return " ".join([*wish, *(name for name in names if getattr(arguments, name, False))])
