"""Words of prompts: frequent words of English, and the texts of a trace's prompts. Pure.

Decision: the words of a part of a prompt follow from the seed and the part's number alone, so that
equal blocks of a trace are equal texts in every request, run and host. A part begins with a few words
of its own, and goes on in one long text from a place of its own: drawing each word would need a minute
for a trace of 20,000 prompts.
"""

from __future__ import annotations

import itertools
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
_LONG = 2**18
"""Words of the text in which parts go on."""
_OWN = 8
"""Words that a part begins with: with as many of this list, hardly two parts of a trace are equal."""


def some_words(chance: random.Random, number: int) -> list[str]:
    """Return random words."""
    return chance.choices(WORDS, k=number)


def texts_of(prompts: PromptsValue) -> tuple[str, ...]:
    """Return the texts of a trace's prompts."""
    return _Texts(prompts.seed).of(prompts)


class _Texts:
    """Texts by the numbers of parts."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        words = some_words(random.Random(seed), _LONG)
        self._text = " ".join(words)
        lengths = (len(word) + 1 for word in words)
        self._begins = [0, *itertools.accumulate(lengths)]
        self._known: dict[tuple[int, int], str] = {}

    def of(self, prompts: PromptsValue) -> tuple[str, ...]:
        return tuple(" ".join(itertools.starmap(self._part, parts)) for parts in prompts.prompts)

    def _part(self, number: int, words: int) -> str:
        # Parts of one prompt alone have negative numbers, and come once.
        if number < 0:
            return self._made(number, words)
        if (number, words) not in self._known:
            self._known[number, words] = self._made(number, words)
        return self._known[number, words]

    def _made(self, number: int, words: int) -> str:
        chance = random.Random(f"{self._seed}/{number}")
        found = [" ".join(some_words(chance, _OWN)[:words])]
        begin, left = chance.randrange(_LONG), words - _OWN
        while left > 0:
            end = min(begin + left, _LONG)
            found.append(self._text[self._begins[begin] : self._begins[end] - 1])
            begin, left = 0, left - (end - begin)
        return " ".join(found)
