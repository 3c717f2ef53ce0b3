"""The benchmark alone on its processors: everybody else is moved to the others.

How: the benchmark's tree goes into a cpuset of its own, tasks of the root cgroup into
another, and existing groups have their processors narrowed in place. So a task's group
need not be remembered: what is in `bw-others` came from the root, or was begun there by
what did. A task that cannot be moved (a kernel thread bound to a processor) is counted.
Source: cpuset(7); kernel documentation, admin-guide/cgroup-v1/cpusets.rst and
cgroup-v2.rst.
"""

from __future__ import annotations

from pathlib import Path

from benchwright.machine.quiet import cgroups, cpus
from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.setting import Plan, lacking, unknown_item
from benchwright.model.quiet import Change, Wish

BENCH, OTHERS = "bw-bench", "bw-others"
_ABSENT, _ON, _OFF, _THERE = "absent", "on", "off", "where it was"


class Isolation:
    """Everybody else on other processors, by cpusets of cgroups."""

    name = "isolation"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return the steps: two groups, our tree, other groups, other tasks."""
        tree = cgroups.cpuset(host)
        if tree is None:
            return lacking("no cpuset controller of cgroups is to be had")
        if not host.writable(tree.root / "cgroup.procs"):
            return lacking(f"{tree.root} may not be written: run as root")
        if not cgroups.takes_back(host, tree):
            return lacking(
                f"{tree.root} is a container's: while it has tasks none could return to it"
            )
        bench, others = cpus.split(host, wish.values)
        for name in (BENCH, OTHERS):
            if (tree.root / name).exists():
                return lacking(f"{tree.root / name} is there already, and not ours")
        memory = cgroups.nodes(host, tree)
        steps = [
            *((("controller", _OFF, _ON),) if not tree.enabled(host) else ()),
            (f"group {BENCH}", _ABSENT, f"{cpus.render(bench)} {memory}"),
            (f"group {OTHERS}", _ABSENT, f"{cpus.render(others)} {memory}"),
            (f"own {cgroups.of(host, tree, host.own_pid)}", _THERE, BENCH),
            *_narrowed(host, tree, others),
            *((("tasks", _THERE, OTHERS),) if _strangers(host, tree) else ()),
        ]
        return Plan(tuple(Change(self.name, *step) for step in steps))

    def now(self, host: Host) -> str:
        """Return how many groups there are."""
        tree = cgroups.cpuset(host)
        if tree is None:
            return "no cpuset controller of cgroups is to be had"
        groups = cgroups.below(tree)
        isolated = "isolated" if tree.root / OTHERS in groups else "not isolated"
        return f"{isolated}; cgroup v{tree.version}, {len(groups)} groups"

    def check(self, host: Host, change: Change) -> None:
        """Refuse a step that is none, and groups outside the hierarchy."""
        kind, _, name = change.item.partition(" ")
        known = {"controller": ("",), "tasks": ("",), "group": (BENCH, OTHERS)}
        if kind in known:
            if name not in known[kind]:
                raise unknown_item(change)
            return
        path, tree = Path(name), _tree(host)
        inside = any(path.is_relative_to(top) for top in (tree.root, tree.mount))
        file = kind == "own" or (kind == "cpus" and path.name == "cpuset.cpus")
        if not inside or not file or ".." in path.parts:
            raise unknown_item(change)

    def read(self, host: Host, change: Change) -> str | None:
        """Return an item's state."""
        tree = _tree(host)
        kind, _, name = change.item.partition(" ")
        match kind:
            case "controller":
                return _controller(host, tree)
            case "group":
                told = cgroups.describe(host, tree.root / name)
                # A group of this name without processors: we were killed half-way.
                return _ABSENT if told is None else told or change.new
            case "own" | "tasks":
                group = BENCH if kind == "own" else OTHERS
                return group if cgroups.members(host, tree.root / group) else _THERE
            case _:
                return _processors(host, tree, Path(name), change)

    def write(self, host: Host, change: Change, value: str) -> str:
        """Bring an item into a state; count the tasks that could not be moved."""
        tree = _tree(host)
        kind, _, name = change.item.partition(" ")
        match kind:
            case "controller":
                sign = "+" if value == _ON else "-"
                host.write(tree.root / "cgroup.subtree_control", f"{sign}cpuset")
            case "group":
                _group(host, tree.root / name, value)
            case "own":
                return _move_own(host, tree, Path(name), value)
            case "tasks":
                return _move_others(host, tree, value)
            case _:
                _give(host, tree, Path(name), value)
        return ""


