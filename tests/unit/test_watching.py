"""Batches watched by a crew of observers: order, failures, names of files, windows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchwright.core.observation import CpuProfile, ProcessRecord, TrialEnding
from benchwright.core.resource_use import ResourceUse
from benchwright.run.watching import BatchWatcher, OptionalObservers, watched_window
from benchwright.trial.bench import BatchResult, BenchProcesses
from benchwright.trial.protocol import EpochRecord
from benchwright.watch.observer import ObserverError, ObserverSet, Watch, Windows

PROCESSES = BenchProcesses(10, (1, 2))


class Noted:
    """An observer that writes down what is asked of it, and may fail at one thing."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self._name, self._log, self._fails = name, log, fails
        self.watches: list[Watch] = []

    def begin(self, watch: Watch) -> None:
        self.watches.append(watch)
        self._do("begin")

    def end(self) -> None:
        self._do("end")

    def close(self) -> None:
        self._log.append(f"{self._name} close")

    def _do(self, what: str) -> None:
        self._log.append(f"{self._name} {what}")
        if self._fails == what:
            raise ObserverError("not-watched", f"{self._name} cannot {what}")


class Told:
    """A sampler that tells one use for the windows it is asked for."""

    def __init__(self, fails: bool = False) -> None:
        self.asked: list[Windows] = []
        self._fails = fails

    def uses(self, windows: Windows) -> list[ResourceUse | None]:
        self.asked.append(windows)
        if self._fails:
            raise OSError("line 3 is damaged")
        first = ResourceUse(seconds=1.0, samples=9, epochs=(1, len(windows)))
        return [first, *[None] * (len(windows) - 1)]


def record(epoch: int, *spans: tuple[str, int, int]) -> EpochRecord:
    processes = tuple(
        ProcessRecord(mode, 0, 1, 0, elapsed, 0, 0, 0, start_ns=start)
        for mode, start, elapsed in spans
    )
    return EpochRecord(1, epoch, TrialEnding.OK, 0, 0, 0, 0, processes)


def seen(
    watching: BatchWatcher, records: tuple[EpochRecord, ...]
) -> tuple[tuple[int, ResourceUse], ...]:
    """Return the uses of a batch with these records, of the test t."""
    with watching.batch("t", records[0].epoch, len(records)):
        pass
    return watching.with_uses("t", BatchResult(records, "complete")).uses


def test_the_first_to_begin_is_the_last_to_end(tmp_path: Path) -> None:
    log: list[str] = []
    watching = BatchWatcher(
        tmp_path / "w", PROCESSES, ObserverSet([Noted("a", log), Noted("b", log)]), None
    )
    with watching.batch("t", 1):
        log.append("batch")
    assert log == ["a begin", "b begin", "batch", "b end", "a end"]


@pytest.mark.parametrize("what", ["begin", "end"])
def test_one_that_cannot_watch_is_left_out_and_named(tmp_path: Path, what: str) -> None:
    log: list[str] = []
    crew = ObserverSet([Noted("a", log, fails=what), Noted("b", log)])
    watching = BatchWatcher(tmp_path, PROCESSES, crew, None)
    for first in (1, 2):
        with watching.batch("t", first):
            log.append("batch")
    assert [str(failure) for failure in crew.failures] == [f"a cannot {what}"]
    assert log.count("a begin") == 1
    assert log.count("a close") == 1
    assert log.count("b end") == 2
    assert log.count("batch") == 2


def test_a_batch_that_breaks_is_ended_too(tmp_path: Path) -> None:
    log: list[str] = []
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([Noted("a", log)]), None)
    with pytest.raises(RuntimeError), watching.batch("t", 1):
        raise RuntimeError
    assert log == ["a begin", "a end"]


def test_no_two_batches_have_files_of_one_name(tmp_path: Path) -> None:
    observer = Noted("a", [])
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([observer]), None)
    for _ in range(3):
        with watching.batch("ext2[1]", 5):
            stem = observer.watches[-1].stem
            (tmp_path / f"{stem}.jsonl.gz").touch()
    stems = [watch.stem for watch in observer.watches]
    assert stems == ["ext2[1]-5", "ext2[1]-5~2", "ext2[1]-5~3"]
    assert [w.root_pid for w in observer.watches] == [10, 10, 10]


def test_files_of_a_batch_that_was_cut_keep_their_names(tmp_path: Path) -> None:
    """Whatever stands behind the dot: a batch has files of several observers."""
    for name in ("t-5.jsonl.gz", "t-5~2.folded", "t-55.jsonl.gz", "u.v-1.svg"):
        (tmp_path / name).touch()
    observer = Noted("a", [])
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([observer]), None)
    for test, first in (("t", 5), ("t", 5), ("t", 6), ("u.v", 1)):
        with watching.batch(test, first):
            pass
    stems = [watch.stem for watch in observer.watches]
    assert stems == ["t-5~3", "t-5~4", "t-6", "u.v-1~2"]


