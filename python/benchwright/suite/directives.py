"""One line of `.ap` at a time: from a keyword and its text to a step.

Each function takes the part of a line after its keyword and returns what it says, or
None when it is wrong; mistakes go to `Part.wrong`, so one pass finds them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from benchwright.expression import parse
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.plan import Mode
from benchwright.suite import counting, metric, reading, stopping
from benchwright.suite import program as step
from benchwright.suite.fault import Fault, diagnostic, placed
from benchwright.suite.program import Comparison, Step, Template, Where
from benchwright.suite.source import Line
from benchwright.suite.template import NAME, marked_template

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


class Part:
    """The text of a line from an offset on, and the place to report mistakes to."""

    def __init__(self, line: Line, start: int, found: list[Diagnostic]) -> None:
        while start < len(line.text) and line.text[start].isspace():
            start += 1
        self.line = line
        self.start = start
        self.text = line.text[start:]
        self._found = found

    @property
    def where(self) -> Where:
        """Where the part begins."""
        return self.line.place(self.start)

    def after(self, offset: int) -> Part:
        """Return the rest of the part from an offset on, without leading space."""
        return Part(self.line, self.start + offset, self._found)

    def until(self, end: int) -> Part:
        """Return the part's beginning, up to an offset."""
        cut = Part(self.line, self.start, self._found)
        cut.text = self.text[:end].rstrip()
        return cut

    def words(self) -> list[Part]:
        """Return the words, split at white space."""
        return [
            self.after(m.start()).until(m.end() - m.start())
            for m in re.finditer(r"\S+", self.text)
        ]

    def place(self, offset: int) -> Where:
        """Return where a character of the part stands."""
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
        """Return whether there is any text; report it missing otherwise."""
        if not self.text:
            self.wrong(ARGUMENTS, "something is missing here", f"write {syntax}")
        return bool(self.text)

    def none(self, syntax: str) -> bool:
        """Return whether there is no text; report it otherwise."""
        if self.text:
            self.wrong(
                ARGUMENTS, f"{self.text!r} is not expected here", f"write {syntax}"
            )
        return not self.text


Directive = Callable[[Part, Where], Step | None]


# -- variables -------------------------------------------------------------------------


def name_and_value(part: Part, syntax: str) -> tuple[str, Part] | None:
    """Return the two sides of `NAME=VALUE`."""
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

    def directive(part: Part, where: Where) -> Step | None:
        pair = name_and_value(part, syntax)
        if pair is None:
            return None
        name, value = pair
        template = value.template()
        if expression and value.some(syntax) and template.literal is not None:
            value.faults(expression_faults(value.text))
        if name == "THREADS" and not expression:
            _check(value, template, reading.threads_fault)
        return step.Assign(name, template, environment, expression, where)

    return directive


def expression_faults(text: str) -> list[Fault]:
    """Return what is wrong with an expression; its names are checked elsewhere."""
    try:
        parse(text, variables=None)
    except InputError as error:
        return [
            Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics
        ]
    return []


def _check(
    part: Part, template: Template, fault_of: Callable[[str], Fault | None]
) -> None:
    """Report what is wrong with a text that has no variables in it."""
    if template.literal is not None:
        fault = fault_of(template.literal)
        if fault is not None:
            part.faults([fault])


# -- settings --------------------------------------------------------------------------


def threads(part: Part, where: Where) -> Step | None:
    """THREADS=N and THREADS N."""
    value = part.after(1) if part.text.startswith("=") else part
    if not value.some("THREADS=N"):
        return None
    template = value.template()
    _check(value, template, reading.threads_fault)
    return step.Threads(template, where)


def timeout(part: Part, where: Where) -> Step | None:
    """TIMEOUT 30s."""
    if not part.some("TIMEOUT 30s, or TIMEOUT none"):
        return None
    template = part.template()
    _check(part, template, reading.timeout_fault)
    return step.Timeout(template, where)


def warmup(part: Part, where: Where) -> Step | None:
    """WARMUP 1."""
    if not part.some("WARMUP N: epochs that are run first and not counted"):
        return None
    template = part.template()
    _check(part, template, reading.warmup_fault)
    return step.WarmUp(template, where)


def output(part: Part, where: Where) -> Step | None:
    """OUTPUT bounded."""
    if not part.some("OUTPUT bounded, null, file or inherit"):
        return None
    template = part.template()
    _check(part, template, reading.output_fault)
    return step.Output(template, where)


def metric_directive(part: Part, where: Where) -> Step | None:
    """METRIC NAME=/pointer."""
    if not part.some("METRIC NAME=/json/pointer or METRIC NAME~regex(group)"):
        return None
    template = part.template()
    if template.literal is not None:
        part.faults(metric.parse_metric(template.literal)[1])
    return step.Metric(template, where)


