"""Profiles of trials, and what their I/O is as the kernel sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchwright.feature import DocumentType, Feature

if TYPE_CHECKING:
    from benchwright.cli.shared_options import AddedOptions
    from benchwright.watch.observer import ObserverKind


class Profile(Feature):
    """What this feature adds."""

    name = "profile"

    def observers(self) -> Sequence[ObserverKind]:
        from benchwright.features.profile.kinds import CHARACTERIZE, PROFILE

        return (PROFILE, CHARACTERIZE)

    def options(self, command: str) -> Sequence[AddedOptions]:
        if command != "compare":
            return ()
        from benchwright.features.profile.io_options import ADDED

        return (ADDED,)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.profile.compare import IoComparison

        return {IoComparison: None}


FEATURE: Feature = Profile()
