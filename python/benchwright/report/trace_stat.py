"""What a trace is like, for a person: one dense page.

Decision: each figure stands beside what it is to be compared with (Poisson arrivals have an
index of dispersion of 1 at every scale), and what was sampled says so. Non-goal: the series,
which `--json` has and `--plot` draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.finding.load import time_words
from benchwright.finding.words import counted
from benchwright.model.finding import Finding
from benchwright.model.load import Times
from benchwright.model.trace_stat import Sequentiality, StatResult
from benchwright.model.visible import visible_lines
from benchwright.report.findings import finding_line
from benchwright.report.load import bytes_words
from benchwright.report.trace_reading import reading_lines, row

_SIZES = 6
_QUANTILES = (
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p99.9", "p99_9"),
    ("max", "max"),
)


def stat_text(result: StatResult, findings: Sequence[Finding]) -> str:
    """Return the report, ended by a newline; findings follow."""
    lines = [*_head(result), *_kinds(result)]
    if result.operations:
        lines += ["", *_arrivals(result), "", *_places(result), "", *_times(result)]
    lines += ["", *reading_lines(result.report)]
    if findings:
        lines += ["", *(finding_line(one) for one in findings)]
    return visible_lines("\n".join(lines)) + "\n"


def _head(result: StatResult) -> Iterator[str]:
    rate = "" if result.rate_per_s is None else f", {result.rate_per_s:,.4g}/s"
    yield ", ".join(result.report.paths)
    yield (
        f"{counted(result.operations, 'operation')} in {seconds_words(result.duration_ns)}{rate}, "
        f"{bytes_words(result.bytes)}"
        + (f", {result.errors:,} failed" if result.errors else "")
    )


def _kinds(result: StatResult) -> Iterator[str]:
    if not result.operations:
        return
    yield ""
    heads = ("operations", "share", "size", "share", "mean size")
    yield row("", "".join(f"{head:>12}" for head in heads))
    for name, kind in result.kinds.items():
        cells = (
            f"{kind.operations:,}",
            share_words(kind.share),
            bytes_words(kind.bytes),
            share_words(kind.bytes / result.bytes) if result.bytes else "-",
            bytes_words(round(kind.bytes / max(kind.operations, 1))),
        )
        yield row(name, "".join(f"{cell:>12}" for cell in cells))


# -- when ------------------------------------------------------------------------------


def _arrivals(result: StatResult) -> Iterator[str]:
    shown = [one for one in result.dispersion if one.bins]
    if shown:
        yield row("scale", _cells(time_words(one.bin_ns) for one in shown))
        yield row(
            "dispersion", _cells(number(one.index) for one in shown) + "  Poisson: 1"
        )
        yield row("mean count", _cells(number(one.mean) for one in shown))
        yield row("most", _cells(f"{one.max:,}" for one in shown))
    gaps = result.gaps
    if gaps.gap_ns.count:
        spread = (
            ""
            if gaps.cv_squared is None
            else f"; cv² {number(gaps.cv_squared)}, Poisson: 1"
        )
        equal = f"; {gaps.equal:,} of {gaps.gap_ns.count:,} zero" if gaps.equal else ""
        yield row("gaps", quantile_words(gaps.gap_ns) + spread + equal)


def _cells(texts: Iterator[str]) -> str:
    return "".join(f"{text:>12}" for text in texts)


# -- where -----------------------------------------------------------------------------


def _places(result: StatResult) -> Iterator[str]:
    yield row("sizes", _sizes(result))
    yield from _sequentiality(result.sequentiality)
    popularity, touched = result.popularity, result.working_set
    how = "exact"
    if popularity.method == "sampled":
        how = f"sampled: 1 of {1 / popularity.rate:,.0f} blocks was followed"
    block = bytes_words(popularity.block_bytes)
    if touched.blocks:
        window = ""
        if touched.window_blocks_mean is not None:
            each = bytes_words(
                round(touched.window_blocks_mean * popularity.block_bytes)
            )
            most = bytes_words(
                round(touched.window_blocks_max * popularity.block_bytes)
            )
            window = f"; in {time_words(touched.window_ns)} mean {each}, most {most}"
        size = bytes_words(round(touched.bytes))
        yield row(
            "working set",
            f"{size}, {counted(round(touched.blocks), 'block')} of {block} ({how}){window}",
        )
    if popularity.tops:
        tops = ", ".join(
            f"{share_words(top.blocks_share)} -> {share_words(top.accesses_share)}"
            for top in popularity.tops
        )
        yield row("popularity", f"the top blocks -> their accesses: {tops}")
    fit = popularity.zipf
    if fit is not None:
        judged = "" if fit.misfit <= 0.05 else "; no Zipf law: above 0.05"
        yield row(
            "",
            f"Zipf exponent {fit.exponent:.3g} of the {fit.ranks:,} most popular, "
            f"misfit {fit.misfit:.2g}{judged}",
        )


def _sizes(result: StatResult) -> str:
    sizes = result.sizes
    shown = sizes.commonest[:_SIZES]
    common = ", ".join(f"{bytes_words(s.bytes)} {share_words(s.share)}" for s in shown)
    different = (
        "more than are counted" if sizes.different is None else f"{sizes.different:,}"
    )
    mean = (
        ""
        if sizes.mean_bytes is None
        else f"; mean {bytes_words(round(sizes.mean_bytes))}"
    )
    return f"{common}; {different} different{mean}"


def _sequentiality(found: Sequentiality) -> Iterator[str]:
    if found.sequential_share is None:
        return
    text = f"{share_words(found.sequential_share)} start where the one before ended"
    if found.recent_share is not None:
        text += f", {share_words(found.recent_share)} where one of the last 32 did"
    yield row("sequential", text)
    runs = found.runs
    if runs.mean is not None:
        yield row(
            "",
            f"runs of {number(runs.mean)} operations (p99 {runs.p99:,}, max {runs.max:,})",
        )


# -- how long --------------------------------------------------------------------------


def _times(result: StatResult) -> Iterator[str]:
    queue = result.queue
    if queue is None:
        yield row("queue", "not known: the trace does not tell when operations ended")
    else:
        mean = "" if queue.mean is None else f"mean {number(queue.mean)} over time, "
        yield row(
            "queue",
            f"{mean}{number(queue.mean_at_arrival)} found by an arrival, most {queue.max:,} "
            f"(of {queue.operations:,} with a known end)",
        )
    for name, times in (
        ("response", result.response_ns),
        ("issue error", result.issue_error_ns),
    ):
        if times.count:
            yield row(name, f"{quantile_words(times)} (n {times.count:,})")


def quantile_words(times: Times) -> str:
    """Return `mean 1 ms, p50 80 us, ...`; what does not exist is left out."""
    mean = [] if times.mean is None else [f"mean {time_words(times.mean)}"]
    found = ((word, getattr(times, name)) for word, name in _QUANTILES)
    return ", ".join(
        [*mean, *(f"{word} {time_words(ns)}" for word, ns in found if ns is not None)]
    )


def share_words(share: float) -> str:
    """Return a share in per cent, with three digits."""
    return f"{100 * share:.3g} %"


def number(value: float | None) -> str:
    """Return a figure with three digits, or `-` where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def seconds_words(ns: int) -> str:
    """Return a long time in seconds, a short one in what suits it."""
    return f"{ns / 1e9:,.1f} s" if ns >= 100 * 10**9 else time_words(ns)
