"""Every tuned constant of a ramp, each with its reason."""

from __future__ import annotations

# -- the throughput of a trial (levels.py) --------------------------------------------------

FEWEST_VARIANCE_BINS = 4
"""A series with fewer bins gives no variance; half of ten bins, after a warm-up, is enough."""
WARM_UP_P = 0.01
"""A warm-up is removed where its test has a lower P-value: in one clean run of a hundred."""
KEPT_UP_SHARE = 0.95
"""A run that ended this share of its arrivals completed in each second what arrived in it, so that
its counts of arrivals show its noise."""

# -- the end of a ramp (policy.py) ------------------------------------------------------------

MOST_FAILURES = 2
"""Consecutive failures at one level that end a ramp: a single one may be chance."""

# -- findings (profile.py) ----------------------------------------------------------------------

LACK_OF_FIT_P = 0.01
"""P-value of the lack-of-fit test below which the law does not fit."""
FEWEST_REPETITIONS = 3
"""Minimum of repeated trials for a variance between runs: with fewer, the coverage of 95 %
intervals is 52 to 91 %."""
