"""Options of windows in the schema of TensorFlow Lite."""

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
    """Return the padding of an image, by TFLite's definition of the two schemes.

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
    """Return the options that all windows have."""
    return {
        "Padding": PADDINGS[padding],
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FusedActivationFunction": ACTIVATIONS[activation],
    }


def dilation_fields(dilations: Pair) -> dict[str, int]:
    """Return the options of dilated windows."""
    return {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
