"""What `bw peak` was asked, word for word, and what it means: a goal, claims, a sample.

Two steps as everywhere: `PeakRequest` is what the user typed and what a study keeps;
`peak_plan` is what it means, with every mistake at once, each at its option or at its line
of the spec. An option wins over the same key of the spec's `[peak]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchwright.control.peak.bounds import highest_rate, lowest_rate
from benchwright.control.peak.registry import DEFAULT, NAMES
from benchwright.load.words import rate_micro
from benchwright.model.errors import InputError
from benchwright.model.peak import Claim, ClaimKind, Criterion, PeakGoal
from benchwright.model.plan import Pairs
from benchwright.model.quantity import parse_duration_ns
from benchwright.session.search_sample import SampleReading
from benchwright.suite.fault import diagnostic
from benchwright.suite.program import Where
from benchwright.workbench.criteria import (
    parse_claim,
    parse_confidence,
    parse_criteria,
)
from benchwright.workbench.generators.placeholders import rate_step_in
from benchwright.workbench.ramp_spec import axes_of, rate_step_of
from benchwright.workbench.spec import Spec

_MOST_TRIALS = 100_000


class PeakRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user typed, word for word, and the seed that was drawn if none was said."""

    command: str | None = None
    """GEN; None: a spec is searched."""
    response: str | None = None
    series: str | None = None
    limits: tuple[str, ...] = ()
    claim: str | None = None
    policy: str | None = None
    start: str | None = None
    lowest: str | None = None
    highest: str | None = None
    confidence: str | None = None
    budget: str | None = None
    max_trials: str | None = None
    run_length: str | None = None
    seed: str | None = None
    drawn_seed: int = 1
    factors: tuple[str, ...] = ()
    """Each `NAME=LEVEL`."""
    plot: str | None = None


class PeakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for, at which sample, and by which policy."""

    goal: PeakGoal
    claims: tuple[Claim, ...]
    """All that must hold; the goal's own is the first."""
    policy: str
    sample: Pairs = ()


def peak_plan(request: PeakRequest, spec: Spec | None) -> PeakPlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _PeakReading(request, spec)
    plan = reading.plan()
    if reading.found or plan is None:
        raise InputError(reading.found)
    return plan


