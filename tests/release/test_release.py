"""The files of a release, installed as users install them. `make wheels-check` builds them before.

x86-64: from the package index, by pip and by pipx. aarch64: into an aarch64 Python under QEMU's
user mode.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchwright import __version__
from ci_scripts import run_script, scripts_of
from emulated import EmulatedEnvironment
from new_environment import NewEnvironment

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
LEVEL = "manylinux_2_28"
NATIVE = ("bw-engine", "bw-launcher", "bw-sampler")
MACHINES = {"x86_64": 62, "aarch64": 183}
"""The number of each machine in an ELF header (elf.h)."""

pytestmark = [
    pytest.mark.skipif("BW_RELEASE" not in os.environ, reason="make wheels-check runs it"),
    pytest.mark.timeout(1200),
]
not_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs on x86-64 alone")


def wheel_of(machine: str) -> Path:
    """Return the wheel for a machine."""
    return DIST / f"benchwright-{__version__}-py3-none-{LEVEL}_{machine}.whl"


@pytest.fixture(scope="module")
def tools() -> Path:
    """Return the directory of twine and pipx."""
    done = subprocess.run(
        [ROOT / "scripts" / "release_tools.sh"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(done.stdout.strip())


def test_there_are_three_files_which_the_index_accepts(tools: Path) -> None:
    sdist = DIST / f"benchwright-{__version__}.tar.gz"
    files = {sdist, *map(wheel_of, MACHINES)}
    assert set(DIST.iterdir()) == files
    subprocess.run([tools / "twine", "check", "--strict", *files], check=True)


def test_both_wheels_and_the_source_distribution_have_the_same_files() -> None:
    wheels = []
    for machine, number in MACHINES.items():
        with zipfile.ZipFile(wheel_of(machine)) as wheel:
            modes = {
                one.filename: (one.external_attr >> 16) & 0o111
                for one in wheel.infolist()
                if not one.filename.endswith((".dist-info/WHEEL", "/RECORD"))
            }
            for name in NATIVE:
                program = wheel.read(f"benchwright-{__version__}.data/scripts/{name}")
                assert int.from_bytes(program[18:20], "little") == number
                versions = re.findall(rb"\bGLIBC_2\.(\d+)", program)
                assert versions
                assert max(map(int, versions)) <= int(LEVEL.rpartition("_")[2])
        assert modes["benchwright/hooks/disk-io"]
        assert not modes["benchwright/hooks/ssh-options"]
        wheels.append(modes)
    assert wheels[0] == wheels[1]
    with tarfile.open(DIST / f"benchwright-{__version__}.tar.gz") as sdist:
        packed = {one.name.split("/", 2)[-1]: one.mode & 0o111 for one in sdist}
    package = {name: mode for name, mode in wheels[0].items() if name.startswith("benchwright/")}
    assert package.items() <= packed.items()


@not_x86
def test_the_wheel_from_the_index_runs_the_first_commands_of_the_readme(tmp_path: Path) -> None:
    new = NewEnvironment.made(tmp_path)
    wheel = f"{wheel_of('x86_64')}[all]"
    new.run("python", "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel)
    new.run_first_commands()
    study = tmp_path / "first"
    new.run("bw", "plot", "-o", "plot.png", cwd=study)
    assert (study / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_steps_of_the_release_workflow_install_and_run_it(tmp_path: Path) -> None:
    steps = scripts_of(ROOT / ".github" / "workflows" / "release.yml")
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path)}
    script = steps["Install and run"]["run"]
    done = run_script(script, tmp_path / "script.sh", ROOT, environment)
    assert done.returncode == 0, done.stdout
    assert f"bw {__version__}\n" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 0


@not_x86
def test_pipx_runs_it_by_its_name(tools: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            tools / "pipx",
            "run",
            f"--pip-args=--find-links={DIST} --only-binary=:all:",
            "benchwright",
            "--version",
        ],
        env={**os.environ, "PIPX_HOME": str(tmp_path / "pipx")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == f"bw {__version__}\n"


@not_x86
def test_the_wheel_for_aarch64_runs_under_qemu(tools: Path, tmp_path: Path) -> None:
    made = subprocess.run(
        [ROOT / "scripts" / "aarch64.sh"], check=True, stdout=subprocess.PIPE, text=True
    )
    new = EmulatedEnvironment.emulated(tmp_path, Path(made.stdout.strip()))
    machine = "import platform; print(platform.machine())"
    assert new.run("python", "-c", machine) == "aarch64\n"
    # This machine's pip fetches; the emulated one decides what fits to its machine, and installs
    # it.
    subprocess.run(
        [
            *(tools / "pip", "download", "-q", "-d", tmp_path / "files"),
            *("--only-binary", ":all:", "--implementation", "cp"),
            *("--python-version", "3.13"),
            *("--platform", f"{LEVEL}_aarch64", "--platform", "manylinux_2_17_aarch64"),
            wheel_of("aarch64"),
        ],
        check=True,
    )
    new.run(
        *("python", "-m", "pip", "install", "-q", "--no-index", "--no-compile"),
        *("--find-links", tmp_path / "files", "benchwright"),
    )
    assert new.wrap_programs() == list(NATIVE)
    new.run_first_commands()
    # The kernel's clock is the best one there.
    null = new.run("bw", "load", "--rate", "1k", "--duration=1s", "--target", "null")
    assert "clock-slow" not in null
    shown = new.run("bw", "version", "--json")
    assert '"architecture":"aarch64"' in shown.replace(" ", "")
