"""Sessions with levels of replication on the fake bench: paths, settings, warm-up, resume."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchwright.core.comparison import ComparisonResult, GateOutcome, Verdict
from benchwright.core.errors import BenchError, InputError
from benchwright.core.plan import LevelKind, Replicated, ReplicateLevel, Replication
from benchwright.core.replication import PADDING, starts_cold
from benchwright.decide.history import History, ReplicateOutcome
from benchwright.decide.replicated import decide_replicated, next_in_order
from benchwright.findings.comparison import comparison_findings
from benchwright.findings.result import TestResult
from benchwright.report.answer import answer_of
from benchwright.report.replicates import population_sentences
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.run.performer import Performer
from benchwright.run.replicates import visit_ns
from benchwright.run.session import Session
from benchwright.study.journal import Study
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.suite.compile import load
from benchwright.suite.program import Program
from benchwright.suite.values import replicate_level
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment, RunRequest
from breaking_bench import BreakingBench
from session_infos import suite_info

ENV, BUILD = ReplicateLevel(LevelKind.ENV, 3), ReplicateLevel(LevelKind.BUILD, 2, "make {seed}")


def in_order(replication: Replication) -> list[tuple[int, ...]]:
    outcomes: list[ReplicateOutcome] = []
    while (path := next_in_order(replication, outcomes)) is not None:
        outcomes.append(ReplicateOutcome(path, {"elapsed": 1.0}, 5))
    return [one.path for one in outcomes]


def test_outer_replicates_are_completed_one_after_the_other() -> None:
    paths = in_order(Replication((ENV, BUILD), 1, trials=2))
    each = [(outer, inner) for outer in (1, 2, 3) for inner in (1, 2)]
    assert paths == [path for path in each for _ in range(2)]


@pytest.mark.parametrize("outer", [(), (BUILD,)])
def test_environments_take_turns_in_random_order(outer: tuple[ReplicateLevel, ...]) -> None:
    replication = Replication((*outer, ENV), 1, trials=4)
    paths = in_order(replication)
    rounds = [tuple(paths[at : at + 3]) for at in range(0, len(paths), 3)]
    assert len(rounds) == (8 if outer else 4)
    assert all(sorted(one[-1] for one in each) == [1, 2, 3] for each in rounds)
    assert all(len({one[:-1] for one in each}) == 1 for each in rounds), "within a build"
    assert [each[0][:-1] for each in rounds] == sorted(each[0][:-1] for each in rounds)
    assert len(set(rounds)) > 1, "not always in the same order"
    assert paths == in_order(replication)
    assert paths != in_order(msgspec.structs.replace(replication, seed=2))


def test_the_turn_of_a_trial_that_does_not_count_is_repeated() -> None:
    rule = Replicated(Replication((ENV,), 1, trials=4))
    first = decide_replicated(rule, History())
    void = ReplicateOutcome(first.path, None, 5, (), False)  # type: ignore[union-attr]
    assert decide_replicated(rule, History(outcomes=(void,))) == first
    counted = ReplicateOutcome(first.path, {"elapsed": 1.0}, 5)  # type: ignore[union-attr]
    following = decide_replicated(rule, History(trials=1, outcomes=(void, counted)))
    assert following.epochs == first.epochs == 1  # type: ignore[union-attr]
    assert following.path != first.path  # type: ignore[union-attr]


def test_a_batch_has_what_its_replicate_lacks() -> None:
    rule = Replicated(Replication((BUILD,), 1, trials=4))
    some = (ReplicateOutcome((1,), {"elapsed": 1.0}, 5, (), False), ReplicateOutcome((1,), None, 5))
    more = decide_replicated(rule, History(trials=0, failed=1, outcomes=some))
    assert (more.epochs, more.path) == (3, (1,))  # type: ignore[union-attr]


def test_only_what_is_new_starts_cold() -> None:
    design = Replication((BUILD, ENV), 1)
    assert starts_cold(design, (), (1, 1))
    assert not starts_cold(design, (1, 1), (1, 2))
    assert starts_cold(design, (1, 2), (2, 1))


def test_visits_are_within_their_parts_of_the_span() -> None:
    level = ReplicateLevel(LevelKind.TIME, 5, spread_ns=1000)
    times = [visit_ns(Replication((level,), 3), level, (number,)) for number in range(1, 6)]
    assert times[0] == 0
    assert all(250 * at <= time <= 250 * (at + 1) for at, time in enumerate(times[1:]))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rack=3", "is not a level"),
        ("env=1", "not a number of replicates"),
        ("build=3", "build has no command"),
        ("env=3:make", "env has no command"),
        ("aslr=maybe", "aslr is on or off"),
        ("env", "a level has no number"),
        ("time=3", "time has no span"),
        ("process=3", "each trial is a new process already"),
    ],
)
def test_a_wrong_level_is_reported_at_its_option(word: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        program_from_command(CommandRequest(("true",), replicate=(word,)))
    assert [one.file for one in caught.value.diagnostics] == ["--replicate"]
    assert message in caught.value.diagnostics[0].message


def test_a_level_is_read_from_its_text() -> None:
    assert replicate_level("build=5:make SEED={seed}:x") == ReplicateLevel(
        LevelKind.BUILD, 5, "make SEED={seed}:x"
    )
    assert replicate_level("aslr=off") is None


# -- sessions on the fake bench ------------------------------------------------------------


class Silent:
    """A progress listener that ignores everything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def slower_with_padding(request: RunRequest, epoch: int, _thread: int) -> float:
    padding = len(dict(request.environment).get(PADDING, ""))
    return 1.0 + padding / 10_000 + epoch % 2 / 1000


