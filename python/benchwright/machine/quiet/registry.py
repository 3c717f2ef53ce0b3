"""Every setting by its name."""

from __future__ import annotations

from benchwright.machine.quiet.caches import Caches, Dirty
from benchwright.machine.quiet.interrupts import IrqAffinity
from benchwright.machine.quiet.isolation import Isolation
from benchwright.machine.quiet.knobs import KNOBS
from benchwright.machine.quiet.nologin import Nologin
from benchwright.machine.quiet.services import Services
from benchwright.machine.quiet.setting import Setting
from benchwright.machine.quiet.smt import Smt
from benchwright.machine.quiet.swap import Swap

_ALL: tuple[Setting, ...] = (
    *(Nologin(), Services(), Swap(), Dirty(), Smt(), *KNOBS),
    *(IrqAffinity(), Isolation(), Caches()),
)
REGISTRY: dict[str, Setting] = {setting.name: setting for setting in _ALL}
