"""The output stage of the MAC array: what happens to a sum, the same for all tiles of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Rounding
from npusim.isa.base.tensor import SIZE_ONLY, TensorType
from npusim.kernels.lowering.work import Constants
from npusim.kernels.operator.activation import act_range
from npusim.kernels.operator.operands import input_type, quantization, weight_zero
from npusim.kernels.operator.operator import Call


@dataclass(frozen=True, slots=True)
class OutputStage:
    """What happens to an accumulator: bias, rescale, clamp. Arrays have one entry, or one per output channel.

    bias: one value per output channel; None where it is known by its size only.
    """

    bias: NDArray[np.int32] | None
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]
    low: int
    high: int
    rounding: Rounding

    @property
    def per_channel(self) -> bool:
        """Whether each channel has a scale of its own."""
        return len(self.multiplier) > 1

    def parameters(self, first: int, last: int) -> bytes:
        """The parameter block of channels [first, last), for a bias that is known."""
        assert self.bias is not None
        part = slice(first, last) if self.per_channel else slice(None)
        return b"".join(
            (
                self.bias[first:last].astype("<i4").tobytes(),
                self.multiplier[part].astype("<i4").tobytes(),
                self.shift[part].astype(np.int8).tobytes(),
            )
        )

    def constants(self, first: int, last: int) -> Constants:
        """That block, or its size, as constants of work whose weights are none."""
        if self.bias is None:
            return Constants(absent_bytes=self.parameter_bytes(first, last))
        return Constants(self.parameters(first, last))

    def parameter_bytes(self, first: int, last: int) -> int:
        """Bytes of that block."""
        return 9 * (last - first) if self.per_channel else 4 * (last - first) + 5


def output_stage(
    call: Call, multipliers: tuple[NDArray[np.int64], NDArray[np.int64]], rounding: Rounding
) -> OutputStage:
    """The output stage of a call with a bias as third input, or none; equal scales of all channels become one."""
    multiplier, shift = multipliers
    channels = call.outputs[0].shape[-1]
    bias = call.constants.get(2)
    values = np.zeros(channels, np.int32) if bias is None else None
    if bias is not None and bias is not SIZE_ONLY:
        values = bias.astype(np.int32).reshape(channels)
    if len(multiplier) > 1 and (multiplier == multiplier[0]).all() and (shift == shift[0]).all():
        multiplier, shift = multiplier[:1], shift[:1]
    low, high = act_range(call.parameters.activation, call.outputs[0])
    return OutputStage(values, multiplier.astype(np.int32), shift.astype(np.int8), low, high, rounding)


def _signed(tensor: TensorType) -> int:
    return int(tensor.dtype == "int8")


def common_fields(call: Call, stage: OutputStage) -> dict[str, Any]:
    """The fields that all tiles of a call share."""
    ifm, ofm, weights = input_type(call), call.outputs[0], input_type(call, 1)
    return {
        "ifm_zero": quantization(ifm).zero_point,
        "weight_zero": weight_zero(call),
        "ofm_zero": quantization(ofm).zero_point,
        "low": stage.low,
        "high": stage.high,
        "signed": _signed(ifm),
        "weights_signed": _signed(weights),
        "rounding": int(stage.rounding == "single"),
        "per_channel": int(stage.per_channel),
    }
