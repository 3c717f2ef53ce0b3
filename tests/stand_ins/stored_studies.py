"""Studies that earlier versions made, and what two documents of one of them differ in."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

BESIDE_A_RATIO = re.compile(
    r"^(/findings/\d+|/inputs/\d+/answer)/severity: 'serious' became '(note|warning)'$"
)
"""What blocks in random order keep out of a ratio is a note about the arm alone since."""


def unpack(archive: Path, place: Path) -> None:
    """Unpack a study into a directory, as a user's own files."""
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")


def is_same(where: str, old: Any, new: Any) -> bool:
    """Return whether two values that are no objects or lists are the same."""
    if isinstance(old, float) and isinstance(new, (int, float)):
        return old == pytest.approx(new, rel=1e-9)
    return old == new


def differences(
    old: Any,
    new: Any,
    where: str = "",
    *,
    same: Callable[[str, Any, Any], bool] = is_same,
    passing: Collection[str] = (),
    added: Collection[str] | None = None,
) -> list[str]:
    """Return where two documents differ in more than the wording of their prose (a text with a space
    in it) and the members `passing`; `added`: the members that may be new, all if None."""

    def inner(old: Any, new: Any, where: str) -> list[str]:
        return differences(old, new, where, same=same, passing=passing, added=added)

    if isinstance(old, dict) and isinstance(new, dict):
        lost = [f"{where}/{key} is missing" for key in old if key not in new]
        more = [
            f"{where}/{key} is new"
            for key in new
            if key not in old and added is not None and key not in added
        ]
        both = [key for key in old if key in new and key not in passing]
        return [
            *(*lost, *more),
            *(found for key in both for found in inner(old[key], new[key], f"{where}/{key}")),
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for n, pair in pairs for found in inner(*pair, f"{where}/{n}")]
    if isinstance(old, str) and isinstance(new, str) and " " in old:
        return []
    return [] if same(where, old, new) else [f"{where}: {old!r} became {new!r}"]
