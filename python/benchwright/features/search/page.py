"""The report of a session of `bw ramp`, `bw peak` or `bw surface`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import duration_text, moment_text, percent_text, plural
from benchwright.core.text_table import Field
from benchwright.core.untrusted import one_line, visible
from benchwright.features.load.trial import LoadEnding
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.explained import explained_loads
from benchwright.features.search.peak.chart import cost_panel, peak_sheet
from benchwright.features.search.peak.report import (
    PeakReport,
    peak_document,
    peak_fields,
    peak_headline,
    peak_sentence,
)
from benchwright.features.search.ramp.chart import ramp_sheet
from benchwright.features.search.ramp.profile import band_of
from benchwright.features.search.ramp.report import (
    RampReport,
    level_text,
    ramp_document,
    ramp_fields,
    ramp_headline,
    ramp_sentence,
)
from benchwright.features.search.ramp.types import RampAxis, RampPoint, ScalabilityModel
from benchwright.features.search.reports import (
    found_peaks,
    open_search,
    peak_report,
    ramp_report,
    surface_report,
)
from benchwright.features.search.responses_chart import response_tests
from benchwright.features.search.stored import search_trials_of
from benchwright.features.search.surface.chart import surface_sheet
from benchwright.features.search.surface.report import (
    SurfaceReport,
    named_findings,
    peak_order,
    surface_document,
    surface_fields,
    surface_headline,
    surface_sentence,
)
from benchwright.features.search.surface.types import Sample
from benchwright.features.search.text import binding_criterion, open_answer_text, sample_text
from benchwright.features.search.types import ClaimResult, PeakStatus, SearchTrial
from benchwright.page.document import ReportPart
from benchwright.page.origin import (
    compact_json,
    environment_section,
    facts_table,
    files_section,
    session_rows,
)
from benchwright.page.sections import added_sections
from benchwright.page.trial_charts import normal_pictures
from benchwright.page.why import why_section
from benchwright.report.answer import finding_groups
from benchwright.report.charts.sheet import Sheet
from benchwright.study.contents import machines_of
from benchwright.study.findings import findings_about_session
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Block,
    Cell,
    Column,
    Download,
    Number,
    Picture,
    Section,
    TableBlock,
    Tile,
    Tone,
    Words,
)
from benchwright.views.figures import (
    Scale,
    as_sentence,
    count_column,
    count_number,
    estimate_number,
    finding_lines,
    keyed,
    number_of,
    scale_of,
    share_number,
    table_of,
)
from benchwright.views.why import named_results


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the page has about a search of one kind."""

    report: PeakReport | RampReport | SurfaceReport
    headline: str
    sentence: str
    tiles: tuple[Tile, ...]
    blocks: tuple[Block, ...]
    fields: tuple[Field, ...]
    findings: tuple[tuple[str, Finding], ...]
    """Each with the sample that it concerns, if it does not concern all of them."""
    document: str
    """The document that the search's own command prints with --json."""


