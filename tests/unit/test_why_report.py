"""`bw why`: causes in order, its two forms, users' rules, and what it says of bad input."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path

import msgspec
import pytest

from benchwright.cli import rule_files
from benchwright.core.errors import InputError
from benchwright.core.observation import Trial, TrialEnding
from benchwright.core.resource_use import CgroupUse, ResourceUse, TaskUse
from benchwright.core.results import Figure, Finding, Severity, states
from benchwright.features.load.plan import LoadTrial, Probe
from benchwright.features.search.explained import DisturbedLoads, disturbed_loads
from benchwright.features.search.output import print_last_search
from benchwright.features.search.ramp.policy import best_so_far
from benchwright.features.search.ramp.types import RampGoal
from benchwright.features.search.requests import PeakRequest, RampRequest
from benchwright.features.search.session import search_info
from benchwright.features.search.types import (
    Claim,
    ClaimResult,
    PeakAnswer,
    PeakStatus,
    SearchTrial,
    encode_stored,
)
from benchwright.findings.codes import make_finding
from benchwright.findings.examine import rule_findings
from benchwright.findings.explanation import Explanation, explain_test
from benchwright.findings.resources import resource_findings
from benchwright.findings.result import ObservedFiles, TestResult
from benchwright.findings.sanity import Claims
from benchwright.findings.use_table import UseValue
from benchwright.inputs.mistakes import SourceFile
from benchwright.report.documents import encode
from benchwright.report.stats_document import table_of
from benchwright.results.explained import WhyRequest, results_of, why_document
from benchwright.run.ledger import Ledger
from benchwright.run.runner import OutputOptions
from benchwright.stats.aggregate import summarise
from benchwright.study.journal import Study
from benchwright.views.why import reading_text, render_why
from watched_uses import cpu, task, trial, use

PAGE = Path(__file__).parents[2] / "docs" / "why.md"
BACKUP = use(others=(TaskUse(9, 0, "restic", 0.4, of="other"),))


def told(*codes: str, trials: tuple[Trial, ...] | None = None) -> Explanation:
    """Return a test explained by findings of these codes."""
    seen = trials or (trial(1, use()), trial(2, use()))
    findings = [make_finding(code, "t", f"evidence of {code}") for code in codes]
    one = TestResult("t", whole_trials=seen, sample=(("FS", "ext4"),))
    return explain_test(one, "t", findings, table_of(one)[0])


@pytest.mark.parametrize(
    ("codes", "first"),
    [
        (("single-threaded-cpu-bound", "answered-from-cache"), "answered-from-cache"),
        (("throttled-by-cgroup-quota", "answered-from-cache"), "throttled-by-cgroup-quota"),
        (("throttled-by-cgroup-quota", "errors-in-kernel-log"), "errors-in-kernel-log"),
        (("disk-saturated", "noisy-neighbour"), "disk-saturated"),
        (("disk-saturated", "network-errors"), "disk-saturated"),
        (("network-errors", "drift"), ""),
    ],
)
def test_the_first_cause(codes: tuple[str, ...], first: str) -> None:
    assert told(*codes).first == first


def test_without_a_limit_it_says_so() -> None:
    assert told().sentence == "no resource was saturated"
    assert told("disk-saturated").sentence == ""
    assert told("answered-from-cache").sentence.startswith("no resource was saturated")
    brief = ResourceUse(0.01, 0, (1, 1), cpu=cpu(0.1))
    assert told(trials=(trial(1, brief),)).sentence.startswith("watched too briefly")
    unseen = ResourceUse(1.0, 0, (1, 1), absent=(("series", "no sampler"),))
    assert told(trials=(trial(1, unseen),)).sentence.startswith("not watched: no sampler")


def test_a_study_that_was_not_watched_says_so() -> None:
    one = told(trials=(trial(1), trial(2)))
    assert (one.watched, one.table, one.first) == (0, (), "")
    (finding,) = one.findings
    assert finding.code == "not-watched"
    assert "--no-watch" in finding.evidence
    text = render_why([one])
    assert text.startswith("t FS=ext4: not watched, so what limited it is unknown\n")
    assert "utilization" not in text


def test_the_sentence_comes_first_and_only_what_was_busy_is_shown() -> None:
    text = render_why([told("single-threaded-cpu-bound", "drift")], 80)
    lines = text.splitlines()
    assert lines[0] == (
        "t FS=ext4: evidence of single-threaded-cpu-bound [single-threaded-cpu-bound]"
    )
    assert lines[1].startswith("  = One thread at a time used a whole CPU")
    assert "Elapsed 10.02 s, 9.95 to 10.08 (95 %, 2 trials)" in lines
    assert "What was busy in trial 1 of t FS=ext4 (10 s; 2 of 2 trials watched)" in lines
    assert "t FS=ext4: warning: evidence of drift [drift]" in lines
    assert any(line.startswith("  thread work") for line in lines)
    assert "swap" not in text
    assert max(map(len, lines)) <= 80


def test_figures_have_the_unit_that_suits_them() -> None:
    figures = [
        summarise("elapsed", [base, base + 0.0002], label="Elapsed", unit="s")
        for base in (0.0110, 0.0210)
    ]
    one, two = [
        msgspec.structs.replace(told(), name=name, figure=figure)
        for name, figure in zip("ab", figures, strict=True)
    ]
    lines = render_why([one, two]).splitlines()
    heading = next(line for line in lines if line.endswith("limited by"))
    assert heading.split()[:5] == ["test", "Elapsed", "ms", "low", "high"]
    rows = [line.split()[1:4] for line in lines if line[:2] in ("a ", "b ")]
    assert rows == [["11.10", "9.83", "12.37"], ["21.10", "19.83", "22.37"]]
    assert "Elapsed 11.10 ms, 9.83 to 12.37 (95 %, 2 trials)" in render_why([one])


def test_the_table_counts_the_trials_of_the_figure() -> None:
    """Those that failed are explained too, and have no value."""
    failed = msgspec.structs.replace(trial(3, use()), ending=TrialEnding.FAILED)
    seen = (trial(1, use()), trial(2, use()), failed)
    one, two = [msgspec.structs.replace(told(trials=seen), name=name) for name in "ab"]
    lines = render_why([one, two]).splitlines()
    heading = next(line for line in lines if line.endswith("limited by")).split()
    place = heading.index("trials") - len(heading)
    rows = [line.split() for line in lines if line[:2] in ("a ", "b ")]
    assert [row[place + 1] for row in rows] == ["2", "2"]
    assert "2 trials)" in render_why([one])
    assert "of 3 trials watched" in render_why([one])


def test_a_window_of_several_trials_is_named_in_the_heading() -> None:
    one = told()
    assert one.window is not None
    window = msgspec.structs.replace(one.window, epochs=(3, 8))
    text = render_why([msgspec.structs.replace(one, window=window)])
    assert "busy in one window of trials 3 to 8 of t FS=ext4 (10 s; " in text


def test_all_rows_and_why_figures_are_absent_on_request() -> None:
    brief, whole = (render_why([told()], 80, whole=one) for one in (False, True))
    absent = "swap: used: there is no swap space"
    assert absent in " ".join(whole.split())
    assert absent not in brief
    assert whole.splitlines()[0] == brief.splitlines()[0]


def costing(name: str, share: float, by: str = "make") -> Explanation:
    """Return a test to which other processes cost a share of its time."""
    shown = states(
        cost=Figure(share, "%"),
        used=Figure(1.0, "CPUs"),
        count=2,
        whom=by,
        waiting=Figure(0.5, "%"),
        where=" (all 2 trials)",
    )
    seen = (trial(1, use()), trial(2, use()))
    finding = make_finding("noisy-neighbour", name, shown)
    one = TestResult(name, whole_trials=seen)
    return explain_test(one, name, [finding], table_of(one)[0])


def test_tests_with_the_same_cause_are_one_sentence_with_the_range() -> None:
    levels = [costing("n=1", 0.095), costing("n=2", 0.438, "cc1"), costing("n=3", 0.9)]
    lines = render_why(levels, 100).splitlines()
    assert lines[0] == (
        "3 of 3 tests: other processes cost about 9.5 to 90 % of the elapsed time: they used 1 CPU of 2, and"
    )
    assert lines[1] == ("  its threads spent 50 % of the time waiting for a CPU [noisy-neighbour]")
    assert lines[2].startswith("  worst, n=3: other processes cost about 90 % of the elapsed time")
    assert sum("Stop the other programs" in line for line in lines) == 1
    assert [line.split()[-1] for line in lines if line.startswith("n=")] == ["noisy-neighbour"] * 3
    assert sum(line.startswith("What was busy in ") for line in lines) == 1
    (group,) = json.loads(encode(why_document(levels, "s", None)))["groups"]
    assert (group["tests"], group["worst"]) == (["n=1", "n=2", "n=3"], "n=3")


def test_a_few_tests_are_named_and_the_others_have_their_own_sentence() -> None:
    text = render_why([costing("n=1", 0.095), *map(free, ("n=2", "n=3"))])
    assert text.startswith("1 of 3 tests (n=1): other processes cost about 9.5 %")
    assert "\n2 of 3 tests (n=2, n=3): no resource was saturated\n" in text


def free(name: str) -> Explanation:
    """Return a test without a limit."""
    return msgspec.structs.replace(told(), name=name, sample=())


def test_a_hash_in_a_cgroup_is_cut_in_the_text_only() -> None:
    path = f"/docker/{'0123456789abcdef' * 2}"
    group = CgroupUse(path, 1, memory_limit=100, memory_max=99, memory_limit_hits=3)
    seen = (trial(1, use(cgroups=(group,))),)
    test = TestResult("t", whole_trials=seen)
    one = explain_test(test, "t", [], table_of(test)[0])
    assert "cgroup /docker/01234567..." in render_why([one])
    assert path in encode(why_document([one], "s", None))


def test_a_factor_that_the_name_contains_is_shown_once() -> None:
    sample = (("bs", "4k"), ("size", "1"))
    for name, head in (
        ("dd:bs=4k", "dd:bs=4k size=1: "),
        ("dd:bs=4k:size=1", "dd:bs=4k:size=1: "),
        ("s:dd:bs=4k#2", "s:dd:bs=4k#2 size=1: "),
        ("dd:bs=4kB:size=12", "dd:bs=4kB:size=12 bs=4k size=1: "),
        ("dd:abs=4k", "dd:abs=4k bs=4k size=1: "),
    ):
        one = msgspec.structs.replace(told(), name=name, sample=sample)
        assert render_why([one]).startswith(head)


def test_a_level_that_is_the_same_in_all_results_is_not_repeated() -> None:
    samples = [(("bs", "4k"), ("n", str(n))) for n in (1, 2)]
    both = [msgspec.structs.replace(told(), sample=sample) for sample in samples]
    text = render_why(both)
    assert "\nt n=1 " in text
    assert "bs=4k" not in text


FILES = ObservedFiles(("s/w/t-1.svg", "s/w/t-2.svg"), "s/w/t-io-3.io.json", "my s/w/t-io-3.bw")


def test_it_says_how_to_see_profiles_and_the_io() -> None:
    lines = render_why([msgspec.structs.replace(told(), files=FILES)], 150).splitlines()
    assert lines[-3:] == [
        "",
        "profiled: 2 flame graphs, to be opened in a browser: s/w/t-1.svg to s/w/t-2.svg",
        "characterized: its I/O is described in s/w/t-io-3.io.json; its requests: bw trace stat "
        "'my s/w/t-io-3.bw'",
    ]
    one = ObservedFiles(("s/w/t.svg",), "s/t.io.json")
    lines = render_why([msgspec.structs.replace(told(), files=one)]).splitlines()
    assert lines[-2].endswith("1 flame graph, to be opened in a browser: s/w/t.svg")
    assert lines[-1] == "characterized: its I/O is described in s/t.io.json"
    nothing = msgspec.structs.replace(told(), files=ObservedFiles())
    assert render_why([nothing]) == render_why([told()])


def test_the_document_names_the_files() -> None:
    results = [msgspec.structs.replace(told(), files=FILES), told()]
    document = json.loads(encode(why_document(results, "s", None)))
    with_files, without = document["results"]
    assert with_files["files"] == {
        "flame_graphs": ["s/w/t-1.svg", "s/w/t-2.svg"],
        "io": "s/w/t-io-3.io.json",
        "block_trace": "my s/w/t-io-3.bw",
    }
    assert without["files"] == {"flame_graphs": [], "io": None, "block_trace": None}


def test_the_document_for_programs() -> None:
    answer = why_document([told("disk-saturated"), told()], "s", None)
    document = json.loads(encode(answer))
    assert document["schema"] == "benchwright/why/1"
    limited, free = document["results"]
    assert (limited["first"], limited["limited_by"]) == ("disk-saturated",) * 2
    assert (free["first"], free["limited_by"]) == (None, None)
    assert limited["figure"]["count"] == 2
    swap = next(row for row in free["use"] if row["resource"] == "swap")
    assert swap["utilization"][0]["value"] is None
    assert swap["utilization"][0]["absent"] == "there is no swap space"


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (UseValue("busy", 0.974, "share"), "97.4 %"),
        (UseValue("busy", 1.5, "processors", 2), "1.5 of 2 (75 %)"),
        (UseValue("used", 1.5e9, "B", 6e9), "1.5 GB of 6 GB (25 %)"),
        (UseValue("sent", 2e6, "B/s"), "2 MB/s"),
        (UseValue("response", 0.0123, "s"), "12.3 ms"),
        (UseValue("pages", 12000, "pages"), "12,000"),
        (UseValue("busy", None, "share", absent="gone"), "-"),
    ],
)
def test_a_reading_in_words(reading: UseValue, text: str) -> None:
    assert reading_text(reading) == text


# -- rules -----------------------------------------------------------------------------


def asked(path: Path, *uses: ResourceUse) -> tuple[Finding, ...]:
    """Return what a rule's file finds in a test with these uses."""
    trials = [trial(epoch, seen) for epoch, seen in enumerate(uses, 1)]
    evidence = TestResult("t", whole_trials=trials, sample=(("FS", "ext4"),))
    return rule_findings(evidence, rule_files.read_rules([str(path)], {}))


