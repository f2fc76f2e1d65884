"""Rules that several operators share.

Rules are checked in order and the first broken one is reported, so a rule may rely on those before it.
"""

from __future__ import annotations

from collections.abc import Callable

from npusim.kernels.operator.operands import broadcast, input_type
from npusim.kernels.operator.operator import Call, Rule, Shapes


def operands(inputs: int, outputs: int = 1) -> Rule:
    """Return the rule that a call has exactly these numbers of inputs, all present, and outputs."""

    def rule(call: Call) -> bool:
        present = len(call.inputs) == inputs and None not in call.inputs
        return present and len(call.outputs) == outputs

    rule.__doc__ = f"takes {_count(inputs, 'input')} and gives {_count(outputs, 'output')}"
    return rule


def several_inputs(call: Call) -> bool:
    """takes 1 input or more, none absent, and gives 1 output"""
    return len(call.inputs) > 0 and None not in call.inputs and len(call.outputs) == 1


def several_outputs(call: Call) -> bool:
    """takes 1 input and gives 1 output or more"""
    return len(call.inputs) == 1 and call.inputs[0] is not None and len(call.outputs) > 0


def inferred(infer: Callable[[Call], Shapes], words: str) -> Rule:
    """Return the rule that the outputs have the shapes that `infer` gives; `words` says which shapes these are."""

    def rule(call: Call) -> bool:
        return infer(call) == call.output_shapes

    rule.__doc__ = words
    return rule


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def per_tensor(call: Call) -> bool:
    """every 8-bit operand has one scale and zero point"""
    tensors = [tensor for tensor in (*call.inputs, *call.outputs) if tensor is not None]
    eight_bit = [tensor for tensor in tensors if tensor.element.codes and tensor.element.bits == 8]
    return all(tensor.quantization is not None and tensor.quantization.axis is None for tensor in eight_bit)


def wide_codes_scaled(call: Call) -> bool:
    """every int16 operand has one scale and zero point"""
    tensors = [tensor for tensor in (*call.inputs, *call.outputs) if tensor is not None]
    wide = [tensor for tensor in tensors if tensor.dtype == "int16"]
    return all(tensor.quantization is not None and tensor.quantization.axis is None for tensor in wide)


def symmetric(call: Call) -> bool:
    """the zero points of int16 tensors are 0"""
    wide = [kind for kind in (*call.inputs, *call.outputs) if kind is not None and kind.dtype == "int16"]
    return all(kind.quantization is None or not any(kind.quantization.zero_points) for kind in wide)


def all_int16(call: Call) -> bool:
    """on the NPU int16 tensors have zero point 0"""
    kinds = {kind.dtype for kind in (*call.inputs, *call.outputs) if kind is not None}
    return kinds == {"int16"} and symmetric(call)


def same_shape(call: Call) -> bool:
    """input and output have one shape"""
    return input_type(call).shape == call.outputs[0].shape


def broadcast_shapes(call: Call) -> bool:
    """the shapes of the two inputs broadcast to that of the output"""
    try:
        return broadcast(call) == (call.outputs[0].shape,)
    except ValueError:
        return False


def same_quantization(call: Call) -> bool:
    """inputs and outputs have one scale and zero point"""
    first = input_type(call).quantization
    return all(tensor is None or tensor.quantization == first for tensor in (*call.inputs, *call.outputs))


def same_codes(call: Call) -> bool:
    """inputs and outputs have one element type, scale and zero point"""
    kinds = {(kind.dtype, kind.quantization) for kind in (*call.inputs, *call.outputs) if kind is not None}
    return len(kinds) == 1


def eight_bit(call: Call) -> bool:
    """the NPU computes on int8 and uint8 tensors with one scale and zero point"""
    return all(tensor is not None and tensor.quantized8 for tensor in call.inputs) and per_tensor(call)


def eight_bit_output(call: Call) -> bool:
    """the NPU gives int8 and uint8 tensors with one scale and zero point"""
    return all(tensor.quantized8 for tensor in call.outputs)
