"""Declares options once, for the command line, `--help`, TOML keys, stored requests and docs/.

A request is a frozen Struct with the texts that the user typed; a session stores it. Each field
that the user can give is annotated with an `Option`: its spelling, its help, and the parser of
its text. These declarations yield argparse's options and arguments (`add_options`), the request
(`request_from`), the values and mistakes (`OptionReader`), the keys of a TOML table
(`inputs/form.py`) and the tables in docs/. A key that is no option is an `Option` too.

Decision: annotations on the request. mypy checks every use, and no field lacks its option.
Rejected: argparse actions that parse values (they stop at the first mistake), and a separate
table of names (nothing checks its spelling). `Option` is a NamedTuple, so that this module does
not import msgspec: `bw measure` runs inside trials and must start fast.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

if TYPE_CHECKING:
    import msgspec

    from benchwright.inputs.toml_table import TomlTable

    R = TypeVar("R", bound=msgspec.Struct)

DECLARED = "declared"
"""The attribute of an argparse action with the `Option` that it was made from."""
Text = str | None
"""The text of an option; None if it is not given."""
Reader = Callable[["TomlTable", str], Any]
"""Returns the value of a key that the table has; None after it reported an error."""


def text_of(*types: type) -> Reader:
    """Return the reader of a value of these types as a text, without an exponent."""

    def read(table: TomlTable, key: str) -> str | None:
        if not table.has(key, *types):
            return None
        value = table.values[key]
        return f"{Decimal(str(value)):f}" if isinstance(value, float) else str(value)

    return read


class Option(NamedTuple):
    """One option, argument or key: its spelling, its help, and the parser of its text."""

    help: str = ""
    """A noun phrase or an imperative, without the default value."""
    metavar: str = ""
    """Placeholder of its value in `--help`; several words if it takes several values."""
    parse: Callable[[str], Any] | None = None
    """Returns the value of a text; raises ValueError. None: the reader of the request parses it."""
    field: str = ""
    """The field of a goal or rule that it sets; empty means the request's field."""
    default: str = ""
    """Default value, as text for `--help` and docs/."""
    group: str = ""
    """The heading under which `--help` lists it."""
    flag: str = ""
    """Its spelling, if that is not `--` and the field's name."""
    choices: tuple[str, ...] = ()
    """All possible values, if argparse lists and checks them."""
    key: bool | str = False
    """The TOML key with the same meaning; True: the key has the field's name."""
    read: Reader | None = None
    """Reads the value of the key if it is not a scalar, or not by `parse`."""
    hint: str = ""
    """Advice if the text is invalid, or if the key is missing."""
    short: str = ""
    """A second spelling: `-x`."""
    positional: bool = False
    """Whether it is an argument without a flag; messages name it by its metavar. The field's type
    and default determine how many words it takes: one, at most one, any number, at least one."""
    several: bool = False
    """For a list: the option takes all words that follow it, instead of one each time."""
    excludes: str = ""
    """Name of a set of options; at most one option of a set can be given."""
    names: str = ""
    """What its value names, for shell completion: `file`, `directory`, patterns of file names
    separated by spaces, or one of our names: `command`, `document`, `finding`."""
    no_default: str = ""
    """Why a configuration file cannot set it; empty if one can (cli/defaults.py)."""
    only_user: bool = False
    """Whether it runs a program or sends data, so that only the user's own file can set it."""
    needs: str = ""
    """The field that must have a value, or else a default from a configuration file is not used;
    a command without that option has no such condition."""
    yields_to: str = ""
    """Fields, separated by spaces; if one is typed, a default from a file is not used."""
    default_key: str = ""
    """For an argument: the key of a configuration file that sets its default."""
    decides: bool = False
    """For an argument: the file that it names decides what the command does, not defaults."""
    prints: str = ""
    """Text that the option prints before the program exits, such as a version."""
    rare: bool = False
    """Whether `--help` only names it; `bw help COMMAND` and the manual page describe it."""
    once: str = ""
    """Why it cannot be given twice; empty: the last one counts, as usual."""
    bare: str = ""
    """Value of the option without one: `--shell`. A value follows `=` only (`--shell=bash`),
    because the next word may be an argument of the command (CommandParser completes a bare option).
    """
    name: str = ""
    """The request's field; filled in by `options_of`."""
    kind: str = "text"
    """`text`, `flag` (no value), `list` (may be repeated), `values` (a fixed number of
    them) or `step` (one of several options whose order counts, each with its text);
    filled in by `options_of`."""
    initial: Any = None
    """The request's value if the option is not given; filled in by `options_of`."""
    required: bool = False
    """Whether it must be given; in a record, whether the field has no default."""

    @property
    def help_text(self) -> str:
        """The help with the default, in the format of argparse."""
        shown = f"{self.help} (default: {self.default})" if self.default else self.help
        return shown.replace("%", "%%")


