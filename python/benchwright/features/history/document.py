"""The JSON documents of `bw history`, and its changes as feeds: Atom (RFC 4287) and JSON Feed 1.1
(jsonfeed.org).

Decision: a feed has one entry for each step, with an id that later runs do not change: the series
and the first run of the new level. It has no time of its own; it was updated when its newest step
was measured, so the same history gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

import msgspec

from benchwright.core.quantity import finite
from benchwright.core.results import Estimate
from benchwright.core.untrusted import visible
from benchwright.features.history.answer import (
    HistoryAnswer,
    PatternAnswer,
    SeriesAnswer,
    StepAnswer,
)
from benchwright.features.history.newest import (
    HistoryGate,
    NewestAnswer,
    NewestSeries,
    NewestVerdict,
    change_and_interval,
)
from benchwright.features.history.text import commits_of, headline, sentence, step_words
from benchwright.features.history.types import Better, Segment
from benchwright.report.documents import EstimateEntry, FindingEntry, entries, entry, estimate_entry

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
    for series_answer in answer.series:
        for step in series_answer.steps:
            point = series_answer.series.points[step.index]
            before, after = commits_of(series_answer, step)
            accepted = ""
            if step.accepted:
                accepted = f" Accepted: {step.accepted.reason}."
            elif step.is_open:
                accepted = " Not accepted."
            text = (
                f"{series_answer.name}: {change_and_interval(step.ratio)} after {before}, up to {after}."
                f"{accepted}"
            )
            title = f"{series_answer.name}: {step_words(series_answer, step)}"
            found.append(
                FeedEntry(
                    id=f"{_ID}:{series_answer.id}:{point.run}",
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
    for change in entries:
        element = ElementTree.SubElement(root, f"{{{_ATOM}}}entry")
        add(element, "id", change.id)
        add(element, "title", change.title)
        add(element, "updated", _moment(change.updated_ns))
        add(element, "category", term="worse" if change.is_worse else "better")
        add(element, "content", change.text, type="text")
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


class HistoryPointEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a series in one run."""

    study: str
    session: int
    """0 if it is from no study."""
    started_ns: int
    estimate: float
    low: float | None
    high: float | None
    confidence: float | None
    trials: int
    commit: str | None
    commit_time_ns: int | None
    dirty: bool
    """Whether files of the repository differed from the commit."""
    tags: tuple[str, ...]
    environment: str
    """Hash of the facts that divide a series; empty if unknown."""
    command: str
    codes: tuple[str, ...]
    """Codes of the serious findings about the test in this run."""
    state: str
    outlier: bool


class LevelEntry(msgspec.Struct, frozen=True):
    """A level: points without a step between them."""

    first: int
    last: int
    estimate: EstimateEntry | None


class AcceptanceEntry(msgspec.Struct, frozen=True):
    """Why a change is intended."""

    reason: str
    accepted_ns: int
    by: str


class HistoryStepEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the level."""

    number: int
    index: int
    """The place of the first point of the new level, from 0."""
    first: int
    """Ends of the 95 % interval of `index`."""
    last: int
    after_commit: str | None
    """The commit of the last run that has the old level."""
    up_to_commit: str | None
    """The commit of the first run that has the new level."""
    ratio: EstimateEntry
    p: float | None
    """Share of stationary series with a step as clear as this one; null where the level wanders."""
    is_worse: bool
    accepted: AcceptanceEntry | None
    is_open: bool
    """Whether it is for the worse, and was not accepted or made good for since."""


class NewestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest run compares with the level before."""

    verdict: NewestVerdict
    ratio: EstimateEntry | None
    since: int | None
    """The place of the first point of the new level, or of the newest point."""
    p: float | None
    p_adjusted: float | None
    """For all series of the document together (Benjamini and Hochberg)."""
    more: int
    """Further runs that would decide."""
    why: str


class NewestSeriesEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest run of a series compares with the level before."""

    id: str
    name: str
    sentence: str
    test: str
    metric: str
    machine: str
    unit: str
    better: Better
    newest: NewestEntry


class HistorySeriesEntry(NewestSeriesEntry, frozen=True, kw_only=True):
    """One series."""

    level: EstimateEntry | None
    """The present one."""
    steps: tuple[HistoryStepEntry, ...]
    levels: tuple[LevelEntry, ...]
    segments: tuple[Segment, ...]
    undecided_from: int | None
    """The points from here on may have a new level."""
    patterns: tuple[PatternAnswer, ...]
    """What is no step of the level."""
    findings: tuple[FindingEntry, ...]
    points: tuple[HistoryPointEntry, ...]


class HistoryGateEntry(msgspec.Struct, frozen=True):
    """The outcome of `--gate`."""

    limit: float
    """The share by which a newest run may be worse."""
    outcome: str
    """`passed`, `failed` or `undecided`."""
    failed: tuple[str, ...]
    """The names of the series that are worse by more."""
    steps: tuple[str, ...]
    """Of these, a sentence for each that is worse by a step that nobody accepted, not by its newest
    run."""
    undecided: tuple[str, ...]
    """Why it is undecided, one sentence for each series."""
    broken: tuple[str, ...]
    """The benchmarks that failed since they had a value, one sentence for each."""


class NoValueEntry(msgspec.Struct, frozen=True):
    """What has no value in a session."""

    test: str
    """Empty for a session that has not run all of its tests."""
    metric: str
    """Empty for all metrics of the test."""
    study: str
    session: int
    started_ns: int
    failed: bool
    """Whether the benchmark failed."""
    why: str


class HistoryDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/history/1"
):
    """Series of results, run after run."""

    exit_status: int
    gate: HistoryGateEntry | None
    false_alarms: float
    """Share of stationary series with any false step."""
    series: tuple[HistorySeriesEntry, ...]
    machines: dict[str, str]
    """The machines in words, by fingerprint."""
    skipped: tuple[str, ...]
    """What was not read, and why."""
    headline: tuple[str, ...]
    """The answer, a sentence each."""
    without: tuple[NoValueEntry, ...]
    """What has no value since its last one."""


def history_document(
    answer: HistoryAnswer, gate: HistoryGate | None, exit_status: int
) -> HistoryDocument:
    """Return the document of an answer."""
    used = {series_answer.key.machine for series_answer in answer.series}
    return HistoryDocument(
        exit_status=exit_status,
        gate=gate_entry(gate),
        false_alarms=answer.false_alarms,
        series=tuple(map(_series_entry, answer.series)),
        machines={
            name: words for name, words in sorted(answer.history.machines.items()) if name in used
        },
        skipped=(*answer.history.unread, *answer.history.skipped),
        headline=tuple(headline(answer)),
        without=entries(NoValueEntry, answer.without),
    )


def gate_entry(gate: HistoryGate | None) -> HistoryGateEntry | None:
    """Return the entry of a gate."""
    return None if gate is None else entry(HistoryGateEntry, gate)


def _newest_entry(newest: NewestAnswer) -> NewestEntry:
    return entry(
        NewestEntry,
        newest,
        ratio=_estimate(newest.ratio),
        p=finite(newest.p),
        p_adjusted=finite(newest.p_adjusted),
    )


def _series_entry(one: SeriesAnswer) -> HistorySeriesEntry:
    points = one.series.points
    return HistorySeriesEntry(
        id=one.id,
        name=one.name,
        sentence=sentence(one),
        test=one.key.test,
        metric=one.key.metric,
        machine=one.key.machine,
        unit=points[-1].unit,
        better=one.better,
        level=_estimate(one.level),
        newest=_newest_entry(one.newest),
        steps=tuple(_step_entry(one, step) for step in one.steps),
        levels=tuple(
            LevelEntry(first, last, _estimate(value)) for first, last, value in one.levels
        ),
        segments=one.segments,
        undecided_from=one.undecided_from,
        patterns=one.patterns,
        findings=entries(FindingEntry, one.findings),
        points=tuple(
            entry(HistoryPointEntry, point, outlier=at in one.outliers)
            for at, point in enumerate(points)
        ),
    )


def _step_entry(one: SeriesAnswer, step: StepAnswer) -> HistoryStepEntry:
    points = one.series.points
    return entry(
        HistoryStepEntry,
        step,
        after_commit=points[max(step.first - 1, 0)].commit,
        up_to_commit=points[step.last].commit,
        ratio=estimate_entry(step.ratio),
        p=finite(step.p),
        accepted=step.accepted and entry(AcceptanceEntry, step.accepted),
    )


def _estimate(estimate: Estimate | None) -> EstimateEntry | None:
    return None if estimate is None else estimate_entry(estimate)


# -- The documents of the other commands -------------------------------------------------


def newest_series_entry(one: NewestSeries) -> NewestSeriesEntry:
    """Return the entry of a series."""
    return NewestSeriesEntry(
        id=one.id,
        name=one.name,
        sentence=sentence(one),
        test=one.key.test,
        metric=one.key.metric,
        machine=one.key.machine,
        unit=one.newest_point.unit,
        better=one.newest_point.better,
        newest=_newest_entry(one.newest),
    )


class HistoryAddDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/history-add/1"
):
    """What `bw history add` or `pull` stored."""

    file: str
    new: int
    """Runs that were not in the file."""
    replaced: int
    """Runs that have other values now, because they were resumed or tagged."""
    known: int
    points: int
    """Of new and replaced runs."""
    skipped: tuple[str, ...]
    """What was not read, and why."""
    dropped: int = 0
    """Oldest runs that were removed, because the file was larger than `--max-size`."""
    without: tuple[NoValueEntry, ...] = ()
    """What has no value in the runs that were read, and in no newer one of the file."""
    exit_status: int = 0
    gate: HistoryGateEntry | None = None
    series: tuple[NewestSeriesEntry, ...] = ()
    """With `--gate` all series of the file, else none."""


class HistoryAcceptDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/history-accept/1",
):
    """What `bw history accept` stored."""

    file: str
    series: str
    study: str
    """Study and session of the first run of the accepted level."""
    session: int
    commit: str | None
    reason: str


class HistoryNotesDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/history-push/1"
):
    """What `bw history push` wrote into git notes."""

    file: str
    remote: str
    ref: str
    commits: int
    """Commits whose notes changed."""
    without_commit: int
    """Runs of no known commit, or of files that differed from it."""
    elsewhere: int
    """Runs of commits that the repository does not have."""
