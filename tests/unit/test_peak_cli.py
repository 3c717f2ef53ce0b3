"""`bw peak`'s options and what is wrong with them; nothing is run here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import InputError
from benchwright.features.generators.adapter import GeneratorRequest
from benchwright.features.search.peak.experiment import peak_meaning
from benchwright.features.search.peak.policies.registry import (
    DEFAULT_POLICY,
    FORMER_POLICIES,
    POLICY_NAMES,
    policy_named,
)
from benchwright.features.search.requests import PeakPlan, PeakRequest
from benchwright.features.search.spec import Spec
from benchwright.features.search.types import Claim, ClaimKind
from benchwright.inputs.mistakes import SourceFile

COMMAND = PeakRequest(
    command="gen {rate} {duration}", response="/mean", limits=("40ms",), drawn_seed=9
)
SPEC = """
[load]
target = "http://127.0.0.1:8080/{page}"

[factors]
workers = [1, 2]
page = ["a", "b"]

[peak]
criteria = ["p99 response < 10ms"]
claim = "rate:5%"
start = "200"
"""


@pytest.mark.parametrize("command", ["peak", "ramp", "surface"])
def test_a_url_in_place_of_a_spec_names_the_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "http://127.0.0.1:1/x"]) == 2
    assert "= --target http://127.0.0.1:1/x" in capsys.readouterr().err


def asked(**words: object) -> tuple[Spec, PeakPlan]:
    """Return what a command line means."""
    return peak_meaning(msgspec.structs.replace(COMMAND, **words), None)


def asked_of_spec(text: str = SPEC, **words: object) -> tuple[Spec, PeakPlan]:
    """Return what a spec with options means."""
    request = msgspec.structs.replace(PeakRequest(drawn_seed=9), **words)
    return peak_meaning(request, SourceFile("server.toml", text))


def mistakes(**words: object) -> list[tuple[str, str]]:
    """Return place and message of what is wrong with a command line."""
    with pytest.raises(InputError) as caught:
        asked(**words)
    return [(one.file, one.message) for one in caught.value.diagnostics]


def test_a_generator_without_a_rate_is_refused_at_its_line() -> None:
    """[peak] is not there to refuse it: the limit is an option."""
    text = '[load]\ngenerator = "redis-benchmark"\n'
    with pytest.raises(InputError) as caught:
        asked_of_spec(text, limits=("1ms",))
    (one,) = caught.value.diagnostics
    assert (one.file, one.line, one.column) == ("server.toml", 2, 13)
    assert "redis-benchmark cannot be given a rate" in one.message


def test_what_is_not_said_has_its_default() -> None:
    _spec, plan = asked()
    assert plan.policy == DEFAULT_POLICY
    assert plan.claims == (Claim(ClaimKind.REGION, 0.10, 0.95),)
    assert plan.goal.start_rate == 50
    assert plan.goal.seed == 9, "drawn, and recorded with the request"
    (limit,) = plan.goal.criteria
    assert (limit.key, limit.limit, limit.unit) == ("response_ms_mean", 40.0, "ms")


def test_every_option_reaches_the_goal() -> None:
    _spec, plan = asked(
        claim="region:5%, rate:2%,slo:90%",
        confidence="99%",
        policy="binsearch",
        start="1k",
        lowest="10",
        highest="5k/s",
        budget="10m",
        run_length="30s",
        max_trials="7",
        seed="4",
    )
    goal = plan.goal
    assert plan.policy == "binsearch"
    assert plan.claims == (
        Claim(ClaimKind.REGION, 0.05, 0.99),
        Claim(ClaimKind.RATE, 0.02, 0.99),
        Claim(ClaimKind.SLO, 0.10, 0.90),
    )
    assert goal.claim == plan.claims[0]
    assert (goal.start_rate, goal.lowest_rate, goal.highest_rate) == (1000, 10, 5000)
    assert (goal.budget_s, goal.run_length_s, goal.max_trials) == (600, 30, 7)
    assert goal.seed == 4


def test_a_generator_of_whole_rates_is_asked_for_whole_rates() -> None:
    assert asked()[1].goal.rate_step is None
    assert asked(command="gen {rate:int} {duration}")[1].goal.rate_step == 1
    assert asked_of_spec()[1].goal.rate_step is None
    text = '[load]\ngenerator = "wrk2"\nurl = "http://127.0.0.1/"\n'
    text += '[peak]\ncriteria = ["40ms"]\n'
    assert asked_of_spec(text)[1].goal.rate_step == 1


@pytest.mark.parametrize(
    ("rate", "duration_s", "words"),
    [
        (50.0, 8.0, ("gen", "50", "8")),
        (236.34, 1.5, ("gen", "236.34", "1.5")),
        (1234500.0, 120.0, ("gen", "1234500", "120")),
        (0.00021, 10.0, ("gen", "0.00021", "10")),
    ],
)
def test_rate_and_duration_are_plain_numbers_and_need_no_shell(
    rate: float, duration_s: float, words: tuple[str, ...]
) -> None:
    spec, _plan = asked()
    trial = GeneratorRequest(duration_s=duration_s, rate=rate)
    (command,) = spec.load.settings.invocation(trial).commands
    assert command.argv == words


def test_a_shell_runs_only_what_a_user_wrote_for_one() -> None:
    spec, _plan = asked(command="gen {rate} {duration} | tail -1")
    trial = GeneratorRequest(duration_s=8.0, rate=50.0)
    (command,) = spec.load.settings.invocation(trial).commands
    assert command.argv == ("/bin/sh", "-c", "gen 50 8 | tail -1")


def test_a_spec_is_overruled_by_options_and_by_nothing_else() -> None:
    _spec, plain = asked_of_spec()
    assert plain.sample == (("workers", "1"), ("page", "a")), "the first levels"
    assert plain.goal.start_rate == 200
    assert plain.claims == (Claim(ClaimKind.RATE, 0.05, 0.95),)
    _spec, plan = asked_of_spec(
        start="300",
        claim="slo:99%",
        factors=("page=b",),
        limits=("p50 response < 1ms", "errors < 1%"),
        policy="linear",
    )
    assert plan.sample == (("workers", "1"), ("page", "b"))
    assert plan.goal.start_rate == 300
    assert plan.claims == (Claim(ClaimKind.SLO, 0.10, 0.99),)
    assert [one.key for one in plan.goal.criteria] == ["response_ms_p50", "error_ratio"]
    assert plan.policy == "linear"


def test_an_option_stands_above_the_key_and_below_it_the_others_stay() -> None:
    text = SPEC + 'confidence = "90%"\n'
    assert asked_of_spec(text)[1].claims == (Claim(ClaimKind.RATE, 0.05, 0.90),)
    (claim,) = asked_of_spec(text, claim="region:20%")[1].claims
    assert claim == Claim(ClaimKind.REGION, 0.20, 0.90)
    (claim,) = asked_of_spec(text, confidence="99%")[1].claims
    assert claim == Claim(ClaimKind.RATE, 0.05, 0.99)


@pytest.mark.parametrize(
    ("key", "words", "place"),
    [
        ("highest = 250\n", {"start": "300"}, ("server.toml", 13, 11)),
        ("highest = 250\n", {"highest": "100"}, ("--highest", 1, 1)),
        ("accuracy = 0.8\n", {}, ("server.toml", 13, 12)),
        ("accuracy = 0.8\n", {"accuracy": "90%"}, ("--accuracy", 1, 1)),
    ],
)
def test_a_mistake_is_where_its_text_is(
    key: str, words: dict[str, str], place: tuple[str, int, int]
) -> None:
    with pytest.raises(InputError) as caught:
        asked_of_spec(SPEC + key, **words)
    (one,) = caught.value.diagnostics
    assert (one.file, one.line, one.column) == place


def test_the_seed_of_a_spec_is_kept() -> None:
    assert asked_of_spec()[1].goal.seed == 9
    assert asked_of_spec(SPEC + "seed = 3\n")[1].goal.seed == 3
    assert asked_of_spec(SPEC + "seed = 3\n", seed="2")[1].goal.seed == 2


def test_every_mistake_of_a_command_line_is_told_at_once() -> None:
    found = mistakes(
        command="gen 5",
        response="mean",
        limits=("40",),
        claim="foo:1%,rate:5%",
        policy="nope",
        start="x",
        budget="0s",
        max_trials="0",
        seed="-1",
        confidence="10%",
        factors=("a",),
    )
    places = {
        *("--command", "--response", "--limit", "--claim", "--policy", "--start"),
        *("--budget", "--max-trials", "--seed", "--confidence", "-P"),
    }
    assert {place for place, _ in found} == places


@pytest.mark.parametrize(
    ("words", "place", "told"),
    [
        ({"limits": ("40",)}, "--limit", "no unit of time"),
        ({"limits": ()}, "--limit", "no limit is given"),
        ({"limits": ("p99 response < 4ms",)}, "--limit", "mean response"),
        ({"limits": ("40ms", "mean response < 50ms")}, "--limit", "two limits"),
        ({"policy": "nope"}, "--policy", "'nope' is not a policy"),
        ({"claim": "rate:5%,rate:5%"}, "--claim", "twice"),
        ({"claim": "rate:5%,"}, "--claim", "not a claim"),
        ({"lowest": "100"}, "--lowest", "above the first one"),
        ({"highest": "10"}, "--highest", "below the first one"),
        (
            {"command": "gen {rate:int}", "start": "0.2", "highest": "0.5"},
            "--highest",
            "cannot produce a rate of 0.5/s or less",
        ),
        ({"command": "gen {users}"}, "--command", "{rate}"),
        ({"command": "gen {rate} {duratoin}"}, "--command", "mean {duration}"),
        ({"series": "mean"}, "--series", ""),
        ({"seed": "9" * 30}, "--seed", "too large"),
        ({"accuracy": "90%"}, "--accuracy", "policy monotone has no accuracy"),
        ({"step": "5", "policy": "binsearch"}, "--step", "binsearch has no step"),
        ({"trials": "5", "policy": "linear"}, "--trials", "linear has no trials"),
        ({"accuracy": "100%", "policy": "linear"}, "--accuracy", "below 100%"),
        ({"trials": "0", "policy": "strawman"}, "--trials", "0"),
    ],
)
def test_a_mistake_is_told_at_its_option(words: dict[str, object], place: str, told: str) -> None:
    ((found, message),) = mistakes(**words)
    assert found == place
    assert told in message


def test_errors_that_a_command_reports_are_limited() -> None:
    def limits(**words: object) -> list[tuple[str, float]]:
        _, plan = asked(**words)
        return [(one.key, one.limit) for one in plan.goal.criteria]

    mean = ("response_ms_mean", 40.0)
    assert limits() == [mean]
    assert limits(errors="/failed") == [mean, ("error_ratio", 0.01)]
    own = ("40ms", "errors < 5%")
    assert limits(errors="/failed", limits=own) == [mean, ("error_ratio", 0.05)]
    ((place, told),) = mistakes(limits=own)
    assert place == "--limit"
    assert "only a mean response" in told


@pytest.mark.parametrize("name", ["errors", "offered", "late", "target_response"])
def test_a_pointer_that_is_none_is_told_at_its_option(name: str) -> None:
    ((place, told),) = mistakes(**{name: "failed"})
    assert place == f"--{name.replace('_', '-')}"
    assert "/failed is a JSON pointer" in told


def test_an_unknown_policy_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--command", "true {rate}", "--response", "/m", "--limit", "4ms"]
    assert main(["peak", *words, "--policy", "nope"]) == 2
    told = capsys.readouterr().err
    assert all(name in told for name in POLICY_NAMES)


def test_a_program_that_is_not_there_is_told_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--command", "no-such-gen {rate}", "--response", "/m", "--limit", "4ms"]
    assert main(["peak", *words]) == 2
    assert "no-such-gen" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [], "no study was begun"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "there is nothing to search"),
        (["--command", "gen {rate}"], "the mean response time is missing"),
        (["a.toml", "--command", "gen {rate}", "--response", "/m"], "a spec too"),
        (["a.toml", "--response", "/m"], "is for --command"),
        (["absent.toml"], "there is no file"),
        (["--", "gen"], "cannot take a rate"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peak", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        (("pages=a",), "no factor 'pages'"),
        (("page=c",), "no level 'c'"),
        (("page=a", "page=b"), "twice"),
    ],
)
def test_a_sample_is_one_of_the_specs(factors: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError) as caught:
        asked_of_spec(factors=factors)
    assert told in str(caught.value)


@pytest.mark.parametrize("former", sorted(FORMER_POLICIES))
def test_a_policy_that_a_former_version_had_is_its_successor(former: str) -> None:
    """On the command line, in a spec, and in a request that a former version stored."""
    assert asked(policy=former)[1].policy == DEFAULT_POLICY
    spec = SPEC + f'policy = "{former}"\n'
    assert asked_of_spec(spec)[1].policy == DEFAULT_POLICY
    stored = msgspec.json.decode(
        msgspec.json.encode(COMMAND)[:-1] + f',"policy":"{former}"}}'.encode(), type=PeakRequest
    )
    assert peak_meaning(stored, None)[1].policy == DEFAULT_POLICY
    assert policy_named(former).name == DEFAULT_POLICY
    # An input of another policy is refused by the name that the search has now.
    ((place, message),) = mistakes(policy=former, accuracy="90%")
    assert place == "--accuracy"
    assert f"policy {DEFAULT_POLICY} has no accuracy" in message


def test_a_policy_of_a_spec_is_told_at_its_line() -> None:
    with pytest.raises(InputError) as caught:
        asked_of_spec(SPEC + 'policy = "nope"\n')
    (one,) = caught.value.diagnostics
    assert (one.file, one.line) == ("server.toml", 13)
    assert one.column > 1


def test_inputs_of_the_published_policies_come_from_options_and_keys() -> None:
    spec = SPEC + 'policy = "strawman"\nstep = "20"\ntrials = 4\n'
    goal = asked_of_spec(spec)[1].goal
    assert (goal.increment, goal.trials_each, goal.accuracy) == (20.0, 4, None)
    linear = asked_of_spec(spec, policy="linear", step="7", accuracy="95%")[1].goal
    assert (linear.increment, linear.accuracy) == (7.0, 0.95)


def test_an_input_that_the_specs_policy_does_not_have_is_refused_at_its_line() -> None:
    with pytest.raises(InputError) as caught:
        asked_of_spec(SPEC + "trials = 4\n")
    (one,) = caught.value.diagnostics
    assert (one.file, one.line) == ("server.toml", 13)
    assert "policy monotone has no trials" in one.message


def test_a_spec_without_criteria_needs_a_limit() -> None:
    bare = SPEC.partition("[peak]")[0]
    with pytest.raises(InputError) as caught:
        asked_of_spec(bare)
    assert "neither criteria in [peak]" in str(caught.value)
    assert asked_of_spec(bare, limits=("40ms",))[1].goal.criteria[0].limit == 40
