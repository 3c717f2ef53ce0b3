"""`bw quiet` in trouble: full disks, lost logs, logs of others, and others at work."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchwright.core.errors import BenchError
from benchwright.features.quiet.command import _present
from benchwright.features.quiet.hold import (
    Quieted,
    QuietRequest,
    hold,
    owner_of,
    restore_dead,
    restore_now,
)
from benchwright.features.quiet.host import Host, SettingRefused, run_program
from benchwright.features.quiet.log_path import LOG, log_path
from benchwright.features.quiet.report import restore_findings
from benchwright.features.quiet.services import Services
from benchwright.features.quiet.transaction import (
    BeginRecord,
    ChangeRecord,
    ClosedRecord,
    LogContents,
    NoLog,
    TransactionLog,
    read_log,
    restore,
)
from benchwright.features.quiet.types import (
    AS_BEFORE,
    FAILED,
    FOREIGN,
    SettingChange,
    parse_settings,
)
from made_up_machine import MadeUp, made_up, snapshot

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def asked(host: Host, place: Path, *words: str) -> QuietRequest:
    return QuietRequest(parse_settings(words), host=host, directory=place / "state")


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file can become longer: as on a disk that is full, a part is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- a full disk -----------------------------------------------------------------------


def sizes(place: Path) -> list[int]:
    """Return the log's length after each record of an undisturbed transaction."""
    host = made_up(place / "first")
    found: list[int] = []
    wanted = asked(host, place / "first", "swappiness", "aslr")
    path = wanted.directory / LOG
    wanted.after = lambda: found.append(path.stat().st_size)
    with Quieted(wanted):
        count = len(found)
    return found[:count]


def test_nothing_is_changed_that_is_not_wholly_in_the_log(place: Path) -> None:
    """The disk is full in the middle of each record of the way."""
    ends = sizes(place)
    # Begin, intent, verified, intent, verified: an effect is between the last two of each.
    for end, made in zip([0, *ends[:-1]], [0, 0, 1, 1, 2], strict=True):
        root = place / str(end)
        host = made_up(root / "m")
        before = snapshot(host)
        effects: list[int] = []
        host.point = lambda seen=effects: seen.append(1)  # type: ignore[misc]
        with room(end + 20), pytest.raises(BenchError) as caught:
            Quieted(asked(host, root, "swappiness", "aslr")).__enter__()
        assert caught.value.code == "quiet-state"
        assert str(root / "state" / LOG) in str(caught.value)
        assert len(effects) == 2 * made  # made and undone
        assert not (root / "state" / LOG).exists()
        assert snapshot(host) == before


def test_a_record_that_does_not_fit_leaves_no_part_of_itself(place: Path) -> None:
    host = made_up(place / "m")
    hold(asked(host, place, "aslr"), 0)
    path = place / "state" / LOG
    before = path.read_bytes()
    log = TransactionLog(path)
    with room(len(before) + 20), pytest.raises(OSError, match=r"space|large"):
        log.add(ClosedRecord(1, AS_BEFORE, ""))
    assert path.read_bytes() == before
    log.close()


