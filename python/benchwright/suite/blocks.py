"""The stack of open blocks of a `.ap` file: FOREACH, FOR, WHILE, IF and TEST."""

from __future__ import annotations

from benchwright.model.errors import Diagnostic
from benchwright.model.plan import Mode
from benchwright.suite import program as step
from benchwright.suite.directives import ForHead
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Branch, Comparison, Step, Template, Where
from benchwright.suite.shape import walk

MAX_DEPTH = 60
"""Of blocks within blocks: each level is a generator within a generator."""
_CLOSED_BY = {"IF": "FI"}


class Block:
    """A block that has been opened; its head is None where that was wrong."""

    def __init__(self, keyword: str, where: Where) -> None:
        self.keyword = keyword
        self.where = where
        self.foreach: tuple[str, Template] | None = None
        self.head: ForHead | None = None
        self.heading: Template | None = None
        self.condition: Comparison | None = None
        self.body: list[Step] = []
        self.branches: list[Branch] = []
        self.in_else = False

    @property
    def closed_by(self) -> str:
        """The keyword that closes it."""
        return _CLOSED_BY.get(self.keyword, "DONE")

    def end_branch(self) -> None:
        """Put the steps so far under the condition that they stand under."""
        if self.condition is not None:
            self.branches.append(Branch(self.condition, tuple(self.body)))
        self.body = []

    def step(self) -> Step | None:
        """Return the finished step, None when its head was wrong."""
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


class Blocks:
    """What is open, innermost last, over the program's own steps."""

    def __init__(self, found: list[Diagnostic]) -> None:
        self._found = found
        self._top: list[Step] = []
        self._open: list[Block] = []

    @property
    def in_test(self) -> bool:
        """Whether a TEST is open."""
        return any(block.keyword == "TEST" for block in self._open)

    def add(self, one: Step | None) -> None:
        """Put a step into the innermost block; None, a mistake, is left out."""
        if one is not None:
            (self._open[-1].body if self._open else self._top).append(one)

    def open(self, block: Block) -> None:
        """Begin a block."""
        if block.keyword == "TEST" and self.in_test:
            outer = next(b for b in self._open if b.keyword == "TEST")
            message = "a TEST cannot be inside a TEST"
            hint = (
                f"the outer one was opened at {_at(outer.where)}; is its DONE missing?"
            )
            self._wrong(block.where, "suite-nested-test", message, hint)
        if len(self._open) == MAX_DEPTH:
            message = f"blocks are nested more than {MAX_DEPTH} deep"
            self._wrong(block.where, "suite-too-deep", message, "")
        self._open.append(block)

    def branch(self, keyword: str, where: Where, condition: Comparison | None) -> None:
        """Begin an ELSE-IF or an ELSE of the innermost IF."""
        block = self._open[-1] if self._open else None
        if block is None or block.keyword != "IF":
            hint = self._hint(block)
            self._wrong(where, "suite-blocks", f"{keyword} without an IF", hint)
            return
        if block.in_else:
            hint = f"the IF at {_at(block.where)} has had its ELSE"
            self._wrong(where, "suite-blocks", f"{keyword} after ELSE", hint)
            return
        block.end_branch()
        block.condition = condition
        block.in_else = keyword == "ELSE"

    def close(self, keyword: str, where: Where) -> None:
        """End the innermost block that the keyword closes."""
        block = self._open[-1] if self._open else None
        if block is None or block.closed_by != keyword:
            message = f"{keyword} closes nothing here"
            self._wrong(where, "suite-blocks", message, self._hint(block))
            if not any(b.closed_by == keyword for b in self._open):
                return
            while self._open[-1].closed_by != keyword:
                self._end()
        self._end()

    def finish(self) -> tuple[Step, ...]:
        """Return the program's steps; report every block that is still open."""
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

    def _hint(self, block: Block | None) -> str:
        if block is None:
            return "no block is open"
        return (
            f"the {block.keyword} opened at {_at(block.where)} "
            f"expects {block.closed_by} first"
        )

    def _wrong(self, where: Where, code: str, message: str, hint: str) -> None:
        self._found.append(diagnostic(where, code, message, hint))


def _at(where: Where) -> str:
    return f"{where.file}:{where.line}"


def _executes(steps: list[Step]) -> bool:
    return any(isinstance(s, step.Phase) and s.mode is Mode.EXEC for s in walk(steps))
