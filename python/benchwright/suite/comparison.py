"""Compiles the options of `bw compare`: into a comparison's rule, and into a program of one
comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec

from benchwright.core.comparison import (
    BUILT_IN_METRICS,
    Checkout,
    ComparedMetric,
    ComparisonDesign,
    ComparisonRule,
    Gate,
    NullResult,
    StoredArm,
)
from benchwright.core.draws import Draws
from benchwright.core.errors import Diagnostic, InputError, suggestion
from benchwright.core.plan import (
    SUCCESS,
    CommandMode,
    FixedCount,
    LevelKind,
    MetricSpec,
    Replicated,
    Replication,
    StoppingRule,
)
from benchwright.core.quantity import (
    MOST_CHANGE,
    parse_confidence,
    parse_duration_ns,
    parse_slow_runs,
    share_within,
)
from benchwright.core.results import current_code
from benchwright.findings.codes import all_codes, code_or_none
from benchwright.inputs.mistakes import Where, fault_of
from benchwright.inputs.option_reader import OptionReader, at
from benchwright.inputs.options import Option, Text
from benchwright.inputs.template import choice, file_friendly, fixed
from benchwright.suite import common_options as common
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.common_options import CommandOptionReader
from benchwright.suite.program import Program, Step
from benchwright.suite.values import GATE_SYNTAX, MAX_EPOCHS, parse_gate

# -- The rule of a comparison: from the options' texts to a `ComparisonRule` -----------
#
# All mistakes are reported, each at its option. `[[compare]]` in TOML and comparisons of
# stored results use the same code. A study stores the request, with the seed and the stored
# baseline, so that a resume compiles the same program again.

MINIMUM = 10
"""Minimum number of blocks: before the first look, and of a pilot."""
PILOT = 20
"""Blocks of a pilot by default: with 10, the intervals of a bimodal metric cover 93 %,
with 20 they cover 94.5 %, for no more blocks in all (tests/calibration)."""
MAXIMUM = 200
SEQUENCE = 30
"""Trials of each arm of a sequence, which has no looks before its end."""
NULL_BLOCKS = 40
BLOCKS_IN_REPLICATE = 2
"""Blocks in one innermost replicate: the fewest that show by how much they differ."""
DESIGNS = tuple(str(d) for d in ComparisonDesign if d is not ComparisonDesign.STORED)


def _whole(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text.strip(), re.ASCII) is None:
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def _blocks(text: str) -> int:
    number = _whole(text)
    if not 2 <= number <= MAX_EPOCHS:
        raise ValueError(f"must be at least 2 and at most {MAX_EPOCHS}, not {text}")
    return number


def _condition(text: str) -> str:
    """Return the text of a gate on whatever metric. Raises ValueError."""
    _, fault = parse_gate(text, text.split()[:1] or [""])
    if fault is not None:
        raise ValueError(fault.message)
    return text


def _finding_code(text: str) -> str:
    """Return the present code of a finding. Raises ValueError."""
    code = current_code(text)
    if code_or_none(code) is None:
        meant = suggestion(code, all_codes())
        raise ValueError(f"there is no finding code {code!r}" + (f": {meant}" if meant else ""))
    return code


_question = partial(Option, group="the question")
_design = partial(Option, group="the design")


class ComparisonRequest(msgspec.Struct, frozen=True):
    """The texts of the user's options to `bw compare`, and values set when the comparison started
    (seed, token, stored baseline)."""

    commands: tuple[str, ...]
    margin: Annotated[
        Text,
        _question(
            "ratios this close to 1 are equivalent",
            "1%",
            share_within(0.0, MOST_CHANGE),
            "margin",
            default="1%",
            key=True,
        ),
    ] = None
    fail_if: Annotated[
        tuple[str, ...],
        _question(
            "gate: exit 1 if the comparison shows this, 3 if undecided",
            "'[METRIC] slower by 3%'",
            _condition,
            hint=GATE_SYNTAX,
            key=True,
        ),
    ] = ()
    accept: Annotated[
        tuple[str, ...],
        _question(
            "decide gates despite this serious finding (repeatable)",
            "CODE",
            _finding_code,
            hint="docs/findings.md lists them",
            key=True,
            rare=True,
            names="finding",
        ),
    ] = ()
    rare: Annotated[
        Text,
        _question(
            "nothing is equivalent and no gate passes before slow runs of this share would have been seen",
            "1%",
            parse_slow_runs,
            "rare",
            hint="write --rare 1%",
            key=True,
            rare=True,
        ),
    ] = None
    metrics: common.Metrics = ()
    instructions: common.Instructions = None
    confidence: Annotated[
        Text,
        _question(
            "confidence of verdicts and intervals",
            "95%",
            parse_confidence,
            "confidence",
            default="95%",
            key=True,
        ),
    ] = None
    power: Annotated[
        Text,
        _question(
            "power at which the smallest detectable effect is stated",
            "80%",
            share_within(0.5, 1.0),
            "power",
            default="80%",
            key=True,
            rare=True,
        ),
    ] = None
    design: Annotated[
        Text,
        _design(
            "order of the trials: blocks (random order in each), abba, round-robin, sequence",
            "D",
            choice("design", *DESIGNS),
            default="blocks",
            key=True,
        ),
    ] = None
    mode: Annotated[
        Text,
        _design(
            "watch: look after each block; plan: a pilot, then one look",
            "M",
            choice("mode", "watch", "plan"),
            default="watch",
            key=True,
            rare=True,
        ),
    ] = None
    min_blocks: Annotated[
        Text,
        _design(
            "blocks before the first look",
            "N",
            _blocks,
            default="10; 20 to plan",
            key=True,
            rare=True,
        ),
    ] = None
    max_blocks: Annotated[
        Text, _design("blocks after which it ends undecided", "N", _blocks, default="200", key=True)
    ] = None
    max_time: Annotated[
        Text,
        _design(
            "time after which it ends undecided", "10m", parse_duration_ns, "max_time_ns", key=True
        ),
    ] = None
    warmup: Annotated[
        Text,
        _design(
            "first blocks that do not count",
            "N",
            _whole,
            "warmup",
            default="1",
            key=True,
            rare=True,
        ),
    ] = None
    seed: Annotated[
        Text,
        _design(
            "random seed of the order",
            "N",
            _whole,
            "seed",
            default="drawn and recorded",
            key=True,
            rare=True,
        ),
    ] = None
    replicate: Annotated[tuple[str, ...], common.REPLICATE._replace(group="the design")] = ()
    draw: Annotated[tuple[str, ...], common.DRAW._replace(group="the design")] = ()
    spread: Annotated[Text, common.SPREAD._replace(group="the design")] = None
    names: common.Names = ()
    shell: common.Shell = None
    threads: Annotated[
        Text, Option("concurrent processes of a trial", "N", values.threads, rare=True)
    ] = None
    setup: common.Setup = None
    cleanup: common.Cleanup = None
    rest: common.Rest = None
    timeout: common.Timeout = None
    ok_status: common.OkStatus = None
    output: common.Output = None
    hooks: common.Hooks = ()
    junit: Annotated[
        Text,
        Option(
            "write verdicts and gates as JUnit XML too",
            "FILE",
            group="result",
            names="file",
            no_default=common.REPLACES,
        ),
    ] = None
    is_null: Annotated[
        bool,
        _question(
            "compare one command with itself: noise floor",
            flag="--null",
            no_default="it decides what is compared",
        ),
    ] = False
    commits: Annotated[
        tuple[str, ...],
        _question(
            "run the one command in this git commit, checked out and built (repeatable)",
            "REVISION",
            flag="--commit",
            no_default="it decides what is compared",
        ),
    ] = ()
    build: Annotated[
        Text, _question("shell command that builds a checked-out commit", "'make -j2'", rare=True)
    ] = None
    token: str = ""
    checkouts: tuple[Checkout, ...] = ()
    """The commits of the first arms."""
    stored: StoredArm | None = None
    null: NullResult | None = None
    draws: Draws | None = None
    """What `draw` declares, with the lines of files as they were when the session began."""


def rule_from_request(
    request: ComparisonRequest, arms: int, specs: Sequence[MetricSpec]
) -> ComparisonRule:
    """Return the rule for a comparison of stored arms. Raises InputError.

    `specs`: the metrics that the stored arms declare.
    """
    rule, mistakes = rule_and_mistakes(request, arms, specs)
    if mistakes:
        raise InputError(mistakes)
    return rule


def rule_and_mistakes(
    request: ComparisonRequest, arms: int, specs: Sequence[MetricSpec]
) -> tuple[ComparisonRule, list[Diagnostic]]:
    """Return the rule and the mistakes in the request; commands are not checked.

    `specs`: metrics that are declared outside the request.
    """
    reader = ComparisonRuleOptions(request)
    return reader.rule_alone(arms, specs), reader.found


def accepted_statuses(request: ComparisonRequest) -> tuple[int, ...]:
    """Return the exit statuses with which a run succeeds. Raises InputError."""
    reader = OptionReader(request)
    accepted: tuple[int, ...] = reader.value("ok_status", SUCCESS)
    if reader.found:
        raise InputError(reader.found)
    return accepted


def declared_metrics(request: ComparisonRequest) -> list[MetricSpec]:
    """Return the metrics that a request declares, without the wrong ones."""
    return ComparisonRuleOptions(request).specs()


class ComparisonRuleOptions(CommandOptionReader[ComparisonRequest]):
    """Reads the rule of a request; collects mistakes in `found`."""

    def rule_alone(self, arms: int, specs: Sequence[MetricSpec]) -> ComparisonRule:
        """Return the rule without its arms; mistakes are in `found`."""
        own = {spec.name: spec for spec in (*specs, *self.specs())}
        return self._rule(list(own.values()), arms)

    def specs(self) -> list[MetricSpec]:
        """Return the metrics that are declared; mistakes are in `found`."""
        return self.declared(self.request.metrics, self.request.instructions)

    # -- the rule --------------------------------------------------------------------

    def _rule(self, specs: list[MetricSpec], arms: int) -> ComparisonRule:
        request = self.request
        design = self.value("design") or "blocks"
        mode = self.value("mode") or "watch"
        gates = self._gates(specs)
        replication = self._replication(design)
        planned = mode == "plan" or request.stored is not None or replication is not None
        minimum, maximum = self._blocks(design, PILOT if planned else MINIMUM)
        if planned:
            minimum = max(minimum, min(MINIMUM, maximum))
        if replication is not None:
            if replication.trials is not None:
                # All blocks of the design run, then there is one look.
                counts = (level.count or 1 for level in replication.levels)
                maximum = replication.trials * math.prod(counts)
            minimum = min(MINIMUM, maximum)
        if design == "sequence" and request.max_time is not None:
            message = "a sequence has a fixed number of trials"
            hint = "give --max-blocks N, or another --design"
            self.wrong("--max-time", request.max_time, message, hint)
        return ComparisonRule(
            arms=max(arms, 2),
            metrics=compared_metrics(
                specs, [gate.metric for gate in gates], is_timed=request.instructions is None
            ),
            design=ComparisonDesign(design),
            mode="plan" if planned else "watch",
            minimum=minimum,
            maximum=maximum,
            gates=gates,
            accepted=self._accepted(),
            exactly=maximum if request.is_null else None,
            stored=request.stored,
            replication=replication,
            **self.fields(),
        )

    def _replication(self, design: str) -> Replication | None:
        """Return the levels of --replicate, and the blocks in one innermost replicate: two, which
        show how much they differ, or as many as --max-blocks allows."""
        request = self.request
        levels = self.replicate_levels(request.replicate, request.spread)
        if not levels:
            return None
        word = request.replicate[0]
        if not ComparisonDesign(design).paired or request.stored is not None:
            message = "the arms of a block share a replicate"
            hint = "give --design blocks, abba or round-robin, and no stored baseline"
            self.wrong("--replicate", word, message, hint)
        if request.mode == "watch":
            message = "with --replicate there is one look, after all blocks"
            self.wrong("--mode", request.mode, message, "leave out --mode")
        seed = self.value("seed", 0)
        if any(level.count is None for level in levels):
            if request.is_null:
                hint = f"write --replicate {levels[0].kind}=10"
                self.wrong("--replicate", word, "a null comparison has given numbers", hint)
            if levels[0].kind is LevelKind.HOST:
                message = "hosts run side by side, so all numbers are given before"
                self.wrong("--replicate", word, message, "give each level a number")
            return Replication(tuple(levels), seed)
        replicates = math.prod(level.count or 1 for level in levels)
        most = self.value("max_blocks")
        blocks = BLOCKS_IN_REPLICATE if most is None else max(most // replicates, 1)
        return Replication(tuple(levels), seed, blocks)

    def _blocks(self, design: str, first: int) -> tuple[int, int]:
        """Return the minimum and maximum number of blocks; `first` is the default minimum."""
        request = self.request
        usual = SEQUENCE if design == "sequence" else MAXIMUM
        if request.is_null:
            usual = NULL_BLOCKS
            if design == "sequence":
                hint = "--design blocks, abba or round-robin"
                self.wrong("--design", design, "a null comparison is paired", hint)
        minimum = self.value("min_blocks") or 0
        maximum = self.value("max_blocks") or 0
        if minimum and maximum and minimum > maximum:
            message = f"--max-blocks {maximum} is less than --min-blocks {minimum}"
            self.wrong("--max-blocks", str(maximum), message)
        least = 0
        if (rare := self.value("rare")) is not None:
            least = ComparisonDesign(design).blocks_for(rare.trials)
            if maximum and maximum < least and request.stored is None:
                self.wrong("--max-blocks", str(maximum), values.too_few_for(rare, maximum, least))
        # A tenth more, because some may fail.
        maximum = maximum or max(usual, minimum, least + least // 10)
        return minimum or min(first, maximum), maximum

    def _gates(self, specs: list[MetricSpec]) -> tuple[Gate, ...]:
        known = ["elapsed", *(spec.name for spec in specs), *BUILT_IN_METRICS]
        # The name of a gate may be that of a metric whose declaration is wrong.
        unread = any(mistake.file == "--metric" for mistake in self.found)
        gates: list[Gate] = []
        for text in self.request.fail_if:
            gate, fault = parse_gate(text, [*known, *text.split()[:unread]])
            if fault is not None:
                self.wrong("--fail-if", text, fault.message, fault.hint, fault.offset)
            elif gate is not None:
                gates.append(gate)
        return tuple(gates)

    def _accepted(self) -> tuple[str, ...]:
        """Return the codes of findings that do not make gates undecided."""
        return tuple(dict.fromkeys(self.values("accept")))


def limit_of_arm(rule: ComparisonRule) -> StoppingRule:
    """Return the rule of an arm's test, which the comparison stops."""
    if rule.replication is not None:
        return Replicated(rule.replication, rule.judged)
    return FixedCount((rule.warmup + rule.maximum) * rule.design.trials_per_block)


