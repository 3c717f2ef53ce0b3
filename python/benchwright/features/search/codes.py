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
        says="{again} of {trials:#trial} failed and {again:?was|were} run again",
    ),
    "failure-counted-as-overload": Code(
        Severity.WARNING,
        "Find why the server or the generator fails at this rate; the search treats the rate "
        "as more than the server can do.",
        says="[at {rates} rates, up to {highest:.5g}/s, ]the trial failed twice in a row< ({failure})> and lower "
        "rates worked",
    ),
    "responses-not-normal": Code(
        Severity.NOTE,
        "Look at `bw plot --mode normal`; make trials longer, or use a policy that does not assume "
        "normal responses (monotone): Student's intervals of these loads are approximate.",
        says="{criterion} of {trials} trials at {rate}: adjusted P value {p:.2g} of the Anderson-Darling test[, of {rates} "
        "rates with as many]",
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
    "earlier-peak-differs": Code(
        Severity.WARNING,
        "Compare the studies (`bw compare`) and find what has changed: the server, its machine, or what else "
        "ran. The answer is of this search's trials alone.",
        says="the search of {study} found {earlier}, and this one finds {now}: it used nothing of the earlier one "
        "but its first rates",
    ),
    "surface-deadline": Code(
        Severity.WARNING,
        "Give a longer deadline, or run `bw resume`: it searches the missing samples for as long again.",
        says="{left_out} of {samples:#sample} were not searched within {deadline}: {names}<; [the map has a mean absolute "
        "error of {error} by its bands][{unknown}]>",
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
        says="{missed} of {searches:#search} ended before the claim held: {names}<; the model counts {rough} of them as "
        "rough, by the width of the interval, and leaves out {left_out}>",
    ),
    "surface-few-samples": Code(
        Severity.NOTE,
        "Search more samples, two for each level that is not a number; or make sure that "
        "nothing jumps between the levels.",
        says="{samples:#sample} in the model, of {count}, where a plane over the factors has {terms} terms: a step between "
        "two levels may go unseen, and bands do not contain it",
    ),
    "surface-no-model": Code(
        Severity.SERIOUS,
        "Search more samples, or fix those that failed; there is no prediction.",
        says="of {samples:#sample} {used} can be used: too few for a model",
    ),
    "surface-model-reduced": Code(
        Severity.WARNING,
        "Search more samples, or use a lower degree.",
        says="{samples:#sample} with a peak: too few for the {full} terms of degree {degree}: fitted were {terms}",
    ),
    "surface-fit-unjudged": Code(
        Severity.WARNING,
        "Search more samples than the polynomial has terms: two more show an error.",
        says="{samples:#sample} with a peak for {terms} terms: the polynomial goes through each of them, so no error, band "
        "or interval is known",
    ),
    "surface-lack-of-fit": Code(
        Severity.WARNING,
        'Use a Gaussian process (model = "gaussian-process"): the surface is not a '
        "polynomial, and more samples will not change that; the bands include the misfit.",
        says="residuals have a standard deviation of {sd:.3g}, the searches one of {noise:.3g}: chi-square {chi_square:.1f} "
        "with {dof} degrees of freedom",
    ),
    "gangs-differ": Code(
        Severity.NOTE,
        "Use hosts of one type, and run `bw env` on them to see what differs. The map is that of the "
        "mean gang: the differences are removed from the peaks.",
        says="{gangs}; {slowest} is the slowest, by {by:2} of the mean gang's peaks",
    ),
    "surface-noise-assumed": Code(
        Severity.NOTE, "Use a policy that gives an interval for its peak."
    ),
    "ramp-not-saturated": Code(
        Severity.WARNING,
        "Raise the highest level: the maximum of the server was not reached.",
        says="no level saturated it: {throughput:4} at {level:g}, the highest level",
    ),
    "throughput-falls": Code(
        Severity.WARNING,
        "Keep the load below that level (a limit on connections, a queue in front): above "
        "it the server does less, not more.",
        says="throughput falls beyond {best:g}: {most:4} there, {last:4}< ({less:2} less)> at {level:g}",
    ),
    "superlinear": Code(
        Severity.WARNING,
        "Find what slows down the first levels (cold caches, no batching, sleeping CPUs); no "
        "scalability law describes this.",
        says="{users:g} users have {gain} of the throughput per user of {first:g}",
    ),
    "usl-misfit": Code(
        Severity.WARNING,
        "Trust the measured points, not the fitted curve: look for a hard limit (a pool, a "
        "quota, a second bottleneck), and use smaller steps near it.",
        says="the levels are further from the fitted curve than runs of one level are from each other< (lack of fit, "
        "P = {p:.2g})>",
    ),
    "usl-extrapolated": Code(
        Severity.WARNING,
        "Measure up to that load, or do not rely on it: the data cover only one side of it.",
        says="the fitted maximum is at {maximum:.3g} users; the highest measured level is {highest:g}",
    ),
    "kappa-not-identified": Code(
        Severity.NOTE,
        "Measure higher levels, or more often (--repeats), to learn whether throughput falls.",
        says="the levels do not show whether throughput falls at more users: [the {confidence} interval of kappa is 0 "
        "to {high:.3g}][{why}]",
    ),
    "throughput-noise-unknown": Code(
        Severity.WARNING,
        "Use --repeats 3, or give a series: without them the error of a value is unknown.",
    ),
    "single-runs": Code(
        Severity.WARNING,
        "Use --repeats 3: runs also differ from each other (placement, caches, neighbours).",
        says="of {trials} trials only {again} repeated a level: intervals contain little of what differs between runs",
    ),
    "answer-rough": Code(
        Severity.SERIOUS,
        "Do not use the rate as the server's peak: give the search more time (--budget), a first rate "
        "near the peak (--start) or a wider claim.",
        says="the search ended before its claim held: the peak may be anywhere[ between {low:.5g} and {high:.5g}/s, or "
        "beyond], so the answer {rate} is rough",
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
        says="at {rate} {share} of the operations end in an error while the {criterion} is only {value} of its limit",
    ),
    "throughput-drops-under-overload": Code(
        Severity.WARNING,
        "Keep the load below the peak (a limit on connections, a queue in front): under overload "
        "the server does less than it can.",
        says="at {rate} it completes {after:4}, {drop} less than the {before:4} that it served at {low}",
    ),
    "response-not-monotonic": Code(
        Severity.WARNING,
        "Find what gets faster under more load (batching, caching, frequency); its limit may "
        "be exceeded in several ranges of rates.",
        says="a limit was exceeded in {failed} of {fails} trials at {low}, and held in {held} of {holds} at {high}",
    ),
    "response-jumps": Code(
        Severity.WARNING,
        "Look for what changes at this rate (a cache, a pool, a limit on connections), and "
        "claim the rate (rate:5%): no rate has a response near the limit.",
        says="at {low} it is {below} of the limit, and at {high} [it is {above} of it][{beyond}]",
    ),
    "answer-against-curve": Code(
        Severity.WARNING,
        "Look at the trials near that rate: one of them differs from the others (a cold start, "
        "another program), or the response falls with the rate. Repeat the search.",
        says="{criterion} is {value} at {rate}, below the answer {answer}",
    ),
    "rate-not-decided": Code(
        Severity.WARNING,
        "Use longer trials (--run-length), claim less (region:20%), or find what differs between "
        "trials (bw why): the limit lies within the differences between trials at one rate.",
        says="{trials} trials at {rate} do not decide the claim: {spreads}",
    ),
    "server-stalls": Code(
        Severity.WARNING,
        "Find what pauses the server (garbage collection, compaction, checkpoints). Limit "
        "a high percentile too: the mean hides pauses.",
        says="every {period:.3g} the response is for a moment {height:.2g} times its usual value< ({alike} of {gaps} gaps "
        "are alike)>",
    ),
    "short-runs-contradict": Code(
        Severity.NOTE,
        "Find what makes short trials differ (checkpoints, garbage collection, rare slow requests). "
        "Trials shorter than its period show too little or too much of it.",
        says="{seen}: trials of up to {longest:.3g} were left out, and the next ones took at least {least:.3g}",
    ),
}
