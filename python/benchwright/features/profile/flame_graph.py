"""Flame graphs as SVG: of one profile, or of the difference between two."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from benchwright.core.observation import KERNEL_SUFFIX, FoldedStacks
from benchwright.core.text import percent_text, plural

# --------------------------------------------------------------------------------------
# Stacked boxes as one self-contained SVG document, with zoom and search.
#
# Decision: the document has the position and text of every box, so that it can be printed or
# shown without scripts; the script only moves the boxes. The document loads no other file.

WIDTH_PX = 1180
"""Width of the graph, without the margins at both sides."""
_MARGIN_PX = 10
_HEIGHT_PX = 17
"""Height of a frame."""
_TOP_PX = 62
_LETTER_PX = 6.7
"""Width of a letter of the 11 px monospace font."""


class Box(msgspec.Struct, frozen=True):
    """A frame to draw: left end and width [samples], level [frames]."""

    left: float
    width: float
    height: int
    name: str
    words: str
    """Text of its tooltip."""
    fill: str


def svg_page(title: str, subtitle: str, boxes: Sequence[Box], total: float) -> str:
    """Return the document; `total` is the width of all [samples]."""
    levels = max((box.height for box in boxes), default=0) + 1
    height = _TOP_PX + levels * _HEIGHT_PX + 30
    width = WIDTH_PX + 2 * _MARGIN_PX
    drawn = "\n".join(_drawn(box, total, levels) for box in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" data-total="{total:.6g}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text x="{_MARGIN_PX}" y="22" class="h">{_safe(title)}</text>\n'
        f'<text x="{_MARGIN_PX}" y="40">{_safe(subtitle)}</text>\n'
        f'<text x="{_MARGIN_PX}" y="56" class="b" id="all">show all</text>\n'
        f'<text x="{_MARGIN_PX + 90}" y="56" class="b" id="find">search</text>\n'
        f'<text x="{_MARGIN_PX + 160}" y="56" id="said"></text>\n'
        f'<g id="frames">\n{drawn}\n</g>\n'
        f"<script>//<![CDATA[\n{_SCRIPT}//]]></script>\n</svg>\n"
    )


def _drawn(box: Box, total: float, levels: int) -> str:
    scale = WIDTH_PX / total if total else 0.0
    x, width = _MARGIN_PX + box.left * scale, max(box.width * scale, 0.1)
    y = _TOP_PX + (levels - 1 - box.height) * _HEIGHT_PX
    letters = int((width - 4) / _LETTER_PX)
    shown = box.name if len(box.name) <= letters else box.name[: max(letters - 2, 0)]
    if letters < 3:
        shown = ""
    elif shown != box.name:
        shown += ".."
    return (
        f'<g data-x="{box.left:.8g}" data-w="{box.width:.8g}" data-h="{box.height}" '
        f'data-n="{_safe(box.name)}"><title>{_safe(box.words)}</title>'
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_HEIGHT_PX - 1}" '
        f'rx="1" fill="{box.fill}"/><text x="{x + 2:.2f}" y="{y + 12}">{_safe(shown)}'
        f"</text></g>"
    )


def _safe(text: str) -> str:
    """Return a text for XML, which cannot contain control characters."""
    return escape("".join(c if c.isprintable() else "?" for c in text))


_STYLE = (
    "text{font:11px monospace;fill:#222}.h{font-weight:bold;font-size:14px}"
    ".b{fill:#06c;cursor:pointer}#frames g{cursor:pointer}#frames text{pointer-events:none}"
    "#frames g:hover rect{stroke:#000;stroke-width:.6}.dim{opacity:.45}"
    ".hit rect{fill:#d02bd0}"
)

_SCRIPT = f"""'use strict';
const width = {WIDTH_PX}, margin = {_MARGIN_PX}, letter = {_LETTER_PX};
const frames = [...document.querySelectorAll('#frames g')].map(g => ({{
  g, x: +g.dataset.x, w: +g.dataset.w, h: +g.dataset.h, n: g.dataset.n,
  rect: g.querySelector('rect'), text: g.querySelector('text')}}));
