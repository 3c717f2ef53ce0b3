"""Options, declared once: the command line, `--help`, TOML keys, stored requests, tables.

A request is a frozen Struct of what the user typed, word for word; it is what a session
stores. Each of its fields that the user can give is annotated with an `Option`: how it is
written, what it means in one phrase, how its text is read. From that come argparse's
options and arguments (`add_options`), the request (`request_from`), the values with every
mistake at its option (`OptionReader`), the keys of a TOML table (`TomlTable.values_of`) and
the tables in docs/ (`option_rows`).

Decision: annotations of the request, not a table beside it: mypy checks every use, and a
field cannot be without its option. What lost: argparse actions with a parser of their own
(they end at the first mistake), and a table of names (nothing checks its spelling). An
`Option` is a NamedTuple and msgspec is imported where a request is: `bw measure` runs
inside trials and has no time for it.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
)

if TYPE_CHECKING:
    import msgspec

    R = TypeVar("R", bound=msgspec.Struct)

Text = str | None
"""The text of an option; None where it is not given."""
KeyReader = tuple[str, Callable[[str], Any]]
"""The field that a key sets, and how its text is read."""


class Option(NamedTuple):
    """One option or argument: how it is written, what it means, how its text is read."""

    help: str
    """A noun phrase or an imperative, without its default."""
    metavar: str = ""
    """What stands for its value; words where it has several values."""
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
    """All its values, where argparse lists and checks them."""
    key: bool | str = False
    """The key of a TOML table with the same meaning; True: it has the field's name."""
    hint: str = ""
    """What to write instead of a text that cannot be read."""
    short: str = ""
    """A second spelling: `-x`."""
    positional: bool = False
    """An argument without a flag; messages name it by its metavar. The field's type and
    default state how many words it takes: one, at most one, any number, at least one."""
    several: bool = False
    """Of a list: one option takes all words that follow, instead of one each time."""
    excludes: str = ""
    """The name of a set of options of which at most one can be given."""
    prints: str = ""
    """What it prints at once; then the program ends."""
    name: str = ""
    """The request's field; filled in by `options_of`."""
    kind: str = "text"
    """`text`, `flag` (no value), `list` (may be repeated), `values` (a fixed number of
    them) or `step` (one of several options whose order counts, each with its text);
    filled in by `options_of`."""
    initial: Any = None
    """The request's value where it is not given; filled in by `options_of`."""
    required: bool = False
    """The field has no default; filled in by `options_of`."""

    @property
    def help_text(self) -> str:
        """The help with its default, as argparse takes it."""
        shown = f"{self.help} (default: {self.default})" if self.default else self.help
        return shown.replace("%", "%%")


@functools.cache
def options_of(request: type[msgspec.Struct]) -> Mapping[str, Option]:
    """Return the options of a request by the names of its fields, in their order.

    Several options of one field, whose order on the command line counts, are listed by
    their own names.
    """
    import msgspec

    found = {}
    for field in msgspec.structs.fields(request):
        declared = [one for one in _metadata(field.type) if isinstance(one, Option)]
        for option in declared:
            shown = option.metavar if option.positional else _flag_of(field.name)
            flag = option.flag or shown
            kind = _kind(get_args(field.type)[0])
            name = field.name
            if len(declared) > 1:
                kind, name = "step", flag.removeprefix("--").replace("-", "_")
            required = field.required
            found[name] = option._replace(
                name=field.name,
                flag=flag,
                kind=kind,
                initial=None if required else field.default,
                required=required,
                key=field.name if option.key is True else option.key,
            )
    return found


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if get_origin(annotation) is Annotated else ()


def _flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _kind(annotation: Any) -> str:
    """Return what a field's type, perhaps a union with None, makes of its option."""
    types = [annotation, *get_args(annotation)]
    tuples = [one for one in types if get_origin(one) is tuple]
    if tuples:
        return "list" if Ellipsis in get_args(tuples[0]) else "values"
    return "flag" if annotation is bool else "text"


# -- From declarations to argparse, and from its Namespace to requests -----------------


