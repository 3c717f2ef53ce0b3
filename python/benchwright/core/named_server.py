"""A running server, as a user names it: by process, port, unit or program.

Purpose: one declaration for the options --target-pid, --target-port, --target-unit and
--target-name, for `target = {...}` of suites and specs, and for what a session stores.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

ServerKey = Literal["pid", "port", "unit", "name"]
SERVER_KEYS: tuple[ServerKey, ...] = get_args(ServerKey)
_MAX_PORT = 65535
_MAX_PID = 1 << 22
"""The largest that the kernel accepts (PID_MAX_LIMIT)."""


class NamedServer(msgspec.Struct, frozen=True):
    """The processes of a benchmark's server, with all their descendants."""

    by: ServerKey
    value: str
    """A number; a name; of `pid` also the absolute path of a file with the number."""
    implied: bool = False
    """Taken from the load's address: if no process is found there, nothing is reported."""

    @property
    def text(self) -> str:
        """The name as text: `port 5432`."""
        return f"{'program' if self.by == 'name' else self.by} {self.value}"

    @property
    def option(self) -> str:
        """The option that names it."""
        return f"--target-{self.by}"


def parse_named_server(by: ServerKey, text: str) -> NamedServer:
    """Return the server that `text` names by the key `by`. Raises ValueError."""
    value = text.strip()
    if by == "pid" and value.startswith("/"):
        if not value.isprintable():
            raise ValueError(f"{text!r} is not the path of a file with a process id")
        return NamedServer(by, value)
    if by in ("pid", "port"):
        most = _MAX_PID if by == "pid" else _MAX_PORT
        if not value.isascii() or not value.isdecimal() or not 0 < int(value) <= most:
            what = "a process id" if by == "pid" else "a port"
            like = ", or the absolute path of a file with one" if by == "pid" else ""
            raise ValueError(f"{text!r} is not {what}: a number from 1 to {most}{like}")
        return NamedServer(by, str(int(value)))
    what = "a systemd unit" if by == "unit" else "a program"
    if not value or "/" in value or "\0" in value:
        like = "postgresql.service" if by == "unit" else "postgres"
        raise ValueError(f"{text!r} is not the name of {what}, such as {like}")
    return NamedServer(by, value)
