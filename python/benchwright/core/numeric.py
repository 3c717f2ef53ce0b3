"""numpy, loaded so that its linear algebra has no threads of its own.

OpenBLAS starts a thread for each CPU when it is loaded. They spin while they wait: on 2 CPUs
that is half of the CPU time of `import numpy`, and it can fall beside a trial. Nothing here
multiplies matrices that are large enough for threads. OpenBLAS reads its environment variable
once, when it is loaded; the variable is removed again so that no measured program inherits it.
Every module imports numpy from here; a user's own setting is respected.
"""

from __future__ import annotations

import os

_THREADS = "OPENBLAS_NUM_THREADS"

_is_ours = _THREADS not in os.environ
if _is_ours:
    os.environ[_THREADS] = "1"
try:
    import numpy as np
    import numpy.typing as npt
    from numpy.typing import ArrayLike, NDArray
finally:
    if _is_ours:
        del os.environ[_THREADS]

__all__ = ["ArrayLike", "NDArray", "np", "npt"]