@functools.cache
def options_of(request: type[msgspec.Struct]) -> Mapping[str, Option]:
    """Return the options of a request by field, in the order of the fields.

    If several options share a field, because their order on the command line counts, each is
    listed by its own name.
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
    """Return the `kind` of an option by its field's type, which may be a union with None."""
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
    regroup: bool = False,
) -> None:
    """Add a request's options to a parser, each in its own group, or else in `group`.

    `only`: the options that the command has. `helps`: replacements of help texts. `notes`: the
    texts below the headings of groups. `regroup`: all in `group`.
    """
    sets: dict[str, argparse._ActionsContainer] = {}
    for name, option in options_of(request).items():
        if only is None or name in only:
            if helps and name in helps:
                option = option._replace(help=helps[name], default="")
            own = "" if regroup else option.group
            title = "" if option.positional else own or group
            place = _heading(parser, title, (notes or {}).get(title))
            if option.excludes:
                if option.excludes not in sets:
                    sets[option.excludes] = place.add_mutually_exclusive_group()
                place = sets[option.excludes]
            add_option(place, option)


def _heading(
    parser: argparse.ArgumentParser, title: str, note: str | None
) -> argparse._ActionsContainer:
    """Return the group with this title; add it if it does not exist."""
    if not title:
        return parser
    groups = {group.title: group for group in parser._action_groups}
    return groups.get(title) or parser.add_argument_group(title, note)


def add_option(place: argparse._ActionsContainer, option: Option) -> None:
    """Add one option from `options_of` to an argparse parser or group."""
    words: dict[str, Any] = {"help": option.help_text}
    if option.kind != "flag" and option.metavar:
        words["metavar"] = option.metavar
    if option.kind != "flag" and not option.prints:
        words["default"] = [] if option.kind == "list" else option.initial
    if option.choices:
        words["choices"] = option.choices
    added = place.add_argument(*_names(option), **(words | _action(option)))
    setattr(added, DECLARED, option)


def _names(option: Option) -> tuple[str, ...]:
    if option.positional:
        return (option.name,)
    return tuple(filter(None, (option.short, option.flag)))


def _action(option: Option) -> dict[str, Any]:
    """Return argparse's arguments for an option: destination and number of values."""
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
    if option.once:
        return {**into, "action": _Once}
    return {**into, "nargs": "?", "const": option.bare} if option.bare else into


class _Once(argparse.Action):
    """Stores the value of an option that can be given only once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Store the value. Raises argparse.ArgumentError if there is one."""
        if getattr(namespace, self.dest) is not None:
            declared: Option = getattr(self, DECLARED)
            message = f"it is given twice; {declared.once}"
            raise argparse.ArgumentError(self, message)
        setattr(namespace, self.dest, values)


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


def declared_in(parser: argparse.ArgumentParser) -> list[Option]:
    """Return the options of a parser that are declared as `Option`."""
    found = (getattr(action, DECLARED, None) for action in parser._actions)
    return [option for option in found if option is not None]


def request_from(
    request: type[R],
    arguments: argparse.Namespace,
    *,
    only: Collection[str] | None = None,
    **settled: Any,
) -> R:
    """Return the request of parsed arguments; `settled`: the fields without an option.

    `only`: the options that the command has.
    """
    said = {}
    for option in _selected(request, only):
        value = getattr(arguments, option.name, None)
        if value is not None:
            said[option.name] = tuple(value) if isinstance(value, list) else value
    return request(**(said | settled))


def layered(typed: R, below: R | None) -> R:
    """Return a request with the texts of another below it: those of keys that were not typed."""
    if below is None:
        return typed
    import msgspec

    texts = {
        option.name: getattr(below, option.name)
        for option in options_of(type(typed)).values()
        if option.key and getattr(typed, option.name) == option.initial
    }
    return msgspec.structs.replace(typed, **texts)


def _selected(request: type[msgspec.Struct], only: Collection[str] | None) -> Iterator[Option]:
    for name, option in options_of(request).items():
        if only is None or name in only:
            yield option


def given(
    arguments: argparse.Namespace, *requests: type[msgspec.Struct], with_defaults: bool = False
) -> list[Option]:
    """Return the options (not the positional arguments) of these requests that the user gave.

    Without `with_defaults`, those that a configuration file set are not among them.
    """
    defaults = [one.option.name for one in getattr(arguments, "defaults", ())]
    declared = [o for request in requests for o in options_of(request).values()]
    return [
        option
        for option in declared
        if not option.positional
        and (with_defaults or option.name not in defaults)
        and getattr(arguments, option.name, option.initial) not in (option.initial, [])
    ]
