"""Turns the requests of `bw ramp`, `bw peak` and `bw surface` into plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import Pairs
from benchwright.features.generators.adapter import rate_step_in
from benchwright.features.load import parse as words
from benchwright.features.load.criteria import parse_criterion
from benchwright.features.search.options import PeakRequest, RampRequest, SurfaceRequest
from benchwright.features.search.peak.policies.policy import highest_rate, lowest_rate
from benchwright.features.search.peak.policies.registry import (
    DEFAULT_POLICY,
    FORMER_POLICIES,
    POLICIES_WITH,
    POLICY_NAMES,
    fixed_run_length_s,
)
from benchwright.features.search.ramp.spec import (
    THROUGHPUT,
    axes_of,
    default_axis,
    ramp_goal_of,
    ramp_misfits,
    rate_step_of,
    throughput_fault,
)
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import ENGINE
from benchwright.features.search.surface.spec import (
    MOST_SAMPLES,
    SurfaceSpec,
    factors_of_goal,
    surface_defaults,
    surface_goal_of,
    surface_misfits,
    unused_factors,
)
from benchwright.features.search.surface.types import Factor, Sample, SurfaceGoal
from benchwright.features.search.target_spec import TARGET_FILE
from benchwright.features.search.types import Claim, ClaimKind, PeakGoal, parse_claim
from benchwright.suite.mistakes import Fault, diagnostic, placed
from benchwright.suite.option_reader import OptionReader, R
from benchwright.suite.options import options_of
from benchwright.suite.program import Where

PlanT = TypeVar("PlanT")
ERROR_KEY = "error_ratio"
ERRORS_LIMIT = parse_criterion("errors < 1%")
"""The limit on the errors of a command that reports them, if none is given."""

# -- The sample of a search: one level of each factor, chosen by `-P` ------------------


def _faultless(plan: PlanT | None, found: list[Diagnostic]) -> PlanT:
    """Return a plan without mistakes. Raises InputError if mistakes were found."""
    if found or plan is None:
        raise InputError(found)
    return plan


class SampleReader(OptionReader[R]):
    """Reads options, including those of the sample."""

    def sample(self, words: Sequence[str], spec: Spec | None) -> Pairs:
        """Return one level of each factor: the one that -P gives, else the spec's first."""
        factors = dict(spec.factors) if spec is not None else {}
        chosen: dict[str, str] = {}
        for word in words:
            name, equals, level = word.partition("=")
            fault = _level_problem(name, level if equals else None, factors, spec)
            if name in chosen:
                fault = (f"factor {name} is given twice", "leave one out")
            if fault is not None:
                self.wrong("-P", word, *fault)
            chosen[name] = level
        own = {name: levels[0] for name, levels in factors.items()}
        return tuple({**own, **chosen}.items())


def spec_of_sample(request: PeakRequest | RampRequest, spec: Spec) -> Spec:
    """Return the spec at the sample of -P; the spec itself where -P is wrong, which the plan
    reports. Raises InputError."""
    reader = SampleReader(request)
    sample = reader.sample(request.factors, spec)
    return spec if reader.found else spec.at(sample)


def _level_problem(
    name: str,
    level: str | None,
    factors: Mapping[str, tuple[str, ...]],
    spec: Spec | None,
) -> tuple[str, str] | None:
    """Return what is wrong with one -P, and what to do; None if it is valid."""
    if level is None or not name or not level:
        return "it does not name a level", "write -P FACTOR=LEVEL"
    if spec is None:
        return None
    if name not in factors:
        known = ", ".join(factors) or "none"
        return f"{spec.file} has no factor {name!r}", f"its factors are: {known}"
    if level not in factors[name]:
        known = ", ".join(factors[name])
        return f"factor {name} has no level {level!r}", f"its levels are: {known}"
    return None


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
        if self.found:
            return None
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
    return _faultless(reader.plan(), reader.found)


