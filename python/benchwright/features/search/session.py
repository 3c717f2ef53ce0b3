"""A session of searches: its stored request, the loop over probes, its experiment."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from benchwright import __version__
from benchwright.core.criterion import Criterion
from benchwright.core.errors import Interrupted, argument_error
from benchwright.core.hosts import GangClients, NamedServer
from benchwright.core.notice import NoticeSettings
from benchwright.core.plan import Pairs
from benchwright.core.results import Finding
from benchwright.core.text import list_text
from benchwright.core.untrusted import regular_bytes
from benchwright.features.generators.command import CommandGenerator
from benchwright.features.load.parse import (
    address_of,
    implied_server,
    is_network,
    parse_target,
    target_text,
)
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.load.request import LoadTarget
from benchwright.features.load.types import FileSetProgress
from benchwright.features.search.export import export_searches
from benchwright.features.search.keys import KeysOfSearch, is_search_trial, search_key
from benchwright.features.search.load_watcher import LoadWatcher
from benchwright.features.search.server.life import why_not_ready
from benchwright.features.search.server.workbench import LocalWorkbench, Workbench, WorkbenchConfig
from benchwright.features.search.spec import Spec, TcpReady
from benchwright.features.search.spec_toml import EngineSettings
from benchwright.features.search.types import SearchTrial, decode_stored, encode_stored
from benchwright.inputs.mistakes import SourceFile, Where, mistake
from benchwright.inputs.template import Template, fill_placeholders
from benchwright.run.ledger import Ledger
from benchwright.run.preparation import boot_id, exec_environment
from benchwright.run.session import SessionVerdict, run_to_end
from benchwright.run.watching import SERVER_NOT_FOUND, refuse_missing, servers_of
from benchwright.study.contents import SessionFindings
from benchwright.study.journal import SessionInfo
from benchwright.trial.programs import program_problem
from benchwright.watch.named_servers import find_server

if TYPE_CHECKING:
    from benchwright.run.runner import SessionSite

# -- What a session of searches stores ---------------------------------------------------
#
# Everything that a search depends on: the request as the user typed it, the spec's text, the
# directory, and PATH. A resume reads nothing else.

RequestT = TypeVar("RequestT")
ListenerT = TypeVar("ListenerT", bound="SearchListener")

COMMAND_FILE = "--command"
"""The name in place of a spec's path where a command is the load."""
SEARCH_REQUEST = "<request>"
"""`program_main` of a session of searches; its first source is the request as JSON."""


def search_info(
    kind: str, request: msgspec.Struct, spec: SourceFile | None, arguments: Sequence[str]
) -> SessionInfo:
    """Return the stored input of a session of this kind (`KINDS` in kinds.py)."""
    source_file = SourceFile(SEARCH_REQUEST, msgspec.json.encode(request).decode())
    sources = (source_file,) if spec is None else (source_file, spec)
    environment = {"PATH": _search_path(spec)}
    return SessionInfo(
        started_ns=time.time_ns(),
        version=__version__,
        boot_id=boot_id(),
        directory=os.getcwd(),
        arguments=tuple(arguments),
        defines=(),
        program_main=SEARCH_REQUEST,
        sources=tuple((source.path, source.text) for source in sources),
        options={
            "token": os.urandom(8).hex(),
            "environment": msgspec.json.encode(environment).decode(),
        },
        kind=kind,
    )


def stored_request(info: SessionInfo, kind: type[RequestT]) -> RequestT:
    """Return the request that a session of searches was started with."""
    fields = msgspec.json.decode(info.sources[0][1])
    # Earlier versions stored the options of a ramp that set its goal in a table.
    return msgspec.convert(fields | fields.pop("options", {}), type=kind)


def stored_spec(info: SessionInfo) -> SourceFile | None:
    """Return the spec, and the files it named, as they were when the session started; None if
    there was none."""
    if len(info.sources) < 2:
        return None
    return SourceFile(*info.sources[1], beside=info.sources[2:])


