"""What is shown of a pool: how far its tasks are, what its gangs run, its leases and void attempts."""

from __future__ import annotations

import contextlib
import heapq
import json
from pathlib import Path

import msgspec
import pytest

from benchwright.core.progress import NoProgress
from benchwright.features.pool import POOL_OPTION
from benchwright.features.pool.keys import attempt_key, lease_key, planned_key
from benchwright.features.pool.report import PoolState, pool_document, pool_text
from benchwright.features.pool.stored import PoolRecord, PoolTally, progress_parts, status_text
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PlannedTasks,
    PoolKind,
    PoolProgress,
    PoolSettings,
    VoidReason,
)
from benchwright.page.html import section_pages
from benchwright.page.stream import JournalFollower
from benchwright.report.progress import SessionProgress
from benchwright.run.findings import findings_of_session
from benchwright.run.ledger import Ledger
from benchwright.run.performer import Performer
from benchwright.run.session import Session
from benchwright.study.contents import store_findings
from benchwright.study.journal import Study
from benchwright.suite.compile import load
from benchwright.trial.fake import FakeBench
from benchwright.trial.protocol import ExecEnvironment
from bw_command import bw
from session_infos import suite_info

SECOND = 10**9


def attempt(
    place: int,
    began_s: float,
    ended_s: float = 0,
    *,
    gang: str = "g1",
    void: VoidReason | None = None,
    number: int = 1,
    host: str = "",
) -> Attempt:
    return Attempt(
        place=str(place),
        name=f"search {place}",
        number=number,
        gang=gang,
        lease=f"{gang}.1",
        hosts=(host or f"n-{gang}",),
        prefixes=(f"0.{place}/test/",),
        began_ns=round(began_s * SECOND),
        ended_ns=round(ended_s * SECOND),
        void=void,
        detail="" if void is None else "no answer",
    )


# -- the time left -------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "gangs"), [(12, 4), (13, 4), (3, 5), (1, 1), (7, 3)])
def test_tasks_of_one_length_end_when_it_was_expected(tasks: int, gangs: int) -> None:
    """The gangs begin at different times, as after leases that waited."""
    length_s, tally = 10.0, PoolTally(PlannedTasks(tasks=tasks))
    free = [(0.7 * number + 1, f"g{number}") for number in range(gangs)]
    heapq.heapify(free)
    running: list[tuple[float, Attempt]] = []
    expected: list[float] = []
    waiting, end_s = list(range(1, tasks + 1)), 0.0
    while waiting or running:
        if waiting and free and (not running or free[0][0] <= running[0][0]):
            now_s, gang = heapq.heappop(free)
            begun = attempt(waiting.pop(0), now_s, gang=gang)
            heapq.heappush(running, (now_s + length_s, begun))
            running.sort(key=lambda one: one[0])
            tally.add(begun)
            continue
        end_s, begun = running.pop(0)
        ended = msgspec.structs.replace(begun, ended_ns=round(end_s * SECOND))
        tally.add(ended)
        heapq.heappush(free, (end_s, begun.gang))
        left_s = tally.progress(gangs, round(end_s * SECOND)).left_s
        assert left_s is not None
        expected.append(end_s + left_s)
    assert expected == pytest.approx([end_s] * tasks)


def test_nothing_is_expected_before_a_task_is_recorded() -> None:
    tally = PoolTally(PlannedTasks(tasks=4))
    assert tally.progress(2, 0).left_s is None
    tally.add(attempt(1, 0))
    tally.add(attempt(1, 0, 5, void=VoidReason.HOST_LOST))
    found = tally.progress(2, 5 * SECOND)
    assert (found.left_s, found.void, found.running) == (None, 1, 0)
    unknown = PoolTally()
    unknown.add(attempt(1, 0, 5))
    assert unknown.progress(2, 0).left_s is None


def test_void_attempts_make_tasks_longer() -> None:
    tally = PoolTally(PlannedTasks(tasks=3))
    tally.add(attempt(1, 0, 10))
    assert tally.progress(1, 10 * SECOND).left_s == pytest.approx(20)
    tally.add(attempt(2, 10, 15, void=VoidReason.HOST_LOST))
    assert tally.progress(1, 15 * SECOND).left_s == pytest.approx(30)


