"""`bw peak --target` and `bw ramp --target`: options in place of a spec; nothing is run here."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from benchwright.cli.main import main, parser
from benchwright.cli.search_options import _target_source
from benchwright.core.errors import InputError
from benchwright.load import request as r
from benchwright.load import workload as w
from benchwright.load.parse import parse_target, with_options
from benchwright.load.spec_toml import EngineSettings, target_of
from benchwright.load.target_spec import spec_of, target_source
from benchwright.run.peak import PeakExperiment, peak_meaning
from benchwright.run.ramp import RampExperiment
from benchwright.run.search import search_info
from benchwright.run.search_requests import PeakRequest, RampRequest

URL = "http://127.0.0.1:8080/a"


def settings_of(*words: str) -> EngineSettings:
    """Return the engine's settings that the options of a command line mean."""
    arguments = parser().parse_args(["ramp", *words])
    settings = spec_of(_target_source(arguments)).load.settings
    assert isinstance(settings, EngineSettings)
    return settings


def test_options_of_a_load_are_the_spec_that_a_file_would_be() -> None:
    settings = settings_of(
        *("--target", URL, "--connections", "7", "--timeout", "2s"),
        *("--arrival", "constant", "--think", "5ms", "--depth", "9", "--workers", "2"),
        *("--full", "drop", "--drain", "4s"),
    )
    assert target_of(settings, {}) == with_options(
        parse_target(URL), {"connections": 7, "timeout_ns": 2 * 10**9}
    )
    assert settings.arrival == w.ConstantArrival()
    assert settings.think == w.ConstantValue(5 * 10**6)
    assert settings.run == {"depth": 9, "workers": 2, "full": "drop"}
    assert settings.drain_ns == 4 * 10**9


def test_the_size_of_a_file_is_not_the_size_of_an_operation() -> None:
    settings = settings_of(
        *("--target", "/tmp/f", "--size", "1G", "--block", "8k", "--direct"),
        *("--read", "70%", "--location", "zipf 1.2"),
    )
    assert target_of(settings, {}) == r.FileTarget(
        "/tmp/f", direct=True, size_bytes=1 << 30
    )
    assert settings.size == w.ConstantValue(8192)
    assert settings.read == 700_000


def test_a_claim_and_a_budget_are_set_where_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[PeakRequest] = []

    def begin(
        _kind: str, _arguments: object, request: PeakRequest, _spec: object
    ) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr("benchwright.cli.search_options.begin_search", begin)
    assert main(["peak", "--target", URL, "--limit", "p99 < 20ms"]) == 0
    given = ("--claim", "slo:90%", "--budget", "5h")
    assert main(["peak", "--target", URL, "--limit", "p99 < 20ms", *given]) == 0
    assert [(one.claim, one.budget) for one in asked] == [
        ("rate:5%", "10m"),
        ("slo:90%", "5h"),
    ]


def test_limits_are_those_of_the_options() -> None:
    limits = ("p99 < 20ms", "error_ratio < 1%")
    source = target_source({"target": URL})
    _, plan = peak_meaning(PeakRequest(limits=limits), source)
    assert [(one.key, one.limit) for one in plan.goal.criteria] == [
        ("response_ms_p99", 20.0),
        ("error_ratio", 0.01),
    ]


def test_without_a_limit_it_is_asked_for() -> None:
    with pytest.raises(InputError) as caught:
        peak_meaning(PeakRequest(), target_source({"target": URL}))
    (one,) = caught.value.diagnostics
    assert (one.file, one.message) == ("--limit", "no limit is given")


def test_later_mistakes_name_the_option() -> None:
    source = target_source({"target": URL, "cpus": "1", "block": "4k"})
    places = spec_of(source).places
    assert {key: place.file for key, place in places.items()} == {
        "load.target": "--target",
        "load.cpus": "--cpu",
        "load.size": "--block",
    }


@pytest.mark.parametrize(
    ("words", "option", "message"),
    [
        (("--connections", "3", "s.toml"), "--connections", "is for --target"),
        (("s.toml", "--target", URL), "--target", "there is s.toml too"),
        (("--command", "g {rate}", "--target", URL), "--target", "--command too"),
        (("--target", "foo://x"), "--target", "not a kind of target"),
        (("--target", "/tmp/f", "--connections", "3"), "--connections", "file target"),
        (("--target", URL, "--read", "70%"), "--read", "for a file or a device"),
        (("--target", URL, "--response", "/x"), "--response", "is for --command"),
    ],
)
def test_a_mistake_is_reported_at_its_option(
    words: tuple[str, ...],
    option: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    response = () if "--command" not in words else ("--response", "/x")
    assert main(["peak", *words, *response, "--limit", "4ms"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{option}: ")
    assert message in error
    assert list(tmp_path.iterdir()) == [], "no study is made"


@pytest.mark.parametrize(
    ("target", "known"),
    [
        (
            URL,
            "not started by bw; it shares the CPUs with the generator; bw why counts",
        ),
        (
            "tcp://192.0.2.1:7",
            "not started by bw; name its processes with --target-port",
        ),
        ("null", ""),
    ],
)
def test_the_report_says_what_is_not_known_of_the_server(
    target: str, known: str
) -> None:
    source = target_source({"target": target})
    peak = PeakExperiment(search_info("peak", PeakRequest(limits=("4ms",)), source, ()))
    ramp = RampExperiment(search_info("ramp", RampRequest(), source, ()))
    for experiment in (peak, ramp):
        assert known in experiment.target
        assert bool(experiment.target) == bool(known)


@pytest.mark.parametrize("command", ["peak", "ramp"])
def test_a_server_that_does_not_run_is_refused_before_the_study_is_made(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # Nobody listens, and nobody else gets the port.
        address = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        limit = ["--limit", "p99 < 20ms"] if command == "peak" else []
        assert main([command, "--target", address, *limit]) == 2
    message = capsys.readouterr().err
    assert message.startswith("--target: no connection: 127.0.0.1:")
    assert "[connect]" in message
    assert "= start the server, or correct the address" in message
    assert not list(tmp_path.iterdir())
