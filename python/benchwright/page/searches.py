"""The report of a session of `bw ramp`, `bw peak` or `bw surface`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from benchwright.core.ramp import RampAxis, RampPoint
from benchwright.core.results import Estimate, Finding
from benchwright.core.search import Criterion, LoadEnding, SearchTrial
from benchwright.core.search_text import (
    binding_criterion,
    criterion_name,
    sample_text,
)
from benchwright.core.text import duration_text, percent_text, plural
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line, visible
from benchwright.page.document import (
    Block,
    Cell,
    Column,
    Download,
    Number,
    Picture,
    ReportPart,
    Section,
    TableBlock,
    Tile,
    Tone,
    Words,
)
from benchwright.page.figures import (
    Scale,
    count_number,
    estimate_number,
    finding_lines,
    moment_text,
    number_of,
    scale_of,
    share_number,
)
from benchwright.page.origin import (
    compact_json,
    environment_section,
    facts_table,
    files_section,
    session_rows,
)
from benchwright.page.why import why_section
from benchwright.report.answer import finding_groups
from benchwright.report.charts.peak import cost_panel, peak_sheet
from benchwright.report.charts.ramp import ramp_sheet
from benchwright.report.charts.sheet import Sheet
from benchwright.report.charts.surface import surface_sheet
from benchwright.report.peak import (
    PeakReport,
    peak_fields,
    peak_headline,
    peak_sentence,
)
from benchwright.report.ramp import (
    RampReport,
    level_text,
    ramp_fields,
    ramp_headline,
    ramp_sentence,
)
from benchwright.report.searches import (
    peak_report,
    ramp_report,
    stored_verdict,
    surface_report,
)
from benchwright.report.surface import (
    SurfaceReport,
    surface_fields,
    surface_headline,
    surface_sentence,
)
from benchwright.run.explained_loads import explained_loads
from benchwright.run.ledger import Ledger
from benchwright.run.search import search_experiment
from benchwright.study.contents import machines_of, search_trials_of
from benchwright.study.findings import session_findings, stored_findings
from benchwright.study.journal import StoredSession, Study


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the page says about a search, whatever its kind."""

    status: str
    verdict: tuple[str, ...]
    tone: Tone
    tiles: tuple[Tile, ...]
    blocks: tuple[Block, ...]
    fields: tuple[Field, ...]
    findings: tuple[Finding, ...]
    document: str
    """The document that the search's own command prints with --json."""


def search_part(study: Study, session: StoredSession, part: str) -> ReportPart:
    """Return the report of a session that searches over loads."""
    ledger = Ledger(study, session.number)
    experiment: Any = search_experiment(session.info)
    verdict = stored_verdict(experiment, session, ledger)
    stored = stored_findings(study, session.number)
    about = (
        session_findings(study, session.number) if stored is None else stored.session
    )
    trials = search_trials_of(study, session.number)
    kind = session.info.kind
    answer_of = cast(Callable[..., SearchAnswer], _ANSWERS[kind])
    head = {
        "study": str(study.path),
        "session": session.number,
        "exit_status": verdict.exit_status,
    }
    answer = answer_of(part, experiment, ledger, verdict, about, head)
    named = [("", finding) for finding in answer.findings]
    sections = (
        Section(
            id=f"{part}-search",
            title=_TITLES[kind],
            lead=visible(one_line(verdict.detail)),
            blocks=answer.blocks,
        ),
        Section(
            id=f"{part}-trials",
            title="Trials",
            lead="Every load that the search applied, in order, with its cost.",
            blocks=(
                *_cost_picture(part, trials),
                _trials_table(part, trials),
            ),
        ),
        why_section(
            part,
            explained_loads(ledger, session.info),
            [one.trial for one in trials],
            study.path,
            noun="load",
        ),
        environment_section(part, machines_of(study, session.number)),
        Section(
            id=f"{part}-method",
            title="How it was measured",
            lead="What the search asked, and what is needed to run it again.",
            blocks=(
                facts_table(
                    f"{part}-method-facts",
                    "Method",
                    [*_field_rows(answer.fields), *session_rows(session)],
                ),
            ),
        ),
        files_section(
            part,
            (
                Download(
                    f"{study.path.name}-trials.csv",
                    "text/csv",
                    _trials_csv(trials),
                    "each load and its values",
                ),
                Download(
                    f"{study.path.name}-{kind}.json",
                    "application/json",
                    compact_json(answer.document),
                    f"the document of bw {kind} --json",
                ),
            ),
        ),
    )
    return ReportPart(
        id=part,
        title=visible(study.path.name),
        study=visible(str(study.path)),
        session=session.number,
        kind=kind,
        status=answer.status,
        started=moment_text(session.info.started_ns),
        verdict=tuple(map(visible, answer.verdict)),
        tone=answer.tone,
        tiles=answer.tiles,
        findings=finding_lines(finding_groups(named), named),
        sections=sections,
    )


