"""Recorded series: long runs of real programs, each one more population.

A file tests/corpus/MACHINE/PROGRAM-CONDITION.json.xz is a `RecordedSeries`; benches/corpus.py
records it, docs/corpus.md says how. A `Recorded` population draws contiguous blocks of it, and its
truth is that of the whole series. `findings_of` judges a block as `bw` judges a test of these
trials: by its values, and by what the sampler saw of the machine meanwhile.

Decision: one compressed JSON file for each series, integer nanoseconds in the order of recording:
readable with `xz -dc` and any language, 20 to 40 kB. Parquet needs pyarrow, and npz has no place
for the machine.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchwright.core.observation import MeasurementBlock, ProcessRecord, Trial, TrialEnding
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Finding, Severity
from benchwright.findings.examine import compute_findings
from benchwright.findings.result import TestResult
from benchwright.findings.thresholds import SHORTEST_S
from benchwright.study.contents import first_machine, tests_of
from benchwright.study.journal import Study
from populations import Array, Population

CORPUS = Path(__file__).parents[1] / "corpus"
SAMPLES_PER_S = 10
"""Of the sampler."""
_FACTS = (
    "benchwright.version",
    "clock.source",
    "cpu.cache_",
    "cpu.cores",
    "cpu.governor",
    "cpu.model",
    "cpu.smt",
    "kernel.release",
    "kernel.version",
    "load.",
    "memory.thp_enabled",
    "memory.total_kib",
    "os.",
    "program.",
    "python.",
    "self.autogroup",
    "sysctl.kernel.sched_autogroup_enabled",
    "virtual.",
)
"""How the names of the facts begin that are stored."""


class Busy(msgspec.Struct, frozen=True):
    """How busy the machine was during a series."""

    lasted_s: float
    steal_share: float
    """Of all CPUs' time, taken by the hypervisor."""
    idle_share: float
    load_average: float
    """Of the last minute, at the end."""


class Around(msgspec.Struct, frozen=True):
    """What is known of a series beside its study."""

    machine: str
    program: str
    condition: str
    setting: dict[str, str]
    """Of the scheduler, or limits of the cgroup (version 1), for `bw`, server and neighbour; empty:
    nothing was set."""
    neighbour: tuple[tuple[float, float], ...]
    """When the neighbour was on, from and to [s]; of a rising one, the time in which it rose."""
    neighbour_ns: int
    """What these times start from, CLOCK_MONOTONIC [ns]; 0: there was no neighbour."""
    busy: Busy
    versions: dict[str, str]
    """Of the programs, as they print it."""


class RecordedSeries(msgspec.Struct, frozen=True):
    """One series of trials, in the order in which they ran."""

    around: Around
    command: str
    """Without the folder of the program's files."""
    recorded: str
    """The day, UTC."""
    facts: dict[str, str]
    """Of the machine, by the names of `bw env`."""
    first_ns: int
    """The start of the first trial, CLOCK_MONOTONIC [ns]."""
    start_ns: tuple[int, ...]
    """Of each trial, since the start of the first [ns]."""
    elapsed_ns: tuple[int, ...]
    """[ns]."""
    uses: tuple[ResourceUse, ...]
    """What the sampler saw, window by window; without files, sockets and the log of the kernel."""

    @property
    def name(self) -> str:
        """Program, condition and machine."""
        around = self.around
        return f"{around.program} {around.condition}, {around.machine}"


def file_of(corpus: Path, machine: str, program: str, condition: str) -> Path:
    """Return the file of a series in a corpus."""
    return corpus / machine / f"{program}-{condition}.json.xz"


def write(file: Path, series: RecordedSeries) -> None:
    """Write a series, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = _rounded(msgspec.to_builtins(series))
    data = lzma.compress(msgspec.json.encode(document), preset=9 | lzma.PRESET_EXTREME)
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.replace(file)


def _rounded(value: Any) -> Any:
    """Return a document with five digits of every number that is not an integer."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def read(file: Path) -> RecordedSeries:
    """Return a stored series. Raises msgspec.ValidationError for another document."""
    return msgspec.json.decode(lzma.decompress(file.read_bytes()), type=RecordedSeries)


def from_study(path: Path, arounds: Sequence[Around]) -> list[RecordedSeries]:
    """Return the series of a study's tests, in their order, in which every trial succeeded. Raises
    ValueError, StudyError."""
    study = Study.open_to_read(path)
    try:
        tests, started_ns = tests_of(study, 1), study.sessions()[0].info.started_ns
        machine = first_machine(study, 1)
    finally:
        study.close()
    day = datetime.fromtimestamp(started_ns / 1e9, UTC).date().isoformat()
    known = {
        fact.name: fact.value
        for fact in (machine.facts if machine else ())
        if fact.value is not None
    }
    facts = {name: value for name, value in known.items() if name.startswith(_FACTS)}
    workdir = known.get("workdir.path")
    found = []
    for around, test in zip(arounds, tests, strict=True):
        if any(trial.ending is not TrialEnding.OK for trial in test.trials):
            raise ValueError(f"{path}: a trial of {around.program} failed")
        # A rest is a process of its own, before the command.
        ran = [
            next(process for process in trial.processes if process.mode == "EXEC")
            for trial in test.trials
        ]
        series = RecordedSeries(
            around=around,
            command=test.plan.phases.exec[0].text.replace(f"{workdir}/{around.program}/", ""),
            recorded=day,
            facts=facts,
            first_ns=ran[0].start_ns,
            start_ns=tuple(one.start_ns - ran[0].start_ns for one in ran),
            elapsed_ns=tuple(one.elapsed_ns for one in ran),
            uses=tuple(_kept(trial) for trial in test.trials if trial.use is not None),
        )
        found.append(series)
    return found


