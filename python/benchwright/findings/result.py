"""A test with its results: the one thing that findings, answers, tables, charts and exports read.

Purpose: what was measured of a test, wherever it is from: a session that has just ended, a stored
one, a file of another tool. Decision: one type, which whoever reads a source fills, and of which
the rest is computed at first use and then kept, so that no reader has its own way from trials to
columns, and none computes what it does not need. It is in this room because findings are the lowest
thing that is computed of a test as a whole; its figures are chosen in report/answer.py
(`estimate_of`). Beside it: which files observers recorded of a test, and the note that they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Any, Self

import msgspec

from benchwright.core.machine import MachineCapture
from benchwright.core.observation import CpuProfile, MeasurementBlock, Trial
from benchwright.core.plan import (
    SUCCESS,
    ComparisonArm,
    MetricSpec,
    StopDecision,
    StoppingRule,
    TestPlan,
)
from benchwright.core.results import Finding, Summary, states
from benchwright.feature import recorded_by
from benchwright.findings.codes import make_finding
from benchwright.stats.aggregate import (
    MetricColumn,
    MetricRules,
    TrialValues,
    aggregate_trial,
    metric_columns,
    observe_trials,
    trials_of_blocks,
)

# -- The note that trials were profiled, which costs some time -------------------------


def profile_note(subject: str, profiles: Sequence[CpuProfile]) -> list[Finding]:
    """Return the note that trials were profiled; empty without profiles."""
    if not profiles:
        return []
    shown = states(trials=len(profiles), hertz=profiles[0].hertz)
    return [make_finding("profiled", subject, shown)]


# --------------------------------------------------------------------------------------
# The files of a test's profiles and characterized I/O.


class ObservedFiles(msgspec.Struct, frozen=True):
    """Paths of a test's profiles and characterized trial; None: there is none."""

    flame_graphs: tuple[str, ...] = ()
    """One for each profile, in the order of trials."""
    io: str | None = None
    """The characterized I/O of the trial, as JSON."""
    block_trace: str | None = None


def observed_files(
    trials: Sequence[Trial], recorded: Mapping[str, Any], study: PurePath
) -> ObservedFiles:
    """Return the files of a test's profiles in a study, and those of what observers recorded of the
    test (`recorded_by`)."""
    profiles = (trial.profile for trial in trials if not trial.warmup)
    graphs = dict.fromkeys(
        profile.svg for profile in profiles if profile is not None and profile.svg
    )
    files = ObservedFiles(tuple(str(study / graph) for graph in graphs))
    for kind, record in recorded_by(recorded):
        files = msgspec.structs.replace(files, **kind.files(record, study))
    return files


class FileOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of another tool says about where its numbers come from."""

    tool: str
    """Its name and, if the file has it, its version: `pyperf 2.10.0`."""
    commit: str = ""
    """The measured commit, as the file has it; empty if it is unknown."""
    dirty: bool = False
    """Whether files of the repository differed from the commit."""
    commit_time_ns: int | None = None
    """When it was committed [ns since 1970]."""
    started_ns: int | None = None
    """When it was measured [ns since 1970]."""
    machine: str = ""
    """The machine's name."""
    run: str = ""
    """What distinguishes the run from others of its file, beside commit and time: `note=before`."""
    main: tuple[str, ...] = ()
    """The quantities that a comparison judges, of many; empty for all that are declared."""
    labels: tuple[tuple[str, str], ...] = ()
    """Configuration that the name of the test has in a history where it distinguishes results of
    one run."""

    @property
    def order_ns(self) -> int | None:
        """Its place among the runs of a history [ns since 1970], None if it is unknown: the time of
        the commit, so that an old commit that is measured later stays an old one. A nanosecond for
        each second until the measurement orders the runs of one commit."""
        if self.commit_time_ns is None or self.started_ns is None:
            return self.started_ns if self.commit_time_ns is None else self.commit_time_ns
        later_s = (self.started_ns - self.commit_time_ns) // 10**9
        return self.commit_time_ns + min(max(later_s, 0), 10**9 - 1)


