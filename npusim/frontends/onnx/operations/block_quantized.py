"""Operations of com.microsoft with block-quantized weights, and helpers for scales that are inputs of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.forms.packed_weights import PackedWeights, block_product
from npusim.frontends.onnx.operations.onnx_moves import from_front
from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import unshaped


def numbers(c: NodeConversion, name: str, default: float = 0) -> Array:
    """Return a scale or zero point as a vector. Raises GraphError if only a run gives it."""
    if not c.has(name):
        return np.full(1, default, np.float32)
    return c.value(name).reshape(-1)


def quantization(c: NodeConversion, scale: str, zero: str, axis: int | None = None) -> Quantization:
    """Return the quantization that two inputs state, per channel along an axis if they have several elements."""
    scales: Any = numbers(c, scale, 1)
    zeros: Any = numbers(c, zero)
    c.require(
        scales.dtype in (np.float16, np.float32), f"{scale} is {scales.dtype}, must be float32 or float16"
    )
    count = max(scales.size, zeros.size)
    fitting = axis is not None or count == 1
    c.require(
        fitting and {scales.size, zeros.size} <= {1, count},
        f"{scale} and {zero} have {scales.size} and {zeros.size} elements, must have one"
        + ("" if axis is None else " or one for each channel"),
    )
    values = np.broadcast_to(scales, count), np.broadcast_to(zeros, count)
    return Quantization(tuple(map(float, values[0])), tuple(map(int, values[1])), axis if count > 1 else None)


def codes(c: NodeConversion, name: str, scale: str, zero: str, axis: int | None = None) -> int:
    """Return an input under the quantization that its scale and zero point inputs state."""
    tensor = c.real(name)
    scaling = quantization(c, scale, zero, axis)
    c.require(
        c.builder.type(tensor).element.codes, f"{name} is {c.builder.type(tensor).dtype}, not quantized"
    )
    return c.coded(tensor, scaling)


def result(c: NodeConversion, like: int, scale: str, zero: str) -> TensorType:
    """Return the type of a result that inputs quantize; without a zero point it has the type of another tensor."""
    zeros = c.known(zero) if c.has(zero) else None
    dtype = c.builder.type(like).dtype if zeros is None else zeros.dtype.name
    return unshaped(dtype, quantization(c, scale, zero))


def requantized(c: NodeConversion, tensor: int, kind: TensorType) -> int:
    """Return quantized values requantized to a type, computed in float32; equal types add nothing."""
    own = c.builder.type(tensor)
    if (own.dtype, own.quantization) == (kind.dtype, kind.quantization):
        return tensor
    return c.node("quantize", [tensor], kind, rescale="float32")


def channels_first(c: NodeConversion, image: int) -> int:
    """Return an image as [N, C, ...]; with `channels_last` 1, com.microsoft has the channels last."""
    rank = len(c.shape(image))
    c.require(rank > 2, f"the input has shape {list(c.shape(image))}, must have 3 axes or more")
    return c.transposed(image, (0, rank - 1, *range(1, rank - 1))) if _channels_last(c) else image


def channels_as_they_were(c: NodeConversion, image: int) -> int:
    """Return a result in the order of axes that the operand had."""
    return c.transposed(image, (0, *range(2, len(c.shape(image))), 1)) if _channels_last(c) else image


def _channels_last(c: NodeConversion) -> bool:
    return c.flag("channels_last")


def _matmul_bits(c: NodeConversion) -> Sequence[int]:
    a = c.real("A")
    dtype = c.builder.type(a).numpy_dtype
    c.require(
        not c.attribute("weight_prepacked", 0), "has weights packed for one processor (weight_prepacked)"
    )
    bias = c.real("bias") if c.has("bias") else None
    if (weights := _packed(c)) is not None:
        return [block_product(c, a, weights, bias)]
    whole = c.constant(_unpacked(c).astype(dtype))
    return [c.node("fully_connected", [a, whole, bias], unshaped(dtype.name), keep_num_dims=True)]


def _packed(c: NodeConversion) -> PackedWeights | None:
    """Return the weights as they are stored; None for another order, or zero points that are no packed integers."""
    columns, inner = int(c.attribute("N", 0)), int(c.attribute("K", 0))
    bits, size = int(c.attribute("bits", 4)), int(c.attribute("block_size", 0))
    if bits not in BITS or min(columns, inner, size) <= 0 or size * bits % 8 or c.has("g_idx"):
        return None
    scales, packed = c.value("scales"), c.value("B")
    zeros = c.value("zero_points") if c.has("zero_points") else None
    form = BlockFormat(bits, size, scales.dtype.itemsize, zeros is not None)
    counts = [
        (packed, form.weight_bytes(inner), (np.uint8,)),
        (scales, form.blocks(inner), (np.float16, np.float32)),
        *([] if zeros is None else [(zeros, form.zero_point_bytes(inner), (np.uint8,))]),
    ]
    if any(data.size != columns * count or data.dtype not in types for data, count, types in counts):
        return None
    rows = None if zeros is None else zeros.reshape(columns, -1)
    return PackedWeights(form, inner, packed.reshape(columns, -1), scales.reshape(columns, -1), rows)


def _unpacked(c: NodeConversion) -> Any:
    """Return weights [N, K] in float32, dequantized from blocks along K."""
    columns, inner = int(c.attribute("N", 0)), int(c.attribute("K", 0))
    bits, size = int(c.attribute("bits", 4)), int(c.attribute("block_size", 0))
    c.require(bits in BITS, f"bits is {bits}, npusim has 2, 4 and 8")
    c.require(min(columns, inner, size) > 0, f"has {columns} columns of {inner} in blocks of {size}")
    blocks = -(-inner // size)
    packed = c.value("B")
    c.require(
        packed.size * 8 == columns * blocks * size * bits, f"B has {packed.size} bytes, which do not fit"
    )
    values: Any = narrow(packed.reshape(columns, -1), bits, blocks * size)
    places = np.arange(inner) // size
    if c.has("g_idx"):
        places = np.asarray(c.value("g_idx")).astype(np.int64)
        c.require(places.shape == (inner,), f"g_idx has {places.size} elements, must have {inner}")
        c.require(
            bool((places >= 0).all() and (places < blocks).all()), "g_idx names blocks that do not exist"
        )
    scales = c.value("scales")
    c.require(scales.size == columns * blocks, f"has {scales.size} scales for {columns * blocks} blocks")
    zeros = _zeros_of_blocks(c, columns, blocks, bits)
    return (values[:, :inner].astype(np.float32) - zeros[:, places]) * scales.astype(np.float32).reshape(
        columns, blocks
    )[:, places]


def narrow(packed: Any, bits: int, count: int) -> Array:
    """Return elements of a few bits, the first in the lowest bits, `count` per row."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    spread: Array = ((packed[..., None] >> shifts) & (0xFF >> 8 - bits)).reshape(packed.shape[0], -1)
    return spread[:, :count]


