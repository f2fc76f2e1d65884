"""random_multinomial: samples of classes, from the logarithms of their probabilities.

Inputs: logarithms [batch, classes], not normalized, and two int32 seeds. Output: int32 classes [batch, samples]. The
numbers come from Philox 4x64 with 10 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011),
numpy's, whose stream of raw words is the same in every version: its key is the two seeds, the words follow each other
row by row, and of each the highest 53 bits are a number of [0, 1), which the cumulated probabilities make a class.
Equal seeds give equal samples; two zeros are seeds like any other.
"""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size

_LOGARITHMS, _SEEDS = range(2)
_OPERATIONS_PER_CLASS = 3  # a difference, an exponential, a sum
_OPERATIONS_PER_SAMPLE = 20  # ten rounds of two products, for four words


class Parameters(parameters.Parameters):
    """samples: how many are drawn per row."""

    samples: Size


def _infer(call: Call[Parameters]) -> Shapes:
    return ((input_type(call).shape[0], call.parameters.samples),)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    with np.errstate(invalid="ignore"):
        return [_sampled(call, values)]


def _sampled(call: Call[Parameters], values: Values) -> Array:
    logarithms = input_value(values, _LOGARITHMS).astype(np.float64)
    batch, samples = _infer(call)[0]
    seeds = input_value(values, _SEEDS).astype(np.int64) & 0xFFFFFFFF
    words = np.random.Philox(key=int(seeds[0]) | int(seeds[1]) << 64).random_raw(batch * samples)
    numbers = ((words >> np.uint64(11)) * 2.0**-53).reshape(batch, samples)
    classes = np.zeros((batch, samples), np.int32)
    for row in range(batch):
        sums = np.cumsum(np.exp(logarithms[row] - logarithms[row].max()))
        places = np.searchsorted(sums, numbers[row] * sums[-1], side="right")
        classes[row] = np.minimum(places, len(sums) - 1)
    return classes


def _workload(call: Call[Parameters]) -> Workload:
    batch, classes = input_type(call).shape
    search = max(classes - 1, 1).bit_length()
    drawn = batch * call.parameters.samples * (_OPERATIONS_PER_SAMPLE + search)
    return elementwise(call, batch * classes * _OPERATIONS_PER_CLASS + drawn)


def _shapes(call: Call[Parameters]) -> bool:
    """logarithms are [batch, 1 or more classes], there are two seeds, and the output is [batch, samples]"""
    shape = input_type(call).shape
    if len(shape) != 2 or shape[1] == 0 or input_type(call, _SEEDS).shape != (2,):
        return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="random_multinomial",
    parameters=Parameters,
    types=("float32|float16, int32 -> int32",),
    rules=(rules.operands(2), _shapes),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the NPU draws no random numbers",
)
