"""A network namespace of a thread, and a capture of all packets of an interface.

A namespace belongs to a thread, and what the thread starts is in it too. So a test can run real
programs in a network where nobody else sends anything. Source: network_namespaces(7), packet(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

_CLONE_NEWNET = 0x40000000
_ALL_PROTOCOLS = 0x0003
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP = 6, 17
_ETHERNET_BYTES = 14
_BUFFER_BYTES = 16 << 20

Result = TypeVar("Result")


class Packet(NamedTuple):
    """A packet that passed an interface."""

    kind: str
    """`tcp`, `udp`, or the number of another protocol."""
    ports: tuple[int, ...]
    """Of the source and of the destination."""
    size: int
    """Bytes of the payload of TCP or UDP."""


def in_own_network(body: Callable[[], Result]) -> Result:
    """Return what a function returns that runs in a thread with a network of its own, whose
    loopback is up.

    Raises PermissionError if this user may not make one.
    """

    def run() -> Result:
        library = ctypes.CDLL(None, use_errno=True)
        if library.unshare(_CLONE_NEWNET):
            raise PermissionError(ctypes.get_errno(), "no network namespace here")
        # An address that is not 127.0.0.1, without which getaddrinfo finds no address of IPv4.
        for words in ("link set lo up", "addr add 192.0.2.1/32 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
        return body()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Capture:
    """The packets of an interface, from now on; it takes what the kernel has kept."""

    def __init__(self, interface: str) -> None:
        """Raises PermissionError without CAP_NET_RAW."""
        self._socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._socket.bind((interface, 0))
        self._socket.setblocking(False)

    def packets(self) -> list[Packet]:
        """Return the packets since the last call. On loopback each passes twice: sent and received."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(_packet(self._socket.recv(1 << 16)))
        return found

    def close(self) -> None:
        """End the capture."""
        self._socket.close()


@contextlib.contextmanager
def captured(interface: str) -> Iterator[Capture]:
    """Capture the packets of an interface until the end of the block."""
    capture = Capture(interface)
    try:
        yield capture
    finally:
        capture.close()


def _packet(frame: bytes) -> Packet:
    """Return what a frame of Ethernet has."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    data = frame[_ETHERNET_BYTES:]
    if kind == _IPV4:
        protocol, begin = data[9], (data[0] & 15) * 4
        end = struct.unpack_from("!H", data, 2)[0]
    elif kind == _IPV6:
        protocol, begin = data[6], 40
        end = begin + struct.unpack_from("!H", data, 4)[0]
    else:
        return Packet(f"{kind:#06x}", (), len(data))
    if protocol not in (_TCP, _UDP):
        return Packet(str(protocol), (), end - begin)
    header = (data[begin + 12] >> 4) * 4 if protocol == _TCP else 8
    ports = struct.unpack_from("!HH", data, begin)
    return Packet("tcp" if protocol == _TCP else "udp", ports, end - begin - header)


def cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process [ticks of 10 ms]."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def send_one(port: int) -> None:
    """Send a packet to a port of loopback, where nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", port))
    time.sleep(0.1)


def may_capture() -> bool:
    """Return whether this user may make networks and capture packets."""
    return os.geteuid() == 0 and shutil.which("ip") is not None
