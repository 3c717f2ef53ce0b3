"""`--pool`: the pool of a session, beside `[pool]` of a suite or a spec (features/pool/toml.py).

Few sessions have a pool, so modules are imported only for one.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.core.errors import InputError, argument_error
from benchwright.features.pool.keys import POOL_OPTION
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, request_from

if TYPE_CHECKING:
    from benchwright.cli.shared_options import BegunSession
    from benchwright.features.pool.types import PoolSettings
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


def _pool_of(begun: BegunSession, arguments: Namespace, *, has_load: bool) -> PoolSettings | None:
    """Return the pool of --pool, or else that of the suite or spec. Raises InputError.

    `has_load`: whether the session has a load that clients can issue.
    """
    reader = OptionReader(request_from(PoolOptions, arguments))
    option: PoolSettings | None = reader.value("pool")
    if reader.found:
        raise InputError(reader.found)
    settings: PoolSettings | None = option or begun.tables.get("pool")
    if settings is not None and settings.clients and not has_load:
        message = "clients issue the load of a spec, and there is none"
        hint = "leave out clients; bw surface SPEC.toml has a load"
        raise argument_error("--pool", arguments.pool or "", message, hint)
    if settings is not None:
        from benchwright.features.pool.controller import check_engine

        check_engine(settings)
    return settings


def _with_pool(info: SessionInfo, settings: PoolSettings | None) -> SessionInfo:
    """Return a session's info with the settings of its pool."""
    if settings is None:
        return info
    options = {**info.options, POOL_OPTION: msgspec.json.encode(settings).decode()}
    return msgspec.structs.replace(info, options=options)


def suite_on_pool(begun: BegunSession, arguments: Namespace) -> SessionInfo:
    """Return the session of a suite with its pool. Raises InputError for a program without
    independent parts."""
    settings = _pool_of(begun, arguments, has_load=False)
    if settings is None:
        return begun.info
    from benchwright.features.pool.toml import parts_of
    from benchwright.features.pool.types import PoolKind

    prepared = begun.program
    assert prepared is not None, "commands and suites are programs"
    parts = parts_of(prepared.program, prepared.defines, prepared.environment)
    if begun.suite is None and any(part.replicate is None for part in parts):
        message = "--pool is for suites: the trials of commands alternate on one machine"
        hint = "bw run SUITE, or --replicate host=N"
        raise argument_error("--pool", arguments.pool, message, hint)
    from benchwright.suite.toml_sections import suite_tables

    for key, table in suite_tables().items():
        changes = key in begun.tables and table.changes_machine
        if changes and settings.engine is PoolKind.LOCAL:
            message = f"{begun.suite} has {key}, and gangs on one machine cannot each change it"
            hint = f"bw {key} ... -- bw run {begun.suite} --pool ..., without {key} in the suite"
            raise argument_error("--pool", arguments.pool or "", message, hint)
    return _with_pool(begun.info, settings)


def comparison_on_pool(begun: BegunSession, arguments: Namespace) -> SessionInfo:
    """Return the session of a comparison with its pool. Raises InputError."""
    return _with_pool(begun.info, _pool_of(begun, arguments, has_load=False))


def surface_on_pool(begun: BegunSession, arguments: Namespace) -> SessionInfo:
    """Return the session of a surface with its pool. Raises InputError."""
    return _with_pool(begun.info, _pool_of(begun, arguments, has_load=True))