def search_part(study: Study, session: StoredSession, part: str) -> ReportPart:
    """Return the report of a session that searches over loads."""
    experiment, ledger, verdict = open_search(study, session)
    about = findings_about_session(study, session.number)
    trials = search_trials_of(study, session.number)
    loads = explained_loads(ledger, session.info)
    kind = session.info.kind
    head = StoredSearch(
        study=str(study.path), session=session.number, exit_status=verdict.exit_status
    )
    if kind == "peak":
        peak = peak_report(experiment, ledger, verdict, about, loads)
        answer = _peak_answer(part, peak, head)
    elif kind == "ramp":
        ramp = ramp_report(experiment, ledger, verdict, about, loads)
        answer = _ramp_answer(part, ramp, head)
    else:
        surface = surface_report(experiment, ledger, verdict, about)
        answer = _surface_answer(part, surface, head)
    status = answer.report.status
    tone: Tone = "bad" if status == "failed" else "doubtful"
    if status in ("found", "complete", "saturated"):
        tone = "good"
    sections = (
        Section(
            id=f"{part}-search",
            title=_TITLES[kind],
            lead=visible(one_line(verdict.detail)),
            blocks=answer.blocks,
        ),
        *added_sections(part, study, session),
        Section(
            id=f"{part}-trials",
            title="Trials",
            lead="Every load that the search applied, in order, with its cost.",
            blocks=(
                *_cost_picture(part, trials),
                *normal_pictures(
                    f"{part}-normal",
                    response_tests(
                        trials, experiment.criteria, found_peaks(experiment, ledger, trials)
                    ),
                ),
                _trials_table(part, trials, experiment.criteria),
            ),
        ),
        why_section(
            part,
            named_results(loads),
            [one.trial.use for one in trials if one.trial.use is not None],
            [one.trial.profile for one in trials if one.trial.profile is not None],
            study.path,
            noun="load",
        ),
        environment_section(part, machines_of(study, session.number)),
        Section(
            id=f"{part}-method",
            title="How it was measured",
            lead="The request, how the search ended, and what is needed to run it again.",
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
        status=status,
        started=moment_text(session.info.started_ns),
        verdict=(visible(answer.headline), visible(as_sentence(answer.sentence))),
        tone=tone,
        tiles=answer.tiles,
        findings=finding_lines(finding_groups(answer.findings), answer.findings),
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
    numbered = [msgspec.structs.replace(one, number=at) for at, one in enumerate(trials, 1)]
    yield Picture(
        id=f"{part}-costs",
        title="Cost of the trials",
        sheet=Sheet("", (cost_panel(numbered),), columns=1),
        reading="Each bar is a trial, in the order of time; its height is the time that the trial "
        "took. A search needs most of its time near the answer, where the trials are longer.",
    )


def _field_rows(fields: Iterable[Field]) -> Iterator[tuple[Cell, ...]]:
    before = ""
    for name, text in fields:
        before = name or before
        yield Words(before.capitalize()), Words(visible(text))


# -- A peak search ---------------------------------------------------------------------


def _peak_answer(part: str, report: PeakReport, head: StoredSearch) -> SearchAnswer:
    sheet = peak_sheet(report)
    return SearchAnswer(
        report=report,
        headline=peak_headline(report),
        sentence=peak_sentence(report),
        tiles=tuple(_peak_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-peak",
                title=visible(sheet.title),
                sheet=sheet,
                reading="Each point is a trial. The band is for many trials at a rate together, so "
                "single trials can be outside it. The peak rate is where the curve reaches the "
                "limit. The second chart shows the same trials in order.",
            ),
            _claims_table(part, report),
            *_curve_table(part, report),
        ),
        fields=tuple(peak_fields(report)),
        findings=tuple(("", finding) for finding in report.findings),
        document=peak_document(report, **head),
    )


def _peak_tiles(part: str, report: PeakReport) -> Iterator[Tile]:
    result, link = report.result, f"{part}-all-trials"
    if result is not None and result.peak_rate is not None:
        yield Tile("Peak rate", _peak_rate(f"{part}.peak", result, link=link))
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
        "Cost", _duration(f"{part}.cost", spent, link), f"{duration_text(load)} of it under load"
    )
    yield Tile("Trials", count_number(f"{part}.trials", len(trials), link=link))


def _duration(key: str, seconds: float, link: str) -> Number:
    return Number(key=key, value=seconds, text=duration_text(seconds), link=link)


def _claims_table(part: str, report: PeakReport) -> TableBlock:
    return table_of(
        f"{part}-claims",
        "Claims",
        keyed(f"{part}.claim", zip(report.claims, report.results, strict=True)),
        (
            (Column("Claim"), lambda _, one: Words(one[0].text, code=True)),
            (Column("Status"), lambda _, one: Words("open" if one[1] is None else one[1].status)),
            (Column("Rate", numeric=True), lambda key, one: _peak_rate(f"{key}.rate", one[1])),
            (
                Column("Probability", numeric=True),
                lambda key, one: share_number(
                    f"{key}.probability", None if one[1] is None else one[1].claim_probability
                ),
            ),
        ),
    )


def _peak_rate(
    key: str, found: ClaimResult | None, scale: Scale | None = None, link: str = ""
) -> Number:
    """Return a peak rate with its interval, if the search has one."""
    rate = None if found is None else found.peak_rate
    scale = scale or scale_of([rate], "/s", 5)
    if found is None or found.interval is None:
        return number_of(key, rate, scale, link=link)
    return estimate_number(key, found.interval, scale, link=link)


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
    yield table_of(
        f"{part}-curve",
        f"The curve in {plural(len(result.curve), 'point')}",
        keyed(f"{part}.curve.", result.curve),
        (
            (
                Column("Rate", numeric=True),
                lambda key, point: number_of(f"{key}.rate", point.rate, rates),
            ),
            (
                Column(f"{criterion_name(criterion).capitalize()}, band", numeric=True),
                lambda key, point: estimate_number(
                    key, Estimate(point.middle, point.low, point.high, level, "posterior", 0), scale
                ),
            ),
        ),
        folded=True,
    )


