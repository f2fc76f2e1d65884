"""What the schema of TensorFlow Lite calls things: the options of windows."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.base.errors import GraphError
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import NO_BORDERS, Borders, Pair

# Values of the schema's enumerations ActivationFunctionType and Padding.
ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
PADDINGS = {"same": 0, "valid": 1}


def borders(
    size: Sequence[int], filter_size: Sequence[int], strides: Pair, padding: str, dilations: Pair = (1, 1)
) -> Borders:
    """What lies around an image, by TFLite's definition of the two paddings.

    Raises GraphError for a filter that does not fit.
    """
    if padding == "valid":
        spans = [(kernel - 1) * dilation for kernel, dilation in zip(filter_size, dilations, strict=True)]
        if any(span >= whole for span, whole in zip(spans, size, strict=True)):
            raise GraphError(
                f"a filter of {tuple(filter_size)} with dilations {dilations} does not fit into an input of "
                f"{tuple(size)} without padding; use padding 'same' or a smaller filter"
            )
        return NO_BORDERS
    rows, columns = (same_padding(*axis) for axis in zip(size, filter_size, strides, dilations, strict=True))
    return rows, columns


def window_fields(strides: Pair, padding: str, activation: str) -> dict[str, int]:
    """The options that all windows have."""
    return {
        "Padding": PADDINGS[padding],
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FusedActivationFunction": ACTIVATIONS[activation],
    }


def dilation_fields(dilations: Pair) -> dict[str, int]:
    """The options of windows with steps inside."""
    return {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
