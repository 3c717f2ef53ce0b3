"""A WebSocket server by the library `websockets`: what it does, the path says. Prints its URL.

/echo, /delayed?ms=20 (an echo; a text gets the times of its arrival and of its answer), /shuffled
(answers of four at a time, the last first), /pushes (a message of its own before each answer),
/closing?code=1001 (a close in place of each third answer; 1006: the end of the connection alone),
/leaving (a close behind each answer), /parts (several messages, the last with `done`),
/chat (subprotocol `chat`), /secret (403), /silent (no answer), /fragments (fragments without an end).

Usage: websocket_server.py [UNIX_SOCKET | KEY CERTIFICATE]
"""

from __future__ import annotations

import asyncio
import http
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

stamps: list[tuple[int, int]] = []
"""When each message arrived and was answered [ns], by CLOCK_MONOTONIC."""


async def delayed(socket: ServerConnection, delay_s: float) -> None:
    async for message in socket:
        arrived = time.monotonic_ns()
        await asyncio.sleep(delay_s)
        stamps.append((arrived, time.monotonic_ns()))
        await socket.send(message)


async def shuffled(socket: ServerConnection) -> None:
    waiting: list[str | bytes] = []
    async for message in socket:
        waiting.append(message)
        if len(waiting) == 4:
            for one in reversed(waiting):
                await socket.send(one)
            waiting.clear()


async def pushes(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(json.dumps({"news": time.time()}))
        await socket.ping()
        await socket.send(message)


async def closing(socket: ServerConnection, code: int) -> None:
    number = 0
    async for message in socket:
        number += 1
        if number == 3:
            if code == 1006:
                socket.transport.abort()
            else:
                await socket.close(code, "said so")
            return
        await socket.send(message)


async def leaving(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)
        await socket.close(1000)
        return


async def parts(socket: ServerConnection) -> None:
    async for message in socket:
        asked = json.loads(message)
        for _ in range(asked["parts"]):
            await asyncio.sleep(0.01)
            await socket.send(json.dumps({"id": asked["id"]}))
        await socket.send(json.dumps({"id": asked["id"], "done": True}))


async def fragments(socket: ServerConnection) -> None:
    async def endless() -> AsyncIterator[str]:
        while True:
            yield "x" * 1000

    async for _ in socket:
        await socket.send(endless())


async def handle(socket: ServerConnection) -> None:
    assert socket.request is not None
    place = urlsplit(socket.request.path)
    match place.path:
        case "/delayed":
            await delayed(socket, float(parse_qs(place.query)["ms"][0]) / 1000)
        case "/stamps":
            await socket.send(json.dumps(stamps))
        case "/shuffled":
            await shuffled(socket)
        case "/pushes":
            await pushes(socket)
        case "/closing":
            await closing(socket, int(parse_qs(place.query)["code"][0]))
        case "/leaving":
            await leaving(socket)
        case "/parts":
            await parts(socket)
        case "/fragments":
            await fragments(socket)
        case "/silent":
            async for _ in socket:
                pass
        case _:
            async for message in socket:
                await socket.send(message)


def judge(socket: ServerConnection, request: Request) -> Response | None:
    if request.path == "/secret" or (
        request.path == "/token" and request.headers.get("Authorization") != "Bearer abc"
    ):
        return socket.respond(http.HTTPStatus.FORBIDDEN, "no\n")
    return None


def select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return Subprotocol("chat") if "chat" in offered else None


async def main() -> None:
    how: dict[str, Any] = {"process_request": judge, "select_subprotocol": select, "max_size": None}
    match sys.argv[1:]:
        case [path]:
            serving = unix_serve(handle, path, **how)
        case [key, certificate]:
            how["ssl"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            how["ssl"].load_cert_chain(certificate, key)
            serving = serve(handle, "127.0.0.1", 0, **how)
        case _:
            serving = serve(handle, "127.0.0.1", 0, **how)
    async with serving as server:
        name = next(iter(server.sockets)).getsockname()
        url = f"wss://localhost:{name[1]}" if "ssl" in how else f"ws://127.0.0.1:{name[1]}"
        print(url if isinstance(name, tuple) else name, flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