def hooks(part: Part, where: Where) -> Step | None:
    """HOOKS NAME|DIR...; none of them: no hooks from here on."""
    return step.Hooks(part.template(), where)


# -- commands --------------------------------------------------------------------------


def echo(part: Part, where: Where) -> Step | None:
    """ECHO STRING."""
    return step.Echo(part.template(), where)


def system(part: Part, where: Where) -> Step | None:
    """SYSTEM COMMAND."""
    if not part.some("SYSTEM COMMAND"):
        return None
    return step.System(part.template(), where)


def phase(mode: Mode) -> Directive:
    """Return the directive of one mode."""

    def directive(part: Part, where: Where) -> Step | None:
        if not part.some(f"{mode} COMMAND"):
            return None
        return step.Phase(mode, part.template(), where)

    return directive


def fast_fail(part: Part, where: Where) -> Step | None:
    """FASTFAIL [SCRIPT...]."""
    return step.FastFail(part.template() if part.text else None, where)


def checkpoint(part: Part, where: Where) -> Step | None:
    """CHECKPOINT [FILE]."""
    return step.Checkpoint(part.template() if part.text else None, where)


def stop(part: Part, where: Where) -> Step | None:
    """STOP."""
    part.none("STOP alone on its line")
    return step.Stop(where)


# -- blocks: what stands after their keywords ------------------------------------------


class ForHead(msgspec.Struct, frozen=True):
    """What a FOR says before its body."""

    name: str
    begin: Template
    end: Template
    factor: Template | None
    add: Template | None


FOR_SYNTAX = "FOR NAME=A TO B [FACTOR M | ADD I]"


def for_head(part: Part) -> ForHead | None:
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


def _check_for(parts: dict[counting.Part, Part | None]) -> None:
    """Report what is no number, and a loop that cannot end."""
    numbers = {}
    complete = True
    for key, part in parts.items():
        literal = None if part is None else part.template().literal
        if part is None or literal is None:
            complete = complete and part is None
            continue
        try:
            numbers[key] = counting.decimal_number(literal)
        except ValueError as error:
            part.wrong("suite-not-a-number", str(error), f"write {FOR_SYNTAX}")
            complete = False
    try:
        counting.check_ends(numbers, complete=complete)
    except counting.NeverEnds as error:
        blamed = parts[error.part]
        assert blamed is not None
        blamed.wrong("suite-endless", error.message, "the loop would never end")


CONDITION_SYNTAX = "NAME OP VALUE, with OP one of = != > < >= <= !> !< !>= !<="


def condition(part: Part, keyword: str) -> Comparison | None:
    """Return the condition of IF, ELSE-IF and WHILE."""
    syntax = f"{keyword} {CONDITION_SYNTAX}"
    if not part.some(syntax):
        return None
    match = _CONDITION.match(part.text)
    if match is None or not match[1].strip():
        at = match.start(2) if match else len(part.text)
        part.wrong(
            "suite-condition", "no comparison is found here", f"write {syntax}", at
        )
        return None
    if part.text[match.end(2) :].startswith("="):
        hint = "equality is written with a single ="
        part.wrong("suite-condition", "== is no comparison", hint, match.start(2))
        return None
    left, right = part.until(match.end(1)), part.after(match.end())
    operator = _OPERATORS[match[2]]
    side = left.template()
    if side.literal is not None:
        if not NAME.fullmatch(left.text):
            message = f"{left.text!r} is not a variable's name"
            left.wrong("suite-condition", message, f"write {syntax}")
            return None
        side = Template((step.Slot(left.text, left.where),), left.where)
    value = right.template()
    if operator not in ("=", "!=") and value.literal is not None:
        try:
            counting.decimal_number(value.literal)
        except ValueError as error:
            hint = "only = and != compare texts"
            right.wrong("suite-not-a-number", str(error), hint)
    return Comparison(side, operator, value, part.where)


def foreach_head(part: Part) -> tuple[str, Template] | None:
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
    return name[0], values.template()


def test_heading(part: Part) -> Template | None:
    """Return what stands after TEST, checked as far as no variable hides it."""
    if not part.some("TEST NAME COUNT, or TEST NAME BEGIN INCREMENT PROGRAM"):
        return None
    heading = part.template()
    words = part.words()
    name = words[0].template()
    if name.literal is not None:
        _check(words[0], name, reading.name_fault)
    rest = part.after(len(words[0].text))
    if rest.template().literal is not None and (rest.text or not heading.slots):
        rest.faults(stopping.parse_termination(rest.text)[1])
    return heading