_TITLES = {
    "peak": "Response against rate",
    "ramp": "Throughput against load",
    "surface": "Peak rate over the factors",
}


def _cost_picture(part: str, trials: Sequence[SearchTrial]) -> Iterator[Picture]:
    if not trials:
        return
    # The searches of a surface number their trials from 1 each.
    numbered = [
        msgspec.structs.replace(one, number=at) for at, one in enumerate(trials, 1)
    ]
    yield Picture(
        id=f"{part}-costs",
        title="Cost of the trials",
        sheet=Sheet("", (cost_panel(numbered),), columns=1),
        reading="The height of a bar is the time that a trial took. A search spends most of its "
        "time near the answer, where more load decides little by little.",
    )


def _tone(status: str) -> Tone:
    if status in ("found", "complete", "saturated"):
        return "good"
    return "bad" if status == "failed" else "doubtful"


def _field_rows(fields: Iterable[Field]) -> Iterator[tuple[Cell, ...]]:
    before = ""
    for name, text in fields:
        before = name or before
        yield Words(before.capitalize()), Words(visible(text))


# -- A peak search ---------------------------------------------------------------------


def _peak_answer(
    part: str,
    experiment: Any,
    ledger: Ledger,
    verdict: Any,
    about: Sequence[Finding],
    head: dict[str, Any],
) -> SearchAnswer:
    from benchwright.report.peak import peak_document

    report = peak_report(experiment, ledger, verdict, about)
    return SearchAnswer(
        status=report.status,
        verdict=(peak_headline(report), _as_sentence(peak_sentence(report))),
        tone=_tone(report.status),
        tiles=tuple(_peak_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-peak",
                title=visible(peak_sheet(report).title),
                sheet=peak_sheet(report),
                reading="Each point is a trial. The band contains the response of many trials at a "
                "rate; single trials scatter around it. The peak rate is where the curve meets the "
                "limit. The second chart has the same trials in order.",
            ),
            _claims_table(part, report),
            *_curve_table(part, report),
        ),
        fields=tuple(peak_fields(report)),
        findings=report.findings,
        document=peak_document(report, **head),
    )


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _peak_tiles(part: str, report: PeakReport) -> Iterator[Tile]:
    result, link = report.result, f"{part}-all-trials"
    if result is not None and result.peak_rate is not None:
        scale = scale_of([result.peak_rate], "/s", 5)
        rate = estimate_number(f"{part}.peak", result.interval, scale, link=link)
        if result.interval is None:
            rate = number_of(f"{part}.peak", result.peak_rate, scale, link=link)
        yield Tile("Peak rate", rate)
        if result.claim_probability is not None:
            yield Tile(
                f"Claim {report.claims[0].text}",
                share_number(f"{part}.claim", result.claim_probability, link=link),
                "probability that it holds",
            )
    yield from _cost_tiles(part, report.trials)


def _cost_tiles(part: str, trials: Sequence[SearchTrial]) -> Iterator[Tile]:
    spent = sum(trial.trial.cost_s for trial in trials)
    load = sum(trial.trial.lasted_s for trial in trials)
    link = f"{part}-all-trials"
    yield Tile(
        "Cost",
        _duration(f"{part}.cost", spent, link),
        f"{duration_text(load)} of it under load",
    )
    yield Tile("Trials", count_number(f"{part}.trials", len(trials), link=link))


def _duration(key: str, seconds: float, link: str) -> Number:
    return Number(key=key, value=seconds, text=duration_text(seconds), link=link)


def _claims_table(part: str, report: PeakReport) -> TableBlock:
    rows = []
    for number, (claim, result) in enumerate(
        zip(report.claims, report.results, strict=True), 1
    ):
        key = f"{part}.claim{number}"
        rate = None if result is None else result.peak_rate
        interval = None if result is None else result.interval
        scale = scale_of([rate], "/s", 5)
        rows.append(
            (
                Words(claim.text, code=True),
                Words("open" if result is None else str(result.status)),
                number_of(f"{key}.rate", rate, scale)
                if interval is None
                else estimate_number(f"{key}.rate", interval, scale),
                share_number(
                    f"{key}.probability",
                    None if result is None else result.claim_probability,
                ),
            )
        )
    return TableBlock(
        id=f"{part}-claims",
        title="Claims",
        columns=(
            Column("Claim"),
            Column("Status"),
            Column("Rate", numeric=True),
            Column("Probability", numeric=True),
        ),
        rows=tuple(rows),
    )


