"""A child that searches texts of 50,000 characters with every regular expression of the package.

Each expression is tried in a child, in which a single call has `CALL_S` seconds of CPU time: some
hundred times what it needs, and a third of what the fastest expression takes whose steps grow with
the square of the text. Then the kernel ends the child, also inside a call that no handler can
interrupt.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import re._parser as structure  # type: ignore[import-not-found]
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import benchwright

LENGTH = 50_000
CALL_S = 0.5
KINDS = (
    *("x", "X", "é", "1", "0", "-", "_", '"', "'", "`", "{", "}", "[", "]", "(", ")"),
    *("<", ">", " ", "\t", "\n", "=", "/", "\\", ":", ";", ".", ",", "@", "%", "$"),
    *("#", "+", "~", "&", "|", "?", "*", "!", "^", "a ", "a=", "a:", "a/", "://", "-a "),
)
METHODS = ("match", "search", "fullmatch", "findall", "finditer", "sub", "split")


def limit_next_call() -> None:
    """Give this process `CALL_S` seconds of CPU time from now; the signal's default action ends it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, CALL_S)


def uses() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Yield the place, the expression and the method of each use in the package."""
    root = Path(benchwright.__path__[0])
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
        if not any(isinstance(call.func, ast.Attribute) for call in calls):
            continue
        name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts))
        try:
            module = importlib.import_module(name.removesuffix(".__init__"))
        except ImportError:
            continue  # an extra that is not installed
        used, passed = set(), set()
        for call in calls:
            func = call.func
            if not (isinstance(func, ast.Attribute) and func.attr in METHODS):
                continue
            if not isinstance(func.value, ast.Name):
                continue
            pattern: Any = getattr(module, func.value.id, None)
            if pattern is None and func.attr.startswith("find"):
                passed.add(func.attr)
            if pattern is re:
                with contextlib.suppress(ValueError):
                    flags = sum(
                        getattr(re, one.attr)
                        for part in (*call.args[1:], *(k.value for k in call.keywords))
                        for one in ast.walk(part)
                        if isinstance(one, ast.Attribute) and one.attr.isupper()
                    )
                    pattern = re.compile(ast.literal_eval(call.args[0]), flags)
            if isinstance(pattern, re.Pattern):
                used.add(func.value.id)
                yield f"{name}:{call.lineno}", pattern, func.attr
        # Others are passed to a function, which searches here, or elsewhere for the whole of a
        # text.
        for constant, pattern in vars(module).items():
            if isinstance(pattern, re.Pattern) and constant not in used:
                for method in sorted(passed) or ["fullmatch"]:
                    yield f"{name}:{constant}", pattern, method


def literals(pattern: re.Pattern[Any]) -> set[str]:
    """Return the fixed parts of an expression."""
    found: set[str] = set()

    def walk(parts: Any) -> None:
        run = ""
        for operator, argument in parts:
            kind = str(operator)
            if kind == "LITERAL":
                run += chr(argument)
                continue
            found.add(run)
            run = ""
            if kind == "BRANCH":
                for branch in argument[1]:
                    walk(branch)
            elif isinstance(argument, tuple):
                for one in argument:
                    if isinstance(one, structure.SubPattern):
                        walk(one)
        found.add(run)

    walk(structure.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    return found - {""}


def texts(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Yield long texts of one kind each, also after and of what the expression looks for."""
    fixed = sorted(literals(pattern))
    for kind in (*KINDS, *fixed, *(f"{one} " for one in fixed)):
        for before in ("", "0", *fixed[:2]):
            yield before + (kind * LENGTH)[:LENGTH] + "\x01"


def search(pattern: re.Pattern[Any], method: str) -> None:
    """Search all texts."""
    for text in texts(pattern):
        data: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
        limit_next_call()
        if method == "sub":
            pattern.sub(data[:0], data)
        elif method == "finditer":
            for _ in pattern.finditer(data):
                pass
        else:
            getattr(pattern, method)(data)


def main() -> None:
    """Print every use that is too slow, and the number of those that were tried."""
    done = set()
    for place, pattern, method in uses():
        key = (pattern.pattern, pattern.flags, method)
        if key in done:
            continue
        done.add(key)
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            search(pattern, method)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(f"{place}: {method} of {pattern.pattern!r}", flush=True)
    print(f"{len(done)} uses")


if __name__ == "__main__":
    main()
