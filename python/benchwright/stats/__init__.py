"""Estimators, summaries, aggregation of threads and commands, overheads, z-scores.

Pure: plain arrays and frozen records in, frozen records out; no clock, file or random
source. scipy.special gives the quantiles; scipy.stats is only the oracle in tests,
because importing it costs half a second. Sources: papers/auto-pilot.txt section 3.3.
"""
