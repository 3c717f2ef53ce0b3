"""The lines between a controller and the agent of a lease: JSON, one message each.

The controller speaks first: `AskHello` on each new channel. After `RunTask` the agent answers when
the task has ended, and sends nothing before. The answer to `FetchTask` is followed by the bytes of
the result. An agent serves several channels at once, so a controller that comes back does not have
to wait for the end of an old channel.
"""

from __future__ import annotations

import msgspec

from benchwright.core.hosts import GangClients
from benchwright.features.pool.types import Attempt, VoidReason
from benchwright.study.journal import SessionInfo

PROTOCOL = 1


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A task as an agent gets it: everything that its session depends on."""

    attempt: Attempt
    info: SessionInfo
    """Of the session of this attempt, with a token of its own."""
    prefixes: tuple[str, ...]
    """The journal keys of the part to run."""
    keys: tuple[str, ...] = ()
    """Of its tests and comparisons, where the prefixes are not theirs."""
    replicate: int | None = None
    """Their only outermost replicate to run; None: all."""
    testroot: str = ""
    """TESTROOT of the session, if the user did not set it: a gang uses a directory of its own
    instead."""
    wanted: str = ""
    """The sample of a surface, as the journal stores it; empty: another task."""
    left_s: float | None = None
    """Time until the deadline of the session [s]; None: it has none."""
    clients: GangClients | None = None
    """The hosts that issue the load; None: the server's host."""


class TaskVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended on its host; written there before it is sent."""

    id: str
    """`Attempt.id`."""
    void: VoidReason | None = None
    detail: str = ""
    status: int = 0
    """Exit status of its session."""
    failed_host: str = ""
    """The host that made it void, if that is known not to be the server's."""
    size: int = 0
    """Of the result [bytes]; 0: there is none."""
    sha256: str = ""
    """Of the result."""


# -- From the controller ----------------------------------------------------------------


class AskHello(msgspec.Struct, frozen=True, tag="hello"):
    """Ask what the agent has; answered with `AgentHello`."""


class RunTask(msgspec.Struct, frozen=True, tag="run"):
    """Run a task; answered with `TaskEnded` when it has ended."""

    order: TaskOrder


class FetchTask(msgspec.Struct, frozen=True, tag="fetch"):
    """Ask for the result of an attempt; answered with `TaskResult` and so many bytes: a tar file of
    its study."""

    id: str


class ForgetTask(msgspec.Struct, frozen=True, tag="forget"):
    """Remove an attempt whose result is in the study."""

    id: str


class EndLease(msgspec.Struct, frozen=True, tag="end"):
    """End the running task and the agent."""


Question = AskHello | RunTask | FetchTask | ForgetTask | EndLease


# -- From the agent ---------------------------------------------------------------------


class AgentHello(msgspec.Struct, frozen=True, tag="agent", kw_only=True):
    """What an agent has."""

    protocol: int
    version: str
    pid: int
    hosts: tuple[str, ...]
    running: str
    """`Attempt.id`; empty: none."""
    verdicts: tuple[TaskVerdict, ...]
    """Of the tasks that have ended, in this lease or in an earlier one in the same directory."""


class TaskEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A task has ended."""

    verdict: TaskVerdict
    ends: bool = False
    """Whether the lease ends too: the agent takes no other task."""


class TaskResult(msgspec.Struct, frozen=True, tag="result"):
    """The result of an attempt follows."""

    id: str
    size: int
    """Number of bytes; 0: there is none."""


Answer = AgentHello | TaskEnded | TaskResult


def line_of(message: Question | Answer) -> bytes:
    """Return a message as a line."""
    return msgspec.json.encode(message) + b"\n"
