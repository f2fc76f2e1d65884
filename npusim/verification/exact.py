"""Values of an ONNX file in float64, for judging who is off where npusim and ONNX Runtime differ.

ONNX's own reference evaluator computes them, so that neither of the two judges itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUANTIZED_OPERATIONS = {"QLinearConv": "Conv", "QLinearMatMul": "MatMul", "QGemm": "Gemm"}
"""Quantized operations, and the float operation that each of them stands for."""

_INTEGER_PRODUCTS = frozenset({"ConvInteger", "MatMulInteger"})


class ExactValue(NamedTuple):
    """A tensor in float64. Quantized values are clipped to their range and not rounded.

    may_saturate: whether products of uint8 by int8 values are added up in it, and two of them may be beyond int16.
    """

    array: NDArray[np.float64]
    may_saturate: bool


class Evaluator:
    """Evaluates parts of an ONNX file in float64."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _model(self) -> Any:
        import onnx

        return onnx.load(str(self._path))

    @cached_property
    def _producers(self) -> dict[str, int]:
        nodes = enumerate(self._model.graph.node)
        return {name: number for number, node in nodes for name in node.output if name}

    @cached_property
    def _constants(self) -> dict[str, Any]:
        return {tensor.name: tensor for tensor in self._model.graph.initializer}

    def value(self, name: str, named: Mapping[Any, Array], operands: frozenset[str]) -> ExactValue | None:
        """Return a value of the graph in float64, None if the reference evaluator does not compute it.

        named: ONNX Runtime's values. The computation starts from its quantized values and from the `operands`.
        """
        try:
            return self._value(name, named, operands)
        except Exception:  # the evaluator has errors of many kinds, and lacks the operations of other domains
            return None

    def _value(self, name: str, named: Mapping[str, Array], operands: frozenset[str]) -> ExactValue:
        last = self._model.graph.node[self._producers[name]]
        known = _Known(self, named, operands)
        if last.op_type in _QUANTIZED_OPERATIONS:
            return _quantized_operation(last, known, named[name].dtype)
        if last.op_type != "QuantizeLinear":
            return self._evaluated(name, known)
        real = self._evaluated(last.input[0], known)
        axis = _attributes(last).get("axis", 1)
        quantized = _quantized(
            real.array, known.needed(last, 1), known.optional(last, 2), axis, named[name].dtype
        )
        return ExactValue(quantized, real.may_saturate)

    def _evaluated(self, name: str, known: _Known) -> ExactValue:
        """Return the value by the reference evaluator, from what is known."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        feeds: dict[str, Array] = {}
        numbers: set[int] = set()
        open_names = [name]
        while open_names:
            needed = open_names.pop()
            if not needed or needed in feeds:
                continue
            value = known.value(needed)
            if value is not None:
                feeds[needed] = value
            elif self._producers[needed] not in numbers:
                numbers.add(self._producers[needed])
                open_names += self._model.graph.node[self._producers[needed]].input
        if name in feeds:
            return ExactValue(feeds[name].astype(np.float64), False)
        nodes = [self._in_float64(self._model.graph.node[number]) for number in sorted(numbers)]
        graph = onnx.helper.make_graph(
            nodes,
            "exact",
            [onnx.ValueInfoProto(name=feed) for feed in feeds],
            [onnx.ValueInfoProto(name=name)],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=self._model.opset_import, functions=self._model.functions
        )
        (result,) = ReferenceEvaluator(model).run([name], feeds)
        may_saturate = any(
            node.op_type in _INTEGER_PRODUCTS
            and _may_saturate(*(feeds.get(operand) for operand in node.input[:2]))
            for node in nodes
        )
        return ExactValue(np.asarray(result, np.float64), may_saturate)

    def _in_float64(self, node: Any) -> Any:
        """Return the node, with a cast to float32 as one to float64."""
        import onnx

        if node.op_type == "Cast" and _attributes(node)["to"] == onnx.TensorProto.FLOAT:
            return onnx.helper.make_node("Cast", node.input, node.output, to=onnx.TensorProto.DOUBLE)
        return node


class _Known:
    """The values from which a computation starts: constants, operands, and the quantized values of ONNX Runtime."""

    def __init__(self, evaluator: Evaluator, named: Mapping[str, Array], operands: frozenset[str]) -> None:
        self._evaluator, self._named, self._operands = evaluator, named, operands

    def value(self, name: str) -> Array | None:
        """Return the value, floats in float64; None if it has to be computed."""
        import onnx

        evaluator = self._evaluator
        if name in evaluator._constants:
            return _widened(onnx.numpy_helper.to_array(evaluator._constants[name]))
        node = (
            evaluator._model.graph.node[evaluator._producers[name]] if name in evaluator._producers else None
        )
        if node is not None and node.op_type == "DequantizeLinear" and name not in self._operands:
            quantized = self.value(node.input[0])
            if quantized is not None:
                attributes = _attributes(node)
                axis, block_size = attributes.get("axis", 1), attributes.get("block_size", 0)
                return _dequantized(quantized, self.needed(node, 1), self.optional(node, 2), axis, block_size)
        value = self._named.get(name)
        # Sums of int32 are what may be saturated; scales come with the quantized values that they belong to.
        given = (
            node is None or name in self._operands or node.op_type in ("Constant", "DynamicQuantizeLinear")
        )
        if value is None or not (given or (value.dtype.kind in "iub" and value.dtype != np.int32)):
            return None
        return _widened(value)

    def optional(self, node: Any, place: int) -> Array | None:
        """Return the value of an input that may be left out."""
        absent = len(node.input) <= place or not node.input[place]
        return None if absent else self.needed(node, place)

    def needed(self, node: Any, place: int) -> Array:
        """Return the value of an input. Raises KeyError if it is not known."""
        value = self.value(node.input[place])
        if value is None:
            raise KeyError(node.input[place])
        return value


def _quantized_operation(node: Any, known: _Known, dtype: np.dtype[Any]) -> ExactValue:
    """Return the result of QLinearConv, QLinearMatMul or QGemm by the float operation that it stands for."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    of_gemm, attributes = node.op_type == "QGemm", _attributes(node)
    bias_at, scale_at = (6, 7) if of_gemm else (8, 6)
    x, x_scale, w, w_scale = (known.needed(node, place) for place in (0, 1, 3, 4))
    x_zero, w_zero, bias = (known.optional(node, place) for place in (2, 5, bias_at))
    # A scale per output channel: the first axis of the weights, the last one of an untransposed matrix.
    channels = 0 if node.op_type == "QLinearConv" or attributes.get("transB") else w.ndim - 1
    feeds = {"x": _dequantized(x, x_scale, x_zero), "w": _dequantized(w, w_scale, w_zero, axis=channels)}
    if bias is not None:
        unit = x_scale.astype(np.float64) * w_scale.astype(np.float64) * attributes.get("alpha", 1.0)
        feeds["b"] = bias.astype(np.float64) * unit
    operation = onnx.helper.make_node(_QUANTIZED_OPERATIONS[node.op_type], list(feeds), ["y"], **attributes)
    graph = onnx.helper.make_graph(
        [operation],
        "exact",
        [onnx.ValueInfoProto(name=name) for name in feeds],
        [onnx.ValueInfoProto(name="y")],
    )
    (result,) = ReferenceEvaluator(onnx.helper.make_model(graph)).run(None, feeds)
    result = np.asarray(result, np.float64)
    scale, zero = (known.optional(node, scale_at + place) for place in (0, 1))
    if scale is not None:  # a QGemm without one gives floats
        result = _quantized(result, scale, zero, 1, dtype)
    return ExactValue(result, _may_saturate(x, w))


