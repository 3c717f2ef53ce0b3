"""Lists of CPUs in the kernel's format: `0-2,5`.

Source: cpuset(7), the list format; NR_CPUS in the Kconfig files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_CPU = 8191
_PART = re.compile(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", re.ASCII)


def parse_cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list, in its order; none of an empty one. Raises ValueError."""
    found: list[int] = []
    for part in text.split(",") if text.strip() else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not a list of CPUs such as 0,2 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        if last > MAX_CPU:
            raise ValueError(f"{part.strip()!r}: CPUs are numbers from 0 to {MAX_CPU}")
        found.extend(range(first, last + 1))
    return found


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as a list, in order."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