class _PeakReading(SampleReading):
    """One request being read."""

    def __init__(self, request: PeakRequest, spec: Spec | None) -> None:
        super().__init__()
        self._request = request
        self._spec = spec

    def plan(self) -> PeakPlan | None:
        """Return the plan; None, or one that means nothing, where there are mistakes."""
        claims = self._claims()
        policy = self._policy()
        sample = self._sample(self._request.factors, self._spec)
        said = self._goal_fields()
        criteria = self._criteria()
        self._check_rated()
        if not criteria:
            return None
        base = self._base(criteria)
        said["rate_step"] = self._rate_step()
        goal = msgspec.structs.replace(base, criteria=criteria, claim=claims[0], **said)
        self._check_rates(goal)
        return PeakPlan(goal=goal, claims=claims, policy=policy, sample=sample)

    # -- parts -----------------------------------------------------------------------

    def _base(self, criteria: tuple[Criterion, ...]) -> PeakGoal:
        """Return the spec's goal, or the defaults; the seed is drawn unless one is said."""
        spec, seed = self._spec, self._request.drawn_seed
        if spec is None or spec.goal is None:
            return PeakGoal(criteria=criteria, seed=seed)
        if "peak.seed" in spec.places:
            return spec.goal
        return msgspec.structs.replace(spec.goal, seed=seed)

    def _rate_step(self) -> float | None:
        """Return what the rates are multiples of that the generator can be told."""
        if self._spec is not None:
            return rate_step_of(self._spec.load)
        return rate_step_in(self._request.command or "")

    def _goal_fields(self) -> dict[str, Any]:
        """Return the goal's fields that options say."""
        asked = self._request
        readers: Mapping[str, tuple[str, str | None, Callable[[str], Any]]] = {
            "start_rate": ("--start", asked.start, _rate),
            "lowest_rate": ("--lowest", asked.lowest, _rate),
            "highest_rate": ("--highest", asked.highest, _rate),
            "budget_s": ("--budget", asked.budget, _seconds),
            "run_length_s": ("--run-length", asked.run_length, _seconds),
            "max_trials": ("--max-trials", asked.max_trials, _trials),
            "seed": ("--seed", asked.seed, _seed),
        }
        said = {
            field: self._parsed(option, text, parse)
            for field, (option, text, parse) in readers.items()
        }
        return {field: value for field, value in said.items() if value is not None}

    def _claims(self) -> tuple[Claim, ...]:
        """Return the claims of --claim, the spec's, or the default; never none."""
        spec = self._spec
        told = (spec.claims or ()) if spec is not None else ()
        if not told and spec is not None and spec.goal is not None:
            told = (spec.goal.claim,)
        text = self._request.claim
        if text is not None:
            found = [self._claim(part.strip(), text) for part in text.split(",")]
            told = tuple(one for one in found if one is not None)
            if len(set(told)) < len(told):
                self._wrong("--claim", text, "a claim is given twice", "leave one out")
        confidence = self._parsed(
            "--confidence", self._request.confidence, parse_confidence
        )
        return tuple(_with(one, confidence) for one in told or (Claim(),))

    def _claim(self, part: str, whole: str) -> Claim | None:
        try:
            return parse_claim(part)
        except ValueError as error:
            hint = "several are parted by commas: region:10%,rate:5%"
            offset = max(whole.find(part), 0)
            self._wrong("--claim", whole, str(error), hint, offset)
            return None

    def _policy(self) -> str:
        told, spec = self._request.policy, self._spec
        own = None if spec is None else spec.policy
        name = told or own or DEFAULT
        if name in NAMES:
            return name
        message, hint = f"there is no policy {name!r}", f"these are: {', '.join(NAMES)}"
        if told is None and spec is not None:
            where = spec.places.get("peak.policy", Where(spec.file))
            self.found.append(diagnostic(where, "spec-value", message, hint))
        else:
            self._wrong("--policy", name, message, hint)
        return name

    def _criteria(self) -> tuple[Criterion, ...]:
        """Return what --limit says, else the spec; empty after a mistake."""
        asked = self._request
        if not asked.limits:
            return self._criteria_of_spec()
        found: list[Criterion] = []
        for text in asked.limits:
            one = self._parsed("--limit", text, lambda text: parse_criteria([text]))
            found += one or ()
        keys = [one.key for one in found]
        for key in dict.fromkeys(key for key in keys if keys.count(key) > 1):
            message = f"{key} has two limits"
            self._wrong("--limit", "", message, "the stricter one is enough")
        return () if self.found else self._measurable(tuple(found))

    def _measurable(self, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        """Note what a command's one figure cannot be limited by."""
        if self._request.command is None:
            return criteria
        for one, text in zip(criteria, self._request.limits, strict=True):
            if one.statistic != "mean":
                message = "the command tells a mean response, and nothing else"
                hint = "write --limit 40ms, or a SPEC with the generator `command`"
                self._wrong("--limit", text, message, hint)
        return criteria

    def _criteria_of_spec(self) -> tuple[Criterion, ...]:
        spec = self._spec
        if spec is not None and spec.goal is not None:
            return spec.goal.criteria
        if self._request.command is not None:
            self._wrong("--limit", "", "no limit is given", "write --limit 40ms")
        else:
            message = "there is no [peak] with criteria, and no --limit"
            hint = 'write [peak] criteria = ["mean response < 40ms"]'
            where = Where("SPEC" if spec is None else spec.file)
            self.found.append(diagnostic(where, "spec-missing", message, hint))
        return ()

    def _check_rated(self) -> None:
        """Note a generator without a rate, where no [peak] of the spec has it refused."""
        spec = self._spec
        if spec is None or spec.goal is not None or "rate" in axes_of(spec.load):
            return
        where = spec.places.get("load.generator", Where(spec.file))
        message = f"{spec.load.generator} has no rate, and a peak rate is searched for"
        hint = "use another generator, or `bw ramp` over its users"
        self.found.append(diagnostic(where, "spec-value", message, hint))

    def _check_rates(self, goal: PeakGoal) -> None:
        low, high = goal.lowest_rate, goal.highest_rate
        if low is not None and low > goal.start_rate:
            message = f"the lowest rate is above the first one, {goal.start_rate:g}/s"
            self._wrong_rate("lowest", self._request.lowest, message)
        if high is not None and high < goal.start_rate:
            message = f"the highest rate is below the first one, {goal.start_rate:g}/s"
            self._wrong_rate("highest", self._request.highest, message)
        elif high is not None and _no_step_up_to(high, goal):
            message = f"the generator cannot produce a rate of {high:g}/s or less"
            self._wrong_rate("highest", self._request.highest, message)

    def _wrong_rate(self, key: str, option: str | None, message: str) -> None:
        """Note a rate out of order where it was said: an option, or else the spec."""
        said = self._spec.places.get(f"peak.{key}") if self._spec is not None else None
        if option is None and said is not None:
            hint = "set start too"
            self.found.append(diagnostic(said, "spec-value", message, hint))
        else:
            self._wrong(f"--{key}", option or "", message, "set --start too")


def _no_step_up_to(high: float, goal: PeakGoal) -> bool:
    """Tell whether a generator that takes steps of a rate has none within the bounds."""
    step = goal.rate_step
    if step is None:
        return False
    return high < step or highest_rate(goal) < lowest_rate(goal)


def _with(claim: Claim, confidence: float | None) -> Claim:
    """Return a claim at the confidence that was asked for; `slo` says its own."""
    if confidence is None or claim.kind is ClaimKind.SLO:
        return claim
    return msgspec.structs.replace(claim, confidence=confidence)


def _rate(text: str) -> float:
    return rate_micro(text) / 1e6


def _seconds(text: str) -> float:
    ns = parse_duration_ns(text)
    if not ns:
        raise ValueError(f"{text!r} is no time at all")
    return ns / 1e9


def _trials(text: str) -> int:
    count = _whole(text)
    if not 1 <= count <= _MOST_TRIALS:
        raise ValueError(f"{text!r} is outside 1 .. {_MOST_TRIALS}")
    return count


def _seed(text: str) -> int:
    seed = _whole(text)
    if seed >= 2**63:
        raise ValueError(f"{text!r} is more than 2**63 - 1")
    return seed


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
