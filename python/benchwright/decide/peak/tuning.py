"""Every tuned constant of the peak search, each with its reason, in the order of a decision.

Purpose: one table in which a constant can be found and argued with. The modules that use them
hold no numbers of their own. Names that begin alike belong together.
Decision: set on the simulated servers of tests/sim (docs/peak.md, "Calibration"); the
calibration tests count what they lead to. The parameters of the workbench paper's policies are
published and not tuned: they stand in published.py.
Units: `_S` is seconds, `_Z` standard errors, `_SD` a standard deviation; everything else is a
share, a ratio or a count, as its text says.
"""

from __future__ import annotations

import math

# -- bounds: between which rates a search may probe (policy.py) ---------------------------------

LOWEST_SHARE = 2.0**-10
"""Lowest rate, as a share of the start rate."""
DESCENT_SHARE = 2.0**-3
"""A search may go down to this share of the start rate, however few arrivals a run has."""
FEWEST_ARRIVALS = 20.0
"""Arrivals that a run at the lowest rate expects. One trial at a thousandth of the start rate
took longer than the whole rest of a search, and had ten operations."""
LOWEST_RUN_S = 20.0
"""Length of that run, unless the user sets a longer one."""
LOWEST_RUN_LIMITS = 40.0
"""... and at least this many times the longest response that is allowed."""
HIGHEST_SHARE = 2.0**10
"""Highest rate, as a multiple of the start rate, where that is above `HIGHEST_RATE`."""
HIGHEST_RATE = 1e6
"""More operations a second than a generator on one machine can be expected to start. Without
a highest rate a server that always answers alike was asked for 5e7/s."""

# -- what every policy shares: budget, bounds, repeated trials (search.py, trials.py) -----------

BUDGET_USEFUL_SHARE = 0.25
"""The rest of a budget is used if it holds this share of the next probe's length."""
BUDGET_SHORTEST_S = 1.0
"""The first probe of a small budget is at least this long."""
PROBE_FEWEST_OPERATIONS = 10
"""A probe lasts until this many operations are expected: at 0.05/s ten seconds show nothing."""
MOST_AT_BOUND = 4
"""Trials at a bound after which a policy that stays there is believed."""
BEYOND_OFFERED = 1.02
"""A rate is beyond what a generator offered if it is this many times as high."""
MOST_BETWEEN_STEPS = 24
"""Trials at the two rates beside one that the generator cannot produce."""
MOST_AT_ONE_RATE = 60
"""Trials at one rate, of any policy: another one would narrow their mean by less than one
per cent of its error. Of 1,094 simulated searches (`make peak-ends`) the most was 43."""
BEHIND_SHARE = 0.95
"""A generator that offers less of its intended rate is behind,"""
BEHIND_DEVIATIONS = 4.0
"""... if the count is also this many Poisson standard deviations too low."""
CEILING_RATE_RATIO = 1.5
"""A generator's ceiling shows at two rates that are this many times apart,"""
CEILING_ENDED_RATIO = 1.05
"""... if operations ended at no more than this ratio of each other."""

# -- lengths of runs (reading.py) ----------------------------------------------------------------

USUAL_LIMIT_S = 0.040
"""Limit of the response for which all lengths below are stated."""
LEAST_TIME_SCALE = 0.25
"""Lengths are scaled down to this share at least: a real machine's own noise has a grain of
a second, and batch means need bins."""

# -- noise of one run: batch means (reading.py) ----------------------------------------------------

FEWEST_BATCHES = 5
"""A run with fewer batches shows nothing of its own noise."""
MOST_BATCHES = 8
"""With few batches each grows with the run, and the correlation between them fades."""
BATCH_TRUST = 0.45
"""Share of the batches' degrees of freedom that counts. Their noise is right in the mean (0.9 to
1.1 of the noise between runs on five of six servers, heavy tails among them), but batches are
correlated and skewed, so that it is mostly too low and seldom far too high: with 0.7 answers
under heavy tails (M/G/4) were right in 86 searches of 100, with this in 93."""

# -- warm-up (reading.py) ---------------------------------------------------------------------------

