"""Reads the sections of TOML suites and specs other than tests: metrics, stopping rules, the rule
of a comparison, target, remote and notify. Tables of suites that features add: a port.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec

from benchwright.core.comparison import ComparisonRule
from benchwright.core.draws import DrawnInput
from benchwright.core.expression import PREDICATE_VARIABLES
from benchwright.core.hosts import SERVER_KEYS, NamedServer, parse_named_server
from benchwright.core.notice import (
    ALL_EVENTS,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    NoticeEvent,
    NoticeSettings,
    NoticeTarget,
    Secret,
    WebhookTarget,
)
from benchwright.core.plan import (
    Command,
    FixedCount,
    LevelKind,
    MetricSpec,
    ReplicateLevel,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.quantity import parse_share
from benchwright.feature import TABLE, feature, features
from benchwright.inputs.draw import parse_draw
from benchwright.inputs.form import (
    Form,
    form_of,
    keys_of,
    needed,
    of_type,
    optional,
    place_mistakes,
    read_form,
    texts_of,
    whole,
)
from benchwright.inputs.mistakes import SourceReader, fault_of
from benchwright.inputs.options import Option, Reader
from benchwright.inputs.template import Template, brace_template, fixed
from benchwright.inputs.toml_table import TomlTable, read_toml
from benchwright.notice.text import LOOPBACK, url_fault
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.command_line import CommandRequest, stopping_rule
from benchwright.suite.common_options import CommandOptionReader, ReplicateRequest
from benchwright.suite.comparison import ComparisonRequest, rule_and_mistakes
from benchwright.suite.program import Step

# -- `until` and `metrics` of a TOML suite: stopping rules and metric specs ------------

DEFAULT = FixedCount(10)
_PREDICATE_RUNS = 10
"""Default number of trials before the first look of a predicate or a program."""


def metrics(table: TomlTable) -> list[MetricSpec]:
    """Return the metrics that a `metrics` table declares; of a wrong declaration the name, so that
    no rule with it is a mistake too."""
    specs = []
    for name in table.values:
        fault = fault_of(values.metric_name, name)
        if fault is not None:
            table.wrong(table.at(name), fault.code, fault.message, fault.hint)
        toml_table = table.table(name) if fault is None else None
        specs.append(MetricSpec(name) if toml_table is None else _metric(name, toml_table))
    return specs


def _predicate(table: TomlTable, key: str) -> str | None:
    """Return a predicate; each of its faults is reported at its character."""
    text = table.text(key)
    faults = values.expression_faults(text, PREDICATE_VARIABLES) if text is not None else []
    table.faults(faults, text or "", key)
    return None if faults else text


def _text(parse: Callable[[str], Any]) -> Reader:
    """Return the reader of a string, whose value `parse` returns."""
    return lambda table, key: table.read(key, parse) if table.has(key, str) else None


_METRIC = {
    "pointer": Option(read=_text(values.pointer)),
    "pattern": Option(key="regex", read=_text(values.pattern)),
    "drift": Option(read=_text(parse_share)),
}


def _metric(name: str, table: TomlTable) -> MetricSpec:
    if "pointer" in table and "regex" in table:
        message = "a metric has a pointer or a regex, not both"
        table.wrong(table.at("regex"), values.METRIC_CODE, message)
    if name in values.ALWAYS and ("pointer" in table or "regex" in table):
        message = f"{name} is measured, not read from the output"
        hint = "give the metric another name"
        table.wrong(table.where, values.METRIC_CODE, message, hint)
    spec: MetricSpec | None = read_form(table, form_of(MetricSpec, _METRIC, name=name))
    # The name is known, even if a key is wrong.
    return spec or MetricSpec(name)


def stopping(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    """Return the rule of an `until` table; `declared` are the test's metrics."""
    kinds = [kind for kind in _RULES if kind in table]
    if len(kinds) != 1:
        message = "until has more than one rule" if kinds else "until has no rule"
        hint = f"exactly one of {', '.join(_RULES)}"
        table.wrong(table.where, "suite-until", message, hint)
        known = (*_RULES, *_PRECISION, *(name for form in _FORMS.values() for name in form.names))
        table.only(tuple(dict.fromkeys(known)))
        return DEFAULT
    (kind,) = kinds
    if kind == "precision":
        return _precise(table, declared)
    _check_limits(table)
    rule: StoppingRule | None = read_form(table, _FORMS[kind])
    return rule or DEFAULT


