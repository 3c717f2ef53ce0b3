"""A test whose precision is out of reach gives up; one that would have reached it does not.

The time to give up is over at the end of the pilot, which is the hardest case: the pilot of 10 or
30 trials alone decides. The true need of a mean is 0.6, 1 and 4 times the limit; with 1, about half
of the tests would be answered. `make calibration` (BW_CALIBRATION=full) plays more replications and
every population, and prints the table.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from benchwright.core.plan import UntilPrecise
from populations import Population, bimodal, correlated, gamma, lognormal, normal
from stopping import stop_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEED = 20_261_128
REPLICATIONS = 1000 if FULL else 50
LIMIT = 300
TARGET = 0.02
SECOND = 1_000_000_000


def few_far_values(cv: float) -> Population:
    """Return Student's t with 3 degrees of freedom: a variance of which most pilots show little."""
    scale = cv / math.sqrt(3)

    def draw(
        rng: np.random.Generator, shape: tuple[int, int]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return 1 + scale * rng.standard_t(3, size=shape)

    return Population(f"t(3) {cv:.0%}", draw)


RULES = {
    "plan mean": (UntilPrecise(TARGET), 4, 1.0),
    "long plan mean": (UntilPrecise(TARGET, long_minimum=10), 13, 1.0),
    "watch mean": (UntilPrecise(TARGET, mode="watch", minimum=20), 6, 1.6),
    "plan median": (UntilPrecise(TARGET, share=0.5), 4, 1.25),
}
"""By name: the rule, how long a trial takes [s], and how much wider than the normal interval of a
mean its interval is."""
POPULATIONS: dict[str, Callable[[float], Population]] = {
    "normal": normal,
    "lognormal": lognormal,
    "gamma": gamma,
    "bimodal": bimodal,
    "AR(1) 0.3": lambda cv: correlated(0.3, cv / 1.36),
    "AR(1) 0.6": lambda cv: correlated(0.6, cv / 2),
    "t(3)": few_far_values,
}
NAMES = tuple(POPULATIONS) if FULL else ("normal", "bimodal", "AR(1) 0.6", "t(3)")


def played(mode: str, name: str, need: float) -> tuple[float, float, float]:
    """Return the share of tests that were given up although they would have been answered, the
    share that was given up at all, and the mean number of trials of these."""
    rule, trial_s, width = RULES[mode]
    cv = TARGET * math.sqrt(LIMIT * need) / 1.96 / width
    series = POPULATIONS[name](cv).series(SEED, (REPLICATIONS, LIMIT))
    gives_up = msgspec.structs.replace(rule, maximum=LIMIT, give_up_ns=120 * SECOND)
    goes_on = msgspec.structs.replace(gives_up, give_up_ns=None)
    wrong, trials = 0, []
    for one in series:
        stop, done = stop_of(gives_up, one, trial_s * SECOND)
        if stop.reason == "out-of-reach":
            trials.append(done)
            wrong += need <= 1 and stop_of(goes_on, one, trial_s * SECOND)[0].answered
    found = wrong / len(series), len(trials) / len(series)
    print(
        f"{mode}, {name}, need {need:g} of the limit: wrong {found[0]:.2%}, "
        f"given up {found[1]:.1%} after {np.mean(trials or [0]):.0f} trials"
    )
    return (*found, float(np.mean(trials or [0])))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", RULES)
def test_a_test_that_would_be_answered_goes_on(mode: str) -> None:
    found = [played(mode, name, need)[0] for name in NAMES for need in (0.6, 1.0)]
    assert np.mean(found) < 0.01
    assert max(found) < 0.04


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", RULES)
def test_a_target_far_out_of_reach_costs_a_part_of_the_limit(mode: str) -> None:
    for name in NAMES:
        if (mode, name) == ("plan median", "bimodal"):
            continue  # The median of its fast mode needs a tenth of that.
        _, share, trials = played(mode, name, 4.0)
        assert share > (0.9 if mode.endswith("plan mean") else 0.6)
        assert trials < 0.6 * LIMIT
