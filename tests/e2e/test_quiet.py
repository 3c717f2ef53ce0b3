"""`bw quiet` as a user meets it: around a command, kept, killed, and put back by any bw."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
without_systemd = pytest.mark.skipif(
    Path("/run/systemd/system").is_dir(), reason="with systemd processes are not paused"
)
ORDINARY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
)
"""Nobody in particular, who can read this Python wherever it lies, and write nothing."""
KNOBS = ("nologin", "aslr", "thp", "swappiness")
VOLATILE = ("random/", "ns_last_pid", "pty/nr", "perf_event_max_sample_rate", "tainted")
SETTINGS = f"{' '.join(KNOBS)} swap=%s services=bwquietd"


class User:
    """Somebody at a shell, with a state directory and a `bw` of his own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = place / "state"
        wrapper = place / "bin" / "bw"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchwright.cli.main "$@"\n')
        wrapper.chmod(0o755)
        path = os.pathsep.join((str(wrapper.parent), os.environ["PATH"], "/usr/sbin"))
        self.environment = {**os.environ, "BW_STATE": str(self.state), "PATH": path}
        for name in ("BW_SESSION", "BW_STUDY"):
            self.environment.pop(name, None)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bw", *words],
            env=self.environment,
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def bw(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    someone = User(tmp_path)
    yield someone
    someone.bw("quiet", "--restore")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[int]:
    """A service with a name of its own."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, tmp_path / "bwquietd")
    with subprocess.Popen([str(tmp_path / "bwquietd"), "600"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[str]:
    """A swap device, in use, where one can be had; else a name that is none."""
    image = tmp_path / "swap.img"
    image.write_bytes(bytes(4 << 20))
    image.chmod(0o600)
    device = ""
    with contextlib.suppress(FileNotFoundError):
        made = subprocess.run(
            ["losetup", "-f", "--show", str(image)], capture_output=True, text=True
        )
        device = made.stdout.strip()
    if not device:
        print("skipped: swap (no loop device)")
        yield "/dev/null"
        return
    subprocess.run(["mkswap", device], capture_output=True)
    subprocess.run(["swapon", "-p", "3", device], capture_output=True)
    yield device
    subprocess.run(["swapoff", device], capture_output=True)
    subprocess.run(["losetup", "-d", device], check=True)


def machine(daemon: int) -> dict[str, str]:
    """Return the machine field by field: what `bw quiet` could have left changed."""
    found = {
        "swap": Path("/proc/swaps").read_text(),
        "service": "paused" if _state(daemon) in "Tt" else "runs",
        "nologin": str([Path(p).exists() for p in ("/run/nologin", "/etc/nologin")]),
        "mounts": "".join(_mounts()),
        "cgroups of this process": Path("/proc/self/cgroup").read_text(),
        "groups of ours": str(sorted(Path("/sys/fs/cgroup").glob("**/bw-[bo]*"))),
        "root cpuset": _text(Path("/sys/fs/cgroup/cpuset/cpuset.cpus")),
    }
    for pattern in ("sys/kernel/**/*", "sys/vm/*", "irq/*/smp_affinity_list"):
        for path in Path("/proc").glob(pattern):
            if path.is_file() and not any(part in str(path) for part in VOLATILE):
                found[str(path)] = _text(path)
    for pattern in ("devices/system/cpu/**/scaling_governor", "kernel/mm/*/[ed]*"):
        for path in Path("/sys").glob(pattern):
            found[str(path)] = _text(path) if path.is_file() else ""
    return found


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def _mounts() -> Iterator[str]:
    """Yield the mounts, but for those that other tests make and end meanwhile."""
    for line in Path("/proc/self/mounts").read_text().splitlines(keepends=True):
        if tempfile.gettempdir() not in line:
            yield line


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return error.strerror or "unreadable"


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


# -- around a command ------------------------------------------------------------------


@needs_root
def test_quiet_while_a_command_runs_and_back_after_it(user: User) -> None:
    path = "/proc/sys/kernel/randomize_va_space"
    before = Path(path).read_text()
    done = user.bw("quiet", "aslr", "smt", "--json", "--", "cp", path, "seen")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["schema"] == "benchwright/quiet/1"
    assert (user.place / "seen").read_text() == "0\n"
    assert Path(path).read_text() == before
    assert [u["how"] for u in told["restored"]["undone"]] == ["written"]


@needs_root
def test_a_command_that_fails_and_one_that_is_ended_leave_no_trace(user: User) -> None:
    before = Path("/proc/sys/vm/swappiness").read_text()
    assert user.bw("quiet", "swappiness", "--", "false").returncode == 1
    assert Path("/proc/sys/vm/swappiness").read_text() == before
    for number in (signal.SIGINT, signal.SIGTERM):
        script = "touch ready; exec sleep 60"
        with user.start("quiet", "swappiness", "--", "sh", "-c", script) as process:
            wait_for(user.place / "ready")
            assert Path("/proc/sys/vm/swappiness").read_text() == "1\n"
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            assert process.wait(timeout=60) == 130
        (user.place / "ready").unlink()
        assert Path("/proc/sys/vm/swappiness").read_text() == before


def test_what_is_wrong_is_told_before_anything_is_done(user: User) -> None:
    for words, told in (
        (["trubo", "--", "true"], "did you mean turbo"),
        (["swap"], "there is no command"),
        (["--", "true"], "no setting is given"),
        (["swap", "--keep", "--", "true"], "cannot be combined"),
        (["swap", "--", "no-such-program"], "there is no program"),
        (["isolation=4000", "--", "true"], "isolation cannot be '4000'"),
        (["thp=foo", "--keep"], "allowed: always, madvise, never"),
        (["thp=foo", "--list"], "allowed: always, madvise, never"),
        (["aslr", "aslr=7", "--keep"], "aslr=7\n"),
        (["swappiness=x", "aslr=7", "--keep"], "aslr cannot be '7'"),
        (["swappiness=x", "aslr=7", "--keep"], "swappiness cannot be 'x'"),
    ):
        done = user.bw("quiet", *words)
        assert done.returncode == 2, words
        assert told in done.stderr
        assert "Traceback" not in done.stderr
    assert not (user.state / "quiet.log").exists()


@pytest.mark.parametrize("word", ["aslr=7", "isolation=4000"])
def test_a_suites_wrong_value_is_told_before_anything_is_done(user: User, word: str) -> None:
    """At its place where the suite says it; and where a script of the suite asks."""
    (user.place / "s.toml").write_text(
        f'quiet = ["swappiness=5",\n  "{word}"]\n[[test]]\nexec = "touch ran"\n'
    )
    user.environment["BW_QUIET"] = f"swappiness=5 {word}"
    noservices = EXAMPLES / "noservices.sh"
    text = f"FASTFAIL\nSYSTEM {noservices}\nTEST one 1\nEXEC touch ran\nDONE\n"
    (user.place / "s.ap").write_text(text)
    before = Path("/proc/sys/vm/swappiness").read_text()
    told = f"{word.partition('=')[0]} cannot be '{word.partition('=')[2]}'; allowed:"
    for suite, place, status in (("s.toml", "s.toml:2:3: ", 2), ("s.ap", "", 1)):
        done = user.bw("run", suite, "--study", f"of {suite}")
        said = done.stderr + "".join(
            path.read_text() for path in (user.place / f"of {suite}").rglob("*.err")
        )
        assert done.returncode == status, said
        assert place + told in said
        assert "Traceback" not in said
    checked = user.bw("run", "--check", "s.toml")
    assert (checked.returncode, "s.toml:2:3: " + told in checked.stderr) == (2, True)
    assert not (user.place / "of s.toml").exists(), "no session was begun"
    assert not (user.place / "ran").exists()
    assert not (user.state / "quiet.log").exists()
    assert Path("/proc/sys/vm/swappiness").read_text() == before


def test_the_list_shows_every_setting(user: User) -> None:
    told = json.loads(user.bw("quiet", "--list", "--json").stdout)
    assert len(told["settings"]) == 14
    assert all(one["now"] for one in told["settings"])


@needs_root
def test_an_ordinary_user_is_told_what_he_cannot_have(user: User) -> None:
    """His state is his own; the command runs; nothing is changed; each lack has a name."""
    home = Path(tempfile.mkdtemp(prefix="bw-home-"))
    try:
        os.chown(home, 65534, 65534)
        environment = {"HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        words = ("nologin", "aslr", "irq-affinity", "isolation", "caches", "--json")
        bw = (sys.executable, "-m", "benchwright.cli.main")
        done = subprocess.run(
            [*ORDINARY, *bw, "quiet", *words, "--", "true"],
            env={"PATH": os.environ["PATH"], **environment},
            cwd=home,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["quiet"]
        assert found["done"] == []
        told = {one["subject"] for one in found["findings"]}
        assert {"quiet nologin", "quiet aslr", "quiet caches"} <= told
        assert (home / ".local/state/benchwright").stat().st_uid == 65534
    finally:
        shutil.rmtree(home)


# -- killed ----------------------------------------------------------------------------

AP = """
SYSTEM {noservices}
TEST one 3
  EXEC sh -c 'touch {place}/ready; sleep 600'
DONE
SYSTEM {services}
"""
TOML = """
quiet = {words}
[[test]]
exec = "sh -c 'touch {place}/ready; sleep 600'"
"""


def suite(user: User, kind: str, swap: str) -> list[str]:
    """Return the words for `bw` that run something long with the machine quieted."""
    words = (SETTINGS % swap).split()
    command = ["sh", "-c", f"touch {user.place}/ready; sleep 600"]
    if kind == "around":
        run = ["bw", "run", "--study", str(user.place / "s"), "--", *command]
        return ["quiet", *words, "--", *run]
    if kind == "toml":
        text = TOML.format(words=json.dumps(words), place=user.place)
        (user.place / "s.toml").write_text(text)
        return ["run", "s.toml", "--study", "s"]
    user.environment["BW_QUIET"] = " ".join(words)
    services, noservices = EXAMPLES / "services.sh", EXAMPLES / "noservices.sh"
    text = AP.format(place=user.place, services=services, noservices=noservices)
    (user.place / "s.ap").write_text(text)
    return ["run", "s.ap", "--study", "s"]


def kill_all(process: subprocess.Popen[str], user: User) -> None:
    """Kill bw and everything that it started, launcher and guard too, at once."""
    doomed = {process.pid}
    while True:
        more = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
                environment = (entry / "environ").read_bytes()
                mine = f"BW_STATE={user.state}".encode() in environment
                if parent in doomed or mine:
                    more.add(int(entry.name))
        if more <= doomed:
            break
        doomed |= more
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


@needs_root
@without_systemd
@pytest.mark.parametrize("kind", ["around", "noservices", "toml"])
def test_any_bw_after_a_kill_puts_the_machine_back(
    user: User, daemon: int, swap: str, kind: str
) -> None:
    before = machine(daemon)
    process = user.start(*suite(user, kind, swap))
    wait_for(user.place / "ready")
    meanwhile = machine(daemon)
    changed = {name for name in before if before[name] != meanwhile[name]}
    kill_all(process, user)
    assert {"service", "nologin", "/proc/sys/vm/swappiness"} <= changed
    assert ("swap" in changed) is (swap != "/dev/null")
    done = user.bw("--version")
    assert done.returncode == 0
    assert "were undone" in done.stderr
    assert machine(daemon) == before
    assert not (user.state / "quiet.log").exists()


@needs_root
@without_systemd
def test_services_are_back_at_the_end_of_a_suite(user: User, daemon: int) -> None:
    before = machine(daemon)
    user.environment["BW_QUIET"] = "services=bwquietd aslr"
    noservices, services = EXAMPLES / "noservices.sh", EXAMPLES / "services.sh"
    (user.place / "s.ap").write_text(
        f"SYSTEM {noservices}\nTEST one 2\nEXEC cp /proc/{daemon}/stat seen\nDONE\n"
        f"SYSTEM {services}\n"
    )
    done = user.bw("run", "s.ap", "--study", "s")
    assert done.returncode == 0, done.stderr
    assert ") T " in (user.place / "seen").read_text()
    assert machine(daemon) == before


@needs_root
def test_a_suites_settings_and_what_its_scripts_keep_end_with_the_session(user: User) -> None:
    path = Path("/proc/sys/vm/swappiness")
    before = path.read_text()
    user.environment["BW_QUIET"] = "swappiness=5"
    noservices = EXAMPLES / "noservices.sh"
    copy = f"EXEC cp {path} seen"
    (user.place / "s.ap").write_text(f"SYSTEM {noservices}\nTEST one 1\n{copy}\nDONE\n")
    (user.place / "s.toml").write_text(
        f'quiet = ["swappiness=5", "smt"]\n[[test]]\nexec = "cp {path} seen"\n'
        "[test.until]\ncount = 1\n"
    )
    for suite in ("s.ap", "s.toml"):
        done = user.bw("run", suite, "--study", f"of {suite}")
        assert done.returncode == 0, done.stderr
        assert (user.place / "seen").read_text() == "5\n"
        assert path.read_text() == before
        assert "quiet: 1 restored (swappiness)" in done.stderr
        (user.place / "seen").unlink()


@needs_root
def test_keeping_what_is_so_already_holds_nothing(user: User) -> None:
    now = Path("/proc/sys/vm/swappiness").read_text().strip()
    assert user.bw("quiet", f"swappiness={now}", "--keep").returncode == 0
    assert not (user.state / "quiet.log").exists()
    assert user.bw("quiet", "--status").stdout == "nothing is changed\n"


@needs_root
def test_from_a_read_only_place_restoring_says_what_to_do(user: User) -> None:
    path = Path("/proc/sys/vm/swappiness")
    before = path.read_text()
    assert user.bw("quiet", "swappiness=7", "--keep").returncode == 0
    mount = f"mount --bind {user.state} {user.state}"
    script = f"{mount} && mount -o remount,bind,ro {user.state} && exec bw quiet $0"
    words = ["unshare", "--mount", "sh", "-c", script, "--restore"]
    done = subprocess.run(
        words, env=user.environment, capture_output=True, text=True, cwd=user.place
    )
    if done.returncode == 32 or "unshare failed" in done.stderr:
        pytest.skip(f"no mounts of one's own: {done.stderr.strip()}")
    assert done.returncode == 1
    assert "Read-only file system [quiet-state]" in done.stderr
    assert "run `bw quiet --restore`" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_text() == "7\n"
    assert user.bw("quiet", "--restore").returncode == 0
    assert path.read_text() == before


@needs_root
def test_kept_until_it_is_restored(user: User) -> None:
    path = Path("/proc/sys/vm/swappiness")
    before = path.read_text()
    assert user.bw("quiet", "swappiness=7", "--keep").returncode == 0
    assert path.read_text() == "7\n"
    user.bw("--version")
    assert path.read_text() == "7\n"
    busy = user.bw("quiet", "aslr", "--", "true")
    assert busy.returncode == 2
    assert "quiet-busy" in busy.stderr
    told = user.bw("quiet", "--status").stdout
    assert "/proc/sys/vm/swappiness: 60 -> 7, now 7".replace("60", before.strip()) in told
    assert user.bw("quiet", "--restore").returncode == 0
    assert path.read_text() == before
