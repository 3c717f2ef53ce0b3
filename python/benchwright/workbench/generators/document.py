"""A generator's JSON, read with the place of what is not there."""

from __future__ import annotations

from typing import Any

from benchwright.trial.extract import NotFound
from benchwright.workbench.generators.adapter import UnreadableOutput
from benchwright.workbench.generators.source import has_json, last_json


class Document:
    """A JSON document and where it came from."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        try:
            self._root = last_json(text)
        except NotFound:
            sought = "JSON without NaN and Infinity" if has_json(text) else "JSON"
            raise UnreadableOutput(sought, where, text) from None

    def number(self, *path: str | int) -> float:
        """Return the number at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return float(found)

    def number_or(self, default: float, *path: str | int) -> float:
        """Return the number at a path, or what stands for one that is not written."""
        return default if self.get(*path) is None else self.number(*path)

    def table(self, *path: str | int) -> dict[str, Any]:
        """Return the object at a path. Raises UnreadableOutput."""
        found = self.get(*path)
        if not isinstance(found, dict):
            raise UnreadableOutput(_text(path), self._where, self._beside(path))
        return found

    def get(self, *path: str | int) -> Any:
        """Return what is at a path, None where there is nothing."""
        found = self._root
        for step in path:
            inside = isinstance(found, dict) and step in found
            if isinstance(found, list):
                inside = isinstance(step, int) and step < len(found)
            if not inside:
                return None
            found = found[step]
        return found

    def _beside(self, path: tuple[str | int, ...]) -> str:
        around = self.get(*path[:-1])
        if isinstance(around, dict):
            return "the members " + ", ".join(around)
        return f"no {_text(path[:-1])}"


def _text(path: tuple[str | int, ...]) -> str:
    return "/" + "/".join(str(step) for step in path)
