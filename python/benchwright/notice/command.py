"""Hands a notice to a command of the user's: JSON on stdin, variables beside it.

Decision: an argv, executed directly; it stays in bw's process group, so that a
Ctrl-C reaches it too. It is tried once: what it did before it failed is not known.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from benchwright.core.notice import CommandTarget, Notice
from benchwright.notice import text
from benchwright.notice.failure import Undelivered


def send(
    command: CommandTarget,
    notice: Notice,
    environment: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Run the command to its end. Raises Undelivered."""
    try:
        done = subprocess.run(
            command.argv,
            input=text.document(notice),
            env={**environment, **text.variables(notice)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undelivered(f"it did not end within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Undelivered(f"it cannot be started: {reason}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        reason = f"it ended with {_ending(done.returncode)}"
        raise Undelivered(text.one_line(f"{reason}: {said}" if said else reason, 300))


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
