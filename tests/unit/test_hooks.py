"""The shipped measurement hooks, run for real against this machine's /proc.

What is asserted is what must hold on a busy machine too: the form of every line, that
counters grow by at least what the test itself did, and never how long anything took.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchwright
from benchwright.stats.aggregate import HOOK_VALUES
from benchwright.trial.observe import AplogSection, parse_aplog, parse_number, parse_numbers

HOOKS = Path(benchwright.__file__).parent / "hooks"
NAMES = ("disk-io", "free-memory", "network", "other-cpu")
"""Those that have values on every machine."""
UNITS = ("_bytes", "_s", "_operations", "_packets")

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the hooks read Linux' /proc"
)


class Hook:
    """A hook with its private state, called as the launcher calls it."""

    def __init__(self, name: str, state: Path, *prefix: str) -> None:
        self._argv = [*prefix, str(HOOKS / name)]
        self._environment = {**os.environ, "BW_HOOK_STATE": str(state)}

    def __call__(self, event: str) -> str:
        result = subprocess.run(
            [*self._argv, event],
            env=self._environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stderr == ""
        return result.stdout

    def begin(self) -> None:
        assert self("premeasure") == ""
        assert self("start") == ""

    def end(self) -> dict[str, float]:
        return parse_numbers(parse_aplog(self("end")).values)


def _launcher(directory: Path) -> Path:
    """Return a shell that the kernel knows as bw-launcher; it forks for each command."""
    shell = directory / "bw-launcher"
    shutil.copy(Path("/bin/sh").resolve(), shell)
    return shell


def _as_child(directory: Path) -> tuple[str, ...]:
    return (str(_launcher(directory)), "-c", '"$@"; exit $?', "sh")


def _ticks_used(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _burn_until_charged(pid: int, ticks: int) -> None:
    """Wait until the kernel has charged a process this much CPU time."""
    target = _ticks_used(pid) + ticks
    while _ticks_used(pid) < target:
        os.sched_yield()


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that uses CPU and does not belong to any trial."""
    with subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_a_value_with_its_unit_last(name: str, tmp_path: Path) -> None:
    hook = Hook(name, tmp_path)
    hook.begin()
    text = hook("end")
    for line in text.splitlines():
        assert re.fullmatch(r"[a-z][a-z0-9_]* = -?\d+(\.\d+)?", line), line
        assert line.split(" = ")[0].endswith(UNITS)
        assert line.split(" = ")[0] in HOOK_VALUES, "how commands unify it is decided"
    assert parse_aplog(text).sections == []


@pytest.mark.parametrize("name", NAMES)
def test_final_prints_whole_blocks_only(name: str, tmp_path: Path) -> None:
    hook = Hook(name, tmp_path)
    hook.begin()
    hook("end")
    log = parse_aplog(hook("final"))
    assert log.values == {}
    assert all(section.name == name for section in log.sections)


