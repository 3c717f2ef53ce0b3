"""Reads the jobs of a merge, and refuses those that do not belong together.

Decision: everything that the mean over jobs assumes is checked, and every mistake is reported with
its study: a job of another program, metric or design would move the mean without a sign of it. What
may differ is what jobs are drawn from: the machine, the boot, the time, the order of the trials, and
how many of them there are. A job that was cut short is refused too, because its end may have to do
with its result; one that ended undecided is one of the reasons to merge.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.core.comparison import ComparisonResult
from benchwright.core.errors import Diagnostic, InputError, StudyError
from benchwright.core.plan import Replication, TestPlan
from benchwright.core.results import Finding
from benchwright.core.text import list_text, percent_text, plural
from benchwright.core.untrusted import shell_text
from benchwright.decide.compare.evidence import ComparisonHistory
from benchwright.features.merge.types import LEAST_JOBS, Job
from benchwright.findings.result import TestResult
from benchwright.results.stored import history_of_arms, recorded_comparisons, results_of_tests
from benchwright.study.catalogue import sessions_now, split_selector
from benchwright.study.contents import first_machine, session_findings, stored_findings
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import RESUMABLE, StoredSession, Study
from benchwright.suite.comparison import ComparisonRequest

_LEAST_BLOCKS = 2
"""Of a job: one block has no spread."""
_WHERE = "STUDY"


def read_jobs(texts: Sequence[str], ignored: Collection[str] = ()) -> tuple[Job, ...]:
    """Return the jobs in the order given. `ignored`: the parts of the rule (`margin`, `confidence`,
    `gates`) that the command line states, in which the jobs may differ.

    Raises InputError with everything that cannot be read or does not belong together.
    """
    jobs: list[Job] = []
    wrong: list[Diagnostic] = []
    for text in texts:
        try:
            jobs.append(_read_job(text))
        except InputError as error:
            wrong += error.diagnostics
        except StudyError as error:
            wrong.append(_refused(text, error.message, error.hint))
    for job, other in itertools.combinations(jobs, 2):
        if job.info == other.info:
            message = f"{other.text} is the same session as {job.text}, and one job counts once"
            wrong.append(_refused(other.text, message, "name each job once"))
    for job in jobs[1:]:
        if reasons := list(_differences(jobs[0], job, ignored)):
            message = f"{job.text} does not belong with {jobs[0].text}: {'; '.join(reasons)}"
            hint = "merge the jobs of one comparison"
            if not {*reasons} - {*_stated(jobs[0], job, ignored)}:
                hint = "state it for all: --margin, --confidence or --fail-if"
            wrong.append(_refused(job.text, message, hint))
    if not wrong and len(texts) < LEAST_JOBS:
        message = f"{plural(len(texts), 'job')} cannot be merged"
        hint = "name at least two: bw compare --merge STUDY STUDY ..."
        wrong.append(_refused(shell_text(texts), message, hint))
    if wrong:
        raise InputError(wrong)
    names = _names(texts)
    return tuple(
        msgspec.structs.replace(job, name=name) for job, name in zip(jobs, names, strict=True)
    )


def _refused(text: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic("bad-argument", message, hint, file=_WHERE, text=text)


def _names(texts: Sequence[str]) -> list[str]:
    """Return the shortest distinct names of the jobs: without the directories and the end that are
    the same for all, such as those of `artifacts/job-1/study`."""
    parts = [text.rstrip("/").split("/") for text in texts]
    if len({tuple(one) for one in parts}) < len(parts):
        return [f"{text}#{at}" for at, text in enumerate(texts, 1)]
    while len(parts) > 1 and all(len(one) > 1 for one in parts):
        if len({one[0] for one in parts}) == 1:
            parts = [one[1:] for one in parts]
        elif len({one[-1] for one in parts}) == 1:
            parts = [one[:-1] for one in parts]
        else:
            break
    return ["/".join(one) for one in parts]


# -- One job ---------------------------------------------------------------------------


def _read_job(text: str) -> Job:
    """Return the job of `STUDY` or `STUDY@SESSION`. Raises InputError, StudyError."""

    def refuse(message: str, hint: str = "") -> InputError:
        return InputError([_refused(text, f"{text} {message}", hint)])

    part = split_selector(Path(text))
    if not (part.place / JOURNAL).is_file():
        raise refuse("is no study", "name what bw compare --study wrote; a file has no machine")
    if part.test is not None:
        raise refuse("names one arm", f"name the comparison: {text.removesuffix(f':{part.test}')}")
    with contextlib.closing(Study.open_to_read(part.place)) as study:
        wanted = part.of(study, _WHERE)
        (session,) = (one for one in sessions_now(study) if one.number == wanted.number)
        label = f"{part.place}@{session.number}"
        if session.status == "running":
            raise refuse("is still running", "merge when every job has ended")
        if session.status in RESUMABLE:
            reason = f": {session.detail}" if session.detail else ""
            hint = f"end it with bw resume {part.place}, or leave the job out"
            raise refuse(f"was not completed ({session.status}{reason})", hint)
        results = recorded_comparisons(study, session.number)
        if len(results) != 1:
            message = f"has {plural(len(results), 'comparison')}, and a job is one"
            raise refuse(message, f"name another session: {part.place}@NUMBER")
        (comparison,) = results
        if comparison.rule.exactly is not None:
            raise refuse("is a null comparison: its arms are one command")
        if comparison.rule.stored is not None:
            message = "compares with a stored baseline, which other machines did not measure"
            raise refuse(message, "measure both arms in each job")
        arms = [test for test in results_of_tests(study, session) if test.arm is not None]
        history = history_of_arms(comparison.rule, arms)
        if history.blocks < _LEAST_BLOCKS:
            raise refuse(f"has {_blocks_text(comparison, history)} that count", "measure it again")
        return Job(
            text=text,
            name=label,
            study=str(part.place),
            session=session.number,
            info=session.info,
            machine=first_machine(study, session.number),
            comparison=comparison,
            plans=tuple(test.plan for test in arms if test.plan is not None),
            commits=_commits(session),
            history=history,
            findings=tuple(_findings(study, session, arms)),
        )


def _blocks_text(comparison: ComparisonResult, history: ComparisonHistory) -> str:
    return plural(history.blocks, "block" if comparison.rule.paired else "trial")


def _commits(session: StoredSession) -> tuple[tuple[str, str], ...]:
    """Return the commit and the build of each arm that was checked out; none of a suite."""
    text = session.info.sources[0][1] if session.info.sources else ""
    if session.info.kind != "compare" or not text.startswith("{"):
        return ()
    request = msgspec.json.decode(text, type=ComparisonRequest)
    return tuple((one.commit, one.build or "") for one in request.checkouts)


def _findings(
    study: Study, session: StoredSession, arms: Sequence[TestResult]
) -> Iterator[tuple[str, Finding]]:
    """Yield what was found in a job, each with the name of its arm or an empty one."""
    stored = stored_findings(study, session.number)
    about = session_findings(study, session.number)
    if stored is not None:
        own = (finding for findings in stored.comparisons.values() for finding in findings)
        about = (*stored.session, *own)
    yield from (("", finding) for finding in dict.fromkeys(about))
    for test in arms:
        yield from ((test.name, finding) for finding in test.findings or ())


# -- What does not belong together -----------------------------------------------------


def _differences(first: Job, job: Job, ignored: Collection[str]) -> Iterator[str]:
    """Yield why a job is not one of the same comparison as the first."""
    before, after = first.comparison, job.comparison
    if before.arms != after.arms:
        yield f"other arms: {_arms(after)} instead of {_arms(before)}"
        return
    for name, one, other in zip(before.arms, first.plans, job.plans, strict=True):
        yield from (f"{name}: {reason}" for reason in _unlike_plans(one, other))
    if first.commits != job.commits:
        pairs = [", ".join(commit[:12] for commit, _ in one.commits) for one in (job, first)]
        if pairs[0] == pairs[1]:
            yield "another --build"
        else:
            yield f"other commits: {pairs[0] or 'none'} instead of {pairs[1] or 'none'}"
    yield from _unlike_metrics(before, after)
    if before.rule.design != after.rule.design:
        yield f"another design: {after.rule.design} instead of {before.rule.design}"
    if _levels(before) != _levels(after):
        yield "other levels of replication"
    if before.rule.rare != after.rule.rare:
        yield "another --rare"
    yield from _stated(first, job, ignored)


def _stated(first: Job, job: Job, ignored: Collection[str]) -> Iterator[str]:
    """Yield the differences that an option of the merge settles."""
    before, after = first.comparison.rule, job.comparison.rule
    for name in ("margin", "confidence"):
        one, other = getattr(before, name), getattr(after, name)
        if one != other and name not in ignored:
            yield f"another {name}: {percent_text(other, 10)} instead of {percent_text(one, 10)}"
    if before.gates != after.gates and "gates" not in ignored:
        texts = [_listed([gate.text for gate in one.gates]) for one in (after, before)]
        yield f"other gates: {texts[0]} instead of {texts[1]}"


def _levels(comparison: ComparisonResult) -> Replication | None:
    """Return what a comparison replicates, without the seed, which jobs draw."""
    found = comparison.rule.replication
    return None if found is None else msgspec.structs.replace(found, seed=0)


def _arms(comparison: ComparisonResult) -> str:
    return _listed(comparison.arms)


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    return list_text(named) if named else "none"


def _unlike_plans(one: TestPlan, other: TestPlan) -> Iterator[str]:
    """Yield what differs between two plans of an arm; the directory of a checkout may."""
    for mode in one.phases.__struct_fields__:
        before, after = (
            [command.text for command in getattr(plan.phases, mode)] for plan in (one, other)
        )
        if before != after:
            which = "command" if mode == "exec" else mode
            texts = ["; ".join(words) or "none" for words in (after, before)]
            yield f"another {which}: {texts[0]} instead of {texts[1]}"
    for name in ("threads", "sample", "environment", "ok_status", "timeout_ns"):
        if getattr(one, name) != getattr(other, name):
            yield f"another {name.removesuffix('_ns').replace('_', ' ')}"
    if one.metrics != other.metrics:
        names = [_listed(spec.name for spec in plan.metrics) for plan in (other, one)]
        if names[0] == names[1]:
            yield f"another definition of {names[0]}"
        else:
            yield f"other metrics: {names[0]} instead of {names[1]}"


def _unlike_metrics(before: ComparisonResult, after: ComparisonResult) -> Iterator[str]:
    judged = [
        {metric.name: metric for metric in one.rule.metrics if metric.judged}
        for one in (before, after)
    ]
    if judged[0].keys() != judged[1].keys():
        names = list(map(_listed, judged))
        yield f"other metrics are judged: {names[1]} instead of {names[0]}"
        return
    for name, metric in judged[0].items():
        other = judged[1][name]
        if metric.unit != other.unit:
            yield f"another unit of {name}: {other.unit or 'none'} instead of {metric.unit or 'none'}"
        if metric.better != other.better:
            yield f"of {name}, {other.better} is better instead of {metric.better}"
