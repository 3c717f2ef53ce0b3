"""The report as one HTML file: offline, readable without scripts, the same bytes for the same data.

Decision: Python renders everything, and the script only adds (zoom, theme); a page that a script
builds shows nothing in a mail client or an archive. The file has a Content-Security-Policy with the
hashes of its own style and script, so that a name from a command cannot run even if escaping
failed. Nothing is loaded. Source: W3C, Content Security Policy Level 3.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from benchwright.core.observation import FoldedStacks
from benchwright.core.text import plural
from benchwright.feature import features, observers, session_kind
from benchwright.page.document import PartWords, ReportDocument, ReportPart
from benchwright.report.charts.svg import CHART_CSS, PANEL_WIDTH, WIDE_PANEL, sheet_svg
from benchwright.study.contents import NULL_KIND
from benchwright.views.blocks import Block, Download, Flame, Group, LongSeries, Picture, Section

_ROOM = files("benchwright.page")
_UPLOT = ("uPlot.min.css", "uPlot.iife.min.js")
"""uPlot's files in static/vendor/, which the build takes from npm."""
_PLAIN = re.compile(r"[\w.#~-]+", re.ASCII)
_URI_SAFE = ' "!$()*+,-./:;=?@[]_{}|~'
"""Characters that neither end a URI nor an attribute in single quotes."""
GENERATOR = "Benchwright report"
"""The page's `generator`, by which `bw report` recognizes a file that it wrote."""


class LiveSettings(msgspec.Struct, frozen=True):
    """What the page of a live view has in addition."""

    events: str
    """The URL of the events, on the same server."""
    last_event: int
    """The number of the last event that the page contains."""


class PageResources(msgspec.Struct, frozen=True):
    """The style and the script of a page, as they are in it."""

    style: str
    script: str
    policy: str
    """The Content-Security-Policy."""


def has_uplot() -> bool:
    """Return whether uPlot was built into this installation."""
    return all((_ROOM / "static" / "vendor" / name).is_file() for name in _UPLOT)


def needs_uplot(document: ReportDocument) -> bool:
    """Return whether the report has a series that is too long for a drawing."""
    return any(
        isinstance(block, Picture) and block.long is not None
        for section in _sections(document)
        for block in all_blocks(section.blocks)
    )


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks and the blocks in their groups."""
    for block in blocks:
        yield block
        if isinstance(block, Group):
            yield from all_blocks(block.blocks)


def render_page(document: ReportDocument, live: LiveSettings | None = None) -> str:
    """Return the page; with `live`, one that follows a session that runs."""
    with_uplot = has_uplot() and (live is not None or needs_uplot(document))
    resources = _resources(with_uplot=with_uplot, live=live is not None)
    return (
        _environment()
        .get_template("page.html")
        .render(
            document=document,
            live=live,
            generator=GENERATOR,
            style=Markup(resources.style),
            script=Markup(resources.script),
            policy=resources.policy,
        )
    )


def section_pages(document: ReportDocument) -> dict[str, str]:
    """Return the HTML of each section by its id, the answer of each part included.

    The elements are those of `render_page`; the live view sends those that changed.
    """
    parts = _environment().get_template("parts.html").module
    found: dict[str, str] = {}
    for part in document.parts:
        found[f"{part.id}-answer"] = str(_macro(parts, "answer")(part))
        for section in part.sections:
            found[section.id] = str(_macro(parts, "section_of")(section))
    for section in document.shared:
        found[section.id] = str(_macro(parts, "section_of")(section))
    return found


def _macro(module: Any, name: str) -> Any:
    return getattr(module, name)


def _sections(document: ReportDocument) -> Iterator[Section]:
    for part in document.parts:
        yield from part.sections
    yield from document.shared


@cache
def _resources(*, with_uplot: bool, live: bool) -> PageResources:
    style, script = (
        CHART_CSS + "".join(kind.page_style() for kind in observers()) + _text("static/page.css"),
        _text("static/page.js"),
    )
    if with_uplot:
        style = _text(f"static/vendor/{_UPLOT[0]}") + style
        script = _text(f"static/vendor/{_UPLOT[1]}") + "\n" + script
    if live:
        script += "\n" + _text("static/live.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return PageResources(style, script, policy)


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _text(name: str) -> str:
    return _ROOM.joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: _text(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "svg": _svg,
        "flame": _flame,
        "series": _series,
        "data_uri": _data_uri,
        "exact": _exact,
        "attribute": _attribute,
        "collapsed": _collapsed,
        "kind_title": _kind_title,
        "noun": _noun,
        "source": _source,
        "kind": _kind,
        "headline": _headline,
        "marked": _marked,
        "anchor": anchor_of,
    }
    return environment


def _marked(text: str) -> Markup:
    """Return a text in which what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # A name has a backtick of its own.
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part)
        for at, part in enumerate(parts)
    )


