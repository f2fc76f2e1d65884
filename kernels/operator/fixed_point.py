"""Exponential, logistic function and hyperbolic tangent in fixed point, equal to gemmlowp's to the last bit.

A word of `bits` bits with m integer bits stands for word / 2**(bits - 1 - m); Qm names such a format here.
Softmax uses 32 bits, the gates of an integer LSTM 16. Words travel in int64 arrays, which no step overflows.
"""

from __future__ import annotations

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Int64Array

_EXP_MINUS_EIGHTH = 1895147668  # exp(-1/8) in Q0.31, like all constants here
_ONE_THIRD = 715827883
# exp(-2**k) for k = -2..4
_EXP_MINUS_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # Q2.29
_MINUS_32_OVER_17 = -1010580540  # Q2.29
_LN_2 = 1488522236
_ROOT_HALF = 1518500250  # 2**-(1/2)
_FOURTH_ROOT_HALF = 1805811301  # 2**-(1/4)
# With t = 2**(1/4): 11/240 t, 1/20 t, 2/t - t, 1/4 t
_LOG_NUMERATOR, _LOG_SQUARE, _LOG_OFFSET, _LOG_SLOPE = 117049297, 127690142, 1057819769, 638450708


def divide_by_power(values: Int64Array, exponent: Int64Array | int) -> Int64Array:
    """Return values / 2**exponent rounded to nearest, halves away from zero; `exponent` is 0..62."""
    magnitude = np.abs(values)
    half = (np.int64(1) << np.asarray(exponent, np.int64)) >> 1
    rounded: Int64Array = np.sign(values) * ((magnitude + half) >> exponent)
    return rounded


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Fixed-point arithmetic on words of 16 or 32 bits."""

    bits: int

    @property
    def one(self) -> int:
        """The largest word, which stands for 1 in Q0."""
        return (1 << (self.bits - 1)) - 1

    def multiply(self, a: Int64Array, b: Int64Array | int) -> Int64Array:
        """Return the product of Qm and Qn in Q(m+n): the high word of 2ab, rounded to nearest, halves up."""
        product: Int64Array = (a * b + (1 << (self.bits - 2))) >> (self.bits - 1)
        return product

    def exponential(self, x: Int64Array, integer_bits: int) -> Int64Array:
        """Return exp(x) in Q0 for x <= 0 in Q`integer_bits`.

        x is split into a part in [-1/4, 0), for which a polynomial is used, and a multiple of 1/4. The binary digits of
        the multiple select which of exp(-1/4), exp(-1/2), exp(-1), ... multiply the result.
        """
        fraction_bits = self.bits - 1 - integer_bits
        quarter = 1 << (fraction_bits - 2)
        rest = (x & (quarter - 1)) - quarter
        result = self._exponential_of_last_quarter(rest << integer_bits)
        digits = rest - x
        for place, factor in enumerate(_EXP_MINUS_POWERS[: integer_bits + 2]):
            chosen = (digits >> (fraction_bits - 2 + place)) & 1 == 1
            result = np.where(chosen, self.multiply(result, self._constant(factor)), result)
        if integer_bits > 5:  # the digits above 16 have no factor: exp(-32) is zero in any word
            result = np.where(x < -(32 << fraction_bits), 0, result)
        return np.where(x == 0, self.one, result)

    def logistic(self, x: Int64Array, integer_bits: int) -> Int64Array:
        """Return 1 / (1 + exp(-x)) in Q0 for x in Q`integer_bits`."""
        positive = self.half_reciprocal(self.exponential(-np.abs(x), integer_bits))
        both = np.where(x > 0, positive, self.one - positive)
        return np.where(x == 0, 1 << (self.bits - 2), both)

    def tanh(self, x: Int64Array, integer_bits: int) -> Int64Array:
        """Return (1 - exp(-2x)) / (1 + exp(-2x)) in Q0 for x in Q`integer_bits`."""
        # the same word read with one more integer bit is 2x
        reciprocal = self._reciprocal(self.exponential(-np.abs(x), integer_bits + 1))
        positive = self.saturating_shift(reciprocal - (1 << (self.bits - 3)), 2)
        return np.sign(x) * positive

    def logarithm(self, x: Int64Array, integer_bits: int, result_bits: int) -> Int64Array:
        """Return the natural logarithm of x >= 1 in Q`integer_bits`, in Q`result_bits`; for words of 32 bits.

        x is r * 2**k with r near 2**-(1/4), for which a quotient of polynomials serves: of the two ways to write it
        with k a multiple of 1/2 and a quarter to either side, the one with the smaller r. One integer bit more than
        in the result holds k.
        """
        length = np.frexp(x.astype(np.float64))[1].astype(np.int64)
        whole = self.saturating_shift(self.multiply(x << (31 - length), _ROOT_HALF), 1)
        product = self.multiply(x, _ROOT_HALF)
        product_length = np.frexp(product.astype(np.float64))[1].astype(np.int64)
        halved = self.saturating_shift(x, 31 - product_length)
        r = np.minimum(whole, halved)
        one = 1 << (30 - result_bits)  # in the format with one integer bit more, as all below
        above = (integer_bits + length - 32) * one + (one >> 2)
        below = (integer_bits + product_length - 31) * one - (one >> 2)
        power = np.clip(np.maximum(above, below), -self.one - 1, self.one)
        mean = (r + _FOURTH_ROOT_HALF + 1) >> 1
        q = 2 * (r - _FOURTH_ROOT_HALF)
        square = self.multiply(q, q)
        numerator = self.multiply(q, r) + self.multiply(self.multiply(q, square), _LOG_NUMERATOR)
        offset = _LOG_OFFSET + q + self.multiply(square, _LOG_SQUARE)
        denominator = self.multiply(mean, offset) + self.multiply(q, _LOG_SLOPE)
        quotient = self.multiply(
            divide_by_power(numerator, result_bits + 1), self.half_reciprocal(denominator)
        )
        return self.saturating_shift(self.multiply(power, _LN_2) + quotient, 1)

    def half_reciprocal(self, x: Int64Array) -> Int64Array:
        """Return 1 / (1 + x) in Q0 for x in 0..1 in Q0."""
        # half of a Q2 number is the same word in Q1; one shift takes that to Q0
        return self.saturating_shift(self._reciprocal(x), 1)

    def _reciprocal(self, x: Int64Array) -> Int64Array:
        """Return 2 / (1 + x) in Q2 for x in 0..1 in Q0: Newton-Raphson from 48/17 - 32/17 * (1 + x)/2."""
        half_denominator = (x + self.one + 1) >> 1
        one = 1 << (self.bits - 3)
        slope = self.multiply(half_denominator, self._constant(_MINUS_32_OVER_17))
        guess = self._constant(_48_OVER_17) + slope
        for _ in range(3):
            error = one - self.multiply(half_denominator, guess)
            guess = guess + self.saturating_shift(self.multiply(guess, error), 2)
        return guess

    def _exponential_of_last_quarter(self, x: Int64Array) -> Int64Array:
        """Return exp(x) in Q0 for x in [-1/4, 0) in Q0: the Taylor polynomial of degree 4 around -1/8."""
        base = self._constant(_EXP_MINUS_EIGHTH)
        x1 = x + (1 << (self.bits - 4))
        x2 = self.multiply(x1, x1)
        x3 = self.multiply(x2, x1)
        x4 = self.multiply(x2, x2)
        cubic = self.multiply(divide_by_power(x4, 2) + x3, self._constant(_ONE_THIRD))
        result = base + self.multiply(x1 + divide_by_power(cubic + x2, 1), base)
        return np.minimum(result, self.one)

    def _constant(self, word: int) -> int:
        """Return a constant of 32 bits in this word size."""
        return int(divide_by_power(np.asarray(word, np.int64), 32 - self.bits))

    def saturating_shift(self, x: Int64Array, places: Int64Array | int) -> Int64Array:
        """Return x * 2**places, limited to the words."""
        shifted: Int64Array = np.clip(x << places, -self.one - 1, self.one)
        return shifted