WARM_UP_LEAST_S = 2.0
"""Always left out of a run: the first moments of the empty server."""
WARM_UP_SHARE = 0.12
"""Share of every run that is left out in any case: a warm-up of 15 % over 8 s is detected in
three searches of four, and undetected it moves the answer by 2 %."""
WARM_UP_MOST_S = 40.0
"""Longest warm-up that is left out."""
WARM_UP_FADES_S = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Time constants that are tried."""
WARM_UP_Z = 2.2
"""A warm-up is believed from here on: a false one costs only some seconds."""
WARM_UP_HARMLESS = 0.01
"""Slowness that may remain in the first second that counts."""
WARM_UP_FEWEST_BINS = 4
"""A run with fewer bins shows no warm-up."""
WARM_UP_LEAST_AGE_S = 1.0
"""Bins of a quiet run that start earlier show an empty server, not a slow one."""
WARM_UP_QUIET = 0.6
"""A response below this share of the limit is quiet enough to show a warm-up."""

# -- overload and capacity (reading.py) -------------------------------------------------------------

OVERLOAD_LIMITS = 8.0
"""A queue that never empties has a last half beyond this many limits that still grows. Near the
capacity a queue wanders off for a while and comes back; to take that for overload would read
a low capacity from every high excursion, and miss it among the responses: with heavy tails
the answers were 0.6 % too high, and right in 84 searches of 100."""
OVERLOAD_GROWTH = 1.25
"""Ratio of the last quarter to the middle half from which on a response grows."""
UNSTEADY_LIMITS = 8.0
"""A mean beyond this many limits has no steady state."""
LEAST_SHARE_OF_LIMIT = 1e-3
"""A smaller share of the limit counts as this: an error ratio is 0 at low loads."""
SERVICE_CV2 = 1.5
"""Squared coefficient of variation of service, from which a capacity's error is expected,"""
SERVICE_CV2_FREEDOM = 3.0
"""... with the weight of this many degrees of freedom beside the run's own scatter."""
CAPACITY_BLOCKS = 20
"""Blocks of an overloaded run whose scatter is the error of its capacity."""
CAPACITY_COUNTED_SHARE = 0.97
"""Share of the operations that must have a response before bins give a capacity: those that
never ended are the slow ones. The same share separates a queue that grew from one that did not."""
CAPACITY_FEWEST_COMPLETED = 30
"""Completions from which on their count gives a capacity, where bins do not."""
CAPACITY_DIFFERENCE_Z = 3.0
"""Capacities that differ by more are no capacities: the server shares itself out."""
CAPACITY_COLD_S = 0.5
"""Seconds of work that an undetected warm-up may cost an overloaded run."""
CAPACITY_BETWEEN_RUNS = 0.014
"""Usual relative standard deviation between the capacities of two runs."""

# -- priors of the curve (posterior.py); each is (centre, standard deviation) -------------------------

GAP_PRIOR = (math.log(0.15), 0.9)
"""ln gap: M/M/c and M/G/1 with limits of 3 to 13 services lie in 0.04 .. 0.2."""
EXPONENT_PRIOR = (math.log(1.5), 0.5)
"""ln exponent: 1 for one server, 2.2 for four, 7 for thirty-two;"""
EXPONENT_TAIL = 3.0
"""... Student's t of this many degrees of freedom: a pool of fifty is rare, not impossible."""
MOST_EXPONENT = math.log(60.0)
"""Draws beyond this count as this: the curve would overflow."""
UNLOADED_PRIOR = (-0.8, 1.2)
"""Logit of the unloaded response."""
NOISE_PRIOR = (math.log(1.6), 0.45)
"""ln of the noise at the peak over that of reflected Brownian motion, at a gap of 0.1;"""
NOISE_TAIL = 3.0
"""... Student's t of this many degrees of freedom."""
NOISE_BY_GAP = 1.1
"""Power of the gap with which this grows: heavy tails make both large. Measured: 1.0 at a gap
of 0.04, 0.8 at 0.09, 1.8 at 0.13, 2.0 at 0.18, 8 at 0.26, 10 at 0.44."""
NOISE_PRIOR_UNTIMED = (math.log(1.0), 1.5)
"""The same in seconds, where the limit is no time."""
NOISE_EXPONENT = 1.5
"""Power of the waiting with which the noise grows: 1.1 to 1.7 measured."""
NEIGHBOUR_SD = 0.3
"""Standard deviation of ln gap between neighbouring samples of a surface: the worth of a shape
that was handed on. The unloaded response has twice this."""
BETWEEN_RUNS_PRIOR = (math.log(0.004), 1.0)
"""ln of the capacity's relative standard deviation between runs."""
EXCESS_SCALE = 0.002
"""Cauchy scale of the relative difference between what an overloaded server completes and the
pole: one in six differs by more than 0.8 %, and then runs near the peak decide."""

