"""How the chance of a false finding is shared out, and what is asked of a series.

Decision: on clean data all findings about the values of a test together appear in at
most 5 % of studies (tests/calibration/test_findings.py). The parts of the kinds are the
constants below; metrics that get the same questions share each part equally (Bonferroni).
Outliers get most: one value at 8 MAD in 30 trials is the hardest thing to see.
Below 10 trials nothing is said: with so few, a finding at these levels is luck.
"""

from __future__ import annotations

import msgspec

from benchwright.stats.aggregate import Column

FEWEST = 10
"""Trials below which nothing is said."""
OUTLIERS = 0.02
WARM_UP = 0.006
MODES = 0.004
DEPENDENT = 0.011
DRIFT = 0.009
DRIFT_OF_OTHERS = 0.004
"""Of the metrics of which nothing but a drift or a leak is asked."""
SUSPECTED = 0.05
"""Dependence at this level widens the tests of warm-up and drift: a slow wave looks like
either, and caution costs little."""

RELEVANT = 0.005
"""A smaller part of the mean that leaving a warm-up out changes, or of the median that a
drift changes where nobody said what matters (`--drift`), is not told: real, for nobody to
act on. The warm-up is left out of the other questions all the same."""


class Series(msgspec.Struct, frozen=True):
    """One metric of one test, and how much is asked of it."""

    test: str
    column: Column
    unit: str
    share: float
    """The part of each level that is this metric's."""
    least_change: float
    """The smallest change over the test that is a drift, as a share of the median; 0 where
    nothing was said."""

    def after(self, cut: int) -> Series:
        """Return the series without its first `cut` values."""
        name, epochs = self.column.name, self.column.epochs[cut:]
        column = Column(name, epochs, self.column.values[cut:])
        return msgspec.structs.replace(self, column=column)
