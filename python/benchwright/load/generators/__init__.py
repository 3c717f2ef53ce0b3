"""Load generators that are separate programs, by the name that a spec gives them.

`GENERATORS` is the registry: a name, and the form of its table. This project's own engine
is not in it: see load/engine_generator.py.
"""

from __future__ import annotations

from benchwright.load.generators.adapter import Generator
from benchwright.load.generators.command import CommandGenerator
from benchwright.load.generators.fio import Fio
from benchwright.load.generators.k6 import K6
from benchwright.load.generators.memtier import Memtier
from benchwright.load.generators.oha import Oha
from benchwright.load.generators.pgbench import Pgbench
from benchwright.load.generators.redis_benchmark import RedisBenchmark
from benchwright.load.generators.vegeta import Vegeta
from benchwright.load.generators.wrk2 import Wrk2
from benchwright.suite.form import Form, form_of

__all__ = ["GENERATORS", "Generator"]

GENERATORS: dict[str, Form] = {
    kind.name: form_of(kind)
    for kind in (
        CommandGenerator,
        Pgbench,
        Wrk2,
        Vegeta,
        K6,
        Oha,
        Fio,
        RedisBenchmark,
        Memtier,
    )
}
"""Generators by name; each form makes a `Generator` from the generator's table."""
