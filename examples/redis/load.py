#!/usr/bin/env python3
"""Open-loop load on Redis: load.py PORT RATE DURATION_S SEED [KEYS VALUE_BYTES]; prints one JSON
document.

Each operation writes a value of VALUE_BYTES (1024) to one of KEYS (1) keys and reads a long list.
Arrivals are Poisson and wait for nobody: a response counts from when its operation should have
begun, also while all connections are taken. What has not ended when the time is up counts with its
age.
"""

import asyncio
import json
import random
import sys

CONNECTIONS = 32
ELEMENTS = 10_000
"""So many that Redis has more to do with them than this program."""
BATCH = 1000
"""Values that are sent before their replies are read."""


def command(*words: bytes) -> bytes:
    """Return a command in Redis' protocol."""
    parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n%s" % (len(words), parts)


READ = command(b"LRANGE", b"list", b"0", b"-1")
REPLY_BYTES = len(b"+OK\r\n" + b"*%d\r\n" % ELEMENTS) + sum(
    len(b"$%d\r\n%d\r\n" % (len(str(one)), one)) for one in range(ELEMENTS)
)


class Load:
    """One run."""

    def __init__(self, port: int, rate: float, duration_s: float, keys: int, value: bytes) -> None:
        self.port, self.rate, self.duration_s = port, rate, duration_s
        self.keys, self.value = keys, value
        self.due: asyncio.Queue[float] = asyncio.Queue()
        self.begun: set[float] = set()
        self.ended: list[tuple[float, float]] = []
        self.offered = 0

    async def run(self, seed: int) -> dict[str, object]:
        """Fill the list, drive the load, and return what it came to."""
        await self.fill()
        chance = random.Random(seed)
        self.chance = random.Random(seed + 1)
        pairs = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(CONNECTIONS)]
        self.clock = asyncio.get_running_loop().time
        self.zero = self.clock()
        users = [asyncio.create_task(self.user(*pair)) for pair in pairs]
        await self.arrive(chance)
        for one in users:
            one.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        return self.answer(self.clock() - self.zero)

    async def fill(self) -> None:
        """Make the list and the values anew."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        words = [b"%d" % one for one in range(ELEMENTS)]
        writer.write(command(b"DEL", b"list") + command(b"RPUSH", b"list", *words))
        await reader.readline()
        await reader.readline()
        for first in range(0, self.keys, BATCH):
            numbers = range(first, min(first + BATCH, self.keys))
            writer.write(b"".join(map(self.written, numbers)))
            for _ in numbers:
                await reader.readline()
        writer.close()

    def written(self, number: int) -> bytes:
        """Return the command that writes a value."""
        return command(b"SET", b"key:%d" % number, self.value)

    async def arrive(self, chance: random.Random) -> None:
        """Hand out operations at their times; those that are late, at once."""
        at = chance.expovariate(self.rate)
        while at < self.duration_s:
            wait = self.zero + at - self.clock()
            if wait > 0:
                await asyncio.sleep(wait)
            self.offered += 1
            self.due.put_nowait(at)
            at += chance.expovariate(self.rate)
        await asyncio.sleep(max(0.0, self.zero + self.duration_s - self.clock()))

    async def user(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what is due, one operation at a time."""
        try:
            while True:
                at = await self.due.get()
                self.begun.add(at)
                number = self.chance.randrange(self.keys)
                writer.write(self.written(number) + READ)
                await reader.readexactly(REPLY_BYTES)
                self.begun.remove(at)
                self.ended.append((at, self.clock() - self.zero - at))
        finally:
            writer.transport.abort()

    def answer(self, now: float) -> dict[str, object]:
        """Return the figures; times in milliseconds."""
        waiting = [self.due.get_nowait() for _ in range(self.due.qsize())]
        open_ = [(at, now - at) for at in (*self.begun, *waiting)]
        every = sorted(response for _, response in (*self.ended, *open_))
        seconds: dict[int, list[float]] = {}
        for at, response in (*self.ended, *open_):
            seconds.setdefault(int(at), []).append(response)
        return {
            "offered": self.offered,
            "completed": len(self.ended),
            "mean_ms": 1e3 * sum(every) / max(len(every), 1),
            "p99_ms": 1e3 * every[int(0.99 * (len(every) - 1))] if every else None,
            "series": [
                [second, len(some), 1e3 * sum(some) / len(some)]
                for second, some in sorted(seconds.items())
            ],
        }


def main() -> None:
    """Run the load that the command line asks for."""
    port, rate, duration_s, seed, *data_set = sys.argv[1:]
    keys, value_bytes = map(int, data_set or (1, 1024))
    load = Load(int(port), float(rate), float(duration_s), keys, b"v" * value_bytes)
    print(json.dumps(asyncio.run(load.run(int(seed)))))


main()
