"""Boxes on top of each other as one self-contained SVG document, with zoom and search.

Decision: every box has its place and text in the document, so that it can be printed or
shown without scripts; the script only places them anew. Nothing is loaded from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

WIDTH_PX = 1180
"""Of the graph; a margin is added on both sides."""
_MARGIN_PX = 10
_HEIGHT_PX = 17
"""Of a frame."""
_TOP_PX = 62
_LETTER_PX = 6.7
"""Width of a letter of the 11 px monospace font."""


class Box(msgspec.Struct, frozen=True):
    """One frame as it is drawn: from where and how wide [samples], how high [frames]."""

    left: float
    width: float
    height: int
    name: str
    words: str
    """Shown when it is pointed at."""
    fill: str


def page(title: str, subtitle: str, boxes: Sequence[Box], total: float) -> str:
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
    """Return a text for XML, which can hold no control characters at all."""
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
