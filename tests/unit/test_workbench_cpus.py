"""The split of processors between a server and its generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.features.search.server.host import (
    CpuAssignment,
    cpu_assignment,
    in_background,
    on_cpus,
)
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import read_spec


def spec(server: str = "", load: str = "", *, started: bool = True) -> Spec:
    """Return a spec with these processors."""
    text = ""
    if started:
        text = f"[server]\nstart = 's'\nready = {{tcp = 'h:1'}}\n{server}\n"
    return read_spec(f"{text}[load]\ntarget = 'null'\n{load}\n", "s.toml")


@pytest.mark.parametrize(
    ("available", "server", "load"),
    [((0, 1), (0,), (1,)), ((2, 5, 7), (2, 5), (7,)), (tuple(range(8)), 6, (6, 7))],
)
def test_they_are_parted(
    available: tuple[int, ...], server: tuple[int, ...] | int, load: tuple[int, ...]
) -> None:
    seats = cpu_assignment(spec(), available)
    expected = tuple(range(server)) if isinstance(server, int) else server
    assert (seats.server, seats.load, seats.shared) == (expected, load, False)
    assert not seats.findings("s")


def test_each_worker_of_the_engine_has_a_processor() -> None:
    seats = cpu_assignment(spec(load="workers = 3"), tuple(range(8)))
    assert (seats.server, seats.load) == (tuple(range(5)), (5, 6, 7))
    assert cpu_assignment(spec(load="workers = 2"), (0, 1)).shared
    with pytest.raises(InputError, match=r"s\.toml:8:8: CPU 1 is too few for 2 work"):
        cpu_assignment(spec(load="workers = 2\ncpus = '1'"), (0, 1))


def test_on_one_processor_it_is_told() -> None:
    seats = cpu_assignment(spec(), (3,))
    assert seats.shared
    (doubt,) = seats.findings("s")
    assert doubt.code == "server-and-generator-share-cores"
    assert "server on CPU 3, generator on CPU 3" in doubt.evidence


def test_what_the_user_says_wins() -> None:
    both = cpu_assignment(spec("cpus = '0,1'", "cpus = '1'"), (0, 1, 2, 3))
    assert (both.server, both.load, both.shared) == ((0, 1), (1,), True)
    one = cpu_assignment(spec("cpus = '2'"), (0, 1, 2, 3))
    assert (one.server, one.load) == ((2,), (0, 1, 3))
    other = cpu_assignment(spec(load="cpus = '0'"), (0, 1))
    assert (other.server, other.load) == ((1,), (0,))


def test_a_server_of_the_users_own_is_wherever_it_is() -> None:
    seats = cpu_assignment(spec(started=False), (0,))
    assert seats == CpuAssignment((), (), ours=False)
    assert not seats.shared
    assert seats.text == "server on wherever it runs, generator on any CPU"


def test_processors_that_are_not_there_are_told_together() -> None:
    with pytest.raises(InputError) as caught:
        cpu_assignment(spec("cpus = '9'", "cpus = '0,8'"), (0, 1))
    assert [(d.line, d.message) for d in caught.value.diagnostics] == [
        (4, "CPU 9 not available"),
        (7, "CPU 8 not available"),
    ]


def test_an_unbound_command_without_groups_is_left_as_it_is() -> None:
    assert on_cpus(()) == ()
    assert on_cpus((0, 2))[-4:] == ("pin", "0,2", "-", "--")
    assert on_cpus((), ("/g/a", "/g/b"))[-4:] == ("pin", "-", "/g/a:/g/b", "--")
    words = in_background((), (), Path("p"), Path("l"))
    assert words[-6:] == ("leave", "-", "-", "p", "l", "--")
