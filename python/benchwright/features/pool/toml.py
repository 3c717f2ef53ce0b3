"""`--pool` and `[pool]`: where gangs of hosts are from, and how many run side by side.

One declaration for both: `POOL` has the keys, each with the parser of its text. The option is
`ENGINE:KEY=VALUE,...`; the table has the engine as a key too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchwright.core.quantity import parse_duration_ns
from benchwright.features.pool.types import PoolKind, PoolSettings
from benchwright.inputs.form import Form, needed, optional, read_form

if TYPE_CHECKING:
    from benchwright.inputs.toml_table import TomlTable

MOST_GANGS = 1024
_MOST_CLIENTS = 1024
_MOST_RETRIES = 100
_OF_SLURM = ("partition", "account", "qos", "constraint")


def _engine(text: str) -> PoolKind:
    if text not in tuple(PoolKind):
        known = " or ".join(PoolKind)
        raise ValueError(f"must be {known}, not {text!r}")
    return PoolKind(text)


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def _seconds(text: str) -> float:
    seconds = parse_duration_ns(text) / 1e9
    if seconds < 1:
        raise ValueError(f"{text!r} is less than 1 s")
    return seconds


def _word(text: str) -> str:
    if not text or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not one word")
    return text


POOL = Form(
    (
        needed(
            "engine",
            _engine,
            help="`local`: processes on this machine; `slurm`: jobs of a cluster",
            hint='engine = "local"',
        ),
        needed(
            "gangs",
            lambda text: _whole(text, 1, MOST_GANGS),
            help="number of gangs that run side by side",
            hint="gangs = 4",
        ),
        optional(
            "clients",
            lambda text: _whole(text, 0, _MOST_CLIENTS),
            help="number of client hosts in each gang, which issue its load; 0: the server's host does",
            default="0",
        ),
        optional(
            "retries",
            lambda text: _whole(text, 0, _MOST_RETRIES),
            help="how often a task is tried again after a void attempt",
            default="2",
        ),
        optional(
            "lease",
            _seconds,
            field="lease_s",
            help="length of a lease; then the gang is leased again",
            default="until the session ends",
        ),
        optional("partition", _word, help="partition of Slurm", default="its default"),
        optional("account", _word, help="account of Slurm", default="its default"),
        optional("qos", _word, help="quality of service of Slurm", default="its default"),
        optional("constraint", _word, help="features that Slurm's nodes must have", default="none"),
    ),
    PoolSettings,
)
"""The keys of `[pool]`."""


def _misfit(said: dict[str, Any]) -> str:
    """Return why keys do not fit the engine; empty if they do."""
    if said.get("engine") is not PoolKind.LOCAL:
        return ""
    wrong = [key for key in _OF_SLURM if key in said]
    return f"{wrong[0]} is for slurm" if wrong else ""


def read_pool(table: TomlTable) -> PoolSettings | None:
    """Return the settings of a table; None after it reported mistakes."""
    settings: PoolSettings | None = read_form(table, POOL)
    if settings is not None:
        why = _misfit(dict.fromkeys(table.values, settings) | {"engine": settings.engine})
        if why:
            table.refuse(table.where, why)
    return settings


def pool_of_suite(top: TomlTable) -> PoolSettings | None:
    """Return the settings of `[pool]` of a suite; None after it reported mistakes."""
    table = top.table("pool")
    return None if table is None else read_pool(table)


def parse_pool(text: str) -> PoolSettings:
    """Return the settings of `--pool`: `local:gangs=4`. Raises ValueError."""
    engine, _, rest = text.partition(":")
    keys = {str(key.key): key for key in POOL.keys}
    said: dict[str, Any] = {"engine": _engine(engine)}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        key = keys.get(name)
        if key is None or name == "engine":
            known = ", ".join(name for name in keys if name != "engine")
            raise ValueError(f"there is no key {name!r}: the keys are {known}")
        if name in said:
            raise ValueError(f"{name} is given twice")
        if not equals:
            raise ValueError(f"{name} has no value: write {name}=VALUE")
        assert key.parse is not None
        try:
            said[name] = key.parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if "gangs" not in said:
        raise ValueError("the number of gangs is missing: local:gangs=4")
    if why := _misfit(said):
        raise ValueError(why)
    made: PoolSettings = POOL.made(said)
    return made
