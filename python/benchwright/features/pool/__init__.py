"""Pools: the parts of one session on several gangs of hosts, side by side.

The controller (controller.py) leases gangs from an engine (local.py, slurm.py), gives tasks to their agents
(agent.py), and copies what they measured into the study (stored.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchwright.feature import AddParser, DocumentType, Feature
from benchwright.features.pool.keys import POOL_OPTION

if TYPE_CHECKING:
    from benchwright.cli.shared_options import AddedOptions
    from benchwright.findings.codes import Code
    from benchwright.run.gangs import SessionGangs
    from benchwright.study.catalogue import MeasuredPart
    from benchwright.study.journal import SessionInfo, StoredSession, Study
    from benchwright.suite.toml_sections import SuiteTable
    from benchwright.views.blocks import Section


class Pool(Feature):
    """What this feature adds."""

    name = "pool"

    def add_parser(self, command: str) -> AddParser:
        from benchwright.features.pool.command import add_parser

        return add_parser

    def options(self, command: str) -> Sequence[AddedOptions]:
        from benchwright.cli.shared_options import AddedOptions
        from benchwright.features.pool import options as pool

        match command:
            case "run":
                return (AddedOptions(pool.PoolOptions, pool.suite_on_pool, "for a suite"),)
            case "compare":
                helps = {"pool": pool.COMPARISON_HELP}
                return (AddedOptions(pool.PoolOptions, pool.comparison_on_pool, helps=helps),)
            case "surface":
                return (AddedOptions(pool.PoolOptions, pool.surface_on_pool, "the mapping"),)
        return ()

    def suite_tables(self) -> Mapping[str, SuiteTable]:
        from benchwright.features.pool.toml import pool_of_suite
        from benchwright.suite.toml_sections import SuiteTable

        return {"pool": SuiteTable(pool_of_suite, in_specs=True)}

    def gangs(self, info: SessionInfo) -> SessionGangs | None:
        if POOL_OPTION not in info.options:
            return None
        from benchwright.features.pool.controller import gangs_of_session

        return gangs_of_session(info)

    def measured_parts(
        self, study: Study, session: int, info: SessionInfo
    ) -> Sequence[MeasuredPart]:
        if POOL_OPTION not in info.options:
            return ()
        from benchwright.features.pool.stored import measured_parts

        return measured_parts(study, session, info)

    def sections(self, part: str, study: Study, session: StoredSession) -> Sequence[Section]:
        if POOL_OPTION not in session.info.options:
            return ()
        from benchwright.features.pool.report import pool_sections

        return pool_sections(part, study, session)

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        from benchwright.features.pool.report import PoolDocument

        return {PoolDocument: None}

    def finding_codes(self) -> Mapping[str, Code]:
        from benchwright.features.pool.codes import CODES

        return CODES


FEATURE: Feature = Pool()
