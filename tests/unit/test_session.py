"""A session over the fake bench: replay, crashes at every point, fail-fast, checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import BenchError
from benchwright.core.observation import TrialEnding
from benchwright.core.plan import Pairs, RunMore, StopDecision
from benchwright.decide.stopping import TestProgress, TestsProgress
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.run.performer import Performer
from benchwright.run.session import Session, SessionVerdict
from benchwright.study.contents import tests_of
from benchwright.study.journal import NewEntry, SessionInfo, Study
from benchwright.study.keys import KeysOfTest
from benchwright.study.parsers.study import parsed_test
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.compile import load
from benchwright.suite.program import Program
from benchwright.trial.bench import BatchResult
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment, RunRequest
from breaking_bench import BreakingBench
from session_infos import suite_info

SUITE = """
FOREACH KIND a b
  FOR N=1 TO 2
    THREADS=%N%
    TEST %KIND%:%N% 5 2 getstats --predicate '("$delta" < 0.02 * $mean) || ($count > 12)'
      PRESETUP presetup %KIND%
      SETUP setup
      EXEC work
      CLEANUP cleanup
      POSTCLEANUP postcleanup
    DONE
  DONE
  SYSTEM sync %KIND%
DONE
ECHO over
"""


class Recorder:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.closed: list[tuple[str, StopDecision]] = []
        self.together: list[TestsProgress | None] = []

    def test_opened(
        self, name: str, threads: int, sample: Pairs, rule_text: str, tests: int
    ) -> None:
        self.notes.append(f"opened {name}")

    def trials_done(
        self,
        name: str,
        done: int,
        failed: int,
        progress: TestProgress,
        elapsed_s: float,
        together: TestsProgress | None,
    ) -> None:
        assert done + failed >= 0, "0 after a warm-up trial"
        self.together.append(together)

    def test_closed(self, name: str, stop: StopDecision) -> None:
        self.closed.append((name, stop))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        pass


def elapsed(request: RunRequest, epoch: int, thread: int) -> float:
    """Return a deterministic time that scatters by a tenth."""
    test = dict(request.environment)["BW_TEST"]
    return 1.0 + ((epoch * 7919 + thread * 31 + sum(test.encode())) % 100) / 1000


def info() -> SessionInfo:
    return suite_info(SUITE)


def run(
    place: Path,
    bench: FakeBench,
    suite: str | Program = SUITE,
    *,
    again: bool = False,
    planned: int = 1,
) -> tuple[SessionVerdict, Session, Recorder]:
    """Run a suite, or go on with it, as `bw run` and `bw resume` do."""
    program = suite
    if isinstance(suite, str):
        program = load("s.ap", {"s.ap": suite}.__getitem__)
    assert isinstance(program, Program)
    listener = Recorder()
    with contextlib.closing(Study.create_or_open(place)) as study:
        if again:
            number = study.sessions()[-1].number
            cut = recover(study, number, f"{CRASH_CAUSE}: test").cut
            ledger = Ledger(study, number)
        else:
            cut = ()
            ledger = Ledger(study, study.begin_session(info()))
        performer = Performer(bench, ExecEnvironment("/", ()), study.path, ledger.session)
        session = Session(program, ledger, performer, listener, cut, planned)
        return session.run({}, {}), session, listener


def figures(session: Session) -> dict[str, list[tuple[int, TrialEnding, float]]]:
    """Return what counts: test -> (epoch, ending, elapsed of the first block)."""
    return {
        test.name: [(t.epoch, t.ending, t.blocks[0].values["elapsed"]) for t in test.trials]
        for test in session.tests
    }


def test_a_suite_runs_to_its_end(tmp_path: Path) -> None:
    bench = FakeBench(elapsed)
    verdict, session, listener = run(tmp_path / "study", bench)
    assert verdict.exit_status == 0
    assert list(figures(session)) == ["a:1", "a:2", "b:1", "b:2"]
    assert all(len(trials) >= 5 for trials in figures(session).values())
    assert listener.notes[-1] == "over"
    modes = [tuple(c.mode for c in r.commands) for r in bench.requests]
    assert modes[0] == ("PRESETUP",)
    assert modes[1] == ("SETUP", "EXEC", "CLEANUP")


def test_interleaved_tests_report_how_far_all_of_them_are(tmp_path: Path) -> None:
    request = CommandRequest(
        commands=("work {n}",), factors=("n=1,2,3",), runs="4", seed="1", names=("t",)
    )
    program = program_from_command(request)
    _, session, listener = run(tmp_path / "study", FakeBench(elapsed), program, planned=3)
    assert [test.name for test in session.tests] == ["t:n=1", "t:n=2", "t:n=3"]
    seen = [one for one in listener.together if one is not None]
    assert len(seen) == len(listener.together)
    assert {one.number for one in seen} == {1, 2, 3}
    assert {(one.tests, one.expected_total) for one in seen} == {(3, 12)}
    assert [one.trials for one in seen] == sorted(one.trials for one in seen)
    assert seen[-1].trials == 12
    assert seen[-1].left_s == pytest.approx(0)


def test_a_test_that_the_dry_run_did_not_have_has_no_place_of_many(tmp_path: Path) -> None:
    _, _, listener = run(tmp_path / "study", FakeBench(elapsed), planned=3)
    numbers = [None if one is None else one.number for one in listener.together]
    assert list(dict.fromkeys(numbers)) == [1, 2, 3, None], "the suite has four"


def test_a_target_out_of_reach_is_reported_once(tmp_path: Path) -> None:
    request = CommandRequest(commands=("work",), precision="0.1%", max_runs="60", mode="watch")
    program = program_from_command(request)
    _, _, listener = run(tmp_path / "study", FakeBench(elapsed), program)
    assert len(listener.together) > 3, "it reports progress several times"
    (note,) = [text for text in listener.notes if "needs about" in text]
    assert note.startswith("work: ±0.1 % needs about ")
    assert "the limit is 60 trials" in note


def test_trials_between_decisions_are_one_batch(tmp_path: Path) -> None:
    bench = FakeBench(elapsed)
    run(tmp_path / "study", bench)
    first = next(r for r in bench.requests if r.commands[0].mode == "SETUP")
    assert first.epochs == 5


def test_a_complete_session_replays_without_the_bench(tmp_path: Path) -> None:
    _verdict, first, _ = run(tmp_path / "study", FakeBench(elapsed))
    bench = FakeBench(elapsed)
    verdict, second, listener = run(tmp_path / "study", bench, again=True)
    assert bench.requests == []
    assert figures(second) == figures(first)
    assert verdict.exit_status == 0
    assert "over" not in listener.notes, "ECHO is told once"


def test_what_has_ended_gets_no_trial_from_a_version_that_wants_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _verdict, first, _ = run(tmp_path / "study", FakeBench(elapsed))
    monkeypatch.setattr("benchwright.run.session.decide", lambda _rule, _history: RunMore(1))
    bench = FakeBench(elapsed)
    verdict, second, _ = run(tmp_path / "study", bench, again=True)
    assert bench.requests == []
    assert figures(second) == figures(first)
    assert verdict.exit_status == 0


def test_a_warm_up_is_run_first_kept_marked_and_in_no_figure(tmp_path: Path) -> None:
    suite = "WARMUP 2\nTEST a 3\nEXEC x\nDONE\n"
    bench = FakeBench(elapsed)
    _verdict, session, _ = run(tmp_path / "study", bench, suite)
    (test,) = session.tests
    assert [t.warmup for t in test.trials] == [True, True, False, False, False]
    assert [values.epoch for values in test.observed] == [3, 4, 5]
    assert test.history().epochs == 3
    assert sum(r.epochs for r in bench.requests) == 5
    _verdict, again, _ = run(tmp_path / "study", FakeBench(elapsed), suite, again=True)
    assert figures(again) == figures(session)
    assert [values.epoch for values in again.tests[0].observed] == [3, 4, 5]


def test_a_crash_at_every_request_changes_nothing(tmp_path: Path) -> None:
    whole = FakeBench(elapsed)
    _verdict, undisturbed, _ = run(tmp_path / "whole", whole)
    for at in range(len(whole.requests)):
        place = tmp_path / f"at-{at}"
        with pytest.raises(BenchError):
            run(place, BreakingBench(elapsed, at))
        verdict, session, _ = run(place, FakeBench(elapsed), again=True)
        assert verdict.exit_status == 0
        assert figures(session) == figures(undisturbed), f"broken at request {at}"


def scan(**options: str) -> Program:
    """Return the program of a scan of three levels, whose trials are interleaved."""
    request = CommandRequest(
        commands=("work {n}",), factors=("n=2,1,3",), warmup="1", cleanup="cleanup", seed="5"
    )
    return program_from_command(msgspec.structs.replace(request, **options))


class OneByOne(BreakingBench):
    """A bench on which a trial takes so long that a request is one trial."""

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        request = msgspec.structs.replace(request, epochs=1)
        return super().run(request, abandoned=abandoned)


def test_interleaved_tests_are_listed_as_given_and_survive_any_crash(tmp_path: Path) -> None:
    program = scan(runs="4")
    names = ["work:n=2", "work:n=1", "work:n=3"]
    whole = OneByOne(elapsed, 1000)
    verdict, undisturbed, listener = run(tmp_path / "whole", whole, program)
    assert verdict.exit_status == 0
    assert list(figures(undisturbed)) == names
    assert [name for name, _ in listener.closed] != names
    order = [dict(r.environment)["BW_TEST"] for r in whole.requests]
    rounds = [order[at : at + 3] for at in range(0, 15, 3)]
    assert all(sorted(one) == sorted(names) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1, "each round has its own order"
    for at in range(len(whole.requests)):
        place = tmp_path / f"at-{at}"
        with pytest.raises(BenchError):
            run(place, OneByOne(elapsed, at), program)
        verdict, session, _ = run(place, OneByOne(elapsed, 1000), program, again=True)
        assert verdict.exit_status == 0
        assert figures(session) == figures(undisturbed), f"broken at request {at}"
        with contextlib.closing(Study.open_to_read(place)) as study:
            assert [test.plan.name for test in tests_of(study, 1)] == names


def test_interleaved_tests_end_by_their_own_rules(tmp_path: Path) -> None:
    bench = OneByOne(elapsed, 1000)
    _, session, listener = run(
        tmp_path / "study", bench, scan(precision="3%", min_runs="3", max_runs="40")
    )
    counts = [test.history().epochs for test in session.tests]
    assert len(set(counts)) > 1
    assert sorted(name for name, _ in listener.closed) == sorted(
        test.name for test in session.tests
    )


def test_a_crash_in_an_epoch_owes_its_cleanup(tmp_path: Path) -> None:
    with pytest.raises(BenchError):
        run(tmp_path / "study", BreakingBench(elapsed, 1))
    bench = FakeBench(elapsed)
    run(tmp_path / "study", bench, again=True)
    modes = [tuple(c.mode for c in r.commands) for r in bench.requests]
    assert modes[:3] == [("CLEANUP",), ("POSTCLEANUP",), ("PRESETUP",)]
    assert modes[3] == ("SETUP", "EXEC", "CLEANUP")


FAILING = """
FASTFAIL tell me
TEST t 4
  EXEC work
  POSTCLEANUP undo
