"""Stored results for `bw compare`: as the baseline for commands, or as all arms.

Arms of the same comparison are paired by their blocks. Other results are compared by Welch's
test on logarithms, with the finding that the arms were not interleaved.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

import msgspec

from benchwright.cli.compare_outcome import print_comparison_document, write_junit
from benchwright.cli.outcome import findings_text, print_blocks
from benchwright.cli.stats_inputs import read_inputs
from benchwright.cli.terminal import table_width
from benchwright.core.comparison import (
    ComparedMetric,
    ComparisonDesign,
    ComparisonResult,
    ComparisonRule,
    StoredArm,
    Verdict,
)
from benchwright.core.errors import Diagnostic, InputError, argument_error
from benchwright.core.machine import revision_of
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import MetricSpec, StopDecision
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.decision import judged_pairs
from benchwright.decide.compare.evidence import ComparisonBuilder, MetricValues
from benchwright.findings.comparison import comparison_findings, hold_doubtful
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
    inputs = read_inputs([text])
    if len(inputs) == 1:
        if all(not values for values in _values(inputs[0], ())):
            if inputs[0].summaries:
                raise _only_estimates(text, option, inputs[0])
            message = f"{text} has no completed trial"
            raise argument_error(option, text, message, "run it, or name another one")
        return inputs[0]
    names = ", ".join(one.name for one in inputs[:_MOST_NAMED])
    if len(inputs) > _MOST_NAMED:
        names += f" and {len(inputs) - _MOST_NAMED} more"
    message = (
        f"{text} contains {len(inputs)} tests" if inputs else f"{text} contains no test"
    )
    hint = f"write {text}:TEST; there are: {names}" if inputs else ""
    raise InputError(
        [Diagnostic("bad-argument", message, hint, file=option, text=text)]
    )


def _only_estimates(text: str, option: str, one: ParsedInput) -> InputError:
    """Return the error for a file with estimates and no values of trials."""
    tool = one.origin.tool if one.origin else "its tool"
    message = f"{text} contains estimates by {tool} and no values of single trials"
    hint = (
        "bw compare needs the values; bw stats prints the estimates side by side. Let the tool "
        "write its values (docs/import.md says how)"
    )
    return argument_error(option, text, message, hint)


def all_chosen(texts: Sequence[str]) -> list[ParsedInput]:
    """Return the test that each text names.

    Raises InputError with all mistakes; two texts for the same trials are one.
    """
    parsed_inputs: list[ParsedInput] = []
    wrong: list[Diagnostic] = []
    for text in texts:
        try:
            parsed_inputs.append(chosen(text, "INPUT"))
        except InputError as error:
            wrong += [
                _perhaps_a_command(diagnostic, text) for diagnostic in error.diagnostics
            ]
    if wrong:
        raise InputError(wrong)
    for place, one in enumerate(parsed_inputs):
        for before in range(place):
            if trials_of(one) == trials_of(parsed_inputs[before]):
                message = f"{texts[before]} and {texts[place]} are the same trials"
                hint = "compare two tests, or two runs of one"
                raise argument_error("INPUT", texts[place], message, hint)
    return parsed_inputs


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
    inputs = _with_compared_metrics(all_chosen(arguments.inputs), request)
    request = _with_known_metrics(request, inputs)
    names = arm_names(arguments.inputs, inputs)
    comparison = comparison_of(inputs, names, request)
    findings = list(comparison_findings(comparison))
    findings += separate_findings(
        [(name, one.machine) for name, one in zip(names, inputs, strict=True)]
    )
    # Findings are computed again: the sessions may not have judged the same metrics.
    questions = Questions(also=comparison.rule.judged)
    for one, name in zip(inputs, names, strict=True):
        findings += one.session_findings
        arm = msgspec.structs.replace(one, name=name)
        findings += input_findings(arm, questions)
    comparison = hold_doubtful(comparison, findings)
    head = {
        "study": None,
        "session": None,
        "status": "complete" if comparison.exit_status != 3 else "undecided",
        "detail": comparison.stop.detail,
        "exit_status": comparison.exit_status,
    }
    if arguments.junit:
        write_junit(arguments.junit, comparison, findings)
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
            findings_text(
                groups, named, len(names), more=more, verbose=verbose, noun="input"
            ),
        ]
    )
    return comparison.exit_status


def comparison_of(
    inputs: Sequence[ParsedInput], names: list[str], request: ComparisonRequest
) -> ComparisonResult:
    """Return the comparison of stored arms; the first is the baseline."""
    specs = {spec.name: spec for one in inputs for spec in one.specs}
    rule = rule_from_request(request, len(inputs), list(specs.values()))
    rule = msgspec.structs.replace(rule, metrics=_shared(rule, inputs))
    paired = _are_paired(inputs)
    blocks = paired_blocks(inputs) if paired else [[_values(i, ()) for i in inputs]]
    rule = _stored_rule(rule, inputs, paired)
    builder = ComparisonBuilder(rule)
    for block in blocks:
        builder.add(block)
    history = builder.history()
    found = conclude(rule, history, names, StopDecision("stored", "stored results"))
    answered = all(
        v.verdict is not Verdict.UNDECIDED for v in found.verdicts if v.judged
    )
    if not judged_pairs(rule):
        answered = False
    counts = ", ".join(str(sum(x is not None for x in _values(i, ()))) for i in inputs)
    how = "paired by block" if paired else "each at its own time"
    stop = StopDecision(
        "stored", f"stored results, {counts} trials, {how}", answered, 1
    )
    return conclude(rule, history, names, stop)


def _with_compared_metrics(
    inputs: Sequence[ParsedInput], request: ComparisonRequest
) -> list[ParsedInput]:
    """Return the inputs; those of other tools' files declare only what all inputs have: the main
    metrics of their tools, and those of the request."""
    there = [set(_names(one)) for one in inputs]
    main = {name for one in inputs if one.origin for name in one.origin.main}
    asked = {word.casefold() for word in request.metrics}

    def declares(name: str) -> bool:
        chosen_metric = not main or name in main or name.casefold() in asked
        return chosen_metric and all(name in names for names in there)

    return [
        one
        if one.origin is None
        else msgspec.structs.replace(
            one, specs=tuple(spec for spec in one.specs if declares(spec.name))
        )
        for one in inputs
    ]


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
    names = [_name(text, one) for text, one in zip(texts, inputs, strict=True)]
    for parts in range(2, 1 + max(text.count("/") + 1 for text in texts)):
        names = [
            _name(text, one, parts) if names.count(name) > 1 else name
            for text, one, name in zip(texts, inputs, names, strict=True)
        ]
    return names


def _name(text: str, parsed_input: ParsedInput, parts: int = 1) -> str:
    """Return the name of a stored arm, with the last `parts` components of its path; the name of its
    test, which can contain slashes, is added to it."""
    path = text.removesuffix(f":{parsed_input.name}").rstrip("/")
    short = "/".join(path.split("/")[-parts:])
    return short if parsed_input.name in short else f"{short}:{parsed_input.name}"