def changed_spec(info: SessionInfo) -> str:
    """Return the note about a spec that has changed since the session started; empty if it is
    the same or gone, or if there was none."""
    spec = stored_spec(info)
    if spec is None:
        return ""
    with contextlib.suppress(OSError):
        file = Path(info.directory, spec.path)
        if regular_bytes(file).decode("utf-8", "replace") != spec.text:
            return (
                f"{spec.path} has changed since the session began: the session continues "
                "with its stored text; start a new session for the changed file"
            )
    return ""


def _search_path(spec: SourceFile | None) -> str:
    """Return PATH with the spec's directory first and that of `bw` itself last."""
    beside = None if spec is None else str(Path(spec.path).resolve().parent)
    tools = str(Path(sys.executable).parent)
    places = [beside, os.environ.get("PATH", os.defpath), tools]
    return os.pathsep.join(place for place in places if place)


# -- One search: the loop over probes --------------------------------------------------
#
# The same loop serves a ramp, a peak search, and each sample of a surface. `Search.step` is a pure
# function of the trials so far. Every trial is durable before the step sees it, so a search that
# was cut short continues with a step on the recorded trials. Decision: recorded trials are not
# replayed one by one; the step depends on the history alone, so one call with all of it is the
# replay. A search that ended because the server or the generator failed can be resumed: each
# resume stores the trials at its end that could not be used as forgotten, so they no longer count.

ResultT = TypeVar("ResultT")


def _never_leaves(_history: Sequence[LoadTrial], _probe: Probe, _so_far: LoadTrial, /) -> bool:
    return False


def _never_gives_up(_result: object, /) -> bool:
    return False


def _has_failed(trial: LoadTrial) -> bool:
    """Return whether a trial ended with an error."""
    return trial.ending is LoadEnding.FAILED


def _accept_any(_trial: LoadTrial, /) -> None:
    pass


class SearchListener(Protocol):
    """Shows a search while it runs."""

    def search_begins(self) -> None:
        """The search starts, or is resumed."""

    def probe_begins(self, number: int, probe: Probe) -> None:
        """A load starts; `number` is its number among the trials that count."""

    def probe_runs(self, number: int, probe: Probe, so_far: LoadTrial) -> None:
        """The running load has these figures so far."""

    def making_files(self, progress: FileSetProgress) -> None:
        """The file set of the next load is being made."""

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """A trial was run and recorded; `trials` are those that count so far."""


class SilentSearch:
    """Shows nothing of a search."""

    def search_begins(self) -> None:
        """Show nothing."""

    def probe_begins(self, number: int, probe: Probe) -> None:
        """Show nothing."""

    def probe_runs(self, number: int, probe: Probe, so_far: LoadTrial) -> None:
        """Show nothing."""

    def making_files(self, progress: FileSetProgress) -> None:
        """Show nothing."""

    def trial_ended(self, trials: Sequence[SearchTrial]) -> None:
        """Show nothing."""


class Search(msgspec.Struct, Generic[ResultT], frozen=True, kw_only=True):
    """The definition of a search at one sample."""

    kind: type[ResultT]
    """Type of the result: a Struct that JSON can hold."""
    step: Callable[[Sequence[LoadTrial]], Probe | ResultT]
    """Pure: the next probe, or the result."""
    leaves: Callable[[Sequence[LoadTrial], Probe, LoadTrial], bool] = _never_leaves
    """Pure: whether the figures of a running probe are enough to end it."""
    gives_up: Callable[[ResultT], bool] = _never_gives_up
    """Whether a result only says that the server failed. It is not recorded, and a resume
    tries again."""
    unusable: Callable[[LoadTrial], bool] = _has_failed
    """Pure: whether a trial cannot be used, so that the search may give up because of it."""
    check_first: Callable[[LoadTrial], None] = _accept_any
    """Raises InputError if the very first trial shows a mistake of the command line, such as a
    pointer to nothing in a generator's output; then the trial is not recorded."""
    key: str = search_key()
    sample: Pairs = ()


class SearchResult(msgspec.Struct, Generic[ResultT], frozen=True):
    """The result of a search, and the trials that count."""

    result: ResultT
    trials: tuple[SearchTrial, ...]


