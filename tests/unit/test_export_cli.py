"""`bw export` of stored sessions of every kind: what it writes, refuses and leaves out."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import tarfile
import threading
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

import exported_session
from benchwright.cli.main import main
from benchwright.core.plan import usual_direction
from benchwright.features.exchange import command as export
from benchwright.features.exchange.export import FORMATS
from benchwright.features.exchange.export.view import in_base_unit, unit_of
from benchwright.features.exchange.view import read_view
from benchwright.features.history.inputs import read_runs
from benchwright.page.tests import tests_part
from benchwright.study.journal import Study

STUDIES = Path(__file__).parents[1] / "data" / "studies-0.1"
SEARCHES = ("peak", "ramp", "surface")
OF_TIMES = ("hyperfine", "google-benchmark")
OF_STREAMS = ("vllm", "aiperf", "guidellm")
REFUSED = {
    # A search has no times of single trials.
    *((kind, name) for kind in SEARCHES for name in (*OF_TIMES, "pyperf")),
    # They have no loads.
    *(
        (kind, name)
        for kind in ("run", "compare", "suite", "interrupted", *SEARCHES)
        for name in ("openmetrics-intervals", "hlog", "hgrm")
    ),
    # They have no streams.
    *(
        (kind, name)
        for kind in ("run", "compare", "load", "suite", "interrupted", *SEARCHES)
        for name in OF_STREAMS
    ),
    # Their main metric is better higher.
    *((kind, "pyperf") for kind in ("run", "load", "suite")),
}
"""Sessions that a format has no place for."""
ACCEPT = ("--max-errors", "100%")


@pytest.fixture
def studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack the stored studies into the working directory."""
    for name in ("run", "compare", "load", "suite", "interrupted", *SEARCHES):
        with tarfile.open(STUDIES / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_format_that_bw_stats_prints_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", "--format", "csv"])
    assert ended.value.code == 2
    assert "bw stats --format csv" in capsys.readouterr().err


def test_the_option_has_the_names_of_the_registry() -> None:
    assert tuple(FORMATS) == export._FORMATS


def test_every_kind_of_session_is_written_or_refused(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ("run", "compare", "load", "suite", "interrupted", *SEARCHES)
    refused = set()
    for kind in kinds:
        for name in FORMATS:
            out = ["-o", str(studies / "out.yaml")] if name == "otava" else []
            status = main(["export", kind, "--format", name, *out])
            said = capsys.readouterr()
            assert status == 0 or "[bad-argument]" in said.err, (kind, name)
            assert bool(said.out or out) == (status == 0)
            if status:
                assert "\n  = " in said.err, "the message says what to do"
                refused.add((kind, name))
    assert refused == REFUSED


def test_the_figures_are_those_of_bw_stats(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["stats", "compare", "--json"])
    stats = json.loads(capsys.readouterr().out)
    means = {
        one["name"]: line["mean"]
        for one in stats["inputs"]
        for line in one["quantities"]
        if line["name"] == "elapsed"
    }
    main(["export", "compare", "--format", "bencher"])
    exported = json.loads(capsys.readouterr().out)
    assert len(means) == 2
    for test, mean in means.items():
        assert exported[test]["latency"]["value"] == pytest.approx(mean * 1e9)


def test_a_verdict_and_its_gate_are_in_junit_and_markdown(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "compare", "--format", "junit"])
    xml = capsys.readouterr().out
    assert 'classname="bw.compare.long" name="not slower by 90%"' in xml
    main(["export", "compare", "--format", "markdown"])
    text = capsys.readouterr().out
    assert "- long against short: undecided" in text
    assert "| elapsed | long | 1.159 | 0.9334 to 1.439 | undecided |" in text
    assert "warning `multimodal`" in text


def test_a_load_has_its_sentence_and_its_response_times(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "load", "--format", "markdown"])
    assert (
        "- load: read: 200/s requested, 212/s drawn and issued; response p90"
        in capsys.readouterr().out
    )
    main(["export", "load", "--format", "bencher"])
    measures = json.loads(capsys.readouterr().out)["load"]
    assert measures["response-p99"]["value"] == 0.003627007
    assert measures["errors"]["value"] == 0


def test_a_session_without_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Formats with failures report them; formats of values alone refuse."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--quiet", "--study", "broken", "--runs", "2", "--", "false"])
    capsys.readouterr()
    written = {}
    for name in FORMATS:
        status = main(["export", "broken", "--format", name])
        if status == 0:
            written[name] = capsys.readouterr().out
        else:
            assert "broken@1" in capsys.readouterr().err
    assert tuple(written) == ("prometheus", "openmetrics", "junit", "markdown")
    assert 'bw_failed_trials{test="false"} 1.0' in written["prometheus"]
    assert '<error message="`false` exited with status 1' in written["junit"]
    assert "serious `command-failed`" in written["markdown"]


