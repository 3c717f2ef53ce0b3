"""The pool of a session: its gangs, their leases, and the attempts of its tasks, as JSON and as
blocks (`bw pool status`, the page)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.text import ABSENT, duration_ns_text, moment_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.pool.stored import (
    PoolRecord,
    PoolTally,
    pool_record,
    progress_parts,
    stored_pool,
)
from benchwright.features.pool.types import Attempt, LeaseState, PoolProgress, PoolSettings
from benchwright.report.documents import entries, entry, report_text
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Column,
    Section,
    TableBlock,
    Words,
    as_sentence,
    count_column,
    keyed,
    number_of,
    scale_of,
    table_of,
)
from benchwright.views.terminal import table_text


class GangEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One gang."""

    gang: str
    hosts: tuple[str, ...]
    """The server's host first; empty before the first lease runs."""
    job: str
    """Of its last lease: the number of the Slurm job, the process id of a local agent."""
    state: str
    """Of its last lease: `waiting`, `running` or `ended`."""
    leases: int
    """Number of leases so far."""
    runs: str
    """The task that it runs; empty: none."""
    attempt: int | None
    """The number of that task's attempt; null: none runs."""
    since_ns: int | None
    """When that attempt began: CLOCK_REALTIME [ns since 1970]."""
    recorded: int
    """Number of tasks that it recorded."""
    void: int
    """Number of void attempts."""
    busy_ns: int
    """Time of its attempts that ended [ns]."""


class LeaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of a gang."""

    gang: str
    number: int
    """Of the gang's leases, from 1."""
    hosts: tuple[str, ...]
    """The server's host first; empty before it runs."""
    job: str
    """The number of the Slurm job, the process id of a local agent."""
    state: str
    """`waiting`, `running` or `ended`."""
    ended: str | None
    """Why it ended, if bw did not end it."""
    detail: str


class AttemptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task."""

    task: str
    attempt: int
    gang: str
    hosts: tuple[str, ...]
    began_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    ended_ns: int | None
    """null: it runs, or its controller was killed."""
    void: str | None
    """Why it does not count; null: it is recorded, or it runs."""
    detail: str
    failed_host: str
    """The host that made it void, if that is known not to be the server's; empty: none."""


class PoolDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/pool/1"
):
    """The pool of a session."""

    study: str
    session: int
    status: str
    """Of the session; `running` while it runs."""
    engine: str
    """`local` or `slurm`."""
    planned: int | None
    """Number of tasks of the whole session; null: unknown."""
    recorded: int
    """Number of tasks that are recorded."""
    left_s: float | None
    """Expected time until all tasks are recorded [s]; null: unknown, or the session does not run.
    """
    gangs: tuple[GangEntry, ...]
    leases: tuple[LeaseEntry, ...]
    """In the order in which they began."""
    attempts: tuple[AttemptEntry, ...]
    """In the order in which they began."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the pool of a session at one time."""

    settings: PoolSettings
    record: PoolRecord
    now_ns: int | None
    """CLOCK_REALTIME [ns]; None: the session does not run."""

    @property
    def progress(self) -> PoolProgress:
        """How far the tasks are."""
        tally = PoolTally(self.record.planned)
        for attempt in self.record.attempts.values():
            # What began before a crash runs no more.
            if attempt.ended_ns or self.now_ns is not None:
                tally.add(attempt)
        leases = self.record.leases.values()
        running = sum(lease.state is LeaseState.RUNNING for lease in leases)
        pool_progress = tally.progress(running or self.settings.gangs, self.now_ns or 0)
        if self.now_ns is None:
            return msgspec.structs.replace(pool_progress, left_s=None, at_most=False)
        return pool_progress

    @property
    def running(self) -> dict[str, Attempt]:
        """The attempt that each gang runs."""
        if self.now_ns is None:
            return {}
        attempts = self.record.attempts.values()
        return {attempt.gang: attempt for attempt in attempts if not attempt.ended_ns}


def pool_state(study: Study, session: StoredSession, now_ns: int) -> PoolState | None:
    """Return the state of a session's pool at a time [ns since 1970]; None if it has no pool.

    A session runs if its status says so, which is that of `sessions_now`. Raises StudyError
    `journal-damaged`.
    """
    settings = stored_pool(session.info)
    if settings is None:
        return None
    return PoolState(
        settings=settings,
        record=pool_record(study, session.number),
        now_ns=now_ns if session.status == "running" else None,
    )