@pytest.mark.parametrize("name", NAMES)
def test_an_end_without_a_start_is_no_error_and_no_number_is_made_up(
    name: str, tmp_path: Path
) -> None:
    hook = Hook(name, tmp_path)
    values = hook.end()
    assert not [key for key in values if "change" in key or name != "free-memory"]
    assert hook("final") == ""


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_event_is_refused(name: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [HOOKS / name, "begin"],
        env={**os.environ, "BW_HOOK_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "premeasure|start|end|final" in result.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_is_executable_and_can_be_measured_again(name: str, tmp_path: Path) -> None:
    hook = Hook(name, tmp_path)
    for _ in range(2):
        hook.begin()
        first = hook("end")
        hook("final")
    assert isinstance(first, str)


def test_free_memory_agrees_with_the_kernels_total(tmp_path: Path) -> None:
    hook = Hook("free-memory", tmp_path)
    hook.begin()
    values = hook.end()
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < values["free_memory_bytes"] <= total
    assert 0 < values["available_memory_bytes"] <= total
    assert abs(values["free_memory_change_bytes"]) <= total


def test_disk_io_sees_what_was_written_through_to_a_disk(tmp_path: Path) -> None:
    hook = Hook("disk-io", tmp_path)
    hook.begin()
    size = 4 << 20
    if not _written_through(tmp_path / "file", size):
        pytest.skip(f"{tmp_path} does not stand on a block device")
    totals = hook.end()
    blocks = parse_aplog(hook("final")).sections
    assert totals["disk_write_bytes"] >= size
    assert totals["disk_write_operations"] >= 1
    written = {s.fields["device"]: parse_number(s.fields["write_bytes"]) or 0 for s in blocks}
    assert max(written.values()) >= size


def _written_through(path: Path, size: int) -> bool:
    """Write and fsync a file; return whether a block device holds it."""
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
        device = os.fstat(file.fileno()).st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").exists()


COUNTERS = """rc 0 0 {calls}
io {read} {write}
rpc {calls} 0 0 0 0
proc2 18 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
proc3 22 1 5 0 4 3 0 {reads} {writes} 2 0 0 0 0 0 0 0 0 0 0 1 0 {commits}
proc4ops 3 0 7 8
"""
"""As a server's kernel writes them (/proc/net/rpc/nfsd)."""


def counted(hook: str, directory: Path, monkeypatch: pytest.MonkeyPatch, **after: int) -> Hook:
    """Return a hook between whose start and end a server counted."""
    counters = directory / "counters"
    monkeypatch.setenv("BW_NFSD_COUNTERS", str(counters))
    made = Hook(hook, directory)
    names = ("calls", "read", "write", "reads", "writes", "commits")
    counters.write_text(COUNTERS.format(**dict.fromkeys(names, 100)))
    made.begin()
    counters.write_text(COUNTERS.format(**(dict.fromkeys(names, 100) | after)))
    return made


def test_nfsd_counts_what_the_kernels_server_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = {"calls": 107, "read": 8292, "write": 100 + 2**40, "writes": 104, "commits": 101}
    hook = counted("nfsd", tmp_path, monkeypatch, **grown)
    values = {"nfsd_operations": 7, "nfsd_read_bytes": 8192, "nfsd_write_bytes": 2**40}
    assert hook.end() == values
    assert set(values) <= set(HOOK_VALUES)
    blocks = [section.fields for section in parse_aplog(hook("final")).sections]
    assert blocks == [
        {"version": "3", "procedure": "write", "operations": "4"},
        {"version": "3", "procedure": "commit", "operations": "1"},
    ]


def test_nfsd_of_a_server_that_was_restarted_counts_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = counted("nfsd", tmp_path, monkeypatch, calls=3, read=10, write=20)
    assert hook.end() == {"nfsd_operations": 3, "nfsd_read_bytes": 10, "nfsd_write_bytes": 20}


def test_nfsd_without_a_server_says_so_and_has_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BW_NFSD_COUNTERS", str(tmp_path / "absent"))
    hook = Hook("nfsd", tmp_path)
    assert hook.end() == {}
    hook.begin()
    assert re.fullmatch(r"# error: nfsd: .*/absent is absent: .*\n", hook("end"))
    assert hook("final") == ""


def test_network_keeps_loopback_apart(tmp_path: Path) -> None:
    import socket

    hook = Hook("network", tmp_path)
    hook.begin()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(8):
            sender.sendto(bytes(1000), receiver.getsockname())
            receiver.recv(2000)
    values = hook.end()
    assert values["loopback_packets"] >= 8
    assert values["loopback_bytes"] >= 8000
    interfaces = [s.fields["interface"] for s in parse_aplog(hook("final")).sections]
    assert "lo" in interfaces


def test_other_cpu_counts_an_unrelated_process(
    tmp_path: Path, burner: subprocess.Popen[bytes]
) -> None:
    hook = Hook("other-cpu", tmp_path, *_as_child(tmp_path))
    hook.begin()
    _burn_until_charged(burner.pid, ticks=5)
    value = hook.end()["other_cpu_s"]
    assert value >= 5 / os.sysconf("SC_CLK_TCK")
    blocks = parse_aplog(hook("final")).sections
    assert str(burner.pid) in {section.fields["pid"] for section in blocks}
    assert sum(_cpu_s(b) for b in blocks) == pytest.approx(value, abs=0.006 * len(blocks))


def _cpu_s(section: AplogSection) -> float:
    value = parse_number(section.fields["cpu_s"])
    assert value is not None
    return value


def test_other_cpu_leaves_out_the_trial_itself(
    tmp_path: Path, burner: subprocess.Popen[bytes]
) -> None:
    """Without a launcher above it, the trial is what the hook's parent started."""
    hook = Hook("other-cpu", tmp_path)
    hook.begin()
    _burn_until_charged(burner.pid, ticks=5)
    hook.end()
    pids = {section.fields["pid"] for section in parse_aplog(hook("final")).sections}
    assert not pids & {str(burner.pid), str(os.getpid())}


def test_other_cpu_finds_a_process_that_came_and_went_in_its_parent(tmp_path: Path) -> None:
    hook = Hook("other-cpu", tmp_path, *_as_child(tmp_path))
    hook.begin()
    process = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
    _burn_until_charged(process.pid, ticks=5)
    process.kill()
    process.wait()
    assert hook.end()["other_cpu_s"] >= 5 / os.sysconf("SC_CLK_TCK")
    blocks = parse_aplog(hook("final")).sections
    mine = [s for s in blocks if s.fields["pid"] == str(os.getpid())]
    assert mine
    assert _cpu_s(mine[0]) >= 5 / os.sysconf("SC_CLK_TCK")


def test_other_cpu_does_not_count_what_was_used_before(tmp_path: Path) -> None:
    """A process that burned before the start and ends in between brings nothing."""
    process = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
    _burn_until_charged(process.pid, ticks=20)
    os.kill(process.pid, 19)  # SIGSTOP: from here on it uses nothing
    while "T" not in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2][:3]:
        os.sched_yield()
    hook = Hook("other-cpu", tmp_path, *_as_child(tmp_path))
    hook.begin()
    before = os.times()
    process.kill()
    process.wait()
    hook("end")
    after = os.times()
    blocks = parse_aplog(hook("final")).sections
    charged = sum(_cpu_s(s) for s in blocks if s.fields["pid"] == str(os.getpid()))
    own = sum(after[:2]) - sum(before[:2])
    children = sum(after[2:4]) - sum(before[2:4]) - 20 / os.sysconf("SC_CLK_TCK")
    # Our own time and that of the other children (the hook's calls) remain; not the
    # twenty ticks from before. Two ticks of rounding for each.
    assert charged <= own + children + 4 / os.sysconf("SC_CLK_TCK")


def test_names_with_parentheses_and_spaces_are_read_to_the_last(tmp_path: Path) -> None:
    awkward = tmp_path / "a) R (b 1 2"
    shutil.copy(Path("/bin/sh").resolve(), awkward)
    hook = Hook("other-cpu", tmp_path, *_as_child(tmp_path))
    hook.begin()
    with subprocess.Popen([awkward, "-c", "while :; do :; done"]) as process:
        _burn_until_charged(process.pid, ticks=3)
        hook("end")
        blocks = parse_aplog(hook("final")).sections
        process.kill()
    names = {s.fields["pid"]: s.fields["process"] for s in blocks}
    assert names[str(process.pid)] == awkward.name


def test_processes_that_vanish_while_read_do_no_harm(tmp_path: Path) -> None:
    churn = "while :; do /bin/true & /bin/true & wait; done"
    with subprocess.Popen(["/bin/sh", "-c", churn]) as process:
        hook = Hook("other-cpu", tmp_path, *_as_child(tmp_path))
        for _ in range(20):
            hook.begin()
            assert hook.end()["other_cpu_s"] >= 0
        process.kill()


_PERF = """#!/bin/sh
# Counts nothing: what perf 6.1 wrote of a trial on a CPU with counters is written again.
while [ "$1" != -- ]; do
    case $1 in
    --control) IFS=:, read -r _ control answer <<END
$2
END
    ;;
    -o) out=$2 ;;
    esac
    shift
done
shift
"$@" &
for word in enable disable; do
    read -r said <"$control"
    [ "$said" = "$word" ] || exit 1
    echo ack >"$answer"
done
wait
cat >"$out" <<'END'
# started on Mon Nov 30 12:00:00 2026

4000000000;;cycles;2000000000;100.00;2.000;GHz
6000000000;;instructions;2000000000;100.00;1.50;insn per cycle
200000;;cache-references;2000000000;100.00;;
50000;;cache-misses;2000000000;100.00;25.00;of all cache refs
<not supported>;;branches;0;100.00;;
<not counted>;;branch-misses;0;0.00;;
1999.50;msec;task-clock;1999500000;100.00;1.999;CPUs utilized
1035;;context-switches;1999500000;100.00;517.6;/sec
1.5;MiB;uncore_imc/data_reads/;2000000000;100.00;;
END
"""


def test_counters_of_a_cpu_are_values_and_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = tmp_path / "bin" / "perf"
    perf.parent.mkdir()
    perf.write_text(_PERF)
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{perf.parent}:{os.environ['PATH']}")
    hook = Hook("counters", tmp_path)
    hook.begin()
    text = hook("end")
    assert "# error: counters: not on this machine: branches, branch-misses\n" in text
    assert parse_numbers(parse_aplog(text).values) == {
        "counter_cycles": 4e9,
        "counter_instructions": 6e9,
        "counter_cache_references": 200_000,
        "counter_cache_misses": 50_000,
        "counter_task_clock_s": 1.9995,
        "counter_context_switches": 1035,
        "counter_uncore_imc_data_reads_bytes": 1_572_864,
        "instructions_per_cycle": 1.5,
        "cache_miss_share": 0.25,
    }
    assert hook("final") == ""


def test_counters_without_perf_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "cat", "rm", "tail", "kill"):
        if (found := shutil.which(name)) is not None:
            (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    hook = Hook("counters", tmp_path)
    hook.begin()
    assert hook("end") == "# error: counters: there is no program perf\n"


def test_counters_of_a_perf_that_ends_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = tmp_path / "bin" / "perf"
    perf.parent.mkdir()
    perf.write_text("#!/bin/sh\nprintf 'Error:\\nNo access.\\n\\nMore text\\n' >&2\nexit 255\n")
    perf.chmod(0o700)
    monkeypatch.setenv("PATH", f"{perf.parent}:{os.environ['PATH']}")
    hook = Hook("counters", tmp_path)
    hook.begin()
    assert not (tmp_path / "counters.pid").exists(), "its end was noticed, and not waited for"
    assert hook("end") == "# error: counters: No access.\n"


def test_switches_are_counted_where_perf_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least as many as one program makes: two processes that wake each other."""
    monkeypatch.setenv("BW_COUNTERS", "context-switches")
    hook = Hook("counters", tmp_path)
    hook.begin()
    turns = 2000
    there, back = os.pipe(), os.pipe()
    if os.fork() == 0:
        for _ in range(turns):
            os.write(back[1], os.read(there[0], 1))
        os._exit(0)
    for _ in range(turns):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    os.wait()
    text = hook("end")
    if "# error" in text:
        pytest.skip(text)
    assert parse_numbers(parse_aplog(text).values)["counter_context_switches"] >= turns
