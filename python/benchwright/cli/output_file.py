"""Writes output files that the user names, also the pictures of `--plot FILE`; checks them before
the work starts.

Decision: an existing file is replaced by a rename, so that no reader sees an incomplete file; a
link stays a link. A FIFO, terminal or character device is opened and written, because a rename
would replace the node. Block devices, sockets and files inside studies are errors.
Non-goal: the study's own files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchwright.core.errors import argument_error
from benchwright.study.directory import JOURNAL

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
    from benchwright.core.untrusted import visible_lines
    from benchwright.report.documents import FileEntry

    for note in rendered.notes:
        print(visible_lines(f"bw: {note}"), file=sys.stderr)
    write_output(Path(path), rendered.data)
    return (FileEntry(path, form_of(path), len(rendered.data)),)


def form_of(path: str) -> str:
    """Return the image format of a path's suffix, such as `png`."""
    return Path(path).suffix.removeprefix(".").lower()


_ELSEWHERE = "name a file in a directory that you may write to"
_ANOTHER = "give another name"
_PLACE_ERRORS = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR),
        *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO),
    }
)
"""Errors that another file name can avoid; a full disk is not one."""


def check_output(path: str, option: str, inputs: Sequence[str]) -> None:
    """Check that `path` can be written and is not one of the paths in `inputs`.

    The check creates a temporary file there. Raises InputError at `option`.
    """
    try:
        problem = _problem(path, inputs)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = (f"{path!r} cannot be written: {reason}", _ELSEWHERE)
    if problem is not None:
        raise argument_error(option, path, *problem)


def same_file(one: str, other: str) -> bool:
    """Return whether two paths name the same file, also through links; it need not exist."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def write_output(path: Path, data: bytes) -> None:
    """Write `data` to a file: into an existing FIFO, terminal or device, else with a rename.

    Raises InputError if another name would help, else OSError (a full disk).
    """
    try:
        if _is_node(path):
            with path.open("wb", buffering=0) as node:
                _write_all(node.fileno(), data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        # The message shows the user's file name, not that of the temporary file.
        if error.errno not in _PLACE_ERRORS:
            raise OSError(error.errno, error.strerror, str(path)) from None
        message = f"{str(path)!r} cannot be written: {error.strerror}"
        raise argument_error("output", str(path), message, _ELSEWHERE) from None


def _problem(path: str, inputs: Sequence[str]) -> tuple[str, str] | None:
    """Return what is wrong with an output's name, and advice; None if correct. Raises OSError."""
    if not path:
        return "the name of the file is empty", _ELSEWHERE
    target = Path(os.path.realpath(path))
    if target.is_dir() or path.endswith("/"):
        return f"{path!r} is a directory", "name a file in it"
    if any(same_file(path, one) for one in inputs):
        return f"{path!r} is one of the results that are read", _ANOTHER
    if _is_node(Path(path)):
        return _problem_of_node(path)
    study = next((p for p in target.parents if (p / JOURNAL).exists()), None)
    if study is not None:
        return f"{path!r} is inside the study {str(study)!r}", "name a file outside it"
    if not target.parent.is_dir():
        parent = str(Path(path).parent)
        return (f"there is no directory {parent!r}", f"create it first: mkdir -p {parent}")
    with _draft(target):
        return None


def _problem_of_node(path: str) -> tuple[str, str] | None:
    mode = os.stat(path).st_mode
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        kind = "block device" if stat.S_ISBLK(mode) else "socket"
        return f"{path!r} is a {kind}", _ANOTHER
    if not os.access(path, os.W_OK):
        return f"{path!r} may not be written", _ELSEWHERE
    return None


def _is_node(path: Path) -> bool:
    """Return whether the path exists and is neither a regular file nor a directory."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _replace(target: Path, data: bytes) -> None:
    with _draft(target) as draft:
        draft.write_bytes(data)
        draft.replace(target)


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Create an empty file beside the target; at the end, remove it unless it was renamed."""
    draft = target.with_name(f".bw.{os.getpid()}.draft")
    draft.open("xb").close()
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
