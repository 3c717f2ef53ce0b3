"""A certificate that its own key signed, by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

OPENSSL = shutil.which("openssl")


def certificate(directory: Path, name: str) -> Path:
    """Return the file of a certificate for `name` that its own key signed; the key is beside it."""
    file = directory / f"{name}.pem"
    words = (
        *(str(OPENSSL), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", f"/CN=bw test {name}"),
        *("-config", "conf", "-extensions", "server"),
        *("-keyout", str(file.with_suffix(".key")), "-out", str(file)),
    )
    (directory / "conf").write_text(
        "[req]\ndistinguished_name = subject\n[subject]\n[server]\n"
        f"basicConstraints = critical,CA:FALSE\nsubjectAltName = DNS:{name}\n"
    )
    subprocess.run(words, cwd=directory, check=True, stderr=subprocess.DEVNULL)
    return file
