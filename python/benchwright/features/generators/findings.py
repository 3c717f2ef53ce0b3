"""The findings about foreign generators: their figures against the rate that they were asked for
and against each other, and the evidence about trials under load that have a mark: how many, how
late, beside whom. Pure.

A trial's marks are codes of findings (`count_marks`); the findings of a search say in how many
trials, and by how much (`mark_findings`).
Decision: counts are compared with the asked rate only beyond what the chance of Poisson arrivals
explains, because a run of a few seconds differs by 10 % in every second search. What is too small
for one trial is found in the sum of all. Rejected: correcting the rate, because nobody knows
which of two figures is right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from benchwright.core.results import Figure, Finding, FindingFigures, Severity, Value, states
from benchwright.core.text import cpus_text, duration_ns_text, number_text
from benchwright.features.load.plan import LoadSeries, LoadTrial
from benchwright.findings import thresholds as t
from benchwright.findings.codes import MARKED, finding_of_mark, make_finding
from benchwright.findings.cpu_time import served_by_others
from benchwright.findings.programs import is_kernel, is_own

LATE_MARK = "generator-late"
_MOST_NEIGHBOURS = 3
"""Programs that a sentence about neighbours names at most."""


def late_figures(trials: Iterable[LoadTrial], limit_ms: float | None) -> dict[str, Value | None]:
    """Return how late the generator was at most, and the limit; as `late_text`."""
    known = [trial.late_p99_ms for trial in trials if trial.late_p99_ms is not None]
    if not known:
        return {}
    limit = None if limit_ms is None else Figure(limit_ms / 1e3, "s")
    return {"p99": Figure(max(known) / 1e3, "s"), "limit": limit}


def late_text(trials: Iterable[LoadTrial], limit_ms: float | None) -> str:
    """Return how late the generator was at most: `p99 up to 258 ms (limit 50 ms)`; empty if no
    trial says so. `limit_ms`: the smallest limit of a response; None: there is none."""
    known = [trial.late_p99_ms for trial in trials if trial.late_p99_ms is not None]
    if not known:
        return ""
    limit = "" if limit_ms is None else f" (limit {_ms_text(limit_ms)})"
    return f"p99 {'up to ' * (len(known) > 1)}{_ms_text(max(known))}{limit}"


def _ms_text(ms: float) -> str:
    return duration_ns_text(round(1e6 * ms))


def neighbours_text(trials: Iterable[LoadTrial]) -> str:
    """Return who else used the CPUs during these trials, the largest use first: `stress-ng (pid
    4711) used 0.98 CPUs`; empty if that is unknown, or nobody used a relevant share.

    A program's CPU time is its mean over all trials whose use was recorded. Threads of the kernel,
    programs of bw and servers that the load probably drives are no neighbours.
    """
    seconds = 0.0
    used: dict[str, dict[int, float]] = {}
    for use in (trial.use for trial in trials):
        if use is None:
            continue
        seconds += use.seconds
        served = served_by_others(use)
        for task in use.others:
            if not (is_kernel(task.name) or is_own(task.name) or task in served):
                by_pid = used.setdefault(task.name, {})
                cpu_s = task.share * use.seconds
                by_pid[task.pid] = by_pid.get(task.pid, 0.0) + cpu_s
    if not seconds:
        return ""
    return ", ".join(_named(used, seconds))


def _named(used: dict[str, dict[int, float]], seconds: float) -> Iterator[str]:
    """Yield the programs that used most, from the CPU time of their processes [s]."""
    cores = {name: sum(by_pid.values()) / seconds for name, by_pid in used.items()}
    busiest = sorted(cores, key=lambda name: -cores[name])[:_MOST_NEIGHBOURS]
    for name in busiest:
        if cores[name] < t.DELAYING_CORES:
            return
        pids = list(used[name])
        who = f"{name} (pid {pids[0]})" if len(pids) == 1 else f"{len(pids)} x {name}"
        yield f"{who} used {cpus_text(cores[name])}"


OFFERED_DIFFERS = "offered-differs"
OPERATIONS_MISSING = "operations-missing"
COUNTS_CONTRADICT = "counts-contradict"
LATENESS_UNKNOWN = "lateness-unknown"
REFUSALS_UNSEEN = "refusals-unseen"

MEAN = "response_ms_mean"


# -- one trial -------------------------------------------------------------------------------


def series_count(series: LoadSeries, lasted_s: float) -> int | None:
    """Return the number of operations in a series over a run of `lasted_s`; None if the series
    does not cover the run.

    A last, incomplete bin may be missing: the count is then that of the bins in proportion.
    """
    if not series.at_s or lasted_s <= 0:
        return None
    # Some generators number the seconds from 1, or write the time of day.
    first_s = series.at_s[0] if series.at_s[-1] >= lasted_s else 0.0
    bins = [
        (at_s - first_s, count)
        for at_s, count in zip(series.at_s, series.counts, strict=True)
        if at_s - first_s < lasted_s
    ]
    slack_s = 1e-6 * series.width_s
    covered_s = min(bins[-1][0] + series.width_s, lasted_s)
    whole_s = series.width_s - slack_s
    if bins[0][0] >= whole_s or lasted_s - covered_s >= whole_s:
        return None
    return round(sum(count for _, count in bins) * lasted_s / covered_s)


def count_differs(count: float, asked: float) -> bool:
    """Return whether a count differs from the asked one by more than 1 % and more than chance
    explains."""
    return abs(count - asked) > max(t.COUNT_DIFFERS * asked, t.COUNT_DEVIATIONS * math.sqrt(asked))


def count_marks(trial: LoadTrial, rate: float | None, *, by_series: bool) -> tuple[str, ...]:
    """Return the marks of a trial's counts.

    `rate` is what the generator was told [1/s]; None: users. `by_series`: `offered` is the sum of
    its series, in which operations without a response may be missing, and no figure of its own.
    """
    marks = []
    if rate is not None and trial.offered is not None:
        asked = rate * trial.lasted_s
        if count_differs(trial.offered, asked):
            missing = trial.offered < asked and by_series
            marks.append(OPERATIONS_MISSING if missing else OFFERED_DIFFERS)
    if counts_contradict(trial):
        marks.append(COUNTS_CONTRADICT)
    return tuple(marks)


def counts_contradict(trial: LoadTrial) -> bool:
    """Return whether no run can have a trial's counts: more ended than were offered, or another
    number in the series than in the totals."""
    offered, completed, errors = trial.offered, trial.completed, trial.errors
    if offered is not None and _is_more((completed or 0) + errors, offered):
        return True
    counted = series_count(trial.series, trial.lasted_s)
    if counted is None:
        return False
    if trial.series.binned_by == "completion":
        return completed is not None and _is_more(counted, completed + errors)
    if offered is None:
        return False
    # A series may leave out operations that failed or never ended.
    least = offered - errors if completed is None else min(completed, offered - errors)
    return _is_more(counted, offered) or _is_more(least, counted)


def _is_more(one: int, other: int) -> bool:
    return one > (1 + t.COUNT_DIFFERS) * other + t.COUNT_ROUNDING


# -- the unit of counts ------------------------------------------------------------------------


def count_unit(trials: Sequence[LoadTrial]) -> float | None:
    """Return the counted part of each asked operation, if it is the same at all of the lower rates:
    0.72 if the generator counts 72 % of what it is asked for; None if it is 1, or unknown.

    The same part at rates that are far apart is a unit (requests of two operations, a rate of each
    connection). A part that falls from the first rates on is a generator or a server at its limit.
    """
    known = sorted(_counted_trials(trials), key=lambda trial: trial.rate)
    counted = asked = 0.0
    same: list[LoadTrial] = []
    for trial in known:
        due = trial.rate * trial.lasted_s
        expected = due * counted / asked if asked else trial.offered or 0
        if count_differs(trial.offered or 0, expected):
            break
        same.append(trial)
        counted, asked = counted + (trial.offered or 0), asked + due
    if not counted or not count_differs(counted, asked):
        return None
    far = same[-1].rate >= t.UNIT_RATE_RATIO * same[0].rate
    return counted / asked if far else None


def in_asked_unit(trial: LoadTrial, unit: float) -> LoadTrial:
    """Return a trial with its counts in asked operations, so that they compare with its rate."""
    series = msgspec.structs.replace(
        trial.series, counts=tuple(round(n / unit) for n in trial.series.counts)
    )
    offered, completed = (
        None if count is None else round(count / unit) for count in (trial.offered, trial.completed)
    )
    return msgspec.structs.replace(
        trial,
        series=series,
        offered=offered,
        completed=completed,
        errors=round(trial.errors / unit),
    )


def _counted_trials(trials: Sequence[LoadTrial]) -> list[LoadTrial]:
    """Return the trials that have an asked and a counted number of operations."""
    return [
        trial
        for trial in trials
        if trial.offered is not None and trial.users is None and trial.lasted_s
    ]


# -- all trials of a search ------------------------------------------------------------------


class _Evidence(msgspec.Struct, frozen=True):
    """What a finding says; None as severity is that of the table of codes."""

    shown: str | FindingFigures
    severity: Severity | None = None


def mark_findings(
    trials: Sequence[LoadTrial], subject: str, limit_ms: float | None = None
) -> tuple[Finding, ...]:
    """Return a finding for each mark of the trials, with its amounts, and one about counts that
    differ from the asked ones only in the sum of all trials.

    `limit_ms`: the smallest limit of a response; None: there is none.
    """
    codes = Counter(mark for trial in trials for mark in trial.marks)
    found = []
    for code in codes:
        marked = [trial for trial in trials if code in trial.marks]
        if code in _EVIDENCE:
            evidence = _EVIDENCE[code](marked, trials)
        else:
            evidence = _Evidence(_marked(code, trials, limit_ms))
        if evidence is not None:
            finding = finding_of_mark(code, subject, evidence.shown)
            severity = evidence.severity or finding.severity
            found.append(msgspec.structs.replace(finding, severity=severity))
    if not codes.keys() & {OFFERED_DIFFERS, OPERATIONS_MISSING}:
        found += _differs_together(trials, subject)
    return tuple(found)


def _marked(code: str, trials: Sequence[LoadTrial], limit_ms: float | None) -> FindingFigures:
    marked = [trial for trial in trials if code in trial.marks]
    late = late_figures(marked, limit_ms) if code == LATE_MARK else {}
    return states(
        MARKED,
        mark=code.replace("-", " "),
        marked=len(marked),
        trials=len(trials),
        **late,
        beside=neighbours_text(marked) if code == LATE_MARK else None,
    )


def _offered_differs(marked: Sequence[LoadTrial], trials: Sequence[LoadTrial]) -> _Evidence:
    shares = [trial.offered_rate / trial.rate for trial in marked]
    if min(shares) < 1 < max(shares):
        return _Evidence(_counted("both", marked, trials), Severity.SERIOUS)
    return _Evidence(_counted("", marked, trials))


def _operations_missing(marked: Sequence[LoadTrial], trials: Sequence[LoadTrial]) -> _Evidence:
    return _Evidence(_counted("", marked, trials))


def _counted(form: str, marked: Sequence[LoadTrial], trials: Sequence[LoadTrial]) -> FindingFigures:
    """Return the counted part of the asked operations: `0.72 (0.7 to 0.74)`, in how many trials."""
    counted = sum(trial.offered or 0 for trial in marked)
    asked = sum(trial.rate * trial.lasted_s for trial in marked)
    shares = [trial.offered_rate / trial.rate for trial in marked]
    low, high = (number_text(end(shares), 3) for end in (min, max))
    return states(
        form,
        ratio=counted / asked,
        shares=None if low == high else f"{low} to {high}",
        marked=len(marked),
        trials=len(trials),
        unit=count_unit(trials),
    )


def _differs_together(trials: Sequence[LoadTrial], subject: str) -> list[Finding]:
    """Return the finding about counts that differ only in the sum of all trials; empty if none.

    A trial whose count differs by itself has its own finding.
    """
    known = [
        trial
        for trial in _counted_trials(trials)
        if not count_differs(trial.offered or 0, trial.rate * trial.lasted_s)
    ]
    counted = sum(trial.offered or 0 for trial in known)
    asked = sum(trial.rate * trial.lasted_s for trial in known)
    if not known or not count_differs(counted, asked):
        return []
    shown = states(
        "sum", counted=counted, trials=len(known), ratio=counted / asked, asked=round(asked)
    )
    return [make_finding(OFFERED_DIFFERS, subject, shown)]


def _counts_contradict(marked: Sequence[LoadTrial], trials: Sequence[LoadTrial]) -> _Evidence:
    trial = marked[0]
    series = series_count(trial.series, trial.lasted_s)
    figures = {
        "offered": trial.offered,
        "completed": trial.completed,
        "failed": trial.errors,
        "in its series": series,
    }
    counts = ", ".join(f"{n:,} {what}" for what, n in figures.items() if n is not None)
    return _Evidence(
        states(
            marked=len(marked),
            trials=len(trials),
            rate=Figure(trial.rate, "1/s"),
            lasted=Figure(trial.lasted_s, "s"),
            counts=counts,
        )
    )


def _lateness_unknown(_marked: Sequence[LoadTrial], _trials: Sequence[LoadTrial]) -> _Evidence:
    return _Evidence(
        "the generator does not say how late it started its operations: its own lateness is in "
        "the response times, and cannot be told from the server's"
    )


def _refusals_unseen(marked: Sequence[LoadTrial], _trials: Sequence[LoadTrial]) -> _Evidence | None:
    """Return evidence if rates far above the lowest hardly slowed the server: this is what
    refusals look like that are counted as answers. None if the response grew."""
    timed = [trial for trial in marked if trial.values.get(MEAN)]
    if not timed:
        return None
    low = min(timed, key=lambda trial: trial.rate)
    quick = t.HARDLY_SLOWER * low.values[MEAN]
    fast = [trial for trial in timed if trial.values[MEAN] <= quick]
    high = max(fast, key=lambda trial: trial.rate)
    if high.rate < t.FAR_ABOVE * low.rate:
        return None
    # Refusing is quicker than answering.
    quicker = high.values[MEAN] < t.MUCH_QUICKER * low.values[MEAN]
    shown = states(
        high=Figure(high.rate, "1/s"),
        high_mean=Figure(high.values[MEAN], "ms"),
        low=Figure(low.rate, "1/s"),
        low_mean=Figure(low.values[MEAN], "ms"),
    )
    return _Evidence(shown, Severity.WARNING if quicker else None)


_EVIDENCE: dict[str, Callable[[Sequence[LoadTrial], Sequence[LoadTrial]], _Evidence | None]] = {
    OFFERED_DIFFERS: _offered_differs,
    OPERATIONS_MISSING: _operations_missing,
    COUNTS_CONTRADICT: _counts_contradict,
    LATENESS_UNKNOWN: _lateness_unknown,
    REFUSALS_UNSEEN: _refusals_unseen,
}
"""What the finding of a mark says, where it is more than a number of trials."""
