"""Every tuned constant of the peak search with its reason, in the order in which a search uses them.

Purpose: one table in which a constant can be found and discussed. The modules that use the constants
contain no numbers of their own. Constants with the same prefix belong together.
Decision: the constants were set on the simulated servers of tests/sim (docs/peak-method.md, "Calibration");
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
"""The first probe of a small budget is at least this long."""
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

# -- lengths of runs (reading.py) ----------------------------------------------------------------

USUAL_LIMIT_S = 0.040
"""Limit of the response to which all lengths below apply."""
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

OWN_NOISE_EXPONENT = 2.5
"""Power of measured over expected response with which a run's own noise grows: a run that is high by
chance had an excursion, and varies more within itself. Measured: 1.5 to 5 on six servers. Without
it, searches whose runs were low by chance took the noise to be low too, and ended early."""
OWN_NOISE_BATCHES = 8.0
"""Batches show a run's noise divided by 1 plus this many times the noise over the run's length: 0.95
of it on A in 100 s, 0.6 in 60 s under heavy tails and processor sharing (0.6 measured)."""
OWN_NOISE_REACH = 2.0
"""Beyond this ratio of measured and expected response, in either direction, it is taken for this."""
OWN_NOISE_OF_PERCENTILES = 2.5
"""A run's percentile is decided by its few excursions, and its bins' percentiles vary less than it: its
noise is this many times that of its batches. Measured on M/M/1, p95 at 6.7 services: 2.6."""

# -- warm-up (reading.py) ---------------------------------------------------------------------------

WARM_UP_LEAST_S = 2.0
"""Always left out of a run: the first moments of the empty server."""
WARM_UP_SHARE = 0.12
"""Minimum share of every run that is left out: a warm-up of 15 % over 8 s is detected in three
searches of four, and if undetected it changes the answer by 2 %."""
WARM_UP_MOST_S = 40.0
"""Longest warm-up that is left out."""
WARM_UP_FADES_S = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Time constants of the warm-ups that are fitted."""
WARM_UP_Z = 2.2
"""Threshold of a warm-up; low, because a false detection costs only some seconds."""
WARM_UP_CV2 = 1.5
"""Expected squared coefficient of variation of service, for the noise of an overloaded run's slowness. With 4
fewer warm-ups are detected, and answers of a server that starts cold are too low."""
WARM_UP_HARMLESS = 0.01
"""Slowness that may remain in the first second after the warm-up."""
WARM_UP_FEWEST_BINS = 4
"""A run with fewer bins shows no warm-up."""
WARM_UP_LEAST_AGE_S = 1.0
"""Bins of a quiet run that start earlier show an empty server, not a slow one."""
WARM_UP_QUIET = 0.6
"""A response below this share of the limit is quiet enough to show a warm-up."""

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
SERVICE_CV2 = 4.0
"""Expected squared coefficient of variation of service, for the error of a capacity and the noise of an idle
server. A run that meets few of the largest operations shows a high capacity, and little of its error. With
1.5 the claims are kept as often, at 2 % more load;"""
SERVICE_CV2_FREEDOM = 3.0
"""... with the weight of this many degrees of freedom beside the run's own scatter."""
CAPACITY_BLOCKS = 20
"""Blocks of an overloaded run whose scatter is the error of its capacity."""
CAPACITY_COUNTED_SHARE = 0.97
"""Bins show a capacity only if this share of the operations has a response, because operations that
never ended are the slow ones. The same share separates a growing queue from another."""
CAPACITY_FEWEST_COMPLETED = 30
"""Minimum of completed operations for a capacity from their count, where bins show none."""
CAPACITY_DIFFERENCE_Z = 3.0
"""Capacities that differ by more are not used: the server shares its time."""
CAPACITY_COLD_S = 0.5
"""Seconds of work that an undetected warm-up may cost an overloaded run."""
CAPACITY_BETWEEN_RUNS = 0.014
"""Usual relative standard deviation between the capacities of two runs."""

# -- runs that are too short for a server (reading.py) -----------------------------------------------

CONTRARY_ABOVE = 1.5
"""A response above this share of the limit"""
CONTRARY_BELOW = 0.5
"""... contradicts one below this share at a higher rate,"""
CONTRARY_NEAR = 0.02
"""... or at a rate that is lower by at most this share."""
CONTRARY_ALIKE = 4.5
"""Both runs are in doubt if the longer one is less than this many times as long: a probe that was
left after 5 s and one of 20 s, but not one of 20 s and one of 90 s."""
CONTRARY_LONGEST_S = 60.0
"""Longer runs are never left out: that they contradict each other is no matter of their length."""
CONTRARY_LONGER = 3.0
"""The next runs are this many times as long as those that were left out."""

