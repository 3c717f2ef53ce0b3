"""Whether the clock is kept in time, asked of the kernel. Source: adjtimex(2)."""

from __future__ import annotations

import os

_STA_UNSYNC = 0x0040
_STATUS_WORD = 10
"""Of `struct timex` on 64 bits: modes and padding, then offset, freq, maxerror, esterror."""


def synchronised() -> str:
    """Return `yes` or `no`. Raises OSError where the kernel cannot be asked."""
    import ctypes
    import struct

    if struct.calcsize("l") != 8:
        raise OSError(None, "not asked on 32 bits")
    library = ctypes.CDLL(None, use_errno=True)
    # No mode is set: this only reads. The structure is 208 bytes; more does no harm.
    timex = (ctypes.c_int32 * 128)()
    if library.adjtimex(timex) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return "no" if timex[_STATUS_WORD] & _STA_UNSYNC else "yes"
