"""The keys of a pool's entries in the journal of a session (study/keys.py has the others).

| key | outcome of |
|---|---|
| `pool/planned/N` | how many tasks the session intends to run, at its N-th start |
| `pool/lease/G.N/start`, `/end` | the n-th lease of gang G |
| `pool/attempt/P.N/begun`, `/ended` | the n-th attempt to run the task at place P on a gang |
| `pool/attempt/P.N/environment` | the capture of the machine on which it ran |
"""

from __future__ import annotations

POOL_OPTION = "pool"
"""The option of a session with the settings of its pool."""
LEASE_KEYS = "pool/lease/"
ATTEMPT_KEYS = "pool/attempt/"
PLANNED_KEYS = "pool/planned/"


def planned_key(start: int) -> str:
    """Return the key of the number of tasks that a session intends to run, at its n-th start."""
    return f"{PLANNED_KEYS}{start}"


def lease_key(name: str, *, ended: bool) -> str:
    """Return the key of a lease's start or end; `name`: `g1.2`."""
    return f"{LEASE_KEYS}{name}/{'end' if ended else 'start'}"


def attempt_key(attempt: str, what: str) -> str:
    """Return the key of an entry about an attempt, `7.1`: `begun`, `ended`, `environment`."""
    return f"{ATTEMPT_KEYS}{attempt}/{what}"