def test_a_full_disk_does_not_stop_restoring(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    with Quieted(asked(host, place, "swappiness", "aslr", "nmi-watchdog")) as quieted:
        limit = room((place / "state" / LOG).stat().st_size + 20)
        limit.__enter__()
    limit.__exit__(None, None, None)
    assert quieted.restored is not None
    assert quieted.restored.failed == ()
    assert snapshot(host) == before
    assert not (place / "state" / LOG).exists()


def test_on_a_full_disk_what_fails_stays_in_the_log(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    with Quieted(asked(host, place, "swappiness", "aslr", "nmi-watchdog")):
        host.refuse = "randomize_va_space"
        limit = room((place / "state" / LOG).stat().st_size + 20)
        limit.__enter__()
    limit.__exit__(None, None, None)
    changed = {k for k, v in snapshot(host).items() if v != before[k]}
    assert changed == {"proc/sys/kernel/randomize_va_space"}
    host.refuse = ""
    (host.proc / "31/stat").unlink()
    again = restore_dead(host, place / "state")
    assert again is not None
    assert again.failed == ()
    assert (host.proc / "sys/kernel/randomize_va_space").read_text().strip() == "2"


# -- a log that is lost ----------------------------------------------------------------


def told_of_log(quieted: Quieted) -> str:
    assert quieted.restored is not None
    return quieted.restored.log


def test_a_log_that_vanished_is_told_and_the_machine_put_back(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    with Quieted(asked(host, place, "swap", "aslr", "isolation")) as quieted:
        shutil.rmtree(place / "state")
    assert snapshot(host) == before
    assert "quiet.log was removed by another program" in told_of_log(quieted)
    assert not (place / "state" / LOG).exists()


def test_a_log_that_was_cut_is_made_whole(place: Path) -> None:
    """What cannot be put back now is in it again for the next one."""
    host = made_up(place / "m")
    before = snapshot(host)
    path = place / "state" / LOG
    with Quieted(asked(host, place, "swappiness", "aslr", "thp")) as quieted:
        os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
        host.refuse = "swappiness"
    assert "was changed by another program" in told_of_log(quieted)
    assert {k for k, v in snapshot(host).items() if v != before[k]} == {"proc/sys/vm/swappiness"}
    host.refuse = ""
    (host.proc / "31/stat").unlink()
    assert restore_dead(host, place / "state") is not None
    assert (host.proc / "sys/vm/swappiness").read_text().strip() == "60"


def test_a_damaged_log_does_not_keep_the_machine(place: Path) -> None:
    host = made_up(place / "m")
    before = snapshot(host)
    with Quieted(asked(host, place, "swappiness")) as quieted:
        (place / "state" / LOG).write_text("hm\n")
    assert snapshot(host) == before
    assert "not a record" in told_of_log(quieted)
    assert not (place / "state" / LOG).exists()
    with Quieted(asked(host, place, "aslr")) as free:
        assert len(free.quiet.done) == 1


def test_a_damaged_log_that_another_may_hold_by_now_stays(place: Path) -> None:
    """Our lock was removed with its directory: what is there is not known to be ours."""
    host = made_up(place / "m")
    path = place / "state" / LOG
    with Quieted(asked(host, place, "swappiness")):
        shutil.rmtree(place / "state")
        path.parent.mkdir(mode=0o700)
        path.write_text("hm\n")
        path.chmod(0o600)
    assert path.read_text() == "hm\n"


def test_a_whole_log_is_not_called_lost(place: Path) -> None:
    with Quieted(asked(made_up(place / "m"), place, "all")) as quieted:
        pass
    assert told_of_log(quieted) == ""


# -- a log of others -------------------------------------------------------------------


def test_a_pipe_in_the_logs_place_is_refused_at_once(place: Path) -> None:
    os.mkfifo(place / LOG)
    with pytest.raises(BenchError, match="not a regular file"):
        read_log(place)


@pytest.mark.parametrize("kind", ["shared", "directory", "link"])
def test_a_log_of_others_is_not_read(
    place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever looks at it: status and restoring too, which ask services for their state."""
    host = made_up(place / "m", systemd=False)
    state = place / "state"
    hold(asked(host, place, "services=cron"), 0)
    if kind == "link":
        (state / LOG).rename(place / "elsewhere")
        (state / LOG).symlink_to(place / "elsewhere")
    else:
        (state / (LOG if kind == "shared" else "")).chmod(0o722)
    monkeypatch.setattr(Host, "read", _forbidden)
    monkeypatch.setenv("BW_STATE", str(state))
    for look in (_present, lambda h: restore_now(h, state)):
        with pytest.raises(BenchError, match="could have been written by others"):
            look(host)


def _forbidden(*_: object) -> str:
    raise AssertionError("it was looked at")


@pytest.mark.parametrize("name", ["../../tmp/evil", "/tmp/evil", "-H", "a b", ""])
@pytest.mark.parametrize("kind", ["script", "unit"])
def test_a_service_of_a_log_must_have_a_plain_name(place: Path, kind: str, name: str) -> None:
    host = MadeUp(place)
    change = SettingChange("services", f"{kind} {name}", "running", "stopped")
    both: tuple[Callable[[], object], ...] = (
        lambda: Services().read(host, change),
        lambda: Services().write(host, change, "running"),
    )
    for do in both:
        with pytest.raises(SettingRefused, match="not the plain name"):
            do()


OUTSIDE = (
    ("swappiness", "tmp/rootonly/secret"),
    ("swappiness", "proc/sys/../../tmp/secret"),
    ("swappiness", "/tmp/secret"),
    ("aslr", "proc/sys/vm/swappiness"),
    ("turbo", "sys/devices/system/cpu/cpufreq/../secret/boost"),
    ("governor", "sys/devices/system/cpu/cpufreq/policy0/../secret"),
    ("thp", "sys/kernel/mm/transparent_hugepage/other"),
    ("nmi-watchdog", ""),
    ("smt", "sys/fs/cgroup/cpuset/../../../../tmp/cpuset.cpus"),
    ("smt", "tmp/secret"),
    ("irq-affinity", "proc/irq/../../tmp/smp_affinity_list"),
    ("irq-affinity", "tmp/secret"),
    ("nologin", "tmp/secret"),
    ("swap", "/tmp/secret"),
    ("swap", "-a"),
    ("isolation", "cpus /tmp/secret"),
    ("isolation", "cpus /tmp/cpuset.cpus"),
    ("isolation", "own /tmp"),
    ("isolation", "group ../../../tmp"),
    ("isolation", "group tmp"),
    ("isolation", "whatever /tmp/secret"),
    ("services", "script /tmp/secret"),
)


@pytest.mark.parametrize(("setting", "item"), OUTSIDE)
def test_a_place_that_a_setting_does_not_have_is_neither_read_nor_written(
    place: Path, setting: str, item: str
) -> None:
    host = made_up(place / "m")
    secret = host.root / "tmp/secret"
    for path in (secret, host.root / "tmp/rootonly/secret"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET\n")
    before = snapshot(host)
    change = SettingChange(setting, item, "HACK", "SECRET")
    begin = BeginRecord(owner_of(host, 0), 1, (setting,), 0)
    contents = LogContents(begin, ((ChangeRecord(1, change), "SECRET"),), 1)
    restored = restore(host, NoLog(place / LOG, ours=False), contents)
    (undone,) = restored.undone
    assert undone.how == FAILED
    assert snapshot(host) == before


# -- others at work --------------------------------------------------------------------


def test_what_others_changed_of_what_smt_disturbs_is_left(place: Path) -> None:
    host = made_up(place / "m")
    irq = host.proc / "irq/1/smp_affinity_list"
    group = host.groups / "box/web/cpuset.cpus"
    with Quieted(asked(host, place, "smt", "irq-affinity")) as quieted:
        irq.write_text("3")
        group.write_text("1")
    assert irq.read_text() == "3"
    assert group.read_text() == "1"
    assert quieted.restored is not None
    told = {u.change.place for u in quieted.restored.undone if u.how == FOREIGN}
    assert told == {"/proc/irq/1/smp_affinity_list", "/sys/fs/cgroup/cpuset/box/web/cpuset.cpus"}
    assert (host.proc / "irq/9/smp_affinity_list").read_text().strip() == "2-3"


def test_what_somebody_took_back_meanwhile_is_a_doubt(place: Path) -> None:
    host = made_up(place / "m")
    words = ("swappiness", "aslr", "nologin", "services=cups", "irq-affinity")
    with Quieted(asked(host, place, *words)) as quieted:
        (host.proc / "sys/vm/swappiness").write_text("60")
        (host.root / "run/nologin").unlink()
        (host.root / "units/cups.service").write_text("active by cups.socket")
        (host.proc / "irq/1/smp_affinity_list").write_text("0-3")
    assert quieted.restored is not None
    found = restore_findings(quieted.restored, late=False)
    assert {(f.code, f.subject) for f in found} == {
        ("quiet-reverted", "quiet swappiness"),
        ("quiet-reverted", "quiet nologin"),
    }
    place_of_it = "/proc/sys/vm/swappiness (bw set '1', at the end it was '60')"
    assert any(place_of_it in f.evidence for f in found)
    late = restore_findings(quieted.restored, late=True)
    assert [f.code for f in late] == ["quiet-undone-late"]


@pytest.mark.parametrize("why", ["boot", "restore", "held"])
def test_what_a_boot_or_another_restore_put_back_had_held(place: Path, why: str) -> None:
    host = made_up(place / "m")
    hold(asked(host, place, "swappiness", "aslr"), 0)
    if why == "boot":
        (host.proc / "sys/kernel/random/boot_id").write_text("another")
        (host.proc / "sys/vm/swappiness").write_text("60")
    if why == "restore":
        log = TransactionLog(place / "state" / LOG)
        log.add(ClosedRecord(2, AS_BEFORE, ""))
        log.close()
        (host.proc / "sys/kernel/randomize_va_space").write_text("2")
    restored = restore_now(host, place / "state")
    assert restored is not None
    assert restored.lost == ()


def test_killed_before_the_second_look_the_old_value_is_written(place: Path) -> None:
    host = made_up(place / "m")
    irq = "proc/irq/1/smp_affinity_list"
    (place / "state").mkdir(mode=0o700)
    log = TransactionLog(place / "state" / LOG)
    log.add(BeginRecord(owner_of(host, 0), 1, ("smt",), 0))
    log.add(ChangeRecord(1, SettingChange("smt", irq, "0-3", "0-3", keep=True)))
    log.close()
    (host.root / irq).write_text("0-1")
    assert restore_now(host, place / "state") is not None
    assert (host.root / irq).read_text().strip() == "0-3"


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpuset.cpus", "2"), ("cpuset.mems", "0"), ("cgroup.subtree_control", "cpu cpuset")],
)
def test_a_controller_that_others_use_by_now_stays_on(place: Path, name: str, text: str) -> None:
    host = made_up(place / "m", version=2)
    with Quieted(asked(host, place, "isolation")) as quieted:
        other = host.groups / "docker"
        other.mkdir()
        (other / name).write_text(text)
    assert "cpuset" in (host.groups / "cgroup.subtree_control").read_text()
    assert quieted.restored is not None
    (foreign,) = quieted.restored.foreign
    assert foreign.value == "on, used by docker"


def test_a_daemon_that_keeps_our_output_does_not_hold_us() -> None:
    """It still has somewhere to write to when we have gone on."""
    with tempfile.TemporaryDirectory() as name:
        fifo, told = Path(name) / "go", Path(name) / "told"
        os.mkfifo(fifo)
        daemon = f"(read x < {fifo}; echo late && echo yes > {told}) & echo begun"
        assert run_program(("sh", "-c", daemon)).output == "begun"
        fifo.write_text("go\n")
        for _ in range(1000):
            if told.exists() and told.read_text():
                break
            time.sleep(0.01)
        assert told.read_text() == "yes\n"


def test_the_unit_looks_where_roots_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BW_STATE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert log_path() == "/var/lib/benchwright/quiet/quiet.log"
    unit = (ROOT / "packaging/systemd/bw-quiet-restore.service").read_text()
    assert f"ConditionPathExists={log_path()}\n" in unit


def test_the_parent_of_the_private_directory_may_be_shared(place: Path) -> None:
    host = made_up(place / "m")
    (place / "shared").mkdir()
    (place / "shared").chmod(0o1777)
    wanted = QuietRequest(parse_settings(["aslr"]), host=host, directory=place / "shared/quiet")
    with Quieted(wanted):
        assert (place / "shared/quiet").stat().st_mode & 0o777 == 0o700
