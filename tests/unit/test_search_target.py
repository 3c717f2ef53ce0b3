"""`bw peak --target` and `bw ramp --target`: options in place of a spec; nothing is run here."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main, parser
from benchwright.core.errors import InputError
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.parse import parse_target, with_options
from benchwright.features.search.command_line import _target_source
from benchwright.features.search.peak.experiment import PeakExperiment, peak_meaning
from benchwright.features.search.ramp.experiment import RampExperiment, ramp_meaning
from benchwright.features.search.requests import PeakRequest, RampRequest
from benchwright.features.search.session import search_info
from benchwright.features.search.spec_toml import EngineSettings, target_of
from benchwright.features.search.target_spec import spec_of, target_source

URL = "http://127.0.0.1:8080/a"


def settings_of(*words: str) -> EngineSettings:
    """Return the engine's settings that the options of a command line mean."""
    arguments = parser().parse_args(["ramp", *words])
    workload = arguments.spec
    settings = spec_of(_target_source(arguments, "ramp", workload)).load.settings
    assert isinstance(settings, EngineSettings)
    return settings


FILES = """[files]
files = 10
size = "4k"

[[filament]]
type = "files"
rate = 10
operations = { read = 1, write = 1 }
"""
"""A workload on files."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a directory with a workload on files; return its path."""
    monkeypatch.chdir(tmp_path)
    path = Path("files.toml")
    path.write_text(FILES)
    return path


def test_a_workload_runs_on_the_target_with_the_options_of_a_load(files: Path) -> None:
    directory = settings_of(
        *(str(files), "--target", "dir:/mnt", "--replace", "--synchronous"),
        *("--engine", "threads", "--workers", "2"),
    )
    assert target_of(directory, {}) == r.DirTarget(
        "/mnt", replace=True, synchronous=True, engine="threads"
    )
    assert directory.run == {"workers": 2}
    assert directory.workload is not None
    assert isinstance(directory.workload.filaments[0], w.Files)
    server = settings_of(
        *(str(files), "--target", "nfs://h:2049/e", "--connections", "4"),
        *("--outstanding", "8", "--mount-port", "20048", "--uid", "5", "--gid", "6"),
        *("--timeout", "2s"),
    )
    assert target_of(server, {}) == with_options(
        parse_target("nfs://h:2049/e"),
        {
            "connections": 4,
            "outstanding": 8,
            "mount_port": 20_048,
            "uid": 5,
            "gid": 6,
            "timeout_ns": 2 * 10**9,
        },
    )


def test_a_session_has_the_text_of_its_workload(files: Path) -> None:
    arguments = parser().parse_args(["ramp", str(files), "--target", "dir:/mnt"])
    source = _target_source(arguments, "ramp", str(files))
    experiment = RampExperiment(search_info("ramp", RampRequest(), source, ()))
    assert experiment.spec.files == (("files.toml", FILES),)
    files.unlink()
    again = spec_of(msgspec.structs.replace(source, beside=experiment.spec.files))
    assert again.load == experiment.spec.load
    assert again.places["load.workload"].file == "files.toml"


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        (FILES, "users"),
        (FILES.replace("files = 10", "files_per_load = 2"), "rate"),
        (FILES.replace("files = 10", "files_per_load = 2\nfor_rate = 5"), "users"),
        ('[[filament]]\ntype = "open"\nrate = 10\n', "rate"),
    ],
)
def test_a_ramp_raises_what_the_workload_can_have(text: str, axis: str, files: Path) -> None:
    files.write_text(text)
    source = target_source({"target": "null", "workload": str(files)})
    assert ramp_meaning(RampRequest(), source)[1].goal.axis.value == axis
    if axis == "rate":
        with pytest.raises(InputError) as caught:
            ramp_meaning(RampRequest(axis="users"), source)
        (one,) = caught.value.diagnostics
        assert (one.file, one.message) == ("--axis", "the workload cannot have users")


@pytest.mark.parametrize(
    ("words", "place", "message"),
    [
        (("--target", "dir:/mnt"), "--target", "needs a workload on files"),
        (("--target", "nfs://h/e"), "--target", "needs a workload on files"),
        (("files.toml",), "files.toml", "there is no target"),
        (
            ("files.toml", "--target", "dir:/mnt", "--block", "4k"),
            "--block",
            "for a load without a file",
        ),
        (
            ("files.toml", "--target", "dir:/mnt", "--uid", "3"),
            "--uid",
            "--uid is not an option of a dir target",
        ),
        (("absent.toml", "--target", URL), "absent.toml", "there is no file"),
        (("spec.toml", "--target", URL), "--target", "there is spec.toml too, a spec"),
        (("bad.toml", "--target", URL), "bad.toml", "Expected"),
    ],
)
@pytest.mark.parametrize("command", ["peak", "ramp"])
def test_a_mistake_with_a_workload_is_reported_before_a_study_is_made(
    command: str,
    words: tuple[str, ...],
    place: str,
    message: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files.with_name("spec.toml").write_text('[load]\ntarget = "null"\n')
    files.with_name("bad.toml").write_text("[[filament]\n")
    limit = ["--limit", "4ms"] if command == "peak" else []
    assert main([command, *words, *limit]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{place}:")
    assert message in error
    assert not Path("bw-study").exists()


def test_options_of_a_load_are_the_spec_that_a_file_would_be() -> None:
    settings = settings_of(
        *("--target", URL, "--connections", "7", "--timeout", "2s"),
        *("--arrival", "constant", "--think", "5ms", "--depth", "9", "--workers", "2"),
        *("--full", "drop", "--drain", "4s", "--http", "2", "--outstanding", "8"),
    )
    assert target_of(settings, {}) == with_options(
        parse_target(URL),
        {"connections": 7, "timeout_ns": 2 * 10**9, "http": "2", "outstanding": 8},
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
    assert target_of(settings, {}) == r.FileTarget("/tmp/f", direct=True, size_bytes=1 << 30)
    assert settings.size == w.ConstantValue(8192)
    assert settings.read == 700_000


def test_a_claim_and_a_budget_are_set_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PeakRequest] = []

    def begin(_kind: str, _arguments: object, request: PeakRequest, _spec: object) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr("benchwright.features.search.command_line.begin_search", begin)
    assert main(["peak", "--target", URL, "--limit", "p99 < 20ms"]) == 0
    given = ("--claim", "slo:90%", "--budget", "5h")
    assert main(["peak", "--target", URL, "--limit", "p99 < 20ms", *given]) == 0
    assert [(one.claim, one.budget) for one in asked] == [("rate:5%", "10m"), ("slo:90%", "5h")]


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
        (URL, "not started by bw; it shares the CPUs with the generator; bw why counts"),
        ("tcp://192.0.2.1:7", "not started by bw; name its processes with --target-port"),
        ("null", ""),
    ],
)
def test_the_report_says_what_is_not_known_of_the_server(target: str, known: str) -> None:
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
