"""Every tuned constant of a response surface, each with its reason."""

from __future__ import annotations

# -- which samples (design.py) ----------------------------------------------------------------

INITIAL_SHARE = 0.6
"""Share of an adaptive design's samples that are chosen before anything was measured."""
SPREAD_SHARE = 0.5
"""Share of an optimal design's samples beyond the polynomial's terms that are chosen far from all
others: an optimal design has no level but those that its terms need, so only these show whether
the polynomial fits at all."""
EVEN_POINTS_PER_SAMPLE = 64
"""Even points that are looked at for each sample: some fall on one that is there already."""
RATE_DIGITS = 5
"""Digits of a start rate: a rate that can be written down."""

# -- the exchange of rows (design.py) -------------------------------------------------------------

DESIGN_STARTS = 20
"""Random starts of an exchange."""
DESIGN_POOL = 1000
"""Of more candidates the starts see this many: those with the most leverage, and as many others
evenly at random."""
INFORMATION_RIDGE = 1e-8
"""Added to the information, so that a start that determines not every coefficient can be
improved."""
LEAST_GAIN = 1e-9
"""An exchange that gains less is none: otherwise rounding errors exchange for ever."""
EXCHANGE_TRIES = 30
"""Exchanges that are looked at in one step, the most promising first."""
LEAST_DETERMINANT_RATIO = 1e-12
"""An exchange that leaves less of the determinant makes a design that determines nothing."""

# -- noise and models (model.py, polynomial.py, gaussian_process.py) --------------------------------

LEAST_RELATIVE_SD = 1e-3
"""Standard deviation of a peak's logarithm, at least: no rate is known better than to a tenth of
a per cent."""
FEWEST_SPARE_SAMPLES = 2
"""Samples beyond the number of a polynomial's terms: fewer show nothing of the error."""
DETERMINED_LEVERAGE = 1 - 1e-9
"""Leverage from which on a sample is fitted by itself alone."""
FEWEST_PROCESS_SAMPLES = 3
"""Fewer samples have no shape for a Gaussian process."""
HYPERPARAMETER_DRAWS = 256
"""Draws of a process's hyperparameters."""
LEAST_WEIGHT = 1e-3
"""Weight of a draw beside the likeliest one, at least: others change nothing."""
SMOOTH_VARIANCES = (0.1, 10.0)
"""Range of the smooth part's variance, as a share of the responses'."""
TREND_VARIANCES = (0.1, 1.0)
"""Range of the linear trend's variance, likewise."""
SMOOTH_LENGTHS = (0.4, 5.0)
"""Range of the smooth part's lengths, on axes that span 2."""
OWN_VARIANCES = (1e-14, 1.0)
"""Range of the variance that is each sample's own: a cliff between levels, or searches whose
intervals are too narrow."""
PREDICTED_AT_ONCE = 512
"""Samples that are predicted at once: bounds the memory."""

# -- findings (result.py) ---------------------------------------------------------------------------

LACK_OF_FIT_LEVEL = 0.01
"""Level of the test of residuals against the searches' own noise."""
FEWEST_SAMPLES_PER_TERM = 2
"""Samples for each term of a plane: with fewer, bands held 81 to 86 % where the peak had a step
of a factor of 4 at some level, and 99 % where it had none (docs/surface.md)."""
SAMPLES_SHOWN = 4
"""Samples that are named in one piece of evidence."""
