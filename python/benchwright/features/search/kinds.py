"""What the core asks of a stored ramp, peak search or surface (`SessionKind`).

Decision: each method imports what it needs, because most sessions are none of these, and each kind
imports its policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchwright.core.errors import StudyError
    from benchwright.core.hosts import GangClients
    from benchwright.core.resource_use import ResourceUse
    from benchwright.features.search.session import SearchExperiment
    from benchwright.findings.explanation import Explanation
    from benchwright.findings.sanity import Claims
    from benchwright.page.document import ReportPart
    from benchwright.page.kinds import SessionKind, SessionOutcome
    from benchwright.report.charts.sheet import Sheet
    from benchwright.report.charts.source import PlotGroup
    from benchwright.run.runner import Experiment, OutputOptions, SessionOutput
    from benchwright.study.journal import SessionInfo, StoredSession, Study


class SearchKind:
    """A kind of search over loads. Which one a session is, its stored request says."""

    def __init__(self, title: str, noun: str = "tests", limits: tuple[str, ...] = ()) -> None:
        self.title = title
        """Its name on a page."""
        self.noun = noun
        """What its findings concern."""
        self.limits = limits
        """The options that limit a session, which ends undecided there."""

    def subject(self, info: SessionInfo) -> str:
        """Return the path of its spec; `<peak>` for a peak search without one."""
        from benchwright.features.search.session import stored_spec

        spec = stored_spec(info)
        return f"<{info.kind}>" if spec is None else spec.path

    def experiment(self, info: SessionInfo) -> SearchExperiment[Any, Any]:
        """Return the experiment of a search."""
        from benchwright.features.search.command_line import require_search_extra
        from benchwright.features.search.experiments import search_experiment

        require_search_extra(info.kind)
        return search_experiment(info)

    def output(self, experiment: Any, options: OutputOptions) -> SessionOutput:
        """Return the output of a search, which draws the picture that its request asks for."""
        from benchwright.features.search.output import search_output

        return search_output(experiment, experiment.plot, options)

    def part(
        self,
        info: SessionInfo,
        number: int,
        wanted: str,
        left_s: float | None,
        clients: GangClients | None,
    ) -> Experiment[Any]:
        """Return the experiment of the search at one sample of a surface."""
        import msgspec

        from benchwright.features.search.surface.experiment import SampleExperiment
        from benchwright.features.search.surface.types import SampleRequest
        from benchwright.features.search.types import decode_stored

        request = decode_stored(msgspec.Raw(wanted.encode()), SampleRequest)
        return SampleExperiment(info, number, request, left_s, clients)

    def print_report(self, study: Study, session: StoredSession, options: OutputOptions) -> None:
        """Print the report: its trials, at many loads, have no row in the table of tests."""
        from benchwright.features.search.output import print_stored

        print_stored(study, session, None, options)

    def headline(self, study: Study, session: StoredSession) -> str:
        """Return the answer in one line."""
        from benchwright.features.search.reports import open_search, search_view

        return search_view(open_search(study, session), (), ()).headline()

    def page(self, study: Study, session: StoredSession, part: str) -> ReportPart:
        """Return the part of a report page."""
        from benchwright.features.search.page import search_part

        return search_part(study, session, part)

    def sheet(self, study: Study, session: StoredSession) -> Sheet:
        """Return the chart, with the cost of each trial."""
        from benchwright.features.search.page import search_sheet

        return search_sheet(study, session)

    def responses(self, study: Study, session: StoredSession) -> PlotGroup | None:
        """Return the responses of the trials (page.py)."""
        from benchwright.features.search.page import search_responses

        return search_responses(study, session)

    def uses(self, study: Study, session: StoredSession) -> Sequence[ResourceUse | None]:
        """Return the use of this machine in every trial, in order."""
        from benchwright.features.search.keys import search_trials_of

        return [search_trial.trial.use for search_trial in search_trials_of(study, session.number)]

    def explained(
        self, study: Study, session: StoredSession, claims: Claims
    ) -> tuple[Explanation, ...]:
        """Return what limited each load, with the capacities that the user states."""
        from benchwright.features.search.explained import explained_loads
        from benchwright.run.ledger import Ledger

        ledger = Ledger(study, session.number)
        return explained_loads(ledger, session.info, claims.capacities)

    def outcome(self, study: Study, session: StoredSession) -> SessionOutcome:
        """Return the answer at each sample, and the figures of each level or sample."""
        from benchwright.features.search.reports import search_outcome

        return search_outcome(study, session)

    def has_no_tests(self, study: Study, session: StoredSession) -> StudyError:
        """Return the error that lists the loads that were applied instead."""
        from benchwright.core.errors import StudyError
        from benchwright.features.search.keys import search_trials_of

        kind = session.info.kind
        rates = [
            search_trial.trial.rate for search_trial in search_trials_of(study, session.number)
        ]
        loads = f"{len(rates)} trials under load"
        if rates:
            lowest, highest = min(rates), max(rates)
            loads += (
                f", at {lowest:.5g}" if lowest == highest else f", {lowest:.5g} to {highest:.5g}"
            )
        return StudyError(
            "holds-a-search",
            f"session {session.number} of {study.path} is a bw {kind} ({session.status}): it "
            f"contains no test, only {loads}",
            "`bw stats` of this study alone, without options for tests, prints its report as a table or --json, "
            f"`bw {kind} --study {study.path} --plot FILE` draws it; "
            "`bw compare` compares two peak searches, or two surfaces; "
            "`bw resume` continues an unfinished search",
        )


_LIMITS = ("--max-trials", "--budget")
KINDS: dict[str, SessionKind] = {
    "ramp": SearchKind("ramp"),
    "peak": SearchKind("peak search", limits=_LIMITS),
    "surface": SearchKind("surface", "samples", _LIMITS),
}
"""The kinds of searches over loads, by the name that a study stores."""
