"""The options of `bw ramp`, `bw peak` and `bw surface`, as the user types them.

One declaration for the options of the command line, the keys of `[ramp]` and `[peak]` in a
spec, the request that a study stores, `--help` and the tables in docs/.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from benchwright.core.quantity import parse_confidence, share_within
from benchwright.features.load import parse as words
from benchwright.features.load.criteria import parse_criterion
from benchwright.features.search.peak.policies.registry import (
    DEFAULT_POLICY,
    FORMER_POLICIES,
    POLICIES_WITH,
    POLICY_NAMES,
)
from benchwright.features.search.ramp.types import RampAxis
from benchwright.features.search.surface.types import DesignKind, ModelKind
from benchwright.features.search.types import Claim, EarlierPeak, parse_claim
from benchwright.inputs.options import Option, Text
from benchwright.inputs.template import one_of
from benchwright.suite.common_options import Plot

if TYPE_CHECKING:
    from benchwright.inputs.toml_table import TomlTable


def _source(text: str) -> object:
    """Return the source of a generator's figure. Raises ValueError."""
    # --help needs no generators.
    from benchwright.features.generators.output import parse_source

    return parse_source(text)


def _joined(table: TomlTable, key: str) -> str | None:
    """Return the texts of an array, or one text, as the option has them."""
    return ",".join(table.texts(key)) or None


def _policy(text: str) -> str:
    """Return the name of a policy, for a former one that of its successor. Raises ValueError."""
    return FORMER_POLICIES.get(text) or one_of(text, POLICY_NAMES, "policy")


def _claims(text: str) -> tuple[Claim, ...]:
    """Return the claims that commas separate. Raises ValueError."""
    return tuple(parse_claim(part) for part in text.split(","))


_instead = partial(Option, group="instead of a SPEC")
_pointer = partial(_instead, metavar="/POINTER", parse=_source)
_question = partial(Option, group="the question", key=True)
_search = partial(Option, group="the search", key=True)
_published = partial(Option, group="the published policies", key=True)
_level = partial(Option, group="the levels", key=True)
_end = partial(Option, group="the end", key=True)
_mapping = partial(Option, group="the mapping", key=True)

_part = share_within(0.0, 1.0, "a share ")

Factors = Annotated[
    tuple[str, ...],
    _question(
        "level of a factor of the SPEC",
        "FACTOR=LEVEL",
        default="the first level of each factor",
        flag="-P",
        key=False,
    ),
]
Seed = Annotated[
    Text, _search("random seed", "N", words.count, "seed", default="drawn and recorded")
]


def rate_of(text: str) -> float:
    """Return a rate such as `10k` [1/s]."""
    return words.rate_micro(text) / 1e6


def _axis(text: str) -> RampAxis:
    return RampAxis(one_of(text, tuple(axis.value for axis in RampAxis), "axis"))


def _design(text: str) -> DesignKind:
    return DesignKind(one_of(text, tuple(DesignKind), "design"))


def _model(text: str) -> ModelKind:
    return ModelKind(one_of(text, tuple(ModelKind), "model"))


def _load_level(text: str) -> float:
    try:
        return words.rate_micro(text) / 1e6
    except ValueError:
        raise ValueError(f"{text!r} is not a level such as 4, 500 or 10k") from None


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number such as 2 or 1.5") from None
    if not 1 < factor <= 1000:
        raise ValueError(f"{text!r} is outside 1 .. 1000: levels must rise")
    return factor


def _up_to_1000(text: str) -> int:
    number = words.some(text)
    if number > 1000:
        raise ValueError(f"{text!r} is more than 1000")
    return number


def _degree(text: str) -> int:
    return words.from_one(text, 2)


class RampRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `bw ramp` exactly as the user typed them, and the random seed."""

    command: Annotated[
        Text,
        _instead(
            "program that applies the load of {users}, or {rate} per second, for "
            "{duration} seconds and prints JSON",
            "GEN",
            no_default="it is what is measured",
        ),
    ] = None
    """None: the ramp uses a spec."""
    throughput: Annotated[Text, _pointer("JSON pointer to the throughput [1/s]")] = None
    response: Annotated[Text, _pointer("JSON pointer to the mean response time [ms]")] = None
    p99: Annotated[
        Text, _pointer("JSON pointer to the 99th percentile of the response time [ms]")
    ] = None
    errors: Annotated[Text, _pointer("JSON pointer to the share of failed operations")] = None
    series: Annotated[
        Text,
        _pointer(
            "JSON pointer to the per-second series, an array of [second, count, "
            "mean_ms], used to estimate the noise"
        ),
    ] = None
    axis: Annotated[
        Text,
        _level(
            "what is raised: users (a closed loop) or rate (an open loop)",
            "AXIS",
            _axis,
            "axis",
            default="users, where the generator or the workload can have them",
        ),
    ] = None
    start: Annotated[
        Text, _level("first level", "N", _load_level, "start", default="1 user, or 50/s")
    ] = None
    factor: Annotated[
        Text, _level("ratio of each level to the one before", "2", _factor, "factor", default="2")
    ] = None
    step: Annotated[
        Text,
        _level(
            "difference of each level from the one before, instead of a factor",
            "N",
            _load_level,
            "step",
        ),
    ] = None
    highest: Annotated[
        Text,
        _level(
            "last level",
            "N",
            _load_level,
            "highest",
            default="1024 users or 16 times the start; 2^20 times the start rate",
        ),
    ] = None
    hold: Annotated[
        Text, _level("length of a trial", "10s", words.seconds, "hold_s", default="10s")
    ] = None
    limits: Annotated[
        tuple[str, ...],
        _level(
            "limit that each level is compared with, as of `bw peak`; repeatable, ends nothing",
            "LIMIT",
            parse_criterion,
            "criteria",
            default="criteria of [peak]",
            flag="--limit",
            key=False,
        ),
    ] = ()
    repeats: Annotated[
        Text,
        _level(
            "trials at each level; those after the first in random order",
            "N",
            _up_to_1000,
            "repeats",
            default="1, and one low level again as a control",
        ),
    ] = None
    growth: Annotated[
        Text,
        _end(
            "smallest gain of throughput that counts as growth, over the best level",
            "5%",
            _part,
            "growth",
            default="5%",
        ),
    ] = None
    flat_levels: Annotated[
        Text,
        _end(
            "stop after this many levels in a row without growth",
            "N",
            _up_to_1000,
            "flat_levels",
            default="2",
        ),
    ] = None
    max_errors: Annotated[
        Text,
        _end(
            "stop when a larger share of operations fails",
            "1%",
            words.share,
            "most_errors",
            default="1%",
        ),
    ] = None
    budget: Annotated[
        Text, _end("start no trial after this time", "10m", words.seconds, "budget_s")
    ] = None
    confidence: Annotated[
        Text,
        _end("confidence of all intervals", "95%", parse_confidence, "confidence", default="95%"),
    ] = None
    factors: Factors = ()
    """Each as `NAME=LEVEL`."""
    seed: Annotated[
        Text, _level("random seed", "N", words.count, default="drawn and recorded", key=False)
    ] = None
    plot: Plot = None
    drawn_seed: int = 1


class PeakRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `bw peak` exactly as the user typed them, and the random seed."""

    command: Annotated[
        Text,
        _instead(
            "program that applies {rate} per second for {duration} seconds and prints "
            "JSON ({rate:int}, {duration:int}: whole numbers only); run by a shell only "
            "if it has other shell characters",
            "GEN",
            no_default="it is what is measured",
        ),
    ] = None
    """None: the search uses a spec."""
    response: Annotated[Text, _pointer("JSON pointer to the mean response time [ms]")] = None
    series: Annotated[
        Text,
        _pointer(
            "JSON pointer to the per-second series, an array of [second, count, "
            "mean_ms] of the operations due in each second"
        ),
    ] = None
    errors: Annotated[
        Text,
        _pointer(
            "JSON pointer to the share of failed operations; limited to less than 1% where "
            "--limit does not limit it"
        ),
    ] = None
    offered: Annotated[
        Text,
        _pointer(
            "JSON pointer to the number of operations that were started; without it the "
            "counts of the series are taken for it"
        ),
    ] = None
    late: Annotated[
        Text,
        _pointer("JSON pointer to the 99th percentile of how late GEN started its operations [ms]"),
    ] = None
    target_response: Annotated[
        Text,
        _pointer(
            "JSON pointer to the mean response time without that lateness, from when GEN came "
            "to the operation [ms]"
        ),
    ] = None
    limits: Annotated[
        tuple[str, ...],
        _question(
            "limit that must hold: 'p99 < 20ms', 'errors < 1%', 40ms for the mean; "
            "repeatable, replaces the SPEC's criteria",
            "LIMIT",
            parse_criterion,
            flag="--limit",
            key="criteria",
        ),
    ] = ()
    claim: Annotated[
        Text,
        _question(
            "what is claimed of the answer: region:10%, rate:5%, slo:95%; several with commas",
            "CLAIM",
            _claims,
            read=_joined,
            default="region:10%",
        ),
    ] = None
    confidence: Annotated[
        Text,
        _question(
            "confidence of a claim of region or rate", "95%", parse_confidence, default="95%"
        ),
    ] = None
    factors: Factors = ()
    """Each as `NAME=LEVEL`."""
    policy: Annotated[
        Text,
        _search(
            f"search method: {', '.join(POLICY_NAMES)}", "NAME", _policy, default=DEFAULT_POLICY
        ),
    ] = None
    earlier: Annotated[
        Text,
        _search(
            "begin around the peak that this earlier search found; what its server did is "
            "measured again",
            "STUDY",
            flag="--from",
            names="directory",
            key=False,
        ),
    ] = None
    start: Annotated[
        Text,
        _search(
            "rate of the first trial, a low one",
            "RATE",
            rate_of,
            "start_rate",
            default="50; with the engine, 0.75 of what a second of a closed loop completes",
        ),
    ] = None
    lowest: Annotated[
        Text,
        _search(
            "lowest rate to try",
            "RATE",
            rate_of,
            "lowest_rate",
            default="0.5 or a 1024th of the first rate; less where the first rate is below 4 or a limit is longer than 0.5 s",
        ),
    ] = None
    highest: Annotated[
        Text,
        _search(
            "highest rate to try",
            "RATE",
            rate_of,
            "highest_rate",
            default="1M, or 1024 times the first rate if that is more",
        ),
    ] = None
    budget: Annotated[
        Text,
        _search(
            "stop after this time and report the best answer so far",
            "10m",
            words.seconds,
            "budget_s",
        ),
    ] = None
    max_trials: Annotated[
        Text,
        _search(
            "stop undecided after this many trials", "N", words.some, "max_trials", default="200"
        ),
    ] = None
    run_length: Annotated[
        Text,
        _search(
            "length of every trial",
            "60s",
            words.seconds,
            "run_length_s",
            default="the policy chooses",
        ),
    ] = None
    accuracy: Annotated[
        Text,
        _published(
            "accuracy of the mean response at the answer, at its confidence; of binsearch, "
            "linear and the models",
            "90%",
            _part,
            "accuracy",
            default="90%",
        ),
    ] = None
    step: Annotated[
        Text,
        _published(
            "difference of one load from the next; of linear and strawman",
            "RATE",
            rate_of,
            "increment",
            default="10",
        ),
    ] = None
    trials: Annotated[
        Text,
        _published(
            "trials at each load; of strawman", "N", _up_to_1000, "trials_each", default="10"
        ),
    ] = None
    seed: Seed = None
    plot: Plot = None
    drawn_seed: int = 1
    earlier_peak: EarlierPeak | None = None
    """What the study of `earlier` found when this search began."""


