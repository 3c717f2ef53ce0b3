"""What rule files import: `benchwright.findings.rules` under its name in version 0.1."""

from __future__ import annotations

from benchwright.findings.rules import *  # noqa: F403
from benchwright.findings.rules import __all__ as __all__
