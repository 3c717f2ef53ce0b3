"""`benchwright.load`: a load in a child process, its document as a type (docs/library.md)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchwright.api.calls import Value, Word, call_bw, decoded, place_of, texts_of
from benchwright.api.frames import table_html
from benchwright.api.results import CallResult, figure_text, session_html, session_text
from benchwright.core.errors import BenchError
from benchwright.features.load.document import LoadDocument, stored_load
from benchwright.features.load.types import EngineResult
from benchwright.report.documents import FindingEntry
from benchwright.report.run import RunDocument


class LoadResult(CallResult, frozen=True, kw_only=True):
    """The response times and rates of `load`."""

    document: LoadDocument
    exit_status: int
    """That of the command: 0 done, 1 too many operations failed."""

    @property
    def metrics(self) -> dict[str, float]:
        """Rates, counts and response times by name [units of the name]."""
        return self.document.metrics

    @property
    def engine(self) -> EngineResult:
        """The result of the engine, with its intervals and distributions."""
        return msgspec.convert(self.document.result, EngineResult)

    @property
    def findings(self) -> tuple[FindingEntry, ...]:
        """What makes the figures doubtful."""
        return self.document.findings

    def _repr_html_(self) -> str:
        if self.place is not None:
            return session_html(self, None)
        rows = [(name, figure_text(value)) for name, value in self.metrics.items()]
        return table_html(("metric", "value"), rows)

    def __str__(self) -> str:
        """Return the headline as the terminal shows it; without a study, the metrics."""
        if self.place is not None:
            return session_text(self, None)
        return "\n".join(f"{n} = {figure_text(v)}" for n, v in self.metrics.items())


def load(
    workload: Word | None = None,
    *,
    study: Word | None = None,
    progress: bool = False,
    config: bool = True,
    **options: Value,
) -> LoadResult:
    """Apply load to a target and return response times and rates.

    `workload`: a workload file. With `study`, the load is a trial that the study stores; without
    it, nothing is stored. Other arguments and errors: as in `run`.
    """
    words = [] if workload is None else texts_of("workload", [workload])
    place = None if study is None else place_of(study)
    done = call_bw("load", words, options, [], place, progress=progress, config=config)
    if place is None:
        document = decoded(done, LoadDocument)
    else:
        document = _stored_load(decoded(done, RunDocument))
    return LoadResult(
        document=document, messages=done.messages, place=place, exit_status=done.status
    )


def _stored_load(document: RunDocument) -> LoadDocument:
    """Return the load of a session that has one trial. Raises BenchError if the trial has none."""
    path = Path(document.study)
    trial_load = stored_load(path, document.session)
    if trial_load is not None:
        return trial_load.document
    hint = f"bw show {path}@{document.session}"
    raise BenchError("no-document", f"the load failed: {document.detail}", hint)
