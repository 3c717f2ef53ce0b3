"""What each search of a stored session was about, and the load that it came to."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.finding.profiled_search import answer_load
from benchwright.model.peak import Criterion
from benchwright.model.ramp import RampResult
from benchwright.model.search import PeakAnswer, SearchTrial
from benchwright.session.ledger import Ledger
from benchwright.session.search import recorded_result
from benchwright.session.search_peak_request import PeakRequest, peak_plan
from benchwright.session.search_start import stored_request, stored_spec
from benchwright.session.search_surface_request import SurfaceRequest, surface_plan
from benchwright.study.contents import searches_of
from benchwright.study.journal import Session, Study
from benchwright.workbench.spec_toml import read_spec
from benchwright.workbench.surface_spec import read_surface


def recorded_answers(study: Study, session: Session) -> dict[str, float | None]:
    """Return the load of each search's answer, a rate [1/s] or users, by the search's name;
    None where it has come to none.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    ledger = Ledger(study, session.number)

    def recorded(key: str) -> PeakAnswer | RampResult | None:
        if session.info.kind == "ramp":
            return recorded_result(ledger, RampResult, key)
        return recorded_result(ledger, PeakAnswer, key)

    names = [name for name, _, _ in searches_of(study, session.number)]
    return {name: answer_load(recorded(f"search/{name}")) for name in names}


def stored_criteria(session: Session) -> tuple[Criterion, ...]:
    """Return the criteria of a session's goal, as the request and the spec state them; a
    ramp has none.

    Raises InputError for a spec that this version does not read.
    """
    info = session.info
    source = stored_spec(info)
    if info.kind == "peak":
        spec = None if source is None else read_spec(source.text, source.path)
        return peak_plan(stored_request(info, PeakRequest), spec).goal.criteria
    if info.kind == "surface" and source is not None:
        spec = read_spec(source.text, source.path, {"surface": read_surface})
        plan = surface_plan(stored_request(info, SurfaceRequest), spec)
        return plan.goal.peak.criteria
    return ()


def recorded_bindings(study: Study, session: Session) -> dict[str, str]:
    """Return the key of the criterion that limited each search's answer, by its name."""
    ledger = Ledger(study, session.number)
    found: dict[str, str] = {}
    if session.info.kind == "ramp":
        return found
    for name, _, _ in searches_of(study, session.number):
        answer = recorded_result(ledger, PeakAnswer, f"search/{name}")
        found[name] = "" if answer is None else answer.first.binding
    return found


def limiting(
    criteria: Sequence[Criterion], binding: str, trials: Sequence[SearchTrial]
) -> Criterion | None:
    """Return the criterion that the figure of a load is of: the one that limited the answer;
    where that is not known, the first that the trials break; else the first."""
    if not criteria:
        return None
    named = [one for one in criteria if one.key == binding]
    broken = [
        one
        for one in criteria
        for trial in trials
        if (value := trial.trial.values.get(one.key)) is not None
        and not one.holds(value)
    ]
    return next(iter((*named, *broken)), criteria[0])