THIRD_FAILS = """#!/bin/sh
n=$(cat n 2>/dev/null || echo 0)
echo $((n + 1)) >n
[ $((n % 3)) -ne 2 ] || exit 7
"""


@pytest.mark.parametrize(
    ("words", "is_red"),
    [
        ("run --runs 6 --keep-going -- ./third-fails", True),
        ("run --runs 6 --keep-going --ok-status 0,7 -- ./third-fails", False),
        ("compare --max-blocks 6 -- ./third-fails true", True),
        ("compare --max-blocks 6 --accept command-failed -- ./third-fails true", False),
    ],
)
def test_every_view_of_failed_trials_agrees_with_the_exit_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    is_red: bool,
) -> None:
    """JUnit, the step summary, `bw ls` and the page."""
    monkeypatch.chdir(tmp_path)
    Path("third-fails").write_text(THIRD_FAILS)
    Path("third-fails").chmod(0o755)
    command, *rest = words.split()
    argv = [command, "--study", "s", "--quiet", *rest]
    monkeypatch.setattr(sys, "argv", ["bw", *argv])
    assert (main(argv) == 1) == is_red
    capsys.readouterr()
    assert main(["export", "s", "--format", "junit"]) == 0
    junit = ElementTree.fromstring(capsys.readouterr().out)
    red = junit.findall(".//failure") + junit.findall(".//error")
    assert bool(red) == is_red
    assert main(["export", "s", "--format", "markdown"]) == 0
    assert ("- exit status 1: commands failed in " in capsys.readouterr().out) == is_red
    assert main(["ls"]) == 0
    assert ("trials failed" in capsys.readouterr().out) == ("--ok-status" not in words)
    with contextlib.closing(Study.open_to_read(Path("s"))) as study:
        page = tests_part(study, study.sessions()[-1], "p1", None)
    assert (page.tone == "bad") == is_red


def test_a_session_whose_exit_status_is_1_has_a_red_case() -> None:
    """A search that failed at its lowest rate has a test without an answer, which is skipped."""
    view = exported_session.session()
    (first, *_) = view.tests
    first = msgspec.structs.replace(first, state="undecided")
    view = msgspec.structs.replace(
        view, status="fails-at-lowest", tests=(first,), failure="p99 < 1 ms fails at 1/s"
    )
    (suite,) = ElementTree.fromstring(FORMATS["junit"].write(view).text)
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "1")
    assert "- exit status 1: p99 \\< 1 ms fails at 1/s" in FORMATS["markdown"].write(view).text


def test_a_search_has_its_answer_with_its_interval(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "surface", "--format", "prometheus"])
    text = capsys.readouterr().out
    assert 'bw_peak_rate_per_second{test="surface:workers=4",workers="4"' in text
    main(["export", "ramp", "--format", "bencher"])
    levels = json.loads(capsys.readouterr().out)
    assert levels["ramp:users=8"]["response-mean"]["value"] == 0.0226


def test_metrics_are_selected_and_have_the_direction_that_is_given(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--metric", "completed:higher", "--metric", "response_ns_p99"]
    main(["export", "load", "--format", "benchfmt", *chosen])
    lines = capsys.readouterr().out.splitlines()
    assert "Unit completed better=higher" in lines
    assert lines[-1] == "BenchmarkLoad-1 1 212.0 completed 0.003627007 response_p99-sec"
    assert main(["export", "run", "--format", "pyperf", "--metric", "elapsed"]) == 0


def test_one_direction_for_github_action_benchmark(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "run", "--format", "github-action-benchmark"])
    said = capsys.readouterr()
    assert [one["value"] for one in json.loads(said.out)] == [110, 120]
    assert "bw: elapsed, user and rss_bytes of count:n=1 and count:n=2 are left out" in said.err


