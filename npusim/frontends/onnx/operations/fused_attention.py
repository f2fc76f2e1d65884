"""Attention and embeddings as com.microsoft has them: what ONNX Runtime's optimiser makes of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.network import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.frontends.onnx.operations.gathers import from_front
from npusim.frontends.onnx.operations.products import product_in_reals


def _attention(c: NodeConversion) -> Sequence[int | None]:
    """Queries, keys and values are one product of the input, their columns side by side."""
    x, weights = c.real("input"), c.real("weights")
    _check(c, weights)
    turned = c.transposed(weights, (1, 0))
    return _of_product(c, c.step("fully_connected", [x, turned, None], keep_num_dims=True))


def _attention_on_codes(c: NodeConversion) -> Sequence[int | None]:
    """The same of codes, whose product becomes real numbers."""
    _check(c, c.real("weight"))
    return _of_product(c, product_in_reals(c, ("input", "input"), ("weight", "weight")))


def _check(c: NodeConversion, weights: int) -> None:
    for name in ("past", "past_sequence_length"):
        c.require(not c.has(name), f"npusim has no {name} here")
    c.require(not c.flag("do_rotary"), "npusim has no do_rotary here")
    shapes = c.shape(c.real("input")), c.shape(weights)
    c.require(
        (len(shapes[0]), len(shapes[1])) == (3, 2),
        f"multiplies {list(shapes[0])} by {list(shapes[1])}, not [batch, rows, depth] by a matrix",
    )


def _of_product(c: NodeConversion, made: int) -> Sequence[int | None]:
    if c.has("bias"):
        made = c.step("add", [made, c.real("bias")])
    wide = c.shape(made)[2]
    sizes = tuple(int(size) for size in c.attribute("qkv_hidden_sizes", None) or (wide // 3,) * 3)
    c.require(len(sizes) == 3 and sum(sizes) == wide, f"{wide} columns are not {list(sizes)} of Q, K and V")
    parts = c.nodes("split", [made], [c.like(made)] * 3, axis=2, sizes=sizes)
    query, key, value = (_by_head(c, part) for part in parts)
    present = c.step("pack", [key, value], axis=0) if len(c.outputs) > 1 and c.outputs[1] else None
    return [_attended(c, query, key, value, "mask_index"), present]


def _multi_head(c: NodeConversion) -> Sequence[int | None]:
    """Queries, keys and values are inputs; a bias is that of all three, side by side."""
    for name in ("past_sequence_length", "cache_indirection"):
        c.require(not c.has(name), f"npusim has no {name} here")
    tensors = [c.real(name) for name in ("query", "key", "value")]
    for tensor in tensors:
        c.require(
            len(c.shape(tensor)) in (3, 4), f"an input has shape {list(c.shape(tensor))}; npusim has 3 axes"
        )
    if c.has("bias"):
        bias, sizes = c.real("bias"), tuple(c.shape(tensor)[2] for tensor in tensors)
        c.require(
            all(len(c.shape(tensor)) == 3 for tensor in tensors) and c.shape(bias) == (sum(sizes),),
            f"bias has shape {list(c.shape(bias))}, is not that of {list(sizes)} columns",
        )
        parts = c.nodes("split", [bias], [c.like(bias)] * 3, axis=0, sizes=sizes)
        tensors = [c.step("add", [tensor, part]) for tensor, part in zip(tensors, parts, strict=True)]
    query, key, value = (_by_head(c, tensor) for tensor in tensors)
    if c.has("past_key"):
        key = c.step("concatenation", [c.real("past_key"), key], axis=2)
        value = c.step("concatenation", [c.real("past_value"), value], axis=2)
    c.require(len(c.outputs) < 4 or not c.outputs[3], "npusim does not give the scores (qk)")
    return [_attended(c, query, key, value, "key_padding_mask"), key, value]


def _by_head(c: NodeConversion, x: int) -> int:
    """[batch, rows, heads * depth] as [batch, heads, rows, depth]; so it may be already."""
    shape, heads = c.shape(x), int(c.attribute("num_heads", 0))
    if len(shape) == 4:
        return x
    c.require(heads > 0 and shape[2] % heads == 0, f"num_heads is {heads}, of {shape[2]} columns")
    return c.transposed(c.reshaped(x, (*shape[:2], heads, shape[2] // heads)), (0, 2, 1, 3))


def _attended(c: NodeConversion, query: int, key: int, value: int, mask: str) -> int:
    """softmax(Q K' * scale + masks) V, [batch, rows, heads * depth]."""
    batch, heads, rows, depth = c.shape(query)
    columns = c.shape(key)[2]
    scale = float(c.attribute("scale", 0.0)) or 1 / sqrt(depth)
    scores = c.step("batch_matmul", [query, key], adj_y=True)
    scores = c.step("mul", [scores, c.scalar(scale, scores)])
    if c.flag("unidirectional"):
        c.small((rows, columns), MOST_CONSTANT)
        ahead = np.arange(columns) - np.arange(rows)[:, None] > columns - rows
        half = c.builder.type(scores).dtype == "float16"
        never = np.finfo(np.float16).min if half else np.finfo(np.float32).min
        scores = c.step("add", [scores, c.constant(np.where(ahead, never, never * 0))])
    if c.has(mask):
        scores = c.step("add", [scores, _masked(c, mask, (batch, rows, columns), scores)])
    if c.has("attention_bias"):
        scores = c.step("add", [scores, c.real("attention_bias")])
    shares = c.step("softmax", [scores], axis=3)
    made = c.transposed(c.step("batch_matmul", [shares, value]), (0, 2, 1, 3))
    return c.reshaped(made, (batch, rows, heads * c.shape(value)[3]))


def _masked(c: NodeConversion, name: str, sizes: tuple[int, int, int], like: int) -> int:
    """What is added to scores: a large negative number where a key counts for nothing.

    A mask says of each key whether it counts, for all rows or each; or how many keys a batch has.
    """
    mask, (batch, rows, columns) = c.real(name), sizes
    shape, zero = c.shape(mask), c.scalar(0, c.real(name))
    if shape == (batch,):
        c.small((columns,), MOST_CONSTANT)
        along = np.arange(columns, dtype=c.builder.type(mask).numpy_dtype)
        seen = c.step("greater", [c.reshaped(mask, (batch, 1, 1, 1)), c.constant(along)], "bool")
    else:
        wanted = {(batch, columns): (batch, 1, 1, columns), (batch, rows, columns): (batch, 1, rows, columns)}
        c.require(shape in wanted, f"{name} has shape {list(shape)}, is none for {list(sizes)}")
        seen = c.step("greater", [c.reshaped(mask, wanted[shape]), zero], "bool")
    away = c.scalar(float(c.attribute("mask_filter_value", -10000.0)), like)
    nothing = c.scalar(0, like)
    return c.nodes("select_v2", [seen, nothing, away], [c.like(like)])[0]


def _embedded(c: NodeConversion) -> Sequence[int | None]:
    """Rows of tables for words, positions and segments, added and normalised; how many words each batch has."""
    words, table = c.real("input_ids"), c.real("word_embedding")
    c.require(len(c.shape(words)) == 2, f"input_ids has shape {list(c.shape(words))}, must have 2 axes")
    batch, rows = c.shape(words)
    total = _chosen(c, table, words)
    c.small((rows,), MOST_CONSTANT)
    places = c.real("position_ids") if c.has("position_ids") else c.constant(np.arange(rows)[None])
    total = c.step("add", [total, _chosen(c, c.real("position_embedding"), places)])
    if c.has("segment_embedding"):
        total = c.step("add", [total, _chosen(c, c.real("segment_embedding"), c.real("segment_ids"))])
    epsilon = float(c.attribute("epsilon", 1e-12))
    made = c.step(
        "layer_normalization", [total, c.real("gamma"), c.real("beta")], begin_axis=2, epsilon=epsilon
    )
    counts = (
        c.step("sum", [c.cast(c.real("mask"), "int32")], axes=(1,))
        if c.has("mask")
        else c.filled((batch,), 0, "int32")
    )
    return [made, counts, total]


def _chosen(c: NodeConversion, table: int, indices: int) -> int:
    places = from_front(c, indices, [c.shape(table)[0]])
    return c.nodes("gather", [table, places], [c.like(table)], axis=0)[0]


_SCORES = ("batch_matmul", "mul", "add", "softmax", "greater", "select_v2", "reshape", "transpose")


def _row(name: str, inputs: str, convert: Any, *operators: str) -> Row:
    return Row(name, inputs, convert, operators, domain=MICROSOFT, groups=False)


ROWS: tuple[Row, ...] = (
    _row(
        "Attention",
        "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
        _attention,
        "fully_connected",
        "split",
        "pack",
        *_SCORES,
    ),
    _row(
        "QAttention",
        "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
        _attention_on_codes,
        "fully_connected",
        "cast",
        "sum",
        "sub",
        "split",
        "pack",
        *_SCORES,
    ),
    _row(
        "MultiHeadAttention",
        "query key value bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
        "cache_indirection?",
        _multi_head,
        *_SCORES,
        "split",
        "concatenation",
    ),
    _row(
        "EmbedLayerNormalization",
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
        _embedded,
        "gather",
        "add",
        "layer_normalization",
        "sum",
        "cast",
    ),
)
