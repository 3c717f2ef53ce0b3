"""Configuration files: which are read, what they may set, what the command line overrides."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path

import pytest

from benchwright.cli.config_files import WITHOUT, ConfigFile, config_files, config_places
from benchwright.cli.defaults import (
    SHARED,
    keys_of_command,
    parse_with_defaults,
    refusal,
    typed_words,
)
from benchwright.cli.main import main, parser
from benchwright.core.errors import InputError
from benchwright.inputs.options import declared_in, given, options_of
from benchwright.suite.command_line import CommandRequest

ROOT = parser()
COMMANDS = [words for words in ROOT.commands() if words and keys_of_command(ROOT.of(words))]
USER_ONLY = {"setup", "cleanup", "hook", "rule", "notify", "shell"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a user's configuration, in a place without a repository."""
    monkeypatch.delenv("BW_CONFIG", raising=False)
    monkeypatch.delenv("BW_SESSION", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    (tmp_path / "config" / "benchwright").mkdir(parents=True)
    return tmp_path / "config" / "benchwright"


def arguments_of(*words: str, user: str = "", project: str = "") -> Namespace:
    """Return the parsed arguments of a command line with these files."""
    files = []
    if user:
        Path("user.toml").write_text(user)
        files.append(ConfigFile("user.toml", "user"))
    if project:
        Path("pyproject.toml").write_text(project)
        files.append(ConfigFile("pyproject.toml", "project"))
    return parse_with_defaults(parser(words[:1]), words, files)[0]


def places_of(error: InputError) -> list[str]:
    """Return the positions and codes of the mistakes."""
    return [f"{one.place} {one.code}" for one in error.diagnostics]


# -- Which files are read --------------------------------------------------------------


def tree(root: Path, *files: str) -> None:
    """Make files with a table of ours; a name that ends with / is a directory."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text("[tool.benchwright]\n")


def test_the_nearest_project_file_of_a_repository_is_read(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "repo/.git/", "repo/pyproject.toml", "repo/a/b/")
    found = config_files({"HOME": str(tmp_path)}, str(tmp_path / "repo" / "a" / "b"))
    assert found == [ConfigFile("../../pyproject.toml", "project")]
    tree(tmp_path, "repo/a/pyproject.toml")
    found = config_files({"HOME": str(tmp_path)}, str(tmp_path / "repo" / "a" / "b"))
    assert found == [ConfigFile("../pyproject.toml", "project")]


def test_files_above_the_repository_or_without_one_are_not_read(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "repo/.git/", "repo/a/", "other/b/")
    environment = {"HOME": str(tmp_path)}
    assert config_files(environment, str(tmp_path / "repo" / "a")) == []
    assert config_files(environment, str(tmp_path / "other" / "b")) == []
    assert config_files(environment, str(tmp_path)) == [ConfigFile("pyproject.toml", "project")]


def test_a_project_file_without_our_table_is_passed_over(tmp_path: Path) -> None:
    tree(tmp_path, ".git/", "pyproject.toml", "a/")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.ruff]\n")
    found = config_files({"HOME": "/none"}, str(tmp_path / "a"))
    assert found == [ConfigFile("../pyproject.toml", "project")]


def test_the_users_file_is_where_xdg_puts_it(tmp_path: Path) -> None:
    (tmp_path / ".config" / "benchwright").mkdir(parents=True)
    file = tmp_path / ".config" / "benchwright" / "config.toml"
    file.touch()
    home = {"HOME": str(tmp_path)}
    assert config_files(home, "/") == [ConfigFile(str(file), "user")]
    elsewhere = {**home, "XDG_CONFIG_HOME": str(tmp_path / "x")}
    assert config_files(elsewhere, "/") == []
    assert [one.exists for one in config_places(elsewhere, "/")] == [False]
    assert config_files({**home, "XDG_CONFIG_HOME": "relative"}, "/")


def test_a_variable_replaces_all_files(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml")
    assert config_files({"BW_CONFIG": "/dev/null"}, str(tmp_path)) == []
    found = config_files({"BW_CONFIG": "mine.toml"}, str(tmp_path))
    assert found == [ConfigFile("mine.toml", "variable")]


# -- What they may set -----------------------------------------------------------------


def test_shared_keys_are_options_of_several_commands() -> None:
    for key in SHARED:
        having = [words for words in COMMANDS if key in keys_of_command(ROOT.of(words))]
        assert len(having) >= 2, key


def test_what_runs_a_program_or_destroys_data_is_restricted() -> None:
    refused = {
        *("json", "predicate", "overwrite", "allow-writes-to-mounted", "target"),
        *("plot", "junit", "graphfile", "datafile", "method", "yes", "fifo"),
    }
    for words in COMMANDS:
        if words[0] not in WITHOUT:
            for key, option in keys_of_command(ROOT.of(words)).items():
                assert option.only_user == (key in USER_ONLY), (words, key)
                assert key not in refused or refusal(option), (words, key)


def test_conditions_name_options() -> None:
    declared = [option for words in COMMANDS for option in declared_in(ROOT.of(words))]
    named = {n for one in declared for n in (*one.yields_to.split(), one.needs) if n}
    assert {"precision", "rate", "runs"} <= named
    assert named <= {option.name for option in declared}


@pytest.mark.parametrize("key", sorted(USER_ONLY - {"rule"}))
def test_a_project_cannot_run_programs(home: Path, key: str) -> None:
    text = f'[tool.benchwright.run]\n{key} = "evil"\n'
    with pytest.raises(InputError) as raised:
        arguments_of("run", "--", "true", project=text)
    (mistake,) = raised.value.diagnostics
    assert (mistake.code, mistake.line) == ("config-refused", 2)
    assert arguments_of("run", user=f'[run]\n{key} = "own"\n').defaults


def test_all_mistakes_are_reported_at_their_places(home: Path) -> None:
    text = (
        'precison = "2%"\n[run]\nprecision = "fast"\nmode = "plam"\nquiet = "yes"\n'
        'check = true\nmax-time = true\nmetric = ["a", 3]\nnothing = 1\n[laod]\na = 1\n'
    )
    with pytest.raises(InputError) as raised:
        arguments_of("run", user=text)
    assert places_of(raised.value) == [
        "user.toml:1:1 config-unknown-key",
        "user.toml:3:13 config-value",
        "user.toml:4:8 config-value",
        "user.toml:5:9 config-type",
        "user.toml:6:9 config-refused",
        "user.toml:7:12 config-type",
        "user.toml:8:16 config-type",
        "user.toml:9:1 config-unknown-key",
        "user.toml:10:2 config-unknown-key",
    ]
    hints = [one.hint for one in raised.value.diagnostics]
    assert hints[0] == "did you mean precision? write it into [run]"
    assert hints[8].startswith("did you mean load?")


@pytest.mark.parametrize("kind", ["absent", "directory", "pipe", "bytes"])
def test_a_file_that_cannot_be_read_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    file = home / "config.toml"
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "bytes":
        file.write_bytes(b"\xff\xfe")
    expected = 0 if kind == "absent" else 2
    assert main(["run", "--plan", "--", "true"]) == expected
    assert (str(file) in capsys.readouterr().err) == (kind != "absent")


def test_a_value_that_the_command_refuses_is_at_its_place(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text('[run]\nruns = "many"\n')
    assert main(["run", "--", "true"]) == 2
    assert f"{home}/config.toml:2:8: runs: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("runs = 0", "write runs = 30"),
        ("min-runs = -1", "write min-runs = 30"),
        ('precision = "fast"', 'write precision = "5%"'),
        ("threads = 0", "write threads = 4"),
        ('rest = "soon"', 'write rest = "500ms"'),
        ('timeout = "0s"', 'write timeout = "30s"'),
        ('output = "all"', 'write output = "file:4G"'),
        ("seed = -1", "write seed = 1"),
        ("warmup = 1.5", "write warmup = 1"),
        ('metric = ["1="]', ""),
        ('notify-on = "sometimes"', ""),
    ],
)
def test_bw_config_refuses_the_values_that_a_run_refuses(
    home: Path, capsys: pytest.CaptureFixture[str], line: str, remedy: str
) -> None:
    (home / "config.toml").write_text(f"[run]\n{line}\n")
    key = line.partition(" ")[0]
    for words in (["config"], ["config", "run"], ["run", "--plan", "--", "true"]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert f"config.toml:2:{len(key) + 4}: {key}: " in error
        assert remedy in error
        assert f"--{key}" not in error


@pytest.mark.parametrize(
    ("command", "line", "remedy"),
    [
        ("compare", 'fail-if = ["slower 3%"]', "write 'slower by 3%'"),
        ("compare", 'fail-if = ["rate slower by 3%", "worse by 1%"]', "slower by 3%"),
        ("compare", 'accept = ["drift", "drfit"]', "did you mean drift"),
        ("compare", "threads = 0", ""),
        ("peak", 'limit = ["p99 < 20"]', ""),
        ("peak", 'claim = "region:10%,rat:5%"', "is not a claim"),
        ("peak", 'policy = "bisect"', "must be one of monotone"),
        ("peak", 'response = ""', "/json/pointer"),
        ("ramp", 'throughput = "tps"', "/tps is a JSON pointer"),
        ("surface", "samples = 0", ""),
        ("surface", 'limit = "soon"', ""),
        ("stats", 'drift = ["elapsed"]', "such as elapsed=2%"),
        ("why", 'limit = ["eth0=fast"]', "such as eth0=1Gbit/s"),
    ],
)
def test_bw_config_refuses_what_the_command_reads_itself(
    home: Path, capsys: pytest.CaptureFixture[str], command: str, line: str, remedy: str
) -> None:
    (home / "config.toml").write_text(f"[{command}]\n{line}\n")
    key = line.partition(" ")[0]
    target = ["--target", "null"] if command in ("peak", "ramp") else []
    for words in (["config"], ["config", command], [command, *target]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert f"config.toml:2:{len(key) + 4}: {key}: " in error, error
        assert remedy in error


def test_bw_config_accepts_what_the_commands_accept(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """[compare]
fail-if = ["slower by 3%", "requests faster by 5 %"]
accept = ["drift"]
threads = 2
[peak]
limit = ["p99 < 20ms", "errors < 1%"]
claim = "region:10%, slo:95%"
policy = "monotone"
response = "/mean_ms"
[surface]
samples = 6
[stats]
drift = "elapsed=2%"
[why]
limit = "eth0=1Gbit/s"
"""
    (home / "config.toml").write_text(text)
    assert main(["config", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["options"]
    assert sum(entry["file"] is not None for entry in entries) == 10


def test_a_value_that_contradicts_a_typed_option_is_at_its_place(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text("[run]\nmax-runs = 1\n")
    assert main(["run", "--precision", "5%", "--plan", "--", "true"]) == 2
    assert "config.toml:2:12: max-runs: " in capsys.readouterr().err


def test_an_unknown_key_lists_only_what_the_file_may_set(home: Path) -> None:
    for kind in ("user", "project"):
        table = "tool.benchwright.run" if kind == "project" else "run"
        with pytest.raises(InputError) as raised:
            arguments_of("run", **{kind: f"[{table}]\nnothing = 1\njson = true\n"})
        unknown, refused = raised.value.diagnostics
        assert refused.code == "config-refused"
        listed = unknown.hint.partition("known here: ")[2].split(", ")
        assert {"runs", "precision", "study"} <= set(listed)
        assert not {"name", "check", "plan", "json"} & set(listed)
        assert ("setup" in listed) == (kind == "user")


def test_the_path_without_a_file_says_why(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BW_CONFIG", "/dev/null")
    assert main(["config", "--path"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "no configuration file is read: BW_CONFIG is /dev/null\n"
    assert main(["config"]) == 0
    assert capsys.readouterr().out.startswith(shown.err)


def test_quiet_is_an_option_and_a_command(home: Path) -> None:
    option, table = "quiet = true\n", "[quiet]\nrequire = true\n"
    assert arguments_of("run", user=option).quiet is True
    assert arguments_of("quiet", "aslr", user=option).require is False
    assert arguments_of("run", user=table).quiet is False
    assert arguments_of("quiet", "aslr", user=table).require is True


def test_an_option_that_needs_no_value_can_be_true(home: Path) -> None:
    assert arguments_of("run", user="[run]\nshell = true\n").shell == "/bin/sh"
    assert arguments_of("run", user='[run]\nshell = "/bin/bash"\n').shell == "/bin/bash"
    assert arguments_of("run", user="[run]\nshell = false\n").shell is None
    typed = arguments_of("run", "--shell=/bin/zsh", user="[run]\nshell = true\n")
    assert typed.shell == "/bin/zsh"


@pytest.mark.parametrize(
    ("text", "words"),
    [('[run]\nprecision = "2%\n', "a quote is opened"), ("a = 1\na = 2\n", ":2:")],
)
def test_a_broken_file_stops_commands_that_read_it(
    home: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (home / "config.toml").write_text(text)
    assert main(["run", "--plan", "--", "true"]) == 2
    assert words in capsys.readouterr().err
    assert main(["version"]) == 0
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help"])
    assert main(["--no-config", "run", "--plan", "--", "true"]) == 0
    assert main(["run", "--plan", "--no-config", "--", "true"]) == 0


# -- What the command line overrides ---------------------------------------------------


def test_a_project_is_stronger_than_the_user_and_the_command_line_strongest(home: Path) -> None:
    user = 'study = "mine"\n[run]\nprecision = "2%"\nkeep-going = true\nthreads = 2\n'
    project = '[tool.benchwright]\nstudy = "ours"\n[tool.benchwright.run]\nthreads = "3"\n'
    found = arguments_of("run", "--threads", "4", user=user, project=project)
    assert (found.study, found.precision, found.threads) == ("ours", "2%", "4")
    assert found.keep_going is True
    assert {one.key: one.place for one in found.defaults} == {
        "study": "pyproject.toml:2",
        "precision": "user.toml:3",
        "keep-going": "user.toml:4",
    }


def test_a_typed_value_that_is_the_built_in_one_overrides_too(home: Path) -> None:
    user = 'study = "mine"\n'
    assert arguments_of("run", "--study", "bw-study", user=user).study == "bw-study"
    assert arguments_of("resume", "bw-study", user=user).study == "bw-study"
    assert arguments_of("resume", user=user).study == "mine"


def test_a_list_is_replaced_not_extended(home: Path) -> None:
    user = '[run]\nmetric = ["a=/a", "b=/b"]\n'
    assert arguments_of("run", user=user).metrics == ["a=/a", "b=/b"]
    assert arguments_of("run", "--metric", "c=/c", user=user).metrics == ["c=/c"]


def test_a_default_counts_as_not_given(home: Path) -> None:
    found = arguments_of("run", "suite.toml", user='[run]\nprecision = "2%"\n')
    assert found.precision == "2%"
    assert given(found, CommandRequest) == []


def test_a_default_without_what_it_needs_does_not_apply(home: Path) -> None:
    user = 'confidence = "99%"\n'
    assert arguments_of("run", user=user).confidence is None
    assert arguments_of("run", "--precision", "5%", user=user).confidence == "99%"
    both = f'{user}[run]\nprecision = "5%"\n'
    assert arguments_of("run", user=both).confidence == "99%"
    assert arguments_of("run", "--runs", "3", user=both).confidence is None


def test_events_without_a_target_do_not_apply(home: Path) -> None:
    user = 'notify-on = "done"\n'
    assert arguments_of("run", user=user).notify_on is None
    typed = ("run", "--notify", "command:true")
    assert arguments_of(*typed, user=user).notify_on == "done"


def test_a_condition_without_its_option_is_none(home: Path) -> None:
    user = '[load]\narrival = "constant"\n[peak]\narrival = "constant"\n'
    assert arguments_of("load", user=user).arrival is None
    assert arguments_of("load", "--rate", "1k", user=user).arrival == "constant"
    assert arguments_of("peak", user=user).arrival == "constant"


def test_a_default_yields_to_options_that_exclude_it(home: Path) -> None:
    stats = "[stats]\nwelch = true\n"
    assert arguments_of("stats", user=stats).welch is True
    assert arguments_of("stats", "--equal-variance", user=stats).welch is False
    think = '[load]\nthink = "1ms"\n'
    assert arguments_of("load", user=think).think == "1ms"
    assert arguments_of("load", "--rate", "1k", user=think).think is None


def test_a_workload_or_a_spec_decides_itself(home: Path) -> None:
    user = 'quiet = true\n[load]\nduration = "1s"\n[peak]\nlimit = "1ms"\n'
    bare, file = arguments_of("load", user=user), arguments_of("load", "w", user=user)
    assert (bare.duration, bare.quiet) == ("1s", True)
    assert (file.duration, file.quiet) == (None, True)
    assert arguments_of("peak", "spec.toml", user=user).limits == []
    assert arguments_of("peak", user=user).limits == ["1ms"]


def test_the_study_of_a_file_is_that_of_every_command_that_reads_one(home: Path) -> None:
    user = 'study = "mine"\n'
    assert arguments_of("why", user=user).inputs == ["mine"]
    assert arguments_of("why", "other", user=user).inputs == ["other"]
    assert arguments_of("why", "--study", "other", user=user).inputs == []
    assert arguments_of("report", user=user).studies == ["mine"]
    assert arguments_of("stats", user=user).inputs == ["mine"]
    assert arguments_of("plot", user=user).words == ["mine"]
    assert arguments_of("load", user=user).study is None


def test_every_argument_that_is_a_study_has_the_key() -> None:
    arguments = [
        option
        for words in ROOT.commands()
        for option in declared_in(ROOT.of(words))
        if option.positional and option.default == "./bw-study"
    ]
    assert len(arguments) >= 6
    assert {option.default_key for option in arguments} == {"study"}


def test_a_projects_paths_are_relative_to_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("below").mkdir()
    Path("pyproject.toml").write_text('[tool.benchwright]\nstudy = "results"\n')
    monkeypatch.chdir("below")
    files = [ConfigFile("../pyproject.toml", "project")]
    found, _ = parse_with_defaults(parser(("run",)), ["run"], files)
    assert found.study == "../results"


@pytest.mark.parametrize("path", ["/tmp/mine", "~/mine", "../mine", "in/../..", "link/x"])
def test_a_projects_paths_are_inside_of_it(home: Path, path: str) -> None:
    Path("link").symlink_to(home)
    text = f'[tool.benchwright]\nstudy = "{path}"\n'
    with pytest.raises(InputError) as raised:
        arguments_of("run", project=text)
    (mistake,) = raised.value.diagnostics
    assert (mistake.code, mistake.line) == ("config-refused", 2)
    assert arguments_of("run", user=f'study = "{path}"\n').defaults


def test_defaults_can_be_typed(home: Path) -> None:
    user = '[load]\nduration = "1s"\ndirect = true\n'
    words = typed_words(arguments_of("load", user=user))
    assert sorted(words) == ["--direct", "--duration=1s"]
    again = arguments_of("load", *words)
    assert (again.duration, again.direct) == ("1s", True)


def test_nothing_is_read_inside_a_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.toml").write_text("this is no TOML")
    assert main(["run", "--plan", "--", "true"]) == 2
    monkeypatch.setenv("BW_SESSION", "token")
    assert main(["run", "--plan", "--", "true"]) == 0


# -- `bw config` -----------------------------------------------------------------------


def test_bw_config_lists_what_is_set(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert "no option is set" in capsys.readouterr().out
    (home / "config.toml").write_text('quiet = true\n[run]\nprecision = "2%"\n')
    assert main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{home}/config.toml"
    rows = [line.split()[:3] for line in lines[2:] if not line.startswith(" ")]
    assert rows == [
        ["option", "value", "from"],
        ["precision", "2%", f"{home}/config.toml:3"],
        ["quiet", "true", f"{home}/config.toml:1"],
    ]
    assert main(["config", "run"]) == 0
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[3:]}
    settable = {
        key for key, option in keys_of_command(ROOT.of(["run"])).items() if not refusal(option)
    }
    assert set(shown) == settable
    assert "built-in" in shown["output"]


def test_bw_config_has_json_and_the_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.toml").write_text('[trace.stat]\nwindow = "1s"\n')
    assert main(["config", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one for one in document["options"] if one["value"]] == [
        {
            "command": "trace stat",
            "key": "window",
            "value": "1s",
            "default": "",
            "file": f"{home}/config.toml",
            "line": 2,
        }
    ]
    assert main(["config", "--path"]) == 0
    assert capsys.readouterr().out == f"{home}/config.toml\n"


def test_bw_config_checks_the_tables_of_all_commands(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'nothing = 1\n[load]\nrate = "fast"\n[trace.stta]\nx = 1\n'
    (home / "config.toml").write_text(text)
    assert main(["config"]) == 2
    printed = capsys.readouterr().err
    for place in (":1:1: ", ":3:8: ", ":4:2: "):
        assert printed.count(f"config.toml{place}") == 1
    assert main(["config", "rnu"]) == 2
    assert "did you mean run?" in capsys.readouterr().err


def test_options_of_a_request_keep_what_is_declared() -> None:
    assert options_of(CommandRequest)["setup"].only_user
