"""What `bw ramp` was asked, word for word, and what it means: a goal and a sample.

Two steps as everywhere: `RampRequest` is what the user typed and what a study keeps;
`ramp_plan` is what it means, with every mistake at once, each at its option or at its line
of the spec. An option wins over the same key of the spec's `[ramp]`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.load.words import count
from benchwright.model.errors import InputError
from benchwright.model.plan import Pairs
from benchwright.model.ramp import RampGoal
from benchwright.session.search_sample import SampleReading
from benchwright.suite.fault import diagnostic
from benchwright.workbench.ramp_spec import (
    WORDS,
    Misfit,
    goal_of,
    misfits,
    throughput_fault,
)
from benchwright.workbench.spec import Spec

TABLE = "ramp"


class RampRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user typed, word for word, and the seed that was drawn if none was said."""

    command: str | None = None
    """GEN; None: a spec is ramped."""
    throughput: str | None = None
    response: str | None = None
    p99: str | None = None
    errors: str | None = None
    series: str | None = None
    options: dict[str, str] = {}
    """By key of `WORDS`; only what was said."""
    seed: str | None = None
    drawn_seed: int = 1
    factors: tuple[str, ...] = ()
    """Each `NAME=LEVEL`."""
    plot: str | None = None


class RampPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is raised how far, and at which sample."""

    goal: RampGoal
    sample: Pairs = ()
    seed: int = 1
    """Of the generator's arrivals."""


def ramp_plan(request: RampRequest, spec: Spec) -> RampPlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _RampReading(request, spec)
    plan = reading.plan()
    if reading.found or plan is None:
        raise InputError(reading.found)
    return plan


class _RampReading(SampleReading):
    """One request being read."""

    def __init__(self, request: RampRequest, spec: Spec) -> None:
        super().__init__()
        self._request = request
        self._spec = spec

    def plan(self) -> RampPlan | None:
        """Return the plan; None after a mistake."""
        request, spec = self._request, self._spec
        sample = self._sample(request.factors, spec)
        seed = self._parsed("--seed", request.seed, count)
        said = spec.more.get(TABLE, {}) | self._said()
        fault = throughput_fault(spec) if request.command is None else None
        self.found += [] if fault is None else [fault]
        for misfit in misfits(said, spec):
            self._misfit(misfit)
        if self.found:
            return None
        seed = request.drawn_seed if seed is None else seed
        return RampPlan(goal=goal_of(said, spec), sample=sample, seed=seed)

    def _said(self) -> dict[str, Any]:
        """Return the goal's fields that options say."""
        found = {}
        for key, (field, parse) in WORDS.items():
            value = self._parsed(option(key), self._request.options.get(key), parse)
            if value is not None:
                found[field] = value
        return found

    def _misfit(self, misfit: Misfit) -> None:
        """Note a misfit at its option, or else at its line of the spec."""
        text = self._request.options.get(misfit.key)
        where = self._spec.places.get(f"{TABLE}.{misfit.key}")
        if text is None and where is not None:
            self.found.append(
                diagnostic(where, "spec-value", misfit.message, misfit.hint)
            )
        else:
            place = option(misfit.key) if text is not None else self._subject(misfit)
            self._wrong(place, text or "", misfit.message, misfit.hint)

    def _subject(self, misfit: Misfit) -> str:
        """Return where a misfit of nothing that was said is told."""
        if self._request.command is not None:
            return "--command"
        return self._spec.file if misfit.key == "axis" else option(misfit.key)


def option(key: str) -> str:
    """Return the option of a key of [ramp]."""
    return "--" + key.replace("_", "-")
