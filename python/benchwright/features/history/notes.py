"""Histories in git notes: runs travel with the repository, attached to the commits that they
measured.

Decision: one line of JSON for each run, so that two machines can push at the same time: git joins
the lines of both (`cat_sort_uniq`), and no run is lost. The notes are on a ref of their own, which
is fetched and pushed only by these functions. A path of a study stays here: only its last part is
written. Rejected: the history file itself as a blob (two pushes cannot be merged), a branch (it is
checked out and cloned by everyone). Source: git-notes(1).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.text import plural
from benchwright.features.history.types import Acceptance, Environment, HistoryPoint, Run, SeriesKey
from benchwright.study.git import git_environment, run_git

NOTES_REF = "refs/notes/benchwright"
_INCOMING = "refs/notes/benchwright-incoming"
_ATTEMPTS = 5
"""How often a push is repeated because somebody else pushed meanwhile."""
_GIT_S = 300


class _RunLine(msgspec.Struct, frozen=True, omit_defaults=True, tag="benchwright/run/1"):
    """A run, as a line of a note."""

    points: tuple[tuple[SeriesKey, HistoryPoint], ...]
    environment: Environment | None
    machine: str


class _AcceptanceLine(msgspec.Struct, frozen=True, tag="benchwright/acceptance/1"):
    """An acceptance, as a line of a note."""

    accepted: Acceptance


_Line = _RunLine | _AcceptanceLine


class NotesRead(msgspec.Struct, frozen=True):
    """What the notes of a repository contain."""

    runs: tuple[Run, ...]
    acceptances: tuple[Acceptance, ...]
    unreadable: int
    """Lines of others, or of another version."""


class NotesWritten(msgspec.Struct, frozen=True):
    """What was written into notes."""

    commits: int
    """Commits whose notes changed."""
    without_commit: int
    """Runs of no known commit, or of files that differed from it."""
    elsewhere: int
    """Runs of commits that this repository does not have."""


class GitNotes:
    """The notes of one ref of a repository."""

    def __init__(self, repository: Path, ref: str = NOTES_REF) -> None:
        self._repository = repository
        self.ref = ref if ref.startswith("refs/") else f"refs/notes/{ref}"

    # -- exchange with a remote ----------------------------------------------------------

    def fetch(self, remote: str) -> bool:
        """Join the notes of a remote with those here; return whether it has any."""
        if not self._git("ls-remote", "--", remote, self.ref).strip():
            return False
        self._git("fetch", "-q", "--", remote, f"+{self.ref}:{_INCOMING}")
        try:
            if self._has(self.ref):
                self._git(
                    *("notes", f"--ref={self.ref}", "merge", "-q"),
                    *("-s", "cat_sort_uniq", _INCOMING),
                )
            else:
                self._git("update-ref", self.ref, _INCOMING)
        finally:
            self._git("update-ref", "-d", _INCOMING)
        return True

    def push(
        self, remote: str, runs: Sequence[Run], acceptances: Sequence[Acceptance]
    ) -> NotesWritten:
        """Write runs into the notes, together with those of a remote, and push them there."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.fetch(remote)
            written = self.write(runs, acceptances)
            if not self._has(self.ref):
                return written
            try:
                self._git("push", "-q", "--", remote, f"{self.ref}:{self.ref}")
            except StudyError as error:
                # Somebody else pushed meanwhile; any other failure repeats itself.
                if attempt == _ATTEMPTS or "[rejected]" not in error.message:
                    raise
            else:
                break
        return written

    # -- the notes here ------------------------------------------------------------------

    def write(self, runs: Iterable[Run], acceptances: Iterable[Acceptance]) -> NotesWritten:
        """Add runs and acceptances to the notes of their commits."""
        lines: dict[str, list[str]] = {}
        commits: dict[str, str] = {}
        nowhere = 0
        for run in runs:
            first = run.points[0][1]
            if first.commit is None or first.dirty:
                nowhere += 1
                continue
            commits[first.run] = first.commit
            points = tuple(
                (
                    key,
                    msgspec.structs.replace(
                        history_point, study=PurePath(history_point.study).name
                    ),
                )
                for key, history_point in run.points
            )
            line = _RunLine(points, run.environment, run.machine)
            lines.setdefault(first.commit, []).append(_text(line))
        for acceptance in acceptances:
            if acceptance.run in commits:
                lines[commits[acceptance.run]].append(_text(_AcceptanceLine(acceptance)))
        there = self._known(list(lines))
        notes = self._notes()
        changed = 0
        for commit in there:
            before = set(notes.get(commit, "").splitlines())
            after = before | set(lines[commit])
            if after != before:
                text = "".join(f"{line}\n" for line in sorted(after))
                arguments = ("notes", f"--ref={self.ref}", "add", "-f", "-F", "-")
                self._git(*arguments, commit, text=text)
                changed += 1
        elsewhere = sum(commit not in there for commit in commits.values())
        return NotesWritten(changed, nowhere, elsewhere)

    def read(self) -> NotesRead:
        """Return all runs and acceptances of the notes here.

        Of a run that was stored more than once, because it was resumed, the last state counts.
        """
        runs: dict[str, _RunLine] = {}
        acceptances = []
        unreadable = 0
        decoder = msgspec.json.Decoder(_Line)
        for text in self._notes().values():
            for line in filter(str.strip, text.splitlines()):
                try:
                    found = decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    unreadable += 1
                    continue
                if isinstance(found, _AcceptanceLine):
                    acceptances.append(found.accepted)
                elif found.points:
                    name = found.points[0][1].run
                    runs[name] = max(found, runs.get(name, found), key=_age)
        return NotesRead(
            tuple(
                Run(points=r.points, environment=r.environment, machine=r.machine)
                for r in runs.values()
            ),
            tuple(acceptances),
            unreadable,
        )

    def _notes(self) -> dict[str, str]:
        """Return the text of each note by its commit."""
        if not self._has(self.ref):
            return {}
        listed = self._git("notes", f"--ref={self.ref}", "list").split()
        blobs, commits = listed[::2], listed[1::2]
        data = self._git_bytes(
            "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode()
        )
        found = {}
        at = 0
        for commit in commits:
            end = data.index(b"\n", at)
            size = int(data[at:end].split()[2])
            found[commit] = data[end + 1 : end + 1 + size].decode(errors="replace")
            at = end + size + 2
        return found

    def _known(self, commits: Sequence[str]) -> list[str]:
        """Return those of these commits that the repository has."""
        asked = "".join(f"{commit}^{{commit}}\n" for commit in commits)
        answers = self._git("cat-file", "--batch-check", text=asked).splitlines()
        return [
            commit
            for commit, answer in zip(commits, answers, strict=True)
            if answer.split()[1:2] == ["commit"]
        ]

    def _has(self, ref: str) -> bool:
        return bool(self._git("for-each-ref", "--format=x", ref).strip())

    def _git(self, *arguments: str, text: str = "") -> str:
        return self._git_bytes(*arguments, stdin=text.encode()).decode(errors="replace")

    def _git_bytes(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run git in the repository; return its output. Raises StudyError `git-failed`."""
        environment = git_environment(may_ask=True)
        # A program makes these notes, and a runner of CI often has no name for git.
        for name in ("AUTHOR", "COMMITTER"):
            environment.setdefault(f"GIT_{name}_NAME", "bw history")
            environment.setdefault(f"GIT_{name}_EMAIL", "bw@localhost")
        try:
            done = run_git(
                arguments,
                str(self._repository),
                stdin=stdin,
                environment=environment,
                timeout_s=_GIT_S,
            )
        except FileNotFoundError:
            raise StudyError("git-failed", "there is no program git", "install it") from None
        except subprocess.TimeoutExpired:
            message = f"git {arguments[0]} did not end within {plural(_GIT_S, 'second')}"
            raise StudyError("git-failed", message) from None
        if done.returncode:
            text = done.stderr.decode(errors="replace").strip() or "no message"
            message = f"git {arguments[0]} failed: {text}"
            hint = ""
            if arguments[0] in ("ls-remote", "fetch", "push"):
                hint = "`git remote -v` lists the remotes; name one with --remote"
            raise StudyError("git-failed", message, hint)
        return done.stdout


def _text(line: _Line) -> str:
    return msgspec.json.encode(line).decode()


def _age(line: _RunLine) -> tuple[int, bytes]:
    """Return what is larger for a later state of a run: its trials."""
    return sum(history_point.trials for _, history_point in line.points), msgspec.json.encode(line)
