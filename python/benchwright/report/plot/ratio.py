"""Ratios: how many times as much as the baseline, with the interval of the ratio.

Purpose: `--baseline NAME`. Of a NAME among several, each other NAME's tests are compared
with the baseline's test at the same place (Ext3 with 4 threads with Ext2 with 4
threads); of a test, or of one NAME alone, all tests with that one. Decision: ratios are
those of logarithms (pairs.py); where a value is not positive there is none, and a gap.
Non-goal: no verdict; that is `bw compare`.
"""

from __future__ import annotations

import msgspec

from benchwright.report.plot.categories import categories
from benchwright.report.plot.chart import ABSENT, Chart, Point, Series, Tick
from benchwright.report.plot.intervals import known
from benchwright.report.plot.pairs import ratio
from benchwright.report.plot.places import Place
from benchwright.report.plot.plan import Plan, legend_of, refuse, series_of
from benchwright.report.plot.source import Component, Group, Source

Pair = tuple[Source, Place, Source]
"""A test, its place, and the test that it is compared with."""


def compose(plan: Plan) -> Chart:
    """Return the chart of ratios. Raises InputError where nothing can be compared."""
    word = plan.request.baseline or plan.groups[0].name
    group = next((g for g in plan.groups if g.name == word), None)
    if group is not None and len(plan.groups) > 1:
        return _against_group(plan, group)
    if plan.request.baseline is None or group is not None:
        return _against_test(plan, plan.groups[0].sources[0])
    return _against_test(plan, _test(plan, word))


def _test(plan: Plan, word: str) -> Source:
    for _, source, _ in plan.tests():
        if word in (source.test, source.title):
            return source
    names = [group.name for group in plan.groups if len(plan.groups) > 1]
    names += [source.title for _, source, _ in plan.tests()]
    there = "there are: " + ", ".join(dict.fromkeys(names))
    raise refuse(f"no NAME and no test is {word!r}", there, "--baseline")


def _against_group(plan: Plan, baseline: Group) -> Chart:
    """Return each other NAME's tests over the baseline's test at the same place."""
    pairs_of = {}
    own = _places(plan, baseline)
    alone = len(baseline.sources) == 1
    for group, places in zip(plan.groups, plan.places.groups, strict=True):
        if group is baseline:
            continue
        pairs_of[group.name] = [
            (source, place, baseline.sources[0] if alone else own[place.label])
            for source, place in zip(group.sources, places, strict=True)
            if alone or place.label in own
        ]
        if not pairs_of[group.name]:
            what = (
                f"{group.name!r} has no test at a place where {baseline.name!r} has one"
            )
            raise refuse(what, "name what varies by -x FACTOR", "--baseline")
    if all(len(pairs) == 1 for pairs in pairs_of.values()):
        return _of_names(plan, pairs_of, baseline.name)
    order = categories(plan)
    used = {place.label for pairs in pairs_of.values() for _, place, _ in pairs}
    labels = [label for label in order if label in used]
    return _chart(plan, pairs_of, labels, baseline.name)


def _places(plan: Plan, group: Group) -> dict[str, Source]:
    at = plan.groups.index(group)
    labels = [place.label for place in plan.places.groups[at]]
    if len(set(labels)) < len(labels):
        message = f"the baseline {group.name!r} has several tests at one place"
        raise refuse(message, "name what varies by -x FACTOR", "--baseline")
    return dict(zip(labels, group.sources, strict=True))


def _of_names(plan: Plan, pairs_of: dict[str, list[Pair]], baseline: str) -> Chart:
    """Return a chart in which each NAME is a category: it has one ratio each."""
    renamed = {
        name: [(source, Place(name), over) for source, _, over in pairs]
        for name, pairs in pairs_of.items()
    }
    chart = _chart(plan, renamed, list(renamed), baseline)
    several = len(plan.components) > 1
    series = (
        msgspec.structs.replace(s, legend=s.component if several else baseline)
        for s in chart.series
    )
    return msgspec.structs.replace(chart, series=tuple(series), factor="")


def _against_test(plan: Plan, baseline: Source) -> Chart:
    """Return all other tests over one of them, each NAME in a series."""
    pairs_of = {
        group.name: [
            (source, place, baseline)
            for source, place in zip(group.sources, places, strict=True)
            if source is not baseline
        ]
        for group, places in zip(plan.groups, plan.places.groups, strict=True)
    }
    pairs_of = {name: pairs for name, pairs in pairs_of.items() if pairs}
    if not pairs_of:
        message = (
            f"{baseline.title} is the only test: there is nothing to compare it with"
        )
        raise refuse(message, "give another NAME GLOB", "GLOB")
    if len(plan.groups) > 1 and all(len(pairs) == 1 for pairs in pairs_of.values()):
        return _of_names(plan, pairs_of, baseline.title)
    used = {place.label for pairs in pairs_of.values() for _, place, _ in pairs}
    labels = [label for label in categories(plan) if label in used]
    return _chart(plan, pairs_of, labels, baseline.title)


def _chart(
    plan: Plan, pairs_of: dict[str, list[Pair]], labels: list[str], baseline: str
) -> Chart:
    groups = {group.name: group for group in plan.groups}
    series: list[Series] = []
    for component in plan.components:
        for name, pairs in pairs_of.items():
            points = [
                msgspec.structs.replace(
                    _ratio(plan, component, pair), x=float(labels.index(pair[1].label))
                )
                for pair in pairs
            ]
            points.sort(key=lambda point: point.x)
            legend = legend_of(plan, groups[name], component)
            one = series_of(groups[name], component, legend, points)
            series.append(msgspec.structs.replace(one, unit="ratio"))
    return Chart(
        mode=plan.request.mode,
        series=tuple(series),
        ylabel=_label(plan, baseline),
        ticks=tuple(Tick(float(at), label) for at, label in enumerate(labels)),
        factor=plan.places.factor,
        baseline=baseline,
    )


def _label(plan: Plan, baseline: str) -> str:
    what = (
        f"{plan.components[0].label} / " if len(plan.components) == 1 else "Ratio to "
    )
    return f"{what}{baseline}"


def _ratio(plan: Plan, component: Component, pair: Pair) -> Point:
    """Return a test's ratio to its baseline; a gap where it does not exist."""
    source, place, over = pair
    for side, why in ((source, ABSENT), (over, f"{over.title} has none")):
        if component.name not in side.columns:
            return Point(source.test, place.label, 0.0, gap=why)
    found = ratio(over, source, component.name, plan.request.confidence)
    if known(found.value) is None:
        return Point(source.test, place.label, 0.0, gap=_why(source, over, component))
    bars = plan.request.errorbars != "none" and known(found.high) is not None
    return Point(
        test=source.test,
        label=place.label,
        x=0.0,
        n=int(source.columns[component.name].values.size),
        value=found.value,
        low=known(found.low) if bars else None,
        high=known(found.high) if bars else None,
        method=found.method if bars else "",
        short=() if bars else _short(plan, (over, source), component),
    )


def _short(
    plan: Plan, pair: tuple[Source, Source], component: Component
) -> tuple[tuple[str, str], ...]:
    """Return which of two tests has a single trial: the error bar has to have two."""
    return tuple(
        (f"{group.name} {source.test}", "1 trial")
        for one in pair
        for group, source, _ in plan.tests()
        if source is one and source.columns[component.name].values.size < 2
    )


def _why(source: Source, over: Source, component: Component) -> str:
    both = (source.columns[component.name], over.columns[component.name])
    least = min(float(column.values.min()) for column in both)
    return "a value is not above 0" if least <= 0 else "no block has both"
