"""The types of arrays and samples, for the modules that compute with numpy."""

from __future__ import annotations

from collections.abc import Sequence

from benchwright.core.numeric import np, npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SampleValues = FloatArray | Sequence[float]
"""The values of a sample, shape `(n,)`."""


def finite(values: SampleValues) -> FloatArray:
    """Return the finite values as an array of shape `(n,)`."""
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]