def run(place: Path, bench: FakeBench, program: Program, *, again: bool = False) -> Session:
    (place / "work").mkdir(exist_ok=True, parents=True)
    with contextlib.closing(Study.create_or_open(place / "study")) as study:
        cut = ()
        if again:
            number = study.sessions()[-1].number
            cut = recover(study, number, f"{CRASH_CAUSE}: test").cut
        else:
            number = study.begin_session(suite_info(""))
        ledger = Ledger(study, number)
        around = ExecEnvironment(str(place / "work"), ())
        performer = Performer(bench, around, study.path, number)
        session = Session(program, ledger, performer, Silent(), cut)  # type: ignore[arg-type]
        session.run({}, {})
        return session


def replicated(*levels: str, **options: str) -> Program:
    options = {"runs": "4", "seed": "5"} | options
    return program_from_command(CommandRequest(("work", "{seed}"), replicate=levels, **options))  # type: ignore[arg-type]


def trials_of(session: Session) -> list[tuple[tuple[int, ...], int, bool]]:
    (test,) = session.tests
    return [(trial.path, trial.epoch, trial.warmup) for trial in test.trials]


def test_each_trial_has_the_environment_whose_turn_it_is(tmp_path: Path) -> None:
    bench = BreakingBench(slower_with_padding)
    session = run(tmp_path, bench, replicated("env=3"))
    paddings = [len(dict(request.environment)[PADDING]) for request in bench.requests]
    assert len(set(paddings)) == 3
    assert [request.epochs for request in bench.requests] == [1] * 12
    paths = [path for path, _, _ in trials_of(session)]
    assert [sorted(paths[at : at + 3]) for at in range(0, 12, 3)] == [[(1,), (2,), (3,)]] * 4


def test_the_interval_is_about_environments(tmp_path: Path) -> None:
    session = run(tmp_path, BreakingBench(slower_with_padding), replicated("env=5"))
    (test,) = session.tests
    result = TestResult(test.name, whole_trials=tuple(test.trials), rule=test.rule, stop=test.stop)
    (row,) = answer_of([result]).tests
    assert row.estimate is not None
    assert row.population is not None
    env, trial = row.population.levels
    assert (env.level, env.replicates, trial.replicates) == ("env", 5, 20)
    assert env.spread > 20 * trial.spread
    assert env.share_of_error > 0.99
    first, second = population_sentences(row.population, "s")
    assert first.endswith(": more trials of one environment cannot help")
    assert second.startswith("the next environment will show ")