def anchor_of(part: ReportPart) -> str:
    """Return the id of a part's answer."""
    return f"{part.id}-answer"


_TITLES = {"compare": "comparison", NULL_KIND: "null comparison"}


def _words(kind: str) -> PartWords | None:
    """Return what the feature that adds a kind of parts calls them."""
    return next((words[kind] for one in features() if kind in (words := one.part_words())), None)


def _kind_title(kind: str) -> str:
    """Return what the session, the file or another part is called."""
    named = session_kind(kind) or _words(kind)
    return _TITLES.get(kind, kind) if named is None else named.title


def _noun(kind: str) -> str:
    """Return what the findings of a part concern."""
    named = session_kind(kind) or _words(kind)
    return "tests" if named is None else named.noun


def _source(document: ReportDocument) -> str:
    """Return what a page was written from."""
    words = _words(document.parts[0].kind)
    if words is not None:
        return words.source
    if any(part.kind == "file" for part in document.parts):
        return "results"
    return plural(len(document.parts), "stored session")


def _headline(sentence: str) -> tuple[str, str]:
    """Return the claim of a sentence, and its evidence: the part in parentheses at its end."""
    text = sentence.rstrip(".")
    depth = 0
    for place in range(len(text) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth <= 0:
            break
    if depth or not text.endswith(")"):
        return sentence, ""
    return text[:place].rstrip(), text[place + 1 : -1]


def _kind(block: msgspec.Struct) -> str:
    return str(block.__struct_config__.tag)


def _svg(picture: Picture) -> Markup:
    drawn = sheet_svg(
        picture.sheet,
        prefix=picture.id,
        width=WIDE_PANEL if picture.wide else PANEL_WIDTH,
        titles=not picture.brief,
    )
    return Markup(drawn)


def _flame(block: Flame) -> Markup:
    counts = {tuple(stack.split(";")): count for stack, count in block.stacks}
    drawn = (kind.picture(FoldedStacks(counts), block.title) for kind in observers())
    return Markup(next(filter(None, drawn), ""))


def _collapsed(block: Flame) -> Download:
    text = "".join(f"{stack} {count}\n" for stack, count in block.stacks)
    return Download(f"{block.id}.txt", "text/plain", text, "collapsed stacks")


def _exact(value: float | None) -> str:
    """Return a value as JSON has it, so that both can be compared."""
    return "" if value is None else msgspec.json.encode(value).decode()


def _attribute(value: str) -> Markup:
    """Return the value of an attribute, in quotation marks only if it needs them: a page has
    thousands of numbers."""
    if _PLAIN.fullmatch(value):
        return Markup(value)
    return Markup(f'"{escape(value)}"')


def _series(long: LongSeries) -> Markup:
    """Return a long series as JSON inside a script element."""
    return Markup(_for_script(msgspec.json.encode(long).decode()))


def _for_script(text: str) -> str:
    """Return JSON that no script element ends in, and that is no markup."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _data_uri(download: Download) -> Markup:
    """Return a file as a URI for an attribute in single quotes."""
    if download.name.endswith(".gz"):
        packed = gzip.compress(download.text.encode(), mtime=0)
        return Markup(f"data:application/gzip;base64,{base64.b64encode(packed).decode()}")
    text = quote(download.text, safe=_URI_SAFE)
    kind = quote(download.media_type, safe="/")
    return Markup(f"data:{kind};charset=utf-8,{text}")
