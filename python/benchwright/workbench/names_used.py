"""Which names in braces the texts of a spec use: a factor that none uses changes nothing.

Purpose: a surface over such a factor would cost searches and say that it has no effect,
which nobody measured. A program may also take a level from its environment; then its name
stands in a text all the same (`env BW_FACTOR_disks={disks} ./generate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from benchwright.suite.program import Slot
from benchwright.workbench.generators.placeholders import named_in
from benchwright.workbench.spec import Spec

_IN_ENVIRONMENT = re.compile(r"BW_FACTOR_(\w+)", re.ASCII)


def unused_factors(spec: Spec) -> tuple[str, ...]:
    """Return the factors that no text of the server and of the load names."""
    used = set(_names((spec.server, spec.load.settings)))
    return tuple(name for name, _ in spec.factors if name not in used)


def _names(value: Any) -> Iterator[str]:
    """Yield every name in the texts of a value, however deep they lie in it."""
    if isinstance(value, Slot):
        yield value.name
    elif isinstance(value, str):
        yield from (name.removesuffix(":int") for name in named_in(value))
        yield from _IN_ENVIRONMENT.findall(value)
    elif isinstance(value, msgspec.Struct):
        yield from _names(list(msgspec.structs.asdict(value).values()))
    elif isinstance(value, Mapping):
        yield from _names([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _names(one)