def revision_names(checkouts: Sequence[Checkout]) -> tuple[str, ...]:
    """Return the names of arms that are commits: their revisions, with the beginning of the
    commit's name where these do not differ."""
    names = [file_friendly(checkout.revision) for checkout in checkouts]
    return tuple(
        f"{name}-{one.commit[:8]}" if names.count(name) > 1 else name
        for name, one in zip(names, checkouts, strict=True)
    )


def compared_metrics(
    specs: list[MetricSpec], gated: list[str], *, is_timed: bool = True
) -> tuple[ComparedMetric, ...]:
    """Return the metrics of a comparison.

    Elapsed time, declared metrics and the metrics of gates are judged; the other built-in
    metrics are only shown. `is_timed`: without it, elapsed time is one of those, because
    counting instructions takes time itself.
    """
    shown = BUILT_IN_METRICS if is_timed else ("elapsed", *BUILT_IN_METRICS)
    declared = {spec.name: spec for spec in specs}
    names = dict.fromkeys(("elapsed", *declared, *BUILT_IN_METRICS))
    return tuple(
        ComparedMetric(
            name,
            declared[name].better if name in declared else "lower",
            judged=name not in shown or name in declared or name in gated,
            unit=declared[name].unit if name in declared else "",
        )
        for name in names
    )


