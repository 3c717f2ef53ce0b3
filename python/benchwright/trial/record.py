"""The wire format between Python and the launcher (docs/launcher-protocol.md).

Decision: plain frozen records, one encoder and one decoder for the process's life;
requests carry a batch of epochs, answers a batch of records.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from benchwright.model.observation import Ending, ProcessRecord


class WireCommand(msgspec.Struct, frozen=True):
    """One command of a request."""

    mode: str
    argv: tuple[str, ...]


class WireOutput(msgspec.Struct, frozen=True):
    """What becomes of the output of EXEC."""

    keep: Literal["null", "ends", "whole"] = "whole"
    limit_bytes: int | None = None
    """With `whole`: an epoch whose stream is longer is ended."""
    relay: bool = False
    """With `whole`: it is copied to the launcher's stderr as well."""


class RunRequest(msgspec.Struct, frozen=True, tag="run", tag_field="type"):
    """Run `epochs` epochs of these commands; times in nanoseconds."""

    id: int
    first_epoch: int
    epochs: int
    threads: int
    commands: tuple[WireCommand, ...]
    environment: tuple[tuple[str, str], ...]
    directory: str
    logs: str
    timeout_ns: int | None = None
    grace_ns: int = 2_000_000_000
    budget_ns: int = 1_000_000_000
    hooks: tuple[str, ...] = ()
    stop_on_failure: bool = False
    output: WireOutput = WireOutput()


class InterruptRequest(msgspec.Struct, frozen=True, tag="interrupt", tag_field="type"):
    """End what is running; with `cleanup` the CLEANUP commands still run."""

    cleanup: bool


class Hello(msgspec.Struct, frozen=True, tag="hello", tag_field="type"):
    """The launcher's first line."""

    protocol: int
    pid: int
    version: str
    rss_floor_bytes: int
    """No peak RSS can read below this: the launcher's own resident size [bytes]."""


class EpochRecord(msgspec.Struct, frozen=True, tag="epoch", tag_field="type"):
    """One epoch as the launcher saw it."""

    id: int
    epoch: int
    ending: Ending
    started_ns: int
    duration_ns: int
    release_skew_ns: int
    left_running: int
    processes: tuple[ProcessRecord, ...]
    not_permitted: int = 0
    """Processes that still run after the epoch, because they belong to another user."""
    aplog: tuple[tuple[int, str], ...] = ()
    """What each thread appended to APLOG: (thread, text)."""
    hooks: tuple[tuple[str, str, str], ...] = ()
    """What each hook printed: (name, event, text)."""
    output_full: bool = False
    """Whether a stream passed the request's limit."""


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The end of a request: why, and the first epoch that was not run."""

    id: int
    next_epoch: int
    reason: str


class Refused(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """The request could not be run at all."""

    id: int
    message: str


Reply = Hello | EpochRecord | Done | Refused
