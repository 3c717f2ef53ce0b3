"""Findings about one test: failures, missing values, processes left running, cost of output,
interval."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from benchwright.core.observation import FAILED_ENDINGS, MissingMetric, Trial, TrialEnding
from benchwright.core.plan import (
    CommandMode,
    StopDecision,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
    own_command,
)
from benchwright.core.results import Figure, Finding, FindingFigures, Severity, states
from benchwright.core.text import epochs_text, list_text, status_text
from benchwright.feature import COMMAND_FAILED, owner_of, recorded_by
from benchwright.findings.codes import code_or_none, in_trials, make_finding, template_of
from benchwright.findings.drawn import drawn_findings
from benchwright.findings.resources import resource_findings
from benchwright.findings.result import TestResult, profile_note
from benchwright.findings.rules import NamedRule, apply_rule, result_of
from benchwright.findings.sanity import Claims, with_sample
from benchwright.findings.series import series_findings
from benchwright.findings.thresholds import OUTPUT_NS_PER_BYTE, OUTPUT_OF_ELAPSED, OUTPUT_OF_SYSTEM
from benchwright.stats.aggregate import MetricRules, TrialValues

# -- Findings that a measured command reported itself: `[finding]` blocks in APLOG -----------
#
# `bw load` inside a trial reports that its generator fell behind; the study must report it too.
# Decision: one finding for each code, with its epochs and the evidence of the first one;
# a code that is not in our table becomes a note.

BLOCK = "finding"


def reported_findings(name: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return the findings in the `[finding]` blocks of trials that are not void."""
    said: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for trial in trials:
        if trial.ending is not TrialEnding.INTERRUPTED:
            for block in trial.extra_blocks:
                if block.get("") == BLOCK and block.get("code"):
                    said.setdefault(block["code"], []).append((trial.epoch, block))
    return [_reported_finding(name, code, found, len(trials)) for code, found in said.items()]


def _reported_finding(
    name: str, code: str, found: list[tuple[int, dict[str, str]]], total: int
) -> Finding:
    epochs = list(dict.fromkeys(epoch for epoch, _ in found))
    first = found[0][1]
    where = f" ({epochs_text(epochs, total)})" if total > 1 else ""
    evidence = first.get("evidence", "") + where
    if code_or_none(code) is None:
        return Finding(code, Severity.NOTE, name, evidence)
    grave = {block.get("severity") for _, block in found}
    order = list(Severity)
    severity = max((s for s in order if s in grave), key=order.index, default=None)
    finding = make_finding(code, name, evidence, severity)
    # A command may have written anything.
    with contextlib.suppress(msgspec.DecodeError, ValueError, TypeError, OverflowError):
        figures = msgspec.json.decode(first.get("figures", ""), type=FindingFigures)
        named = {**figures.named, "where": where}
        stated = msgspec.structs.replace(finding, figures=states(figures.form, **named))
        return finding if template_of(stated) is None else stated
    return finding


# -- Whether writing its output was a noticeable part of a test's time -----------------
#
# Decision: estimated from the bytes written, since a write to stdout cannot be separated from
# another system call; the cost of a byte is that of benches/output_cost.py.


