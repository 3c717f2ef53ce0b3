"""Options, declared once: the command line, `--help`, TOML keys, stored requests, tables.

A request is a frozen Struct of what the user typed, word for word; it is what a session
stores. Each of its fields that the user can give is annotated with an `Option`: how it is
written, what it means in one phrase, how its text is read. From that come argparse's
options (`add_options`), the request (`request_from`), the values with every mistake at its
option (`OptionReader`), the keys of a TOML table (`TomlTable.values_of`) and the tables in
docs/ (`scripts/option_tables.py`).

Decision: annotations of the request, not a table beside it: mypy checks every use, and a
field cannot be without its option. What lost: argparse actions with a parser of their own
(they end at the first mistake), and a table of names (nothing checks its spelling).
"""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import msgspec

from benchwright.core.errors import Diagnostic
from benchwright.core.plan import MetricSpec
from benchwright.suite.mistakes import Fault, placed
from benchwright.suite.program import Where
from benchwright.suite.rules import parse_metric
from benchwright.suite.values import one_of

T = TypeVar("T")
Text = str | None
"""The text of an option; None where it is not given."""
KeyReader = tuple[str, Callable[[str], Any]]
"""The field that a key sets, and how its text is read."""
R = TypeVar("R", bound=msgspec.Struct)


class Option(msgspec.Struct, frozen=True):
    """One option: how it is written, what it means, how its text is read."""

    help: str
    """A noun phrase or an imperative, without its default."""
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    """Returns what a text means; raises ValueError. None: whoever reads the request knows."""
    field: str = ""
    """The field of a goal or a rule that it sets; empty: the field of the request."""
    default: str = ""
    """What holds where it is not given, as `--help` and docs/ show it."""
    group: str = ""
    """The heading under which `--help` lists it."""
    flag: str = ""
    """As it is written, where that is not `--` and the field's name."""
    choices: tuple[str, ...] = ()
    key: bool | str = False
    """The key of a TOML table with the same meaning; True: it has the field's name."""
    hint: str = ""
    """What to write instead of a text that cannot be read."""
    name: str = ""
    """The request's field; filled in by `options_of`."""
    kind: str = "text"
    """`text`, `flag` (no value) or `list` (may be repeated); filled in by `options_of`."""
    initial: Any = None
    """The request's value where it is not given; filled in by `options_of`."""

    @property
    def help_text(self) -> str:
        """The help with its default, as argparse takes it."""
        shown = f"{self.help} (default: {self.default})" if self.default else self.help
        return shown.replace("%", "%%")


@functools.cache
def options_of(request: type[msgspec.Struct]) -> Mapping[str, Option]:
    """Return the options of a request by the names of its fields, in their order."""
    found = {}
    for field in msgspec.structs.fields(request):
        option = next((m for m in _metadata(field.type) if isinstance(m, Option)), None)
        if option is not None:
            flag = option.flag or "--" + field.name.replace("_", "-")
            kind = _kind(get_args(field.type)[0])
            found[field.name] = msgspec.structs.replace(
                option,
                name=field.name,
                flag=flag,
                kind=kind,
                initial=field.default,
                key=field.name if option.key is True else option.key,
            )
    return found


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if get_origin(annotation) is Annotated else ()


def _kind(annotation: Any) -> str:
    if annotation is bool:
        return "flag"
    return "list" if get_origin(annotation) is tuple else "text"


def add_options(
    parser: argparse.ArgumentParser,
    request: type[msgspec.Struct],
    group: str = "",
    *,
    only: Collection[str] | None = None,
    helps: Mapping[str, str] | None = None,
) -> None:
    """Add a request's options to a parser, each in its own group, or else in `group`.

    `only` names those that a command has; `helps` replaces the help of some.
    """
    for name, option in options_of(request).items():
        if only is None or name in only:
            if helps and name in helps:
                option = msgspec.structs.replace(option, help=helps[name], default="")
            _add(_heading(parser, option.group or group), option)


def _heading(parser: argparse.ArgumentParser, title: str) -> argparse._ActionsContainer:
    """Return the group of a title, added where there is none yet."""
    if not title:
        return parser
    groups = {group.title: group for group in parser._action_groups}
    return groups.get(title) or parser.add_argument_group(title)