class TestResult(msgspec.Struct, frozen=True, dict=True):
    """One test with its results. A changed copy (`msgspec.structs.replace`) computes again."""

    name: str
    """As stored, unless a reader changed it to distinguish inputs."""
    blocks: tuple[MeasurementBlock, ...] = ()
    """The rows of a source that has no whole trials, in its order."""
    specs: tuple[MetricSpec, ...] = ()
    """Declared metrics, if the source has them."""
    whole_trials: tuple[Trial, ...] | None = None
    """The trials that count, failed and warm-up trials included, in order of epoch; None if the
    source has only rows. A session has whole trials."""
    void_trials: tuple[Trial, ...] = ()
    """The records of trials that do not count: cut short, or the failure that ended the session."""
    rule: StoppingRule | None = None
    stop: StopDecision | None = None
    sample: tuple[tuple[str, str], ...] = ()
    arm: ComparisonArm | None = None
    """The comparison of which the test is an arm, if any. It decides in place of the test's rule."""
    plan: TestPlan | None = None
    """How a session measured it; None for a file."""
    source: str = ""
    """The user's argument, a path or `STUDY:TEST`; the reader fills it in."""
    test: str = ""
    """Its name in the source, before names were made unique."""
    full_name: str = ""
    """Its name with its package or class, which `name` has only where the file needs it; empty if
    the source has none. What matches the tests of two sources."""
    findings: tuple[Finding, ...] | None = None
    """Findings about the test; None if they must be computed (findings/examine.py), as after a
    transformation of the trials."""
    status: str = ""
    """How its session ended; empty for what is not a test of a study."""
    baseline: str = "first"
    """What the ratios of its session refer to."""
    session_findings: tuple[Finding, ...] = ()
    """Findings about its session as a whole; only the session's first test has them."""
    recorded: Mapping[str, Any] = {}
    """What observers recorded of the test (`recorded_by`)."""
    deselected: int = 0
    """Number of trials that a selection or grouping left out."""
    machine: MachineCapture | None = None
    """The machine at its session's start, if it is stored."""
    gang: str = ""
    """The hosts of the gang of a pool that measured it; empty: none did, or one of this machine."""
    files: ObservedFiles | None = None
    """The files of its profiles and of what observers recorded, if the source has them."""
    summaries: tuple[Summary, ...] = ()
    """What a file states about quantities of which it has no values: in tables as it is, with the
    file's own interval or without one."""
    notes: tuple[str, ...] = ()
    """What is left out of what the source has, and why: each becomes a notice."""
    origin: FileOrigin | None = None
    """Where the numbers of another tool's file come from."""
    settings: tuple[tuple[str, str], ...] = ()
    """What a tool states beside the name about how it ran the test, such as `threads`."""
    version: str = ""
    """Identity of the benchmark's own code, as its tool states it: results of two versions are not
    compared."""
    clock_s: float = 0.0
    """The step in which its tool writes times [s]; 0 if it is unknown."""
    id: str = ""
    """Prefix of its ids on a page: `p1.t2`; empty elsewhere."""
    ok_status: tuple[int, ...] = SUCCESS
    """Exit statuses with which a measured command succeeds."""

    # -- what follows from these -------------------------------------------------------

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The trials that count, failed and warm-up trials included: its own, or made from rows."""
        if self.whole_trials is not None:
            return self.whole_trials
        return trials_of_blocks(self.name, self.blocks, self.ok_status)

    @cached_property
    def all_trials(self) -> tuple[Trial, ...]:
        """The trials and the records of void ones, in order of epoch."""
        if not self.void_trials:
            return self.trials
        both = (*self.trials, *self.void_trials)
        return tuple(sorted(both, key=lambda trial: trial.epoch))

    @cached_property
    def rows(self) -> tuple[MeasurementBlock, ...]:
        """The rows of the source, or those of its whole trials, without warm-up trials."""
        if self.whole_trials is None:
            return self.blocks
        return tuple(b for trial in self.whole_trials if not trial.warmup for b in trial.blocks)

    @cached_property
    def rules(self) -> MetricRules:
        """How its quantities are named, unified and aggregated."""
        return _rules_of(tuple(self.specs))

    @cached_property
    def observed(self) -> tuple[TrialValues, ...]:
        """The values of the trials that succeeded, without warm-up trials, in order."""
        return observe_trials(self.trials, self.rules)

    @cached_property
    def columns(self) -> dict[str, MetricColumn]:
        """Each quantity over the trials that have it, in the table's order."""
        return metric_columns(self.observed, self.rules)

    @property
    def profiles(self) -> tuple[CpuProfile, ...]:
        """The profiles of its trials, those of void and warm-up trials included."""
        return tuple(trial.profile for trial in self.all_trials if trial.profile is not None)

    @property
    def trials_id(self) -> str:
        """The id of the table of its trials on a page."""
        return f"{self.id}-trials"

    @property
    def threads(self) -> int | None:
        """The number of threads of its trials; None if it is unknown."""
        if self.plan is not None:
            return self.plan.threads
        if self.whole_trials:
            return self.whole_trials[0].threads
        return max((block.thread for block in self.blocks), default=0) or None

    def values_of(self, trial: Trial) -> dict[str, float]:
        """Return the values of any trial, also of one that is in no figure."""
        return aggregate_trial(trial.blocks, self.rules).values

    def labelled(self, **changes: Any) -> Self:
        """Return it with other words about it, such as its findings or its name; what was computed of
        its trials stays."""
        changed = msgspec.structs.replace(self, **changes)
        vars(changed).update(vars(self))
        return changed


# The tests of a file have few different declarations.
_rules_of = lru_cache(maxsize=64)(MetricRules)
