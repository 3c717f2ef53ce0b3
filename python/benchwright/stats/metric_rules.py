"""The rows of Getstats' table: how each quantity is named, unified and aggregated.

Purpose: one table of rules, so that `bw run`, `bw stats` and the predicates use the same names
and the same aggregation over commands and threads.
Decision: the elapsed time of a trial is the longest thread's, and CPU times are summed (paper,
section 3.3, "aggregating multiple threads into a single value"). Wait is summed over the threads
like CPU times, and CPU% is computed from the aggregated times. (The paper's order, aggregating
first, makes Wait negative when two threads run concurrently.)
Non-goals: no arithmetic here (aggregate.py) and no rendering (report/).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from benchwright.core.plan import MetricSpec

Fold = Literal["max", "min", "sum", "mean"]
TableFold = Literal["sum", "mean", "max", "min", "median", "count"]
TABLE_FOLDS: tuple[str, ...] = get_args(TableFold)
"""Ways to fold many values into one."""
FIXED_COLUMNS = ("trial", "input", "thread", "epoch", "command", "status")
COMPUTED_COLUMNS = ("wait", "cpu_percent")
HEADING_COLUMNS = {"Elapsed": "elapsed", "System": "system", "User": "user", "Wait": "wait"}


class MetricRule(msgspec.Struct, frozen=True):
    """The rules of one quantity."""

    name: str
    """Name in a block's values: `elapsed`, `cpu_percent`, a metric's name."""
    label: str
    """Name in the table's NAME column and in a predicate's `$name`."""
    unit: str = ""
    commands: Fold = "sum"
    """Aggregation over the commands of one thread."""
    threads: Fold = "sum"
    """Aggregation over the threads of one trial."""
    computed: bool = False
    """Derived from other rows: predicates are not evaluated for it."""
    extra: bool = False
    """Always measured by getrusage; in the table only on request."""
    signed: bool = True
    """Whether it can be negative; if not, the bounds of its mean cannot be either."""


_TIMES = (
    MetricRule("elapsed", "Elapsed", "s", threads="max", signed=False),
    MetricRule("system", "System", "s", signed=False),
    MetricRule("user", "User", "s", signed=False),
)
_COMPUTED = (
    MetricRule("wait", "Wait", "s", computed=True),
    MetricRule("cpu_percent", "CPU%", "%", computed=True, signed=False),
)
_EXTRAS = (
    MetricRule(
        "rss_bytes", "rss_bytes", "B", commands="max", threads="max", extra=True, signed=False
    ),
    MetricRule("minor_faults", "minor_faults", extra=True, signed=False),
    MetricRule("major_faults", "major_faults", extra=True, signed=False),
    MetricRule("in_blocks", "in_blocks", "512 B", extra=True, signed=False),
    MetricRule("out_blocks", "out_blocks", "512 B", extra=True, signed=False),
    MetricRule("voluntary_switches", "voluntary_switches", extra=True, signed=False),
    MetricRule("involuntary_switches", "involuntary_switches", extra=True, signed=False),
)
_GAUGES = ("free_memory_bytes", "available_memory_bytes")
"""Values that shipped hooks read at one moment: amounts, not growth."""
_CHANGE = "free_memory_change_bytes"
_GROWTH = (
    _CHANGE,
    *(f"disk_{way}_{what}" for way in ("read", "write") for what in ("operations", "bytes")),
    *(f"network_{way}_{what}" for way in ("receive", "send") for what in ("bytes", "packets")),
    "loopback_bytes",
    "loopback_packets",
    "other_cpu_s",
)
"""Values that shipped hooks count from a measurement's start to its end."""
HOOK_VALUES = (*_GAUGES, *_GROWTH)
_HOOK_VALUE = re.compile(rf"(?:.+_)?({'|'.join(HOOK_VALUES)})")
"""A shipped hook's value, with the remote hook's prefix or without."""
_BUILT_IN = {row.name: row for row in (*_TIMES, *_COMPUTED, *_EXTRAS)}
TIMES = tuple(row.name for row in _TIMES)
EXTRAS = frozenset(row.name for row in _EXTRAS)


class MetricRules:
    """The rules in force for one input: the built-in rows and the declared metrics."""

    def __init__(self, specs: Sequence[MetricSpec] = ()) -> None:
        self.declared = tuple(spec.name for spec in specs)
        self._rows = dict(_BUILT_IN)
        self._least_changes = {spec.name: spec.drift for spec in specs}
        for spec in specs:
            self._rows[spec.name] = _declared(spec)

    def least_change(self, name: str) -> float:
        """Return the smallest change over a test that counts as a drift, as a share of the
        median; 0 where none was given."""
        return self._least_changes.get(name, 0.0)

    def row(self, name: str) -> MetricRule:
        """Return the rules of a quantity. An undeclared one is summed over commands and averaged
        over threads, like a metric for which lower is better."""
        found = self._rows.get(name)
        return found if found is not None else _undeclared(name)

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names in the table's order: Elapsed, System, User, Wait, CPU%,
        declared metrics, other metrics in the order given, getrusage's extras."""
        distinct = tuple(dict.fromkeys(names))
        if len(distinct) < 2:
            return distinct
        fixed = {name: place for place, name in enumerate(_BUILT_IN)}
        order: dict[str, tuple[int, int]] = {}
        for met, name in enumerate(distinct):
            if name in fixed and name not in EXTRAS:
                order[name] = (0, fixed[name])
            elif name in self.declared:
                order[name] = (1, self.declared.index(name))
            else:
                order[name] = (3, fixed[name]) if name in EXTRAS else (2, met)
        return tuple(sorted(order, key=lambda name: order[name]))

    def shown(self, names: Iterable[str], *, everything: bool = False) -> tuple[str, ...]:
        """Return the quantities of the table, in order; extras only if declared or
        if `everything` is set."""
        return tuple(
            name
            for name in self.ordered(names)
            if everything or not self.row(name).extra or name in self.declared
        )

    def judged(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the quantities that a predicate is evaluated for, in order.

        These are Elapsed, System, User and the declared metrics. For a source without
        any of them (a CSV of something else), these are all quantities in its table that
        are not computed.
        """
        present = self.shown(names)
        chosen = tuple(
            name
            for name in present
            if name in TIMES or (name in self.declared and not self.row(name).computed)
        )
        return chosen or tuple(n for n in present if not self.row(n).computed)


def _undeclared(name: str) -> MetricRule:
    """Return the rules of a quantity that was not declared.

    A gauge of a shipped hook, such as free memory, is averaged over commands, because a sum
    of amounts is meaningless.
    """
    hook = _HOOK_VALUE.fullmatch(name)
    commands: Fold = "mean" if hook and hook[1] in _GAUGES else "sum"
    signed = hook is None or hook[1] == _CHANGE
    return MetricRule(name, name, commands=commands, threads="mean", signed=signed)


def _declared(spec: MetricSpec) -> MetricRule:
    """Return the rules of a declared metric; built-in names keep theirs by default.

    A shipped hook's value is for the whole machine and the same for each thread, so it is
    averaged over threads even where higher is better.
    """
    base = _BUILT_IN.get(spec.name)
    if base is None and _HOOK_VALUE.fullmatch(spec.name):
        base = _undeclared(spec.name)
    default: Fold = "sum" if spec.better == "higher" else "mean"
    if spec.across_threads != "default":
        threads: Fold = spec.across_threads
    else:
        threads = base.threads if base else default
    if base is None:
        return MetricRule(spec.name, spec.name, spec.unit, threads=threads, signed=spec.unit != "s")
    return msgspec.structs.replace(base, unit=spec.unit or base.unit, threads=threads)
