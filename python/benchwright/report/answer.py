"""The answer of a session: one row per test, with the figure that it is about.

Purpose: the terminal, the report page, the live view, notices and JSON show the same numbers,
because all of them read this. Decision: it is made of tests with their results (findings/result.py), from
a stored session or one that has just ended; a test's figure is chosen in decide/stopping.py, which
the progress display reads too.
Ratios: MOVER for a ratio of two independent estimates, from their own intervals, so that a ratio
uses the intervals that are shown. Source: A. Donner and G. Zou 2012, Closed-form confidence
intervals for functions of the normal mean and standard deviation, Statistical Methods in Medical
Research 21(4), pp. 347-359.
Non-goal: verdicts about differences (`bw compare`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.comparison import ComparisonResult
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import FAILED_ENDINGS, Trial, TrialEnding
from benchwright.core.plan import Pairs, Replicated, StoppingRule, UntilPrecise, usual_direction
from benchwright.core.results import (
    BROKEN_CODES,
    UNSEEN_SIZE,
    Alternative,
    Estimate,
    Finding,
    Population,
    Severity,
    SlowRuns,
)
from benchwright.core.text import (
    duration_ns_text,
    duration_text,
    percent_text,
    plural,
    quantity_text,
    replicates_text,
    some_text,
)
from benchwright.core.untrusted import shell_text
from benchwright.decide.stopping import current_estimate, main_metric, statistic_label
from benchwright.findings.codes import LISTED_CODES, WHOLE_CODES, template_of
from benchwright.findings.result import TestResult
from benchwright.findings.sanity import kind_of
from benchwright.findings.sentence import range_sentence, sentence, sizes
from benchwright.report.documents import EstimateEntry, ending_text, entry
from benchwright.study.contents import stored_baseline
from benchwright.study.journal import StoredSession

# -- The answer ------------------------------------------------------------------------

FIRST, BEST = "first", "best"
"""What ratios can refer to besides a named test."""


class ReachedLimit(msgspec.Struct, frozen=True):
    """The limit at which a test ended undecided."""

    text: str
    """`6 trials`, `10 s`."""
    options: tuple[str, ...]
    """Those that must be larger for an answer: `--max-time`."""
    needed: int | None = None
    """Trials that the target needs, projected to two digits from those that ran; None without
    such a target, and where those that ran are too few to tell."""
    instead: tuple[Alternative, ...] = ()
    """Other questions, which the limits can answer."""


State = Literal["answered", "undecided", "interrupted", "failed", "running"]
"""`running`: it has no result yet, and its session runs (in a live view)."""


class MetricAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Another metric that the user declared, or that the rule watches."""

    metric: str
    label: str
    estimate: Estimate | None
    """None where no trial has it."""


class Unseen(msgspec.Struct, frozen=True):
    """What the trials of a test may have missed, at 95 %: it is not in the interval of the mean."""

    share: float
    """Slow runs that are rarer may not have occurred."""
    size: float
    """How slow these are, for what follows: the size that the rule asks about, else twice as slow.
    """
    shift: float
    """By how much they would change the mean, as a share of it."""
    sentence: str


class TestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one test: a row."""

    test: str
    """The name as stored."""
    name: str
    """The shortest name that distinguishes it here: `level=3`, `gzip level=3`, `sort`."""
    labels: Pairs
    """The parts of that name: levels by factor, and the command by `test`."""
    sample: Pairs
    threads: int | None
    metric: str
    """What the test is about: see `decide.stopping.main_metric`; empty if nothing was measured."""
    label: str
    """The metric with its statistic: `elapsed`, `median elapsed`."""
    estimate: Estimate | None
    """With the interval of the stopping rule, else Student's. Its ends are NaN or infinite where
    the values do not bound anything, and not below 0 for what cannot be negative. None if no
    trial has a value."""
    minimum: float | None
    """Of the metric's values; None without any."""
    maximum: float | None
    relative: Estimate | None
    """Ratio to the reference; None for the reference itself, and where there is no ratio."""
    others: tuple[MetricAnswer, ...]
    trials: int
    """Completed trials, without warm-up trials."""
    span_s: float | None
    """From the start of the first of them to the end of the last; None for fewer than two, and
    where their times are unknown. What changes more slowly is not in the interval."""
    failed: int
    void: int
    unseen: Unseen | None
    """Slow runs that these trials may have missed, where they would move the mean out of its
    interval; None where they would not, and for another statistic."""
    target: float | None
    """The half width that the rule asks for, as a share of the value."""
    state: State
    reason: str
    """Why it ended."""
    severity: Severity | None
    """Of its worst finding."""
    limit: ReachedLimit | None = None
    """None if it did not end undecided at a limit that can be raised."""
    is_arm: bool = False
    """An arm of a comparison, which has a table of its own."""
    population: Population | None = None
    """What its replicates show, with levels of replication."""