DONE
"""


def test_fail_fast_ends_the_session_and_a_resume_tries_again(tmp_path: Path) -> None:
    bench = FakeBench(
        elapsed=lambda _r, e, _t: float(e),
        status=lambda r, e: int(e == 3 and r.commands[0].mode == "EXEC"),
    )
    # The launcher stops a batch at the failure; the fake does not, so one at a time.
    suite = FAILING.replace("TEST t 4", "TEST t 4\n  ECHO epoch")
    verdict, session, _ = run(tmp_path / "study", bench, suite)
    assert (verdict.status, verdict.exit_status) == ("failed", 1)
    assert [t.epoch for t in session.tests[0].trials] == [1, 2]
    assert bench.requests[-1].commands[0].mode == "FASTFAIL"
    assert all(r.commands[0].mode != "POSTCLEANUP" for r in bench.requests)
    mended = FakeBench(elapsed=lambda _r, e, _t: float(e))
    verdict, session, _ = run(tmp_path / "study", mended, suite, again=True)
    assert verdict.exit_status == 0
    assert [t.epoch for t in session.tests[0].trials] == [1, 2, 3, 4]
    assert mended.requests[-1].commands[0].mode == "POSTCLEANUP"


def test_without_fail_fast_a_failed_trial_is_counted_and_told(tmp_path: Path) -> None:
    bench = FakeBench(elapsed=lambda _r, e, _t: float(e), status=lambda _r, e: int(e == 2))
    suite = "TEST t 4\n  EXEC work\nDONE\n"
    verdict, session, _ = run(tmp_path / "study", bench, suite)
    assert (verdict.status, verdict.exit_status) == ("complete", 1)
    assert [t.ending for t in session.tests[0].trials].count(TrialEnding.FAILED) == 1


CHECKPOINTED = """
TEST before 2
  EXEC work