def run_search(
    search: Search[ResultT],
    workbench: Workbench,
    ledger: Ledger,
    listener: SearchListener | None = None,
    watcher: LoadWatcher | None = None,
) -> SearchResult[ResultT]:
    """Run or resume a search to its end, and return its result.

    `watcher`, if any, watches the loads. Raises Interrupted, and BenchError if the workbench
    cannot continue; the search can be resumed after both.
    """
    trials, number = recorded_trials(search.key, ledger)
    known = recorded_result(ledger, search.kind, search.key)
    if known is not None:
        return SearchResult(known, tuple(trials))
    loads = _Loads(search, workbench, ledger, listener or SilentSearch(), watcher)
    is_first, is_resumed = not trials, True
    while True:
        answer = search.step(tuple(trial.trial for trial in trials))
        if isinstance(answer, Probe):
            number += 1
            trials.append(loads.run(number, answer, trials, is_first=is_first))
            is_first = is_resumed = False
            loads.listener.trial_ended(tuple(trials))
        elif (
            is_resumed
            and search.gives_up(answer)
            and (forgotten := _unusable_at_the_end(search, trials))
        ):
            ledger.note(KeysOfSearch(search.key).forgotten(number), forgotten)
            del trials[-forgotten:]
        else:
            if not search.gives_up(answer):
                ledger.note(KeysOfSearch(search.key).result, encode_stored(answer))
            return SearchResult(answer, tuple(trials))


class _Loads(msgspec.Struct, Generic[ResultT], frozen=True):
    """Runs the probes of one search."""

    search: Search[ResultT]
    workbench: Workbench
    ledger: Ledger
    listener: SearchListener
    watcher: LoadWatcher | None

    def run(
        self, number: int, probe: Probe, trials: Sequence[SearchTrial], *, is_first: bool
    ) -> SearchTrial:
        """Run one probe after these trials; return its trial as recorded."""
        history = tuple(trial.trial for trial in trials)
        shown = len(history) + 1

        def leaves(so_far: LoadTrial) -> bool:
            self.listener.probe_runs(shown, probe, so_far)
            return self.search.leaves(history, probe, so_far)

        def do() -> msgspec.Raw:
            if self.watcher is not None:
                self.watcher.next()
            trial = self.workbench.run(probe, self.search.sample, leaves)
            trial = msgspec.structs.replace(trial, users=probe.users)
            if self.watcher is not None:
                trial = self.watcher.with_use(trial)
            if is_first:
                self.search.check_first(trial)
            return encode_stored(SearchTrial(number, probe, trial, self.search.sample))

        self.listener.probe_begins(shown, probe)
        what = f"load of {probe.rate:g}/s for {probe.duration_s:g} s"
        key = KeysOfSearch(self.search.key).trial(number)
        return decode_stored(self.ledger.once(key, what, msgspec.Raw, do), SearchTrial)


def recorded_result(ledger: Ledger, kind: type[ResultT], key: str = search_key()) -> ResultT | None:
    """Return a search's result; None while it is unfinished, or after it failed."""
    recorded = ledger.recorded(KeysOfSearch(key).result, msgspec.Raw)
    return None if recorded is None else decode_stored(recorded, kind)


def recorded_trials(key: str, ledger: Ledger) -> tuple[list[SearchTrial], int]:
    """Return a search's trials that count, and the number of its last trial, counted or not."""
    keys = KeysOfSearch(key)
    search_trials: list[SearchTrial] = []
    number = 0
    while (text := ledger.recorded(keys.trial(number + 1), msgspec.Raw)) is not None:
        number += 1
        search_trials.append(decode_stored(text, SearchTrial))
        forgotten = ledger.recorded(keys.forgotten(number), int) or 0
        del search_trials[len(search_trials) - forgotten :]
    return search_trials, number


def _unusable_at_the_end(search: Search[ResultT], trials: Sequence[SearchTrial]) -> int:
    """Return how many trials at the end of a search cannot be used."""
    last = reversed([trial.trial for trial in trials])
    return sum(1 for _ in itertools.takewhile(search.unusable, last))


# -- A session of searches -------------------------------------------------------------


