"""A stand-in for bw-sampler: speaks its protocol, and misbehaves as it is told.

As a program: `sampler_stand_in.py serve`, with the environment's SAMPLER_DOES being one of
`work`, `hang-at-hello`, `hang-at-watch`, `hang-at-end`, `die-at-end`, `refuse`, `babble`,
`other-protocol`, `late-answers`, `stay`, `disk-full`. `program(directory, does)` makes such
a program with its way of doing built in.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from series_writer import SECOND, SeriesWriter

HANG_S = 600.0


def program(directory: Path, does: str = "work") -> Path:
    """Return the path of a sampler that does so; `directory/sampler.pid` has its number."""
    path = directory / f"sampler-{does}"
    path.write_text(
        f'#!/bin/sh\nexport SAMPLER_DOES={does} PYTHONPATH="{Path(__file__).parent}"\n'
        f'echo $$ > "{directory}/sampler.pid"\n'
        f'exec "{sys.executable}" "{__file__}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def _say(type_: str, **fields: Any) -> None:
    print(json.dumps({"type": type_, **fields}), flush=True)


def _hang() -> None:
    time.sleep(HANG_S)


def _series(request: dict[str, Any], begin_ns: int, end_ns: int) -> None:
    writer = SeriesWriter(interval_ns=request["interval_ns"], root_pid=request["root_pid"])
    ticks = (end_ns - begin_ns) // (SECOND // 100)
    for t, used in ((begin_ns, 0), (end_ns, ticks)):
        writer.row(t, {"cpu/0/user": used, "cpu/0/idle": 0})
    writer.end(begin_ns, end_ns, samples=2, cost_ns=1000)
    writer.write(Path(request["out"]))


class _Sampler:
    """What it does with each request."""

    def __init__(self, does: str) -> None:
        self.does = does
        self.watch: dict[str, Any] = {}
        self.begin_ns = 0

    def answer(self, request: dict[str, Any]) -> None:
        """Answer one request."""
        if self.does == f"hang-at-{request['type']}":
            _hang()
        if request["type"] == "watch":
            self._watch(request)
        else:
            self._end(request)

    def _watch(self, request: dict[str, Any]) -> None:
        if self.does == "refuse":
            _say("error", id=request["id"], message="no such directory")
            return
        if self.does == "babble":
            os.write(1, b"good \x80 morning\n")
            return
        if self.does == "late-answers":
            _say("watched", id=0, samples=1, begin_ns=1, end_ns=2, cost_ns=3)
        self.watch = request
        self.begin_ns = time.monotonic_ns()
        _say("watching", id=request["id"], begin_ns=self.begin_ns)

    def _end(self, request: dict[str, Any]) -> None:
        if self.does == "die-at-end":
            print("sampler: out of luck", file=sys.stderr)
            sys.exit(1)
        end_ns = time.monotonic_ns()
        _series(self.watch, self.begin_ns, end_ns)
        error = "No space left on device" if self.does == "disk-full" else ""
        times = {"begin_ns": self.begin_ns, "end_ns": end_ns, "lost_ns": 5}
        _say("watched", id=request["id"], samples=2, cost_ns=1000, error=error, **times)


def main() -> None:
    """Serve requests until the end of input."""
    does = os.environ["SAMPLER_DOES"]
    if does == "hang-at-hello":
        _hang()
    protocol = 2 if does == "other-protocol" else 1
    _say("hello", protocol=protocol, pid=os.getpid(), version="0.0.0")
    sampler = _Sampler(does)
    for line in sys.stdin:
        sampler.answer(json.loads(line))
    if does == "stay":
        _hang()


if __name__ == "__main__":
    main()
