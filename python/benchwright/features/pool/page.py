"""The gangs of a session with a pool: what they run and recorded, their leases, and attempts that
do not count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchwright.core.text import ABSENT, moment_text, plural
from benchwright.core.untrusted import one_line, visible
from benchwright.features.pool.progress import progress_parts
from benchwright.features.pool.report import (
    AttemptEntry,
    GangEntry,
    LeaseEntry,
    PoolState,
    pool_document,
    pool_state,
)
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import Cell, Column, Section, TableBlock, Words
from benchwright.views.figures import (
    as_sentence,
    count_column,
    keyed,
    number_of,
    scale_of,
    table_of,
)


def pool_sections(part: str, study: Study, session: StoredSession) -> tuple[Section, ...]:
    """Return the section about a session's pool; none if it has no pool.

    What the gangs run now is in the page of a session whose status is `running`.
    """
    state = pool_state(study, session, time.time_ns())
    if state is None:
        return ()
    is_running = state.now_ns is not None
    document = pool_document(str(study.path), session.number, session.status, state)
    voids = [one for one in document.attempts if one.void is not None]
    lost = any(one.ended is not None for one in document.leases)
    again = len(document.leases) > len({one.gang for one in document.leases})
    blocks = (
        _gangs_table(part, document.gangs, is_running=is_running),
        *((_voids_table(part, voids),) if voids else ()),
        *((_leases_table(part, document.leases),) if lost or again else ()),
    )
    lead = f"{document.engine}, {plural(len(document.gangs), 'gang')}; {_far(state)}"
    return (Section(id=f"{part}-pool", title="Gangs", lead=as_sentence(lead), blocks=blocks),)


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


def _words(text: str) -> Words:
    return Words(visible(one_line(text)) or ABSENT)


def _gangs_table(part: str, gangs: Sequence[GangEntry], *, is_running: bool) -> TableBlock:
    busy = scale_of([one.busy_ns / 1e9 for one in gangs], "s", 3)

    def runs(_: str, one: GangEntry) -> Cell:
        if one.attempt is None:
            return Words(ABSENT)
        return _words(f"{one.runs}, attempt {one.attempt}")

    def since(_: str, one: GangEntry) -> Cell:
        if one.since_ns is None:
            return Words(ABSENT)
        return Words(moment_text(one.since_ns, seconds=True))

    now: tuple[tuple[Column, Callable[[str, GangEntry], Cell]], ...] = (
        (Column("Runs"), runs),
        (Column("Since, UTC"), since),
    )
    return table_of(
        f"{part}-gangs",
        "Leases and tasks",
        keyed(f"{part}.gang", gangs),
        (
            (Column("Gang"), lambda _, one: Words(one.gang)),
            (Column("Hosts"), lambda _, one: _words(", ".join(one.hosts))),
            (Column("Lease"), lambda _, one: Words(f"{one.leases} {one.state}")),
            *(now if is_running else ()),
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


def _voids_table(part: str, voids: Sequence[AttemptEntry]) -> TableBlock:
    lasted = scale_of(_lasted(voids), "s", 3)
    return table_of(
        f"{part}-voids",
        plural(len(voids), "void attempt"),
        keyed(f"{part}.void", zip(voids, _lasted(voids), strict=True)),
        (
            (Column("Task"), lambda _, one: _words(one[0].task)),
            count_column("Attempt", "attempt", lambda one: one[0].attempt),
            (Column("Gang"), lambda _, one: Words(one[0].gang)),
            (Column("Hosts"), lambda _, one: _words(", ".join(one[0].hosts))),
            (Column("Reason"), lambda _, one: Words(one[0].void or ABSENT, tone="doubtful")),
            (
                Column("Began, UTC"),
                lambda _, one: Words(moment_text(one[0].began_ns, seconds=True)),
            ),
            (
                Column("Lasted", numeric=True),
                lambda key, one: number_of(f"{key}.lasted", one[1], lasted),
            ),
            (Column("What happened"), lambda _, one: _words(one[0].detail)),
        ),
        note="A void attempt is in no figure.",
    )


def _lasted(voids: Sequence[AttemptEntry]) -> Iterator[float]:
    for one in voids:
        yield max(0, (one.ended_ns or one.began_ns) - one.began_ns) / 1e9


def _leases_table(part: str, leases: Sequence[LeaseEntry]) -> TableBlock:
    return table_of(
        f"{part}-leases",
        plural(len(leases), "lease"),
        keyed(f"{part}.lease", leases),
        (
            (Column("Gang"), lambda _, one: Words(one.gang)),
            count_column("Lease", "number", lambda one: one.number),
            (Column("Hosts"), lambda _, one: _words(", ".join(one.hosts))),
            (Column("Job"), lambda _, one: _words(one.job)),
            (Column("State"), lambda _, one: Words(one.state)),
            (Column("Ended by", "empty where bw ended it"), lambda _, one: _words(one.ended or "")),
            (Column("What happened"), lambda _, one: _words(one.detail)),
        ),
        folded=True,
    )
