"""The parser of all programs: what it prints can be seen, and options have one spelling.

Decision: no abbreviations. `bw load --study` begins itself again without some of its
options, and finds them by their names; an abbreviation would also change its meaning with
each new option. An unknown option that begins a known one is answered with that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchwright.model.visible import visible_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, whose messages hold no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def _print_message(
        self, message: str, file: SupportsWrite[str] | None = None
    ) -> None:
        super()._print_message(visible_lines(message), file)

    def of(self, words: Sequence[str]) -> Parser:
        """Return the parser of the command that the first words name, else this one."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and words:
                below = action.choices.get(words[0])
                return below.of(words[1:]) if isinstance(below, Parser) else self
        return self

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Yield the words of each command, from this parser's own (none) downward."""
        yield ()
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, below in action.choices.items():
                    yield from ((name, *words) for words in below.commands())

    def begun(self, word: str) -> list[str]:
        """Return the long options that begin as an option does, if it is itself none."""
        name = word.partition("=")[0]
        if not name.startswith("--") or len(name) == len("--"):
            return []
        return [one for one in self._option_string_actions if one.startswith(name)]
