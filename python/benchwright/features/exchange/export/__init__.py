"""The formats of `bw export`: one registry of pure functions from a session to text."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchwright.features.exchange.export import (
    ci,
    histograms,
    prometheus,
    services,
    streams,
    tools,
)
from benchwright.features.exchange.export.view import (
    Exported,
    ExportLoad,
    ExportMetric,
    ExportTest,
    ExportTrial,
    ExportView,
    with_left_out,
)

__all__ = [
    "FORMATS",
    "ExportFormat",
    "ExportLoad",
    "ExportMetric",
    "ExportTest",
    "ExportTrial",
    "ExportView",
    "Exported",
]


class ExportFormat(msgspec.Struct, frozen=True):
    """A format, and the function that writes it."""

    name: str
    reader: str
    """What reads it."""
    convert: Callable[[ExportView], Exported]
    series: bool = False
    """Whether it has the earlier sessions of the study too."""

    def write(self, view: ExportView) -> Exported:
        """Return a session in this format; each test and each metric that is not in it is named as
        left out."""
        return with_left_out(self.convert(view), view)


FORMATS = {
    export_format.name: export_format
    for export_format in (
        ExportFormat("hyperfine", "hyperfine's scripts", tools.hyperfine),
        ExportFormat("pyperf", "pyperf show, compare_to", tools.pyperf),
        ExportFormat("benchfmt", "Go's benchstat", tools.benchfmt),
        ExportFormat("jmh", "viewers of JMH's results", tools.jmh),
        ExportFormat("google-benchmark", "Google Benchmark's compare.py", tools.google_benchmark),
        ExportFormat(
            "github-action-benchmark", "the action of this name", services.github_action_benchmark
        ),
        ExportFormat("bencher", "bencher run --adapter json", services.bencher),
        ExportFormat("otava", "Apache Otava", services.otava, series=True),
        ExportFormat("prometheus", "node_exporter's textfile collector", prometheus.prometheus),
        ExportFormat("openmetrics", "readers of OpenMetrics", prometheus.openmetrics),
        ExportFormat(
            "openmetrics-intervals",
            "promtool tsdb create-blocks-from openmetrics",
            prometheus.intervals,
        ),
        ExportFormat("hlog", "readers of HdrHistogram's logs", histograms.hlog),
        ExportFormat("hgrm", "HdrHistogram's plotter", histograms.hgrm),
        ExportFormat("vllm", "scripts for vllm bench serve --save-result", streams.vllm),
        ExportFormat("aiperf", "scripts for AIPerf's profile_export_aiperf.json", streams.aiperf),
        ExportFormat("guidellm", "scripts for guidellm's benchmarks.json", streams.guidellm),
        ExportFormat("junit", "CI systems, as test cases", ci.junit),
        ExportFormat("markdown", "people, as a step summary of CI", ci.markdown),
        ExportFormat("perfherder", "Treeherder", services.perfherder),
    )
}
