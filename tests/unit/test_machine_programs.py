"""Which programs commands name, their packages, and the commit of the directory."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from benchwright.core.machine import Fact, MachineCapture, Revision, revision_of
from benchwright.machine import capture_programs as programs
from benchwright.machine.capture_programs import (
    Deadline,
    Packages,
    ProgramFile,
    find_repository,
    named_programs,
    program_facts,
    repository_facts,
)
from benchwright.machine.sources import MachineFiles, start_program
from machine_trees import Answer

LONG = Deadline(2**62)  # a century after the machine started, whenever the test runs
OVER = Deadline(0)
REAL = MachineFiles()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with two programs and a file that is none."""
    for name, mode in (("one", 0o755), ("two", 0o755), ("data", 0o644)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} 1.2\n")
        (tmp_path / name).chmod(mode)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["one", "two"], ["one"]),
        (["./one", "./two", "./data"], ["one", "two"]),
        (["env", "A=1", "one", "two"], ["one"]),
        (["A=1", "two"], ["two"]),
        (["none-such"], []),
        (["one", "-c", "two && one"], ["one", "two"]),
        (["one", "-c", "if true; then two | one; fi"], ["one", "two"]),
        (["one", "-c", "unbalanced 'quote"], ["one"]),
    ],
)
def test_the_programs_that_a_command_names(place: Path, words: list[str], names: list[str]) -> None:
    found = named_programs([words], {"PATH": str(place), "PWD": str(place)})
    assert [p.name for p in found] == names
    assert [p.path for p in found] == [str(place / name) for name in names]


def test_a_link_is_the_file_that_it_names(place: Path) -> None:
    (place / "alias").symlink_to("one")
    (found,) = named_programs([["alias"]], {"PATH": str(place)})
    assert found == ProgramFile("alias", str(place / "one"))


def test_a_program_is_known_by_its_hash(place: Path) -> None:
    path = {"PATH": str(place), "PWD": str(place)}
    facts = {f.name: f for f in program_facts(REAL, [["one", "--key", "abc"]], path)}
    data = (place / "one").read_bytes()
    assert facts["program.one.sha256"].value == hashlib.sha256(data).hexdigest()
    assert facts["program.one.size_bytes"].value == str(len(data))
    assert facts["command.1"].value == "one"


def test_of_a_command_the_program_and_existing_paths_are_recorded(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    words = [
        *("one", "--token=hunter2", "-k", "sk/hunter2", f"--in={data}/new/file"),
        *("sh -c 'cat /etc/hostname'", "http://me:hunter2@host/x", "/hunter2"),
    ]
    (fact, *_) = program_facts(REAL, [words], {"PATH": str(place), "PWD": str(place)})
    assert fact.value == f"one {data} /etc/hostname"


def test_what_is_too_much_to_capture_is_counted(place: Path) -> None:
    for at in range(10):
        (place / f"p{at}").symlink_to("one")  # ten names of one program
        (place / f"q{at}").write_text("")
        (place / f"q{at}").chmod(0o755)
    path = {"PATH": str(place), "PWD": str(place)}
    commands = [[f"{letter}{at % 10}"] for letter in "pq" for at in range(20)]
    facts = {f.name: f for f in program_facts(REAL, commands, path)}
    assert facts["command.more"].absent == "not captured: 8 more commands"
    assert facts["program.more"].absent == "not captured: 3 more programs"
    assert sum(name.endswith(".sha256") for name in facts) == 8


def debian(root: Path) -> MachineFiles:
    """Return a root with two Debian packages."""
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "tools.list").write_text("/.\n/bin\n/bin/tool\n")
    (info / "lib2:amd64.list").write_text("/usr\n/usr/lib/x\n/usr/bin/tool-x\n")
    (root / "var/lib/dpkg/status").write_text(
        "Package: lib2\nVersion: 9\n\nPackage: tools\nStatus: ok\nVersion: 1:2.3-4\n\n"
    )
    return MachineFiles(str(root))


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("/usr/bin/tool", "tools 1:2.3-4"),
        ("/bin/tool", "tools 1:2.3-4"),
        ("/usr/bin/tool-x", "lib2 9"),
        ("/usr/bin/too", None),
        ("/opt/tool", None),
    ],
)
def test_the_debian_package_of_a_file(tmp_path: Path, path: str, package: str | None) -> None:
    tree = debian(tmp_path)
    asked = Packages.begin(tree, [ProgramFile("tool", path)], start_program)
    (fact,) = asked.facts(tree, LONG)
    assert fact.value == package
    assert fact.absent == ("" if package else "in no package")


