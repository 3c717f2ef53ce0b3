"""`[surface]` of a spec: which samples are searched, and what model tells the others.

Keys: `samples`, `design`, `model`, `degree`, `response`, `transform`, `confidence`, `seed`.
Without `samples` every sample is searched. docs/surface.md is the reference for users.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from benchwright.model.surface import (
    DesignKind,
    Factor,
    ModelKind,
    SurfaceGoal,
    Transform,
    factor_of,
)
from benchwright.workbench.criteria import parse_confidence
from benchwright.workbench.spec import Spec
from benchwright.workbench.spec_table import SpecTable

MOST_SAMPLES = 20_000
"""That factors may span."""
_KEYS = (
    "samples",
    "design",
    "model",
    "degree",
    "response",
    "transform",
    "confidence",
    "seed",
)
RESPONSES = ("log", "linear")


class SurfaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What `[surface]` says; None: it does not."""

    factors: tuple[Factor, ...] = ()
    samples: int | None = None
    design: DesignKind | None = None
    model: ModelKind | None = None
    degree: int | None = None
    response: str | None = None
    confidence: float | None = None
    seed: int | None = None

    @property
    def count(self) -> int:
        """How many samples there are."""
        return math.prod(len(factor.levels) for factor in self.factors)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a SurfaceGoal, with what follows from what was said.

        All samples are a full factorial; fewer are chosen adaptively, unless a polynomial
        is asked for; a design that is optimal for a polynomial is fitted by one.
        """
        samples = min(self.samples or self.count, self.count)
        design = self.design or self._design(samples)
        log = self.response != "linear"
        said = {"degree": self.degree, "confidence": self.confidence}
        return {
            "factors": self.factors,
            "samples": self.count if design is DesignKind.FULL else samples,
            "design": design,
            "model": self.model or _model(design),
            "log_response": log,
            **{name: value for name, value in said.items() if value is not None},
        }

    def _design(self, samples: int) -> DesignKind:
        if samples == self.count:
            return DesignKind.FULL
        if self.model is ModelKind.POLYNOMIAL:
            return DesignKind.I_OPTIMAL
        return DesignKind.ADAPTIVE


def _model(design: DesignKind) -> ModelKind:
    optimal = design in (DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    return ModelKind.POLYNOMIAL if optimal else ModelKind.GAUSSIAN_PROCESS


def surface_defaults(spec: Spec) -> SurfaceSpec:
    """Return what holds for a spec without `[surface]`: every sample is searched."""
    return SurfaceSpec(factors=tuple(factor_of(*one) for one in spec.factors))


def read_surface(table: SpecTable, spec: Spec) -> SurfaceSpec:
    """Return what `[surface]` says; mistakes are reported to the table."""
    table.only(_KEYS)
    factors = _factors(table, spec)
    # Without factors there is nothing to count: session/search_surface_request.py says so.
    most = math.prod(len(one.levels) for one in factors) if factors else MOST_SAMPLES
    design = table.choice("design", tuple(DesignKind))
    model = table.choice("model", tuple(ModelKind))
    said = SurfaceSpec(
        factors=factors,
        samples=table.whole("samples", 1, most),
        design=None if design is None else DesignKind(design),
        model=None if model is None else ModelKind(model),
        degree=table.whole("degree", 1, 2),
        response=table.choice("response", RESPONSES),
        confidence=table.read("confidence", parse_confidence),
        seed=table.whole("seed", 0, 2**63 - 1),
    )
    for message, hint in surface_faults(said):
        table.refuse(table.at("design"), message, hint)
    return said


def surface_faults(said: SurfaceSpec) -> list[tuple[str, str]]:
    """Return what is wrong with a design, and what to do about it."""
    if not said.factors:
        return []
    if said.design is DesignKind.FULL and said.samples not in (None, said.count):
        message = f"design full is all {said.count} samples, not {said.samples}"
        return [(message, "leave samples out, or take adaptive or i-optimal")]
    chosen = (DesignKind.ADAPTIVE, DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    if said.design in chosen and said.samples is None:
        message = f"design {said.design} needs samples, of the {said.count} there are"
        return [(message, "such as samples = 10")]
    return []


def goal_of(said: SurfaceSpec, peak: Any, seed: int) -> SurfaceGoal:
    """Return the goal of a mapping, with its inner search's goal."""
    chosen = said.seed if said.seed is not None else seed
    return SurfaceGoal(peak=peak, seed=chosen, **said.fields())


def _factors(table: SpecTable, spec: Spec) -> tuple[Factor, ...]:
    """Return the spec's factors, transformed as `transform` says or by themselves."""
    inner = table.table("transform")
    if inner is not None:
        inner.only([name for name, _ in spec.factors])
    found = []
    for name, levels in spec.factors:
        word = None if inner is None else inner.choice(name, tuple(Transform))
        found.append(_factor(inner, name, levels, word))
    return tuple(found)


def _factor(
    table: SpecTable | None, name: str, levels: tuple[str, ...], word: str | None
) -> Factor:
    try:
        return factor_of(name, levels, None if word is None else Transform(word))
    except ValueError as error:
        assert table is not None, "only a transform that was said can be wrong"
        table.refuse(table.at(name), str(error))
        return factor_of(name, levels)
