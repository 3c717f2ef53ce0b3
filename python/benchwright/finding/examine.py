"""What there is to doubt about one test.

Purpose: every doubt of this table's making in one call, in order of gravity of cause:
what failed, what is missing, what was left behind, and what the interval is worth.
Decision: one finding per cause, naming its epochs, not one per epoch: a command that
fails 500 times is one thing to know. Getstats' high z-scores are no finding: they fire
on 23-82 % of clean samples (stats/zscore.py), so they are a report's notices.
What the values themselves show (drift, modes, ...) is in series.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from benchwright.finding.codes import doubt
from benchwright.finding.output import output_findings
from benchwright.finding.resources import resource_findings
from benchwright.finding.sanity import Claims
from benchwright.finding.series import series_findings
from benchwright.finding.told import told_findings
from benchwright.finding.words import epochs_text
from benchwright.model.decision import Stop
from benchwright.model.finding import Finding, Severity
from benchwright.model.observation import Ending, Trial
from benchwright.model.plan import (
    MetricSpec,
    StoppingRule,
    UntilPredicate,
    UntilProgram,
)
from benchwright.stats.aggregate import TrialValues, observe_trials
from benchwright.stats.rows import RowBook


def examine(
    test_name: str,
    trials: Sequence[Trial],
    specs: Sequence[MetricSpec] = (),
    *,
    rule: StoppingRule | None = None,
    stop: Stop | None = None,
    observed: Sequence[TrialValues] | None = None,
    least_changes: Mapping[str, float] | None = None,
    deselected: int = 0,
    claims: Claims | None = None,
    also: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings about one test, most grave cause first.

    `trials` are all of them, void and failed ones too. `rule` and `stop` say how the
    number of trials came about, where that is known. `observed` are the values of the
    trials that count, where the caller has them already. `least_changes` are the
    smallest changes over a test, as a share of the median, that are a drift: by metric,
    before what `specs` say. `deselected` trials were left out before, by a selection.
    `claims` are what the user says of the test: limits, the size of an operation. `also`
    are metrics whose series get every question, beside the test's own.
    """
    book = RowBook(specs)
    if observed is None:
        observed = observe_trials(trials, book)
    return (
        *_failures(test_name, trials),
        *_missing(test_name, trials, observed, book),
        *_left_running(test_name, trials),
        *_not_ended(test_name, trials),
        *told_findings(test_name, trials),
        *output_findings(test_name, trials),
        *_void(test_name, trials),
        *resource_findings(test_name, trials, observed, book, claims),
        *_too_few(test_name, trials, len(observed), deselected),
        *_nominal(test_name, rule, stop),
        *series_findings(
            test_name,
            observed,
            book,
            rule=rule,
            least_changes=least_changes,
            also=also,
        ),
    )


def _failures(name: str, trials: Sequence[Trial]) -> list[Finding]:
    causes: dict[tuple[str, str], list[int]] = {}
    for trial in trials:
        if trial.ending is Ending.TIMEOUT:
            causes.setdefault(("timeout", "the time limit passed"), []).append(
                trial.epoch
            )
        elif trial.ending is Ending.FAILED:
            for cause in _failed_commands(trial):
                causes.setdefault(("command-failed", cause), []).append(trial.epoch)
    return [
        doubt(code, name, f"{cause} in {epochs_text(epochs, len(trials))}")
        for (code, cause), epochs in causes.items()
    ]


def _failed_commands(trial: Trial) -> list[str]:
    """Return in words what failed in a trial: at most one line per command."""
    causes = {
        f"`{block.command}` {status_text(block.status)}": None
        for block in trial.blocks
        if block.status
    }
    for process in trial.processes:
        if process.error:
            text = f"{process.mode} command {process.index + 1} did not start: {process.error}"
            causes[text] = None
        elif process.status and (process.mode != "EXEC" or not causes):
            what = f"{process.mode} command {process.index + 1}"
            causes[f"{what} {status_text(process.status)}"] = None
    return list(causes) or ["a command failed"]


def status_text(status: int) -> str:
    """Return an exit status in words; above 128 it was a signal that ended it."""
    if status > 128:
        return f"was ended by signal {status - 128}"
    return f"exited with status {status}"


