"""The workbench of a spec in a file, as a search opens it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from benchwright.features.search.server.workbench import LocalWorkbench, WorkbenchConfig
from benchwright.features.search.spec_toml import read_spec
from benchwright.trial.bench import LocalBench
from benchwright.trial.protocol import ExecEnvironment


@contextlib.contextmanager
def workbench_of(spec_file: Path, directory: Path) -> Iterator[LocalWorkbench]:
    """Open the workbench of a spec; commands run in a directory, and logs are in its `logs`."""
    spec = read_spec(spec_file.read_text(), str(spec_file))
    assert spec.goal is not None
    config = WorkbenchConfig(
        spec=spec,
        criteria=spec.goal.criteria,
        around=ExecEnvironment(str(directory), ()),
        logs=directory / "logs",
    )
    with (
        contextlib.closing(LocalBench()) as bench,
        contextlib.closing(LocalWorkbench(config, bench)) as made,
    ):
        yield made
