"""A writer of series files by hand, for tests: docs/watch-format.md, the other way round."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000

Row = dict[str, int | None]


class SeriesWriter:
    """Collects the lines of a series; values are given as they are, not as differences."""

    def __init__(self, *, interval_ns: int = 100_000_000, **header: Any) -> None:
        self.lines: list[dict[str, Any]] = [
            {
                "type": "series",
                "version": 1,
                "interval_ns": interval_ns,
                "begin_ns": 0,
                "realtime_ns": 1,
                "boot_id": "b",
                "page_size": 4096,
                "ticks_per_s": 100,
                "cpus": 2,
                "root_pid": 100,
                "absent": [],
                "limits": {},
                **header,
            }
        ]
        self._names: tuple[str, ...] = ()
        self._last: dict[str, int | None] = {}

    def row(self, t: int, values: Row, **kinds: str) -> None:
        """Add a sample; a line of columns before it where they changed."""
        if tuple(values) != self._names:
            self._names = tuple(values)
            self._last = {}
            self.say(
                "columns",
                names=self._names,
                kinds=[kinds.get(name, kind_of(name)) for name in self._names],
            )
        self.say("row", t=t, v=[self._difference(name, values[name]) for name in values])
        self._last = dict(values)

    def say(self, type_: str, **fields: Any) -> None:
        """Add a line."""
        self.lines.append({"type": type_, **fields})

    def end(self, begin_ns: int, end_ns: int, **fields: Any) -> None:
        """Add the last line."""
        told = {"samples": 1, "cost_ns": 0, "bytes": 1, "lost_ns": 0, "error": ""}
        self.say("end", begin_ns=begin_ns, end_ns=end_ns, **{**told, **fields})

    def text(self) -> bytes:
        """Return the lines as they stand in a file."""
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(self, path: Path, *, cut: int = 0) -> Path:
        """Write the file, without its last `cut` bytes, and return its path."""
        data = gzip.compress(self.text(), mtime=0)
        path.write_bytes(data[: len(data) - cut])
        return path

    def _difference(self, name: str, value: int | None) -> int | None:
        before = self._last.get(name)
        return value if value is None or before is None else value - before


def kind_of(name: str) -> str:
    """Return what the format says a column is."""
    last = name.rsplit("/", 1)[-1]
    gauges = ("in_flight", "running", "blocked", "processes", "threads", "rss", "pids")
    begins = ("memory/", "frequency/", "thermal/", "files/")
    is_gauge = name.startswith(begins) or last in (*gauges, "memory")
    return "gauge" if is_gauge else "counter"
