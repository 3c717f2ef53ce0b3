"""`bw ramp`: throughput and response time from a low load to saturation."""

from __future__ import annotations

from benchwright.features.search.command_line import CommandSearch
from benchwright.features.search.options import RampRequest

_EXAMPLES = """\
examples:
  bw ramp --target http://127.0.0.1:8080/             users of a closed loop, doubled
  bw ramp varmail.toml --target nfs://filer/export    operations on many files
  bw ramp nginx.toml                                  users of a closed loop, doubled
  bw ramp server.toml -P workers=2 --repeats 3 --plot profile.png
  bw ramp server.toml --axis rate --start 1k --step 500
  bw ramp --command 'GEN {users} {duration}' --throughput /tps --response /mean_ms
  bw ramp --study DIR --plot profile.png              draw the ramp stored in DIR

With users, the Universal Scalability Law is fitted: X(N) = gamma N /
(1 + sigma (N-1) + kappa N (N-1)), with an interval of each parameter. A number of users at
the maximum is reported only if throughput falls beyond it, and not merely levels off.

exit status: 0 done; 1 the server or the generator failed; 2 bad input; 3 budget spent;
130 interrupted (continue with `bw resume`)
"""
_SEARCH = CommandSearch(
    kind="ramp",
    request=RampRequest,
    verb="ramp",
    noun="ramp",
    level="a level",
    command="GEN {users} {duration}",
    for_command=("throughput", "response", "p99", "errors", "series"),
    spec="server and load, [ramp] if it has one; or with --target a workload file; without one, and without --target or "
    "--command, print the study's last ramp again",
    usage="bw ramp [options] SPEC.toml | bw ramp [options] [WORKLOAD.toml] --target T | bw ramp [options] "
    "--command 'GEN {users} {duration}' --throughput /POINTER",
    examples=_EXAMPLES,
)
add_parser = _SEARCH.add_parser