# -- priors of the curve (posterior.py); each is (centre, standard deviation) -------------------------

GAP_PRIOR = (math.log(0.15), 0.9)
"""ln gap: M/M/c and M/G/1 with limits of 3 to 13 services lie in 0.04 .. 0.2."""
EXPONENT_OF_SERVERS = (0.3, 0.6)
"""ln exponent minus that of as many servers as the capacity keeps busy (Sakasegawa; Little: capacity
times unloaded response). Measured: 0 for M/M/c and M/G/1, 0.5 for heavy tails at four servers, 1.0
for on-off arrivals at four. One prior for all servers drew the exponent of a single one to 1.7,
which made its answers 2 to 3 % of the response too low."""
EXPONENT_PRIOR = (math.log(2.0), 0.7)
"""ln exponent where the limit is not a time;"""
EXPONENT_TAIL = 3.0
"""... either Student t has this many degrees of freedom: a pool of fifty is rare, not impossible."""
MOST_EXPONENT = math.log(60.0)
"""Upper bound of ln exponent: beyond it the curve would overflow."""
UNLOADED_PRIOR = (-0.8, 1.2)
"""Logit of the unloaded response."""
NOISE_PRIOR = (math.log(1.6), 0.45)
"""ln of the noise at the peak over that of reflected Brownian motion, at a gap of 0.1;"""
NOISE_TAIL = 3.0
"""... its Student t has this many degrees of freedom."""
NOISE_BY_GAP = 1.1
"""Power of the gap with which that ratio grows: heavy tails make both large. Measured: 1.0 at a gap
of 0.04, 0.8 at 0.09, 1.8 at 0.13, 2.0 at 0.18, 8 at 0.26, 10 at 0.44."""
NOISE_PRIOR_UNTIMED = (math.log(1.0), 1.5)
"""ln of the noise at the peak in seconds, where the limit is not a time."""
NOISE_EXPONENT = 1.5
"""Power of the waiting with which the noise grows: 1.2 to 1.8 measured,"""
NOISE_OF_TAILS = 4.0
"""... divided by the noise over this multiple of that of reflected Brownian motion for each server, where it
is higher: 0.2 measured under heavy tails at one server, where the multiple is 10, and 1.4 at four, where it is 8."""
NEIGHBOUR_SD = 0.3
"""Standard deviation of ln gap between neighbouring samples of a surface: the uncertainty of a
neighbour's shape as a prior. The unloaded response has twice this."""
BETWEEN_RUNS_PRIOR = (math.log(0.004), 1.0)
"""ln of the capacity's relative standard deviation between runs."""
EXCESS_SCALE = 0.002
"""Cauchy scale of the relative difference between the rate that an overloaded server completes and
the pole: one server in six differs by more than 0.8 %, and then runs near the peak decide."""

# -- likelihood (posterior.py) --------------------------------------------------------------------------

MODEL_ERROR = 0.02
"""Relative error of the curve at a response e times the limit; proportional to the logarithm."""
UNSEEN_WARM_UP_S = 0.2
"""Seconds of work that an undetected warm-up may cost a run: short runs are affected most."""
UNCHECKED_WARM_UP_S = 1.0
"""... before the first long overloaded run, which shows a warm-up best."""
CHECKED_LIMITS = 1000.0
"""Minimum length of such a run, in limits of the response,"""
CHECKED_S = (10.0, 40.0)
"""... within these bounds."""
OVERLOADED_SD = 0.02
"""A run without a steady state shows that the peak is lower, with this standard deviation of ln
rate."""
BUSY_SHARE = 0.5
"""From this share of the limit a run's noise is that of waiting; below it, that of service."""

# -- sampling of the posterior, and the answer (posterior.py, queue_guided.py) ------------------------------

