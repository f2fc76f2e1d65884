"""Lower matrix products with weights that are quantized in blocks: they stay in memory as they are stored.

Work counts channels in bytes of results; geometry counts elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.real import ACTIVATIONS
from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.block_mac import (
    ELEMENTS,
    BlockProduct,
    block_mode,
    least_halvings,
    parameter_bytes,
)
from npusim.isa.instructions.real_mac import float_columns
from npusim.kernels.lowering.mac_work import alike, product
from npusim.kernels.lowering.work import Constants, Parts, Rows, Tile, TileAddresses, Work, same_rows
from npusim.kernels.operator.operands import input_type, optional_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import act_range

WEIGHTS, SCALES, ZERO_POINTS, BIAS = 1, 2, 3, 4
"""Positions of the operands behind the feature map; zero points and bias may be absent."""


def form_of(call: Call) -> BlockFormat:
    """Return how the weights of a call are stored."""
    parameters, scales = call.parameters, input_type(call, SCALES)
    zeros = optional_type(call, ZERO_POINTS) is not None
    return BlockFormat(parameters.bits, parameters.block, scales.element.bits // 8, zeros)


def lower_block_product(call: Call, hardware: Hardware) -> Parts:
    """Lower a product: one row per feature vector, tiles of rows and of output channels."""
    form, inner = form_of(call), call.parameters.inner
    ifm, ofm = input_type(call), call.outputs[0]
    units, rows, size = input_type(call, WEIGHTS).shape[0], ifm.elements // inner, ifm.element.bits // 8
    codes, array = not ifm.real, hardware.mac_array
    mode = block_mode(array, ifm.dtype, form)
    engine, least = engine_of(array), least_halvings(array, form) if codes else 0
    corner = mode.model_copy(
        update={"rows": mode.rows >> least, **({"dataflow": "weight_stationary"} if codes else {})}
    )
    common: dict[str, Any] = {
        "element": ELEMENTS.index(ifm.dtype),
        "ifm_row_stride": inner * size,
        "inner": inner,
        "weight_bits": BITS.index(form.bits),
        "block": form.block,
        "scale": int(form.scale_bytes == 4),
        "zero_points": int(form.zero_points),
    }
    if codes:
        low, high = act_range("none", ofm)
        zeros = quantization(ifm).zero_point, quantization(ofm).zero_point
        common |= {"ifm_zero": zeros[0], "ofm_zero": zeros[1], "low": low, "high": high}
    else:
        common["activation"] = ACTIVATIONS.index(call.parameters.activation)

    def emit(tile: Tile, at: TileAddresses) -> BlockProduct:
        columns = tile.channels // size
        ofm_address, ofm_row_stride, _ = at.outputs[0]
        layout = engine.fastest(corner, product(tile.rows, inner, columns))
        return BlockProduct(
            ifm=at.inputs[0],
            rows=tile.rows,
            weights=at.constants + parameter_bytes(form, inner, columns, codes),
            parameters=at.constants,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            columns=columns,
            **layout._replace(row_halvings=layout.row_halvings + least)._asdict(),
            **common,
        )

    def constant_bytes(first: int, last: int) -> int:
        columns = (last - first) // size
        return parameter_bytes(form, inner, columns, codes) + columns * form.weight_bytes(inner)

    def constants(first: int, last: int) -> Constants:
        return _constants(call, first // size, last // size, constant_bytes(first, last))

    # The array loads at most a row of weights a cycle, so narrower tiles would compute more slowly than they load.
    step = engine.width(array) if codes else float_columns(array, ifm.dtype)
    return (
        Work(
            rows=rows,
            channels=units * size,
            channel_step=step * size,
            inputs=((Rows(("in", 0), rows, inner * size), same_rows),),
            outputs=(Rows(("out", 0), rows, units * size),),
            constants=constants,
            constant_bytes=constant_bytes,
            emit=emit,
            last_resort=size,
            alike=alike(call, "block product", rows, inner, units, form),
        ),
    )


def _constants(call: Call, first: int, last: int, size_bytes: int) -> Constants:
    """Return the constants of channels [first, last), or only their size."""
    if any(data is SIZE_ONLY for data in call.constants.values()):
        return Constants(absent_bytes=size_bytes)
    bias = call.constants.get(BIAS)
    biases = np.zeros(last - first) if bias is None else np.asarray(bias).reshape(-1)[first:last]
    parts = [biases.astype("<f4")]
    if not input_type(call).real:
        scales = [quantization(kind).scale for kind in (input_type(call), call.outputs[0])]
        parts.append(np.array(scales, "<f4"))
    for position in (SCALES, ZERO_POINTS, WEIGHTS):
        data: Any = call.constants.get(position)
        if data is not None:
            parts.append(np.ascontiguousarray(data[first:last].astype(data.dtype.newbyteorder("<"))))
    return Constants(b"".join(part.tobytes() for part in parts))
