"""A table of a spec: texts and commands with slots, quantities, every mistake placed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchwright.load import words
from benchwright.load.reading import WorkloadTable
from benchwright.model.plan import Command
from benchwright.suite.program import Template
from benchwright.suite.template import Place, brace_template
from benchwright.suite.words import split_words
from benchwright.workbench.spec import CommandText, filled

_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


class SpecTable(WorkloadTable):
    """A table of a spec; `known` are the names that may stand in braces."""

    kind = "spec"
    known: tuple[str, ...] = ()

    def knowing(self, *names: str) -> SpecTable:
        """Return the same table, whose texts may have these names in braces too."""
        table = type(self)(self.values, self.path, self._locator, self._found)
        table.known = (*self.known, *names)
        return table

    def table(self, key: str) -> SpecTable | None:
        """Return a table inside this one, None when it is absent or wrong."""
        inner = super().table(key)
        return None if inner is None else inner.knowing(*self.known)

    def only(
        self, known: Sequence[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        """Report every key that is not known; `elsewhere` says of some what says them."""
        misplaced = {k: v for k, v in (elsewhere or {}).items() if k not in known}
        super().only((*known, *(key for key in misplaced if key in self.values)))
        for key in self.values:
            if key in misplaced:
                where = self._locator.key((*self.path, key))
                message = f"unknown key {key!r}"
                self.wrong(where, "spec-unknown-key", message, misplaced[key])

    # -- texts -----------------------------------------------------------------------

    def template(self, key: str) -> Template | None:
        """Return a text with slots; None when it is absent or wrong."""
        text = self.text(key)
        return None if text is None else self._template(text, key)

    def _template(self, text: str, *keys: str | int) -> Template:
        place = self.inside(text, *keys)
        self._unknown(text, place, shell=False)
        return brace_template(text, place, self.known)

    def templates(self, key: str) -> tuple[tuple[str, Template], ...]:
        """Return the texts of a table of names, numbers among them; such as `environment`."""
        table = self.table(key)
        if table is None:
            return ()
        found = []
        for name in table.names("a variable"):
            text = table.scalar(table.values[name])
            if text is None:
                table.mistyped(table.at(name), name, table.values[name], (str, int))
            else:
                found.append((name, table._template(text, name)))
        return tuple(found)

    def template_value(
        self, key: str, parse: Callable[[str], Any], levels: Callable[[str], list[str]]
    ) -> Template | None:
        """Return a text with slots that `parse` accepts with every level in them.

        `levels` returns the texts that a name in braces may stand for; none: not checked.
        """
        template = self.template(key)
        if template is None:
            return None
        for text in _variants(template, levels):
            try:
                parse(text)
            except ValueError as error:
                self.refuse(self.at(key), f"{key}: {error}")
                break
        return template

    # -- commands --------------------------------------------------------------------

    def command(self, key: str) -> CommandText | None:
        """Return one command: a text, or an array of words."""
        if not self.has(key, str, list):
            return None
        return self._command(self.values[key], key)

    def commands(self, key: str) -> tuple[CommandText, ...]:
        """Return commands: one text, or an array of texts and of arrays of words."""
        if not self.has(key, str, list):
            return ()
        value = self.values[key]
        if isinstance(value, str):
            found = [self._command(value, key)]
        else:
            found = [self._command(one, key, at) for at, one in enumerate(value)]
        return tuple(one for one in found if one is not None)

    def _command(self, value: Any, *keys: str | int) -> CommandText | None:
        where = self.at(str(keys[0]), *keys[1:])
        if not isinstance(value, (str, list)):
            self.mistyped(where, f"a command of {keys[0]}", value, (str, list))
            return None
        empty = not value or not (value if isinstance(value, str) else value[0])
        if empty or (isinstance(value, str) and not value.strip()):
            self.wrong(where, "spec-no-command", f"a command of {keys[0]} is empty")
            return None
        if isinstance(value, str):
            return self._text_command(value, *keys)
        return self._word_command(value, *keys)

    def _word_command(self, value: list[Any], *keys: str | int) -> CommandText | None:
        found = []
        for index, word in enumerate(value):
            if not isinstance(word, str):
                where = self.at(str(keys[0]), *keys[1:], index)
                self.mistyped(where, f"a word of {keys[0]}", word, (str,))
                return None
            found.append(self._template(word, *keys, index))
        return CommandText(tuple(found))

    def _text_command(self, text: str, *keys: str | int) -> CommandText:
        """Return the command of a text: cut into words, or a shell's where it is written so."""
        place = self.inside(text, *keys)
        # Braces around a name are ours; what is left decides, as everywhere in a suite.
        shell = Command.from_text(_BRACES.sub("x", text)).argv[:2] == ("/bin/sh", "-c")
        self._unknown(text, place, shell=shell)
        if shell:
            return CommandText((brace_template(text, place, self.known),), shell=True)
        found, _ = split_words(text)
        return CommandText(
            tuple(
                brace_template(one.text, _shifted(place, one.offset), self.known)
                for one in found
            )
        )

    def _unknown(self, text: str, place: Place, *, shell: bool) -> None:
        """Report names in braces that nothing is known of; a shell has braces of its own."""
        for match in _BRACES.finditer(text):
            name = match[1]
            near = difflib.get_close_matches(name, self.known, 1, 0.8)
            if name in self.known or (shell and not near):
                continue
            meant = f"did you mean {{{near[0]}}}? " if near else ""
            known = ", ".join(f"{{{one}}}" for one in self.known)
            message = f"nothing is named {name!r}"
            where = place(match.start())
            self.wrong(
                where, "spec-unknown-name", message, f"{meant}known here: {known}"
            )

    # -- quantities ------------------------------------------------------------------

    def duration_s(self, key: str) -> float | None:
        """Return a duration above 0 [s]."""
        ns = self.read(key, words.some_ns)
        return None if ns is None else ns / 1e9

    def rate_per_s(self, key: str) -> float | None:
        """Return a rate [1/s]."""
        micro = self.read(key, words.rate_micro)
        return None if micro is None else micro / 1e6


def _shifted(place: Place, by: int) -> Place:
    return lambda offset: place(by + offset)


def _variants(template: Template, levels: Callable[[str], list[str]]) -> list[str]:
    """Return the texts that a template can be, one slot varied at a time."""
    names = [slot.name for slot in template.slots]
    if any(not levels(name) for name in names):
        return []
    first = {name: levels(name)[0] for name in names}
    others = [{**first, name: one} for name in names for one in levels(name)[1:]]
    return [filled(template, one) for one in (first, *others)]
