"""Compiles Auto-pilot's language (`.ap`) into a program: directives and blocks, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

import msgspec

from benchwright.core.errors import Diagnostic, InputError, suggestion
from benchwright.core.plan import CommandMode
from benchwright.features.autopilot.lines import Includer, SourceLine
from benchwright.inputs.mistakes import Fault, SourceReader, Where, diagnostic, fault_of, placed
from benchwright.inputs.template import NAME, OffsetLocator, Slot, Template, fixed, split_words
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.check import unset_variables, unused_defines, walk
from benchwright.suite.program import Branch, Program, Relational, Step

# -- Finds `%NAME%` and `$NAME$` in texts ----------------------------------------------
#
# `%NAME%` is a variable of the suite, `$NAME$` the environment's (Auto-pilot's manual,
# "Auto-pilot Configurations"). `%%NAME%` stands for the text `%NAME%` itself
# (`date +%%Y%m`), `$$NAME$` for `$NAME$`. Any other `%` or `$` is text: `$HOME` and `$1`
# are the shell's.

_MARKED = re.compile(r"([%$])(\1?)([A-Za-z_][A-Za-z0-9_]*)\1", re.ASCII)


def marked_template(text: str, place: OffsetLocator) -> Template:
    """Return a text of `.ap` with its `%NAME%` and `$NAME$` as slots."""
    parts: list[str | Slot] = []
    end = 0
    for match in _MARKED.finditer(text):
        mark, doubled, name = match.groups()
        parts.append(text[end : match.start()])
        if doubled:
            parts.append(f"{mark}{name}{mark}")
        else:
            parts.append(Slot(name, place(match.start()), mark == "$"))
        end = match.end()
    parts.append(text[end:])
    return Template(tuple(p for p in parts if p != ""), place(0))


# -- Directives: from a keyword and the text after it to a step ------------------------
#
# Each function takes the part of a line after its keyword and returns its meaning, or None
# if it is wrong. Mistakes go to `DirectivePart.wrong`, so that one pass finds them all.

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*", re.ASCII)
_CONDITION = re.compile(r"([^=<>!]*)(!?(?:<=|>=|=|<|>))\s*", re.ASCII)
_OPERATORS: dict[str, step.Relation] = {
    "=": "=",
    "<": "<",
    ">": ">",
    "<=": "<=",
    ">=": ">=",
    "!=": "!=",
    "!<": ">=",
    "!>": "<=",
    "!<=": ">",
    "!>=": "<",
}
ARGUMENTS = "suite-arguments"


class DirectivePart:
    """The text of a line from an offset on; collects the mistakes found in it."""

    def __init__(self, line: SourceLine, start: int, found: list[Diagnostic]) -> None:
        while start < len(line.text) and line.text[start].isspace():
            start += 1
        self.line = line
        self.start = start
        self.text = line.text[start:]
        self._found = found

    @property
    def where(self) -> Where:
        """Position of the first character."""
        return self.line.place(self.start)

    def after(self, offset: int) -> DirectivePart:
        """Return the rest of the part from an offset on, without leading space."""
        return DirectivePart(self.line, self.start + offset, self._found)

    def until(self, end: int) -> DirectivePart:
        """Return the part up to an offset."""
        cut = DirectivePart(self.line, self.start, self._found)
        cut.text = self.text[:end].rstrip()
        return cut

    def words(self) -> list[DirectivePart]:
        """Return the words, split at white space."""
        return [
            self.after(m.start()).until(m.end() - m.start()) for m in re.finditer(r"\S+", self.text)
        ]

    def place(self, offset: int) -> Where:
        """Return the position of the character at an offset of the part."""
        return self.line.place(self.start + offset)

    def template(self) -> Template:
        """Return the part as a template."""
        return marked_template(self.text, self.place)

    def wrong(self, code: str, message: str, hint: str = "", offset: int = 0) -> None:
        """Report a mistake at an offset of the part."""
        self._found.append(diagnostic(self.place(offset), code, message, hint))

    def faults(self, faults: Iterable[Fault]) -> None:
        """Report mistakes that were found in the part's text."""
        self._found += placed(faults, self.place)

    def some(self, syntax: str) -> bool:
        """Return whether there is any text; report an error if there is none."""
        if not self.text:
            self.wrong(ARGUMENTS, "something is missing here", f"write {syntax}")
        return bool(self.text)

    def none(self, syntax: str) -> bool:
        """Return whether there is no text; report an error if there is some."""
        if self.text:
            self.wrong(ARGUMENTS, f"{self.text!r} is not expected here", f"write {syntax}")
        return not self.text


