"""Runs bw as a user who is not root, from this tree.

Decision: where the interpreter stands in a directory that others may not enter (root's home),
a mount namespace of the command's own shows just what is needed of it; copying it took a
minute, and changing the directory's mode would change the machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import benchwright

NAME, GROUP = "nobody", "nogroup"


class User:
    """Somebody who is not root; `home` is his, and the working directory."""

    def __init__(self, home: Path, prefix: list[str]) -> None:
        self.home = home
        self._prefix = prefix

    def bw(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run bw; it never ends with a traceback."""
        done = self.run(sys.executable, "-m", "benchwright.cli.main", *words)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command in his home."""
        kept = ("PATH", "PYTHONPATH", "BW_LAUNCHER", "BW_ENGINE", "BW_SAMPLER")
        own = {"HOME": str(self.home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*self._prefix, *argv],
            cwd=self.home,
            env=own | {name: os.environ[name] for name in kept if name in os.environ},
            capture_output=True,
            text=True,
            timeout=120,
        )


@contextmanager
def ordinary_user() -> Iterator[tuple[User | None, str]]:
    """Yield a user, or None and why there is none here."""
    with tempfile.TemporaryDirectory(prefix="bw-user-") as directory:
        home = Path(directory)
        if os.geteuid():
            yield User(home, []), ""
            return
        lacking = [n for n in ("setpriv", "unshare", "mount") if not shutil.which(n)]
        if lacking:
            yield None, f"there is no {', '.join(lacking)} here"
            return
        shutil.chown(home, NAME)
        user = User(home, _as_user())
        tried = user.run(sys.executable, "-c", "import benchwright.cli.main, msgspec")
        why = f"the code cannot be reached by {NAME}: {tried.stderr.strip()}"
        yield (None, why) if tried.returncode else (user, "")


def _as_user() -> list[str]:
    drop = ["setpriv", "--reuid", NAME, "--regid", GROUP, "--clear-groups"]
    drop += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    script = ["set -e", "here=$PWD", *_opened(), 'cd "$here"']
    script.append(f'exec {shlex.join(drop)} "$@"')
    return ["unshare", "--mount", "sh", "-c", "\n".join(script), "sh"]


def _opened() -> list[str]:
    """Return commands that show others what is needed of directories closed to them."""
    closed: dict[Path, set[str]] = {}
    for needed in _needed():
        for parent in reversed(needed.parents):
            if not parent.stat().st_mode & 0o001:
                closed.setdefault(parent, set()).add(needed.relative_to(parent).parts[0])
                break
    lines = []
    for parent, names in closed.items():
        shown = [shlex.quote(str(parent / name)) for name in sorted(names)]
        lines.append("hold=$(mktemp -d)")
        for number, path in enumerate(shown):
            lines.append(f'mkdir "$hold/{number}"; mount --bind {path} "$hold/{number}"')
        lines.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(parent))}")
        for n, path in enumerate(shown):
            lines.append(f'mkdir {path}; mount --move "$hold/{n}" {path}')
        lines.append('rmdir "$hold"/* "$hold"')
    return lines


def _needed() -> list[Path]:
    """Return what bw is made of here, as it is named and as it really stands."""
    programs = [os.environ.get(f"BW_{n}") for n in ("LAUNCHER", "ENGINE", "SAMPLER")]
    places = [sys.executable, sys.prefix, sys.base_prefix, benchwright.__file__]
    named = [Path(place).absolute() for place in (*places, *filter(None, programs))]
    return [*named, *(path.resolve() for path in named)]