def _may_saturate(x: Array | None, w: Array | None) -> bool:
    """Return True if two products of values of these are beyond int16, in which some processors add them."""
    if x is None or w is None or x.dtype != np.uint8 or w.dtype != np.int8:
        return False
    return 2 * int(x.max(initial=0)) * int(np.abs(w.astype(np.int64)).max(initial=0)) > np.iinfo(np.int16).max


def _attributes(node: Any) -> dict[str, Any]:
    import onnx

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _along(
    values: Array | None, shape: tuple[int, ...], axis: int, block_size: int = 0
) -> NDArray[np.float64]:
    """Return scales or zero points in float64, one per tensor, per index of an axis, or per block of the axis."""
    if values is None:  # a zero point that is left out
        return np.zeros(())
    wide = values.astype(np.float64)
    if wide.size == 1:
        return wide.reshape(())
    if block_size:
        return wide.repeat(block_size, axis).take(range(shape[axis]), axis)
    return wide.reshape([-1 if place == axis % len(shape) else 1 for place in range(len(shape))])


def _dequantized(
    quantized: Array, scale: Array, zero: Array | None, axis: int = 1, block_size: int = 0
) -> NDArray[np.float64]:
    """Return the float64 values that quantized values stand for."""
    shift = _along(zero, quantized.shape, axis, block_size)
    return (quantized.astype(np.float64) - shift) * _along(scale, quantized.shape, axis, block_size)


def _quantized(
    real: NDArray[np.float64], scale: Array, zero: Array | None, axis: int, dtype: np.dtype[Any]
) -> NDArray[np.float64]:
    """Return the quantized values of floats, not rounded, within the range of their type."""
    limits = np.iinfo(dtype)
    unrounded = real / _along(scale, real.shape, axis) + _along(zero, real.shape, axis)
    return np.clip(unrounded, limits.min, limits.max)
