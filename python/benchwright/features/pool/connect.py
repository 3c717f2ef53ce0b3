"""The far end of a channel through Slurm: standard input and output, connected to an agent's
socket.

`python -m benchwright.features.pool.connect SOCKET`, as a step of the agent's job. It prints one
line, `READY`, when it is connected; then it only forwards bytes, and sleeps while there are none.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time

READY = b"bw-agent\n"
_PATIENCE_S = 20.0
"""An agent that was started with the job listens after this time."""
_CHUNK = 1 << 16


def forward(connection: socket.socket) -> None:
    """Forward bytes in both directions until one end closes."""
    ways = {0: connection.fileno(), connection.fileno(): 1}
    with selectors.DefaultSelector() as selector:
        for source in ways:
            selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                if not data:
                    return
                while data:
                    data = data[os.write(ways[key.fd], data) :]


def main(words: list[str]) -> int:
    """Connect to the socket that the words name, and forward."""
    (path,) = words
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            break
        except OSError as error:
            connection.close()
            if time.monotonic() > end_s:
                print(f"{path}: {error.strerror}", file=sys.stderr)
                return 1
            time.sleep(0.1)
    os.write(1, READY)
    with connection:
        forward(connection)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
