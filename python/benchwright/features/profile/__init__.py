"""Profiles of trials, and what their I/O is as the kernel sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchwright.feature import Feature

if TYPE_CHECKING:
    from benchwright.watch.observer import ObserverKind


class Profile(Feature):
    """What this feature adds."""

    name = "profile"

    def observers(self) -> Sequence[ObserverKind]:
        from benchwright.features.profile.kinds import CHARACTERIZE, PROFILE

        return (PROFILE, CHARACTERIZE)


FEATURE: Feature = Profile()
