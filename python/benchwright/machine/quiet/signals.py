"""Signals that wait until the machine is in a state that can be undone from."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

_WAITING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Deferred:
    """Ctrl-C, SIGTERM and SIGHUP take effect when this is left, not inside.

    Handlers and not a mask: a mask would be inherited by the daemons that a restore starts.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _WAITING:
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._seen.append(number)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for seen in dict.fromkeys(self._seen):
            signal.raise_signal(seen)