def _precise(table: TomlTable, declared: Sequence[MetricSpec]) -> StoppingRule:
    table.only(_PRECISION)
    named = _wanted(declared, table) if "metrics" in table else []
    texts = texts_of(table, CommandRequest)
    # Without a precision, which was reported, its options would be mistakes too.
    request = CommandRequest(**({"precision": "5%"} | texts))
    names = named or ["elapsed", *(spec.name for spec in declared)]
    rule, mistakes = stopping_rule(request, names)
    place_mistakes(table, CommandRequest, mistakes, "suite-range")
    return rule


def _check_limits(table: TomlTable) -> None:
    """Report a `max_runs` below `min_runs`, or below its default."""
    minimum, maximum = table.values.get("min_runs", _PREDICATE_RUNS), table.values.get("max_runs")
    if type(minimum) is type(maximum) is int and 0 < maximum < minimum:
        message = f"max_runs {maximum} is less than min_runs {minimum}"
        table.wrong(table.at("max_runs"), "suite-range", message)


# -- readers of the values of rules and metrics ----------------------------------------


def _wanted(declared: Sequence[MetricSpec], table: TomlTable) -> list[str]:
    names = [*values.ALWAYS, *(spec.name for spec in declared)]
    texts = table.texts("metrics")
    for index, name in enumerate(texts):
        if name not in names:
            hint = (
                f"known: {', '.join(dict.fromkeys(names))}; others are declared in [test.metrics]"
            )
            where = table.at("metrics", index)
            table.wrong(where, "suite-metric", f"there is no metric {name!r}", hint)
    return texts


def _program(table: TomlTable, key: str) -> Command | None:
    text = table.text(key)
    if text is None or text.strip():
        return None if text is None else Command.from_text(text)
    table.wrong(table.at(key), "suite-no-command", "the program is empty")
    return None


_RULES = ("count", "runs", "precision", "predicate", "program")
"""The keys that select a rule."""
_PRECISION = ("precision", "metrics", *Form(keys_of(CommandRequest)).names[1:])
_LOOKS = (
    optional("min_runs", read=of_type(int), field="minimum"),
    optional("increment", read=of_type(int)),
)
_FORMS = {
    "count": Form((needed("count", read=of_type(int)),), FixedCount),
    # The name of the option on the command line.
    "runs": Form((needed("runs", read=of_type(int), field="count"),), FixedCount),
    "predicate": Form(
        (
            needed("predicate", read=_predicate),
            *_LOOKS,
            optional("max_runs", read=of_type(int), field="maximum"),
        ),
        partial(UntilPredicate, minimum=_PREDICATE_RUNS, increment=1),
    ),
    "program": Form(
        (needed("program", read=_program, field="command"), *_LOOKS),
        partial(UntilProgram, minimum=_PREDICATE_RUNS, increment=1),
    ),
}

# -- `[draw]` of a suite: inputs that are drawn for each trial or block -----------------


def draws_of(top: TomlTable, reader: SourceReader, taken: Collection[str]) -> list[DrawnInput]:
    """Return the inputs of the suite's `[draw]`, without those whose mistakes were reported. Files
    are relative to the suite; their texts are added to the files of the text. `taken`: names of
    factors and variables."""
    table = top.table("draw") if "draw" in top else None
    if table is None:
        return []
    directory = posixpath.dirname(top.where.file)

    def read(path: str) -> str:
        path = posixpath.join(directory, path)
        top.files[path] = reader(path)
        return top.files[path]

    inputs: list[DrawnInput] = []
    for name in table.names("an input"):
        text = table.text(name)
        if name in taken:
            message = f"{name} is a factor or variable already"
            table.wrong(table.at(name), "suite-name", message)
        if text is None:
            continue
        try:
            inputs.append(parse_draw(f"{name}={text}", read))
        except ValueError as error:
            hint = f'write {name} = "uniform:1..1000", "choice:a,b,c", or "@list.txt"'
            table.wrong(table.at(name), "suite-range", str(error), hint)
    return inputs


