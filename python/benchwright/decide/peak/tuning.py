"""Every tuned constant of the peak search with its reason, in the order in which a search uses them.

Purpose: one table in which a constant can be found and discussed. The modules that use the constants
contain no numbers of their own. Constants with the same prefix belong together.
Decision: the constants were set on the simulated servers of tests/sim (docs/peak-method.md, "Simulated servers");
the calibration tests measure their effect. The parameters of the workbench paper's policies are
published and not tuned; they are in published.py.
Units: `_S` is seconds, `_Z` standard errors, `_SD` a standard deviation; every other constant is a
share, a ratio or a count, as its text says. A text that begins with `...` continues the one above.
"""

from __future__ import annotations

import math

# -- bounds: the lowest and highest rate of a search (policy.py) --------------------------------

LOWEST_SHARE = 2.0**-10
"""Lowest rate, as a share of the start rate."""
DESCENT_SHARE = 2.0**-3
"""A search may descend to this share of the start rate, even if a run then has few arrivals."""
FEWEST_ARRIVALS = 20.0
"""Expected arrivals of a run at the lowest rate. One trial at a thousandth of the start rate took
longer than the rest of its search and had ten operations."""
LOWEST_RUN_S = 20.0
"""Length of that run, unless the user sets a longer one;"""
LOWEST_RUN_LIMITS = 40.0
"""... at least this many times the largest limit of a response."""
HIGHEST_SHARE = 2.0**10
"""Highest rate, as a multiple of the start rate, where that is above `HIGHEST_RATE`."""
HIGHEST_RATE = 1e6
"""More operations per second than a generator on one machine can start. Without a highest rate, a
search on a server with a constant response requested 5e7/s."""

# -- what every policy shares: budget, bounds, repeated trials (search.py, trials.py) -----------

BUDGET_USEFUL_SHARE = 0.25
"""The rest of a budget is used if it is at least this share of the next probe's length."""
BUDGET_SHORTEST_S = 1.0
"""A probe of a small budget is at least this long;"""
BUDGET_CLIMB_SHARE = 0.02
"""... far from the limit it takes at most this share of the budget,"""
BUDGET_RUN_SHARE = 0.04
"""... near the limit this one,"""
BUDGET_LONGEST_SHARE = 0.12
"""... and where shorter runs contradict each other this one."""
PROBE_FEWEST_OPERATIONS = 10
"""A probe lasts until this many operations are expected: at 0.05/s ten seconds show nothing."""
MOST_AT_BOUND = 4
"""Trials at a bound after which the search ends if the policy stays there."""
BEYOND_OFFERED = 1.02
"""A rate is beyond what a generator offered if it is this many times as high."""
MOST_BETWEEN_STEPS = 24
"""Trials at the two rates beside one that the generator cannot produce."""
MOST_AT_ONE_RATE = 60
"""Maximum of trials at one rate, for any policy: another trial would reduce the error of their mean
by less than 1 %. The maximum in 1,094 simulated searches (`make peak-ends`) was 43."""
BEHIND_SHARE = 0.95
"""A generator that offers less than this share of its intended rate is behind,"""
BEHIND_DEVIATIONS = 4.0
"""... if the count is also this many Poisson standard deviations too low."""
CEILING_RATE_RATIO = 1.5
"""A generator is at its ceiling if, at two rates with this ratio,"""
CEILING_ENDED_RATIO = 1.05
"""... the rates of ended operations have at most this ratio."""

# -- the first guess: a closed loop (search.py) -----------------------------------------------------

GUESS_S = 1.0
"""Length of the closed loop with which a search begins."""
GUESS_LEAST_BUDGET_S = 5.0
"""A smaller budget has no time for it."""
GUESS_SHARE = 0.75
"""The first rate, as a share of what the closed loop completed: it has no bursts of arrivals."""

# -- trials that a late generator spoilt (lateness.py) -----------------------------------------------

