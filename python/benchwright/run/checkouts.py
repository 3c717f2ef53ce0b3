"""Commits of a git repository, each checked out and built in a directory of its own.

Purpose: two commits are compared side by side, in one session: `bw compare --commit`, a baseline
that is built again (`--interleave-baseline`), the steps of a bisection. Decision: a checkout is a
clone that shares the repository's objects, in the user's cache. Nothing of the user's repository
changes, not even its list of worktrees, and a checkout that was built is used again by a resumed
session or a later step. Lost: `git worktree`, which leaves entries in the repository after a crash.
Hooks of git are not run. Which trials a session runs depends on the commits' full names, which it
stores.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchwright.core.comparison import Checkout
from benchwright.core.errors import BenchError, argument_error
from benchwright.core.untrusted import one_line, visible_lines
from benchwright.study.git import git_words, run_git

KEPT = 20
"""Checkouts in the cache; those used longest ago are removed."""
BUILT = "bw-built"
"""File in a checkout's `.git` that says that its build succeeded."""
_LAST_LINES = 15
"""Of a build's output, in the message about its failure."""


def cache() -> Path:
    """Return the directory of all checkouts: `benchwright/commits` in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home).absolute() / "benchwright" / "commits"


def resolved(revision: str, option: str, build: str | None) -> Checkout:
    """Return the commit that a revision names in the repository of the working directory.

    Raises InputError if there is no repository, or no such commit in it.
    """
    here = os.getcwd()
    top = _git(here, "rev-parse", "--show-toplevel")
    if top.status:
        message = f"{here} is in no git repository: {_reason(top)}"
        hint = "start bw in the repository whose commits are compared"
        raise argument_error(option, revision, message, hint)
    named = f"{revision}^{{commit}}"
    found = _git(here, "rev-parse", "--verify", "--end-of-options", named)
    if found.status:
        message = f"there is no commit {revision!r} in {top.stdout.strip()}"
        hint = "write a commit, branch or tag; a shallow clone needs `git fetch --unshallow`"
        raise argument_error(option, revision, message, hint)
    repository = top.stdout.strip()
    below = os.path.relpath(os.path.realpath(here), os.path.realpath(repository))
    below = "" if below == os.curdir else below
    return _checkout(revision, found.stdout.strip(), repository, below, build)


def _checkout(
    revision: str, commit: str, repository: str, below: str, build: str | None
) -> Checkout:
    text = "\0".join((repository, commit, build or ""))
    place = cache() / hashlib.sha256(text.encode()).hexdigest()[:16]
    return Checkout(revision, commit, repository, str(place), below, build)


def between(old: Checkout, new: Checkout) -> list[Checkout]:
    """Return the commits after the old one up to the new one, in order; of a merge only its own
    side (first parents). Empty if the new one does not descend from the old one."""
    range_ = f"{old.commit}..{new.commit}"
    words = ("rev-list", "--reverse", "--first-parent", "--ancestry-path", range_)
    listed = _git(new.repository, *words)
    if listed.status:
        raise BenchError("no-commit", f"git rev-list {range_}: {_reason(listed)}")
    checkouts = [
        _checkout(commit, commit, new.repository, new.below, new.build)
        for commit in listed.stdout.split()
    ]
    return [*checkouts[:-1], new] if checkouts else []


def subject_of(checkout: Checkout) -> str:
    """Return the first line of the commit's message, with control characters escaped."""
    words = ("log", "-1", "--format=%s", checkout.commit)
    return one_line(_git(checkout.repository, *words).stdout)


def prepare(checkouts: Sequence[Checkout], say: Callable[[str], None]) -> None:
    """Check out and build each commit, unless that was done before; `say` gets a line about each.

    Raises BenchError with the last lines of git's or the build's output.
    """
    places = [Path(checkout.place) for checkout in checkouts]
    for checkout, place in zip(checkouts, places, strict=True):
        with _locked(place):
            _prepare(checkout, say)
    _forget_oldest(set(places))


def _prepare(checkout: Checkout, say: Callable[[str], None]) -> None:
    tree = Path(checkout.place) / "tree"
    built = tree / ".git" / BUILT
    if built.exists():
        os.utime(checkout.place)
        return
    shutil.rmtree(tree, ignore_errors=True)
    short = checkout.commit[:12]
    name = "" if checkout.revision == checkout.commit else f"{checkout.revision} "
    how = "" if checkout.build is None else f", and running `{checkout.build}`"
    say(f"checking out {name}{short} in {tree}{how}")
    clone = ("clone", "--quiet", "--shared", "--no-checkout", "--", checkout.repository)
    _checked(git_words(*clone, str(tree)), checkout, "clone-failed", "cannot clone")
    what, below = f"cannot check out {short}", ("-C", str(tree))
    switch = ("checkout", "--quiet", "--detach", checkout.commit)
    _checked(git_words(*below, *switch), checkout, "no-commit", what)
    if (tree / ".gitmodules").exists():
        modules = ("submodule", "--quiet", "update", "--init", "--recursive")
        _checked(git_words(*below, *modules), checkout, "no-commit", what)
    if not os.path.isdir(checkout.directory):
        message = f"{checkout.revision} ({short}) has no directory {checkout.below}"
        raise BenchError("no-commit", message, "start bw in a directory of all commits")
    if checkout.build is not None:
        what = f"`{checkout.build}` failed for {checkout.revision} ({short})"
        build = ["/bin/sh", "-c", checkout.build]
        _checked(build, checkout, "build-failed", what, directory=checkout.directory)
    built.touch()


class _Answer(NamedTuple):
    """What git printed, and its exit status."""

    status: int
    stdout: str
    stderr: str


def _git(directory: str, *words: str) -> _Answer:
    """Run git in a directory. Raises BenchError without git."""
    try:
        done = run_git(words, directory)
    except FileNotFoundError:
        message = "git is not installed, and commits are checked out by it"
        raise BenchError("no-git", message, "install git") from None
    texts = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return _Answer(done.returncode, *texts)


def _checked(
    words: Sequence[str], checkout: Checkout, code: str, what: str, directory: str | None = None
) -> None:
    """Run a command to its end; its output is in `log` beside the tree. Raises BenchError."""
    log = Path(checkout.place) / "log"
    with open(log, "w+b") as output:
        done = subprocess.run(
            words,
            cwd=directory or checkout.place,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        if not done.returncode:
            return
        output.seek(0)
        text = output.read().decode(errors="replace")
    end = "\n".join(text.splitlines()[-_LAST_LINES:])
    message = f"{what}: exit status {done.returncode}\n{visible_lines(end)}".rstrip()
    raise BenchError(code, message, f"all of its output: {log}")


def _reason(done: _Answer) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else "no reason given"


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the lock of a checkout: two sessions can need the same commit."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as why:
        message = f"no commit can be checked out in {place}: {why.strerror}"
        raise BenchError("no-commit", message, "set XDG_CACHE_HOME") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _forget_oldest(used: set[Path]) -> None:
    """Remove the checkouts that nobody needs and that were used longest ago."""
    others = [path for path in cache().iterdir() if path not in used]
    others.sort(key=lambda place: place.stat().st_mtime, reverse=True)
    for place in others[max(KEPT - len(used), 0) :]:
        with contextlib.suppress(OSError), open(place / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
