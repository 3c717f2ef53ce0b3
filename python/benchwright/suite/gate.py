"""`[METRIC] slower|faster by SHARE`: what must not be, as --fail-if takes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, cast

from benchwright.model.comparison import Gate
from benchwright.model.quantity import parse_share
from benchwright.suite.fault import Fault

SYNTAX = "write 'slower by 3%' or 'METRIC faster by 5%'"
_CODE = "suite-gate"
_SPACED = re.compile(r"(?<=\d)\s+%\s*\Z")
"""`3 %`, as our own sentences write it."""
_WORD = re.compile(r"\S+")


def parse_gate(text: str, known: Sequence[str]) -> tuple[Gate | None, Fault | None]:
    """Return the gate that a text means, or what is wrong with it and where.

    `known` are the metrics that are compared; without one it is about the first.
    """
    words = list(_WORD.finditer(_SPACED.sub("%", text)))
    at = len(words) - 3
    if at not in (0, 1):
        return None, Fault(_CODE, f"{text!r} is not a condition", SYNTAX)
    direction, by, share = words[at:]
    if direction[0] not in ("slower", "faster"):
        message = f"{direction[0]!r} is neither slower nor faster"
        return None, Fault(_CODE, message, SYNTAX, direction.start())
    if by[0] != "by":
        return None, Fault(_CODE, f"{by[0]!r} should be `by`", SYNTAX, by.start())
    try:
        size = parse_share(share[0])
    except ValueError as error:
        return None, Fault(_CODE, str(error), SYNTAX, share.start())
    metric = words[0][0] if at else known[0]
    if metric not in known:
        hint = f"compared are: {', '.join(known)}; --metric declares others"
        return None, Fault(_CODE, f"{metric} is not compared", hint, words[0].start())
    way = cast(Literal["slower", "faster"], direction[0])
    return Gate(metric, way, size, " ".join(word[0] for word in words)), None
