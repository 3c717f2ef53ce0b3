"""Text of figures for people: numbers, times, sizes, rates, shares, counts, lists.

Purpose: one form for each kind of figure in messages, findings, tables, charts and progress.
Decision: a figure has its unit after a space and as many digits as a reader can use: three
for measurements, five for a rate, which users type again in the next command; thousands
have a comma, and there is no exponent if the plain number is readable. An absent figure is
`-`, never 0.
Non-goals: Getstats' table with its three decimals (report/), parsing (core/quantity.py).

`Scale` is the unit and the decimals of figures that stand together: one rule for every table, on a
terminal, on a page and in a document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

ABSENT = "-"
"""Text of an absent figure."""
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
"""Units of short times, in seconds."""
DECIMAL_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
"""Units of amounts of data on disks and links."""
BINARY_UNITS = (
    *((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")),
    (1.0, "B"),
)
"""Units of memory, blocks and files."""
_LONG_S = 100
"""From here on a time is written in minutes and hours."""
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e12
"""Numbers outside are written with an exponent."""


def number_text(value: float | None, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits: `12,500`, `0.0312`.

    `-` for None and for what is not finite.
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    rounded = float(f"{value:.{digits}g}")
    if rounded and not _PLAIN_FROM <= abs(rounded) < _PLAIN_BELOW:
        return f"{rounded:g}"
    text = fixed_text(rounded, decimals_for(rounded, digits))
    return text.rstrip("0").rstrip(".") if "." in text else text


def rounded_down(value: int, digits: int = 3) -> int:
    """Return the largest number with at most `digits` significant digits that is not above a count
    or a time in ns: for a lower bound, which rounding must not raise."""
    unit: int = 10 ** max(0, len(str(value)) - digits)
    return value // unit * unit


def fixed_text(value: float, decimals: int) -> str:
    """Return a finite number with `decimals` decimals and thousands separators; never `-0`.

    Too large for that, with an exponent and four digits.
    """
    if abs(value) >= _PLAIN_BELOW:
        return f"{value:.4g}"
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def decimals_for(size: float, digits: int) -> int:
    """Return the number of decimals with which a number of this size has `digits` significant
    digits."""
    if not size or not math.isfinite(size):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(size))))


def duration_text(seconds: float | None, digits: int = 3) -> str:
    """Return a time: `56 us`, `3.4 ms`, `48.5 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None or not math.isfinite(seconds):
        return number_text(seconds)
    if abs(seconds) < 0.9995 * _LONG_S:
        return scaled_text(seconds, TIME_UNITS, digits) if seconds else "0 s"
    sign, whole = "-" if seconds < 0 else "", round(abs(seconds))
    if whole < 3600:
        first, second = (whole // 60, "min"), (whole % 60, "s")
    else:
        first, second = (round(whole / 60) // 60, "h"), (round(whole / 60) % 60, "min")
    return sign + " ".join(f"{n:,} {unit}" for n, unit in (first, second) if n)


def duration_ns_text(ns: float | None, digits: int = 3) -> str:
    """Return a time in nanoseconds as `duration_text` does."""
    return duration_text(None if ns is None else ns / 1e9, digits)


def signed_duration_ns_text(ns: float) -> str:
    """Return a difference of times in nanoseconds with its sign: `+1.2 ms`, `-3 us`, `0`."""
    return signed_text(duration_ns_text(ns)) if ns else "0"


def moment_text(ns: int, *, seconds: bool = False) -> str:
    """Return a moment [ns since 1970] as `2026-11-23 02:30`, or with its seconds, in UTC."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime(form)


def size_text(size: float | None, digits: int = 3) -> str:
    """Return bytes of a disk or a link, in powers of 1000: `12.3 MB`."""
    return scaled_text(size, DECIMAL_UNITS, digits)


def binary_size_text(size: float | None, digits: int = 4) -> str:
    """Return bytes of memory, of a block or of a file, in powers of 1024: `64 KiB`."""
    return scaled_text(size, BINARY_UNITS, digits)


def byte_rate_text(bytes_per_s: float | None, digits: int = 3) -> str:
    """Return bytes per second: `12.3 MB/s`."""
    return _per_s(size_text(bytes_per_s, digits))


def rate_text(per_s: float | None, digits: int = 5) -> str:
    """Return a rate in 1/s with up to five digits: `236.34/s`, `12,500/s`."""
    return _per_s(number_text(per_s, digits))


def _per_s(text: str) -> str:
    return text if text == ABSENT else f"{text}/s"


def scaled_text(value: float | None, units: Sequence[tuple[float, str]], digits: int = 3) -> str:
    """Return a value in the largest of the units, given largest first, that it is at
    least one of; in the smallest where it is less than each."""
    if value is None or not math.isfinite(value):
        return number_text(value)
    scale, unit = unit_for(value, units)
    return f"{number_text(value / scale, digits)} {unit}"


def unit_for(value: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the unit, as its size and its name, in which a value is best written."""
    fitting = (unit for unit in units if abs(value) >= 0.9995 * unit[0])
    return next(fitting, units[-1])


_MOST_DIGITS = 15
"""Of a float that are exact."""


def percent_text(share: float | None, digits: int = 3) -> str:
    """Return a share, where 1 is all, in per cent: `97.3 %`. A change to what is not 0 is never
    -100 %: it has the digits that show it, as `-99.97 %`."""
    text = number_text(None if share is None else 100 * share, digits)
    while text == "-100" and share is not None and share > -1 and digits < _MOST_DIGITS:
        digits += 1
        text = number_text(100 * share, digits)
    return text if text == ABSENT else f"{text} %"


def signed_percent_text(part: float, whole: float, digits: int = 3) -> str:
    """Return a change in per cent of a whole, with its sign: `+3.2 %`; the change itself
    where the whole is 0."""
    if not whole:
        return signed_text(number_text(part, digits))
    return signed_text(percent_text(part / abs(whole), digits))


def signed_text(text: str) -> str:
    """Return the text of a figure with its sign: `+3.2 %`, `-1 ms`; none before 0."""
    return text if text[0] in "-0" and not text.startswith("0.") else f"+{text}"


def part_text(some: int, whole: int) -> str:
    """Return `3 of 1,000 operations (0.3 %)`."""
    share = f" ({percent_text(some / whole)})" if whole else ""
    return f"{some:,} of {plural(whole, 'operation')}{share}"


def cpus_text(cpus: float) -> str:
    """Return an amount of CPU time per time: `1.24 CPUs`, `1 CPU`."""
    text = number_text(cpus, 3)
    return f"{text} CPU{'' if text == '1' else 's'}"


def probability_text(probability: float) -> str:
    """Return a probability in per cent, never as certainty: `97.3 %`, `> 99.9 %`."""
    if probability > 0.999:
        return "> 99.9 %"
    if probability < 0.001:
        return "< 0.1 %"
    return percent_text(probability)


def p_text(p: float) -> str:
    """Return a P-value with its sign of equality: `P = 0.031`, `P < 0.0001`, `P = -`."""
    return f"P < {p_cell(p)[1:]}" if p_cell(p).startswith("<") else f"P = {p_cell(p)}"


def p_cell(p: float) -> str:
    """Return a P-value with two significant digits: `0.031`, `<0.0001`; `-` for NaN."""
    if math.isnan(p):
        return ABSENT
    return "<0.0001" if p < 1e-4 else f"{p:.2g}"


def quantity_text(value: float | None, unit: str, digits: int = 4) -> str:
    """Return a value in a metric's unit: seconds and bytes in the unit that suits them."""
    if units := SCALED_UNITS.get(unit):
        return scaled_text(value, units, digits)
    text = number_text(value, digits)
    return text if text == ABSENT else f"{text} {written_unit(unit)}".rstrip()


def exact_text(value: float, unit: str) -> str:
    """Return a finite value in its unit with every digit that it has, 15 of a fraction: for a
    sentence that says what a value is in every trial, which a rounded number would make untrue."""
    scale, name = unit_for(value, SCALED_UNITS.get(unit, ((1.0, written_unit(unit)),)))
    plain = not value or _PLAIN_FROM <= abs(value / scale) < _MOST_WHOLE
    if not plain:
        return f"{value:.15g} {written_unit(unit)}".rstrip()
    is_whole = float(value).is_integer()
    written = Decimal(int(value)) if is_whole else Decimal(f"{value:.15g}")
    text = f"{written / Decimal(str(scale)):,f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {name}".rstrip()


SCALED_UNITS = {
    "s": TIME_UNITS,
    "B": DECIMAL_UNITS,
    "B/s": tuple((scale, f"{name}/s") for scale, name in DECIMAL_UNITS),
}
"""Of the units that are written in the size that suits the value."""
_MOST_WHOLE = 2.0**63
"""Whole numbers below are written in full."""


def written_unit(unit: str) -> str:
    """Return a unit as reports write it: that of a pure number, `1`, is not written."""
    return "" if unit == "1" else unit


def heading_with_unit(label: str, unit: str) -> str:
    """Return a heading with the unit of its figures: `Elapsed ms`, `CPU%`."""
    return label if label.endswith("%") else f"{label} {written_unit(unit)}".rstrip()


def plural(number: int, noun: str) -> str:
    """Return `1 trial`, `3 trials`, `12 searches`."""
    if noun.endswith("series"):
        return f"{number:,} {noun}"
    ending = "es" if noun.endswith(("ch", "s", "sh", "x")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


# -- Replicates of a level of replication --------------------------------------------------

_NOUNS = {"env": "environment", "time": "visit"}
"""What one replicate of a level is called, where that is not the level's name."""


def noun_of(level: str) -> str:
    """Return what one replicate of a level is called: `environment`, `build`, `trial`."""
    return _NOUNS.get(level, level)


def replicates_text(number: int, level: str) -> str:
    """Return `1 build`, `5 directories`, `3 trials`."""
    noun = noun_of(level)
    if noun.endswith("y") and number != 1:
        return f"{number:,} {noun[:-1]}ies"
    return plural(number, noun)


def plural_of(level: str) -> str:
    """Return `builds`, `directories`, `trials`."""
    return replicates_text(2, level).partition(" ")[2]


def was(number: int) -> str:
    """Return the verb for a number: `was` or `were`."""
    return "was" if number == 1 else "were"


_MOST_SIGNAL = 64


def status_text(status: int) -> str:
    """Return an exit status as text; one of 128 and a signal's number is that signal."""
    if 128 < status <= 128 + _MOST_SIGNAL:
        return f"was killed by signal {status - 128}"
    return f"exited with status {status}"


def shell_status(status: int) -> int:
    """Return an exit status as a shell states it: 128 and the number of the signal that killed the
    command, for which some programs write that number below zero (Python's `returncode`). -1 stays:
    it is rather a mark of failure than a hang-up."""
    return 128 - status if -_MOST_SIGNAL <= status < -1 else status


def epochs_text(epochs: Sequence[int], total: int) -> str:
    """Return `trial 3 (1 of 10)`, `trials 2, 5 (2 of 10)`. A trial that was repeated is listed
    once: `trial 1 (2 of 2 attempts)`."""
    attempts = " attempts" if len(set(epochs)) < len(epochs) else ""
    return f"{trials_text(epochs)} ({len(epochs)} of {total}{attempts})"


def trials_text(epochs: Sequence[int]) -> str:
    """Return `trial 3`, `trials 2, 5`; at most ten epochs are listed, each once."""
    distinct = list(dict.fromkeys(epochs))
    more = ["..."] if len(distinct) > 10 else []
    noun = "trial" if len(distinct) == 1 else "trials"
    return f"{noun} {', '.join([*map(str, distinct[:10]), *more])}"


def list_text(texts: Sequence[str], most: int | None = None) -> str:
    """Return `a`, `a and b`, `a, b and c`; the first `most` of many: `a, b and 5 more`.

    A single text beyond `most` is shown, too.
    """
    if most is not None and len(texts) - most > 1:
        return some_text(texts, most)
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def some_text(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` texts and the number of the others: `a, b and 5 more`, or with
    another separator than a comma `a; b; and 5 more`.

    A single text beyond `most` is shown, too.
    """
    if (more := len(texts) - most) <= 1:
        return separator.join(texts)
    last = " " if separator == ", " else separator
    return f"{separator.join(texts[:most])}{last}{more_text(more)}"


def more_text(number: int) -> str:
    """Return the end of a list that was cut: `and 5 more`."""
    return f"and {number:,} more"


def natural_key(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key that puts `ext2:4` before `ext2:16`."""
    parts = re.split(r"([0-9]+)", text)
    return [
        (0, float(part[:300]), part) if at % 2 else (1, 0.0, part)
        for at, part in enumerate(parts)
        if part
    ]


