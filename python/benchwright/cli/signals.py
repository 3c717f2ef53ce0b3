"""The signals that ask `bw` to stop, while something runs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stopping(interrupt: Callable[[], None]) -> Iterator[None]:
    """Let the stop signals interrupt what runs instead of ending Python."""
    previous = {
        number: signal.signal(number, lambda _number, _frame: interrupt())
        for number in _STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
