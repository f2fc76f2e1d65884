"""com.microsoft's GroupQueryAttention: causal attention with a cache, as generators of language models write it.

What the documentation of the operation leaves open is what ONNX Runtime computes on a processor; the tests compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.onnx.operations.onnx_attention import (
    bounded,
    grouped_product,
    heads_apart,
    heads_together,
    hiding,
    rotated,
)
from npusim.isa.base.tensor import Array

_REFUSED = {
    "k_scale": "caches of quantized keys",
    "v_scale": "caches of quantized values",
}
"""Inputs that npusim does not take, and what they are for."""


class _Sizes(NamedTuple):
    """The sizes of one GroupQueryAttention.

    heads:   heads of queries; groups of them share one of the `shared` heads of keys and values.
    rows:    new tokens of a sequence.
    past:    tokens in the given cache.
    columns: tokens in the resulting cache.
    depth:   elements of a head.
    """

    batch: int
    heads: int
    shared: int
    rows: int
    past: int
    columns: int
    depth: int


def _grouped(c: NodeConversion) -> Sequence[int | None]:
    """Add softmax(Q K' * scale + mask) V per head, behind the rotation and the update of the cache."""
    for name, purpose in _REFUSED.items():
        c.require(not c.has(name), f"input {name} is given, and npusim has no {purpose}")
    c.require(len(c.outputs) < 4 or not c.outputs[3], "npusim does not give the scores (output_qk)")
    heads, shared = (int(c.attribute(name, 0)) for name in ("num_heads", "kv_num_heads"))
    c.require(
        shared > 0 and heads > 0 and heads % shared == 0,
        f"num_heads is {heads}, must be a multiple of kv_num_heads, {shared}",
    )
    query, key, value = _by_head(c, heads, shared)
    batch, _, rows, depth = c.shape(query)
    past = c.shape(c.real("past_key"))[2] if c.has("past_key") else 0
    known = c.known("total_sequence_length")
    total = past + rows if known is None else int(known.reshape(-1)[0])
    columns = max(past, total)
    c.require(columns >= rows, f"total_sequence_length is {columns}, must be {rows} or more, the new tokens")
    sizes = _Sizes(batch, heads, shared, rows, past, columns, depth)
    c.small((batch, rows, columns), MOST_CONSTANT)
    starts = _starts(c, sizes, prompt=rows == total)
    if c.flag("do_rotary"):
        query, key = _turned(c, sizes, starts, (query, key))
    key, value = (
        _appended(c, sizes, starts, new, name) for new, name in ((key, "past_key"), (value, "past_value"))
    )
    scores = _scores(c, sizes, starts, query, key)
    shares = _shares(c, sizes, scores)
    return [heads_together(c, grouped_product(c, shares, value, shared)), key, value]


def _by_head(c: NodeConversion, heads: int, shared: int) -> Sequence[int]:
    """Return queries, keys and values as [batch, heads, rows, depth]. They may be one input, side by side."""
    counts = (heads, shared, shared)
    if c.has("key"):
        parts: Sequence[int] = [c.real(name) for name in ("query", "key", "value")]
    else:
        query = c.real("query")
        width = c.shape(query)[-1]
        c.require(
            width % sum(counts) == 0,
            f"query has {width} columns, must be a multiple of {heads} + 2 * {shared} heads",
        )
        sizes = tuple(width // sum(counts) * count for count in counts)
        parts = c.nodes("split", [query], [c.like(query)] * 3, axis=2, sizes=sizes)
    split = []
    for part, count in zip(parts, counts, strict=True):
        shape = c.shape(part)
        c.require(
            len(shape) == 3 and shape[2] % count == 0,
            f"an input has shape {list(shape)}, must be [batch, rows, columns] of {count} heads",
        )
        split.append(heads_apart(c, part, count))
    return split


def _starts(c: NodeConversion, sizes: _Sizes, prompt: bool) -> int:
    """Return each sequence's position of its first new token, int32 [batch, 1].

    prompt: the new tokens are all that there are, so they begin at 0 and shorter sequences end in padding.
    If a single sequence fills the cache, its length is known: `seqlens_k` must say the same.
    """
    if prompt:
        return c.constant(np.zeros((sizes.batch, 1), np.int32))
    if sizes.batch == 1 and sizes.columns == sizes.past + sizes.rows:
        return c.constant(np.full((1, 1), sizes.past, np.int32))
    last = c.reshaped(c.real("seqlens_k"), (sizes.batch, 1))
    return c.step("add", [last, c.constant(np.array(1 - sizes.rows, np.int32))])


def _positions(c: NodeConversion, sizes: _Sizes, starts: int) -> int:
    """Return the position of each new token, int32 [batch, rows]."""
    return c.step("add", [starts, c.constant(np.arange(sizes.rows, dtype=np.int32)[None])])


def _turned(c: NodeConversion, sizes: _Sizes, starts: int, tensors: Sequence[int]) -> Sequence[int]:
    """Return queries and keys rotated by the angles of their positions."""
    given = c.has("position_ids")
    places = c.real("position_ids") if given else _positions(c, sizes, starts)
    caches = [c.real(name) for name in ("cos_cache", "sin_cache")]
    pairs = c.shape(caches[0])[-1]
    c.require(0 < 2 * pairs <= sizes.depth, f"cos_cache has {pairs} columns, must be 1..{sizes.depth // 2}")
    angles = []
    for cache in caches:
        chosen = c.nodes("gather", [cache, places], [c.like(cache)], axis=0)[0]
        shape = c.shape(chosen)
        angles.append(c.reshaped(chosen, (shape[0], 1, sizes.rows, pairs)))
    cosine, sine = angles
    return [rotated(c, x, cosine, sine, c.flag("rotary_interleaved")) for x in tensors]


def _appended(c: NodeConversion, sizes: _Sizes, starts: int, new: int, name: str) -> int:
    """Return the cache with the new tokens at their positions, and zeros behind them."""
    known = c.builder.tensors[starts].array
    old = c.real(name) if sizes.past else None
    shape = c.shape(new)
    if known is not None and len({int(start) for start in known.flat}) == 1:
        start = int(known.flat[0])
        parts = [new]
        if start:
            assert old is not None
            extent = (*shape[:2], start, shape[3])
            parts = [
                c.step("slice", [old], begin=(0, 0, 0, 0), size=extent) if start < sizes.past else old,
                new,
            ]
        if rest := sizes.columns - start - sizes.rows:
            parts.append(c.filled((*shape[:2], rest, shape[3]), 0, c.builder.type(new).dtype))
        return c.step("concatenation", parts, axis=2) if len(parts) > 1 else new
    zero = c.filled((*shape[:2], 1, shape[3]), 0, c.builder.type(new).dtype)
    parts = [part for part in (old, new, zero) if part is not None]
    rows = c.step("concatenation", parts, axis=2)
    along = c.constant(np.arange(sizes.columns, dtype=np.int32)[None])
    behind = c.step("sub", [along, starts])
    moved = c.step("minimum", [c.step("add", [behind, c.scalar(sizes.past, behind)]),
                               c.scalar(sizes.past + sizes.rows, behind)])  # fmt: skip
    is_new = c.step("greater_equal", [behind, c.scalar(0, behind)], "bool")
    chosen = c.nodes("select_v2", [is_new, moved, along], [c.like(along)])[0]
    entries = []
    for sequence in range(sizes.batch):
        one, places = (
            tensor
            if sizes.batch == 1
            else c.step(
                "slice", [tensor], begin=(sequence, *(0,) * (rank - 1)), size=(1, *c.shape(tensor)[1:])
            )
            for tensor, rank in ((rows, 4), (chosen, 2))
        )
        flat = c.reshaped(places, (sizes.columns,))
        entries.append(c.nodes("gather", [one, flat], [c.like(one)], axis=2)[0])
    return c.step("concatenation", entries, axis=0) if len(entries) > 1 else entries[0]


def _scores(c: NodeConversion, sizes: _Sizes, starts: int, query: int, key: int) -> int:
    """Return the products of queries and keys as [batch, heads, rows, columns], -inf where a key is hidden."""
    batch, heads, shared, rows, _, columns, depth = sizes
    scale = float(c.attribute("scale", 0.0)) or 1 / sqrt(depth)
    grouped = c.reshaped(query, (batch, shared, heads // shared * rows, depth))
    scores = c.step("batch_matmul", [grouped, key], adj_y=True)
    scores = c.reshaped(c.step("mul", [scores, c.scalar(scale, scores)]), (batch, heads, rows, columns))
    cap = float(c.attribute("softcap", 0.0))
    if cap > 0:
        scores = bounded(c, scores, cap)
    if c.has("attention_bias"):
        bias = c.real("attention_bias")
        width = c.shape(bias)[-1]
        c.require(width <= columns, f"attention_bias has {width} columns, and there are {columns} keys")
        if width < columns:
            zeros = c.filled((*c.shape(bias)[:3], columns - width), 0, c.builder.type(bias).dtype)
            bias = c.step("concatenation", [bias, zeros], axis=3)
        scores = c.step("add", [scores, bias])
    hidden = _hidden(c, sizes, starts, scores)
    return scores if hidden is None else c.step("add", [scores, hidden])


def _hidden(c: NodeConversion, sizes: _Sizes, starts: int, like: int) -> int | None:
    """Return 0, or -inf for keys that a token does not see: [batch or 1, 1, rows, columns]. None if it sees all."""
    window = int(c.attribute("local_window_size", -1))
    known = c.builder.tensors[starts].array
    along = np.arange(sizes.columns, dtype=np.int32)
    if known is not None:
        first: Array = known[:1] if len(np.unique(known)) == 1 else known
        offsets = along - np.add(first, np.arange(sizes.rows))[:, None, :, None]
        seen = offsets <= 0
        if window > 0:
            seen &= offsets > -window
        if seen.all():
            return None
        return c.constant(np.where(seen, 0, -np.inf).astype(c.builder.type(like).numpy_dtype))
    places = c.reshaped(_positions(c, sizes, starts), (sizes.batch, 1, sizes.rows, 1))
    ahead = c.step("sub", [c.constant(along[None, None, None]), places])
    visible = c.step("less_equal", [ahead, c.scalar(0, ahead)], "bool")
    if window > 0:
        near = c.step("greater", [ahead, c.scalar(-window, ahead)], "bool")
        visible = c.step("logical_and", [visible, near])
    return hiding(c, visible, like)


def _shares(c: NodeConversion, sizes: _Sizes, scores: int) -> int:
    """Return the softmax. A sink takes a share of its own: exp(head_sink), or exp(0) for smooth_softmax."""
    column = (sizes.batch, sizes.heads, sizes.rows, 1)
    if c.has("head_sink"):
        sink = c.reshaped(c.real("head_sink"), (1, sizes.heads, 1, 1))
        sink = c.step("add", [sink, c.filled(column, 0, c.builder.type(scores).dtype)])
    elif int(c.attribute("smooth_softmax", 0)) > 0:
        sink = c.filled(column, 0, c.builder.type(scores).dtype)
    else:
        return c.step("softmax", [scores], axis=3)
    shares = c.step("softmax", [c.step("concatenation", [scores, sink], axis=3)], axis=3)
    return c.step("slice", [shares], begin=(0, 0, 0, 0), size=(*column[:3], sizes.columns))


ROWS: tuple[Row, ...] = (
    microsoft(
        "GroupQueryAttention",
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids? "
        "attention_bias? head_sink? k_scale? v_scale?",
        _grouped,
        "batch_matmul softmax mul add sub div tanh minimum gather split slice concatenation transpose reshape pack "
        "unpack select_v2 greater greater_equal less_equal logical_and",
    ),
)