class _PeakReader(SampleReader[PeakRequest]):
    """Reads one request."""

    def __init__(self, request: PeakRequest, spec: Spec | None) -> None:
        super().__init__(request)
        self._spec = spec

    def plan(self) -> PeakPlan | None:
        """Return the plan; after mistakes None or a plan that must not be used."""
        claims = self._claims()
        policy = self._policy()
        sample = self.sample(self.request.factors, self._spec)
        fields = self.fields()
        criteria = self._criteria()
        self._check_rated()
        self._check_inputs(policy)
        if not criteria:
            return None
        base = self._base(criteria)
        fields["rate_step"] = self._rate_step()
        goal = msgspec.structs.replace(base, criteria=criteria, claim=claims[0], **fields)
        if policy == DEFAULT_POLICY and self._may_guess(goal, fields):
            goal = msgspec.structs.replace(goal, guess_users=GUESS_USERS)
        self._check_rates(goal)
        return PeakPlan(goal=goal, claims=claims, policy=policy, sample=sample)

    # -- parts -----------------------------------------------------------------------

    def _base(self, criteria: tuple[Criterion, ...]) -> PeakGoal:
        """Return the spec's goal, or the defaults; the seed is random unless one is given."""
        spec, seed = self._spec, self.request.drawn_seed
        if spec is None or spec.goal is None:
            return PeakGoal(criteria=criteria, seed=seed)
        if "peak.seed" in spec.places:
            return spec.goal
        return msgspec.structs.replace(spec.goal, seed=seed)

    def _may_guess(self, goal: PeakGoal, fields: Mapping[str, Any]) -> bool:
        """Return whether a search may begin with a closed loop: of our engine, where the user set
        neither the first rate nor a highest one, which a closed loop could exceed."""
        spec = self._spec
        if spec is None or spec.load.generator != ENGINE:
            return False
        is_given = "start_rate" in fields or "peak.start" in spec.places
        return not is_given and goal.highest_rate is None and "users" in axes_of(spec.load)

    def _rate_step(self) -> float | None:
        """Return the rate step of the generator."""
        if self._spec is not None:
            return rate_step_of(self._spec.load)
        return rate_step_in(self.request.command or "")

    def _claims(self) -> tuple[Claim, ...]:
        """Return the claims of --claim, the spec's, or the default; at least one."""
        spec = self._spec
        told = (spec.claims or ()) if spec is not None else ()
        if not told and spec is not None and spec.goal is not None:
            told = (spec.goal.claim,)
        text = self.request.claim
        if text is not None:
            found = [self._claim(part.strip(), text) for part in text.split(",")]
            told = tuple(one for one in found if one is not None)
            if len(set(told)) < len(told):
                self.wrong("--claim", text, "a claim is given twice", "leave one out")
        confidence = self.value("confidence")
        return tuple(_with_confidence(one, confidence) for one in told or (Claim(),))

    def _claim(self, part: str, whole: str) -> Claim | None:
        try:
            return parse_claim(part)
        except ValueError as error:
            hint = "separate several with commas: region:10%,rate:5%"
            offset = max(whole.find(part), 0)
            self.wrong("--claim", whole, str(error), hint, offset)
            return None

    def _policy(self) -> str:
        told, spec = self.request.policy, self._spec
        own = None if spec is None else spec.policy
        name = told or own or DEFAULT_POLICY
        name = FORMER_POLICIES.get(name, name)
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
            self.wrong("--policy", name, message, hint)
        return name

    def _check_inputs(self, policy: str) -> None:
        """Report inputs of other policies. Keys of the spec are not used if --policy selects a
        policy other than the spec's."""
        for name, policies in POLICIES_WITH.items():
            if policy in policies:
                continue
            text: str | None = getattr(self.request, name)
            message = f"policy {policy} has no {name}"
            hint = f"policies with it: {', '.join(policies)}"
            if text is not None:
                self.wrong(f"--{name}", text, message, hint)
            elif self._spec is not None and self.request.policy is None:
                where = self._spec.places.get(f"peak.{name}")
                if where is not None:
                    self.found.append(diagnostic(where, "spec-value", message, hint))

    def _criteria(self) -> tuple[Criterion, ...]:
        """Return the criteria of --limit, else the spec's; empty after a mistake."""
        asked = self.request
        if not asked.limits:
            return self._criteria_of_spec()
        found: list[Criterion] = self.values("limits")
        keys = [one.key for one in found]
        for key in dict.fromkeys(key for key in keys if keys.count(key) > 1):
            message = f"{key} has two limits"
            self.wrong("--limit", "", message, "the stricter one is enough")
        return () if self.found else self._measurable(tuple(found))

    def _measurable(self, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        """Report criteria without a figure of the command: it has a mean response, and errors with
        --errors. These are limited in any case: a server that refuses is quick."""
        if self.request.command is None:
            return criteria
        ratio = self.request.errors is not None
        for criterion, text in zip(criteria, self.request.limits, strict=True):
            if criterion.statistic == "mean" or (ratio and criterion.key == ERROR_KEY):
                continue
            message = "the command reports only a mean response"
            hint = "write --limit 40ms, or a SPEC with the generator `command`"
            if criterion.key == ERROR_KEY:
                hint = "give the pointer to the share of failed operations: --errors"
            self.wrong("--limit", text, message, hint)
        is_limited = any(criterion.key == ERROR_KEY for criterion in criteria)
        return criteria if is_limited or not ratio else (*criteria, ERRORS_LIMIT)

    def _criteria_of_spec(self) -> tuple[Criterion, ...]:
        spec = self._spec
        if spec is not None and spec.goal is not None:
            return spec.goal.criteria
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
        return ()

    def _check_rated(self) -> None:
        """Report a generator without a rate, unless the spec's [peak] has already refused it."""
        spec = self._spec
        if spec is None or spec.goal is not None or "rate" in axes_of(spec.load):
            return
        where = spec.places.get("load.generator", Where(spec.file))
        message = (
            f"{spec.load.generator} cannot be given a rate, and a search for a peak rate needs one"
        )
        hint = "use another generator, or `bw ramp` over its users"
        self.found.append(diagnostic(where, "spec-value", message, hint))

    def _check_rates(self, goal: PeakGoal) -> None:
        low, high = goal.lowest_rate, goal.highest_rate
        guesses = goal.guess_users is not None
        if low is not None and low > goal.start_rate and not guesses:
            message = f"the lowest rate is above the first one, {goal.start_rate:g}/s"
            self._wrong_rate("lowest", self.request.lowest, message)
        if high is not None and high < goal.start_rate:
            message = f"the highest rate is below the first one, {goal.start_rate:g}/s"
            self._wrong_rate("highest", self.request.highest, message)
        elif high is not None and _no_rate_step_within(high, goal):
            message = f"the generator cannot produce a rate of {high:g}/s or less"
            self._wrong_rate("highest", self.request.highest, message)

    def _wrong_rate(self, key: str, option: str | None, message: str) -> None:
        """Report a wrong rate at its place: the option, or else the spec."""
        said = self._spec.places.get(f"peak.{key}") if self._spec is not None else None
        if option is None and said is not None:
            hint = "set start too"
            self.found.append(diagnostic(said, "spec-value", message, hint))
        else:
            self.wrong(f"--{key}", option or "", message, "set --start too")


def _no_rate_step_within(high: float, goal: PeakGoal) -> bool:
    """Return whether no multiple of the generator's rate step lies within the bounds."""
    step = goal.rate_step
    if step is None:
        return False
    return high < step or highest_rate(goal) < lowest_rate(goal)


def _with_confidence(claim: Claim, confidence: float | None) -> Claim:
    """Return a claim with the requested confidence; `slo` has its own."""
    if confidence is None or claim.kind is ClaimKind.SLO:
        return claim
    return msgspec.structs.replace(claim, confidence=confidence)


# -- A surface: goal, claims, predictions. An option wins over the key of `[surface]` --

FARTHEST_PREDICTION = 100.0
"""Largest coded level that is predicted, even with a band; the spec's levels span -1 to 1."""


class SurfacePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The goal of a surface and its inner search."""

    goal: SurfaceGoal
    claims: tuple[Claim, ...]
    policy: str
    predict: tuple[Sample, ...] = ()

    def inner(self, goal: Any, sample: Sample) -> PeakPlan:
        """Return the plan of the search at one sample."""
        return PeakPlan(goal=goal, claims=self.claims, policy=self.policy, sample=sample)


def surface_plan(request: SurfaceRequest, spec: Spec) -> SurfacePlan:
    """Return what a request means. Raises InputError with every mistake."""
    reading = _SurfaceReader(request, spec)
    return _faultless(reading.plan(), reading.found)


def read_predicted(words_: tuple[str, ...], factors: tuple[Factor, ...]) -> tuple[Sample, ...]:
    """Return the samples that `--predict` names. Raises InputError with every mistake."""
    reader = _PredictReader(SurfaceRequest(peak=PeakRequest(), predict=words_))
    samples = [reader.sample(word, factors) for word in words_]
    if reader.found:
        raise InputError(reader.found)
    return tuple(sample for sample in samples if sample is not None)


class _PredictReader(OptionReader[SurfaceRequest]):
    """Reads samples."""

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
        missing = [one.name for one in factors if one.name not in said]
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
        predict = self._predicted(stated.factors)
        if self.found:
            return None
        goal = surface_goal_of(stated, inner.goal, inner.goal.seed)
        trial_s = fixed_run_length_s(inner.policy, inner.goal)
        return SurfacePlan(
            goal=msgspec.structs.replace(goal, trial_s=trial_s),
            claims=inner.claims,
            policy=inner.policy,
            predict=predict,
        )

    def _inner(self) -> PeakPlan | None:
        try:
            return peak_plan(self.request.peak, self._spec)
        except InputError as error:
            self.found += error.diagnostics
            return None

    def _predicted(self, factors: tuple[Factor, ...]) -> tuple[Sample, ...]:
        try:
            return read_predicted(self.request.predict, factors)
        except InputError as error:
            self.found += error.diagnostics
            return ()

    def _stated(self) -> SurfaceSpec:
        """Return the spec's settings, overridden by the options."""
        base = self._spec.more.get("surface") or surface_defaults(self._spec)
        samples = self.parsed(
            "--samples",
            self.request.samples,
            lambda text: words.from_one(text, base.count),
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