POSTERIOR_DRAWS = 1024
"""Draws of a posterior."""
ROUGH_DRAWS = 512
"""Draws of the first fit, which only estimates the steepness of the curve."""
MORE_DRAWS = 4
"""Factor for the number of draws where the posterior is far from normal."""
RESTART_DRAWS = 4096
"""Draws of a posterior that is computed again because the first had too few effective draws."""
TEMPERED_STEPS = 12
"""Maximum of tempered steps; three to five are usual."""
EFFECTIVE_PART = 8.0
"""One draw in this many must be effective after a tempered step, because its moments define the
next proposal. Late steps require fewer: no proposal fits a bent posterior better."""
PROPOSAL_FREEDOM = 6.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's."""
FEWEST_EFFECTIVE_DRAWS = 60.0
"""Effective draws that a posterior needs before it may end a search. With fewer, it is sampled again
from the likeliest curve:"""
NEWTON_STEPS = 40
"""... maximum of Newton's steps to it; six to ten are usual,"""
NEWTON_GAIN = 1e-3
"""... which end when the log density grows by less,"""
NEWTON_WIDEST = 0.05
"""... least curvature along any axis, in units of the draws' width: a flat direction stays bounded;"""
NEWTON_WIDER = 1.3
"""... and factor on the covariance there, for tails that are wider than normal."""
STEEPEST_SLOPE = 30.0
"""Largest slope of the curve that is used to correct a run's own noise."""
ANSWER_RATES = 41
"""Rates that are tried as the answer,"""
ANSWER_QUANTILES = (0.1, 0.9)
"""... between these quantiles of the peak."""

# -- the climb (next_run.py) ---------------------------------------------------------------------------------

CLIMB_S = 20.0
"""Length of a probe of the climb that is watched,"""
CLIMB_UNWATCHED_S = 8.0
"""... and of one that is not, and so cannot be left early."""
CLIMB_BRACKET = 5.0
"""The climb bisects until the ratio of the rates on both sides of the peak is below this."""
CLIMB_QUIET = 0.065
"""A response below this share of the limit,"""
CLIMB_QUIET_FROM = 0.2
"""... at a rate of at least this share of the highest that held, may be that of a wall. Then the
climb continues, because longer runs below a wall show nothing: runs of two and three minutes at 0.8
and 0.9 of the peak had a response of 3 ms of 40;"""
CLIMB_QUIET_BRACKET = 1.1
"""... until the ratio of the lowest rate that is too high to the highest that held is below this,"""
CLIMB_QUIET_LAST = (1.1, 1.15, 1.2)
"""... and a run held between the former divided by the last and by the first of these; one is made at
the former divided by the second."""
CLIMB_QUIET_APART = 0.02
"""Minimum relative distance from the rates that were tried, because a generator may miss a rate."""
CLIMB_DESCENT = (2.0, 4.0, 16.0)
"""Divisors of each next rate while no rate holds."""
DESCENT_TO_CAPACITY = 0.7
"""The first descent goes at most to this share of the capacity, if an overloaded run showed one."""

# -- candidates for the next run (next_run.py) -----------------------------------------------------------------

RUN_LENGTHS_S = (45.0, 60.0, 90.0, 120.0, 150.0, 180.0)
"""Lengths to choose from."""
OVERLOAD_LENGTH = 1
"""Index in `RUN_LENGTHS_S` of a length that is always enough for an overloaded run."""
LOAD_SHARES = (1.0, 0.93, 0.8)
"""Loads to choose from, as shares of the answer."""
OVERLOAD_OF_CAPACITY = 1.15
"""Load of an overloaded run, as a share of the capacity."""
OVERLOAD_CV2 = 1.5
"""Squared coefficient of variation of service that a planned overloaded run is expected to have."""
LAST_RUN_VARIANCE = 0.75
"""A planned last run aims at this share of the allowed variance, so that the search can end."""
STEADY_RELAXATIONS = 40.0
"""A steady run lasts at least this many times its noise [s], which is about four relaxation times:
the means of shorter runs are not normal, and the empty server at the start biases them."""
SHORTEST_REGION_S = 90.0
"""Minimum length of a steady run for a claim of the region: an undetected warm-up of a second of
work then changes the response by less than the claim's tolerance, at usual elasticities."""
SHORTEST_RATE_S = 45.0
"""... for a claim of the rate, on which a warm-up has a fifth of the effect."""
SOFTNESS = 0.004
"""Softness of the pole at which planned loads and the drawn curve are computed."""
TURNAROUND_S = 10.0
"""Minimum time of a trial without its load; it favours fewer, longer runs."""

# -- the first overloaded run (next_run.py) ---------------------------------------------------------------------