@pytest.mark.parametrize("breaks_at", range(6))
def test_a_session_that_broke_continues_the_same_design(tmp_path: Path, breaks_at: int) -> None:
    program = replicated("directory=2", "env=2", warmup="1")
    whole = run(tmp_path / "whole", BreakingBench(slower_with_padding), program)
    with contextlib.suppress(BenchError):
        run(tmp_path, BreakingBench(slower_with_padding, breaks_at), program)
    resumed = run(tmp_path, BreakingBench(slower_with_padding), program, again=True)
    assert trials_of(resumed) == trials_of(whole)
    assert not (tmp_path / "study" / "replicates").exists()


def test_warm_up_trials_are_where_files_are_new(tmp_path: Path) -> None:
    session = run(
        tmp_path, BreakingBench(slower_with_padding), replicated("directory=2", "env=2", warmup="1")
    )
    warm = [path for path, _, warmup in trials_of(session) if warmup]
    assert [outer for outer, _ in warm] == [1, 2]
    counted = [path for path, _, warmup in trials_of(session) if not warmup]
    assert [counted.count(path) for path in ((1, 1), (1, 2), (2, 1), (2, 2))] == [4, 4, 4, 4]


def test_a_directory_is_a_copy_of_seeded_length(tmp_path: Path) -> None:
    (tmp_path / "work" / "deep").mkdir(parents=True)
    (tmp_path / "work" / "deep" / "file").write_text("x")
    (tmp_path / "work" / "link").symlink_to("deep/file")
    found: list[list[str]] = []

    def look(request: RunRequest, _epoch: int, _thread: int) -> float:
        found.append(sorted(path.name for path in Path(request.directory).rglob("*")))
        return 1.0

    bench = FakeBench(look)
    run(tmp_path, bench, replicated("directory=3"))
    places = {request.directory for request in bench.requests}
    assert len({len(place) for place in places}) == 3
    assert all(str(tmp_path / "study") in place for place in places)
    assert {tuple(names) for names in found} == {("deep", "file", "link")}
    assert not (tmp_path / "study" / "replicates").exists()


def test_builds_run_in_a_copy_with_their_seeds(tmp_path: Path) -> None:
    bench = BreakingBench(slower_with_padding)
    run(tmp_path, bench, replicated("build=3:make SEED={seed}", "env=2"))
    builds = [request for request in bench.requests if request.commands[0].mode == "PRESETUP"]
    texts = [request.commands[0].argv[2] for request in builds]
    assert len(set(texts)) == 3
    (place,) = {request.directory for request in bench.requests}
    assert place != str(tmp_path / "work")
    seeds = [text.removeprefix("make SEED=") for text in texts]
    works = [
        request.commands[0].argv[1]
        for request in bench.requests
        if request.commands[0].mode == "EXEC"
    ]
    assert works == [seed for seed in seeds for _ in range(2 * 4)]


def test_a_failed_build_ends_the_session(tmp_path: Path) -> None:
    bench = FakeBench(
        slower_with_padding, status=lambda request, _: request.commands[0].mode == "PRESETUP"
    )
    session = run(tmp_path, bench, replicated("build=3:make SEED={seed}"))
    assert trials_of(session) == []
    assert not (tmp_path / "study" / "replicates").exists()


def test_a_directory_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("x" * 100)
    monkeypatch.setattr("benchwright.run.replicates.COPY_LIMIT_BYTES", 99)
    with pytest.raises(BenchError) as caught:
        run(tmp_path, BreakingBench(slower_with_padding), replicated("directory=3"))
    assert caught.value.code == "replicate-too-large"


# -- comparisons -----------------------------------------------------------------------------

ARMS = ("work a", "work b")


def compared(*levels: str, **options: object) -> Program:
    request = ComparisonRequest(ARMS, names=("a", "b"), seed="7", replicate=levels)
    return program_from_comparison(msgspec.structs.replace(request, **options))


class Interacting(BreakingBench):
    """Arm b is slower by a share that depends on the environment alone."""

    def __init__(self, breaks_at: int = 10**6, mean: float = 0.0) -> None:
        def elapsed(request: RunRequest, epoch: int, _thread: int) -> float:
            padding = len(dict(request.environment)[PADDING])
            chance = padding * 2654435761 % 1000 / 1000 - 0.5
            is_b = "b" in request.commands[0].argv
            return (1 + epoch % 3 / 10_000) * (1 + is_b * (mean + 0.04 * chance))

        super().__init__(elapsed, breaks_at)


