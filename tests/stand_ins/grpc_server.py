"""A gRPC server by grpcio: one that answers, streams, waits and fails as a request says. Prints the
target of bw, and writes a line of JSON for each call that has ended into a file: its client, its
metadata, when it began and when its first message left (CLOCK_MONOTONIC) [ns].

Usage: grpc_server.py FILE ADDRESS [KEY CERTIFICATE]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import grpc
from grpc_reflection.v1alpha import reflection


class Greeter:
    """The service."""

    def __init__(self, protos: Any, calls: TextIO) -> None:
        self.protos = protos
        self.calls = calls

    def Hello(self, request: Any, context: Any) -> Any:
        began_ns = time.monotonic_ns()
        time.sleep(request.wait_ms / 1000)
        self._end(request, context, began_ns, time.monotonic_ns())
        return self.protos.Reply(text=f"hello {request.name}")

    def Watch(self, request: Any, context: Any) -> Iterator[Any]:
        began_ns = time.monotonic_ns()
        first_ns = None
        for number in range(request.count):
            time.sleep(request.wait_ms / 1000)
            first_ns = first_ns or time.monotonic_ns()
            yield self.protos.Reply(text=str(number))
        self._end(request, context, began_ns, first_ns)

    def Upload(self, requests: Any, context: Any) -> Any:
        began_ns = time.monotonic_ns()
        every = list(requests)
        whole = self.protos.Request(name=",".join(request.name for request in every))
        self._end(whole, context, began_ns, time.monotonic_ns())
        return self.protos.Reply(text=whole.name)

    def Chat(self, requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            yield from self.Watch(request, context)

    def _end(self, request: Any, context: Any, began_ns: int, first_ns: int | None) -> None:
        call = {
            "name": request.name,
            "client": context.peer(),
            "metadata": [
                [name, value if isinstance(value, str) else value.hex()]
                for name, value in context.invocation_metadata()
            ],
            "remaining_s": context.time_remaining(),
            "began_ns": began_ns,
            "first_ns": first_ns,
        }
        self.calls.write(json.dumps(call) + "\n")
        self.calls.flush()
        if request.status:
            context.abort(grpc.StatusCode[request.status], f'said "{request.status}" é')


def main() -> None:
    """Serve until killed."""
    calls, address, *secret = sys.argv[1:]
    sys.path.insert(0, str(Path(calls).parent))
    protos, services = grpc.protos_and_services("greeter.proto")
    with open(calls, "w") as file:
        server = grpc.server(ThreadPoolExecutor(32))
        services.add_GreeterServicer_to_server(Greeter(protos, file), server)
        names = [one.full_name for one in protos.DESCRIPTOR.services_by_name.values()]
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
        if secret:
            pair = tuple(Path(path).read_bytes() for path in secret)
            port = server.add_secure_port(f"{address}:0", grpc.ssl_server_credentials([pair]))
            print(f"grpcs://{address}:{port}", flush=True)
        else:
            print(f"grpc://{address}:{server.add_insecure_port(f'{address}:0')}", flush=True)
        server.start()
        server.wait_for_termination()


if __name__ == "__main__":
    main()
