"""Every tuned constant of the peak search with its reason, in the order in which a search uses
them.

Purpose: one table in which a constant can be found and discussed. The modules that use the
constants contain only numbers that are no choice, and rounding. Constants with the same prefix
belong together. Decision: the constants were set on the simulated servers of tests/sim
(docs/peak-method.md, "Simulated machines"); the calibration tests measure their effect. The
parameters of the workbench paper's policies are published and not tuned; they are in published.py.
Units: `_S` is seconds, `_Z` standard errors; every other constant is a share, a ratio or a count,
as its text says. A text that begins with `...` continues the one above.
"""

from __future__ import annotations

import math

# -- what several rules mean by the same word ----------------------------------------------------

CERTAIN_Z = 4.0
"""Standard errors from which a difference is certain."""
CONFIRMED_TRIALS = 2
"""Trials, or pairs of them, that confirm each other; trials at a rate by which one side must exceed
the other;"""
ENOUGH_TRIALS = 3
"""... trials of one kind (at a rate, on a side, void) after which their majority decides;"""
MANY_TRIALS = 9
"""... trials that are made at most while they contradict the answer, or are void."""
SAME_RATE = 0.02
"""Rates, and responses of a curve, that differ by at most this share are the same: less is
interpolation, and rounding of a generator."""
NEAR_RATES = 1.25
"""Rates within this ratio are beside each other."""
FAR_LIMITS = 2.0
"""A response beyond this multiple of the limit, or below its inverse, is far from it."""
QUIET_LIMITS = 0.75
"""A response below this share of the limit is a quiet server's."""
FEWEST_OPERATIONS = 10.0
"""Operations of a kind that a trial lasts for: at 0.05/s ten seconds show nothing."""
SHORTEST_S = 1.0
"""Length of the shortest trial, and of the closed loop with which a search begins."""
LOOKS_S = 5
"""The least age at which a running trial is left; after twice as long it is looked at so often; a
smaller budget has no time for a first guess."""

# -- bounds: the lowest and highest rate of a search (policy.py) --------------------------------

LOWEST_SHARE = 2.0**-10
"""Lowest rate, as a share of the start rate; the highest one is as far above it, where that is more
than `HIGHEST_RATE`."""
DESCENT_SHARE = 2.0**-3
"""A search may descend to this share of the start rate, even if a run then has few arrivals."""
LOWEST_RUN_LIMITS = 40.0
"""A run at the lowest rate is at least this many times the largest limit of a response."""
HIGHEST_RATE = 1e6
"""More operations per second than a generator on one machine can start. Without a highest rate, a
search on a server with a constant response requested 5e7/s."""

# -- what every policy shares: budget, bounds, repeated trials (search.py, trials.py) -----------

BUDGET_USEFUL_SHARE = 0.25
"""The rest of a budget is used if it is at least this share of the next probe's length."""
BUDGET_CLIMB_SHARE = 0.02
"""A probe far from the limit takes at most this share of a budget,"""
BUDGET_RUN_SHARE = 0.04
"""... and one near the limit this one; `CONTRARY_LONGER` times as much where shorter runs
contradict each other, began cold, or show too few operations that are worse than a limit."""
MOST_AT_BOUND = 4
"""Trials at a bound after which the search ends if the policy stays there."""
MOST_BETWEEN_STEPS = 24
"""Trials at the two rates beside one that the generator cannot produce."""
MOST_AT_ONE_RATE = 60
"""Maximum of trials at one rate, for any policy: another trial would reduce the error of their mean
by less than 1 %. The maximum in 1,094 simulated searches (`make peak-ends`) was 43."""
BEHIND_SHARE = 0.95
"""Who offers, or completes, less than this share of what was intended is behind."""
CEILING_ENDED_RATIO = 1.05
"""A generator is at its ceiling if at two rates that are not beside each other the rates of ended
operations have at most this ratio."""

# -- the first guess: a closed loop (search.py) ----------------------------------------

GUESS_SHARE = 0.75
"""The first rate, as a share of what the closed loop completed: it has no bursts of arrivals."""

EARLIER_SHARE = 0.1
"""How far from an earlier search's peak the first two trials are, as a share of it; as far as the ends
of its interval, where these are farther. The mean of 24 searches of an M/M/4 that had not changed was
248 s; 260 s with 25 %, 285 s from the peak itself on, 309 s without an earlier search."""

