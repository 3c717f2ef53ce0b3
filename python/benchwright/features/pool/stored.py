"""What a session stores about its pool: its settings, the leases of its gangs, the attempts of its
tasks."""

from __future__ import annotations

import msgspec

from benchwright.features.pool import POOL_OPTION
from benchwright.features.pool.keys import ATTEMPT_KEYS, LEASE_KEYS, PLANNED_KEYS
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    PlannedTasks,
    PoolKind,
    PoolSettings,
)
from benchwright.study.database import reporting_damage
from benchwright.study.journal import SessionInfo, Study


class PoolRecord(msgspec.Struct, frozen=True):
    """The leases and attempts of a session."""

    every_lease: dict[str, Lease]
    """Every lease by its name, as it was recorded last, in the order in which they began."""
    attempts: dict[str, Attempt]
    """Every attempt by its identifier, in the order in which they began."""
    planned: PlannedTasks | None = None
    """Of the last start of the session; None if it did not get so far."""

    @property
    def leases(self) -> dict[str, Lease]:
        """The last lease of each gang."""
        return {lease.gang: lease for lease in self.every_lease.values()}

    @property
    def measured_by(self) -> dict[str, str]:
        """The gang that measured each recorded task, by the task's place. The model of a surface
        has an effect of each, so a gang that was leased again on other hosts is another one: `g1 on
        n3, n4`."""
        hosts: dict[str, tuple[str, ...]] = {}
        found = {}
        for one in self.attempts.values():
            if one.is_recorded:
                same = set(hosts.setdefault(one.gang, one.hosts)) == set(one.hosts)
                name = one.gang if same else f"{one.gang} on {', '.join(one.hosts)}"
                found[one.place] = name
        return found


def stored_pool(info: SessionInfo) -> PoolSettings | None:
    """Return the settings of a session's pool; None if it has none."""
    text = info.options.get(POOL_OPTION)
    return None if text is None else msgspec.json.decode(text, type=PoolSettings)


def pool_record(study: Study, session: int) -> PoolRecord:
    """Return what a session recorded about its pool. Raises StudyError `journal-damaged`."""
    leases: dict[str, Lease] = {}
    attempts: dict[str, Attempt] = {}
    planned: PlannedTasks | None = None
    with reporting_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=LEASE_KEYS):
            lease = msgspec.json.decode(entry.payload, type=Lease)
            leases[lease.name] = lease
        for entry in study.entries(session, ("outcome",), under=ATTEMPT_KEYS):
            if entry.key.endswith(("/begun", "/ended")):
                attempt = msgspec.json.decode(entry.payload, type=Attempt)
                attempts[attempt.id] = attempt
        for entry in study.entries(session, ("outcome",), under=PLANNED_KEYS):
            planned = msgspec.json.decode(entry.payload, type=PlannedTasks)
    return PoolRecord(leases, attempts, planned)


def hosts_of_tests(study: Study, session: int, info: SessionInfo) -> dict[str, str]:
    """Return the hosts of the gang that measured each test, comparison and search, by its key; none
    without a pool, and for local gangs, which are one host. Raises StudyError `journal-damaged`."""
    settings = stored_pool(info)
    if settings is None or settings.engine is PoolKind.LOCAL:
        return {}
    return {
        prefix.removesuffix("/"): ", ".join(one.hosts)
        for one in pool_record(study, session).attempts.values()
        if one.is_recorded
        for prefix in one.prefixes
    }
