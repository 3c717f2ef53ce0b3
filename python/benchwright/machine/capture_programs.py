"""The benchmarked programs and the repository around them: files, hashes, packages,
versions, git commit."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchwright.core.machine import Fact
from benchwright.core.untrusted import open_regular, regular_bytes
from benchwright.machine.redact import redacted_text
from benchwright.machine.sources import (
    EXPECTED,
    SUSPICIOUS,
    MachineFiles,
    ProgramAnswer,
    RunningProgram,
    StartProgram,
    absent_fact,
    present_fact,
    reason_of,
)
from benchwright.study.git import git_words

# --------------------------------------------------------------------------------------
# The benchmarked programs: their files, hashes, packages and versions.
#
# Decision: packages are looked up in dpkg's own files, since `dpkg -S` takes longer than the
# rest of a capture; rpm has a database, so `rpm` is run. A benchmarked program is run for its
# version only if the user requests it. Sources: dpkg-query(1), rpm(8).

_PART = re.compile(r"[^\s'\"=:,;|&<>()]+")
"""A part of a command's word that may be a path."""
_LONGEST_PATH = 4096
"""PATH_MAX (linux/limits.h): the kernel finds no file of a longer one."""
MOST_PROGRAMS = 8
MOST_COMMANDS = 32
MOST_HASHED_BYTES = 64 << 20
"""Hashing this size takes about 0.1 s; of larger files only size and mtime are recorded."""

_DPKG = "/var/lib/dpkg"
_LOCAL = ("/usr/local/", "/home/")
"""Directories without files of packages (Debian Policy 9.1.2, hier(7))."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WRAPPERS = frozenset(
    (
        *("env", "nice", "ionice", "taskset", "numactl", "chrt", "time", "timeout"),
        *("nohup", "setsid", "stdbuf", "exec", "sudo"),
    )
)
"""Programs that run the command in their arguments."""
_NOT_PROGRAMS = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done"),
        *("case", "esac", "in", "{", "}", "!", "cd", "test", "[", "set", "export"),
        *("ulimit", "true", "false", "echo", "wait"),
    )
)
"""Keywords and builtin commands of the shell."""
_BREAKS = frozenset(("&&", "||", ";", "|", "&", "(", ")", ";;"))


class ProgramFile(NamedTuple):
    """A program that a command names, and its file."""

    name: str
    path: str


class Deadline(NamedTuple):
    """The end of a capture's slow parts, CLOCK_MONOTONIC [ns]."""

    at_ns: int

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return time.monotonic_ns() >= self.at_ns


def program_facts(
    tree: MachineFiles, commands: Sequence[Sequence[str]], surroundings: Mapping[str, str]
) -> Iterator[Fact]:
    """Yield the program and the paths of each command, and the file of each program.

    `surroundings` has PATH, and PWD, to which relative paths refer.
    """
    for at, words in enumerate(commands[:MOST_COMMANDS], 1):
        recorded = _recorded_command(words, surroundings.get("PWD", "/"))
        yield present_fact(f"command.{at}", recorded, "as given", EXPECTED)
    if len(commands) > MOST_COMMANDS:
        rest = f"not captured: {len(commands) - MOST_COMMANDS} more commands"
        yield absent_fact("command.more", "as given", rest, EXPECTED)
    programs = named_programs(commands, surroundings)
    for program in programs[:MOST_PROGRAMS]:
        yield from _file_facts(tree, program)
    if len(programs) > MOST_PROGRAMS:
        rest = f"not captured: {len(programs) - MOST_PROGRAMS} more programs"
        yield absent_fact("program.more", "PATH", rest, EXPECTED)


def _recorded_command(words: Sequence[str], directory: str) -> str:
    """Return a command's program and the existing files and directories that it names.

    Other arguments are not recorded: any of them may be a secret. For a path that does not
    exist, its nearest existing directory is used, unless it is above the working directory.
    """
    paths: dict[str, None] = {}
    for piece in _PART.findall(" ".join(words[1:])):
        if "/" not in piece or len(piece) > _LONGEST_PATH:
            continue
        path = os.path.normpath(os.path.join(directory, piece))
        while not os.path.lexists(path):
            path = os.path.dirname(path)
        if not f"{directory}/".startswith(f"{path.rstrip('/')}/"):
            paths[path] = None
    return shlex.join([redacted_text(words[0]), *paths] if words else [])


def named_programs(
    commands: Sequence[Sequence[str]], surroundings: Mapping[str, str]
) -> list[ProgramFile]:
    """Return the existing programs that commands name, each once.

    These are the first word of a command and every word that is the path of an executable
    file; for `sh -c TEXT`, also the programs in the text.
    """
    found: dict[str, ProgramFile] = {}
    for words in commands:
        for word in _candidates(words):
            path = resolved(word, surroundings)
            if path is not None:
                found.setdefault(path, ProgramFile(os.path.basename(word), path))
    return list(found.values())