# -- likelihood (posterior.py) --------------------------------------------------------------------------

MODEL_ERROR = 0.02
"""Relative error of the curve for each factor e that a response is from the limit."""
UNSEEN_WARM_UP_S = 0.2
"""Seconds of work that an undetected warm-up may cost a run: short runs are affected most."""
UNCHECKED_WARM_UP_S = 1.0
"""... before a long overloaded run, which shows a warm-up best, was made."""
CHECKED_LIMITS = 1000.0
"""Limits of the response that such a run lasts,"""
CHECKED_S = (10.0, 40.0)
"""... within these bounds."""
OVERLOADED_SD = 0.02
"""Standard deviation of ln rate with which a run without a steady state shows that the peak is
lower."""
BUSY_SHARE = 0.5
"""From this share of the limit on a run's noise is that of waiting; below, that of service."""

# -- sampling of the posterior, and the answer (posterior.py, queue_guided.py) ------------------------------

POSTERIOR_DRAWS = 1024
"""Draws of a posterior."""
ROUGH_DRAWS = 512
"""Draws of a first look, from which only the steepness of the curve is taken."""
MORE_DRAWS = 4
"""This many times as many draws where the posterior is far from normal."""
RESTART_DRAWS = 4096
"""Draws of a posterior that is computed anew because the first was worth too little."""
TEMPERED_STEPS = 12
"""Tempered steps at most; three to five are usual."""
EFFECTIVE_PART = 8.0
"""One draw in this many is effective after a tempered step, whose moments make the next. Late
steps ask for less: a bent posterior fits no proposal better, and must be reached."""
PROPOSAL_FREEDOM = 6.0
"""Degrees of freedom of the proposal: heavier tails than the posterior's."""
FEWEST_EFFECTIVE_DRAWS = 60.0
"""Equal draws that a posterior must be worth before it may end a search."""
STEEPEST_SLOPE = 30.0
"""Steepest slope of the curve that is taken out of a run's own noise."""
ANSWER_RATES = 41
"""Rates that are tried as the answer,"""
ANSWER_QUANTILES = (0.1, 0.9)
"""... between these quantiles of the peak."""

# -- the climb (next_run.py) ---------------------------------------------------------------------------------

CLIMB_S = 20.0
"""Length of a climbing probe that is watched,"""
CLIMB_UNWATCHED_S = 8.0
"""... and of one that is not, and so cannot be left early."""
CLIMB_BRACKET = 5.0
"""Ratio of the rates on both sides of the peak that the climb halves before a curve is fitted."""
CLIMB_DESCENT = (2.0, 4.0, 16.0)
"""Factors by which each next rate is lower while no rate holds."""
DESCENT_TO_CAPACITY = 0.7
"""The first descent goes to this share of the capacity, if overload gave one."""

# -- candidates for the next run (next_run.py) -----------------------------------------------------------------

RUN_LENGTHS_S = (45.0, 60.0, 90.0, 120.0, 150.0, 180.0)
"""Lengths to choose from."""
OVERLOAD_LENGTH = 1
"""Place among them of a length that is always enough for an overloaded run."""
LOAD_SHARES = (1.0, 0.93, 0.8)
"""Loads to choose from, as shares of the answer."""
OVERLOAD_OF_CAPACITY = 1.15
"""Load of an overloaded run, as a share of the capacity."""
OVERLOAD_CV2 = 1.5
"""Squared coefficient of variation of service that a planned overloaded run is expected to have."""
LAST_RUN_VARIANCE = 0.75
"""Share of the allowed variance that a last run aims at, so that it is the last."""
STEADY_RELAXATIONS = 40.0
"""A steady run lasts at least this many times its noise's time, which is about four relaxation
times: shorter ones are not normal, and start from an empty server."""
SHORTEST_REGION_S = 90.0
"""Length of a steady run at least, for a claim of the region: an undetected warm-up of a second
of work is then less than the claim's tolerance at usual elasticities."""
SHORTEST_RATE_S = 45.0
"""... for a claim of the rate, to which that matters five times less."""
SOFTNESS = 0.004
"""Softness of the pole at which planned loads and the drawn curve are computed."""
TURNAROUND_S = 10.0
"""Cost of a trial beside its load, at least: fewer, longer runs."""

