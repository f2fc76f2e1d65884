"""The table of operators that are written as ONNX, with their conversions."""

from __future__ import annotations

from npusim.frontends.onnx.export import elementwise_nodes as elements
from npusim.frontends.onnx.export import move_nodes as moves
from npusim.frontends.onnx.export import window_nodes as windows
from npusim.frontends.onnx.export.onnx_export import Convert
from npusim.frontends.onnx.operations.onnx_axes import POSITIONS, REDUCTIONS

MOVES: dict[str, Convert] = {
    "batch_to_space_nd": moves.batch_to_space,
    "broadcast_to": moves.expand,
    "channel_shuffle": moves.shuffle,
    "depth_to_space": moves.depth_to_space,
    "edge_pad": moves.pad,
    "embedding_lookup": moves.embedding,
    "fill": moves.expand,
    "gather": moves.gather,
    "gather_nd": moves.gather_nd,
    "mirror_pad": moves.mirror_pad,
    "pack": moves.pack,
    "pad": moves.pad,
    "reshape": moves.reshape,
    "reverse_v2": moves.reverse,
    "roll": moves.roll,
    "scatter_nd": moves.scatter_nd,
    "slice": moves.slices,
    "space_to_batch_nd": moves.space_to_batch,
    "space_to_depth": moves.depth_to_space,
    "split": moves.split,
    "squeeze": moves.reshape,
    "strided_slice": moves.slices,
    "tile": moves.tile,
    "transpose": moves.transpose,
    "unpack": moves.unpack,
}
"""Operators that move quantized values without a change."""

EXACT = (
    "arg_max",
    "arg_min",
    "cast",
    "dequantize",
    "maximum",
    "minimum",
    "neg",
    "select",
    "select_v2",
    "topk_v2",
)
"""Operators that compute on the integers of quantized values, or only select."""

FUSED_OPERATORS = ("add", "average_pool_2d", "mean", "mul", "softmax")
"""Operators for which ONNX Runtime has its own formulas on quantized values."""

CONVERT: dict[str, Convert] = {
    **elements.ELEMENTS,
    **MOVES,
    **{op: elements.position(name) for op, name in POSITIONS.items()},
    "average_pool_2d": windows.pool,
    "batch_matmul": windows.matrices,
    "batch_normalization": windows.batch,
    "cast": elements.cast,
    "concatenation": moves.concatenation,
    "conv_2d": windows.convolution,
    "cumsum": elements.running_sum,
    "depthwise_conv_2d": windows.convolution,
    "dequantize": elements.requantised,
    "dynamic_quantize": elements.dynamic_codes,
    "fully_connected": windows.vectors,
    "grid_sample": windows.sampled,
    "group_normalization": windows.group,
    "instance_normalization": windows.instance,
    "interpolate": windows.interpolated,
    "l2_normalization": windows.l2,
    "l2_pool_2d": windows.pool,
    "layer_normalization": windows.layer,
    "local_response_normalization": windows.local_response,
    "lp_normalization": windows.lp,
    "max_pool_2d": windows.pool,
    "add": elements.with_fused("QLinearAdd", elements.ELEMENTS["add"]),
    **{op: elements.reduction(name) for op, name in REDUCTIONS.items()},
    "mean": elements.mean,
    "mul": elements.with_fused("QLinearMul", elements.ELEMENTS["mul"]),
    "softmax": elements.fused_softmax,
    "quantize": elements.requantised,
    "reduce_all": elements.reduction("ReduceMin"),
    "reduce_any": elements.reduction("ReduceMax"),
    "resize_bilinear": windows.resize,
    "resize_nearest_neighbor": windows.resize,
    "topk_v2": elements.top,
    "transpose_conv": windows.transposed,
}
"""All operators that npusim writes as ONNX."""
