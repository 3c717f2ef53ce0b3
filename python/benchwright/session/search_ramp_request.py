"""What `bw ramp` was asked, word for word, and what it means: a goal and a sample.

Two steps as everywhere: `RampRequest` is what the user typed and what a study keeps;
`ramp_plan` is what it means, with every mistake at once, each at its option or at its line
of the spec. An option wins over the same key of the spec's `[ramp]`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchwright.load.words import count
from benchwright.model.errors import Diagnostic, InputError
from benchwright.model.plan import Pairs
from benchwright.model.ramp import Axis, RampGoal
from benchwright.session.search_sample import SampleReading
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Where
from benchwright.workbench.ramp_spec import (
    THROUGHPUT,
    WORDS,
    Misfit,
    default_axis,
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


def option_mistakes(request: RampRequest) -> list[Diagnostic]:
    """Return what is wrong with the options by themselves, where there is no spec."""
    reading = _OptionsReading(request)
    reading.said()
    reading.seed()
    return reading.found


def ramp_plan(request: RampRequest, spec: Spec) -> RampPlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _RampReading(request, spec)
    plan = reading.plan()
    if reading.found or plan is None:
        raise InputError(reading.found)
    return plan


class _OptionsReading(SampleReading):
    """A request's options being read."""

    def __init__(self, request: RampRequest) -> None:
        super().__init__()
        self._request = request

    def said(self) -> dict[str, Any]:
        """Return the goal's fields that options say."""
        found = {}
        for key, (field, parse) in WORDS.items():
            value = self._parsed(option(key), self._request.options.get(key), parse)
            if value is not None:
                found[field] = value
        return found

    def seed(self) -> int:
        """Return the seed that was given, or else drawn."""
        given = self._parsed("--seed", self._request.seed, count)
        return self._request.drawn_seed if given is None else given


class _RampReading(_OptionsReading):
    """One request being read, with its spec."""

    def __init__(self, request: RampRequest, spec: Spec) -> None:
        super().__init__(request)
        self._spec = spec

    def plan(self) -> RampPlan | None:
        """Return the plan; None after a mistake."""
        request, spec = self._request, self._spec
        sample = self._sample(request.factors, spec)
        seed = self.seed()
        said = spec.more.get(TABLE, {}) | self.said()
        self._tells_throughput(said.get("axis") or default_axis(spec.load))
        for misfit in misfits(said, spec):
            self._misfit(misfit)
        if self.found:
            return None
        return RampPlan(goal=goal_of(said, spec), sample=sample, seed=seed)

    def _tells_throughput(self, axis: Axis) -> None:
        fault = throughput_fault(axis, self._spec)
        if not fault:
            return
        if self._request.command is not None:
            hint = "such as --throughput /tps, a JSON pointer into GEN's output"
            self._wrong("--throughput", "", fault, hint)
            return
        where = self._spec.places.get("load.values", Where(self._spec.file))
        hint = f'such as values = {{ {THROUGHPUT} = "/tps" }}, or counts with completed'
        self.found.append(diagnostic(where, "spec-value", fault, hint))

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
