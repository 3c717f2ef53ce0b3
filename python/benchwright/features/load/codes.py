"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import UNKNOWN, Code, part_of

_GAP = "a tenth of the mean gap between arrivals is {limit:2}"

CODES: dict[str, Code] = {
    "host-lost": Code(
        Severity.SERIOUS,
        "Do not use the result: it is that of the other hosts, up to the moment at which the host was "
        "lost. Find why it was lost, and repeat the load.",
    ),
    "host-differs": Code(
        Severity.WARNING,
        "Find why: another path to the server, or a host that is slow or busy itself. Percentiles of "
        "all hosts together mix two distributions.",
        says="{host}: {first}<; {others}>< (rank test at a level of {level})>",
    ),
    "clock-uncertain": Code(
        Severity.NOTE,
        "Response times are not affected: both stamps are of one host. For arrivals of several hosts "
        "in exact order, use hosts on one network (packets on UDP ports must pass), or a lower rate.",
        says="the clock of {host} is known to ±{bound:2}< (by {how})>, and " + _GAP,
    ),
    "hosts-skewed": Code(
        Severity.WARNING,
        "Synchronise the clocks of the hosts (chrony), or run shorter: their arrivals move against "
        "each other. Response times are not affected.",
        says="{host} was {skew:2} {way} {when}< (its clock drifts {drift:+.2g} ppm)>, and " + _GAP,
    ),
    "target-saturated": Code(
        Severity.WARNING,
        "Lower the rate, or raise --depth if the target can do more at once: while a backlog "
        "grows, response times depend on the length of the run.",
        says="[; {middle} operations waited in the middle of the run, {end} at its end][; "
        + part_of("held")
        + " waited for a slot; the median response< ({response})> is {times:3} times the service time< ({service})>]"
        "[; "
        + part_of("waited")
        + " waited for a slot; the median first event< ({first})> is {first_times:3} times that from the actual start<"
        " ({first_service})>]"
        "[; {own} of the {ended} operations that ended in the measured part were due in it, the others in the warm-up: "
        "these are in no response time]",
    ),
    "response-not-steady": Code(
        Severity.WARNING,
        "Find what changed (bw plot shows the intervals; bw why, of a load with --study, what limited it), and repeat "
        "the load, longer: its percentiles mix both levels. Leave a start out (--warm-up).",
        says="the median response {way} from {first:3} to {last:3} {when}",
    ),
    "few-responses": Code(
        Severity.NOTE,
        "Run for at least ten response times, after a warm-up of at least one.",
        says="{edge} operations were in flight at the start or the end of the measured part, in which {ended} ended: "
        "the target's rate is between {least} and {most}",
    ),
    "operations-failed": Code(
        Severity.WARNING,
        "Find out why. Failed operations are counted, but not in response times. `stream encoded` is an answer that "
        "was compressed: send accept-encoding: identity, or turn the compression of the server or proxy off.",
        says="{failed} of {operations:#operation} failed: [{number} x {error}][{names}]< ({share})>"
        + UNKNOWN,
    ),
    "stream-cut": Code(
        Severity.WARNING,
        "Find what ends streams early: the server, a proxy or its time limit. Such streams failed, and count as slower "
        "than all others.",
        says="[; {cut} of {streams:#stream} ended without their end mark][; {failed} reported an error in an event]",
    ),
    "events-coalesced": Code(
        Severity.NOTE,
        "Look for what collects events before they arrive (a proxy that buffers, the server's own batches), or raise "
        "--workers if reader-late is reported too. A first event that was read with later ones may be earlier than its "
        "time says, and the time per token longer.",
        says="{shared} of {events:#event} ({share}) arrived in one read with the one before: they have no gap",
    ),
    "reader-late": Code(
        Severity.WARNING,
        "Give the engine a CPU of its own (--cpu), more workers, or a lower rate. A read has the kernel's stamp of its "
        "newest packet: first events may be earlier than reported, gaps and times per token are uncertain, and limits of "
        "these are undecided.",
        says="the p99 of how late events were read is {late}, more than {most} of {what} ({time})",
    ),
    "no-events": Code(
        Severity.WARNING,
        "Correct what is asked for: the format (--events), the path, or a request that the server answers in one piece "
        "(its content-type is not that of a stream). Such answers succeeded, and have no time of a stream.",
        says="{empty} of {streams:#stream} that succeeded had no event",
    ),
    "tpot-unknown": Code(
        Severity.WARNING,
        "Find what delivers an answer in one piece: a proxy that buffers, a server that sends its tokens at once, or an "
        "engine without CPU time (reader-late). The time per token is that of the other streams alone.",
        says="the content of {untimed} of {all:#stream} came in one read: their time per token is unknown",
    ),
    "tokens-unknown": Code(
        Severity.WARNING,
        "Let the server report its usage (stream_options.include_usage): tokens, tpot and the length of prompts are known "
        "from nothing else.",
        says="of {streams:#stream} that succeeded, {unknown} reported no usage",
    ),
    "role-only-first": Code(
        Severity.NOTE,
        "Nothing, but compare with care: programs that count an event without content as the first token report the "
        "smaller time.",
        says="the first event of a stream has no content: its median is {event}, that of the first with content {first}",
    ),
    "prefix-cache-warm": Code(
        Severity.NOTE,
        "Expect slower first events of prompts that are new. Leave out --shared-prefix, or say with the result how much "
        "was cached.",
        says="{share} of the tokens of prompts came from the server's cache",
    ),
    "outputs-shorter": Code(
        Severity.NOTE,
        "Compare only loads with outputs of one length: shorter ones need less of a server. --ignore-eos asks for whole "
        "ones, where the server can do so.",
        says="the outputs have {tokens:3} tokens on average, of {asked:3} that were asked for",
    ),
    "prompts-differ": Code(
        Severity.WARNING,
        "Check that the trace's lengths are in tokens of this model, and --tokens-per-word if it is given; the "
        "characters that each prompt begins with count too, and make the shortest prompts longer.",
        says="the prompts have {tokens:3} tokens on average, and those of {path} {wanted:3}",
    ),
    "server-queue": Code(
        Severity.NOTE,
        "Read first as the time in the server's queue and the computation together: a lower rate, or more slots of the "
        "server, make the queue shorter. Requests before the load are somebody else's: run it on a server without others.",
        says="by the server, requests waited in its queue ({name}): {before:g} before the load[, {mean:3} on average and "
        "{most:g} at most during it (at {waited} of {looks} looks)][, {after:g} after it]",
    ),
    "trace-requests-failed": Code(
        Severity.NOTE,
        "Expect a load that is smaller by these requests, which failed when the trace was recorded.",
        says="{requests:#request} of {path} without output, not replayed",
    ),
    "mix-differs": Code(
        Severity.SERIOUS,
        "Do not use the result: it is of another workload than its tables describe. If it is so "
        "in every run, report it as an error of bw; by chance it happens in 1 of 100 runs.",
        says="{table}: {member} has {drawn} of {draws} draws instead of {expected}; the probability by chance is {chance}",
    ),
    "objects-missing": Code(
        Severity.WARNING,
        "Give the file set more files, or more names that do not exist at the start (spare in "
        "[files]): such operations fail or do less than they should.",
        says="for {operations} operations of {chains:#chain} no object was in the right state< (to be created, removed or "
        "used)>",
    ),
    "server-restarted": Code(
        Severity.WARNING,
        "Find why the server was restarted. Writes that were not committed may be lost, and response "
        "times include the restart.",
        says="the write verifier of the server changed {times:#time}",
    ),
    "backlog-limit": Code(
        Severity.SERIOUS,
        "Lower the rate, allow more in flight (--depth, --connections), or drop operations that "
        "find no free slot (--full drop).",
        says="the run was stopped after {ran}: {waiting} operations waited for a free slot",
    ),
    "certificate-not-verified": Code(
        Severity.NOTE,
        "Name the authority of the server's certificate (--ca), so that the figures are certainly "
        "those of this server.",
        says="any certificate of the server was accepted< (--insecure)>",
    ),
    "unrequested-answers": Code(
        Severity.WARNING,
        "Find why the server answers twice, or late: such an answer may be "
        "taken for that of the next request.",
        says={
            "": "{connections:#connection} received bytes that no request was waiting for",
            "datagrams": "{datagrams:#datagram} arrived for which no operation waited",
            "replies": "replies that belong to no call: {replies}",
        },
    ),
    "undelivered-datagrams": Code(
        Severity.SERIOUS,
        "Start the server, or correct its address: the network refused datagrams that count as sent. "
        "Networks report only some of them.",
        says="{errors:#error} of the network for datagrams that expect no answer",
    ),
    "stray-completions": Code(
        Severity.SERIOUS,
        "Do not use the result, and report it as an error of bw: an end was taken for that of another "
        "operation, or reported twice.",
        says="{completions:#completion} of operations that were not in flight",
    ),
    "undeliverable-messages": Code(
        Severity.WARNING,
        "Correct the receiver: a filament sends messages to a number that no filament of the workload has, "
        "so operations that should follow never start.",
        says="{messages:#message} to filaments that do not exist",
    ),
    "little-law": Code(
        Severity.WARNING,
        "Do not compute one of the figures from the other two. Usually operations never ended: raise --drain. "
        "If none was unfinished, report it as an error of bw.",
        says="{in_flight} operations were in flight on average; {rate} of {time} each are {product}< ({apart} apart, {most} or "
        "less is fine)>",
    ),
    "operations-unfinished": Code(
        Severity.WARNING,
        "Raise --drain: unfinished operations are not in the response times, and were the slowest.",
        says=part_of("unfinished") + " were unfinished at the end of the run" + UNKNOWN,
    ),
    "few-samples-for-percentile": Code(
        Severity.NOTE,
        "Run longer, or report a lower percentile.",
        says="of {operations} operations there are [, {p90:.2g} beyond p90][, {p99:.2g} beyond p99]"
        "[, {p99_9:.2g} beyond p99.9][, {p99_99:.2g} beyond p99.99]",
    ),
    "clock-unsound": Code(
        Severity.WARNING,
        "Use --clock monotonic; times of a few microseconds are unreliable.",
        says="[; {source} was {drift:+.3g} ppm off its calibration][; during the run, {unsound}][; {early} operations "
        "started before they were due]",
    ),
    "clock-slow": Code(
        Severity.NOTE,
        "Nothing: the kernel's clock is correct, but reading it takes a little longer.",
    ),
    "memory-not-locked": Code(
        Severity.NOTE,
        "Raise the limit (ulimit -l unlimited): a page fault can delay an operation.",
        says="the engine's memory is not locked: {why}<; {more}>",
    ),
    "closed-loop": Code(
        Severity.NOTE,
        "Use --rate to measure what users of an open system would see.",
        says="{which} a closed loop: response times omit the wait of further arrivals< (coordinated omission), because no "
        "operation starts until the one before it ends>",
    ),
    "load-interrupted": Code(
        Severity.WARNING, "The results cover only that part.", says="interrupted after {ran}"
    ),
    "samples-lost": Code(
        Severity.WARNING,
        "Write samples to a faster disk than the target, with space for 16 bytes per operation; "
        "the results include all operations.",
        says="{lost} operations are missing from {path}[: {why}]",
    ),
    "trace-lines-skipped": Code(
        Severity.WARNING,
        "Fix the trace, or report with the result what is missing from it.",
        says="{lines} lines[ of {path}] were not understood<; the first: {first}>",
    ),
    "trace-empty": Code(
        Severity.SERIOUS,
        "Select a part that exists in the trace (--from, --for, --devices): bw trace stat shows "
        "its length.",
        says={
            "": "{path} has no operation",
            "part": "no operation of {path} is in the requested part: all {left_out} were left out",
        },
    ),
    "trace-stamps-coarse": Code(
        Severity.NOTE,
        "Use only time scales above the clock's step; --duplicates spread spaces them evenly.",
        says={
            "": "{equal} of {operations} operations have the time stamp of the one before: bursts shorter than the "
            "clock's step come from the clock",
            "seconds": "{requests} requests of {path} have time stamps of whole seconds: those of one second are {how}",
        },
    ),
    "trace-requests-skipped": Code(
        Severity.WARNING,
        "--unsafe-methods replays those that may change data; report with the result which were "
        "skipped.",
        says="records of {path} were skipped: [, {methods} with a method other than GET, HEAD and OPTIONS][, {bodies} with a "
        "body that is described (multipart/form-data), but not recorded]",
    ),
    "trace-requests-unsendable": Code(
        Severity.NOTE,
        "Nothing: such records (data: and blob: URLs, WebSockets, CONNECT, lines that are no request) are no "
        "HTTP requests to a server, and no option replays them.",
    ),
    "trace-hosts-merged": Code(
        Severity.NOTE,
        "--devices replays the requests of one host; a workload can give each host a target of its own.",
        says="requests of {hosts} hosts in {path} all go to one target: {names}",
    ),
    "trace-requests-changed": Code(
        Severity.NOTE,
        "--credentials sends recorded credentials; HAR and JSON lines have bodies, access logs none. Base64 keeps the bytes of a body.",
        says="requests of {path} are sent otherwise: [, {credentials} without their credentials][, {bodies} with an empty "
        "body, since theirs is unknown][, {lengths} with a body that does not have the length that the trace states]",
    ),
}