def _add(group: argparse._ActionsContainer, option: Option) -> None:
    words: dict[str, Any] = {"dest": option.name, "help": option.help_text}
    if option.kind == "flag":
        group.add_argument(option.flag, action="store_true", **words)
        return
    words["default"] = option.initial
    if option.kind == "list":
        words |= {"action": "append", "default": []}
    if option.metavar:
        words["metavar"] = option.metavar
    group.add_argument(option.flag, choices=option.choices or None, **words)


def request_from(
    request: type[R],
    arguments: argparse.Namespace,
    *,
    only: Collection[str] | None = None,
    **settled: Any,
) -> R:
    """Return the request of parsed arguments; `settled` are fields without an option.

    `only` names the options that the command has.
    """
    said = {}
    for name in options_of(request) if only is None else only:
        value = getattr(arguments, name, None)
        if value is not None:
            said[name] = tuple(value) if isinstance(value, list) else value
    return request(**(said | settled))


def choice(what: str, *known: str) -> Callable[[str], str]:
    """Return the parser of one of several words."""
    return lambda text: one_of(text, known, what)


def given(
    arguments: argparse.Namespace, *requests: type[msgspec.Struct]
) -> list[Option]:
    """Return the options of these requests that the user gave."""
    declared = [o for request in requests for o in options_of(request).values()]
    return [
        option
        for option in declared
        if getattr(arguments, option.name, option.initial) not in (option.initial, [])
    ]


def keys_of(request: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the options that are keys of a TOML table too."""
    return tuple(str(one.key) for one in options_of(request).values() if one.key)


def key_readers(request: type[msgspec.Struct]) -> dict[str, KeyReader]:
    """Return the field that each key sets, and how its value is read; not of flags."""
    return {
        str(one.key): (one.field, one.parse)
        for one in options_of(request).values()
        if one.key and one.field and one.parse is not None
    }


class OptionReader(Generic[R]):
    """A request being read: every wrong value is noted in `found`; none stops it."""

    def __init__(self, request: R) -> None:
        self.request = request
        self.found: list[Diagnostic] = []
        self._options = options_of(type(request))

    def value(self, name: str) -> Any:
        """Return what an option's text means; None where it is not given, or wrong."""
        option = self._options[name]
        assert option.parse is not None, f"{option.flag} has no parser"
        text = getattr(self.request, name)
        return self.parsed(option.flag, text, option.parse, option.hint)

    def fields(self) -> dict[str, Any]:
        """Return what the options that set a field mean, by field; only those given."""
        values: dict[str, Any] = {}
        for name, option in self._options.items():
            text, mistakes = getattr(self.request, name), len(self.found)
            if option.field and text != option.initial:
                value = text if option.kind == "flag" else self.value(name)
                if len(self.found) == mistakes:
                    values[option.field] = value
        return values

    def declared(self, words: Sequence[str]) -> list[MetricSpec]:
        """Return the metrics that `--metric` words declare."""
        specs: list[MetricSpec] = []
        for word in words:
            spec, faults = parse_metric(word)
            if spec is None:
                self.found += placed(faults, placer("--metric", word))
            elif any(spec.name == other.name for other in specs):
                self.wrong("--metric", word, f"metric {spec.name} is given twice")
            else:
                specs.append(spec)
        return specs

    def parsed(
        self,
        option: str,
        text: str | None,
        parse: Callable[[str], T | None],
        hint: str = "",
    ) -> T | None:
        """Return what a text means; None when it is absent or wrong."""
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.wrong(option, text or "", str(error), hint)
            return None

    def checked(
        self, option: str, text: str, fault_of: Callable[[str], Fault | None]
    ) -> bool:
        """Note what is wrong with a text; return whether it is correct."""
        fault = fault_of(text)
        if fault is not None:
            self.wrong(option, text, fault.message, fault.hint, fault.offset)
        return fault is None

    def wrong(
        self, option: str, text: str, message: str, hint: str = "", offset: int = 0
    ) -> None:
        where = at(option, text, offset)
        self.found.append(
            Diagnostic(
                "bad-argument",
                message,
                hint,
                file=option,
                column=where.column,
                text=where.text,
            )
        )


def at(option: str, text: str, offset: int = 0) -> Where:
    """Return the place of a character of an option's value."""
    return Where(option, 1, offset + 1, shown(text))


def placer(option: str, text: str) -> Callable[[int], Where]:
    """Return the function from a character's offset to its place."""
    return lambda offset: at(option, text, offset)


def shown(text: str) -> str:
    """Return a text on one line, without control characters."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)
