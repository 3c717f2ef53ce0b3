"""Graphics processors: vendor, device, driver. Sources: sysfs drm, NVIDIA's /proc/driver."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchwright.machine.tree import Tree, known, missing
from benchwright.machine.vocabulary import FATAL, SUSPICIOUS
from benchwright.model.machine import Fact

_DRM = "/sys/class/drm"
_NVIDIA = "/proc/driver/nvidia"


def graphics_facts(tree: Tree) -> Iterator[Fact]:
    """Yield the graphics processors that there are."""
    cards = [n for n in tree.names(_DRM) if re.fullmatch(r"card\d+", n)]
    computing = tree.names(f"{_NVIDIA}/gpus")
    if tree.exists(_DRM) or computing:
        yield known("gpu.cards", ", ".join((*cards, *computing)), _DRM, FATAL)
    else:
        yield missing("gpu.cards", _DRM, "no such file", FATAL)
    for card in cards:
        device = f"{_DRM}/{card}/device"
        for file in ("vendor", "device"):
            if tree.exists(f"{device}/{file}"):
                yield tree.fact(f"gpu.{card}.{file}", f"{device}/{file}", FATAL)
        driver = tree.target(f"{device}/driver")
        if driver:
            yield known(f"gpu.{card}.driver", driver, f"{device}/driver", SUSPICIOUS)
    for at, name in enumerate(computing):
        path = f"{_NVIDIA}/gpus/{name}/information"
        found = re.search(r"^Model:\s*(.+)$", tree.text(path), re.MULTILINE)
        if found:
            yield known(f"gpu.nvidia{at}.model", found[1], path, FATAL)
    version = tree.text(f"{_NVIDIA}/version").partition("\n")[0]
    if version:
        path = f"{_NVIDIA}/version"
        yield known("gpu.nvidia_driver", version, path, SUSPICIOUS)