def test_the_pages_example_is_a_rule(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "backup.py"
    path.write_text(example)
    (one,) = asked(path, BACKUP, BACKUP)
    assert one == Finding(
        "backup-ran",
        Severity.WARNING,
        "t",
        "restic used 0.40 CPUs in 2 windows",
        "Measure when no backup runs.",
    )
    assert asked(path, use()) == ()
    assert [p.name for p in tmp_path.iterdir()] == ["backup.py"]


def test_a_rule_sees_values_factors_and_limits(tmp_path: Path) -> None:
    path = tmp_path / "r.py"
    path.write_text(
        # The former name of the module: accepted for one release.
        "from benchwright.finding.rules import Finding, Severity\n"
        "def rule(result):\n"
        "    seen = (result.factors, result.values['elapsed'], result.units['elapsed'])\n"
        "    yield Finding('x', Severity.NOTE, result.test, f'{seen} {result.limits}')\n"
    )
    bound = use(cpu=cpu(1.0), tasks=(task("gzip", 0.99),))
    (one,) = asked(path, bound)
    assert one.evidence == ("({'FS': 'ext4'}, (10.01,), 's') ('single-threaded-cpu-bound',)")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("def rule(result):\n    return [1 / 0]\n", "2:13", "ZeroDivisionError"),
        ("def rule(result:\n", "1:9", "this is not valid Python"),
        ("x = 1\n", "", "there is no function `rule`"),
        ("import nothing_like_it\n", "1:1", "ModuleNotFoundError"),
        ("def rule(result):\n    return ['x']\n", "", "an object of type str for t"),
        ("raise SystemExit(0)\n", "1:1", "SystemExit"),
    ],
)
def test_a_mistake_in_a_rule_has_its_place(
    tmp_path: Path, text: str, place: str, message: str
) -> None:
    path = tmp_path / "r.py"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        asked(path, use())
    assert str(raised.value).startswith(f"{path}:{place}: " if place else f"{path}: ")
    assert message in str(raised.value)


