"""`bw load --notify` without a study: the end of a load, told as that of a session is.

Decision: such a load is kept nowhere, so its notice names no study and no file keeps what
became of it; what was not delivered is said on stderr, as ever. With --study it is a trial of
a session, which tells by itself.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from benchwright.cli.load_options import path_of
from benchwright.cli.notify_option import read_notify
from benchwright.model.errors import OperatingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchwright.model.finding import Finding
    from benchwright.model.notice import Notify


class LoadEnd(msgspec.Struct):
    """What is known of a load's end, filled in as it becomes known."""

    summary: str = ""
    """The report, as a person reads it."""
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False


@contextlib.contextmanager
def telling_of_load(
    arguments: argparse.Namespace, command: str
) -> Iterator[LoadEnd | None]:
    """Tell of the end of the load that the body runs; None where nobody is to be told.

    An error that ends it is told too, and passes. Raises InputError for a --notify that
    tells nobody.
    """
    notify = read_notify(arguments.notify, arguments.notify_on)
    if not notify:
        yield None
        return
    end = LoadEnd()
    name = path_of(arguments) or f"<{command}>"
    try:
        yield end
    except OperatingError as error:
        _tell((name, notify), end, error)
        raise
    except BrokenPipeError:
        # Nobody reads the report any more; it is in the notice.
        _tell((name, notify), end, None)
        raise
    _tell((name, notify), end, None)


def _tell(
    whom: tuple[str, Sequence[Notify]], end: LoadEnd, error: OperatingError | None
) -> None:
    from benchwright.cli.notified import Ended, tell_of_end
    from benchwright.session.run import Verdict

    name, notify = whom
    if error is not None:
        verdict = Verdict("failed", str(error), error.exit_status)
    elif end.interrupted:
        told = "cut short; the figures are of what was measured until then"
        verdict = Verdict("interrupted", told, 130)
    else:
        verdict = Verdict("complete", "the load ran to its end", 0)
    told_of = Ended(
        None,
        0,
        verdict,
        summary=end.summary,
        findings=end.findings,
        broken=error is not None,
    )
    tell_of_end(name, notify, told_of)
