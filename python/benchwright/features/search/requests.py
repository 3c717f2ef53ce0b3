"""Turns the requests of `bw ramp`, `bw peak` and `bw surface` into plans."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from benchwright.core.criterion import Criterion, criterion_text
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import Pairs
from benchwright.features.generators.adapter import rate_step_in
from benchwright.features.load import parse as words
from benchwright.features.load.criteria import parse_criterion, stream_value
from benchwright.features.load.plan import rounded_rate
from benchwright.features.search.options import PeakRequest, RampRequest, SurfaceRequest, rate_of
from benchwright.features.search.peak.policies.policy import highest_rate, lowest_rate
from benchwright.features.search.peak.policies.registry import (
    DEFAULT_POLICY,
    POLICIES_WITH,
    fixed_run_length_s,
)
from benchwright.features.search.ramp.spec import (
    THROUGHPUT,
    axes_of,
    criterion_fault,
    default_axis,
    ramp_goal_of,
    ramp_misfits,
    rate_step_of,
    throughput_fault,
)
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.features.search.readers import PeakReader, SampleReader
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import ENGINE, rate_fault, why_not_streamed
from benchwright.features.search.surface.spec import (
    MOST_SAMPLES,
    SurfaceSpec,
    factors_of_goal,
    surface_defaults,
    surface_goal_of,
    surface_misfits,
    unused_factors,
)
from benchwright.features.search.surface.types import (
    Factor,
    LevelPair,
    Sample,
    SurfaceGoal,
    SurfaceQuestions,
)
from benchwright.features.search.target_spec import TARGET_FILE
from benchwright.features.search.types import Claim, EarlierPeak, PeakGoal
from benchwright.inputs.mistakes import Fault, Where, at_key, diagnostic, placed
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import layered, options_of

PlanT = TypeVar("PlanT")
ERROR_KEY = "error_ratio"
ERRORS_LIMIT = parse_criterion("errors < 1%")
"""The limit on the errors of a command that reports them, if none is given."""


def _faultless(plan: PlanT | None, found: list[Diagnostic]) -> PlanT:
    """Return a plan without mistakes. Raises InputError if mistakes were found."""
    if found or plan is None:
        raise InputError(found)
    return plan


def spec_of_sample(request: PeakRequest | RampRequest, spec: Spec) -> Spec:
    """Return the spec at the sample of -P; the spec itself where -P is wrong, which the plan
    reports. Raises InputError."""
    reader = SampleReader(request)
    sample = reader.sample(request.factors, spec)
    return spec if reader.found else spec.at(sample)


# -- A ramp: goal and sample. An option wins over the same key of `[ramp]` -------------

RAMP_TABLE = "ramp"


class RampPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The load that a ramp raises, its bounds, and the sample."""

    goal: RampGoal
    sample: Pairs = ()


def ramp_option_errors(request: RampRequest) -> list[Diagnostic]:
    """Return the mistakes of the options alone, for a request without a spec."""
    reader = SampleReader(request)
    reader.fields()
    reader.value("seed")
    return reader.found


def ramp_plan(request: RampRequest, spec: Spec) -> RampPlan:
    """Return what a request means. Raises InputError with every mistake."""
    reader = _RampReader(request, spec)
    return _faultless(reader.plan(), reader.found)


