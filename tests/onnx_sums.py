"""One node of an ONNX model, a weighted sum of codes, as a call of npusim's operators: a reader for tests only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator

OPERATIONS = ("QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")


class Read(NamedTuple):
    """A graph of one node, the values of its inputs, and its output as ONNX has it."""

    graph: Graph
    inputs: list[Any]
    to_onnx: Callable[[Any], Any]


def read(model: Any, inputs: Mapping[str, Any]) -> Read:
    """The call of a model whose only node is one of `OPERATIONS`; operands that it holds become constants."""
    from onnx import helper, numpy_helper

    (node,) = model.graph.node
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    how = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    operands = [(constants | dict(inputs)).get(name) if name else None for name in node.input] + [None] * 9
    held = [name in constants for name in node.input] + [True] * 9
    return _READERS[node.op_type](_Draft(how, operands, held))


class _Draft:
    """What a node says, and the graph that is made of it."""

    def __init__(self, how: dict[str, Any], operands: list[Any], held: list[bool]) -> None:
        self.how, self.operands, self.held = how, operands, held
        self.builder = GraphBuilder("onnx")
        self.inputs: list[Any] = []
        self.places: list[int] = []

    def codes(self, at: int, value: Any, scale: Any, zero: Any, axis: int) -> None:
        """An operand of codes."""
        scales, zeros = np.ravel(1.0 if scale is None else scale), np.ravel(0 if zero is None else zero)
        count = max(len(scales), len(zeros))
        scaling = Quantization(
            tuple(float(np.float32(each)) for each in np.resize(scales, count)),
            tuple(int(each) for each in np.resize(zeros, count)),
            axis if count > 1 else None,
        )
        self.operand(at, value, TensorType(str(value.dtype), value.shape, scaling))

    def operand(self, at: int, value: Any, kind: TensorType) -> None:
        """An operand, a constant where the model holds it."""
        if self.held[at]:
            self.places.append(self.builder.tensor(f"t{at}", kind, np.ascontiguousarray(value)))
            return
        self.places.append(self.builder.as_input(self.builder.tensor(f"t{at}", kind)))
        self.inputs.append(np.ascontiguousarray(value))

    def bias(self, at: int) -> None:
        """The int32 operand, where there is one."""
        if (value := self.operands[at]) is not None:
            self.operand(at, value.reshape(-1), TensorType("int32", (value.size,)))

    def result(self, name: str, scale: Any, zero: Any, otherwise: str, **how: Any) -> Read:
        """The node; `otherwise`: its element type where it has no scale."""
        kind = unshaped(otherwise)
        if scale is not None:
            kind = unshaped(
                str(zero.dtype), Quantization((float(np.ravel(scale)[0]),), (int(np.ravel(zero)[0]),))
            )
        output = self.builder.tensor("out", kind)
        parameters = operator(name).parameters(rescale="float32", **how)
        self.builder.add(name, self.places, [output], parameters, name="node")
        return Read(self.builder.graph([output]), self.inputs, lambda codes: codes)


def _convolution(draft: _Draft, bias: int | None, x: Any, w: Any, y: Any) -> Read:
    """x, w: position, scale, zero point; y: scale and zero point. Images are [n, c, h, w] or [n, c, w]."""
    image, filters = draft.operands[x[0]], draft.operands[w[0]]
    flat = image.ndim == 3
    if flat:
        image, filters = image[:, :, None], filters[:, :, None]
    draft.codes(x[0], image.transpose(0, 2, 3, 1), *x[1:], axis=0)
    draft.codes(w[0], filters.transpose(0, 2, 3, 1), *w[1:], axis=0)
    if bias is not None:
        draft.bias(bias)
    strides, dilations = (
        [1] * flat + list(draft.how.get(name, [1] * (2 - flat))) for name in ("strides", "dilations")
    )
    axes = list(zip(image.shape[2:], filters.shape[2:], strides, dilations, strict=True))
    given = draft.how.get("pads", [0] * (4 - 2 * flat))
    half = len(given) // 2
    pads = [(0, 0)] * flat + list(zip(given[:half], given[half:], strict=True))
    if (auto := draft.how.get("auto_pad", b"NOTSET")) in (b"SAME_UPPER", b"SAME_LOWER"):
        totals = [max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0) for size, k, s, d in axes]
        upper = auto == b"SAME_UPPER"
        pads = [((total + (not upper)) // 2, (total + upper) // 2) for total in totals]
    window = {"strides": strides, "dilations": dilations, "padding": [list(pair) for pair in pads]}
    found = draft.result("conv_2d", *y, "int32", **window)
    return found._replace(to_onnx=lambda codes: _channels_second(codes, flat))


def _channels_second(codes: Any, flat: bool) -> Any:
    turned = codes.transpose(0, 3, 1, 2)
    return turned[:, :, 0] if flat else turned


def _product(draft: _Draft, a: Any, b: Any, y: Any) -> Read:
    for at, scale, zero, back in ((*a, 2), (*b, 1)):
        value = draft.operands[at]
        draft.codes(at, value, scale, zero, axis=value.ndim - back)
    return draft.result("batch_matmul", *y, "int32")


def _gemm(draft: _Draft) -> Read:
    a, a_scale, a_zero, b, b_scale, b_zero, _, y_scale, y_zero = draft.operands[:9]
    first = a.T if draft.how.get("transA") else a
    second = b if draft.how.get("transB") else b.T
    alpha = np.float32(draft.how.get("alpha", 1.0))
    draft.codes(0, first, alpha * np.float32(a_scale), a_zero, axis=0)
    draft.codes(3, second, b_scale, b_zero, axis=0)
    draft.bias(6)
    return draft.result("fully_connected", y_scale, y_zero, "float32")


_READERS: dict[str, Any] = {
    "QLinearConv": lambda draft: _convolution(
        draft, 8, (0, *draft.operands[1:3]), (3, *draft.operands[4:6]), draft.operands[6:8]
    ),
    "ConvInteger": lambda draft: _convolution(
        draft, None, (0, None, draft.operands[2]), (1, None, draft.operands[3]), (None, None)
    ),
    "QLinearMatMul": lambda draft: _product(
        draft, (0, *draft.operands[1:3]), (3, *draft.operands[4:6]), draft.operands[6:8]
    ),
    "MatMulInteger": lambda draft: _product(
        draft, (0, None, draft.operands[2]), (1, None, draft.operands[3]), (None, None)
    ),
    "QGemm": _gemm,
}
