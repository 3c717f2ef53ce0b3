"""Compiles a suite, by its path or from its stored texts, to a program.

The file's suffix determines the language. Nothing here touches the disk: `reader` returns
the text of a path, and raises the errors of `open`.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from benchwright.core.errors import Diagnostic, InputError
from benchwright.feature import TABLE, features
from benchwright.inputs.mistakes import LIBRARY, SourceFile, SourceReader
from benchwright.suite.program import Program
from benchwright.suite.toml import compile_toml

NONE: Mapping[str, str] = MappingProxyType({})


MACHINE_NAMES = ("host", "system")
"""In braces in the name of an included file: the host's name without its domain, and the ID of
os-release(5), such as `debian`."""


class SuiteLanguage(Protocol):
    """Compiles the files of one language to programs."""

    def __call__(
        self,
        main: str,
        reader: SourceReader,
        *,
        defines: Collection[str] = (),
        environment: Collection[str] = (),
    ) -> Program:
        """Return the program of a file and of the files that it includes.

        `reader` returns the text of a path. Names in `defines` and `environment` count as set.
        Raises InputError with the mistakes of all files.
        """


def languages() -> dict[str, SuiteLanguage]:
    """Return the languages of suites by the suffix of their files."""
    added = [feature.suite_languages() for feature in features()]
    return {
        **{s: language for found in added for s, language in found.items()},
        ".toml": compile_toml,
    }


def load(
    path: str,
    reader: SourceReader,
    *,
    defines: Mapping[str, str] = NONE,
    environment: Mapping[str, str] = NONE,
    library: str | None = None,
    machine: Mapping[str, str] = NONE,
) -> Program:
    """Return the program of a suite file; its `sources` are all files that were read.

    `library`: the directories that INCLUDE searches last, separated by colons. `machine`: what
    stands for each of MACHINE_NAMES in the name of an included file, which keeps its name in
    `sources`, so that a stored suite is the same on another machine. Raises InputError with all
    mistakes that static checks find. Others show in a dry run (`describe`).
    """

    def read(name: str) -> str:
        if name != path:
            for known, value in machine.items():
                name = name.replace(f"{{{known}}}", value)
        if not name.startswith(LIBRARY):
            return reader(name)
        for directory in filter(None, (library or "").split(":")):
            with contextlib.suppress(FileNotFoundError):
                return reader(posixpath.join(directory, name.removeprefix(LIBRARY)))
        raise FileNotFoundError(name)

    return _compiled(path, read, defines, environment)


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
    path: str, reader: SourceReader, defines: Mapping[str, str], environment: Mapping[str, str]
) -> Program:
    known = languages()
    for suffix, compiler in known.items():
        if path.endswith(suffix):
            return compiler(path, reader, defines=defines, environment=environment)
    owner = next((row.name for row in TABLE if path.endswith(row.suffixes)), "")
    what = f"a suite of the feature {owner}, which is not installed"
    raise InputError(
        [
            Diagnostic(
                "suite-language",
                f"{path!r} is {what if owner else 'of an unknown suite type'}",
                f"use {' or '.join(known)}; for a command: bw run -- "
                f"{shlex.quote(path) if path else 'COMMAND'}",
                file=path,
            )
        ]
    )
