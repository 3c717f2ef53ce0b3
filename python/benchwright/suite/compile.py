"""Compiles a suite, by its path or from its stored texts, to a program.

The file's suffix determines the language. Nothing here touches the disk: `reader` returns
the text of a path, and raises the errors of `open`.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from benchwright.core.errors import Diagnostic, InputError
from benchwright.features.autopilot.language import compile_ap
from benchwright.suite.plan import describe
from benchwright.suite.program import Program, SourceFile
from benchwright.suite.source import LIBRARY, SourceReader
from benchwright.suite.toml import compile_toml

NONE: Mapping[str, str] = MappingProxyType({})
SUFFIXES = {".ap": compile_ap, ".toml": compile_toml}


def load(
    path: str,
    reader: SourceReader,
    *,
    defines: Mapping[str, str] = NONE,
    environment: Mapping[str, str] = NONE,
    library: str | None = None,
) -> Program:
    """Return the program of a suite file; its `sources` are all files that were read.

    `library`: the directories that INCLUDE searches last, separated by colons. Raises
    InputError with all mistakes that static checks find. If they find none, a dry run of the
    program follows; then InputError has the first mistake of that run.
    """

    def read(name: str) -> str:
        if not name.startswith(LIBRARY):
            return reader(name)
        for directory in filter(None, (library or "").split(":")):
            with contextlib.suppress(FileNotFoundError):
                return reader(posixpath.join(directory, name.removeprefix(LIBRARY)))
        raise FileNotFoundError(name)

    program = _compiled(path, read, defines, environment)
    describe(program, defines=defines, environment=environment)
    return program


def compile_sources(
    main: str,
    sources: Sequence[SourceFile],
    *,
    defines: Mapping[str, str] = NONE,
    environment: Mapping[str, str] = NONE,
) -> Program:
    """Return the program of a suite's stored texts (`Program.sources`), without the disk."""
    texts = {source.path: source.text for source in sources}

    def read(name: str) -> str:
        if name not in texts:
            raise FileNotFoundError(name)
        return texts[name]

    return _compiled(main, read, defines, environment)


def _compiled(
    path: str,
    reader: SourceReader,
    defines: Mapping[str, str],
    environment: Mapping[str, str],
) -> Program:
    for suffix, compiler in SUFFIXES.items():
        if path.endswith(suffix):
            return compiler(path, reader, defines=defines, environment=environment)
    raise InputError(
        [
            Diagnostic(
                "suite-language",
                f"{path!r} is of an unknown suite type",
                f"use {' or '.join(SUFFIXES)}; for a command: bw run -- "
                f"{shlex.quote(path) if path else 'COMMAND'}",
                file=path,
            )
        ]
    )
