"""`bw ramp`: what users get wrong, what specs and options mean, a ramp cut and resumed."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.errors import BenchError, InputError
from benchwright.core.plan import Pairs
from benchwright.features.load.plan import LoadEnding, LoadSeries, LoadTrial, Probe
from benchwright.features.search.ramp.experiment import (
    ramp_meaning,
    ramp_search,
    ramp_verdict,
    wanted_of,
)
from benchwright.features.search.ramp.types import RampAxis, RampGoal, RampResult, RampStatus
from benchwright.features.search.requests import RampPlan, RampRequest
from benchwright.features.search.session import run_search
from benchwright.inputs.mistakes import SourceFile
from benchwright.run.ledger import CRASH_CAUSE, Ledger, recover
from benchwright.study.journal import SessionInfo, Study
from session_infos import session_info

GEN = """
import json, math, sys
n, seconds = float(sys.argv[1]), float(sys.argv[2])
x = 100 * n / (1 + 0.05 * (n - 1) + 0.004 * n * (n - 1))
rows = [[at, round(x * (1 + 0.02 * math.sin(12.9 * (n + at)))), n / x * 1e3]
        for at in range(int(seconds))]
print(json.dumps({"tps": x, "mean": n / x * 1e3, "rows": rows, "bad": 0.0}))
"""
SPEC = """
[load]
generator = "command"
command = "GEN {users} {duration}"
values = { throughput_per_s = "/tps", response_ms_mean = "/mean" }

