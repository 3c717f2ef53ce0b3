"""Load generators that are programs of their own, by the name that a spec gives.

`GENERATORS` is the registry: a name, the keys that its table takes, and how they are
read. The engine of this project is no part of it: load/engine_generator.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from benchwright.load.generators.adapter import Generator, keys_of, read_fields
from benchwright.load.generators.command import KEYS, read_command
from benchwright.load.generators.fio import Fio
from benchwright.load.generators.k6 import K6
from benchwright.load.generators.memtier import Memtier
from benchwright.load.generators.oha import Oha
from benchwright.load.generators.pgbench import Pgbench
from benchwright.load.generators.redis_benchmark import RedisBenchmark
from benchwright.load.generators.vegeta import Vegeta
from benchwright.load.generators.wrk2 import Wrk2
from benchwright.suite.toml_table import TomlTable

__all__ = ["GENERATORS", "Generator", "Kind"]


class Kind(msgspec.Struct, frozen=True):
    """One kind of generator."""

    keys: tuple[str, ...]
    """Of its table in a spec."""
    read: Callable[[TomlTable], Generator | None]
    """Reports every error to the table; None where there was one."""


def _of_fields(kind: type[Any]) -> Kind:
    return Kind(keys_of(kind), lambda table: read_fields(kind, table))


GENERATORS: dict[str, Kind] = {
    "command": Kind(KEYS, read_command),
    "pgbench": _of_fields(Pgbench),
    "wrk2": _of_fields(Wrk2),
    "vegeta": _of_fields(Vegeta),
    "k6": _of_fields(K6),
    "oha": _of_fields(Oha),
    "fio": _of_fields(Fio),
    "redis-benchmark": _of_fields(RedisBenchmark),
    "memtier": _of_fields(Memtier),
}