# -- the first overloaded run (queue_guided.py) -----------------------------------------------------------------

FIRST_OVERLOAD_S = 60.0
"""Length of the overloaded run that a claim of the region begins with."""
FIRST_OVERLOAD_RATIO = 1.2
"""Its rate, as a multiple of the capacity. A run that is this many times above the highest rate
that held counts as overloaded too."""
FIRST_OVERLOAD_ENOUGH_S = 40.0
"""An overloaded run that lasted this long takes its place."""
MOST_WITHOUT_CAPACITY = 1
"""Overloaded runs without a capacity, after which no more are made."""
LONG_OVERLOAD_SHARE = 0.5
"""Share of `FIRST_OVERLOAD_S` from which on an overloaded run counts towards these limits."""
MOST_OVERLOADS_AHEAD = 2
"""Overloaded runs beyond the number of runs near the peak, at most. What they have in common (a
server that completes less when overloaded, the state of the machine) does not average out. On a
real server eight in a row were once made, and the first run near the peak was enough."""

# -- the stop rule (queue_guided.py) ------------------------------------------------------------------------------

LOOK_MARGIN = 0.015
"""On top of the claim's confidence, at least: the price of looking after every run."""
FEW_RUNS_MARGIN = 0.12
"""... divided by the number of runs near the peak: few runs show little of their own noise and
of what differs between runs, and a lucky agreement of the first ones should end no search."""
NEAR_PEAK = (0.6, 1.7)
"""Responses that count as near the peak, as shares of the limit."""
FEWEST_NEAR_PEAK = 6
"""Independent runs near the peak before a claim of the region: a few show no spread."""
CONFIRM_S = 60.0
"""Length of a run that is made only because there are too few, at most."""

# -- when a running probe is left (queue_guided.py) --------------------------------------------------------------

LEAVE_EARLIEST_S = 5.0
"""No probe is left before this."""
LEAVE_Z = 3.5
"""A climbing probe is left when its mean is this far below the limit."""
LEAVE_BELOW = 0.9
"""... which counts as this share of itself."""
LEAVE_OVERLOAD_S = 12.0
"""A climbing probe that turned out overloaded is left from here on, whatever the limit: on a
busy machine a quick server stalls for seconds, and what is left then shows little."""
LEAVE_EXCURSION_S = 40.0
"""... of a run that was to be steady: a queue comes back from an excursion, and to leave the high
ones early is to measure the low ones."""

# -- when the default policy stops believing in a queue (default.py) -----------------------------------------------

MOST_GUIDED_TRIALS = 40
"""Trials of the queue-guided search: one that has not converged by then will not."""
MOST_FAILED_RATES = 2
"""Rates that failed, from which on the limit is where the server refuses."""
SURELY_FAILS = 0.1
"""A criterion without a curve whose probability to hold is lower is the one that fails."""

# -- loads by themselves (monotone_posterior.py) --------------------------------------------------------------------

LEAST_FREEDOM = 1.0
"""Degrees of freedom of a mean about whose noise nothing is known,"""
BLIND_SD = 0.3
"""... and its relative standard deviation."""
LOAD_SURE = 0.995
"""No single load is believed more than this: one run may be anything."""
IDLE_SHARE = 0.05
"""A value below this share of its limit has no logarithm worth a t-interval: it holds."""

# -- the search by order: its posterior (monotone_posterior.py) -------------------------------------------------------

PARABOLA_NEAR = (0.55, 1.8)
"""Responses for which the parabola is believed, as shares of the limit."""
BEND_ERROR = 0.12
"""Relative error of the parabola at a response e times the limit; squared in between."""
STEEPNESS_RANGE = (0.7, 70.0, 18)
"""Elasticities of the response to the rate at the limit: from, to, how many (geometric)."""
BENDS = (-0.5, 0.5, 1.5)
"""Bends of the logarithm: 1 for a pole without a base, about 0 for errors."""
NOISE_RANGE_S = (0.05, 40.0, 12)
"""Relative variance of a run's mean at the limit, times its length: from, to, how many."""
PARABOLA_NOISE_PRIOR = (math.log(1.2), 1.3)
"""Centre and standard deviation of its logarithm."""
BLIND_NOISE_S = 2.0
"""The same of a run that shows nothing of its noise, when it votes for a side."""
PEAK_POINTS = 120
"""Rates of the grid."""
GRID_BLOCK = 648
"""Cells that are computed at a time, for each noise: their tables fit a CPU's cache."""
RUNS_TOGETHER = 16
"""Runs whose likelihoods are multiplied before a logarithm: no product leaves the range."""
VOTE_SURE = 0.995
"""No run's vote for a side is believed more than this."""

