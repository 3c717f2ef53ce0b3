#!/usr/bin/env python3
"""Open-loop load on a file server, for examples/surface-files.toml; prints one JSON document.

load.py PORT STATE RATE DURATION_S SEED READ RANDOM METADATA PIECE_KIB

METADATA percent of the requests ask for attributes. Of the others READ percent read a piece of a
file and the rest write a whole one. RANDOM percent of the reads are at a random place of a random
file; the others continue where the last one ended. Arrivals are Poisson and wait for nobody: a
response counts from when its request should have begun.
"""

import asyncio
import json
import random
import sys
from pathlib import Path

CONNECTIONS = 32


class Files:
    """The requests of one run, in their order."""

    def __init__(self, argv: list[str], seed: int) -> None:
        state, (read, anywhere, metadata, piece) = argv[0], map(float, argv[1:])
        lines = Path(state, "files.txt").read_text().splitlines()
        self.files = [(int(n), path) for n, _, path in (x.partition(" ") for x in lines)]
        self.chance = random.Random(seed)
        self.read, self.anywhere, self.metadata = read, anywhere, metadata
        self.piece = int(piece * 1024)
        self.file, self.at = self.chance.randrange(len(self.files)), 0

    def happens(self, percent: float) -> bool:
        """Return True in this share of the calls."""
        return self.chance.random() * 100 < percent

    def request(self) -> bytes:
        """Return the next request in HTTP."""
        size, path = self.chance.choice(self.files)
        if self.happens(self.metadata):
            return b"GET /attributes/%s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode()
        if not self.happens(self.read):
            head = b"PUT /%s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
            return head % (path.encode(), size) + bytes(size)
        if self.happens(self.anywhere):
            at = self.piece * self.chance.randrange(max(1, size // self.piece))
        else:
            at, (size, path) = self.at, self.files[self.file]
            self.at += self.piece
            if self.at >= size:
                self.file, self.at = (self.file + 1) % len(self.files), 0
        head = b"GET /%s HTTP/1.1\r\nHost: h\r\nRange: bytes=%d-%d\r\n\r\n"
        return head % (path.encode(), at, at + self.piece - 1)


class Load:
    """One run."""

    def __init__(self, port: int, rate: float, duration_s: float, files: Files) -> None:
        self.port, self.rate, self.duration_s, self.files = (port, rate, duration_s, files)
        self.due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self.begun: set[float] = set()
        self.ended: list[tuple[float, float]] = []
        self.offered = self.errors = 0

    async def run(self) -> dict[str, object]:
        """Drive the load, and return its figures."""
        pairs = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(CONNECTIONS)]
        self.clock = asyncio.get_running_loop().time
        self.zero = self.clock()
        users = [asyncio.create_task(self.user(*pair)) for pair in pairs]
        await self.arrive()
        for one in users:
            one.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        return self.answer(self.clock() - self.zero)

    async def arrive(self) -> None:
        """Hand out requests at their times; those that are late, at once."""
        at = self.files.chance.expovariate(self.rate)
        while at < self.duration_s:
            wait = self.zero + at - self.clock()
            if wait > 0:
                await asyncio.sleep(wait)
            self.offered += 1
            self.due.put_nowait((at, self.files.request()))
            at += self.files.chance.expovariate(self.rate)
        await asyncio.sleep(max(0.0, self.zero + self.duration_s - self.clock()))

    async def user(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send what is due, one request at a time."""
        try:
            while True:
                at, request = await self.due.get()
                self.begun.add(at)
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(fields.get(b"content-length", 0)))
                self.begun.remove(at)
                self.errors += not head.startswith(b"HTTP/1.1 2")
                self.ended.append((at, self.clock() - self.zero - at))
        finally:
            writer.transport.abort()

    def answer(self, now: float) -> dict[str, object]:
        """Return the figures; times in milliseconds."""
        waiting = [self.due.get_nowait()[0] for _ in range(self.due.qsize())]
        open_ = [(at, now - at) for at in (*self.begun, *waiting)]
        every = sorted(response for _, response in (*self.ended, *open_))
        seconds: dict[int, list[float]] = {}
        for at, response in (*self.ended, *open_):
            seconds.setdefault(int(at), []).append(response)
        return {
            "offered": self.offered,
            "completed": len(self.ended) - self.errors,
            "errors": self.errors,
            "error_ratio": self.errors / max(len(every), 1),
            "mean_ms": 1e3 * sum(every) / max(len(every), 1),
            "series": [
                [second, len(some), 1e3 * sum(some) / len(some)]
                for second, some in sorted(seconds.items())
            ],
        }


def main() -> None:
    """Run the load that the command line asks for."""
    port, state, rate, duration_s, seed, *mix = sys.argv[1:]
    files = Files([state, *mix], int(seed))
    print(json.dumps(asyncio.run(Load(int(port), float(rate), float(duration_s), files).run())))


main()
