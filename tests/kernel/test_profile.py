"""The profiler over real processes: perf finds the function that spins, and only our own.

What is skipped is printed by pytest with its reason.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchwright.features.profile.profiler import Profiler, read_folded
from benchwright.watch.observer import ObserverError, Watch
from needs_perf import needs_perf

NOBODY = 65534
# The shell between them is no child of ours when it works: it must be followed by perf.
WORK = (sys.executable, "-c", "import sys\nsys.stdin.read()\nsum(range(20_000_000))")


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that waits, and begins a child that works once its stdin ends."""
    script = 'read line; "$@" </dev/null; dd if=/dev/zero of=/dev/null bs=1 count=500000'
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", *WORK], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    yield process
    process.kill()
    process.wait()


def watch(directory: Path, pid: int) -> Watch:
    place = directory / "watched" / "s1"
    place.mkdir(parents=True)
    return Watch(place, "work_1-1", pid)


@needs_perf
def test_children_are_followed_and_files_kept(
    tmp_path: Path, worker: subprocess.Popen[bytes]
) -> None:
    profiler = Profiler()
    profiler.begin(watch(tmp_path, worker.pid))
    begin = time.monotonic_ns()
    worker.communicate(b"go\n")
    end = time.monotonic_ns()
    profiler.end()
    assert all(begin <= sample.at_ns <= end for sample in profiler.samples)
    [(epoch, profile)] = profiler.profiles([(1, begin, end)])
    assert epoch == 1
    assert profile.samples >= 20
    folded = read_folded((tmp_path / profile.folded).read_text(), profile.folded)
    assert folded.samples == profile.samples
    assert {"dd", Path(sys.executable).name[:15]} <= {stack[0] for stack in folded.counts}
    if os.geteuid() == 0:
        assert 0 < profile.kernel_share < 1
    ET.parse(tmp_path / profile.svg)
    left = {path.suffix for path in (tmp_path / "watched" / "s1").iterdir()}
    assert left == {".folded", ".svg"}


@needs_perf
def test_one_that_never_ran_has_no_samples(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        profiler = Profiler()
        profiler.begin(watch(tmp_path, sleeper.pid))
        profiler.end()
        assert profiler.profiles([(1, 0, time.monotonic_ns())]) == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_without_perf_it_says_so(tmp_path: Path) -> None:
    profiler = Profiler(perf="no-such-perf")
    with pytest.raises(ObserverError, match="perf is not installed") as refused:
        profiler.begin(watch(tmp_path, os.getpid()))
    assert refused.value.code == "profile-unavailable"


@needs_perf
def test_a_process_that_is_gone_is_refused_in_perfs_words(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(ObserverError) as refused:
        Profiler().begin(watch(tmp_path, gone.pid))
    assert refused.value.code == "profile-unavailable"


def _profile_as_nobody(place: str, answer: multiprocessing.Queue[str]) -> None:
    """Profile a child of our own as an ordinary user; answer what came of it."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    work = subprocess.Popen(
        ["sh", "-c", "read line; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"],
        stdin=subprocess.PIPE,
    )
    try:
        profiler = Profiler()
        profiler.begin(watch(Path(place), work.pid))
        begin = time.monotonic_ns()
        work.communicate(b"go\n")
        profiler.end()
        [(_, profile)] = profiler.profiles([(1, begin, time.monotonic_ns())])
        answer.put(f"{profile.user_only} {profile.kernel_share:g} {profile.top[0].kernel}")
    except ObserverError as why:
        answer.put(f"{why.code}: {why}")


@needs_perf
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_sees_the_programs_or_is_told_why() -> None:
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    fork = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[str] = fork.Queue()
    with tempfile.TemporaryDirectory() as place:
        os.chown(place, NOBODY, NOBODY)
        child = fork.Process(target=_profile_as_nobody, args=(place, answer))
        child.start()
        said = answer.get(timeout=60)
        child.join()
    if paranoid > 2:
        assert said.startswith("profile-unavailable")
    elif paranoid == 2:
        assert said == "True 0 False"
    else:
        assert said.startswith("False ")
