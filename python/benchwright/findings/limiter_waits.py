"""Waits as a limit: no thread of the trial ran or was ready, because all waited for something.

Purpose: a trial that neither uses a CPU nor fills a resource is limited by what it waits for.
Decision: these limits come last, because a wait is the effect of any other limit; they are named
only if the trial waited most of the time that it did not want a CPU. A load generator waits by its
nature, so its waits are only part of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.resource_use import ResourceUse, WaitUse
from benchwright.core.results import Figure, FindingFigures, Value, states
from benchwright.core.text import duration_text, list_text, percent_text
from benchwright.findings import thresholds as t
from benchwright.findings.codes import SLEPT, WAITED
from benchwright.findings.limit import LimitReached
from benchwright.findings.programs import is_generator
from benchwright.findings.sentence import sentence

WAIT_CODES = {
    "disk": "waits-for-disk",
    "network": "waits-for-network",
    "locks": "waits-for-locks",
    "pipe": "waits-for-pipe",
    "sleep": "sleeps",
}
"""The code of each kind of wait that has one."""


def waits(use: ResourceUse) -> Iterator[LimitReached]:
    """Yield what the trial waited for most of the time in which it did not want a CPU."""
    off = use.off_cpu
    if off is None or any(task.of == "own" and is_generator(task.name) for task in use.tasks):
        return
    if off.samples < t.FEWEST_SAMPLES:
        return
    # What no sample saw run or wait for a CPU looks like waiting for something else.
    seen = off.samples / off.watched if off.watched else 1.0
    most = min(seen / off.share, 1.0) if off.share else 0.0
    ready = min(sum(task.waiting or 0.0 for task in use.tasks if task.of == "own"), 1.0)
    for wait in off.waits:
        code = WAIT_CODES.get(_kind(wait, use))
        least = max(t.WAITS_MOST * (1.0 - ready), t.WAITS_SOME)
        if code is not None and wait.share * most >= least:
            yield LimitReached(code, wait.what or wait.name, _statement(wait, use))


def what_it_waited_for(use: ResourceUse) -> dict[str, Value]:
    """Return what the trial waited for, as values of WAITED or SLEPT, or as `waits`, a text; empty
    if it hardly waited, or if that is not known."""
    off = use.off_cpu
    if off is None or off.share < t.WAITS_SOME:
        return {}
    waited = [wait for wait in off.waits if wait.share >= t.WAITS_SOME / 2]
    if len(waited) == 1:
        return _statement(waited[0], use).named
    each = [_wait_text(wait, use) for wait in waited]
    return {
        "waits": list_text(each) if each else f"it waited {percent_text(off.share)} of the time"
    }


def _kind(wait: WaitUse, use: ResourceUse) -> str:
    """Return the kind of a wait; that for completions of a ring depends on what the trial read and
    wrote, and a fault of a page waits for a disk only if pages were read."""
    losses = use.losses
    if wait.call == "page fault" and losses is not None and losses.major_faults == 0:
        return "other" if wait.kind == "disk" else wait.kind
    if wait.kind != "ring":
        return wait.kind
    io = use.own_io
    return "disk" if io is not None and io.read_bytes + io.write_bytes else "other"


def _wait_text(wait: WaitUse, use: ResourceUse) -> str:
    """Return `waited 91 % of the time for locks (python3 in futex; 20 samples)`."""
    return sentence(SLEPT if _kind(wait, use) == "sleep" else WAITED, _statement(wait, use))


def _statement(wait: WaitUse, use: ResourceUse) -> FindingFigures:
    assert use.off_cpu is not None
    kind = _kind(wait, use)
    where = f"{wait.name} in {wait.call or wait.channel}"
    of_file = kind == "disk" or wait.what.startswith("memory ")
    path = wait.what.partition(" ")[2] if of_file else ""
    if path:
        where += f" of {path}"
    if kind in ("disk", "other") and wait.call and wait.channel:
        where += f", {wait.channel}"
    if kind == "sleep" and wait.call and "nanosleep" not in wait.call:
        where += ", with a time limit"
    elif wait.threads > 1:
        where += f", up to {wait.threads} threads"
    disk, each = _disk_texts(wait, use)
    if kind == "disk" and each:
        where = f"{each}; {where}"
    whom = {"disk": disk, "network": _peer_text(wait.what), "locks": "locks", "pipe": "a pipe"}.get(
        kind, _other_text(wait)
    )
    share = Figure(min(wait.share, 1.0), "%")
    return states(
        **{"slept" if kind == "sleep" else "share": share},
        whom=None if kind == "sleep" else whom,
        detail=where,
        samples=use.off_cpu.samples,
    )


def _disk_texts(wait: WaitUse, use: ResourceUse) -> tuple[str, str]:
    """Return which disk, and how long each request took; empty if that is not known."""
    if wait.channel.startswith(("rpc_", "nfs", "request_wait_answer", "fuse")):
        return "the server of a file system", ""
    if wait.call == "page fault":
        return "pages of memory that had to be read", ""
    used = max(use.disks, key=lambda disk: disk.queue, default=None)
    if wait.threads > 1 or used is None or used.response_s is None:
        alone = ", one request at a time" if wait.threads == 1 else ""
        return f"the disk{alone}", ""
    each = f"{duration_text(used.response_s)} each"
    return f"the disk {used.name}, one request at a time", each


def _peer_text(what: str) -> str:
    address = what.partition(" ")[2]
    first, _, rest = address.partition(" ")
    if first == "listen":
        return f"connections to {rest}"
    if first == "bound":
        return f"datagrams to {rest}"
    return f"the network peer {address}" if address else "a local socket"


def _other_text(wait: WaitUse) -> str:
    if wait.call in ("wait4", "waitid", "vfork", "clone", "clone3"):
        return "another process"
    if wait.what.startswith("device "):
        return wait.what.partition(" ")[2]
    if wait.what.startswith("memory "):
        return "a file in memory"
    if "futex" in (wait.call, wait.channel.partition("_")[0]):
        return "its own threads, or for a time"
    if wait.kind == "ring":
        return "asynchronous I/O"
    if wait.call in ("rt_sigsuspend", "rt_sigtimedwait", "pause"):
        return "a signal"
    return "something else"
