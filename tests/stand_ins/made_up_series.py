"""Series of machines that never were, drawn by a seed: all that a sampler may meet at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from series_writer import SECOND, Row, SeriesWriter

TENTH = SECOND // 10
_CPU = ("user", "nice", "system", "irq", "softirq", "idle", "iowait", "steal")
_DISK = (
    *("reads", "read_sectors", "read_ms", "writes", "written_sectors", "write_ms"),
    *("busy_ms", "queue_ms", "discards", "flushes"),
)


class MadeUp:
    """A machine whose counters grow, slip, wrap and begin anew, as a seed wills it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.writer = SeriesWriter(limits={"net/eth0/speed_mbit": 1000})
        self.times: list[int] = []
        self._values: Row = {}
        self._threads: dict[int, list[list[Any]]] = {100: [], 500: []}
        self._processes = [[2, 0, "kthreadd", 0, 1], [9, 2, "kworker", 5, 1]]
        self._processes += [[n, 1, f"p{n}", 7 * n, 1] for n in (60, 61, 100, 500)]
        self._next = 1000

    def write(self, path: Path, samples: int) -> Path:
        """Write a series of so many samples, with tables between them."""
        now = 0
        for i in range(samples):
            # Odd steps: shares of exactly a half are not for their last bit to decide.
            now += self.random.choice((TENTH, TENTH, TENTH, 97_000_003, 300_000_017, 5))
            self.times.append(now)
            self.writer.row(now, self._row(i))
            self._tables(now, i)
        if self.random.random() < 0.7:
            self.writer.end(self.times[0], now, cost_ns=12_345_678)
        return self.writer.write(path, cut=self.random.choice((0, 0, 0, 30)))

    def _row(self, i: int) -> Row:
        for cpu in range(2):
            for kind in _CPU:
                self._count(f"cpu/{cpu}/{kind}", 6, slips=kind == "iowait")
            self._gauge(f"frequency/{cpu}", 2_000_000 + 1000 * self.random.randrange(9))
        for name in ("swap_in", "major_faults", "oom_kill"):
            self._count(f"vm/{name}", 2)
        free = self.random.randrange(900)
        for name, value in (("total", 9000), ("available", 1000 + free), ("dirty", free)):
            self._gauge(f"memory/{name}", value)
        self._gauge("memory/swap_total", 1000)
        self._gauge("memory/swap_free", free)
        self._gauge("kernel/running", self.random.randrange(1, 5))
        self._gauge("files/open", 100 + free)
        self._gauge("thermal/zone0", 50_000 + free)
        for name in ("own/user_ns", "own/system_ns", "pressure/cpu/some"):
            self._count(name, 40_000_000, slips=True)
        for name in ("rx_packets", "tx_packets", "rx_errors"):
            self._count(f"net/eth0/{name}", 3)
        self._disks(i)
        # A process of the tree that may not be read: its sum is not told for a while.
        gone = i % 11 in (3, 4)
        self._count("own/read_chars", 5000, slips=True)
        shown = dict(self._values)
        return shown | {"own/read_chars": None} if gone else shown

    def _disks(self, i: int) -> None:
        for name, there in (("sda", True), ("new", i >= 7), ("old", not 9 <= i < 14)):
            if not there:
                for key in [k for k in self._values if k.startswith(f"disk/{name}/")]:
                    del self._values[key]
                continue
            quiet = self.random.random() < 0.5
            for kind in _DISK:
                most = 0 if quiet and kind in ("reads", "writes", "flushes") else 4
                self._count(f"disk/{name}/{kind}", most, wraps=kind == "busy_ms")
            flying = self.random.choice((0, 1, 3))
            self._gauge(f"disk/{name}/in_flight", flying)

    def _count(self, name: str, most: int, *, slips: bool = False, wraps: bool = False) -> None:
        begin = 2**32 - 9 if wraps else self.random.randrange(100)
        value = (self._values.get(name) or begin) + self.random.randint(0, most)
        if slips and self.random.random() < 0.2:
            value = max(value - self.random.randint(0, 2 * most), 0)
        self._values[name] = value % 2**32 if wraps else value

    def _gauge(self, name: str, value: int) -> None:
        self._values[name] = value

    def _tables(self, now: int, i: int) -> None:
        for type_, root in (("own", 100), ("target", 500)):
            rows = self._grown(root)
            if rows and self.random.random() < 0.9:
                more = self.random.choice((0, 0, 0, 3))
                self.writer.say(type_, t=now, rows=rows, more=more)
        self.writer.say("watcher", t=now, rows=[[77, 77, "bw", "S", 9 * i, 0]])
        if i % 4 == 0:
            self.writer.say("processes", t=now, rows=self._all_processes())
        if i % 5 == 1:
            files = [[n, f"f{n}", self.random.randrange(50), 64] for n in (100, 101)]
            self.writer.say("files_open", t=now, rows=files)
        if self.random.random() < 0.5:
            level = self.random.choice((3, 4, 6))
            at = now - self.random.randrange(TENTH)
            self.writer.say("kernel", t=max(at, 0), level=level, text=f"message {i}")

    def _grown(self, root: int) -> list[list[Any]]:
        threads = self._threads[root]
        if self.random.random() < 0.3:
            threads.append([root, self._next, f"t{self._next}", "R", 0, 0])
            self._next += 1
        if threads and self.random.random() < 0.2:
            threads.pop(self.random.randrange(len(threads)))
        for row in threads:
            # Now and then the number is given to a new thread.
            begun = 0 if self.random.random() < 0.05 else row[4]
            row[4] = begun + self.random.randrange(50_000_000)
            row[5] += self.random.randrange(9_000_000)
        return [list(row) for row in threads]

    def _all_processes(self) -> list[list[Any]]:
        if self.random.random() < 0.6:
            parent = self.random.choice((1, 1, 2, 60, 100, 500))
            self._processes.append([self._next, parent, f"n{self._next}", 0, self._next])
            self._next += 1
        if len(self._processes) > 2 and self.random.random() < 0.3:
            self._processes.pop(self.random.randrange(2, len(self._processes)))
        for row in self._processes:
            row[3] += self.random.randrange(12)
        return [list(row) for row in self._processes]
