"""The tree is the architecture: imports between rooms of the core go downward only, and the core
imports no feature."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchwright.cli.parser import SUMMARIES
from benchwright.feature import TABLE, Row, features
from benchwright.study.journal import Study
from session_infos import suite_info

PACKAGE = Path(__file__).parents[2] / "python" / "benchwright"
ROOMS = (
    "api",
    "cli",
    "page",
    "views",
    "results",
    "report",
    "run",
    "suite",
    "inputs",
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


def imported_modules(path: Path, *, types: bool = True) -> set[str]:
    """Return the dotted names that a module imports, at any depth of it; without `types` not those
    for the type checker alone."""
    names = set()
    tree = ast.parse(path.read_text())
    for block in [] if types else [one for one in ast.walk(tree) if isinstance(one, ast.If)]:
        if ast.unparse(block.test) == "TYPE_CHECKING":
            block.body = [ast.Pass()]
    for node in ast.walk(tree):
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


AT_THE_TOP = {"feature.py", "load.py"}
"""The table of the features, and the public name of the API of the feature `load`."""


def feature_of(name: str) -> str:
    """Return the feature that a module of this dotted name belongs to; empty for the core."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["benchwright", "features"] and len(parts) > 2 else ""


def test_the_core_imports_no_feature() -> None:
    crossing: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "features" or str(place) in AT_THE_TOP:
            continue
        if imported := set(map(feature_of, imported_modules(path))) - {""}:
            crossing[str(place)] = imported
    assert crossing == {}


def test_a_feature_imports_those_that_it_names() -> None:
    unnamed: dict[str, set[str]] = {}
    for feature in features():
        for path in (PACKAGE / "features" / feature.name).rglob("*.py"):
            imported = set(map(feature_of, imported_modules(path)))
            if more := imported - {"", feature.name, *feature.needs}:
                unnamed[feature.name] = unnamed.get(feature.name, set()) | more
    assert unnamed == {}


def test_the_table_has_every_feature_after_those_that_it_needs() -> None:
    names = [row.name for row in TABLE]
    folders = {path.name for path in (PACKAGE / "features").iterdir() if path.is_dir()}
    assert {*names} == folders - {"__pycache__"}
    assert [one.name for one in features()] == names
    for feature in features():
        assert {*feature.needs} <= {*names[: names.index(feature.name)]}, feature.name


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in [f"benchwright.features.{one}" for one in sys.argv[1].split(",")]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from benchwright.cli.main import main

