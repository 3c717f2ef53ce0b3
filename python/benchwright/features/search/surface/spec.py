"""`[surface]` of a spec: the samples to search, the model that predicts the others, the factors
that the spec uses, and how the time that is left until the deadline is shared over the samples
still to come.

Decision: every search gets an equal share, and no search less than what finds a peak roughly: a
search that ends early leaves its time to the others. Where the time is not enough for all samples,
fewer are searched. Many rough peaks map a surface better than a few precise ones: with ten samples
the model's own error is 4 to 5 %, and a search of `SEARCH_TRIALS` short trials finds the peak to
about 5 % with an interval that the model takes into account (docs/surface.md has the comparison).
Pure: the caller measures the time and records what was decided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from benchwright.core.quantity import parse_confidence
from benchwright.core.text import plural
from benchwright.features.load.parse import seconds, share
from benchwright.features.search.options import SurfaceRequest
from benchwright.features.search.peak.policies.policy import run_length_s
from benchwright.features.search.spec import FactorUse, Spec
from benchwright.features.search.surface import tuning
from benchwright.features.search.surface.coding import columns_of
from benchwright.features.search.surface.types import (
    DesignKind,
    Factor,
    ModelKind,
    SampleResult,
    SurfaceGoal,
    Transform,
    make_factor,
)
from benchwright.inputs.form import Form, form_of, optional, read_form, whole
from benchwright.inputs.mistakes import Fault
from benchwright.inputs.options import Option, options_of
from benchwright.inputs.toml_table import TomlTable


class TimeLeft(msgspec.Struct, frozen=True):
    """The time of a mapping with a deadline, when it chooses a sample."""

    spent_s: float
    """Time since the mapping began, without interruptions [s]."""
    left_s: float
    """Time until the deadline [s]."""
    begins: bool = False
    """Whether no search has begun within this deadline."""
    held_s: float | None = None
    """Of a pool: time for which the searches that ended held their gangs [s]; None: `spent_s`."""


class GangTimes(msgspec.Struct, frozen=True):
    """The gangs of a pool that share the time of a deadline. Without a pool, one that is free."""

    free_s: tuple[float, ...] = (0.0,)
    """Time until each gang is free, at most: what is left of the budgets of its searches [s]."""
    following: tuple[int, ...] = (0,)
    """The gangs (indexes of `free_s`) that are to make the next searches, in this order; then all
    gangs make one each, again and again."""


class TimeShare(msgspec.Struct, frozen=True):
    """What the time left is enough for."""

    searches: int
    """Number of searches that can still be made."""
    budget_s: float
    """Budget of the next search [s]."""
    gang: int = 0
    """Index of the gang that makes the next search."""


def time_share(
    goal: SurfaceGoal,
    results: Sequence[SampleResult],
    time: TimeLeft,
    to_come: int | None = None,
    gangs: GangTimes | None = None,
) -> TimeShare:
    """Return how many of the searches still to come can be made, and the budget of the next one.

    `to_come`: number of searches still to come; None: one for each sample without a result. A gang
    without time for another search is passed over. The first search of a deadline always has a
    budget: all of the time, if it is short.
    """
    gangs = GangTimes() if gangs is None else gangs
    to_come = goal.samples - len(results) if to_come is None else to_come
    beside_s = time_beside_s(results, time)
    end_s = _end_s(goal)
    least_s = least_search_s(goal, results)
    left_s = [time.left_s - end_s - free_s for free_s in gangs.free_s]
    room = [
        max(
            int(left / (least_s + beside_s)),
            int(left >= tuning.LAST_SEARCH_SHARE * least_s + beside_s),
        )
        for left in left_s
    ]
    if time.begins:
        first = gangs.following[0]
        room[first] = max(room[first], 1)
    made = [0] * len(room)
    rounds = itertools.repeat(range(len(room)), to_come)
    order: list[int] = []
    for gang in itertools.chain(gangs.following, *rounds):
        if len(order) < to_come and made[gang] < room[gang]:
            made[gang] += 1
            order.append(gang)
    if not order:
        return TimeShare(0, 0.0)
    gang = order[0]
    budget_s = max(left_s[gang] / made[gang] - beside_s, tuning.SHORTEST_BUDGET_S)
    return TimeShare(len(order), math.floor(10 * budget_s) / 10, gang)


def _end_s(goal: SurfaceGoal) -> float:
    """Return the time that is kept for the start and the end of the session [s]."""
    assert goal.deadline_s is not None
    low_s, high_s = tuning.END_RANGE_S
    return min(max(tuning.END_SHARE * goal.deadline_s, low_s), high_s)


def budget_within_s(goal: SurfaceGoal, budget_s: float | None, left_s: float) -> float:
    """Return the budget of a search that was chosen earlier and begins now [s].

    `budget_s`: its share of the time when it was chosen. Less may be `left_s` until the deadline,
    because its gang was busy or was not there.
    """
    left_s = max(left_s - _end_s(goal), tuning.SHORTEST_BUDGET_S)
    return min(left_s, math.inf if budget_s is None else budget_s)


def time_beside_s(results: Sequence[SampleResult], time: TimeLeft) -> float:
    """Return the time of a search beside its trials, as the mean of these results [s]: decisions,
    recording and the start of a session."""
    if not results:
        return 0.0
    cost_s = math.fsum(result.found.cost_s for result in results)
    held_s = time.spent_s if time.held_s is None else time.held_s
    return max(held_s - cost_s, 0.0) / len(results)


def least_search_s(goal: SurfaceGoal, results: Sequence[SampleResult]) -> float:
    """Return the shortest budget of a search that finds a peak roughly [s]."""
    trials = sum(result.found.trials for result in results)
    restart_s = goal.peak.restart_s
    if trials:
        beside_load = (result.found.cost_s - result.found.load_s for result in results)
        restart_s = math.fsum(beside_load) / trials
    length_s = goal.trial_s or run_length_s(goal.peak, tuning.SEARCH_TRIAL_S)
    return tuning.SEARCH_TRIALS * (length_s + restart_s)


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
    factors = []
    for name, levels in spec.factors:
        word = None if inner is None else inner.choice(name, tuple(Transform))
        factors.append(_factor(inner, name, levels, word))
    return tuple(factors)


def _factor(
    table: TomlTable | None, name: str, levels: tuple[str, ...], word: str | None
) -> Factor:
    try:
        return make_factor(name, levels, None if word is None else Transform(word))
    except ValueError as error:
        assert table is not None, "only a transform that was said can be wrong"
        table.refuse(table.at(name), str(error))
        return make_factor(name, levels)
