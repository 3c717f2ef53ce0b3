"""The hook `remote`, over a real sshd on loopback or in a network namespace.

Decision: counters only grow, so the hook's figure must lie between two that the test takes
from /proc itself, just inside and just outside; that holds on a busy machine too.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import benchwright
import ssh_server
from benchwright.trial.observe import parse_aplog, parse_numbers
from ssh_server import SshServer, namespace
from web_server import fetched, nginx

HOOK = Path(benchwright.__file__).parent / "hooks" / "remote"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

pytestmark = pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing() or "-")


class Remote:
    """The hook with its state, called as the launcher calls it."""

    def __init__(self, config: Path, state: Path, **settings: str) -> None:
        state.mkdir(exist_ok=True)
        self.state = state
        self._environment = {
            **os.environ,
            "BW_HOOK_STATE": str(state),
            "BW_REMOTE_HOST": "server",
            "BW_REMOTE_SSH_CONFIG": str(config),
            "BW_REMOTE_TIMEOUT_S": "60",
            **{f"BW_REMOTE_{name}": value for name, value in settings.items()},
        }

    def __call__(self, event: str) -> str:
        done = subprocess.run(
            [HOOK, event], env=self._environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done
        self.said = done.stderr
        return done.stdout

    def errors(self, text: str) -> list[str]:
        """Return what error lines say."""
        return re.findall(r"^# error: remote server: (.*)$", text, re.MULTILINE)


def values(text: str) -> dict[str, float]:
    """Return the values of what a hook printed."""
    return parse_numbers(parse_aplog(text).values)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    server.write()
    with server.running():
        yield server


def ticks(pids: list[int]) -> int:
    """Return the CPU time of processes, with that of children they waited for."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total


def measured(hook: Remote, pids: list[int], work: Callable[[], object]) -> None:
    """Measure work by a hook; what it says lies between what /proc says inside and out."""
    assert hook("premeasure") == ""
    outside = ticks(pids)
    assert hook("start") == ""
    inside = ticks(pids)
    work()
    inside = ticks(pids) - inside
    text = hook("end")
    outside = ticks(pids) - outside
    assert hook("final") == ""
    assert hook.errors(text) == []
    name = next(name for name in values(text) if name != "server_cpu_s")
    told = round(values(text)[name] * TICKS_PER_S)
    assert inside >= 5
    assert inside <= told <= outside
    assert values(text)["server_cpu_s"] == values(text)[name]


# -- the paper's case in small: a client's trial, the server's CPU time ----------------


