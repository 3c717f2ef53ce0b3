"""Each format of `bw export`, of one session with odd names, failures and both directions.

`BW_GOLDEN=write pytest tests/golden/test_export_formats.py` writes them anew; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import exported_session
from benchwright.features.exchange.export import FORMATS, ExportView

GOLDEN = Path(__file__).parent / "exports"
SUFFIX = {
    "hyperfine": "json",
    "pyperf": "json",
    "benchfmt": "txt",
    "jmh": "json",
    "google-benchmark": "json",
    "github-action-benchmark": "json",
    "bencher": "json",
    "otava": "yaml",
    "prometheus": "prom",
    "openmetrics": "txt",
    "junit": "xml",
    "markdown": "md",
    "perfherder": "txt",
}


OF_LOADS = {"openmetrics-intervals": "txt", "hlog": "hlog", "hgrm": "hgrm"}
"""Formats that have nothing but loads."""
OF_STREAMS = {"vllm": "json", "aiperf": "json", "guidellm": "json"}
"""Formats that have nothing but loads with streams."""
SUFFIXES = SUFFIX | OF_LOADS | OF_STREAMS
LOADS = "loads.prom"
"""The format `prometheus` of loads."""


def view_of(name: str) -> ExportView:
    """Return the session; for pyperf without the test whose main metric is better higher; for
    formats of loads one with loads."""
    import msgspec

    if name in OF_LOADS:
        return exported_session.loads()
    if name in OF_STREAMS:
        return exported_session.streams()
    view = exported_session.session()
    if name != "pyperf":
        return view
    return msgspec.structs.replace(view, tests=view.tests[:1])


@pytest.mark.parametrize("name", FORMATS)
def test_the_text_of_a_format(name: str) -> None:
    exported = FORMATS[name].write(view_of(name))
    texts = [(f"{name}.{SUFFIXES[name]}", exported.text), *exported.beside]
    for file, text in texts:
        check_golden(file, text)


def test_the_histograms_of_loads_for_prometheus() -> None:
    check_golden(LOADS, FORMATS["prometheus"].write(exported_session.loads()).text)


def check_golden(file: str, text: str) -> None:
    """Compare a text with its golden file, or write it anew."""
    golden = GOLDEN / file
    if os.environ.get("BW_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text(), file


def test_every_golden_file_belongs_to_a_format() -> None:
    named = {f"{name}.{suffix}" for name, suffix in SUFFIXES.items()}
    beside = {
        file for name in ("otava", "hgrm") for file, _ in FORMATS[name].write(view_of(name)).beside
    }
    assert {file.name for file in GOLDEN.iterdir()} == named | beside | {LOADS}
