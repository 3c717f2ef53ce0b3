"""`--target` of `bw peak` and `bw ramp`: the words of `bw load` as the text of a spec.

Purpose: a search of a server that runs already, without a file. Decision: the options become the
text of a spec with `[load]` alone. The study stores it like a spec, so resuming, printing and
exporting a search have no second way. Rejected: fields of the request, which would repeat the
keys of `[load]` and their checks.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from benchwright.features.load.options import (
    BareOptions,
    GoodOptions,
    HostOptions,
    LoadOptions,
    TargetOptions,
)
from benchwright.inputs.mistakes import SourceFile, Where

if TYPE_CHECKING:
    # Not imported for --help, which needs the names of the options.
    from benchwright.features.search.spec import Spec
    from benchwright.features.search.spec_toml import ReadTable

TARGET_FILE = "--target"
"""The name in place of a spec's path where options of `bw load` describe the load."""
TARGET_CLAIM, TARGET_BUDGET = "rate:5%", "10m"
"""Claim and budget of `bw peak --target` where none is given: an answer within ten minutes."""
LOAD_OPTIONS: tuple[tuple[type[msgspec.Struct], tuple[str, ...]], ...] = (
    (
        TargetOptions,
        (
            *("target", "connections", "timeout", "direct", "size", "overwrite"),
            *("allow_writes_to_mounted", "replace", "synchronous", "repeat_data"),
            *("engine", "outstanding", "http", "unix_socket", "commands", "payload", "expect"),
            *("mount_port", "uid", "gid"),
            *(
                "grpc",
                "proto",
                "import_path",
                "data",
                "compression",
                "metadata",
                "deadline",
                "accept",
            ),
            *("ca", "insecure", "server_name"),
            *("events", "end_mark", "first_timeout", "gap_timeout"),
            *("llm", "model", "prompt_words", "output_tokens", "shared_prefix", "ignore_eos"),
            *("prompt_trace", "turns", "tokens_per_word"),
        ),
    ),
    (BareOptions, ("arrival", "block", "read", "location", "think")),
    (LoadOptions, ("depth", "workers", "cpus", "full", "drain")),
    (GoodOptions, ("good",)),
    (HostOptions, ("hosts", "ssh_config")),
)
"""The options of `bw load` that describe the load of a search."""
_OF_WORKLOAD = ("filament", "files")
"""Tables of a workload; a spec with one of them has `[load]` too."""
_KEYS = {"block": "size", "size": "file_size"}
"""Keys of `[load]` that are not the option's name."""
_FLAGS = {"size": "--block", "file_size": "--size", "cpus": "--cpu"}
"""Options whose spelling is not that of the key."""


def is_workload(file: SourceFile) -> bool:
    """Return whether a file is a workload, and no spec. Raises InputError for text that is no TOML."""
    from benchwright.inputs.toml_table import decoded

    tables, _ = decoded(file.text, file.path, "spec-toml")
    return "load" not in tables and not tables.keys().isdisjoint(_OF_WORKLOAD)


def target_source(texts: Mapping[str, str | bool | Sequence[str]]) -> SourceFile:
    """Return the spec of options, by their names in `LOAD_OPTIONS`, and `workload`: a file."""
    # A JSON string is a TOML string.
    lines = [
        f"{_KEYS.get(name, name)} = {json.dumps(text, ensure_ascii=False)}\n"
        for name, text in texts.items()
    ]
    return SourceFile(TARGET_FILE, "".join(["[load]\n", *lines]))


def spec_of(source: SourceFile, more: Mapping[str, ReadTable] | None = None) -> Spec:
    """Return the contents of a spec; where it is made from options, its places are the options.

    Raises InputError with all errors.
    """
    from benchwright.features.search.spec_toml import read_spec

    spec = read_spec(source.text, source.path, more, source.beside)
    if source.path != TARGET_FILE:
        return spec
    places = {
        f"load.{key}": Where(value)
        if key == "workload"
        else Where(_FLAGS.get(key, "--" + key.replace("_", "-")), text=str(value))
        for key, value in tomllib.loads(source.text)["load"].items()
    }
    return msgspec.structs.replace(spec, places=places)
