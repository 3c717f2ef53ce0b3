"""An HTTP server with one thread, as many small services are: each request takes it 2 to 5 ms of
CPU time.

Usage: one_thread_server.py PORT
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

WORK_S = (0.002, 0.005)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
END = b"\r\n\r\n"


class Requests(asyncio.Protocol):
    """The requests of a connection, one after the other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what has been read whole."""
        assert self._transport is not None
        *whole, self._read = (self._read + data).split(END)
        for _ in whole:
            work(self._chance.uniform(*WORK_S))
            self._transport.write(ANSWER)


def work(seconds: float) -> None:
    """Use so much CPU time [s]; what others take of the CPU does not count."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def serve(port: int) -> None:
    """Serve until the process ends."""
    chance = random.Random(1)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Requests(chance), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