def _kept(trial: Trial) -> ResourceUse:
    """Return the use of a window without what no finding about limits needs."""
    assert trial.use is not None
    return msgspec.structs.replace(
        trial.use,
        series="",
        tasks=trial.use.tasks[:3],
        absent=(),
        files=None,
        files_of_machine=None,
        kernel=(),
        sockets=None,
        networks=(),
    )


# -- As a population -----------------------------------------------------------------------


class Recorded(Population, frozen=True):
    """Contiguous blocks of a series, in shares of its mean."""

    values: Array
    """The whole series, shape `(trials,)`, mean 1."""

    def truth(self, share: float | None) -> float:
        """Return the mean or a quantile of the whole series."""
        return 1.0 if share is None else float(np.quantile(self.values, share))


def population(series: RecordedSeries) -> Recorded:
    """Return the population of a series."""
    values = np.array(series.elapsed_ns, dtype=np.float64)
    values /= values.mean()

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        starts = rng.integers(0, len(values) - shape[1] + 1, shape[0])
        return values[starts[:, None] + np.arange(shape[1])]

    return Recorded(series.name, draw, values)


def starts_of(one: Recorded, seed: int, shape: tuple[int, int]) -> Array:
    """Return the first trial of each block that `series` returns for the same arguments."""
    return np.random.default_rng([seed, *one.name.encode()]).integers(
        0, len(one.values) - shape[1] + 1, shape[0]
    )


def stored(corpus: Path = CORPUS) -> Iterator[RecordedSeries]:
    """Yield every series of a corpus, in the order of its files."""
    for file in sorted(corpus.glob("*/*.json.xz")):
        yield read(file)


# -- What `bw` says of a block ------------------------------------------------------------------


def trials_of(series: RecordedSeries, first: int, count: int) -> list[Trial]:
    """Return trials `first` to `first + count - 1`, from 0, as a test of its own."""
    uses = dict(_uses(series, first, count))
    return [
        Trial(
            series.around.program,
            place + 1,
            1,
            TrialEnding.OK,
            series.first_ns + series.start_ns[first + place],
            series.elapsed_ns[first + place],
            blocks=(
                MeasurementBlock(
                    1,
                    place + 1,
                    series.command,
                    0,
                    {"elapsed": series.elapsed_ns[first + place] / 1e9},
                ),
            ),
            processes=(ProcessRecord("EXEC", 0, 1, 0, series.elapsed_ns[first + place], 0, 0, 0),),
            use=uses.get(place),
        )
        for place in range(count)
    ]


def findings_of(series: RecordedSeries, trials: list[Trial]) -> tuple[Finding, ...]:
    """Return the findings about trials of a series, as a test of its own."""
    return compute_findings(TestResult(series.around.program, whole_trials=trials))


def is_clean(findings: Iterable[Finding]) -> bool:
    """Return whether the row of a test with these findings has no mark: there are only notes."""
    return all(finding.severity is Severity.NOTE for finding in findings)


def _uses(series: RecordedSeries, first: int, count: int) -> Iterator[tuple[int, ResourceUse]]:
    """Yield what the sampler saw of a block, by the place of a window's first trial in it.

    Of a window that reaches beyond the block, as long a part as lies in it.
    """
    begin = series.first_ns + series.start_ns[first]
    last = first + count - 1
    end = series.first_ns + series.start_ns[last] + series.elapsed_ns[last]
    parts = []
    for use in series.uses:
        low, high = max(use.begin_ns, begin), min(use.end_ns, end)
        if low >= high:
            continue
        # Of a spread series only the trials themselves are sampled.
        seconds = use.seconds * (high - low) / (use.end_ns - use.begin_ns)
        samples = min(use.samples, int(seconds * SAMPLES_PER_S))
        a, b = (min(max(epoch - first, 1), count) for epoch in use.epochs)
        parts.append(msgspec.structs.replace(use, seconds=seconds, samples=samples, epochs=(a, b)))
    if parts and max(part.seconds for part in parts) < SHORTEST_S:
        parts = [_joined(parts)]
    for part in parts:
        yield part.epochs[0] - 1, part


def _joined(parts: list[ResourceUse]) -> ResourceUse:
    """Return one window for parts of several, which a session would have sampled together: the
    figures of the longest."""
    seconds = sum(part.seconds for part in parts)
    return msgspec.structs.replace(
        max(parts, key=lambda part: part.seconds),
        seconds=seconds,
        samples=int(seconds * SAMPLES_PER_S),
        epochs=(parts[0].epochs[0], parts[-1].epochs[1]),
    )
