"""The known word that a misspelt one most likely means, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import takewhile

LEAST_SIMILARITY = 0.6
# Comparing takes time in proportion to the length; no known word comes near this one.
LONGEST_WORD = 80


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, the longer common beginning winning a tie; None if nothing is similar."""
    word = word[:LONGEST_WORD]

    def rank(candidate: str) -> tuple[float, int]:
        similarity = SequenceMatcher(None, candidate, word).ratio()
        common = takewhile(lambda pair: pair[0] == pair[1], zip(candidate, word, strict=False))
        return similarity, len(list(common))

    best = max(known, key=rank, default=None)
    return best if best is not None and rank(best)[0] >= LEAST_SIMILARITY else None
