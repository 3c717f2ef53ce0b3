"""`bw peak`: the highest rate that a server sustains under its criteria."""

from __future__ import annotations

from argparse import Namespace

from benchwright.core.errors import Diagnostic
from benchwright.features.search.command_line import CommandSearch
from benchwright.features.search.options import PeakRequest
from benchwright.inputs.mistakes import option_mistake

_EXAMPLES = """\
examples:
  bw peak --target http://127.0.0.1:8080/ --limit 'p99 < 20ms' --limit 'errors < 1%'
  bw peak mail.toml --target dir:/mnt/data --limit 40ms   operations on many files
  bw peak nginx.toml                                  docs/workbench.md
  bw peak server.toml -P workers=2 --claim rate:5% --plot peak.png
  bw peak --command 'GEN {rate} {duration}' --response /mean_ms --series /series \\
      --limit 40ms --claim region:10%,rate:5%         GEN prints JSON
  bw peak --study DIR --plot peak.png                 draw the search stored in DIR

claims (with several, all are reached):
  region:10%   the true response at the answer is within 10 % of the limit
  rate:5%      the answer is within 5 % of the true peak rate
  slo:95%      the limit holds at the answer with a probability of 95 %
The default with --target is rate:5%, because region:10% mostly needs more than the
default budget of 10 minutes (docs/peak.md).

exit status: 0 found; 1 the server or the generator failed, or a limit is exceeded at the
lowest rate; 2 bad input; 3 undecided, budget spent, or no limit is ever exceeded;
130 interrupted (continue with `bw resume`)
"""


def _check(arguments: Namespace) -> list[Diagnostic]:
    """Return an error if --command is given without --response."""
    if arguments.command is None or arguments.response is not None:
        return []
    hint = "such as --response /mean_ms, a JSON pointer into GEN's output"
    message = "the pointer to the mean response time is missing"
    return [option_mistake("--response", message, hint)]


_SEARCH = CommandSearch(
    kind="peak",
    request=PeakRequest,
    verb="search",
    noun="search",
    level="a rate",
    command="GEN {rate} {duration}",
    for_command=("response", "series", "errors", "offered", "late", "target_response"),
    spec="server, load and criteria, or with --target a workload file; without one, and without --target or --command, print "
    "the study's last search again",
    usage="bw peak [options] SPEC.toml | bw peak [options] [WORKLOAD.toml] --target T "
    "--limit 'p99 < 20ms' | bw peak [options] --command 'GEN {rate} {duration}' --response /POINTER "
    "--limit 40ms",
    examples=_EXAMPLES,
    helps={
        "limits": "limit that must hold: 'p99 < 20ms', 'errors < 1%', 40ms for the mean; "
        "repeatable, replaces the SPEC's criteria; with --command only the mean, and errors "
        "with --errors",
        "claim": "what is claimed of the answer: region:10%, rate:5%, slo:95%; several "
        "with commas (default: region:10%; with --target rate:5%)",
        "budget": "stop after this time and report the best answer so far (default: "
        "none; with --target 10m)",
    },
    check=_check,
)
add_parser = _SEARCH.add_parser