def result_of(session: Session) -> ComparisonResult:
    (comparison,) = session.comparisons
    assert comparison.result is not None
    return comparison.result


def test_arms_of_a_block_share_their_replicate(tmp_path: Path) -> None:
    bench = Interacting()
    session = run(tmp_path, bench, compared("directory=2", "env=3", max_blocks="12"))
    seen = [(r.directory, len(dict(r.environment)[PADDING])) for r in bench.requests]
    assert len(set(seen)) == 6
    one, other = (
        [trial.path for trial in test.trials if not trial.warmup] for test in session.tests
    )
    assert one == other
    turns = [one[at : at + 3] for at in range(0, 12, 3)]
    assert [sorted(each) for each in turns] == [
        [(d, e) for e in (1, 2, 3)] for d in (1, 2) for _ in "ab"
    ]
    warm = [trial.path for trial in session.tests[0].trials if trial.warmup]
    assert [outer for outer, _ in warm] == [1, 2], "where files are new"


def test_a_verdict_is_about_environments_and_not_about_blocks(tmp_path: Path) -> None:
    """The mean of the blocks' ratios is far from 1 by their own spread, not by the environments'."""
    blocks = compared()
    plain = FakeBench(
        lambda r, e, _: (1 + e % 3 / 10_000) * (1 + ("b" in r.commands[0].argv) * 0.008)
    )
    within = result_of(run(tmp_path / "one", plain, blocks)).verdicts[0]
    assert within.verdict is not None
    assert within.ratio.high - within.ratio.low < 0.002
    over = result_of(run(tmp_path, Interacting(mean=0.008), compared("env=6"))).verdicts[0]
    assert over.ratio.low < 1 < over.ratio.high
    assert over.population is not None
    env, block = over.population.levels
    assert (env.level, block.level) == ("env", "block")
    assert env.share_of_error > 0.99
    assert over.ratio.method == "nested-means"
    low, high = over.population.next_replicate
    assert low < over.ratio.low
    assert over.ratio.high < high


def test_a_difference_in_every_environment_is_found(tmp_path: Path) -> None:
    fails = ("slower by 3%",)
    session = run(tmp_path, Interacting(mean=0.2), compared("env=8", fail_if=fails))
    assert result_of(session).verdicts[0].verdict is Verdict.SLOWER
    assert [gate.outcome for gate in result_of(session).gates] == [GateOutcome.FAILED]


def test_a_level_without_a_number_goes_on_until_the_interval_is_narrow(tmp_path: Path) -> None:
    result = result_of(run(tmp_path, Interacting(mean=0.2), compared("env")))
    assert result.stop.reason == "precise"
    verdict = result.verdicts[0]
    assert verdict.verdict is Verdict.SLOWER
    assert 6 <= result.blocks <= 60
    assert verdict.ratio.high / verdict.ratio.low < 1.02
    assert "the interval is narrow enough" in result.stop.detail
    few = result_of(run(tmp_path / "few", Interacting(), compared("env", max_blocks="6")))
    assert few.stop.reason == "max-blocks"
    assert few.blocks == 6


@pytest.mark.parametrize("breaks_at", [1, 7, 12])
def test_a_broken_comparison_continues_the_same_design(tmp_path: Path, breaks_at: int) -> None:
    program = compared("env=3")
    whole = run(tmp_path / "whole", Interacting(), program)
    with contextlib.suppress(BenchError):
        run(tmp_path, Interacting(breaks_at), program)
    resumed = run(tmp_path, Interacting(), program, again=True)
    found, wanted = (msgspec.json.encode(result_of(one).verdicts) for one in (resumed, whole))
    assert found == wanted


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (
            {"replicate": ("env",), "is_null": True, "commands": ARMS[:1], "names": ("a",)},
            "--replicate",
        ),
        ({"design": "sequence"}, "--replicate"),
        ({"mode": "watch"}, "--mode"),
        ({"replicate": ("process=3",)}, "--replicate"),
    ],
)
def test_what_a_comparison_cannot_replicate_is_refused(
    options: dict[str, object], option: str
) -> None:
    with pytest.raises(InputError) as caught:
        compared("env=3", **options)
    assert {one.file for one in caught.value.diagnostics} == {option}