def _criterion_scale(criterion: Criterion, values: Iterable[float | None]) -> Scale:
    """Return the scale of a criterion's values."""
    if criterion.statistic not in ("share", "ratio"):
        return scale_of(values, criterion.unit)
    scale = scale_of([None if v is None else 100 * v for v in values], "%")
    return msgspec.structs.replace(scale, size=scale.size / 100)


def _curve_table(part: str, report: PeakReport) -> Iterator[TableBlock]:
    result = report.result
    if result is None or not result.curve:
        return
    criterion = binding_criterion(result, report.criteria) or report.criteria[0]
    scale = _criterion_scale(criterion, (point.middle for point in result.curve))
    rates = scale_of((point.rate for point in result.curve), "/s", 5)
    interval = result.interval
    level = 0.95 if interval is None else interval.confidence
    rows = [
        (
            number_of(f"{part}.curve.{at}.rate", point.rate, rates),
            estimate_number(
                f"{part}.curve.{at}",
                Estimate(point.middle, point.low, point.high, level, "posterior", 0),
                scale,
            ),
        )
        for at, point in enumerate(result.curve, 1)
    ]
    yield TableBlock(
        id=f"{part}-curve",
        title=f"The curve in {plural(len(rows), 'point')}",
        columns=(
            Column("Rate", numeric=True),
            Column(f"{criterion_name(criterion).capitalize()}, band", numeric=True),
        ),
        rows=tuple(rows),
        folded=True,
    )


# -- A ramp ----------------------------------------------------------------------------


def _ramp_answer(
    part: str,
    experiment: Any,
    ledger: Ledger,
    verdict: Any,
    about: Sequence[Finding],
    head: dict[str, Any],
) -> SearchAnswer:
    from benchwright.decide.ramp.profile import band_of
    from benchwright.report.ramp import ramp_document

    report = ramp_report(experiment, ledger, verdict, about)
    band = band_of(report.goal, [trial.trial for trial in report.trials])
    return SearchAnswer(
        status=report.status,
        verdict=(ramp_headline(report), _as_sentence(ramp_sentence(report))),
        tone=_tone(report.status),
        tiles=tuple(_ramp_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-ramp",
                title=visible(ramp_sheet(report, band).title),
                sheet=ramp_sheet(report, band),
                reading="Points are measured levels with their intervals; the band contains the "
                "fitted law. Where the points leave the dashed line, each unit of load brings less "
                "throughput than the first.",
            ),
            *_levels_table(part, report),
            *_law_table(part, report),
        ),
        fields=tuple(ramp_fields(report)),
        findings=report.findings,
        document=ramp_document(report, band, **head),
    )


def _ramp_tiles(part: str, report: RampReport) -> Iterator[Tile]:
    result = report.result
    link = f"{part}-all-trials"
    if result is not None and result.points:
        point = result.saturation or max(
            result.points, key=lambda one: one.throughput.value
        )
        what = "Saturation" if result.saturation is not None else "Highest throughput"
        rate = estimate_number(
            f"{part}.saturation",
            point.throughput,
            scale_of([point.throughput.value], "/s"),
            link=link,
        )
        yield Tile(what, rate, level_text(point.level, result.axis))
        if result.usl is not None and result.usl.users_at_peak is not None:
            users = result.usl.users_at_peak
            yield Tile(
                "Users at the law's maximum",
                estimate_number(
                    f"{part}.law.users", users, scale_of([users.value], ""), link=link
                ),
            )
    yield from _cost_tiles(part, report.trials)