# -- `bw compare -- 'A' 'B'`: the words of a command line become a program -------------
#
# Each word after `--` is one arm's command line. All wrong values are reported together,
# each at its option.


def program_from_comparison(request: ComparisonRequest) -> Program:
    """Return the program that compares commands. Raises InputError with all mistakes."""
    reader = _ComparisonOptions(request)
    steps = reader.steps()
    if reader.found:
        raise InputError(reader.found)
    return Program(
        steps,
        fixed_addresses=values.has_fixed_addresses(request.replicate),
        draws=draws_of_comparison(request),
    )


def draws_of_comparison(request: ComparisonRequest) -> Draws | None:
    """Return the inputs that are drawn for each block. Raises InputError."""
    reader = ComparisonRuleOptions(request)
    return reader.draws(request.draw, request.draws, request.commands)


class _ComparisonOptions(ComparisonRuleOptions):
    """Reads a request and makes its steps; collects mistakes in `found`."""

    def steps(self) -> tuple[Step, ...]:
        """Return the program's steps; mistakes are in `found`."""
        request = self.request
        specs = self.specs()
        settings = self._settings(specs)
        commands = self._commands()
        names = self._names(commands)
        checkouts = request.checkouts
        elsewhere = [None] * (len(commands) - len(checkouts))
        directories = [*(checkout.directory for checkout in checkouts), *elsewhere]
        body = self._body()
        rule = self._rule(specs, len(commands) + (request.stored is not None))
        arms = tuple(
            self._arm(name, command, directory, body, rule)
            for name, command, directory in zip(names, commands, directories, strict=True)
        )
        if any(word.startswith(LevelKind.PROCESS) for word in request.replicate):
            message = "each trial is a new process already"
            hint = "a suite starts a server again: [[compare]] with presetup"
            self.wrong("--replicate", "process", message, hint)
        where = Where("--")
        token = request.token or "comparison"
        return (*settings, step.Compare(arms, rule, token, where, request.null))

    # -- arms ------------------------------------------------------------------------

    def _commands(self) -> tuple[str, ...]:
        request, commands = self.request, self.request.commands
        for text in commands:
            if not text.strip():
                self.wrong("--", text, "the command of an arm is empty")
        if request.is_null:
            if len(commands) != 1:
                hint = "write: bw compare --null -- 'A'"
                self.wrong("--null", "", "--null takes one command", hint)
            return commands[:1] * 2
        if request.commits:
            if len(commands) != 1:
                hint = "write: bw compare --commit main --commit HEAD -- 'COMMAND'"
                message = "--commit takes one command, which runs in each commit"
                self.wrong("--commit", request.commits[0], message, hint)
            if len(request.commits) < 2:
                hint = "add the commit to compare it with"
                message = "--commit is given once"
                self.wrong("--commit", request.commits[0], message, hint)
            return commands[:1] * len(request.commits)
        least = 1 if request.stored is not None else 2
        if len(commands) < least:
            hint = "write each command as one word: bw compare -- 'sort a' 'sort b'"
            what = "two commands" if least == 2 else "one command"
            message = f"bw compare needs at least {what}"
            self.wrong("--", " ".join(commands), message, hint)
        return commands

    def _names(self, commands: tuple[str, ...]) -> list[str]:
        """Return distinct names of the arms: from --name, else from the programs."""
        given = self.request.names
        for name in given:
            fault = fault_of(values.name_of_test, name)
            if fault is not None:
                self.wrong("--name", name, fault.message, fault.hint, fault.offset)
            elif (fit := file_friendly(name)) != name:
                message = f"{name!r} would become {fit}: the name also names files"
                self.wrong("--name", name, message, f"write --name {fit}")
        request = self.request
        taken = () if request.stored is None else (request.stored.name,)
        if request.is_null:
            names = self.command_names(commands[:1], given)
            return names + [f"{name}-2" for name in names]
        if request.commits and not given:
            given = revision_names(request.checkouts)
        return self.command_names(commands, given, taken)

    def _arm(
        self,
        name: str,
        command: str,
        directory: str | None,
        body: tuple[list[Step], list[Step]],
        rule: ComparisonRule,
    ) -> step.Test:
        where = at("--", command)
        before, after = body
        line = fixed(command, where)
        request = self.request
        phase = self.exec_phase(command, line, "--", request.shell, request.draw)
        limit = limit_of_arm(rule)
        heading = fixed(name, Where("--name", text=name))
        return step.Test(heading, limit, (*before, phase, *after), where, directory)

    def _body(self) -> tuple[list[Step], list[Step]]:
        """Return the steps before and after each arm's command."""
        request = self.request
        before: list[Step] = []
        after: list[Step] = []
        pause = self.parsed("--rest", request.rest, values.rest_command)
        if pause is not None:
            before.append(self._phase("--rest", pause, CommandMode.SETUP))
        if request.setup is not None:
            before.append(self._phase("--setup", request.setup, CommandMode.SETUP))
        if request.cleanup is not None:
            after.append(self._phase("--cleanup", request.cleanup, CommandMode.CLEANUP))
        return before, after

    def _phase(self, option: str, text: str, mode: CommandMode) -> Step:
        return self.phase(option, text, mode, fixed(text, at(option, text)))

    # -- settings ---------------------------------------------------------------------

    def _settings(self, specs: list[MetricSpec]) -> list[Step]:
        request = self.request
        text = request.threads or "1"
        self.parsed("--threads", text, values.threads)
        where = Where("--threads", text=text)
        steps: list[Step] = [step.SetThreads(fixed(text, where), where)]
        limits = (request.timeout, request.ok_status, request.output)
        more = (request.hooks, request.instructions)
        return [*steps, *self.settings(specs, *limits, *more)]