VOID_BEYOND = 3.0
"""A trial whose generator was late by much of the limit is void up to this multiple of the limit: its operations came
in bursts."""
VOID_TRIALS = 3
"""A rate whose trials were void so often, and never usable, cannot be tested;"""
VOID_STEP = 1.25
"""... then lower ones are tried, until one that held is within this ratio of it,"""
VOID_MOST = 12
"""... or so many trials were void,"""
VOID_MOST_SHARE = 0.34
"""... which are at least this share of all."""
LATE_SHARE = 0.1
"""Lateness (p99) that is reported, as a share of the smallest limit;"""
LATE_MUCH = 0.5
"""... and that makes an answer doubtful,"""
LATE_BURST = 20.0
"""Operations that come at once after a lateness, which a server may refuse where it would not refuse them in time;"""
LATE_BESIDE = 1.5
"""... in most trials at rates up to this ratio from it."""

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
BATCH_TRUST = 0.45
"""Share of the batches' degrees of freedom that counts. The mean of their noise is right (0.9 to
1.1 of the noise between runs on five of six servers, including heavy tails), but batches are
correlated and skewed, so their noise is usually too low and rarely far too high. With 0.7, answers
under heavy tails (M/G/4) were right in 86 searches of 100; with this value, in 93."""

OWN_NOISE_OF_PERCENTILES = 2.5
"""A run's percentile is decided by its few excursions, and its bins' percentiles vary less than it: its
noise is this many times that of its batches. Measured on M/M/1, p95 at 6.7 services: 2.6."""

# -- warm-up (reading.py) ---------------------------------------------------------------------------

WARM_UP_LEAST_S = 2.0
"""Always left out of a run: the first moments of the empty server."""
WARM_UP_SHARE = 0.3
"""Minimum share of every run that is left out. With 0.12, 4 of 12 claims of the region failed on a server that is 15 %
slower at first and recovers with 8 s, and none with this; it takes hardly more load."""
COLD_Z = 2.0
"""What counts of steady runs must be slower in its first half by so many standard errors of Wilcoxon's test (five runs
of five),"""
COLD_LEAST = 0.05
"""... and by this share in the median. Then"""
COLD_LEFT_OUT = 0.5
"""... this share of each run is left out, and if that is not enough the runs are too short;"""
COLD_FAILS_FROM = 2.0
"""... a failure counts nevertheless at this multiple of the highest rate that held."""

# -- overload and capacity (reading.py) -------------------------------------------------------------

OVERLOAD_LIMITS = 8.0
"""In a run whose queue never empties, the response of the last half is above this many limits and
still grows. Near the capacity a queue has temporary excursions. If these counted as overload, each
would give a low capacity and be missing among the responses: with heavy tails the answers were
0.6 % too high, and right in 84 searches of 100."""
OVERLOAD_GROWTH = 1.25
"""A response grows if the last quarter is at least this many times the middle half."""
UNSTEADY_LIMITS = 8.0
"""A mean beyond this many limits has no steady state,"""
UNSTEADY_BRIEF_LIMITS = 2.0
"""... nor has one beyond this many"""
UNSTEADY_BRIEF_S = 30.0
"""... in a shorter run: where a queue begins to grow from empty, the mean is a matter of the length. One
probe of the climb with 6.9 limits, above the capacity, moved an answer by 4 %."""
LEAST_SHARE_OF_LIMIT = 1e-3
"""Lower bound for a share of the limit: an error ratio is 0 at low loads."""

# -- runs that are too short for a server (reading.py) -----------------------------------------------

CONTRARY_ABOVE = 1.5
"""A response above this share of the limit"""
CONTRARY_BELOW = 0.5
"""... contradicts one below this share at a higher rate,"""
CONTRARY_NEAR = 0.02
"""... or at a rate that is lower by at most this share."""
CONTRARY_LONGER = 3.0
"""Where two runs contradict each other, one that is about this many times as long is believed; otherwise both are left
out, and the next runs are so much longer."""