def _levels_table(part: str, report: RampReport) -> Iterator[TableBlock]:
    result = report.result
    if result is None or not result.points:
        return
    points, link = result.points, f"{part}-all-trials"
    flows = scale_of((point.throughput.value for point in points), "/s")
    responses: list[tuple[str, Callable[[RampPoint], float | None]]] = [
        ("Mean response", lambda point: point.response_ms_mean),
        ("p50", lambda point: point.response_ms_p50),
        ("p99", lambda point: point.response_ms_p99),
    ]
    responses = [one for one in responses if any(one[1](point) for point in points)]
    times = scale_of((get(point) for _, get in responses for point in points), "ms")
    rows = []
    for at, point in enumerate(points, 1):
        key = f"{part}.level{at}"
        rows.append(
            (
                number_of(key, point.level, scale_of([p.level for p in points], "")),
                estimate_number(
                    f"{key}.throughput", point.throughput, flows, link=link
                ),
                *(
                    number_of(f"{key}.{name.lower()}", get(point), times, link=link)
                    for name, get in responses
                ),
                share_number(f"{key}.efficiency", point.efficiency),
                share_number(f"{key}.errors", point.error_share, link=link),
                count_number(f"{key}.trials", point.trials, link=link),
            )
        )
    label = "Users" if result.axis is RampAxis.USERS else "Rate [1/s]"
    yield TableBlock(
        id=f"{part}-levels",
        title="Levels",
        columns=(
            Column(label, numeric=True),
            Column("Throughput, interval", numeric=True),
            *(Column(name, numeric=True) for name, _ in responses),
            Column(
                "Efficiency", "throughput per unit of load, of the first level's", True
            ),
            Column("Errors", numeric=True),
            Column("Trials", numeric=True),
        ),
        rows=tuple(rows),
    )


def _law_table(part: str, report: RampReport) -> Iterator[TableBlock]:
    fit = None if report.result is None else report.result.usl
    if fit is None:
        return
    parameters = (
        ("gamma", "throughput of one user", fit.gamma, "/s"),
        ("sigma", "contention", fit.sigma, ""),
        ("kappa", "coherency", fit.kappa, ""),
    )
    yield TableBlock(
        id=f"{part}-law",
        title=f"Universal Scalability Law, fitted to {plural(fit.n, 'level')}",
        columns=(
            Column("Parameter"),
            Column("Meaning"),
            Column("Value, interval", numeric=True),
        ),
        rows=tuple(
            (
                Words(name, code=True),
                Words(meaning),
                estimate_number(f"{part}.law.{name}", one, scale_of([one.value], unit)),
            )
            for name, meaning, one, unit in parameters
        ),
        note=f"Preferred: {fit.preferred}.",
    )


# -- A surface -------------------------------------------------------------------------


def _surface_answer(
    part: str,
    experiment: Any,
    ledger: Ledger,
    verdict: Any,
    about: Sequence[Finding],
    head: dict[str, Any],
) -> SearchAnswer:
    from benchwright.report.surface import surface_document

    report = surface_report(experiment, ledger, verdict, about)
    sheet = surface_sheet(report.goal, report.result)
    return SearchAnswer(
        status=report.status,
        verdict=(surface_headline(report), _as_sentence(surface_sentence(report))),
        tone=_tone(report.status),
        tiles=tuple(_surface_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-surface",
                title="Peak rate over the factors",
                sheet=sheet,
                reading="Colours and lines are the model; rings are measured samples. Between "
                "the samples the model predicts, with the bands of the table.",
            ),
            _samples_table(part, report),
        ),
        fields=tuple(surface_fields(report)),
        findings=report.findings,
        document=surface_document(report, **head),
    )


def _surface_tiles(part: str, report: SurfaceReport) -> Iterator[Tile]:
    result, link = report.result, f"{part}-samples"
    known = [one for one in result.results if one.found.peak_rate is not None]
    if known:
        best = max(known, key=lambda one: one.found.peak_rate or 0)
        scale = scale_of([best.found.peak_rate], "/s", 5)
        number = estimate_number(
            f"{part}.highest", best.found.interval, scale, link=link
        )
        if best.found.interval is None:
            number = number_of(
                f"{part}.highest", best.found.peak_rate, scale, link=link
            )
        yield Tile("Highest peak rate", number, visible(sample_text(best.sample)))
    if result.validation is not None:
        error = result.validation.error
        plain = share_number(f"{part}.error", error.value, link=link)
        yield Tile(
            "Cross-validated error",
            msgspec.structs.replace(
                plain,
                low=error.low,
                high=error.high,
                low_text=percent_text(error.low).removesuffix(" %"),
                high_text=percent_text(error.high),
            ),
        )
    yield Tile(
        "Cost",
        _duration(f"{part}.cost", result.cost_s, link),
        f"{duration_text(result.load_s)} of it under load",
    )
    yield Tile("Trials", count_number(f"{part}.trials", result.trials))


