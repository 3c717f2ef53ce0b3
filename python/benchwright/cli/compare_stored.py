"""Stored results for `bw compare`: as the baseline for commands, or as all arms.

Arms of the same comparison are paired by their blocks. Other results are compared by Welch's
test on logarithms, with the finding that the arms were not interleaved. Inputs with several tests
are compared test by test: each is a comparison, and their P-values are adjusted together.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import UNSET

from benchwright.cli.compare_outcome import print_comparison_document, write_junit
from benchwright.cli.outcome import findings_text, print_blocks
from benchwright.cli.stats_inputs import read_inputs
from benchwright.cli.terminal import table_width
from benchwright.core.comparison import (
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
from benchwright.core.plan import MetricSpec, StopDecision
from benchwright.core.results import Finding
from benchwright.core.text import plural, some_text
from benchwright.core.untrusted import one_line
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import OtherQuestions, questions_of
from benchwright.decide.compare.evidence import (
    ComparisonBuilder,
    ComparisonHistory,
    MetricValues,
)
from benchwright.findings.comparison import (
    comparison_findings,
    gang_confounded,
    hold_doubtful,
)
from benchwright.findings.environment import separate_findings
from benchwright.findings.examine import Questions
from benchwright.report.answer import finding_groups
from benchwright.report.compared_blocks import paired_blocks, values_of_trial
from benchwright.report.comparison import render_comparison
from benchwright.run.checkouts import resolved
from benchwright.stats.metric_rules import MetricRules
from benchwright.study.findings import input_findings
from benchwright.study.parsers.api import ParsedInput, trials_of
from benchwright.suite.comparison import ComparisonRequest, rule_from_request
from benchwright.suite.rules import parse_metric
from benchwright.suite.template import file_friendly

_MOST_NAMED = 30
"""Names of tests that an error lists."""


def chosen(text: str, option: str) -> ParsedInput:
    """Return the test that `STUDY[:TEST]` or a file's path names.

    Raises InputError if there are several tests (with their names), or if the test has no
    complete trial.
    """
    return _single(text, option, read_inputs([text]))


def _single(text: str, option: str, inputs: Sequence[ParsedInput]) -> ParsedInput:
    if len(inputs) == 1:
        if why := _why_no_values(inputs[0]):
            message, hint = why
            raise argument_error(option, text, f"{text} {message}", hint)
        return inputs[0]
    message = (
        f"{text} contains {len(inputs)} tests" if inputs else f"{text} contains no test"
    )
    names = some_text([one.name for one in inputs], _MOST_NAMED)
    hint = f"write {text}:TEST; there are: {names}" if inputs else ""
    raise argument_error(option, text, message, hint)


def _why_no_values(one: ParsedInput) -> tuple[str, str] | None:
    """Return why an input has no values of trials, and what to do; None if it has some."""
    if any(_values(one, ())):
        return None
    if not one.summaries:
        return "has no completed trial", "run it, or name another one"
    tool = one.origin.tool if one.origin else "its tool"
    return (
        f"contains estimates by {tool} and no values of single trials",
        "bw compare needs the values; bw stats prints the estimates side by side. Let the tool "
        "write its values (docs/import.md says how)",
    )


class ComparedTest(msgspec.Struct, frozen=True):
    """The results of one test: an arm for each input of the command line."""

    name: str
    """Empty where every input has a single test."""
    inputs: tuple[ParsedInput, ...]
    arms: tuple[str, ...]
    """The names of the arms."""


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


def compared_inputs(texts: Sequence[str]) -> ComparedInputs:
    """Return the tests to compare: that of each input, or, if one has several, those of the same
    name.

    Raises InputError with all mistakes; two texts for the same trials are one.
    """
    read: list[list[ParsedInput]] = []
    wrong: list[Diagnostic] = []
    for text in texts:
        try:
            read.append(read_inputs([text]))
        except InputError as error:
            wrong += [_perhaps_a_command(one, text) for one in error.diagnostics]
    if wrong:
        raise InputError(wrong)
    several = any(len(inputs) > 1 for inputs in read)
    return _tests_in_all(texts, read) if several else _one_test(texts, read)


def _one_test(
    texts: Sequence[str], read: Sequence[Sequence[ParsedInput]]
) -> ComparedInputs:
    wrong: list[Diagnostic] = []
    for text, inputs in zip(texts, read, strict=True):
        try:
            _single(text, "INPUT", inputs)
        except InputError as error:
            wrong += error.diagnostics
    if wrong:
        raise InputError(wrong)
    singles = tuple(inputs[0] for inputs in read)
    _refuse_same(texts, [[one] for one in singles])
    arms = tuple(arm_names(texts, singles))
    return ComparedInputs(
        arms=arms, tests=(ComparedTest("", singles, arms),), about=_about(read)
    )


def _tests_in_all(
    texts: Sequence[str], read: Sequence[Sequence[ParsedInput]]
) -> ComparedInputs:
    """Return the tests whose names are in all inputs. Raises InputError if none is comparable."""
    arms = tuple(_distinct_paths(texts))
    by_name = [{one.name: one for one in inputs} for inputs in read]
    common = [name for name in by_name[0] if all(name in there for there in by_name)]
    tests, without = [], {}
    for name in common:
        inputs = tuple(there[name] for there in by_name)
        reasons = [
            f"{arm} {why[0]}"
            for arm, one in zip(arms, inputs, strict=True)
            if (why := _why_no_values(one))
        ]
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
            hint = next(why[1] for why in whys if why)
        raise argument_error("INPUT", " ".join(texts), message, hint)
    _refuse_same(
        texts, [[test.inputs[at] for test in tests] for at in range(len(arms))]
    )
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


def _about(read: Sequence[Sequence[ParsedInput]]) -> tuple[Finding, ...]:
    found = (one.session_findings for inputs in read for one in inputs)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))


def _refuse_same(texts: Sequence[str], inputs: Sequence[Sequence[ParsedInput]]) -> None:
    """Raise InputError if two inputs have the same trials."""
    trials = [[trials_of(one) for one in of_text] for of_text in inputs]
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


def stored_baseline(text: str, specs: Sequence[MetricSpec]) -> StoredArm:
    """Return the baseline of `--baseline`, with the values of its trials."""
    found = chosen(text, "--baseline")
    values = _values(found, specs)
    good = [value for value in values if value is not None]
    series: dict[str, tuple[float, ...]] = {}
    for name in dict.fromkeys(name for one in good for name in one):
        series[name] = tuple(one[name] for one in good if name in one)
    return StoredArm(_name(text, found), text, series, found.machine)


def interleaved_baseline(text: str, request: ComparisonRequest) -> ComparisonRequest:
    """Return the request with the command of the stored baseline as its first arm, which runs in
    a checkout of the commit that it was measured at.

    Raises InputError if the results do not say which commit and command they are of.
    """
    found = chosen(text, "--baseline")
    revision = None if found.machine is None else revision_of(found.machine)
    commands = sorted({block.command for block in found.blocks})
    hint = "leave --interleave-baseline out, or name both: bw compare --commit A --commit B"
    message = ""
    if revision is None:
        message = f"{text} has no commit: it was not measured in a git repository"
    elif revision.dirty:
        message = (
            f"{text} was measured with uncommitted changes of {revision.commit[:12]}"
        )
    elif len(commands) != 1:
        message = f"a trial of {text} has {len(commands)} commands"
    if revision is None or message:
        raise argument_error("--interleave-baseline", text, message, hint)
    checkout = resolved(revision.commit, "--interleave-baseline", request.build)
    return msgspec.structs.replace(
        request,
        commands=(commands[0], *request.commands),
        names=(file_friendly(_name(text, found)), *request.names),
        checkouts=(checkout,),
    )


def compare_stored(arguments: argparse.Namespace, request: ComparisonRequest) -> int:
    """Compare stored results and print the outcome; return the exit code."""
    found = compared_inputs(arguments.inputs)
    tests = [_with_compared_metrics(test, request) for test in found.tests]
    results = compared_together(tests, request)
    machines = [one.machine for one in tests[0].inputs]
    named_machines = list(zip(found.arms, machines, strict=True))
    about = [*separate_findings(named_machines), *found.about]
    findings: list[Finding] = []
    for place, (test, result) in enumerate(zip(tests, results, strict=True)):
        own = _findings_about_test(test, result)
        results[place] = hold_doubtful(result, [*about, *own])
        findings += own
    findings += about
    comparison = _joined(found, results) if tests[0].name else results[0]
    head = {
        "study": None,
        "session": None,
        "status": "complete" if comparison.exit_status != 3 else "undecided",
        "detail": comparison.stop.detail,
        "exit_status": comparison.exit_status,
        "only_in": found.only_in or UNSET,
        "without_values": found.without_values or UNSET,
    }
    if arguments.junit:
        write_junit(arguments.junit, comparison, findings)
    names = {arm for test in tests for arm in test.arms}
    named = [(one.subject if one.subject in names else "", one) for one in findings]
    groups = finding_groups(named)
    if arguments.json:
        print_comparison_document(comparison, findings, groups, head)
        return comparison.exit_status
    verbose = arguments.verbose
    more = "" if verbose else "evidence and remedies: -v"
    print_blocks(
        [
            render_comparison(comparison, table_width()),
            "\n".join(map(one_line, _not_compared(found))),
            findings_text(
                groups, named, len(names), more=more, verbose=verbose, noun="input"
            ),
        ]
    )
    return comparison.exit_status


def _not_compared(found: ComparedInputs) -> Iterator[str]:
    for test, why in found.without_values.items():
        yield f"{test} is not compared: {why}"
    for arm, names in found.only_in.items():
        yield f"only in {arm}: {some_text(names, _MOST_NAMED)}"


def _findings_about_test(test: ComparedTest, result: ComparisonResult) -> list[Finding]:
    """Return the findings about a comparison's design and its arms. Those about the arms are computed
    again: the sessions may not have judged the same metrics."""
    found = list(comparison_findings(result))
    questions = Questions(also=result.rule.judged)
    gangs = {
        name: {one.gang} if one.gang else set()
        for one, name in zip(test.inputs, test.arms, strict=True)
    }
    apart = gang_confounded(gangs)
    if apart is not None:
        found.append(apart)
    for one, name in zip(test.inputs, test.arms, strict=True):
        found += input_findings(msgspec.structs.replace(one, name=name), questions)
    return found


def _joined(
    found: ComparedInputs, results: Sequence[ComparisonResult]
) -> ComparisonResult:
    """Return the comparisons of several tests as one: its gates and verdicts are those of all tests,
    and it is undecided where one of them is, or where a test has no values."""
    rule = results[0].rule
    metrics = {one.name: one for result in results for one in result.rule.metrics}
    missing = [
        GateVerdict(gate, f"{arm}:{test}", GateOutcome.UNDECIDED, why, test=test)
        for test, why in found.without_values.items()
        for gate in rule.gates
        for arm in found.arms[1:]
    ]
    tests = [test.name for test in found.tests]
    of_tests = list(zip(tests, results, strict=True))
    answered = not found.without_values and all(one.stop.answered for one in results)
    count = plural(len(tests), "test")
    return ComparisonResult(
        arms=found.arms,
        rule=msgspec.structs.replace(rule, metrics=tuple(metrics.values())),
        verdicts=tuple(
            msgspec.structs.replace(one, test=test)
            for test, result in of_tests
            for one in result.verdicts
        ),
        gates=tuple(
            msgspec.structs.replace(one, test=test)
            for test, result in of_tests
            for one in result.gates
        )
        + tuple(missing),
        stop=StopDecision("stored", f"stored results of {count}", answered, 1),
        blocks=sum(one.blocks for one in results),
        failed_blocks=sum(one.failed_blocks for one in results),
        duration_ns=sum(one.duration_ns for one in results),
    )


def comparison_of(
    inputs: Sequence[ParsedInput], names: Sequence[str], request: ComparisonRequest
) -> ComparisonResult:
    """Return the comparison of stored arms; the first is the baseline."""
    (result,) = compared_together(
        [ComparedTest("", tuple(inputs), tuple(names))], request
    )
    return result


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
    opened = [_evidence(test, request) for test in tests]
    asked = [questions_of(one.rule, one.history) for one in opened]
    results = []
    for place, one in enumerate(opened):
        beside = [*asked[:place], *asked[place + 1 :]]
        others = OtherQuestions(
            tuple(p for each in beside for p in each.verdicts),
            tuple(p for each in beside for p in each.gates),
        )
        stop = StopDecision("stored", one.detail, answered=False, looks=1)
        found = conclude(one.rule, one.history, one.arms, stop, others=others)
        judged = [v for v in found.verdicts if v.judged]
        if judged and all(v.verdict is not Verdict.UNDECIDED for v in judged):
            stop = msgspec.structs.replace(stop, answered=True)
        results.append(msgspec.structs.replace(found, stop=stop))
    return results


def _evidence(test: ComparedTest, request: ComparisonRequest) -> _Evidence:
    inputs = test.inputs
    request = _with_known_metrics(request, inputs)
    specs = {spec.name: spec for one in inputs for spec in one.specs}
    rule = rule_from_request(request, len(inputs), list(specs.values()))
    rule = msgspec.structs.replace(rule, metrics=_shared(rule, inputs))
    paired = _are_paired(inputs)
    blocks = paired_blocks(inputs) if paired else [[_values(i, ()) for i in inputs]]
    rule = _stored_rule(rule, inputs, paired)
    builder = ComparisonBuilder(rule)
    for block in blocks:
        builder.add(block)
    counts = ", ".join(str(sum(x is not None for x in _values(i, ()))) for i in inputs)
    how = "paired by block" if paired else "each at its own time"
    detail = f"stored results, {counts} trials, {how}"
    return _Evidence(rule, builder.history(), test.arms, detail)


def _with_compared_metrics(
    test: ComparedTest, request: ComparisonRequest
) -> ComparedTest:
    """Return the test; inputs of other tools' files declare only what all inputs have: the main
    metrics of their tools, and those of the request."""
    inputs = test.inputs
    there = [set(_names(one)) for one in inputs]
    main = {name for one in inputs if one.origin for name in one.origin.main}
    asked = {word.casefold() for word in request.metrics}

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
    return msgspec.structs.replace(test, inputs=tuple(declared))


def _with_known_metrics(
    request: ComparisonRequest, inputs: Sequence[ParsedInput]
) -> ComparisonRequest:
    """Return the request with the names of its metrics as in the inputs.

    Raises InputError with all metrics that an input does not have. A metric is judged by the
    input's declaration, unless the request declares it in more detail.
    """
    specs = [spec for one in inputs for spec in one.specs]
    book = MetricRules(specs)
    there = [_names(one) for one in inputs]
    common = [name for name in there[0] if all(name in names for names in there)]
    words: list[str] = []
    wrong: list[Diagnostic] = []
    for word in request.metrics:
        spec, _ = parse_metric(word)
        asked = word if spec is None else spec.name
        name = asked if spec is None else _known_name(asked, common, book)
        if name is None:
            message = f"not every input has the metric {asked}"
            hint = f"all have: {', '.join(book.ordered(common))}"
            wrong.append(
                Diagnostic("bad-argument", message, hint, file="--metric", text=word)
            )
        elif word != asked or all(name != one.name for one in specs):
            words.append(f"{name}{word[len(asked) :]}")
    if wrong:
        raise InputError(wrong)
    return msgspec.structs.replace(request, metrics=tuple(words))


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
    rule: ComparisonRule, inputs: Sequence[ParsedInput]
) -> tuple[ComparedMetric, ...]:
    """Return the metrics of the rule that the inputs have.

    If none of these is judged, return the metrics that the inputs' own sessions judge. Raises
    InputError if the inputs have none of them in common.
    """
    there = [_names(one) for one in inputs]
    metrics = tuple(
        metric
        for metric in rule.metrics
        if all(metric.name in names for names in there)
        or (metric.judged and metric.name != "elapsed")
    )
    if any(metric.judged for metric in metrics):
        return metrics
    common = [name for name in there[0] if all(name in names for names in there)]
    book = MetricRules([spec for one in inputs for spec in one.specs])
    compared_metrics = tuple(ComparedMetric(name) for name in book.judged(common))
    if compared_metrics:
        return compared_metrics
    names = "; ".join(f"{one.name}: {', '.join(_names(one))}" for one in inputs)
    message = "the inputs have no metric in common"
    raise InputError([Diagnostic("bad-argument", message, names, file="INPUT")])


def _names(parsed_input: ParsedInput) -> list[str]:
    """Return the quantities of an input's successful trials."""
    found = (values for values in _values(parsed_input, ()) if values is not None)
    return list(dict.fromkeys(name for values in found for name in values))