[factors]
workers = [1, 2]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in an empty directory with a generator in it."""
    (tmp_path / "gen.py").write_text(GEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: str) -> list[str]:
    """Return a ramp of the generator."""
    gen = f"{sys.executable} gen.py {{users}} {{duration}}"
    told = ("--throughput", "/tps", "--response", "/mean", "--series", "/rows")
    return ["ramp", "--command", gen, *told, "--quiet", "--seed", "3", *words]


def plan_of(ramp: str, **said: Any) -> RampPlan:
    """Return what a spec with this [ramp] means."""
    source = SourceFile("server.toml", f"{SPEC}\n[ramp]\n{ramp}\n")
    return ramp_meaning(RampRequest(**said), source)[1]


def mistakes(ramp: str, **said: Any) -> str:
    """Return what is told of a spec with mistakes."""
    with pytest.raises(InputError) as caught:
        plan_of(ramp, **said)
    return str(caught.value)


def test_a_spec_says_the_levels_and_an_option_wins() -> None:
    text = 'start = 2\nstep = 3\nhighest = 20\nhold = "4s"\nrepeats = 5'
    plan = plan_of(text, highest="10", growth="10%")
    assert plan.goal == RampGoal(
        start=2, step=3, highest=10, hold_s=4, repeats=5, most_repeats=5, growth=0.1
    )
    assert plan.sample == (("workers", "1"),)


def test_a_ramp_that_begins_high_has_levels_to_rise_to() -> None:
    assert plan_of("start = 5000").goal.highest == 80_000
    assert plan_of("start = 5000\nhighest = 6000").goal.highest == 6000
    assert plan_of("start = 4").goal.highest == 1024


def test_every_mistake_is_told_at_its_line_or_option() -> None:
    told = mistakes(
        'start = 0\nfactor = 1\nhold = "3"\ngrowth = "120%"\nfoo = 1', factors=("workers=9",)
    )
    for part in ("server.toml:11:9:", ":12:10:", ":13:8:", ":14:10:", ":15:1:"):
        assert part in told, part
    assert "unknown key 'foo'" in told
    later = mistakes("step = 2", factor="2", repeats="0")
    assert "server.toml:11:8: levels rise by a factor or by a step" in later
    assert "--repeats" in later
    assert "factor workers has no level '9'" in mistakes("", factors=("workers=9",))


@pytest.mark.parametrize(
    ("ramp", "told"),
    [
        ("start = 2.5", "users are whole"),
        ("start = 8\nhighest = 4", "the highest level, 4, is below the first one, 8"),
        ('axis = "rate"', "command cannot be given rate here"),
        ('axis = "time"', "time"),
    ],
)
def test_what_does_not_fit_is_told(ramp: str, told: str) -> None:
    assert told in mistakes(ramp)


def test_a_command_without_throughput_is_refused() -> None:
    silent = SPEC.replace('throughput_per_s = "/tps", ', "")
    with pytest.raises(InputError, match="the throughput is not reported"):
        ramp_meaning(RampRequest(), SourceFile("server.toml", silent))


def test_a_series_alone_is_a_throughput_of_users_only() -> None:
    """A series may count arrivals, which go on whatever the server does."""
    silent = SPEC.replace('throughput_per_s = "/tps", ', "")
    silent = silent.replace("\n[factors]", 'series = "/rows"\n\n[factors]')
    assert ramp_meaning(RampRequest(), SourceFile("s.toml", silent))[1].goal
    open_loop = silent.replace("{users}", "{rate}")
    with pytest.raises(InputError, match=r"s\.toml:5:.*a series may count"):
        ramp_meaning(RampRequest(), SourceFile("s.toml", open_loop))
    bare = RampRequest(command="g {rate}", series="/rows")
    with pytest.raises(InputError, match="--throughput: a series may count"):
        ramp_meaning(bare, None)


def test_a_placeholder_that_nothing_fills_is_told() -> None:
    both = SPEC.replace("{users}", "{users} {rate}")
    with pytest.raises(InputError, match=r"{rate} of the command has no value"):
        ramp_meaning(RampRequest(), SourceFile("server.toml", both))
    told = RampRequest(command="g {user} {durations}", throughput="/x")
    with pytest.raises(InputError, match=r"did you mean {users}\?"):
        ramp_meaning(told, None)
    told = RampRequest(command="g 5 5", throughput="/x")
    with pytest.raises(InputError, match=r"neither {rate} nor {users}"):
        ramp_meaning(told, None)


def test_every_mistake_of_a_command_line_is_told_at_once() -> None:
    options = {"factor": "1", "growth": "200%"}
    wrong = RampRequest(command="g {users}", throughput="tps", p99="x(", **options, seed="x")
    with pytest.raises(InputError) as caught:
        ramp_meaning(wrong, None)
    places = [one.file for one in caught.value.diagnostics]
    assert places == ["--throughput", "--p99", "--factor", "--growth", "--seed"]


def test_a_ramp_has_the_limits_that_there_are() -> None:
    text = '[load]\ntarget = "null"\n[peak]\ncriteria = ["p99 < 30ms", "errors < 1%"]'
    source = SourceFile("web.toml", text)
    spec, plan = ramp_meaning(RampRequest(), source)
    limits = {one.key: one.limit for one in wanted_of(spec, plan.goal.criteria)}
    assert limits == {
        "response_ms_p99": 30,
        "error_ratio": 0.01,
        "response_ms_mean": math.inf,
        "response_ms_p50": math.inf,
    }
    plan = ramp_meaning(RampRequest(limits=("p95 < 5ms",)), source)[1]
    assert [one.key for one in plan.goal.criteria] == ["response_ms_p95"]
    with pytest.raises(InputError) as caught:
        ramp_meaning(RampRequest(limits=("p95 first < 5ms",)), source)
    assert caught.value.diagnostics[0].file == "--limit"


def test_our_engine_ramps_users_and_rates() -> None:
    text = '[load]\ntarget = "http://127.0.0.1:8080/"\n'
    spec, plan = ramp_meaning(RampRequest(), SourceFile("web.toml", text))
    assert (plan.goal.axis, plan.goal.start) == (RampAxis.USERS, 1)
    assert {one.key for one in wanted_of(spec, ())} >= {"response_ms_p99"}
    asked = RampRequest(axis="rate")
    goal = ramp_meaning(asked, SourceFile("web.toml", text))[1].goal
    assert (goal.axis, goal.start) == (RampAxis.RATE, 50)
    assert goal.highest == 50 * 2**20


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ramp"], "there is nothing to ramp"),
        (["ramp", "a.toml", "--command", "b {users}"], "there is a spec too, a.toml"),
        (["ramp", "--command", "b {users}"], "the throughput is not reported"),
        (["ramp", "a.toml", "--throughput", "/x"], "is for --command"),
        (["ramp", "a.toml"], "there is no file a.toml"),
        (["ramp", "--", "x"], "cannot take a level"),
        (
            ["ramp", "--command", "no-such-gen {users}", "--throughput", "/x"],
            "there is no program 'no-such-gen'",
        ),
    ],
)
def test_a_wrong_command_line_is_told(
    here: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert not (here / "bw-study").exists()


def test_a_ramp_of_a_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("--json", "--plot", "p.svg", "--hold", "12s")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "benchwright/ramp/1"
    assert document["status"] == "saturated"
    assert document["usl"]["preferred"] == "usl"
    assert document["plots"][0]["path"] == "p.svg"
    assert (here / "p.svg").read_text().startswith("<?xml")
    assert main(["stats", "bw-study"]) == 0
    assert "Universal Scalability Law" in capsys.readouterr().out
    assert main(["resume"]) == 0
    assert "nothing to resume" in capsys.readouterr().err


def test_a_pointer_that_leads_nowhere_is_a_mistake_of_the_command_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command("--throughput", "/none")) == 2
    told = capsys.readouterr().err
    assert "--throughput: no throughput_per_s" in told
    assert (here / "bw-study").exists()


def test_a_pointer_is_doubted_at_the_first_trial_of_all_only(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a level that went well an unreadable output is the server's failure."""
    once = GEN.replace("print(", "n < 2 and print(")
    (here / "gen.py").write_text(once)
    assert main(command()) == 1
    capsys.readouterr()
    assert main(["resume"]) == 1, "no mistake of the command line, which was right"
    assert "no throughput_per_s" in capsys.readouterr().out


