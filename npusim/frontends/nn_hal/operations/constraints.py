"""Rules that many operations share. A size or value that is not known yet breaks no rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite, prod
from typing import NamedTuple

import numpy as np

from npusim.frontends.bias_scales import same_scales
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType
from npusim.frontends.nn_hal.operations.named_arguments import Call, Shape, Size
from npusim.frontends.nn_hal.operations.operation_row import Rule

QUANTIZED = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
"""Types of 8-bit values with one scale and a zero point."""


# Parameters


def activation(call: Call) -> str | None:
    """the fused activation is 0 (NONE), 1 (RELU), 2 (RELU1) or 3 (RELU6)"""
    return _outside(call.whole("activation"), 0, 3, "activation")


def no_activation_of_int32(call: Call) -> str | None:
    """the fused activation of TENSOR_INT32 is 0 (NONE)"""
    whole = call.inputs[0].type is OperandType.TENSOR_INT32
    return "activation" if whole and call.whole("activation") not in (None, 0) else None


def padding_scheme(call: Call) -> str | None:
    """the implicit padding scheme is 0 (none), 1 (SAME) or 2 (VALID)"""
    return _outside(call.whole("padding"), 0, 2, "padding")


def at_least(least: int, *names: str) -> Rule:
    """Return the rule that scalars are not smaller than `least`."""
    return _scalars(names, Call.whole, lambda value: value >= least, f"{least} or more")


def positive(*names: str) -> Rule:
    """Return the rule that floating-point scalars are above 0."""
    return _scalars(names, Call.number, lambda value: value > 0, "above 0")


def finite(*names: str) -> Rule:
    """Return the rule that floating-point scalars are finite."""
    return _scalars(names, Call.number, isfinite, "finite")


def _scalars(
    names: Sequence[str],
    read: Callable[[Call, str], float | None],
    holds: Callable[[float], bool],
    words: str,
) -> Rule:
    """Return the rule that a condition holds for scalars; `words` describe the condition."""

    def rule(call: Call) -> str | None:
        values = ((name, read(call, name)) for name in names)
        return next((name for name, value in values if value is not None and not holds(value)), None)

    rule.__doc__ = f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {words}"
    return rule


def one_of(name: str, low: int, high: int, meaning: str) -> Rule:
    """Return the rule that a scalar is one of a range of numbers, which `meaning` explains."""

    def rule(call: Call) -> str | None:
        return _outside(call.whole(name), low, high, name)

    rule.__doc__ = f"{name} is {meaning}"
    return rule


def axis_of(name: str, of: str, more: int = 0, negative: bool = True) -> Rule:
    """Return the rule that a scalar is an axis of an argument (with `more` dimensions), also counted from the end."""

    def rule(call: Call) -> str | None:
        rank = call.rank(of)
        if rank is None:
            return None
        rank += more
        return _outside(call.whole(name), -rank if negative else 0, rank - 1, name)

    count = f"n + {more}" if more else "n"
    rule.__doc__ = f"{name} is in [{f'-({count})' if more else '-n'}, {count}) for the n dimensions of {of}"
    if not negative:
        rule.__doc__ = f"{name} is in [0, {count}) for the n dimensions of {of}"
    return rule


def axes_of(name: str, of: str) -> Rule:
    """Return the rule that the elements of a tensor are axes of an argument, also counted from the end."""

    def rule(call: Call) -> str | None:
        axes, rank = call.wholes(name), call.rank(of)
        if axes is None or rank is None:
            return None
        return None if all(-rank <= axis < rank for axis in axes) else name

    rule.__doc__ = f"{name} are in [-n, n) for the n dimensions of {of}"
    return rule


def elements_at_least(least: int, name: str) -> Rule:
    """Return the rule that no element of a TENSOR_INT32 is smaller than `least`."""

    def rule(call: Call) -> str | None:
        values = call.wholes(name)
        return name if values is not None and any(value < least for value in values) else None

    rule.__doc__ = f"the values of {name} are {least} or more"
    return rule


# Shapes


def rank_of(name: str, low: int, high: float | None = None) -> Rule:
    """Return the rule that tensors have `low` to `high` dimensions (as many as `low` if that is not given)."""
    most = low if high is None else high

    def rule(call: Call) -> str | None:
        shapes = [argument.shape for argument in call.all(name) if not argument.omitted]
        return None if all(sizes is None or low <= len(sizes) <= most for sizes in shapes) else name

    count = str(low) if most == low else f"{low} or more" if most == inf else f"{low} to {most}"
    rule.__doc__ = f"{name} has {count} dimension{'s' if most != 1 else ''}"
    return rule


def same_shape(first: str, *others: str) -> Rule:
    """Return the rule that tensors have the same dimensions."""

    def rule(call: Call) -> str | None:
        sizes = call.shape(first)
        return next((name for name in others if not may_equal(sizes, call.shape(name))), None)

    rule.__doc__ = f"{_listed(others)} {'has' if len(others) == 1 else 'have'} the dimensions of {first}"
    return rule


def may_equal(first: Shape, second: Shape) -> bool:
    """Return True unless two shapes differ in their ranks or in sizes that are known."""
    if first is None or second is None:
        return True
    return len(first) == len(second) and all(map(may_be_same, first, second))


def may_be_same(first: Size, second: Size) -> bool:
    """Return True unless two known sizes differ."""
    return first is None or second is None or first == second


def broadcasts(first: str, second: str, output: str = "output") -> Rule:
    """Return the rule that two tensors broadcast, and that the output has the common shape."""

    def rule(call: Call) -> str | None:
        one, other = call.shape(first), call.shape(second)
        if one is None or other is None:
            return None
        sizes = broadcast(one, other)
        if sizes is None:
            return second
        return None if may_equal(sizes, call.shape(output)) else output

    rule.__doc__ = (
        f"dimensions of {first} and {second} are equal or one of them is 1, counted from the last; {output} has the "
        "larger ones"
    )
    return rule


def broadcast(first: tuple[Size, ...], second: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """Return the shape that two shapes broadcast to; None if they do not."""
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(sizes)) + tuple(sizes) for sizes in (first, second)]
    result: list[Size] = []
    for one, other in zip(*padded, strict=True):
        if one is not None and other is not None and one != other and 1 not in (one, other):
            return None
        known = [size for size in (one, other) if size != 1]
        result.append(next((size for size in known if size is not None), None if known else 1))
    return tuple(result)


def entry_per_dimension(name: str, of: str) -> Rule:
    """Return the rule that a tensor has one dimension with an element per dimension of another."""

    def rule(call: Call) -> str | None:
        sizes, rank = call.shape(name), call.rank(of)
        if sizes is None:
            return None
        return None if len(sizes) == 1 and may_be_same(sizes[0], rank) else name

    rule.__doc__ = f"{name} has one dimension, with an element per dimension of {of}"
    return rule


def pair_per_dimension(name: str, of: str) -> Rule:
    """Return the rule that a tensor has two dimensions, with two elements per dimension of another."""

    def rule(call: Call) -> str | None:
        return None if may_equal(call.shape(name), (call.rank(of), 2)) else name

    rule.__doc__ = f"{name} has dimensions [n, 2] for the n dimensions of {of}"
    return rule


# Sizes by name


_ANY = "?"
"""The word for a dimension of any size."""


class _Source(NamedTuple):
    """The argument that defines a named size, and the position of the name in its text."""

    argument: str
    place: int


class _Sizes(NamedTuple):
    """The texts of arguments, and the argument that defines each name."""

    texts: Mapping[str, tuple[str, ...]]
    sources: Mapping[str, _Source]
    sequences: Sequence[str]
    images: Sequence[str]

    def size(self, call: Call, argument: str, place: int) -> Size:
        """Return the size at a position of an argument's text; None while it is not known."""
        if argument in self.images:
            image = call.image(argument)
            return None if image is None else image[place]
        if argument not in self.sequences or place > 1:
            return call.size(argument, place)
        time_major = call.whole("time_major")
        return None if time_major is None else call.size(argument, place if time_major else 1 - place)

    def product(self, call: Call, words: Sequence[str]) -> Size:
        """Return the product of numbers, and of sizes and scalars by their names; None while one is not known."""
        factors = [int(word) if word.isdigit() else self._named(call, word) for word in words]
        known = [factor for factor in factors if factor is not None]
        return prod(known) if len(known) == len(factors) else None

    def _named(self, call: Call, name: str) -> Size:
        if name not in self.sources:
            return call.whole(name)
        source = self.sources[name]
        size, [*factors, _] = self.size(call, *source), self.texts[source.argument][source.place].split("*")
        return size if size is None else size // (self.product(call, factors) or 1)

    def fits(self, call: Call, argument: str, place: int) -> bool:
        """Return True if the size at a position of an argument is that of its text, as far as both are known."""
        size, symbol = self.size(call, argument, place), self.texts[argument][place]
        *factors, name = words = symbol.split("*")
        if size is None or symbol == _ANY:
            return True
        wanted = None if self.sources.get(name) == (argument, place) else self.product(call, words)
        return size == wanted if wanted is not None else size % (self.product(call, factors) or 1) == 0


