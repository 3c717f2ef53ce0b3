"""What every test may rely on, wherever the suite was started from."""

from __future__ import annotations

import signal

# A shell without job control starts its background jobs with SIGINT and SIGQUIT ignored, and programs
# inherit that: then no test could interrupt what it started.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )
