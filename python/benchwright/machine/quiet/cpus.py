"""Sets of processors as the kernel writes them, and which are the benchmark's."""

from __future__ import annotations

from collections.abc import Iterable

from benchwright.machine.quiet.host import Host, Refused


def parse(text: str) -> set[int]:
    """Return the processors of a list such as `0-2,5`. Raises ValueError."""
    found: set[int] = set()
    for part in text.replace("\n", "").split(","):
        if not part.strip():
            continue
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def render(cpus: Iterable[int]) -> str:
    """Return processors as the kernel's list: `0-2,5`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def online(host: Host) -> set[int]:
    """Return the processors that are online; the first where that is not told."""
    return parse(host.read(host.sys / "devices/system/cpu/online") or "0")


def possible(host: Host) -> set[int]:
    """Return the processors that can ever be online."""
    text = host.read(host.sys / "devices/system/cpu/possible")
    return parse(text) if text else online(host)


def second_threads(host: Host) -> set[int]:
    """Return the processors that go offline with SMT: all but the first of each core."""
    return {cpu for cpu in online(host) if cpu != min(siblings(host, cpu))}


def siblings(host: Host, cpu: int) -> set[int]:
    """Return the processors of a core that are online, by any of them."""
    topology = host.sys / f"devices/system/cpu/cpu{cpu}/topology"
    return parse(host.read(topology / "thread_siblings_list") or "") | {cpu}


def split(host: Host, values: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Return the benchmark's processors and the others'.

    `values` name the benchmark's; without any it has all but the first core. Raises
    Refused where one of the two sets is empty.
    """
    there = online(host)
    if values:
        bench = parse(",".join(values))
        if not bench <= there:
            missing = render(bench - there)
            raise Refused(f"processor {missing} is not online ({render(there)} are)")
    else:
        bench = there - siblings(host, min(there))
    others = there - bench
    if not bench or not others:
        raise Refused(
            f"it takes two cores or more: the benchmark's processors would be "
            f"{render(bench) or 'none'}, the others' {render(others) or 'none'}"
        )
    return bench, others
