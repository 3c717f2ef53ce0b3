"""`bw quiet` over a made-up machine: each setting, and a kill at every point of the way."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.core.quantity import cpu_list, parse_cpu_list
from benchwright.features.quiet import cpus
from benchwright.features.quiet.hold import (
    Quieted,
    QuietRequest,
    hold,
    restore_dead,
    restore_now,
    restore_session,
)
from benchwright.features.quiet.host import Host, SettingRefused
from benchwright.features.quiet.log_path import LOCK, LOG
from benchwright.features.quiet.report import (
    quiet_findings,
    quiet_lines,
    restore_findings,
    restored_lines,
)
from benchwright.features.quiet.settings import REGISTRY
from benchwright.features.quiet.transaction import read_log
from benchwright.features.quiet.types import FOREIGN, SETTINGS, parse_settings
from made_up_machine import BOOT, MadeUp, made_up, snapshot

SEED = 20261121
ALL = parse_settings(["all", "services=cron,crond,atd,apt-daily,cups,man-db"])


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory: hundreds of syncs would wear a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        os.chmod(name, 0o700)
        yield Path(name)


def asked(host: Host, place: Path, *words: str, require: bool = False) -> QuietRequest:
    wanted = parse_settings(words) if words else ALL
    return QuietRequest(wanted, host=host, directory=place / "state", require=require)


def bw_is_gone(host: Host) -> None:
    """Give the owner's process id to somebody else, as after its death."""
    path = host.proc / "31/stat"
    path.write_text(path.read_text().replace(" 1031", " 7777"))


def bw_is_back(host: Host) -> None:
    """Undo that, for comparing."""
    path = host.proc / "31/stat"
    path.write_text(path.read_text().replace(" 7777", " 1031"))


# -- words -----------------------------------------------------------------------------


def test_every_setting_has_a_name_and_its_order_is_told() -> None:
    # A spec requests the two settings that users do not.
    assert set(REGISTRY) == {*SETTINGS, "server-disks", "server-groups"}
    assert [w.name for w in parse_settings(["swap", "thp=always", "nologin"])] == [
        "nologin",
        "swap",
        "thp",
    ]
    assert parse_settings(["all", "thp=always"]) == parse_settings(["thp=always", "all"])