FIRST_OVERLOAD_S = 60.0
"""Length of the overloaded run that a claim of the region needs first."""
FIRST_OVERLOAD_RATIO = 1.2
"""Its rate, as a multiple of the capacity. A run at more than this multiple of the highest rate
that held counts as overloaded too."""
FIRST_OVERLOAD_ENOUGH_S = 40.0
"""An overloaded run of at least this length replaces it."""
MOST_WITHOUT_CAPACITY = 1
"""Number of overloaded runs without a capacity after which no more are made."""
LONG_OVERLOAD_SHARE = 0.5
"""An overloaded run counts towards these limits from this share of `FIRST_OVERLOAD_S`."""
MOST_OVERLOADS_AHEAD = 2
"""Overloaded runs may exceed the runs near the peak by at most this number. Their common errors (a
server that completes less when overloaded, the state of the machine) do not average out. A search
on a real server once made eight in a row, and then the first run near the peak was enough."""

# -- the stop rule (queue_guided.py, next_run.py) -----------------------------------------------------------------

LOOK_MARGIN = 0.01
"""Minimum addition to the claim's confidence: the price of a look after every run;"""
FEW_RUNS_MARGIN = 0.05
"""... at least this, divided by the number of runs near the peak: few runs show little about their
noise and the variation between runs, and may agree by chance."""
NEAR_PEAK = (0.6, 1.7)
"""Responses that count as near the peak, as shares of the limit."""
FEWEST_NEAR_PEAK = 4
"""Minimum of independent runs near the peak for a claim of the region: a few show no spread."""
CONFIRM_S = 60.0
"""Maximum length of a run that is made only because there are too few."""

# -- when a running probe is left (queue_guided.py) --------------------------------------------------------------

LEAVE_EARLIEST_S = 5.0
"""No probe is left before this."""
LEAVE_Z = 3.5
"""A probe of the climb is left when its mean is below the limit by this many standard errors,"""
LEAVE_BELOW = 0.9
"""... where the limit is reduced to this share."""
LEAVE_OVERLOAD_S = 12.0
"""A probe of the climb that is overloaded is left after this time, whatever the limit: on a busy
machine a fast server may stall for seconds, and a shorter run would show little."""
LEAVE_EXCURSION_S = 40.0
"""... and an overloaded run that should be steady, after this time: a queue recovers from an
excursion, and leaving only high runs early would bias the result."""

# -- when the default policy changes to the monotone search (default.py) -------------------------------------------

MOST_GUIDED_TRIALS = 40
"""Maximum of trials of the queue-guided search: later it will not converge."""
MOST_FAILED_RATES = 2
"""With this many failed rates, the limit is where the server refuses."""
SURELY_FAILS = 0.1
"""A criterion without a curve counts as failing if its probability to hold is lower."""

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
"""Responses for which the parabola is used, as shares of the limit;"""
PARABOLA_WAITING = 0.3
"""... at least this share of the way from the lowest response to the limit: a pool of fifty, idle at
0.75 of its limit, is there at 0.85 of its peak, and a parabola through such runs was 1 to 10 % too high."""
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
CHANCE_SHARES = (1.0, 0.3)
"""Elasticities to the random number of a run's arrivals, as shares of that to the rate that was
intended. 1 for a queue. Less where the work grows with the rate, as a cache's that no longer holds what
is asked for: a run with 1 % more arrivals by chance is not a run at a rate that is 1 % higher."""
PEAK_POINTS = 120
"""Rates of the grid."""
GRID_BLOCK = 648
"""Cells that are computed at a time for each noise; their tables fit a CPU's cache."""
RUNS_TOGETHER = 16
"""Runs whose likelihoods are multiplied before a logarithm: no product leaves the range."""
VOTE_SURE = 0.995
"""Maximum probability of a run's vote for a side."""

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

# -- final check: is a higher load slower? (final_checks.py) ------------------------------------------------------------------------

ORDER_CHANCE = 0.005
"""A pair's difference counts if its probability by chance is below this. On clean servers the
smallest of all pairs of a search was 0.03."""
ORDER_PERHAPS = 0.1
"""Below this probability two loads are compared again, by longer runs, at the end of a search."""
ORDER_CHECK_S = 20.0
"""Length of such a run."""
ORDER_LONG = 0.9
"""A run of at least this share of that length counts as such a run."""
ORDER_FALLS = 1.1
"""The lower load must respond slower by this factor,"""
ORDER_APART = 1.15
"""... and the higher load be higher by this one."""
ORDER_LEAST_SHARE = 0.15
"""Responses below this share of the limit do not count: they are irrelevant, and on an idle machine
CPUs that wake up slowly cause them (nginx: 0.61 ms at 250/s, 0.45 ms at 525/s)."""
ORDER_QUIET = 0.75
"""Maximum response of a run that is compared, as a share of the limit."""
ORDER_FEWEST_BINS = 4
"""Minimum of bins of a run that is compared."""
ORDER_FEWEST_FREEDOM = 6
"""Minimum of degrees of freedom of the noise of all runs that are compared."""
ORDER_BETWEEN_RUNS = 0.015
"""Usual relative standard deviation between runs, which is no evidence."""
ORDER_DRIFT_PER_S = 0.014 / 60
"""Relative change of a response with time that is no evidence of order [1/s]."""
ORDER_CORRELATION = 2.0
"""Factor by which correlation of neighbouring bins increases the variance of a run's mean."""

