"""Builds the layers that transformers consist of, from constants of which only the sizes are known.

Values are int8 or float16. Times do not depend on scales, so nearly all int8 tensors have the same one. Weights of
products have the format of the model.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from npusim.frontends.transformer.weights import INT8, WeightFormat
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.table import operator

CODES = Quantization((0.05,), (0,))
"""The quantization of activations."""
PROBABILITIES = Quantization((1 / 256,), (-128,))
"""The quantization that softmax in fixed point gives its results."""
TANH = Quantization((1 / 128,), (0,))
"""The quantization that tanh gives its results."""


class Layers:
    """A network of layers under construction. Tensors are known by the numbers that `builder` gives them."""

    def __init__(
        self,
        builder: GraphBuilder,
        weights: WeightFormat = INT8,
        centred: bool = True,
        beside: Layers | None = None,
        floats: bool = False,
    ) -> None:
        """Begin a network.

        weights: the format of the products' weights; centred: normalizations subtract the mean first.
        beside:  layers in the same builder, which share the constants.
        floats:  values are float16.
        """
        self._floats, self._dtype = floats, "float16" if floats else "int8"
        self.stored_whole = weights.whole if floats else weights.plain
        """Whether weights are stored in the type of activations, so that the array computes on them directly."""
        self.builder, self.weights, self._centred = builder, weights, centred
        self._constants: dict[tuple[str, tuple[int, ...]], int] = beside._constants if beside else {}

    def input(self, name: str, *shape: int) -> int:
        """Return a new input."""
        return self.builder.input(name, TensorType(self._dtype, shape, self._scaled(CODES)))

    def constant(self, name: str, shape: tuple[int, ...]) -> int:
        """Return the constant with this name and shape; layers share it."""
        key = name, shape
        if key not in self._constants:
            kind = TensorType(self._dtype, shape, self._scaled(CODES))
            self._constants[key] = self.builder.sized(name, kind)
        return self._constants[key]

    def product(self, name: str, x: int, units: int, biased: bool = False) -> int:
        """Return the product of x with weights [units, elements of x]."""
        inner = self.builder.shape(x)[-1]
        if not self.stored_whole:
            return self._decoded(name, x, units, biased)
        weights = self.builder.sized(f"{name}/weights", self._weights(units, inner))
        return self.multiplied(name, x, weights, biased)

    def _decoded(self, name: str, x: int, units: int, biased: bool) -> int:
        """Return the product of x with weights that are decoded first: of fewer bits, in blocks, or fp8."""
        inner, sized = self.builder.shape(x)[-1], self.builder.sized
        form = self.weights.blocks(inner)
        operands: list[int | None] = [
            x,
            sized(f"{name}/weights", TensorType("uint8", (units, form.weight_bytes(inner)))),
            sized(f"{name}/scales", TensorType("float16", (units, form.blocks(inner)))),
            sized(f"{name}/zero_points", TensorType("uint8", (units, form.zero_point_bytes(inner))))
            if form.zero_points
            else None,
            sized(f"{name}/bias", TensorType("float16" if self._floats else "float32", (units,)))
            if biased
            else None,
        ]
        return self.node("block_product", operands, name, inner=inner, block=form.block, bits=form.bits)

    def multiplied(self, name: str, x: int, weights: int, biased: bool = False) -> int:
        """Return the product of x with weights of its type, with a bias if `biased`."""
        operands = [x, weights, self._bias(name, weights)] if biased else [x, weights]
        return self.node("fully_connected", operands, name)

    def convolution(self, name: str, x: int, channels: int, size: tuple[int, int], **parameters: Any) -> int:
        """Return the convolution with bias of x, [batch, height, width, channels]; weights have the type of values."""
        kind = self._weights(channels, self.builder.shape(x)[-1])
        kind = TensorType(kind.dtype, (channels, *size, kind.shape[1]), kind.quantization)
        weights = self.builder.sized(f"{name}/weights", kind)
        return self.node("conv_2d", (x, weights, self._bias(name, weights)), name, **parameters)

    def _bias(self, name: str, weights: int) -> int:
        scaling, units = self.builder.type(weights).quantization, self.builder.shape(weights)[0]
        if scaling is None:
            return self.builder.sized(f"{name}/bias", TensorType(self._dtype, (units,)))
        scales = tuple(CODES.scale * scale for scale in scaling.scales)
        kind = TensorType("int32", (units,), Quantization(scales, (0,) * units, 0))
        return self.builder.sized(f"{name}/bias", kind)

    def matrices(self, name: str, a: int, b: int, adj_y: bool = False) -> int:
        """Return the products of the matrices a and b, or of a and b transposed if `adj_y`."""
        return self.node("batch_matmul", (a, b), name, adj_y=adj_y)

    def norm(self, name: str, x: int) -> int:
        """Normalize along the last axis.

        RMS normalization has no bias, but its instruction adds zeros, which takes no further time.
        """
        shape, centred = self.builder.shape(x), self._centred
        scale, bias = (
            self.constant(part, shape[-1:])
            for part in (f"{name}/scale", f"{name}/bias" if centred else "norm/zeros")
        )
        return self.node(
            "layer_normalization",
            (x, scale, bias),
            name,
            begin_axis=len(shape) - 1,
            centred=centred,
            rescale="fixed_point" if self._floats else "fused",
        )

    def softmax(self, name: str, scores: int) -> int:
        """Return the softmax of the scores along their last axis."""
        axis = len(self.builder.shape(scores)) - 1
        return self.node("softmax", (scores,), f"{name}/softmax", PROBABILITIES, axis=axis)

    def heads(self, name: str, x: int, batch: int, heads: int) -> int:
        """Return x, [batch * tokens, heads * size], as [batch, heads, tokens, size]."""
        rows, width = self.builder.shape(x)
        x = self.shaped(x, batch, rows // batch, heads, width // heads)
        return self.node("transpose", (x,), name, perm=(0, 2, 1, 3))

    def joined(self, name: str, x: int) -> int:
        """Return x, [batch, heads, tokens, size], as [batch * tokens, heads * size]."""
        batch, heads, tokens, size = self.builder.shape(x)
        x = self.node("transpose", (x,), name, perm=(0, 2, 1, 3))
        return self.shaped(x, batch * tokens, heads * size)

    def shaped(self, x: int, *shape: int) -> int:
        """Return the elements of x under another shape."""
        if self.builder.shape(x) == shape:
            return x
        return self.node("reshape", (x,), "reshape", self.builder.type(x).quantization, shape=shape)

    def node(
        self, op: str, operands: Any, name: str, scaling: Quantization | None = CODES, **parameters: Any
    ) -> int:
        """Add a node with one result and return it."""
        return self.builder.layer(
            op, operands, self._scaled(scaling), dtype=self._dtype, name=name, **parameters
        )

    def nodes(
        self,
        op: str,
        operands: Any,
        name: str,
        count: int,
        scaling: Quantization | None = CODES,
        **parameters: Any,
    ) -> tuple[int, ...]:
        """Add a node with `count` results and return them."""
        kind = unshaped(self._dtype, self._scaled(scaling))
        values = operator(op).parameters(**parameters)
        return self.builder.node(op, operands, [kind] * count, values, name=name)

    def _scaled(self, scaling: Quantization | None) -> Quantization | None:
        """Return the quantization of values, which floats do not have."""
        return None if self._floats else scaling

    def _weights(self, units: int, inner: int) -> TensorType:
        """Return the type of weights on which the array computes without decoding."""
        return TensorType("float16", (units, inner)) if self._floats else _int8_weights(units, inner)


@cache
def _int8_weights(units: int, inner: int) -> TensorType:
    """Return the type of int8 weights. Scales differ by output channel, as those of a trained model do."""
    scales = tuple(0.001 + 1e-8 * unit for unit in range(units))
    return TensorType("int8", (units, inner), Quantization(scales, (0,) * units, 0))