def test_a_task_that_takes_longer_than_the_others_has_no_time_left() -> None:
    tally = PoolTally(PlannedTasks(tasks=2))
    tally.add(attempt(1, 0, 10))
    tally.add(attempt(2, 10))
    assert tally.progress(1, 99 * SECOND).left_s == 0


def test_a_deadline_limits_the_time_left() -> None:
    tally = PoolTally(PlannedTasks(tasks=9, until_ns=60 * SECOND))
    early = tally.progress(1, 0)
    assert (early.left_s, early.at_most) == (60, True)
    tally.add(attempt(1, 0, 2))
    found = tally.progress(1, 2 * SECOND)
    assert (found.left_s, found.at_most) == (pytest.approx(16), False)
    assert tally.progress(1, 50 * SECOND).left_s == pytest.approx(10)


def test_the_status_of_a_pool_is_one_line() -> None:
    progress = PoolProgress(planned=12, recorded=3, running=4, void=1, left_s=200)
    assert status_text(progress, 61) == (
        "3 of 12 tasks recorded, 4 running; about 3 min 20 s left; 1 void attempt; 61 s so far"
    )
    limited = msgspec.structs.replace(progress, at_most=True, void=0, running=0)
    assert progress_parts(limited) == ["3 of 12 tasks recorded", "at most 3 min 20 s left"]
    over = msgspec.structs.replace(limited, recorded=12, left_s=0)
    assert progress_parts(over) == ["12 of 12 tasks recorded"]


# -- what gangs do -------------------------------------------------------------------------


def lease(gang: str, number: int, state: LeaseState, host: str, **more: object) -> Lease:
    return Lease(
        gang=gang,
        number=number,
        job=f"4{number}",
        hosts=(host,),
        state=state,
        **more,  # type: ignore[arg-type]
    )


LEASES = (
    lease(*("g1", 1, LeaseState.ENDED, "n1"), ended=VoidReason.HOST_LOST, detail="the node failed"),
    lease("g1", 2, LeaseState.RUNNING, "n3"),
    lease("g2", 1, LeaseState.RUNNING, "n2"),
)
ATTEMPTS = (
    attempt(1, 0, 4, gang="g1", void=VoidReason.HOST_LOST, host="n1"),
    attempt(2, 0, 10, gang="g2", host="n2"),
    attempt(1, 10, gang="g2", number=2, host="n2"),
)
SETTINGS = PoolSettings(engine=PoolKind.SLURM, gangs=2)


def state(now_s: float | None) -> PoolState:
    record = PoolRecord(
        {one.name: one for one in LEASES}, {one.id: one for one in ATTEMPTS}, PlannedTasks(tasks=4)
    )
    now_ns = None if now_s is None else round(now_s * SECOND)
    return PoolState(settings=SETTINGS, record=record, now_ns=now_ns)


def test_the_status_has_tasks_leases_and_voids() -> None:
    now = state(16)
    document = pool_document("st", 1, "running", now)
    first, second = document.gangs
    assert (first.runs, first.attempt, first.since_ns) == ("", None, None)
    assert (second.runs, second.attempt) == ("search 1", 2)
    assert second.since_ns == 10 * SECOND
    assert [(one.gang, one.number, one.ended) for one in document.leases] == [
        *(("g1", 1, "host-lost"), ("g1", 2, None), ("g2", 1, None))
    ]
    # A task holds a gang for 14 s: g2 needs 8 s for the one that runs and 14 s for another one.
    assert (document.planned, document.recorded) == (4, 1)
    assert document.left_s == pytest.approx(22)
    text = pool_text(document, now)
    assert text.startswith(
        "session 1 (running): slurm, 2 gangs; 1 of 4 tasks recorded, 1 running; about 22 s left; "
        "1 void attempt\n"
    )
    rows = [line.split() for line in text.splitlines()]
    (lost,) = [row for row in rows if row[:2] == ["1", "g1"]]
    assert lost == ["1", "g1", "n1", "41", "ended", "host-lost", "the", "node", "failed"]
    (void,) = [row for row in rows if row[:2] == ["search", "1"]]
    assert void[2:6] == ["1", "g1", "n1", "host-lost"]
    assert void[-3:] == ["4", "no", "answer"]
    (row,) = [row for row in rows if row[:1] == ["g2"]]
    since = ["1970-01-01", "00:00:10"]
    assert row[5:] == ["search", "1", "2", *since, "6", "s", "1", "0", "10"]