def pool_document(study: str, session: int, status: str, state: PoolState) -> PoolDocument:
    """Return the pool of a session as a document."""
    record, progress = state.record, state.progress
    return PoolDocument(
        study=study,
        session=session,
        status=status,
        engine=state.settings.engine.value,
        planned=progress.planned,
        recorded=progress.recorded,
        left_s=progress.left_s,
        gangs=tuple(_gangs(state)),
        leases=entries(LeaseEntry, record.every_lease.values()),
        attempts=tuple(
            entry(
                AttemptEntry,
                attempt,
                task=attempt.name,
                attempt=attempt.number,
                ended_ns=attempt.ended_ns or None,
            )
            for attempt in record.attempts.values()
        ),
    )


def _gangs(state: PoolState) -> Iterator[GangEntry]:
    leases, running = state.record.leases, state.running
    of_gang: dict[str, list[Attempt]] = {}
    for attempt in state.record.attempts.values():
        of_gang.setdefault(attempt.gang, []).append(attempt)
    for gang in state.settings.names:
        lease, own, runs = leases.get(gang), of_gang.get(gang, ()), running.get(gang)
        yield GangEntry(
            gang=gang,
            hosts=() if lease is None else lease.hosts,
            job="" if lease is None else lease.job,
            state=LeaseState.WAITING.value if lease is None else lease.state.value,
            leases=0 if lease is None else lease.number,
            runs="" if runs is None else runs.name,
            attempt=None if runs is None else runs.number,
            since_ns=None if runs is None else runs.began_ns,
            recorded=sum(one.is_recorded for one in own),
            void=sum(one.void is not None for one in own),
            busy_ns=sum(max(0, one.ended_ns - one.began_ns) for one in own if one.ended_ns),
        )


# -- As blocks -----------------------------------------------------------------------------


def _words(text: str) -> Words:
    return Words(visible(one_line(text)) or ABSENT)


def _gangs_table(gangs: Sequence[GangEntry], now_ns: int | None, part: str = "") -> TableBlock:
    """Return a row for each gang; while the session runs, with the task that it runs."""
    busy = scale_of([gang.busy_ns / 1e9 for gang in gangs], "s", 3)

    def running(text: str) -> Words:
        return Words("" if now_ns is None else visible(one_line(text)) or ABSENT)

    def lasted(one: GangEntry) -> str:
        if one.since_ns is None or now_ns is None:
            return ""
        return duration_ns_text(max(0, now_ns - one.since_ns), 2)

    return table_of(
        f"{part}-gangs",
        "Leases and tasks",
        keyed(f"{part}.gang", gangs),
        (
            (Column("Gang"), lambda _, gang_entry: Words(gang_entry.gang)),
            (Column("Hosts"), lambda _, one: _words(", ".join(one.hosts))),
            (Column("Job", rank=2), lambda _, one: _words(one.job)),
            (Column("Lease"), lambda _, one: Words(f"{one.leases} {one.state}")),
            (Column("Runs"), lambda _, one: running(one.runs)),
            (Column("Attempt", numeric=True), lambda _, one: running(str(one.attempt or ""))),
            (
                Column("Since, UTC", rank=1),
                lambda _, one: running(
                    moment_text(one.since_ns, seconds=True) if one.since_ns else ""
                ),
            ),
            (Column("For", numeric=True), lambda _, one: running(lasted(one))),
            count_column(
                "Recorded", "recorded", lambda one: one.recorded, "tasks that it recorded"
            ),
            count_column("Void", "void", lambda one: one.void, "attempts that do not count"),
            (
                Column("Busy", "time of its attempts that ended", numeric=True),
                lambda key, one: number_of(f"{key}.busy", one.busy_ns / 1e9, busy),
            ),
        ),
    )