const total = +document.documentElement.dataset.total;
function place(frame, from, wide) {{
  const left = Math.max(frame.x, from), right = Math.min(frame.x + frame.w, from + wide);
  const px = (right - left) / wide * width, x = margin + (left - from) / wide * width;
  frame.g.style.display = px < 0.1 ? 'none' : '';
  if (px < 0.1) return;
  frame.rect.setAttribute('x', x);
  frame.rect.setAttribute('width', px);
  frame.text.setAttribute('x', x + 2);
  const fits = Math.floor((px - 4) / letter);
  frame.text.textContent = fits < 3 ? ''
    : frame.n.length <= fits ? frame.n : frame.n.slice(0, fits - 2) + '..';
}}
function zoom(from, wide, height) {{
  for (const frame of frames) {{
    place(frame, from, wide);
    frame.g.classList.toggle('dim', frame.h < height);
  }}
}}
for (const frame of frames)
  frame.g.addEventListener('click', () => zoom(frame.x, frame.w, frame.h));
document.getElementById('all').addEventListener('click', () => zoom(0, total, 0));
document.getElementById('find').addEventListener('click', () => {{
  const asked = (prompt('Part of a name:') || '').toLowerCase();
  const hits = frames.filter(f => asked && f.n.toLowerCase().includes(asked));
  for (const frame of frames) frame.g.classList.toggle('hit', hits.includes(frame));
  let sum = 0, end = -1;
  for (const f of hits.sort((a, b) => a.x - b.x || b.w - a.w))
    if (f.x >= end - 1e-9) {{ sum += f.w; end = f.x + f.w; }}
  document.getElementById('said').textContent =
    asked ? `${{asked}}: ${{(100 * sum / total).toFixed(2)}} %` : '';
}});
"""


# -- A flame graph of one profile: the width is samples; kernel frames are blue ---------
#
# Decision: our own code (a tree, rectangles, a short script for zoom and search). Rejected: an
# external program, which users would have to install. Frames are sorted by name, so that two
# graphs can be compared by eye. Frames narrower than NARROWEST_PX are left out. Without scripts
# the picture is the same; only zoom and search are missing.
# Source: Gregg, The Flame Graph, CACM 59(6), 2016.

NARROWEST_PX = 0.3


class Frame:
    """A function in one call path: the frames below it are its callers."""

    __slots__ = ("before", "called", "name", "samples")

    def __init__(self, name: str) -> None:
        self.name = name
        self.samples = 0
        """Samples in this frame and in the frames that it calls."""
        self.before = 0
        """In a difference: how many of the samples are the baseline's."""
        self.called: dict[str, Frame] = {}

    def add(self, stack: tuple[str, ...], count: int, before: int = 0) -> None:
        """Add the samples of a stack whose first function is called by this frame."""
        frame = self
        frame.samples += count
        frame.before += before
        for name in stack:
            frame = frame.called.setdefault(name, Frame(name))
            frame.samples += count
            frame.before += before


class PlacedFrame(msgspec.Struct, frozen=True):
    """A frame with its position: left end and width [samples], level [frames]."""

    frame: Frame
    left: float
    width: float
    height: int


def placed_frames(root: Frame, narrowest: float) -> Iterator[PlacedFrame]:
    """Yield the root and all frames above it that are at least `narrowest` [samples] wide."""
    waiting = [PlacedFrame(root, 0.0, float(root.samples), 0)]
    while waiting:
        here = waiting.pop()
        yield here
        left = here.left
        for _, frame in sorted(here.frame.called.items()):
            if frame.samples >= narrowest:
                waiting.append(PlacedFrame(frame, left, float(frame.samples), here.height + 1))
            left += frame.samples


def flame_svg(folded: FoldedStacks, title: str) -> str:
    """Return a flame graph as an SVG document, ending with a newline."""
    root = Frame("all")
    for stack, count in folded.counts.items():
        root.add(stack, count)
    total = root.samples
    boxes = [
        _share_box(placed_frame, total)
        for placed_frame in placed_frames(root, total * NARROWEST_PX / WIDTH_PX)
    ]
    subtitle = (
        f"{plural(total, 'sample')}; width is the share of them; blue frames are the kernel's"
    )
    return svg_page(title, subtitle, boxes, total)


def _share_box(placed_frame: PlacedFrame, total: int) -> Box:
    frame = placed_frame.frame
    share = 100 * frame.samples / total if total else 0.0
    where = " (kernel)" if frame.name.endswith(KERNEL_SUFFIX) else ""
    words = f"{frame_label(frame.name)}{where}: {plural(frame.samples, 'sample')}, {share:.2f} %"
    return frame_box(placed_frame, words, frame_colour(frame.name))


def frame_box(one: PlacedFrame, words: str, fill: str) -> Box:
    """Return the box of a placed frame; `words` is its tooltip."""
    return Box(one.left, one.width, one.height, frame_label(one.frame.name), words, fill)


