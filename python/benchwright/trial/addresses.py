"""Starts programs without random addresses: a property of a process that its children inherit.

Source: personality(2), ADDR_NO_RANDOMIZE.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from benchwright.core.errors import BenchError

_NO_RANDOMIZE = 0x0040000
_QUERY = 0xFFFFFFFF


@contextlib.contextmanager
def fixed_addresses() -> Iterator[None]:
    """Programs that start within it, and what they start, have the same addresses each time.

    Raises BenchError where the kernel or a container's filter refuses it.
    """
    personality = ctypes.CDLL(None, use_errno=True).personality
    personality.argtypes = [ctypes.c_ulong]
    before = personality(_QUERY)
    if before < 0 or personality(before | _NO_RANDOMIZE) < 0:
        raise BenchError(
            "addresses-refused",
            "this machine does not permit programs without random addresses (personality(2))",
            "leave out aslr=off; a container may need --security-opt seccomp=unconfined",
        )
    try:
        yield
    finally:
        personality(before)
