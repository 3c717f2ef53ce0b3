"""The sampler's client against a stand-in that hangs, dies, refuses and babbles."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sampler_stand_in
from benchwright.watch.observer import Observer, ObserverError, Watch
from benchwright.watch.sampler import SamplerObserver
from whole_series import read_whole

PATIENT_S = 30.0
"""Never waited for: what answers does so long before."""
HASTY_S = 1.0

Make = Callable[..., SamplerObserver]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SamplerObserver] = []

    def one(does: str, timeout_s: float = PATIENT_S) -> SamplerObserver:
        program = sampler_stand_in.program(tmp_path, does)
        made.append(SamplerObserver(program, timeout_s=timeout_s))
        return made[-1]

    yield one
    for observer in made:
        observer.close()


def pid(directory: Path) -> int:
    """Return the stand-in's process number."""
    return int((directory / "sampler.pid").read_text())


def is_gone(number: int) -> bool:
    """Whether a process is no more, and was waited for."""
    return not Path(f"/proc/{number}").exists()


def test_batches_are_watched_one_after_the_other(make: Make, tmp_path: Path) -> None:
    sampler = make("work")
    observer: Observer = sampler
    pids = set()
    for stem in ("a", "b", "c"):
        observer.begin(Watch(tmp_path, stem, 123, (1,), (2,)))
        assert sampler.last is None
        observer.end()
        assert sampler.last is not None
        pids.add(pid(tmp_path))
    assert len(pids) == 1
    assert sampler.last.file == tmp_path / "c.jsonl.gz"
    assert sampler.last.begin_ns < sampler.last.end_ns
    assert (sampler.last.samples, sampler.last.cost_ns) == (2, 1000)
    assert (sampler.last.lost_ns, sampler.last.error) == (5, "")
    for name in ("a", "b", "c"):
        series = read_whole(tmp_path / f"{name}.jsonl.gz")
        assert series.header.root_pid == 123
        assert series.header.interval_ns == 100_000_000
    sampler.close()
    assert is_gone(pids.pop())
    sampler.close()


def test_it_is_out_of_a_terminals_reach(make: Make, tmp_path: Path) -> None:
    sampler = make("work")
    sampler.begin(Watch(tmp_path, "a", 1))
    number = pid(tmp_path)
    assert os.getsid(number) == number != os.getsid(0)


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("hang-at-hello", "did not answer for 1 s and was stopped"),
        ("hang-at-watch", "did not answer for 1 s and was stopped"),
        ("babble", "cannot read the sampler's answer"),
        ("other-protocol", "does not speak protocol 1"),
    ],
)
def test_one_that_cannot_begin_is_given_up(
    does: str, words: str, make: Make, tmp_path: Path
) -> None:
    sampler = make(does, HASTY_S if "hang" in does else PATIENT_S)
    with pytest.raises(ObserverError, match=words) as caught:
        sampler.begin(Watch(tmp_path, "a", 1))
    assert caught.value.code == "not-watched"
    assert is_gone(pid(tmp_path))
    (tmp_path / "sampler.pid").unlink()
    with pytest.raises(ObserverError, match=words):
        sampler.begin(Watch(tmp_path, "b", 1))
    assert not (tmp_path / "sampler.pid").exists(), "it is not started again"
    sampler.end()
    assert sampler.last is None


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("hang-at-end", "did not answer"),
        ("die-at-end", "exited by itself; its last output: sampler: out of luck"),
    ],
)
def test_one_that_cannot_end_is_given_up(does: str, words: str, make: Make, tmp_path: Path) -> None:
    sampler = make(does, HASTY_S if "hang" in does else PATIENT_S)
    sampler.begin(Watch(tmp_path, "a", 1))
    with pytest.raises(ObserverError, match=words):
        sampler.end()
    assert sampler.last is None
    assert is_gone(pid(tmp_path))
    with pytest.raises(ObserverError, match=words):
        sampler.begin(Watch(tmp_path, "b", 1))


def test_one_that_was_killed_is_given_up(make: Make, tmp_path: Path) -> None:
    sampler = make("work")
    sampler.begin(Watch(tmp_path, "a", 1))
    os.kill(pid(tmp_path), 9)
    with pytest.raises(ObserverError, match=r"has exited|exited by itself"):
        sampler.end()


def test_a_refusal_is_of_this_batch_only(make: Make, tmp_path: Path) -> None:
    sampler = make("refuse")
    for stem in ("a", "b"):
        with pytest.raises(ObserverError, match="failed: no such directory"):
            sampler.begin(Watch(tmp_path, stem, 1))
    assert not is_gone(pid(tmp_path))
    sampler.end()


def test_answers_to_what_is_no_longer_asked_are_skipped(make: Make, tmp_path: Path) -> None:
    sampler = make("late-answers")
    sampler.begin(Watch(tmp_path, "a", 1))
    sampler.end()
    assert sampler.last is not None


def test_a_full_disk_is_told(make: Make, tmp_path: Path) -> None:
    sampler = make("disk-full")
    sampler.begin(Watch(tmp_path, "a", 1))
    sampler.end()
    assert sampler.last is not None
    assert sampler.last.error == "No space left on device"


def test_one_that_does_not_end_is_ended(make: Make, tmp_path: Path) -> None:
    sampler = make("stay", HASTY_S)
    sampler.begin(Watch(tmp_path, "a", 1))
    sampler.close()
    assert is_gone(pid(tmp_path))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    sampler = SamplerObserver(tmp_path / "none")
    with pytest.raises(ObserverError, match=r"cannot start .*No such file"):
        sampler.begin(Watch(tmp_path, "a", 1))
    sampler.end()
    sampler.close()


def test_the_request_has_all_that_was_asked(tmp_path: Path) -> None:
    program = tmp_path / "sampler"
    hello = json.dumps({"type": "hello", "protocol": 1, "pid": 1, "version": "0"})
    reply = json.dumps({"type": "watching", "id": 1, "begin_ns": 5})
    program.write_text(
        f"#!/bin/sh\necho '{hello}'\nhead -n 1 > '{tmp_path}/request'\n"
        f"echo '{reply}'\ncat > /dev/null\n"
    )
    program.chmod(0o755)
    sampler = SamplerObserver(program, interval_ns=10_000_000, copies=False)
    sampler.begin(Watch(tmp_path, "x_1-9", 123, (77, 78), (500,)))
    sampler.close()
    assert json.loads((tmp_path / "request").read_text()) == {
        "type": "watch",
        "id": 1,
        "out": str(tmp_path / "x_1-9.jsonl.gz"),
        "root_pid": 123,
        "interval_ns": 10_000_000,
        "copies": False,
        "watcher_pids": [77, 78],
        "extra_pids": [500],
    }