class SearchExperiment(ABC, Generic[ResultT, ListenerT]):
    """A session of searches on one workbench, from its stored request and spec.

    The common part of a ramp, a peak search and a surface; each subclass defines its search.
    After an interrupt or a workbench failure the session can be resumed.
    """

    applies_loads = True
    tables: Mapping[str, Any] = {}

    def __init__(
        self,
        info: SessionInfo,
        spec: Spec,
        *,
        criteria: tuple[Criterion, ...],
        seed: int,
        plot: str | None,
    ) -> None:
        self.info = info
        self.spec = spec
        self.criteria = criteria
        """The values to measure in each trial."""
        self.seed = seed
        """The random seed of the loads."""
        self.plot = plot
        """Path of the picture that the request asks for."""
        self.result: ResultT | None = None
        """The result; None until it is known."""
        self.bench_findings: tuple[Finding, ...] = ()
        """Findings about the workbench itself."""
        self.samples: tuple[Pairs, ...] = ()
        """Samples that are checked before the first trial, beside that of the spec."""
        self.clients: GangClients | None = None
        """The hosts of a gang that issue the load; None: this machine, or what the spec says."""

    @abstractmethod
    def search(
        self,
        workbench: Workbench,
        ledger: Ledger,
        listener: ListenerT,
        watcher: LoadWatcher | None = None,
    ) -> ResultT:
        """Run the searches to their result. Raises Interrupted, BenchError."""

    @abstractmethod
    def recorded(self, ledger: Ledger) -> ResultT | None:
        """Return the recorded result; None if it is unfinished."""

    @abstractmethod
    def verdict(self, result: ResultT) -> SessionVerdict:
        """Return how a session with this result ends."""

    def check(self) -> None:
        """Raise InputError for programs that are missing on this host, and for a server that should
        run already and does not answer, before the study is made."""
        if self.spec.file == COMMAND_FILE:
            check_program(self.spec)
        if self.spec.server is None:
            refuse_missing(servers_of(self.info, self.servers))
            _check_connection(self.spec)
        for spec in (self.spec, *map(self.spec.at, self.samples)):
            _check_named(spec)

    # -- run/runner.py, Experiment -------------------------------------------------------

    @property
    def notify(self) -> NoticeSettings | None:
        """Notices that the spec asks for."""
        return self.spec.notify

    @property
    def servers(self) -> tuple[NamedServer, ...]:
        """The servers that the spec names, or that its load's address implies."""
        return self.spec.servers or _implied_servers(self.spec)

    @property
    def target(self) -> str:
        """What is known of a server that runs already: its address, whose processes are watched;
        empty if the spec starts the server, or if our engine does not drive one."""
        target, server = _engine_target(self.spec), self.spec.server
        in_table = None if server is None else server.named
        if target is None or not is_network(target) or (server and not in_table):
            return ""
        named = servers_of(self.info, self.servers)
        named = named if in_table is None else (in_table, *named)
        known = "name its processes with --target-port or --target-name for bw why"
        if named:
            known = f"bw why counts as the server: {list_text([named_server.text for named_server in named])}"
        shared = "; it shares the CPUs with the generator" if implied_server(target) else ""
        return f"{target_text(target)}, not started by bw{shared}; {known}"

    def prepare_again(self, note: Callable[[str], None]) -> None:
        """Note that the spec has changed."""
        if changed := changed_spec(self.info):
            note(changed)

    def programs(self) -> Sequence[tuple[str, ...]]:
        """Return no command, because the spec contains the generator's program."""
        return ()

    def findings(
        self, _ledger: Ledger, _verdict: SessionVerdict, recorded: Sequence[Finding], /
    ) -> SessionFindings:
        """Return the findings about the workbench and its observers; the result contains those
        about the search."""
        found = dict.fromkeys((*self.bench_findings, *recorded))
        return SessionFindings(session=tuple(found), tests={})

    def run(self, site: SessionSite, listener: ListenerT) -> SessionVerdict:
        """Search, record how the session ended, and export it; return how it ended."""
        ledger = site.ledger
        watcher = LoadWatcher(site.watching, ledger.count(is_search_trial), site.viewer)

        def search() -> SessionVerdict:
            config = WorkbenchConfig(
                spec=self.spec,
                criteria=self.criteria,
                around=exec_environment(self.info, ledger.study.path),
                logs=ledger.study.path / "logs" / f"s{ledger.session}",
                seed=self.seed,
                recorded=ledger.count(is_search_trial),
                samples=self.samples,
                clients=self.clients,
            )
            workbench = LocalWorkbench(
                config, site.bench, around_load=watcher.around, making=listener.making_files
            )
            self.bench_findings = workbench.findings
            with contextlib.closing(workbench):
                site.stop.pass_to(workbench.interrupt)
                site.stop.check()
                self.result = self.search(workbench, ledger, listener, watcher)
            # Resources of the server that could not be taken back are found at the end.
            self.bench_findings = workbench.findings
            return self.verdict(self.result)

        return record_searches(ledger, search)


