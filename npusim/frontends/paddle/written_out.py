"""Paddle operators that are replaced by ONNX nodes: quantization, and recurrent layers.

A scale of Paddle is the largest magnitude: quantized values are `x / scale * 127`, rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from npusim.frontends.forms.networks import PADDLE, STANDARD, Node
from npusim.frontends.forms.qdq import DEQUANTIZE, QUANTIZE
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array

WHOLE = ("fake_quantize_moving", "fake_quantize_range")
"""First words of the operators whose results are quantized values, as integers."""

_MOST = np.float32(127)
"""The largest quantized value."""


@dataclass(slots=True)
class Operation:
    """An operator of a program: its variables by slot, its plain attributes, and the nodes that replace it.

    constants: all constants of the program, to which those of the nodes are added.
    """

    type: str
    name: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)

    def fault(self, text: str) -> GraphError:
        """Return the error for the operator."""
        return Node(self.type, PADDLE, self.name, (), (), {}).fault(text)

    def variable(self, slot: str) -> str:
        """Return the value of an input or output. Raises GraphError if it is left out."""
        names = self.inputs.get(slot) or self.outputs.get(slot)
        if not names:
            raise self.fault(f"{slot} is left out, it must be there")
        return names[0]

    def whole(self, name: str, default: int) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.fault(f"{name} is {str(value)[:60]}, must be a whole number")
        return value

    def known(self, slot: str, place: int = 0) -> Any:
        """Return the array of an input. Raises GraphError if it is no parameter of the file."""
        self.variable(slot)
        name = self.inputs[slot][place]
        if name not in self.constants:
            raise self.fault(f"{slot} must be a parameter of the file")
        return self.constants[name]

    def constant(self, name: str, data: Any) -> str:
        """Add a constant, and return its name."""
        self.constants[full := f"{self.name}/{name}"] = np.asarray(data, order="C")
        return full

    def node(self, operation: str, inputs: tuple[str, ...], *outputs: str, **attributes: Any) -> str:
        """Add a node of ONNX, and return its first result."""
        self.nodes.append(Node(operation, STANDARD, self.name, inputs, outputs, attributes))
        return outputs[0]


# Quantization


def _codes(c: Operation, scale: Any, most: np.float32 = _MOST, slot: str = "") -> tuple[str, str]:
    """Return the names of new constants for scale and zero point, for these largest magnitudes."""
    numbers = np.asarray(scale, np.float32).reshape(-1)
    if c.whole("bit_length", 8) != 8 or (c.inputs.get("ZeroPoint") and np.any(c.known("ZeroPoint"))):
        raise c.fault("npusim has symmetric quantization to 8 bits of Paddle")
    if not np.isfinite(numbers).all() or numbers.size == 0 or numbers.min() < 0:
        raise c.fault("its scales must be finite and 0 or more")
    steps = np.where(numbers > 0, numbers, np.float32(1)) / most  # channels of zeros have scale 0
    steps = steps[0] if steps.size == 1 else steps
    return c.constant(f"{slot}scale", steps), c.constant(f"{slot}zero", np.zeros(steps.shape, np.int8))


def _one_way(operation: str) -> Callable[[Operation], None]:
    """Return the function that adds QuantizeLinear or DequantizeLinear; several scales are along an axis."""

    def write(c: Operation) -> None:
        if c.attributes.get("only_observer"):
            return _same(c, "Y")
        axis = c.whole("quant_axis", -1)
        source = _whole(c, c.variable("X")) if operation == DEQUANTIZE else c.variable("X")
        along = {"axis": axis} if axis >= 0 else {}
        c.node(operation, (source, *_codes(c, c.known("Scale"))), c.variable("Y"), **along)
        return None

    return write


def _same(c: Operation, slot: str = "Out") -> None:
    """Pass the input on, for an operator that only observes it."""
    c.node("Identity", (c.variable("X"),), c.variable(slot))


def _whole(c: Operation, name: str) -> str:
    """Return a value as int8; older files store such weights as float32 integers."""
    data = c.constants.get(name)
    if data is None or data.dtype == np.int8:
        return name
    whole = np.rint(np.asarray(data, np.float64))
    if not np.array_equal(whole, data) or np.abs(whole).max(initial=0) > 128:
        raise c.fault("X has other than whole numbers of 8 bits, so there is nothing to dequantize")
    return c.constant("codes", whole.astype(np.int8))


def _both(c: Operation) -> None:
    """Quantize and dequantize by a trained scale, or a parameter by its own largest magnitudes.

    If sums are multiplied by scales later ("fake_quantize" alone), the quantized values become integers.
    """
    along: dict[str, int] = {}
    if c.inputs.get("InScale"):
        scale = c.known("InScale")
    else:
        data, axis = c.known("X"), c.whole("quant_axis", 0)
        by_channel = c.type.startswith("fake_channel_wise")
        if by_channel and not 0 <= axis < data.ndim:
            raise c.fault(f"quant_axis is {axis}, X has {data.ndim} axes")
        others = tuple([at for at in range(data.ndim) if at != axis or not by_channel])
        scale, along = np.abs(data).max(axis=others, initial=0), {"axis": axis} if by_channel else {}
    step, zero = _codes(c, scale)
    codes = c.node(QUANTIZE, (c.variable("X"), step, zero), f"{c.name}/codes", **along)
    step = step if "dequantize" in c.type else c.constant("one", np.float32(1))
    c.node(DEQUANTIZE, (codes, step, zero), c.variable("Out"), **along)


def _from_sums(c: Operation) -> None:
    """Multiply integer sums by the scales of weights, one or per output channel, and of inputs."""
    slot = "Scales" if "Scales" in c.inputs else "Scale"
    bits = c.attributes.get("quant_bits") or []
    ranges = [2.0 ** (int(n) - 1) - 1 for n in bits] or [float(c.attributes.get("max_range", 127))]
    factor = np.ones(1, np.float32)
    for place, most in zip(range(len(c.inputs.get(slot, "?"))), ranges, strict=False):
        factor = factor * np.asarray(c.known(slot, place), np.float32).reshape(-1) / np.float32(most)
    # Axis 0 means images of convolutions, not products of matrices.
    images = factor.size > 1 and c.whole("quant_axis", 0) == 0
    factor = factor.reshape((-1, 1, 1) if images else (-1,) if factor.size > 1 else ())
    c.node("Mul", (c.variable("X"), c.constant("factor", factor)), c.variable("Out"))


def quantize_factors(c: Operation, whole: Collection[str]) -> None:
    """Quantize the factors of a weighted sum if their scales are known; other operators stay unchanged.

    The scales are attributes (`enable_int8`, as Paddle Lite writes it), or the first factor is among `whole`.
    """
    slots, by_attributes = _FACTORS.get(c.type, ()), bool(c.attributes.get("enable_int8"))
    names = [c.inputs[slot][0] for slot in slots if slot in c.inputs]
    if len(names) < 2 or names[1] not in c.constants or not (by_attributes or names[0] in whole):
        return
    one, along = np.float32(1), {"axis": int("conv2d" not in c.type or "transpose" in c.type)}
    quantized = dict(c.inputs)
    for place, (slot, name) in enumerate(zip(slots, names, strict=True)):
        label = f"{c.name}/{slot}"
        if place or by_attributes:
            steps = _codes(c, c.attributes.get(f"{slot}0_scale", []) if by_attributes else one, one, slot)
            codes = _whole(c, name) if place else c.node(QUANTIZE, (name, *steps), f"{label}/codes")
            quantized[slot] = (c.node(DEQUANTIZE, (codes, *steps), label, **along if place else {}),)
    c.inputs = quantized


_FACTORS = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose"), ("Input", "Filter")),
    **dict.fromkeys(("mul", "matmul", "matmul_v2"), ("X", "Y")),
}
"""The factors of each operator's weighted sum."""