def frame_label(name: str) -> str:
    """Return a frame's name as it is shown."""
    return name.removesuffix(KERNEL_SUFFIX)


def frame_colour(name: str) -> str:
    """Return a frame's colour: blue for the kernel, warm for programs; the same for equal names."""
    shade = zlib.crc32(name.encode()) % 60
    if name.endswith(KERNEL_SUFFIX):
        return f"rgb({120 + shade},{165 + shade // 2},{225 - shade // 3})"
    return f"rgb({225 + shade // 3},{130 + shade},{60 + shade // 2})"


# -- The same flame graph as an element of an HTML page ---------------------------------
#
# Decision: no script and no colours of its own (the page's stylesheet has them, for dark, light and
# print), and only frames of at least 0.1 %: a page contains many numbers, and the collapsed stacks
# are beside the picture for other viewers.

INLINE_WIDTH_PX = 1040
INLINE_MOST_BYTES = 200_000
_SHARE_SHOWN = 0.001
_SHADES = 4
INLINE_CSS = """\
.flame svg{font:11px ui-monospace,monospace}.flame text{fill:#16202a;pointer-events:none}
.flame .w0{fill:#f2a65a}.flame .w1{fill:#f4b86a}.flame .w2{fill:#f6c987}.flame .w3{fill:#eb9350}
.flame .k0{fill:#8fb9d8}.flame .k1{fill:#a3c6e0}.flame .k2{fill:#7caacd}.flame .k3{fill:#b5d1e6}
.flame g:hover rect{stroke:var(--chart-text);stroke-width:1}
"""
"""The rules that the graph needs; it is inside an element of the class `flame`."""


def inline_flame_svg(folded: FoldedStacks, title: str) -> str:
    """Return a flame graph as an SVG element; frames below 0.1 % of the samples are left out,
    and more of them where the element would be larger than `INLINE_MOST_BYTES`."""
    root = Frame("all")
    for stack, count in folded.counts.items():
        root.add(stack, count)
    share = _SHARE_SHOWN
    while True:
        drawn = _inline(root, root.samples * share, title)
        if len(drawn.encode()) <= INLINE_MOST_BYTES:
            return drawn
        share *= 2


def _inline(root: Frame, narrowest: float, title: str) -> str:
    placed = list(placed_frames(root, narrowest))
    levels = 1 + max(one.height for one in placed)
    scale = INLINE_WIDTH_PX / root.samples if root.samples else 0.0
    boxes = "".join(_inline_box(frame, scale, levels, root.samples) for frame in placed)
    height = levels * _HEIGHT_PX
    return (
        f'<svg role="img" width="{INLINE_WIDTH_PX}" height="{height}" '
        f'viewBox="0 0 {INLINE_WIDTH_PX} {height}"><title>{_safe(title)}</title>'
        f"{boxes}</svg>"
    )


def _inline_box(one: PlacedFrame, scale: float, levels: int, total: int) -> str:
    name = frame_label(one.frame.name)
    x, width = one.left * scale, one.width * scale
    y = (levels - 1 - one.height) * _HEIGHT_PX
    letters = int((width - 4) / _LETTER_PX)
    shown = name if len(name) <= letters else f"{name[: letters - 2]}.."
    text = f'<text x="{x + 2:.1f}" y="{y + 12}">{_safe(shown)}</text>' if letters >= 3 else ""
    shade = zlib.crc32(one.frame.name.encode()) % _SHADES
    kind = "k" if one.frame.name.endswith(KERNEL_SUFFIX) else "w"
    words = (
        f"{name}: {plural(one.frame.samples, 'sample')}, {percent_text(one.frame.samples / total)}"
    )
    return (
        f'<g><title>{_safe(words)}</title><rect class="{kind}{shade}" x="{x:.1f}" '
        f'y="{y}" width="{max(width - 0.4, 0.3):.1f}" height="{_HEIGHT_PX - 1}"/>{text}</g>'
    )


# -- The difference between two arms' profiles, as a flame graph and as a list ---------
#
# Decision: a frame is as wide as the mean of its shares in both arms, so that functions of
# either arm are visible. Red: the candidate spends a larger share of its time there; blue: a
# smaller one; grey: the difference is within sampling noise. Shares rather than samples, because
# the arms run for different times. The graph does not show which arm is faster: the verdict does.
# Source: Gregg, Differential Flame Graphs, 2014.

