"""Every tuned constant of a ramp, each with its reason."""

from __future__ import annotations

# -- the throughput of a trial (levels.py) --------------------------------------------------

FEWEST_VARIANCE_BINS = 4
"""A series with fewer bins gives no variance. Half of ten bins, after a warm-up, must do."""
WARM_UP_P = 0.01
"""A warm-up is cut off where its test has a lower P-value: one clean run in a hundred."""
KEPT_UP_SHARE = 0.95
"""A run that ended this share of its arrivals did in each second what arrived in it, so that
the counts of its arrivals show its noise."""

# -- the end of a ramp (policy.py) ------------------------------------------------------------

MOST_FAILURES = 2
"""Failures at one level in a row that end a ramp: the first may have been chance."""

# -- findings (profile.py) ----------------------------------------------------------------------

LACK_OF_FIT_P = 0.01
"""P-value of the lack-of-fit test below which the law does not fit."""
FEWEST_REPETITIONS = 3
"""Repeated trials for a variance between runs: with fewer, intervals at 95 % cover in 52 to
91 %."""
