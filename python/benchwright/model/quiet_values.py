"""Which values a setting takes, as far as no machine need be asked.

Purpose: a value that no machine takes is a mistake where it is written, in a suite too
that is checked elsewhere. What machines differ in (governors, huge pages, which
processors there are) is asked of the machine: machine/quiet/values.py.
Source: kernel documentation, admin-guide/sysctl/{kernel,vm}.rst, admin-guide/pm/cpufreq.rst,
admin-guide/mm/transhuge.rst; cpuset(7), the list format; NR_CPUS in the Kconfig files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PROCESSORS = ("irq-affinity", "isolation")
"""Settings whose values are the benchmark's processors."""
DOCUMENTED: dict[str, tuple[str, ...]] = {
    "governor": (
        *("performance", "powersave", "userspace", "ondemand", "conservative"),
        "schedutil",
    ),
    "thp": ("always", "madvise", "never"),
}
"""What the kernel's documentation has; a machine that lists its own takes these alone."""
_WITHOUT = ("nologin", "dirty", "smt", "caches")
_CHOICES: dict[str, tuple[str, ...]] = {
    "turbo": ("off", "on"),
    "aslr": ("0", "1", "2"),
    "nmi-watchdog": ("0", "1"),
}
_SINGLE = (*_CHOICES, *DOCUMENTED, "swappiness")
_MOST_SWAPPINESS = 200
_MOST_PROCESSOR = 8191
_NUMBER = re.compile(r"0|[1-9][0-9]{0,4}")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def wrong_values(name: str, values: Sequence[str]) -> str:
    """Return what is wrong with one value or more, and what is allowed; empty: nothing."""
    if name in _WITHOUT:
        return f"{name} takes no values: write it alone"
    if name in _SINGLE and len(values) > 1:
        return f"{name} takes one value, not {len(values)}: {', '.join(values)}"
    if name in PROCESSORS:
        return _wrong_processors(name, values)
    value = values[0]
    if name in _CHOICES and value not in _CHOICES[name]:
        return not_allowed(name, value, _CHOICES[name])
    if name == "swappiness" and not _is_number(value, _MOST_SWAPPINESS):
        return not_allowed(
            name, value, (f"whole numbers from 0 to {_MOST_SWAPPINESS}",)
        )
    return ""


def not_allowed(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return the message for a value that a setting does not take."""
    return f"{name} cannot be {value!r}; allowed: {', '.join(allowed)}"


def _is_number(text: str, most: int) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) <= most


def _wrong_processors(name: str, values: Sequence[str]) -> str:
    for value in values:
        match = _RANGE.fullmatch(value)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= _MOST_PROCESSOR:
            allowed = f"processors from 0 to {_MOST_PROCESSOR}, as 2 or 2-5 or 2-5,7"
            return not_allowed(name, value, (allowed,))
    return ""