_GREY = "rgb(222,222,222)"
_FULL = 0.10
"""Difference between shares that is drawn in full colour."""
_ERRORS = 3.0
"""Differences within this many standard errors are grey."""
_MOST_LINES = 5
"""Maximum number of changes listed on the terminal."""


class ShareChange(msgspec.Struct, frozen=True):
    """A function's own share of the time in each arm, without the functions it calls."""

    name: str
    kernel: bool
    baseline_share: float
    candidate_share: float
    beyond_noise: bool
    """Whether the change exceeds sampling noise."""


def difference_svg(baseline: FoldedStacks, candidate: FoldedStacks, names: tuple[str, str]) -> str:
    """Return the difference as an SVG document; `names` are the baseline's and candidate's.

    Raises ValueError if an arm has no samples.
    """
    before, after = _totals(baseline, candidate)
    root = Frame("all")
    for stack in {*baseline.counts, *candidate.counts}:
        # Both arms get the same weight: counts are scaled to the product of the totals.
        old = baseline.counts.get(stack, 0) * after
        new = candidate.counts.get(stack, 0) * before
        root.add(stack, old + new, old)
    narrowest = root.samples * NARROWEST_PX / WIDTH_PX
    boxes = [
        _change_box(placed_frame, (before, after))
        for placed_frame in placed_frames(root, narrowest)
    ]
    title = f"{names[1]} (candidate) against {names[0]} (baseline)"
    subtitle = (
        f"red: more of the candidate's time, blue: less, grey: within the noise of "
        f"{before:,} and {after:,} samples; width is the mean of both shares"
    )
    return svg_page(title, subtitle, boxes, root.samples)


def share_changes(baseline: FoldedStacks, candidate: FoldedStacks) -> list[ShareChange]:
    """Return the change of each function's own share, the largest first."""
    before, after = _totals(baseline, candidate)
    old, new = _leaves(baseline), _leaves(candidate)
    changes = [
        ShareChange(
            frame_label(name),
            name.endswith(KERNEL_SUFFIX),
            old[name] / before,
            new[name] / after,
            _is_beyond_noise(old[name], new[name], (before, after)),
        )
        for name in {*old, *new}
    ]
    return sorted(changes, key=lambda c: (-abs(c.candidate_share - c.baseline_share), c.name))


def change_lines(found: list[ShareChange]) -> Iterator[str]:
    """Yield a line for each of the largest changes beyond noise."""
    for change in [c for c in found if c.beyond_noise][:_MOST_LINES]:
        moved = 100 * (change.candidate_share - change.baseline_share)
        kernel = " (kernel)" if change.kernel else ""
        yield (
            f"{change.name}{kernel}: {percent_text(change.baseline_share)} -> "
            f"{percent_text(change.candidate_share)} of the time ({moved:+.1f} points)"
        )


def _change_box(placed_frame: PlacedFrame, totals: tuple[int, int]) -> Box:
    frame, (before, after) = placed_frame.frame, totals
    old, new = (round(frame.before / after), round((frame.samples - frame.before) / before))
    moved = new / after - old / before
    words = (
        f"{frame_label(frame.name)}: {percent_text(old / before)} of baseline, "
        f"{percent_text(new / after)} of candidate ({100 * moved:+.2f} points)"
    )
    beyond = _is_beyond_noise(old, new, totals)
    return frame_box(placed_frame, words, _change_colour(moved) if beyond else _GREY)


def _change_colour(moved: float) -> str:
    """Return red for an increase, blue for a decrease, paler for small ones; `moved` is a
    difference of shares."""
    # Not so dark that the name in the frame could not be read.
    other = round(215 - 100 * min(abs(moved) / _FULL, 1.0))
    return f"rgb(235,{other},{other})" if moved > 0 else f"rgb({other},{other},235)"


def _totals(baseline: FoldedStacks, candidate: FoldedStacks) -> tuple[int, int]:
    totals = baseline.samples, candidate.samples
    if not all(totals):
        raise ValueError("an arm has no samples: there is no difference to show")
    return totals


def _leaves(folded: FoldedStacks) -> Counter[str]:
    leaves: Counter[str] = Counter()
    for stack, count in folded.counts.items():
        leaves[stack[-1]] += count
    return leaves


def _is_beyond_noise(old: int, new: int, totals: tuple[int, int]) -> bool:
    """Return whether two shares differ by more than `_ERRORS` standard errors."""
    before, after = totals
    pooled = (old + new) / (before + after)
    error = math.sqrt(pooled * (1 - pooled) * (1 / before + 1 / after))
    return abs(new / after - old / before) > _ERRORS * error