# -- each load alone (monotone_posterior.py) -------------------------------------------------------------------------

LEAST_FREEDOM = 1.0
"""Degrees of freedom of a mean with unknown noise,"""
BLIND_SD = 0.3
"""... and its relative standard deviation."""
LOAD_SURE = 0.995
"""Maximum probability from a single load: one run may be exceptional."""
IDLE_SHARE = 0.05
"""A value below this share of its limit holds without a t-interval of its logarithm."""
LEAST_VALUE = 1e-9
"""Share of a limit that stands for 0 where a logarithm is needed."""
AGAINST_CURVE = 0.02
"""A curve contradicts an answer from this share beyond the limit on; less is interpolation."""
CURVE_POINTS = 9
"""Points of the fitted parabola in a curve, between the runs near the limit."""
LEAST_ERROR = 0.01
"""A curve takes no load's value to be more certain: its error comes from few values."""

# -- the monotone search: its posterior (monotone_posterior.py) -------------------------------------------------------

PARABOLA_NEAR = (0.55, 1.8)
"""Responses for which the parabola is used, as shares of the limit."""
BEND_ERROR = 0.12
"""Relative error of the parabola at a response e times the limit; it grows with the squared logarithm."""
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
"""The noise of a run that does not show its own, when it votes for a side."""
PEAK_POINTS = 120
"""Rates of the grid."""
GRID_BLOCK = 648
"""Cells that are computed at a time for each noise; their tables fit a CPU's cache."""
RUNS_TOGETHER = 16
"""Runs whose likelihoods are multiplied before a logarithm: no product leaves the range."""

# -- the monotone search: runs and stop rule (monotone.py) --------------------------------------------------------------

MONOTONE_LOOK_MARGIN = 0.015
"""Minimum addition to the claim's confidence: the price of a look after every run;"""
MONOTONE_FEW_RUNS_MARGIN = 0.3
"""... at least this, divided by the number of runs near the limit: few runs show little about the
variation between runs, and may agree by chance."""
MONOTONE_FEWEST_NEAR = 6
"""Minimum of runs near the limit, so that the variation between runs is visible."""
MONOTONE_CLIMB_S = 20.0
"""Length of a probe far from the limit."""
MONOTONE_RUNS_S = (60.0, 180.0)
"""Minimum and maximum length of a run near the limit,"""
RUN_WORST_OPERATIONS = 10.0
"""A run near the limit is so long that so many operations may be worse than a percentile's limit, or fail;"""
MONOTONE_RELAXATIONS = 40.0
"""... and between these this many times its noise [s]."""
MONOTONE_WIDE = 0.25
"""Logarithmic width of the peak's distribution below which long runs are made."""
MONOTONE_AWAY = 2.0
"""A probe may be left if its value is beyond this multiple of the limit, or below its inverse,"""
MONOTONE_LEAVE_Z = 7.0
"""... by this many standard errors,"""
MONOTONE_EARLIEST_S = 5.0
"""... after at least this time,"""
MONOTONE_LOOKS_S = 5
"""... and after ten seconds only at multiples of this."""
MONOTONE_STEP = 0.1
"""Runs above the answer aim at a response this much higher than those below it, as a share of the
limit, if the claim is of the region;"""
MONOTONE_RATE_STEP = 0.3
"""... and this much if it is of the rate, which needs the steepness. With 0.05 the searches of seven
simulated queues took 1.4 to 2.0 times as long; 0.2 to 0.4 are equal, 1.0 takes 1.3 times as long."""

# -- a failure is confirmed, and the answer checked (monotone.py, check.py) ----------------------------

