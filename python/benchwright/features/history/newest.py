"""Whether the newest run of a series has its level, as an answer; and a gate on such answers.

Decision: an answer depends on where the last two levels of a series begin, on its last values and
on nothing else, so a history file that knows the first answers for the newest run without the steps
of the whole series (levels.py). `bw history` and `bw history add --gate` make their answers
here.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from benchwright.core.numeric import np
from benchwright.core.results import Estimate
from benchwright.core.text import number_text, p_text, percent_text, plural, signed_text
from benchwright.core.untrusted import one_line
from benchwright.features.history.types import (
    HistoryPoint,
    NoValue,
    SeriesKey,
    gone_series,
    run_text,
)
from benchwright.stats.arrays import FloatArray
from benchwright.stats.input_comparison import benjamini_hochberg
from benchwright.stats.intervals import t_quantile
from benchwright.stats.steps import (
    MIN_VALUES,
    TAIL,
    LevelStep,
    LevelVerdict,
    NewestComparison,
    find_steps,
    may_step,
    newest_comparisons,
    newest_verdicts,
)

NewestVerdict = Literal["slower", "faster", "worse", "better", "no difference", "undecided"]
"""About the newest run; `slower` and `faster` for times of which less is better, else `worse` and
`better`."""


class OpenStep(msgspec.Struct, frozen=True):
    """A step for the worse that nobody accepted, and that no later step has made good for: of
    several the one since which the level has become worse by most."""

    ratio: Estimate
    """The present level / the level before the step."""
    runs: int
    """The number of runs since the step."""
    steps: int
    """The number of steps since the level before, with this one."""
    p: float
    """Share of stationary series that have a step as clear as the clearest open one."""


class NewestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest run of a series compares with its level before."""

    verdict: NewestVerdict
    ratio: Estimate | None
    """The newest value / the level; None where there is no level, or the newest runs may be a new
    one."""
    since: int | None
    """The place of the first point of the new level, or of the newest point where it does not
    differ; None without a ratio."""
    p: float
    """Share of stationary series with such a difference at any look so far; NaN without a ratio."""
    p_adjusted: float
    """For all series of the answer together."""
    more: int
    """The number of further runs like the doubtful ones that would decide; 0 if it is decided, or
    if `MOST_MORE` would not."""
    why: str
    """Why it is undecided, or why there is no difference although the interval of the ratio
    excludes 1, or that a difference is of so few runs that it may end; empty otherwise."""
    open_step: OpenStep | None = None
    """None where there is none that is clear among all series."""

    @property
    def is_worse(self) -> bool:
        """Whether it differs in the wrong direction."""
        return self.verdict in ("slower", "worse")


class JudgedSeries(Protocol):
    """A series with the answer about its newest run."""

    @property
    def key(self) -> SeriesKey:
        """Its key."""

    @property
    def name(self) -> str:
        """The shortest name that distinguishes it here."""

    @property
    def newest(self) -> NewestAnswer:
        """The answer."""

    @property
    def newest_point(self) -> HistoryPoint:
        """Its last point."""

    @property
    def since_point(self) -> HistoryPoint:
        """The point at `newest.since`; the last one where that is None."""

    @property
    def runs_since(self) -> int:
        """The number of points from there on."""


class NewestSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about the newest run of one series alone, without its steps."""

    key: SeriesKey
    name: str
    newest: NewestAnswer
    newest_point: HistoryPoint
    since_point: HistoryPoint
    runs_since: int

    @property
    def id(self) -> str:
        """6 hexadecimal digits, which name it in commands."""
        return series_id(self.key)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of these, or fits a pattern of them."""
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def series_id(key: SeriesKey) -> str:
    """Return the name of a series in commands: 6 hexadecimal digits."""
    return hashlib.sha256("\0".join(msgspec.structs.astuple(key)).encode()).hexdigest()[:6]


def series_names(keys: Sequence[SeriesKey]) -> list[str]:
    """Return the shortest names: the metric, and the machine, where the test alone is not enough."""
    metrics = {key.metric for key in keys}
    machines = {key.machine for key in keys}
    return [
        " ".join(
            (
                key.test,
                *([key.metric] if len(metrics) > 1 else []),
                *([f"@{key.machine}"] if len(machines) > 1 else []),
            )
        )
        for key in keys
    ]


