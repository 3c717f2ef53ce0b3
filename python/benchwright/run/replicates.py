"""Makes the replicates of levels of replication before their trials, and removes them after.

Everything made is below the study's `replicates/`: copies of working directories. A replicate is made
in this process before its first trial, outermost changed level first; after a crash or an interrupt it
is made again, with the same seeds. Decision: builds run in a copy, so that the user's files stay as
they are; the copy stays for all builds, so that its place does not differ between them.

A replicate of `boot` is a start of the machine that no replicate before it has used: the one that
runs, or else the session asks for a restart and ends as interrupted, and what the machine calls at
its start (machine/restart.py) resumes it. Rejected: always a restart before the first replicate too,
which costs one more and draws nothing else.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError
from benchwright.core.plan import (
    AS_PLANNED,
    Command,
    CommandMode,
    LevelKind,
    ReplicateLevel,
    ReplicatePath,
    Replication,
    TestPlan,
    TrialSetting,
)
from benchwright.core.replication import directory_name, seed_of, setting_of
from benchwright.core.text import size_text, status_text
from benchwright.machine.restart import RESTART_PATIENCE_S, ask_for_restart, resume_file
from benchwright.run.ledger import Ledger, Outcome, is_checkpoint, study_of
from benchwright.run.performer import Performer, make_directory
from benchwright.run.preparation import boot_id

DIRECTORY = "replicates"
"""The directory in a study below which everything is made."""
COPY_LIMIT_BYTES = 1 << 30
"""A working directory with more is not copied."""


class BuildFailed(Exception):
    """A build command failed; the message says how."""


class UsedBoot(msgspec.Struct, frozen=True):
    """A start of the machine, and the replicate that uses it: payload of `.../boots/N`."""

    path: ReplicatePath
    boot_id: str


class AskedRestart(msgspec.Struct, frozen=True):
    """A restart that a replicate needs: payload of `.../restarts/N`."""

    path: ReplicatePath
    boot_id: str
    """Of the boot that it ends."""
    asked_ns: int
    """CLOCK_REALTIME [ns]."""


MOST_RESTARTS = 2
"""A machine that is still in the same boot after so many restarts does not restart: a container."""


class Replicates:
    """The replicates of one test, or those that the arms of a comparison share."""

    def __init__(
        self,
        key: str,
        name: str,
        replication: Replication,
        ledger: Ledger,
        performer: Performer,
        restart: Callable[[], None],
    ) -> None:
        """`key`: of the test or comparison; `restart` ends what PRESETUP of its tests started."""
        self.replication = replication
        self._key = key
        self._name = name
        self._ledger = ledger
        self._performer = performer
        self._restart = restart
        self._path: ReplicatePath = ()
        """The replicate that exists; empty before the first one of this process."""
        self._places: dict[tuple[int, str], str] = {}
        """Working directory after each level, by level and original directory."""
        self._bases: list[str] = []
        """Original directories, in the order of their first use."""
        root = ledger.study.path.resolve() / DIRECTORY / str(ledger.session)
        self._root = root / key.replace("/", "-")

    def outside(self, setting: TrialSetting, plan: TestPlan) -> TrialSetting:
        """Return the setting of PRESETUP and POSTCLEANUP: that of the levels outside `process`, and
        its own; as planned without that level."""
        depth = self._depth(LevelKind.PROCESS)
        if depth is None:
            return AS_PLANNED
        return self._setting(setting.path[: depth + 1], plan)

    def complete(self, setting: TrialSetting, plan: TestPlan) -> TrialSetting:
        """Make what the setting's replicate needs and does not exist; return the whole setting.

        Raises BenchError, BuildFailed, Interrupted.
        """
        made = self._make(setting.path, plan)
        whole = self._setting(setting.path, plan)
        return msgspec.structs.replace(whole, drawn=setting.drawn, made_ns=made)

    def remove(self, *, ended: bool) -> None:
        """Remove all that was made. `ended`: whether its tests have, so that the machine need not
        continue them at its next start."""
        if ended and self.replication.levels[0].kind is LevelKind.BOOT:
            self._forget_restart()
        self._path = ()
        self._places.clear()
        shutil.rmtree(self._root, ignore_errors=True)
        for parent in (self._root.parent, self._root.parent.parent):
            if not _removed(parent):
                break

    # -- making --------------------------------------------------------------------

    def _make(self, path: ReplicatePath, plan: TestPlan) -> tuple[int, ...]:
        """Return what each level took to make [ns]; empty if the replicate existed."""
        base = self._base(plan)
        is_new = path != self._path
        if is_new:
            if not self._path:
                # What a crash has left.
                shutil.rmtree(self._root, ignore_errors=True)
            first = self._first_changed(path)
            depth = self._depth(LevelKind.PROCESS)
            ends_boot = self.replication.levels[first].kind is LevelKind.BOOT
            if self._path and (ends_boot or (depth is not None and depth >= first)):
                self._restart()
            self._forget(first)
            self._path = path
        elif (len(path) - 1, base) in self._places:
            return ()
        made = [0] * len(path)
        place = base
        for depth, level in enumerate(self.replication.levels):
            known = self._places.get((depth, base))
            if known is None:
                began = time.monotonic_ns()
                known = place
                if level.kind is LevelKind.BOOT:
                    made[depth] = self._boot(path[: depth + 1])
                else:
                    known = self._made(level, path[: depth + 1], place, plan, base)
                    # Waiting costs nobody anything.
                    waits = level.kind is LevelKind.TIME
                    made[depth] = 0 if waits else time.monotonic_ns() - began
                self._places[depth, base] = known
            place = known
        return tuple(made)

    def _made(
        self, level: ReplicateLevel, path: ReplicatePath, place: str, plan: TestPlan, base: str
    ) -> str:
        """Make one replicate of a level; return the working directory inside it."""
        match level.kind:
            case LevelKind.DIRECTORY:
                parent = self._root / f"{self._number(base)}"
                target = parent / directory_name(self.replication, path)
                self._copy(place, target)
                return str(target)
            case LevelKind.BUILD:
                assert level.command is not None
                if place == base:
                    place = str(self._root / f"{self._number(base)}" / "build")
                    if not os.path.isdir(place):
                        self._copy(base, Path(place))
                self._build(level.command, path, place, plan)
            case LevelKind.HOST if self.replication.only != path[-1]:
                message = f"{self._name}: no gang recorded replicate {path[-1]} of host"
                raise BenchError("replicate-host", message, "`bw resume` measures it again")
            case LevelKind.TIME:
                assert level.spread_ns is not None
                self._wait(level, path)
        return place

    def _build(self, text: str, path: ReplicatePath, place: str, plan: TestPlan) -> None:
        """Run the build command. A build is recorded each time it runs."""
        setting = msgspec.structs.replace(
            setting_of(self.replication, path), directory=place, path=path
        )
        prefix = f"{self._key}/build/{'.'.join(map(str, path))}/{self._number(self._base(plan))}"
        count = 0
        while self._ledger.recorded(f"{prefix}/{count}", int) is not None:
            count += 1
        status = self._ledger.command(
            f"{prefix}/{count}",
            f"{self._name} build {path[-1]}: {text}",
            partial(
                self._performer.command,
                CommandMode.PRESETUP,
                Command(("/bin/sh", "-c", text)),
                plan.environment,
                test=plan.name,
                setting=setting,
            ),
            must_succeed=True,
        )
        if status:
            raise BuildFailed(f"the build command `{text}` {status_text(status)} in {place}")

    def _wait(self, level: ReplicateLevel, path: ReplicatePath) -> None:
        """Wait for the time of a visit. Raises Interrupted."""
        key = f"{self._key}/visits"
        self._ledger.note(key, time.time_ns())
        start = self._ledger.recorded(key, int) or 0
        self._performer.wait_until(start + visit_ns(self.replication, level, path))

    def _boot(self, path: ReplicatePath) -> int:
        """Have the machine be in a boot of this replicate; return what its start took [ns].

        Raises Interrupted for a restart, BenchError.
        """
        now = boot_id()
        boots = self._recorded("boots", UsedBoot)
        restarts = self._recorded("restarts", AskedRestart)
        asked = [one for one in restarts if one.path == path]
        using = [one.path for one in boots if one.boot_id == now]
        if using[-1:] == [path]:
            return 0
        if not using:
            self._ledger.note(f"{self._key}/boots/{len(boots)}", UsedBoot(path, now))
            # The clock may have been set back at the start.
            return max(time.time_ns() - asked[-1].asked_ns, 0) if asked else 0
        if sum(one.boot_id == now for one in asked) >= MOST_RESTARTS:
            message = "the machine was asked to restart, and is still in the same boot"
            raise BenchError("no-restart", message, "restart it by hand, then `bw resume`")
        file = resume_file()
        if file is None:
            message = "nothing continues this session after a restart of the machine"
            raise BenchError("no-restart", message, "docs/reboot.md says how to set it up")
        note = AskedRestart(path, now, time.time_ns())
        self._ledger.note(f"{self._key}/restarts/{len(restarts)}", note)
        self._ledger.leave_pointer(file)
        count = self.replication.levels[0].count
        of = "" if count is None else f" of {count}"
        self._performer.warn(f"bw: {self._name}: the machine restarts for boot {path[-1]}{of}")
        complaint = ask_for_restart()
        if not complaint:
            self._performer.wait_until(time.time_ns() + RESTART_PATIENCE_S * 10**9)
            complaint = f"it did not begin within {RESTART_PATIENCE_S} s"
        raise BenchError("no-restart", f"no restart: {complaint}", "restart it, then `bw resume`")

    def _recorded(self, what: str, kind: type[Outcome]) -> list[Outcome]:
        """Return the outcomes `.../WHAT/0`, `1`, ..."""
        found: list[Outcome] = []
        while (one := self._ledger.recorded(f"{self._key}/{what}/{len(found)}", kind)) is not None:
            found.append(one)
        return found

    def _forget_restart(self) -> None:
        """Remove the file with which the machine continues this session."""
        file = resume_file()
        study = self._ledger.study.path.absolute()
        if file is not None and is_checkpoint(file) and study_of(file) == study:
            file.unlink(missing_ok=True)

    # -- places --------------------------------------------------------------------

    def _setting(self, path: ReplicatePath, plan: TestPlan) -> TrialSetting:
        base = self._base(plan)
        place = self._places.get((len(path) - 1, base), base)
        directory = None if place == base else place
        return msgspec.structs.replace(setting_of(self.replication, path), directory=directory)

    def _base(self, plan: TestPlan) -> str:
        return plan.directory or self._performer.surroundings.directory

    def _number(self, base: str) -> int:
        """Return a number of one digit for an original directory, so that places of arms are paths
        of equal length."""
        if base not in self._bases:
            self._bases.append(base)
        return self._bases.index(base)

    def _depth(self, kind: LevelKind) -> int | None:
        kinds = [level.kind for level in self.replication.levels]
        return kinds.index(kind) if kind in kinds else None

    def _first_changed(self, path: ReplicatePath) -> int:
        pairs = enumerate(zip(self._path, path, strict=False))
        return next((at for at, (old, new) in pairs if old != new), 0)

    def _forget(self, first: int) -> None:
        """Remove the replicates from a level on. A copy for builds stays."""
        for (depth, base), place in list(self._places.items()):
            if depth < first:
                continue
            del self._places[depth, base]
            if self.replication.levels[depth].kind is LevelKind.DIRECTORY:
                shutil.rmtree(place, ignore_errors=True)

    def _copy(self, source: str, target: Path) -> None:
        remedy = "make room, or run bw in a smaller directory"
        make_directory(target.parent, "replicate-copy", "the directory of copies", remedy)
        study = str(self._ledger.study.path.resolve())
        check_size(source, study)
        try:
            shutil.copytree(source, target, symlinks=True, ignore=partial(_not_copied, study))
        except (OSError, shutil.Error) as error:
            message = f"cannot copy {source} to {target}: {error}"
            raise BenchError("replicate-copy", message, remedy) from None


def visit_ns(replication: Replication, level: ReplicateLevel, path: ReplicatePath) -> int:
    """Return the time of a visit after the first one [ns]: the first is at 0, each other one at random
    within its part of the span."""
    assert level.spread_ns is not None
    assert level.count is not None, "a span has a number of visits"
    if path[-1] == 1:
        return 0
    part = level.spread_ns / (level.count - 1)
    chance = random.Random(seed_of(replication, path)).random()
    return round(part * (path[-1] - 2 + chance))


def check_size(source: str, study: str) -> None:
    """Raise BenchError if a directory is too large to be copied."""
    total = 0
    for folder, names, files in os.walk(source):
        skipped = _not_copied(study, folder, [*names, *files])
        names[:] = [name for name in names if name not in skipped]
        for name in files:
            if name not in skipped:
                total += os.lstat(os.path.join(folder, name)).st_size
        if total > COPY_LIMIT_BYTES:
            raise BenchError(
                "replicate-too-large",
                f"{source} has more than {size_text(COPY_LIMIT_BYTES)}: it is not copied for "
                "replicates",
                "run bw in a directory that has only what the command needs, such as a checkout",
            )


def _not_copied(study: str, folder: str, names: Collection[str]) -> set[str]:
    """Return which names of a folder are not copied: the study, and what is no file, directory or
    link."""
    skipped = set()
    for name in names:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        is_kept = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        if not is_kept or (stat.S_ISDIR(mode) and os.path.realpath(path) == study):
            skipped.add(name)
    return skipped


def _removed(directory: Path) -> bool:
    """Remove a directory if it is empty; return whether it is gone."""
    try:
        directory.rmdir()
    except OSError:
        return False
    return True
