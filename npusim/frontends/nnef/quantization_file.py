"""Quantization of NNEF: the file that states it, its parameters, and the axis of scales per channel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nnef.call_network import Attribute, Call, Shape
from npusim.frontends.nnef.call_network import Quantization as Entry
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.expressions import ExpressionParser
from npusim.frontends.nnef.language.lexer import END, QUOTED
from npusim.frontends.nnef.language.syntax import Expression, Fragment, Invocation, Items, Literal, Parameter
from npusim.frontends.nnef.language.value_types import Array as ArrayOf
from npusim.frontends.nnef.language.value_types import Primitive, Tensor, Type, castable, substitute
from npusim.frontends.nnef.places import DocumentError, Place, Source, quoted
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization

_CHANNELS = {("conv", "filter"): 0, ("linear", "filter"): 0, ("deconv", "filter"): 1}
"""The axis of output channels, by operation and parameter."""


def axis_of_channels(
    name: str, count: int, shape: Shape, calls: Sequence[Call], readers: Mapping[str, Sequence[int]]
) -> int | None:
    """Return the axis with as many extents as there are scales; of several, the output channels of the tensor's reader.

    None if no axis has as many.
    """
    axes = [axis for axis, extent in enumerate(shape) if extent == count]
    if len(axes) > 1:
        of_reader = _by_reader(name, calls, readers)
        return of_reader if of_reader in axes else axes[0]
    return axes[0] if axes else None


def _by_reader(name: str, calls: Sequence[Call], readers: Mapping[str, Sequence[int]]) -> int | None:
    """Return the axis that the first reader uses as its output channels, followed through transposes."""
    turns: list[Sequence[int]] = []
    for _ in calls:
        indices = readers.get(name, [])
        if not indices:
            return None
        call = calls[indices[0]]
        if call.operation == "transpose":
            turns.append(call.attributes["axes"])  # type: ignore[arg-type]  # an array of integers, by its type
            name = call.result_names()[0]
            continue
        parameter = next((key for key, operand in call.tensors.items() if operand == name), "")
        axis = _CHANNELS.get((call.operation, parameter))
        while axis is not None and turns:
            turn = turns.pop()
            axis = turn[axis] if axis < len(turn) else None
        return axis
    return None


_BITS = (8, 16, 32)
"""Bits of the types that hold quantized values."""

_OFF_GRID = 1e-3
"""How far from a whole number of steps min may lie: the rounding error of float32 numbers in decimal."""


@dataclass(frozen=True, slots=True)
class Codes:
    """The integer quantization that an entry states: real = scale * (q - zero_point).

    dtype: the element type that holds the quantized values.
    scales, zero_points: one number, or one for each channel; as float32 and integers.
    axis: of the channels, if the entry states it by its shape; otherwise None.
    least, most: the range of quantized values, which may be narrower than the type.
    """

    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    least: int
    most: int

    def quantization(self, axis: int | None) -> Quantization:
        """Return the quantization of a tensor type; `axis` is that of the channels if there are several."""
        return Quantization(self.scales, self.zero_points, axis if len(self.scales) > 1 else None)

    def of_reals(self, values: Array, axis: int | None) -> Array:
        """Return floats quantized: rounded half away from zero, and clamped."""
        along = [1] * values.ndim
        if len(self.scales) > 1 and axis is not None:
            along[axis] = -1
        steps: Any = values.astype(np.float64) / np.array(self.scales).reshape(along or -1)
        rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + np.array(self.zero_points).reshape(
            along or -1
        )
        codes: Array = np.clip(rounded, self.least, self.most).astype(self.dtype).reshape(values.shape)
        return codes


def codes_of(name: str, entry: Entry) -> Codes:
    """Return the integer quantization of tensor `name`. Raises DocumentError for an entry that integers cannot
    express.
    """
    if entry.operation == "zero_point_linear_quantize":
        signed, symmetric = bool(entry.attributes["signed"]), bool(entry.attributes["symmetric"])
        scale, zero = entry.tensors["scale"], entry.tensors["zero_point"]
        return _codes(name, entry, np.broadcast_arrays(scale, zero), signed, symmetric)
    if entry.operation in ("min_max_linear_quantize", "linear_quantize"):
        return _between(name, entry)
    reason = (
        "its values are powers of two, for which npusim has no integer unit"
        if entry.operation == "logarithmic_quantize"
        else "quantized values are those of zero_point_linear_quantize, min_max_linear_quantize and linear_quantize"
    )
    text = f"{quoted(name)} is quantized by {quoted(entry.operation)}: {reason}; without the entry it is floating-point"
    raise entry.place.fault("Q2", text)


def _between(name: str, entry: Entry) -> Codes:
    """Check rule Q8: min and max are quantized values, and so is zero if it lies between them."""
    signed, symmetric = (
        bool(entry.attributes.get("signed", False)),
        bool(entry.attributes.get("symmetric", False)),
    )
    bits = _bits(name, entry)
    low, high = np.broadcast_arrays(entry.tensors["min"], entry.tensors["max"])
    steps = (1 << bits) - 1 - (signed and symmetric)
    shift = (1 << bits - 1) - symmetric if signed else 0
    scale = (high - low) / steps
    zero = -low / scale - shift
    if np.any(np.abs(zero - np.round(zero)) > _OFF_GRID):
        where = int(np.argmax(np.abs(zero - np.round(zero))))
        step = float(scale.reshape(-1)[where])
        below = float(np.floor(low.reshape(-1)[where] / step) * step)
        text = (
            f"{quoted(name)}: zero is no step between min {low.reshape(-1)[where]:g} and max "
            f"{high.reshape(-1)[where]:g}, which are {steps} steps of {step:g} apart, so no value is zero; "
            f"min {below:.9g} and max {below + steps * step:.9g} would do"
        )
        raise entry.place.fault("Q5", text)
    return _codes(name, entry, [scale, np.round(zero).astype(np.int64)], signed, symmetric)


def _bits(name: str, entry: Entry) -> int:
    bits = entry.attributes["bits"]
    assert isinstance(bits, int)
    if bits > max(_BITS):
        raise entry.place.fault(
            "Q5", f"{quoted(name)} has quantized values of {bits} bits; at most {max(_BITS)} are computed"
        )
    return bits


def _codes(name: str, entry: Entry, numbers: Any, signed: bool, symmetric: bool) -> Codes:
    scale, zero = numbers
    bits = _bits(name, entry)
    width = next(width for width in _BITS if width >= bits)
    if width == max(_BITS) and not signed:
        raise entry.place.fault("Q5", f"{quoted(name)}: unsigned quantized values have at most 16 bits")
    least, most = (-(1 << bits - 1) + symmetric, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    long = [axis for axis, extent in enumerate(scale.shape) if extent > 1]
    if len(long) > 1:
        raise entry.place.fault(
            "Q10", f"{quoted(name)}: values of shape {list(scale.shape)} vary along several axes"
        )
    axis = long[0] if long and scale.ndim > 1 else None
    with np.errstate(over="ignore", under="ignore"):
        scales = tuple(float(number) for number in scale.reshape(-1).astype(np.float32))
    if not all(0 < number < np.inf for number in scales):
        raise entry.place.fault("Q5", f"{quoted(name)}: a scale is not a float32 number above 0")
    zeros = tuple(int(number) for number in zero.reshape(-1))
    if not all(least <= number <= most for number in zeros):
        outside = next(number for number in zeros if not least <= number <= most)
        raise entry.place.fault(
            "Q5", f"{quoted(name)}: zero point {outside} is none of the quantized values {least} to {most}"
        )
    if len(set(scales)) == 1 and len(set(zeros)) == 1 and not long:
        scales, zeros = scales[:1], zeros[:1]
    return Codes(f"{'' if signed else 'u'}int{width}", scales, zeros, axis, least, most)


Declared = Callable[[str], Fragment | None]

_Numbers = NDArray[np.float64] | NDArray[np.int64]


def parse(source: Source, own: Declared, tensors: Collection[str]) -> dict[str, Entry]:
    """Return the entries of a quantization file by tensor. Raises DocumentError.

    own: the fragments of the document by name.
    tensors: the identifiers of the graph.
    """
    try:
        return _Parser(source, own, tensors).entries()
    except RecursionError:
        raise source.fault(0, "N", "the text nests too deeply for what is left of the stack") from None


class _Parser(ExpressionParser):
    """The parser of quantization files."""

    def __init__(self, source: Source, own: Declared, tensors: Collection[str]) -> None:
        super().__init__(source)
        self.is_flat = True
        self.flat_reason = "; values are literals, and arrays of them"
        self._own = own
        self._tensors = tensors

    def entries(self) -> dict[str, Entry]:
        lexer = self.lexer
        entries: dict[str, Entry] = {}
        while lexer.kind != END:
            if lexer.kind != QUOTED:
                raise lexer.fault("Q1", f"expected the name of a tensor in quotes, found {lexer.shown()}")
            name, offset = lexer.text[1:-1], lexer.offset
            if name in entries:
                raise lexer.fault("Q3", f"tensor {quoted(name)} has an entry already")
            if name not in self._tensors:
                raise lexer.fault("Q4", f"the graph has no tensor {quoted(name)}")
            self.count(offset)
            lexer.advance()
            self.expect(":", "Q1", f"after tensor {quoted(name)}")
            entries[name] = self._quantization(offset)
            self.expect(";", "Q1", f"after the entry of {quoted(name)}")
        return entries

    def _quantization(self, entry: int) -> Entry:
        operation, offset = self.identifier("a quantization", "Q1")
        fragment = standard.fragment(operation) or self._own(operation)
        if fragment is None:
            known = ", ".join(
                row.name for row in standard.OPERATIONS.values() if row.family == "quantization"
            )
            raise self.source.fault(offset, "Q2", f"{quoted(operation)} is no operation; there are {known}")
        if not isinstance(fragment.parameters[0].type, Tensor):
            raise self.source.fault(offset, "Q2", f"the first parameter of {quoted(operation)} is no tensor")
        call = self._invocation(operation, offset, None)
        assert isinstance(call, Invocation)
        values = self._values(call, fragment)
        tensors: dict[str, _Numbers] = {}
        attributes: dict[str, Attribute] = {}
        for parameter in fragment.parameters[1:]:
            value = values.get(parameter.name)
            kind = substitute(parameter.type, "scalar") if fragment.generic is not None else parameter.type
            if isinstance(kind, Tensor):
                tensors[parameter.name] = self._numbers(parameter, kind, value)
            else:
                attributes[parameter.name] = self._attribute(parameter, kind, value)
        self._check_values(call, tensors, attributes)
        return Entry(operation, tensors, attributes, Place(self.source, entry))

    def _values(self, call: Invocation, fragment: Fragment) -> dict[str, Expression]:
        """Return the arguments by name (rules Q2, C3, C5, C6)."""
        fault = self.source.fault
        if call.positional:
            raise fault(call.positional[0].offset, "Q2", "an argument by position; write name = value")
        first, *parameters = [parameter.name for parameter in fragment.parameters]
        values: dict[str, Expression] = {}
        for name, offset, value in call.named:
            if name == first:
                raise fault(offset, "Q2", f"{quoted(name)} is the tensor itself, which is left out")
            if name not in parameters:
                known = ", ".join(parameters)
                raise fault(
                    offset, "C5", f"{quoted(call.name)} has no parameter {quoted(name)}; it has {known}"
                )
            if name in values:
                raise fault(offset, "C6", f"parameter {quoted(name)} of {quoted(call.name)} is named twice")
            values[name] = value
        for parameter in fragment.parameters[1:]:
            if parameter.name not in values and parameter.default is None:
                raise fault(
                    call.offset, "C3", f"{quoted(call.name)} lacks a value for {quoted(parameter.name)}"
                )
        return values

    def _literal(self, parameter: Parameter, value: Expression | None) -> Literal:
        if value is None:
            assert parameter.default is not None
            return parameter.default
        if isinstance(value, Literal):
            return value
        if isinstance(value, Items):
            raise self.source.fault(
                value.offset, "T4", f"the items of {quoted(parameter.name)} have no common type"
            )
        raise self.source.fault(value.offset, "Q2", f"{quoted(parameter.name)} is given no literal")

    def _attribute(self, parameter: Parameter, kind: Type, value: Expression | None) -> Attribute:
        literal = self._literal(parameter, value)
        if not castable(literal.type, kind):
            text = f"{quoted(parameter.name)} is {kind}, not {literal.type}"
            raise self.source.fault(literal.offset, "C9", text)
        attribute: Attribute = literal.value
        return attribute

    def _numbers(self, parameter: Parameter, kind: Tensor, value: Expression | None) -> _Numbers:
        """Return the value of a tensor parameter: rank 0, or an array nested as the literal is."""
        literal = self._literal(parameter, value)
        item: Type | None = literal.type
        rank = 0
        while isinstance(item, ArrayOf):
            item = item.item
            rank += 1
        if (
            not isinstance(item, Primitive)
            or not castable(item, kind)
            or item.name not in ("scalar", "integer")
        ):
            text = f"{quoted(parameter.name)} is {kind} or an array of its values, not {literal.type}"
            raise self.source.fault(literal.offset, "C9", text)
        extents = _extents(literal.value)
        if extents is None or len(extents) != rank or rank > 8 or 0 in extents:
            text = f"the arrays of {quoted(parameter.name)} are empty or of different lengths"
            raise self.source.fault(literal.offset, "Q10", text)
        if item.name == "integer":
            return np.asarray(literal.value, np.int64)
        return np.asarray(literal.value, np.float64)

    def _check_values(
        self, call: Invocation, tensors: dict[str, _Numbers], attributes: dict[str, Any]
    ) -> None:
        """Check that values fit together (rules Q5 and Q10)."""

        def fault(name: str, rule: str, text: str) -> DocumentError:
            offset = next((value.offset for given, _, value in call.named if given == name), call.offset)
            return self.source.fault(offset, rule, text)

        shapes = {name: values.shape for name, values in tensors.items() if values.ndim}
        for name, shape in shapes.items():
            first = next(iter(shapes))
            if shape != shapes[first]:
                text = f"{quoted(name)} has shape {list(shape)}, {quoted(first)} {list(shapes[first])}"
                raise fault(name, "Q10", text)
        if "scale" in tensors and not np.all(tensors["scale"] > 0):
            raise fault("scale", "Q5", f"scale {tensors['scale'].min():g} is not above 0")
        if "bits" in attributes and not 1 <= attributes["bits"] <= 64:
            raise fault("bits", "Q5", f"bits {attributes['bits']} are not 1 to 64")
        if "min" in tensors and "max" in tensors and not np.all(tensors["min"] < tensors["max"]):
            raise fault("min", "Q5", "min is not below max")
        if call.name == "logarithmic_quantize" and not np.all(tensors["max"] > 0):
            raise fault("max", "Q5", f"max {tensors['max'].min():g} is not above 0")


def _extents(value: Any) -> tuple[int, ...] | None:
    """Return the extents of nested lists; None for jagged ones."""
    if not isinstance(value, list):
        return ()
    if not value:
        return (0,)
    inner = {_extents(item) for item in value} if isinstance(value[0], list) else {()}
    extents = inner.pop()
    return None if inner or extents is None else (len(value), *extents)