def dimensions(
    wording: Mapping[str, str],
    sequences: Sequence[str] = (),
    *,
    images: Sequence[str] = (),
    scalars: Sequence[str] = (),
) -> tuple[Rule, ...]:
    """Return one rule per argument, which checks its rank and sizes against a text with one word per dimension.

        dimensions({
            "input": "batch inputs",
            "weights": "units inputs",
            "bias": "units",
            "deltas": "boxes 4*classes",
            "sizes": "? 2",
        })

    A name stands for the size that it has in the first argument that uses it. "4*classes" is four times that size, a
    number is itself, and "?" is any size.

    sequences: arguments of [steps, batch, depth] if the scalar `time_major` is true, else of [batch, steps, depth].
    images: arguments of [batch, height, width, channels], or of [batch, channels, height, width] if `nchw` is true.
    scalars: names that stand for the values of scalar arguments.
    """
    texts = {name: tuple(text.split()) for name, text in wording.items()}
    sources: dict[str, _Source] = {}
    for argument, symbols in texts.items():
        for place, symbol in enumerate(symbols):
            name = symbol.split("*")[-1]
            if name != _ANY and name not in scalars and not name.isdigit():
                sources.setdefault(name, _Source(argument, place))
    sizes = _Sizes(texts, sources, sequences, images)
    return tuple(_rule(sizes, name) for name in wording)


