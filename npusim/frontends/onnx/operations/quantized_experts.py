"""com.microsoft's QMoE: a mixture of experts with packed weights, as generators of language models write it.

A program takes no decisions, so every expert computes every token, and the results of those that a token does not
choose are multiplied by 0. What the documentation of the operation leaves open is what ONNX Runtime computes on a
processor: the weights are the softmax over the chosen experts, and of equal logits the last one is chosen. The tests
compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import NamedTuple

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion, shown
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.forms.packed_weights import PackedWeights, block_product
from npusim.frontends.onnx.operations.block_quantized import narrow
from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.tensor import Array

_ACTIVATIONS = ("gelu", "identity", "relu", "silu", "swiglu")

_ALLOWED = {
    "quant_type": ("int",),
    "use_sparse_mixer": (0,),
    "swiglu_limit_after_activation": (0,),
    "weights_prepacked": (-1, 0),
    "swiglu_fusion": (0, 1, 2),
    "activation_type": _ACTIVATIONS,
}
"""Values that npusim takes of an attribute. Prepacked weights are in an order that only their processor defines."""


class _Projection(NamedTuple):
    """One product of all experts.

    inner:       elements of a dot product.
    weights, scales, zero_points: [experts, rows, ...]; None for zero points in the middle of the range.
    bias:        [experts, rows], or None.
    """

    form: BlockFormat
    inner: int
    weights: Array
    scales: Array
    zero_points: Array | None
    bias: Array | None

    def of(self, c: NodeConversion, expert: int, x: int, rows: slice = slice(None)) -> int:
        """Return the product of x with some rows of an expert's weights."""
        zeros = None if self.zero_points is None else self.zero_points[expert][rows]
        bias = None if self.bias is None else c.constant(self.bias[expert][rows])
        weights, scales = self.weights[expert][rows], self.scales[expert][rows]
        return block_product(c, x, PackedWeights(self.form, self.inner, weights, scales, zeros), bias)


def _experts(c: NodeConversion) -> Sequence[int]:
    """Add the sum of all experts' networks, each times its weight for the token, 0 where it is not chosen."""
    for name, values in _ALLOWED.items():
        value = c.attribute(name, values[0] if name != "activation_type" else "relu")
        allowed = " or ".join(map(repr, values))
        c.require(value in values, f"{name} is {shown(value)}, npusim has {allowed}")
    x = c.real("input")
    shape = c.shape(x)
    c.require(len(shape) in (2, 3), f"input has shape {list(shape)}, must have 2 or 3 axes")
    tokens, hidden = prod(shape[:-1]), shape[-1]
    first, last = _projection(c, "fc1", hidden), _projection(c, "fc2")
    third = _projection(c, "fc3", hidden) if c.has("fc3_experts_weights") else None
    gate, linear = _halves(c, first, last, third)
    experts, outputs = last.weights.shape[:2]
    c.require(
        outputs == hidden, f"fc2_experts_weights give {outputs} values, must give {hidden}, as input has"
    )
    shares = _shares(c, (tokens, experts))
    columns = (
        c.nodes("split", [shares], [c.like(shares)] * experts, axis=1, sizes=(1,) * experts)
        if experts > 1
        else (shares,)
    )
    rows = c.reshaped(x, (tokens, hidden))
    total = None
    for expert, column in enumerate(columns):
        inner = first.of(c, expert, rows, gate)
        other = None if linear is None else (third or first).of(c, expert, rows, linear)
        result = last.of(c, expert, _activated(c, inner, other))
        weighted = c.step("mul", [result, column])
        total = weighted if total is None else c.step("add", [total, weighted])
    assert total is not None
    used = int(c.attribute("k", 1))
    if used < experts:
        c.builder.note(f"computes all {experts} experts of QMoE for each token, of which a token uses {used}")
    return [c.reshaped(total, shape)]


