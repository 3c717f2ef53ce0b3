"""What `bw ramp`, `bw peak` and `bw surface` were asked, and the plan that each request means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import Pairs
from benchwright.core.quantity import parse_duration_ns
from benchwright.core.ramp import RampAxis, RampGoal
from benchwright.core.search import Claim, ClaimKind, Criterion, PeakGoal
from benchwright.core.surface import DesignKind, Factor, ModelKind, Sample, SurfaceGoal
from benchwright.decide.peak.policy import (
    DEFAULT_POLICY,
    POLICY_NAMES,
    highest_rate,
    lowest_rate,
)
from benchwright.load import parse as words
from benchwright.load.criteria import parse_claim, parse_confidence, parse_criteria
from benchwright.load.generators.adapter import rate_step_in
from benchwright.load.parse import count, rate_micro
from benchwright.load.ramp_spec import (
    RAMP_OPTIONS,
    THROUGHPUT,
    RampMisfit,
    axes_of,
    default_axis,
    ramp_goal_of,
    ramp_misfits,
    rate_step_of,
    throughput_fault,
)
from benchwright.load.spec import Spec
from benchwright.load.surface_spec import (
    MOST_SAMPLES,
    SurfaceSpec,
    surface_defaults,
    surface_goal_of,
    surface_misfits,
    unused_factors,
)
from benchwright.suite.mistakes import diagnostic
from benchwright.suite.option_reading import OptionReading
from benchwright.suite.program import Where

# -- The sample that a search is made at: one level of each factor, chosen by `-P` -----


class SampleReading(OptionReading):
    """Options being read, the sample's among them."""

    def _sample(self, words: Sequence[str], spec: Spec | None) -> Pairs:
        """Return one level of each factor: that of -P, else the spec's first."""
        factors = dict(spec.factors) if spec is not None else {}
        chosen: dict[str, str] = {}
        for word in words:
            name, equals, level = word.partition("=")
            fault = _level_problem(name, level if equals else None, factors, spec)
            if name in chosen:
                fault = (f"factor {name} is given twice", "leave one out")
            if fault is not None:
                self._wrong("-P", word, *fault)
            chosen[name] = level
        own = {name: levels[0] for name, levels in factors.items()}
        return tuple({**own, **chosen}.items())


def _level_problem(
    name: str,
    level: str | None,
    factors: Mapping[str, tuple[str, ...]],
    spec: Spec | None,
) -> tuple[str, str] | None:
    """Return what is wrong with one -P, and what to do; None where nothing is."""
    if level is None or not name or not level:
        return "it does not choose a level", "write -P FACTOR=LEVEL"
    if spec is None:
        return None
    if name not in factors:
        known = ", ".join(factors) or "none"
        return f"{spec.file} has no factor {name!r}", f"its factors are: {known}"
    if level not in factors[name]:
        known = ", ".join(factors[name])
        return f"factor {name} has no level {level!r}", f"its levels are: {known}"
    return None


# --------------------------------------------------------------------------------------
# What `bw ramp` was asked, word for word, and what it means: a goal and a sample.
#
# Two steps as everywhere: `RampRequest` is what the user typed and what a study keeps;
# `ramp_plan` is what it means, with every mistake at once, each at its option or at its line
# of the spec. An option wins over the same key of the spec's `[ramp]`.

RAMP_TABLE = "ramp"


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


def ramp_option_errors(request: RampRequest) -> list[Diagnostic]:
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
        for key, (field, parse) in RAMP_OPTIONS.items():
            value = self._parsed(
                ramp_option(key), self._request.options.get(key), parse
            )
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
        said = spec.more.get(RAMP_TABLE, {}) | self.said()
        self._tells_throughput(said.get("axis") or default_axis(spec.load))
        for misfit in ramp_misfits(said, spec):
            self._misfit(misfit)
        if self.found:
            return None
        return RampPlan(goal=ramp_goal_of(said, spec), sample=sample, seed=seed)

    def _tells_throughput(self, axis: RampAxis) -> None:
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

    def _misfit(self, misfit: RampMisfit) -> None:
        """Note a misfit at its option, or else at its line of the spec."""
        text = self._request.options.get(misfit.key)
        where = self._spec.places.get(f"{RAMP_TABLE}.{misfit.key}")
        if text is None and where is not None:
            self.found.append(
                diagnostic(where, "spec-value", misfit.message, misfit.hint)
            )
        else:
            place = (
                ramp_option(misfit.key) if text is not None else self._subject(misfit)
            )
            self._wrong(place, text or "", misfit.message, misfit.hint)

    def _subject(self, misfit: RampMisfit) -> str:
        """Return where a misfit of nothing that was said is told."""
        if self._request.command is not None:
            return "--command"
        return self._spec.file if misfit.key == "axis" else ramp_option(misfit.key)


