"""Interfaces in a window, and what the network's software lost."""

from __future__ import annotations

from benchwright.model.watched import NetworkUse, SocketUse
from benchwright.probe.use.window import Window, names_of


def networks_use(window: Window) -> tuple[NetworkUse, ...]:
    """Return the use of each interface that had a packet in the window."""
    names = names_of(window, "net", "rx_packets")
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
    if not set(columns.values()).intersection(window.names):
        return None
    return SocketUse(**{field: window.count(name) for field, name in columns.items()})


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
    told = window.header.limits.get(f"net/{name}/speed_mbit")
    return told * 1e6 if isinstance(told, int | float) and told > 0 else None
