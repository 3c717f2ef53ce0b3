"""`benchwright.peak`: a search in a child process, its document as a type (docs/library.md)."""

from __future__ import annotations

from benchwright.api.calls import Value, Word, call_bw, decoded, place_of, texts_of
from benchwright.api.results import CallResult, session_html, session_text
from benchwright.features.search.peak.report import PeakDocument
from benchwright.report.documents import FindingEntry


class PeakResult(CallResult, frozen=True, kw_only=True):
    """The search of `peak`."""

    document: PeakDocument
    exit_status: int
    """That of the command: 0 found, 1 a failure, 3 undecided."""

    @property
    def is_decided(self) -> bool:
        """Whether the first claim is reached."""
        return self.exit_status == 0

    @property
    def rate(self) -> float | None:
        """The peak rate [operations per second]; None without one."""
        return self.document.peak_rate

    @property
    def interval(self) -> tuple[float | None, float | None] | None:
        """The interval of the peak rate; None without one."""
        return self.document.interval

    @property
    def findings(self) -> tuple[FindingEntry, ...]:
        """What makes the answer doubtful."""
        return self.document.findings

    def _repr_html_(self) -> str:
        return session_html(self, self.document.session)

    def __str__(self) -> str:
        """Return the answer as the terminal shows it."""
        return session_text(self, self.document.session)


def peak(
    spec: Word | None = None,
    *,
    study: Word | None = None,
    progress: bool = False,
    config: bool = True,
    **options: Value,
) -> PeakResult:
    """Find the highest rate that a server sustains within limits, and return the search.

    `spec`: the file that describes server, load and criteria, or with `target=` a workload. Other
    arguments and errors: as in `run`.
    """
    words = [] if spec is None else texts_of("spec", [spec])
    place = place_of(study)
    done = call_bw("peak", words, options, [], place, progress=progress, config=config)
    document = decoded(done, PeakDocument)
    return PeakResult(
        document=document, messages=done.messages, place=place, exit_status=done.status
    )