class _RampReader(SampleReader[RampRequest]):
    """Reads one request with its spec."""

    def __init__(self, request: RampRequest, spec: Spec) -> None:
        super().__init__(request)
        self._spec = spec

    def plan(self) -> RampPlan | None:
        """Return the plan; None after a mistake."""
        request, spec = self.request, self._spec
        sample = self.sample(request.factors, spec)
        given = self.value("seed")
        seed = request.drawn_seed if given is None else given
        said = spec.more.get(RAMP_TABLE, {}) | self.fields()
        self._check_throughput(said.get("axis") or default_axis(spec.load))
        for fault in ramp_misfits(said, spec):
            self._contradiction(fault)
        for criterion in said.get("criteria", ()):
            if (why := criterion_fault(criterion, spec)) is not None:
                text = criterion_text(criterion)
                self.wrong("--limit", text, why.message, why.hint)
        if self.found:
            return None
        if "criteria" not in said and spec.goal is not None:
            known = (one for one in spec.goal.criteria if criterion_fault(one, spec) is None)
            said |= {"criteria": tuple(known)}
        return RampPlan(goal=ramp_goal_of(said, spec, seed), sample=sample)

    def _check_throughput(self, axis: RampAxis) -> None:
        fault = throughput_fault(axis, self._spec)
        if not fault:
            return
        if self.request.command is not None:
            hint = "such as --throughput /tps, a JSON pointer into GEN's output"
            self.wrong("--throughput", "", fault, hint)
            return
        where = self._spec.places.get("load.values", Where(self._spec.file))
        hint = f'such as values = {{ {THROUGHPUT} = "/tps" }}, or counts with completed'
        self.found.append(diagnostic(where, "spec-value", fault, hint))

    def _contradiction(self, fault: Fault) -> None:
        """Report a fault at its option, or else at its line of the spec."""
        option = options_of(RampRequest)[fault.key]
        text = getattr(self.request, fault.key)
        where = self._spec.places.get(f"{RAMP_TABLE}.{fault.key}")
        if text is None and where is not None:
            self.found += placed([fault], lambda _: where)
        elif text is not None or self.request.command is None:
            file = option.flag
            if text is None and fault.key == "axis":
                file = self._spec.file
            self.wrong(file, text or "", fault.message, fault.hint)
        else:
            self.wrong("--command", "", fault.message, fault.hint)


# -- A peak search: goal, claims, sample. An option wins over the same key of `[peak]` -

GUESS_USERS = 8
"""Users of the closed loop of the first guess: enough to keep the CPUs of a small machine busy."""


class PeakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The goal, the sample and the policy of a peak search."""

    goal: PeakGoal
    claims: tuple[Claim, ...]
    """All claims to answer; the goal's own is the first."""
    policy: str
    sample: Pairs = ()


def peak_plan(request: PeakRequest, spec: Spec | None) -> PeakPlan:
    """Return what a request means. Raises InputError with every mistake."""
    reader = _PeakReader(request, spec)
    return _faultless(reader.plan(), reader.mistakes())


