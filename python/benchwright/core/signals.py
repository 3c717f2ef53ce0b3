"""The signals by which a user, a terminal or a supervisor asks `bw` to stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stop_signals(handler: Callable[[int], object]) -> Iterator[None]:
    """Pass the stop signals that arrive in the body to `handler`, instead of ending Python.

    Those that are ignored, as SIGHUP is below nohup(1), stay ignored. Only for the main thread.
    """
    previous = {
        number: signal.signal(number, lambda which, _frame: handler(which))
        for number in STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
