"""The servers that a session drives and did not start: what was named, and whether it runs.

Decision: what options name is kept among the session's options, so that `bw resume` watches the
same servers; they are looked up anew before each batch, since a server may be restarted between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.named_server import NamedServer
from benchwright.probe.named_servers import server_pids
from benchwright.study.journal import SessionInfo

OPTION = "servers"
"""In a session's options: the JSON of what --target-pid and its like named."""
MISSING = "server-not-found"
"""Code of the mistake, and of the finding where it ends later."""


def with_servers(info: SessionInfo, named: Sequence[NamedServer]) -> SessionInfo:
    """Return what a session is begun with, and the servers that its options name."""
    if not named:
        return info
    options = {**info.options, OPTION: msgspec.json.encode(tuple(named)).decode()}
    return msgspec.structs.replace(info, options=options)


def servers_of(
    info: SessionInfo, written: Sequence[NamedServer] = ()
) -> tuple[NamedServer, ...]:
    """Return the servers of a session: those `written` in its suite or spec, and those of
    its options."""
    kept = info.options.get(OPTION)
    asked = msgspec.json.decode(kept, type=tuple[NamedServer, ...]) if kept else ()
    return tuple(dict.fromkeys((*written, *asked)))


def refuse_missing(named: Sequence[NamedServer]) -> None:
    """Raise InputError for each named server that does not run."""
    _, missing = server_pids(named, (os.getpid(),))
    if missing:
        raise InputError(
            [
                Diagnostic(MISSING, found.why, found.remedy, one.option, text=one.value)
                for one, found in missing
            ]
        )