def test_nothing_is_watched_where_there_are_no_processes(tmp_path: Path) -> None:
    log: list[str] = []
    watching = BatchWatcher(tmp_path / "w", None, ObserverSet([Noted("a", log)]), None)
    with watching.batch("t", 1):
        pass
    assert log == []
    assert not (tmp_path / "w").exists()


def test_the_window_of_a_trial_is_its_exec() -> None:
    found = watched_window(record(4, ("SETUP", 5, 100), ("EXEC", 200, 50), ("EXEC", 210, 90)))
    assert found == (4, 200, 300)
    assert watched_window(record(4, ("SETUP", 5, 100))) is None


def measured(start: object, elapsed: float) -> tuple[int, str]:
    """Return what `bw measure` appended in thread 1."""
    where = "" if start is None else f"start_ns = {start}\n"
    return 1, f"[measurement]\nthread = 1\ncommand = sleep\n{where}elapsed = {elapsed}\n\n"


def test_the_window_of_a_trial_that_measures_a_part_is_this_part() -> None:
    """Of a script that works for a second, measures 0.3 s and works again."""
    whole = record(4, ("EXEC", 10**9, 3 * 10**9))

    def window(*blocks: tuple[int, str]) -> tuple[int, int, int] | None:
        text = "".join(text for _, text in blocks)
        return watched_window(msgspec.structs.replace(whole, aplog=((1, text),)))

    assert window(measured(2 * 10**9, 0.3)) == (4, 2 * 10**9, 2_300_000_000)
    two = window(measured(2 * 10**9, 0.3), measured(2_400_000_000, 0.1))
    assert two == (4, 2 * 10**9, 2_500_000_000)
    # A script's own block, and the clock of another machine.
    for elsewhere in (None, "soon", 7 * 10**12):
        assert window(measured(elsewhere, 0.3)) == (4, 10**9, 4 * 10**9)


def test_uses_go_with_their_epochs(tmp_path: Path) -> None:
    told = Told()
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([]), told)
    records = (record(1, ("EXEC", 1, 1)), record(2), record(3, ("EXEC", 5, 1)))
    uses = seen(watching, records)
    assert told.asked == [[(1, 1, 2), (3, 5, 6)]]
    assert [epoch for epoch, _ in uses] == [1]


def test_a_series_that_cannot_be_read_is_told_as_absent(tmp_path: Path) -> None:
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([]), Told(fails=True))
    records = (record(7, ("EXEC", 10, 20)),)
    ((epoch, use),) = seen(watching, records)
    assert epoch == 7
    assert use.samples == 0
    assert use.absent == (("series", "line 3 is damaged"),)


def test_a_batch_that_is_over_too_soon_is_left_alone(tmp_path: Path) -> None:
    told = Told()
    observer = Noted("a", [])
    watching = BatchWatcher(tmp_path, PROCESSES, ObserverSet([observer]), told)
    second = 1_000_000_000
    for epoch, length in ((1, second // 100), (2, second), (3, second)):
        seen(watching, (record(epoch, ("EXEC", 5, length)),))
    # The first is watched, since nothing is known; the second, as short as the first by all
    # that is known, is not; it was long, so the third is.
    assert [len(windows) for windows in told.asked] == [1, 1]
    assert [watch.stem for watch in observer.watches] == ["t-1", "t-3"]
    many = tuple(record(n, ("EXEC", 5, second // 100)) for n in range(4, 34))
    seen(watching, many)
    seen(watching, many)
    assert [watch.stem for watch in observer.watches][2:] == ["t-4", "t-4~2"]


class Unsampled(Noted):
    """A profiler without samples, because nothing ran, or because it failed."""

    def profiles(self, windows: Windows) -> list[tuple[int, CpuProfile]]:
        return []


@pytest.mark.parametrize(
    ("error", "found"), [(None, ["profile-empty"]), ("perf is missing", ["profile-unavailable"])]
)
def test_a_profile_without_samples_says_that_nothing_ran(
    tmp_path: Path, error: str | None, found: list[str]
) -> None:
    profiler = Unsampled("perf", [])
    crew = ObserverSet([profiler])
    if error:
        crew.failures.append(ObserverError("profile-unavailable", error))
    aids = OptionalObservers(profiler)
    watching = BatchWatcher(tmp_path, PROCESSES, crew, None, aids)
    for _ in range(2):
        assert watching.profiles([(1, 0, 100)]) == ()
    assert [one.code for one in watching.findings()] == found