def test_a_rule_that_is_not_there_is_told_with_all_others(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        rule_files.read_rules([str(tmp_path / "a.py"), str(tmp_path / "b.py")], {})
    assert len(raised.value.diagnostics) == 2
    assert "No such file" in str(raised.value)


def test_a_plug_in_is_a_rule_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugged.py").write_text("def rule(result):\n    return []\n")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    points = info / "entry_points.txt"
    points.write_text("[benchwright.rules]\nours = plugged:rule\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [one.name for one in rule_files.read_rules([], {})] == ["ours"]
    points.write_text("[benchwright.rules]\nours = plugged:nothing\n")
    with pytest.raises(InputError, match="plugged:nothing cannot be loaded"):
        rule_files.read_rules([], {})


def test_rules_of_the_users_directory(tmp_path: Path) -> None:
    place = tmp_path / "benchwright" / "rules"
    place.mkdir(parents=True)
    (place / "one.py").write_text("def rule(result):\n    return []\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert [one.name for one in rule_files.read_rules([], env)] == [str(place / "one.py")]
    assert rule_files.read_rules([], {"HOME": str(tmp_path)}) == []
    for path, mode in ((place, 0o770), (place, 0o707), (place / "one.py", 0o664)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(InputError, match="may be written by others"):
            rule_files.read_rules([], env)
        path.chmod(before)
    assert len(rule_files.read_rules([], env)) == 1


@pytest.mark.parametrize("name", ["empty", "gone"])
def test_what_is_no_study_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from benchwright.cli.main import main

    (tmp_path / "empty").mkdir()
    assert main(["why", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert "[not-a-study]" in error
    assert "must be a study, a .res file" not in error


def test_a_file_that_is_no_study_is_said_in_this_commands_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchwright.cli.main import main

    (tmp_path / "notes.txt").write_text("nothing of ours\n")
    assert main(["why", str(tmp_path / "notes.txt")]) == 2
    error = capsys.readouterr().err
    assert "no parser recognises this input" in error
    assert "bw why explains a study" in error
    assert "bw stats" not in error
    assert main(["stats", str(tmp_path / "notes.txt")]) == 2
    assert "must be a study, a .res file" in capsys.readouterr().err


def test_what_failed_comes_before_what_was_busy() -> None:
    seen = (msgspec.structs.replace(trial(1, use()), ending=TrialEnding.FAILED),)
    failed = make_finding("command-failed", "t", "`t` exited with status 2")
    one = explain_test(TestResult("t", whole_trials=seen), "t", [failed])
    assert [cause.code for cause in one.causes] == ["command-failed"]
    assert one.sentence == ""
    assert render_why([one]).startswith("t: serious: `t` exited with status 2")


def test_a_limit_at_which_commands_fail_comes_before_what_failed() -> None:
    seen = (msgspec.structs.replace(trial(1, use()), ending=TrialEnding.FAILED),)
    findings = [
        make_finding(code, "t", "evidence")
        for code in ("noisy-neighbour", "command-failed", "pids-limit")
    ]
    one = explain_test(TestResult("t", whole_trials=seen), "t", findings)
    assert [cause.code for cause in one.causes] == [
        "pids-limit",
        "command-failed",
        "noisy-neighbour",
    ]


def test_without_a_completed_trial_nothing_is_explained() -> None:
    cut = msgspec.structs.replace(trial(1, use()), ending=TrialEnding.INTERRUPTED)
    text = render_why([explain_test(TestResult("t", void_trials=(cut,)), "t", [])])
    assert text.startswith("t: no trial was completed, so there is no result to explain")
    assert render_why([], noun="load").startswith("no load was completed")


SPEC = """\
[load]
generator = "pgbench"
port = 5432
[peak]
criteria = [CRITERIA]
"""


def searched(
    place: Path, criteria: str, answer: str, *values: dict[str, float]
) -> list[Explanation]:
    """Return the loads that bw why explains of a stored search by a program, which tells its
    error ratio first; the answer names the criterion that limits, "" where there is none."""
    spec = SourceFile("s.toml", SPEC.replace("CRITERIA", criteria))
    with contextlib.closing(Study.create_or_open(place)) as study:
        number = study.begin_session(search_info("peak", PeakRequest(), spec, ()))
        ledger = Ledger(study, number)
        for count, one in enumerate(values, 1):
            rate = 100.0 * count
            load = LoadTrial(rate=rate, duration_s=1, lasted_s=1, cost_s=1, values=one)
            trial = SearchTrial(count, Probe(rate, 1.0), load)
            ledger.note(f"search/0/trial/{count}", encode_stored(trial))
        if answer:
            found = ClaimResult(
                status=PeakStatus.FOUND,
                detail="found",
                claim=Claim(),
                policy="monotone",
                binding=answer,
            )
            ledger.note("search/0/result", encode_stored(PeakAnswer((found,))))
    request = WhyRequest(path=str(place), tests=(), claims=Claims(), rules=())
    return list(results_of(request).results)


def test_a_load_has_the_figure_that_its_criterion_limits(tmp_path: Path) -> None:
    loads = searched(
        tmp_path / "s",
        '"p95 < 50ms"',
        "",
        {"error_ratio": 0.0, "response_ms_mean": 2.0, "response_ms_p95": 12.34},
        {"error_ratio": 0.0, "response_ms_mean": 200.0, "response_ms_p95": 503.0},
        {"error_ratio": 0.2, "response_ms_p95": math.inf},
        {"error_ratio": 1.0},
    )
    lines = render_why(loads, noun="load").splitlines()
    assert lines[0].startswith("4 of 4 loads: not watched, so what limited it")
    assert "load           p95 response ms  trials  limited by" in lines
    assert [line.split()[2:4] for line in lines if line.startswith("peak at")] == [
        ["100/s", "12.3"],
        ["200/s", "503.0"],
        ["300/s", "never"],
        ["400/s", "-"],
    ]
    assert "limit: p95 response < 50 ms" in lines
    alone = [render_why([load]).splitlines()[2] for load in loads]
    assert alone == [
        "p95 response 12.34 ms, limit < 50 ms (1 trial, no interval)",
        "p95 response 503 ms, limit < 50 ms (1 trial, no interval)",
        "p95 response longer than any response that was waited for, limit < 50 ms (1 trial, no "
        "interval)",
        "p95 response is missing, limit < 50 ms",
    ]
    first, *_ = json.loads(encode(why_document(loads, "s", 1)))["results"]
    assert first["figure"]["name"] == "response_ms_p95"
    assert first["figure"]["mean"] == 12.34
    assert first["limit"] == {
        "name": "response_ms_p95",
        "value": 50.0,
        "unit": "ms",
        "better": "lower",
    }


@pytest.mark.parametrize(
    ("binding", "told"),
    [
        ("error_ratio", "errors 3 %, limit < 1 %"),
        ("response_ms_p95", "p95 response 12 ms, limit < 50 ms"),
        ("", "errors 3 %, limit < 1 %"),
    ],
)
def test_of_several_criteria_it_is_the_one_that_limits(
    tmp_path: Path, binding: str, told: str
) -> None:
    """By the answer; in a search without one, the one that a load breaks."""
    values = {"error_ratio": 0.03, "response_ms_p95": 12.0}
    loads = searched(tmp_path / "s", '"p95 < 50ms", "errors < 1%"', binding, values)
    assert f"\n{told} (" in render_why(loads)


def stored_ramp(place: Path, window: ResourceUse | None = None) -> list[SearchTrial]:
    """Store a ramp of three levels, the first two repeated, and return its trials."""
    request = RampRequest(command="gen {users}", throughput="/tps")
    levels = [(1.0, 90.0), (1.0, 110.0), (2.0, 180.0), (2.0, 230.0), (4.0, 350.0)]
    trials = [
        SearchTrial(
            count,
            Probe(users, 1.0, users=int(users)),
            LoadTrial(
                rate=users,
                duration_s=1,
                lasted_s=1,
                cost_s=1,
                values={"throughput_per_s": throughput},
                use=window,
            ),
        )
        for count, (users, throughput) in enumerate(levels, 1)
    ]
    with contextlib.closing(Study.create_or_open(place)) as study:
        number = study.begin_session(search_info("ramp", request, None, ()))
        ledger = Ledger(study, number)
        for one in trials:
            ledger.note(f"search/0/trial/{one.number}", encode_stored(one))
    return trials


def loads_of(place: Path) -> list[Explanation]:
    """Return what bw why explains of a study."""
    return list(results_of(WhyRequest(str(place), (), Claims(), ())).results)


def test_a_level_of_a_ramp_has_the_interval_of_the_ramps_report(tmp_path: Path) -> None:
    """The noise between runs is pooled over the levels, so a level of one run has one too."""
    trials = stored_ramp(tmp_path / "s")
    points = best_so_far(RampGoal(), [one.trial for one in trials]).points
    shown = [
        (one.figure.mean, one.figure.low, one.figure.high)
        for one in loads_of(tmp_path / "s")
        if one.figure is not None
    ]
    assert shown == [
        (one.throughput.value, one.throughput.low, one.throughput.high) for one in points
    ]
    assert all(math.isfinite(low) for _, low, _ in shown)


def test_a_search_reports_what_disturbed_its_loads_below_its_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "s"
    stored_ramp(place, use(cpu=cpu(0.25, 1.75, runnable=5.0), tasks=()))
    why = render_why(loads_of(place), 500, noun="load").splitlines()[0]
    assert why.startswith("3 of 3 loads: ")
    assert why.endswith("[noisy-neighbour]")
    print_last_search("ramp", place, None, OutputOptions())
    answer, *below = capsys.readouterr().out.splitlines()
    assert answer.startswith("crashed: saturation was not reached")
    assert below[0] == why
    assert below[1].startswith("the result and its interval hold for the machine as it")
    assert sum("[noisy-neighbour]" in line for line in below) == 1
    print_last_search("ramp", place, None, OutputOptions(json=True))
    found = json.loads(capsys.readouterr().out)["findings"]
    subjects = [one["subject"] for one in found if one["code"] == "noisy-neighbour"]
    assert subjects == ["ramp at 1 user", "ramp at 2 users", "ramp at 4 users"]


def test_a_limit_that_a_benchmark_may_intend_does_not_disturb_a_search() -> None:
    saturated = make_finding("cpu-saturated", "a", "all CPUs were busy")
    load = explain_test(TestResult("a", whole_trials=(trial(1, use()),)), "a", [saturated])
    assert load.first == "cpu-saturated"
    assert disturbed_loads([load]) == DisturbedLoads()


def test_what_is_known_of_much_more_than_was_measured_is_no_doubt_about_the_figure() -> None:
    """A script states 0.3 s of 10 s itself, and a window is the whole trial."""
    crowded = use(cpu=cpu(0.5, 1.5), tasks=(task("sh", 0.5, waiting=0.45),))
    said = {}
    for elapsed in (10.0, 0.3):
        seen = tuple(trial(epoch, crowded, values={"elapsed": elapsed}) for epoch in (1, 2, 3))
        test = TestResult("t", whole_trials=seen)
        (finding,) = (one for one in resource_findings(test) if one.code == "noisy-neighbour")
        said[elapsed] = finding, explain_test(test, "t", [finding])
    finding, explained = said[10.0]
    assert (finding.severity, explained.first) == (Severity.WARNING, "noisy-neighbour")
    assert finding.evidence.startswith("other processes cost about ")
    finding, explained = said[0.3]
    assert (finding.severity, explained.first) == (Severity.NOTE, "")
    assert finding.evidence.startswith(
        "in the watched time (the figures are about 3 % of it), other "
    )
    assert explained.sentence.startswith("in the watched time (the figures are about 3 % of it), ")
    assert explained.findings == (finding,)
