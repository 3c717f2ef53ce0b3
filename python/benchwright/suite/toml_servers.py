"""`target = {...}` of a suite or a SPEC.toml: the server that runs already.

Forms: a table with one of `pid`, `port`, `unit` and `name`, or an array of such tables, where the
server is several programs. Whether it runs is found when the session begins.
"""

from __future__ import annotations

from benchwright.model.named_server import WAYS, NamedServer, named_server
from benchwright.suite.toml_table import Table


def servers_of(top: Table) -> tuple[NamedServer, ...]:
    """Return the servers that a file names; every mistake is reported to the table."""
    if not top.has("target", dict, list):
        return ()
    if isinstance(top.values["target"], list):
        tables = top.tables("target")
    else:
        table = top.table("target")
        tables = [] if table is None else [table]
    found = (_server_of(table) for table in tables)
    return tuple(one for one in found if one is not None)


def _server_of(table: Table) -> NamedServer | None:
    table.only(WAYS)
    said = [way for way in WAYS if way in table]
    code = f"{table.kind}-target"
    if len(said) != 1:
        message = "a target is one of pid, port, unit and name"
        table.wrong(table.where, code, message, "target = { port = 5432 }")
        return None
    way = said[0]
    if not table.has(way, int if way in ("pid", "port") else str):
        return None
    try:
        return named_server(way, str(table.values[way]))
    except ValueError as error:
        table.wrong(table.at(way), code, str(error))
        return None