# -- The rule of a `[[compare]]` table: its keys are options of `bw compare` -----------
#
# Decision: the values are read by the code for the command line; mistakes are then placed at
# the keys.


class StatedReplicates(msgspec.Struct, frozen=True):
    """A `[replicate]` table without mistakes."""

    table: TomlTable
    request: ReplicateRequest
    levels: tuple[ReplicateLevel, ...]


def replicates_of(table: TomlTable | None, *, starts_server: bool) -> StatedReplicates | None:
    """Return what a `[replicate]` table states; None without one, and after its mistakes were
    reported. `starts_server`: whether PRESETUP starts something that `process` starts again."""
    if table is None:
        return None
    table.only(Form(keys_of(ReplicateRequest)).names)
    request = ReplicateRequest(**texts_of(table, ReplicateRequest))
    reader = CommandOptionReader(request)
    levels = reader.replicate_levels(request.words, request.spread)
    if not request.replicate:
        reader.wrong("--replicate", "", "there is no level", 'write levels = ["env=10"]')
    if any(level.kind is LevelKind.PROCESS for level in levels) and not starts_server:
        message = "no presetup starts a process that could be started again"
        reader.wrong("--replicate", "process", message, 'add presetup = "COMMAND" to the test')
    place_mistakes(table, ReplicateRequest, reader.found, "suite-range")
    return None if reader.found else StatedReplicates(table, request, tuple(levels))


def has_fixed_addresses(top: TomlTable) -> bool:
    """Return whether the suite's `[replicate]` has `aslr=off`, which holds for all its tests."""
    table = top.table("replicate") if "replicate" in top else None
    return table is not None and values.has_fixed_addresses(table.texts("levels"))


def replicated(
    stated: StatedReplicates | None, rule: StoppingRule, declared: Sequence[MetricSpec]
) -> StoppingRule:
    """Return the rule of a test with levels of replication; report what is wrong with both."""
    if stated is None or not stated.levels:
        return rule
    names = ["elapsed", *(spec.name for spec in declared)]
    found, mistake = values.replicated(rule, stated.levels, names, 0)
    if mistake:
        stated.table.wrong(stated.table.where, "suite-range", *mistake)
    return found


COMPARISON = Form(keys_of(ComparisonRequest)).names
"""Keys of `[[compare]]` that are also options of `bw compare`."""


def rule_of(
    table: TomlTable,
    arms: int,
    declared: Sequence[MetricSpec],
    stated: StatedReplicates | None = None,
) -> ComparisonRule:
    """Return the rule that a table describes; report mistakes in the table."""
    given = texts_of(table, ComparisonRequest)
    if stated is not None:
        given |= {"replicate": stated.request.words, "spread": stated.request.spread}
    # A fixed default seed: every run of a suite has the same order of trials.
    request = ComparisonRequest((), **({"seed": "0"} | given))
    rule, mistakes = rule_and_mistakes(request, arms, declared)
    place_mistakes(table, ComparisonRequest, mistakes)
    return rule


def _accept_any(_stated: Any) -> None:
    pass


class SuiteTable(msgspec.Struct, frozen=True):
    """A key at the top of a suite in TOML, and what it states, which the core does not look into
    (`Program.tables`)."""

    read: Callable[[TomlTable], Any]
    """Returns what the key states, from the top of the suite; None after it reported mistakes."""
    check: Callable[[Any], None] = _accept_any
    """Raises InputError for what this machine does not support, before anything runs."""
    in_specs: bool = False
    """Whether a spec of a search may have it too."""
    changes_machine: bool = False
    """Whether the session changes the machine by it, which gangs on one machine cannot each do."""


def suite_tables() -> dict[str, SuiteTable]:
    """Return the tables that the installed features add, by key."""
    return {key: table for one in features() for key, table in one.suite_tables().items()}


