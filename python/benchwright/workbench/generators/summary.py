"""From a generator's own summary to a trial's values, where it logs no operations.

Decision: a summary's percentiles are of the operations that succeeded. One whose rank
lies among those that failed is infinite; the others stand as they are, a little low when
some failed. The exact way is a log of operations (operations.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from benchwright.model.peak import Criterion
from benchwright.workbench.criteria import percentile_key
from benchwright.workbench.generators.operations import ALWAYS, ERRORS, MEAN


def wanted_shares(criteria: Iterable[Criterion]) -> tuple[float, ...]:
    """Return the percentiles to ask a generator for, as shares in order."""
    wanted = {one.share for one in criteria if one.statistic == "percentile"}
    return tuple(sorted({*ALWAYS, *(share for share in wanted if share is not None)}))


def values_of(
    mean_ms: float | None, percentiles: Mapping[float, float], failed: float
) -> dict[str, float]:
    """Return values by key of a mean [ms], percentiles by share [ms], and the share of
    operations that failed."""
    found = {ERRORS: failed}
    if mean_ms is not None:
        found[MEAN] = mean_ms
    for share, ms in percentiles.items():
        found[percentile_key(share)] = ms if share <= 1 - failed else math.inf
    return found
