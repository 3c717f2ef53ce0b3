"""File workloads in TOML: what they mean, every mistake at its place, and the shipped files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.file_set import mean_pieces
from benchwright.features.load.parse import parse_target, target_text
from benchwright.features.load.plan import Probe, plan_of_file
from benchwright.features.load.types import LoopModel
from benchwright.features.load.workload_toml import WorkloadFile, read_workload
from benchwright.features.search.engine_generator import request_of
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.peak.experiment import peak_meaning
from benchwright.features.search.session import search_info, stored_spec
from benchwright.features.search.spec_toml import read_spec
from benchwright.inputs.mistakes import SourceFile

EXAMPLES = Path(__file__).parents[2] / "examples" / "load"
TARGET = r.DirTarget("/x")
FILES = '[files]\nfiles = 10\nsize = "20k"\n'
FILAMENT = '[[filament]]\ntype = "files"\n'


def read(text: str) -> WorkloadFile:
    return read_workload(text, "w.toml", TARGET)


def request(text: str, rate: float | None = None) -> r.LoadRequest:
    return plan_of_file(read(text), {}, TARGET, rate).request


def only(text: str) -> w.Files:
    (filament,) = read(FILES + FILAMENT + text).filaments
    assert isinstance(filament, w.Files)
    return filament


def mistakes(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(text)
    return [f"{one.line}:{one.message}" for one in caught.value.diagnostics]


# -- the language ------------------------------------------------------------------------


def test_a_file_set_with_everything() -> None:
    text = """