class LevelStart(msgspec.Struct, frozen=True):
    """Where the levels of a series begin before the look at its newest point."""

    count: int
    """The number of points of the series."""
    start: int
    """The first point with which the newest one is compared: of its segment, or of the level that
    was accepted last."""
    level_start: int
    before: int


# -- From points to logarithms -----------------------------------------------------------


def log_and_error(
    estimate: float, low: float | None, high: float | None, confidence: float | None, trials: int
) -> tuple[float, float]:
    """Return the logarithm of a value, -inf for 0, and its standard error, each NaN where there is
    none."""
    log = math.log(estimate) if estimate > 0 else math.nan if estimate else -math.inf
    if low is None or high is None or not 0 < low <= high:
        return log, math.nan
    share = t_quantile(confidence or 0.95, max(trials - 1, 1))
    return log, math.log(high / low) / (2 * share)


def logs_of(points: Sequence[HistoryPoint]) -> tuple[list[float], list[float]] | None:
    """Return the logarithms of the points, and their standard errors, NaN where unknown; None if a
    value has no logarithm. Values that are all 0 have no difference, like those that are all 1."""
    pairs = [
        log_and_error(point.estimate, point.low, point.high, point.confidence, point.trials)
        for point in points
    ]
    if all(log == -math.inf for log, _ in pairs):
        return [0.0] * len(pairs), [math.nan] * len(pairs)
    if not all(math.isfinite(log) for log, _ in pairs):
        return None
    return [log for log, _ in pairs], [error for _, error in pairs]


# -- The answer --------------------------------------------------------------------------


