"""A flame graph as one SVG file: width is samples, the kernel's frames stand out.

Decision: our own (a tree, rectangles, a few lines of script for zoom and search) rather than
a program that must be installed; frames are in order of name, so that two graphs can be
compared by eye. What is narrower than a third of a pixel is left out and counted in
words. Without scripts the picture is the same; only zoom and search are missing. Source:
Gregg, The Flame Graph, CACM 59(6), 2016.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec

from benchwright.model.profiled import KERNEL, Folded
from benchwright.report.flame_page import WIDTH_PX, Box, page

NARROWEST_PX = 0.3


class Frame:
    """One frame of the graph: a function as called by those below it."""

    __slots__ = ("before", "called", "name", "samples")

    def __init__(self, name: str) -> None:
        self.name = name
        self.samples = 0
        """In it and in what it calls."""
        self.before = 0
        """The same of the other arm, in a difference."""
        self.called: dict[str, Frame] = {}

    def add(self, stack: tuple[str, ...], count: int, before: int = 0) -> None:
        """Add samples of a stack that begins with what this frame calls."""
        frame = self
        frame.samples += count
        frame.before += before
        for name in stack:
            frame = frame.called.setdefault(name, Frame(name))
            frame.samples += count
            frame.before += before


class Placed(msgspec.Struct, frozen=True):
    """A frame with its place: from where and how wide [samples], how high [frames]."""

    frame: Frame
    left: float
    width: float
    height: int


def placed(root: Frame, narrowest: float) -> Iterator[Placed]:
    """Yield the frames above the root, those narrower than `narrowest` [samples] not."""
    waiting = [Placed(root, 0.0, float(root.samples), 0)]
    while waiting:
        here = waiting.pop()
        yield here
        left = here.left
        for _, frame in sorted(here.frame.called.items()):
            if frame.samples >= narrowest:
                waiting.append(
                    Placed(frame, left, float(frame.samples), here.height + 1)
                )
            left += frame.samples


def flame_svg(folded: Folded, title: str) -> str:
    """Return a flame graph as a whole SVG document, ended by a newline."""
    root = Frame("all")
    for stack, count in folded.counts.items():
        root.add(stack, count)
    total = root.samples
    boxes = [_box(one, total) for one in placed(root, total * NARROWEST_PX / WIDTH_PX)]
    subtitle = (
        f"{total:,} samples; width is the share of them; blue frames are the kernel's"
    )
    return page(title, subtitle, boxes, total)


def _box(one: Placed, total: int) -> Box:
    frame = one.frame
    share = 100 * frame.samples / total if total else 0.0
    where = " (kernel)" if frame.name.endswith(KERNEL) else ""
    words = f"{label(frame.name)}{where}: {frame.samples:,} samples, {share:.2f} %"
    return boxed(one, words, colour(frame.name))


def boxed(one: Placed, words: str, fill: str) -> Box:
    """Return a placed frame as it is drawn; `words` show when it is pointed at."""
    return Box(one.left, one.width, one.height, label(one.frame.name), words, fill)


def label(name: str) -> str:
    """Return a frame's name as it is shown."""
    return name.removesuffix(KERNEL)


def colour(name: str) -> str:
    """Return a frame's colour: of the kernel bluish, of programs warm; a name keeps its own."""
    shade = zlib.crc32(name.encode()) % 60
    if name.endswith(KERNEL):
        return f"rgb({120 + shade},{165 + shade // 2},{225 - shade // 3})"
    return f"rgb({225 + shade // 3},{130 + shade},{60 + shade // 2})"
