"""The tree is the architecture: imports between rooms of the core go downward only, and the core
imports no feature."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python" / "benchwright"
ROOMS = (
    "api",
    "cli",
    "page",
    "report",
    "run",
    "suite",
    "trial",
    "watch",
    "machine",
    "notice",
    "study",
    "decide",
    "finding",
    "findings",
    "stats",
    "core",
)
"""From top to bottom, as in ARCHITECTURE.md."""

PURE = ("report", "decide", "findings", "stats", "core")
EFFECTS = {"time", "random", "subprocess", "socket", "secrets"}
"""What a pure room may not import at all."""


def imported_modules(path: Path) -> set[str]:
    """Return the dotted names that a module imports, at any depth of it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the direction"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def modules_of(room: str) -> list[Path]:
    """Return the Python files of a room."""
    return sorted((PACKAGE / room).rglob("*.py"))


def test_every_room_is_listed() -> None:
    rooms = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert rooms == {*ROOMS, "features"}


def test_imports_go_downward() -> None:
    wrong = []
    for height, room in enumerate(ROOMS):
        above = ROOMS[:height]
        for path in modules_of(room):
            for name in imported_modules(path):
                parts = name.split(".")
                if parts[0] == "benchwright" and len(parts) > 1 and parts[1] in above:
                    wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert wrong == []


WHOLE = {"main", "about", "completion", "config"}
"""Modules of cli/ that need the parser of all commands, which needs theirs."""


def test_commands_do_not_import_in_circles() -> None:
    """Not even by imports inside functions: what two modules need is in a third one."""
    graph = {
        path.stem: {
            name.split(".")[2]
            for name in imported_modules(path)
            if name.startswith("benchwright.cli.")
        }
        - {path.stem}
        for path in modules_of("cli")
        if path.stem not in WHOLE
    }
    while leaves := [one for one, needs in graph.items() if not needs & graph.keys()]:
        for one in leaves:
            del graph[one]
    assert graph == {}


def test_pure_rooms_take_no_clock_and_no_randomness() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for room in PURE
        for path in modules_of(room)
        for name in imported_modules(path)
        if name.split(".")[0] in EFFECTS
    ]
    assert wrong == []


def test_numpy_is_imported_in_one_place() -> None:
    importers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for name in imported_modules(path)
        if name.split(".")[0] == "numpy"
    }
    assert importers == {"core/numeric.py"}


def test_nothing_is_evaluated() -> None:
    """No eval, exec or compile anywhere; `re.compile` is an attribute, not a name."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"eval", "exec", "compile", "__import__"}
            ):
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []


LEFT: dict[str, set[str]] = {
    "api/calls.py": {"load", "search"},
    "api/results.py": {"load", "search"},
    "cli/compare_outcome.py": {"profile"},
    "cli/main.py": {
        "autopilot",
        "exchange",
        "history",
        "load",
        "pool",
        "quiet",
        "replay",
        "search",
    },
    "cli/outcome.py": {"load"},
    "cli/plot_file.py": {"load"},
    "cli/plot_study.py": {"load", "search"},
    "cli/report.py": {"exchange"},
    "cli/resume.py": {"load", "search"},
    "cli/run.py": {"pool", "quiet"},
    "cli/schemas.py": {"exchange", "history", "load", "pool", "quiet", "replay", "search"},
    "cli/session_output.py": {"pool", "profile", "quiet"},
    "cli/shared_options.py": {"pool"},
    "cli/stats.py": {"search"},
    "cli/stats_inputs.py": {"exchange"},
    "cli/why_results.py": {"search"},
    "findings/examine.py": {"profile"},
    "findings/explanation.py": {"search"},
    "findings/observed.py": {"profile"},
    "load.py": {"load"},
    "page/gather.py": {"search"},
    "page/headline.py": {"load", "search"},
    "page/html.py": {"profile"},
    "page/tests.py": {"load", "pool"},
    "page/trial_charts.py": {"load"},
    "page/why.py": {"profile", "search"},
    "report/charts/distribution.py": {"history"},
    "report/junit.py": {"load"},
    "report/observed.py": {"profile", "search"},
    "report/progress.py": {"pool"},
    "report/why.py": {"search"},
    "run/notices.py": {"search"},
    "run/observers.py": {"profile", "search"},
    "run/performer.py": {"profile"},
    "run/runner.py": {"pool", "quiet"},
    "run/session.py": {"pool"},
    "run/test.py": {"profile"},
    "run/watching.py": {"profile"},
    "study/contents.py": {"profile", "search"},
    "study/export.py": {"search"},
    "study/parsers/api.py": {"profile"},
    "study/parsers/study.py": {"pool"},
    "suite/compile.py": {"autopilot"},
    "suite/program.py": {"pool", "quiet"},
    "suite/toml.py": {"pool"},
    "suite/toml_sections.py": {"quiet"},
}
"""Modules of the core that still import a feature, and which."""


def feature_of(name: str) -> str:
    """Return the feature that a module of this dotted name belongs to; empty for the core."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["benchwright", "features"] and len(parts) > 2 else ""


def test_the_core_imports_no_feature() -> None:
    crossing = {
        (str(path.relative_to(PACKAGE)), feature)
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "features"
        for name in imported_modules(path)
        if (feature := feature_of(name))
    }
    assert crossing == {(path, feature) for path, features in LEFT.items() for feature in features}