class _PeakReader(PeakReader):
    """Reads one request over the texts of `[peak]`."""

    def __init__(self, request: PeakRequest, spec: Spec | None) -> None:
        super().__init__(layered(request, None if spec is None else spec.peak))
        self._typed = request
        self._spec = spec

    def plan(self) -> PeakPlan | None:
        """Return the plan; after mistakes None or a plan that must not be used."""
        claims = self.claims()
        policy = self.value("policy", DEFAULT_POLICY)
        sample = self.sample(self.request.factors, self._spec)
        fields = {"seed": self.request.drawn_seed} | self.fields()
        criteria = self._measurable(self.criteria())
        self._check_streamed(criteria)
        self._check_limited()
        self._check_rated()
        self._check_inputs(policy)
        if not criteria:
            return None
        goal = PeakGoal(criteria=criteria, claim=claims[0], rate_step=self._rate_step(), **fields)
        earlier = self.request.earlier_peak
        if earlier is not None:
            goal = self._from_earlier(goal, earlier, fields)
        elif policy == DEFAULT_POLICY and self._may_guess(goal, fields):
            goal = msgspec.structs.replace(goal, guess_users=GUESS_USERS)
        guesses = goal.guess_users is not None
        low, high = goal.lowest_rate, goal.highest_rate
        self.check_rates(None if guesses else low, goal.start_rate, high)
        if high is not None and high >= goal.start_rate and _no_rate_step_within(high, goal):
            message = f"the generator cannot produce a rate of {high:g}/s or less"
            self.wrong("--highest", self.request.highest or "", message, "set the first rate too")
        return PeakPlan(goal=goal, claims=claims, policy=policy, sample=sample)

    def mistakes(self) -> list[Diagnostic]:
        """Return the mistakes: each at its option, or at the line of the key that has its text."""
        places = {} if self._spec is None else self._spec.places
        return [self._at_key(mistake, places) for mistake in self.found]

    def _at_key(self, mistake: Diagnostic, places: Mapping[str, Where]) -> Diagnostic:
        for option in self._options.values():
            where = places.get(f"peak.{option.key}")
            is_typed = getattr(self._typed, option.name) != option.initial
            if option.flag == mistake.file and where is not None and not is_typed:
                return at_key(mistake, str(option.key), where, "spec-value")
        return mistake

    # -- parts -----------------------------------------------------------------------

    def _may_guess(self, goal: PeakGoal, fields: Mapping[str, Any]) -> bool:
        """Return whether a search may begin with a closed loop: of our engine, where the user set
        neither the first rate nor a highest one, which a closed loop could exceed."""
        spec = self._spec
        if spec is None or spec.load.generator != ENGINE:
            return False
        is_given = "start_rate" in fields
        return not is_given and goal.highest_rate is None and "users" in axes_of(spec.load)

    def _from_earlier(
        self, goal: PeakGoal, earlier: EarlierPeak, fields: Mapping[str, Any]
    ) -> PeakGoal:
        """Return the goal of a search that begins around an earlier peak; report one that is no
        guess for this search."""
        flag, study = "--from", earlier.study
        limits = tuple(sorted(map(criterion_text, goal.criteria)))
        if limits != earlier.limits:
            message = f"that search's limits are {' and '.join(earlier.limits)}"
            self.wrong(flag, study, message, "give the same limits, or leave --from out")
        if "start_rate" in fields:
            self.wrong(flag, study, "a first rate is given too", "leave one of them out")
        low, high = goal.lowest_rate or 0.0, goal.highest_rate or math.inf
        start = rounded_rate(min(max(earlier.low, low), high), goal.rate_step)
        return msgspec.structs.replace(goal, start_rate=start, earlier=earlier)

    def _rate_step(self) -> float | None:
        """Return the rate step of the generator."""
        if self._spec is not None:
            return rate_step_of(self._spec.load)
        return rate_step_in(self.request.command or "")

    def _check_inputs(self, policy: str) -> None:
        """Report inputs of other policies. Keys of the spec are not used if --policy selects a
        policy other than the spec's."""
        for name, policies in POLICIES_WITH.items():
            text: str | None = getattr(self.request, name)
            is_typed = getattr(self._typed, name) is not None
            if policy in policies or text is None or not (is_typed or self._typed.policy is None):
                continue
            message = f"policy {policy} has no {name}"
            self.wrong(f"--{name}", text, message, f"policies with it: {', '.join(policies)}")

    def _measurable(self, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        """Report criteria without a figure of the command: it has a mean response, and errors with
        --errors. These are limited in any case: a server that refuses is quick."""
        if self.request.command is None or not criteria:
            return criteria
        ratio = self.request.errors is not None
        for criterion, text in zip(criteria, self.request.limits, strict=True):
            is_whole = stream_value(criterion) is None and not criterion.of
            is_mean = criterion.statistic == "mean" and is_whole
            if is_mean or (ratio and criterion.key == ERROR_KEY):
                continue
            message = "the command reports only a mean response"
            hint = "write --limit 40ms, or a SPEC with the generator `command`"
            if criterion.key == ERROR_KEY:
                hint = "give the pointer to the share of failed operations: --errors"
            self.wrong("--limit", text, message, hint)
        is_limited = any(criterion.key == ERROR_KEY for criterion in criteria)
        return criteria if is_limited or not ratio else (*criteria, ERRORS_LIMIT)

    def _check_streamed(self, criteria: tuple[Criterion, ...]) -> None:
        """Report criteria of streams where our engine reads no answer as events."""
        spec = self._spec
        if spec is None or spec.load.generator != ENGINE:
            return
        for criterion, text in zip(criteria, self.request.limits, strict=False):
            if fault := why_not_streamed(criterion, spec.load.settings):
                self.wrong("--limit", text, fault.message, fault.hint)

    def _check_limited(self) -> None:
        """Report that no limit is given."""
        spec = self._spec
        if self.request.limits:
            return
        if self.request.command is not None:
            self.wrong("--limit", "", "no limit is given", "write --limit 40ms")
        elif spec is not None and spec.file == TARGET_FILE:
            hint = "such as --limit 'p99 < 20ms'"
            self.wrong("--limit", "", "no limit is given", hint)
        else:
            message = "neither criteria in [peak] nor --limit is given"
            hint = 'write [peak] criteria = ["mean response < 40ms"]'
            where = Where("SPEC" if spec is None else spec.file)
            self.found.append(diagnostic(where, "spec-missing", message, hint))

    def _check_rated(self) -> None:
        """Report a generator without a rate, unless the spec's [peak] has already refused it."""
        spec = self._spec
        if spec is not None and spec.goal is None and (fault := rate_fault(spec.load)):
            where = spec.places.get("load.generator", Where(spec.file))
            self.found.append(diagnostic(where, fault.code, fault.message, fault.hint))


def _no_rate_step_within(high: float, goal: PeakGoal) -> bool:
    """Return whether no multiple of the generator's rate step lies within the bounds."""
    step = goal.rate_step
    if step is None:
        return False
    return high < step or highest_rate(goal) < lowest_rate(goal)


# -- A surface: goal, claims, predictions. An option wins over the key of `[surface]` --

FARTHEST_PREDICTION = 100.0
"""Largest coded level that is predicted, even with a band; the spec's levels span -1 to 1."""


class SurfacePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The goal of a surface and its inner search."""

    goal: SurfaceGoal
    claims: tuple[Claim, ...]
    policy: str
    questions: SurfaceQuestions = SurfaceQuestions()

    def inner(self, goal: Any, sample: Sample) -> PeakPlan:
        """Return the plan of the search at one sample."""
        return PeakPlan(goal=goal, claims=self.claims, policy=self.policy, sample=sample)


def surface_plan(request: SurfaceRequest, spec: Spec) -> SurfacePlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _SurfaceReader(request, spec)
    return _faultless(reading.plan(), reading.found)


def read_questions(request: SurfaceRequest, factors: tuple[Factor, ...]) -> SurfaceQuestions:
    """Return what `--predict`, `--at-rate` and `--cross` ask. Raises InputError with every
    mistake."""
    reader = _QuestionReader(request)
    samples = [reader.sample(word, factors) for word in request.predict]
    rates = [reader.parsed("--at-rate", text, rate_of) for text in request.at_rate]
    pairs = [reader.pair(word, factors) for word in request.cross]
    if reader.found:
        raise InputError(reader.found)
    return SurfaceQuestions(
        predict=tuple(sample for sample in samples if sample is not None),
        rates=tuple(rate for rate in rates if rate is not None),
        crossed=tuple(pair for pair in pairs if pair is not None),
    )


class _QuestionReader(OptionReader[SurfaceRequest]):
    """Reads samples and pairs of levels."""

    def pair(self, word: str, factors: tuple[Factor, ...]) -> LevelPair | None:
        """Return the two levels of one word; None if it is wrong."""
        name, _, rest = word.partition("=")
        levels = [level.strip() for level in rest.split(",")]
        factor = next((one for one in factors if one.name == name.strip()), None)
        if factor is None:
            known = ", ".join(factor.name for factor in factors)
            self.wrong("--cross", word, f"there is no factor {name!r}", f"the factors are: {known}")
            return None
        if len(levels) != 2 or levels[0] == levels[1]:
            self.wrong("--cross", word, "it does not name two levels", "write FACTOR=LEVEL,LEVEL")
            return None
        for level in levels:
            if message := level_problem(factor, level):
                self.wrong("--cross", word, message)
                return None
        if factor.numeric and factor.number(levels[0]) == factor.number(levels[1]):
            self.wrong("--cross", word, "its two levels are the same")
            return None
        if not any(one.numeric and len(one.levels) > 1 for one in factors if one is not factor):
            message = "no other factor is numeric: there is nothing along which they could cross"
            self.wrong("--cross", word, message)
            return None
        return LevelPair(factor.name, *levels)

    def sample(self, word: str, factors: tuple[Factor, ...]) -> Sample | None:
        """Return the sample of one word; None if it is wrong."""
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
                fault = (f"factor {name} is given twice", "leave one out")
            if fault is not None:
                self.wrong("--predict", word, *fault)
                return None
            said[name] = level
        return self._whole(word, said, factors)

    def _whole(
        self, word: str, said: Mapping[str, str], factors: tuple[Factor, ...]
    ) -> Sample | None:
        missing = [factor.name for factor in factors if factor.name not in said]
        if missing:
            message = f"no level of {', '.join(missing)} is given"
            self.wrong("--predict", word, message, "a sample needs one level of each factor")
            return None
        for factor in factors:
            message = level_problem(factor, said[factor.name])
            if message:
                self.wrong("--predict", word, message)
                return None
        return tuple((factor.name, said[factor.name]) for factor in factors)


def level_problem(factor: Factor, level: str) -> str:
    """Return why the model cannot predict at a level; empty if it can."""
    if not factor.numeric:
        known = ", ".join(factor.levels)
        if level in factor.levels:
            return ""
        return f"{factor.name}: must be one of {known}, not {level!r}"
    try:
        place = factor.place(level)
    except (ValueError, OverflowError) as error:
        return f"{factor.name}: {error}"
    if abs(place) <= FARTHEST_PREDICTION:
        return ""
    return f"{factor.name}: {level} is too far from all levels for a prediction"


class _SurfaceReader(OptionReader[SurfaceRequest]):
    """Reads one request."""

    def __init__(self, request: SurfaceRequest, spec: Spec) -> None:
        super().__init__(request)
        self._spec = spec

    def plan(self) -> SurfacePlan | None:
        """Return the plan; None after mistakes."""
        inner = self._inner()
        stated = self._stated()
        if not self._spec.factors:
            hint = "write [factors] with levels, such as workers = [1, 2, 4]"
            message = f"{self._spec.file} has no factors: there is nothing to map"
            self.wrong(self._spec.file, "", message, hint)
        elif stated.count > MOST_SAMPLES:
            message = f"the factors span {stated.count} samples, over {MOST_SAMPLES}"
            self.wrong(self._spec.file, "", message, "leave levels out")
        self._check_used()
        if self.found or inner is None:
            return None
        questions = self._questions(stated.factors)
        if self.found:
            return None
        goal = surface_goal_of(stated, inner.goal, inner.goal.seed)
        trial_s = fixed_run_length_s(inner.policy, inner.goal)
        return SurfacePlan(
            goal=msgspec.structs.replace(goal, trial_s=trial_s),
            claims=inner.claims,
            policy=inner.policy,
            questions=questions,
        )

    def _inner(self) -> PeakPlan | None:
        try:
            return peak_plan(self.request.peak, self._spec)
        except InputError as error:
            self.found += error.diagnostics
            return None

    def _questions(self, factors: tuple[Factor, ...]) -> SurfaceQuestions:
        try:
            return read_questions(self.request, factors)
        except InputError as error:
            self.found += error.diagnostics
            return SurfaceQuestions()

    def _stated(self) -> SurfaceSpec:
        """Return the spec's settings, overridden by the options."""
        base = self._spec.more.get("surface") or surface_defaults(self._spec)
        samples = self.parsed(
            "--samples", self.request.samples, lambda text: words.from_one(text, base.count)
        )
        given = self.fields() | ({} if samples is None else {"samples": samples})
        said = msgspec.structs.replace(base, **given)
        if given and not self.found:
            for fault in surface_misfits(said):
                text = getattr(self.request, fault.key) or ""
                self.wrong(f"--{fault.key}", text, fault.message, fault.hint)
        return said

    def _check_used(self) -> None:
        """Report each factor that no text names, at its line."""
        for name in unused_factors(self._spec):
            where = self._spec.places.get(f"factors.{name}", Where(self._spec.file))
            message = f"no value uses the factor {name}: it would change nothing"
            hint = f"write {{{name}}} into a value of [server] or [load]"
            self.found.append(diagnostic(where, "spec-value", message, hint))
        for use in factors_of_goal(self._spec):
            message = f"{{{use.factor}}} in [{use.table}]: a surface compares peaks of one goal"
            hint = "use factors in [server] and [load]"
            self.found.append(diagnostic(use.where, "spec-value", message, hint))