# -- final check: does the capacity drift? (final_checks.py) ----------------------------------------------------------------------

DRIFT_BETWEEN_RUNS = 0.011
"""Relative standard deviation of the capacity between runs that is no drift."""
DRIFT_SHORTEST_S = 45.0
"""Minimum length of an overloaded run that counts: where operations share a CPU, a shorter run
shows a different capacity."""
DRIFT_Z = 3.0
"""A drift of at least this is certain,"""
DRIFT_PERHAPS_Z = 0.8
"""... and from this value on, another run tests for it."""
DRIFT_LEAST = 0.02
"""Minimum change of the capacity over the whole search that is reported."""
DRIFT_LATE = 0.75
"""An overloaded run after this share of the search's time is a late one."""
DRIFT_LONGEST_S = 1000.0
"""Maximum length of a search in which an uncertain drift is tested again."""
DRIFT_CHECK_S = 60.0
"""Length of the run for that test."""

# -- diagnosis: overload completes less than a steady run served (diagnostics.py) --------------------------------------------------

RETROGRADE_CV2 = 2.0
"""Squared coefficient of variation of work, for the noise of a steady run's rate."""
RETROGRADE_BETWEEN_RUNS = 0.015
"""Relative standard deviation of a server's speed between runs that is no evidence."""
RETROGRADE_Z = 4.0
"""A drop of the throughput of at least this is certain."""
RETROGRADE_TOGETHER_S = 600.0
"""For two runs further apart in time than this,"""
RETROGRADE_DRIFT_PER_S = 0.007 / 60
"""... this much of the difference per second may be drift [1/s]."""
RETROGRADE_LEAST = 0.03
"""A steady run must exceed an overloaded run's capacity by at least this share."""
RETROGRADE_STEADY = 1.5
"""Maximum response of a steady run that counts, as a share of the limit."""

# -- diagnosis: a response that is low up to a wall (diagnostics.py) --------------------------------------------------

WALL_QUIET = 0.18
"""A response below this share of the limit"""
WALL_NEAR = 1.2
"""... at a rate that, multiplied by this, is too high, is a wall. Two servers of 3 ms each (a limit of
13 services) have 0.25 of their limit at 1/1.2 of the rate at which it fails."""
WALL_BEYOND = 1.5
"""A rate is too high if its response is above this share of the limit."""

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

# -- diagnosis: runs off the curve of a result (diagnostics.py) -----------------------------------------------------------------------------

MISFIT_NEAR = (0.45, 1.5)
"""Loads near the answer: range of the curve's response, as shares of the limit."""
MISFIT_BETWEEN_RUNS = 0.012
"""Relative standard deviation of a server's speed between runs that is no evidence,"""
MISFIT_STEEPEST = 20.0
"""... multiplied by the elasticity, at most this: a steeper curve is overfitted."""
MISFIT_FAMILY_ERROR = 0.05
"""Relative error of a queue's curve near its answer."""
MISFIT_Z = 4.0
"""A run contradicts the curve at this distance,"""
MISFIT_LEAST = 0.3
"""... if it is also this far from it, in the logarithm of the response."""
MISFIT_FEWEST = 2
"""Minimum of runs that contradict the curve: a single run may be exceptional."""
MISFIT_QUIETEST = 0.2
"""A run's noise is at least the noise at this share of the limit."""
CONTRADICTION_BEYOND = 0.03
"""A run contradicts an interval only this far outside of it, as a share of the end,"""
CONTRADICTION_SHORTEST_S = 30.0
"""... if it lasted at least this long [s]"""
CONTRADICTION_CHANCE = 0.02
"""... and the limit holds (fails) there with at most this probability."""
CONTRADICTION_FEWEST_TRIALS = 4
"""Trials from which a search that goes on is examined too."""