# -- the search by order: runs and stop rule (monotone.py) --------------------------------------------------------------

MONOTONE_LOOK_MARGIN = 0.015
"""On top of the claim's confidence: the price of looking after every run."""
MONOTONE_FEW_RUNS_MARGIN = 0.3
"""... divided by the number of runs near the limit: few runs show little of what differs between
runs, and a lucky agreement should end nothing."""
MONOTONE_FEWEST_NEAR = 3
"""Runs near the limit, so that what differs between runs is seen."""
MONOTONE_CLIMB_S = 20.0
"""Length of a probe far from the limit."""
MONOTONE_RUNS_S = (60.0, 180.0)
"""Length of a run near the limit: the shortest and the longest,"""
MONOTONE_RELAXATIONS = 40.0
"""... between them this many times its noise's time."""
MONOTONE_WIDE = 0.25
"""Logarithmic width of the peak's distribution below which runs are long ones."""
MONOTONE_AWAY = 2.0
"""A probe whose value is this many times the limit, or less than its share, may be left,"""
MONOTONE_LEAVE_Z = 7.0
"""... when it is beyond that by this much,"""
MONOTONE_EARLIEST_S = 5.0
"""... not before this,"""
MONOTONE_LOOKS_S = 5
"""... and after ten seconds only at multiples of this."""
MONOTONE_STEP = 0.1
"""How far from the limit runs on either side of the answer are aimed, as a share of it."""

# -- a jump of the response across the region (monotone.py) ----------------------------------------------------------------

JUMP_NARROW = 0.01
"""Relative distance of two rates between which a jump is certain."""
JUMP_FEWEST = 3
"""Runs on either side of a jump."""
JUMP_APART = 4.0
"""Standard deviations of a run between the sides, beyond what the steepest curve that is
believed (`STEEPNESS_RANGE`) has there."""
JUMP_LONG = 0.5
"""A run that had this share of the longest one's seconds shows its response,"""
JUMP_ENOUGH_S = 40.0
"""... and one of this length always does."""
JUMP_MIXED = 4.0
"""Standard deviations of a run's number of arrivals over which sides may mix."""
JUMP_BESIDE = 0.05
"""Runs within this relative distance of a jump show how far apart its sides are."""

# -- final check: is more load slower? (final_checks.py) ------------------------------------------------------------------------

ORDER_CHANCE = 0.005
"""Probability of a pair's difference by chance, at most. On clean servers the least of all pairs
of a search was 0.03."""
ORDER_PERHAPS = 0.1
"""Below this two loads are compared once more, by longer runs, at a search's end."""
ORDER_CHECK_S = 20.0
"""Length of such a run."""
ORDER_LONG = 0.9
"""Share of it that a run must have had to be one."""
ORDER_FALLS = 1.1
"""The lower load must respond slower by this factor,"""
ORDER_APART = 1.15
"""... and the higher load be higher by this one."""
ORDER_LEAST_SHARE = 0.15
"""Quicker responses than this share of the limit matter to nobody, and on an idle machine they
are those of processors that wake slowly (nginx: 0.61 ms at 250/s, 0.45 ms at 525/s)."""
ORDER_QUIET = 0.75
"""Responses up to which runs are compared, as shares of the limit."""
ORDER_FEWEST_BINS = 4
"""Bins of a run that is compared."""
ORDER_FEWEST_FREEDOM = 6
"""Degrees of freedom of the noise of all runs that are compared."""
ORDER_BETWEEN_RUNS = 0.015
"""Relative standard deviation between runs that is no evidence."""
ORDER_DRIFT_PER_S = 0.014 / 60
"""Relative change of a response with time that is no evidence of order [1/s]."""
ORDER_CORRELATION = 2.0
"""Factor by which neighbouring bins make a run's mean vary more than they show."""

