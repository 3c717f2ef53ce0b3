"""What `bw surface` was asked, word for word, and what it means: goal, claims, predictions.

The inner search's request is that of `bw peak`; an option wins over the same key of the
spec's `[surface]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from benchwright.load import words
from benchwright.model.errors import InputError
from benchwright.model.peak import Claim
from benchwright.model.surface import (
    DesignKind,
    Factor,
    ModelKind,
    Sample,
    SurfaceGoal,
)
from benchwright.session.search_peak_request import PeakPlan, PeakRequest, peak_plan
from benchwright.suite.fault import diagnostic
from benchwright.suite.option_reading import OptionReading
from benchwright.suite.program import Where
from benchwright.workbench.names_used import unused_factors
from benchwright.workbench.spec import Spec
from benchwright.workbench.surface_spec import (
    MOST_SAMPLES,
    SurfaceSpec,
    goal_of,
    surface_defaults,
    surface_misfits,
)

FARTHEST = 100.0
"""Levels span -1 to 1; a sample farther out is not predicted, not even with a band."""


class SurfaceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user typed, word for word."""

    peak: PeakRequest
    """Of the inner search."""
    samples: str | None = None
    design: str | None = None
    model: str | None = None
    degree: str | None = None
    predict: tuple[str, ...] = ()
    """Each `NAME=LEVEL,NAME=LEVEL`."""
    plot: str | None = None


class SurfacePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is mapped, and by which inner search."""

    goal: SurfaceGoal
    claims: tuple[Claim, ...]
    policy: str
    predict: tuple[Sample, ...] = ()

    def inner(self, goal: Any, sample: Sample) -> PeakPlan:
        """Return the plan of the search at one sample."""
        return PeakPlan(
            goal=goal, claims=self.claims, policy=self.policy, sample=sample
        )


def surface_plan(request: SurfaceRequest, spec: Spec) -> SurfacePlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _SurfaceReading(request, spec)
    plan = reading.plan()
    if reading.found or plan is None:
        raise InputError(reading.found)
    return plan


def read_predicted(
    words_: tuple[str, ...], factors: tuple[Factor, ...]
) -> tuple[Sample, ...]:
    """Return the samples that `--predict` names. Raises InputError with every mistake."""
    reading = _PredictReading()
    samples = [reading.sample(word, factors) for word in words_]
    if reading.found:
        raise InputError(reading.found)
    return tuple(one for one in samples if one is not None)


class _PredictReading(OptionReading):
    """Samples being read."""

    def sample(self, word: str, factors: tuple[Factor, ...]) -> Sample | None:
        """Return the sample of one word; None where it is wrong."""
        said: dict[str, str] = {}
        known = ", ".join(factor.name for factor in factors)
        for part in word.split(","):
            name, equals, level = part.strip().partition("=")
            fault = None
            if not equals or not level:
                fault = (f"{part!r} names no level", "write FACTOR=LEVEL,...")
            elif name not in {factor.name for factor in factors}:
                fault = (f"there is no factor {name!r}", f"the factors are: {known}")
            elif name in said:
                fault = (f"factor {name} is there twice", "leave one out")
            if fault is not None:
                self._wrong("--predict", word, *fault)
                return None
            said[name] = level
        return self._whole(word, said, factors)

    def _whole(
        self, word: str, said: Mapping[str, str], factors: tuple[Factor, ...]
    ) -> Sample | None:
        missing = [one.name for one in factors if one.name not in said]
        if missing:
            message = f"no level of {', '.join(missing)} is given"
            self._wrong("--predict", word, message, "a sample has one of each factor")
            return None
        for factor in factors:
            message = fault_of_level(factor, said[factor.name])
            if message:
                self._wrong("--predict", word, message)
                return None
        return tuple((factor.name, said[factor.name]) for factor in factors)


def fault_of_level(factor: Factor, level: str) -> str:
    """Return why the model knows nothing of a level; empty where it does."""
    if not factor.numeric:
        known = ", ".join(factor.levels)
        return "" if level in factor.levels else f"{level!r} is none of {known}"
    try:
        place = factor.place(level)
    except (ValueError, OverflowError) as error:
        return f"{factor.name}: {error}"
    if abs(place) <= FARTHEST:
        return ""
    return f"{factor.name}: {level} is too far from all levels for a model to know it"


class _SurfaceReading(OptionReading):
    """One request being read."""

    def __init__(self, request: SurfaceRequest, spec: Spec) -> None:
        super().__init__()
        self._request = request
        self._spec = spec

    def plan(self) -> SurfacePlan | None:
        """Return the plan; None where there are mistakes."""
        inner = self._inner()
        said = self._said()
        if not self._spec.factors:
            hint = "write [factors] with levels, such as workers = [1, 2, 4]"
            message = f"{self._spec.file} has no factors: there is nothing to map"
            self._wrong(self._spec.file, "", message, hint)
        elif said.count > MOST_SAMPLES:
            message = f"the factors span {said.count} samples, over {MOST_SAMPLES}"
            self._wrong(self._spec.file, "", message, "leave levels out")
        self._check_used()
        if self.found or inner is None:
            return None
        predict = self._predicted(said.factors)
        if self.found:
            return None
        return SurfacePlan(
            goal=goal_of(said, inner.goal, inner.goal.seed),
            claims=inner.claims,
            policy=inner.policy,
            predict=predict,
        )

    def _inner(self) -> PeakPlan | None:
        try:
            return peak_plan(self._request.peak, self._spec)
        except InputError as error:
            self.found += error.diagnostics
            return None

    def _predicted(self, factors: tuple[Factor, ...]) -> tuple[Sample, ...]:
        try:
            return read_predicted(self._request.predict, factors)
        except InputError as error:
            self.found += error.diagnostics
            return ()

    def _said(self) -> SurfaceSpec:
        """Return what the spec says, with the options in place of it."""
        base = self._spec.more.get("surface") or surface_defaults(self._spec)
        asked = self._request
        designs, models = tuple(DesignKind), tuple(ModelKind)
        changed: dict[str, Any] = {
            "samples": self._parsed(
                "--samples", asked.samples, lambda text: _within(text, base.count)
            ),
            "design": self._parsed(
                "--design",
                asked.design,
                lambda text: DesignKind(words.one_of(text, designs, "design")),
            ),
            "model": self._parsed(
                "--model",
                asked.model,
                lambda text: ModelKind(words.one_of(text, models, "model")),
            ),
            "degree": self._parsed(
                "--degree", asked.degree, lambda text: _within(text, 2)
            ),
        }
        given = {name: value for name, value in changed.items() if value is not None}
        said = msgspec.structs.replace(base, **given)
        if given and not self.found:
            for misfit in surface_misfits(said):
                text = asked.samples if misfit.key == "samples" else asked.design
                self._wrong(f"--{misfit.key}", text or "", misfit.message, misfit.hint)
        return said

    def _check_used(self) -> None:
        """Note each factor that no text names, at its line."""
        for name in unused_factors(self._spec):
            where = self._spec.places.get(f"factors.{name}", Where(self._spec.file))
            message = f"no command uses the factor {name}: it would change nothing"
            hint = f"write {{{name}}} into a text of [server] or [load]"
            self.found.append(diagnostic(where, "spec-value", message, hint))


def _within(text: str, most: int) -> int:
    """Return a whole number from 1 to `most`. Raises ValueError."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= most:
        raise ValueError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)
