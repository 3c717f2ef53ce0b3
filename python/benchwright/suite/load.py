"""The way in: a path to a suite, or stored texts of one, to a program.

The language is chosen by the file's suffix. Nothing here touches the disk: `reader`
gives the text of a path, and raises what `open` would.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchwright.model.errors import Diagnostic, InputError
from benchwright.suite.autopilot import compile_ap
from benchwright.suite.include import LIBRARY, Reader
from benchwright.suite.program import Program, SourceFile

SUFFIXES = {".ap": compile_ap}


def load(
    path: str,
    reader: Reader,
    *,
    defines: Collection[str] = (),
    environment: Collection[str] = (),
    library: str | None = None,
) -> Program:
    """Return the program of a suite file, whose `sources` are all that was read for it.

    `library` is the directory where INCLUDE looks last. Raises InputError with every
    mistake that can be found without running anything.
    """

    def read(name: str) -> str:
        if not name.startswith(LIBRARY):
            return reader(name)
        if library is None:
            raise FileNotFoundError(name)
        return reader(library.rstrip("/") + "/" + name.removeprefix(LIBRARY))

    return _compiled(path, read, defines, environment)


def compile_sources(
    main: str,
    sources: Sequence[SourceFile],
    *,
    defines: Collection[str] = (),
    environment: Collection[str] = (),
) -> Program:
    """Return the program again from the texts that `load` kept, without the disk."""
    texts = {source.path: source.text for source in sources}

    def read(name: str) -> str:
        if name not in texts:
            raise FileNotFoundError(name)
        return texts[name]

    return _compiled(main, read, defines, environment)


def _compiled(
    path: str, reader: Reader, defines: Collection[str], environment: Collection[str]
) -> Program:
    for suffix, compiler in SUFFIXES.items():
        if path.endswith(suffix):
            return compiler(path, reader, defines=defines, environment=environment)
    raise InputError(
        [
            Diagnostic(
                "suite-language",
                f"{path!r} is not a suite by its name",
                f"a suite's name ends in {' or '.join(SUFFIXES)}; "
                "a command is measured with bw run -- COMMAND",
                file=path,
            )
        ]
    )
