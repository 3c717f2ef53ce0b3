"""`bw compare --merge`: which jobs belong together, the verdict on their mean, and what holds it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.cli.main import main
from benchwright.core.comparison import Checkout, GateOutcome, Verdict
from benchwright.core.errors import InputError
from benchwright.core.results import Finding, Severity
from benchwright.features.merge.combine import Question, merge_jobs
from benchwright.features.merge.document import MergeDocument
from benchwright.features.merge.jobs import read_jobs
from benchwright.stats.meta import JobEstimate, meta_estimate
from benchwright.stats.nested import NESTED_METHOD
from stored_jobs import REQUEST, store_job, store_jobs

RATIOS = (1.02, 1.05, 1.08, 1.03, 1.06)
GRAVE = Finding("errors-in-kernel-log", Severity.SERIOUS, "machine", "an error", "read it")


def merged(texts: list[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the document of a merge."""
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["compare", "--merge", *texts, "--json", *words])
    return status, json.loads(out.getvalue())


# -- the mean over jobs -------------------------------------------------------------------


def test_the_interval_is_that_of_the_mean_over_jobs(tmp_path: Path) -> None:
    jobs = read_jobs(store_jobs(tmp_path, RATIOS))
    result = merge_jobs(jobs, Question())
    differences = [job.history.evidence["elapsed", 1].difference for job in jobs]
    expected = meta_estimate(
        [JobEstimate(d.mean, d.sdev / math.sqrt(d.n), d.n - 1) for d in differences]
    )
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    found = ratio.verdict.ratio
    assert math.log(found.value) == pytest.approx(expected.mean.value)
    assert math.log(found.low) == pytest.approx(expected.mean.low)
    assert ratio.verdict.verdict is Verdict.SLOWER
    assert sum(job.weight for job in ratio.jobs) == pytest.approx(1)
    # The next job may be anywhere between the jobs, and a little beyond.
    assert ratio.prediction.low < found.low < found.high < ratio.prediction.high
    assert 0.01 < ratio.spread.value < 0.05
    assert ratio.spread.low < ratio.spread.value < ratio.spread.high
    # Each job alone is far more certain than its interval is about other jobs.
    widths = [job.ratio.half_width for job in ratio.jobs]
    assert found.half_width > 2 * min(widths)


def test_jobs_that_disagree_are_undecided_where_each_is_decided(tmp_path: Path) -> None:
    jobs = read_jobs(store_jobs(tmp_path, (0.93, 1.06, 1.1)))
    result = merge_jobs(jobs, Question())
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    assert {job.own.verdict for job in ratio.jobs} == {Verdict.FASTER, Verdict.SLOWER}
    assert ratio.verdict.verdict is Verdict.UNDECIDED
    assert result.comparison.exit_status == 3
    assert "too-few-jobs" in {finding.code for finding in result.findings}


def test_a_difference_that_the_next_job_may_not_show_has_a_finding(tmp_path: Path) -> None:
    ratios = (1.01, 1.12, 1.07, 1.1, 1.02, 1.09, 1.04, 1.13)
    result = merge_jobs(read_jobs(store_jobs(tmp_path, ratios)), Question())
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    assert ratio.verdict.verdict is Verdict.SLOWER
    assert ratio.prediction.low < 1
    assert "jobs-disagree" in {finding.code for finding in result.findings}


def test_jobs_that_count_the_same_are_equal(tmp_path: Path) -> None:
    """A ratio that never varies, such as that of counted instructions, has no error of its own."""
    result = merge_jobs(read_jobs(store_jobs(tmp_path, (1.0, 1.0, 1.0), noise=0.0)), Question())
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    assert ratio.verdict.verdict is Verdict.EQUIVALENT
    different = tmp_path / "different"
    different.mkdir()
    result = merge_jobs(read_jobs(store_jobs(different, (1.05, 1.05, 1.05), noise=0.0)), Question())
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    assert ratio.verdict.verdict is Verdict.SLOWER


