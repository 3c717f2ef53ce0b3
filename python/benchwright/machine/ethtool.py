"""Offloads, driver and firmware of a network interface, by the SIOCETHTOOL ioctl.

Decision: the ioctl's old one-number requests, not netlink: twelve of them tell what
changes a figure, need no message format and no root. Source: linux/ethtool.h.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946
_DRVINFO = 0x03
_OFFLOADS = (
    ("rx_checksum", 0x14),
    ("tx_checksum", 0x16),
    ("scatter_gather", 0x18),
    ("tso", 0x1E),
    ("gso", 0x23),
    ("gro", 0x2B),
)
_FLAGS = 0x25
_FLAG_BITS = (("lro", 15), ("ntuple", 27), ("rx_hash", 28))


def ask(name: str) -> dict[str, str]:
    """Return what an interface says of itself: `offloads`, `driver_version`, `firmware`.

    What it does not tell has no entry. Raises OSError where nothing can be asked.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        offloads = []
        for what, request in _OFFLOADS:
            value = _number(port, name, request)
            if value is not None:
                offloads.append(f"{what} {'on' if value else 'off'}")
        flags = _number(port, name, _FLAGS)
        if flags is not None:
            offloads += [
                f"{what} {'on' if flags >> bit & 1 else 'off'}"
                for what, bit in _FLAG_BITS
            ]
        found = {"offloads": ", ".join(offloads)} | _driver(port, name)
        return {key: value for key, value in found.items() if value}


def _number(port: socket.socket, name: str, request: int) -> int | None:
    data = array.array("B", struct.pack("=II", request, 0))
    if not _asked(port, name, data):
        return None
    return int(struct.unpack("=II", data.tobytes())[1])


def _driver(port: socket.socket, name: str) -> dict[str, str]:
    data = array.array("B", struct.pack("=I", _DRVINFO).ljust(196, b"\0"))
    if not _asked(port, name, data):
        return {}
    _, _, version, firmware = struct.unpack_from("=I32s32s32s", data.tobytes())
    return {"driver_version": _word(version), "firmware": _word(firmware)}


def _asked(port: socket.socket, name: str, data: array.array[int]) -> bool:
    """Have the kernel fill `data`; tell whether it did."""
    address, _ = data.buffer_info()
    try:
        fcntl.ioctl(port, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
    except OSError:
        return False
    return True


def _word(text: bytes) -> str:
    found = text.split(b"\0")[0].decode(errors="replace").strip()
    return "" if found == "N/A" else found