def missing_tables() -> dict[str, str]:
    """Return the keys of features that are not installed, each with a hint that says so."""
    return {
        key: f"the feature {row.name} is not installed"
        for row in TABLE
        if feature(row.name) is None
        for key in row.tables
    }


# -- `target = {...}` of a suite or a SPEC.toml: a server that is already running ------
#
# Forms: a table with one of `pid`, `port`, `unit` and `name`, or an array of such tables if the
# server consists of several programs. The session checks at its start that the server runs.


def servers_of(top: TomlTable) -> tuple[NamedServer, ...]:
    """Return the servers that a file names; report mistakes in the table."""
    if not top.has("target", dict, list):
        return ()
    if isinstance(top.values["target"], list):
        tables = top.tables("target")
    else:
        table = top.table("target")
        tables = [] if table is None else [table]
    servers = (_server_of(table) for table in tables)
    return tuple(server for server in servers if server is not None)


def _server_of(table: TomlTable) -> NamedServer | None:
    table.only(SERVER_KEYS)
    server_keys = [way for way in SERVER_KEYS if way in table]
    code = f"{table.kind}-target"
    if len(server_keys) != 1:
        message = "a target is one of pid, port, unit and name"
        table.wrong(table.where, code, message, "target = { port = 5432 }")
        return None
    way = server_keys[0]
    is_file = way == "pid" and str(table.values[way]).startswith("/")
    is_number = way in ("pid", "port") and not is_file
    if not table.has(way, int if is_number else str):
        return None
    try:
        return parse_named_server(way, str(table.values[way]))
    except ValueError as error:
        table.wrong(table.at(way), code, str(error))
        return None


# --------------------------------------------------------------------------------------
# `[remote]` of a suite: the server on which the hook `remote` runs commands.
#
# Decision: the table is a typed form of the hook's environment variables, checked before the
# suite runs; no other code depends on it. docs/remote.md describes the table and the hook.

HOOK = "remote"
SENT = ("disk-io", "free-memory", "network", "nfsd", "other-cpu")
"""The shipped hooks that can be run on a server."""

_PROCESS = re.compile(r"pid:/[^\s]+|[^\s:]\S*")


def steps_of(table: TomlTable) -> list[Step]:
    """Return the assignments of the hook's variables."""
    if not table.values.get("host"):
        hint = 'add host = "server" (a name of ~/.ssh/config, user@host, ssh://host:port)'
        table.wrong(table.where, "suite-remote", "[remote] has no host", hint)
    read = read_form(table, REMOTE) or {}
    # Sets every variable: values in the caller's environment may be for another suite.
    return [
        step.Assign(
            f"BW_REMOTE_{key.upper()}",
            read.get(key) or fixed("", table.where),
            True,
            False,
            table.at(key) if key in table else table.where,
        )
        for key in REMOTE.names
    ]


def _line(table: TomlTable, key: str) -> Template | None:
    text = table.text(key)
    if text is None:
        return None
    if "\n" in text.strip("\n"):
        message = f"{key} is more than one line"
        table.wrong(table.at(key), "suite-remote", message, "join them by ; or &&")
    return brace_template(text.strip("\n"), table.inside(text, key), tuple(table.known))


def _words(fault: Callable[[str], str]) -> Reader:
    """Return the reader of words; `fault` returns the mistake in a word, or nothing."""

    def read(table: TomlTable, key: str) -> Template:
        words = table.texts(key)
        for index, word in enumerate(words):
            message = fault(word)
            if message:
                single = isinstance(table.values[key], str)
                where = table.at(key) if single else table.at(key, index)
                table.wrong(where, "suite-remote", message)
        return fixed(" ".join(words), table.at(key))

    return read


def _process_fault(word: str) -> str:
    good = _PROCESS.fullmatch(word) is not None
    return "" if good else f"{word!r} is not a process: give a name, or pid:/run/FILE.pid"


def _hook_fault(word: str) -> str:
    known = ", ".join(SENT)
    return (
        "" if word in SENT else f"{word!r} is not a hook that can be sent: must be one of {known}"
    )