# Recurrent layers

_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""By mode: the place of each of ONNX's gates among Paddle's: i, f, c, o to i, o, f, c; and r, z, h to z, r, h."""


def _rnn(c: Operation) -> None:
    """Add stacked layers, each of which gives [steps, batch, directions * hidden]."""
    mode, layers = str(c.attributes.get("mode", "LSTM")), c.whole("num_layers", 1)
    directions = 2 if c.attributes.get("is_bidirec") else 1
    names, states = c.inputs.get("WeightList", ()), c.inputs.get("PreState", ())
    if mode not in _ORDERS or layers < 1 or len(states) != 1 + (mode == "LSTM"):
        raise c.fault(f"mode {mode[:20]!r} with {layers} layers and {len(states)} states does not exist")
    if len(names) != (count := 4 * layers * directions):
        raise c.fault(f"has {len(names)} weights, {layers} layers of {directions} directions have {count}")
    weights = [_ordered(c, mode, c.known("WeightList", place)) for place in range(count)]
    parameters: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward"}
    parameters |= {"linear_before_reset": 1} if mode == "GRU" else {}
    parameters |= {"activations": ["Relu"] * directions} if mode == "RNN_RELU" else {}
    x, lengths = c.variable("Input"), (c.inputs.get("SequenceLength") or ("",))[0]
    lasts: list[list[str]] = [[] for _ in states]
    for layer, first in enumerate(range(0, layers * directions, directions)):
        name, places = f"{c.name}/{layer}", range(2 * first, 2 * (first + directions))
        parts = [[weights[at + begin] for at in places] for begin in (0, count // 2)]  # matrices, then biases
        packed = [np.stack(arrays[part::2]) for arrays in parts for part in (0, 1)]
        data = [*packed[:2], np.concatenate(packed[2:], axis=1)]
        operands = [c.constant(f"{layer}/{key}", array) for key, array in zip("WRB", data, strict=True)]
        edges = (first, first + directions, 0)  # start, end and axis of a slice
        bounds = [c.constant(f"{layer}/{edge}", np.array([edge], np.int64)) for edge in edges]
        begins = [c.node("Slice", (state, *bounds), f"{name}/begin{at}") for at, state in enumerate(states)]
        for at, ends in enumerate(lasts):
            ends.append(f"{name}/end{at}")
        results = (f"{name}/all", *(ends[-1] for ends in lasts))
        c.node(mode.split("_")[0], (x, *operands, lengths, *begins), *results, **parameters)
        turned = c.node("Transpose", (f"{name}/all",), f"{name}/turned", perm=[0, 2, 1, 3])
        sizes = c.constant(f"{layer}/sizes", np.array([0, 0, -1], np.int64))
        x = c.node("Reshape", (turned, sizes), c.variable("Out") if layer == layers - 1 else f"{name}/out")
    for ends, result in zip(lasts, c.outputs.get("State", ()), strict=False):
        c.node("Concat", tuple(ends), result, axis=0)


def _ordered(c: Operation, mode: str, data: Any) -> Array:
    """Return the weights or biases of all gates in ONNX's order."""
    order = _ORDERS[mode]
    if data.size == 0 or data.ndim == 0 or data.shape[0] % len(order):
        raise c.fault(f"weights of shape {list(data.shape)} are not those of {len(order)} gates")
    return np.concatenate([np.split(data, len(order))[gate] for gate in order])


_TRAINED = "fake_quantize_dequantize_moving_average_abs_max fake_quantize_dequantize_range_abs_max"
_MEASURED = "fake_quantize_dequantize_abs_max fake_channel_wise_quantize_dequantize_abs_max"
_ALONE = "fake_quantize_moving_average_abs_max fake_quantize_range_abs_max"

WRITTEN_OUT: Mapping[str, Callable[[Operation], None]] = {
    "quantize_linear": _one_way(QUANTIZE),
    "dequantize_linear": _one_way(DEQUANTIZE),
    **dict.fromkeys(f"{_TRAINED} {_MEASURED} {_ALONE}".split(), _both),
    **dict.fromkeys(("fake_dequantize_max_abs", "fake_channel_wise_dequantize_max_abs"), _from_sums),
    "moving_average_abs_max_scale": _same,
    "rnn": _rnn,
}
"""The functions that replace operators of Paddle, by operator."""
