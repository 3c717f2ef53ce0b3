"""The limit of a link: what its interface moved against its speed."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding import thresholds as t
from benchwright.finding.limit import Capacity, Limit
from benchwright.finding.machine_words import rate_text, share_text
from benchwright.model.watched import NetworkUse, ResourceUse


def network_limit(
    use: ResourceUse, capacities: Sequence[Capacity] = ()
) -> Limit | None:
    """Return the link whose speed was reached, as detected or as the user states it.

    Frames' overhead counts with one frame a packet; what is sent in batches has more.
    """
    reached = [
        (moved / most, network, direction, moved, most)
        for network in use.networks
        for most in [speed_of(network, capacities)]
        if most
        for direction, moved in _directions(network)
        if moved >= t.LINK * most
    ]
    if not reached:
        return None
    share, network, direction, moved, most = max(reached, key=lambda one: one[0])
    evidence = (
        f"{network.name} {direction} {rate_text(moved)} on the wire, "
        f"{share_text(share)} of {rate_text(most)}"
    )
    return Limit("network-limit", network.name, evidence)


def speed_of(network: NetworkUse, capacities: Sequence[Capacity]) -> float | None:
    """Return what a link can move in one direction [bytes/s]; the user's word first.

    None where none is told, and where the link itself moved more: then it is but a name.
    """
    for capacity in capacities:
        if capacity.resource == network.name:
            return capacity.bytes_per_s
    if network.speed_bits_per_s is None:
        return None
    told = network.speed_bits_per_s / 8
    moved = max(network.receive_bytes_per_s, network.send_bytes_per_s)
    return told if moved <= t.EXCEEDS * told else None


def _directions(network: NetworkUse) -> tuple[tuple[str, float], ...]:
    return (
        (
            "received",
            network.receive_bytes_per_s + t.FRAME_BYTES * network.receive_packets_per_s,
        ),
        (
            "sent",
            network.send_bytes_per_s + t.FRAME_BYTES * network.send_packets_per_s,
        ),
    )
