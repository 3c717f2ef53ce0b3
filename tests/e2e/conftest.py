"""What several files of tests of real programs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import slurm_cluster


@pytest.fixture(scope="session")
def slurm_session() -> Iterator[slurm_cluster.SlurmCluster]:
    """A real Slurm of three nodes; each process of the tests has one of its own."""
    if why := slurm_cluster.missing():
        pytest.skip(why)
    with slurm_cluster.slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_session: slurm_cluster.SlurmCluster) -> Iterator[slurm_cluster.SlurmCluster]:
    """The same, without jobs, and with all its hosts, before and after the test."""
    slurm_session.reset()
    yield slurm_session
    slurm_session.reset()
