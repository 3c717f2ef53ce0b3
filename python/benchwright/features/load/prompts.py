"""Words of prompts: frequent words of English, and the texts of a trace's prompts. Pure.

Decision: the words of a part of a prompt follow from the seed and the part's number alone, so that
equal blocks of a trace are equal texts in every request, run and host. A million words need 65 ms.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchwright.features.load.request import PromptsValue

_COMMON = """
the of and to in that it was for on are with as his they be at one have this from or had by hot word
but what some we can out other were all there when up use your how said an each she which do their
time if will way about many then them write would like so these her long make thing see him two has
look more day could go come did number sound no most people my over know water than call first who
may down side been now find any new work part take get place made live where after back little only
round man year came show every good me give our under name very through just form sentence great
think say help low line differ turn cause much mean before move right boy old too same tell does set
three want air well also play small end put home read hand port large spell add even land here must
big high such follow act why ask men change went light kind off need house picture try us again
"""
WORDS = _COMMON.split()
"""Frequent words of English, of which prompts consist."""


def some_words(chance: random.Random, number: int) -> list[str]:
    """Return random words."""
    return chance.choices(WORDS, k=number)


def texts_of(prompts: PromptsValue, seed: int) -> tuple[str, ...]:
    """Return the texts of a trace's prompts; `seed`: of the workload."""

    def text(part: tuple[int, int]) -> str:
        number, words = part
        return " ".join(some_words(random.Random(f"{seed}/{number}"), words))

    return tuple(" ".join(map(text, parts)) for parts in prompts.prompts)