def tree(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("place", ["loopback", "namespace"])
def test_cpu_time_of_a_server_is_what_the_kernel_says(place: str, tmp_path: Path) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("there is no nginx here")
    with ExitStack() as stack:
        address, prefix = "127.0.0.1", []
        if place == "namespace":
            if os.geteuid() or shutil.which("ip") is None:
                pytest.skip("a network namespace needs root and ip")
            name, address = namespace(stack)
            prefix = ["ip", "netns", "exec", name]
        (tmp_path / "ssh").mkdir()
        server = SshServer(tmp_path / "ssh", address)
        server.write()
        stack.enter_context(server.running(*prefix))
        process = stack.enter_context(nginx(tmp_path, address, *prefix))
        stack.callback(process.terminate)
        spec = f"pid:{tmp_path}/nginx.pid"
        hook = Remote(server.config, tmp_path / "state", PROCESSES=spec, HOOKS="network")
        pids = tree(int((tmp_path / "nginx.pid").read_text()))
        url = f"http://{address}:{(tmp_path / 'port').read_text()}/large"
        _check_case(hook, pids, url, place)


def _check_case(hook: Remote, pids: list[int], url: str, place: str) -> None:
    assert hook("premeasure") == ""
    outside = ticks(pids)
    assert hook("start") == ""
    before = ticks(pids)
    received = 0
    while ticks(pids) < before + 10:
        received += len(fetched(url))
    inside = ticks(pids) - before
    found = values(text := hook("end"))
    outside = ticks(pids) - outside
    assert hook.errors(text) == []
    assert inside <= round(found["server_nginx_cpu_s"] * TICKS_PER_S) <= outside
    assert outside - inside <= 2
    assert found["server_cpu_s"] == found["server_nginx_cpu_s"]
    # What the server sent crossed its own interface, and not this machine's idea of one.
    sent = "network_send_bytes" if place == "namespace" else "loopback_bytes"
    assert found[f"server_{sent}"] >= received
    blocks = parse_aplog(hook("final")).sections
    assert {one.name for one in blocks} == {"server-network"}


# -- whose CPU time -------------------------------------------------------------------

_BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"


def test_children_that_came_and_went_are_counted(server: SshServer, tmp_path: Path) -> None:
    """A parent that only waits, while its children burn: /proc shows it in the parent."""
    script = f"echo $$ >{tmp_path}/it.pid; read -r go; ({_BURN}); ({_BURN}); echo; read -r end"
    with subprocess.Popen(
        ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        pipe, answers = parent.stdin, parent.stdout
        while not (tmp_path / "it.pid").exists():
            time.sleep(0.01)

        def work() -> None:
            pipe.write(b"go\n")
            pipe.flush()
            answers.readline()

        spec = f"pid:{tmp_path}/it.pid"
        hook = Remote(server.config, tmp_path / "state", PROCESSES=spec)
        measured(hook, [parent.pid], work)
        pipe.close()


def test_a_process_is_known_by_its_name_and_two_names_are_summed_once(
    server: SshServer, tmp_path: Path
) -> None:
    program = tmp_path / "a-name-longer-than-15"
    shutil.copy(Path("/bin/sh").resolve(), program)
    with subprocess.Popen([program, "-c", "while :; do :; done"]) as burner:
        pattern = f"{program.name} a-name-lon*"
        hook = Remote(server.config, tmp_path / "state", PROCESSES=pattern)
        hook("premeasure")
        hook("start")
        before = ticks([burner.pid])
        while ticks([burner.pid]) < before + 5:
            time.sleep(0.01)
        text = hook("end")
        hook("final")
        burner.kill()
    found = values(text)
    assert found["server_a_name_longer_than_15_cpu_s"] >= 0.05
    assert found["server_a_name_lon_cpu_s"] == found["server_cpu_s"]
    assert found["server_cpu_s"] == found["server_a_name_longer_than_15_cpu_s"]


def test_kernel_threads_are_processes_too(server: SshServer, tmp_path: Path) -> None:
    if Path("/proc/2/comm").read_text().strip() != "kthreadd":
        pytest.skip("kernel threads are not seen here")
    hook = Remote(server.config, tmp_path / "state", PROCESSES="kthreadd")
    hook("premeasure")
    hook("start")
    assert "server_kthreadd_cpu_s" in values(hook("end"))
    hook("final")


def test_what_is_not_there_is_absent_and_not_zero(server: SshServer, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as gone:
        (tmp_path / "gone.pid").write_text(f"{gone.pid}\n")
        processes = f"sshd nfsd-of-mars pid:{tmp_path}/gone.pid pid:/no/such.pid"
        hook = Remote(server.config, tmp_path / "state", PROCESSES=processes)
        hook("premeasure")
        hook("start")
        gone.kill()
    text = hook("end")
    (told,) = parse_aplog(hook("final")).sections
    assert (told.name, told.fields["code"]) == ("finding", "remote-incomplete")
    assert all(error in told.fields["evidence"] for error in hook.errors(text))
    assert sorted(hook.errors(text)) == [
        f"pid:{tmp_path}/gone.pid ended during the measurement",
        "there is no process nfsd-of-mars",
        "there is no process pid:/no/such.pid",
    ]
    assert list(values(text)) == ["server_sshd_cpu_s"]


# -- commands and hooks there ---------------------------------------------------------


def test_commands_run_before_and_after_and_leave_nothing(server: SshServer, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text("")
    hook = Remote(
        server.config,
        tmp_path / "state",
        PREFIX="nfs",
        BEFORE=f"echo before >>{log}; echo seen",
        AFTER=f"echo after >>{log}",
        HOOKS="free-memory disk-io network other-cpu",
    )
    assert hook("premeasure") == ""
    assert hook.said == "seen\n"
    hook("start")
    assert len(list(server.temporary.iterdir())) == 1
    text = hook("end")
    final = hook("final")
    assert log.read_text() == "before\nafter\n"
    assert values(text)["nfs_free_memory_bytes"] > 0
    assert "nfs_other_cpu_s" in values(text)
    assert all(name.startswith("nfs_") for name in values(text))
    assert all(one.name.startswith("nfs-") for one in parse_aplog(final).sections)
    assert list(server.temporary.iterdir()) == []
    assert not (hook.state / "connection").exists()
    assert not _connections(hook.state)


def _connections(state: Path) -> list[Path]:
    """Return the processes that live in a hook's state directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == state:
                found.append(process)
        except OSError:
            continue
    return found


# -- trouble ---------------------------------------------------------------------------


def test_a_host_that_is_not_known_is_not_trusted(server: SshServer, tmp_path: Path) -> None:
    known = server.known_hosts.read_text()
    (tmp_path / "known").write_text("")
    text = server.config.read_text().replace(str(server.known_hosts), f"{tmp_path}/known")
    (tmp_path / "config").write_text(text)
    hook = Remote(tmp_path / "config", tmp_path / "state", PROCESSES="sshd")
    assert hook.errors(hook("premeasure")) == ["Host key verification failed."]
    assert [hook(event) for event in ("start", "end")] == ["", ""]
    assert "evidence = server: Host key verification failed.\n" in hook("final")
    assert (tmp_path / "known").read_text() == ""
    assert server.known_hosts.read_text() == known


def test_nobody_is_asked_for_a_password(server: SshServer, tmp_path: Path) -> None:
    text = server.config.read_text().replace("IdentityFile ", "IdentityFile /no")
    (tmp_path / "config").write_text(text)
    hook = Remote(tmp_path / "config", tmp_path / "state")
    (error,) = hook.errors(hook("premeasure"))
    assert "Permission denied" in error


def test_a_host_that_says_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """Something listens there, and never speaks."""
    (tmp_path / "config").write_text("UserKnownHostsFile none\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"ssh://127.0.0.1:{silent.getsockname()[1]}"
        hook = Remote(tmp_path / "config", tmp_path / "state", HOST=host, TIMEOUT_S="1")
        told = hook("premeasure")
        assert told.startswith(f"# error: remote {host}: ")
        assert "no answer within 1 s" in told or "timed out" in told
        assert [hook(event) for event in ("start", "end")] == ["", ""]


def test_a_command_that_hangs_is_given_up_and_after_still_runs(
    server: SshServer, tmp_path: Path
) -> None:
    hook = Remote(
        server.config,
        tmp_path / "state",
        BEFORE="sleep 600",
        AFTER=f"echo after >{tmp_path}/log",
        TIMEOUT_S="3",
        PROCESSES="sshd",
    )
    assert hook.errors(hook("premeasure")) == ["before: no answer within 3 s"]
    assert [hook(event) for event in ("start", "end")] == ["", ""]
    assert "evidence = server: before: no answer" in hook("final")
    assert (tmp_path / "log").read_text() == "after\n"


def test_a_failing_command_is_told_with_its_last_words(server: SshServer, tmp_path: Path) -> None:
    hook = Remote(server.config, tmp_path / "state", BEFORE="echo no module >&2; exit 7")
    assert hook.errors(hook("premeasure")) == ["before: exit status 7: no module"]
    hook("final")


def test_a_hook_that_fails_there_is_told_and_the_others_are_not_lost(
    server: SshServer, tmp_path: Path
) -> None:
    hook = Remote(server.config, tmp_path / "state", HOOKS="disk-io free-memory")
    hook("premeasure")
    (away,) = server.temporary.iterdir()
    (away / "disk-io").rename(away / "elsewhere")
    assert hook.errors(hook("start")) == ["disk-io: exit status 2"]
    text = hook("end")
    assert [name for name in values(text) if "disk" in name] == []
    assert "server_free_memory_change_bytes" in values(text)
    hook("final")


def test_a_server_that_goes_away_is_told_once_and_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "ssh").mkdir()
    server = SshServer(tmp_path / "ssh")
    server.write()
    hook = Remote(server.config, tmp_path / "state", PROCESSES="sshd")
    with server.running():
        hook("premeasure")
        hook("start")
    for process in _connections(hook.state):
        os.kill(int(process.name), 9)
    (error,) = hook.errors(hook("end"))
    assert error.startswith("processes: ")
    hook("final")
    assert not _connections(hook.state)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"HOST": ""}, "BW_REMOTE_HOST is not set"),
        ({"HOST": "-oProxyCommand=x"}, "BW_REMOTE_HOST begins with a dash"),
        ({"HOST": "a b"}, "BW_REMOTE_HOST is no name of a host"),
        ({"PREFIX": "A;b"}, "BW_REMOTE_PREFIX is not a-z, 0-9, _"),
        ({"TIMEOUT_S": "1.5"}, "BW_REMOTE_TIMEOUT_S is no whole number"),
        ({"HOOKS": "../x"}, "../x is no hook that can be sent"),
        ({"HOOKS": "remote"}, "remote is no hook that can be sent"),
        ({"HOOKS": "free-beer"}, "free-beer is no shipped hook"),
    ],
)
def test_settings_are_checked(settings: dict[str, str], error: str, tmp_path: Path) -> None:
    hook = Remote(tmp_path / "none", tmp_path / "state", **settings)
    assert hook("premeasure").endswith(f": {error}\n")
    assert f": {error}\n" in hook("final")
