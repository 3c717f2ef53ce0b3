"""Disks and interfaces in a window, and what the network's software lost.

Source: the kernel's Documentation/admin-guide/iostats.rst. `queue_ms` counts a request
when it completes, so a disk that completes none is judged by its requests in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchwright.model.watched import DiskUse, NetworkUse, SocketUse
from benchwright.probe.series import Values
from benchwright.probe.use_window import Window, mean, names_of

_SECTOR = 512
_COMPLETED = ("reads", "writes", "discards", "flushes")


def disks_use(window: Window) -> tuple[DiskUse, ...]:
    """Return the use of each disk that had a request in the window."""
    names = names_of(window.series, "disk", "reads")
    return tuple(use for name in names if (use := _disk(window, name)) is not None)


def networks_use(window: Window) -> tuple[NetworkUse, ...]:
    """Return the use of each interface that had a packet in the window."""
    names = names_of(window.series, "net", "rx_packets")
    return tuple(use for name in names if (use := _network(window, name)) is not None)


def sockets_use(window: Window) -> SocketUse | None:
    """Return what was lost or sent again; None where nothing of it is told."""
    columns = {
        "retransmits": "tcp/retransmits",
        "segments_out": "tcp/segments_out",
        "listen_overflows": "tcp/listen_overflows",
        "listen_drops": "tcp/listen_drops",
        "receive_errors": "udp/receive_errors",
        "softnet_dropped": "softnet/dropped",
        "softnet_squeezed": "softnet/squeezed",
    }
    if not any(name in window.series.columns for name in columns.values()):
        return None
    return SocketUse(**{field: window.count(name) for field, name in columns.items()})


def _disk(window: Window, name: str) -> DiskUse | None:
    def rate(*kinds: str) -> float:
        return window.rate(*(f"disk/{name}/{kind}" for kind in kinds)) or 0.0

    in_flight = window.gauge(f"disk/{name}/in_flight")
    completed = rate(*_COMPLETED)
    if completed == 0 and not in_flight.any():
        return None
    transfers = rate("reads", "writes")
    queue = rate("queue_ms") / 1000
    return DiskUse(
        name=name,
        busy=min(rate("busy_ms") / 1000, 1.0),
        reads_per_s=rate("reads"),
        writes_per_s=rate("writes"),
        read_bytes_per_s=rate("read_sectors") * _SECTOR,
        write_bytes_per_s=rate("written_sectors") * _SECTOR,
        queue=queue if completed else mean(in_flight) or 0.0,
        response_s=rate("read_ms", "write_ms") / 1000 / transfers
        if transfers
        else None,
        flushes_per_s=rate("flushes"),
        in_flight_min=round(float(in_flight.min())) if len(in_flight) else 0,
        longest_stall_s=_longest_stall_s(window, name),
        active=_active(window, name),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """A disk from sample to sample: requests in flight at both ends, those completed."""

    lengths_s: Values
    """Within the window."""
    before: Values
    after: Values
    completed: Values


def _steps(window: Window, name: str) -> _Steps | None:
    """Return a disk's steps between samples; None where requests in flight are not told."""
    column = window.series.columns.get(f"disk/{name}/in_flight")
    if column is None:
        return None
    part = window.around(column.times)
    times, in_flight = column.times[part], column.values[part]
    done = np.zeros(len(times))
    for kind in _COMPLETED:
        total = window.total(f"disk/{name}/{kind}")
        if total is not None:
            done += total.at(times)
    inside = times.clip(window.begin_ns, window.end_ns)
    lengths = np.diff(inside) / 1e9
    return _Steps(lengths, in_flight[:-1], in_flight[1:], np.diff(done))


def _longest_stall_s(window: Window, name: str) -> float:
    """Return the longest stretch with requests in flight at each sample, none completed."""
    steps = _steps(window, name)
    if steps is None:
        return 0.0
    stalled = (steps.before > 0) & (steps.after > 0) & (steps.completed == 0)
    return _longest(stalled, steps.lengths_s)


def _active(window: Window, name: str) -> float | None:
    """Return the share of the window in steps with any request; None where not told."""
    steps = _steps(window, name)
    if steps is None or not len(steps.lengths_s):
        return None
    used = (steps.before > 0) | (steps.after > 0) | (steps.completed > 0)
    return min(float(steps.lengths_s[used].sum()) / window.seconds, 1.0)


def _longest(stalled: np.typing.NDArray[np.bool_], lengths: Values) -> float:
    longest = current = 0.0
    for is_stalled, length in zip(stalled, lengths, strict=True):
        current = current + float(length) if is_stalled else 0.0
        longest = max(longest, current)
    return longest


def _network(window: Window, name: str) -> NetworkUse | None:
    def names(*kinds: str) -> tuple[str, ...]:
        return tuple(f"net/{name}/{kind}" for kind in kinds)

    def rate(kind: str) -> float:
        return window.rate(*names(kind)) or 0.0

    if rate("rx_packets") == 0 and rate("tx_packets") == 0:
        return None
    return NetworkUse(
        name=name,
        receive_bytes_per_s=rate("rx_bytes"),
        send_bytes_per_s=rate("tx_bytes"),
        receive_packets_per_s=rate("rx_packets"),
        send_packets_per_s=rate("tx_packets"),
        errors=window.count(*names("rx_errors", "tx_errors")),
        dropped=window.count(*names("rx_dropped", "tx_dropped")),
        speed_bits_per_s=_speed(window, name),
    )


def _speed(window: Window, name: str) -> float | None:
    """Return the link's speed [bit/s]; a virtual interface tells none, or -1."""
    told = window.series.header.limits.get(f"net/{name}/speed_mbit")
    return told * 1e6 if isinstance(told, int | float) and told > 0 else None
