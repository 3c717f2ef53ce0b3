"""In which order the arms of a block run.

A function of the seed and the block's number and of nothing else, so that a resumed
comparison goes on in the very order in which it would have gone on.
Source: R. A. Fisher 1935, The Design of Experiments, on randomised blocks; ABBA cancels
a linear drift within a block.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchwright.model.comparison import ComparisonRule, Design


def block_order(rule: ComparisonRule, block: int) -> tuple[int, ...]:
    """Return the places of the arms to run in block `block`, counted from 0.

    A sequence is one block that holds everything. A stored baseline does not run.
    """
    if rule.stored is not None:
        return tuple(range(1, rule.arms))
    assert rule.design is not Design.STORED, "what is stored does not run"
    if rule.design is Design.SEQUENCE:
        each = rule.warmup + rule.maximum
        return tuple(arm for arm in range(rule.arms) for _ in range(each))
    if rule.design is Design.BLOCKS:
        return _shuffled(rule.arms, rule.seed, block)
    forth = tuple(range(rule.arms))
    return forth + forth[::-1] if rule.design is Design.ABBA else forth


@lru_cache(maxsize=65536)
def _shuffled(arms: int, seed: int, block: int) -> tuple[int, ...]:
    order = np.random.default_rng([seed, block]).permutation(arms)
    return tuple(int(arm) for arm in order)
