"""Values that follow from shapes, in models that are cut into pieces: whoever needs them has them as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim.nnadapter as nna

PARTITIONS: list[Any] = ["order", "cost", "shape\nfill\nabs", "gather\nrelu"]


def model() -> nna.Model:
    """Codes for the NPU, sums that the host does, and a SHAPE whose readers are everywhere."""
    m = nna.Model()
    x = m.add_operand(nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, [2, 6, 4], scale=0.1))
    positive = m.relu(x)
    shape = m.shape(positive)
    sums = m.cum_sum(m.dequantize(positive), 1)
    turned = m.gather(shape, m.add_constant([2, 0, 1]), 0)
    codes = m.quantize(m.reshape(sums, turned), 0, np.float32([0.1]), np.int32([0]))
    rows = m.gather(shape, m.add_constant([0]), 0)
    m.identify([x], [m.tile(m.abs(codes), m.fill([3], rows)), turned])
    m.finish()
    return m


@pytest.mark.parametrize(
    "devices", [["npusim"], ["npusim_host"], ["npusim", "npusim_host"], ["edge-32", "edge-64", "npusim_host"]]
)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_values_reach_every_piece(devices: list[str], partition: str) -> None:
    forced = partition not in ("order", "cost")
    context = nna.Context([nna.Device.acquire(name) for name in devices])
    compilation = nna.Compilation(
        model(), context, partition=nna.Partition.parse(partition) if forced else partition
    )
    compilation.finish()
    execution = nna.Execution(compilation)
    value = np.random.default_rng(0).integers(-9, 9, (2, 6, 4)).astype(np.int8)
    execution.set_input(0, value)
    result = execution.compute()
    sums = np.cumsum(np.maximum(value, 0), 1).reshape(4, 2, 6).astype(np.int8)
    np.testing.assert_array_equal(result.outputs[0], np.tile(sums, (2, 2, 2)))
    np.testing.assert_array_equal(result.outputs[1], [4, 2, 6])
    between = sum(boundary.cycles for boundary in result.boundaries)
    assert sum(piece.cycles or 0 for piece in result.pieces) + between == result.cycles
