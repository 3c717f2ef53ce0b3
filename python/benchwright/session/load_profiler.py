"""The profiler of a search's loads: the server and its generator, without `bw` itself.

Decision: perf follows `bw` and everything below it, since `bw` itself starts a load engine;
what is `bw`'s own is taken out of the samples afterwards. A policy that thinks while a load
runs would else stand in the server's flame graph. Source: proc(5), `children`.
"""

from __future__ import annotations

from pathlib import Path

from benchwright.probe.observer import Watch
from benchwright.probe.profile import Draw, Profiler


class LoadProfiler(Profiler):
    """A profiler whose samples are of what is measured only."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self._own: frozenset[int] = frozenset()

    def begin(self, watch: Watch) -> None:
        """Begin to sample. Raises ObserverError `profile-unavailable`."""
        # Before a load the only children are the launcher and the sampler; a server that
        # runs already is the launcher's.
        self._own = frozenset((*watch.watcher_pids, *_children(watch.root_pid)))
        super().begin(watch)

    def end(self) -> None:
        """End it and read the samples. Raises ObserverError `profile-unavailable`."""
        super().end()
        self.samples = [one for one in self.samples if one.pid not in self._own]


def _children(pid: int) -> tuple[int, ...]:
    """Return the children of a process now; none where the kernel does not list them."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return ()
    return tuple(map(int, text.split()))