def ramp_option(key: str) -> str:
    """Return the option of a key of [ramp]."""
    return "--" + key.replace("_", "-")


# --------------------------------------------------------------------------------------
# What `bw peak` was asked, word for word, and what it means: a goal, claims, a
# sample.
#
# Two steps as everywhere: `PeakRequest` is what the user typed and what a study keeps;
# `peak_plan` is what it means, with every mistake at once, each at its option or at its line
# of the spec. An option wins over the same key of the spec's `[peak]`.

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
            "start_rate": ("--start", asked.start, _parse_rate),
            "lowest_rate": ("--lowest", asked.lowest, _parse_rate),
            "highest_rate": ("--highest", asked.highest, _parse_rate),
            "budget_s": ("--budget", asked.budget, _parse_seconds),
            "run_length_s": ("--run-length", asked.run_length, _parse_seconds),
            "max_trials": ("--max-trials", asked.max_trials, _parse_trials),
            "seed": ("--seed", asked.seed, _parse_seed),
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
        return tuple(_with_confidence(one, confidence) for one in told or (Claim(),))

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
        name = told or own or DEFAULT_POLICY
        if name in POLICY_NAMES:
            return name
        message, hint = (
            f"there is no policy {name!r}",
            f"these are: {', '.join(POLICY_NAMES)}",
        )
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
        elif high is not None and _no_rate_step_within(high, goal):
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


def _no_rate_step_within(high: float, goal: PeakGoal) -> bool:
    """Tell whether a generator that takes steps of a rate has none within the bounds."""
    step = goal.rate_step
    if step is None:
        return False
    return high < step or highest_rate(goal) < lowest_rate(goal)


def _with_confidence(claim: Claim, confidence: float | None) -> Claim:
    """Return a claim at the confidence that was asked for; `slo` says its own."""
    if confidence is None or claim.kind is ClaimKind.SLO:
        return claim
    return msgspec.structs.replace(claim, confidence=confidence)


def _parse_rate(text: str) -> float:
    return rate_micro(text) / 1e6


def _parse_seconds(text: str) -> float:
    ns = parse_duration_ns(text)
    if not ns:
        raise ValueError(f"{text!r} is no time at all")
    return ns / 1e9


def _parse_trials(text: str) -> int:
    count = _parse_whole(text)
    if not 1 <= count <= _MOST_TRIALS:
        raise ValueError(f"{text!r} is outside 1 .. {_MOST_TRIALS}")
    return count


def _parse_seed(text: str) -> int:
    seed = _parse_whole(text)
    if seed >= 2**63:
        raise ValueError(f"{text!r} is more than 2**63 - 1")
    return seed


def _parse_whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


# --------------------------------------------------------------------------------------
# What `bw surface` was asked, word for word, and what it means: goal, claims,
# predictions.
#
# The inner search's request is that of `bw peak`; an option wins over the same key of the
# spec's `[surface]`.

FARTHEST_PREDICTION = 100.0
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
            message = level_problem(factor, said[factor.name])
            if message:
                self._wrong("--predict", word, message)
                return None
        return tuple((factor.name, said[factor.name]) for factor in factors)


def level_problem(factor: Factor, level: str) -> str:
    """Return why the model knows nothing of a level; empty where it does."""
    if not factor.numeric:
        known = ", ".join(factor.levels)
        return "" if level in factor.levels else f"{level!r} is none of {known}"
    try:
        place = factor.place(level)
    except (ValueError, OverflowError) as error:
        return f"{factor.name}: {error}"
    if abs(place) <= FARTHEST_PREDICTION:
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
            goal=surface_goal_of(said, inner.goal, inner.goal.seed),
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
                "--samples", asked.samples, lambda text: _parse_within(text, base.count)
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
                "--degree", asked.degree, lambda text: _parse_within(text, 2)
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


def _parse_within(text: str, most: int) -> int:
    """Return a whole number from 1 to `most`. Raises ValueError."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= most:
        raise ValueError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)
