"""Profiles of a search's loads: which one explains the answer, what is told, whose they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from benchwright.core.observation import CpuProfile, StackSample, TopFunction
from benchwright.core.plan import Pairs
from benchwright.core.processes import Process
from benchwright.core.results import Estimate
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.profile.profiler import LoadProfiler, Profiler
from benchwright.features.search.documents import (
    answer_load,
    answer_profile_note,
    profile_nearest_answer,
    search_profile_findings,
    search_profiles,
    search_profiles_text,
)
from benchwright.features.search.load_watcher import LoadWatcher
from benchwright.features.search.ramp.types import RampAxis, RampPoint, RampResult, RampStatus
from benchwright.features.search.server.workbench import AroundLoad, unwatched
from benchwright.features.search.types import (
    Claim,
    ClaimResult,
    PeakAnswer,
    PeakStatus,
    SearchTrial,
)
from benchwright.run.watching import BatchWatcher, OptionalObservers
from benchwright.watch.observer import ObserverSet, Watch, Windows


def profile(number: int, samples: int = 50) -> CpuProfile:
    """Return a profile whose busiest function is named after its trial."""
    busiest = TopFunction(f"work_{number}", samples, 0.75)
    return CpuProfile(samples, 99, 0.25, 0.0, (busiest,), svg=f"watched/s1/load-{number}.svg")


def trial(number: int, load: float, seen: CpuProfile | None, sample: Pairs = ()) -> SearchTrial:
    """Return a trial at a rate with this profile."""
    whole = LoadTrial(rate=load, duration_s=5, lasted_s=5, cost_s=5, started_ns=1, profile=seen)
    return SearchTrial(number, Probe(load, 5.0), whole, sample)


def in_users(one: SearchTrial) -> SearchTrial:
    """Return the same trial of a closed loop."""
    users = Probe(one.probe.rate, 5.0, users=round(one.probe.rate))
    return msgspec.structs.replace(one, probe=users)


def failed(one: SearchTrial) -> SearchTrial:
    """Return the same trial, failed."""
    ending = msgspec.structs.replace(one.trial, ending=LoadEnding.FAILED)
    return msgspec.structs.replace(one, trial=ending)


def named(trials: Sequence[SearchTrial], answer: float | None) -> tuple[int, str]:
    """Return the number of the trial next to the answer, and where it lies."""
    best = profile_nearest_answer(trials, answer)
    assert best is not None
    return best.trial.number, best.place


TRIALS = [
    trial(1, 50, profile(1)),
    trial(2, 400, profile(2)),
    trial(3, 400, profile(3, 70)),
    trial(4, 420, None),
    trial(5, 460, profile(5)),
    failed(trial(6, 450, profile(6))),
    trial(7, 451, profile(7, 0)),
]


def test_the_highest_profiled_load_up_to_the_answer_explains_it() -> None:
    """Not the failed one, not the one without samples; of two at one load the fuller."""
    assert named(TRIALS, 452.89) == (3, "next below the answer, 452.89/s")
    assert named(TRIALS, 460) == (5, "at the answer")
    assert named(TRIALS[1:], 20) == (3, "next above the answer, 20/s")
    assert named(TRIALS, None) == (5, "the last trial; there is no answer")
    assert profile_nearest_answer([TRIALS[3], *TRIALS[5:]], 452.89) is None


def test_the_answer_of_a_ramp_is_where_throughput_stopped_growing() -> None:
    flat = [RampPoint(level=n, throughput=_about(x), trials=1) for n, x in _LEVELS]
    ramp = RampResult(status=RampStatus.HIGHEST, detail="", axis=RampAxis.USERS, points=tuple(flat))
    assert answer_load(ramp) == 4, "the highest throughput"
    saturated = msgspec.structs.replace(ramp, saturation=flat[1])
    assert answer_load(saturated) == 2
    assert answer_load(msgspec.structs.replace(ramp, points=())) is None
    users = [in_users(trial(n, n, profile(n))) for n in (1, 2, 4)]
    assert named(users, 3) == (2, "next below the answer, 3 users")


_LEVELS = ((1, 10.0), (2, 19.0), (4, 20.0), (8, 18.0))


def _about(value: float) -> Estimate:
    return Estimate(value, value, value, 0.95, "t", 1)


def test_the_answer_of_a_peak_search_is_its_first_claims() -> None:
    found = ClaimResult(
        status=PeakStatus.FOUND, detail="", claim=Claim(), policy="monotone", peak_rate=7.5
    )
    assert answer_load(PeakAnswer((found,))) == 7.5
    assert answer_load(None) is None


def test_one_profile_is_told_and_where_all_are() -> None:
    assert search_profiles_text(TRIALS, {(): 452.89}) == (
        "\ntrial 3 at 400/s (next below the answer, 452.89/s):\n"
        "  profile: work_3 75 %; 25 % in the kernel (70 samples)\n"
        "  profile: flame graph watched/s1/load-3.svg\n"
        "profile: all 4 flame graphs are in watched/s1/\n"
    )
    assert search_profiles_text([TRIALS[3]], {(): 452.89}) == ""


def test_each_sample_of_a_surface_has_its_own() -> None:
    small, large = (("workers", "1"),), (("workers", "8"),)
    trials = [
        trial(1, 100, profile(1), small),
        trial(2, 110, profile(2), small),
        trial(1, 100, profile(3), large),
    ]
    text = search_profiles_text(trials, {small: 105, large: 400})
    assert "workers=1: trial 1 at 100/s (next below the answer, 105/s):" in text
    assert "workers=8: trial 1 at 100/s (next below the answer, 400/s):" in text
    found = search_profiles(trials, {small: 105, large: 400})
    assert [one.next_to_answer for one in found] == [True, False, True]
    assert [one.svg[-5:] for one in found] == ["1.svg", "2.svg", "3.svg"]
    assert found[2].sample == {"workers": "8"}
    assert search_profiles([TRIALS[3]], {(): 1.0}) == ()


def test_what_others_named_is_escaped() -> None:
    odd = msgspec.structs.replace(profile(1), top=(TopFunction("a\x1b[2J", 50, 1.0),), samples=50)
    assert "a\\x1b[2J" in search_profiles_text([trial(1, 5, odd)], {(): 5.0})


def test_that_loads_were_profiled_is_a_note() -> None:
    (one,) = search_profile_findings("search", TRIALS)
    assert one.code == "profiled"
    assert one.evidence == ("4 trials were profiled, 99 samples a second of each CPU")
    assert search_profile_findings("search", [TRIALS[3]]) == ()
    best = profile_nearest_answer(TRIALS, 452.89)
    assert answer_profile_note("peak at 50/s", TRIALS[:1], best) == ()
    (note,) = answer_profile_note("peak at 400/s", TRIALS[1:3], best)
    assert note.evidence == ("of the profiled trials, trial 3 is next below the answer, 452.89/s")


# -- taken while a load runs ---------------------------------------------------------------


class Bench:
    """A workbench whose loads last two seconds by its own word."""

    watched = False

    def __init__(self, started_ns: int = 5 * 10**18) -> None:
        self._started_ns = started_ns
        self.around_load: AroundLoad = unwatched

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        whole = trial(1, probe.rate, None).trial
        if self._started_ns:
            with self.around_load((), None):
                pass
        return msgspec.structs.replace(whole, lasted_s=2.0, started_ns=self._started_ns)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


class Seen:
    """A profiler that has a profile of every window, or cannot write it."""

    def __init__(self, fails: bool = False) -> None:
        self.windows: list[tuple[int, int, int]] = []
        self._fails = fails

    def profiles(self, windows: Windows) -> list[tuple[int, CpuProfile]]:
        self.windows += windows
        if self._fails:
            raise OSError("the disk is full")
        return [(number, profile(number)) for number, _, _ in windows]


def ran(seen: Seen, place: Path, bench: Bench) -> tuple[LoadTrial, BatchWatcher]:
    """Return the sixth trial of a session, and what watched it."""
    watching = BatchWatcher(place, None, ObserverSet([]), None, OptionalObservers(seen))
    loads = LoadWatcher(watching, 5)
    bench.around_load = loads.around
    loads.next()
    trial = bench.run(Probe(7.0, 2.0), (), lambda _: False)
    return loads.with_use(trial), watching


def test_a_load_has_the_profile_of_its_own_time(tmp_path: Path) -> None:
    found, _ = ran(seen := Seen(), tmp_path, Bench())
    assert found.profile == profile(6)
    ((number, begin, end),) = seen.windows
    assert (number, end - begin) == (6, 2 * 10**9)


def test_a_load_that_never_began_has_none(tmp_path: Path) -> None:
    found, _ = ran(seen := Seen(), tmp_path, Bench(started_ns=0))
    assert (found.profile, seen.windows) == (None, [])


def test_a_profile_that_cannot_be_kept_is_told_and_ends_nothing(tmp_path: Path) -> None:
    found, watching = ran(Seen(fails=True), tmp_path, Bench())
    assert found.profile is None
    (told,) = watching.findings()
    assert (told.code, told.evidence) == ("profile-unavailable", "the disk is full")


def test_what_is_bws_own_is_in_no_profile_of_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bw`, its launcher, and what ran beside the load before it began: the sampler."""
    sampler, server, engine = 70, 80, 90
    stacks = [
        StackSample(1, pid, pid, ("main",)) for pid in (os.getpid(), 60, sampler, server, engine)
    ]

    def end(profiler: Profiler) -> None:
        profiler.samples = list(stacks)

    monkeypatch.setattr(Profiler, "begin", lambda *_: None)
    monkeypatch.setattr(Profiler, "end", end)
    children = [Process(pid, "x", "S", os.getpid(), False, 1) for pid in (60, sampler)]
    monkeypatch.setattr("benchwright.features.profile.profiler.children_of", lambda _pid: children)
    profiler = LoadProfiler()
    profiler.begin(Watch(tmp_path, "load-1", os.getpid(), (os.getpid(), 60)))
    profiler.end()
    assert [one.pid for one in profiler.samples] == [server, engine]