sys.exit(main(sys.argv[2:]))
"""


def bw_without(feature: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `bw` as if a feature were not installed."""
    line = [sys.executable, "-c", WITHOUT, feature, *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_commands_of_a_missing_feature_are_listed_as_not_installed(row: Row) -> None:
    listed = bw_without(row.name, "--help")
    assert listed.returncode == 0, listed.stderr
    missing = [one.name for one in features() if row.name in one.needs]
    commands = {
        command for one in TABLE if one.name in (row.name, *missing) for command in one.commands
    }
    for line in listed.stdout.splitlines():
        words = line.split()
        if words[:1] and words[0] in SUMMARIES:
            assert ("not installed" in line) == (words[0] in commands), line
    for command in commands:
        refused = bw_without(row.name, command)
        assert refused.returncode == 2
        assert f"{command} is not installed" in refused.stderr


def test_the_table_has_the_keys_of_suites_that_features_add() -> None:
    assert {one.name: {*one.suite_tables()} for one in features()} == {
        row.name: {*row.tables} for row in TABLE
    }


def test_a_suite_says_which_feature_it_lacks(tmp_path: Path) -> None:
    suite = tmp_path / "s.toml"
    suite.write_text('quiet = ["aslr"]\n[[test]]\nexec = "true"\n')
    refused = bw_without("quiet", "run", str(suite), "--check")
    assert refused.returncode == 2
    assert "the feature quiet is not installed" in refused.stderr


def test_a_session_with_a_pool_is_not_resumed_without_the_feature(tmp_path: Path) -> None:
    options = {"pool": "{}", "environment": "{}", "token": "00"}
    info = suite_info("TEST t 2 2\n  EXEC true\nDONE\n", options=options)
    with contextlib.closing(Study.create_or_open(tmp_path / "st")) as study:
        study.begin_session(info)
    refused = bw_without("pool", "resume", str(tmp_path / "st"))
    assert refused.returncode == 2
    assert "[feature-missing]" in refused.stderr
    assert not list((tmp_path / "st").glob("logs/*"))


def test_the_table_has_every_kind_of_session() -> None:
    found = {one.name: {*one.session_kinds()} for one in features()}
    assert found == {row.name: {*row.kinds} for row in TABLE}


def test_a_session_of_a_kind_that_is_not_installed_is_not_read_as_tests(tmp_path: Path) -> None:
    studies = Path(__file__).parents[1] / "data" / "studies-0.1"
    with tarfile.open(studies / "peak.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    study = str(tmp_path / "peak")
    for words in (["stats"], ["show"], ["why"], ["resume"], ["report", "-o", f"{study}.html"]):
        done = bw_without("search", *words, study)
        assert done.returncode == 2, words
        assert "[feature-missing]" in done.stderr, words
    listed = bw_without("search", "ls", study)
    assert listed.returncode == 0, listed.stderr
    assert "not installed" in listed.stdout


EVERY_MODULE = """
import importlib, pkgutil
import benchwright

without = tuple(f"benchwright.features.{name}" for name in sys.argv[1].split(","))
for module in pkgutil.walk_packages(benchwright.__path__, "benchwright."):
    if not module.name.startswith(without) and module.name not in ("benchwright.load",):
        importlib.import_module(module.name)
"""


@pytest.mark.parametrize("name", [row.name for row in TABLE])
def test_what_does_not_need_a_feature_imports_without_it(name: str) -> None:
    """The core, and the features that do not name it."""
    missing = {name}
    for one in features():
        if missing & {*one.needs}:
            missing.add(one.name)
    script = WITHOUT.partition("from benchwright")[0] + EVERY_MODULE
    line = [sys.executable, "-c", script, ",".join(sorted(missing))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def dotted(path: Path) -> str:
    """Return the name of a module below the package."""
    return ".".join(("benchwright", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_no_module_imports_itself_through_others() -> None:
    """Not even by imports inside of functions; only by names of types. The package itself and
    feature.py import what they are asked for."""
    paths = {
        dotted(path).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE
    }
    graph = {}
    for module, path in paths.items():
        named = imported_modules(path, types=False)
        found = {one if one in paths else one.rpartition(".")[0] for one in named}
        graph[module] = (found & paths.keys()) - {module}
    while leaves := [one for one, needs in graph.items() if not needs & graph.keys()]:
        for one in leaves:
            del graph[one]
    assert sorted(graph) == []


ALIKE = Path(__file__).with_name("alike_types.txt")
"""Pairs of types of which one has four fifths of the other's five or more fields; it may only become
shorter."""


def fields_of(path: Path) -> dict[str, set[str]]:
    """Return the fields of each class of a module that has at least five."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            own = {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
            if len(own) >= 5:
                found[f"{dotted(path).removeprefix('benchwright.')}.{node.name}"] = own
    return found


def test_no_type_repeats_another() -> None:
    types = {
        name: own for path in sorted(PACKAGE.rglob("*.py")) for name, own in fields_of(path).items()
    }
    names = sorted(types)
    alike = [
        f"{one} {other}"
        for place, one in enumerate(names)
        for other in names[place + 1 :]
        if len(types[one] & types[other]) >= 0.8 * min(len(types[one]), len(types[other]))
    ]
    assert alike == ALIKE.read_text().splitlines()


COMPUTES = ("benchwright.decide", "benchwright.stats")
COMPUTING = {"stats.py", "stats_request.py"}
"""Commands that still use what computes; it may only become shorter."""


def test_commands_compute_no_statistics() -> None:
    computing = {
        path.name
        for path in modules_of("cli")
        if any(name.startswith(COMPUTES) for name in imported_modules(path))
    }
    assert computing == COMPUTING
