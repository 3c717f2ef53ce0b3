"""`.ap`, Auto-pilot's language, whole: from files to a program, or to all mistakes.

Purpose: existing Auto-pilot suites run unchanged; TIMEOUT, WARMUP, OUTPUT, METRIC and
HOOKS are ours.
Decision: one pass over lines with a stack of open blocks, that reports a mistake and
goes on; what lost was a grammar tool, whose first error would be its last.
Non-goals: EVAL (it runs Perl); VAREX has safe expressions instead.
Source: Auto-pilot paper, section 3.1; the manual's Directive Reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.plan import Mode
from benchwright.suite import directives as read
from benchwright.suite import program as step
from benchwright.suite.blocks import Block, Blocks
from benchwright.suite.check import unset_variables, unused_defines
from benchwright.suite.directives import Directive, Part
from benchwright.suite.include import Includer, Reader
from benchwright.suite.program import Program, Where
from benchwright.suite.source import Line
from benchwright.suite.template import fixed

SIMPLE: dict[str, Directive] = {
    "VAR": read.assign("VAR", environment=False, expression=False),
    "VAREX": read.assign("VAREX", environment=False, expression=True),
    "ENV": read.assign("ENV", environment=True, expression=False),
    "ENVEX": read.assign("ENVEX", environment=True, expression=True),
    "ECHO": read.echo,
    "THREADS": read.threads,
    "TIMEOUT": read.timeout,
    "WARMUP": read.warmup,
    "OUTPUT": read.output,
    "METRIC": read.metric_directive,
    "HOOKS": read.hooks,
    "SYSTEM": read.system,
    "FASTFAIL": read.fast_fail,
    "CHECKPOINT": read.checkpoint,
    "STOP": read.stop,
}
PHASES: dict[str, Directive] = {
    mode: read.phase(Mode(mode))
    for mode in ("PRESETUP", "SETUP", "EXEC", "CLEANUP", "POSTCLEANUP")
}
OPENING = ("FOREACH", "FOR", "WHILE", "IF", "TEST")
CLOSING = ("ELSE-IF", "ELSE", "FI", "DONE")
KEYWORDS = (
    *SIMPLE,
    *PHASES,
    *OPENING,
    *CLOSING,
    "INCLUDE",
    "OPTINCLUDE",
    "INCLUDEPATH",
)
_INSTEAD = {
    "EVAL": "no Perl is run; compute a value with VAREX NAME=EXPRESSION",
    "ENDIF": "an IF is closed by FI",
    "ELSEIF": "write ELSE-IF",
    "ELIF": "write ELSE-IF",
    "END": "a loop or a TEST is closed by DONE, an IF by FI",
}

_KEEP_ALL = step.Output(fixed("file", Where("")), Where(""))
"""As Auto-pilot does, unless the suite says otherwise."""


def compile_ap(
    main: str,
    reader: Reader,
    *,
    defines: Collection[str] = (),
    environment: Collection[str] = (),
) -> Program:
    """Return the program of a `.ap` file and what it includes.

    `reader` gives the text of a path. Names of `defines` and `environment` count as set.
    Raises InputError with every mistake of all files.
    """
    includer = Includer(reader)
    includer.main(main)
    parser = _Parser(includer.diagnostics)
    for line in includer.lines:
        parser.line(line)
    steps = parser.blocks.finish()
    found = includer.diagnostics
    found += unset_variables(steps, {*defines, *environment})
    if not found:
        found += unused_defines(steps, defines)
    if found:
        order = {path: number for number, path in enumerate(includer.sources)}
        found.sort(key=lambda d: (order.get(d.file, -1), d.line, d.column))
        raise InputError(list(dict.fromkeys(found)))
    return Program((_KEEP_ALL, *steps), includer.source_files())


class _Parser:
    """Feeds lines to the open block."""

    def __init__(self, found: list[Diagnostic]) -> None:
        self._found = found
        self.blocks = Blocks(found)

    def line(self, line: Line) -> None:
        """Read one line."""
        keyword = line.text.split(None, 1)[0]
        if line.text.startswith("THREADS="):
            keyword = "THREADS"
        where = line.place(0)
        part = Part(line, len(keyword), self._found)
        if keyword in SIMPLE:
            self.blocks.add(SIMPLE[keyword](part, where))
        elif keyword in PHASES:
            if not self.blocks.in_test:
                message = f"{keyword} belongs into a TEST"
                part = Part(line, 0, self._found)
                part.wrong(
                    "suite-outside-test", message, "open one with TEST NAME COUNT"
                )
                part = Part(line, len(keyword), self._found)
            self.blocks.add(PHASES[keyword](part, where))
        elif keyword in OPENING:
            self._open(keyword, part, where)
        elif keyword in CLOSING:
            self._close(keyword, part, where)
        else:
            self._unknown(keyword, Part(line, 0, self._found))

    def _open(self, keyword: str, part: Part, where: Where) -> None:
        block = Block(keyword, where)
        match keyword:
            case "FOREACH":
                block.foreach = read.foreach_head(part)
            case "FOR":
                block.head = read.for_head(part)
            case "TEST":
                block.heading = read.test_heading(part)
            case _:
                block.condition = read.condition(part, keyword)
        self.blocks.open(block)

    def _close(self, keyword: str, part: Part, where: Where) -> None:
        if keyword == "ELSE-IF":
            self.blocks.branch(keyword, where, read.condition(part, keyword))
            return
        if keyword == "ELSE" and part.text.startswith("IF"):
            part.wrong("suite-unknown-directive", "ELSE and IF are one word", "ELSE-IF")
        else:
            part.none(f"{keyword} alone on its line")
        if keyword == "ELSE":
            self.blocks.branch(keyword, where, None)
        else:
            self.blocks.close(keyword, where)

    def _unknown(self, keyword: str, part: Part) -> None:
        bare = keyword.partition("=")[0]
        near = difflib.get_close_matches(bare.upper(), KEYWORDS, 1, cutoff=0.6)
        if bare.upper() in _INSTEAD:
            hint = _INSTEAD[bare.upper()]
        elif "=" in keyword:
            hint = f"a variable is set with VAR {bare[:40]}=VALUE"
        elif near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = "expected one of " + ", ".join(sorted(KEYWORDS))
        message = f"{keyword[:60]!r} is not a directive"
        part.wrong("suite-unknown-directive", message, hint)