def _strangers(host: Host, tree: cgroups.Hierarchy) -> bool:
    """Tell whether there are tasks in the root group beside our own."""
    seen = set(cgroups.members(host, tree.root)) - host.tree(host.own_pid)
    return bool(seen) or cgroups.hidden(host, tree.root) > 0


def _tree(host: Host) -> cgroups.Hierarchy:
    tree = cgroups.cpuset(host)
    if tree is None:
        raise Refused("the cpuset controller of cgroups is gone")
    return tree


def _controller(host: Host, tree: cgroups.Hierarchy) -> str:
    """Return whether it is on, and for whom but us: it is not taken from these."""
    if not tree.enabled(host):
        return _OFF
    groups = (g for g in cgroups.below(tree) if g.parent == tree.root)
    users = [
        group.name
        for group in groups
        if group.name not in (BENCH, OTHERS) and cgroups.uses(host, group)
    ]
    return f"{_ON}, used by {', '.join(users)}" if users else _ON


def _narrowed(
    host: Host, tree: cgroups.Hierarchy, others: set[int]
) -> list[tuple[str, str, str]]:
    """Return steps that narrow existing groups, in an order that the kernel allows.

    Of version 1 each group, the deepest first: a child's processors must be part of its
    parent's. Of version 2 those below the root: what is in them is cut to fit.
    """
    targets: dict[Path, set[int]] = {tree.root: others}
    steps = []
    for group in cgroups.below(tree):
        if tree.version == 2 and group.parent != tree.root:
            continue
        old = cgroups.given(host, tree, group)
        room = targets.get(group.parent, others)
        targets[group] = cpus.parse(old or "") & room or room
        if old is None or (tree.version == 1 and not old):
            continue  # an empty one of version 1 can hold no task
        new = cpus.render(targets[group])
        if new != old:
            steps.append((f"cpus {group / 'cpuset.cpus'}", old, new))
    return steps[::-1]


def _processors(
    host: Host, tree: cgroups.Hierarchy, path: Path, change: Change
) -> str | None:
    """Return a group's processors; where it had none, also all are none."""
    text = host.read(path)
    if text and not change.old and tree.version == 2 and cgroups.is_all(host, text):
        return ""
    return text


def _give(host: Host, tree: cgroups.Hierarchy, path: Path, value: str) -> None:
    try:
        host.write(path, value)
    except Refused:
        # Of version 2 a group with tasks cannot be given none again (ENOSPC): it gets
        # all that there can be, which is the same to it.
        if value or tree.version == 1:
            raise
        host.write(path, cpus.render(cpus.possible(host)))


def _group(host: Host, path: Path, value: str) -> None:
    if value == _ABSENT:
        cgroups.remove(host, path)
        return
    host.make_directory(path)
    cpu, memory = value.split(" ")
    host.write(path / "cpuset.mems", memory)
    host.write(path / "cpuset.cpus", cpu)


def _move_own(host: Host, tree: cgroups.Hierarchy, old: Path, value: str) -> str:
    if value == BENCH:
        return cgroups.move(
            host,
            lambda: set(cgroups.members(host, old)) & host.tree(host.own_pid),
            tree.root / BENCH,
        )
    home = old if old.is_dir() else tree.root
    bench = tree.root / BENCH
    return cgroups.move(host, lambda: set(cgroups.members(host, bench)), home)


def _move_others(host: Host, tree: cgroups.Hierarchy, value: str) -> str:
    others = tree.root / OTHERS
    if value == OTHERS:
        return cgroups.move(
            host,
            lambda: set(cgroups.members(host, tree.root)),
            others,
            unseen=cgroups.hidden(host, tree.root),
        )
    return cgroups.move(host, lambda: set(cgroups.members(host, others)), tree.root)
