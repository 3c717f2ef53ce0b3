"""What `bw why` was asked, checked: every mistake at once, before a study is read."""

from __future__ import annotations

import argparse

import msgspec

from benchwright.cli.checked import checked
from benchwright.finding.limit import Capacity, bytes_per_s
from benchwright.finding.rules import NamedRule
from benchwright.finding.sanity import Claims
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.quantity import parse_size_bytes


class Asked(msgspec.Struct, frozen=True):
    """A checked request."""

    path: str
    tests: tuple[str, ...]
    claims: Claims
    rules: tuple[NamedRule, ...]


def asked(arguments: argparse.Namespace) -> Asked:
    """Return the request that the arguments mean. Raises InputError."""
    from benchwright.cli.rule_files import rules

    wrong: list[Diagnostic] = []
    paths = [*arguments.inputs]
    if arguments.study:
        paths.append(arguments.study)
    if len(paths) > 1:
        message = "bw why explains one study at a time"
        hint = "call it for each"
        wrong.append(Diagnostic("bad-argument", message, hint, "STUDY", text=paths[1]))
    size = checked("--operation-size", arguments.operation_size, _size, None, wrong)
    capacities = [_capacity(text, wrong) for text in arguments.limit]
    found: list[NamedRule] = []
    try:
        found = rules(arguments.rule)
    except InputError as error:
        wrong.extend(error.diagnostics)
    if wrong:
        raise InputError(wrong)
    claims = Claims(tuple(one for one in capacities if one is not None), size)
    path = paths[0] if paths else "bw-study"
    return Asked(path, tuple(arguments.test), claims, tuple(found))


def _size(text: str) -> float | None:
    size = parse_size_bytes(text)
    if size <= 0:
        raise ValueError("an operation has a byte at least")
    return float(size)


def _capacity(text: str, wrong: list[Diagnostic]) -> Capacity | None:
    name, _, rate = text.partition("=")
    try:
        if not name or not rate:
            raise ValueError("no name or no rate: write NAME=RATE, eth0=1Gbit/s")
        found = bytes_per_s(rate)
    except ValueError as error:
        column = len(name) + 2 if rate else 1
        wrong.append(
            Diagnostic(
                "bad-argument", str(error), file="--limit", column=column, text=text
            )
        )
        return None
    return Capacity(name, found)