def _prefix(table: TomlTable, key: str) -> Template | None:
    text = table.text(key)
    if text is None:
        return None
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text, re.ASCII):
        message = f"{text!r} cannot begin the names of values"
        hint = "small letters, digits and _, beginning with a letter"
        table.wrong(table.at(key), "suite-remote", message, hint)
    return fixed(text, table.at(key))


def _timeout(table: TomlTable, key: str) -> Template | None:
    limit_s = table.whole(key, 1, 86400)
    return None if limit_s is None else fixed(str(limit_s), table.at(key))


REMOTE = Form(
    (
        optional("host", read=_line),
        optional("before", read=_line),
        optional("after", read=_line),
        optional("processes", read=_words(_process_fault)),
        optional("hooks", read=_words(_hook_fault)),
        optional("prefix", read=_prefix),
        optional("ssh_config", read=_line),
        optional("timeout_s", read=_timeout),
    ),
    dict,
)
"""The keys of `[remote]`; each sets the variable of the hook with that name in capitals."""


# --------------------------------------------------------------------------------------
# `[notify]` of a suite, a SPEC.toml, or a file given to --notify: targets of the notice at a
# session's end.
#
# Decision: the table cannot contain secrets. A password, a token or a secret URL is in an
# environment variable or a private file, which the table names. docs/notices.md describes it.

