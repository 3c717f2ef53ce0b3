"""Figures as findings print them: shares, cores, bytes, rates, times, epochs."""

from __future__ import annotations

from collections.abc import Sequence

# -- Figures in words, as findings write them ------------------------------------------


def epochs_text(epochs: Sequence[int], total: int) -> str:
    """Return `epoch 3`, or `epochs 2, 5 (2 of 10 trials)`; long lists are cut at ten."""
    where = ", ".join(str(epoch) for epoch in epochs[:10])
    if len(epochs) > 10:
        where += ", ..."
    plural = "" if len(epochs) == 1 else "s"
    return f"epoch{plural} {where} ({len(epochs)} of {total} trial{'' if total == 1 else 's'})"


def counted(number: int, noun: str) -> str:
    """Return `1 trial`, `3 trials`, `12,000 samples`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def was(number: int) -> str:
    """Return the verb of so many: `was` or `were`."""
    return "was" if number == 1 else "were"


def amount(value: float, unit: str) -> str:
    """Return a value with four digits and its unit."""
    return f"{value:.4g} {unit}".rstrip()


def percent(part: float, whole: float) -> str:
    """Return a signed share in percent; the part itself where the whole is 0."""
    if not whole:
        return f"{part:+.3g}"
    return f"{100 * (part / abs(whole)):+.3g} %"


def p_text(p: float) -> str:
    """Return a P-value in words."""
    return "P < 0.0001" if p < 1e-4 else f"P = {p:.2g}"


# -- Figures of the machine in words: shares, cores, bytes, rates, times ---------------

_STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def share_text(share: float) -> str:
    """Return `97 %`; below 10 % one digit more, and never a 0 for something."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 0 < percent < 9.95:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %"


def cores_text(cores: float) -> str:
    """Return `1.24 processors`, `1 processor`."""
    text = f"{cores:.2f}".rstrip("0").rstrip(".")
    return f"{text} processor{'' if text == '1' else 's'}"


def bytes_text(size: float) -> str:
    """Return `12.3 MB`, in powers of 1000 as disks and links have them."""
    for step, unit in _STEPS:
        if abs(size) >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size:.3g} B"


def rate_text(bytes_per_s: float) -> str:
    """Return `12.3 MB/s`."""
    return f"{bytes_text(bytes_per_s)}/s"


def seconds_text(seconds: float) -> str:
    """Return `1.2 s`, `3.4 ms` or `56 us`."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} us"


def list_text(texts: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last
