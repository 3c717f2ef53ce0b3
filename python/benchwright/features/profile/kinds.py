"""The two kinds of observers: `--profile` and `--characterize`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from benchwright.core.observation import CpuProfile, FoldedStacks, Trial
from benchwright.core.results import Finding
from benchwright.watch.observer import BatchObserver, ExtraObserver, ObserverKind

if TYPE_CHECKING:
    from benchwright.features.profile.types import Characterization

# Everything else is imported where it is used: commands ask the kinds for their options alone.


class _Profile(ObserverKind):
    name = "profile"
    help = "profile each trial with perf: folded stacks, flame graph"
    of_loads = True

    def of_batches(self, *, of_loads: bool) -> BatchObserver:
        from benchwright.features.profile.profiler import LoadProfiler, Profiler

        return LoadProfiler() if of_loads else Profiler()

    def differences(
        self, arms: Sequence[tuple[str, Sequence[Trial]]], study: Path, session: int
    ) -> Iterator[str]:
        from benchwright.features.profile.profiler import difference_lines

        return difference_lines(arms, study, session)

    def stacks(self, profiles: Iterable[CpuProfile], study: Path) -> FoldedStacks:
        from benchwright.features.profile.profiler import stored_stacks

        return stored_stacks(profiles, study)

    def picture(self, stacks: FoldedStacks, title: str) -> str:
        from benchwright.features.profile.flame_graph import inline_flame_svg

        return inline_flame_svg(stacks, title)

    def page_style(self) -> str:
        from benchwright.features.profile.flame_graph import INLINE_CSS

        return INLINE_CSS


class _Characterize(ObserverKind):
    name = "characterize"
    help = "trace the I/O of one more trial, which does not count"
    stem = "io"
    record = "characterized"

    def of_extra_trial(self) -> ExtraObserver:
        from benchwright.core.errors import BenchError
        from benchwright.features.profile.observer import Characterizer
        from benchwright.trial.programs import find_engine

        try:
            return Characterizer(find_engine())
        except BenchError:
            return Characterizer(None)

    def record_type(self) -> type[Characterization]:
        from benchwright.features.profile.types import Characterization

        return Characterization

    def findings(
        self, subject: str, recorded: Characterization, claimed_bytes: float | None
    ) -> Sequence[Finding]:
        from benchwright.features.profile.report import io_findings

        return io_findings(subject, recorded, claimed_bytes)

    def lines(self, recorded: Characterization) -> Iterator[str]:
        from benchwright.features.profile.report import characterize_lines

        return characterize_lines(recorded)

    def files(self, recorded: Characterization, study: PurePath) -> Mapping[str, str | None]:
        trace = recorded.trace
        return {
            "io": str(study / recorded.file) if recorded.file else None,
            "block_trace": str(study / trace.file) if trace and trace.operations else None,
        }


PROFILE: ObserverKind = _Profile()
CHARACTERIZE: ObserverKind = _Characterize()