def test_a_null_comparison_stores_what_levels_cost_and_others_are_held_against_it(
    tmp_path: Path,
) -> None:
    program = compared("env=6", commands=ARMS[:1], names=("a",), is_null=True)
    bench = BreakingBench(slower_with_padding)
    null = result_of(run(tmp_path, bench, program)).null
    assert null is not None
    (floor,) = [one for one in null.floors if one.metric == "elapsed"]
    assert floor.levels is not msgspec.UNSET
    assert [one.level for one in floor.levels] == ["env", "trial"]
    caused = floor.levels[0].spread
    assert caused > 0.02
    plain = compared(null=null)
    for size, is_doubtful in ((caused, True), (10 * caused, False)):
        bench = FakeBench(
            lambda r, e, _, size=size: (
                (1 + e % 3 / 10_000) * (1 + ("b" in r.commands[0].argv) * size)
            )
        )
        result = result_of(run(tmp_path / str(size), bench, plain))
        assert result.verdicts[0].verdict is Verdict.SLOWER
        codes = [finding.code for finding in comparison_findings(result)]
        assert ("one-replicate" in codes) is is_doubtful
    over = msgspec.structs.replace(result.rule, replication=Replication((ENV,), 1, 2))
    small = msgspec.structs.replace(
        result,
        rule=over,
        verdicts=(
            msgspec.structs.replace(
                result.verdicts[0],
                ratio=msgspec.structs.replace(result.verdicts[0].ratio, value=1.0001),
            ),
        ),
    )
    assert "one-replicate" not in [finding.code for finding in comparison_findings(small)]


# -- processes that PRESETUP starts ------------------------------------------------------------

SERVED = """
[replicate]
levels = ["directory=2", "process=2", "env=2"]
[[test]]
name = "t"
presetup = "start"
exec = "work"
postcleanup = "stop"
until = { runs = 1 }
"""


def served() -> Program:
    return load("s.toml", {"s.toml": SERVED}.__getitem__)


def seen_by(bench: FakeBench) -> list[tuple[str, str]]:
    """Return the program of each request, and the directory in which it ran."""
    return [(one.commands[0].argv[0], Path(one.directory).name) for one in bench.requests]


def test_a_process_is_started_in_its_directory_and_stopped_there(tmp_path: Path) -> None:
    bench = FakeBench(lambda *_: 1.0)
    run(tmp_path, bench, served())
    programs = [program for program, _ in seen_by(bench)]
    assert programs == ["start", "work", "work", "stop"] * 4
    places = [place for _, place in seen_by(bench)]
    first, second = places[0], places[8]
    assert first != second
    assert places == [first] * 8 + [second] * 8
    started = [
        dict(one.environment) for one in bench.requests if one.commands[0].argv == ("start",)
    ]
    assert all(PADDING not in environment for environment in started), "env is inside of process"


@pytest.mark.parametrize("breaks_at", range(1, 9))
def test_a_process_that_a_crash_left_is_stopped_where_it_ran(
    tmp_path: Path, breaks_at: int
) -> None:
    broken = BreakingBench(slower_with_padding, breaks_at)
    broken._elapsed = lambda *_: 1.0
    with contextlib.suppress(BenchError):
        run(tmp_path, broken, served())
    bench = FakeBench(lambda *_: 1.0)
    session = run(tmp_path, bench, served(), again=True)
    paths = [path for path, _, _ in trials_of(session)]
    assert [path[:2] for path in paths] == [(d, p) for d in (1, 2) for p in (1, 2) for _ in "ab"]
    assert len(set(paths)) == 8
    both = [*seen_by(broken), *seen_by(bench)]
    running = ""
    for program, place in both:
        if program == "start":
            assert not running
            running = place
        elif program == "stop":
            running = ""
        else:
            assert running == place
    assert not running