INNER = (
    "limits",
    "claim",
    "confidence",
    "policy",
    "start",
    "lowest",
    "highest",
    "budget",
    "max_trials",
    "run_length",
    *POLICIES_WITH,
    "seed",
)
"""Options of `bw peak` that `bw surface` also has, for the search at each sample."""


class SurfaceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `bw surface` exactly as the user typed them."""

    peak: PeakRequest
    """The request of the search at each sample."""
    samples: Annotated[
        Text, _mapping("number of samples to search", "N", words.some, default="all")
    ] = None
    design: Annotated[
        Text,
        _mapping(
            f"how the samples are chosen: {', '.join(DesignKind)}",
            "KIND",
            _design,
            "design",
            default="full; with --samples adaptive",
        ),
    ] = None
    model: Annotated[
        Text,
        _mapping(
            f"what predicts the other samples: {', '.join(ModelKind)}",
            "KIND",
            _model,
            "model",
            default="gaussian-process; with d- and i-optimal polynomial",
        ),
    ] = None
    degree: Annotated[
        Text,
        _mapping(
            "degree of the polynomial: 1, or 2 with squares and interactions of two factors",
            "N",
            _degree,
            "degree",
            default="2",
        ),
    ] = None
    deadline: Annotated[
        Text,
        _mapping(
            "time for the whole map, shared over its samples; a map of fewer samples where "
            "it is too short for all",
            "2h",
            words.seconds,
            "deadline_s",
        ),
    ] = None
    spread: Annotated[
        Text,
        _mapping(
            "share of a d- or i-optimal design's samples beyond the polynomial's terms that "
            "are chosen far from all others; 0%: every sample is optimal",
            "50%",
            words.share,
            "spread",
            default="50%",
        ),
    ] = None
    predict: Annotated[
        tuple[str, ...],
        Option(
            "print the model's prediction of this sample, also between levels; repeatable",
            "FACTOR=LEVEL,...",
            group="result",
        ),
    ] = ()
    """Each as `NAME=LEVEL,NAME=LEVEL`."""
    at_rate: Annotated[
        tuple[str, ...],
        Option(
            "print which samples have a peak of this rate or more, with probabilities; repeatable",
            "RATE",
            group="result",
            flag="--at-rate",
        ),
    ] = ()
    cross: Annotated[
        tuple[str, ...],
        Option(
            "print where the peaks at two levels of a factor cross, along a numeric factor; "
            "repeatable",
            "FACTOR=LEVEL,LEVEL",
            group="result",
        ),
    ] = ()
    plot: Plot = None