@pytest.mark.parametrize(
    ("ratios", "status", "outcome"),
    [
        (RATIOS, 1, GateOutcome.FAILED),
        ((0.9, 0.91, 0.9, 0.92, 0.9), 0, GateOutcome.PASSED),
        ((0.97, 1.0, 1.05), 3, GateOutcome.UNDECIDED),
    ],
)
def test_gates_are_judged_on_the_mean(
    tmp_path: Path, ratios: tuple[float, ...], status: int, outcome: GateOutcome
) -> None:
    texts = store_jobs(tmp_path, ratios)
    report = tmp_path / "gate.xml"
    found, document = merged(texts, "--fail-if", "slower by 1%", "--junit", str(report))
    assert found == document["exit_status"] == status
    (gate,) = document["gates"]
    assert gate["outcome"] == outcome
    root = ElementTree.parse(report).getroot()
    kinds = {GateOutcome.FAILED: "failure", GateOutcome.UNDECIDED: "error"}
    for kind in ("failure", "error"):
        assert len(list(root.iter(kind))) == (kinds.get(outcome) == kind)


def test_a_gate_of_the_jobs_is_that_of_the_merge(tmp_path: Path) -> None:
    request = msgspec.structs.replace(REQUEST, fail_if=("slower by 1%",))
    status, document = merged(store_jobs(tmp_path, RATIOS, request=request))
    assert status == 1
    assert [gate["condition"] for gate in document["gates"]] == ["slower by 1%"]


def test_jobs_with_levels_of_replication_keep_the_intervals_of_their_populations(
    tmp_path: Path,
) -> None:
    request = msgspec.structs.replace(REQUEST, replicate=("env=4",), max_blocks=None)
    texts = store_jobs(tmp_path, (1.1, 1.12, 1.11), request=request)
    result = merge_jobs(read_jobs(texts), Question())
    (ratio,) = (one for one in result.ratios if one.verdict.judged)
    assert {job.ratio.method for job in ratio.jobs} == {NESTED_METHOD}
    assert ratio.verdict.verdict is Verdict.SLOWER
    other = changed()(tmp_path)
    with pytest.raises(InputError, match="other levels of replication"):
        read_jobs([*texts, other])


def test_sequences_are_merged_too(tmp_path: Path) -> None:
    request = msgspec.structs.replace(REQUEST, design="sequence", max_blocks="20")
    status, document = merged(store_jobs(tmp_path, (1.1, 1.12, 1.11), request=request))
    assert (status, document["verdicts"][0]["verdict"]) == (0, "slower")
    assert document["verdicts"][0]["n"] == {"baseline": 60, "candidate": 60}


# -- doubtful jobs --------------------------------------------------------------------------


def doubtful_jobs(place: Path, ratios: tuple[float, ...], *doubtful: int) -> list[str]:
    texts = []
    for seed, ratio in enumerate(ratios, 1):
        findings = (GRAVE,) if seed in doubtful else ()
        store_job(place / f"job-{seed}", ratio, seed, findings=findings)
        texts.append(str(place / f"job-{seed}"))
    return texts


def test_a_doubtful_job_that_changes_nothing_holds_nothing(tmp_path: Path) -> None:
    texts = doubtful_jobs(tmp_path, (1.06, 1.07, 1.06, 1.08, 1.07), 2)
    status, document = merged(texts, "--fail-if", "slower by 1%")
    assert status == 1
    assert document["gates"][0]["held_by"] == []
    doubts = [job["doubts"] for job in document["spread"][0]["jobs"]]
    assert doubts == [[], ["errors-in-kernel-log"], [], [], []]


@pytest.mark.parametrize("doubtful", [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)])
def test_an_answer_that_depends_on_doubtful_jobs_is_held(
    tmp_path: Path, doubtful: tuple[int, ...]
) -> None:
    texts = doubtful_jobs(tmp_path, RATIOS, *doubtful)
    status, document = merged(texts, "--fail-if", "slower by 1%")
    (gate,) = document["gates"]
    assert (status, gate["outcome"], gate["otherwise"]) == (3, "undecided", "failed")
    assert gate["held_by"] == ["errors-in-kernel-log"]
    verdict = document["verdicts"][0]
    assert (verdict["verdict"], verdict["otherwise"]) == ("undecided", "slower")
    status, document = merged(
        texts, "--fail-if", "slower by 1%", "--accept", "errors-in-kernel-log"
    )
    assert (status, document["gates"][0]["outcome"]) == (1, "failed")


