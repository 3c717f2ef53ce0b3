"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

CODES: dict[str, Code] = {
    "trace-clipped": Code(
        Severity.WARNING,
        "Use a larger target, or wrap the addresses (--offsets wrap).",
        says="{operations} operations were shortened to fit the target",
    ),
    "trace-ends-missing": Code(
        Severity.NOTE,
        "Nothing, if there are few: they were in progress when the trace ended.",
        says={
            "": "{operations} operations have no known end: they are not in response times or the queue",
            "captured": "{unfinished} of {operations} operations have no recorded end",
        },
    ),
    "capture-events-lost": Code(
        Severity.WARNING,
        "Capture again with a larger --buffer: the trace has gaps.",
        says="the kernel's buffer could not hold {events} events",
    ),
    "capture-lines-unread": Code(
        Severity.WARNING,
        "Report the kernel version as a bug: what those records contain is missing from the trace.",
        says="{lines} of the kernel's records could not be read",
    ),
    "capture-new-devices": Code(
        Severity.WARNING,
        "Attach devices before the capture starts: the trace does not include those operations.",
        says="{operations} operations went to devices that appeared during the capture",
    ),
    "capture-empty": Code(
        Severity.NOTE,
        "Capture the device instead of the command, to include what the page cache writes later.",
    ),
    "trace-unmatched": Code(
        Severity.WARNING,
        "If B replayed a part of A, select it (--from, --for: of A). Check that A is read with "
        "the policies of the replay (--offsets, --target-size, --align, --duplicates), and raise "
        "--window; arrival errors do not include unmatched operations.",
        says="{unmatched} of {operations} operations of {path} have no match within the window",
    ),
    "trace-alignment-estimated": Code(
        Severity.NOTE,
        "Give --speed, and --shift if you know it, to get an absolute error.",
        says="the alignment was estimated from {pairs} pairs: an error common to all operations is invisible",
    ),
}
