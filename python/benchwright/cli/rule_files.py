"""Loads users' rules: from files, from the user's rules directory, and from plug-ins.

Purpose: `--rule FILE` of `bw why` and `bw stats`. Decision: a rule is Python code of the user and
is executed. An exception in it is reported as a mistake at that file and line, without a
traceback. A directory that other users can write to is an error. Plug-ins are in the entry-point
group `benchwright.rules`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.untrusted import others_could_write
from benchwright.findings.rules import RULE_HINT, NamedRule, rule_error
from benchwright.inputs.mistakes import Unreadable, read_regular

GROUP = "benchwright.rules"


def read_rules(
    files: Sequence[str], environment: Mapping[str, str] | None = None
) -> list[NamedRule]:
    """Return the rules of the user's directory, of the files and of plug-ins.

    Raises InputError with all files that cannot be read, are not Python, or have no rule.
    """
    env = os.environ if environment is None else environment
    named_rules: list[NamedRule] = []
    wrong: list[Diagnostic] = []
    for path in (*_kept(env, wrong), *map(Path, files)):
        try:
            named_rules.append(_loaded(path))
        except InputError as error:
            wrong.extend(error.diagnostics)
    named_rules += _plug_ins(wrong)
    if wrong:
        raise InputError(wrong)
    return named_rules


def rules_and_mistakes(files: Sequence[str]) -> tuple[tuple[NamedRule, ...], list[Diagnostic]]:
    """Return the rules of `read_rules`, or no rules and its mistakes instead of an error."""
    try:
        return tuple(read_rules(files)), []
    except InputError as error:
        return (), list(error.diagnostics)


def _kept(env: Mapping[str, str], wrong: list[Diagnostic]) -> list[Path]:
    """Return the files in the user's rules directory, sorted by name."""
    home = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME", ""), ".config")
    place = Path(home) / "benchwright" / "rules"
    if not place.is_absolute() or not place.is_dir():
        return []
    files = sorted(place.glob("*.py"))
    for path in (place, *files):
        if others_could_write(path.stat(), os.getuid()):
            message = f"{path} belongs to another user or may be written by others"
            hint = f"its rules would run as you: chown, or chmod go-w {path}"
            wrong.append(Diagnostic("rule-unsafe", message, hint, str(path)))
            return []
    return files


def _plug_ins(wrong: list[Diagnostic]) -> list[NamedRule]:
    rules = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            rules.append(NamedRule(point.name, point.load()))
        except Exception as error:
            message = f"rule {point.value} cannot be loaded: {error}"
            wrong.append(Diagnostic("bad-rule", message, file=point.name))
    return rules


def _loaded(path: Path) -> NamedRule:
    try:
        read_regular(str(path))
    except (OSError, UnicodeError, Unreadable) as error:
        strerror = getattr(error, "strerror", None)
        message = f"{path}: {strerror}" if strerror else str(error)
        raise InputError([Diagnostic("bad-rule", message, RULE_HINT, "--rule")]) from None
    loader = SourceFileLoader(f"benchwright_rule_{path.stem}", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError([rule_error(str(path), error)]) from error
    finally:
        sys.dont_write_bytecode = wrote
    rule = getattr(module, "rule", None)
    if not callable(rule):
        message = "there is no function `rule` in this file"
        raise InputError([Diagnostic("bad-rule", message, RULE_HINT, str(path))])
    return NamedRule(str(path), rule)
