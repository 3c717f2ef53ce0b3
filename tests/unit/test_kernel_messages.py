"""Which trial a message of the kernel's log belongs to."""

from __future__ import annotations

import pytest

from benchwright.watch.use.kernel_log import WindowMessages
from benchwright.watch.use.series_file import KernelLine

MS = 1_000_000
TRIALS = ((1, 0, 100 * MS), (2, 150 * MS, 250 * MS))


@pytest.mark.parametrize(
    ("at_ms", "epochs"),
    [(50, [1]), (103, [1]), (120, []), (150, [2]), (252, [2]), (260, [])],
)
def test_a_message_just_after_a_trial_is_of_it(at_ms: int, epochs: list[int]) -> None:
    """The log's clock runs ahead."""
    messages = WindowMessages(TRIALS)
    messages.take(KernelLine(t=at_ms * MS, level=3, text="I/O error, dev loop0"))
    assert [one.epoch for one in messages.messages(0, 250 * MS)] == epochs
