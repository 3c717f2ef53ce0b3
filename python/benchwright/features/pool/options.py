"""`--pool`: the pool of a session, beside `[pool]` of a suite or a spec (features/pool/toml.py).

Few sessions have a pool, so modules are imported only for one.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.core.errors import InputError, argument_error
from benchwright.features.pool import POOL_OPTION
from benchwright.suite.option_reader import OptionReader
from benchwright.suite.options import Option, Text, request_from

if TYPE_CHECKING:
    from benchwright.features.pool.types import PoolSettings
    from benchwright.run.preparation import PreparedProgram
    from benchwright.study.journal import SessionInfo

COMPARISON_HELP = (
    "run the comparison on one gang of a pool: slurm:partition=bench,gangs=1 (docs/pool.md)"
)


def _parse_pool(text: str) -> object:
    from benchwright.features.pool.toml import parse_pool

    return parse_pool(text)


class PoolOptions(msgspec.Struct, frozen=True):
    """The pool of a session."""

    pool: Annotated[
        Text,
        Option(
            "run parts of the session side by side: local:gangs=4, or slurm:partition=bench,gangs=4 (docs/pool.md)",
            "POOL",
            _parse_pool,
            hint="such as local:gangs=4",
            no_default="it decides which hosts measure",
            rare=True,
        ),
    ] = None


def pool_of(
    arguments: Namespace, table: PoolSettings | None, *, may_have_clients: bool = False
) -> PoolSettings | None:
    """Return the pool of --pool, or else that of the suite or spec. Raises InputError.

    `may_have_clients`: whether the session has a load that clients can issue.
    """
    reader = OptionReader(request_from(PoolOptions, arguments))
    option: PoolSettings | None = reader.value("pool")
    if reader.found:
        raise InputError(reader.found)
    settings = option or table
    if settings is not None and settings.clients and not may_have_clients:
        message = "clients issue the load of a spec, and there is none"
        hint = "leave out clients; bw surface SPEC.toml has a load"
        raise argument_error("--pool", arguments.pool or "", message, hint)
    if settings is not None:
        from benchwright.features.pool.controller import check_engine

        check_engine(settings)
    return settings


def with_pool(info: SessionInfo, settings: PoolSettings | None) -> SessionInfo:
    """Return a session's info with the settings of its pool."""
    if settings is None:
        return info
    options = {**info.options, POOL_OPTION: msgspec.json.encode(settings).decode()}
    return msgspec.structs.replace(info, options=options)


def suite_with_pool(
    prepared: PreparedProgram, arguments: Namespace, suite: str | None
) -> PreparedProgram:
    """Return the program with the pool of --pool or of the suite stored in its session. Raises
    InputError for a program without independent parts."""
    settings = pool_of(arguments, prepared.program.tables.get("pool"))
    if settings is None:
        return prepared
    if suite is None:
        message = "--pool is for suites: the trials of commands alternate on one machine"
        raise argument_error("--pool", arguments.pool, message, "bw run SUITE")
    from benchwright.features.pool.parts import parts_of
    from benchwright.features.pool.types import PoolKind
    from benchwright.suite.tables import suite_tables

    for key, table in suite_tables().items():
        has_key = key in prepared.program.tables
        if has_key and table.changes_machine and settings.engine is PoolKind.LOCAL:
            message = f"{suite} has {key}, and gangs on one machine cannot each change it"
            hint = f"bw {key} ... -- bw run {suite} --pool ..., without {key} in the suite"
            raise argument_error("--pool", arguments.pool or "", message, hint)
    parts_of(prepared.program, prepared.defines, prepared.environment)
    info = with_pool(prepared.info, settings)
    return msgspec.structs.replace(prepared, info=info)


def comparison_with_pool(
    prepared: PreparedProgram, arguments: Namespace, _suite: str | None
) -> PreparedProgram:
    """Return the comparison with the pool of --pool stored in its session. Raises InputError."""
    info = with_pool(prepared.info, pool_of(arguments, None))
    return msgspec.structs.replace(prepared, info=info)