# -- A ramp ----------------------------------------------------------------------------


def _ramp_answer(part: str, report: RampReport, head: StoredSearch) -> SearchAnswer:
    band = band_of(report.goal, [trial.trial for trial in report.trials])
    sheet = ramp_sheet(report, band)
    return SearchAnswer(
        report=report,
        headline=ramp_headline(report),
        sentence=ramp_sentence(report),
        tiles=tuple(_ramp_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-ramp",
                title=visible(sheet.title),
                sheet=sheet,
                reading="The points are measured levels with their intervals. The line is the law that the "
                "answer states; the band is that of the Universal Scalability Law. Below the dashed line, a unit of load adds less throughput than at the "
                "first level.",
            ),
            *_levels_table(part, report),
            *_law_table(part, report),
        ),
        fields=tuple(ramp_fields(report)),
        findings=tuple(("", finding) for finding in report.findings),
        document=ramp_document(report, band, **head),
    )


def _ramp_tiles(part: str, report: RampReport) -> Iterator[Tile]:
    result = report.result
    link = f"{part}-all-trials"
    if result is not None and result.points:
        point = result.saturation or max(result.points, key=lambda one: one.throughput.value)
        what = "Saturation" if result.saturation is not None else "Highest throughput"
        rate = estimate_number(
            f"{part}.saturation",
            point.throughput,
            scale_of([point.throughput.value], "/s"),
            link=link,
        )
        yield Tile(what, rate, level_text(point.level, result.axis))
        fit = result.usl
        users = None if fit is None else fit.users_at_peak
        if users is not None and fit is not None and fit.preferred is ScalabilityModel.USL:
            yield Tile(
                "Users at the law's maximum",
                estimate_number(f"{part}.law.users", users, scale_of([users.value], ""), link=link),
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
        ("Late p99", lambda point: point.late_p99_ms),
    ]
    responses = [one for one in responses if any(one[1](point) for point in points)]
    times = scale_of((get(point) for _, get in responses for point in points), "ms")
    levels = scale_of((point.level for point in points), "")

    def response(
        name: str, get: Callable[[RampPoint], float | None]
    ) -> Callable[[str, RampPoint], Cell]:
        return lambda key, point: number_of(f"{key}.{name.lower()}", get(point), times, link=link)

    yield table_of(
        f"{part}-levels",
        "Levels",
        keyed(f"{part}.level", points),
        (
            (
                Column("Users" if result.axis is RampAxis.USERS else "Rate [1/s]", numeric=True),
                lambda key, point: number_of(key, point.level, levels),
            ),
            (
                Column("Throughput, interval", numeric=True),
                lambda key, point: estimate_number(
                    f"{key}.throughput", point.throughput, flows, link=link
                ),
            ),
            *((Column(name, numeric=True), response(name, get)) for name, get in responses),
            (
                Column(
                    "Efficiency", "throughput per unit of load, of the first level's", numeric=True
                ),
                lambda key, point: share_number(f"{key}.efficiency", point.efficiency),
            ),
            (
                Column("Errors", numeric=True),
                lambda key, point: share_number(f"{key}.errors", point.error_share, link=link),
            ),
            count_column("Trials", "trials", lambda point: point.trials, link=lambda _: link),
        ),
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
    yield table_of(
        f"{part}-law",
        f"Universal Scalability Law, fitted to {plural(fit.n, 'trial')}",
        [(f"{part}.law.{one[0]}", one) for one in parameters],
        (
            (Column("Parameter"), lambda _, one: Words(one[0], code=True)),
            (Column("Meaning"), lambda _, one: Words(one[1])),
            (
                Column("Value, interval", numeric=True),
                lambda key, one: estimate_number(key, one[2], scale_of([one[2].value], one[3])),
            ),
        ),
        note=f"Preferred: {fit.preferred}.",
    )


# -- A surface -------------------------------------------------------------------------


def _surface_answer(part: str, report: SurfaceReport, head: StoredSearch) -> SearchAnswer:
    sheet, crosses = surface_sheet(report.goal, report.result), ""
    if not all(one.claim_held for one in report.result.results):
        crosses = (
            "A cross is a sample whose search ended without its claim: its rate is the best "
            "answer so far (~) or a bound. "
        )
    if sheet.note:
        crosses += f"{as_sentence(sheet.note)} "
    return SearchAnswer(
        report=report,
        headline=surface_headline(report),
        sentence=surface_sentence(report),
        tiles=tuple(_surface_tiles(part, report)),
        blocks=(
            Picture(
                id=f"{part}-surface",
                title="Peak rate [1/s]: the model and the samples",
                sheet=sheet,
                reading="The colors show the model's peak rate. The rings are measured samples. "
                f"{visible(crosses)}The table has their intervals and the bands of the model.",
            ),
            _samples_table(part, report),
        ),
        fields=tuple(surface_fields(report)),
        findings=tuple(named_findings(report)),
        document=surface_document(report, **head),
    )


def _surface_tiles(part: str, report: SurfaceReport) -> Iterator[Tile]:
    result, link = report.result, f"{part}-samples"
    order = peak_order(result)
    if order.measured:
        best, note = (order.measured[0], "which sample has the highest is not established")
        established = not order.open and len(order.highest) == 1
        if established:
            (highest,) = order.highest
            note = sample_text(highest.sample)
            if highest is not best:
                note = f"{open_answer_text(highest.found)} at {note}"
        yield Tile(
            "Highest peak rate"
            if established and order.highest[0] is best
            else "Highest measured peak rate",
            _peak_rate(f"{part}.highest", best.found, link=link),
            visible(note),
        )
    if result.results:
        yield Tile(
            "Claim held",
            count_number(f"{part}.held", len(order.measured), link=link),
            f"of {plural(result.searched, 'sample')} searched",
        )
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


def _held(found: ClaimResult | None) -> bool:
    return found is not None and found.status is PeakStatus.FOUND


def _open_text(found: ClaimResult | None) -> str:
    return "" if found is None else open_answer_text(found)


def _samples_table(part: str, report: SurfaceReport) -> TableBlock:
    results = report.result.results
    predictions = {one.sample: one for one in report.result.predictions}
    scale = scale_of(
        [one.found.peak_rate for one in results] + [one.value for one in predictions.values()],
        "/s",
        5,
    )
    costs = scale_of([one.found.cost_s for one in results], "s", 3)
    confidence = report.goal.confidence
    level = percent_text(confidence, 10)

    def modelled(key: str, sample: Sample) -> Cell:
        one = predictions.get(sample)
        band = None
        if one is not None:
            band = Estimate(one.value, one.low, one.high, confidence, "model", 0)
        return estimate_number(f"{key}.model", band, scale)

    searched = {one.sample for one in results}
    rows: list[tuple[Sample, ClaimResult | None, str]] = [
        *((one.sample, one.found, one.gang) for one in results),
        *((sample, None, "") for sample in predictions if sample not in searched),
    ]
    extra = tuple[Column, Callable[[str, tuple[Sample, ClaimResult | None, str]], Cell]]
    gang: extra = (Column("Gang"), lambda _, one: Words(visible(one[2])))
    is_open: extra = (
        Column("Claim not held"),
        lambda _, one: Words("" if _held(one[1]) else _open_text(one[1])),
    )
    return table_of(
        f"{part}-samples",
        "Samples",
        keyed(f"{part}.sample", rows),
        (
            *(
                (
                    Column(visible(factor.name)),
                    lambda _, one, place=place: Words(visible(one[0][place][1])),
                )
                for place, factor in enumerate(report.goal.factors)
            ),
            *((gang,) if any(one.gang for one in results) else ()),
            (
                Column(f"Measured, {level} interval", numeric=True),
                lambda key, one: _peak_rate(key, one[1] if _held(one[1]) else None, scale),
            ),
            *(() if all(one.claim_held for one in results) else (is_open,)),
            (
                Column("Status"),
                lambda _, one: Words("predicted" if one[1] is None else one[1].status),
            ),
            (Column(f"Model, {level} band", numeric=True), lambda key, one: modelled(key, one[0])),
            count_column("Trials", "trials", lambda one: 0 if one[1] is None else one[1].trials),
            (
                Column("Cost", numeric=True),
                lambda key, one: number_of(
                    f"{key}.cost", None if one[1] is None else one[1].cost_s, costs
                ),
            ),
        ),
    )


# -- Trials ----------------------------------------------------------------------------

_ENDINGS: dict[LoadEnding, tuple[str, Tone]] = {
    LoadEnding.WHOLE: ("whole", "plain"),
    LoadEnding.LEFT: ("ended early", "plain"),
    LoadEnding.FAILED: ("failed", "bad"),
}


_MOST_VALUES = 4
"""Values of a trial in the table, which is as wide as the page; the file of the section Data has
all."""


def _trials_table(
    part: str, trials: Sequence[SearchTrial], criteria: Sequence[Criterion]
) -> TableBlock:
    """Return a row for each trial, with the values of the criteria first."""
    measured = {name for one in trials for name in one.trial.values}
    names = list(
        dict.fromkeys(
            (
                *(one.key for one in criteria if one.key in measured),
                *(name for one in trials for name in one.trial.values),
            )
        )
    )[:_MOST_VALUES]
    # A peak search begins with a closed loop, which is at no rate; a ramp may have only closed
    # loops.
    in_users = all(one.probe.users is not None for one in trials)

    def load(one: SearchTrial) -> float | None:
        is_shown = in_users or one.probe.users is None
        return one.trial.rate if is_shown else None

    loads = scale_of([load(one) for one in trials], "" if in_users else "/s", 5)
    costs = scale_of([one.trial.cost_s for one in trials], "s", 3)
    scales = [scale_of([one.trial.values.get(name) for one in trials], "") for name in names]
    lates = [one.trial.late_p99_ms for one in trials]
    late_scale = scale_of(lates, "ms")
    sampled = any(one.sample for one in trials)

    def ending(_: str, one: SearchTrial) -> Cell:
        text, tone = _ENDINGS[one.trial.ending]
        if one.trial.failure:
            text = f"{text}: {one_line(one.trial.failure)}"
        return Words(visible(text), tone=tone)

    def value(name: str, scale: Scale) -> Callable[[str, SearchTrial], Cell]:
        return lambda key, one: number_of(f"{key}.{name}", one.trial.values.get(name), scale)

    columns: list[tuple[Column, Callable[[str, SearchTrial], Cell]]] = [
        (
            Column("Trial of the sample" if sampled else "Trial"),
            lambda _, one: Words(str(one.number)),
        )
    ]
    if sampled:
        columns.append((Column("Sample"), lambda _, one: Words(visible(sample_text(one.sample)))))
    columns += [
        (
            Column("Users" if in_users else "Rate", numeric=True),
            lambda key, one: number_of(f"{key}.rate", load(one), loads),
        ),
        (
            Column("Load lasted", numeric=True),
            lambda key, one: number_of(f"{key}.lasted", one.trial.lasted_s, costs),
        ),
        (
            Column("Cost", "with the start and stop of the server", numeric=True),
            lambda key, one: number_of(f"{key}.cost", one.trial.cost_s, costs),
        ),
        *(
            (Column(visible(name), numeric=True), value(name, scale))
            for name, scale in zip(names, scales, strict=True)
        ),
    ]
    if any(late is not None for late in lates):
        columns.append(
            (
                Column("Late p99", "how late the generator came to its operations", numeric=True),
                lambda key, one: number_of(f"{key}.late", one.trial.late_p99_ms, late_scale),
            )
        )
    columns += [
        (Column("Purpose"), lambda _, one: Words(visible(one.probe.purpose))),
        (Column("Ended"), ending),
    ]
    return table_of(
        f"{part}-all-trials", plural(len(trials), "trial"), keyed(f"{part}.trial", trials), columns
    )


def _trials_csv(trials: Sequence[SearchTrial]) -> str:
    names = list(dict.fromkeys(name for one in trials for name in one.trial.values))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = (*("trial", "sample", "rate", "users", "lasted_s", "cost_s", "ending"), "late_p99_ms")
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
                "" if trial.late_p99_ms is None else repr(trial.late_p99_ms),
                *(repr(trial.values[name]) if name in trial.values else "" for name in names),
            )
        )
    return text.getvalue()