def _rule(sizes: _Sizes, name: str) -> Rule:
    count = len(sizes.texts[name])

    def rule(call: Call) -> str | None:
        argument, shape = call.get(name), call.shape(name)
        if argument is None or shape is None or (argument.undecided and None in shape):
            return None
        fits = len(shape) == count and all(sizes.fits(call, name, place) for place in range(count))
        return None if fits else name

    rule.__doc__ = _text(sizes, name)
    return rule


def _text(sizes: _Sizes, name: str) -> str:
    symbols = sizes.texts[name]
    shown = f"[{', '.join(symbols)}]"
    if name in sizes.sequences:
        shown = f"{shown} ([{', '.join((symbols[1], symbols[0], *symbols[2:]))}] unless time_major)"
    if name in sizes.images:
        shown = f"{shown} ([{', '.join(symbols[axis] for axis in (0, 3, 1, 2))}] if nchw)"
    sources = {word: sizes.sources.get(word) for symbol in symbols for word in symbol.split("*")}
    origins = [
        f"{word} as {own.argument} has it" for word, own in sources.items() if own and own.argument != name
    ]
    return ", ".join((f"{name} has dimensions {shown}", *origins))


# Quantization


def same_quantization(first: str, *others: str, until: HalVersion | None = None) -> Rule:
    """Return the rule that 8-bit tensors have one scale and zero point; until: the version that dropped it."""

    def rule(call: Call) -> str | None:
        if until is not None and call.version >= until:
            return None
        wanted = call[first]
        if wanted.type not in QUANTIZED:
            return None
        key = wanted.operand.scale, wanted.operand.zero_point
        arguments = [argument for name in others for argument in call.all(name)]
        wrong = (one for one in arguments if (one.operand.scale, one.operand.zero_point) != key)
        return next((argument.name for argument in wrong), None)

    before = f" before {until.name}" if until is not None else ""
    has = "has" if len(others) == 1 else "have"
    rule.__doc__ = f"quantized{before}, {_listed(others)} {has} the scale and zero point of {first}"
    return rule


def prescribed(name: str, wanted: Mapping[OperandType, tuple[float, int]]) -> Rule:
    """Return the rule that a tensor has a certain scale and zero point, by its type."""

    def rule(call: Call) -> str | None:
        operand = call[name].operand
        pair = wanted.get(operand.type)
        return None if pair is None or (operand.scale, operand.zero_point) == pair else name

    words = [f"{type_.name} scale {scale:g} and zero point {zero}" for type_, (scale, zero) in wanted.items()]
    rule.__doc__ = f"{name} has as {', as '.join(words)}"
    return rule


def asymmetric(scale: float, unsigned: int) -> dict[OperandType, tuple[float, int]]:
    """Return a scale and zero point for both 8-bit types; unsigned: the zero point of the unsigned type."""
    return {QUANTIZED[0]: (scale, unsigned), QUANTIZED[1]: (scale, unsigned - 128)}


def bias_scale(call: Call) -> str | None:
    """the bias of 8-bit operands has zero point 0 and the scale of input times filter, or 0 with a scale per channel"""
    filters, bias = call["filter"].operand, call["bias"].operand
    if bias.type is not OperandType.TENSOR_INT32:
        return None
    if filters.channels is not None:
        return "bias" if bias.scale or bias.zero_point else None
    product = np.float32(call["input"].operand.scale) * np.float32(filters.scale)
    return None if same_scales([bias.scale], np.array([product])) and not bias.zero_point else "bias"


def output_above_product(first: str, second: str, until: HalVersion | None = None) -> Rule:
    """Return the rule that the output's scale is above the product of two; until: the version that dropped it."""

    def rule(call: Call) -> str | None:
        if call["output"].type not in QUANTIZED or (until is not None and call.version >= until):
            return None
        if call[first].operand.channels is not None or call[second].operand.channels is not None:
            return None
        product = np.float32(call[first].operand.scale) * np.float32(call[second].operand.scale)
        return None if call["output"].operand.scale > float(product) else "output"

    before = f" before {until.name}" if until is not None else ""
    rule.__doc__ = f"quantized{before}, the scale of output is above that of {first} times that of {second}"
    return rule


def channel_dimension(wanted: int) -> Rule:
    """Return the rule that a per-channel filter has its scales along a certain dimension."""

    def rule(call: Call) -> str | None:
        channels = call["filter"].operand.channels
        return None if channels is None or channels.axis == wanted else "filter"

    rule.__doc__ = f"the channelDim of a per-channel filter is {wanted}"
    return rule


# Words


def _outside(value: int | None, low: int, high: int, name: str) -> str | None:
    return None if value is None or low <= value <= high else name


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