def test_a_budget_that_is_spent_ends_with_three(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command("--budget", "15s")) == 3
    assert "budget: 20 s of 15 s are used up" in capsys.readouterr().out


def test_a_generator_that_fails_ends_with_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "gen.py").write_text("import sys; sys.exit('the pool is gone')")
    assert main(command()) == 1
    assert "the pool is gone" in capsys.readouterr().out
    (here / "gen.py").write_text(GEN)
    assert main(["resume"]) == 0
    assert "saturated" in capsys.readouterr().out


# -- cut and resumed ---------------------------------------------------------------------


class FakeBench:
    """A server in no time; it breaks at one trial of its life."""

    watched = False

    def __init__(self, breaks_at: int | None = None) -> None:
        self._breaks_at = breaks_at
        self.runs = 0

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        if self.runs == self._breaks_at:
            raise BenchError("launcher-gone", "killed")
        self.runs += 1
        return trial_of(probe)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


def trial_of(probe: Probe) -> LoadTrial:
    """Return a trial whose noise follows from its level."""
    n = probe.rate
    true = 100 * n / (1 + 0.1 * (n - 1) + 0.004 * n * (n - 1))
    counts = tuple(round(true * (1 + 0.05 * (at * n % 7 - 3) / 3)) for at in range(10))
    return LoadTrial(
        rate=n,
        duration_s=10,
        lasted_s=10,
        cost_s=11,
        series=LoadSeries(tuple(map(float, range(10))), counts=counts),
        completed=sum(counts),
    )


@contextlib.contextmanager
def ledger_in(place: Path, begun: bool) -> Iterator[Ledger]:
    """Open the study's only session; begin it where it is not."""
    with contextlib.closing(Study.create_or_open(place)) as study:
        if not begun:
            study.begin_session(_info())
        else:
            recover(study, 1, CRASH_CAUSE)
        yield Ledger(study, 1)


def _info() -> SessionInfo:
    return session_info(program_main="<request>", kind="ramp")


def outcome(place: Path, breaks: Sequence[int | None]) -> tuple[RampResult, int]:
    """Run a ramp that breaks so many times; return its result and the trials run."""
    search = ramp_search(RampPlan(goal=RampGoal(highest=64, repeats=2)))
    runs = 0
    for turn, breaks_at in enumerate(breaks):
        bench = FakeBench(breaks_at)
        with ledger_in(place, begun=turn > 0) as ledger:
            try:
                return run_search(search, bench, ledger).result, runs + bench.runs
            except BenchError:
                runs += bench.runs
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    "unusable",
    [
        {"ending": LoadEnding.FAILED, "failure": "it is gone"},
        {"completed": None, "series": LoadSeries()},
        {"values": {"throughput_per_s": -1.0}},
    ],
)
@pytest.mark.parametrize("works", [0, 3])
def test_a_ramp_that_failed_goes_on_when_it_is_resumed(
    tmp_path: Path, works: int, unusable: dict[str, object]
) -> None:
    class Dying(FakeBench):
        def run(
            self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
        ) -> LoadTrial:
            done = super().run(probe, sample, leaves)
            return done if self.runs <= works else msgspec.structs.replace(done, **unusable)

    search = ramp_search(RampPlan(goal=RampGoal(highest=64, repeats=2)))
    with ledger_in(tmp_path / "study", begun=False) as ledger:
        failed = run_search(search, Dying(), ledger).result
    assert failed.status is RampStatus.FAILED
    with ledger_in(tmp_path / "study", begun=True) as ledger:
        resumed = run_search(search, FakeBench(), ledger).result
    assert resumed == outcome(tmp_path / "whole", [None])[0]


def test_a_ramp_cut_at_any_trial_ends_alike(tmp_path: Path) -> None:
    whole, trials = outcome(tmp_path / "whole", [None])
    assert ramp_verdict(whole).exit_status == 0
    for cut in range(trials):
        assert outcome(tmp_path / f"cut-{cut}", [cut, None]) == (whole, trials)
    one_by_one = [1] * (trials + 1)
    assert outcome(tmp_path / "often", [*one_by_one, None]) == (whole, trials)
