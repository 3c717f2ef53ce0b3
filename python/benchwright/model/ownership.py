"""Whether somebody else could have written a file that we are about to obey."""

from __future__ import annotations

import os
import stat

_SHARED = stat.S_IWGRP | stat.S_IWOTH
"""Bits of a mode by which others than the owner may write."""


def others_could_write(found: os.stat_result, user: int) -> bool:
    """Tell whether others than this user and root may write what was looked at."""
    return found.st_uid not in (0, user) or bool(found.st_mode & _SHARED)
