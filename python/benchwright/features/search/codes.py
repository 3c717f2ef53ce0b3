"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

CODES: dict[str, Code] = {
    "server-and-generator-share-cores": Code(
        Severity.WARNING,
        "Use a machine with two or more CPUs, or another machine for the generator: here both "
        "use the same CPUs, and the peak rate is lower than the server's own.",
    ),
    "server-did-not-recover": Code(
        Severity.WARNING,
        "Read the server's log: after this load it did not answer in time, and the next trial "
        "started a new server. Raise ready_timeout if it only needs more time.",
    ),
    "probe-failed": Code(
        Severity.WARNING,
        "Read the output of the server and the generator in that trial: the trial was repeated, "
        "and counts only in the cost.",
    ),
    "failure-counted-as-overload": Code(
        Severity.WARNING,
        "Find why the server or the generator fails at this rate; the search treats the rate "
        "as more than the server can do.",
    ),
    "responses-not-normal": Code(
        Severity.NOTE,
        "Look at `bw plot --mode normal`; make trials longer, or use a policy that does not assume "
        "normal responses (monotone): Student's intervals of these loads are approximate.",
    ),
    "search-undecided": Code(
        Severity.SERIOUS,
        "Give the search more time or trials (--budget, --max-trials), or claim less (region:20%): it "
        "ended before its claim held.",
    ),
    "surface-sample-failed": Code(
        Severity.WARNING,
        "Fix the server at that sample and run `bw resume`; the model does not include the sample.",
    ),
    "surface-deadline": Code(
        Severity.WARNING,
        "Give a longer deadline, or run `bw resume`: it searches the missing samples for as long again.",
    ),
    "surface-bound-only": Code(
        Severity.WARNING,
        "Change the lowest or highest rate; a bound is not a peak and is not in any model.",
    ),
    "surface-bound-excluded": Code(
        Severity.SERIOUS,
        "Do not use the map near these samples: it is not fitted to bounds. Change the lowest or "
        "highest rate, or give each search more time, so that they find their peaks.",
    ),
    "surface-claim-missed": Code(
        Severity.WARNING,
        "Give each search more time (budget, max_trials), or claim less. A Gaussian process counts such a sample by the "
        "width of its interval; a polynomial leaves it out.",
    ),
    "surface-few-samples": Code(
        Severity.NOTE,
        "Search more samples, two for each level that is not a number; or make sure that "
        "nothing jumps between the levels.",
    ),
    "surface-no-model": Code(
        Severity.SERIOUS, "Search more samples, or fix those that failed; there is no prediction."
    ),
    "surface-model-reduced": Code(Severity.WARNING, "Search more samples, or use a lower degree."),
    "surface-fit-unjudged": Code(
        Severity.WARNING,
        "Search more samples than the polynomial has terms: two more show an error.",
    ),
    "surface-lack-of-fit": Code(
        Severity.WARNING,
        'Use a Gaussian process (model = "gaussian-process"): the surface is not a '
        "polynomial, and more samples will not change that; the bands include the misfit.",
    ),
    "gangs-differ": Code(
        Severity.NOTE,
        "Use hosts of one type, and run `bw env` on them to see what differs. The map is that of the "
        "mean gang: the differences are removed from the peaks.",
    ),
    "surface-noise-assumed": Code(
        Severity.NOTE, "Use a policy that gives an interval for its peak."
    ),
    "ramp-not-saturated": Code(
        Severity.WARNING, "Raise the highest level: the maximum of the server was not reached."
    ),
    "throughput-falls": Code(
        Severity.WARNING,
        "Keep the load below that level (a limit on connections, a queue in front): above "
        "it the server does less, not more.",
    ),
    "superlinear": Code(
        Severity.WARNING,
        "Find what slows down the first levels (cold caches, no batching, sleeping CPUs); no "
        "scalability law describes this.",
    ),
    "usl-misfit": Code(
        Severity.WARNING,
        "Trust the measured points, not the fitted curve: look for a hard limit (a pool, a "
        "quota, a second bottleneck), and use smaller steps near it.",
    ),
    "usl-extrapolated": Code(
        Severity.WARNING,
        "Measure up to that load, or do not rely on it: the data cover only one side of it.",
    ),
    "kappa-not-identified": Code(
        Severity.NOTE,
        "Measure higher levels, or more often (--repeats), to learn whether throughput falls.",
    ),
    "throughput-noise-unknown": Code(
        Severity.WARNING,
        "Use --repeats 3, or give a series: without them the error of a value is unknown.",
    ),
    "single-runs": Code(
        Severity.WARNING,
        "Use --repeats 3: runs also differ from each other (placement, caches, neighbours).",
    ),
    "answer-rough": Code(
        Severity.SERIOUS,
        "Do not use the rate as the server's peak: give the search more time (--budget), a first rate "
        "near the peak (--start) or a wider claim.",
    ),
    "check-contradicts": Code(
        Severity.SERIOUS,
        "Trials just below and above the answer did not agree with it: the server or the machine changes "
        "from trial to trial. Repeat the search on a quieter machine, or claim less (--claim rate:10%).",
    ),
    "warm-up-not-over": Code(
        Severity.SERIOUS,
        "Give the search a larger budget or none, so that trials become longer (with --run-length they are "
        'not tested for this), or let one server run for all trials (restart = "sample" in a spec).',
    ),
    "sheds-load": Code(
        Severity.WARNING,
        "Keep the limit on errors: the server refuses excess requests, so its response time does "
        "not show its load; the peak is where it starts to refuse.",
    ),
    "throughput-drops-under-overload": Code(
        Severity.WARNING,
        "Keep the load below the peak (a limit on connections, a queue in front): under overload "
        "the server does less than it can.",
    ),
    "response-not-monotonic": Code(
        Severity.WARNING,
        "Find what gets faster under more load (batching, caching, frequency); its limit may "
        "be exceeded in several ranges of rates.",
    ),
    "response-jumps": Code(
        Severity.WARNING,
        "Look for what changes at this rate (a cache, a pool, a limit on connections), and "
        "claim the rate (rate:5%): no rate has a response near the limit.",
    ),
    "answer-against-curve": Code(
        Severity.WARNING,
        "Look at the trials near that rate: one of them differs from the others (a cold start, "
        "another program), or the response falls with the rate. Repeat the search.",
    ),
    "rate-not-decided": Code(
        Severity.WARNING,
        "Use longer trials (--run-length), claim less (region:20%), or find what differs between "
        "trials (bw why): the limit lies within the differences between trials at one rate.",
    ),
    "server-stalls": Code(
        Severity.WARNING,
        "Find what pauses the server (garbage collection, compaction, checkpoints). Limit "
        "a high percentile too: the mean hides pauses.",
    ),
    "short-runs-contradict": Code(
        Severity.NOTE,
        "Find what makes short trials differ (checkpoints, garbage collection, rare slow requests). "
        "Trials shorter than its period show too little or too much of it.",
    ),
}
