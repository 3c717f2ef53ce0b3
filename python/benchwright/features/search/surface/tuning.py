"""Every tuned constant of a response surface, each with its reason."""

from __future__ import annotations

# -- which samples (design.py) ----------------------------------------------------------------

INITIAL_SHARE = 0.6
"""Share of an adaptive design's samples that are chosen before anything was measured."""
SPREAD_SHARE = 0.5
"""Share of an optimal design's samples beyond the polynomial's terms that are chosen far from all
others: an optimal design has only the levels that its terms need, so only these samples show
whether the polynomial fits at all."""
EVEN_POINTS_PER_SAMPLE = 64
"""Even points that are tried for each sample: some coincide with an earlier sample."""
RATE_DIGITS = 5
"""Significant digits of a start rate."""

# -- the time until a deadline (spec.py) -------------------------------------------

SEARCH_TRIALS = 4
"""Fewest trials for which a search is begun: the climb, and one or two trials near the peak."""
SEARCH_TRIAL_S = 15.0
"""Length of these trials where the user sets none. With a budget of 60 s, 32 searches of M/M/c
servers that began at a factor of 1.4 from the peak had a median error of 4 % (90 % of them less
than 7 %), with 15 s 11 % (17 %), with 240 s
0.9 % (1.6 %); 90 of the 94 intervals held the peak."""
LAST_SEARCH_SHARE = 0.5
"""A last search is begun with this share of the least budget: the time would be lost otherwise."""
SHORTEST_BUDGET_S = 1.0
"""Shortest budget of the first search, which is always begun."""
END_SHARE = 0.02
"""Share of a deadline that is kept for the start of the session (a second or two) and for what
follows the last load: requests in flight after an overload (some seconds), findings, the report."""
END_RANGE_S = (2.0, 10.0)
"""Its limits."""

# -- gangs of a pool (design.py, gangs.py) ---------------------------------------------

FEWEST_BELIEVED_SAMPLES = 5
"""Minimum of samples with a result for a choice that believes the process's predictions of others;
with fewer, the sample far from all others is better. With 10 samples of four gangs the error of
maps was 5.1 % without this minimum and 4.7 % with it."""
GANG_SDS = (0.002, 0.005, 0.0125, 0.03, 0.08)
"""Standard deviations of the gangs' effects that are averaged over: from no effect that matters to
hosts of different types."""
FREE_GANG_SD = 1.0
"""The same without shrinking."""
GANG_WIDENING = 1.2
"""Factor of the standard deviations of the effects: on surfaces with bottlenecks the errors of 60
pools of four gangs were 1.1 (10 samples) to 1.2 times (24 and 32) what the process expects, because
it takes a kink for noise of one sample."""
CLAIM_SHARE = 0.8
"""Share of the interval's error with which a difference between gangs is claimed where there is
none; the rest is that of a difference larger than stated."""

# -- the exchange of rows (design.py) -------------------------------------------------------------

DESIGN_STARTS = 20
"""Random starts of an exchange."""
DESIGN_POOL = 1000
"""With more candidates, the starts use this many: those with the largest leverage, and as many
others, uniformly at random."""
INFORMATION_RIDGE = 1e-8
"""Ridge added to the information, so that a start that does not determine every coefficient can
be improved."""
LEAST_GAIN = 1e-9
"""Minimum gain of an exchange: without it, rounding errors would cause exchanges forever."""
EXCHANGE_TRIES = 30
"""Exchanges that are tried in one step, the most promising first."""
LEAST_DETERMINANT_RATIO = 1e-12
"""Minimum ratio of the determinants of an exchange: below it, the new design is singular."""

# -- noise and models (model.py, gaussian_process.py) -------------------

LEAST_RELATIVE_SD = 1e-3
"""Minimum standard deviation of a peak's logarithm: no rate is known better than to 0.1 %."""
FEWEST_SPARE_SAMPLES = 2
"""Minimum of samples beyond the number of a polynomial's terms: fewer do not show the error. An
optimal design of fewer samples keeps its polynomial if all of them have a peak."""
DETERMINED_LEVERAGE = 1 - 1e-9
"""From this leverage a sample determines its own fitted value."""
FEWEST_PROCESS_SAMPLES = 3
"""Minimum of samples for a Gaussian process."""
HYPERPARAMETER_DRAWS = 256
"""Draws of a process's hyperparameters."""
LEAST_WEIGHT = 1e-3
"""Minimum weight of a draw relative to the most likely one; others are ignored."""
SMOOTH_VARIANCES = (0.1, 10.0)
"""Range of the smooth part's variance, as a share of the responses'."""
TREND_VARIANCES = (0.1, 1.0)
"""Range of the linear trend's variance, likewise."""
SMOOTH_LENGTHS = (0.4, 5.0)
"""Range of the smooth part's lengths, on axes that span 2."""
OWN_VARIANCES = (1e-14, 1.0)
"""Range of the variance of each sample's own deviation: a cliff between levels, or searches whose
intervals are too narrow."""
PREDICTED_AT_ONCE = 512
"""Samples that are predicted at once; limits the memory."""

# -- findings (result.py) --------------------------------------------------------------

LACK_OF_FIT_LEVEL = 0.01
"""Level of the test of residuals against the searches' own noise."""
FEWEST_SAMPLES_PER_TERM = 2
"""Minimum of samples for each term of a plane: with fewer, the coverage of the bands was 81 to 86 %
where the peak had a step of a factor of 4 at some level, and 99 % without one (docs/surface.md)."""
SAMPLES_SHOWN = 4
"""Maximum of samples named in one finding's evidence."""