def output_findings(name: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return the finding, if any, that writing output cost a noticeable part of a test's time."""
    seen = [cost for t in trials if t.ending is TrialEnding.OK and (cost := _cost(t))]
    if not seen:
        return []
    out, err, of_elapsed, of_system = (median(column) for column in zip(*seen, strict=True))
    if of_elapsed < OUTPUT_OF_ELAPSED and of_system < OUTPUT_OF_SYSTEM:
        return []
    streams = " and ".join(name for name, size in (("stdout", out), ("stderr", err)) if size)
    shown = states(
        written=Figure(out + err, "B"),
        streams=streams,
        cost=OUTPUT_NS_PER_BYTE,
        elapsed=Figure(min(of_elapsed, 1), "%"),
        system=Figure(min(of_system, 1), "%"),
    )
    return [make_finding("output-cost", name, shown)]


def _cost(trial: Trial) -> tuple[float, float, float, float] | None:
    """Return bytes written to stdout and to stderr, and the estimated shares of elapsed and system
    time."""
    processes = [p for p in trial.processes if p.mode == CommandMode.EXEC]
    out = sum(p.out_bytes or 0 for p in processes)
    err = sum(p.err_bytes or 0 for p in processes)
    elapsed_ns = sum(p.elapsed_ns for p in processes)
    system_ns = sum(p.system_us for p in processes) * 1000
    if not elapsed_ns:
        return None
    cost_ns = (out + err) * OUTPUT_NS_PER_BYTE
    return out, err, cost_ns / elapsed_ns, cost_ns / system_ns if system_ns else 0.0


# -- Findings about one test ------------------------------------------------------
#
# Purpose: every finding about one test in one call, most serious cause first.
# Decision: one finding per cause, naming its epochs, not one per epoch: a command that
# fails 500 times is one finding. Getstats' high z-scores are not findings: they occur in
# 23-82 % of clean samples (stats/sample.py), so reports print them as notices.
# Findings about the values themselves (drift, modes, ...) are in series.py.


class Questions(msgspec.Struct, frozen=True):
    """Questions about a test in addition to those of its plan."""

    claims: Claims = Claims()
    """The user's statements about the test: limits, the size of an operation."""
    least_changes: Mapping[str, float] = {}
    """The smallest change over a test that is a drift, as a share of the median, by metric;
    overrides the metric's spec."""
    also: Sequence[str] = ()
    """Metrics that are examined for every kind of finding, in addition to the test's own."""
    rules: Sequence[NamedRule] = ()
    """The user's own rules."""

    @property
    def changes_answers(self) -> bool:
        """Whether findings other than those of rules depend on these questions."""
        return self.claims != Claims() or bool(self.least_changes or self.also)


def findings_about(test: TestResult, questions: Questions | None = None) -> tuple[Finding, ...]:
    """Return the findings about a test, those that it has or computed again.

    They are computed again if the session stored none, if a selection or another transformation
    changed the trials, or if a question is asked that the session did not ask. Raises InputError
    for a rule that fails.
    """
    asked = questions or Questions()
    # What a file only states is not missing from its trials.
    stated = {summary.name for summary in test.summaries}
    if stated:
        if not test.trials:
            return ()
        specs = tuple(spec for spec in test.specs if spec.name not in stated)
        test = msgspec.structs.replace(test, specs=specs)
    if test.findings is None or asked.changes_answers:
        return compute_findings(test, asked)
    # A reader may have renamed the test to distinguish inputs.
    named = (
        msgspec.structs.replace(finding, subject=test.name)
        if finding.subject == test.test
        else finding
        for finding in test.findings
    )
    return (*named, *rule_findings(test, asked.rules))


def compute_findings(test: TestResult, questions: Questions | None = None) -> tuple[Finding, ...]:
    """Return the findings about one test, most serious cause first, then those of rules.

    Raises InputError for a rule that fails.
    """
    asked = questions or Questions()
    name, trials, book, observed = test.name, test.all_trials, test.rules, test.observed
    claims = with_sample(asked.claims, test.sample)
    declared = with_sample(Claims(), test.sample).operation_bytes
    return (
        *profile_note(name, test.profiles),
        *(
            finding
            for kind, record in recorded_by(test.recorded)
            for finding in kind.findings(name, record, declared)
        ),
        *_failures(name, trials, test.ok_status),
        *_accepted(name, trials),
        *_missing(name, trials, observed, book),
        *_left_running(name, trials),
        *_not_ended(name, trials),
        *reported_findings(name, trials),
        *output_findings(name, trials),
        *_void(name, trials),
        *resource_findings(test, claims),
        *_too_few(name, trials, observed, test.deselected),
        *_nominal(name, test.rule, test.stop),
        *drawn_findings(test),
        *series_findings(
            name,
            test.columns,
            book,
            rule=test.rule,
            least_changes=asked.least_changes,
            also=asked.also,
        ),
        *rule_findings(test, asked.rules),
    )


def rule_findings(test: TestResult, rules: Sequence[NamedRule]) -> tuple[Finding, ...]:
    """Return the findings of the user's rules. Raises InputError for a rule that fails."""
    if not rules:
        return ()
    result = result_of(test)
    return tuple(finding for rule in rules for finding in apply_rule(rule, result))


def code_of_failure(command: str) -> str:
    """Return the code of the finding about a trial whose command, of this text, failed."""
    word = own_command(command)
    owner = owner_of(word)
    return COMMAND_FAILED if owner is None else owner.code_of_failure(word)


def codes_of_failures(tests: Iterable[TestResult]) -> tuple[str, ...]:
    """Return the codes of the findings about the trials of tests that failed, each once."""
    return tuple(
        dict.fromkeys(
            code
            for test in tests
            for trial in test.trials
            for code, _ in _causes_of_failure(trial, test.ok_status)
        )
    )


def _causes_of_failure(trial: Trial, ok_status: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield why a trial failed: the codes of findings, each with the cause in words."""
    if trial.ending is TrialEnding.TIMEOUT:
        yield "timeout", "the time limit was exceeded"
    elif trial.ending is TrialEnding.FAILED:
        stated = _stated_failures(trial)
        for cause, command in _failed_commands(trial, ok_status, bool(stated)).items():
            yield code_of_failure(command), cause
        for why in stated:
            yield "result-failed", why


def _failures(name: str, trials: Sequence[Trial], ok_status: Sequence[int]) -> list[Finding]:
    causes: dict[tuple[str, str], list[int]] = {}
    for trial in trials:
        for cause in _causes_of_failure(trial, ok_status):
            causes.setdefault(cause, []).append(trial.epoch)
    failed = sum(trial.ending in FAILED_ENDINGS for trial in trials)
    return [
        make_finding(
            code,
            name,
            states(
                cause=cause,
                **in_trials(epochs, len(trials)),
                failed=failed if failed > len(epochs) else None,
            ),
        )
        for (code, cause), epochs in causes.items()
    ]


def _accepted(name: str, trials: Sequence[Trial]) -> list[Finding]:
    """Return a finding for each command that ended with a status other than 0 in a trial that
    succeeded: a warning if its status differs between trials, else a note."""
    counts: dict[str, Counter[int]] = {}
    for trial in trials:
        if trial.ending is TrialEnding.OK:
            for block in trial.blocks:
                counts.setdefault(block.command, Counter())[block.status] += 1
    findings = []
    for command, by_status in counts.items():
        if set(by_status) == {0}:
            continue
        of, differs = by_status.total(), len(by_status) > 1
        each = [f"{status} in {n}" for status, n in sorted(by_status.items())]
        shown = states(command=_command_text(command), statuses=list_text(each), runs=of)
        severity = Severity.WARNING if differs else None
        findings.append(make_finding("status-accepted", name, shown, severity))
    return findings


def _command_text(command: str) -> str:
    """Return a command as a subject; a file of results may have a status without its command."""
    return f"`{command}`" if command else "a command"


def _stated_failures(trial: Trial) -> list[str]:
    """Return the failures that a tool states without an exit status."""
    failed = (block for block in trial.blocks if block.failure)
    return list(
        dict.fromkeys(
            f"{f'`{measurement_block.command}`' if measurement_block.command else 'it'} failed: {measurement_block.failure}"
            for measurement_block in failed
        )
    )


def _failed_commands(trial: Trial, ok_status: Sequence[int], explained: bool) -> dict[str, str]:
    """Return a description of the failures of a trial, each with its command: at most one per
    command, which is empty if it is unknown. If it is `explained`, other findings have those that a
    tool states."""
    causes = {
        f"{_command_text(block.command)} {status_text(block.status)}": block.command
        for block in trial.blocks
        if not block.failure and block.status not in ok_status
    }
    for process in trial.processes:
        if process.error:
            text = f"{process.mode} command {process.index + 1} did not start: {process.error}"
            causes[text] = ""
        elif process.failed(ok_status) and (process.mode != "EXEC" or not causes):
            what = f"{process.mode} command {process.index + 1}"
            causes[f"{what} {status_text(process.status)}"] = ""
    return causes if causes or explained else {"a command failed": ""}


def _missing(
    name: str, trials: Sequence[Trial], observed: Sequence[TrialValues], book: MetricRules
) -> list[Finding]:
    """Return a finding for every quantity that is missing in some completed trials."""
    expected = dict.fromkeys(book.declared)
    for trial in observed:
        expected.update(dict.fromkeys((*trial.values, *trial.partial)))
    reasons = _reasons(trials)
    result = []
    for metric in book.shown(expected):
        absent = [t.epoch for t in observed if metric not in t.values]
        if not absent or book.row(metric).computed:
            continue
        why = reasons.get(metric, "") or _partial_reason(metric, observed)
        shown = states(metric=metric, **in_trials(absent, len(observed)), why=why)
        finding = make_finding("missing-metric", name, shown)
        result.append(msgspec.structs.replace(finding, metric=metric))
    missing = {metric for metric in expected if any(metric not in t.values for t in observed)}
    return result + _rejected_values(name, reasons, missing)


def _rejected_values(name: str, reasons: dict[str, str], missing: set[str]) -> list[Finding]:
    """Return a finding for every other value of a script that was ignored: it was never a number,
    or has the name of a built-in quantity."""
    return [
        make_finding("missing-metric", name, states("rejected", metric=metric, why=why))
        for metric, why in reasons.items()
        if metric not in missing
    ]


def _reasons(trials: Iterable[Trial]) -> dict[str, str]:
    """Return the first reason given for each missing metric, as `thread 1: why`."""
    reasons: dict[str, str] = {}
    for trial in trials:
        if trial.ending is not TrialEnding.OK:
            continue
        for metric in map(MissingMetric.stored, trial.missing):
            reasons.setdefault(
                metric.metric, f"thread {metric.thread}: {metric.why}" if metric.why else ""
            )
    return reasons


def _partial_reason(metric: str, observed: Sequence[TrialValues]) -> str:
    if any(metric in trial.partial for trial in observed):
        return "not every thread reported a number"
    return ""


def _left_running(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [trial.epoch for trial in trials if trial.left_running]
    if not epochs:
        return []
    count = sum(trial.left_running for trial in trials)
    shown = states(processes=count, **in_trials(epochs, len(trials)))
    return [make_finding("processes-left-running", name, shown)]


def _not_ended(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [trial.epoch for trial in trials if trial.not_permitted]
    if not epochs:
        return []
    most = max(trial.not_permitted for trial in trials)
    shown = states(most=most, **in_trials(epochs, len(trials)))
    return [make_finding("processes-not-ended", name, shown)]


def _void(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [t.epoch for t in trials if t.ending is TrialEnding.INTERRUPTED]
    if not epochs:
        return []
    return [make_finding("trial-void", name, states(**in_trials(epochs, len(trials))))]


_MANY_OPERATIONS = 1000
"""From here on, the operations of one load are a sample of their own."""


def _operations(observed: Sequence[TrialValues]) -> float:
    """Return the completed operations of a load's only trial; 0 for other trials."""
    values = observed[0].values if observed else {}
    return values.get("completed", 0.0) if "response_ns_mean" in values else 0.0


def _too_few(
    name: str, trials: Sequence[Trial], observed: Sequence[TrialValues], deselected: int
) -> list[Finding]:
    completed = len(observed)
    if completed >= 2:
        return []
    failed = any(t.ending in FAILED_ENDINGS for t in trials)
    if failed and not completed and not deselected:
        return []  # The failure is a finding of its own, and the reason.
    operations = _operations(observed)
    if operations >= _MANY_OPERATIONS and not deselected:
        shown = states("load", operations=operations)
        note = make_finding("too-few-trials", name, shown, Severity.NOTE)
        remedy = "Repeat the load to see how much loads differ."
        return [msgspec.structs.replace(note, remedy=remedy)]
    if not deselected:
        shown = states(completed=completed) if completed else states("none")
        return [make_finding("too-few-trials", name, shown)]
    if completed:
        shown = states("selected", completed=completed, excluded=deselected)
    else:
        shown = states("none-selected", excluded=deselected)
    remedy = "Select more trials: too few of this test match."
    finding = make_finding("too-few-trials", name, shown)
    return [msgspec.structs.replace(finding, remedy=remedy)]


def _nominal(name: str, rule: StoppingRule | None, stop: StopDecision | None) -> list[Finding]:
    """Return the finding about an interval whose width ended the test.

    The coverage figures are from 20 000 simulated tests per cell.
    """
    if not isinstance(rule, (UntilPredicate, UntilProgram)) or stop is None:
        return []
    severity = Severity.NOTE if stop.looks <= 1 else None
    return [make_finding("nominal-confidence", name, states(looks=stop.looks), severity)]
