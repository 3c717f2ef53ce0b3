"""The sections of a session's page that features add."""

from __future__ import annotations

from benchwright.feature import features
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import Section


def added_sections(part: str, study: Study, session: StoredSession) -> list[Section]:
    """Return what features add to the report of any session."""
    return [found for feature in features() for found in feature.sections(part, study, session)]
