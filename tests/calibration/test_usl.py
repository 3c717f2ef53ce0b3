"""Do the intervals of the Universal Scalability Law cover? Simulated profiles, fixed seeds.

Each replication draws noisy throughputs of a law and fits it as `bw ramp` does. The cells
have the law inside its bounds, on each of them, and where two meet; few levels and many;
noise of one and of five per cent. BW_CALIBRATION=full runs 1,000 profiles a cell, the
small form 150 of the telling ones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from benchwright.features.search.ramp.scalability import fit_usl, usl_throughput
from benchwright.features.search.ramp.types import ScalabilityModel, UslFit
from ramps import holds, maximum_holds

FULL = os.environ.get("BW_CALIBRATION") == "full"
REPLICATIONS = 1_000 if FULL else 150
DOUBLED = (1, 2, 4, 8, 16, 32, 64)
STEPPED = tuple(range(1, 41, 3))


class Cell(msgspec.Struct, frozen=True):
    """A law, where it is measured, and with how much noise."""

    name: str
    sigma: float
    kappa: float
    noise: float = 0.03
    levels: tuple[int, ...] = DOUBLED
    repeats: int = 1
    gamma: float = 100.0


CELLS = (
    Cell("inside", 0.03, 0.0005),
    Cell("kappa = 0", 0.05, 0.0),
    Cell("sigma = kappa = 0", 0.0, 0.0),
)
MORE = (
    Cell("inside, 1 % noise", 0.03, 0.0005, 0.01),
    Cell("inside, 10 % noise", 0.03, 0.0005, 0.1),
    Cell("sigma = 0", 0.0, 0.0005),
    Cell("sigma = 0.9", 0.9, 0.0),
    Cell("14 levels", 0.03, 0.0005, 0.03, STEPPED),
    Cell("14 levels, kappa = 0", 0.05, 0.0, 0.03, STEPPED),
    Cell("three runs each", 0.03, 0.0005, 0.03, DOUBLED, 3),
    Cell("five levels, kappa = 0", 0.05, 0.0, 0.03, DOUBLED[:5]),
)


class Coverage(msgspec.Struct, frozen=True):
    """Shares of the profiles whose interval holds the truth, or of which something is told."""

    gamma: float
    sigma: float
    kappa: float
    maximum: float
    above_simplest: float
    """Told a law with more parameters than the true one has."""
    refuted: float

    def row(self, name: str) -> str:
        """Return the figures as a line of a table."""
        figures = (getattr(self, field) for field in self.__struct_fields__)
        return f"{name:<24}" + "".join(f"{100 * figure:8.1f}" for figure in figures)


def fits(cell: Cell) -> Iterator[UslFit]:
    """Yield the fits of a cell's profiles."""
    random = np.random.default_rng((20261121, len(cell.name), len(cell.levels)))
    users = np.repeat(np.array(cell.levels, dtype=float), cell.repeats)
    true = usl_throughput(users, cell.gamma, cell.sigma, cell.kappa)
    for _ in range(REPLICATIONS):
        measured = true * np.exp(random.normal(0, cell.noise, users.size))
        yield fit_usl(users.tolist(), measured.tolist())


def simplest(cell: Cell) -> ScalabilityModel:
    """Return the law that is true."""
    if cell.kappa:
        return ScalabilityModel.USL
    return ScalabilityModel.AMDAHL if cell.sigma else ScalabilityModel.LINEAR


def coverage_of(cell: Cell) -> Coverage:
    """Return how often the fit of a cell is right."""
    order = list(ScalabilityModel)
    rows = [
        (
            holds(fit.gamma, cell.gamma),
            holds(fit.sigma, cell.sigma),
            holds(fit.kappa, cell.kappa),
            maximum_holds(fit, cell.sigma, cell.kappa),
            order.index(fit.preferred) > order.index(simplest(cell)),
            fit.refuted,
        )
        for fit in fits(cell)
    ]
    return Coverage(*(float(share) for share in np.mean(rows, axis=0)))


@pytest.mark.parametrize("cell", CELLS + MORE if FULL else CELLS, ids=lambda cell: str(cell.name))
def test_intervals_cover(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    """Each at least 95 %, less four standard errors of the count; and inside the bounds not
    much more, so that they are no wider than they must be."""
    found = coverage_of(cell)
    with capsys.disabled():
        print("\n" + found.row(cell.name), end="")
    slack = 4 * math.sqrt(0.05 * 0.95 / REPLICATIONS)
    for share in (found.gamma, found.sigma, found.kappa, found.maximum):
        assert share >= 0.95 - slack
    if cell.sigma and cell.kappa:
        assert found.kappa <= 0.95 + slack
    assert found.above_simplest <= 0.10 + slack
    assert found.refuted <= 0.02 + slack


def test_lack_of_fit_is_as_rare_as_it_says_and_sees_a_pool() -> None:
    """p-values of a true law are even; a pool of 16, with 3 % noise, is hardly ever missed."""
    law = Cell("three runs each", 0.03, 0.0005, 0.03, DOUBLED, 3)
    values = np.array([fit.misfit_p for fit in fits(law)], dtype=float)
    for level in (0.05, 0.5):
        slack = 4 * math.sqrt(level * (1 - level) / REPLICATIONS)
        assert abs(float(np.mean(values < level)) - level) <= slack
    random = np.random.default_rng(20261121)
    users = np.repeat(np.array(DOUBLED, dtype=float), 3)
    pool = 100 * np.minimum(users, 16)
    found = [
        fit_usl(
            users.tolist(), (pool * np.exp(random.normal(0, 0.03, users.size))).tolist()
        ).misfit_p
        for _ in range(50)
    ]
    assert sum(p is not None and p < 0.01 for p in found) >= 49
