"""Estimators, summaries, aggregation of threads and commands, overheads, z-scores.

Pure: plain arrays and frozen records in, frozen records out; no clock, file or random
source. scipy.special gives the quantiles; scipy.stats is only the oracle in tests,
because importing it costs half a second. Sources: Auto-pilot paper, section 3.3.

The names of `__all__` are the Python API (docs/stats.md). They are looked up when they
are first used, so that importing this package loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchwright.stats.describe import summarise
    from benchwright.stats.multiplicity import benjamini_hochberg, holm
    from benchwright.stats.normality import anderson_darling
    from benchwright.stats.rank import (
        brunner_munzel,
        hodges_lehmann,
        mann_whitney,
        rank_test,
    )
    from benchwright.stats.students_t import t_interval
    from benchwright.stats.table import Table
    from benchwright.stats.transform import (
        aggregate_rows,
        derive,
        group,
        select,
        unify,
        warn,
    )
    from benchwright.stats.two_sample import (
        equivalence,
        ratio_equivalence,
        ratio_of_means,
        t_test,
        variance_test,
    )
    from benchwright.stats.zscore import z_scores

__all__ = [
    "Table",
    "aggregate_rows",
    "anderson_darling",
    "benjamini_hochberg",
    "brunner_munzel",
    "derive",
    "equivalence",
    "group",
    "hodges_lehmann",
    "holm",
    "mann_whitney",
    "rank_test",
    "ratio_equivalence",
    "ratio_of_means",
    "select",
    "summarise",
    "t_interval",
    "t_test",
    "unify",
    "variance_test",
    "warn",
    "z_scores",
]

_HOMES = {
    "describe": ("summarise",),
    "multiplicity": ("benjamini_hochberg", "holm"),
    "normality": ("anderson_darling",),
    "rank": ("brunner_munzel", "hodges_lehmann", "mann_whitney", "rank_test"),
    "students_t": ("t_interval",),
    "table": ("Table",),
    "transform": ("aggregate_rows", "derive", "group", "select", "unify", "warn"),
    "two_sample": (
        "equivalence",
        "ratio_equivalence",
        "ratio_of_means",
        "t_test",
        "variance_test",
    ),
    "zscore": ("z_scores",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return a name of the API from the module that it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
