"""`[remote]` of a spec: the host on which the server, or the load generator, runs.

Decision: the keys that the hook `remote` has too have its names and its meaning; commands before
and after a trial are those of `[server]`. docs/remote.md and docs/workbench.md describe the table.
"""

from __future__ import annotations

import posixpath
from typing import Any, Literal

from benchwright.core.remote import HOST, PATH, RemoteSettings
from benchwright.features.search.spec import LoadPlan, RemotePlan, ServerPlan
from benchwright.inputs.form import Form, needed, of_type, optional, read_form
from benchwright.inputs.toml_table import TomlTable

_OF_SUITES = dict.fromkeys(
    ("before", "after", "processes", "hooks", "prefix"),
    "it is a key of suites; in a spec, [server] has configure and stop",
)


def _host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a host: a name of ~/.ssh/config, user@host, or ssh://host:port"
        )
    return text


def _plain_path(text: str) -> str:
    if not PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not an absolute path of letters, digits and . _ - /")
    return text.rstrip("/") or "/"


def _copies(table: TomlTable, key: str) -> tuple[str, ...]:
    names = tuple(posixpath.normpath(name) for name in table.texts(key))
    for name in names:
        if name.startswith(("/", "..")):
            message = f"{name!r} is not below the directory of the spec"
            table.refuse(table.at(key), message, "files are copied with their names")
    return names


def _plan(
    run: Literal["server", "load"] = "server", copy: tuple[str, ...] = (), **settings: Any
) -> RemotePlan:
    return RemotePlan(settings=RemoteSettings(**settings), run=run, copy=copy)


REMOTE_OF_SPEC = Form(
    (
        needed(
            "host",
            _host,
            hint='host = "filer" (a name of ~/.ssh/config, user@host, ssh://host:port)',
            help="the other host: a name of `~/.ssh/config`, `user@host` or `ssh://user@host:port`",
            default="required",
        ),
        optional(
            "run",
            read=of_type(Literal["server", "load"]),
            help='what runs there: `"server"`, the commands of `[server]`; `"load"`, the generator',
            default='`"server"`',
        ),
        optional(
            "copy",
            read=_copies,
            help="files and directories below the spec's directory that are copied there, to "
            "`{here}`",
            default="none",
        ),
        optional(
            "directory",
            _plain_path,
            help="where `bw` makes its private directory there",
            default="its `TMPDIR`, or `/tmp`",
        ),
        optional(
            "programs",
            _plain_path,
            help="the directory of `bw-launcher` and `bw-sampler` there",
            default="they are copied",
        ),
        optional(
            "ssh_config",
            str,
            help="a file for `ssh -F` instead of your own, relative to the spec",
            default="none",
        ),
        optional(
            "timeout_s",
            read=lambda table, key: table.whole(key, 1, 86400),
            help="time limit of the connection, and of each question [s]",
            default="20",
        ),
    ),
    _plan,
)
"""The keys of `[remote]` in a spec."""


def remote_of(
    top: TomlTable, server: ServerPlan | None, load: LoadPlan, engine: str
) -> RemotePlan | None:
    """Return what `[remote]` says; report what cannot be on another host."""
    table = top.table("remote")
    if table is None:
        return None
    plan: RemotePlan | None = read_form(table, REMOTE_OF_SPEC, elsewhere=_OF_SUITES)
    if plan is None:
        return None
    host = plan.settings.host
    if server is not None and server.network == "private":
        message = f"a private network belongs to this machine: {host} cannot reach it"
        hint = "leave out network; the server listens on an address that both hosts reach"
        top.refuse(top.at("server", "network"), message, hint)
    if plan.run == "load":
        if load.generator == engine:
            message = f"[remote] does not run our engine on {host}"
            hint = (
                f'hosts = ["{host}"] in [load] does; or name another generator there, or '
                'run = "server"'
            )
            top.refuse(table.at("run"), message, hint)
        return plan
    if "server" not in top:
        message = f"the spec has no [server] that could run on {host}"
        top.refuse(table.where, message, 'add [server], or run = "load"')
    if server is not None and server.resources is not None:
        message = (
            f"[server.resources] limits this machine, not {host}: bw could not undo its "
            "changes there after a crash"
        )
        hint = "limit the server in its start command, such as systemd-run -p MemoryMax=1G"
        top.refuse(top.at("server", "resources"), message, hint)
    return plan
