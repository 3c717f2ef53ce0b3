"""Findings about streams: events that share a read, a late reader, what a model's answers lack.

Each threshold has its reason in findings/thresholds.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchwright.core.results import Figure, Finding, states
from benchwright.features.load.llm import AskedOfModels
from benchwright.features.load.server_queue import ServerQueue
from benchwright.features.load.types import StreamResult
from benchwright.findings import thresholds as t
from benchwright.findings.codes import make_finding


def stream_findings(
    streams: StreamResult, subject: str, asked: AskedOfModels | None
) -> Iterator[Finding]:
    """Yield the findings about streams; `asked`: what is asked of language models, where they are
    their answers."""
    if streams.cut or streams.failed_inside:
        shown = states(
            cut=streams.cut or None,
            streams=streams.operations,
            failed=streams.failed_inside or None,
        )
        yield make_finding("stream-cut", subject, shown)
    content = streams.content_events
    if streams.shared_events > t.SHARED_EVENTS * content:
        share = Figure(streams.shared_events / content, "%")
        shown = states(shared=streams.shared_events, events=content, share=share)
        yield make_finding("events-coalesced", subject, shown)
    yield from reader_late(streams, subject)
    empty = streams.without_events or (0 if streams.events else streams.succeeded)
    if empty:
        yield make_finding("no-events", subject, states(empty=empty, streams=streams.succeeded))
    if asked is not None:
        yield from _of_models(streams, subject, asked)


def reader_late(streams: StreamResult, subject: str) -> Iterator[Finding]:
    """Yield a finding if events were read so late that gaps may be of several together.

    A read has the stamp of its newest packet. The lateness of one with many events is therefore that of
    the newest, at most the time between two of them: it is compared with that, not with the gap.
    """
    late = streams.read_lateness_ns.p99
    what, time = "the median gap", float(streams.gap_ns.p50 or 0)
    if not time:
        what, time = "the median first event", float(streams.first_ns.p50 or 0)
    if time and streams.shared_events and streams.content_events:
        what += ", divided among the events of a read,"
        time *= 1 - streams.shared_events / streams.content_events
    if late is None or not time or late <= max(t.READ_LATE * time, t.LATE_NS):
        return
    shown = states(
        late=Figure(late / 1e9, "s"),
        most=Figure(t.READ_LATE, "%"),
        what=what,
        time=Figure(time / 1e9, "s"),
    )
    yield make_finding("reader-late", subject, shown)


def _of_models(streams: StreamResult, subject: str, asked: AskedOfModels) -> Iterator[Finding]:
    succeeded, known = streams.succeeded, streams.with_tokens
    if known < succeeded:
        shown = states(streams=succeeded, unknown=succeeded - known)
        yield make_finding("tokens-unknown", subject, shown)
    if streams.without_tpot > t.SHARED_EVENTS * succeeded:
        shown = states(untimed=streams.without_tpot, all=succeeded)
        yield make_finding("tpot-unknown", subject, shown)
    event, first = streams.first_event_ns.p50, streams.first_ns.p50
    if event is not None and first is not None and first - event > t.ROLE_ONLY * first:
        shown = states(event=Figure(event / 1e9, "s"), first=Figure(first / 1e9, "s"))
        yield make_finding("role-only-first", subject, shown)
    cached, prompts = streams.cached_tokens or 0, streams.prompt_tokens
    if prompts and cached > t.CACHED * prompts and not asked.shares:
        shown = states(share=Figure(cached / prompts, "%"))
        yield make_finding("prefix-cache-warm", subject, shown)
    if known and streams.tokens / known < (1 - t.SHORT_OUTPUTS) * asked.output_tokens:
        shown = states(tokens=streams.tokens / known, asked=asked.output_tokens)
        yield make_finding("outputs-shorter", subject, shown)
    yield from _of_trace(streams, subject, asked)


def server_queue(queue: ServerQueue, subject: str) -> Iterator[Finding]:
    """Yield a finding if requests waited in the server at half of the looks, or before the load."""
    waited = [one for one in queue.during if one > 0]
    if not queue.before and 2 * len(waited) < max(1, len(queue.during)):
        return
    shown = states(
        name=queue.name,
        before=queue.before,
        most=max(queue.during, default=None),
        mean=sum(queue.during) / len(queue.during) if queue.during else None,
        looks=len(queue.during),
        waited=len(waited),
        after=queue.after,
    )
    yield make_finding("server-queue", subject, shown)


def _of_trace(streams: StreamResult, subject: str, asked: AskedOfModels) -> Iterator[Finding]:
    trace, wanted = asked.prompts, asked.prompt_tokens(streams.operations)
    if trace is None or wanted is None:
        return
    if trace.skipped:
        shown = states(lines=trace.skipped, path=trace.path)
        yield make_finding("trace-lines-skipped", subject, shown)
    if trace.left_out:
        shown = states(requests=trace.left_out, path=trace.path)
        yield make_finding("trace-requests-failed", subject, shown)
    if not streams.with_tokens:
        return
    tokens = streams.prompt_tokens / streams.with_tokens
    if abs(tokens / wanted - 1) > t.OTHER_PROMPTS:
        shown = states(tokens=tokens, wanted=wanted, path=trace.path)
        yield make_finding("prompts-differ", subject, shown)