def add_options(
    parser: argparse.ArgumentParser,
    request: type[msgspec.Struct],
    group: str = "",
    *,
    only: Collection[str] | None = None,
    helps: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Add a request's options to a parser, each in its own group, or else in `group`.

    `only` names those that a command has; `helps` replaces the help of some; `notes` are
    the texts below the headings of groups.
    """
    sets: dict[str, argparse._ActionsContainer] = {}
    for name, option in options_of(request).items():
        if only is None or name in only:
            if helps and name in helps:
                option = option._replace(help=helps[name], default="")
            title = "" if option.positional else option.group or group
            place = _heading(parser, title, (notes or {}).get(title))
            if option.excludes:
                if option.excludes not in sets:
                    sets[option.excludes] = place.add_mutually_exclusive_group()
                place = sets[option.excludes]
            add_option(place, option)


def _heading(
    parser: argparse.ArgumentParser, title: str, note: str | None
) -> argparse._ActionsContainer:
    """Return the group of a title, added where there is none yet."""
    if not title:
        return parser
    groups = {group.title: group for group in parser._action_groups}
    return groups.get(title) or parser.add_argument_group(title, note)


def add_option(place: argparse._ActionsContainer, option: Option) -> None:
    """Add one option, as `options_of` returns it: the only way to argparse's own."""
    words: dict[str, Any] = {"help": option.help_text}
    if option.kind != "flag" and option.metavar:
        words["metavar"] = option.metavar
    if option.kind != "flag" and not option.prints:
        words["default"] = [] if option.kind == "list" else option.initial
    if option.choices:
        words["choices"] = option.choices
    place.add_argument(*_names(option), **(words | _action(option)))


def _names(option: Option) -> tuple[str, ...]:
    if option.positional:
        return (option.name,)
    return tuple(filter(None, (option.short, option.flag)))


def _action(option: Option) -> dict[str, Any]:
    """Return what argparse does with an option: where its value goes, how many there are."""
    if option.prints:
        return {"action": "version", "version": option.prints}
    if option.positional:
        if option.kind == "list":
            return {"nargs": "+" if option.required else "*"}
        return {} if option.required else {"nargs": "?"}
    into = {"dest": option.name}
    if option.kind == "flag":
        return {**into, "action": "store_true"}
    if option.kind == "step":
        nargs = {} if option.metavar else {"nargs": 0}
        return {**into, **nargs, "action": _InOrder}
    if option.kind == "values":
        metavars = tuple(option.metavar.split())
        return {**into, "nargs": len(metavars), "metavar": metavars}
    if option.kind == "list":
        return {**into, **({"nargs": "+"} if option.several else {"action": "append"})}
    return into


class _InOrder(argparse.Action):
    """Appends the option and its text to the field that several options share."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Append (flag, text); the text of an option without a value is empty."""
        text = values if isinstance(values, str) else ""
        so_far = getattr(namespace, self.dest)
        setattr(namespace, self.dest, (*so_far, (self.option_strings[0], text)))


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
    for option in _selected(request, only):
        value = getattr(arguments, option.name, None)
        if value is not None:
            said[option.name] = tuple(value) if isinstance(value, list) else value
    return request(**(said | settled))


def _selected(
    request: type[msgspec.Struct], only: Collection[str] | None
) -> Iterator[Option]:
    for name, option in options_of(request).items():
        if only is None or name in only:
            yield option


def given(
    arguments: argparse.Namespace, *requests: type[msgspec.Struct]
) -> list[Option]:
    """Return the options of these requests that the user gave; not their arguments."""
    declared = [o for request in requests for o in options_of(request).values()]
    return [
        option
        for option in declared
        if not option.positional
        and getattr(arguments, option.name, option.initial) not in (option.initial, [])
    ]


# -- From declarations to the keys of TOML tables and to docs/ -------------------------


def keys_of(request: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the options that are keys of a TOML table too."""
    return tuple(
        str(option.key) for option in options_of(request).values() if option.key
    )


def key_readers(request: type[msgspec.Struct]) -> dict[str, KeyReader]:
    """Return the field that each key sets, and how its value is read; not of flags."""
    return {
        str(option.key): (option.field, option.parse)
        for option in options_of(request).values()
        if option.key and option.field and option.parse is not None
    }