def _projection(c: NodeConversion, name: str, inner: int | None = None) -> _Projection:
    """Return a projection of all experts as it is stored. Raises GraphError unless its inputs fit together.

    inner: elements of a dot product, if they are known; otherwise they follow from the bytes of the weights.
    """
    bits = int(c.attribute(f"{name}_expert_weight_bits", int(c.attribute("expert_weight_bits", 4))))
    c.require(bits in BITS, f"expert_weight_bits is {bits}, npusim has 2, 4 and 8")
    weights, scales = c.value(f"{name}_experts_weights"), c.value(f"{name}_scales")
    c.require(
        weights.ndim == 3 and weights.dtype == np.uint8,
        f"{name}_experts_weights is {weights.dtype} {list(weights.shape)}, must be uint8 with 3 axes",
    )
    c.require(
        scales.dtype in (np.float16, np.float32),
        f"{name}_scales is {scales.dtype}, must be float32 or float16",
    )
    experts, rows, width = weights.shape
    inner = width * 8 // bits if inner is None else inner
    size = int(c.attribute("block_size", 0))
    block = size if size > 0 else inner
    c.require(
        inner > 0 and width * 8 == inner * bits and inner % block == 0 and block * bits % 8 == 0,
        f"{name}_experts_weights has rows of {width} bytes, must be {inner} weights of {bits} bits "
        f"in blocks of {block}",
    )
    blocks = inner // block
    if size <= 0 and scales.ndim == 2:
        scales = scales[:, :, None]
    _fit(c, f"{name}_scales", scales, (experts, rows, blocks))
    zeros = c.value(f"{name}_zero_points") if c.has(f"{name}_zero_points") else None
    c.require(zeros is None or zeros.dtype == np.uint8, f"{name}_zero_points must be uint8")
    if zeros is not None and zeros.ndim == 2:
        # Zero points of whole rows are packed along the rows; the storage format has those of a row in its own bytes.
        _fit(c, f"{name}_zero_points", zeros, (experts, -(-rows * bits // 8)))
        zeros = narrow(zeros, bits, rows)[:, :, None]
    form = BlockFormat(bits, block, scales.dtype.itemsize, zeros is not None)
    if zeros is not None:
        _fit(c, f"{name}_zero_points", zeros, (experts, rows, form.zero_point_bytes(inner)))
    bias = c.value(f"{name}_experts_bias") if c.has(f"{name}_experts_bias") else None
    if bias is not None:
        _fit(c, f"{name}_experts_bias", bias, (experts, rows))
    return _Projection(form, inner, weights, scales, zeros, bias)


def _fit(c: NodeConversion, name: str, data: Array, shape: Sequence[int]) -> None:
    c.require(data.shape == tuple(shape), f"{name} has shape {list(data.shape)}, must be {list(shape)}")


def _halves(
    c: NodeConversion, first: _Projection, last: _Projection, third: _Projection | None
) -> tuple[slice, slice | None]:
    """Return the rows of fc1 that the activation takes, and those of fc3, or of fc1, that its result is multiplied by.

    The second is None without a gate.
    """
    gated, fusion = c.attribute("activation_type", "relu") == "swiglu", int(c.attribute("swiglu_fusion", 0))
    c.require(gated or not fusion, f"swiglu_fusion is {fusion}, must be 0 unless activation_type is 'swiglu'")
    c.require(
        not (fusion and third), f"fc3_experts_weights are given, and with swiglu_fusion {fusion} fc1 has them"
    )
    c.require(bool(fusion or third or not gated), "swiglu needs fc3_experts_weights, or swiglu_fusion 1 or 2")
    experts, inner = len(last.weights), last.inner
    for name, projection, count in (("fc1", first, 2 if fusion else 1), ("fc3", third, 1)):
        if projection is not None:
            wanted = (experts, count * inner, projection.weights.shape[2])
            _fit(c, f"{name}_experts_weights", projection.weights, wanted)
    if fusion == 1:
        return slice(0, None, 2), slice(1, None, 2)
    if fusion == 2:
        return slice(0, inner), slice(inner, None)
    return slice(None), None if third is None else slice(None)


def _activated(c: NodeConversion, x: int, linear: int | None) -> int:
    """Return the activation of x, times the linear half of a gated network."""
    kind = c.attribute("activation_type", "relu")
    if kind == "swiglu":
        limit, beta = float(c.attribute("swiglu_limit", inf)), float(c.attribute("activation_beta", 0.0))
        assert linear is not None
        if limit < inf:
            x = c.step("minimum", [x, c.scalar(limit, x)])
            linear = c.step("minimum", [linear, c.scalar(limit, linear)])
            linear = c.step("maximum", [linear, c.scalar(-limit, linear)])
        if beta:
            linear = c.step("add", [linear, c.scalar(beta, linear)])
    if kind in ("silu", "swiglu"):
        alpha = float(c.attribute("activation_alpha", 1.0)) if kind == "swiglu" else 1.0
        scaled = x if alpha == 1 else c.step("mul", [x, c.scalar(alpha, x)])
        x = c.step("mul", [x, c.step("logistic", [scaled])])
    elif kind == "gelu":
        x = c.step("gelu", [x], approximate=True)
    elif kind == "relu":
        x = c.step("relu", [x])
    return x if linear is None else c.step("mul", [x, linear])


def _shares(c: NodeConversion, shape: tuple[int, int]) -> int:
    """Return the weight of each expert for each token, [tokens, experts], 0 for those that are not chosen."""
    logits, used = c.real("router_probs"), int(c.attribute("k", 1))
    given = c.real("router_weights") if c.has("router_weights") else None
    for name, tensor in (("router_probs", logits), ("router_weights", given)):
        fits = tensor is None or c.shape(tensor) == shape
        c.require(fits, f"{name} must have shape {list(shape)}, [tokens, experts]")
    c.require(0 < used <= shape[1], f"k is {used}, must be 1..{shape[1]}, the experts")
    if used == shape[1]:
        shares = c.step("softmax", [logits], axis=1) if given is None else given
    else:
        chosen = _chosen(c, logits, used)
        none = c.scalar(-inf if given is None else 0, logits)
        values = logits if given is None else given
        shares = c.nodes("select_v2", [chosen, values, none], [c.like(values)])[0]
        if given is None:
            shares = c.step("softmax", [shares], axis=1)
    if given is not None and c.flag("normalize_routing_weights"):
        shares = c.step("div", [shares, c.step("sum", [shares], axes=(1,), keep_dims=True)])
    return shares


def _chosen(c: NodeConversion, logits: int, used: int) -> int:
    """Return whether an expert has one of the largest logits of a token. Each pass takes the last of the largest."""
    never, nowhere = c.scalar(-inf, logits), c.scalar(-1, logits)
    places = c.constant(np.arange(c.shape(logits)[1], dtype=c.builder.type(logits).numpy_dtype)[None])
    chosen = taken = None
    left = logits
    for _ in range(used):
        if taken is not None:
            left = c.nodes("select_v2", [taken, never, left], [c.like(logits)])[0]
        largest = c.step("reduce_max", [left], axes=(1,), keep_dims=True)
        equal = c.step("equal", [left, largest], "bool")
        at = c.nodes("select_v2", [equal, places, nowhere], [c.like(logits)])[0]
        final = c.step("reduce_max", [at], axes=(1,), keep_dims=True)
        taken = c.step("equal", [places, final], "bool")
        chosen = taken if chosen is None else c.step("logical_or", [chosen, taken])
    assert chosen is not None
    return chosen


ROWS: tuple[Row, ...] = (
    microsoft(
        "QMoE",
        "input router_probs fc1_experts_weights fc1_scales fc1_experts_bias? fc2_experts_weights fc2_scales "
        "fc2_experts_bias? fc3_experts_weights? fc3_scales? fc3_experts_bias? fc1_zero_points? fc2_zero_points? "
        "fc3_zero_points? router_weights?",
        _experts,
        "block_product add mul div minimum maximum logistic gelu relu softmax select_v2 reduce_max equal "
        "logical_or split sum",
    ),
)
