"""Profiles of trials, and what their I/O is as the kernel sees it."""

from __future__ import annotations

from benchwright.feature import Feature


class Profile(Feature):
    """What this feature adds."""

    name = "profile"


FEATURE: Feature = Profile()
