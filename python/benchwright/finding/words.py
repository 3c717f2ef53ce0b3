"""Figures in words, as findings write them."""

from __future__ import annotations

from collections.abc import Sequence


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