def _stored_rule(
    rule: ComparisonRule, inputs: Sequence[ParsedInput], paired: bool
) -> ComparisonRule:
    """Return the rule for one look at stored results, paired or not."""
    arm = inputs[0].arm
    design = ComparisonDesign.STORED
    if paired and arm is not None:
        design = (
            ComparisonDesign.ABBA
            if arm.trials_per_block == 2
            else ComparisonDesign.BLOCKS
        )
    return msgspec.structs.replace(
        rule,
        design=design,
        mode="watch",
        minimum=2,
        warmup=0,
        once=True,
    )


def _are_paired(inputs: Sequence[ParsedInput]) -> bool:
    """Return whether the inputs are different arms of one comparison with blocks."""
    arms = [one.arm for one in inputs if one.arm is not None and one.arm.paired]
    return (
        len(arms) == len(inputs)
        and len({arm.comparison for arm in arms}) == 1
        and len({arm.place for arm in arms}) == len(arms)
    )


def _values(
    parsed_input: ParsedInput, specs: Sequence[MetricSpec]
) -> list[MetricValues | None]:
    """Return the values of each trial, in order; None for a failed trial."""
    book = MetricRules((*parsed_input.specs, *specs))
    return [
        values_of_trial(trial, book)
        for trial in trials_of(parsed_input)
        if trial.ending is not TrialEnding.INTERRUPTED and not trial.warmup
    ]


def arm_names(texts: Sequence[str], inputs: Sequence[ParsedInput]) -> list[str]:
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
            name(place, parts) if names.count(one) > 1 else one
            for place, one in enumerate(names)
        ]
    return names


def _name(text: str, parsed_input: ParsedInput, parts: int = 1) -> str:
    """Return the name of a stored arm, with the last `parts` components of its path; the name of its
    test, which can contain slashes, is added to it."""
    short = _last_parts(text.removesuffix(f":{parsed_input.name}"), parts)
    return short if parsed_input.name in short else f"{short}:{parsed_input.name}"


def _last_parts(path: str, parts: int) -> str:
    return "/".join(path.rstrip("/").split("/")[-parts:])
