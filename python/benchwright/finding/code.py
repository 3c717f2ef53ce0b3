"""What one code of a finding means by default, and how tables of codes are put together."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchwright.model.finding import Severity


class Code(msgspec.Struct, frozen=True):
    """How grave a finding of this code is, and what to do about it."""

    severity: Severity
    remedy: str


def joined(*tables: Mapping[str, Code]) -> dict[str, Code]:
    """Return one table of several, in their order.

    Raises ValueError for a code that two of them define: one of the two remedies would
    never be shown.
    """
    found: dict[str, Code] = {}
    for table in tables:
        for name, code in table.items():
            if name in found:
                raise ValueError(f"the code of a finding is defined twice: {name}")
            found[name] = code
    return found