DONE
CHECKPOINT
IF RESTORE = 0
  SYSTEM reboot
  STOP
FI
TEST after 2
  EXEC work
DONE
"""


def quick(_request: RunRequest, epoch: int, _thread: int) -> float:
    return float(epoch)


def test_a_checkpoint_is_zero_when_written_and_one_when_resumed(tmp_path: Path) -> None:
    bench = FakeBench(quick)
    verdict, session, _ = run(tmp_path / "study", bench, CHECKPOINTED)
    assert (verdict.status, verdict.exit_status) == ("stopped", 0)
    assert list(figures(session)) == ["before"]
    assert bench.requests[-1].commands[0].argv == ("reboot",)
    after = FakeBench(quick)
    verdict, session, _ = run(tmp_path / "study", after, CHECKPOINTED, again=True)
    assert verdict.status == "complete"
    assert list(figures(session)) == ["before", "after"]
    assert all(r.commands[0].argv != ("reboot",) for r in after.requests)


EVERY_EPOCH = """
TEST cold 3
  CHECKPOINT
  IF RESTORE = 0
    SYSTEM reboot
    STOP
  FI
  PRESETUP once
  EXEC work
  POSTCLEANUP undo
DONE
"""


def test_a_checkpoint_between_epochs_reboots_each_time(tmp_path: Path) -> None:
    place = tmp_path / "study"
    commands: list[str] = []
    bench = FakeBench(quick)
    verdict, session, _ = run(place, bench, EVERY_EPOCH)
    commands += [r.commands[0].argv[0] for r in bench.requests]
    for _boot in range(10):
        if verdict.status != "stopped":
            break
        bench = FakeBench(quick)
        verdict, session, _ = run(place, bench, EVERY_EPOCH, again=True)
        commands += [r.commands[0].argv[0] for r in bench.requests]
    assert verdict.status == "complete"
    assert [t.epoch for t in session.tests[0].trials] == [1, 2, 3]
    assert commands == [
        *("reboot", "once", "work"),
        *("reboot", "work"),
        *("reboot", "work"),
        "undo",
    ]


class Pressed(FakeBench):
    """A bench during whose n-th request the user presses Ctrl-C."""

    def __init__(self, at: int) -> None:
        super().__init__(quick)
        self._left = at
        self.performer: Performer | None = None

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        result = super().run(request, abandoned=abandoned)
        self._left -= 1
        if self._left == 0 and self.performer is not None:
            self.performer.interrupt()
            return BatchResult(result.epochs[:-1], "interrupted")
        return result


def test_an_interrupt_suspends_the_test_and_a_resume_sets_it_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = "TEST t 4\n PRESETUP make\n EXEC work\n POSTCLEANUP undo\nDONE\n"
    bench = Pressed(at=2)
    made = Performer.__init__

    def remember(self: Performer, *arguments: object) -> None:
        made(self, *arguments)  # type: ignore[arg-type]
        bench.performer = self

    monkeypatch.setattr(Performer, "__init__", remember)
    verdict, session, _ = run(tmp_path / "study", bench, suite)
    assert (verdict.status, verdict.exit_status) == ("interrupted", 130)
    assert [t.epoch for t in session.tests[0].trials] == [1, 2, 3]
    assert [r.commands[0].argv[0] for r in bench.requests] == ["make", "work", "undo"]
    monkeypatch.undo()
    after = FakeBench(quick)
    verdict, session, _ = run(tmp_path / "study", after, suite, again=True)
    assert verdict.exit_status == 0
    assert [t.epoch for t in session.tests[0].trials] == [1, 2, 3, 4]
    assert [r.commands[0].argv[0] for r in after.requests] == ["make", "work", "undo"]
    assert after.requests[1].first_epoch == 4


def test_a_test_begun_again_after_a_restore_is_in_the_study_once(tmp_path: Path) -> None:
    """Found by killing: the crash came after the plan was recorded, before a trial."""
    suite = "CHECKPOINT\nTEST t 3\n EXEC work\nDONE\n"
    with pytest.raises(BenchError):
        run(tmp_path / "study", BreakingBench(elapsed, 0), suite)
    run(tmp_path / "study", FakeBench(quick), suite, again=True)
    with contextlib.closing(Study.open_to_read(tmp_path / "study")) as study:
        (test,) = tests_of(study, 1)
    assert [trial.epoch for trial in test.trials] == [1, 2, 3]


def test_a_record_of_an_observer_that_is_not_installed_is_named(tmp_path: Path) -> None:
    run(tmp_path / "study", FakeBench(quick), "TEST t 2\n EXEC work\nDONE\n")
    with contextlib.closing(Study.create_or_open(tmp_path / "study")) as study:
        (test,) = tests_of(study, 1)
        key = KeysOfTest(test.key).recorded("warmth")
        study.append(1, [NewEntry("outcome", key, {"kelvin": 300})])
        (test,) = tests_of(study, 1)
    assert "'warmth' is not shown" in parsed_test(test, tmp_path).notes[0]


def test_stop_in_a_test_leaves_it_in_order_where_no_checkpoint_waits(tmp_path: Path) -> None:
    suite = (
        "TEST t 3\n IF EPOCH = 2\n  STOP\n FI\n PRESETUP make\n EXEC work\n"
        " POSTCLEANUP undo\nDONE\n"
    )
    bench = FakeBench(quick)
    verdict, _session, _ = run(tmp_path / "study", bench, suite)
    assert verdict.status == "stopped"
    assert [r.commands[0].argv[0] for r in bench.requests] == ["make", "work", "undo"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing of a session handles it."""