def _voids_table(attempts: Iterable[AttemptEntry], part: str = "") -> TableBlock:
    """Return the attempts that do not count, and the hosts with several of them."""
    voids = [attempt for attempt in attempts if attempt.void is not None]
    lasted_s = [max(0, (void.ended_ns or void.began_ns) - void.began_ns) / 1e9 for void in voids]
    scale = scale_of(lasted_s, "s", 3)
    hosts = Counter(void.failed_host or void.hosts[0] for void in voids if void.hosts)
    repeated = [f"{one_line(host)} ({count})" for host, count in hosts.items() if count > 1]
    several = f" Hosts with several: {', '.join(repeated)}." if repeated else ""
    return table_of(
        f"{part}-voids",
        plural(len(voids), "void attempt"),
        keyed(f"{part}.void", zip(voids, lasted_s, strict=True)),
        (
            (Column("Void task"), lambda _, one: _words(one[0].task)),
            count_column("Attempt", "attempt", lambda one: one[0].attempt),
            (Column("Gang"), lambda _, one: Words(one[0].gang)),
            (Column("Hosts", rank=1), lambda _, one: _words(", ".join(one[0].hosts))),
            (Column("Reason"), lambda _, one: Words(one[0].void or ABSENT, tone="doubtful")),
            (
                Column("Began, UTC", rank=3),
                lambda _, one: Words(moment_text(one[0].began_ns, seconds=True)),
            ),
            (
                Column("Lasted", numeric=True, rank=2),
                lambda key, one: number_of(f"{key}.lasted", one[1], scale),
            ),
            (Column("What happened"), lambda _, one: _words(one[0].detail)),
        ),
        note=visible(f"A void attempt is in no figure.{several}"),
    )


def _leases_table(leases: Sequence[LeaseEntry], part: str = "") -> TableBlock:
    """Return a row for each lease."""
    return table_of(
        f"{part}-leases",
        plural(len(leases), "lease"),
        keyed(f"{part}.lease", leases),
        (
            count_column("Lease", "number", lambda one: one.number),
            (Column("Gang"), lambda _, lease_entry: Words(lease_entry.gang)),
            (Column("Hosts", rank=1), lambda _, one: _words(", ".join(one.hosts))),
            (Column("Job", rank=2), lambda _, one: _words(one.job)),
            (Column("State", rank=3), lambda _, one: Words(one.state)),
            (Column("Ended by", "empty where bw ended it"), lambda _, one: _words(one.ended or "")),
            (Column("What happened"), lambda _, one: _words(one.detail)),
        ),
        folded=True,
    )


def pool_text(document: PoolDocument, state: PoolState, width: int | None = None) -> str:
    """Return the gangs, the leases that were lost, and the void attempts; tables fit into `width`."""
    gangs = plural(len(document.gangs), "gang")
    parts = "; ".join(progress_parts(state.progress))
    session = f"session {document.session} ({document.status})"
    lost = [lease for lease in document.leases if lease.ended is not None]
    voids = _voids_table(document.attempts)
    return report_text(
        [f"{session}: {document.engine}, {gangs}; {parts}"],
        table_text(_gangs_table(document.gangs, state.now_ns), width),
        table_text(_leases_table(lost), width, wrap=True),
        [*table_text(voids, width, wrap=True), voids.note] if voids.rows else (),
    )


def pool_sections(part: str, study: Study, session: StoredSession) -> tuple[Section, ...]:
    """Return the section about a session's pool; none if it has no pool.

    What the gangs run now is in the page of a session whose status is `running`.
    """
    state = pool_state(study, session, time.time_ns())
    if state is None:
        return ()
    document = pool_document(str(study.path), session.number, session.status, state)
    lost = any(lease.ended is not None for lease in document.leases)
    again = len(document.leases) > len({lease.gang for lease in document.leases})
    tables = (
        _gangs_table(document.gangs, state.now_ns, part),
        _voids_table(document.attempts, part),
        _leases_table(document.leases if lost or again else (), part),
    )
    lead = f"{document.engine}, {plural(len(document.gangs), 'gang')}; {_far(state)}"
    return (
        Section(
            id=f"{part}-pool",
            title="Gangs",
            lead=as_sentence(lead),
            blocks=tuple(table for table in tables if table.rows),
        ),
    )


def _far(state: PoolState) -> str:
    """Return how far the tasks are; with the expected end, because a page is read later than it is
    made."""
    progress = state.progress
    parts = progress_parts(msgspec.structs.replace(progress, left_s=None))
    if state.now_ns is not None and progress.left_s is not None:
        end = moment_text(state.now_ns + round(progress.left_s * 1e9))
        bound = "by" if progress.at_most else "about"
        parts.insert(1, f"expected to end {bound} {end} UTC")
    return "; ".join(parts)
