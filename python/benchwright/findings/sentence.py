"""The sentence of a finding, made of its figures; the sentence about several findings.

Purpose: a finding keeps its figures, so that the range over nine tests is computed from numbers.
A template stands beside its code (`Code.says`):

- `{name}` is a value as its unit is usually written; `{name:#trial}` is a number of things,
  `{name:4}` has four significant digits, `{name:.1f}` a format of Python; `{name:?once|# times}`
  is one text for 1 and another for any other number, which stands in place of `#`.
- `[...]` is left out if a value in it is absent.
- `; ` or `, ` at the start of a part is left out if nothing precedes it, so that any of several
  parts may be absent.
- `<...>` is a detail: it is left out likewise, and where several findings share one sentence;
  that has `b` in place of `<a|b>`.
- The value `where`, in which trials, is a detail at the end of every sentence. `part_measured` is
  at the start of every sentence about much more time than the figures: it is their part of it.

Decision: a stored finding has its sentence too, because a later version may have another template:
one that no longer makes the stored sentence is not used. Rejected: to find the figures in sentences
by regular expressions, which took counts in names for sizes and cut quoted commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec

from benchwright.core.results import Figure, FindingFigures, Value
from benchwright.core.text import (
    cpus_text,
    duration_text,
    number_text,
    percent_text,
    plural,
    quantity_text,
    rate_text,
    signed_text,
)

# -- Templates -------------------------------------------------------------------------


_LONGER = "[in the watched time (the figures are about {part_measured} of it), ]"


class _Slot(msgspec.Struct, frozen=True):
    name: str
    spec: str


class _Part(msgspec.Struct, frozen=True):
    full: tuple[_Node, ...]
    short: tuple[_Node, ...]


_Node = str | _Slot | _Part
_TOKEN = re.compile(r"[\[\]<>|]|\{\w+(?::[^}]*)?\}|[^\[\]<>|{]+")


@cache
def _parsed(template: str) -> tuple[_Node, ...]:
    tokens = _TOKEN.findall(template)[::-1]

    def nodes(end: str) -> tuple[tuple[_Node, ...], str]:
        """Return the nodes up to one of the characters of `end`, and which of them it was."""
        found: list[_Node] = []
        while tokens and (token := tokens.pop()) not in end:
            if token == "[":
                part, _ = nodes("]")
                found.append(_Part(part, part))
            elif token == "<":
                full, last = nodes("|>")
                found.append(_Part(full, nodes(">")[0] if last == "|" else ()))
            elif token[0] == "{":
                name, _, spec = token[1:-1].partition(":")
                found.append(_Slot(name, spec))
            else:
                found.append(token)
        return tuple(found), token if end else ""

    return nodes("")[0]


_Show = Callable[[_Slot, Value], str]


def _text(
    nodes: Sequence[_Node],
    values: Mapping[str, Value],
    show: _Show,
    *,
    short: bool,
    before: str = "",
) -> str:
    """Return the text of nodes that stand behind the text `before`; raises KeyError if a value is
    absent."""
    text = ""
    for node in nodes:
        if isinstance(node, str):
            text += node
        elif isinstance(node, _Slot):
            text += show(node, values[node.name])
        else:
            chosen, so_far = node.short if short else node.full, before + text
            try:
                part = _text(chosen, values, show, short=short, before=so_far)
            except KeyError:
                continue
            is_first = not so_far or so_far.endswith(" ")
            text += part.removeprefix("; ").removeprefix(", ") if is_first else part
    return text


def sentence(template: str, figures: FindingFigures, *, short: bool = False) -> str:
    """Return the sentence with these figures; `short`: without details. Raises KeyError if a value
    is absent that the template requires."""
    text = _text(_parsed(_LONGER + template), figures.named, _value_text, short=short)
    return text if short else f"{text}{figures.named.get('where', '')}"


# -- Values ----------------------------------------------------------------------------


def _value_text(slot: _Slot, value: Value) -> str:
    if isinstance(value, str):
        return value
    figure = value if isinstance(value, Figure) else Figure(value)
    if slot.spec.startswith("?"):
        one, _, many = slot.spec[1:].partition("|")
        number = _value_text(_Slot(slot.name, ""), value)
        return one if number == "1" else many.replace("#", number)
    text = _figure_text(figure.value, figure.unit, slot.spec)
    if figure.high is None:
        return text
    high = _figure_text(figure.high, figure.unit, slot.spec)
    number, _, unit = text.partition(" ")
    is_one_unit = high.partition(" ")[2] in (unit, f"{unit}s", f"{unit}es")
    is_one_unit = is_one_unit and not any(map(str.isdigit, unit))  # `3 min 20 s`
    return high if text == high else f"{number if is_one_unit else text} to {high}"


_MANY = 1000
"""From this size on a number has no decimals."""


def _figure_text(value: float, unit: str, spec: str) -> str:
    if spec.startswith("#"):
        return plural(int(value), spec[1:])
    if spec.startswith(".") and abs(value) >= _MANY:
        return f"{number_text(value)} {unit}".rstrip()
    if spec and not spec.isdigit():
        return f"{value:{spec}} {unit}".rstrip()
    digits = int(spec) if spec else None
    match unit:
        case "":
            return f"{value:,}" if isinstance(value, int) else number_text(value, digits or 4)
        case "%":
            return percent_text(value, digits or 3)
        case "+%":
            return signed_text(percent_text(value, digits or 3))
        case "+":
            return signed_text(number_text(value, digits or 3))
        case "CPUs":
            return cpus_text(value)
        case "1/s":
            return rate_text(value, digits or 5)
        case "s" if digits is None:
            return duration_text(value)
        case _:
            return quantity_text(value, unit, digits or 3)


# -- Several findings ------------------------------------------------------------------

_RELATIVE = ("%", "+%", "scaled MADs")
"""Units that say how large something is, whatever was measured."""


def range_sentence(template: str, findings: Sequence[FindingFigures]) -> str | None:
    """Return the short sentence of findings that differ only in numbers, with the range of each:
    `they used 1.33 to 1.51 CPUs of 2`; None if they say different things."""
    nodes, rows = _parsed(_LONGER + template), [finding.named for finding in findings]
    if len({_text(nodes, row, _shape, short=True) for row in rows}) > 1:
        return None
    spans: dict[str, Value] = {}
    for name, value in rows[0].items():
        ends = [end for row in rows if name in row for end in _ends(row[name])]
        spans[name] = Figure(min(ends), _unit(value), max(ends)) if ends else value
    return _text(nodes, spans, _value_text, short=True)


def _shape(slot: _Slot, value: Value) -> str:
    return value if isinstance(value, str) else f"{{{slot.name} {_unit(value)}}}"


def _unit(value: Value) -> str:
    return value.unit if isinstance(value, Figure) else ""


def _ends(value: Value) -> tuple[float, ...]:
    """Return both ends of a figure; nothing of a text."""
    if isinstance(value, str):
        return ()
    if not isinstance(value, Figure):
        return value, value
    return value.value, value.value if value.high is None else value.high


def sizes(findings: Sequence[tuple[str, FindingFigures]]) -> tuple[float, ...] | None:
    """Return how large what each of the findings, after its template, says is, without its sign, so
    that a fall and a rise compare: the first figure of the short sentences that all have and that
    differs, rather a relative one than a quantity. None if there is none."""
    rows = [_sizes(*finding) for finding in findings]
    common = [key for key in rows[0] if all(key in row for row in rows)]
    for key in sorted(common, key=lambda one: one[1] not in _RELATIVE):
        column = tuple(row[key] for row in rows)
        if len(set(column)) > 1:
            return column
    return None


def _sizes(template: str, figures: FindingFigures) -> dict[tuple[str, str], float]:
    """Return the sizes of the figures in a short sentence, by name and unit, in its order."""
    found: dict[tuple[str, str], float] = {}

    def note(slot: _Slot, value: Value) -> str:
        if ends := _ends(value):
            found[slot.name, _unit(value)] = max(map(abs, ends))
        return ""

    _text(_parsed(template), figures.named, note, short=True)
    return found