# -- trials that a late generator spoilt (trials.py) ---------------------------------

VOID_BEYOND = 3.0
"""A trial whose generator was late by much of the limit is void up to this multiple of the limit:
its operations came in bursts."""
VOID_MOST_SHARE = 0.34
"""Many void trials end a search if they are at least this share of all."""
LATE_SHARE = 0.1
"""Lateness (p99) that is reported, as a share of the smallest limit;"""
LATE_MUCH = 0.5
"""... and that makes a trial void, and an answer doubtful."""
LATE_BURST = 20.0
"""Operations that come at once after a lateness, which a server may refuse where it would not
refuse them in time."""

# -- lengths of runs (reading.py) ----------------------------------------------------------------

USUAL_LIMIT_S = 0.040
"""Limit for which `UNSTEADY_BRIEF_S`, and the least time of a surface's search, apply."""
LEAST_TIME_SCALE = 0.25
"""Smallest scale of the lengths: the noise of a real machine has a time scale of about a second,
and batch means need bins."""

# -- noise of one run: batch means (reading.py) ----------------------------------------------------

FEWEST_BATCHES = 5
"""A run with fewer batches shows nothing of its own noise."""
MOST_BATCHES = 8
"""With few batches each grows with the run, and the correlation between them fades."""
BATCH_TRUST = 0.25
"""Share of the batches' degrees of freedom that counts. The mean of their noise is right, but
batches are correlated and skewed, so that their noise is usually too low and rarely far too high.
With 0.45, `region:10%` held in 78 of 100 searches on three servers with heavy tails, at the same
cost."""

OWN_NOISE_OF_PERCENTILES = 2.5
"""A run's percentile is decided by its few excursions, and its bins' percentiles vary less than it:
its noise is this many times that of its batches. Measured on M/M/1, p95 at 6.7 services: 2.6."""

# -- warm-up (reading.py) --------------------------------------------------------------

WARM_UP_LEAST_S = 2.0
"""Always left out of a run: the first moments of the empty server."""
WARM_UP_SHARE = 0.3
"""Minimum share of every run that is left out. With 0.12, 4 of 12 claims of the region failed on a
server that is 15 % slower at first and recovers with 8 s, and none with this; it takes hardly more
load."""
COLD_Z = 2.0
"""What counts of steady runs must be slower in its first half by so many standard errors of
Wilcoxon's test (five runs of five),"""
COLD_LEAST = 0.05
"""... and by this share in the median. Then"""
COLD_LEFT_OUT = 0.5
"""... this share of each run is left out, and if that is not enough the runs are too short;"""
COLD_FAILS_FROM = 2.0
"""... a failure counts nevertheless at this multiple of the highest rate that held."""

# -- overload and capacity (reading.py) ------------------------------------------------

OVERLOAD_GROWTH = 1.25
"""A response grows if the last quarter is at least this many times the middle half."""
UNSTEADY_LIMITS = 8.0
"""A mean beyond this many limits has no steady state. In a run whose queue never empties, the
response of the last half is above it and still grows. Near the capacity a queue has temporary
excursions. If these counted as overload, each would give a low capacity and be missing among the
responses: with heavy tails the answers were
0.6 % too high, and right in 84 searches of 100."""
UNSTEADY_BRIEF_S = 30.0
"""A mean that is far beyond the limit has no steady state in a shorter run: where a queue begins to
grow from empty, the mean is a matter of the length. One probe of the climb with 6.9 limits, above
the capacity, moved an answer by 4 %."""
LEAST_SHARE_OF_LIMIT = 1e-3
"""Lower bound for a share of the limit: an error ratio is 0 at low loads, and a logarithm is
needed."""

# -- runs that are too short for a server (reading.py) ---------------------------------

CONTRARY_LONGER = 3.0
"""Where two runs contradict each other, one that is about this many times as long is believed;
otherwise both are left out, and the next runs are so much longer."""

# -- each load alone (monotone_posterior.py) -------------------------------------------

LOAD_SURE = 0.995
"""Maximum probability from a single load: one run may be exceptional."""
IDLE_SHARE = 0.05
"""A value below this share of its limit counts as this share."""
LEAST_ERROR = 0.01
"""A curve takes no load's value to be more certain: its error comes from few values."""

# -- the monotone search: its posterior (monotone_posterior.py) ------------------------

