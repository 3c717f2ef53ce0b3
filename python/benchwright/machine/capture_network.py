"""Network interfaces: driver, link, queues, offloads. Source: sysfs-class-net."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from benchwright.machine.tree import Tree, known, missing, reason_of
from benchwright.machine.vocabulary import EXPECTED, SUSPICIOUS
from benchwright.model.machine import Fact

Ask = Callable[[str], dict[str, str]]
"""Interface -> what its driver says (ethtool.py). Raises OSError."""

_NET = "/sys/class/net"
_MOST = 32
_MADE = re.compile(r"(veth|docker|br-|virbr|tap|tun|vnet|cali|cni|flannel|ifb|dummy)")
"""Interfaces that come and go with containers and virtual machines."""
_FILES = ("operstate", "speed", "duplex", "mtu", "tx_queue_len", "gro_flush_timeout")
_ASKED = ("offloads", "driver_version", "firmware")


def network_facts(tree: Tree, ask: Ask) -> Iterator[Fact]:
    """Yield the interfaces; the speed is in Mbit/s, as the kernel tells it."""
    names = tree.names(_NET)
    names = [name for name in names if tree.exists(f"{_NET}/{name}/mtu")]
    if not names:
        yield missing("net", _NET, "no such file", SUSPICIOUS)
    for name in names[:_MOST]:
        yield from _interface(tree, name, ask)
    if len(names) > _MOST:
        rest = f"not captured: {len(names) - _MOST} more interfaces"
        yield missing("net.more", _NET, rest, EXPECTED)


def _interface(tree: Tree, name: str, ask: Ask) -> Iterator[Fact]:
    base, fact = f"{_NET}/{name}", f"net.{name}"
    weight = EXPECTED if _MADE.match(name) else SUSPICIOUS
    for file in _FILES:
        found = tree.fact(f"{fact}.{file}", f"{base}/{file}", weight)
        if file == "speed" and found.value in ("-1", "4294967295"):
            reason = "the driver does not know it"
            found = missing(found.name, found.source, reason, weight)
        yield found
    driver = tree.target(f"{base}/device/driver")
    if driver:
        yield known(f"{fact}.driver", driver, f"{base}/device/driver", weight)
    queues = tree.names(f"{base}/queues")
    if queues:
        counts = (sum(q.startswith(f"{way}-") for q in queues) for way in ("rx", "tx"))
        text = "{} rx, {} tx".format(*counts)
        yield known(f"{fact}.queues", text, f"{base}/queues", weight)
    try:
        told = ask(name)
    except OSError as error:
        yield missing(f"{fact}.offloads", "SIOCETHTOOL", reason_of(error), weight)
        return
    for what in _ASKED:
        if what in told:
            yield known(f"{fact}.{what}", told[what], "SIOCETHTOOL", weight)
        elif what == "offloads":
            reason = "the driver does not tell"
            yield missing(f"{fact}.{what}", "SIOCETHTOOL", reason, weight)
