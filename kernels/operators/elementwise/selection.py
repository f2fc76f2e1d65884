"""What maximum and minimum share: two operands that broadcast, one of two elements kept."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, int16_lowering, lower_selection
from npusim.kernels.lowering.float_codes import literal_binary_lowering, literal_table_lowering
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.broadcast import NUMBERS
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import in_codes_of_output, keeps_codes, kept_in_32_bits, sound_scales


def _codes_alike(name: str) -> Lowering:
    """Of codes with one scale, which need not become reals to be compared."""
    rows = (rules.eight_bit, rules.same_codes, broadcast_on_npu)
    return Lowering("vector", rows, lambda call, hardware: lower_selection(call, name), (), ("float32",))


def selecting_operator(name: str, select: np.ufunc) -> Operator:
    """The operator that applies `select` (np.maximum or np.minimum) to codes or numbers as they are.

    By value, codes of other scales than the output's are brought to it first.
    """

    def reference(call: Call[ByValue], values: Values) -> list[Array]:
        first, second = (in_codes_of_output(call, i, input_value(values, i)) for i in (0, 1))
        return [np.asarray(select(first, second))]

    on_vector_unit = Lowering(
        "vector",
        (rules.eight_bit, broadcast_on_npu),
        lambda call, hardware: lower_selection(call, name, keeps_codes(call)),
    )
    return Operator(
        name=name,
        parameters=ByValue,
        types=alike("int8", "uint8", "int16", *NUMBERS),
        rules=(rules.operands(2), rules.per_tensor, rules.broadcast_shapes, sound_scales, kept_in_32_bits),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(
            on_vector_unit,
            int16_lowering(on_vector_unit.lower),
            real_binary_lowering(name[:3]),
            literal_table_lowering(reference),
            _codes_alike(name),
            literal_binary_lowering(name[:3]),
        ),
    )
