"""Estimators, summaries, aggregation of threads and commands, overheads, z-scores.

Pure: the input is plain numbers, arrays and frozen records, the output frozen records; no clock,
files or randomness. `special` has the distribution functions; tests compare them with scipy.
Source: Auto-pilot paper, section 3.3.

The names in `__all__` are the Python API (docs/stats.md). Each is loaded at its first use, so that
importing this package loads no other module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchwright.stats.aggregate import summarise
    from benchwright.stats.input_comparison import benjamini_hochberg, holm
    from benchwright.stats.intervals import t_interval
    from benchwright.stats.sample import anderson_darling, z_scores
    from benchwright.stats.table import Table, aggregate_rows, derive, group, select, unify, warn
    from benchwright.stats.two_sample import (
        brunner_munzel,
        equivalence,
        hodges_lehmann,
        mann_whitney,
        rank_test,
        ratio_equivalence,
        ratio_of_means,
        t_test,
        variance_test,
    )


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

_HOME = {
    "Table": "table",
    "aggregate_rows": "table",
    "anderson_darling": "sample",
    "benjamini_hochberg": "input_comparison",
    "brunner_munzel": "two_sample",
    "derive": "table",
    "equivalence": "two_sample",
    "group": "table",
    "hodges_lehmann": "two_sample",
    "holm": "input_comparison",
    "mann_whitney": "two_sample",
    "rank_test": "two_sample",
    "ratio_equivalence": "two_sample",
    "ratio_of_means": "two_sample",
    "select": "table",
    "summarise": "aggregate",
    "t_interval": "intervals",
    "t_test": "two_sample",
    "unify": "table",
    "variance_test": "two_sample",
    "warn": "table",
    "z_scores": "sample",
}


def __getattr__(name: str) -> Any:
    """Return a name of the API from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
