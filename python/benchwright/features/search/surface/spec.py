"""`[surface]` of a spec: the samples to search, the model that predicts the others, and
the factors that the spec uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from benchwright.core.quantity import parse_confidence
from benchwright.core.text import plural
from benchwright.features.load.parse import seconds, share
from benchwright.features.search.options import SurfaceRequest
from benchwright.features.search.spec import FactorUse, Spec
from benchwright.features.search.surface.coding import columns_of
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    ModelKind,
    SurfaceGoal,
    Transform,
    make_factor,
)
from benchwright.inputs.form import Form, form_of, optional, read_form, whole
from benchwright.inputs.mistakes import Fault
from benchwright.inputs.options import Option, options_of
from benchwright.inputs.toml_table import TomlTable

# --------------------------------------------------------------------------------------
# The factors that a spec uses: one that no value names has no effect.
#
# Purpose: a surface over an unused factor would cost searches and report that the factor has no
# effect, which was not measured. A program may also read a level from its environment; the
# name must then still appear in a text (`env BW_FACTOR_disks={disks} ./generate`).

_OF_GOAL = ("peak", "surface", "notify", "target")


def unused_factors(spec: Spec) -> tuple[str, ...]:
    """Return the factors that no value of the server or the load names."""
    used = {use.factor for use in spec.uses if use.table not in (*_OF_GOAL, "ramp")}
    return tuple(name for name, _ in spec.factors if name not in used)


def factors_of_goal(spec: Spec) -> tuple[FactorUse, ...]:
    """Return the uses of factors in tables that must be the same at all samples of a surface."""
    return tuple(use for use in spec.uses if use.table in _OF_GOAL)


# --------------------------------------------------------------------------------------
# `[surface]` of a spec: the samples to search, and the model that predicts the others.
#
# docs/surface.md is the reference for users; its table is made from `SURFACE`.

MOST_SAMPLES = 20_000
"""Maximum number of samples that the factors may span."""
SPARE = 1
"""Samples required in addition to the number of main-effect terms, unless all are searched.
With fewer, some word level is never measured: for 8 words and 4 numbers without interaction,
the bands held 69 % with 3 samples, 93 % with 9 (the terms) and 99 % with 10 (16 seeds)."""


class SurfaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The values of `[surface]`; None: not set."""

    factors: tuple[Factor, ...] = ()
    samples: Annotated[
        int | None,
        Option(
            help="number of samples to search; one that fails counts; the smallest number is below"
        ),
    ] = None
    design: Annotated[DesignKind | None, Option(default="`full`; `adaptive` with `samples`")] = None
    model: Annotated[
        ModelKind | None, Option(default="`gaussian-process`; `polynomial` with d- and i-optimal")
    ] = None
    degree: Annotated[int | None, Option(read=whole(1, 2))] = None
    spread: Annotated[float | None, Option(parse=share)] = None
    deadline_s: Annotated[
        float | None, Option(key="deadline", parse=seconds, default="none; see below")
    ] = None
    response: Annotated[
        Literal["log", "linear"] | None,
        Option(
            help="modelled quantity: the logarithm of the rate, or with `linear` the rate itself",
            default="`log`",
        ),
    ] = None
    confidence: Annotated[
        float | None,
        Option(parse=parse_confidence, help="confidence of bands and intervals", default="95%"),
    ] = None
    seed: Annotated[
        int | None,
        Option(
            read=whole(0, 2**63 - 1),
            help="random seed of the optimal designs",
            default="`[peak]`'s",
        ),
    ] = None

    @property
    def count(self) -> int:
        """The number of samples that the factors span."""
        return math.prod(len(factor.levels) for factor in self.factors)

    def fields(self) -> dict[str, Any]:
        """Return the fields of a SurfaceGoal, with defaults that follow from the others.

        A full factorial searches all samples; fewer are chosen adaptively, unless a polynomial
        is requested; a design that is optimal for a polynomial is fitted with one.
        """
        samples = min(self.samples or self.count, self.count)
        design = self.design or self._design(samples)
        log = self.response != "linear"
        said = {
            "degree": self.degree,
            "spread": self.spread,
            "confidence": self.confidence,
            "deadline_s": self.deadline_s,
        }
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


_TRANSFORM = optional(
    "transform",
    help="transformation of a numeric factor: `none`, `log`, `log2`, `sqrt`, such as "
    '`transform = { nfsd = "log2" }`',
    default="see below",
)