def test_files_are_written_beside_the_first(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (studies / "there").mkdir()
    place = studies / "there" / "otava.yaml"
    asked = ["export", "run", "--format", "otava", "-o", str(place), "--json"]
    assert main(asked) == 0
    document = json.loads(capsys.readouterr().out)
    names = [Path(one["path"]).name for one in document["files"]]
    assert names == ["otava.yaml", "run-count-n=1.csv", "run-count-n=2.csv"]
    assert document["schema"] == "benchwright/export/1"
    rows = (place.parent / "run-count-n=2.csv").read_text().splitlines()
    assert rows[0] == "time,commit,session,ops,elapsed,user,rss_bytes"
    assert rows[1].startswith("2026-11-22 19:35:53 +0000,,run@1,120.0,")


def test_a_file_has_the_text_of_stdout(studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "run", "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert main(["export", "run", "--format", "markdown", "-o", "one.md"]) == 0
    assert capsys.readouterr().out == ""
    assert (studies / "one.md").read_text() == text
    assert main(["export", "run", "--format", "markdown", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["text"], document["files"]) == (text, [])


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["run"], "--format"),
        (["run", "--format", "otava"], "--output"),
        (["run", "--format", "jmh", "--metric", "speed"], "--metric"),
        (["run", "--format", "jmh", "--metric", "ops:up"], "--metric"),
        (["run@7", "--format", "jmh"], "STUDY"),
        (["run:other", "--format", "jmh"], "STUDY"),
        (["peak:one", "--format", "jmh"], "STUDY"),
        (["run", "--format", "jmh", "-o", "run/one.json"], "--output"),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_a_mistake_is_reported_at_its_place(
    studies: Path, capsys: pytest.CaptureFixture[str], words: list[str], place: str
) -> None:
    assert main(["export", *words]) == 2
    assert capsys.readouterr().err.startswith(f"{place}: ")


def test_what_bw_load_printed_is_a_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = exported_session.loads().loads
    result = msgspec.to_builtins(loads[0].result)
    document = {
        "schema": "benchwright/load/1",
        "request": {"duration_ns": 2_000_000_000},
        "loop": {"open": True, "closed": False},
        "result": result,
        "asked_rate_per_s": 10_000.0,
        "metrics": {"response_ns_p99": 142_000.0, "achieved_rate_per_s": 9_997.8},
        "response_known_to": 1.0,
        "findings": [],
    }
    file = tmp_path / "web.json"
    file.write_bytes(msgspec.json.encode(document))
    for name in FORMATS:
        out = ["-o", str(tmp_path / "out.yaml")] if name == "otava" else []
        status = main(["export", str(file), "--format", name, *out])
        said = capsys.readouterr()
        assert status == 0 or "[bad-argument]" in said.err, (name, said.err)
        assert (status == 0) == (name not in (*OF_TIMES, *OF_STREAMS, "pyperf")), name
    assert main(["export", str(file), "--format", "hlog"]) == 0
    log = capsys.readouterr().out
    assert len(re.findall(r"^[\d.]+,1\.000,[\d.]+,HISTF", log, re.MULTILINE)) == 2
    assert main(["export", str(file), "--format", "prometheus"]) == 0
    metrics = capsys.readouterr().out
    assert 'bw_response_p99_seconds{test="web",bound="estimate"} 0.000142' in metrics


def test_the_directions_of_a_load_are_those_of_its_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every metric of a load has the same direction and unit in its JSON, its study and a history."""
    monkeypatch.chdir(tmp_path)
    words = ("load", "--target", "null", "--depth", "2", "--duration", "50ms", "--quiet")
    assert main([*words, "--json"]) == 0
    Path("l.json").write_text(capsys.readouterr().out)
    names = json.loads(Path("l.json").read_text())["metrics"]
    monkeypatch.setattr(sys, "argv", ["bw", *words, "--study", "s"])
    assert main([*words, "--study", "s"]) == 0
    asked = [word for name in names for word in ("--metric", name)]

    def units(place: str, *more: str) -> dict[str, str]:
        capsys.readouterr()
        assert main(["export", place, "--format", "benchfmt", *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        found = [line.split() for line in lines if line.startswith("Unit ")]
        return {unit: " ".join(more) for _, unit, *more in found}

    of_json, of_study = units("l.json", *asked), units("s", *asked)
    assert of_json == of_study
    assert units("l.json")["rate/s"] == units("s")["rate/s"] == "better=higher"
    higher = {name for name, said in of_json.items() if "better=higher" in said}
    assert higher >= {"rate/s", "completed", "offered_rate/s"}
    assert not [one for one in of_json if "errors" in one and one in higher]
    (run,) = read_runs([Path("s")]).runs
    better = {key.metric: point.better for key, point in run.points}
    assert {name for name in names if better[name] == "higher"} == {
        name for name in names if usual_direction(name) == "higher"
    }


@pytest.mark.parametrize(
    ("options", "status", "counts"),
    [
        (["--json"], 1, ("0", "1")),
        (["--json", *ACCEPT], 0, ("0", "0")),
        (["--json", *ACCEPT, "--limit", "errors < 1%"], 1, ("1", "0")),
        (["--json", *ACCEPT, "--limit", "mean < 1s"], 3, ("0", "1")),
        (["--study", "s"], 1, ("0", "1")),
        (["--study", "s", *ACCEPT, "--limit", "errors < 1%"], 1, ("1", "0")),
        (["--study", "s", *ACCEPT, "--limit", "mean < 1s"], 3, ("0", "1")),
    ],
)
def test_a_load_is_green_in_junit_where_its_exit_status_is_0(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    counts: tuple[str, str],
) -> None:
    """Of a server that closes every connection."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_close, args=(listener,), daemon=True).start()
        target = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        words = ["load", "--target", target, "--rate", "100", "--duration", "300ms"]
        words += [*options, "--quiet"]
        monkeypatch.setattr(sys, "argv", ["bw", *words])
        assert main(words) == status
    Path("l.json").write_text(capsys.readouterr().out)
    place = "l.json" if "--json" in options else "s"
    assert main(["export", place, "--format", "junit"]) == 0
    (suite,) = ElementTree.fromstring(capsys.readouterr().out)
    assert (suite.get("failures"), suite.get("errors")) == counts
    assert main(["export", place, "--format", "markdown"]) == 0
    assert "Benchwright ," not in capsys.readouterr().out


def test_a_failed_load_of_a_study_is_named_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a port at which nothing listens; every text has the words of the user, and an option that
    exists."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    load = f"load --target tcp://127.0.0.1:{port} --rate 50 --json"
    words = [*load.split(), "--study", "s"]
    monkeypatch.setattr(sys, "argv", ["bw", *words])
    assert main(words) == 1
    for more in ([], ["why", "s"], ["stats", "s"], ["show", "s"], ["export", "s"]):
        options = ["--format", "junit"] if more[:1] == ["export"] else []
        if more:
            main([*more, *options])
        said = capsys.readouterr()
        text = " ".join((said.out + said.err).split())
        assert f"`bw {load}`" in text, more
        assert "--ok-status" not in text
        assert "benchwright.cli" not in text
    main(["why", "s", "--json"])
    assert '"load-failed"' in capsys.readouterr().out


def _close(listener: socket.socket) -> None:
    """Close every connection."""
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


def test_labels_have_distributions_of_their_own_beside_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a load that was really issued; without a file there is the distribution of all of them."""
    monkeypatch.chdir(tmp_path)
    Path("w.toml").write_text(
        '[[filament]]\ntype = "open"\nrate = "1k"\ncount = 100\n'
        '[[request]]\nlabel = "one"\npath = "/"\n[[request]]\npath = "/two"\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answer, args=(listener,), daemon=True).start()
        target = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        words = ("load", "w.toml", "--target", target, "--connections", "1")
        assert main([*words, "--json", "--quiet"]) == 0
    Path("web.json").write_text(capsys.readouterr().out)
    labels = json.loads(Path("web.json").read_text())["result"]["labels"]
    assert sum(one["operations"] for one in labels.values()) == 100
    assert main(["export", "web.json", "--format", "hgrm"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-2].endswith("Total count    =          100]")
    assert "web-GET-two.hgrm, web-one.hgrm" in said.err
    assert main(["export", "web.json", "--format", "hgrm", "-o", "all.hgrm"]) == 0
    assert Path("all.hgrm").read_text() == said.out
    assert capsys.readouterr().err == ""
    failed = json.loads(Path("web.json").read_text())
    failed["result"]["counts"] |= {"intended": 160, "errors": 60}
    Path("half.json").write_text(json.dumps(failed))
    for form in ("hgrm", "hlog", "prometheus", "openmetrics"):
        assert main(["export", "half.json", "--format", form, "-o", f"half.{form}"]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "60 of 160 operations have no response time" in said, form
        assert "percentiles above 62.5 % unknown" in said
    for label, file in (("one", "web-one.hgrm"), ("GET /two", "web-GET-two.hgrm")):
        count = labels[label]["response_ns"]["count"]
        last = Path(file).read_text().splitlines()[-2]
        assert int(last.rpartition("=")[2].rstrip("]")) == count > 0
    assert main(["export", "web.json", "--format", "hlog"]) == 0
    log = capsys.readouterr().out
    assert re.findall(r"^Tag=([^,]*),", log, re.MULTILINE) == ["GET_/two", "one"]


def _answer(listener: socket.socket) -> None:
    """Answer each request of one connection."""
    with contextlib.suppress(OSError):
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(65536):
                answers = data.count(b"\r\n\r\n")
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * answers)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "benchwright/load/1"}'])
def test_another_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    assert main(["export", str(file), "--format", "hlog"]) == 2
    assert "neither a study nor the output of bw load --json" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export --format hlog", "stats", "report", "why"])
def test_what_bw_printed_about_a_study_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    study, file = tmp_path / "study", tmp_path / "printed.json"
    assert main(["run", "true", "--runs", "2", "--json", "--study", str(study)]) == 0
    file.write_text(capsys.readouterr().out)
    assert main([*command.split(), str(file)]) == 2
    shown = capsys.readouterr().err
    assert "what bw printed with --json (run)" in shown
    assert f"= name the study: {'bw export ' * (command[0] == 'e')}{study}@1" in shown


def test_the_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(FORMATS)
    assert main(["export", "--formats", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["formats"]] == list(FORMATS)


@pytest.mark.parametrize(
    ("name", "declared", "value", "expected"),
    [
        ("elapsed", "s", 1.5, (1.5, "s")),
        ("response_ns_p99", "", 1.5e6, (0.0015, "s")),
        ("delay", "ms", 14.2, (0.0142, "s")),
        ("speed", "MiB/s", 2.0, (2097152.0, "B/s")),
        ("rate_per_s", "", 7.0, (7.0, "/s")),
        ("read_bytes_per_s", "", 7.0, (7.0, "B/s")),
        ("out_blocks", "512 B", 8.0, (4096.0, "B")),
        ("cpu", "%", 50.0, (0.5, "share")),
        ("count", "1", 3.0, (3.0, "")),
        ("distance", "m", 3.0, (3.0, "m")),
        ("disk", "TiB", 2.0, (2.0 * 2**40, "B")),
        ("rest", "h", 2.0, (7200.0, "s")),
        ("done", "ops/ms", 2.0, (2000.0, "ops/s")),
        ("sent", "GB/min", 3.0, (5e7, "B/s")),
        ("cost", "us/op", 3.0, (3e-6, "s/op")),
        ("per", "B/s/MB", 3.0, (3e-6, "B/s/B")),
        ("clock", "GHz", 3.0, (3e9, "Hz")),
        ("energy", "mJ", 3.0, (0.003, "J")),
    ],
)
def test_values_in_base_units(
    name: str, declared: str, value: float, expected: tuple[float, str]
) -> None:
    base = in_base_unit(unit_of(name, declared))
    assert (base.of(value), base.name) == expected


def test_threads_are_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a history: the same command with other threads is another test."""
    monkeypatch.chdir(tmp_path)
    words = ["--quiet", "--study", "two", "--runs", "2", "--threads", "2"]
    assert main(["run", *words, "--", "true"]) == 0
    assert main(["run", "--quiet", "--study", "two", "--runs", "2", "--", "true"]) == 0
    capsys.readouterr()
    main(["export", "two@1", "--format", "benchfmt"])
    assert "BenchmarkTrue/threads=2-2 1 " in capsys.readouterr().out
    assert main(["export", "two", "--format", "otava", "-o", "two.yaml"]) == 0
    assert (tmp_path / "two-true.csv").read_text().count("\n") == 2
    assert (tmp_path / "two-true-threads=2.csv").read_text().count("\n") == 2


def test_a_session_without_the_metric_is_no_point_of_a_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--quiet", "--study", "two", "--runs", "2", "--name", "one"]
    for more in ([], ["--metric", r"x~x=(\d)"], ["--metric", r"x~x=(\d)"]):
        assert main(["run", *words, *more, "--", "echo", "x=5"]) == 0
    asked = ["export", "two", "--format", "otava", "--metric", "x", "-o", "two.yaml"]
    assert main(asked) == 0
    rows = (tmp_path / "two-one.csv").read_text().splitlines()
    assert [row.split(",")[2:] for row in rows] == [
        ["session", "x"],
        ["two@2", "5.0"],
        ["two@3", "5.0"],
    ]


def test_a_time_of_zero_is_a_value_where_another_session_of_the_series_has_the_time(
    studies: Path,
) -> None:
    """`system` is 0 in all trials of both tests, and is then no column of its own accord."""
    with contextlib.closing(Study.open_to_read(studies / "run")) as study:
        (session,) = study.sessions()
        alone = read_view(study, session)
        joined = read_view(study, session, also=("system",))
    assert all(test.metric("system") is None for test in alone.tests)
    found = [test.metric("system") for test in joined.tests]
    assert [one and one.estimate.value for one in found] == [0.0, 0.0]
    names = [[one.name for one in test.metrics] for test in joined.tests]
    assert [[name for name in of_test if name != "system"] for of_test in names] == [
        [one.name for one in test.metrics] for test in alone.tests
    ]
