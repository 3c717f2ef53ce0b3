"""Load generators that are separate programs, by the name that a spec gives them.

`GENERATORS` is the registry: a name, and the form of its table. This project's own engine
is not in it: see features/search/engine_generator.py.
"""

from __future__ import annotations

from benchwright.features.generators.adapter import Generator
from benchwright.features.generators.command import CommandGenerator
from benchwright.features.generators.databases import Memtier, Pgbench, RedisBenchmark
from benchwright.features.generators.fio import Fio
from benchwright.features.generators.http import K6, Oha, Vegeta, Wrk2
from benchwright.inputs.form import Form, form_of

__all__ = ["GENERATORS", "Generator"]

GENERATORS: dict[str, Form] = {
    kind.name: form_of(kind)
    for kind in (CommandGenerator, Pgbench, Wrk2, Vegeta, K6, Oha, Fio, RedisBenchmark, Memtier)
}
"""Generators by name; each form makes a `Generator` from the generator's table."""
