"""Captures and their differences as JSON: `benchwright/env/1`, `benchwright/env-diff/1`.

Decision: no use of report/json.py, whose imports (numpy) take longer than a capture.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.model.machine import Fact, Machine, Weight
from benchwright.model.machine_difference import Change, Difference
from benchwright.model.visible import visible_json

SCHEMA = "benchwright/env/1"
DIFFERENCE_SCHEMA = "benchwright/env-diff/1"


def machine_document(name: str, machine: Machine) -> dict[str, Any]:
    """Return a capture as plain objects; `name` is what it is of, such as `now`."""
    return {
        "schema": SCHEMA,
        "of": name,
        "taken_ns": machine.taken_ns,
        "facts": [_fact(fact) for fact in machine.facts],
    }


def difference_document(
    a: tuple[str, Machine], b: tuple[str, Machine], difference: Difference
) -> dict[str, Any]:
    """Return what differs between two captures, everything, as plain objects."""
    counts = {weight.value: len(difference.of(weight)) for weight in Weight}
    return {
        "schema": DIFFERENCE_SCHEMA,
        "a": {"of": a[0], "taken_ns": a[1].taken_ns},
        "b": {"of": b[0], "taken_ns": b[1].taken_ns},
        "counts": counts | {"unknown": len(difference.unknown)},
        "changes": [_change(change) for change in difference.changes],
    }


def encode(document: dict[str, Any]) -> str:
    """Return plain objects as indented JSON with a newline at its end.

    What is not printable is escaped in it.
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return visible_json(text) + "\n"


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "name": fact.name,
        "value": fact.value,
        "source": fact.source,
        "absent": fact.absent,
        "weight": fact.weight.value,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "weight": change.weight.value,
        "known": change.known,
        "a": change.before,
        "b": change.after,
        "a_absent": change.before_absent,
        "b_absent": change.after_absent,
    }