def _missing(
    name: str, trials: Sequence[Trial], observed: Sequence[TrialValues], book: RowBook
) -> list[Finding]:
    """Return a finding for every quantity that some completed trials do not have."""
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
        evidence = f"{metric} is missing or not a number in {epochs_text(absent, len(observed))}"
        found = doubt("missing-metric", name, evidence + why)
        result.append(msgspec.structs.replace(found, metric=metric))
    told = {
        metric for metric in expected if any(metric not in t.values for t in observed)
    }
    return result + _not_taken(name, reasons, told)


def _not_taken(name: str, reasons: dict[str, str], told: set[str]) -> list[Finding]:
    """Return a finding for every other value that a script offered in vain: one that was
    never a number, or that bears the name of what is measured."""
    return [
        doubt(
            "missing-metric", name, f"a value offered for {metric} was not taken{why}"
        )
        for metric, why in reasons.items()
        if metric not in told
    ]


def _reasons(trials: Iterable[Trial]) -> dict[str, str]:
    """Return the first reason given for each missing metric, as `: thread 1: why`."""
    reasons: dict[str, str] = {}
    for trial in trials:
        if trial.ending is not Ending.OK:
            continue
        for line in trial.missing:
            metric, _, rest = line.partition(" (thread ")
            thread, _, why = rest.partition("): ")
            text = f": thread {thread}: {why}" if why else ""
            reasons.setdefault(metric, text)
    return reasons


def _partial_reason(metric: str, observed: Sequence[TrialValues]) -> str:
    if any(metric in trial.partial for trial in observed):
        return ": not every thread gave a number"
    return ""


def _left_running(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [trial.epoch for trial in trials if trial.left_running]
    if not epochs:
        return []
    count = sum(trial.left_running for trial in trials)
    what = f"{count} process{' was' if count == 1 else 'es were'} still running and ended after"
    evidence = f"{what} {epochs_text(epochs, len(trials))}"
    return [doubt("processes-left-running", name, evidence)]


def _not_ended(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [trial.epoch for trial in trials if trial.not_permitted]
    if not epochs:
        return []
    most = max(trial.not_permitted for trial in trials)
    what = "1 process" if most == 1 else f"up to {most} processes"
    evidence = (
        f"{what} of another user still ran after {epochs_text(epochs, len(trials))}"
    )
    return [doubt("processes-not-ended", name, evidence)]


def _void(name: str, trials: Sequence[Trial]) -> list[Finding]:
    epochs = [t.epoch for t in trials if t.ending is Ending.INTERRUPTED]
    if not epochs:
        return []
    evidence = f"cut short and void: {epochs_text(epochs, len(trials))}"
    return [doubt("trial-void", name, evidence)]


def _too_few(
    name: str, trials: Sequence[Trial], completed: int, deselected: int
) -> list[Finding]:
    if completed >= 2:
        return []
    failed = any(t.ending in (Ending.FAILED, Ending.TIMEOUT) for t in trials)
    if failed and not completed and not deselected:
        return []  # that it failed is said, and is why there is nothing
    what = "no trial was" if not completed else "only 1 trial was"
    if not deselected:
        text = f"{what} completed: there is no interval"
        return [doubt("too-few-trials", name, text)]
    text = f"{what} selected ({deselected} left out): there is no interval"
    remedy = "Select more: of what is asked for, this test has too little."
    found = doubt("too-few-trials", name, text)
    return [msgspec.structs.replace(found, remedy=remedy)]


def _nominal(name: str, rule: StoppingRule | None, stop: Stop | None) -> list[Finding]:
    """Return the doubt about an interval whose own width ended the test.

    Figures: 20 000 simulated tests per cell.
    """
    if not isinstance(rule, (UntilPredicate, UntilProgram)) or stop is None:
        return []
    times = "once" if stop.looks == 1 else f"{stop.looks} times"
    evidence = (
        f"the data were looked at {times} to decide when to stop, so 95 % is nominal: "
        "such intervals cover 94 % at a CV of 8 %, 86 % at 16 %, 64-67 % with epochs "
        "correlated by 0.6"
    )
    severity = Severity.NOTE if stop.looks <= 1 else None
    return [doubt("nominal-confidence", name, evidence, severity)]