class OneSearchExperiment(SearchExperiment[ResultT, SearchListener]):
    """A session of one search: a peak search, a ramp."""

    @abstractmethod
    def planned(self, *, watched: bool) -> Search[ResultT]:
        """Return the search; `watched`: the workbench shows the trials while they run."""

    def search(
        self,
        workbench: Workbench,
        ledger: Ledger,
        listener: SearchListener,
        watcher: LoadWatcher | None = None,
    ) -> ResultT:
        """Run the search. Raises Interrupted, BenchError."""
        listener.search_begins()
        search = self.planned(watched=workbench.watched)
        return run_search(search, workbench, ledger, listener, watcher).result

    def recorded(self, ledger: Ledger) -> ResultT | None:
        """Return the recorded result."""
        search = self.planned(watched=False)
        return recorded_result(ledger, search.kind, search.key)


def record_searches(ledger: Ledger, search: Callable[[], SessionVerdict]) -> SessionVerdict:
    """Run the searches of a session; record how it ended, export it, and return that.

    Raises BenchError, InputError and StudyError as the searches do.
    """

    def run() -> SessionVerdict:
        try:
            return search()
        except Interrupted:
            detail = "`bw resume` continues from here"
            return SessionVerdict("interrupted", detail, 130)

    return run_to_end(ledger, run, lambda: export_searches(ledger.study, ledger.session))


def check_program(spec: Spec) -> None:
    """Raise InputError for a command whose program does not exist, before the study is made."""
    settings = spec.load.settings
    assert isinstance(settings, CommandGenerator)
    for name in settings.programs:
        why = program_problem(name, os.environ.get("PATH"), os.getcwd())
        if why:
            hint = "give its path, or check PATH"
            raise argument_error("--command", settings.command, why, hint)


def _check_connection(spec: Spec) -> None:
    """Raise InputError if nobody accepts a connection at the address that our engine drives."""
    target = _engine_target(spec)
    address = None if target is None else address_of(target)
    if address is None:
        return
    place = spec.places.get("load.target", Where(spec.file))
    why = why_not_ready(TcpReady(Template((address,), place)), {})
    if why:
        hint = "start the server, or correct the address"
        raise mistake(place, "connect", f"no connection: {why}", hint)


def _check_named(spec: Spec) -> None:
    """Raise InputError if the server that `[server]` names does not run, and no command of the
    spec may start it."""
    server = spec.server
    if server is None or server.named is None or server.configure or spec.server_host:
        return
    processes = find_server(server.named, (os.getpid(),))
    if not processes.pids:
        place = spec.places.get(f"server.{server.named.by}", Where(spec.file))
        raise mistake(place, SERVER_NOT_FOUND, processes.why, processes.remedy)


def _implied_servers(spec: Spec) -> tuple[NamedServer, ...]:
    """Return the server that our engine's address implies; none if the spec starts the server,
    because then its processes are known."""
    target = _engine_target(spec)
    if spec.server is not None or target is None:
        return ()
    server = implied_server(target)
    return () if server is None else (server,)


def _engine_target(spec: Spec) -> LoadTarget | None:
    """Return the target that our engine drives; None for another generator, and for a target that
    depends on the trial or is wrong, which the search itself reports."""
    settings = spec.load.settings
    if not isinstance(settings, EngineSettings) or settings.target.slots:
        return None
    try:
        return parse_target(fill_placeholders(settings.target, {}))
    except ValueError:
        return None