@pytest.mark.parametrize(
    ("word", "told"),
    [("trubo", "did you mean turbo"), ("thp=", "no value"), ("smt=x", "no values")],
)
def test_a_wrong_word_is_told_with_what_there_is(word: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_settings([word])


def test_lists_of_processors() -> None:
    assert parse_cpu_list("0-2,5") == [0, 1, 2, 5]
    assert cpu_list({5, 0, 1, 2}) == "0-2,5"
    assert cpu_list(parse_cpu_list("")) == ""


# -- all settings ----------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("systemd", [True, False])
def test_quiet_and_back_leaves_no_trace(place: Path, version: int, systemd: bool) -> None:
    host = made_up(place / "m", version=version, systemd=systemd)
    before = snapshot(host)
    with Quieted(asked(host, place)) as quieted:
        meanwhile = snapshot(host)
        assert (place / "state" / LOG).stat().st_mode & 0o777 == 0o600
    assert snapshot(host) == before
    assert not (place / "state" / LOG).exists()
    lines = list(quiet_lines(quieted.quiet))
    for name in SETTINGS:
        assert any(f"quiet {name}" in x or f"quiet: {name}" in x for x in lines), name
    changed = {path for path in meanwhile if meanwhile[path] != before.get(path)}
    assert meanwhile["sys/kernel/mm/transparent_hugepage/enabled"].endswith("[never]")
    assert meanwhile["sys/devices/system/cpu/intel_pstate/no_turbo"] == "1"
    assert meanwhile["proc/irq/1/smp_affinity_list"] == "0"
    group = "sys/fs/cgroup/" + ("cpuset/" if version == 1 else "")
    assert meanwhile[f"{group}bw-bench/cpuset.cpus"] == "1"
    assert meanwhile[f"{group}bw-bench/cgroup.procs"] == "31"
    assert meanwhile[f"{group}bw-others/cpuset.cpus"] == "0"
    assert "1" in meanwhile[f"{group}bw-others/cgroup.procs"].split()
    assert meanwhile[f"{group}box/cpuset.cpus"] == "0"
    assert ("units/cups.socket" in changed) is systemd
    assert ("sysv/cron" in changed) is not systemd
    assert len(meanwhile["proc/swaps"].splitlines()) == 1
    assert "run/nologin" in changed


def test_what_could_not_be_had_is_told(place: Path) -> None:
    host = made_up(place / "m")
    with Quieted(asked(host, place)) as quieted:
        pass
    told = {f.subject: f.evidence for f in quiet_findings(quieted.quiet)}
    assert "man-db.service is working" in told["quiet services"]
    assert "1 tasks cannot be moved (1 threads of the kernel)" in told["quiet isolation"]
    assert all(f.code == "quiet-incomplete" for f in quiet_findings(quieted.quiet))


def test_a_timer_is_stopped_before_its_service_and_started_after_it(place: Path) -> None:
    host = made_up(place / "m")
    with Quieted(asked(host, place, "services=cups,apt-daily")) as quieted:
        items = [done.change.item for done in quieted.quiet.done]
    assert items == ["unit apt-daily.timer", "unit cups.socket", "unit cups.service"]


def test_priorities_of_swap_come_back_in_their_order(place: Path) -> None:
    host = made_up(place / "m")
    with Quieted(asked(host, place, "swap")) as quieted:
        assert [done.change.item for done in quieted.quiet.done] == [
            *("/dev/zram0", "/swap file", "/dev/sdb1")
        ]
    assert quieted.restored is not None
    assert quieted.restored.failed == ()


def test_swap_that_would_not_fit_in_memory_is_left(place: Path) -> None:
    host = made_up(place / "m")
    (host.proc / "meminfo").write_text("MemAvailable: 9 kB\n")
    with Quieted(asked(host, place, "swap")) as quieted:
        assert "10 KiB are swapped out" in quieted.quiet.lacking[0].why
        assert quieted.quiet.done == ()


def test_somebody_logged_in_by_ssh_keeps_it_running(place: Path) -> None:
    host = made_up(place / "m", systemd=False)
    for pid, parent in ((20, 1), (21, 20)):
        path = host.proc / str(pid) / "stat"
        words = path.read_text().split()
        path.write_text(" ".join([words[0], "(sshd)", "S", str(parent), *words[4:]]))
    with Quieted(asked(host, place, "services=sshd")) as quieted:
        assert quieted.quiet.done == ()
        assert "logged in through it (process 21)" in quieted.quiet.lacking[0].why


def test_nologin_of_somebody_else_is_left_alone(place: Path) -> None:
    host = made_up(place / "m")
    (host.root / "etc/nologin").write_text("maintenance")
    with Quieted(asked(host, place, "nologin")) as quieted:
        assert quieted.quiet.already == ("nologin",)
    assert (host.root / "etc/nologin").read_text() == "maintenance"


def test_one_core_can_neither_be_isolated_nor_freed_of_interrupts(place: Path) -> None:
    host = made_up(place / "m")
    (host.sys / "devices/system/cpu/online").write_text("0")
    with Quieted(asked(host, place, "isolation", "irq-affinity")) as quieted:
        told = [one.why for one in quieted.quiet.lacking]
    assert len(told) == 2
    assert all("two cores or more" in why for why in told)
    with pytest.raises(SettingRefused, match="not online"):
        cpus.split(host, ("7",))


# -- trouble ---------------------------------------------------------------------------


def test_what_cannot_be_had_is_an_error_before_anything_is_changed(place: Path) -> None:
    host = made_up(place / "m")
    (host.sys / "devices/system/cpu/smt/control").write_text("notsupported")
    points: list[int] = []
    host.point = lambda: points.append(1)
    with pytest.raises(BenchError, match="smt is unavailable") as caught:
        Quieted(asked(host, place, "thp", "smt", require=True)).__enter__()
    assert caught.value.exit_status == 2
    assert points == []


def test_a_refusal_under_require_undoes_the_rest(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    host.refuse = "vm/swappiness"
    with pytest.raises(BenchError, match="swappiness is unavailable"):
        Quieted(asked(host, place, "thp", "swappiness", require=True)).__enter__()
    assert snapshot(host) == before
    assert not (place / "state" / LOG).exists()


def test_a_restore_that_fails_goes_on_and_is_tried_again(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    with Quieted(asked(host, place, "swap", "aslr", "thp")) as quieted:
        host.refuse = "randomize_va_space"
    assert quieted.restored is not None
    assert [u.change.setting for u in quieted.restored.failed] == ["aslr"]
    (doubt,) = restore_findings(quieted.restored, late=False)
    assert doubt.code == "quiet-not-restored"
    assert {k for k, v in snapshot(host).items() if v != before[k]} == {
        "proc/sys/kernel/randomize_va_space"
    }
    host.refuse = ""
    bw_is_gone(host)
    again = restore_dead(host, place / "state")
    assert again is not None
    assert again.failed == ()
    bw_is_back(host)
    assert snapshot(host) == before


def test_what_somebody_else_changed_is_left_and_told(place: Path) -> None:
    host = made_up(place / "m")
    with Quieted(asked(host, place, "swappiness", "aslr")) as quieted:
        (host.proc / "sys/vm/swappiness").write_text("33")
    assert (host.proc / "sys/vm/swappiness").read_text() == "33"
    assert quieted.restored is not None
    assert [u.how for u in quieted.restored.undone].count(FOREIGN) == 1
    assert any(
        "another program changed it" in x for x in restored_lines(quieted.restored, late=False)
    )


def test_after_a_boot_what_it_put_back_is_recognised(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    hold(asked(host, place, "thp", "aslr", "nologin", "services=atd"), 0)
    assert restore_dead(host, place / "state") is None  # it holds until a boot
    (host.proc / "sys/kernel/random/boot_id").write_text(BOOT.replace("1", "9"))
    (host.proc / "sys/kernel/randomize_va_space").write_text("2")
    restored = restore_dead(host, place / "state")
    assert restored is not None
    assert restored.rebooted
    (host.proc / "sys/kernel/random/boot_id").write_text(BOOT)
    assert snapshot(host) == before
    (doubt,) = restore_findings(restored, late=True)
    assert doubt.code == "quiet-undone-late"
    assert "before the last boot" in doubt.evidence


def test_one_owner_at_a_time(place: Path) -> None:
    host = made_up(place / "m")
    with (
        Quieted(asked(host, place, "aslr")),
        pytest.raises(BenchError, match=r"process 31 \(bw\) keeps the machine"),
    ):
        Quieted(asked(host, place, "thp")).__enter__()
    hold(asked(host, place, "aslr"), 0)
    with pytest.raises(BenchError, match="already quiet"):
        Quieted(asked(host, place, "thp")).__enter__()
    assert restore_now(host, place / "state") is not None
    assert restore_now(host, place / "state") is None


def test_what_a_session_keeps_holds_while_it_lives(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    wanted = asked(host, place, "aslr")
    wanted.session = "token"
    hold(wanted, 31)
    assert restore_dead(host, place / "state") is None
    with pytest.raises(BenchError, match="a session keeps the machine"):
        restore_now(host, place / "state")
    monkeypatch.setenv("BW_STATE", str(place / "state"))
    assert restore_session("another", host) is None
    assert restore_session("token", host) is not None
    assert restore_session("token", host) is None
    assert snapshot(host) == before
    hold(wanted, 31)
    (host.proc / "31/stat").unlink()
    assert restore_dead(host, place / "state") is not None
    assert (host.proc / "sys/kernel/randomize_va_space").read_text().strip() == "2"


@pytest.mark.parametrize("name", [LOG, LOCK, ""])
def test_a_log_that_others_could_write_is_not_obeyed(place: Path, name: str) -> None:
    host = made_up(place / "m")
    path = place / "state" / name
    (place / "state").mkdir(mode=0o700)
    if name:
        path.touch()
    path.chmod(0o722)
    with pytest.raises(BenchError, match="could have been written by others"):
        Quieted(asked(host, place, "aslr")).__enter__()


def test_a_damaged_log_is_told_with_its_line(place: Path) -> None:
    (place / LOG).write_bytes(b'{"type":"closed","number":1,"how":"x","value":""}\nhm\n')
    with pytest.raises(BenchError, match=r"quiet\.log:2: not a record"):
        read_log(place)


def test_a_line_that_was_cut_short_is_dropped(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    hold(asked(host, place, "aslr"), 0)
    with (place / "state" / LOG).open("ab") as log:
        log.write(b'{"type":"change","number":2,"chan')
    assert restore_now(host, place / "state") is not None
    assert snapshot(host) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_and_then_undoes(place: Path, number: signal.Signals) -> None:
    """It comes in the middle; all changes are made, then undone, then it takes effect."""

    def fail(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    host = made_up(place / "m")
    before = snapshot(host)
    points: list[dict[str, str]] = []

    def point() -> None:
        points.append(snapshot(host))
        if len(points) == 3:
            signal.raise_signal(number)

    host.point = point
    old = signal.signal(number, fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            Quieted(asked(host, place, "swap", "thp", "aslr")).__enter__()
    finally:
        signal.signal(number, old)
    assert len(points) == 12
    assert points[-1] != points[5]
    assert snapshot(host) == before


# -- kill -9 ---------------------------------------------------------------------------


def killed_at(number: int, work: Callable[[Callable[[], None]], None]) -> bool:
    """Do work in a child that kills itself at its Nth point; return whether it came there."""
    child = os.fork()
    if child == 0:
        left = [number]

        def point() -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(point)
            os._exit(0)
        except BaseException:
            os._exit(9)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(("version", "systemd"), [(1, True), (2, False)])
def test_killed_at_every_point_the_machine_comes_back(
    place: Path, version: int, systemd: bool
) -> None:
    """After each durable record and after each effect, in quieting and in restoring; the
    first to put it back is killed as well, somewhere."""
    draw = random.Random(SEED)
    made_up(place / "first", version=version, systemd=systemd)

    def machine(root: Path, point: Callable[[], None]) -> MadeUp:
        return MadeUp(root, version=version, point=point)

    def quieted(root: Path, point: Callable[[], None]) -> None:
        wanted = asked(machine(root, point), root)
        wanted.after = point
        with Quieted(wanted):
            point()

    def restored(root: Path, point: Callable[[], None]) -> None:
        restore_dead(machine(root, point), root / "state")

    number, killed = 0, True
    before = snapshot(machine(place / "first", lambda: None))
    while killed:
        number += 1
        root = place / str(number)
        made_up(root, version=version, systemd=systemd)
        killed = killed_at(number, functools.partial(quieted, root))
        bw_is_gone(machine(root, lambda: None))
        again = draw.randrange(1, 60)
        killed_at(again, functools.partial(restored, root))
        restored(root, lambda: None)
        bw_is_back(machine(root, lambda: None))
        after = snapshot(machine(root, lambda: None))
        after.pop(f"state/{LOCK}", None)
        shutil.rmtree(root)
        assert after == before, f"killed at point {number}, then at {again}"
    print(f"cgroups v{version}: {number - 1} points, seed {SEED}")
    assert number > 150
