"""A real nginx for tests: own port, configuration and pages, all in one directory.

It serves its directory, compressed for who asks for it: so requests cost it CPU time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from ssh_server import free_port


def nginx(
    directory: Path, address: str, *prefix: str, name: str = "nginx"
) -> subprocess.Popen[bytes]:
    """Start nginx on a free port of an address, as a process of that name; its port file is written
    here."""
    (directory / "large").write_bytes(os.urandom(4 << 20))
    port = free_port()
    (directory / "port").write_text(str(port))
    (directory / "nginx.conf").write_text(
        f"daemon off; worker_processes 2; pid {directory}/nginx.pid;\n"
        f"error_log {directory}/error.log;\n"
        + ("user root;\n" if os.geteuid() == 0 else "")
        + "events {}\nhttp { access_log off; gzip on; gzip_types *; gzip_comp_level 6;\n"
        + "".join(
            f"{kind}_temp_path {directory}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"server {{ listen {address}:{port}; root {directory}; }} }}\n"
    )
    program = shutil.which("nginx")
    assert program is not None
    if name != "nginx":
        (directory / name).symlink_to(program)
        program = str(directory / name)
    argv = [*prefix, program, "-p", str(directory), "-c", f"{directory}/nginx.conf"]
    process = subprocess.Popen(argv)
    for _ in range(500):
        if _answers(f"http://{address}:{port}/port"):
            return process
        time.sleep(0.02)
    process.terminate()
    raise AssertionError((directory / "error.log").read_text())


def _answers(url: str) -> bool:
    try:
        return bool(fetched(url, 1.0))
    except OSError:
        return False


def fetched(url: str, limit_s: float = 30.0) -> bytes:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=limit_s) as answer:
        data: bytes = answer.read()
        return data