_MOST_DECIMALS = 6


class Scale(msgspec.Struct, frozen=True):
    """The unit and the decimals of figures that stand together."""

    size: float
    """Of the unit in which they are shown."""
    unit: str
    decimals: int | None
    """None: each figure by itself, with `digits` significant digits."""
    digits: int = 4

    def heading(self, label: str) -> str:
        """Return the heading of a column whose cells have no unit."""
        return f"{label} [{self.unit}]" if self.unit else label

    def text(self, value: float | None, *, unit: bool = True) -> str:
        """Return a value as it is shown; without `unit` for an end of an interval."""
        if value is None or not math.isfinite(value):
            return ABSENT if value is None or math.isnan(value) else "unbounded"
        scaled = value / self.size
        if self.decimals is None:
            text = number_text(scaled, self.digits)
        else:
            text = fixed_text(scaled, self.decimals)
        if not unit or not self.unit:
            return text
        return f"{text}{self.unit}" if self.unit.startswith("/") else f"{text} {self.unit}"


def scale_of(
    values: Iterable[float | None], unit: str, digits: int = 4, ends: Iterable[float | None] = ()
) -> Scale:
    """Return the scale that suits values of this unit: `digits` significant digits of the largest,
    one less of the smallest, and no zeros at the end of all. Where that takes more than six
    decimals, each by itself. Seconds and bytes are in the unit that suits the median.

    `ends` have the same scale without deciding on its digits, as the ends of intervals do.
    """
    known = [value for value in values if value and math.isfinite(value)]
    units = SCALED_UNITS.get(unit)
    size, name = (1.0, written_unit(unit)) if units is None else common_unit(known, units)
    shown = [end for end in (*known, *ends) if end and math.isfinite(end)]
    if not known:
        return Scale(size, name, None if shown else 0, digits)
    sizes = [abs(value) / size for value in known]
    decimals = max(decimals_for(max(sizes), digits), decimals_for(min(sizes), digits - 1))
    if decimals > _MOST_DECIMALS:
        return Scale(size, name, None, digits)
    texts = [number_text(value / size, digits) for value in shown]
    needed = max(len(text.partition(".")[2]) for text in texts)
    return Scale(size, name, min(decimals, needed), digits)


def alike(values: Iterable[float | None], digits: int = 4) -> bool:
    """Return whether the largest of these figures is less than 10 to the power of `digits` times
    the smallest: with one unit, each has a digit in the places of the others."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return not sizes or max(sizes) < 10**digits * min(sizes)


def common_unit(
    values: Sequence[float | None], units: Sequence[tuple[float, str]]
) -> tuple[float, str]:
    """Return the unit that suits the median of the values; without one, the plain unit."""
    sizes = sorted(abs(v) for v in values if v and math.isfinite(v))
    if not sizes:
        return next((unit for unit in units if unit[0] == 1), units[0])
    return unit_for(sizes[len(sizes) // 2], units)