# -- jobs that do not belong together -------------------------------------------------------


def changed(**members: Any) -> Callable[[Path], str]:
    """Return what stores a job of another request."""

    def store(place: Path) -> str:
        request = msgspec.structs.replace(REQUEST, **members)
        store_job(place / "other", 1.0, 9, request=request)
        return str(place / "other")

    return store


def of_status(status: str) -> Callable[[Path], str]:
    def store(place: Path) -> str:
        store_job(place / "other", 1.0, 9, status=status)
        return str(place / "other")

    return store


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return store_jobs(tmp_path_factory.mktemp("jobs"), (1.0, 1.01))


def copied(place: Path) -> str:
    store_job(place / "one", 1.0, 8)
    shutil.copytree(place / "one", place / "other")
    return str(place / "other")


def checkout(commit: str, build: str = "make") -> Checkout:
    return Checkout("main", commit, "/r", "/c", build=build)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (changed(names=("old", "newer")), "other arms: old and newer instead of old and new"),
        (changed(commands=("work a", "work c")), "new: another command: work c instead of work b"),
        (changed(setup="prepare"), "another setup"),
        (changed(threads="2"), "another threads"),
        (changed(metrics=("user",)), "other metrics are judged: elapsed and user"),
        (changed(design="abba"), "another design: abba instead of blocks"),
        (changed(margin="5%"), "another margin: 5 % instead of 3 %"),
        (changed(confidence="99%"), "another confidence: 99 % instead of 95 %"),
        (changed(fail_if=("slower by 3%",)), "other gates: slower by 3% instead of none"),
        (changed(rare="5%", max_blocks="70"), "another --rare"),
        (changed(is_null=True, commands=("work a",), names=()), "is a null comparison"),
        (of_status("interrupted"), "was not completed (interrupted"),
        (of_status("failed"), "was not completed (failed"),
        (of_status("crashed"), "was not completed (crashed"),
        (lambda place: str(place / "none"), "is no study"),
    ],
)
def test_what_does_not_belong_is_refused_with_its_reason(
    tmp_path: Path, two_jobs: list[str], store: Callable[[Path], str], reason: str
) -> None:
    other = store(tmp_path)
    with pytest.raises(InputError) as caught:
        read_jobs([*two_jobs, other])
    assert reason in str(caught.value)
    assert other in str(caught.value)
    assert main(["compare", "--merge", *two_jobs, other]) == 2