class Dying(BreakingBench):
    """A bench with which `bw` is killed at its n-th request."""

    def run(
        self, request: RunRequest, *, abandoned: Callable[[], bool] = lambda: False
    ) -> BatchResult:
        try:
            return super().run(request, abandoned=abandoned)
        except BenchError:
            raise Killed from None


def argv0(bench: FakeBench) -> list[str]:
    """Return the programs that a bench was asked for, in order."""
    return [c.argv[0] for request in bench.requests for c in request.commands]


WHOLE = """
TEST t 2
  PRESETUP make
  SETUP begin
  EXEC work
  CLEANUP end
  POSTCLEANUP undo
DONE
"""
IN_ORDER = ["make", "begin", "work", "end", "undo"]


def test_a_crash_after_a_restored_checkpoint_owes_cleanup(tmp_path: Path) -> None:
    """The test's key changes with the restore; what is owed to it does not."""
    suite = f"CHECKPOINT{WHOLE}"
    with pytest.raises(Killed):
        run(tmp_path / "study", Dying(elapsed, 1), suite)
    after = FakeBench(quick)
    run(tmp_path / "study", after, suite, again=True)
    assert argv0(after) == ["end", "undo", *IN_ORDER]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_crash_of_a_resumed_session_is_no_interrupt(tmp_path: Path, at: int) -> None:
    """The journal's last end is the interrupt; the crash came later and said nothing."""
    with pytest.raises(Killed):
        run(tmp_path / "study", Dying(elapsed, 1), WHOLE)
    with contextlib.closing(Study.create_or_open(tmp_path / "study")) as study:
        study.end_session(1, "interrupted", "")
    with pytest.raises(Killed):
        run(tmp_path / "study", Dying(elapsed, at), WHOLE, again=True)
    after = FakeBench(quick)
    _verdict, session, _ = run(tmp_path / "study", after, WHOLE, again=True)
    assert [t.epoch for t in session.tests[0].trials] == [1, 2]
    owed = (["end", "undo"], ["undo"], ["undo"])[at]
    assert argv0(after) == [*owed, *IN_ORDER]


