"""Where a result comes from: the machine, the method, and the data as files; and the sections of a
session's page that features add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.comparison import describe_comparison, describe_test
from benchwright.core.machine import MachineCapture
from benchwright.core.text import moment_text, plural
from benchwright.core.text_table import csv_of_rows
from benchwright.core.untrusted import one_line, shell_text, visible
from benchwright.feature import features
from benchwright.findings.environment import difference, side_texts
from benchwright.page.document import ReportPart
from benchwright.report.answer import Results, SessionAnswer, visit_text
from benchwright.report.documents import encode
from benchwright.report.env import GROUPS, shown_value, taken_text
from benchwright.report.stats_document import compose_report, section_of
from benchwright.report.stats_json import stats_document
from benchwright.results.stored import shown_quantities, shown_summaries
from benchwright.study.contents import stored_defaults
from benchwright.study.journal import StoredSession, Study
from benchwright.views.blocks import (
    Block,
    Cell,
    Column,
    Download,
    Downloads,
    Prose,
    Section,
    TableBlock,
    Words,
)


def added_sections(part: str, study: Study, session: StoredSession) -> list[Section]:
    """Return what features add to the report of any session."""
    return [section for feature in features() for section in feature.sections(part, study, session)]


# -- The machine -----------------------------------------------------------------------

_MAIN_FACTS = (
    ("host.name", "Host"),
    ("os.name", "System"),
    ("kernel.release", "Kernel"),
    ("cpu.model", "CPU"),
    ("cpu.online", "CPUs online"),
    ("cpu.governor", "Governor"),
    ("memory.total_bytes", "Memory"),
    ("virtual.kind", "Virtualization"),
    ("workdir.filesystem", "File system"),
)


def environment_section(part: str, machines: Sequence[MachineCapture]) -> Section:
    """Return what the machine was, and what changed during the session."""
    identifier = f"{part}-environment"
    if not machines:
        return Section(
            id=identifier,
            title="Environment",
            blocks=(Prose("The session did not record its machine.", "doubtful"),),
        )
    first = machines[0]
    return Section(
        id=identifier,
        title="Environment",
        lead=f"The machine at {taken_text(first)}, and what changed later.",
        blocks=(
            facts_table(f"{part}-machine", "Machine", list(_main_rows(first))),
            *_changes(part, machines),
            _all_facts(part, first),
        ),
    )


def facts_table(identifier: str, title: str, rows: list[tuple[Cell, ...]]) -> TableBlock:
    """Return facts as a table of names and values."""
    return TableBlock(
        id=identifier, title=title, columns=(Column("Fact"), Column("Value")), rows=tuple(rows)
    )


def _main_rows(machine: MachineCapture) -> Iterator[tuple[Cell, ...]]:
    named = machine.named()
    for name, label in _MAIN_FACTS:
        fact = named.get(name)
        if fact is not None and fact.value is not None:
            yield Words(label), Words(shown_value(name, fact.value))


def _changes(part: str, machines: Sequence[MachineCapture]) -> Iterator[Block]:
    if len(machines) < 2:
        yield Prose("The machine was recorded once, so changes during the session are unknown.")
        return
    rows = []
    for at in range(1, len(machines)):
        machine_difference = difference(machines[at - 1], machines[at])
        for change in machine_difference.changes:
            if change.known and change.weight != "expected":
                rows.append(
                    (
                        Words(visible(change.name), code=True),
                        *map(Words, side_texts(change, 80)),
                        Words(taken_text(machines[at])),
                    )
                )
    if not rows:
        captures = plural(len(machines), "capture")
        yield Prose(f"The {captures} of the machine have no important difference.")
        return
    yield TableBlock(
        id=f"{part}-changes",
        title="What changed during the session",
        columns=tuple(map(Column, ("Fact", "Before", "After", "Recorded at"))),
        rows=tuple(rows),
    )


def _all_facts(part: str, machine: MachineCapture) -> TableBlock:
    places = {word: place for place, (_, words) in enumerate(GROUPS) for word in words}
    facts = sorted(
        (fact for fact in machine.facts if fact.value is not None),
        key=lambda fact: (places.get(fact.name.partition(".")[0], 99), fact.name),
    )
    return TableBlock(
        id=f"{part}-facts",
        title=f"All {plural(len(facts), 'fact')}",
        columns=(Column("Fact"), Column("Value")),
        rows=tuple(
            (Words(visible(fact.name)), Words(shown_value(fact.name, fact.value or "")))
            for fact in facts
        ),
        folded=True,
    )


def shared_section(
    parts: Sequence[ReportPart], machines: Sequence[Sequence[MachineCapture]]
) -> Section:
    """Return the answers of several sessions or files, and what differs from the machine of the
    first. A file of another tool can state several machines."""
    blocks: list[Block] = [
        TableBlock(
            id="all-answers",
            title="Answers",
            columns=tuple(map(Column, ("Session", "Answer", "Status"))),
            rows=tuple(
                (
                    Words(_part_name(part), f"{part.id}-answer"),
                    Words(part.verdict[0].partition(" (")[0] if part.verdict else ""),
                    Words(part.status, tone=part.tone),
                )
                for part in parts
            ),
        )
    ]
    for part, others in zip(parts[1:], machines[1:], strict=True):
        name = _part_name(part)
        if not (machines[0] and others):
            text = f"{name}: results without a record of their machine cannot be compared."
            blocks.append(Prose(text, "doubtful"))
            continue
        rows = tuple(
            (Words(visible(change.name)), *map(Words, side_texts(change, 80)))
            for machine in others
            for change in difference(machines[0][0], machine).changes
            if change.known and change.weight != "expected"
        )
        if not rows:
            blocks.append(
                Prose(f"{name}: no important difference from the first session's machine.")
            )
            continue
        blocks.append(
            TableBlock(
                id=f"{part.id}-against-first",
                title=f"{name}: what differs from the first session's machine",
                columns=tuple(map(Column, ("Fact", "First", "Here"))),
                rows=rows,
            )
        )
    return Section(
        id="together",
        title="Sessions together",
        lead="The answers side by side, and what differs between the machines. bw compare judges "
        "whether a difference between results is real.",
        blocks=tuple(blocks),
    )


def _part_name(part: ReportPart) -> str:
    """Return the title of a part, with its session if it has one."""
    return f"{part.title}, session {part.session}" if part.session else part.title


# -- The method ------------------------------------------------------------------------


def method_section(stored: Results, session: StoredSession, answer: SessionAnswer) -> Section:
    """Return how the tests were measured: rules, looks, seed, versions, command line."""
    rows: list[tuple[Cell, ...]] = []
    rules: dict[str, list[str]] = {}
    for test in stored.tests:
        if test.plan is not None and test.arm is None:
            rule = describe_test(test.plan)
            rules.setdefault(rule, []).append(test.name)
    if any(test.plan is not None and test.plan.place is not None for test in stored.tests):
        order = "interleaved: rounds of trials, in a random order each"
        rows.append((Words("Order of the tests"), Words(order)))
    for comparison in stored.comparisons:
        rules.setdefault(describe_comparison(comparison.rule), []).append("comparison")
        rows.append((Words("Seed"), Words(str(comparison.rule.seed))))
    for rule, names in rules.items():
        label = "Stopping rule"
        if len(rules) > 1:
            label += f" of {names[0]}" if len(names) == 1 else f" of {len(names)} tests"
        rows.insert(0, (Words(visible(label)), Words(visible(rule))))
    looks = [test.stop.looks for test in stored.tests if test.stop]
    if any(looks):
        least, most = min(looks), max(looks)
        text = str(most) if least == most else f"{least} to {most}"
        rows.append((Words("Looks at the data"), Words(text)))
    if text := visit_text(answer.tests, [str(stored.path)]):
        rows.append((Words("Other times"), Words(visible(text))))
    return Section(
        id=f"{stored.id}-method",
        title="How it was measured",
        lead="The rule that ends each test, and what is needed to measure it again.",
        blocks=(
            facts_table(f"{stored.id}-method-facts", "Method", [*rows, *session_rows(session)]),
        ),
    )


def session_rows(session: StoredSession) -> Iterator[tuple[Cell, ...]]:
    """Yield what is needed to run a session again."""
    info, about = session.info, session.about
    if about.name:
        yield Words("Name"), Words(visible(about.name))
    if about.tags:
        yield Words("Tags"), Words(visible(", ".join(about.tags)))
    if about.note:
        yield Words("Note"), Words(one_line(about.note))
    command = shell_text(("bw", *info.arguments))
    yield Words("Command line"), Words(command, code=True)
    yield Words("Directory"), Words(visible(info.directory), code=True)
    yield Words("Started"), Words(f"{moment_text(info.started_ns)} UTC")
    yield Words("Benchwright"), Words(info.version)
    for stored_default in stored_defaults(info):
        label = visible(f"Default of --{stored_default.key}")
        yield Words(label), Words(visible(f"{stored_default.value} ({stored_default.place})"))
    for name, value in info.defines:
        yield Words(visible(f"Variable {name}")), Words(visible(value), code=True)


# -- The data --------------------------------------------------------------------------


_MOST_IN_CSV = 5000
"""Trials up to which the page contains each as CSV."""


def data_section(stored: Results, baseline: int = 0) -> Section:
    """Return the data as files; of very many trials only the summaries. `baseline`: the index of
    the test that overheads refer to."""
    count = sum(len(test.all_trials) for test in stored.tests)
    name = stored.path.name
    csv_file = Download(
        f"{name}-trials.csv", "text/csv", trials_csv(stored), "each trial and its values"
    )
    json_file = Download(
        f"{name}-stats.json",
        "application/json",
        stats_json(stored, baseline),
        "summaries and findings, as bw stats --json",
    )
    many = count > _MOST_IN_CSV
    return files_section(stored.id, (json_file,) if many else (csv_file, json_file))


_PACKED_FROM = 20_000


def files_section(part: str, downloads: tuple[Download, ...]) -> Section:
    """Return the section with the data as files; long ones are compressed."""
    files = tuple(
        msgspec.structs.replace(download, name=f"{download.name}.gz")
        if len(download.text) > _PACKED_FROM
        else download
        for download in downloads
    )
    return Section(
        id=f"{part}-data",
        title="Data",
        lead="The same numbers for other programs. The study has everything else.",
        blocks=(Downloads(files),),
    )


def compact_json(text: str) -> str:
    """Return a JSON document without white space."""
    return msgspec.json.format(text, indent=-1)


def trials_csv(stored: Results) -> str:
    """Return every trial as CSV: test, levels, trial, how it ended, each value in its unit."""
    values = [
        (test, trial, test.values_of(trial)) for test in stored.tests for trial in test.all_trials
    ]
    names = list(dict.fromkeys(name for test in stored.tests for name in shown_quantities(test)))
    factors = list(dict.fromkeys(name for test in stored.tests for name, _ in test.sample))
    head = ("test", *factors, "trial", "ending", "warmup", "started_ns", *names)
    rows = [
        (
            test.name,
            *(dict(test.sample).get(factor) for factor in factors),
            trial.epoch,
            str(trial.ending),
            int(trial.warmup),
            trial.started_ns,
            *map(own.get, names),
        )
        for test, trial, own in values
    ]
    return csv_of_rows([head, *rows])


def stats_json(stored: Results, baseline: int) -> str:
    """Return the document of `bw stats --json` about the tests."""
    sections = [section_of(test, shown_summaries(test)) for test in stored.tests]
    report = compose_report(sections, stored.findings, baseline=baseline)
    return compact_json(encode(stats_document(report)))