[files]
levels = 3
directories = [1, 2, 2]
files_per_load = 4
for_rate = "50/s"
spare = "25%"
symlinks = 1
empty_directories = "uniform 1..3"
size = {type = "gamma", mean = 16384, shape = 1.5}
popularity = {1000 = 10, 1 = 90}
directory_popularity = [3, 0]
seed = 7
"""
    made = request(text + FILAMENT + "rate = 9\noperations = {getattr = 1}\n")
    assert made.workload.file_set == w.FileSet(
        seed=7,
        max_depth=3,
        directories=w.Weighted(((1, 1), (2, 2))),
        files=w.ConstantValue(250),
        symlinks=w.ConstantValue(1),
        empty_directories=w.UniformValue(1, 4),
        file_size=w.Gamma(16384, 1_500_000),
        file_popularity=w.Weighted(((1000, 10), (1, 90))),
        directory_popularity=w.Weighted(((3, 1), (0, 1))),
        present_micro=800_000,
    )


def test_weights_and_rate_are_of_operations_sent() -> None:
    # A file of 20 KiB has 3 pieces of 8 KiB: a third as many chains, 1 + 1/3 chains per 2
    # operations.
    filament = only('rate = "300/s"\noperations = {getattr = 1, read_file = 1}\n')
    assert [(chain.name, chain.weight) for chain in filament.chains] == [
        ("getattr", 3),
        ("read_file", 1),
    ]
    assert filament.rate == w.ConstantRate(200 * w.MICRO)
    assert filament.arrival == w.PoissonArrival()


def test_weights_and_rate_of_chains() -> None:
    filament = only(
        'rate = "300/s"\nweights = "chains"\noperations = {getattr = 1, read_file = 1}\n'
    )
    assert [chain.weight for chain in filament.chains] == [1, 1]
    assert filament.rate == w.ConstantRate(300 * w.MICRO)


def test_operations_and_their_steps() -> None:
    filament = only(
        "users = 2\nread_size = {8k = 1, 16k = 3}\nwrite_size = 100\n"
        "operations = {read = 1, write = 1, append = 1, commit = 1, write_file = 1}\n"
    )
    sizes = w.Weighted(((8192, 1), (16384, 3)))
    assert {chain.name: chain.steps[0] for chain in filament.chains} == {
        "read": w.ChainStep("read", sizes, "random"),
        "write": w.ChainStep("write", w.ConstantValue(100), "random"),
        "append": w.ChainStep("append", w.ConstantValue(100)),
        "commit": w.ChainStep("flush"),
        "write_file": w.ChainStep("write"),
    }


def test_the_steps_of_a_chain_use_one_object_unless_they_choose() -> None:
    filament = only(
        'users = 1\nthink = "2ms"\n[[filament.chain]]\nname = "c"\n'
        'steps = ["open", "read", {do = "write", size = "4k", location = "end"},\n'
        '"fsync", "close", {do = "getattr", object = "choose"}]\n'
    )
    assert filament.think == w.ConstantValue(2_000_000)
    assert filament.chains[0].steps == (
        w.ChainStep("open"),
        w.ChainStep("read", object="same"),
        w.ChainStep("write", w.ConstantValue(4096), "end", "same"),
        w.ChainStep("flush", object="same"),
        w.ChainStep("close", object="same"),
        w.ChainStep("getattr"),
    )


def test_the_loop_of_a_file_workload() -> None:
    closed = request(FILES + FILAMENT + "users = 300\noperations = {getattr = 1}\n")
    assert closed.loop == LoopModel(open=False, closed=True, slots=300)
    assert closed.depth == 300
    assert closed.asked_rate_per_s is None
    opened = request(FILES + FILAMENT + 'rate = "70/s"\noperations = {read_file = 1}\n')
    assert opened.loop == LoopModel(open=True, closed=False)
    assert opened.asked_rate_per_s == pytest.approx(70)


def test_a_rate_of_the_command_line_scales_the_filaments_and_the_set() -> None:
    text = (
        '[files]\nfiles_per_load = 2\nsize = "20k"\n'
        + FILAMENT
        + 'name = "a"\nrate = 30\noperations = {read_file = 1}\n'
        + FILAMENT
        + 'name = "b"\nrate = 10\n[[filament.chain]]\nname = "s"\nsteps = ["getattr"]\n'
    )
    scaled = request(text, 400)
    assert scaled.asked_rate_per_s == pytest.approx(400)
    assert scaled.workload.filaments[1].rate == w.ConstantRate(100 * w.MICRO)  # type: ignore[union-attr]
    assert scaled.workload.file_set is not None
    assert scaled.workload.file_set.files == w.ConstantValue(800)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FILAMENT + "users = 1\noperations = {getattr = 1}\n", "1:a filament of type files needs the table [files]"),
        (FILES + FILAMENT + "operations = {getattr = 1}\n", "4:a filament of type files has one of rate (open) and users (closed)"),
        (FILES + FILAMENT + "users = 1\n", "4:a filament of type files needs operations or a chain"),
        (FILES + FILAMENT + "users = 1\noperations = {open = 1}\n", "7:unknown key 'open'"),
        (FILES + FILAMENT + 'users = 1\narrival = "poisson"\noperations = {getattr = 1}\n', "7:arrival has no effect without rate"),
        (FILES + FILAMENT + 'users = 1\n[[filament.chain]]\nname = "c"\nsteps = ["opne"]\n', "9:steps: 'opne' is no operation"),
        (FILES + FILAMENT + 'users = 1\n[[filament.chain]]\nname = "c"\nsteps = [{do = "open", size = 3}]\n', "9:size has no effect on open"),
        (FILES + '[[filament]]\ntype = "open"\nrate = 1\n', "1:[files] has no effect without a filament of type files"),
        ('[files]\nsize = "1k"\n' + FILAMENT + "users = 1\noperations = {getattr = 1}\n", "1:give one of files and files_per_load"),
        ('[files]\nfiles = 1\nsize = {1k = 0}\n' + FILAMENT + "users = 1\noperations = {getattr = 1}\n", "3:1k: '0' is zero; it must be more"),
        ('[files]\nfiles = 1\nsize = {1q = 1}\n' + FILAMENT + "users = 1\noperations = {getattr = 1}\n", "3:size: '1q' has no unit"),
        ('[files]\nfiles = 1\nsize = []\n' + FILAMENT + "users = 1\noperations = {getattr = 1}\n", "3:size is empty"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_at_its_place(text: str, found: str) -> None:
    (only_one,) = mistakes(text)
    assert only_one.startswith(found)


# -- targets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("dir:/mnt/x", r.DirTarget("/mnt/x")),
        ("dir:x", r.DirTarget("x")),
        ("nfs://h/e", r.NfsTarget(host="h", export="/e")),
        ("nfs://h:2049/a/b", r.NfsTarget(host="h", export="/a/b", port=2049)),
        ("nfs://[::1]:99/e", r.NfsTarget(host="::1", export="/e", port=99)),
    ],
)
def test_targets_with_files(text: str, target: r.LoadTarget) -> None:
    assert parse_target(text) == target
    assert target_text(target) == text


@pytest.mark.parametrize("text", ["dir:", "nfs://h", "nfs://h/", "nfs:///e", "nfs://u@h/e"])
def test_targets_with_files_that_are_wrong(text: str) -> None:
    with pytest.raises(ValueError, match=r"dir:PATH|no export|no valid host|user name"):
        parse_target(text)


# -- specs -----------------------------------------------------------------------------------


def spec_request(text: str, probe: Probe) -> r.LoadRequest:
    spec = read_spec(text, "spec.toml")
    return request_of(spec.load.settings, probe, (), {})


SPEC = '[load]\ntarget = "dir:/x"\nsynchronous = true\n'
GROWING = '[files]\nfiles_per_load = 2\nsize = "20k"\n'
OPEN = FILAMENT + "rate = 30\noperations = {read_file = 1}\n"


def test_a_search_sets_the_rate_and_the_set_grows() -> None:
    found = spec_request(SPEC + GROWING + OPEN, Probe(rate=90.0, duration_s=2.0))
    assert found.target == r.DirTarget("/x", synchronous=True)
    assert found.asked_rate_per_s == pytest.approx(90)
    assert found.workload.file_set is not None
    assert found.workload.file_set.files == w.ConstantValue(180)


def test_a_ramp_sets_the_users() -> None:
    fixed = GROWING + "for_rate = 10\n"
    found = spec_request(SPEC + fixed + OPEN, Probe(rate=6.0, duration_s=2.0, users=6))
    (filament,) = found.workload.filaments
    assert isinstance(filament, w.Files)
    assert (filament.users, filament.rate, found.depth) == (6, None, 128)


def test_a_workload_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(GROWING + OPEN)
    spec = read_spec(SPEC + 'workload = "w.toml"\n', str(tmp_path / "spec.toml"))
    found = request_of(spec.load.settings, Probe(rate=60.0, duration_s=2.0), (), {})
    assert found.asked_rate_per_s == pytest.approx(60)


def test_a_resumed_search_has_the_workload_of_its_start(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(GROWING + OPEN)
    file = SourceFile(
        str(tmp_path / "spec.toml"),
        SPEC + 'workload = "w.toml"\n[peak]\ncriteria = ["mean response < 40ms"]\n',
    )
    started = search_info("peak", PeakRequest(), file, ())
    spec = read_spec(file.text, file.path)
    info = msgspec.structs.replace(started, sources=(*started.sources, *spec.files))
    (tmp_path / "w.toml").write_text((GROWING + OPEN).replace("= 2", "= 7"))
    found, _ = peak_meaning(PeakRequest(), stored_spec(info))
    assert found.load == spec.load
    changed = read_spec(file.text, file.path)
    assert changed.load != spec.load


def test_a_factor_in_a_workload() -> None:
    text = SPEC + GROWING.replace("= 2", '= "{files}"') + OPEN
    spec = read_spec(text + "[factors]\nfiles = [2, 5]\n", "spec.toml")
    at = spec.read_at((("files", "5"),)) if spec.read_at else spec
    found = request_of(at.load.settings, Probe(rate=10.0, duration_s=2.0), (), {})
    assert found.workload.file_set is not None
    assert found.workload.file_set.files == w.ConstantValue(50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPEC, "a dir target needs a workload on files"),
        (SPEC + 'size = "4k"\nworkload = "none.toml"\n', "size belongs in a filament"),
        (SPEC + 'workload = "none.toml"\n', "there is no file none.toml"),
        (SPEC + '[[filament]]\ntype = "tpcb"\nscale = 1\n', "cannot set the rate of a filament of type tpcb"),
    ],
)  # fmt: skip
def test_mistakes_in_specs(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_spec(text, "spec.toml")
    assert any(message in one.message for one in caught.value.diagnostics)


# -- the shipped workloads -------------------------------------------------------------------
#
# The figures are typed from the descriptions of Fstress (manual and generator), SPEC SFS and
# Filebench, not from the files.

MIXES = {
    "specsfs97": "lookup 27 read 18 write 9 getattr 11 readlink 7 readdir 2 readdirplus 9 create 1 "
    "remove 1 fsstat 1 setattr 1 access 7 commit 5",
    "web-server": "lookup 14 read_file 28 getattr 55 readdir 1 fsstat 1 access 1",
    "web-server12": "lookup 14 read_file 28 getattr 55 readdir 1 fsstat 1 access 1",
    "web-proxy": "lookup 14 read_file 6 write_file 23 getattr 18 readdir 1 create 11 remove 11 "
    "fsstat 1 access 1",
    "db_tp": "read 61 write 31 getattr 3 access 1 commit 4",
    "peer-peer": "lookup 1 read_file 54 write_file 35 getattr 1 create 1 remove 1 fsstat 1 access 1 "
    "commit 5",
    "mail": "lookup 27 read_file 14 append 24 getattr 3 fsstat 1 setattr 4 access 3 commit 24",
    "news": "lookup 1 read 22 append 64 readdir 1 create 1 remove 1 fsstat 1 access 1 commit 8",
    "sfs2008-like": "lookup 24 read 18 write 10 getattr 26 readlink 1 readdir 1 create 1 remove 1 "
    "fsstat 1 setattr 4 readdirplus 2 access 11",
}
SUMS = {"specsfs97": 99, "web-proxy": 86}
TREES = {
    # directories and files for a load of 100 operations a second
    "specsfs97": (21, 4200),
    "web-server": (31, 12400),
    "web-server12": (31, 12400),
    "web-proxy": (31, 12400),
    "db_tp": (1, 8),
    "peer-peer": (3, 600),
    "mail": (1, 200),
    "sfs2008-like": (21, 4200),
}
POPULARITY = {
    "web-server": 0.6,
    "web-server12": 1.2,
    "web-proxy": 0.6,
    "peer-peer": 1.2,
    "mail": 1.3,
    "news": 0.3,
}
SPEC_SIZES = {1: 33, 2: 21, 4: 13, 8: 10, 16: 8, 32: 5, 64: 4, 128: 3, 256: 2, 1024: 1}
READS = {8: 85, 16: 8, 32: 4, 64: 2, 128: 1}
WRITES = {**dict.fromkeys(range(1, 8), 7), 8: 36, 16: 8, 32: 4, 64: 2, 128: 1}
PEER_SIZES = (53, 50, 59, 65, 62, 59, 55, 83, 106, 142, 180, 194, 162, 244, 236, 256, 275,
              266, 213, 219, 162, 140, 118)  # fmt: skip


def shipped(name: str) -> r.LoadRequest:
    path = EXAMPLES / f"{name}.toml"
    description = read_workload(path.read_text(), str(path), TARGET)
    assert description.target is not None
    return plan_of_file(description, {}, description.target).request


def file_set(name: str) -> w.FileSet:
    found = shipped(name).workload.file_set
    assert found is not None
    return found


def filament_of(name: str) -> w.Files:
    (filament,) = shipped(name).workload.filaments
    assert isinstance(filament, w.Files)
    return filament


def weights(distribution: w.Distribution, unit: int = 1) -> dict[int, int]:
    """Return the weights by value [units]."""
    assert isinstance(distribution, w.Weighted)
    assert all(value % unit == 0 for value, _ in distribution.values)
    return {value // unit: weight for value, weight in distribution.values}


def counted(values: list[int]) -> dict[int, int]:
    return {value: values.count(value) for value in values}


def zipf(exponent: float) -> list[int]:
    return [int(100 * i**-exponent) for i in range(1, 101)]


def pareto(k: int, ranks: int) -> list[int]:
    return [int(1024 * 0.4 * k * i**-1.4) for i in range(1, ranks + 1)]


def test_every_shipped_workload_is_tested() -> None:
    filebench = {"fileserver", "webserver", "varmail", "oltp-files"}
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == MIXES.keys() | filebench


@pytest.mark.parametrize("name", MIXES)
def test_the_mix_of_a_shipped_workload(name: str) -> None:
    words = MIXES[name].split()
    wanted = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert sum(wanted.values()) == SUMS.get(name, 100)
    filament = filament_of(name)
    size = file_set(name).file_size
    # Chains start with weight / pieces: back to weights of operations.
    sent = {
        chain.name: chain.weight
        * float(
            mean_pieces(chain.steps[0].size or size, filament.piece_bytes)
            if chain.steps[0].kind in ("read", "write", "append")
            else 1
        )
        for chain in filament.chains
    }
    scale = sum(wanted.values()) / sum(sent.values())
    assert {key: value * scale for key, value in sent.items()} == pytest.approx(wanted, rel=1e-4)
    assert filament.piece_bytes == (32 if name == "sfs2008-like" else 8) * 1024


@pytest.mark.parametrize("name", TREES)
def test_the_tree_of_a_shipped_workload(name: str) -> None:
    files = file_set(name)
    assert isinstance(files.directories, w.ConstantValue)
    assert isinstance(files.files, w.ConstantValue)
    below = files.directories.value
    directories = sum(below**level for level in range(files.max_depth)) if below else 1
    present = files.files.value * files.present_micro / 10**6
    assert (directories, round(directories * present)) == pytest.approx(TREES[name], abs=0.5)


def test_the_tree_of_news() -> None:
    files = file_set("news")
    assert weights(files.directories) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert files.max_depth == 3
    assert files.files == w.ConstantValue(110)


@pytest.mark.parametrize(("name", "exponent"), POPULARITY.items())
def test_the_popularity_of_a_shipped_workload(name: str, exponent: float) -> None:
    files = file_set(name)
    assert weights(files.file_popularity) == counted(zipf(exponent))
    assert weights(files.directory_popularity) == counted(zipf(exponent))


def test_the_zipf_tables_are_those_that_fstress_makes() -> None:
    assert (sum(zipf(0.6)), zipf(0.6)[:5]) == (1336, [100, 65, 51, 43, 38])
    assert (sum(zipf(1.2)), zipf(1.2).count(0)) == (308, 54)
    assert (sum(zipf(1.3)), zipf(1.3).count(0), zipf(1.3)[:4]) == (262, 66, [100, 40, 23, 16])
    assert pareto(1024, 100)[:6] == [419430, 158934, 90092, 60224, 44065, 34138]
    assert pareto(1024, 100)[-1] == 664


@pytest.mark.parametrize("name", ["specsfs97", "sfs2008-like"])
def test_the_sizes_of_specsfs97(name: str) -> None:
    files = file_set(name)
    assert weights(files.file_size, 1024) == SPEC_SIZES
    assert weights(files.file_popularity) == {1000: 10, 1: 90}
    assert files.symlinks == w.ConstantValue(1)


@pytest.mark.parametrize("name", ["specsfs97", "sfs2008-like", "db_tp"])
def test_the_transfers_of_specsfs97(name: str) -> None:
    steps = {chain.name: chain.steps[0] for chain in filament_of(name).chains}
    assert steps["read"].location == steps["write"].location == "random"
    for step, wanted in (("read", READS), ("write", WRITES)):
        size = steps[step].size
        assert size is not None
        assert weights(size, 1024) == wanted
    # The fragments have the 49 % that Fstress writes as 0 bytes.
    assert sum(weight for kib, weight in WRITES.items() if kib < 8) == 49


def test_the_file_says_that_fragments_replace_writes_of_nothing() -> None:
    text = (EXAMPLES / "specsfs97.toml").read_text()
    assert "1 to 7 KiB" in text
    assert "4.4 %" in text


@pytest.mark.parametrize("name", ["web-server", "web-server12", "web-proxy", "mail"])
def test_the_sizes_of_web_and_mail(name: str) -> None:
    assert weights(file_set(name).file_size) == counted(pareto(1024, 100))


def test_the_sizes_of_the_others() -> None:
    assert file_set("db_tp").file_size == w.ConstantValue(64 * 2**20)
    peers = weights(file_set("peer-peer").file_size, 256 * 1024)
    assert peers == dict(enumerate(PEER_SIZES, 1))
    news = weights(file_set("news").file_size)
    assert news == counted(pareto(64, 10) + pareto(4096, 10))
    steps = {chain.name: chain.steps[0] for chain in filament_of("news").chains}
    assert steps["append"].size == file_set("news").file_size
    steps = {chain.name: chain.steps[0] for chain in filament_of("mail").chains}
    assert steps["append"].size is not None
    assert weights(steps["append"].size, 1024) == WRITES


@pytest.mark.parametrize(
    ("name", "users", "operations", "slots", "present", "mean"),
    [
        ("fileserver", 50, 11, (9_500, 10_500), 800_000, 131_072),
        ("webserver", 100, 31, (1000, 1050), 1_000_000, 16_384),
        ("varmail", 16, 13, (1000, 1000), 800_000, 16_384),
    ],
)
def test_the_shipped_workloads_of_filebench(
    name: str, users: int, operations: int, slots: tuple[int, int], present: int, mean: int
) -> None:
    filament, files = filament_of(name), file_set(name)
    (chain,) = filament.chains
    assert (filament.users, len(chain.steps)) == (users, operations)
    assert filament.piece_bytes == 2**20
    assert files.present_micro == present
    assert files.file_size == w.Gamma(mean, 1_500_000)
    assert isinstance(files.directories, w.ConstantValue)
    assert isinstance(files.files, w.ConstantValue)
    tree = sum(files.directories.value**level for level in range(files.max_depth))
    assert slots[0] <= tree * files.files.value <= slots[1]
    appended = [step.size for step in chain.steps if step.size is not None]
    assert set(appended) == {w.UniformValue(0, 16_383)}
    fsyncs = [step for step in chain.steps if step.kind == "flush"]
    assert len(fsyncs) == (2 if name == "varmail" else 0)


def test_the_shipped_oltp_of_filebench() -> None:
    filament, files = filament_of("oltp-files"), file_set("oltp-files")
    assert (filament.users, files.files) == (200, w.ConstantValue(11))
    assert files.file_size == w.ConstantValue(10 * 2**20)
    # 100 pages for each 1,000 reads, 256 KiB of log for each 3,200.
    assert [chain.weight for chain in filament.chains] == [3200, 320, 1]
    assert shipped("oltp-files").target == r.DirTarget("/x", synchronous=True)