Directive = Callable[[DirectivePart, Where], Step | None]


# -- variables -------------------------------------------------------------------------


def name_and_value(part: DirectivePart, syntax: str) -> tuple[str, DirectivePart] | None:
    """Return the two sides of `NAME=VALUE`, or None after it reported an error."""
    match = _ASSIGNMENT.match(part.text)
    if match:
        return match[1], part.after(match.end())
    if part.some(syntax):
        message = "a variable's name and = are expected here"
        part.wrong("suite-assignment", message, f"write {syntax}")
    return None


def assign(keyword: str, *, environment: bool, expression: bool) -> Directive:
    """Return the directive VAR, VAREX, ENV or ENVEX."""
    syntax = f"{keyword} NAME={'EXPRESSION' if expression else 'VALUE'}"

    def directive(part: DirectivePart, where: Where) -> Step | None:
        pair = name_and_value(part, syntax)
        if pair is None:
            return None
        name, value = pair
        template = value.template()
        if expression and value.some(syntax) and template.literal is not None:
            value.faults(values.expression_faults(value.text))
        if name == "THREADS" and not expression:
            _check(value, template, values.threads)
        return step.Assign(name, template, environment, expression, where)

    return directive


def _check(part: DirectivePart, template: Template, parse: Callable[[str], object]) -> None:
    """Report the mistake in a text, if it has no variables."""
    if template.literal is not None:
        fault = fault_of(parse, template.literal)
        if fault is not None:
            part.faults([fault])


# -- settings --------------------------------------------------------------------------