CONFIRM_TRIALS = 3
"""Trials after which the majority decides whether a rate far from the limit failed; two are enough if they agree."""
CHECK_TRIALS = 3
"""Trials on either side of the answer,"""
CHECK_MOST_TRIALS = 9
"""... more, up to these, while they contradict it,"""
CHECK_APART = 0.05
"""... at this share of the rate from it, or farther where the response differs less than the claim allows,"""
CHECK_MOST_APART = 0.25
"""... at most this share."""
ANSWER_UNSEEN = 0.03
"""Half width of every interval at least: what runs of one length do not show (the bias of short ones, the bend)."""
ROUGH_ANSWER = 0.1
"""An answer without its claim is doubtful if its interval reaches this share beyond it."""
MOVED_LEAST_RUNS = 4
"""Runs before and after a change with time, at least."""
MOVED_Z = 4.0
"""Standard errors from which a change with time is certain. The largest of all moments is examined."""

# -- a jump of the response across the region (monotone.py) ----------------------------------------------------------------

JUMP_NARROW = 0.01
"""Maximum relative distance of two rates for a jump between them."""
JUMP_FEWEST = 3
"""Minimum of runs on either side of a jump."""
JUMP_APART = 4.0
"""The sides of a jump differ by this many standard deviations of a run more than the steepest curve
(`STEEPNESS_RANGE`) would."""
JUMP_LONG = 0.5
"""A run with at least this share of the longest run's seconds counts for a jump,"""
JUMP_ENOUGH_S = 40.0
"""... and a run of at least this length always does."""
JUMP_MIXED = 4.0
"""Standard deviations of a run's number of arrivals over which sides may mix."""
JUMP_BESIDE = 0.05
"""Runs within this relative distance of a jump show the responses on its sides."""

# -- diagnosis: a lower rate fails, a higher one holds (diagnostics.py) ------------------------------

ORDER_TRIALS = 2
"""Trials by which failures exceed successes at the lower rate, and the other way round at the higher one."""
ORDER_APART = 1.15
"""The higher rate is at least this many times the lower one."""

# -- diagnosis: overload completes less than was served before (diagnostics.py) -------------------------

OVERLOADED_SHARE = 0.97
"""A trial that completed less than this share of what was offered was overloaded."""
DROP_LEAST = 0.1
"""Overload must complete less by this share than a trial that held,"""
DROP_Z = 4.0
"""... beyond so many standard errors of independent operations,"""
DROP_FEWEST = 2
"""... in so many pairs of trials."""

# -- diagnosis: errors while the response is flat (diagnostics.py) --------------------------------------------------------------------

SHEDDING_ERRORS = 0.002
"""Above this share of errors a server refuses requests and does not only fail by chance."""
SHEDDING_FLAT = 0.7
"""A response below this share of the limit is flat."""

# -- diagnosis: pauses at even distances (diagnostics.py) --------------------------------------------------------------------------------

PAUSE_SPIKE = 2.2
"""A bin above this multiple of its run's median is a spike."""
PAUSE_QUIET = 0.8
"""Runs with a median below this share of the limit are examined,"""
PAUSE_FEWEST_BINS = 8
"""... if they have at least this many bins."""
PAUSE_FEWEST_GAPS = 6
"""Minimum of gaps between spikes, over all runs."""
PAUSE_EVEN = 0.85
"""Share of the gaps that must be alike;"""
PAUSE_RARE_BINS = 15.0
"""... where fewer are, but those that are last at least this many bins,"""
PAUSE_CHANCE = 1e-4
"""... this is the maximum probability of so many by chance."""
PAUSE_SAME = 1.01
"""Gaps that differ by at most this many bins are alike."""
PAUSE_LEAST_BINS = 5.0
"""Minimum length of a gap in bins: shorter gaps would be alike by chance."""
PAUSE_MOST_SPIKES = 0.4
"""Maximum share of a run's bins that are spikes."""
COMB_FEWEST_TEETH = 16
"""Minimum of teeth over all runs."""
COMB_MET = 0.85
"""Share of the teeth that must meet a high bin."""
COMB_PERIODS = (-0.5, 0.51, 0.1)
"""Periods that are tried, in bins around the mean of the most frequent gap: from, to, step."""
COMB_CHANCE = 1e-5
"""Maximum probability of as many met teeth by chance."""