def _described(key: Option) -> Option:
    """Return a key with the description of the option of `bw surface` that it is, unless it has its
    own."""
    option = options_of(SurfaceRequest).get(str(key.key), key)
    return key._replace(help=key.help or option.help, default=key.default or option.default)


SURFACE = Form(
    tuple(map(_described, (*form_of(SurfaceSpec, factors=()).keys, _TRANSFORM))), SurfaceSpec
)
"""The keys of `[surface]`, for docs/."""


def _model(design: DesignKind) -> ModelKind:
    optimal = design in (DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    return ModelKind.POLYNOMIAL if optimal else ModelKind.GAUSSIAN_PROCESS


def surface_defaults(spec: Spec) -> SurfaceSpec:
    """Return the values for a spec without `[surface]`: every sample is searched."""
    return SurfaceSpec(factors=tuple(make_factor(*factor) for factor in spec.factors))


def read_surface(table: TomlTable, spec: Spec) -> SurfaceSpec:
    """Return the values of `[surface]`; report errors to the table."""
    factors = _factors(table, spec)
    # More samples than exist are an error.
    most = math.prod(len(factor.levels) for factor in factors)
    declared = {"samples": Option(read=whole(1, most))} if factors else {}
    surface_spec: SurfaceSpec | None = read_form(
        table, form_of(SurfaceSpec, declared, factors=factors), (str(_TRANSFORM.key),)
    )
    if surface_spec is None:
        return surface_defaults(spec)
    for misfit in surface_misfits(surface_spec):
        table.refuse(table.at(misfit.key), misfit.message, misfit.hint)
    return surface_spec


def surface_misfits(said: SurfaceSpec) -> list[Fault]:
    """Return conflicts between the design and the number of samples."""
    if not said.factors:
        return []
    if said.design is DesignKind.FULL and said.samples not in (None, said.count):
        message = f"design full is all {said.count} samples, not {said.samples}"
        hint = "leave samples out, or take adaptive or i-optimal"
        return [Fault.of_key("design", message, hint)]
    optimal = (DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    design = said.fields()["design"]
    if said.spread is not None and design not in optimal:
        message = f"design {design} has no spread"
        hint = "designs with it: d-optimal, i-optimal"
        return [Fault.of_key("spread", message, hint)]
    chosen = (DesignKind.ADAPTIVE, DesignKind.D_OPTIMAL, DesignKind.I_OPTIMAL)
    if said.design in chosen and said.samples is None:
        message = f"design {said.design} needs samples, of the {said.count} there are"
        return [Fault.of_key("design", message, "such as samples = 10")]
    least = least_samples(said.factors)
    if said.samples is not None and said.samples < min(least, said.count):
        message = f"{plural(said.samples, 'sample')} cannot predict the peaks of all {said.count}"
        hint = f"at least {min(least, said.count)}: one more than a plane has terms"
        return [Fault.of_key("samples", message, hint)]
    return []


def least_samples(factors: Sequence[Factor]) -> int:
    """Return the minimum number of samples from which a model of all others can be fitted."""
    return 1 + len(columns_of(factors)) + SPARE


def surface_goal_of(said: SurfaceSpec, peak: Any, seed: int) -> SurfaceGoal:
    """Return the goal of a surface, with the goal of its inner search."""
    chosen = said.seed if said.seed is not None else seed
    return SurfaceGoal(peak=peak, seed=chosen, **said.fields())


def _factors(table: TomlTable, spec: Spec) -> tuple[Factor, ...]:
    """Return the spec's factors, transformed as `transform` says, or automatically."""
    inner = table.table(str(_TRANSFORM.key))
    if inner is not None:
        inner.only([name for name, _ in spec.factors])
    found = []
    for name, levels in spec.factors:
        word = None if inner is None else inner.choice(name, tuple(Transform))
        found.append(_factor(inner, name, levels, word))
    return tuple(found)


def _factor(
    table: TomlTable | None, name: str, levels: tuple[str, ...], word: str | None
) -> Factor:
    try:
        return make_factor(name, levels, None if word is None else Transform(word))
    except ValueError as error:
        assert table is not None, "only a transform that was said can be wrong"
        table.refuse(table.at(name), str(error))
        return make_factor(name, levels)
