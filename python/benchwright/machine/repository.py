"""The git commit of the working directory, and whether files differ from it.

Decision: the commit is read from `.git` itself; whether files were changed takes an
index and many stats, so `git status` is asked, without locks, hooks, monitors or untracked
files, and only as long as the capture has time. Source: gitrepository-layout(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from benchwright.machine.asked import Asked, Begin, Pending
from benchwright.machine.tree import Tree, known, missing
from benchwright.machine.vocabulary import SUSPICIOUS
from benchwright.model.machine import Fact

_STATUS = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null", "status", "--porcelain"),
    *("--untracked-files=no", "--ignore-submodules=all"),
)
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


def find_repository(tree: Tree, directory: str) -> str | None:
    """Return the `.git` directory of the nearest work tree above, or None."""
    place = directory
    while True:
        path = os.path.join(place, ".git")
        if tree.exists(path):
            found = tree.text(path)
            if found.startswith("gitdir:"):
                return os.path.normpath(os.path.join(place, found[7:].strip()))
            return path
        if place in ("/", ""):
            return None
        place = os.path.dirname(place)


def begin_status(
    repository: str | None, directory: str, begin: Begin
) -> Pending | None:
    """Begin to ask whether files differ from the commit."""
    return begin(_STATUS, directory) if repository else None


def repository_facts(
    tree: Tree, repository: str | None, status: Asked | None
) -> Iterator[Fact]:
    """Yield commit, branch, and whether files were changed since."""
    if repository is None:
        yield missing("git.commit", ".git", "no repository here", SUSPICIOUS)
        return
    head = tree.read(f"{repository}/HEAD")
    reference = (head.text or "").removeprefix("ref:").strip()
    if _COMMIT.match(reference):
        yield known("git.commit", reference, f"{repository}/HEAD", SUSPICIOUS)
        yield missing("git.branch", f"{repository}/HEAD", "on no branch", SUSPICIOUS)
    else:
        yield _commit_of(tree, repository, reference, head.absent)
        branch = reference.removeprefix("refs/heads/")
        yield known("git.branch", branch, f"{repository}/HEAD", SUSPICIOUS)
    if status is not None:
        changed = len((status.text or "").splitlines())
        files = "file" if changed == 1 else "files"
        text = f"{changed} {files} changed" if changed else "clean"
        value = text if status.text is not None else None
        yield Fact("git.state", value, "git status", status.absent, SUSPICIOUS)


def _commit_of(tree: Tree, repository: str, reference: str, absent: str) -> Fact:
    """Return the commit that a branch is at, of its own file or the packed ones."""
    common = tree.text(f"{repository}/commondir")
    shared = os.path.normpath(os.path.join(repository, common or "."))
    for place in dict.fromkeys((repository, shared)):
        path = f"{place}/{reference}"
        text = tree.text(path) if reference else ""
        if _COMMIT.match(text):
            return known("git.commit", text, path, SUSPICIOUS)
    path = f"{shared}/packed-refs"
    for line in tree.text(path).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference and _COMMIT.match(commit):
            return known("git.commit", commit, path, SUSPICIOUS)
    return missing("git.commit", path, absent or "no commit yet", SUSPICIOUS)
