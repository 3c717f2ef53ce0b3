"""The report of studies as data: what the page shows, and what `bw report --json` prints.

A document has one part for each session that it reports; a part has an answer and sections of
blocks (views/blocks.py).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from benchwright.views.blocks import FindingLine, Lines, Section, Tile, Tone


class PartWords(NamedTuple):
    """What a page calls a part of a kind that a feature adds and that is no session."""

    title: str
    noun: str
    """What its findings concern: `jobs`."""
    source: str
    """What the page was written from."""


class ReportPart(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one session, of a history, or of a file."""

    id: str
    """`p1`, `p2`: the prefix of its ids and keys."""
    title: str
    study: str
    session: int
    """Its number; 0 for a history and a file."""
    kind: str
    """`run`, `compare`, `null`, `ramp`, `peak`, `surface`, `history`, `merge` or `file`."""
    status: str
    started: str
    """UTC, such as `2026-11-23 02:30`."""
    verdict: tuple[str, ...]
    """The answer, one sentence for each question."""
    tone: Tone
    output: tuple[Lines, ...] = ()
    """What a failed command wrote last."""
    tiles: tuple[Tile, ...]
    findings: tuple[FindingLine, ...]
    sections: tuple[Section, ...]


class ReportDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/report/1"
):
    """The report of one or more sessions."""

    title: str
    version: str
    """Of the program that wrote it."""
    parts: tuple[ReportPart, ...]
    shared: tuple[Section, ...]
    """About all parts together: what differs between their machines."""
