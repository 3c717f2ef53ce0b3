"""The experiment of a session of searches, by its kind; imports are lazy, because each kind imports its
policies."""

from __future__ import annotations

from typing import Any

from benchwright.features.search.session import SearchExperiment
from benchwright.study.journal import SessionInfo


def search_experiment(info: SessionInfo) -> SearchExperiment[Any, Any]:
    """Return the experiment of a session of searches, new or stored, by its kind.

    Raises InputError with every mistake of its request and its spec.
    """
    match info.kind:
        case "ramp":
            from benchwright.features.search.ramp.experiment import RampExperiment

            return RampExperiment(info)
        case "peak":
            from benchwright.features.search.peak.experiment import PeakExperiment

            return PeakExperiment(info)
        case _:
            from benchwright.features.search.surface.experiment import SurfaceExperiment

            return SurfaceExperiment(info)
