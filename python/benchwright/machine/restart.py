"""Asks this machine for a restart, and finds what continues a session after it.

Decision: what continues is looked for, so that nobody states it twice: an enabled
bw-resume@.service, or bw-resume-at-boot in /etc/rc.local (packaging/). Rejected: reboot(2), which
stops no service and unmounts nothing. Source: Auto-pilot paper, section 3.5; systemd.unit(5), string
escaping.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

RESTART_PATIENCE_S = 600
"""How long a shutdown may take [s]."""

Runner = Callable[[Sequence[str]], str]
"""Runs a command; returns its error message, empty on success."""

_UNIT = "bw-resume@"
_IN_RC_LOCAL = re.compile(r"^[^#\n]*\bbw-resume-at-boot[ \t]+(/\S+)", re.MULTILINE)
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def run_command(words: Sequence[str]) -> str:
    """Run a command without a shell; return its error message, empty on success."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        # A separate session: Ctrl-C in the terminal must not interrupt the command.
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    return done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""


def ask_for_restart(*, run: Runner = run_command, root: Path = Path("/")) -> str:
    """Ask the init of this machine for a restart; return why it is refused, empty if it is not. The
    machine runs on until its services have ended."""
    os.sync()
    if _has_systemd(root):
        return run(["systemctl", "reboot"])
    return run([shutil.which("reboot") or "/sbin/reboot"])


def resume_file(root: Path = Path("/")) -> Path | None:
    """Return the file whose session this machine continues at its start; None if nothing does."""
    if _has_systemd(root):
        for link in sorted((root / "etc/systemd/system").glob(f"*.wants/{_UNIT}*.service")):
            return _path_of(link.name.removeprefix(_UNIT).removesuffix(".service"))
    script = root / "etc/rc.local"
    if os.access(script, os.X_OK) and script.is_file():
        found = _IN_RC_LOCAL.search(script.read_text(errors="replace"))
        return Path(found[1]) if found else None
    return None


def restart_problem(root: Path = Path("/")) -> tuple[str, str]:
    """Return why a session cannot restart this machine and continue, and what to do; two empty texts
    if it can."""
    set_up = "set it up as docs/reboot.md says: bw-resume@.service, or rc.local"
    if os.geteuid() != 0:
        return "only root restarts the machine", "run bw as root"
    file = resume_file(root)
    if file is None:
        return "nothing continues a session after a restart of this machine", set_up
    if not os.access(file.parent, os.W_OK):
        message = f"the machine continues what {file} names, and its directory cannot be written"
        return message, f"install -d -m 700 {file.parent}"
    return "", ""


def _has_systemd(root: Path) -> bool:
    return (root / "run/systemd/system").is_dir()


def _path_of(instance: str) -> Path:
    """Return the path that a unit's instance stands for (systemd-escape --path)."""
    words = instance.replace("-", "/").encode()
    return Path("/" + _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), words).decode())
