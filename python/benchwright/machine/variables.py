"""Environment variables, each with what a difference in it means.

Decision: values only of variables that are known to change how programs run; of any other
the name. A list of names that tell of secrets can never be whole (SSHPASS, LDAP_BINDPW).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchwright.machine.redact import redacted_variable
from benchwright.machine.tree import known
from benchwright.machine.vocabulary import EXPECTED, SUSPICIOUS
from benchwright.model.machine import Fact

_MOST_CHARACTERS = 2000
_MATTERS = re.compile(
    r"(PATH|LANG|TZ|TMPDIR)\Z|LC_|LD_|MALLOC_|GLIBC_|OMP_|GOMP_|KMP_|MKL_"
    r"|OPENBLAS_|NUMEXPR_|BLIS_|CUDA_|NVIDIA_|ROCR_|HIP_|JAVA_|JDK_|_JAVA|JVM_|GO(GC|MAXPROCS"
    r"|DEBUG|MEMLIMIT|FLAGS)|PYTHON|RUST|NODE_OPTIONS|UV_THREADPOOL|RUBY|PERL|MIMALLOC_"
    r"|JEMALLOC|_RJEM|TCMALLOC|CC\Z|CXX\Z|CFLAGS|CXXFLAGS|LDFLAGS|MAKEFLAGS|NPROC"
    r"|ASAN_|UBSAN_|TSAN_|DEBUGINFOD|(http|https|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables that change how programs run; others tell who started them, and where."""
SET = "set"
"""In place of the value of any other variable."""


def variable_facts(environment: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the environment variables, `env.NAME`: the value, or that it is set."""
    for name in sorted(environment):
        matters = _MATTERS.match(name) is not None
        value = redacted_variable(name, environment[name]) if matters else SET
        if len(value) > _MOST_CHARACTERS:
            value = f"{value[:_MOST_CHARACTERS]}... ({len(value)} characters)"
        weight = SUSPICIOUS if matters else EXPECTED
        yield known(f"env.{name}", _printable(value), "environment", weight)


def _printable(text: str) -> str:
    """Return a text that is UTF-8: an environment may hold any bytes."""
    return text.encode(errors="backslashreplace").decode()
