"""What is told of a test's profiles and of its characterized trial, and where it is kept."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from benchwright.core.observation import CpuProfile, TopFunction, Trial
from benchwright.features.profile.types import BlockTrace, Characterization
from benchwright.findings.result import ObservedFiles, observed_files
from benchwright.report.observed import observed_entry
from benchwright.views.tests import observed_lines
from watched_uses import trial

STUDY = PurePosixPath("my study")
IO = Characterization(2.0, "bpftrace", file="watched/s1/a-io-3.io.json")


def profile(name: str, samples: int, svg: str = "", kernel: float = 0.5) -> CpuProfile:
    """Return a profile in which this function ran all of the time."""
    top = (TopFunction(name, samples, 1.0),)
    return CpuProfile(samples, 99, kernel, 0.0, top, svg=svg)


def profiled(*profiles: CpuProfile | None, warmup: bool = False) -> list[Trial]:
    """Return a trial for each profile."""
    return [
        msgspec.structs.replace(trial(epoch), profile=one, warmup=warmup)
        for epoch, one in enumerate(profiles, 1)
    ]


def lines(*profiles: CpuProfile | None) -> list[str]:
    """Return what is told of these profiles."""
    return list(observed_lines("t", profiled(*profiles), {}))


def test_one_profile_is_told_with_its_graph() -> None:
    assert lines(None, profile("sort", 40, "w/t-2.svg")) == [
        "t: profile: sort 100 %; 50 % in the kernel (40 samples)",
        "t: profile: flame graph w/t-2.svg",
    ]


def test_all_trials_profiles_are_told_as_one() -> None:
    one, two = (profile("sort", 30, "w/t-1.svg", 1.0), profile("read", 10, "w/t-2.svg", 0))
    assert lines(one, two) == [
        "t: profile: sort 75 %, read 25 %; 75 % in the kernel (40 samples)",
        "t: profile: 2 flame graphs w/t-1.svg to w/t-2.svg",
    ]
    empty = profile("sort", 0)
    assert lines(one, empty)[1] == "t: profile: 1 flame graph w/t-1.svg"
    assert lines(empty, msgspec.structs.replace(empty, hertz=98)) == [
        "t: profile: no samples: it did not run on a CPU long enough"
    ]


def test_what_each_profile_lacks_is_told_of_all_together() -> None:
    def lacking(samples: int, share: float) -> CpuProfile:
        return msgspec.structs.replace(profile("sort", samples), alone_share=share)

    told = "profile: of 70 % only the innermost function is known"
    assert lines(lacking(30, 0.9), lacking(10, 0.1))[1].startswith(f"t: {told}")
    assert len(lines(lacking(30, 0.1), lacking(10, 0.1))) == 1


def test_a_batchs_profile_is_taken_once_and_a_warm_ups_is_not() -> None:
    one = profile("sort", 30, "w/t-1.svg")
    assert lines(one, one) == lines(one)
    warm = profiled(one, warmup=True)
    assert list(observed_lines("t", warm, {})) == []


def test_programs_have_each_trials_profile() -> None:
    found = observed_entry(profiled(profile("sort", 30), profile("read", 10)), {})
    assert found is not None
    assert [one.samples for one in found.profiles] == [30, 10]


def test_names_of_functions_reach_no_terminal_as_a_command() -> None:
    told = lines(profile("\x1b[2J\x9b\u202e", 30, "w/\x7f.svg"))
    assert r"\x1b[2J\x9b\u202e 100 %" in told[0]
    assert all(line.isprintable() for line in told)


def test_files_are_named_as_the_study_is() -> None:
    seen = profiled(profile("a", 30, "w/1.svg"), None, profile("a", 20, "w/3.svg"))
    graphs = ("my study/w/1.svg", "my study/w/3.svg")
    assert observed_files(seen, {}, STUDY) == ObservedFiles(graphs)
    assert (
        observed_files([], {"characterized": IO}, STUDY).io == "my study/watched/s1/a-io-3.io.json"
    )


def test_a_block_trace_without_a_request_is_none_to_look_at() -> None:
    for operations, place in ((4, "my study/w/a.bw"), (0, None)):
        found = msgspec.structs.replace(IO, trace=BlockTrace("w/a.bw", operations, 0))
        assert observed_files([], {"characterized": found}, STUDY).block_trace == place
