"""The outer loop over the driver of searches: a cut at every trial, a server that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import BenchError
from benchwright.core.plan import Pairs
from benchwright.core.search import (
    Claim,
    ClaimKind,
    Criterion,
    LoadEnding,
    LoadTrial,
    PeakGoal,
    PeakStatus,
    Probe,
    SearchTrial,
)
from benchwright.core.surface import (
    SampleRequest,
    SampleResult,
    SurfaceGoal,
    SurfaceResult,
    make_factor,
)
from benchwright.run.ledger import Ledger
from benchwright.run.recovery import CRASH_CAUSE, recover
from benchwright.run.search import SilentSearch
from benchwright.run.search_requests import SurfacePlan
from benchwright.run.surface import recorded_results, run_surface, surface_verdict
from benchwright.study.journal import SessionInfo, Study

LIMIT = Criterion("response_ms_mean", 40.0)
FACTORS = (
    make_factor("workers", ("1", "2", "4", "8")),
    make_factor("sync", ("on", "off")),
)
SURFACE = SurfacePlan(
    goal=SurfaceGoal(
        factors=FACTORS, peak=PeakGoal(criteria=(LIMIT,), start_rate=10.0), samples=5
    ),
    claims=(Claim(ClaimKind.REGION),),
    policy="binsearch",
)


def capacity(sample: Pairs) -> float:
    levels = dict(sample)
    return 100.0 * float(levels["workers"]) * (1.0 if levels["sync"] == "on" else 2.0)


def text(sample: Pairs) -> str:
    return ",".join(f"{name}={level}" for name, level in sample)


class Servers:
    """A workbench in no time at all, whose response is exactly 10 ms * C / (C - rate)."""

    watched = False

    def __init__(
        self, breaks_at: int | None = None, failing: Sequence[str] = ()
    ) -> None:
        self.runs: list[tuple[str, float]] = []
        self._breaks_at = breaks_at
        self._failing = failing

    def run(
        self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]
    ) -> LoadTrial:
        if self._breaks_at == len(self.runs):
            raise BenchError("launcher-gone", "killed")
        self.runs.append((text(sample), probe.rate))
        most = capacity(sample)
        failed = text(sample) in self._failing
        mean = 10 * most / (most - probe.rate) if probe.rate < most else 1000.0
        return LoadTrial(
            rate=probe.rate,
            duration_s=probe.duration_s,
            lasted_s=0.0 if failed else probe.duration_s,
            cost_s=probe.duration_s,
            values={} if failed else {LIMIT.key: mean},
            ending=LoadEnding.FAILED if failed else LoadEnding.WHOLE,
            failure="it does not start" if failed else "",
        )

    def interrupt(self) -> None:
        """Nothing runs for long enough."""

    def close(self) -> None:
        """There is nothing to stop."""


class Listener(SilentSearch):
    """Remembers what was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sample_begins(self, number: int, wanted: SampleRequest) -> None:
        self.lines.append(f"begin {number} {text(wanted.sample)}")

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        self.lines.append("trial")

    def sample_ended(self, number: int, result: SampleResult) -> None:
        self.lines.append(f"end {number} {result.found.status}")


def info() -> SessionInfo:
    return SessionInfo(
        started_ns=0,
        version="0",
        boot_id="boot",
        directory="/",
        arguments=(),
        defines=(),
        program_main="<request>",
        sources=(("<request>", "{}"),),
        options={},
        kind="surface",
    )


def begun(place: Path) -> tuple[Study, Ledger]:
    study = Study.create_or_open(place)
    return study, Ledger(study, study.begin_session(info()))


def resumed(place: Path) -> tuple[Study, Ledger]:
    study = Study.open_to_resume(place)
    (stored,) = study.sessions()
    recover(study, stored.number, CRASH_CAUSE)
    return study, Ledger(study, stored.number)


def mapped(place: Path, servers: Servers, plan: SurfacePlan = SURFACE) -> SurfaceResult:
    study, ledger = begun(place)
    with contextlib.closing(study):
        return run_surface(plan, servers, ledger, Listener())


def test_every_sample_is_searched_and_begins_at_a_neighbours_peak(
    tmp_path: Path,
) -> None:
    study, ledger = begun(tmp_path / "s")
    listener, servers = Listener(), Servers()
    with contextlib.closing(study):
        result = run_surface(SURFACE, servers, ledger, listener)
    assert [one.found.status for one in result.results] == [PeakStatus.FOUND] * 5
    assert len([one for one in listener.lines if one.startswith("begin")]) == 5
    assert surface_verdict(result).exit_status == 0
    seeded = [one for one in result.results if one.seeded_from]
    assert seeded
    rates = {one.sample: one.peak_rate for one in result.results}
    for one in seeded:
        first = next(
            rate for sample, rate in servers.runs if sample == text(one.sample)
        )
        assert first == pytest.approx(rates[one.seeded_from], rel=1e-4)
        assert dict(one.seeded_from)["sync"] == dict(one.sample)["sync"]


def test_a_mapping_cut_at_any_trial_ends_with_the_same_surface(tmp_path: Path) -> None:
    goal = msgspec.structs.replace(SURFACE.goal, samples=3)
    plan = msgspec.structs.replace(SURFACE, goal=goal)
    whole = Servers()
    answer = mapped(tmp_path / "whole", whole, plan)
    for cut in range(len(whole.runs)):
        place = tmp_path / str(cut)
        first = Servers(breaks_at=cut)
        with pytest.raises(BenchError):
            mapped(place, first, plan)
        again = Servers()
        study, ledger = resumed(place)
        with contextlib.closing(study):
            assert run_surface(plan, again, ledger, Listener()) == answer
        assert first.runs + again.runs == whole.runs


def test_a_recorded_mapping_is_told_without_a_workbench(tmp_path: Path) -> None:
    answer = mapped(tmp_path / "s", Servers())
    with contextlib.closing(Study.open_to_read(tmp_path / "s")) as study:
        assert recorded_results(SURFACE, Ledger(study, 1)) == answer.results


def test_a_sample_that_fails_is_a_result_and_is_tried_again(tmp_path: Path) -> None:
    place = tmp_path / "s"
    reference = mapped(tmp_path / "whole", Servers())
    failing = text(reference.results[2].sample)
    result = mapped(place, Servers(failing=[failing]))
    assert len(result.results) == 5
    (failed,) = (one for one in result.results if text(one.sample) == failing)
    assert failed.found.status is PeakStatus.FAILED
    assert "it does not start" in failed.found.detail
    assert "surface-sample-failed" in {one.code for one in result.findings}
    assert surface_verdict(result).exit_status == 1
    with contextlib.closing(Study.open_to_read(place)) as study:
        assert recorded_results(SURFACE, Ledger(study, 1)) == result.results
    study, ledger = resumed(place)
    mended = Servers()
    with contextlib.closing(study):
        again = run_surface(SURFACE, mended, ledger, Listener())
    assert {sample for sample, _ in mended.runs} == {failing}
    assert [one.sample for one in again.results] == [
        one.sample for one in result.results
    ]
    assert surface_verdict(again).exit_status == 0
