"""`--plot FILE` of commands that draw their result: checked before the run, written after it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchwright.report.charts.render import Rendered
    from benchwright.report.charts.sheet import Sheet
    from benchwright.report.charts.style import ChartStyle
    from benchwright.report.documents import FileEntry


_WIDTH_IN = 4.6
_HEIGHT_IN = 3.0
_FONTSIZE_PT = 9.0


def check_plot(path: str | None, inputs: Sequence[str]) -> None:
    """Check that a picture can be written to `path`. Raises InputError at `--plot`."""
    if path is None:
        return
    from benchwright.cli.output_file import check_output
    from benchwright.core.errors import argument_error
    from benchwright.core.extras import require
    from benchwright.report.charts.style import IMAGE_FORMATS

    if form_of(path) not in IMAGE_FORMATS:
        message = f"{path!r} does not end in one of {', '.join('.' + f for f in IMAGE_FORMATS)}"
        raise argument_error("--plot", path, message, "the suffix is the format of the picture")
    check_output(path, "--plot", inputs)
    require("matplotlib", "--plot", "a plot")


def write_plot(
    path: str | None, sheet: Callable[[], Sheet], panel_in: float | None = None
) -> tuple[FileEntry, ...]:
    """Draw the sheet and write it; return the file's entry for the JSON document. `panel_in`: the
    height of a panel, if it is not that of a curve [inches]."""
    if path is None:
        return ()
    from benchwright.report.charts.render import render_sheet

    rendered = render_sheet(sheet(), panel_style(panel_in or _HEIGHT_IN), form_of(path))
    return write_rendered(path, rendered)


def panel_style(height_in: float = _HEIGHT_IN) -> ChartStyle:
    """Return the style of a panel of this height [inches]."""
    from benchwright.report.charts.style import ChartStyle

    return ChartStyle(width_in=_WIDTH_IN, height_in=height_in, fontsize_pt=_FONTSIZE_PT, dpi=100)


def write_rendered(path: str, rendered: Rendered) -> tuple[FileEntry, ...]:
    """Write the picture and print its notes; return its entry for the JSON document."""
    from benchwright.cli.output_file import write_output
    from benchwright.core.untrusted import visible_lines
    from benchwright.report.documents import FileEntry

    for note in rendered.notes:
        print(visible_lines(f"bw: {note}"), file=sys.stderr)
    write_output(Path(path), rendered.data)
    return (FileEntry(path, form_of(path), len(rendered.data)),)


def form_of(path: str) -> str:
    """Return the image format of a path's suffix, such as `png`."""
    return Path(path).suffix.removeprefix(".").lower()
