"""Stored results for `bw compare`: as the baseline for commands, or as all arms.

Arms of the same comparison are paired by their blocks. Other results are compared by Welch's
test on logarithms, with the finding that the arms were not interleaved. Inputs with several tests
are compared test by test: each is a comparison, and their P-values are adjusted together.
"""

from __future__ import annotations

import itertools
import math
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

import msgspec

from benchwright.core.comparison import (
    BUILT_IN_METRICS,
    ComparedMetric,
    ComparisonDesign,
    ComparisonResult,
    ComparisonRule,
    GateOutcome,
    GateVerdict,
    StoredArm,
    Verdict,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.machine import revision_of
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import (
    SUCCESS,
    MetricSpec,
    Replicated,
    ReplicatePath,
    Replication,
    StopDecision,
    named_direction,
    usual_direction,
)
from benchwright.core.replication import outermost_take_turns
from benchwright.core.results import Finding
from benchwright.core.text import exact_text, plural, some_text
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import OtherQuestions, questions_of
from benchwright.decide.compare.evidence import ComparisonBuilder, ComparisonHistory, MetricValues
from benchwright.findings.codes import make_finding
from benchwright.findings.comparison import (
    arm_times,
    comparison_findings,
    gang_confounded,
    hold_doubtful,
)
from benchwright.findings.environment import changed_texts, separate_findings
from benchwright.findings.examine import Questions, codes_of_failures, findings_about
from benchwright.findings.result import TestResult
from benchwright.inputs.template import file_friendly
from benchwright.results.inputs import check_ok_status, read_inputs
from benchwright.results.stored import add_paired, values_of_trial
from benchwright.run.checkouts import resolved
from benchwright.stats.aggregate import MetricRules
from benchwright.study.parsers.api import stated_settings
from benchwright.suite.comparison import ComparisonRequest, accepted_statuses, rule_from_request
from benchwright.suite.values import gated_metric, parse_metric

_MOST_NAMED = 30
"""Names of tests that an error lists."""
_MOST_LETTERS = 60
"""Of a setting."""


def chosen(text: str, option: str, ok_status: Sequence[int] = SUCCESS) -> TestResult:
    """Return the test that `STUDY[:TEST]` or a file's path names.

    Raises InputError if there are several tests (with their names), or if the test has no
    complete trial.
    """
    return _single(text, option, read_inputs([text], ok_status=ok_status))


def _single(text: str, option: str, inputs: Sequence[TestResult]) -> TestResult:
    if len(inputs) == 1:
        if why := _why_no_values(inputs[0]):
            message, hint = why
            raise argument_error(option, text, f"{text} {message}", hint)
        return inputs[0]
    message = f"{text} contains {len(inputs)} tests" if inputs else f"{text} contains no test"
    names = some_text([test.name for test in inputs], _MOST_NAMED)
    hint = f"write {text}:TEST; there are: {names}" if inputs else ""
    raise argument_error(option, text, message, hint)


def _why_no_values(one: TestResult) -> tuple[str, str] | None:
    """Return why an input has no values of trials, and what to do; None if it has some."""
    if any(_values(one, ())):
        return None
    if any(trial.ending is TrialEnding.FAILED for trial in one.all_trials):
        return _why_failed(one)
    if not one.summaries:
        return "has no completed trial", "run it, or name another one"
    tool = one.origin.tool if one.origin else "its tool"
    return (
        f"contains estimates by {tool} and no values of single trials",
        "bw compare needs the values; bw stats prints the estimates side by side. Let the tool "
        "write its values (docs/import.md says how)",
    )


def _why_failed(one: TestResult) -> tuple[str, str]:
    """Return why the trials failed, and how to accept their exit statuses."""
    failed = Counter(
        next(
            (
                block.failure or block.status
                for block in trial.blocks
                if block.failed(one.ok_status)
            ),
            None,
        )
        for trial in one.all_trials
        if trial.ending is TrialEnding.FAILED
    )
    noun = "run" if one.whole_trials is None else "trial"
    of = plural(len(one.all_trials), noun)
    ends = ", ".join(f"{count} of {of} " + _ending_text(status) for status, count in failed.items())
    numbers = sorted(status for status in failed if isinstance(status, int) and status)
    statuses = ",".join(map(str, numbers))
    if not statuses:
        return f"has no completed trial: {ends}", "run it, or name another one"
    hint = f"if the status is expected, accept it: --ok-status {statuses}"
    if one.whole_trials is not None:
        hint = f"if the status is expected, run it again with --ok-status {statuses}"
    return f"has no successful {noun}: {ends}", hint


def _ending_text(why: int | str | None) -> str:
    """Return how a trial failed: with an exit status, or for a reason that a tool states."""
    if isinstance(why, int):
        return f"ended with status {why}"
    return f"failed: {why}" if why else "failed"


class ComparedTest(msgspec.Struct, frozen=True):
    """The results of one test: an arm for each input of the command line."""

    name: str
    """Empty where every input has a single test."""
    inputs: tuple[TestResult, ...]
    arms: tuple[str, ...]
    """The names of the arms."""
    unlike: frozenset[str] = frozenset()
    """The metrics that have other units or directions in some inputs."""


class ComparedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the inputs of a command line have in common, and what not."""

    arms: tuple[str, ...]
    """The names of the inputs."""
    tests: tuple[ComparedTest, ...]
    """At least one."""
    about: tuple[Finding, ...]
    """The findings about the sessions of the inputs as a whole, each once."""
    only_in: dict[str, tuple[str, ...]] = {}
    """By the name of an input: its tests that another input does not have."""
    without_values: dict[str, str] = {}
    """By test: why it cannot be compared, though every input has it."""


def compared_inputs(texts: Sequence[str], ok_status: Sequence[int] = SUCCESS) -> ComparedInputs:
    """Return the tests to compare: that of each input, or, if one has several, those of the same
    name.

    Raises InputError with all mistakes; two texts for the same trials are one.
    """
    read: list[list[TestResult]] = []
    wrong: list[Diagnostic] = []
    for text in texts:
        try:
            read.append(read_inputs([text], ok_status=ok_status))
        except InputError as error:
            wrong += [_perhaps_a_command(diagnostic, text) for diagnostic in error.diagnostics]
    if wrong:
        raise InputError(wrong)
    several = any(len(inputs) > 1 for inputs in read)
    return _tests_in_all(texts, read) if several else _one_test(texts, read)


def _one_test(texts: Sequence[str], read: Sequence[Sequence[TestResult]]) -> ComparedInputs:
    wrong: list[Diagnostic] = []
    for text, inputs in zip(texts, read, strict=True):
        try:
            _single(text, "INPUT", inputs)
        except InputError as error:
            wrong += error.diagnostics
    if wrong:
        raise InputError(wrong)
    singles = tuple(inputs[0] for inputs in read)
    _refuse_same(texts, [[single] for single in singles])
    arms = tuple(arm_names(texts, singles))
    test = ComparedTest("", singles, arms)
    if _is_one_benchmark(test) and (why := _versions(arms, singles)):
        message = f"{singles[0].test} cannot be compared: {why[0]}"
        raise argument_error("INPUT", " ".join(texts), message, _MEASURE_AGAIN)
    return ComparedInputs(arms=arms, tests=(test,), about=_about(read))


def _tests_in_all(texts: Sequence[str], read: Sequence[Sequence[TestResult]]) -> ComparedInputs:
    """Return the tests whose names are in all inputs. Raises InputError if none is comparable."""
    arms = tuple(_distinct_paths(texts))
    by_name = _by_shared_name(read)
    common = [name for name in by_name[0] if all(name in there for there in by_name)]
    tests, without = [], {}
    for name in common:
        inputs = tuple(there[name] for there in by_name)
        reasons = [
            f"{arm} {why[0]}"
            for arm, test in zip(arms, inputs, strict=True)
            if (why := _why_no_values(test))
        ]
        reasons += _versions(arms, inputs)
        unlike = _unlike(inputs)
        if unlike and not reasons and set(_common(inputs)) <= unlike.keys():
            reasons += _unlike_texts(unlike)
        if reasons:
            without[name] = "; ".join(reasons)
        else:
            own = tuple(f"{arm}:{name}" for arm in arms)
            tests.append(ComparedTest(name, inputs, own))
    if not tests:
        there = "; ".join(
            f"{arm}: {some_text(list(names), _MOST_NAMED)}"
            for arm, names in zip(arms, by_name, strict=True)
        )
        message = "no test is in all inputs"
        hint = f"name a test of each, such as {texts[0]}:TEST; there are: {there}"
        if without:
            name, reason = next(iter(without.items()))
            message = f"no test of all inputs can be compared: {name}: {reason}"
            whys = map(_why_no_values, (there[name] for there in by_name))
            hint = next((why[1] for why in whys if why), _MEASURE_AGAIN)
        raise argument_error("INPUT", " ".join(texts), message, hint)
    _refuse_same(texts, read)
    return ComparedInputs(
        arms=arms,
        tests=tuple(tests),
        about=_about(read),
        only_in={
            arm: tuple(name for name in names if name not in common)
            for arm, names in zip(arms, by_name, strict=True)
            if not set(names) <= set(common)
        },
        without_values=without,
    )


_MEASURE_AGAIN = "measure both with one version of the benchmark"


def _versions(arms: Sequence[str], inputs: Sequence[TestResult]) -> list[str]:
    """Return why results of one benchmark cannot be compared: its own code was changed between
    them."""
    stated = [(arm, test.version) for arm, test in zip(arms, inputs, strict=True) if test.version]
    if len({version for _, version in stated}) < 2:
        return []
    of_arms = ", ".join(f"{version} in {arm}" for arm, version in stated)
    return [f"the benchmark itself was changed: version {of_arms}"]


def _by_shared_name(read: Sequence[Sequence[TestResult]]) -> list[dict[str, TestResult]]:
    """Return the tests of each input by a name that means the same in all inputs: the shown one, or
    the full one where a test is shown by different names, or different tests by one name."""
    shown: dict[str, set[str]] = {}
    meant: dict[str, set[str]] = {}
    for test in itertools.chain.from_iterable(read):
        if test.full_name:
            shown.setdefault(test.full_name, set()).add(test.name)
            meant.setdefault(test.name, set()).add(test.full_name)
    apart = {full for full, names in shown.items() if len(names) > 1}
    apart |= {full for names in meant.values() if len(names) > 1 for full in names}
    return [
        {(one.full_name if one.full_name in apart else one.name): one for one in inputs}
        for inputs in read
    ]


def _about(read: Sequence[Sequence[TestResult]]) -> tuple[Finding, ...]:
    found = (test.session_findings for inputs in read for test in inputs)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))


def _refuse_same(texts: Sequence[str], inputs: Sequence[Sequence[TestResult]]) -> None:
    """Raise InputError if two inputs have the same trials and estimates of the same tests."""
    trials = [
        # Values that are not stated are NaN, which equals itself only as text.
        [(test.trials, str(test.summaries)) for test in of_text]
        for of_text in inputs
    ]
    for place, before in itertools.combinations(range(len(texts)), 2):
        if trials[place] == trials[before]:
            message = f"{texts[place]} and {texts[before]} are the same trials"
            hint = "compare two tests, or two runs of one"
            raise argument_error("INPUT", texts[before], message, hint)


def _perhaps_a_command(diagnostic: Diagnostic, text: str) -> Diagnostic:
    """Return the mistake; if the text is a program instead of results, with advice."""
    program = (text.split() or [""])[0]
    if shutil.which(program) is None:
        return diagnostic
    hint = "write commands after --: bw compare -- 'A' 'B'"
    return msgspec.structs.replace(diagnostic, hint=hint)


def stored_baseline(
    text: str, specs: Sequence[MetricSpec], ok_status: Sequence[int] = SUCCESS
) -> StoredArm:
    """Return the baseline of `--baseline`, with the values of its trials."""
    test = chosen(text, "--baseline", ok_status)
    values = _values(test, specs)
    good = [value for value in values if value is not None]
    series: dict[str, tuple[float, ...]] = {}
    for name in dict.fromkeys(name for one in good for name in one):
        series[name] = tuple(one[name] for one in good if name in one)
    return StoredArm(_name(text, test), text, series, test.machine)


def interleaved_baseline(text: str, request: ComparisonRequest) -> ComparisonRequest:
    """Return the request with the command of the stored baseline as its first arm, which runs in
    a checkout of the commit that it was measured at.

    Raises InputError if the results do not say which commit and command they are of.
    """
    test = chosen(text, "--baseline")
    revision = None if test.machine is None else revision_of(test.machine)
    commands = sorted({block.command for block in test.rows})
    hint = "leave --interleave-baseline out, or name both: bw compare --commit A --commit B"
    message = ""
    if revision is None:
        message = f"{text} has no commit: it was not measured in a git repository"
    elif revision.dirty:
        message = f"{text} was measured with uncommitted changes of {revision.commit[:12]}"
    elif len(commands) != 1:
        message = f"a trial of {text} has {len(commands)} commands"
    if revision is None or message:
        raise argument_error("--interleave-baseline", text, message, hint)
    checkout = resolved(revision.commit, "--interleave-baseline", request.build)
    return msgspec.structs.replace(
        request,
        commands=(commands[0], *request.commands),
        names=(file_friendly(_name(text, test)), *request.names),
        checkouts=(checkout,),
    )


class StoredComparison(msgspec.Struct, frozen=True):
    """Stored results, compared."""

    found: ComparedInputs
    comparison: ComparisonResult
    findings: tuple[Finding, ...]
    arms: frozenset[str]
    """The subjects of findings about one arm."""
    notes: tuple[str, ...]
    """What was not compared, and why."""


def compare_results(texts: Sequence[str], request: ComparisonRequest) -> StoredComparison:
    """Return the comparison of stored results, each test of several with its own verdicts.

    Raises InputError for what cannot be read or compared.
    """
    inputs = compared_inputs(texts, accepted_statuses(request))
    check_ok_status(request.ok_status, [one for test in inputs.tests for one in test.inputs])
    tests = [_with_compared_metrics(test, request) for test in inputs.tests]
    results = compared_together(tests, request)
    apart = (
        finding
        for test in tests
        for finding in separate_findings(
            [(arm, one.machine) for arm, one in zip(inputs.arms, test.inputs, strict=True)]
        )
    )
    about = [*dict.fromkeys(apart), *_settings_differ(inputs), *inputs.about]
    findings: list[Finding] = []
    for place, (test, result) in enumerate(zip(tests, results, strict=True)):
        own = _findings_about_test(test, result)
        results[place] = hold_doubtful(result, [*about, *own])
        findings += own
    lacking = (
        f"without {metric}: {some_text(names, _MOST_NAMED)}"
        for metric, names in _metrics_lacking(tests, request).items()
    )
    return StoredComparison(
        inputs,
        _joined(inputs, results) if tests[0].name else results[0],
        (*findings, *about, *_exact_differ(inputs), *_missing(inputs)),
        frozenset(arm for test in tests for arm in test.arms),
        (*_not_compared(inputs), *lacking),
    )


def _is_one_benchmark(test: ComparedTest) -> bool:
    """Return whether the inputs are results of one benchmark, by its name."""
    return bool(test.name) or len({one.test for one in test.inputs}) == 1


def _settings_differ(found: ComparedInputs) -> list[Finding]:
    """Return a finding about how the tools of the inputs ran the same benchmark, where that
    differs."""
    changed: dict[str, list[str]] = {}
    for test in filter(_is_one_benchmark, found.tests):
        base, *others = map(stated_settings, test.inputs)
        for arm, other in zip(found.arms[1:], others, strict=True):
            where = f" in {arm}" if len(others) > 1 else ""
            for name, before in base.items():
                if (after := other.get(name, before)) != before:
                    pair = changed_texts(before, after, _MOST_LETTERS)
                    change = f"{name}: {', then '.join(pair)}{where}"
                    changed.setdefault(change, []).append(test.name)
    texts = [
        change if len(names) == len(found.tests) else f"{change} ({some_text(names, 3)})"
        for change, names in changed.items()
    ]
    about = ", ".join(found.arms)
    return [make_finding("settings-differ", about, "; ".join(texts))] if texts else []


def _not_compared(found: ComparedInputs) -> Iterator[str]:
    for test, why in found.without_values.items():
        yield f"{test} is not compared: {why}"
    for compared_test in found.tests:
        for text in _unlike_texts(_unlike(compared_test.inputs)):
            yield ": ".join(filter(None, (compared_test.name, text)))
    for arm, names in found.only_in.items():
        yield f"only in {arm}: {some_text(names, _MOST_NAMED)}"


def _exact_differ(found: ComparedInputs) -> Iterator[Finding]:
    """Yield a finding for each test whose exact quantities differ; these have no verdict, as no
    statistics apply to them."""
    for test in found.tests:
        base, *others = (
            {s.name: s for s in one.summaries if s.sdev == 0 and s.minimum == s.maximum}
            for one in test.inputs
        )
        for name, summary in base.items():
            stated = [summary, *(other[name] for other in others if name in other)]
            if len({each.mean for each in stated}) > 1:
                values = ", then ".join(exact_text(s.mean, s.unit) for s in stated)
                about = " ".join(filter(None, (test.name, name)))
                yield make_finding("exact-value-differs", about, f"{about}: {values}")


def _missing(found: ComparedInputs) -> list[Finding]:
    """Return a finding about each test that the baseline has and a candidate has not."""
    there = found.only_in.get(found.arms[0], ())
    why = f"{found.arms[0]} has it, and not every other input"
    return [make_finding("test-missing", test, why) for test in there]


def _findings_about_test(test: ComparedTest, result: ComparisonResult) -> list[Finding]:
    """Return the findings about a comparison's design and its arms. Those about the arms are
    computed again: the sessions may not have judged the same metrics."""
    times = {arm: arm_times(one) for arm, one in zip(test.arms, test.inputs, strict=True)}
    found = list(comparison_findings(result, times))
    questions = Questions(also=result.rule.judged)
    gangs = {
        name: {one.gang} if one.gang else set()
        for one, name in zip(test.inputs, test.arms, strict=True)
    }
    apart = gang_confounded(gangs)
    if apart is not None:
        found.append(apart)
    for one, name in zip(test.inputs, test.arms, strict=True):
        found += findings_about(msgspec.structs.replace(one, name=name), questions)
    return found


def _joined(found: ComparedInputs, results: Sequence[ComparisonResult]) -> ComparisonResult:
    """Return the comparisons of several tests as one: its gates and verdicts are those of all
    tests, and it is undecided where one of them is, or where a test has no values."""
    rule = results[0].rule
    metrics = {metric.name: metric for result in results for metric in result.rule.metrics}
    gates = tuple(dict.fromkeys(g for result in results for g in result.rule.gates))
    missing = [
        GateVerdict(gate, f"{arm}:{test}", GateOutcome.UNDECIDED, why, test=test)
        for test, why in found.without_values.items()
        for gate in gates
        for arm in found.arms[1:]
    ]
    missing += [
        GateVerdict(
            *(gate, f"{arm}:{finding.subject}", GateOutcome.UNDECIDED),
            f"{finding.evidence}; if it was removed: --accept {finding.code}",
            held_by=(finding.code,),
            test=finding.subject,
        )
        for finding in _missing(found)
        if finding.code not in rule.accepted
        for gate in gates
        for arm in found.arms[1:]
    ]
    tests = [test.name for test in found.tests]
    of_tests = list(zip(tests, results, strict=True))
    answered = not found.without_values and all(result.stop.answered for result in results)
    count = plural(len(tests), "test")
    return ComparisonResult(
        arms=found.arms,
        rule=msgspec.structs.replace(rule, metrics=tuple(metrics.values()), gates=gates),
        verdicts=tuple(
            msgspec.structs.replace(verdict, test=test, unit=_unit(result, verdict.metric))
            for test, result in of_tests
            for verdict in result.verdicts
        ),
        gates=tuple(
            msgspec.structs.replace(verdict, test=test)
            for test, result in of_tests
            for verdict in result.gates
        )
        + tuple(missing),
        stop=StopDecision("stored", f"stored results of {count}", answered, 1),
        blocks=sum(result.blocks for result in results),
        failed_blocks=sum(result.failed_blocks for result in results),
        duration_ns=sum(result.duration_ns for result in results),
        failures=tuple(dict.fromkeys(code for result in results for code in result.failures)),
    )


def _unit(result: ComparisonResult, metric: str) -> str:
    return next(
        (
            compared_metric.unit
            for compared_metric in result.rule.metrics
            if compared_metric.name == metric
        ),
        "",
    )


class _Evidence(msgspec.Struct, frozen=True):
    """What a comparison of stored arms is decided by."""

    rule: ComparisonRule
    history: ComparisonHistory
    arms: Sequence[str]
    detail: str


def compared_together(
    tests: Sequence[ComparedTest], request: ComparisonRequest
) -> list[ComparisonResult]:
    """Return the comparison of each test, with P-values that are adjusted for all of them."""
    requests = _of_each_test(tests, request)
    opened = [
        _evidence(test, comparison_request)
        for test, comparison_request in zip(tests, requests, strict=True)
    ]
    asked = [questions_of(one.rule, one.history) for one in opened]
    results = []
    for place, (test, evidence) in enumerate(zip(tests, opened, strict=True)):
        beside = [*asked[:place], *asked[place + 1 :]]
        others = OtherQuestions(
            tuple(p for each in beside for p in each.verdicts),
            tuple(p for each in beside for p in each.gates),
        )
        stop = StopDecision("stored", evidence.detail, answered=False, looks=1)
        comparison_result = conclude(
            evidence.rule, evidence.history, evidence.arms, stop, others=others
        )
        judged = [v for v in comparison_result.verdicts if v.judged]
        if judged and all(v.verdict is not Verdict.UNDECIDED for v in judged):
            stop = msgspec.structs.replace(stop, answered=True)
        there = {metric.name for metric in evidence.rule.metrics}
        undecided = (
            GateVerdict(gate, arm, GateOutcome.UNDECIDED, why + gate.metric)
            for gate in evidence.rule.gates
            if gate.metric not in there
            for why in [_UNLIKE if gate.metric in test.unlike else _NOT_THERE]
            for arm in evidence.arms[1:]
        )
        results.append(
            msgspec.structs.replace(
                comparison_result,
                stop=stop,
                gates=(*comparison_result.gates, *undecided),
                failures=codes_of_failures(test.inputs),
            )
        )
    return results


_UNLIKE = "the inputs have different units or directions of "
_NOT_THERE = "not every input has the metric "


def _evidence(test: ComparedTest, request: ComparisonRequest) -> _Evidence:
    inputs = test.inputs
    request, specs = _with_known_metrics(request, inputs)
    rule = rule_from_request(request, len(inputs), specs)
    rule = msgspec.structs.replace(rule, metrics=_shared(rule, inputs, test.unlike))
    paired = _are_paired(inputs)
    rule = _stored_rule(rule, inputs, paired)
    builder = ComparisonBuilder(rule)
    if paired:
        add_paired(builder, inputs)
    else:
        builder.add([_replicate_values(one) for one in inputs])
    counts = ", ".join(str(sum(x is not None for x in _values(i, ()))) for i in inputs)
    how = "paired by block" if paired else "each at its own time"
    detail = f"stored results, {counts} trials, {how}"
    return _Evidence(rule, builder.history(), test.arms, detail)


def _replicate_values(one: TestResult) -> list[MetricValues | None]:
    """Return what counts once: the values of each trial, None for a failed one; with levels of
    replication the means of each outermost replicate, which is one value however many trials it has."""
    if not isinstance(one.rule, Replicated):
        return _values(one, ())
    book = MetricRules(one.specs)
    known = [(trial.path, values_of_trial(trial, book)) for trial in one.trials if not trial.warmup]
    means = list(_means(known))
    if outermost_take_turns(one.rule.replication):
        return _further_apart(one.rule.replication, known, means)
    return means


def _further_apart(
    replication: Replication,
    known: Sequence[tuple[ReplicatePath, MetricValues | None]],
    means: Sequence[MetricValues | None],
) -> list[MetricValues | None]:
    """Return the means of replicates that took turns, so far from each other that their spread has the
    error of their mean: what the machine did meanwhile is common to them, and no difference."""
    # Few sessions replicate anything.
    from benchwright.decide.replicated import nested_of
    from benchwright.stats.nested import nested_estimate

    moved = [None if values is None else dict(values) for values in means]
    for name in dict.fromkeys(name for values in moved for name in values or ()):
        pairs = [(path, values[name]) for path, values in known if values and name in values]
        own = [values for values in moved if values is not None and name in values]
        if len(own) < 2 or min(value for _, value in pairs) <= 0:
            continue
        paths, logs = [path for path, _ in pairs], [math.log(value) for _, value in pairs]
        plain = nested_estimate(logs, paths).error
        wider = nested_of(replication, logs, paths, 0.95).error / plain if plain else 1.0
        middle = math.fsum(math.log(values[name]) for values in own) / len(own)
        for values in own:
            values[name] = math.exp(middle + wider * (math.log(values[name]) - middle))
    return list(moved)


def _means(
    known: Sequence[tuple[ReplicatePath, MetricValues | None]],
) -> Iterator[MetricValues | None]:
    """Yield the means of the replicates at the first place of the paths: each the plain mean of those
    within it; None where a whole one failed."""
    by_first: dict[int, list[tuple[ReplicatePath, MetricValues | None]]] = {}
    for path, values in known:
        by_first.setdefault(path[0], []).append((path[1:], values))
    for own in by_first.values():
        inner = [one for _, one in own] if not own[0][0] else list(_means(own))
        there = [values for values in inner if values is not None]
        names = dict.fromkeys(name for values in there for name in values)
        each = {name: [values[name] for values in there if name in values] for name in names}
        yield {name: math.fsum(n) / len(n) for name, n in each.items()} if there else None


def _with_compared_metrics(test: ComparedTest, request: ComparisonRequest) -> ComparedTest:
    """Return the test; inputs of other tools' files declare only what all inputs have: the main
    metrics of their tools, and those of the request."""
    inputs = test.inputs
    there = [set(_names(one)) for one in inputs]
    main = {name for one in inputs if one.origin for name in one.origin.main}
    asked = {name.casefold() for name in (*_asked_metrics(request), *_gated(request))}

    def declares(name: str) -> bool:
        chosen_metric = not main or name in main or name.casefold() in asked
        return chosen_metric and all(name in names for names in there)

    declared = (
        one
        if one.origin is None
        else msgspec.structs.replace(
            one, specs=tuple(spec for spec in one.specs if declares(spec.name))
        )
        for one in inputs
    )
    return msgspec.structs.replace(test, inputs=tuple(declared), unlike=frozenset(_unlike(inputs)))


def _asked_metric(word: str) -> str:
    """Return the metric that a word of `--metric` names, which can be any name of a table."""
    spec, _ = parse_metric(word)
    return named_direction(word)[0] if spec is None else spec.name


def _asked_metrics(request: ComparisonRequest) -> list[str]:
    return list(map(_asked_metric, request.metrics))


def _gated(request: ComparisonRequest) -> list[str]:
    return list(filter(None, map(gated_metric, request.fail_if)))


def _of_each_test(
    tests: Sequence[ComparedTest], request: ComparisonRequest
) -> list[ComparisonRequest]:
    """Return the request for each test: without the metrics that none of its inputs has, and the
    gates on them, where another test has them."""
    lacking = _metrics_lacking(tests, request)
    return [
        msgspec.structs.replace(
            request,
            metrics=tuple(
                word
                for word in request.metrics
                if test.name not in lacking.get(_asked_metric(word), ())
            ),
            fail_if=tuple(
                text
                for text in request.fail_if
                if test.name not in lacking.get(gated_metric(text), ())
            ),
        )
        for test in tests
    ]


def _metrics_lacking(
    tests: Sequence[ComparedTest], request: ComparisonRequest
) -> dict[str, list[str]]:
    """Return by metric of the request the tests of which no input has it, if any test has it."""
    asked = dict.fromkeys((*_asked_metrics(request), *_gated(request)))
    if len(tests) < 2 or not asked:
        return {}
    lacking: dict[str, list[str]] = {name: [] for name in asked}
    for test in tests:
        book = MetricRules([spec for one in test.inputs for spec in one.specs])
        there = list(dict.fromkeys(n for one in test.inputs for n in _names(one)))
        for name in asked:
            if _known_name(name, there, book) is None:
                lacking[name].append(test.name)
    return {name: of for name, of in lacking.items() if 0 < len(of) < len(tests)}


def _with_known_metrics(
    request: ComparisonRequest, inputs: Sequence[TestResult]
) -> tuple[ComparisonRequest, list[MetricSpec]]:
    """Return the request with the names of its metrics as in the inputs, and their declarations.

    Raises InputError with all metrics that an input does not have. A metric is judged by the
    input's declaration, unless the request declares it in more detail.
    """
    specs = {spec.name: spec for test in inputs for spec in test.specs}
    book = MetricRules(list(specs.values()))
    there = [_names(test) for test in inputs]
    common = [name for name in there[0] if all(name in names for names in there)]
    anywhere = list(dict.fromkeys(itertools.chain.from_iterable(there)))

    def not_there(option: str, text: str, asked: str) -> Diagnostic:
        message = f"not every input has the metric {asked}"
        hint = f"all have: {', '.join(book.ordered(common))}"
        return Diagnostic("bad-argument", message, hint, file=option, text=text)

    wrong: list[Diagnostic] = []
    unread: list[str] = []
    for word in request.metrics:
        spec, _ = parse_metric(word)
        asked = _asked_metric(word)
        name = _known_name(asked, common, book)
        if name is None and spec is None and any(mark in word for mark in "=~"):
            unread.append(word)  # The rule's reader says what is wrong.
        elif name is None:
            wrong.append(not_there("--metric", word, asked))
        else:
            # In a word with a source, the direction is not at its end.
            direction = named_direction(word)[1]
            if not direction and spec is not None and word != asked:
                direction = spec.better
            _declare(specs, name, direction)
    gates = []
    for text in request.fail_if:
        asked = gated_metric(text)
        name = _known_name(asked, anywhere, book) if asked else None
        if (name or asked) not in ("", "elapsed", *BUILT_IN_METRICS):
            if name is None:
                wrong.append(not_there("--fail-if", text, asked))
            else:
                _declare(specs, name)
        gates.append(text.replace(asked, name, 1) if name else text)
    if wrong:
        raise InputError(wrong)
    request = msgspec.structs.replace(request, metrics=tuple(unread), fail_if=tuple(gates))
    return request, list(specs.values())


def _declare(
    specs: dict[str, MetricSpec], name: str, better: Literal["lower", "higher", ""] = ""
) -> None:
    """Declare a metric, with the direction that is given, else that of its present declaration."""
    spec = specs.get(name) or MetricSpec(name, better=usual_direction(name))
    specs[name] = msgspec.structs.replace(spec, better=better or spec.better)


def _known_name(asked: str, known: Sequence[str], book: MetricRules) -> str | None:
    """Return the metric with this name or table label, ignoring case; None if there is none."""
    if asked in known:
        return asked
    wanted = asked.casefold()
    for name in known:
        if wanted in (name.casefold(), book.row(name).label.casefold()):
            return name
    return None


def _shared(
    rule: ComparisonRule, inputs: Sequence[TestResult], unlike: Collection[str]
) -> tuple[ComparedMetric, ...]:
    """Return the metrics of the rule that the inputs have.

    If none of these is judged, return the metrics that the inputs' own sessions judge. Raises
    InputError if the inputs have none of them in common.
    """
    there = [_names(test) for test in inputs]
    metrics = tuple(
        metric
        for metric in rule.metrics
        if metric.name not in unlike
        if all(metric.name in names for names in there)
        or (metric.judged and metric.name != "elapsed")
    )
    if any(metric.judged for metric in metrics):
        return metrics
    common = [name for name in _common(inputs) if name not in unlike]
    book = MetricRules([spec for test in inputs for spec in test.specs])
    compared_metrics = tuple(
        ComparedMetric(name, usual_direction(name)) for name in book.judged(common)
    )
    if compared_metrics:
        return compared_metrics
    names = "; ".join(f"{test.name}: {', '.join(_names(test))}" for test in inputs)
    message = "the inputs have no metric in common"
    if why := _unlike_texts(_unlike(inputs)):
        message = "; ".join(why)
    raise InputError([Diagnostic("bad-argument", message, names, file="INPUT")])


def _common(inputs: Sequence[TestResult]) -> list[str]:
    """Return the quantities that all inputs have."""
    first, *others = map(_names, inputs)
    return [name for name in first if all(name in names for names in others)]


def _unlike(inputs: Sequence[TestResult]) -> dict[str, list[str]]:
    """Return the metrics that cannot be compared, with their units and directions: these are not
    the same in all inputs that declare them."""
    stated: dict[str, list[tuple[str, str]]] = {}
    for test in inputs:
        for spec in test.specs:
            stated.setdefault(spec.name, []).append((spec.unit, spec.better))
    return {
        name: [f"{unit or 'no unit'} ({better} is better)" for unit, better in of]
        for name, of in stated.items()
        if len({unit for unit, _ in of if unit}) > 1 or len({b for _, b in of}) > 1
    }


def _unlike_texts(unlike: dict[str, list[str]]) -> list[str]:
    return [
        f"{name} is not comparable: {', then '.join(dict.fromkeys(units))}"
        for name, units in unlike.items()
    ]


def _names(parsed_input: TestResult) -> list[str]:
    """Return the quantities of an input's successful trials."""
    found = (values for values in _values(parsed_input, ()) if values is not None)
    return list(dict.fromkeys(name for values in found for name in values))


def _stored_rule(
    rule: ComparisonRule, inputs: Sequence[TestResult], paired: bool
) -> ComparisonRule:
    """Return the rule for one look at stored results, paired or not."""
    arm = inputs[0].arm
    design = ComparisonDesign.STORED
    if paired and arm is not None:
        design = ComparisonDesign.ABBA if arm.trials_per_block == 2 else ComparisonDesign.BLOCKS
    levels = inputs[0].rule
    return msgspec.structs.replace(
        rule,
        design=design,
        mode="watch",
        minimum=2,
        warmup=0,
        once=True,
        replication=levels.replication if paired and isinstance(levels, Replicated) else None,
    )


def _are_paired(inputs: Sequence[TestResult]) -> bool:
    """Return whether the inputs are different arms of one comparison with blocks."""
    arms = [test.arm for test in inputs if test.arm is not None and test.arm.paired]
    return (
        len(arms) == len(inputs)
        and len({arm.comparison for arm in arms}) == 1
        and len({arm.place for arm in arms}) == len(arms)
    )


def _values(parsed_input: TestResult, specs: Sequence[MetricSpec]) -> list[MetricValues | None]:
    """Return the values of each trial, in order; None for a failed trial."""
    book = MetricRules((*parsed_input.specs, *specs))
    return [values_of_trial(trial, book) for trial in parsed_input.trials if not trial.warmup]


def arm_names(texts: Sequence[str], inputs: Sequence[TestResult]) -> list[str]:
    """Return distinct names of the arms, with as many parts of each path as necessary."""

    def name(place: int, parts: int) -> str:
        return _name(texts[place], inputs[place], parts)

    return _distinct(texts, name)


def _distinct_paths(texts: Sequence[str]) -> list[str]:
    """Return distinct names of inputs: the last parts of their paths."""
    return _distinct(texts, lambda at, parts: _last_parts(texts[at], parts))


def _distinct(texts: Sequence[str], name: Callable[[int, int], str]) -> list[str]:
    """Return the names of these places, by `name(place, parts)`, with few parts of their paths."""
    names = [name(place, 1) for place in range(len(texts))]
    for parts in range(2, 1 + max(text.count("/") + 1 for text in texts)):
        names = [
            name(place, parts) if names.count(one) > 1 else one for place, one in enumerate(names)
        ]
    return names


def _name(text: str, parsed_input: TestResult, parts: int = 1) -> str:
    """Return the name of a stored arm, with the last `parts` components of its path; the name of
    its test, which can contain slashes, is added to it."""
    short = _last_parts(text.removesuffix(f":{parsed_input.name}"), parts)
    return short if parsed_input.name in short else f"{short}:{parsed_input.name}"


def _last_parts(path: str, parts: int) -> str:
    return "/".join(path.rstrip("/").split("/")[-parts:])
