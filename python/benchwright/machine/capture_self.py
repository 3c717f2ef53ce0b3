"""What we ourselves may use: affinity, limits, rights; what is measured inherits it.

Sources: proc(5), getrlimit(2). The cgroups are in capture_cgroup.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchwright.machine.tree import NOT_IN_FILE, Tree, known, missing
from benchwright.machine.vocabulary import EXPECTED, FATAL, SUSPICIOUS
from benchwright.model.machine import Fact

_STATUS = "/proc/self/status"
_LIMITS = "/proc/self/limits"
_STATUS_ROWS = (
    ("self.cpus_allowed", "Cpus_allowed_list", FATAL),
    ("self.memory_nodes_allowed", "Mems_allowed_list", FATAL),
    ("self.seccomp", "Seccomp", SUSPICIOUS),
    ("self.capabilities", "CapEff", SUSPICIOUS),
    ("self.transparent_hugepages", "THP_enabled", SUSPICIOUS),
)


def self_facts(tree: Tree) -> Iterator[Fact]:
    """Yield what this process, and what it starts, may use."""
    text, absent = tree.read(_STATUS)
    pairs = dict(
        line.split(":", 1) for line in (text or "").splitlines() if ":" in line
    )
    for name, key, weight in _STATUS_ROWS:
        value = pairs.get(key)
        if value is None:
            yield missing(name, _STATUS, absent or NOT_IN_FILE, weight)
        else:
            yield known(name, value.strip(), _STATUS, weight)
    yield _user(pairs, absent)
    yield tree.fact("self.oom_score_adj", "/proc/self/oom_score_adj")
    yield tree.fact("self.autogroup", "/proc/self/autogroup", EXPECTED)
    yield from _limits(tree)


def _user(pairs: dict[str, str], absent: str) -> Fact:
    """Return the effective user id: what could be had depends on it."""
    words = pairs.get("Uid", "").split()
    if len(words) < 2:
        return missing("self.user_id", _STATUS, absent or NOT_IN_FILE, SUSPICIOUS)
    return known("self.user_id", words[1], _STATUS, SUSPICIOUS)


def _limits(tree: Tree) -> Iterator[Fact]:
    """Yield the resource limits: soft, hard."""
    text, absent = tree.read(_LIMITS)
    if text is None:
        yield missing("limit", _LIMITS, absent, SUSPICIOUS)
        return
    for line in text.splitlines()[1:]:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) >= 3:
            name = cells[0].removeprefix("Max ").replace(" ", "_")
            value = f"{cells[1]}, hard {cells[2]}"
            yield known(f"limit.{name}", value, _LIMITS, SUSPICIOUS)