class NewestLook(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the newest value of a series."""

    newest: HistoryPoint
    values: FloatArray
    """Logarithms of the last points, shape `(n,)`: at least `TAIL`, or all since the start of the
    segment."""
    errors: FloatArray
    """Their standard errors, NaN where unknown, shape `(n,)`."""
    verdict: LevelVerdict
    """About these values."""
    runs: int
    """The number of points since the start of the segment."""
    offset: int
    """The place of the first value in the series."""

    @property
    def doubtful(self) -> int:
        """The first value of which it is undecided whether it has the level: the first since a
        step, or of a level that is too short, or else the last value."""
        verdict = self.verdict
        if verdict.state == "short":
            return verdict.level_start
        return self.values.size - 1 if verdict.since is None else verdict.since

    @property
    def windows(self) -> tuple[int, ...]:
        """The first values of the last `TAIL` and, of these, of the last two levels: one if they
        are the same."""
        first = max(0, self.values.size - TAIL)
        return tuple(sorted({first, max(first, self.verdict.before)}))

    @property
    def is_comparable(self) -> bool:
        """Whether the present level has enough values for a look, or there is one before it."""
        n, verdict = self.values.size, self.verdict
        return n - verdict.level_start > MIN_VALUES or verdict.before < verdict.level_start

    def continued(self, more: int) -> tuple[FloatArray, FloatArray]:
        """Return values and errors with those of further runs: copies of the doubtful ones, in
        their order, again and again."""
        values, errors = (
            np.concatenate([own, np.resize(own[self.doubtful :], more)])
            for own in (self.values, self.errors)
        )
        return values, errors


NO_RATIO = (
    "a value is 0 or less (and not all are 0), so the runs have no ratio; to leave the metric out, name those to judge: "
    "bw history --metric NAME"
)
MOST_MORE = 30
"""Maximum of further runs that are tried."""


def newest_answers(looks: Sequence[NewestLook | str], false_alarms: float) -> list[NewestAnswer]:
    """Return the answers of all series together; a text is why there is no look.

    The P-values are adjusted for all of them. An undecided answer has the number of further runs
    that decide.
    """
    places = [at for at, look in enumerate(looks) if isinstance(look, NewestLook)]
    known = [look for look in looks if isinstance(look, NewestLook)]
    answers = [_undecided(look if isinstance(look, str) else "") for look in looks]
    for at, answer in zip(places, _answers(known), strict=True):
        answers[at] = answer
    answers = _adjusted(answers, false_alarms)
    for at, step in zip(places, _open_steps(known, false_alarms), strict=True):
        answers[at] = msgspec.structs.replace(answers[at], open_step=step)
    undecided = {
        at: look
        for at, look in zip(places, known, strict=True)
        if answers[at].verdict == "undecided"
    }
    further = _further_runs(undecided, [answer.p for answer in answers], false_alarms)
    for at, look in undecided.items():
        alike, more = look.values.size - look.doubtful, further.get(at, 0)
        like = "it" if alike == 1 else f"the last {alike}"
        would = "show whether it differs" if more else "not decide: measure longer"
        words = f"{plural(more or MOST_MORE, 'more run')} like {like} would {would}"
        why = f"{answers[at].why}; {words}"
        answers[at] = msgspec.structs.replace(answers[at], more=more, why=why)
    return answers


def gone_text(last: HistoryPoint) -> str:
    """Return why a series that is gone from the files of another tool is not judged."""
    return f"no value since {run_text(last)}"


def _open_steps(looks: Sequence[NewestLook], false_alarms: float) -> list[OpenStep | None]:
    """Return the open step of each series, of those that are clear among all."""
    alike: dict[int, list[tuple[int, int]]] = {}
    for at, look in enumerate(looks):
        for first in look.windows:
            alike.setdefault(look.values.size - first, []).append((at, first))
    found: list[list[OpenStep]] = [[] for _ in looks]
    for same in alike.values():
        table = np.array([looks[at].values[first:] for at, first in same])
        for at, first in itertools.compress(same, may_step(table)):
            found[at] += _open_step(looks[at], first, false_alarms)
    steps = [
        _worst(some, len(look.windows)) if some else None
        for look, some in zip(looks, found, strict=True)
    ]
    clear = benjamini_hochberg([1.0 if step is None else step.p for step in steps])
    return [
        open_step if p <= false_alarms else None for open_step, p in zip(steps, clear, strict=True)
    ]


def _open_step(look: NewestLook, first: int, false_alarms: float) -> Iterator[OpenStep]:
    """Yield the open step since which the present level is worse by most, in the values from a
    first one on; nothing if none is open. A level that wanders has no P-value.

    All steps of a series are one question: their P-value is that of the clearest.
    """
    worse = 1 if look.newest.better == "lower" else -1
    values = look.values[first:]
    fit = find_steps(
        values, standard_errors=look.errors[first:], false_alarms=false_alarms, logarithms=True
    )
    places = [
        at for at, step in enumerate(fit.steps) if worse * step.change > 0 and lasts(fit.steps[at:])
    ]
    if not places or fit.wanders:
        return
    at = max(places, key=lambda one: worse * fit.change_since(one)[0])
    value, low, high = map(math.exp, fit.change_since(at))
    yield OpenStep(
        ratio=Estimate(value, low, high, 0.95, "steps", values.size),
        runs=values.size - fit.steps[at].index,
        steps=len(fit.steps) - at,
        p=min(fit.steps[place].p for place in places),
    )


def _worst(steps: Sequence[OpenStep], windows: int) -> OpenStep:
    """Return the larger of the open steps of two windows, or the one that is found. The last two
    levels alone may have less noise than the values before, and all of them hold more steps; two
    looks have twice the P-value."""
    worst = max(steps, key=lambda open_step: abs(math.log(open_step.ratio.value)))
    p = min(1.0, windows * min(step.p for step in steps))
    return msgspec.structs.replace(worst, p=p)


def lasts(steps: Sequence[LevelStep]) -> bool:
    """Return whether a step and the later ones change the level together in the direction of the
    first: no later one has made good for it."""
    first, *later = steps
    change = sum(step.change for step in steps)
    ends = [math.log(step.ratio_high / step.ratio_low) / 2 for step in steps]
    return not later or change * math.copysign(1, first.change) > math.hypot(*ends)


def _further_runs(
    looks: Mapping[int, NewestLook], p: Sequence[float], false_alarms: float
) -> dict[int, int]:
    """Return after how many further runs each undecided series is decided, of those where
    `MOST_MORE` are enough; `p` are the P-values of all series.

    Each further run is looked at as one that was measured; the other series stay as they are.
    """
    found: dict[int, int] = {}
    left = dict(looks)
    longest = {at: look.continued(MOST_MORE) for at, look in looks.items()}
    every = np.array(p)
    for more in range(1, MOST_MORE + 1):
        for at, look in left.items():
            values, errors = longest[at]
            end = looks[at].values.size + more
            left[at] = msgspec.structs.replace(
                look, values=values[:end], errors=errors[:end], runs=look.runs + 1
            )
        now = [at for at, look in left.items() if look.is_comparable]
        verdicts = newest_verdicts(
            [left[at].values for at in now],
            standard_errors=[left[at].errors for at in now],
            level_starts=[left[at].verdict.level_start for at in now],
            befores=[left[at].verdict.before for at in now],
            logarithms=True,
        )
        for at, verdict in zip(now, verdicts, strict=True):
            left[at] = msgspec.structs.replace(left[at], verdict=verdict)
        for at, answer in zip(now, _answers([left[at] for at in now]), strict=True):
            if answer.verdict == "no difference" or (
                answer.verdict != "undecided" and _is_clear(answer.p, at, every, false_alarms)
            ):
                found[at] = more
                del left[at]
    return found


def _is_clear(p: float, at: int, others: FloatArray, false_alarms: float) -> bool:
    """Return whether a P-value at a place among others, shape `(n,)`, is small enough adjusted for
    all."""
    every = others.copy()
    every[at] = p
    # Nearly always it is, were it the only small one, or is not, were all small ones as small.
    alone = p * np.count_nonzero(np.isfinite(every))
    if alone <= false_alarms:
        return True
    if alone > false_alarms * np.count_nonzero(every <= false_alarms):
        return False
    return bool(benjamini_hochberg(every)[at] <= false_alarms)


def _answers(looks: Sequence[NewestLook]) -> list[NewestAnswer]:
    compared = newest_comparisons(
        [look.values for look in looks],
        [look.verdict for look in looks],
        standard_errors=[look.errors for look in looks],
        logarithms=True,
    )
    return list(map(_answer, looks, compared))


def _answer(look: NewestLook, compared: NewestComparison | None) -> NewestAnswer:
    level_verdict = look.verdict
    if level_verdict.state == "unclear":
        last = look.values.size - look.doubtful
        which = "newest run" if last == 1 else f"last {last} runs"
        return _undecided(f"the {which} may differ")
    if compared is None:
        return _undecided(f"{plural(look.runs, 'run')} so far")
    ratio = _ratio(compared)
    verdict, why = direction(look.newest, rises=ratio.value > 1), ""
    if level_verdict.state == "same":
        verdict, why = _no_step(ratio, compared)
    elif look.values.size - level_verdict.level_start <= MIN_VALUES:
        why = "so few runs may also be a disturbance that ends"
    return NewestAnswer(
        verdict=verdict,
        ratio=ratio,
        since=look.offset + compared.end,
        p=compared.p,
        p_adjusted=compared.p,
        more=0,
        why=why,
    )


def _no_step(ratio: Estimate, compared: NewestComparison) -> tuple[NewestVerdict, str]:
    """Return the verdict about a newest run that is no new level, and why.

    The interval of one run among many excludes its own level now and then. Where so many runs
    before it were as far from the level, such a run is ordinary; else it is undecided.
    """
    if not compared.is_beyond:
        return "no difference", ""
    before, as_far = compared.before, compared.as_far
    others = f"of the {plural(before, 'run')} before it"
    how_far = (
        f"as far from its level as {as_far} {others}"
        if as_far
        else f"farther from its level than each {others}"
    )
    why = f"the newest run is {change_and_interval(ratio)}, {how_far}"
    if not compared.old.sdev and not as_far:
        why += "; runs that are all equal show no noise, so the interval has none"
    if before >= _ENOUGH_RUNS and as_far >= _ORDINARY * before:
        return "no difference", why
    return "undecided", why


_ENOUGH_RUNS = 20
_ORDINARY = 0.05
"""A run is ordinary if this share of at least so many runs before it is as far from the level."""


def direction(point: HistoryPoint, *, rises: bool) -> NewestVerdict:
    """Return the word for a value that is larger, or smaller, than before."""
    is_worse = rises == (point.better == "lower")
    if point.unit == "s" and point.better == "lower":
        return "slower" if is_worse else "faster"
    return "worse" if is_worse else "better"


def _undecided(why: str) -> NewestAnswer:
    return NewestAnswer(
        verdict="undecided",
        ratio=None,
        since=None,
        p=math.nan,
        p_adjusted=math.nan,
        more=0,
        why=why,
    )


def signed_change(ratio: float, digits: int = 2) -> str:
    """Return a ratio as a change: `+3.2 %`; a large one as `x 2.41`, with a digit more."""
    if ratio >= _AS_FACTOR:
        return f"x {number_text(ratio, digits + 1)}"
    return signed_text(percent_text(ratio - 1, digits))


_AS_FACTOR = 2.0
_MOST_DIGITS = 4


def change_and_interval(ratio: Estimate) -> str:
    """Return `+7.9 % (+6.1 to +9.8 %)`, with so many digits that ends that differ are seen to."""
    value, interval = change_with_interval(ratio)
    return f"{value} ({interval})" if interval else value


def change_with_interval(ratio: Estimate) -> tuple[str, str]:
    """Return the change and its interval, each as a text, as `change_and_interval` has them; the
    interval is empty where an end is unbounded."""
    numbers = ratio.value, ratio.low, ratio.high
    value, low, high = (signed_change(number) for number in numbers)
    for digits in range(3, _MOST_DIGITS + 1):
        if low != high:
            break
        value, low, high = (signed_change(number, digits) for number in numbers)
    if not math.isfinite(ratio.low) or not math.isfinite(ratio.high):
        return value, ""
    if low.endswith(" %") and high.endswith(" %"):
        low = low.removesuffix(" %")
    return value, f"{low} to {high}"


def _ratio(compared: NewestComparison) -> Estimate:
    """Return the ratio of two levels of logarithms, new / old."""
    old, new, half = compared.old, compared.new, compared.half
    change = new.mean - old.mean
    ends = math.exp(change - half), math.exp(change + half)
    return Estimate(math.exp(change), *ends, 0.95, "pooled-t", old.n + new.n)


def _adjusted(answers: Sequence[NewestAnswer], false_alarms: float) -> list[NewestAnswer]:
    """Return the answers with the P-values adjusted for all of them; a difference that is not clear
    among them is undecided."""
    if not answers:
        return []
    found = []
    for newest_answer, p in zip(
        answers, benjamini_hochberg([answer.p for answer in answers]).tolist(), strict=True
    ):
        verdict, why = newest_answer.verdict, newest_answer.why
        # Without a P-value it is NaN, and not above.
        if verdict not in ("no difference", "undecided") and p > false_alarms:
            assert newest_answer.ratio is not None
            change = change_and_interval(newest_answer.ratio)
            among = f" among {len(answers)} series" if len(answers) > 1 else ""
            above = f"above {percent_text(false_alarms, 2)}"
            why = f"the runs since its last step are {change}, but {p_text(p)}{among} is {above}"
            verdict = "undecided"
        found.append(msgspec.structs.replace(newest_answer, p_adjusted=p, verdict=verdict, why=why))
    return found


# -- The gate --------------------------------------------------------------------------


class HistoryGate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a newest run is worse than its level by more than a limit."""

    limit: float
    """As a share."""
    failed: tuple[str, ...]
    """The names of the series that are worse by more."""
    steps: tuple[str, ...]
    """Of these, a sentence for each that is worse by a step that nobody accepted, not by its newest
    run."""
    undecided: tuple[str, ...]
    """Why it is undecided, one sentence for each series."""
    broken: tuple[str, ...]
    """The benchmarks that failed since they had a value, one sentence for each."""

    @property
    def outcome(self) -> Literal["passed", "failed", "undecided"]:
        """Its result; a failed series counts more than an undecided one."""
        if self.failed or self.broken:
            return "failed"
        return "undecided" if self.undecided else "passed"

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return {"passed": 0, "failed": 1, "undecided": 3}[self.outcome]


class JudgedAnswer(Protocol):
    """An answer of several series."""

    @property
    def series(self) -> Sequence[JudgedSeries]:
        """The series, in order of their keys."""

    @property
    def without(self) -> Sequence[NoValue]:
        """What has no value since its last one."""


NO_VALUE = "no-value"
"""The code by which a gate is decided although something has no value."""


def hold_gate(
    answer: JudgedAnswer,
    limit: float,
    accepted_codes: Container[str] = (),
    unread: Sequence[str] = (),
) -> HistoryGate:
    """Return the outcome of a gate. `unread` are sentences about what could not be read.

    It is undecided where a verdict is, unless its interval is within the limit; where one run is
    known less well than the limit; where a serious finding concerns the newest run, and where the
    newest session has no value, unless its code is accepted; and where there is nothing to judge. A
    benchmark that failed fails it, and so does an open step, until it is accepted. A limit of 0
    fails for every difference that is found.
    """
    failed, steps, undecided = [], [], list(unread)
    if not answer.series:
        undecided.append("there is no series to judge")
    lost = [] if NO_VALUE in accepted_codes else answer.without
    broken = [no_value_text(no_value) for no_value in lost if no_value.failed]
    undecided += (no_value_text(no_value) for no_value in lost if not no_value.failed)
    # What is gone was not measured: its last value is not the newest run.
    gone = gone_series(answer.without, (judged_series.key for judged_series in answer.series))
    for series in answer.series:
        if series.key in gone:
            continue
        newest, ratio = series.newest, series.newest.ratio
        codes = [c for c in series.newest_point.codes if c not in accepted_codes]
        is_lower = series.newest_point.better == "lower"
        if codes:
            undecided.append(f"{series.name}: the newest run has {', '.join(codes)}")
        elif (
            newest.open_step is not None
            and _worse_by(newest.open_step.ratio, is_lower=is_lower) > limit
        ):
            failed.append(series.name)
            steps.append(_step_text(series, newest.open_step))
        elif ratio is None:
            undecided.append(f"{series.name}: {newest.why}")
        elif newest.is_worse:
            if _worse_by(ratio, is_lower=is_lower) > limit:
                failed.append(series.name)
        elif newest.verdict == "undecided":
            if (ratio.high - 1 if is_lower else 1 - ratio.low) > limit:
                undecided.append(f"{series.name}: {newest.why}")
        elif newest.verdict == "no difference" and 0 < limit < _reach(ratio):
            undecided.append(
                f"{series.name}: one run is known to ±{percent_text(_reach(ratio), 2)} of its "
                "level: measure longer, or raise the limit"
            )
    return HistoryGate(
        limit=limit,
        failed=tuple(failed),
        steps=tuple(steps),
        undecided=tuple(undecided),
        broken=tuple(broken),
    )


def _worse_by(ratio: Estimate, *, is_lower: bool) -> float:
    """Return by which share a value is worse; negative for one that is better."""
    return ratio.value - 1 if is_lower else 1 - ratio.value


def _step_text(one: JudgedSeries, step: OpenStep) -> str:
    word = direction(one.newest_point, rises=step.ratio.value > 1)
    change = change_and_interval(step.ratio)
    later = f", with {plural(step.steps - 1, 'later step')}" if step.steps > 1 else ""
    since = f"since a step {plural(step.runs, 'run')} ago that is not accepted"
    return f"{one.name}: {word} {change} {since}{later}"


def no_value_text(one: NoValue) -> str:
    """Return what has no value, in which session, and why: `sort: no value in bw-study@3: ...`."""
    name = " ".join(filter(None, (one.test, one.metric)))
    session = f"{one.study}@{one.session}" if one.session else one.study
    if not name:
        return one_line(f"{session} has not run all of its tests: {one.why}")
    return one_line(f"{name}: no value in {session}: {one.why}")


def _reach(ratio: Estimate) -> float:
    """Return how far the upper end of a ratio is from it, as a share."""
    return ratio.high / ratio.value - 1
