"""What else happens on the machine: load, running processes, services, timers, clock sync.

Decision: services by `systemctl` where systemd runs, within the capture's time; else the
names of processes. Other users' command lines are not read: they hold secrets. Sources:
proc(5) stat, sd_booted(3), systemctl(1), adjtimex(2).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from benchwright.machine.asked import Asked
from benchwright.machine.tree import Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, SUSPICIOUS
from benchwright.model.machine import Fact

SYSTEMD = "/run/systemd/system"
LIST_UNITS = (
    *("systemctl", "list-units", "--type=service,timer"),
    *("--state=running,waiting"),
    *("--no-legend", "--plain", "--no-pager", "--full"),
)
_CRON = ("/etc/cron.d", "/var/spool/cron/crontabs", "/var/spool/cron")
_TIME_DAEMONS = ("chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l")
_MOST_PROCESSES = 2048
_MOST_NAMES = 200
_KTHREADD = 2
_PF_KTHREAD = 0x00200000


class Process(NamedTuple):
    """One process, of /proc/PID/stat."""

    pid: int
    name: str
    state: str
    parent: int
    is_kernel: bool


def load_facts(tree: Tree) -> Iterator[Fact]:
    """Yield uptime and load averages, of 1, 5 and 15 minutes."""
    yield tree.fact("load.uptime_s", "/proc/uptime", EXPECTED, _first)
    text, absent = tree.read("/proc/loadavg")
    words = (text or "").split()
    for at, name in enumerate(("1min", "5min", "15min", "running")):
        value = words[at] if at < len(words) else None
        reason = "" if value is not None else absent or "too short"
        yield Fact(f"load.{name}", value, "/proc/loadavg", reason, EXPECTED)


def process_facts(tree: Tree) -> Iterator[Fact]:
    """Yield what runs now, without the kernel's threads, ourselves and who started us."""
    numbers = _user_processes(tree)
    found = [p for p in (_process(tree, n) for n in numbers[:_MOST_PROCESSES]) if p]
    if not found:
        yield missing("process.names", "/proc", "no process can be seen", EXPECTED)
        return
    ours = _own_line(found)
    others = [p for p in found if not p.is_kernel and p.pid not in ours]
    busy = (f"{p.name} {p.state}" for p in others if p.state in "RD")
    daemons = {p.name for p in others}.intersection(_TIME_DAEMONS)
    for name, text, weight in (
        ("process.count", str(len(others)), EXPECTED),
        ("process.names", _counted(p.name for p in others), EXPECTED),
        ("process.running", _counted(busy), EXPECTED),
        ("clock.sync_daemons", ", ".join(sorted(daemons)), SUSPICIOUS),
    ):
        yield known(name, text, "/proc/*/stat", weight)
    if len(numbers) > _MOST_PROCESSES:
        rest = f"not captured: {len(numbers) - _MOST_PROCESSES} more processes"
        yield missing("process.more", "/proc", rest, EXPECTED)


def service_facts(tree: Tree, units: Asked | None) -> Iterator[Fact]:
    """Yield the units of systemd that are active; `units` is `systemctl`'s answer."""
    if units is None:
        reason = "systemd does not run here"
        for name in ("services", "timers"):
            yield missing(f"systemd.{name}", SYSTEMD, reason, SUSPICIOUS)
    else:
        rows = [line.split()[0] for line in (units.text or "").splitlines() if line]
        for name, kind in (("services", ".service"), ("timers", ".timer")):
            of_kind = (row for row in rows if row.endswith(kind))
            text = ", ".join(sorted(of_kind)) if units.text is not None else None
            yield Fact(f"systemd.{name}", text, "systemctl", units.absent, SUSPICIOUS)
    source = "/etc/cron.d and others"
    yield known("cron.files", ", ".join(_cron_files(tree)), source, SUSPICIOUS)


def _cron_files(tree: Tree) -> Iterator[str]:
    """Yield the tables of cron that can be seen; those of users take root."""
    for path in _CRON:
        names = [n for n in tree.names(path) if n not in (".placeholder", "crontabs")]
        yield from (f"{path}/{name}" for name in names)
    if tree.exists("/etc/crontab"):
        yield "/etc/crontab"


def _user_processes(tree: Tree) -> list[str]:
    """Return the processes' numbers, without the kernel's threads where it lists them.

    A large machine has thousands of those; reading of each would take most of a capture.
    """
    kernel = set(tree.text("/proc/2/task/2/children").split())
    return [n for n in tree.names("/proc") if n.isdecimal() and n not in kernel]


def _process(tree: Tree, number: str) -> Process | None:
    """Return a process from its stat line; its name may hold blanks and brackets."""
    head, bracket, tail = tree.text(f"/proc/{number}/stat").rpartition(")")
    pid, _, name = head.partition(" (")
    words = tail.split()
    numbers = (pid, *words[1:2], *words[6:7])
    if not bracket or len(numbers) < 3 or not all(n.isdecimal() for n in numbers):
        return None
    parent, flags = int(words[1]), int(words[6])
    is_kernel = bool(flags & _PF_KTHREAD) or int(pid) == _KTHREADD
    return Process(int(pid), name, words[0], parent, is_kernel)


def _own_line(found: list[Process]) -> set[int]:
    """Return our own process, our parents and the children that we started."""
    parents = {p.pid: p.parent for p in found}
    ours = {os.getpid()}
    ours.update(pid for pid, parent in parents.items() if parent == os.getpid())
    pid = os.getpid()
    while (pid := parents.get(pid, 0)) > 0:
        ours.add(pid)
    return ours


def _counted(names: Iterator[str]) -> str:
    """Return names with how often each comes: `nginx x 4, sshd`."""
    counts = sorted(Counter(names).items())
    each = [name if n == 1 else f"{name} x {n}" for name, n in counts]
    if len(each) > _MOST_NAMES:
        each = [*each[:_MOST_NAMES], f"{len(each) - _MOST_NAMES} more names"]
    return ", ".join(each)


def _first(text: str) -> str:
    return text.split(" ", 1)[0]
