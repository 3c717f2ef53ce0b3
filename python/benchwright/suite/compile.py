"""The way in: a path to a suite, or stored texts of one, to a program.

The language is chosen by the file's suffix. Nothing here touches the disk: `reader`
gives the text of a path, and raises what `open` would.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from benchwright.core.errors import Diagnostic, InputError
from benchwright.suite.autopilot import compile_ap
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
    """Return the program of a suite file, whose `sources` are all that was read for it.

    `library` are the directories where INCLUDE looks last, with colons. Raises InputError with every
    mistake that can be found without running anything; when there is none, the program
    is rehearsed with dry answers, and the first mistake on that way is raised.
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
    """Return the program again from the texts that `load` returned, without the disk."""
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
                f"use {' or '.join(SUFFIXES)}; measure a command with bw run -- COMMAND",
                file=path,
            )
        ]
    )
