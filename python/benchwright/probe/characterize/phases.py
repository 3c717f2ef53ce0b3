"""When which transfers were the commonest: totals at ticks -> phases. Pure.

Decision: benchmarks have phases (Bonnie++ writes bytes, then blocks, then rewrites), and
one total over all hides the shortest. A tick belongs to its commonest transfer, ticks in a row with
the same one are one phase. Calls and not bytes decide: a phase of single bytes beside few
large blocks is what one looks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from benchwright.model.characterized import ON_DISK, BusiestThread, Phase
from benchwright.probe.characterize.calls import data_name
from benchwright.probe.characterize.read import Key, Tick
from benchwright.probe.characterize.transfers import how_of

MOST = 40
"""Phases that are kept; of more, those with the most calls."""
_PAUSE_NS = 500_000_000
"""A phase may pause for so long and go on."""
T = TypeVar("T")
_Kind = tuple[str, str, int]
"""(call, kind, bytes of each)."""


class _Bin(msgspec.Struct, frozen=True):
    begin_ns: int
    end_ns: int
    calls: Counter[_Kind]
    ran: Counter[Key]
    """Time of threads on a processor [ns], by (thread, name)."""
    waited: Counter[Key]
    """Time in which they could have run [ns]."""


def phases(ticks: Sequence[Tick], begin_ns: int) -> tuple[Phase, ...]:
    """Return the phases in order of time, from `begin_ns` on [CLOCK_MONOTONIC ns]."""
    joined: list[tuple[_Kind, _Bin]] = []
    for one in _bins(ticks, begin_ns):
        top = max(sorted(one.calls), key=lambda kind: one.calls[kind])
        if joined and joined[-1][0] == top and _follows(one, joined[-1][1]):
            one = _joined(joined.pop()[1], one)
        joined.append((top, one))
    largest = sorted(joined, key=lambda item: -item[1].calls[item[0]])[:MOST]
    return tuple(
        _phase(top, one, begin_ns) for top, one in joined if (top, one) in largest
    )


def _follows(one: _Bin, before: _Bin) -> bool:
    return one.begin_ns - before.end_ns <= _PAUSE_NS


def _joined(before: _Bin, one: _Bin) -> _Bin:
    return _Bin(
        before.begin_ns,
        one.end_ns,
        before.calls + one.calls,
        before.ran + one.ran,
        before.waited + one.waited,
    )


def _bins(ticks: Sequence[Tick], begin_ns: int) -> Iterator[_Bin]:
    before = Tick(begin_ns, {})
    calls, ran, waited = _kinds(before), Counter(before.ran), Counter(before.waited)
    at_ns = begin_ns
    for tick in ticks:
        now = _kinds(tick), Counter(tick.ran), Counter(tick.waited)
        moved = _grown(calls, now[0])
        if moved and tick.at_ns > at_ns:
            ran_now, waited_now = _grown(ran, now[1]), _grown(waited, now[2])
            yield _Bin(at_ns, tick.at_ns, moved, ran_now, waited_now)
        calls, ran, waited = calls | now[0], ran | now[1], waited | now[2]
        at_ns = max(at_ns, tick.at_ns)


def _grown(before: Counter[T], now: Counter[T]) -> Counter[T]:
    """Return by how much totals grew; one that left the commonest keeps its place."""
    return +Counter({kind: count - before[kind] for kind, count in now.items()})


def _kinds(tick: Tick) -> Counter[_Kind]:
    found: Counter[_Kind] = Counter()
    for (call, how, _device, size), calls in tick.calls.items():
        kind = how_of(int(how)).kind
        if kind in ON_DISK:
            found[data_name(int(call))[0], kind, int(size)] += calls
    return found


def _phase(top: _Kind, one: _Bin, begin_ns: int) -> Phase:
    call, kind, size = top
    seconds = (one.end_ns - one.begin_ns) / 1e9
    calls = one.calls[top]
    thread = max(sorted(one.ran), key=lambda key: one.ran[key], default=None)
    length_ns = one.end_ns - one.begin_ns
    return Phase(
        begin_s=(one.begin_ns - begin_ns) / 1e9,
        end_s=(one.end_ns - begin_ns) / 1e9,
        call=call,
        kind=kind,
        bytes=size,
        share=calls / one.calls.total(),
        calls_per_s=calls / seconds,
        bytes_per_s=calls * size / seconds,
        busiest=None if thread is None else _busiest(thread, one, length_ns),
    )


def _busiest(thread: Key, one: _Bin, length_ns: int) -> BusiestThread:
    return BusiestThread(
        name=",".join(thread[1:]),
        ran=min(one.ran[thread] / length_ns, 1.0),
        waited=min(one.waited[thread] / length_ns, 1.0),
        wanted=(one.ran.total() + one.waited.total()) / length_ns,
    )
