"""A comparison over the fake bench: every trial journalled, crashes change nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from benchwright.core.comparison import ComparisonProgress, ComparisonResult, GateOutcome, Verdict
from benchwright.core.errors import BenchError
from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.core.plan import Pairs, StopDecision
from benchwright.decide.stopping import TestProgress, TestsProgress
from benchwright.findings.result import TestResult
from benchwright.results.stored_comparison import ComparedTest, chosen, compared_together
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.run.performer import Performer
from benchwright.run.session import Session
from benchwright.run.session import SessionVerdict as Ended
from benchwright.study.contents import NULL_KIND, last_null, record_capture, tests_of
from benchwright.study.journal import SessionInfo, Study
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment, RunRequest
from breaking_bench import BreakingBench

REQUEST = ComparisonRequest(("work a", "work b"), names=("a", "b"), seed="7", token="t")


class Recorder:
    """A listener that keeps what it is told of a comparison."""

    def __init__(self) -> None:
        self.blocks: list[ComparisonProgress] = []
        self.opened = 0
        self.closed: list[ComparisonResult] = []

    def test_opened(self, name: str, threads: int, sample: Pairs, rule: str, tests: int) -> None:
        raise AssertionError("an arm is opened by its comparison")

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
        together: TestsProgress | None,
    ) -> None:
        raise AssertionError("an arm's trials are told by block")

    def test_closed(self, name: str, stop: StopDecision) -> None:
        raise AssertionError("an arm is closed by its comparison")

    def comparison_opened(self, names: Sequence[str], rule_text: str) -> None:
        self.opened += 1

    def block_done(self, so_far: ComparisonProgress) -> None:
        self.blocks.append(so_far)

    def comparison_closed(self, result: ComparisonResult) -> None:
        self.closed.append(result)

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def elapsed(request: RunRequest, epoch: int, thread: int) -> float:
    """Return a deterministic time that scatters; b takes 3 % longer."""
    test = dict(request.environment)["BW_TEST"]
    scatter = ((epoch * 7919 + sum(test.encode()) * 31) % 101) / 2000
    return (1.0 + scatter) * (1.03 if test.endswith("b") else 1.0)


def info(kind: str = "compare") -> SessionInfo:
    return SessionInfo(0, "0", "boot", "/", (), (), "<comparison>", (), {}, kind)


def run(
    place: Path, bench: FakeBench, request: ComparisonRequest = REQUEST, *, again: bool = False
) -> tuple[Ended, Session, Recorder]:
    """Run a comparison, or go on with it, as `bw compare` and `bw resume` do."""
    program = program_from_comparison(request)
    listener = Recorder()
    with contextlib.closing(Study.create_or_open(place)) as study:
        if again:
            number = study.sessions()[-1].number
            cut = recover(study, number, f"{CRASH_CAUSE}: test").cut
            ledger = Ledger(study, number)
        else:
            cut = ()
            kind = NULL_KIND if request.is_null else "compare"
            ledger = Ledger(study, study.begin_session(info(kind)))
        performer = Performer(bench, ExecEnvironment("/", ()), study.path, ledger.session)
        session = Session(program, ledger, performer, listener, cut)
        return session.run({}, {}), session, listener


def order_of(bench: FakeBench) -> list[str]:
    """Return the arms in the order in which they ran."""
    return [dict(r.environment)["BW_TEST"] for r in bench.requests]


def kept(session: Session) -> bytes:
    """Return the answer as the journal keeps it: NaN, unlike null, equals nothing."""
    return msgspec.json.encode(result_of(session))


def result_of(session: Session) -> ComparisonResult:
    """Return the answer of the only comparison of a session."""
    (comparison,) = session.comparisons
    assert comparison.result is not None
    return comparison.result


def test_arms_run_in_blocks_and_are_tests_of_the_study(tmp_path: Path) -> None:
    bench = FakeBench(elapsed)
    verdict, session, listener = run(tmp_path / "study", bench)
    assert (verdict.status, verdict.exit_status) == ("complete", 0)
    order = order_of(bench)
    blocks = [tuple(order[i : i + 2]) for i in range(0, len(order), 2)]
    assert all(sorted(block) == ["a", "b"] for block in blocks)
    assert len(set(blocks)) == 2, "the order within blocks is random"
    result = result_of(session)
    assert result.verdicts[0].verdict is Verdict.SLOWER
    assert result.blocks == len(blocks) - 1, "one block was there to warm up"
    assert len(listener.blocks) == len(blocks)
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        tests = tests_of(study, 1)
    assert [test.plan.name for test in tests] == ["a", "b"]
    assert [len(test.trials) for test in tests] == [len(blocks)] * 2
    assert [trial.warmup for trial in tests[0].trials][:2] == [True, False]
    assert all(test.stop is not None for test in tests)


@pytest.mark.parametrize("design", ["blocks", "abba", "sequence", "round-robin"])
def test_a_crash_at_every_request_changes_nothing(tmp_path: Path, design: str) -> None:
    request = msgspec.structs.replace(REQUEST, design=design, max_blocks="12")
    whole = FakeBench(elapsed)
    _verdict, undisturbed, _ = run(tmp_path / "whole", whole, request)
    for at in range(0, len(whole.requests), 5):
        place = tmp_path / f"at-{at}"
        broken, rest = BreakingBench(elapsed, at), FakeBench(elapsed)
        with pytest.raises(BenchError):
            run(place, broken, request)
        verdict, session, _ = run(place, rest, request, again=True)
        assert verdict.exit_status == _verdict.exit_status
        assert kept(session) == kept(undisturbed), f"broken at {at}"
        measured = [r for r in rest.requests if r.commands[0].mode == "EXEC"]
        assert order_of(broken) + [dict(r.environment)["BW_TEST"] for r in measured] == order_of(
            whole
        )


def test_a_sequence_tells_of_every_trial(tmp_path: Path) -> None:
    request = msgspec.structs.replace(REQUEST, design="sequence", max_blocks="11")
    _verdict, session, listener = run(tmp_path / "s", FakeBench(elapsed), request)
    told = [progress.trials for progress in listener.blocks]
    assert told == [(n, 24) for n in range(1, 25)] + [(24, 24)]
    assert result_of(session).verdicts[0].n_baseline == 11


def test_a_complete_comparison_replays_without_the_bench(tmp_path: Path) -> None:
    _, first, _ = run(tmp_path / "study", FakeBench(elapsed))
    bench = FakeBench(elapsed)
    _, second, listener = run(tmp_path / "study", bench, again=True)
    assert bench.requests == []
    assert listener.opened == 0
    assert kept(second) == kept(first)


def test_a_failed_trial_voids_its_block_and_fails_the_run(tmp_path: Path) -> None:
    bench = FakeBench(elapsed, status=lambda r, e: int(e == 5 and r.commands[0].argv[1] == "b"))
    verdict, session, _ = run(tmp_path / "study", bench)
    result = result_of(session)
    assert result.failed_blocks == 1
    assert result.verdicts[0].n_baseline == result.blocks
    assert verdict.exit_status == 1
    assert "commands failed in b" in verdict.detail


@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize(
    ("accept", "expected"), [("timeout", 1), ("result-failed", 1), ("command-failed", 0)]
)
def test_a_failed_trial_is_accepted_by_its_own_code(
    tmp_path: Path, accept: str, expected: int, epoch: int
) -> None:
    """Live and stored, in a counted block and in the warm-up block."""
    bench = FakeBench(elapsed, status=lambda r, e: int(e == epoch and r.commands[0].argv[1] == "b"))
    request = msgspec.structs.replace(REQUEST, accept=(accept,))
    verdict, session, _ = run(tmp_path / "study", bench, request)
    assert verdict.exit_status == expected
    assert result_of(session).failures == ("command-failed",)
    arms = [chosen(f"{tmp_path / 'study'}:{name}", "--from") for name in "ab"]
    tests = [ComparedTest("", tuple(arms), ("a", "b"))]
    (stored,) = compared_together(tests, msgspec.structs.replace(request, names=()))
    assert stored.has_failures == bool(expected)


def test_a_gate_that_fails_is_exit_status_1_and_one_that_passes_0(tmp_path: Path) -> None:
    for limit, expected in (("1%", 1), ("20%", 0)):
        request = msgspec.structs.replace(REQUEST, fail_if=(f"slower by {limit}",))
        verdict, session, _ = run(tmp_path / limit, FakeBench(elapsed), request)
        assert verdict.exit_status == expected
        assert verdict.status == "complete", "there is nothing to resume"
        assert result_of(session).exit_status == expected


def test_a_machine_that_changed_before_the_last_block_holds_the_gate(tmp_path: Path) -> None:
    """What the session captures at its very end is too late for a gate, which is decided before."""
    request = msgspec.structs.replace(REQUEST, fail_if=("slower by 20%",))
    states = iter(("1", "2"))

    def capture(study: Study, session: int) -> None:
        fact = Fact("cpu.model", next(states), weight=FactWeight.FATAL)
        record_capture(study, session, MachineCapture(1, (fact,)))

    program = program_from_comparison(request)
    with contextlib.closing(Study.create_or_open(tmp_path / "study")) as study:
        number = study.begin_session(info())
        capture(study, number)
        performer = Performer(
            FakeBench(elapsed),
            ExecEnvironment("/", ()),
            study.path,
            number,
            capture=partial(capture, study, number),
        )
        ledger = Ledger(study, number)
        session = Session(program, ledger, performer, Recorder(), ())
        assert session.run({}, {}).exit_status == 3
    (gate,) = result_of(session).gates
    assert gate.outcome is GateOutcome.UNDECIDED
    assert gate.otherwise is GateOutcome.PASSED
    assert gate.held_by == ("environment-changed-between-trials",)


def test_undecided_is_exit_status_3(tmp_path: Path) -> None:
    request = msgspec.structs.replace(
        REQUEST, commands=("work a", "work c"), names=("a", "c"), max_blocks="10"
    )
    request = msgspec.structs.replace(request, margin="0.01%")
    verdict, session, _ = run(tmp_path / "study", FakeBench(elapsed), request)
    assert verdict.exit_status == 3
    assert verdict.status == "undecided"
    assert result_of(session).verdicts[0].verdict is Verdict.UNDECIDED


def test_a_null_comparison_is_kept_in_the_study(tmp_path: Path) -> None:
    request = ComparisonRequest(("work a",), seed="7", token="n", is_null=True)
    verdict, session, _ = run(tmp_path / "study", FakeBench(elapsed), request)
    assert verdict.exit_status == 0
    result = result_of(session)
    assert result.blocks == 40
    assert result.arms == ("work", "work-2")
    assert result.null is not None
    assert result.null.floors[0].metric == "elapsed"
    assert result.null.floors[0].noise_floor == result.verdicts[0].smallest_effect
    assert 0 <= result.null.false_positives <= 0.05
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        assert last_null(study) == result.null


def test_a_study_without_a_null_comparison_has_none(tmp_path: Path) -> None:
    run(tmp_path / "study", FakeBench(elapsed))
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        assert last_null(study) is None


def compared(inputs: Sequence[TestResult]) -> ComparisonResult:
    """Return the comparison of two stored arms."""
    test = ComparedTest("", tuple(inputs), ("a", "b"))
    (result,) = compared_together([test], ComparisonRequest(()))
    return result


def test_stored_arms_of_one_comparison_are_paired_again(tmp_path: Path) -> None:
    place = tmp_path / "study"
    _, session, _ = run(place, FakeBench(elapsed))
    live = result_of(session).verdicts[0]
    inputs = [chosen(f"{place}:{name}", "INPUT") for name in ("a", "b")]
    stored = compared(inputs)
    assert stored.verdicts[0].ratio == live.ratio
    assert stored.verdicts[0].blocks == live.blocks
    assert stored.verdicts[0].verdict is live.verdict


def test_arms_of_two_comparisons_are_not_paired(tmp_path: Path) -> None:
    inputs = []
    for number, name in ((1, "a"), (2, "b")):
        request = msgspec.structs.replace(REQUEST, token=f"t{number}")
        run(tmp_path / f"s{number}", FakeBench(elapsed), request)
        inputs.append(chosen(f"{tmp_path}/s{number}:{name}", "INPUT"))
    found = compared(inputs)
    assert found.verdicts[0].blocks is None
    assert found.verdicts[0].ratio.method == "welch-on-logs"


def test_the_request_is_all_that_a_resume_needs() -> None:
    text = msgspec.json.encode(REQUEST)
    assert json.loads(text)["seed"] == "7"
    again = msgspec.json.decode(text, type=ComparisonRequest)
    assert program_from_comparison(again) == program_from_comparison(REQUEST)