def resolved(word: str, surroundings: Mapping[str, str]) -> str | None:
    """Return the executable file that a word names, with links resolved, or None."""
    directory = surroundings.get("PWD", "/")
    if "/" in word:
        places = [os.path.join(directory, word)]
    else:
        search = surroundings.get("PATH", os.defpath).split(":")
        places = [os.path.join(directory, place or ".", word) for place in search]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.realpath(place)
    return None


def _candidates(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that may name a program."""
    first = True
    for at, word in enumerate(words):
        if word in _BREAKS:
            first = True
        elif first and (_ASSIGNMENT.match(word) or word in _NOT_PROGRAMS):
            continue
        elif first or "/" in word:
            yield word
            first = first and os.path.basename(word) in _WRAPPERS
        if word == "-c" and at and at + 1 < len(words):
            yield from _candidates(shell_words(words[at + 1]))


def shell_words(line: str) -> list[str]:
    """Return the words and operators of a shell command; empty if it cannot be parsed."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        return list(reader)
    except ValueError:
        return []


def _file_facts(tree: MachineFiles, program: ProgramFile) -> Iterator[Fact]:
    name, path = f"program.{program.name}", program.path
    yield present_fact(f"{name}.path", path, "PATH", SUSPICIOUS)
    try:
        status = os.stat(tree.root + path)
    except OSError as error:
        yield absent_fact(f"{name}.sha256", path, reason_of(error), SUSPICIOUS)
        return
    yield present_fact(f"{name}.size_bytes", str(status.st_size), path, SUSPICIOUS)
    yield present_fact(f"{name}.modified_ns", str(status.st_mtime_ns), path, EXPECTED)
    if status.st_size > MOST_HASHED_BYTES:
        reason = f"larger than {MOST_HASHED_BYTES >> 20} MiB"
        yield absent_fact(f"{name}.sha256", path, reason, SUSPICIOUS)
        return
    try:
        with open_regular(tree.root + path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        yield absent_fact(f"{name}.sha256", path, reason_of(error), SUSPICIOUS)
    else:
        yield present_fact(f"{name}.sha256", digest, path, SUSPICIOUS)


class Packages(NamedTuple):
    """The package queries of one capture; queries of rpm are already running."""

    programs: list[ProgramFile]
    asked: dict[str, RunningProgram]

    @classmethod
    def begin(
        cls, tree: MachineFiles, programs: list[ProgramFile], begin: StartProgram
    ) -> Packages:
        """Start the queries that need a program."""
        if tree.exists(f"{_DPKG}/status") or not programs:
            return cls(programs, {})
        words = ("rpm", "-qf", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n")
        return cls(programs, {p.path: begin((*words, p.path), "/") for p in programs})

    def facts(self, tree: MachineFiles, deadline: Deadline) -> Iterator[Fact]:
        """Yield the package and version of each program, found by the deadline."""
        paths = [p.path for p in self.programs if p.path not in self.asked]
        debian = _debian(tree, paths, deadline)
        for program in self.programs:
            if program.path in self.asked:
                told = self.asked[program.path].answer(deadline.at_ns)
                source = "rpm -qf"
            else:
                told = debian[program.path]
                source = f"{_DPKG}/info"
            text = (told.text or "").strip().splitlines()[:1]
            value = text[0] if text else None
            absent = "" if value else told.absent or "in no package"
            name = f"program.{program.name}.package"
            yield Fact(name, value, source, absent, SUSPICIOUS)


def _debian(
    tree: MachineFiles, paths: Sequence[str], deadline: Deadline
) -> dict[str, ProgramAnswer]:
    """Return the Debian package of each file and its version.

    The file lists, one for each package, are read once for all paths.
    """
    told = {path: ProgramAnswer(None, "in no package") for path in paths}
    left = {path: _marks(path) for path in paths if not path.startswith(_LOCAL)}
    stems = tuple(os.path.basename(path)[:4] for path in left)
    for name in _lists(tree, stems) if left else ():
        if deadline.is_over():
            late = ProgramAnswer(None, "looking for its package took too long")
            return told | dict.fromkeys(left, late)
        data = b"\n" + _bytes(f"{tree.root}{_DPKG}/info/{name}")
        for path in [p for p, marks in left.items() if any(m in data for m in marks)]:
            package = name.removesuffix(".list").split(":")[0]
            told[path] = ProgramAnswer(f"{package} {_debian_version(tree, package)}")
            del left[path]
        if not left:
            break
    return told


def _marks(path: str) -> tuple[bytes, ...]:
    """Return the lines under which packages may list a file."""
    # Since /bin became a link to /usr/bin, packages may list a file under either name.
    paths = {path, path.removeprefix("/usr"), f"/usr{path}"}
    return tuple(f"\n{p}\n".encode() for p in paths if p.startswith("/"))


def _lists(tree: MachineFiles, stems: tuple[str, ...]) -> list[str]:
    """Return the packages' file lists; first those named like one of the programs."""
    try:
        names = os.listdir(f"{tree.root}{_DPKG}/info")
    except OSError:
        return []
    lists = [name for name in names if name.endswith(".list")]
    return sorted(lists, key=lambda name: (not name.startswith(stems), name))


def _debian_version(tree: MachineFiles, package: str) -> str:
    data = b"\n" + _bytes(f"{tree.root}{_DPKG}/status")
    start = data.find(f"\nPackage: {package}\n".encode())
    end = data.find(b"\n\n", start)
    matched = re.search(rb"\nVersion: (\S+)", data[start:end]) if start >= 0 else None
    return matched[1].decode() if matched else "(version unknown)"


def _bytes(path: str) -> bytes:
    with contextlib.suppress(OSError):
        return regular_bytes(path)
    return b""


def begin_versions(
    programs: Sequence[ProgramFile], begin: StartProgram, directory: str
) -> dict[str, RunningProgram]:
    """Start each program with `--version`; only if the user requested it."""
    return {p.name: begin((p.path, "--version"), directory) for p in programs}


def version_facts(asked: Mapping[str, RunningProgram], deadline: Deadline) -> Iterator[Fact]:
    """Yield the first line of each program's answer to `--version`."""
    for name, pending in asked.items():
        told = pending.answer(deadline.at_ns)
        line = (told.text or "").strip().split("\n")[0]
        absent = "" if line else told.absent or "it printed nothing"
        value = redacted_text(line) if line else None
        yield Fact(f"program.{name}.version", value, "--version", absent, SUSPICIOUS)


# -- The git commit of the working directory, its time, and whether files differ from it ----
#
# Decision: the commit is read from `.git`. Its time is in a compressed object, and detecting
# changed files needs the index and many stat(2) calls, so git is run, without locks and untracked
# files, and within the capture's time limit. Source: gitrepository-layout(5).

_AS_IT_IS = ("--no-optional-locks", "--no-replace-objects")
_STATUS = git_words(
    *(*_AS_IT_IS, "status", "--porcelain"), *("--untracked-files=no", "--ignore-submodules=all")
)
_TIME = git_words(*_AS_IT_IS, "rev-list", "--max-count=1", "--timestamp", "HEAD")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


def find_repository(tree: MachineFiles, directory: str) -> str | None:
    """Return the `.git` directory of the work tree that contains a directory, or None."""
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


class RunningGit(NamedTuple):
    """The programs that were started to describe a repository."""

    status: RunningProgram
    time: RunningProgram

    @classmethod
    def begin(cls, directory: str, begin: StartProgram) -> RunningGit:
        """Start them in a directory of the work tree."""
        return cls(begin(_STATUS, directory), begin(_TIME, directory))

    def facts(self, commit: str | None, deadline: Deadline) -> Iterator[Fact]:
        """Yield whether files were changed since the commit, and the commit's time [s since 1970]."""
        status = self.status.answer(deadline.at_ns)
        changed = len((status.text or "").splitlines())
        files = "file" if changed == 1 else "files"
        text = f"{changed} {files} changed" if changed else "clean"
        state = text if status.text is not None else None
        yield Fact("git.state", state, "git status", status.absent, SUSPICIOUS)
        time_s = self.time.answer(deadline.at_ns)
        seconds, _, of_commit = (time_s.text or "").strip().partition(" ")
        # HEAD may have moved between the two.
        known = bool(seconds) and of_commit == commit
        absent = "" if known else time_s.absent or "no commit yet"
        value = seconds if known else None
        yield Fact("git.commit_time", value, "git rev-list", absent, EXPECTED)


def repository_facts(tree: MachineFiles, repository: str | None) -> Iterator[Fact]:
    """Yield commit and branch."""
    if repository is None:
        yield absent_fact("git.commit", ".git", "no repository here", SUSPICIOUS)
        return
    head = tree.read(f"{repository}/HEAD")
    reference = (head.text or "").removeprefix("ref:").strip()
    if _COMMIT.match(reference):
        yield present_fact("git.commit", reference, f"{repository}/HEAD", SUSPICIOUS)
        yield absent_fact("git.branch", f"{repository}/HEAD", "on no branch", SUSPICIOUS)
    else:
        yield _commit_of(tree, repository, reference, head.absent)
        branch = reference.removeprefix("refs/heads/")
        yield present_fact("git.branch", branch, f"{repository}/HEAD", SUSPICIOUS)


def _commit_of(tree: MachineFiles, repository: str, reference: str, absent: str) -> Fact:
    """Return a branch's commit, from its own file or from packed-refs."""
    common = tree.text(f"{repository}/commondir")
    shared = os.path.normpath(os.path.join(repository, common or "."))
    for place in dict.fromkeys((repository, shared)):
        path = f"{place}/{reference}"
        text = tree.text(path) if reference else ""
        if _COMMIT.match(text):
            return present_fact("git.commit", text, path, SUSPICIOUS)
    path = f"{shared}/packed-refs"
    for line in tree.text(path).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference and _COMMIT.match(commit):
            return present_fact("git.commit", commit, path, SUSPICIOUS)
    return absent_fact("git.commit", path, absent or "no commit yet", SUSPICIOUS)
