"""The chart of a stored search, and the responses of its trials, for `bw plot`."""

from __future__ import annotations

import msgspec

from benchwright.features.search.peak.chart import cost_panel, peak_sheet
from benchwright.features.search.ramp.chart import ramp_sheet
from benchwright.features.search.ramp.profile import band_of
from benchwright.features.search.reports import (
    found_peaks,
    open_search,
    peak_report,
    ramp_report,
    surface_report,
)
from benchwright.features.search.responses_chart import response_tests
from benchwright.features.search.stored import search_trials_of
from benchwright.features.search.surface.chart import surface_sheet
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.source import PlotTest
from benchwright.study.journal import StoredSession, Study


def search_sheet(study: Study, session: StoredSession) -> Sheet:
    """Return the chart of a stored search, which may be incomplete, with the cost of each trial."""
    experiment, ledger, verdict = open_search(study, session)
    if session.info.kind == "surface":
        surface = surface_report(experiment, ledger, verdict, ())
        return surface_sheet(experiment.plan.goal, surface.result)
    if session.info.kind == "peak":
        peak = peak_report(experiment, ledger, verdict, ())
        sheet, trials = peak_sheet(peak), peak.trials
    else:
        ramp = ramp_report(experiment, ledger, verdict, ())
        trials = ramp.trials
        sheet = ramp_sheet(ramp, band_of(ramp.goal, [one.trial for one in trials]))
    panels = (*sheet.panels, cost_panel(trials))
    return msgspec.structs.replace(sheet, panels=panels, columns=len(panels))


def search_responses(study: Study, session: StoredSession) -> tuple[PlotTest, ...]:
    """Return the responses of the trials as tests of a plot; empty where there are too few."""
    experiment, ledger, _ = open_search(study, session)
    trials = search_trials_of(study, session.number)
    return response_tests(trials, experiment.criteria, found_peaks(experiment, ledger, trials))
