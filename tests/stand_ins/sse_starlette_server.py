"""A chat streamed by sse-starlette: CRLF, and pings as comments. Prints its URL.

Usage: sse_starlette_server.py SECONDS_BETWEEN_PINGS
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from event_server import CHAT

PING_S = float(sys.argv[1])


async def chat(request: Request) -> EventSourceResponse:
    """Answer with three words, slower than the pings."""
    await request.body()

    async def events() -> AsyncIterator[dict[str, str]]:
        for data in CHAT:
            await asyncio.sleep(0.01)
            yield {"data": data}

    return EventSourceResponse(events(), ping=PING_S)


def main() -> None:
    """Serve until killed."""
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
