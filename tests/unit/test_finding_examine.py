"""Each doubt fires on its cause and stays silent without it."""

from __future__ import annotations

import math

import msgspec
import pytest

from benchwright.core.observation import MeasurementBlock, ProcessRecord, Trial, TrialEnding
from benchwright.core.plan import Command, MetricSpec, StopDecision, UntilPredicate, UntilProgram
from benchwright.core.results import Severity
from benchwright.findings.codes import all_codes, make_finding
from benchwright.findings.examine import compute_findings
from benchwright.findings.result import TestResult
from benchwright.report.answer import finding_groups

CLEAN = [10.0, 10.1, 9.9, 10.05, 9.95]
EVERY_NS = 120 * 10**9


def trial(epoch: int, ending: TrialEnding = TrialEnding.OK, **more: object) -> Trial:
    values = more.pop("values", {"elapsed": CLEAN[epoch % 5]})
    status = more.pop("status", 0)
    blocks = (MeasurementBlock(1, epoch, "work --fast", status, values),)
    return Trial("t", epoch, 1, ending, epoch * EVERY_NS, EVERY_NS // 2, blocks, **more)


def codes(*trials: Trial, **more: object) -> list[str]:
    return [
        finding.code for finding in compute_findings(TestResult("t", whole_trials=trials, **more))
    ]


def test_clean_trials_raise_no_doubt() -> None:
    assert codes(*map(trial, range(1, 6))) == []


def test_a_command_that_fails_is_one_finding_with_its_epochs() -> None:
    trials = [trial(1), trial(2), *(trial(e, TrialEnding.FAILED, status=3) for e in (3, 4))]
    (finding,) = compute_findings(TestResult("t", whole_trials=trials))
    assert (finding.code, finding.severity) == ("command-failed", Severity.SERIOUS)
    assert finding.evidence == "`work --fast` exited with status 3 in trials 3, 4 (2 of 4)"


def test_several_causes_of_failures_have_their_sum() -> None:
    statuses = {2: 3, 3: 3, 5: 137}
    trials = [
        trial(e, TrialEnding.FAILED if e in statuses else TrialEnding.OK, status=statuses.get(e, 0))
        for e in range(1, 6)
    ]
    found = compute_findings(TestResult("t", whole_trials=trials))
    failures = [one for one in found if one.code == "command-failed"]
    (group,) = finding_groups([("t", one) for one in failures])
    assert [one.evidence for one in failures] == [
        "`work --fast` exited with status 3 in trials 2, 3 (2 of 5), 3 failed in all",
        "`work --fast` was killed by signal 9 in trial 5 (1 of 5), 3 failed in all",
    ]
    assert group.sentence == (
        "`work --fast` exited with status 3 in 2 of 5 trials, 3 failed in all (the worst of 2)"
    )


def test_an_accepted_status_is_no_failure_and_is_reported() -> None:
    same = [trial(epoch, status=1) for epoch in range(1, 5)]
    (finding,) = compute_findings(TestResult("t", whole_trials=same, ok_status=(1,)))
    assert (finding.code, finding.severity) == ("status-accepted", Severity.NOTE)
    assert "`work --fast` exited with status 1 in 4 of 4 runs" in finding.evidence

    mixed = [*same, trial(5), trial(6)]
    (finding,) = compute_findings(TestResult("t", whole_trials=mixed, ok_status=(0, 1)))
    assert (finding.code, finding.severity) == ("status-accepted", Severity.WARNING)
    assert "status 0 in 2 and 1 in 4 of 6 runs" in finding.evidence


def test_a_failed_trial_names_the_command_whose_status_is_not_accepted() -> None:
    blocks = (
        MeasurementBlock(1, 3, "grep", 1, {"elapsed": 1.0}),
        MeasurementBlock(1, 3, "sort", 2, {"elapsed": 1.0}),
    )
    failed = Trial("t", 3, 1, TrialEnding.FAILED, 0, 1, blocks)
    found = compute_findings(
        TestResult("t", whole_trials=[trial(1), trial(2), failed], ok_status=(0, 1))
    )
    (one,) = [finding for finding in found if finding.code == "command-failed"]
    assert one.evidence.startswith("`sort` exited with status 2")


def test_a_signal_and_a_failed_setup_are_told_apart() -> None:
    setup = ProcessRecord("SETUP", 0, 0, 139, 1, 0, 0, 0)
    missing = ProcessRecord("EXEC", 0, 1, 127, 1, 0, 0, 0, error="no such file")
    trials = [
        trial(1),
        trial(2),
        Trial("t", 3, 1, TrialEnding.FAILED, 0, 1, processes=(setup,)),
        Trial("t", 4, 1, TrialEnding.FAILED, 0, 1, processes=(missing,)),
    ]
    first, second = compute_findings(TestResult("t", whole_trials=trials))
    assert "SETUP command 1 was killed by signal 11" in first.evidence
    assert "EXEC command 1 did not start: no such file" in second.evidence


def test_a_timeout_a_void_trial_and_processes_left_running() -> None:
    trials = [
        trial(1),
        trial(2, left_running=2),
        trial(3, TrialEnding.TIMEOUT, status=143),
        trial(4, TrialEnding.INTERRUPTED),
    ]
    assert codes(*trials) == ["timeout", "processes-left-running", "trial-void"]


def test_processes_of_another_user_that_still_run_are_a_serious_finding() -> None:
    found = compute_findings(TestResult("t", whole_trials=[trial(1), trial(2, not_permitted=2)]))
    (one,) = [f for f in found if f.code == "processes-not-ended"]
    assert one.severity is Severity.SERIOUS
    assert "2 processes of another user" in one.evidence


def test_a_declared_metric_that_is_missing_says_why() -> None:
    why = "ops (thread 2): /ops has no member 'ops'"
    trials = [trial(1, values={"elapsed": 1.0, "ops": 5.0}), trial(2, missing=(why,))]
    (finding,) = compute_findings(TestResult("t", whole_trials=trials, specs=[MetricSpec("ops")]))
    assert finding.code == "missing-metric"
    assert "ops is missing or not a number in trial 2 (1 of 2)" in finding.evidence
    assert "thread 2: /ops has no member 'ops'" in finding.evidence


def test_a_value_that_is_no_number_is_missing() -> None:
    trials = [trial(1, values={"ops": 5.0}), trial(2, values={"ops": math.nan})]
    (finding,) = compute_findings(TestResult("t", whole_trials=trials))
    assert finding.code == "missing-metric"
    assert finding.evidence.endswith("not every thread reported a number")


@pytest.mark.parametrize(("count", "text"), [(0, "no trial was"), (1, "only 1 trial was")])
def test_too_few_trials(count: int, text: str) -> None:
    (finding,) = compute_findings(
        TestResult("t", whole_trials=[trial(e) for e in range(1, count + 1)])
    )
    assert finding.code == "too-few-trials"
    assert finding.evidence.startswith(text)


@pytest.mark.parametrize(
    ("operations", "severity"), [(999.0, Severity.SERIOUS), (20_000.0, Severity.NOTE)]
)
def test_one_load_of_many_operations_is_a_note(operations: float, severity: Severity) -> None:
    values = {"elapsed": 10.0, "completed": operations, "response_ns_mean": 9.0}
    (finding,) = compute_findings(TestResult("t", whole_trials=[trial(1, values=values)]))
    assert (finding.code, finding.severity) == ("too-few-trials", severity)


@pytest.mark.parametrize(("looks", "severity"), [(1, Severity.NOTE), (6, Severity.WARNING)])
def test_a_legacy_predicates_confidence_is_nominal(looks: int, severity: Severity) -> None:
    stop = StopDecision("predicate", "holds", looks=looks)
    for rule in (UntilPredicate(2, 1, "$count > 1"), UntilProgram(2, 1, Command(("true",)))):
        (finding,) = compute_findings(
            TestResult("t", whole_trials=[trial(1), trial(2)], rule=rule, stop=stop)
        )
        assert (finding.code, finding.severity) == ("nominal-confidence", severity)
        assert "95 % is nominal" in finding.evidence


def test_every_code_has_a_remedy_and_only_known_codes_are_made() -> None:
    assert all(code.remedy for code in all_codes().values())
    with pytest.raises(KeyError):
        make_finding("invented", "t", "x")


def test_a_value_that_is_never_taken_is_told() -> None:
    """A script that writes `elapsed = 5`, or `note = fast`, learns that it counts for nothing."""
    line = "elapsed (thread 1): elapsed in APLOG is not taken: elapsed is measured"
    other = "note (thread 1): note = 'fast' in APLOG is not a number"
    trials = [msgspec.structs.replace(trial(e), missing=(line, other)) for e in (1, 2, 3)]
    found = [
        f
        for f in compute_findings(TestResult("t", whole_trials=trials))
        if f.code == "missing-metric"
    ]
    assert [f.evidence.split(" was")[0] for f in found] == [
        "a value reported for elapsed",
        "a value reported for note",
    ]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (1, "1 process was still running and was killed after"),
        (9, "9 processes were still running and were killed after"),
    ],
)
def test_processes_left_running_are_counted(left: int, said: str) -> None:
    found = compute_findings(TestResult("t", whole_trials=[trial(1), trial(2, left_running=left)]))
    (one,) = [f for f in found if f.code == "processes-left-running"]
    assert one.evidence.startswith(said)
