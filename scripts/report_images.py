#!/usr/bin/env python3
"""Draw docs/images/report-*.png again: the first screens of the report page of each kind of study.

Makes a small study of each kind in a temporary directory, writes its page and photographs it with
the browser of the tests, 1280 and 360 pixels wide, light and dark. Takes ten minutes; the numbers
in the pictures are those of this machine and differ each time. Pillow comes with matplotlib.

Usage: scripts/report_images.py [--keep DIR] [--out DIR] [KIND...]
"""

from __future__ import annotations

import argparse
import io
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from visits import start_browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
BW = (sys.executable, "-m", "benchwright.cli.main")
HEIGHT = 1400
COLORS = 128
SERVER = """\
import asyncio, sys

port, delay_ms, threads = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])

async def answer(reader, writer):
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            async with workers:
                await asyncio.sleep(delay_ms / 1000)
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def serve():
    global workers
    workers = asyncio.Semaphore(threads)
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()

asyncio.run(serve())
"""
"""A server in which each request holds one of `threads` workers for `delay_ms`."""
SPEC = f"""\
[server]
start = "{sys.executable} server.py {{port}} {{delay_ms}} {{threads}}"
ready = {{ http = "http://127.0.0.1:{{port}}/" }}
[load]
target = "http://127.0.0.1:{{port}}/"
[factors]
delay_ms = [4, 8, 16]
threads = [1, 2, 4]
[peak]
criteria = ["mean response < 40ms"]
claim = "rate:10%"
budget = "60s"
[surface]
samples = 6
"""
ONE_SAMPLE = "-P delay_ms=8 -P threads=2"
SHA, MD5 = (f"'head -c 40000000 /dev/zero | {name}'" for name in ("sha1sum", "md5sum"))
STUDIES = {
    "run": (f"run --runs 30 --name sha1 -- sh -c {SHA}",),
    "scan": (
        "run --runs 15 -P mb=10,20,40,80 -P hash=sha1sum,md5sum --name checksum -- "
        "sh -c 'head -c {mb}000000 /dev/zero | {hash}'",
    ),
    "compare": (
        f"compare --null --max-blocks 15 -- {SHA}",
        f"compare --max-blocks 30 --name sha1 --name md5 -- {SHA} {MD5}",
    ),
    "failed": (
        "run --name import -- sh -c 'echo \"cannot open table <users>: disk full\" >&2; exit 3'",
    ),
    "load": (
        "load --rate 2k --arrival poisson --duration 8s --block 4k --size 16M --target ./scratch",
    ),
    "ramp": (f"ramp spec.toml {ONE_SAMPLE} --highest 64 --hold 1s --repeats 2",),
    "peak": (f"peak spec.toml {ONE_SAMPLE}",),
    "surface": ("surface spec.toml",),
    "interrupted": (f"run --runs 600 --name sha1 -- sh -c {SHA}",),
    "several": (),
}
"""The commands that make the study of each kind; `several` is about two of the others."""
INTERRUPT_AFTER_S = 4


def make_study(here: Path, kind: str) -> None:
    """Run the commands of a kind; the last one is interrupted where the kind asks for it."""
    for command in STUDIES[kind]:
        words = shlex.split(command)
        started = subprocess.Popen(
            [*BW, words[0], "--study", kind, "--quiet", *words[1:]],
            cwd=here,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if kind == "interrupted":
            time.sleep(INTERRUPT_AFTER_S)
            started.send_signal(signal.SIGINT)
        started.wait()


def make_page(here: Path, kind: str) -> Path:
    """Write the page of a kind and return its path."""
    page = here / f"{kind}.html"
    studies = ("run", "compare@1", "compare") if kind == "several" else (kind,)
    subprocess.run([*BW, "report", *studies, "-o", page], cwd=here, check=True, capture_output=True)
    return page


def screens(browser: Browser, page: Path, *, dark: bool) -> Iterator[Image.Image]:
    """Yield the first screen of a page on a desk and on a telephone."""
    for width in (1280, 360):
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if dark else "light",
            offline=True,
        )
        tab = context.new_page()
        tab.goto(page.as_uri())
        yield Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        context.close()


def picture(browser: Browser, page: Path, *, dark: bool) -> Image.Image:
    """Return both screens side by side, with few colors."""
    wide, narrow = screens(browser, page, dark=dark)
    whole = Image.new("RGB", (wide.width + 24 + narrow.width, HEIGHT), (128, 128, 128))
    whole.paste(wide, (0, 0))
    whole.paste(narrow, (wide.width + 24, 0))
    return whole.quantize(COLORS, dither=Image.Dither.NONE)


def main() -> int:
    """Draw the pictures of the kinds that are named, or of all; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*STUDIES, []])
    parser.add_argument("--keep", type=Path, help="directory for the studies and pages")
    parser.add_argument("--out", type=Path, default=IMAGES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        here = arguments.keep or Path(temporary)
        here.mkdir(parents=True, exist_ok=True)
        (here / "server.py").write_text(SERVER)
        (here / "spec.toml").write_text(SPEC)
        browser = start_browser(playwright)
        for kind in arguments.kinds or STUDIES:
            if STUDIES[kind] and not (here / kind).exists():
                make_study(here, kind)
            page = make_page(here, kind)
            for dark in (False, True):
                name = f"report-{kind}{'-dark' if dark else ''}.png"
                picture(browser, page, dark=dark).save(arguments.out / name, optimize=True)
                print(name, (arguments.out / name).stat().st_size, "bytes", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
