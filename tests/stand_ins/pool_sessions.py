"""Sessions on a pool that a test disturbs, and what must hold afterwards.

The samples are of a computed server without noise, so every undisturbed session has the same table.
Their trials sleep instead of working; a trial that was stopped and continued (SIGCONT) reports a
response a thousand times as long, so a hole that is recorded changes the table too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.errors import StudyError
from benchwright.features.pool.keys import ATTEMPT_KEYS, LEASE_KEYS
from benchwright.features.pool.types import Attempt, Lease
from benchwright.study.journal import Study
from bw_command import bw_words

PATIENCE_S = 240.0
_GENERATOR = """
import json, os, signal, sys, time
holes = []
signal.signal(signal.SIGCONT, lambda *_: holes.append(1))
disks, threads, rate, seconds, sleep_s = map(float, sys.argv[1:])
for _ in range(10):
    time.sleep(sleep_s / 10)
capacity = 150 * disks + 60 * threads
mean_ms = 1000 / (capacity - rate) if rate < 0.99 * capacity else 1000.0
mean_ms *= 1000 if holes else 1
series = [[float(at), int(rate), mean_ms] for at in range(max(1, int(seconds)))]
count = int(rate * seconds)
result = json.dumps({"mean_ms": mean_ms, "offered": count, "completed": count, "series": series})
while True:
    try:
        os.truncate(1, 0)
        os.pwrite(1, result.encode(), 0)
        break
    except OSError:
        time.sleep(0.1)  # its disk is full
"""
_SPEC = """
[load]
generator = "command"
command = "{python} -S gen.py {{disks}} {{threads}} {{rate}} {{duration}} {sleep_s}"
values = {{ response_ms_mean = "/mean_ms" }}
counts = {{ offered = "/offered", completed = "/completed" }}
series = "/series"

[factors]
disks = {disks}
threads = [1, 2, 4, 8]

[peak]
criteria = ["mean response < {limit}"]
start = "100"
policy = "binsearch"
run_length = "{run_length}"
max_trials = {trials}
seed = 1

[surface]
samples = {samples}
"""
_DISKS = {8: [1, 2], 12: [1, 2, 4]}
"""Levels that make so many samples."""


def write_surface(
    place: Path, *, samples: int = 12, sleep_s: float = 0.2, deadline_s: float | None = None
) -> None:
    """Write `s.toml`, a surface of 8 or 12 such samples, and its generator.

    With a deadline, each search is one short trial, at a rate that half of the samples have: then
    its result does not depend on its share of the time.
    """
    searches = {"limit": "20ms", "run_length": "20s", "trials": 4}
    if deadline_s is not None:
        searches = {"limit": "3ms", "run_length": "0.2s", "trials": 1}
    text = _SPEC.format(
        python=sys.executable, samples=samples, disks=_DISKS[samples], sleep_s=sleep_s, **searches
    )
    if deadline_s is not None:
        text += f'deadline = "{deadline_s:.1f}s"\n'
    (place / "s.toml").write_text(text)
    (place / "gen.py").write_text(_GENERATOR)


class PoolSession:
    """A session in the study `st` of a directory, which may be killed and continued."""

    def __init__(self, place: Path, environment: Mapping[str, str]) -> None:
        self.study = place / "st"
        self._place = place
        self._environment = environment
        self.process: subprocess.Popen[str] | None = None
        self._runs = 0

    def begin(self, *words: str) -> None:
        """Start bw with these words: a new session, or `resume st`."""
        self._runs += 1
        self._out = self._place / f"out.{self._runs}"
        self._err = self._place / f"err.{self._runs}"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                bw_words(*words, "--json"),
                cwd=self._place,
                env=dict(self._environment),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def ended(self) -> dict[str, Any]:
        """Wait for the end with any verdict about the searches, and return the document."""
        assert self.process is not None
        ended = self.process.wait(PATIENCE_S)
        assert ended in (0, 3), self.messages
        found: dict[str, Any] = json.loads(self._out.read_text())
        return found

    def kill(self) -> None:
        """Kill the controller."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def messages(self) -> str:
        """What all controllers printed to stderr."""
        return "\n".join(one.read_text() for one in sorted(self._place.glob("err.*")))

    def attempts(self) -> dict[str, Attempt]:
        """Return the attempts so far, as last recorded, by identifier."""
        return self._recorded(ATTEMPT_KEYS, Attempt)

    def leases(self) -> dict[str, Lease]:
        """Return the leases so far, as last recorded, by name."""
        return self._recorded(LEASE_KEYS, Lease)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds while the controller runs."""
        assert self.process is not None
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.messages
            assert time.monotonic() < end_s, self.messages
            time.sleep(0.05)

    def wait_for_running(self, number: int = 1) -> list[Attempt]:
        """Wait until so many attempts run, and return them."""
        running: list[Attempt] = []

        def enough() -> bool:
            running[:] = [one for one in self.attempts().values() if not one.ended_ns]
            return len(running) >= number

        self.wait_for(enough)
        return running

    def lease_of(self, attempt: Attempt) -> Lease:
        """Return the lease in which an attempt ran."""
        return self.leases()[attempt.lease]

    def agent_of(self, attempt: Attempt) -> int:
        """Return the process of the agent that runs an attempt in a job of Slurm."""
        end = f"-{self.lease_of(attempt).job}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if b"benchwright.features.pool.agent" in words and any(
                    one.endswith(end) for one in words
                ):
                    return int(place.name)
        raise ProcessLookupError(f"there is no agent of attempt {attempt.id}")

    def end(self) -> None:
        """Kill the controller, and remove what jobs of Slurm that were killed left in /tmp."""
        if self.process is None:
            return
        self.kill()
        with (
            contextlib.suppress(StudyError),
            contextlib.closing(Study.open_to_read(self.study)) as study,
        ):
            for one in study.sessions():
                name = one.info.options["token"][:8]
                for place in Path("/tmp").glob(f"bw-{name}-g*-*"):
                    shutil.rmtree(place, ignore_errors=True)

    def _recorded(self, keys: str, kind: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with (
            contextlib.suppress(StudyError),
            contextlib.closing(Study.open_to_read(self.study)) as study,
        ):
            for session in study.sessions():
                for entry in study.entries(session.number, ("outcome",), under=keys):
                    with contextlib.suppress(msgspec.ValidationError):
                        one = msgspec.json.decode(entry.payload, type=kind)
                        found[one.id if kind is Attempt else one.name] = one
        return found


def table(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a surface measured, in its order, without what depends on the clock."""
    members = ("sample", "status", "detail", "peak_rate", "interval", "trials")
    return [{name: one[name] for name in members} for one in document["samples"]]


def check_counts(session: PoolSession) -> Counter[str]:
    """Assert that each task was recorded once; return how often each void reason occurred."""
    attempts = session.attempts().values()
    recorded = Counter(one.place for one in attempts if one.ended_ns and not one.void)
    twice = [place for place, number in recorded.items() if number != 1]
    assert not twice, twice
    assert set(recorded) == {one.place for one in attempts}
    assert all(one.ended_ns for one in attempts)
    return Counter(one.void.value for one in attempts if one.void)
