"""What a replicate of a level of replication changes: the environment, the commands, the name of its
directory; and its seed. The types are those of core/plan.py.

Decision: everything random about a replicate is a pure function of the design's seed and of the
replicate's path, so a journal stores nothing but the path, and a resumed session continues the same
design. Sources: T. Mytkowicz and others 2009, Producing Wrong Data Without Doing Anything Obviously
Wrong! (environment size, link order); T. Kalibera and R. Jones 2013, Rigorous Benchmarking in
Reasonable Time (several levels of repetition).
"""

from __future__ import annotations

import itertools

from benchwright.core.plan import LevelKind, ReplicatePath, Replication, TrialSetting
from benchwright.core.text import plural, plural_of, replicates_text


def levels_text(replication: Replication) -> str:
    """Return the design in words: `5 environments, 3 builds in each`."""
    words: list[str] = []
    for level in replication.levels:
        inside = " in each" if words else ""
        if level.count is None:
            words.append(f"{plural_of(level.kind)}{inside}")
        else:
            words.append(f"{replicates_text(level.count, level.kind)}{inside}")
    return ", ".join(words)


def describe_replication(replication: Replication, unit: str = "trial") -> str:
    """Return the design in words: `5 environments, 10 trials in each`."""
    words = levels_text(replication)
    if replication.levels[0].kind is LevelKind.BOOT:
        words += " (this machine restarts between them)"
    if replication.trials is None:
        return f"{words}, as many as needed"
    return f"{words}, {plural(replication.trials, unit)} in each"


def cold_part(replication: Replication, path: ReplicatePath) -> ReplicatePath:
    """Return the part of a path whose change brings something new that may be slow at first: files, a
    program, a server. Another environment inside it brings nothing."""
    kinds = [level.kind for level in replication.levels]
    while kinds and kinds[-1] is LevelKind.ENV:
        kinds.pop()
    return path[: len(kinds)]


def starts_cold(replication: Replication, before: ReplicatePath, path: ReplicatePath) -> bool:
    """Return whether the first trials of a replicate begin with something new. `before`: the replicate
    before it; empty for the first."""
    return not before or cold_part(replication, before) != cold_part(replication, path)


def takes_turns(replication: Replication) -> bool:
    """Return whether the innermost replicates take turns, one trial of each in random order, again and
    again, so that what the machine changes meanwhile is not part of what they differ by.

    Environments do, where the numbers are given: to come back to another replicate would make it again.
    """
    innermost = replication.levels[-1]
    is_given = innermost.count is not None and replication.trials is not None
    return innermost.kind is LevelKind.ENV and is_given


def outermost_take_turns(replication: Replication) -> bool:
    """Return whether all trials are in turns, so that what the machine does is common to the replicates
    that the mean is over."""
    return len(replication.levels) == 1 and takes_turns(replication)


def trials_before(replication: Replication, warmups: int) -> int:
    """Return how many trials, or blocks, run in the outermost replicates before the only one of this
    session; 0 where it runs all. `warmups`: of each replicate that starts cold."""
    if replication.only is None:
        return 0
    assert replication.trials is not None, "the numbers are given"
    inner = [range(1, (level.count or 0) + 1) for level in replication.levels[1:]]
    before: ReplicatePath = ()
    trials = 0
    for rest in itertools.product(*inner):
        path = (1, *rest)
        trials += replication.trials + warmups * starts_cold(replication, before, path)
        before = path
    return trials * (replication.only - 1)


def seed_of(replication: Replication, path: ReplicatePath) -> int:
    """Return the seed of the replicate at the end of a path, 0 .. 2**31 - 1: the replicate
    `path[-1]` of the level `len(path) - 1`."""
    return _drawn(replication, str(replication.levels[len(path) - 1].kind), path)


def turn_of(replication: Replication, path: ReplicatePath, rounds: int) -> int:
    """Return a random number of a path after so many rounds: replicates that take turns have theirs in
    the order of these."""
    return _drawn(replication, f"turn {rounds}", path)


def _drawn(replication: Replication, what: str, path: ReplicatePath) -> int:
    # Few sessions replicate anything.
    import hashlib

    text = f"{replication.seed}/{what}/{'.'.join(map(str, path))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


PADDING = "BW_PADDING"
"""The variable that pads the environment."""
PADDING_BYTES = 4096
"""Lengths of the padding are below this: one page, as in Mytkowicz and others."""
SEED = "seed"
"""The placeholder of a build's seed."""
PATH_BYTES = 200
"""Names of directories of replicates are at most this long; a file name has at most 255 bytes."""


def setting_of(replication: Replication, path: ReplicatePath) -> TrialSetting:
    """Return what the levels of a path change in environment and commands. A path that ends early
    gives the setting of its outer levels."""
    environment: list[tuple[str, str]] = []
    substitutions: list[tuple[str, str]] = []
    for depth, level in enumerate(replication.levels[: len(path)], 1):
        seed = seed_of(replication, path[:depth])
        if level.kind is LevelKind.ENV:
            environment.append((PADDING, "x" * (seed % PADDING_BYTES)))
        elif level.kind is LevelKind.BUILD:
            substitutions.append((SEED, str(seed)))
    return TrialSetting(path, (), tuple(environment), None, tuple(substitutions))


def directory_name(replication: Replication, path: ReplicatePath) -> str:
    """Return the name, of seeded length, of the directory of a replicate of `directory`."""
    length = 1 + seed_of(replication, path) % PATH_BYTES
    return ("d" + "-".join(map(str, path)) + "x" * PATH_BYTES)[:length]
