"""What one code of a finding means by default."""

from __future__ import annotations

import msgspec

from benchwright.model.finding import Severity


class Code(msgspec.Struct, frozen=True):
    """How grave a finding of this code is, and what to do about it."""

    severity: Severity
    remedy: str