def threads(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `THREADS=N` or `THREADS N`, or None if it is wrong."""
    value = part.after(1) if part.text.startswith("=") else part
    if not value.some("THREADS=N"):
        return None
    template = value.template()
    _check(value, template, values.threads)
    return step.SetThreads(template, where)


def timeout(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `TIMEOUT 30s`, or None if it is wrong."""
    if not part.some("TIMEOUT 30s, or TIMEOUT none"):
        return None
    template = part.template()
    _check(part, template, values.timeout_ns)
    return step.SetTimeout(template, where)


def ok_status(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `OKSTATUS 0,1`, or None if it is wrong."""
    if not part.some("OKSTATUS 0,1: exit statuses with which EXEC succeeds"):
        return None
    template = part.template()
    _check(part, template, values.statuses)
    return step.SetOkStatus(template, where)


def warmup(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `WARMUP 1`, or None if it is wrong."""
    if not part.some("WARMUP N: trials that run first and are not counted"):
        return None
    template = part.template()
    _check(part, template, values.warmup)
    return step.SetWarmUp(template, where)


def output(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `OUTPUT bounded`, or None if it is wrong."""
    if not part.some("OUTPUT bounded, null, file or inherit"):
        return None
    template = part.template()
    _check(part, template, values.output)
    return step.SetOutput(template, where)


def metric_directive(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `METRIC NAME=/pointer`, or None if it is wrong."""
    if not part.some("METRIC NAME=/json/pointer or METRIC NAME~regex(group)"):
        return None
    template = part.template()
    if template.literal is not None:
        part.faults(values.parse_metric(template.literal)[1])
    return step.Metric(template, where)


def hooks(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `HOOKS NAME|DIR...`; HOOKS alone disables all hooks."""
    return step.SetHooks(part.template(), where)


# -- commands --------------------------------------------------------------------------


def echo(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `ECHO STRING`."""
    return step.Echo(part.template(), where)


def system(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `SYSTEM COMMAND`, or None if it is wrong."""
    if not part.some("SYSTEM COMMAND"):
        return None
    return step.System(part.template(), where)


def phase(mode: CommandMode) -> Directive:
    """Return the directive for the commands of one phase."""

    def directive(part: DirectivePart, where: Where) -> Step | None:
        if not part.some(f"{mode} COMMAND"):
            return None
        return step.SetPhase(mode, part.template(), where)

    return directive


def fast_fail(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `FASTFAIL [SCRIPT...]`."""
    return step.FastFail(part.template() if part.text else None, where)


def checkpoint(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `CHECKPOINT [FILE]`."""
    return step.Checkpoint(part.template() if part.text else None, where)


def stop(part: DirectivePart, where: Where) -> Step | None:
    """Return the step of `STOP`."""
    part.none("STOP alone on its line")
    return step.StopProgram(where)


# -- heads of blocks: the text after FOR, IF, WHILE, FOREACH and TEST ------------------


class ForHead(msgspec.Struct, frozen=True):
    """The head of a FOR: everything before its body."""

    name: str
    begin: Template
    end: Template
    factor: Template | None
    add: Template | None


FOR_SYNTAX = "FOR NAME=A TO B [FACTOR M | ADD I]"


def for_head(part: DirectivePart) -> ForHead | None:
    """Return the head of a FOR."""
    pair = name_and_value(part, FOR_SYNTAX)
    if pair is None:
        return None
    words = pair[1].words()
    texts = [word.text for word in words]
    if len(words) < 3 or texts[1] != "TO":
        at = words[1] if len(words) > 1 else pair[1].after(len(pair[1].text))
        at.wrong(ARGUMENTS, "A TO B is expected after the =", f"write {FOR_SYNTAX}")
        return None
    step_word = texts[3] if len(words) > 3 else None
    if len(words) not in (3, 5) or step_word not in (None, "FACTOR", "ADD"):
        at = words[min(3, len(words) - 1)]
        at.wrong(ARGUMENTS, "FACTOR M or ADD I is expected here", f"write {FOR_SYNTAX}")
        return None
    factor = words[4] if step_word == "FACTOR" else None
    add = words[4] if step_word == "ADD" else None
    _check_for({"begin": words[0], "end": words[2], "factor": factor, "add": add})
    return ForHead(
        pair[0],
        words[0].template(),
        words[2].template(),
        factor.template() if factor else None,
        add.template() if add else None,
    )


def _check_for(parts: dict[values.LoopPart, DirectivePart | None]) -> None:
    """Report values that are not numbers, and a loop that cannot end."""
    numbers = {}
    complete = True
    for key, part in parts.items():
        literal = None if part is None else part.template().literal
        if part is None or literal is None:
            complete = complete and part is None
            continue
        try:
            numbers[key] = values.decimal_number(literal)
        except ValueError as error:
            part.wrong("suite-not-a-number", str(error), f"write {FOR_SYNTAX}")
            complete = False
    try:
        values.check_ends(numbers, complete=complete)
    except values.NeverEnds as error:
        blamed = parts[error.part]
        assert blamed is not None
        blamed.wrong("suite-endless", error.message, "the loop would never end")


CONDITION_SYNTAX = "NAME OP VALUE, with OP one of = != > < >= <= !> !< !>= !<="


def condition(part: DirectivePart, keyword: str) -> Relational | None:
    """Return the condition of IF, ELSE-IF and WHILE."""
    syntax = f"{keyword} {CONDITION_SYNTAX}"
    if not part.some(syntax):
        return None
    match = _CONDITION.match(part.text)
    if match is None or not match[1].strip():
        at = match.start(2) if match else len(part.text)
        part.wrong("suite-condition", "no comparison is found here", f"write {syntax}", at)
        return None
    if part.text[match.end(2) :].startswith("="):
        hint = "equality is written with a single ="
        part.wrong("suite-condition", "== is not a comparison", hint, match.start(2))
        return None
    left, right = part.until(match.end(1)), part.after(match.end())
    operator = _OPERATORS[match[2]]
    side = left.template()
    if side.literal is not None:
        if not NAME.fullmatch(left.text):
            message = f"{left.text!r} is not a variable's name"
            left.wrong("suite-condition", message, f"write {syntax}")
            return None
        side = Template((Slot(left.text, left.where),), left.where)
    value = right.template()
    if operator not in ("=", "!=") and value.literal is not None:
        try:
            values.decimal_number(value.literal)
        except ValueError as error:
            hint = "only = and != compare texts"
            right.wrong("suite-not-a-number", str(error), hint)
    return Relational(side, operator, value, part.where)


def foreach_head(part: DirectivePart) -> tuple[str, Template] | None:
    """Return the variable and the values of a FOREACH."""
    syntax = "FOREACH NAME VALUE..."
    if not part.some(syntax):
        return None
    name = NAME.match(part.text)
    if name is None or part.text[name.end() : name.end() + 1].strip():
        word = part.words()[0].text
        message = f"{word!r} is not a variable's name"
        part.wrong("suite-arguments", message, f"write {syntax}")
        return None
    values = part.after(name.end())
    if not values.some(syntax):
        return None
    values.faults(split_words(values.text)[1])
    return name[0], values.template()


def test_heading(part: DirectivePart) -> Template | None:
    """Return the text after TEST. Parts with variables are checked when the test runs."""
    if not part.some("TEST NAME COUNT, or TEST NAME BEGIN INCREMENT PROGRAM"):
        return None
    heading = part.template()
    words = part.words()
    name = words[0].template()
    if name.literal is not None:
        _check(words[0], name, values.name_of_test)
    rest = part.after(len(words[0].text))
    if rest.template().literal is not None and (rest.text or not heading.slots):
        rest.faults(values.parse_termination(rest.text)[1])
    return heading


# -- The stack of open blocks of a `.ap` file: FOREACH, FOR, WHILE, IF and TEST --------

MAX_DEPTH = 60
"""Maximum nesting of blocks: each level is a generator within a generator."""
_CLOSED_BY = {"IF": "FI"}


class DirectiveBlock:
    """An open block; one of `foreach`, `head`, `heading` and `condition` is its head, if correct."""

    def __init__(self, keyword: str, where: Where) -> None:
        self.keyword = keyword
        self.where = where
        self.foreach: tuple[str, Template] | None = None
        self.head: ForHead | None = None
        self.heading: Template | None = None
        self.condition: Relational | None = None
        self.body: list[Step] = []
        self.branches: list[Branch] = []
        self.in_else = False

    @property
    def closed_by(self) -> str:
        """The keyword that closes the block."""
        return _CLOSED_BY.get(self.keyword, "DONE")

    def end_branch(self) -> None:
        """Make a branch of the current condition and the steps since it."""
        if self.condition is not None:
            self.branches.append(Branch(self.condition, tuple(self.body)))
        self.body = []

    def step(self) -> Step | None:
        """Return the finished step, or None if its head was wrong."""
        if self.keyword == "IF":
            otherwise = tuple(self.body) if self.in_else else ()
            if not self.in_else:
                self.end_branch()
            return step.If(tuple(self.branches), otherwise, self.where)
        body = tuple(self.body)
        if self.foreach is not None:
            return step.ForEach(*self.foreach, body, self.where)
        if self.head is not None:
            h = self.head
            return step.For(h.name, h.begin, h.end, h.factor, h.add, body, self.where)
        if self.heading is not None:
            return step.Test(self.heading, None, body, self.where)
        if self.condition is not None:
            return step.While(self.condition, body, self.where)
        return None


class BlockStack:
    """The open blocks, innermost last, and the steps outside all blocks."""

    def __init__(self, found: list[Diagnostic]) -> None:
        self._found = found
        self._top: list[Step] = []
        self._open: list[DirectiveBlock] = []

    @property
    def in_test(self) -> bool:
        """Whether a TEST is open."""
        return any(block.keyword == "TEST" for block in self._open)

    def add(self, one: Step | None) -> None:
        """Add a step to the innermost block; ignore None, which stands for a mistake."""
        if one is not None:
            (self._open[-1].body if self._open else self._top).append(one)

    def open(self, block: DirectiveBlock) -> None:
        """Open a block; report a nested TEST and too deep nesting."""
        if block.keyword == "TEST" and self.in_test:
            outer = next(b for b in self._open if b.keyword == "TEST")
            message = "a TEST cannot be inside a TEST"
            hint = f"the outer one was opened at {_at(outer.where)}; is its DONE missing?"
            self._wrong(block.where, "suite-nested-test", message, hint)
        if len(self._open) == MAX_DEPTH:
            message = f"blocks are nested more than {MAX_DEPTH} deep"
            self._wrong(block.where, "suite-too-deep", message, "")
        self._open.append(block)

    def branch(self, keyword: str, where: Where, condition: Relational | None) -> None:
        """Start an ELSE-IF or an ELSE of the innermost IF."""
        block = self._open[-1] if self._open else None
        if block is None or block.keyword != "IF":
            hint = self._hint(block)
            self._wrong(where, "suite-blocks", f"{keyword} without an IF", hint)
            return
        if block.in_else:
            hint = f"the IF at {_at(block.where)} already has an ELSE"
            self._wrong(where, "suite-blocks", f"{keyword} after ELSE", hint)
            return
        block.end_branch()
        block.condition = condition
        block.in_else = keyword == "ELSE"

    def close(self, keyword: str, where: Where) -> None:
        """Close the innermost block; if the keyword does not fit it, also report a mistake."""
        block = self._open[-1] if self._open else None
        if block is None or block.closed_by != keyword:
            message = f"{keyword} has nothing to close here"
            self._wrong(where, "suite-blocks", message, self._hint(block))
            if not any(b.closed_by == keyword for b in self._open):
                return
            while self._open[-1].closed_by != keyword:
                self._end()
        self._end()

    def finish(self) -> tuple[Step, ...]:
        """Return the program's steps; report every block that was not closed."""
        while self._open:
            block = self._open[-1]
            message = f"this {block.keyword} is never closed"
            hint = f"expected {block.closed_by} before the end of the suite"
            self._wrong(block.where, "suite-blocks", message, hint)
            self._end(closed=False)
        return tuple(self._top)

    def _end(self, *, closed: bool = True) -> None:
        block = self._open.pop()
        if len(self._open) >= MAX_DEPTH:
            return
        one = block.step()
        if block.keyword == "TEST" and closed and not _executes(block.body):
            message = "this TEST has no EXEC: it would measure nothing"
            self._wrong(block.where, "suite-no-exec", message, "add EXEC COMMAND")
        self.add(one)

    def _hint(self, block: DirectiveBlock | None) -> str:
        if block is None:
            return "no block is open"
        return f"the {block.keyword} opened at {_at(block.where)} expects {block.closed_by} first"

    def _wrong(self, where: Where, code: str, message: str, hint: str) -> None:
        self._found.append(diagnostic(where, code, message, hint))


def _at(where: Where) -> str:
    return f"{where.file}:{where.line}"


def _executes(steps: list[Step]) -> bool:
    return any(isinstance(s, step.SetPhase) and s.mode is CommandMode.EXEC for s in walk(steps))


# --------------------------------------------------------------------------------------
# Files in Auto-pilot's language (`.ap`) become a program, or the list of all mistakes.
#
# Purpose: existing Auto-pilot suites run unchanged; TIMEOUT, OKSTATUS, WARMUP, OUTPUT,
# METRIC and HOOKS are additions.
# Decision: one pass over the lines with a stack of open blocks; it continues after a mistake.
# Rejected: a parser generator, which stops at the first error.
# Non-goals: EVAL (it runs Perl); VAREX has safe expressions instead.
# Source: Auto-pilot paper, section 3.1; the manual's Directive Reference.

SIMPLE: dict[str, Directive] = {
    "VAR": assign("VAR", environment=False, expression=False),
    "VAREX": assign("VAREX", environment=False, expression=True),
    "ENV": assign("ENV", environment=True, expression=False),
    "ENVEX": assign("ENVEX", environment=True, expression=True),
    "ECHO": echo,
    "THREADS": threads,
    "TIMEOUT": timeout,
    "OKSTATUS": ok_status,
    "WARMUP": warmup,
    "OUTPUT": output,
    "METRIC": metric_directive,
    "HOOKS": hooks,
    "SYSTEM": system,
    "FASTFAIL": fast_fail,
    "CHECKPOINT": checkpoint,
    "STOP": stop,
}
PHASES: dict[str, Directive] = {
    mode: phase(CommandMode(mode))
    for mode in ("PRESETUP", "SETUP", "EXEC", "CLEANUP", "POSTCLEANUP")
}
OPENING = ("FOREACH", "FOR", "WHILE", "IF", "TEST")
CLOSING = ("ELSE-IF", "ELSE", "FI", "DONE")
KEYWORDS = (*SIMPLE, *PHASES, *OPENING, *CLOSING, "INCLUDE", "OPTINCLUDE", "INCLUDEPATH")
_INSTEAD = {
    "EVAL": "Perl is not supported; compute a value with VAREX NAME=EXPRESSION",
    "ENDIF": "an IF is closed by FI",
    "ELSEIF": "write ELSE-IF",
    "ELIF": "write ELSE-IF",
    "END": "a loop or a TEST is closed by DONE, an IF by FI",
}

_KEEP_ALL = step.SetOutput(fixed("file", Where("")), Where(""))
"""The first step of every program: Auto-pilot stores all output by default."""


def compile_ap(
    main: str,
    reader: SourceReader,
    *,
    defines: Collection[str] = (),
    environment: Collection[str] = (),
) -> Program:
    """Return the program of a `.ap` file and the files that it includes.

    `reader` returns the text of a path. Names in `defines` and `environment` count as set.
    Raises InputError with the mistakes of all files.
    """
    includer = Includer(reader)
    includer.main(main)
    parser = _AutopilotParser(includer.diagnostics)
    for line in includer.lines:
        parser.line(line)
    steps = parser.blocks.finish()
    diagnostics = includer.diagnostics
    diagnostics += unset_variables(steps, {*defines, *environment})
    if not diagnostics:
        diagnostics += unused_defines(steps, defines)
    if diagnostics:
        order = {path: number for number, path in enumerate(includer.sources)}
        diagnostics.sort(key=lambda d: (order.get(d.file, -1), d.line, d.column))
        raise InputError(list(dict.fromkeys(diagnostics)))
    return Program((_KEEP_ALL, *steps), includer.source_files())


class _AutopilotParser:
    """Reads lines one by one and adds their steps to the open block."""

    def __init__(self, found: list[Diagnostic]) -> None:
        self._found = found
        self.blocks = BlockStack(found)

    def line(self, line: SourceLine) -> None:
        """Read one line."""
        keyword = line.text.split(None, 1)[0]
        if line.text.startswith("THREADS="):
            keyword = "THREADS"
        where = line.place(0)
        part = DirectivePart(line, len(keyword), self._found)
        if keyword in SIMPLE:
            self.blocks.add(SIMPLE[keyword](part, where))
        elif keyword in PHASES:
            if not self.blocks.in_test:
                message = f"{keyword} belongs inside a TEST"
                part = DirectivePart(line, 0, self._found)
                part.wrong("suite-outside-test", message, "open one with TEST NAME COUNT")
                part = DirectivePart(line, len(keyword), self._found)
            self.blocks.add(PHASES[keyword](part, where))
        elif keyword in OPENING:
            self._open(keyword, part, where)
        elif keyword in CLOSING:
            self._close(keyword, part, where)
        else:
            self._unknown(keyword, DirectivePart(line, 0, self._found))

    def _open(self, keyword: str, part: DirectivePart, where: Where) -> None:
        block = DirectiveBlock(keyword, where)
        match keyword:
            case "FOREACH":
                block.foreach = foreach_head(part)
            case "FOR":
                block.head = for_head(part)
            case "TEST":
                block.heading = test_heading(part)
            case _:
                block.condition = condition(part, keyword)
        self.blocks.open(block)

    def _close(self, keyword: str, part: DirectivePart, where: Where) -> None:
        if keyword == "ELSE-IF":
            self.blocks.branch(keyword, where, condition(part, keyword))
            return
        if keyword == "ELSE" and part.text.startswith("IF"):
            part.wrong("suite-unknown-directive", "ELSE and IF are one word", "ELSE-IF")
        else:
            part.none(f"{keyword} alone on its line")
        if keyword == "ELSE":
            self.blocks.branch(keyword, where, None)
        else:
            self.blocks.close(keyword, where)

    def _unknown(self, keyword: str, part: DirectivePart) -> None:
        bare = keyword.partition("=")[0]
        if bare.upper() in _INSTEAD:
            hint = _INSTEAD[bare.upper()]
        elif "=" in keyword:
            hint = f"a variable is set with VAR {bare[:40]}=VALUE"
        else:
            expected = "expected one of " + ", ".join(sorted(KEYWORDS))
            hint = suggestion(bare.upper(), KEYWORDS) or expected
        message = f"{keyword[:60]!r} is not a directive"
        part.wrong("suite-unknown-directive", message, hint)
