"""What one more run costs a history of many series: one look at each of 10,000 series of 500
values.

`newest_run.py [SERIES [VALUES]]`. Aim: under 1 s. A store keeps one integer for each series, where
its present level begins; the values are those of a history file in memory. The time of `find_steps`
for one of the series is printed beside it.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchwright.stats.steps import find_steps, newest_verdicts

SERIES = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
VALUES = int(sys.argv[2]) if len(sys.argv) > 2 else 500

rng = np.random.default_rng(1)
values = 0.05 * rng.standard_normal((SERIES, VALUES))
series, starts = list(values), rng.integers(0, VALUES, SERIES).tolist()
for name, begin in (("one level", [0] * SERIES), ("levels of any age", starts)):
    wall, cpu = time.perf_counter(), time.process_time()
    verdicts = newest_verdicts(series, level_starts=begin)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name}: {len(verdicts)} looks at {VALUES} values in {wall:.2f} s ({cpu:.2f} s CPU)")
cpu = time.process_time()
for one in series[:20]:
    find_steps(one)
each = (time.process_time() - cpu) / min(20, SERIES)
print(f"all steps of one series: {1e3 * each:.1f} ms CPU")
