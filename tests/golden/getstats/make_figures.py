"""Makes figures.json: data sets whose Getstats lines are those of the paper's figures.

The paper prints no data. For each line this finds values with the printed count, median,
minimum and maximum exactly, and a mean and standard deviation inside the rounding of the
printed ones, such that every other printed column (LOW, HIGH, HW%, O/H) follows. That
such values exist is itself the check that the figure's columns belong together.
Run by hand: `python tests/golden/getstats/make_figures.py`.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

from scipy import stats

FIGURES = {
    "figure2": """
ext2:1.res
Elapsed 10 6.055 6.063 5.991 6.120 5.855 6.180 1.491 1.067
System 10 2.758 2.760 2.709 2.807 2.640 2.880 2.499 1.788
User 10 1.675 1.680 1.615 1.735 1.510 1.820 5.044 3.609
Wait 10 1.622 1.636 1.567 1.677 1.465 1.718 4.759 3.404
CPU% 10 73.221 73.079 72.572 73.871 72.007 74.981 1.240 0.887
ext3:1.res
Elapsed 15 77.861 76.865 74.156 81.567 64.308 88.209 8.594 4.759 1185.869
System 15 4.272 4.290 4.217 4.327 4.100 4.410 2.334 1.293 54.895
User 15 1.825 1.820 1.773 1.877 1.670 1.990 5.132 2.842 8.935
Wait 15 71.765 70.775 68.064 75.466 58.158 82.179 9.312 5.157 4324.025
CPU% 15 7.885 7.923 7.499 8.272 6.836 9.563 8.850 4.901 -89.231
""",
    "figure3": """
chill
Elapsed 10 38.649 38.193 37.950 39.348 37.673 40.379 2.528 1.808
System 10 1.663 1.675 1.603 1.723 1.540 1.770 5.071 3.628
remount
Elapsed 10 38.751 38.699 38.580 38.921 38.465 39.307 0.614 0.439 0.262
System 10 1.796 1.790 1.677 1.915 1.580 2.080 9.255 6.620 7.998
""",
}


def tables(text: str) -> dict[str, dict[str, list[float]]]:
    """Return input -> quantity -> printed figures."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in text.split("\n"):
        words = line.split()
        if len(words) == 1:
            current = found.setdefault(words[0], {})
        elif words:
            current[words[0]] = [float(word) for word in words[1:]]
    return found


def same(value: float, printed: float) -> bool:
    return f"{value:.3f}" == f"{printed:.3f}"


def fill(n, mean, sdev, median, low, high):
    """Return values with these moments and order statistics, or None.

    Between the ends and the middle: a values of one size below the median, b above.
    """
    middle = [median] if n % 2 else [median, median]
    free = n - 2 - len(middle)
    fixed = [low, *middle, high]
    for fixed_extra in itertools.product([0, 1, 2], repeat=2):
        ends = [*fixed, *[low] * fixed_extra[0], *[high] * fixed_extra[1]]
        a, b = free // 2 - fixed_extra[0], free // 2 - fixed_extra[1]
        if a < 1 or b < 1:
            continue
        total = n * mean - math.fsum(ends)
        square = (n - 1) * sdev**2 - math.fsum((v - mean) ** 2 for v in ends)
        shifted = total - (a + b) * mean
        # a*p + b*q = shifted and a*p^2 + b*q^2 = square, for deviations p < q.
        under = square * (a + b) - shifted**2
        if under < 0:
            continue
        root = math.sqrt(under * b / a)
        p = (shifted - root) / (a + b)
        q = (shifted - a * p) / b
        x, y = mean + p, mean + q
        if low <= x <= median <= y <= high:
            return sorted([*ends, *[x] * a, *[y] * b])
    return None


def candidates(printed, means=None):
    """Yield (mean, values) with the printed figures, over a grid inside the rounding."""
    steps = sorted((k / 20 for k in range(-9, 10)), key=abs)
    for mean in means or [printed[1] + step * 1e-3 for step in steps]:
        for step in steps:
            share = printed[7] + step * 1e-3
            sdev = share / 100 * mean
            n = int(printed[0])
            half = stats.t.ppf(0.975, n - 1) * sdev / math.sqrt(n)
            figures = (mean, mean - half, mean + half, share, 100 * half / mean)
            wanted = (printed[1], printed[3], printed[4], printed[7], printed[8])
            if all(map(same, figures, wanted)):
                values = fill(n, mean, sdev, printed[2], printed[5], printed[6])
                if values is not None:
                    yield mean, values


def pair(base, other):
    """Return values for both inputs whose overhead is the printed one, or None."""
    for mean2, values2 in candidates(other):
        mean = mean2 / (1 + other[9] / 100)
        for _, values in candidates(base, [mean]):
            return values, values2
    return None


def main() -> None:
    """Write figures.json beside this file."""
    result = {}
    for figure, text in FIGURES.items():
        (first, base), (second, other) = tables(text).items()
        found = {quantity: pair(base[quantity], other[quantity]) for quantity in base}
        for quantity, values in found.items():
            if values is None:
                print("no data found for", figure, quantity)
        result[figure] = {
            name: {q: values[place] for q, values in found.items() if values}
            for place, name in enumerate((first, second))
        }
    path = Path(__file__).with_name("figures.json")
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
