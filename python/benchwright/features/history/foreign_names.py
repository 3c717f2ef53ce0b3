"""Names of the tests of other tools in a history: one test has one name, whichever file it is in.

A file shows a test by a short name where that is enough in the file, so the name in a history
depends on all tests that are read together, and on those that a history file has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from benchwright.core.plan import Pairs
from benchwright.findings.result import TestResult


class KnownNames(msgspec.Struct, frozen=True):
    """The tests of history files."""

    tests: frozenset[str] = frozenset()
    """Their names in the keys of series."""
    full_names: Mapping[str, str] = {}
    """The full names of those whose key has a short name."""


class NamedInput(msgspec.Struct, frozen=True):
    """A test with its name in a history."""

    test: str
    """As in the keys of series: short or full, with the labels that distinguish it."""
    base: str
    """Without labels."""
    input: TestResult

    @property
    def labels(self) -> str:
        """What the name has after the base: `:key=value`; empty without labels."""
        return self.test.removeprefix(self.base)


def named_in_history(
    inputs: Sequence[TestResult], runs: Sequence[Hashable], known: KnownNames
) -> list[NamedInput]:
    """Return the inputs with their names in a history. `runs` says of each to which run it belongs.

    A name is the full one where a series has it already, or where a short name has several full
    ones; a stored series keeps its short name. It has the labels, `test:key=value`, that
    distinguish two results of the test in any run, or in a stored series.
    """
    bases = _bases(inputs, known)
    labels: dict[str, set[str]] = defaultdict(set)
    for base, rest in _parts(known.tests):
        labels[base] |= {part.partition("=")[0] for part in rest.split(",")}
    of_run: dict[tuple[Hashable, str], Pairs] = {}
    for one, run, base in zip(inputs, runs, bases, strict=True):
        first = of_run.setdefault((run, base), _labels(one))
        labels[base] |= {key for key, _ in {*first} ^ {*_labels(one)}}
    named = []
    taken: set[tuple[Hashable, str]] = set()
    for one, run, base in zip(inputs, runs, bases, strict=True):
        own = [f"{key}={value}" for key, value in _labels(one) if key in labels[base]]
        test = f"{base}:{','.join(own)}" if own else base
        if (run, test) in taken:  # A result that is twice in its file.
            test = base = one.name
        taken.add((run, test))
        named.append(NamedInput(test, base, one))
    return named


def _labels(one: TestResult) -> Pairs:
    return one.origin.labels if one.origin else ()


def _bases(inputs: Iterable[TestResult], known: KnownNames) -> list[str]:
    """Return the short or the full name of each input."""
    tests = set(known.tests) | {base for base, _ in _parts(known.tests)}
    full_names: dict[str, set[str]] = defaultdict(set)
    for one in inputs:
        tests.add(one.name)
        full_names[one.name].add(one.full_name)

    short = {full: test for test, full in known.full_names.items()}

    def base(one: TestResult) -> str:
        full = one.full_name
        if not full or full in short:
            return short.get(full, one.name)
        is_other = one.name in known.full_names or full in tests
        return full if is_other or len(full_names[one.name] - {""}) > 1 else one.name

    return list(map(base, inputs))


def _parts(tests: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what a name may be without its labels, and the labels."""
    for test in tests:
        for at, letter in enumerate(test):
            if letter == ":":
                yield test[:at], test[at + 1 :]