_TOP = ("on", "mail", "webhook", "command", "apprise")
_WEBHOOK = ("url", "url_variable", "url_file", "token_variable", "token_file", "ca_file")
_APPRISE = ("urls_variable", "urls_file")
ADDRESS = re.compile(r"[^\s@,<>()\"]+@[^\s@,<>()\"]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def notify_of(table: TomlTable) -> NoticeSettings | None:
    """Return the settings of a `[notify]` table, None after it reported mistakes."""
    table.only(_TOP)
    targets = [
        *(_mail(toml_table) for toml_table in _each(table, "mail")),
        *(_webhook(toml_table) for toml_table in _each(table, "webhook")),
        *_commands(table),
        *(_apprise(toml_table) for toml_table in _each(table, "apprise")),
    ]
    if not any(key in table for key in _TOP[1:]):
        hint = "add [notify.mail], [notify.webhook], [notify.apprise] or command = [...]"
        table.wrong(table.where, "suite-notify", "there is no notification target", hint)
    known = tuple(target for target in targets if target is not None)
    return NoticeSettings(known, _events(table)) if known else None


def notify_file(path: str, text: str) -> NoticeSettings:
    """Return the settings of a file with a table [notify]. Raises InputError."""

    def read(top: TomlTable) -> NoticeSettings | None:
        top.only(("notify",))
        table = top.table("notify")
        notify = None if table is None else notify_of(table)
        if notify is None and top.is_sound:
            top.wrong(top.where, "suite-notify", "there is no table [notify]")
        return notify

    notify = read_toml(text, path, "suite", read)
    assert notify is not None, "a table without a mistake says who is notified"
    return notify


def _each(table: TomlTable, key: str) -> list[TomlTable]:
    """Return the tables of a key: one table, or an array of tables."""
    if key not in table:
        return []
    if isinstance(table.values[key], list):
        return table.tables(key)
    toml_table = table.table(key)
    return [] if toml_table is None else [toml_table]


def _events(table: TomlTable) -> tuple[NoticeEvent, ...]:
    events = []
    for index, word in enumerate(table.texts("on")):
        if word in ALL_EVENTS:
            events.append(NoticeEvent(word))
        else:
            single = isinstance(table.values["on"], str)
            where = table.at("on") if single else table.at("on", index)
            hint = "one of " + ", ".join(ALL_EVENTS)
            table.wrong(where, "suite-notify", f"there is no event {word!r}", hint)
    if "on" in table and table.values["on"] == []:
        table.wrong(table.at("on"), "suite-notify", "the list of events is empty")
    return tuple(dict.fromkeys(events)) or ALL_EVENTS


def _addresses(table: TomlTable, key: str) -> tuple[str, ...] | None:
    addresses = tuple(table.texts(key))
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            message = f"{address!r} is not a mail address"
            table.wrong(table.at(key), "suite-notify", message, "NAME@HOST")
    if table.values[key] == []:
        table.wrong(table.at(key), "suite-notify", f"{key} has no address")
    return addresses


def _address(table: TomlTable, key: str) -> str | None:
    text = table.text(key)
    return "".join(_addresses(table, key) or ()) if text else text


def _host(table: TomlTable, key: str) -> str | None:
    text = table.text(key)
    return "localhost" if text == "" else text


_MAIL = {
    "to": Option(read=_addresses, hint='to = "me@host"'),
    "sender": Option(key="from", read=_address),
    "host": Option(read=_host),
    "port": Option(read=whole(1, 65535)),
}


def _mail(table: TomlTable) -> MailTarget | None:
    form = form_of(MailTarget, _MAIL, password=_secret(table, "password"))
    mail: MailTarget | None = read_form(table, form, ("password_variable", "password_file"))
    if mail is not None:
        _check_password(table, mail)
    return mail


def _check_password(table: TomlTable, mail: MailTarget) -> None:
    if bool(mail.user) != (mail.password is not None):
        message = "a user and a password belong together"
        hint = "give `user`, and `password_variable` or `password_file`"
        table.wrong(table.where, "suite-notify", message, hint)
    clear = mail.security == "none" and mail.host not in LOOPBACK
    if mail.password is not None and clear:
        message = f"the password would go to {mail.host} unencrypted"
        hint = 'add security = "starttls", or "tls"'
        table.wrong(table.where, "suite-notify", message, hint)


def _webhook(table: TomlTable) -> WebhookTarget | None:
    table.only(_WEBHOOK)
    url, secret = table.text("url") or "", _secret(table, "url")
    token = _secret(table, "token")
    if bool(url) == (secret is not None):
        message = "a webhook has one of url, url_variable and url_file"
        table.wrong(table.where, "suite-notify", message)
        return None
    fault = url_fault(url, with_token=token is not None) if url else ""
    if fault:
        table.wrong(table.at("url"), "suite-notify", fault)
    return WebhookTarget(url, secret, token, table.text("ca_file") or "")


def _commands(table: TomlTable) -> list[NoticeTarget]:
    """Return the targets of `command`: an array of words, or an array of such arrays."""
    if not table.has("command", list):
        return []
    value = table.values["command"]
    several = bool(value) and all(isinstance(one, list) for one in value)
    notice_targets: list[NoticeTarget] = []
    for argv in value if several else [value]:
        if argv and all(isinstance(word, str) and word for word in argv):
            notice_targets.append(CommandTarget(tuple(argv)))
        else:
            message = "a command is an array of words, none of them empty"
            hint = 'command = ["notify-send", "benchmark"]'
            table.wrong(table.at("command"), "suite-notify", message, hint)
    return notice_targets


def _apprise(table: TomlTable) -> AppriseTarget | None:
    table.only(_APPRISE)
    secret = _secret(table, "urls")
    if secret is None:
        message = "apprise has one of urls_variable and urls_file"
        hint = "its URLs contain secrets, so they cannot be written here"
        table.wrong(table.where, "suite-notify", message, hint)
    return None if secret is None else AppriseTarget(secret)


def _secret(table: TomlTable, what: str) -> Secret | None:
    """Return the secret's location, from the key `WHAT_variable` or `WHAT_file`; both are an error."""
    variable, file = table.text(f"{what}_variable"), table.text(f"{what}_file")
    if variable is not None and file is not None:
        message = f"both {what}_variable and {what}_file"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message, "keep one")
    if variable is not None:
        if not _VARIABLE.fullmatch(variable):
            message = "this is not the name of an environment variable"
            hint = "the name, not the secret itself"
            table.wrong(table.at(f"{what}_variable"), "suite-notify", message, hint)
        return Secret("variable", variable)
    if file is None:
        return None
    if not PurePath(file).is_absolute():
        message = f"{file!r} is not an absolute path"
        table.wrong(table.at(f"{what}_file"), "suite-notify", message)
    return Secret("file", file)
