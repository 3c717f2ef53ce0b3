"""The policies of a peak search by name.

Imports are lazy: naming a policy must not cost what another one needs.
"""

from __future__ import annotations

from benchwright.control.peak.policy import Policy

DEFAULT = "qgs"
NAMES = (
    "qgs",
    "monotone",
    "binsearch-honest",
    "binsearch",
    "linear",
    "model",
    "strawman",
)
"""As `--policy` names them; the last four are the workbench paper's, as published."""


def policy_named(name: str) -> Policy:
    """Return a policy with its published parameters. Raises KeyError for no such name."""
    if name not in NAMES:
        raise KeyError(name)
    if name == "qgs":
        from benchwright.control.peak.guided import Guided

        return Guided()
    if name == "monotone":
        from benchwright.control.peak.monotone import Monotone

        return Monotone()
    if name == "strawman":
        from benchwright.control.peak.strawman import Strawman

        return Strawman()
    return _published(name)


def _published(name: str) -> Policy:
    from benchwright.control.peak.algorithm2 import Algorithm2
    from benchwright.control.peak.honest import in_the_region
    from benchwright.control.peak.load_picking import binsearch, linear, model_guided

    if name == "binsearch-honest":
        return Algorithm2(name, binsearch, in_the_region, cautions="")
    picking = {"binsearch": binsearch, "linear": linear, "model": model_guided}[name]
    return Algorithm2(name, picking)