def _samples_table(part: str, report: SurfaceReport) -> TableBlock:
    results = {one.sample: one for one in report.result.results}
    predictions = {one.sample: one for one in report.result.predictions}
    scale = scale_of(
        [one.found.peak_rate for one in results.values()]
        + [one.value for one in predictions.values()],
        "/s",
        5,
    )
    rows: list[tuple[Cell, ...]] = []
    for at, sample in enumerate(dict.fromkeys((*results, *predictions)), 1):
        key = f"{part}.sample{at}"
        measured, predicted = results.get(sample), predictions.get(sample)
        found = None if measured is None else measured.found
        band = None
        if predicted is not None:
            band = Estimate(
                predicted.value,
                predicted.low,
                predicted.high,
                report.goal.confidence,
                "model",
                0,
            )
        cell = estimate_number(key, None if found is None else found.interval, scale)
        if found is not None and found.interval is None:
            cell = number_of(key, found.peak_rate, scale)
        rows.append(
            (
                *(Words(visible(level)) for _, level in sample),
                cell,
                Words("predicted" if found is None else str(found.status)),
                estimate_number(f"{key}.model", band, scale),
                count_number(f"{key}.trials", 0 if found is None else found.trials),
                number_of(
                    f"{key}.cost",
                    None if found is None else found.cost_s,
                    scale_of([one.found.cost_s for one in results.values()], "s", 3),
                ),
            )
        )
    return TableBlock(
        id=f"{part}-samples",
        title="Samples",
        columns=(
            *(Column(visible(factor.name)) for factor in report.goal.factors),
            Column("Measured, interval", numeric=True),
            Column("Status"),
            Column("Model, band", numeric=True),
            Column("Trials", numeric=True),
            Column("Cost", numeric=True),
        ),
        rows=tuple(rows),
    )


_ANSWERS = {"peak": _peak_answer, "ramp": _ramp_answer, "surface": _surface_answer}


# -- Trials ----------------------------------------------------------------------------

_ENDINGS: dict[LoadEnding, tuple[str, Tone]] = {
    LoadEnding.WHOLE: ("whole", "plain"),
    LoadEnding.LEFT: ("ended early", "plain"),
    LoadEnding.FAILED: ("failed", "bad"),
}


def _trials_table(part: str, trials: Sequence[SearchTrial]) -> TableBlock:
    names = list(dict.fromkeys(name for one in trials for name in one.trial.values))[:6]
    in_users = any(one.probe.users is not None for one in trials)
    loads = scale_of([one.trial.rate for one in trials], "" if in_users else "/s", 5)
    costs = scale_of([one.trial.cost_s for one in trials], "s", 3)
    scales = [
        scale_of([one.trial.values.get(name) for one in trials], "") for name in names
    ]
    sampled = any(one.sample for one in trials)
    rows: list[tuple[Cell, ...]] = []
    for at, one in enumerate(trials, 1):
        key, trial = f"{part}.trial{at}", one.trial
        text, tone = _ENDINGS[trial.ending]
        if trial.failure:
            text = f"{text}: {one_line(trial.failure)}"
        rows.append(
            (
                Words(str(one.number)),
                *([Words(visible(sample_text(one.sample)))] if sampled else []),
                number_of(f"{key}.rate", trial.rate, loads),
                number_of(f"{key}.lasted", trial.lasted_s, costs),
                number_of(f"{key}.cost", trial.cost_s, costs),
                *(
                    number_of(f"{key}.{name}", trial.values.get(name), scale)
                    for name, scale in zip(names, scales, strict=True)
                ),
                Words(visible(one.probe.purpose)),
                Words(visible(text), tone=tone),
            )
        )
    return TableBlock(
        id=f"{part}-all-trials",
        title=plural(len(trials), "trial"),
        columns=(
            Column("Trial"),
            *([Column("Sample")] if sampled else []),
            Column("Users" if in_users else "Rate", numeric=True),
            Column("Load lasted", numeric=True),
            Column("Cost", "with the start and stop of the server", numeric=True),
            *(Column(visible(name), numeric=True) for name in names),
            Column("Purpose"),
            Column("Ended"),
        ),
        rows=tuple(rows),
    )


def _trials_csv(trials: Sequence[SearchTrial]) -> str:
    names = list(dict.fromkeys(name for one in trials for name in one.trial.values))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ("trial", "sample", "rate", "users", "lasted_s", "cost_s", "ending")
    writer.writerow((*head, *names))
    for one in trials:
        trial = one.trial
        writer.writerow(
            (
                one.number,
                sample_text(one.sample),
                repr(trial.rate),
                one.probe.users,
                repr(trial.lasted_s),
                repr(trial.cost_s),
                str(trial.ending),
                *(
                    repr(trial.values[name]) if name in trial.values else ""
                    for name in names
                ),
            )
        )
    return text.getvalue()
