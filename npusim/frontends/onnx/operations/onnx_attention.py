"""Attention: ONNX's own operation, and those of com.microsoft."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.moves import surrounded_by
from npusim.frontends.forms.networks import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.onnx.operations.onnx_moves import from_front
from npusim.frontends.onnx.operations.quantized_products import product_in_floats


def _attention(c: NodeConversion) -> Sequence[int | None]:
    """Add softmax(Q K' * scale + mask) V per head; several heads of Q may share one of K and V."""
    flat = len(c.shape(c.real("Q"))) == 3
    query = _by_head(c, c.real("Q"), "q_num_heads")
    key, value = (_by_head(c, c.real(name), "kv_num_heads") for name in ("K", "V"))
    before = 0
    if c.has("past_key"):
        before = c.shape(c.real("past_key"))[2]
        key = c.step("concatenation", [c.real("past_key"), key], axis=2)
        value = c.step("concatenation", [c.real("past_value"), value], axis=2)
    _, heads, rows, depth = c.shape(query)
    shared, columns = c.shape(key)[1:3]
    c.require(shared > 0 and heads % shared == 0, f"{heads} heads of Q do not fall to {shared} of K")
    scale = sqrt(float(c.attribute("scale", 0.0) or 1 / sqrt(depth)))
    query, scaled = (c.step("mul", [tensor, c.scalar(scale, tensor)]) for tensor in (query, key))
    scores = grouped_product(c, query, scaled, shared, adj_y=True)
    first, cap = scores, float(c.attribute("softcap", 0.0))
    if cap:
        scores = bounded(c, scores, cap)
    capped, bias = scores, _bias(c, rows, columns, before, scores)
    if bias is not None:
        scores = c.step("add", [scores, bias])
    shares = _shares(c, scores, bias)
    result = grouped_product(c, shares, value, shared)
    if flat:
        result = heads_together(c, result)
    mode = int(c.attribute("qk_matmul_output_mode", 0))
    c.require(mode in range(4), f"qk_matmul_output_mode is {mode}, must be 0..3")
    return [result, key, value, (first, capped, scores, shares)[mode]]


def grouped_product(c: NodeConversion, x: int, y: int, shared: int, *, adj_y: bool = False) -> int:
    """Multiply x, [batch, heads, rows, inner], by y, whose `shared` heads each serve a group of the heads of x."""
    batch, heads, rows, inner = c.shape(x)
    grouped = c.reshaped(x, (batch, shared, heads // shared * rows, inner))
    products = c.step("batch_matmul", [grouped, y], adj_y=adj_y)
    return c.reshaped(products, (batch, heads, rows, c.shape(products)[3]))


def bounded(c: NodeConversion, scores: int, cap: float) -> int:
    """Return cap * tanh(scores / cap)."""
    ratio = c.step("div", [scores, c.scalar(cap, scores)])
    return c.step("mul", [c.step("tanh", [ratio]), c.scalar(cap, scores)])


def heads_apart(c: NodeConversion, x: int, heads: int) -> int:
    """Return [batch, rows, heads * depth] as [batch, heads, rows, depth]."""
    batch, rows, width = c.shape(x)
    return c.transposed(c.reshaped(x, (batch, rows, heads, width // heads)), (0, 2, 1, 3))


def heads_together(c: NodeConversion, x: int) -> int:
    """Return [batch, heads, rows, depth] as [batch, rows, heads * depth]."""
    batch, heads, rows, depth = c.shape(x)
    return c.reshaped(c.transposed(x, (0, 2, 1, 3)), (batch, rows, heads * depth))


def hiding(c: NodeConversion, seen: int, like: int) -> int:
    """Return 0 where a key is seen and -inf elsewhere, in the element type of `like`."""
    zero, never = c.scalar(0, like), c.scalar(-np.inf, like)
    return c.nodes("select_v2", [seen, zero, never], [c.like(zero)])[0]


def _by_head(c: NodeConversion, x: int, heads: str) -> int:
    """Return [batch, rows, heads * depth] as [batch, heads, rows, depth]."""
    shape = c.shape(x)
    c.require(len(shape) in (3, 4), f"an input has shape {list(shape)}, must have 3 or 4 axes")
    if len(shape) == 4:
        return x
    count = int(c.attribute(heads, 0))
    c.require(
        count > 0 and shape[2] % count == 0, f"{heads} is {count}, and {list(shape)} has {shape[2]} columns"
    )
    return heads_apart(c, x, count)


def _bias(c: NodeConversion, rows: int, columns: int, before: int, like: int) -> int | None:
    """Return the bias of the scores: 0, -inf for keys that are masked out, or the mask's numbers."""
    bias: int | None = None
    if c.has("attn_mask"):
        bias = c.real("attn_mask")
        shape = c.shape(bias)
        if c.builder.type(bias).dtype == "bool":
            bias = hiding(c, bias, like)
        if shape[-1] < columns:
            borders = (*((0, 0) for _ in shape[1:]), (0, columns - shape[-1]))
            bias = surrounded_by(c, bias, borders, -np.inf)
    if c.has("nonpad_kv_seqlen"):
        unseen = _hidden_behind(c, rows, columns, like)
        return unseen if bias is None else c.step("add", [bias, unseen])
    left, right = (int(c.attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    ahead = np.arange(columns) - np.arange(rows)[:, None] - before
    seen = np.ones((rows, columns), bool)
    if c.flag("is_causal"):
        seen &= ahead <= 0
    if left >= 0:
        seen &= -ahead <= left
    if right >= 0:
        seen &= ahead <= right
    if seen.all():
        return bias
    hidden = np.where(seen, 0, -np.inf).astype(c.builder.type(like).numpy_dtype)
    return c.constant(hidden) if bias is None else c.step("add", [bias, c.constant(hidden)])


def _hidden_behind(c: NodeConversion, rows: int, columns: int, like: int) -> int:
    """Return 0 for visible keys and -inf for others, [batch, 1, rows, columns]; each batch states how many it has."""
    lengths = c.real("nonpad_kv_seqlen")
    lengths = c.reshaped(lengths, (c.shape(lengths)[0], 1, 1, 1))
    along = np.arange(columns, dtype=c.builder.type(lengths).numpy_dtype)
    seen = c.step("greater", [lengths, c.constant(along[None])], "bool")
    apart = c.constant(along - np.arange(rows, dtype=along.dtype)[:, None] + along.dtype.type(rows))
    ahead = c.step("sub", [apart, lengths])
    left, right = (int(c.attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    limits = [("less_equal", 0)] if c.flag("is_causal") else []
    limits += [("greater_equal", -left)] if left >= 0 else []
    limits += [("less_equal", right)] if right >= 0 else []
    for op, limit in limits:
        within = c.step(op, [ahead, c.scalar(limit, ahead)], "bool")
        seen = c.step("logical_and", [seen, within])
    return hiding(c, seen, like)


def _shares(c: NodeConversion, scores: int, bias: int | None) -> int:
    """Return the softmax; rows without any visible key are 0."""
    shares = c.step("softmax", [scores], axis=3)
    if bias is None:
        return shares
    known = c.builder.tensors[bias].array
    if known is not None and not np.isneginf(known.max(-1)).any():
        return shares
    rank = len(c.shape(bias))
    most = c.step("reduce_max", [bias], axes=(rank - 1,), keep_dims=True)
    none = c.step("equal", [most, c.scalar(-np.inf, most)], "bool")
    return c.nodes("select_v2", [none, c.scalar(0, shares), shares], [c.like(shares)])[0]


def _rotary(c: NodeConversion) -> Sequence[int]:
    """Rotate pairs of elements by the angle of their position: halves of a head, or neighbours (interleaved)."""
    return [_turned(c, "X", c.real("cos_cache"), c.real("sin_cache"))]


def _microsoft_rotary(c: NodeConversion) -> Sequence[int]:
    c.require(not c.flag("is_packed_batching"), "npusim has no packed batches")
    return [_turned(c, "input", c.real("cos_cache"), c.real("sin_cache"))]


def _turned(c: NodeConversion, name: str, cosine: int, sine: int) -> int:
    x, shape = c.real(name), c.shape(c.real(name))
    c.require(len(shape) in (3, 4), f"the input has shape {list(shape)}, must have 3 or 4 axes")
    if len(shape) == 3:
        heads = int(c.attribute("num_heads", 0))
        if not heads and c.source.domain == MICROSOFT:
            heads = shape[2] // (2 * c.shape(cosine)[-1])
        c.require(heads > 0 and shape[2] % heads == 0, f"num_heads {heads} do not fit {list(shape)}")
        x = heads_apart(c, x, heads)
    batch, _, rows, depth = c.shape(x)
    part = int(c.attribute("rotary_embedding_dim", 0)) or depth
    c.require(part <= depth and part % 2 == 0, f"rotary_embedding_dim is {part}, of {depth}")
    cosine, sine = (_at_positions(c, cache, batch, rows, part // 2) for cache in (cosine, sine))
    result = rotated(c, x, cosine, sine, c.flag("interleaved"))
    return heads_together(c, result) if len(shape) == 3 else result


def rotated(c: NodeConversion, x: int, cosine: int, sine: int, interleaved: bool) -> int:
    """Return x, [batch, heads, rows, depth], with pairs of its first elements rotated.

    cosine, sine: [batch or 1, 1, rows, pairs]. A pair is two neighbours if `interleaved`, otherwise an element of the
    first half of 2 * pairs elements and the one at the same place in the second half.
    """
    batch, heads, rows, depth = c.shape(x)
    half, rest = c.shape(cosine)[3], None
    if 2 * half < depth:
        x, rest = c.nodes("split", [x], [c.like(x)] * 2, axis=3, sizes=(2 * half, depth - 2 * half))
    if interleaved:
        pairs = c.reshaped(x, (batch, heads, rows, half, 2))
        first, second = c.nodes("unpack", [pairs], [c.like(x)] * 2, axis=4)
    else:
        first, second = c.nodes("split", [x], [c.like(x)] * 2, axis=3, sizes=(half, half))
    real = c.step("sub", [c.step("mul", [cosine, first]), c.step("mul", [sine, second])])
    other = c.step("add", [c.step("mul", [sine, first]), c.step("mul", [cosine, second])])
    if interleaved:
        result = c.reshaped(c.step("pack", [real, other], axis=4), (batch, heads, rows, 2 * half))
    else:
        result = c.step("concatenation", [real, other], axis=3)
    return result if rest is None else c.step("concatenation", [result, rest], axis=3)


def _at_positions(c: NodeConversion, cache: int, batch: int, rows: int, half: int) -> int:
    """Return the row of a cosine or sine cache for each position, 0 or more: [batch or 1, 1, rows, half]."""
    if c.has("position_ids"):
        ids = c.real("position_ids")
        if c.shape(ids) != (batch, rows):  # one number is the position of the first row
            along = c.constant(np.arange(rows, dtype=c.builder.type(ids).numpy_dtype)[None])
            ids = c.step("add", [c.reshaped(ids, (1, 1)), along])
        cache = c.nodes("gather", [cache, ids], [c.like(cache)], axis=0)[0]
    shape = c.shape(cache)
    c.require(
        len(shape) == 3 and shape[1:] == (rows, half),
        f"a cache of {list(shape)} does not fit {rows} rows of {half}",
    )
    return c.reshaped(cache, (shape[0], 1, rows, half))


_PARTS = (
    "batch_matmul softmax mul div add tanh select_v2 concatenation transpose reshape pad reduce_max equal greater sub "
    "less_equal greater_equal logical_and"
)
_ROTARY = "mul add sub gather split unpack pack concatenation transpose reshape"


def _fused(c: NodeConversion) -> Sequence[int | None]:
    """Add com.microsoft's Attention: Q, K and V are the column thirds of one product of the input."""
    x, weights = c.real("input"), c.real("weights")
    _check(c, weights)
    turned = c.transposed(weights, (1, 0))
    return _of_product(c, c.step("fully_connected", [x, turned, None], keep_num_dims=True))


def _attention_on_codes(c: NodeConversion) -> Sequence[int | None]:
    """Add QAttention: the product of quantized values becomes a float."""
    _check(c, c.real("weight"))
    return _of_product(c, product_in_floats(c, ("input", "input"), ("weight", "weight")))


def _check(c: NodeConversion, weights: int) -> None:
    for name in ("past", "past_sequence_length"):
        c.require(not c.has(name), f"npusim has no {name} here")
    c.require(not c.flag("do_rotary"), "npusim has no do_rotary here")
    shapes = c.shape(c.real("input")), c.shape(weights)
    c.require(
        (len(shapes[0]), len(shapes[1])) == (3, 2),
        f"multiplies {list(shapes[0])} by {list(shapes[1])}, not [batch, rows, depth] by a matrix",
    )


def _of_product(c: NodeConversion, product: int) -> Sequence[int | None]:
    if c.has("bias"):
        product = c.step("add", [product, c.real("bias")])
    wide = c.shape(product)[2]
    sizes = tuple(int(size) for size in c.attribute("qkv_hidden_sizes", None) or (wide // 3,) * 3)
    c.require(len(sizes) == 3 and sum(sizes) == wide, f"{wide} columns are not {list(sizes)} of Q, K and V")
    parts = c.nodes("split", [product], [c.like(product)] * 3, axis=2, sizes=sizes)
    query, key, value = (_heads_apart(c, part) for part in parts)
    present = c.step("pack", [key, value], axis=0) if len(c.outputs) > 1 and c.outputs[1] else None
    return [_attended(c, query, key, value, "mask_index"), present]


def _multi_head(c: NodeConversion) -> Sequence[int | None]:
    """Add MultiHeadAttention: Q, K and V are inputs, and one bias has those of all three side by side."""
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
    query, key, value = (_heads_apart(c, tensor) for tensor in tensors)
    if c.has("past_key"):
        key = c.step("concatenation", [c.real("past_key"), key], axis=2)
        value = c.step("concatenation", [c.real("past_value"), value], axis=2)
    c.require(len(c.outputs) < 4 or not c.outputs[3], "npusim does not give the scores (qk)")
    return [_attended(c, query, key, value, "key_padding_mask"), key, value]


def _heads_apart(c: NodeConversion, x: int) -> int:
    """Return [batch, rows, heads * depth] as [batch, heads, rows, depth], unless it has that shape already."""
    shape, heads = c.shape(x), int(c.attribute("num_heads", 0))
    if len(shape) == 4:
        return x
    c.require(heads > 0 and shape[2] % heads == 0, f"num_heads is {heads}, of {shape[2]} columns")
    return heads_apart(c, x, heads)


def _attended(c: NodeConversion, query: int, key: int, value: int, mask: str) -> int:
    """Return softmax(Q K' * scale + masks) V as [batch, rows, heads * depth]."""
    batch, _, rows, depth = c.shape(query)
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
    return heads_together(c, c.step("batch_matmul", [shares, value]))


def _masked(c: NodeConversion, name: str, sizes: tuple[int, int, int], like: int) -> int:
    """Return what is added to scores: a large negative number for masked keys.

    A mask states for each key whether it counts, for all rows or per row, or states the number of keys per batch.
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
    """Add EmbedLayerNormalization: word, position and segment rows, summed and normalized, and the words per batch."""
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
    normalized = c.step(
        "layer_normalization", [total, c.real("gamma"), c.real("beta")], begin_axis=2, epsilon=epsilon
    )
    counts = (
        c.step("sum", [c.cast(c.real("mask"), "int32")], axes=(1,))
        if c.has("mask")
        else c.filled((batch,), 0, "int32")
    )
    return [normalized, counts, total]


def _chosen(c: NodeConversion, table: int, indices: int) -> int:
    places = from_front(c, indices, [c.shape(table)[0]])
    return c.nodes("gather", [table, places], [c.like(table)], axis=0)[0]


_SCORES = "batch_matmul mul add softmax greater select_v2 reshape transpose"


ROWS: tuple[Row, ...] = (
    Row(
        "Attention",
        "Q K V attn_mask? past_key? past_value? nonpad_kv_seqlen?",
        _attention,
        _PARTS,
        groups=False,
    ),
    Row("RotaryEmbedding", "X cos_cache sin_cache position_ids?", _rotary, _ROTARY, groups=False),
    microsoft("RotaryEmbedding", "input position_ids cos_cache sin_cache", _microsoft_rotary, _ROTARY),
    microsoft(
        "Attention",
        "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
        _fused,
        f"fully_connected split pack {_SCORES}",
    ),
    microsoft(
        "QAttention",
        "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
        _attention_on_codes,
        f"fully_connected cast sum sub split pack {_SCORES}",
    ),
    microsoft(
        "MultiHeadAttention",
        "query key value bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
        "cache_indirection?",
        _multi_head,
        f"{_SCORES} split concatenation",
    ),
    microsoft(
        "EmbedLayerNormalization",
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
        _embedded,
        "gather add layer_normalization sum cast",
    ),
)