def test_the_lists_of_files_are_read_once_for_all_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not at all for what lies where no package has a file."""
    tree, read = debian(tmp_path), []

    def noted(path: str) -> bytes:
        read.append(Path(path).name)
        return Path(path).read_bytes()

    monkeypatch.setattr(programs, "_bytes", noted)
    paths = ("/opt/a", "/opt/b", "/bin/tool", "/usr/local/bin/c")
    named = [ProgramFile(path[-1], path) for path in paths]
    facts = list(Packages.begin(tree, named, start_program).facts(tree, LONG))
    assert [fact.value for fact in facts] == [None, None, "tools 1:2.3-4", None]
    assert facts[-1].absent == "in no package"
    assert sorted(read) == ["lib2:amd64.list", "status", "tools.list"]
    read.clear()
    list(Packages.begin(tree, named[-1:], start_program).facts(tree, LONG))
    assert read == []


def test_a_lookup_that_takes_too_long_is_absent_by_name(tmp_path: Path) -> None:
    tree = debian(tmp_path)
    asked = Packages.begin(tree, [ProgramFile("tool", "/bin/tool")], start_program)
    (fact,) = asked.facts(tree, OVER)
    assert fact.value is None
    assert "took too long" in fact.absent


def test_rpm_is_asked_where_there_is_no_dpkg(tmp_path: Path) -> None:
    words: list[str] = []

    def rpm(asked: object, directory: str) -> Answer:
        words.extend(asked if isinstance(asked, tuple) else ())
        return Answer("coreutils 9.1-8.el9\n")

    tree = MachineFiles(str(tmp_path))
    asked = Packages.begin(tree, [ProgramFile("ls", "/usr/bin/ls")], rpm)
    (fact,) = asked.facts(tree, LONG)
    assert fact.value == "coreutils 9.1-8.el9"
    assert words[0] == "rpm"
    assert words[-1] == "/usr/bin/ls"


def alive_in(session: str) -> list[str]:
    """Return the processes of a session that are not dead, reaped or not."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if of == session and state not in "ZX":
            found.append(path.parent.name)
    return found


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    pending = start_program(["sh", "-c", "echo $$ > pid; sleep 1000 & sleep 1000"], str(tmp_path))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    told = pending.answer(0)
    assert (told.text, told.absent) == (None, "sh took too long")
    session = (tmp_path / "pid").read_text().strip()
    while alive_in(session):  # killed, and on its way out
        time.sleep(0.01)


def test_what_a_program_said_or_why_not(tmp_path: Path) -> None:
    assert start_program(["echo", "a"], "/").answer(LONG.at_ns).text == "a\n"
    assert start_program(["false"], "/").answer(LONG.at_ns).absent == "false ended with status 1"
    missing = start_program([str(tmp_path / "none")], "/").answer(LONG.at_ns)
    assert missing.absent.endswith("is not installed")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("files", "commit", "branch"),
    [
        ({"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"}, *(COMMIT, "main")),
        (
            {
                "HEAD": "ref: refs/heads/a/b\n",
                "packed-refs": f"# pack-refs\n{COMMIT} refs/heads/a/b\n",
            },
            *(COMMIT, "a/b"),
        ),
        ({"HEAD": f"{COMMIT}\n"}, COMMIT, None),
        ({"HEAD": "ref: refs/heads/new\n"}, None, "new"),
    ],
)
def test_the_commit_is_read_from_the_repository(
    tmp_path: Path, files: dict[str, str], commit: str | None, branch: str | None
) -> None:
    for name, text in files.items():
        path = tmp_path / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "deep/er").mkdir(parents=True)
    repository = find_repository(REAL, str(tmp_path / "deep/er"))
    assert repository == str(tmp_path / ".git")
    facts = {f.name: f.value for f in repository_facts(REAL, repository)}
    assert (facts["git.commit"], facts["git.branch"]) == (commit, branch)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_real_repository_and_its_work_tree(tmp_path: Path) -> None:
    from benchwright.machine.capture import CaptureSources, capture

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *words], cwd=main, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    git("init", "-q", "-b", "trunk")
    (main / "file").write_text("1\n")
    git("add", "file")
    git("commit", "-qm", "first")
    git("worktree", "add", "-q", "-b", "side", str(other))
    (other / "file").write_text("changed\n")
    for directory, branch, state in ((main, "trunk", "clean"), (other, "side", "1 file changed")):
        machine = capture(sources=CaptureSources(directory=str(directory)), patience_s=60.0)
        found = {f.name: f.value for f in machine.facts}
        assert found["git.commit"] == git("rev-parse", "HEAD")
        assert (found["git.branch"], found["git.state"]) == (branch, state)
        assert found["git.commit_time"] == git("show", "-s", "--format=%ct")
        assert revision_of(machine) == Revision(
            git("rev-parse", "HEAD"),
            branch,
            dirty=state != "clean",
            committed_s=int(git("show", "-s", "--format=%ct")),
        )


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_repository_runs_no_program_of_its_own(tmp_path: Path) -> None:
    from benchwright.machine.capture import CaptureSources, capture

    place, ran, program = (tmp_path / name for name in ("place", "ran", "program"))
    place.mkdir()

    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=place, check=True, text=True)

    git("init", "-q")
    (place / "file").write_text("1\n")
    git("add", "file")
    git("commit", "-qm", "first")
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    hooks = place / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction"):
        (hooks / name).symlink_to(program)
    for name in ("core.fsmonitor", "core.pager", "gpg.program"):
        git("config", name, str(program))
    git("config", "log.showSignature", "true")
    ran.unlink(missing_ok=True)
    machine = capture(sources=CaptureSources(directory=str(place)), patience_s=60.0)
    assert not ran.exists()
    revision = revision_of(machine)
    assert revision is not None
    assert (revision.dirty, revision.committed_s is None) == (False, False)
    git("status", "--porcelain")
    assert ran.exists()


def test_outside_a_repository_and_before_its_first_commit(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/new\n")
    for directory in ("/", str(tmp_path)):
        found = repository_facts(REAL, find_repository(REAL, directory))
        assert revision_of(MachineCapture(1, tuple(found))) is None


def test_a_capture_without_times_still_has_its_commit() -> None:
    """Sessions of version 0.1 have no `git.commit_time`."""
    facts = (Fact("git.commit", COMMIT), Fact("git.state", None, absent="late"))
    old = MachineCapture(1, facts)
    assert revision_of(old) == Revision(COMMIT)
    assert revision_of(MachineCapture(1, ())) is None