def _zeros_of_blocks(c: NodeConversion, columns: int, blocks: int, bits: int) -> Any:
    if not c.has("zero_points"):
        return np.full((columns, blocks), 1 << bits - 1, np.float32)
    zeros = c.value("zero_points")
    if zeros.dtype == np.uint8:
        count = columns * -(-blocks * bits // 8)
        c.require(zeros.size == count, f"zero_points has {zeros.size} bytes, must have {count}")
        return narrow(zeros.reshape(columns, -1), bits, blocks).astype(np.float32)
    c.require(zeros.size == columns * blocks, f"has {zeros.size} zero points for {columns * blocks} blocks")
    return zeros.astype(np.float32).reshape(columns, blocks)


def _gathered(c: NodeConversion) -> Sequence[int]:
    """Gather rows of a block-quantized table; a byte holds two 4-bit elements, the first in the lower half."""
    data: Any = c.value("data")
    rank, bits, size = data.ndim, int(c.attribute("bits", 4)), int(c.attribute("block_size", 128))
    axis, blocked = (
        c.axis(int(c.attribute(f"{name}_axis", default)), rank, f"{name}_axis")
        for name, default in (("gather", 0), ("quantize", 1))
    )
    c.require(bits in (2, 4, 8) and size > 0, f"has {bits} bits in blocks of {size}")
    packed = data.dtype == np.uint8 and not c.bits("data")
    if packed and bits < 8:
        data = narrow(data.reshape(-1, data.shape[-1]), bits, data.shape[-1] * (8 // bits))
        data = data.reshape(*c.value("data").shape[:-1], -1)
    scales: Any = c.value("scales")
    spread = _spread(c, scales, data.shape, blocked, size, "scales")
    zeros: Any = np.float32(1 << bits - 1 if packed else 0)
    if c.has("zero_points"):
        zeros = c.value("zero_points")
        if packed and bits < 8:
            zeros = narrow(zeros.reshape(-1, zeros.shape[-1]), bits, scales.shape[-1]).reshape(scales.shape)
        zeros = _spread(c, zeros, data.shape, blocked, size, "zero_points").astype(np.float32)
    table = c.constant(((data.astype(np.float32) - zeros) * spread.astype(np.float32)).astype(scales.dtype))
    indices = from_front(c, c.real("indices"), [data.shape[axis]])
    return [c.node("gather", [table, indices], unshaped(scales.dtype.name), axis=axis)]


def _spread(c: NodeConversion, values: Any, shape: Sequence[int], axis: int, size: int, name: str) -> Any:
    blocks = -(-shape[axis] // size)
    fitting = (*shape[:axis], blocks, *shape[axis + 1 :])
    c.require(values.shape == fitting, f"{name} {list(values.shape)} must be {list(fitting)}")
    return np.repeat(values, size, axis).take(range(shape[axis]), axis)


ROWS: tuple[Row, ...] = (
    microsoft(
        "MatMulNBits", "A B scales zero_points? g_idx? bias?", _matmul_bits, "block_product fully_connected"
    ),
    microsoft("GatherBlockQuantized", "data indices scales zero_points?", _gathered, "gather"),
)
