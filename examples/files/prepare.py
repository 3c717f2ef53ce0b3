#!/usr/bin/env python3
"""Make a file server's data and nginx's configuration, for examples/surface-files.toml.

prepare.py MOUNTS STATE PORT DAEMONS DATA_MIB FILE_KIB DISTRIBUTION FILES_PER_DIRECTORY DEPTH

MOUNTS contains disk1, disk2 ...; the directories are spread over them. STATE/files.txt gets a
line for each file: its size and its path. The same arguments make the same files.
"""

import itertools
import os
import random
import sys
from pathlib import Path

CONFIGURATION = """
worker_processes {daemons};
daemon off;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {mounts}/disk1/.tmp;
    proxy_temp_path tmp;
    fastcgi_temp_path tmp;
    uwsgi_temp_path tmp;
    scgi_temp_path tmp;
    keepalive_requests 1000000;
    client_max_body_size 1g;
    server {{
        listen 127.0.0.1:{port};
        root {mounts};
        location / {{ dav_methods PUT; }}
        # A request for the attributes of a file: nginx only looks it up.
        location /attributes/ {{
            rewrite ^/attributes(/.*)$ $1 break;
            if (-f $request_filename) {{ return 204; }}
        }}
    }}
}}
"""


def sizes(data: int, mean: int, distribution: str, chance: random.Random) -> list[int]:
    """Return sizes of files [bytes] that add up to about `data`."""
    found: list[int] = []
    while sum(found) < data:
        if distribution == "exponential":
            found.append(max(1, round(chance.expovariate(1 / mean))))
        elif distribution == "pareto":
            found.append(round(mean / 3 * chance.paretovariate(1.5)))
        else:
            found.append(mean)
    return found


def main() -> None:
    """Make what the command line describes."""
    mounts, state, port, daemons, data, size, distribution, per, depth = sys.argv[1:]
    disks = sorted(Path(mounts).glob("disk[0-9]*[0-9]")) or sorted(Path(mounts).glob("disk[0-9]"))
    for made in (disks[0] / ".tmp", Path(state, "tmp")):
        made.mkdir(exist_ok=True)
        made.chmod(0o777)
    chance = random.Random(1)
    whole = sizes(int(data) << 20, int(size) << 10, distribution, chance)
    block = chance.randbytes(1 << 20)
    lines = []
    directories = itertools.batched if hasattr(itertools, "batched") else batches
    for number, inside in enumerate(directories(whole, int(per))):
        disk = disks[number % len(disks)]
        place = disk.joinpath(*[f"d{number}"] * int(depth))
        place.mkdir(parents=True)
        for index, length in enumerate(inside):
            path = place / f"f{index}"
            with path.open("wb") as file:
                for at in range(0, length, len(block)):
                    file.write(block[: length - at])
            path.chmod(0o666)
            lines.append(f"{length} {path.relative_to(mounts)}\n")
        for made in (place, *place.parents[: int(depth) - 1]):
            made.chmod(0o777)
    Path(state, "files.txt").write_text("".join(lines))
    text = CONFIGURATION.format(daemons=daemons, port=port, mounts=mounts)
    Path(state, "nginx.conf").write_text(text)
    # What was written is on the disks before the load begins.
    os.sync()


def batches(values: list[int], size: int) -> list[list[int]]:
    """Return the values in lists of this length (Python 3.12 has itertools.batched)."""
    return [values[at : at + size] for at in range(0, len(values), size)]


main()
