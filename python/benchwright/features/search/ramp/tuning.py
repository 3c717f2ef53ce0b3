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
UNEQUAL_NOISE = 3.84
"""Gain of twice the log likelihood from which on noise changes with the level: in 5 % of ramps
where it does not. Without this limit the intervals of such ramps cover 88 instead of 93 % (kappa).
"""
USUAL_EXPONENT = 0.5
"""Standard deviation of the exponent of the variance over the level, by which it is drawn towards
0; 1 gives kappa of profiles with equal noise 88 % coverage, and does not help where noise is
unequal."""

# -- the end of a ramp (policy.py) ------------------------------------------------------------

MOST_FAILURES = 2
"""Consecutive failures at one level that end a ramp: a single one may be chance."""

# -- findings (profile.py) ----------------------------------------------------------------------

LACK_OF_FIT_P = 0.01
"""P-value of the lack-of-fit test below which the law does not fit."""
FEWEST_REPETITIONS = 3
"""Minimum of repeated trials for a variance between runs: with fewer, the coverage of 95 %
intervals is 52 to 91 %."""
DRIFT_P = 0.04
"""P-value below which the machine's speed changed: steady machines have the finding in at most 5 %
of ramps, and half of those whose runs correlate by 0.7 have it."""
RELEVANT_CHANGE = 0.005
"""A change of a smaller share is no finding, as in a series of trials."""