PARABOLA_NEAR = (0.55, 1.8)
"""Responses near the limit, as shares of it: for them the parabola is used, and one above
contradicts one below at a higher rate."""
BEND_ERROR = 0.12
"""Relative error of the parabola at a response e times the limit; it grows with the squared
logarithm."""
STEEPNESS_RANGE = (0.7, 70.0, 18)
"""Elasticities of the response to the rate at the limit: from, to, how many (geometric)."""
BENDS = (-0.5, 0.5, 1.5)
"""Bends of the logarithm: 1 for a pole without a base, about 0 for errors."""
NOISE_RANGE_S = (0.05, 40.0, 12)
"""Relative variance of a run's mean at the limit, times its length: from, to, how many."""
PARABOLA_NOISE_PRIOR = (math.log(2.5), 1.0)
"""Centre and standard deviation of its logarithm. With 1.2 and 1.3, and three runs near the limit,
searches of the kink kept their claim in 87 to 92 %, at 1 % less load."""
BLIND_NOISE_S = 2.0
"""The noise of a run that does not show its own (relative variance of its mean, times its length).
"""
PEAK_POINTS = 120
"""Rates of the grid."""

# -- the monotone search: runs and stop rule (monotone.py) -----------------------------

MONOTONE_FEWEST_NEAR = 6
"""Minimum of runs near the limit, so that the variation between runs is visible."""
MONOTONE_CLIMB_S = 20.0
"""Length of a probe far from the limit, and of one at the lowest rate."""
MONOTONE_RUNS_S = (60.0, 180.0)
"""Minimum and maximum length of a run near the limit,"""
MONOTONE_RELAXATIONS = 80.0
"""... and between these this many times its noise [s]: short runs rarely meet the excursions of a
heavy tail. With 40, `region:10%` held in 4 searches of 100 fewer on twelve servers, at 8 % less
load."""
MONOTONE_WIDE = 0.25
"""Logarithmic width of the peak's distribution below which long runs are made."""
MONOTONE_LEAVE_Z = 7.0
"""A probe may be left if its value is far from the limit by this many standard errors."""
MONOTONE_RATE_STEP = 0.3
"""Runs above the answer aim at a response this much higher than those below it, as a share of the
limit, or by the claim's tolerance if that is less and the claim needs no steepness. With 0.05 the
searches of seven simulated queues took 1.4 to 2.0 times as long; 0.2 to 0.4 are equal, 1.0 takes
1.3 times as long."""

# -- a failure is confirmed, and the answer checked (monotone.py, check.py) ------------

CHECK_APART = 0.05
"""Distance of the check from the answer, as a share of the rate; farther where the response differs
less than the claim allows. Runs so near a jump show the responses on its sides. At most"""
CHECK_MOST_APART = 0.25
"""... this share."""
ANSWER_UNSEEN = 0.03
"""Half width of every interval at least: what runs of one length do not show (the bias of short
ones, the bend)."""
ROUGH_ANSWER = 0.1
"""An answer without its claim is doubtful if its interval reaches this share beyond it."""
MOVED_LEAST_RUNS = 4
"""Runs before and after a change with time, at least."""

# -- a jump of the response across the region (check.py) -------------------------------

JUMP_NARROW = 0.01
"""Maximum relative distance of two rates for a jump between them, and the least one from a rate
that failed."""

# -- diagnosis: overload completes less than was served before; errors while the response is flat
# (diagnostics.py) ---

DROP_LEAST = 0.1
"""Overload must complete less by this share than a trial that held, beyond the error of independent
operations."""
SHEDDING_ERRORS = 0.002
"""Above this share of errors a server refuses requests and does not only fail by chance."""

# -- diagnosis: pauses at even distances (diagnostics.py) ------------------------------

PAUSE_SPIKE = 2.2
"""A bin above this multiple of its run's median is a spike."""
PAUSE_FEWEST_BINS = 8
"""Only runs with at least this many bins are examined."""
PAUSE_FEWEST_GAPS = 6
"""Minimum of gaps between spikes, over all runs."""
PAUSE_EVEN = 0.85
"""Share of the gaps that must be alike."""
PAUSE_SAME = 1.01
"""Gaps that differ by at most this many bins are alike."""
PAUSE_LEAST_BINS = 5.0
"""Minimum length of a gap in bins: shorter gaps would be alike by chance."""
PAUSE_MOST_SPIKES = 0.4
"""Maximum share of a run's bins that are spikes."""
