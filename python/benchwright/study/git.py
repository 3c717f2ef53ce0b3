"""The program git, as every part of Benchwright starts it.

Decision: without the repository's hooks and monitors, which are programs of other people and would
run while something is measured, and in the C locale, because its messages are read. Rejected: a
library (pygit2 is compiled, dulwich does not know every repository).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


def git_words(*words: str) -> tuple[str, ...]:
    """Return the command line of git with these words."""
    return ("git", *_OPTIONS, *words)


def git_environment(*, may_ask: bool = False) -> dict[str, str]:
    """Return the environment of git; it asks for a password only if it `may_ask`."""
    asking = {} if may_ask else {"GIT_TERMINAL_PROMPT": "0"}
    return {**os.environ, **asking, "LC_ALL": "C"}


def run_git(
    words: tuple[str, ...],
    directory: str,
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a directory and return what it printed, and its exit status.

    Raises FileNotFoundError without git, and TimeoutExpired.
    """
    return subprocess.run(
        git_words("-C", directory, *words),
        input=stdin,
        capture_output=True,
        env=environment or git_environment(),
        timeout=timeout_s,
        check=False,
    )
