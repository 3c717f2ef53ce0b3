"""`[files]` and filaments of type `files`: the forms of a file set and of chains of operations.

Purpose: the part of docs/workload-toml.md about file sets. Decision: an operation of
`operations` is a chain of one step, so that tables of operations and chains have one meaning;
weights and rates are of operations sent unless `weights = "chains"` (features/load/file_set.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Literal

import msgspec

from benchwright.features.load import parse as words
from benchwright.features.load import workload as w
from benchwright.features.load.file_set import (
    FileSetPlan,
    multiplied_rate,
    operations_of,
    operations_per_chain,
    whole_weights,
)
from benchwright.features.load.tables import read_arrival, read_distribution, read_rate
from benchwright.inputs.form import Form, each, needed, of_type, optional, read_form
from benchwright.inputs.options import Option
from benchwright.inputs.toml_table import TomlTable, one_of_words

MOST_LEVELS = 64


def _levels(text: str) -> int:
    return words.from_one(text, MOST_LEVELS)


_COUNTS = read_distribution(words.count)
_SIZES = read_distribution(words.size_bytes)


def _file_set(
    *,
    files: w.Distribution | None = None,
    files_per_load: w.Distribution | None = None,
    for_rate: int | None = None,
    spare: int | None = None,
    **tables: Any,
) -> FileSetPlan:
    """Return the file set of `[files]`. Raises ValueError."""
    given = files_per_load if files is None else files
    if given is None or (files is not None and files_per_load is not None):
        raise ValueError("give one of files and files_per_load")
    if for_rate is not None and files_per_load is None:
        raise ValueError("for_rate has no effect without files_per_load")
    return FileSetPlan(
        tables=w.FileSet(files=given, **tables),
        per_load=files is None,
        for_rate_micro=for_rate,
        spare=None if spare is None else Fraction(spare, w.MICRO),
    )


FILES = Form(
    (
        optional(
            "levels",
            _levels,
            field="max_depth",
            help="levels of directories, with the root of the set; 1: the root alone",
            default="1",
        ),
        optional(
            "directories",
            read=_COUNTS,
            help="sub-directories of each directory above the last level",
            default="0",
        ),
        optional(
            "files",
            read=_COUNTS,
            help="files of each directory at the start",
            default="this or `files_per_load`",
        ),
        optional(
            "files_per_load",
            read=_COUNTS,
            help="the same for each operation per second of the rate: the set grows with the load",
        ),
        optional(
            "for_rate",
            words.rate_micro,
            help="the rate for which a set with `files_per_load` is made; it is then the same "
            "at all rates",
            default="the rate of the run",
        ),
        optional(
            "spare",
            words.share_micro,
            help="further names that do not exist at the start, for `create` and `mkdir`: a "
            "share of those that do",
            default="10% if an operation creates, else 0%",
        ),
        optional("symlinks", read=_COUNTS, help="symbolic links of each directory", default="0"),
        optional(
            "empty_directories",
            read=_COUNTS,
            help="empty directories of each directory, for `mkdir` and `rmdir`",
            default="0",
        ),
        needed("size", read=_SIZES, field="file_size", help="size of a file", default="needed"),
        optional(
            "popularity",
            read=_COUNTS,
            field="file_popularity",
            help="weight by which a file is chosen; 0: never",
            default="1",
        ),
        optional(
            "directory_popularity",
            read=_COUNTS,
            help="weight by which a directory is chosen for `readdir`",
            default="1",
        ),
        optional(
            "seed",
            words.count,
            help="random seed of the set; another seed of the load uses the same files",
            default="1",
        ),
    ),
    _file_set,
)
"""The keys of `[files]`."""


# -- chains --------------------------------------------------------------------------------

_FLUSHES = {"commit": "flush", "fsync": "flush", "flush": "flush"}
_TRANSFERS = ("read", "write", "append")
_WHOLE = {"read_file": "read", "write_file": "write"}
"""Transfers of a whole file."""
STEPS = (*w.PLAIN_FILE_KINDS, *_FLUSHES, *_TRANSFERS, *_WHOLE)
"""What a step can do."""
OPERATIONS = tuple(name for name in STEPS if name not in ("open", "close"))
"""What an operation of its own can do."""


class _WeightedChain(msgspec.Struct, frozen=True):
    """A chain with the weight that the user gave it [millionths]."""

    name: str
    weight: int
    steps: tuple[w.ChainStep, ...]


def _step(
    do: str, size: w.Distribution | None = None, location: Any = None, object: Any = "same"
) -> w.ChainStep:
    """Return a step of a chain. Raises ValueError."""
    kind = {**_FLUSHES, **_WHOLE}.get(do, do)
    if do not in _TRANSFERS:
        for key, value in (("size", size), ("location", location)):
            if value is not None:
                raise ValueError(f"{key} has no effect on {do}")
    elif do == "append" and location is not None:
        raise ValueError("append always starts at the end of the file")
    return w.ChainStep(kind=kind, size=size, location=location or "start", object=object)


def _word(text: str) -> str:
    if text not in STEPS:
        raise ValueError(f"{text!r} is no operation: {one_of_words(text, STEPS)}")
    return text


_STEP = Form(
    (
        needed("do", _word),
        optional("size", read=_SIZES),
        optional("location", read=of_type(Literal["start", "random", "end"])),
        optional("object", read=of_type(Literal["choose", "same"])),
    ),
    _step,
)


def _steps(table: TomlTable, key: str) -> tuple[w.ChainStep, ...] | None:
    """Return the steps of a chain: words, or tables with `do`; the first one chooses its object."""
    if not table.has(key, list):
        return None
    chain_steps: list[w.ChainStep | None] = []
    for index, one in enumerate(table.values[key]):
        if isinstance(one, dict):
            chain_steps.append(read_form(table.inner(one, key, index), _STEP))
        else:
            word = table.scalar_of(one, _word, key, index)
            chain_steps.append(None if word is None else _step(word))
    if not chain_steps:
        table.refuse(table.at(key), f"{key} is empty")
        return None
    if None in chain_steps:
        return None
    first, *others = (step for step in chain_steps if step is not None)
    return msgspec.structs.replace(first, object="choose"), *others


CHAIN = Form(
    (
        needed("name", read=of_type(str), help="name in the report", default="needed"),
        optional(
            "weight", words.number_micro, help="weight among chains and operations", default="1"
        ),
        needed(
            "steps",
            read=_steps,
            help="what is done, in order: words of the table below, or tables with `do`, `size`, "
            "`location` and `object`",
            default="needed",
        ),
    ),
    lambda name, steps, weight=w.MICRO: _WeightedChain(name, weight, steps),
)
"""The keys of `[[filament.chain]]`."""


def _operations(table: TomlTable, key: str) -> Mapping[str, int] | None:
    """Return the weights of operations by name [millionths]."""
    inner = table.table(key)
    if inner is None:
        return None
    inner.only(OPERATIONS)
    weights = {name: inner.read(name, words.number_micro) for name in OPERATIONS if name in inner}
    if not weights and not inner.values:
        table.refuse(table.at(key), f"{key} is empty")
    if None in weights.values() or not weights:
        return None
    return {name: weight for name, weight in weights.items() if weight is not None}


def chain_keys() -> tuple[Option, ...]:
    """Return the keys of a filament of type `files`."""
    return (
        optional("arrival", read=read_arrival, help="how arrivals scatter"),
        optional("rate", read=read_rate, help="operations per second"),
        optional("count", words.some, help="end after this many chains"),
        optional("users", words.some, help="instead of `rate`: a closed loop"),
        optional(
            "think",
            read=read_distribution(words.duration_ns),
            help="time from the end of a user's chain to the next one",
            default="0",
        ),
        optional(
            "operations", read=_operations, help="weights of operations: `{lookup = 27, read = 18}`"
        ),
        optional(
            "chain",
            read=each(CHAIN),
            help="chains, an array of tables `[[filament.chain]]`; keys below",
        ),
        optional(
            "weights",
            read=of_type(Literal["operations", "chains"]),
            help="whether weights and `rate` are of operations sent, or of chains",
            default="operations",
        ),
        optional(
            "read_size", read=_SIZES, help="bytes of the `read` of `operations`", default="`piece`"
        ),
        optional("write_size", read=_SIZES, help="bytes of its `write`", default="`piece`"),
        optional("append_size", read=_SIZES, help="bytes of its `append`", default="`write_size`"),
        optional(
            "piece",
            words.operation_bytes,
            field="piece_bytes",
            help="largest read or write; a larger transfer is several, one after the other",
            default="8k",
        ),
    )


PIECE_BYTES = 8192


def files_filament(file_size: w.Distribution | None) -> Callable[..., w.Files]:
    """Return the function that makes a filament on files of these sizes from the values of its
    keys.

    It raises ValueError.
    """

    def made(
        *,
        operations: Mapping[str, int] | None = None,
        chain: tuple[_WeightedChain, ...] = (),
        weights: str = "operations",
        rate: w.Rate | None = None,
        arrival: w.Arrival | None = None,
        read_size: w.Distribution | None = None,
        write_size: w.Distribution | None = None,
        append_size: w.Distribution | None = None,
        piece_bytes: int = PIECE_BYTES,
        **said: Any,
    ) -> w.Files:
        if file_size is None:
            raise ValueError("a filament of type files needs the table [files]")
        piece = w.ConstantValue(piece_bytes)
        write_size = write_size or piece
        sizes = {
            "read": read_size or piece,
            "write": write_size,
            "append": append_size or write_size,
        }
        given = [
            _WeightedChain(name, weight, (_operation(name, sizes),))
            for name, weight in (operations or {}).items()
        ]
        given += chain
        if not given:
            raise ValueError("a filament of type files needs operations or a chain")
        shares = [Fraction(weighted_chain.weight, w.MICRO) for weighted_chain in given]
        if weights == "operations":
            shares = [
                share / operations_of(weighted_chain.steps, piece_bytes, file_size)
                for share, weighted_chain in zip(shares, given, strict=True)
            ]
        chains = tuple(
            w.Chain(weighted_chain.name, weight, weighted_chain.steps)
            for weighted_chain, weight in zip(given, whole_weights(shares), strict=True)
        )
        filament = w.Files(piece_bytes=piece_bytes, chains=chains, **said)
        if rate is None:
            return filament
        if weights == "operations":
            rate = multiplied_rate(rate, 1 / float(operations_per_chain(filament, file_size)))
        return msgspec.structs.replace(filament, rate=rate, arrival=arrival or w.PoissonArrival())

    return made


def _operation(name: str, sizes: Mapping[str, w.Distribution]) -> w.ChainStep:
    """Return the step of an operation: reads and writes of a part are at random places."""
    kind = {**_FLUSHES, **_WHOLE}.get(name, name)
    if name in ("read", "write"):
        return w.ChainStep(kind=kind, size=sizes[name], location="random")
    return w.ChainStep(kind=kind, size=sizes.get(name))


def check_files_filament(table: TomlTable) -> None:
    """Report keys of a filament of type `files` that contradict each other."""
    if ("rate" in table) == ("users" in table):
        message = "a filament of type files has one of rate (open) and users (closed)"
        table.refuse(table.where, message)
    for key, other in (("arrival", "rate"), ("count", "rate"), ("think", "users")):
        if key in table and other not in table:
            table.refuse(table.at(key), f"{key} has no effect without {other}")
