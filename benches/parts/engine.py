"""The engine asked directly, one request a process: docs/engine-protocol.md.

Decision: JSON as the protocol has it, not the classes of benchwright.load, so that what is
measured is the engine and what is asked stands in the bench.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchwright.features.load.samples import NEVER, read_samples
from benchwright.trial.programs import find_engine

Document = dict[str, Any]
PACERS = ("spin", "ded-clock", "sleep", "select")
"""The engine's own, and those that Buttress was compared with."""
TARGET_DEPTH = 128
"""In flight at most: what a loop device takes."""


class EngineError(Exception):
    """The engine refused, with its own words."""


def build_with_pacers() -> None:
    """Build the engine with the naive pacers, and have it used from now on."""
    root = Path(__file__).resolve().parents[2]
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-p", "naive-pacers"], cwd=root, check=True
    )
    os.environ["BW_ENGINE"] = str(root / "target" / "release" / "bw-engine-naive")


@contextlib.contextmanager
def engine_at(path: str) -> Iterator[None]:
    """Have another build of the engine used, to measure it beside this one."""
    usual = os.environ.get("BW_ENGINE")
    os.environ["BW_ENGINE"] = path
    try:
        yield
    finally:
        del os.environ["BW_ENGINE"]
        if usual is not None:
            os.environ["BW_ENGINE"] = usual


def ask(request: Document) -> Document:
    """Return the engine's result. Raises EngineError with what it said instead."""
    done = subprocess.run(
        [find_engine()], input=json.dumps(request).encode(), capture_output=True, check=False
    )
    return _result(done.stdout.splitlines(), done.stderr)


def convert(source: Path, output: Path, output_format: str, **policies: Any) -> Document:
    """Write a trace in another format; return the engine's account of it."""
    return ask(
        {
            "type": "trace-convert",
            "input": {"path": str(source), **policies},
            "output": {"path": str(output), "format": output_format},
        }
    )


def compared(trace: Path, seen: Path, shift_ns: int) -> Document:
    """Return what `trace-compare` says of a trace (`a`) and what was seen at a device (`b`)."""
    request = {"type": "trace-compare", "a": {"path": str(trace)}}
    request |= {"b": {"path": str(seen)}, "speed_micro": 10**6, "shift_ns": shift_ns}
    return ask(request)


def load(target: Document, filament: Document, samples: Path, **how: Any) -> Document:
    """Run one filament on a target with its operations written to `samples`."""
    return ask(
        {
            "type": "load",
            "target": target,
            "workload": {"seed": 1, "filaments": [filament]},
            "depth": TARGET_DEPTH,
            "samples": str(samples),
            **how,
        }
    )


def replay(
    target: Document,
    trace: Path,
    samples: Path,
    pacer: str = "spin",
    altered: Document | None = None,
    **how: Any,
) -> Document:
    """Replay a trace as it stands; return the result, with the operations in `samples`.

    `altered`: members of the trace's filament that change when operations are issued.
    """
    filament = {"type": "trace", "path": str(trace), "offsets": "exact"}
    return load(target, filament | (altered or {}), samples, pacer=pacer, **how)


def issue_errors_ns(samples: Path) -> NDArray[np.int64]:
    """Return actual minus intended start of every operation `(n,)` [ns], and remove the file.

    One that still waited when the run ended is as late as it was by then: at the last
    issue. That is less than it would have been, and not nothing.
    """
    rows = read_samples(samples)
    samples.unlink()
    issued, never = rows["issued"], rows["issued"] == NEVER
    last = issued[~never].max() if not never.all() else rows["intended"].max()
    return np.where(never, last, issued).astype(np.int64) - rows["intended"].astype(np.int64)


@contextlib.contextmanager
def capturing(device: str, output: Path) -> Iterator[Document]:
    """Record a device's operations meanwhile; the account is filled in at the end."""
    process = subprocess.Popen(
        [find_engine()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    request = {"type": "trace-capture", "device": device, "output": str(output)}
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    account: Document = {}
    try:
        first = process.stdout.readline()
        if json.loads(first or b"{}").get("type") != "ready":
            raise EngineError((first or process.stderr.read()).decode().strip())
        yield account
        process.send_signal(signal.SIGINT)
        account.update(_result(process.stdout.readlines(), process.stderr.read()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _result(lines: list[bytes], diagnostics: bytes) -> Document:
    said: Document = json.loads(lines[-1]) if lines else {}
    if said.get("type") == "result":
        return said
    words = said.get("message") or diagnostics.decode(errors="replace").strip()
    raise EngineError(f"{said.get('code', 'engine-died')}: {words}")