def test_a_cleanup_that_is_owed_is_that_of_its_own_epoch(tmp_path: Path) -> None:
    suite = "TEST t 3\n ECHO on\n EXEC work\n CLEANUP end %EPOCH%\nDONE\n"
    with pytest.raises(Killed):
        run(tmp_path / "study", Dying(elapsed, 1), suite)
    after = FakeBench(quick)
    run(tmp_path / "study", after, suite, again=True)
    assert after.requests[0].commands[0].argv == ("end", "2")


def test_a_termination_program_that_cannot_be_started_is_no_answer(tmp_path: Path) -> None:
    """Its 127 would be taken for "go on", without end."""
    suite = "TEST t 2 1 nosuch\n EXEC work\nDONE\n"
    absent = FakeBench(quick, status=lambda r, _e: 127 * (r.commands[0].mode == "PREDICATE"))
    with pytest.raises(BenchError, match="cannot be started"):
        run(tmp_path / "study", absent, suite)
    verdict, session, _ = run(tmp_path / "study", FakeBench(quick), suite, again=True)
    assert verdict.status == "complete"
    assert [t.epoch for t in session.tests[0].trials] == [1, 2]


def test_an_export_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """It is derived from the journal; the table is shown, and the trouble told."""
    place = tmp_path / "study"
    place.mkdir()
    with contextlib.closing(Study.create_or_open(place)):
        (place / "results").write_text("in the way")
    verdict, session, _ = run(place, FakeBench(quick), WHOLE)
    assert (verdict.status, verdict.exit_status) == ("complete", 0)
    assert "results/ is not complete" in verdict.detail
    assert len(session.tests[0].trials) == 2
