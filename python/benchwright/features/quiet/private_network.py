"""A network of the server's own: a network namespace with only the loopback interface.

Servers side by side can then use fixed ports (a portmapper's 111, an NFS server's 2049), and
nothing outside reaches them. The load generator runs in the namespace too.

Decision: this process keeps the namespace open by a file descriptor, through which its children
enter it (/proc/PID/fd/N). So there is nothing to remove: the kernel frees the namespace
with its last process and descriptor, also when this process is killed. Rejected: `ip netns` (names
that a crash leaves), a veth pair (an address on the machine, and one more device on the
path). Source: network_namespaces(7), unshare(2), setns(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1
_LOOPBACK = b"lo"
_IFREQ = "16sh14x"
_ENTER = "nsenter"


class PrivateNetwork:
    """A network namespace with only the loopback interface, while it is open."""

    def __init__(self) -> None:
        """Make the namespace. Raises OSError with what is missing."""
        if shutil.which(_ENTER) is None:
            raise FileNotFoundError(f"there is no program {_ENTER} (package util-linux)")
        self._fd = _in_own_thread(_new_namespace)

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words that, put before a command, run it in this network."""
        return (_ENTER, f"--net=/proc/{os.getpid()}/fd/{self._fd}", "--")

    def run(self, action: Callable[[], T]) -> T:
        """Return the result of an action whose sockets belong to this network."""

        def inside() -> T:
            _checked("setns", self._fd, _CLONE_NEWNET)
            return action()

        return _in_own_thread(inside)

    def close(self) -> None:
        """Leave the namespace to its processes; without any, the kernel removes it."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1


def held_networks(pid: int) -> tuple[str, ...]:
    """Return the network namespaces that a process keeps open by descriptors, as `net:[NUMBER]`."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return tuple(sorted(one for one in found if one.startswith("net:[")))


def _in_own_thread(action: Callable[[], T]) -> T:
    """Run an action in a thread that then ends: a namespace is a property of a thread."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _new_namespace() -> int:
    """Move this thread into a new namespace and return a descriptor of it."""
    _checked("unshare", _CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        asked = struct.pack(_IFREQ, _LOOPBACK, 0)
        _, flags = struct.unpack(_IFREQ, fcntl.ioctl(one, _SIOCGIFFLAGS, asked))
        up = struct.pack(_IFREQ, _LOOPBACK, flags | _IFF_UP)
        fcntl.ioctl(one, _SIOCSIFFLAGS, up)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _checked(name: str, *arguments: int) -> None:
    """Call a function of the C library. Raises OSError. `os.setns` needs Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
