"""A doubt about a result: data that travels with it, never a log line."""

from __future__ import annotations

import enum

import msgspec


class Severity(enum.StrEnum):
    """How much a doubt weighs."""

    NOTE = "note"
    WARNING = "warning"
    SERIOUS = "serious"


class Finding(msgspec.Struct, frozen=True):
    """A named doubt: stable code, how grave, what was seen, what to do."""

    code: str
    """Stable identifier, such as `command-failed` or `missing-metric`."""
    severity: Severity
    subject: str
    """What it is about: `ext2:1`, or `ext2:1 elapsed epoch 3`."""
    evidence: str
    """What was seen, with figures and units."""
    remedy: str = ""
    """What to do about it."""
    metric: str = ""
    """The one metric that it is about, where it is about one."""
