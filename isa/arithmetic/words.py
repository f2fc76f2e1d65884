"""Lookup tables of the logistic function and of tanh for all 16-bit values, as the gates of an LSTM cell use them.

A 16-bit word with m integer bits stands for word / 2**(15 - m); results have no integer bits. Both functions use the
exponential of -|x|. The binary digits of |x| from 1/4 up select constant factors, the rest goes through a polynomial,
and Newton's method gives the reciprocal. The steps are those of gemmlowp for 16-bit words.
"""

from __future__ import annotations

from functools import cache
from math import exp

import numpy as np

from npusim.isa.base.tensor import Int64Array

_ONE = (1 << 15) - 1
_ALL = np.arange(-(1 << 15), 1 << 15)


def saturated(values: Int64Array) -> Int64Array:
    """Clamp values to 16 bits."""
    return np.clip(values, -(1 << 15), _ONE)


def high_product(a: Int64Array, b: Int64Array | int) -> Int64Array:
    """Return a * b / 2**15, rounded to nearest, halves up."""
    return (a * b + (1 << 14)) >> 15


def shifted_down(values: Int64Array, places: int) -> Int64Array:
    """Return values / 2**places, rounded to nearest, halves away from zero."""
    half = (1 << places) >> 1
    return np.where(values < 0, -((half - values) >> places), (values + half) >> places)


def _word(real: float, integer_bits: int) -> int:
    """Return a constant as a 16-bit word, rounded from its 32-bit form."""
    wide = round(real * 2.0 ** (31 - integer_bits))
    return (wide + (1 << 15)) >> 16


def _exponential(x: Int64Array, integer_bits: int) -> Int64Array:
    """Return exp(x) for words x <= 0 with `integer_bits` integer bits."""
    quarter = 1 << (13 - integer_bits)
    below = (x % quarter) - quarter
    t = (below << integer_bits) + (1 << 12)  # plus 1/8
    t2 = high_product(t, t)
    t3, t4 = high_product(t2, t), high_product(t2, t2)
    higher = high_product(shifted_down(t4, 2) + t3, _word(1 / 3, 0))
    base = _word(exp(-1 / 8), 0)
    result = np.minimum(base + high_product(t + shifted_down(higher + t2, 1), base), _ONE)
    quarters = (below - x) >> (13 - integer_bits)
    for place in range(integer_bits + 2):
        factor = high_product(result, _word(exp(-(2.0 ** (place - 2))), 0))
        result = np.where((quarters >> place) & 1, factor, result)
    return np.where(x == 0, _ONE, result)


def _twice_reciprocal(x: Int64Array) -> Int64Array:
    """Return 2 / (1 + x) with 2 integer bits, for x in 0..1 with none."""
    half = (x + _ONE + 1) >> 1
    guess = _word(48 / 17, 2) + high_product(half, _word(-32 / 17, 2))
    for _ in range(3):
        missing = (1 << 13) - high_product(half, guess)
        guess = guess + saturated(high_product(guess, missing) << 2)
    return guess


@cache
def logistic_of_words(integer_bits: int) -> Int64Array:
    """Return 1 / (1 + exp(-x)) for all words x, from -2**15 up."""
    positive = saturated(_twice_reciprocal(_exponential(-np.abs(_ALL), integer_bits)) << 1)
    return np.where(_ALL == 0, 1 << 14, np.where(_ALL > 0, positive, _ONE - positive))


@cache
def tanh_of_words(integer_bits: int) -> Int64Array:
    """Return (1 - exp(-2x)) / (1 + exp(-2x)) for all words x, from -2**15 up."""
    reciprocal = _twice_reciprocal(_exponential(-np.abs(_ALL), integer_bits + 1))
    return np.sign(_ALL) * saturated((reciprocal - (1 << 13)) << 2)


def of_word(table: Int64Array, words: Int64Array) -> Int64Array:
    """Look words up in a table of all words."""
    return table[words + (1 << 15)]
