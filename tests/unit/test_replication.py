"""Levels of replication: seeds, the setting of a trial, and the request that carries it."""

from __future__ import annotations

from benchwright.core.plan import (
    AS_PLANNED,
    Command,
    CommandMode,
    FixedCount,
    LevelKind,
    Phases,
    ReplicateLevel,
    Replication,
    TestPlan,
    TrialSetting,
)
from benchwright.core.replication import directory_name, seed_of, setting_of
from benchwright.trial.protocol import ExecEnvironment, command_request, epochs_request

TWO = Replication(
    (
        ReplicateLevel(LevelKind.ENV, 3),
        ReplicateLevel(LevelKind.BUILD, 2, command="make SEED={seed}"),
    ),
    seed=7,
)
PLAN = TestPlan(
    name="a",
    stopping=FixedCount(3),
    phases=Phases(
        setup=(Command(("touch", "{n}")),),
        exec=(Command(("prog", "--n={n}", "{other}", "{seed}")),),
    ),
    environment=(("A", "1"),),
)
AROUND = ExecEnvironment("/somewhere", (("PATH", "/bin"),))


def test_a_seed_is_a_function_of_the_design_and_the_path() -> None:
    seeds = [seed_of(TWO, path) for path in ((1,), (2,), (1, 1), (1, 2), (2, 1))]
    assert len(set(seeds)) == 5
    # Stored sessions continue with these.
    assert seeds[0] == 1776349961


def test_inner_replicates_of_one_outer_replicate_share_its_padding() -> None:
    first, second, other = (setting_of(TWO, path) for path in ((1, 1), (1, 2), (2, 1)))
    assert first.environment == second.environment != other.environment
    assert first.substitutions != second.substitutions
    assert all(len(value) < 4096 for _, value in first.environment)


def test_paddings_and_lengths_of_directories_spread() -> None:
    levels = (ReplicateLevel(LevelKind.ENV), ReplicateLevel(LevelKind.DIRECTORY))
    design = Replication(levels, seed=1)
    sizes = {len(setting_of(design, (number,)).environment[0][1]) for number in range(1, 41)}
    assert len(sizes) > 30
    lengths = {len(directory_name(design, (number, 1))) for number in range(1, 41)}
    assert len(lengths) > 20
    assert max(lengths) <= 200


def test_the_setting_is_in_the_request_of_its_trials() -> None:
    setting = TrialSetting(
        path=(1, 2),
        drawn=(("n", "{seed}"),),
        environment=(("BW_PADDING", "xx"), ("A", "2")),
        directory="/elsewhere",
        substitutions=(("seed", "5"),),
    )
    request = epochs_request(PLAN, 4, 2, AROUND, "logs", setting)
    assert dict(request.environment)["A"] == "2"
    assert dict(request.environment)["BW_PADDING"] == "xx"
    assert request.directory == "/elsewhere"
    assert [command.argv for command in request.commands] == [
        ("touch", "{seed}"),
        ("prog", "--n={seed}", "{other}", "5"),
    ]
    once = command_request(CommandMode.PRESETUP, PLAN.phases.setup, AROUND, "logs", (), setting)
    assert once.directory == "/elsewhere"


def test_a_trial_as_planned_has_the_plan_s_request() -> None:
    request = epochs_request(PLAN, 1, 3, AROUND, "logs", AS_PLANNED)
    assert request == epochs_request(PLAN, 1, 3, AROUND, "logs")
    assert request.commands[1].argv == ("prog", "--n={n}", "{other}", "{seed}")
