"""`bw --help` stays quick because it imports nothing heavy; time is not asserted."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "scipy", "msgspec", "rich", "sqlite3", "subprocess", "asyncio", "ssl"}


def imported(*words: str) -> set[str]:
    """Return the top-level modules that a bw command line imports."""
    program = (
        "import sys\n"
        "from benchwright.cli.main import main\n"
        f"try: main({list(words)!r})\n"
        "except SystemExit: pass\n"
        "print(' '.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stderr.split()}


def test_help_imports_nothing_heavy() -> None:
    assert imported("--help") & HEAVY == set()


def test_help_of_every_command_imports_nothing_heavy() -> None:
    """Options are declared as records: msgspec is what they need."""
    for command in ("run", "resume", "stats", "load", "replay", "measure", "barrier"):
        assert imported(command, "--help") & HEAVY <= {"msgspec"}, command
