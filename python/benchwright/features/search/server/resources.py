"""The resources of a workbench's server: given before it starts, and taken back after it.

The changes of the machine, and their undoing after a crash, are those of features/quiet. This
module keeps the transaction of the current sample. What the machine cannot limit is known before
the first trial (`refusals`).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchwright.core.errors import BenchError
from benchwright.core.results import Finding
from benchwright.features.quiet.hold import Quieted, QuietRequest, discard
from benchwright.features.quiet.host import Host, SettingRefused
from benchwright.features.quiet.log_path import server_directory
from benchwright.features.quiet.report import restore_findings
from benchwright.features.quiet.server_resources import (
    GROUP_PREFIX,
    MOUNTS_PREFIX,
    LiftableLimit,
    io_limits,
    lift,
    put_back,
    server_groups,
    server_wishes,
    set_sync,
    write_back,
)
from benchwright.features.quiet.transaction import plans
from benchwright.features.quiet.types import (
    ServerDisks,
    ServerResources,
    ServerSetup,
    names_of_disks,
)

_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
"""In memory.events of cgroup v2 and memory.oom_control of v1."""


def _new_name() -> str:
    """Return a name that nobody can foresee: files are made in a directory that all may write."""
    return f"{os.getpid()}_{secrets.token_hex(8)}"


class ServerResourcesHeld:
    """The resources of one server at a time."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or Host()
        self._quieted: Quieted | None = None
        self._given: ServerResources | None = None
        self._name = _new_name()
        self.groups: tuple[str, ...] = ()
        """Directories of the cgroups in which the server runs."""
        self._io_limits: tuple[LiftableLimit, ...] = ()
        self._memory_kills = 0
        self.findings: tuple[Finding, ...] = ()
        """What could not be taken back."""

    def refusals(self, resources: ServerResources) -> tuple[str, ...]:
        """Return what is missing on this machine to give these resources."""
        wishes = server_wishes(self._setup(resources))
        found = [plan.lacking for _, plan in plans(self._host, wishes)]
        return tuple(dict.fromkeys(why for lacking in found for why in lacking))

    def names(self, resources: ServerResources | None) -> dict[str, str]:
        """Return the values of names in braces."""
        disks = None if resources is None else resources.disks
        return names_of_disks(disks, self._mounts(disks))

    @property
    def _log(self) -> Path:
        """The directory of the transaction. Each has its own: one that could not be undone
        waits there for the next `bw`."""
        return Path(server_directory(self._name))

    def _mounts(self, disks: ServerDisks | None) -> str:
        """Return the directory of the disks, which the first one makes."""
        place = disks.directory if disks is not None else None
        # /proc/mounts has paths without links.
        place = os.path.realpath(place or tempfile.gettempdir())
        return os.path.join(place, f"{MOUNTS_PREFIX}{self._name}")

    def give(self, resources: ServerResources | None) -> None:
        """Give a server its resources, unless it has them. Raises BenchError."""
        if resources == self._given:
            return
        self.take_back()
        if resources is None:
            return
        self._name = _new_name()
        wishes = server_wishes(self._setup(resources))
        request = QuietRequest(wishes, host=self._host, directory=self._log)
        quieted = Quieted(request)
        quieted.__enter__()
        self._quieted, self._given = quieted, resources
        if quieted.quiet.lacking:
            why = "; ".join(one.why for one in quieted.quiet.lacking)
            self.take_back()
            message = f"the server cannot have its resources: {why}"
            raise BenchError("resources-unavailable", message)
        changes = [one.change for one in quieted.quiet.done]
        self.groups, self._io_limits = server_groups(changes), io_limits(changes)
        with _io_refused("made synchronous"):
            set_sync(self._host, self._setup(resources), on=True)

    def take_back(self) -> None:
        """Remove all limits and disks; the server has ended."""
        quieted, self._quieted, self._given = self._quieted, None, None
        self.groups, self._io_limits, self._memory_kills = (), (), 0
        if quieted is None:
            return
        quieted.__exit__(None, None, None)
        if quieted.restored is not None:
            self.findings += restore_findings(quieted.restored, late=False)
            if not quieted.restored.failed:
                discard(self._log)

    def new_memory_kills(self) -> int:
        """Return how many of the server's processes the kernel killed at their memory limit since
        the last call."""
        files = (
            Path(group, name)
            for group in self.groups
            for name in ("memory.events", "memory.oom_control")
        )
        texts = (self._host.read(file) or "" for file in files)
        known = self._memory_kills
        self._memory_kills = sum(
            int(number) for text in texts for number in _OOM_KILLS.findall(text)
        )
        return self._memory_kills - known

    @property
    def limits_io(self) -> bool:
        """Whether I/O of the server is limited, or waits for its disks."""
        disks = None if self._given is None else self._given.disks
        return bool(self._io_limits) or (disks is not None and disks.sync)

    @contextlib.contextmanager
    def io_unlimited(self) -> Iterator[None]:
        """Lift the limits of the server's I/O; what was written meanwhile is on the disks when
        they hold again. Raises BenchError."""
        assert self._given is not None, "a server without resources has no limits"
        setup = self._setup(self._given)
        try:
            with _io_refused("lifted"):
                lift(self._host, self._io_limits)
                set_sync(self._host, setup, on=False)
            yield
            with _io_refused("set again"):
                write_back(self._host, setup)
        finally:
            with _io_refused("set again"):
                put_back(self._host, self._io_limits)
                set_sync(self._host, setup, on=True)

    def _setup(self, resources: ServerResources) -> ServerSetup:
        group = f"{GROUP_PREFIX}{self._name}"
        mounts = self._mounts(resources.disks)
        return ServerSetup(resources=resources, group=group, mounts=mounts)


@contextlib.contextmanager
def _io_refused(done: str) -> Iterator[None]:
    try:
        yield
    except SettingRefused as refused:
        message = f"the limits of the server's disks cannot be {done}: {refused}"
        raise BenchError("resources-unavailable", message) from None