@pytest.mark.parametrize(
    ("selector", "reason"), [(":new", "names one arm"), ("@5", "there is no session 5")]
)
def test_a_job_is_a_session(two_jobs: list[str], selector: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_jobs([two_jobs[0], two_jobs[1] + selector])


def test_a_copy_of_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is the same session as"):
        read_jobs([copied(tmp_path), str(tmp_path / "one")])


def test_other_commits_and_builds_are_refused(tmp_path: Path) -> None:
    jobs = []
    for seed, commits in enumerate(
        [("a" * 40, "b" * 40), ("a" * 40, "c" * 40), ("a" * 40, "b" * 40)], 1
    ):
        build = "make" if seed < 3 else "make -O3"
        request = msgspec.structs.replace(
            REQUEST,
            commands=("work",),
            commits=("main", "HEAD"),
            checkouts=tuple(checkout(one, build) for one in commits),
        )
        store_job(tmp_path / f"{seed}", 1.0, seed, request=request)
        jobs.append(str(tmp_path / f"{seed}"))
    with pytest.raises(InputError) as caught:
        read_jobs(jobs)
    assert "other commits: aaaaaaaaaaaa, cccccccccccc instead of aaaaaaaaaaaa, bbbbbbbbbbbb" in str(
        caught.value
    )
    assert "another --build" in str(caught.value)


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    texts = store_jobs(tmp_path, (1.0, 1.0))
    other = changed(design="abba")(tmp_path)
    with pytest.raises(InputError) as caught:
        read_jobs([*texts, other, str(tmp_path / "none"), texts[0]])
    assert len(caught.value.diagnostics) == 3


def test_one_job_is_not_merged(tmp_path: Path) -> None:
    assert main(["compare", "--merge", *store_jobs(tmp_path, (1.0,))]) == 2


def test_what_the_command_states_may_differ_between_jobs(tmp_path: Path) -> None:
    texts = store_jobs(tmp_path, (1.05, 1.06))
    other = changed(margin="5%", confidence="90%", fail_if=("slower by 9%",))(tmp_path)
    words = ("--margin", "20%", "--confidence", "80%", "--fail-if", "slower by 90%")
    status, document = merged([*texts, other], *words)
    assert (status, document["margin"], document["confidence"]) == (0, 0.2, 0.8)


def test_sessions_of_one_study_are_named(tmp_path: Path) -> None:
    place = tmp_path / "study"
    for seed, ratio in enumerate((1.1, 1.11, 1.12), 1):
        store_job(place, ratio, seed)
    status, document = merged([f"{place}@1", f"{place}@2", str(place)])
    assert (status, document["verdicts"][0]["verdict"]) == (0, "slower")
    assert [job["session"] for job in document["jobs"]] == [1, 2, 3]


@pytest.mark.parametrize(
    "words",
    [
        ("--html", "x.html"),
        ("--markdown", "x.md", "a", "b"),
        ("--plot", "x.svg", "--", "true", "false"),
        ("--merge", "--max-time", "5s", "a", "b"),
        ("--merge", "--study", "x", "a", "b"),
        ("--merge", "--baseline", "x", "a", "b"),
        ("--merge", "a", "b", "--", "true"),
        ("--merge",),
        ("--merge", "a", "b", "--fail-if", "nothing"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *words]) == 2
    assert list(tmp_path.iterdir()) == []


# -- what is shown --------------------------------------------------------------------------


def test_the_machines_and_boots_are_in_the_rows(tmp_path: Path) -> None:
    texts = [str(tmp_path / name) for name in ("one", "two", "three", "four")]
    for seed, (text, boot, cpu) in enumerate(
        zip(texts, ("b1", "b1", "b2", "b3"), ("A", "A", "A", "B"), strict=True), 1
    ):
        store_job(Path(text), 1.1, seed, boot=boot, cpu=cpu)
    _, document = merged(texts)
    machines = [job["machine"] for job in document["jobs"]]
    assert machines == ["A, 2 CPUs", "same boot", "alike, another boot", "cpu.model B"]
    assert [finding["code"] for finding in document["findings"]] == ["jobs-of-one-boot"]
    assert "one and two" in document["findings"][0]["evidence"]


def test_the_report_has_a_row_for_each_job_and_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = store_jobs(tmp_path, RATIOS)
    files = {name: tmp_path / f"x.{name}" for name in ("html", "markdown")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    plot = tmp_path / "x.svg"
    assert main(["compare", "--merge", *texts, *words, "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    rows = shown.splitlines()
    assert rows[0].startswith("Against old, 5 jobs, ")
    assert [row.split("  ")[0] for row in rows[2:9]] == [
        *(f"job-{number}" for number in range(1, 6)),
        "all jobs",
        "next job",
    ]
    assert "in 5 jobs" in shown
    assert "in the next job the ratio is" in shown
    markdown = files["markdown"].read_text()
    assert markdown.startswith("### bw compare --merge, 5 jobs")
    assert "| all jobs |" in markdown
    page = files["html"].read_text()
    for text in ("Jobs", "all jobs", "next job", "merge.json", "mean over jobs"):
        assert text in page
    assert b"<svg" in plot.read_bytes()


def test_the_document_is_of_its_type(tmp_path: Path) -> None:
    _, document = merged(store_jobs(tmp_path, RATIOS))
    found = msgspec.convert(document, MergeDocument)
    assert (found.exit_status, len(found.jobs), len(found.spread)) == (0, 5, len(found.verdicts))
    prediction, mean = found.spread[0].prediction, found.verdicts[0].ratio
    assert None not in (*prediction, mean.low)