class FindingGroup(msgspec.Struct, frozen=True):
    """All findings of one code."""

    code: str
    severity: Severity
    tests: tuple[str, ...]
    """Short names of the tests that it concerns; empty if it concerns the session."""
    evidence: str
    """Of the worst."""
    remedy: str
    worst: str
    """The short name of the worst test: of the highest severity, then with the largest figure
    (`findings.sentence.sizes`); empty if it concerns the session."""
    sentence: str
    """The evidence of all tests in short: without details, with the range of each figure; that of
    the worst, with its name, where they say different things, or of an example where no figure
    compares. Each evidence where one is only a sentence, and of LISTED_CODES."""


class Constant(msgspec.Struct, frozen=True):
    """A metric that has the same value in every trial of every test."""

    metric: str
    value: float
    unit: str


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a session."""

    tests: tuple[TestAnswer, ...]
    reference: TestAnswer | None
    """The test that ratios refer to; None if it is not among these."""
    baseline: str
    """How it was chosen: `first`, `best`, or the name of a test as stored."""
    groups: tuple[FindingGroup, ...]
    """Worst first."""
    constants: tuple[Constant, ...]
    status: str
    detail: str

    @property
    def reference_place(self) -> int:
        """The index of the test that overheads refer to: the reference, else the first test."""
        return 0 if self.reference is None else self.tests.index(self.reference)


CUT_SHORT = ("interrupted", "crashed")
"""How a session ended that was stopped before its end; one that was killed is `crashed`."""
UNFINISHED = (*CUT_SHORT, "running")
"""States of a session that has not ended."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a session of tests, or of a file that another tool or a user wrote."""

    id: str = ""
    """Prefix of its ids on a page."""
    path: Path
    session: StoredSession | None
    """None for a file."""
    started_ns: int
    """When it was measured, as far as that is known [ns since 1970]."""
    tests: tuple[TestResult, ...]
    """Each with its findings."""
    about_session: tuple[Finding, ...]
    """Findings that concern no single test."""
    comparisons: tuple[ComparisonResult, ...] = ()
    machines: tuple[MachineCapture, ...] = ()

    @property
    def status(self) -> str:
        """How the session ended; a file is complete."""
        return "complete" if self.session is None else self.session.status

    @property
    def detail(self) -> str:
        """How the session ended, in detail."""
        return "" if self.session is None else self.session.detail

    @property
    def failed(self) -> bool:
        """Whether the exit status of its command was 1."""
        if self.status in UNFINISHED:
            return False
        return (
            self.status == "failed"
            or any(failures(test) for test in self.tests if test.arm is None)
            or any(comparison.exit_status == 1 for comparison in self.comparisons)
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: about the session, then about each test."""
        return (*self.about_session, *(f for test in self.tests for f in test.findings or ()))

    def answer(self) -> SessionAnswer:
        """Return the answer of each test, as every report shows it."""
        return answer_of(
            self.tests,
            self.about_session,
            status=self.status,
            detail=self.detail,
            baseline=FIRST if self.session is None else stored_baseline(self.session.info),
        )

    def named_findings(self, answer: SessionAnswer) -> tuple[tuple[str, Finding], ...]:
        """Return all findings with the short names that the answer has for their tests; empty for
        those that concern no single test."""
        of_tests = (
            (row.name, finding)
            for row, test in zip(answer.tests, self.tests, strict=True)
            for finding in test.findings or ()
        )
        return (*(("", finding) for finding in self.about_session), *of_tests)


def answer_of(
    inputs: Sequence[TestResult],
    session_findings: Sequence[Finding] = (),
    *,
    status: str = "complete",
    detail: str = "",
    baseline: str = FIRST,
) -> SessionAnswer:
    """Return the answer of a session with these tests.

    `session_findings` concern no single test. Ratios refer to the `baseline`: `first` (of the
    tests with a value), `best`, or the name of a test as stored.
    """
    figures = [_figure(one) for one in inputs]
    labels = _labels(inputs)
    reference = _reference(inputs, figures, baseline)
    tests = tuple(
        _test_answer(one, figure, names, (status, detail), _ratio(figures, place, reference))
        for place, (one, figure, names) in enumerate(zip(inputs, figures, labels, strict=True))
    )
    named = [
        (test.name, finding)
        for test, one in zip(tests, inputs, strict=True)
        for finding in one.findings or ()
    ]
    groups = finding_groups(
        (*(("", session_finding) for session_finding in session_findings), *named)
    )
    constants = _constants(inputs, figures)
    hidden = {constant.metric for constant in constants}
    shown = tuple(
        msgspec.structs.replace(
            test, others=tuple(other for other in test.others if other.metric not in hidden)
        )
        for test in tests
    )
    return SessionAnswer(
        tests=shown,
        reference=None if reference is None else shown[reference],
        baseline=baseline,
        groups=groups,
        constants=constants,
        status=status,
        detail=detail,
    )


# -- The figure of a test --------------------------------------------------------------


class _Figure(msgspec.Struct, frozen=True):
    """What was computed from the trials of one test."""

    metric: str
    estimates: dict[str, Estimate]
    """Of the main metric, the rule's metrics and the declared ones; without absent ones."""
    wanted: tuple[str, ...]
    """The metrics besides the main one that the user asked for."""
    better: str


def estimate_of(test: TestResult, metric: str) -> Estimate:
    """Return the value of a metric that some trial has, with the interval that is shown everywhere.

    It is the interval with which the stopping rule ended the test, else the one that the rule has
    now, else Student's. It is cut at 0 for what cannot be negative.
    """
    row, column = test.rules.row(metric), test.columns[metric]
    reached = () if test.stop is None else test.stop.reached
    estimate = next(
        (precision.estimate for precision in reached if precision.metric == metric), None
    )
    if estimate is None or estimate.n != len(column.values):
        estimate = current_estimate(test.rule, metric, column.values, row.unit, column.paths)
    low = estimate.low
    if not row.signed and low < 0 <= min(column.values):
        low = 0.0
    return msgspec.structs.replace(estimate, low=low, unit=row.unit)


def _figure(one: TestResult) -> _Figure:
    declared, columns = one.rules.declared, one.columns
    metric = main_metric(one.rule, declared, columns)
    watched = getattr(one.rule, "metrics", ())
    wanted = tuple(dict.fromkeys((*watched, *declared)))
    asked = dict.fromkeys((*([] if metric is None else [metric]), *wanted))
    better = {spec.name: spec.better for spec in one.specs}
    return _Figure(
        metric or "",
        {name: estimate_of(one, name) for name in asked if name in columns},
        tuple(name for name in wanted if name != metric),
        better.get(metric or "") or usual_direction(metric or ""),
    )


def half_width_percent(estimate: Estimate) -> float:
    """Return the half width in percent of the value, as shown after ±; NaN without an interval.

    An interval that was cut at 0 keeps the half width that it had.
    """
    half = estimate.half_width
    if estimate.low == 0 and estimate.high - estimate.value > estimate.value:
        half = estimate.high - estimate.value
    if not estimate.value:
        return 0.0 if half == 0 else math.nan
    return 100 * (half / abs(estimate.value))


def reference_of(inputs: Sequence[TestResult], baseline: str) -> int | None:
    """Return the index of the test that ratios of these tests refer to, as `answer_of` does."""
    return _reference(inputs, [_figure(test) for test in inputs], baseline)


def _reference(
    inputs: Sequence[TestResult], figures: Sequence[_Figure], baseline: str
) -> int | None:
    """Return the index of the baseline; None if it is not among the tests, or has no value.

    Arms of comparisons, which have a table of their own, do not serve beside other tests.
    """
    having = [place for place, figure in enumerate(figures) if figure.metric]
    if baseline not in (FIRST, BEST):
        return next((at for at in having if inputs[at].name == baseline), None)
    having = [place for place in having if inputs[place].arm is None] or having
    if not having:
        return None
    if baseline == FIRST:
        return having[0]

    def rank(place: int) -> float:
        value = figures[place].estimates[figures[place].metric].value
        return value if figures[place].better == "lower" else -value

    return min(having, key=rank)


RATIO_METHOD = "mover"


def ratio_of(one: Estimate, reference: Estimate) -> Estimate | None:
    """Return `one` / `reference` for independent estimates; None where they have no ratio.

    The ends are NaN where an interval has none, or where the reference's includes 0.
    """
    if one.value <= 0 or reference.value <= 0:
        return None
    value = one.value / reference.value
    # How far the ends are from the values, as shares of the values.
    below, above = 1 - one.low / one.value, one.high / one.value - 1
    under, over = (1 - reference.low / reference.value, reference.high / reference.value - 1)
    low = high = math.nan
    if all(map(math.isfinite, (below, above, under, over))) and under < 1:
        low = _mover_low(below, over)
        high = (1 + _mover_root(above, under)) / (1 - under * under)
    confidence = min(one.confidence, reference.confidence)
    n = min(one.n, reference.n)
    return Estimate(value, value * low, value * high, confidence, RATIO_METHOD, n)


def _mover_root(one: float, other: float) -> float:
    return math.sqrt(1 - (1 - one * one) * (1 - other * other))


def _mover_low(below: float, over: float) -> float:
    """Return the lower end as a share of the ratio; the paper's formula, rationalized, so that it
    also holds where the reference may be twice its value."""
    if below >= 1:
        return 0.0
    return (1 - below * below) / (1 + _mover_root(below, over))


def _ratio(figures: Sequence[_Figure], place: int, reference: int | None) -> Estimate | None:
    if reference is None or place == reference:
        return None
    figure, other = figures[place], figures[reference]
    if figure.metric != other.metric:
        return None
    return ratio_of(figure.estimates[figure.metric], other.estimates[figure.metric])


def _constants(tests: Sequence[TestResult], figures: Sequence[_Figure]) -> tuple[Constant, ...]:
    """Return the metrics besides the main ones that have one value in all trials of several
    tests."""
    constants: list[Constant] = []
    if len(figures) < 2:
        return ()
    for name in dict.fromkeys(name for figure in figures for name in figure.wanted):
        columns = [test.columns.get(name) for test in tests]
        values = {value for column in columns if column is not None for value in column.values}
        if None not in columns and len(values) == 1:
            unit = next(f.estimates[name].unit for f in figures if name in f.estimates)
            constants.append(Constant(name, values.pop(), unit))
    return tuple(constants)


# -- A row -----------------------------------------------------------------------------


def _test_answer(
    one: TestResult,
    figure: _Figure,
    labels: Pairs,
    session: tuple[str, str],
    relative: Estimate | None,
) -> TestAnswer:
    """Return the row of a test; `session` is the status of its session, and the detail."""
    counted = [trial for trial in one.trials if not trial.warmup]
    completed = sum(trial.ending is TrialEnding.OK for trial in counted)
    column = one.columns.get(figure.metric)
    estimate = figure.estimates.get(figure.metric)
    # One of these failed by itself; the others were cut short.
    broken = sum(trial.ending in FAILED_ENDINGS for trial in one.void_trials)
    state, reason = _ending(one, completed, *session)
    return TestAnswer(
        test=one.name,
        name=_label_text(labels) or one.name,
        labels=labels,
        sample=one.sample,
        threads=one.threads,
        metric=figure.metric,
        label=statistic_label(one.rule, figure.metric),
        estimate=estimate,
        minimum=None if column is None else min(column.values),
        maximum=None if column is None else max(column.values),
        relative=relative,
        others=tuple(
            MetricAnswer(
                metric=name,
                label=statistic_label(one.rule, name),
                estimate=figure.estimates.get(name),
            )
            for name in figure.wanted
        ),
        trials=completed,
        span_s=trial_span_s(counted),
        unseen=None
        if estimate is None
        else unseen_of(figure.metric, estimate, one.rule, figure.better),
        failed=len(counted) - completed + broken,
        void=len(one.void_trials) - broken,
        target=getattr(one.rule, "target", None),
        state=state,
        reason=reason,
        severity=worst(one.findings or ()),
        limit=_reached_limit(one) if state == "undecided" else None,
        is_arm=one.arm is not None,
        population=_population(one, figure.metric),
    )


def _population(one: TestResult, metric: str) -> Population | None:
    """Return what the replicates of a test show about its metric; None without replicates."""
    column = one.columns.get(metric)
    if not isinstance(one.rule, Replicated) or column is None or not column.paths:
        return None
    # Only this rule needs numpy.
    from benchwright.decide.replicated import nested_of, population_of

    rule = one.rule
    nested = nested_of(rule.replication, column.values, column.paths, rule.confidence)
    least = 0.0 if not one.rules.row(metric).signed and min(column.values) >= 0 else -math.inf
    return population_of(nested, least=least)


def unseen_of(
    metric: str, estimate: Estimate, rule: StoppingRule | None, better: str = "lower"
) -> Unseen | None:
    """Return what the trials behind a metric's estimate may have missed; None where it matters
    little to the mean, and for other statistics."""
    precise = rule if isinstance(rule, UntilPrecise) else None
    if not math.isfinite(estimate.half_width) or not estimate.value or (precise and precise.share):
        return None
    rare = precise.rare if precise else None
    runs = SlowRuns.unseen(estimate.n, rare.size if rare else UNSEEN_SIZE)
    is_rate = better == "higher"
    shift = runs.shift("higher" if is_rate else "lower")
    if abs(shift) <= half_width_percent(estimate) / 100:
        return None
    kind = kind_of(metric, estimate.unit)
    what = "slow runs" if kind else ("low values" if is_rate else "high values")
    times = {2.0: "half" if is_rate else "twice"}.get(
        runs.size, f"1 / {runs.size:g} of" if is_rate else f"{runs.size:g} times"
    )
    sentence = (
        f"{what} rarer than {runs.frequency} may not have been seen: at {times} the {kind or 'value'} they would make "
        f"the mean {percent_text(abs(shift), 2)} {'lower' if is_rate else 'higher'}"
    )
    return Unseen(runs.share, runs.size, shift, sentence)


def trial_span_s(counted: Sequence[Trial]) -> float | None:
    """Return the time [s] within which the completed trials lie, as `TestAnswer.span_s`."""
    ended = [trial for trial in counted if trial.ending is TrialEnding.OK]
    if len(ended) < 2 or not all(trial.started_ns for trial in ended):
        return None
    first = min(trial.started_ns for trial in ended)
    return max(t.started_ns + t.duration_ns - first for t in ended) / 1e9


def _ending(one: TestResult, completed: int, status: str, detail: str) -> tuple[State, str]:
    """Return how a test ended, and why in plain words; `detail` is how its session ended."""
    stop = one.stop
    if stop is not None and stop.reason != "failed" and completed:
        if stop.answered:
            return "answered", ending_text(stop)
        return "undecided", ending_text(stop)
    if status == "interrupted" and stop is None:
        return "interrupted", "interrupted"
    if status == "running" and stop is None:
        return "running", "it runs"
    if stop is None and one.arm is not None and completed:
        return "answered", "the comparison ended"
    if stop is None and status not in ("failed", "complete"):
        return "interrupted", "it has not ended"
    broken = "; ".join(f.evidence for f in one.findings or () if f.code in BROKEN_CODES)
    if stop is None:
        return "failed", broken or detail or "a trial failed"
    return "failed", broken or ending_text(stop)


def _reached_limit(one: TestResult) -> ReachedLimit | None:
    """Return the limit that ended a test; None if something else did, or if no larger limit is
    enough."""
    rule, reason = one.rule, "" if one.stop is None else one.stop.reason
    if reason not in ("max-runs", "max-time", "out-of-reach"):
        return None
    if not isinstance(rule, UntilPrecise):
        most = getattr(rule, "maximum", None)
        return None if most is None else ReachedLimit(plural(most, "trial"), ("--max-runs",))
    # Only this rule needs numpy.
    from benchwright.decide.precision import FEWEST_VALUES, alternatives, needed_trials

    series = {name: column.values for name, column in one.columns.items()}
    wanted = needed_trials(rule, series)
    instead = alternatives(rule, series, one.specs)
    if math.isinf(wanted) and not instead:
        return None
    made = min((len(series.get(name, ())) for name in rule.metrics), default=0)
    needed = None
    if min(FEWEST_VALUES, rule.minimum) <= made < wanted < math.inf:
        needed = int(float(f"{wanted:.2g}"))
    options, text = ["--max-runs"], plural(rule.maximum, "trial")
    if rule.max_time_ns is not None and reason != "max-runs":
        text = duration_ns_text(rule.max_time_ns)
        options = ["--max-time", *(options if wanted > rule.maximum else [])]
    return ReachedLimit(text, () if math.isinf(wanted) else tuple(options), needed, instead)


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the highest severity of these findings; None without findings."""
    return max((finding.severity for finding in findings), key=RANK.__getitem__, default=None)


RANK = {severity: rank for rank, severity in enumerate(Severity)}
"""How grave a severity is, from 0."""


# -- Names -----------------------------------------------------------------------------


def short_names(inputs: Sequence[TestResult]) -> list[str]:
    """Return the shortest name of each test that distinguishes it among these."""
    names = zip(inputs, _labels(inputs), strict=True)
    return [_label_text(labels) or test.name for test, labels in names]


def _labels(inputs: Sequence[TestResult]) -> list[Pairs]:
    """Return what distinguishes each test: the levels that vary, and the command where the levels
    do not suffice; a whole name where nothing else does."""
    samples = [_levels(one) for one in inputs]
    names = [
        name_without_levels(one.name, sample) for one, sample in zip(inputs, samples, strict=True)
    ]
    factors = dict.fromkeys(factor for sample in samples for factor in sample)
    varying = [factor for factor in factors if len({sample.get(factor) for sample in samples}) > 1]
    levels = [
        tuple((factor, sample[factor]) for factor in varying if factor in sample)
        for sample in samples
    ]
    whole: list[Pairs] = [(("test", one.name),) for one in inputs]
    if len(inputs) == 1:
        # The other tests of a scan may not have started when this one failed.
        (test,), (sample,) = inputs, samples
        own = (pair for pair in sample.items() if ":{}={}".format(*pair) in test.name)
        chosen: list[Pairs] = [(("test", names[0]), *own)]
    elif len(set(names)) == len(inputs):
        chosen = [(("test", name),) for name in names]
    elif len(set(names)) == 1:
        chosen = levels
    else:
        chosen = [(("test", name), *pairs) for name, pairs in zip(names, levels, strict=True)]
    return chosen if len(set(chosen)) == len(inputs) else whole


def _levels(one: TestResult) -> dict[str, str]:
    """Return a test's levels, its number of threads among them."""
    levels = dict(one.sample)
    known = {factor.lower() for factor in levels}
    if one.threads is not None and "threads" not in known:
        levels["threads"] = str(one.threads)
    return levels


def name_without_levels(name: str, levels: Mapping[str, str]) -> str:
    """Return a test's name without the parts `:factor=level` that a command line adds."""
    for factor, level in levels.items():
        name = name.replace(f":{factor}={level}", "", 1)
    return name


def _label_text(labels: Pairs) -> str:
    return " ".join(value if factor == "test" else f"{factor}={value}" for factor, value in labels)


# -- Findings, grouped -----------------------------------------------------------------


def finding_groups(named: Iterable[tuple[str, Finding]]) -> tuple[FindingGroup, ...]:
    """Return one group for each code, the worst first, then those of most tests.

    `named` are findings, each with the short name of its test, or an empty one if it concerns the
    session.
    """
    by_code: dict[str, list[tuple[str, Finding]]] = {}
    for name, finding in named:
        by_code.setdefault(finding.code, []).append((name, finding))
    groups = [_group(found) for found in by_code.values()]
    groups.sort(key=lambda group: (-RANK[group.severity], -len(group.tests)))
    return tuple(groups)


def _group(found: Sequence[tuple[str, Finding]]) -> FindingGroup:
    """Return the findings of one code, each with its test, as a group."""
    top = max(RANK[finding.severity] for _, finding in found)
    gravest = [(name, finding) for name, finding in found if RANK[finding.severity] == top]
    largest = _largest([finding for _, finding in gravest])
    name, worst = gravest[largest or 0]
    return FindingGroup(
        code=worst.code,
        severity=worst.severity,
        tests=tuple(dict.fromkeys(name for name, _ in found if name)),
        evidence=worst.evidence,
        remedy=worst.remedy,
        worst=name,
        sentence=_group_sentence(found, gravest[largest or 0], largest is not None),
    )


def _largest(found: Sequence[Finding]) -> int | None:
    """Return the index of the finding with the largest figure; None if no figure compares."""
    stated = [
        (template, finding.figures)
        for finding in found
        if finding.figures is not UNSET and (template := template_of(finding)) is not None
    ]
    compared = sizes(stated) if len(stated) == len(found) else None
    return None if compared is None else compared.index(max(compared))


def _group_sentence(
    found: Sequence[tuple[str, Finding]], worst: tuple[str, Finding], is_largest: bool
) -> str:
    """Return what findings of one code say together; `is_largest`: whether a figure of the worst is
    larger than those of the others."""
    evidence = {finding.evidence for _, finding in found}
    if len(evidence) == 1:
        return _short(worst[1])
    templates = {template_of(finding) for _, finding in found}
    if None in templates or worst[1].code in LISTED_CODES:
        return _listed(found, worst[1].code not in WHOLE_CODES)
    tests = {test for test, _ in found}
    stated = [(name, finding.figures) for name, finding in found if finding.figures is not UNSET]
    if len(templates) == 1 and len(set(stated)) == len(tests):
        ranged = range_sentence(templates.pop() or "", [figures for _, figures in stated])
        if ranged is not None:
            return ranged
    # It is true of one only, so it names that one. A range is of findings of different tests.
    if len(tests) == 1:
        return f"{_short(worst[1])} ({'the worst' if is_largest else 'one'} of {len(found)})"
    if is_largest:
        return f"{_short(worst[1])} (the worst, {worst[0]})"
    return f"for example, {_short(worst[1])} ({worst[0]})"


def _short(finding: Finding) -> str:
    """Return a finding's evidence without details."""
    template = template_of(finding)
    if template is None or finding.figures is UNSET:
        return finding.evidence
    return sentence(template, finding.figures, short=True)


_MOST_LISTED = 3


def _listed(found: Sequence[tuple[str, Finding]], cut: bool) -> str:
    """Return each evidence, with the names of its tests where it is not that of all of them; with
    `cut`, that of a few."""
    names: dict[str, dict[str, None]] = {}
    for name, finding in found:
        names.setdefault(_short(finding), {})[name] = None
    every = {name for name, _ in found}
    texts = [
        text if whose.keys() == every else f"{text} ({some_text([*whose], MOST_NAMES)})"
        for text, whose in names.items()
    ]
    return some_text(texts, _MOST_LISTED if cut else len(texts), "; ")


def concerned_text(names: Sequence[str], total: int, noun: str = "test") -> str:
    """Return whom a sentence is about: a name, `3 of 9 tests (a, b, c)` or `9 of 9 tests`."""
    if total == 1:
        return names[0]
    text = f"{len(names)} of {plural(total, noun)}"
    few = len(names) <= MOST_NAMES and len(names) < total
    return f"{text} ({', '.join(names)})" if few else text


MOST_NAMES = 4
"""A group of more tests is shown by their number."""


# -- Sentences -------------------------------------------------------------------------


def value_digits(estimate: Estimate) -> int:
    """Return how many digits of a value are shown: three, four if it is known within 1 %."""
    percent = half_width_percent(estimate)
    return 4 if percent < 1 else 3


def estimate_text(estimate: Estimate) -> str:
    """Return `0.834 s ± 1.8 %`; with the ends where the interval reaches 0."""
    digits, unit = value_digits(estimate), estimate.unit
    value = quantity_text(estimate.value, unit, digits)
    percent = half_width_percent(estimate)
    if not math.isfinite(percent):
        return value
    if estimate.low == 0 < estimate.value:
        return f"{value}, 0 to {quantity_text(estimate.high, unit, digits)}"
    return f"{value} ± {percent_text(percent / 100, 2)}"


def answer_sentence(test: TestAnswer) -> str:
    """Return the answer of a test as a sentence: `sort: 0.834 s ± 1.8 % (95 %, 34 trials in 29 s)`.

    Details are in the parentheses at its end, which a report page prints below its headline.
    """
    head, details, tail = _answer_parts(test)
    return f"{head} ({details}){tail}" if details else head


def answer_headline(test: TestAnswer) -> str:
    """Return the answer of a test without details: `sort: 0.834 s ± 1.8 %`."""
    return _answer_parts(test)[0]


def _answer_parts(test: TestAnswer) -> tuple[str, str, str]:
    """Return the beginning of the sentence of a test, what is in its parentheses, and the rest."""
    trials = plural(test.trials, "trial")
    if test.population is not None:
        outer = test.population.levels[0]
        trials += f" in {replicates_text(outer.replicates, outer.level)}"
    elif test.span_s is not None:
        trials += f" in {duration_text(test.span_s)}"
    estimate = test.estimate
    if estimate is None:
        if test.state == "interrupted":
            return f"{test.name}: no result, interrupted after {trials}", "", ""
        if test.state == "running":
            so_far = f", {trials} so far" if test.trials else ""
            return f"{test.name}: no result yet{so_far}", "", ""
        state = "failed" if test.state == "failed" else "no result"
        return f"{test.name}: {state}: {test.reason}", "", ""
    label = "" if test.label == "elapsed" else f"{test.label} "
    figure = f"{label}{estimate_text(estimate)}"
    level = percent_text(estimate.confidence)
    if not math.isfinite(half_width_percent(estimate)):
        level = "no interval"
    figure += failures_text(test.failed)
    known = f"{level}, {trials}"
    head = f"{test.name}: {figure}"
    match test.state:
        case "answered":
            return head, known, ""
        case "undecided":
            why = f"{_missed(test, estimate)}{test.reason}"
            return f"{test.name}: undecided: {figure}", f"{known}; {why}", ""
        case "interrupted":
            return head, level, f", interrupted after {trials}"
        case "running":
            return head, level, f" so far, {trials}"
        case "failed":
            return head, known, f", then failed: {test.reason}"


def failures(test: TestResult) -> int:
    """Return how many trials of a test failed; none of a file, which has no exit status."""
    return sum(trial.ending is not TrialEnding.OK for trial in test.whole_trials or ())


def failures_text(count: int) -> str:
    """Return the continuation of an answer about trials that failed; empty without one."""
    return f", {plural(count, 'trial')} failed" if count else ""


def _missed(test: TestAnswer, estimate: Estimate) -> str:
    """Return `target 2 %: `, which an undecided test has not reached; empty without a target.
    Before the planned number of trials no interval is narrow enough."""
    if test.target is None:
        return ""
    text = f"target {percent_text(test.target)}"
    watched = (
        other.label
        for other in test.others
        if other.estimate is not None
        and other.estimate.method == estimate.method
        and _exceeds(other.estimate, test.target)
    )
    if _exceeds(estimate, test.target):
        return f"{text}: "
    other = next(watched, None)
    if other is not None:
        return f"{text} not reached for {other}: "
    return f"{text} holds only after the planned number of trials: "


def _exceeds(estimate: Estimate, target: float) -> bool:
    """Return whether the half width, as it is shown, is more than a share of the value, or
    unknown."""
    percent = half_width_percent(estimate)
    return not math.isfinite(percent) or float(f"{percent:.2g}") > 100 * target


def unseen_text(tests: Sequence[TestAnswer]) -> str:
    """Return what the trials may have missed, of several tests that of the one whose trials show
    least; empty where it does not matter."""
    having = [(test, test.unseen) for test in tests if test.unseen is not None]
    if not having:
        return ""
    worst, unseen = max(having, key=lambda one: abs(one[1].shift))
    text = f"{unseen.sentence[0].upper()}{unseen.sentence[1:]}"
    if len({one.sentence for _, one in having}) > 1:
        text = f"{worst.name}: {unseen.sentence}"
    elif len(having) < len(tests):
        names = [test.name for test, _ in having]
        text = f"{concerned_text(names, len(tests))}: {unseen.sentence}"
    return f"{text} (--rare asks for more trials)" if worst.target else text


def visit_text(tests: Sequence[TestAnswer], studies: Sequence[str]) -> str:
    """Return how long the machine was looked at, and what shows it at other times; empty where no interval has a
    known time. The arms of comparisons share what changes slowly. `studies` are the paths of the tests' studies."""
    spans = [
        test.span_s
        for test in tests
        if not test.is_arm
        and test.span_s is not None
        and not (test.population and test.population.levels[0].level == "time")
        and test.estimate is not None
        and math.isfinite(half_width_percent(test.estimate))
    ]
    if not spans:
        return ""
    within = duration_text(max(spans))
    if len(spans) > 1:
        within = f"at most {within} a test"
    return (
        f"The trials lie within {within}: no interval shows what changes more slowly. Run it again at another time, "
        f"into the same study: `{shell_text(['bw', 'history', *studies])}` shows what the hour changes."
    )


# -- JSON ------------------------------------------------------------------------------


class OtherEntry(msgspec.Struct, frozen=True):
    """Another metric that the user declared, or that the stopping rule watches."""

    metric: str
    label: str
    estimate: EstimateEntry | None


class AnswerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one test: the row and the sentence that the terminal shows."""

    test: str
    name: str
    """The shortest name that distinguishes it among the tests of its session."""
    sentence: str
    sample: dict[str, str]
    threads: int | None
    metric: str
    label: str
    """The metric with its statistic, such as `median elapsed`."""
    estimate: EstimateEntry | None
    """With the interval of the stopping rule, else Student's."""
    minimum: float | None
    maximum: float | None
    relative: EstimateEntry | None
    """Ratio to the test `relative_to`."""
    relative_to: str | None
    others: tuple[OtherEntry, ...]
    trials: int
    span_s: float | None
    """The time within which they lie; null where it is unknown."""
    unseen: Unseen | None
    """Slow runs that its trials may have missed, where they would matter to the mean."""
    failed: int
    void: int
    target: float | None
    """The requested half-width, as a share of the value."""
    state: State
    reason: str
    severity: Severity | None
    """Of its worst finding."""
    population: Population | UnsetType = UNSET
    """What its replicates show; absent without levels of replication."""


def answer_entries(answer: SessionAnswer) -> tuple[AnswerEntry, ...]:
    """Return the answers of a session for JSON."""
    return tuple(
        entry(
            AnswerEntry,
            test,
            sentence=answer_sentence(test),
            sample=dict(test.sample),
            estimate=_estimate_entry(test.estimate),
            relative=_estimate_entry(test.relative),
            relative_to=test.relative and answer.reference and answer.reference.test,
            others=tuple(
                OtherEntry(other.metric, other.label, _estimate_entry(other.estimate))
                for other in test.others
            ),
            population=test.population or UNSET,
        )
        for test in answer.tests
    )


def _estimate_entry(estimate: Estimate | None) -> EstimateEntry | None:
    if estimate is None:
        return None
    percent = half_width_percent(estimate)
    return entry(EstimateEntry, estimate, half_width_percent=percent)
