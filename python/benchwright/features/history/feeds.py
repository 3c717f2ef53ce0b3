"""The changes of a history as feeds: Atom (RFC 4287) and JSON Feed 1.1 (jsonfeed.org).

Decision: one entry for each step, with an id that later runs do not change: the series and the
first run of the new level. A feed has no time of its own; it was updated when its newest step was
measured, so the same history gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

import msgspec

from benchwright.core.untrusted import visible
from benchwright.features.history.answer import HistoryAnswer
from benchwright.features.history.newest import change_and_interval
from benchwright.features.history.text import commits_of, step_words

_ATOM = "http://www.w3.org/2005/Atom"
_TITLE = "Benchmark history"
_ID = "urn:benchwright:history"


class FeedEntry(msgspec.Struct, frozen=True):
    """One change of a series."""

    id: str
    title: str
    text: str
    updated_ns: int
    """When the first run of the new level started [ns since 1970]."""
    is_worse: bool


def feed_entries(answer: HistoryAnswer) -> tuple[FeedEntry, ...]:
    """Return the steps of all series, the newest first."""
    found = []
    for one in answer.series:
        for step in one.steps:
            point = one.series.points[step.index]
            before, after = commits_of(one, step)
            accepted = ""
            if step.accepted:
                accepted = f" Accepted: {step.accepted.reason}."
            elif step.is_open:
                accepted = " Not accepted."
            text = (
                f"{one.name}: {change_and_interval(step.ratio)} after {before}, up to {after}."
                f"{accepted}"
            )
            title = f"{one.name}: {step_words(one, step)}"
            found.append(
                FeedEntry(
                    id=f"{_ID}:{one.id}:{point.run}",
                    title=visible(title),
                    text=visible(text),
                    updated_ns=point.started_ns,
                    is_worse=step.is_worse,
                )
            )
    return tuple(sorted(found, key=lambda entry: (-entry.updated_ns, entry.id)))


def atom_feed(entries: Sequence[FeedEntry], url: str = "", about: str = "") -> str:
    """Return the entries as an Atom feed; `url` is the address of the feed, if it has one, `about`
    the answer."""
    ElementTree.register_namespace("", _ATOM)
    root = ElementTree.Element(f"{{{_ATOM}}}feed")

    def add(parent: ElementTree.Element, name: str, text: str = "", **more: str) -> None:
        ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}", more).text = text or None

    add(root, "id", url or _ID)
    add(root, "title", _TITLE)
    if about:
        add(root, "subtitle", about)
    add(root, "updated", _moment(entries[0].updated_ns if entries else 0))
    author = ElementTree.SubElement(root, f"{{{_ATOM}}}author")
    add(author, "name", "bw history")
    if url:
        add(root, "link", rel="self", href=url)
    for entry in entries:
        element = ElementTree.SubElement(root, f"{{{_ATOM}}}entry")
        add(element, "id", entry.id)
        add(element, "title", entry.title)
        add(element, "updated", _moment(entry.updated_ns))
        add(element, "category", term="worse" if entry.is_worse else "better")
        add(element, "content", entry.text, type="text")
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


class _FeedItem(msgspec.Struct):
    id: str
    title: str
    content_text: str
    date_published: str
    tags: tuple[str, ...]


class _JsonFeed(msgspec.Struct, omit_defaults=True):
    version: str
    title: str
    items: tuple[_FeedItem, ...]
    description: str = ""
    feed_url: str = ""


def json_feed(entries: Sequence[FeedEntry], url: str = "", about: str = "") -> str:
    """Return the entries as a JSON Feed; `url` and `about` as of `atom_feed`."""
    items = tuple(
        _FeedItem(
            entry.id,
            entry.title,
            entry.text,
            _moment(entry.updated_ns),
            ("worse" if entry.is_worse else "better",),
        )
        for entry in entries
    )
    feed = _JsonFeed("https://jsonfeed.org/version/1.1", _TITLE, items, about, url)
    return msgspec.json.format(msgspec.json.encode(feed), indent=2).decode() + "\n"


def _moment(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