# -- final check: does the capacity drift? (final_checks.py) ----------------------------------------------------------------------

DRIFT_BETWEEN_RUNS = 0.011
"""Relative standard deviation of the capacity between runs that is no drift."""
DRIFT_SHORTEST_S = 45.0
"""Length of an overloaded run that counts: where operations share a processor, a shorter one
gives another capacity."""
DRIFT_Z = 3.0
"""A drift is certain from here on,"""
DRIFT_PERHAPS_Z = 0.8
"""... and looked for further from here on."""
DRIFT_LEAST = 0.02
"""Change of the capacity over the whole search that is worth reporting."""
DRIFT_LATE = 0.75
"""From this share of the search's time on an overloaded run is a late one."""
DRIFT_LONGEST_S = 1000.0
"""Length of a search up to which an uncertain drift is looked for again."""
DRIFT_CHECK_S = 60.0
"""Length of the run that is made for it."""

# -- diagnosis: overload completes less than a steady run served (diagnostics.py) --------------------------------------------------

RETROGRADE_CV2 = 2.0
"""Squared coefficient of variation of work: the noise of what was served."""
RETROGRADE_BETWEEN_RUNS = 0.015
"""Relative standard deviation of a server's speed between runs that is no evidence."""
RETROGRADE_Z = 4.0
"""A drop of the throughput is certain from here on."""
RETROGRADE_TOGETHER_S = 600.0
"""Of runs further apart in time than this"""
RETROGRADE_DRIFT_PER_S = 0.007 / 60
"""... this much of the difference may be drift [1/s]."""
RETROGRADE_LEAST = 0.03
"""A steady run must have served this much more than an overloaded one completed."""
RETROGRADE_STEADY = 1.5
"""Responses up to which a run counts as served, as shares of the limit."""

# -- diagnosis: errors while the response is flat (diagnostics.py) --------------------------------------------------------------------

SHEDDING_ERRORS = 0.002
"""From this share of errors on a server refuses, and does not fail by chance."""
SHEDDING_FLAT = 0.7
"""A response below this share of the limit is flat."""

# -- diagnosis: pauses at even distances (diagnostics.py) --------------------------------------------------------------------------------

PAUSE_SPIKE = 2.2
"""A bin this many times its run's median is a spike."""
PAUSE_QUIET = 0.8
"""Runs whose median is below this share of the limit are looked at."""
PAUSE_FEWEST_BINS = 8
"""... and that have this many bins."""
PAUSE_FEWEST_GAPS = 6
"""Gaps between spikes, of all runs."""
PAUSE_EVEN = 0.85
"""Share of the gaps that must be the same, to a bin."""
PAUSE_SAME = 1.01
"""Bins by which gaps that are the same may differ."""
PAUSE_LEAST_BINS = 5.0
"""Bins of a gap: shorter ones would be even by chance."""
PAUSE_MOST_SPIKES = 0.4
"""Share of a run's bins that are spikes: more is no exception."""
COMB_FEWEST_TEETH = 16
"""Teeth of the combs over all runs."""
COMB_MET = 0.85
"""Share of the teeth that must meet a high bin."""
COMB_PERIODS = (-0.5, 0.51, 0.1)
"""Bins around the mean of the commonest gap that are tried as a period: from, to, step."""
COMB_CHANCE = 1e-5
"""Probability of as many by chance, at most."""

# -- diagnosis: runs off the curve of a result (diagnostics.py) -----------------------------------------------------------------------------

MISFIT_NEAR = (0.45, 1.5)
"""Responses by the curve, as shares of the limit, of loads that are near the answer."""
MISFIT_BETWEEN_RUNS = 0.012
"""Relative standard deviation of a server's speed between runs that is no evidence,"""
MISFIT_STEEPEST = 20.0
"""... up to this elasticity: a steeper curve was bent to its runs."""
MISFIT_FAMILY_ERROR = 0.05
"""Relative error of a queue's curve near its answer."""
MISFIT_Z = 4.0
"""A run contradicts the curve from here on,"""
MISFIT_LEAST = 0.3
"""... if it is also this far from it, in the logarithm of the response."""
MISFIT_FEWEST = 2
"""Runs that must contradict the curve: one may be anything."""
MISFIT_QUIETEST = 0.2
"""A run's noise is at least that at this share of the limit."""
