"""What a session stores about its pool: its settings, the leases of its gangs, the attempts of its tasks."""

from __future__ import annotations

import msgspec

from benchwright.core.pool import (
    POOL_OPTION,
    Attempt,
    Lease,
    PoolSettings,
)
from benchwright.study.database import reporting_damage
from benchwright.study.journal import SessionInfo, Study
from benchwright.study.keys import ATTEMPT_KEYS, LEASE_KEYS


class PoolRecord(msgspec.Struct, frozen=True):
    """The leases and attempts of a session."""

    leases: dict[str, Lease]
    """The last lease of each gang, as it was recorded last."""
    attempts: dict[str, Attempt]
    """Every attempt by its identifier, in the order in which they began."""

    @property
    def measured_by(self) -> dict[str, str]:
        """The gang that measured each recorded task, by the task's place. The model of a surface has an effect
        of each, so a gang that was leased again on other hosts is another one: `g1 on n3, n4`."""
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
    record = PoolRecord({}, {})
    with reporting_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=LEASE_KEYS):
            lease = msgspec.json.decode(entry.payload, type=Lease)
            record.leases[lease.gang] = lease
        for entry in study.entries(session, ("outcome",), under=ATTEMPT_KEYS):
            if entry.key.endswith(("/begun", "/ended")):
                attempt = msgspec.json.decode(entry.payload, type=Attempt)
                record.attempts[attempt.id] = attempt
    return record