def test_a_session_that_does_not_run_has_no_running_tasks() -> None:
    document = pool_document("st", 1, "crashed", state(None))
    assert [one.runs for one in document.gangs] == ["", ""]
    assert document.left_s is None


# -- sessions of a study -------------------------------------------------------------------

SUITE = "TEST t 4 4\n  EXEC work\nDONE\n"


def add_session(
    study: Study, host: str | None, seconds: float, engine: PoolKind = PoolKind.SLURM
) -> int:
    """Add a session of a test that a gang on this host measured; None: no gang did."""
    options = {}
    if host is not None:
        settings = PoolSettings(engine=engine, gangs=1)
        options[POOL_OPTION] = msgspec.json.encode(settings).decode()
    info = suite_info(SUITE, options=options)
    ledger = Ledger(study, study.begin_session(info))
    times = iter([seconds, seconds * 1.01, seconds * 0.99, seconds * 1.02])
    performer = Performer(
        FakeBench(lambda *_: next(times)), ExecEnvironment("/", ()), study.path, ledger.session
    )
    program = load("s.ap", {"s.ap": SUITE}.__getitem__)
    session = Session(program, ledger, performer, SessionProgress(NoProgress()))
    verdict = session.run({}, {})
    if host is not None:
        ledger.note(planned_key(1), PlannedTasks(tasks=1))
        for one in LEASES:
            ledger.note(lease_key(one.name, ended=False), one)
        void = attempt(1, 1, 2, void=VoidReason.PREEMPTED, host="n9")
        ledger.note(attempt_key(void.id, "ended"), void)
        prefixes = (f"{session.tests[0].key}/",)
        ended = attempt(1, 3, 9, number=2, host=host)
        ended = msgspec.structs.replace(ended, prefixes=prefixes)
        ledger.note(attempt_key(ended.id, "ended"), ended)
    found = findings_of_session(session, verdict, ledger, [])
    store_findings(study, ledger.session, found, [])
    return ledger.session


@pytest.mark.parametrize(
    ("hosts", "engine", "is_confounded"),
    [
        (("n1", "n2"), PoolKind.SLURM, True),
        (("n1", "n1"), PoolKind.SLURM, False),
        (("n1", None), PoolKind.SLURM, False),
        (("g1", "g2"), PoolKind.LOCAL, False),
    ],
)
def test_results_of_different_gangs_are_confounded(
    tmp_path: Path, hosts: tuple[str | None, str | None], engine: PoolKind, is_confounded: bool
) -> None:
    with contextlib.closing(Study.create_or_open(tmp_path / "st")) as study:
        for host, seconds in zip(hosts, (0.5, 0.7), strict=True):
            add_session(study, host, seconds, engine)
    done = bw(tmp_path, "compare", "st@1", "st@2", "--json")
    assert done.returncode in (0, 3), done.stderr
    found = {one["code"]: one for one in json.loads(done.stdout)["findings"]}
    assert ("gang-confounded" in found) is is_confounded
    if is_confounded:
        evidence = found["gang-confounded"]["evidence"]
        assert "st@1 by n1 and st@2 by n2" in evidence


def test_the_page_has_gangs_leases_and_voids(tmp_path: Path) -> None:
    with contextlib.closing(Study.create_or_open(tmp_path / "st")) as study:
        add_session(study, "n2", 0.5)
    reading = JournalFollower(tmp_path / "st").read()
    assert reading.document is not None
    (section,) = [one for one in reading.document.parts[0].sections if one.id == "p1-pool"]
    assert section.lead == "Slurm, 1 gang; 1 of 1 task recorded; 1 void attempt."
    html = section_pages(reading.document)["p1-pool"]
    assert html.count("preempted") == 1
    assert "the node failed" in html
    assert [block.title for block in section.blocks if hasattr(block, "title")] == [
        *("Leases and tasks", "1 void attempt", "3 leases")
    ]
