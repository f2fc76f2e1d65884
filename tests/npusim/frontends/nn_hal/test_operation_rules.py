"""Parameters, sizes and quantization of operations: one legal call each, and what spoils it."""

from __future__ import annotations

import pytest

from npusim.frontends.nn_hal.enumerations import HalVersion
from npusim.frontends.nn_hal.operations import (
    along_axes,
    rearrangements,
    selections,
    sliding_windows,
)
from npusim.frontends.nn_hal.operations import (
    elementwise_rows as elements,
)
from npusim.frontends.nn_hal.operations import (
    reshape_rows as reshaping,
)
from tests.npusim.frontends.nn_hal.calls import BIAS, CALLS, CODES, FILTER, IMAGE, Value
from tests.npusim.frontends.nn_hal.single import Spec, fault, pairs, scalar, tensor, vector

SPOILED: tuple[tuple[str, int, Value, str], ...] = (
    # name, which operand (outputs count on), what it is instead, what the message says
    ("ADD", 1, tensor("F32", (4, 3)), "operations[0].inputs[1]: operands[1] (second) has dimensions [4, 3]"),
    ("ADD", 3, tensor("F32", (3, 4, 1)), "operations[0].outputs[0]: operands[3] (output)"),
    ("ADD", 0, tensor("F32", (1, 1, 3, 1, 2)), "first has 1 to 4 dimensions"),
    ("ADD", 2, 4, "operations[0].inputs[2]: operands[2] (activation) is 4; the fused activation is 0 (NONE)"),
    ("ADD int32", 2, 1, "the fused activation of TENSOR_INT32 is 0 (NONE)"),
    ("MUL", 3, tensor("Q8", (1, 4, 4, 2), 0.25), "is above that of first times that of second"),
    ("AVERAGE_POOL_2D", 1, -1, "(padding_left) is -1; padding_left"),
    ("AVERAGE_POOL_2D", 5, 0, "(stride_width) is 0; stride_width"),
    ("AVERAGE_POOL_2D", 8, 0, "(filter_height) is 0"),
    ("AVERAGE_POOL_2D", 10, tensor("Q8", (1, 1, 5, 2), 0.5, 4), "has scale 0.5 and zero point 4; quantized"),
    (
        "AVERAGE_POOL_2D",
        10,
        tensor("Q8", (1, 5, 1, 2), 0.5, 3),
        "has dimensions [1, 5, 1, 2], [1, 1, 5, 2] by",
    ),
    ("CONV_2D", 0, tensor("Q8", (1, 4, 4, 3)), "[?, depth, ?, ?] if nchw), depth as filter has it"),
    ("CONV_2D", 0, tensor("Q8", (4, 4, 2)), "input has dimensions [?, ?, ?, depth]"),
    ("CONV_2D", 2, tensor("I32", (2,), 0.125), "bias has dimensions [filters], filters as filter has it"),
    ("CONV_2D", 2, tensor("I32", (3,), 0.1251), "(bias) has scale 0.125100002 and zero point 0"),
    ("CONV_2D", 3, 3, "the implicit padding scheme is 0 (none), 1 (SAME) or 2 (VALID)"),
    ("CONV_2D", 7, tensor("Q8", (1, 2, 2, 4), 1.0), "output has dimensions [?, ?, ?, filters]"),
    ("CONV_2D", 7, tensor("Q8", (1, 2, 3, 3), 1.0), "outputs[0]: operands[7] (output) has dimensions"),
    ("CONV_2D channels", 2, BIAS, "or 0 with a scale per channel"),
    (
        "CONV_2D channels",
        1,
        tensor("Q8C", (3, 2, 2, 2), channels=((0.5, 1.0), 1)),
        "the channelDim of a per-channel filter is 0",
    ),
    ("CONV_2D dilated", 11, 0, "(dilation_width) is 0"),
    ("DEPTHWISE_CONV_2D", 1, tensor("Q8", (2, 2, 2, 4), 0.25), "filter has dimensions [1, ?, ?, filters]"),
    (
        "DEPTHWISE_CONV_2D",
        6,
        3,
        "(filter) has dimensions [1, 2, 2, 4]; filter has dimensions [1, ?, ?, multiplier*depth]",
    ),
    ("DEPTHWISE_CONV_2D", 6, 0, "multiplier is 1 or more"),
    ("GROUPED_CONV_2D", 6, 1, "input has dimensions [?, ?, ?, groups*depth]"),
    ("GROUPED_CONV_2D", 6, 0, "groups are 1 or more"),
    ("TRANSPOSE_CONV_2D", 3, vector(1, 8, 8), "output_shape has a size above 0 per dimension"),
    ("TRANSPOSE_CONV_2D", 3, vector(1, 8, 8, 2), "a channel per filter"),
    ("TRANSPOSE_CONV_2D", 3, vector(1, 7, 8, 3), "has dimensions [1, 8, 8, 3], [1, 7, 8, 3] by its operands"),
    ("FULLY_CONNECTED", 1, tensor("Q8", (3, 7), 0.25), "vectors as long as dimension 1 of the weights"),
    ("FULLY_CONNECTED", 4, tensor("Q8", (4, 2), 1.0), "the number of units"),
    ("BATCH_MATMUL", 3, False, "fit as those of matrices"),
    ("BATCH_MATMUL", 1, tensor("F32", (3, 5, 4)), "in front of the last two are equal or 1"),
    ("CONCATENATION", 2, 4, "axis is in [0, n) for the n dimensions of inputs"),
    ("CONCATENATION", 2, -1, "axis is in [0, n) for the n dimensions of inputs"),
    ("CONCATENATION", 1, tensor("F32", (1, 4, 3, 1)), "equal dimensions but along axis"),
    ("CONCATENATION", 3, tensor("F32", (1, 4, 4, 4)), "operands[3] (output) has dimensions [1, 4, 4, 4]"),
    ("PACK", 0, 3, "axis is in [0, n + 1)"),
    ("PACK", 2, tensor("Q8", (3, 2)), "inputs have equal dimensions"),
    ("PACK", 2, tensor("Q8", (2, 3), 0.25), "inputs has the scale and zero point of output"),
    ("SPLIT", 2, 3, "count is the number of outputs"),
    ("SPLIT", 1, 2, "axis is in [-n, n)"),
    ("SPLIT", 0, tensor("Q8", (2, 3)), "is divisible by the number of outputs"),
    ("SPLIT", 4, tensor("Q8", (2, 2), 2.0), "quantized, output has the scale and zero point of input"),
    ("RESHAPE", 1, vector(-1, -1), "at most one is -1"),
    ("RESHAPE", 1, vector(4, 9), "shape has the number of elements of the input"),
    ("RESHAPE", 2, tensor("F32", (8, 4)), "has dimensions [8, 4], [4, 8] by its operands"),
    ("SQUEEZE", 1, vector(1), "the dimensions at axes are 1"),
    ("SQUEEZE", 1, vector(3), "axes are in [-n, n)"),
    ("EXPAND_DIMS", 1, 3, "axis is in [-(n + 1), n + 1)"),
    ("TRANSPOSE", 1, vector(0, 0), "permutation has each of 0 to n - 1 once"),
    ("TRANSPOSE", 1, vector(0, 1, 2), "permutation has each of 0 to n - 1 once"),
    ("FILL", 0, vector(2, -3), "the values of sizes are 0 or more"),
    ("PAD", 1, pairs((0, 1), (-2, 0)), "the values of paddings are 0 or more"),
    ("PAD", 1, pairs((0, 1)), "paddings has dimensions [n, 2] for the n dimensions of input"),
    ("PAD", 2, tensor("F32", (2, 5)), "are those of input with the paddings"),
    ("PAD_V2", 2, 256, "is one of its codes"),
    ("MIRROR_PAD", 1, pairs((3, 1)), "less than the dimension (mode 0, reflect)"),
    ("MIRROR_PAD", 2, 2, "mode is 0 (reflect) or 1 (symmetric)"),
    ("DEPTH_TO_SPACE", 1, 0, "block_size is 1 or more"),
    ("DEPTH_TO_SPACE", 0, tensor("Q8", (1, 2, 2, 6)), "divisible by the block size squared"),
    ("SPACE_TO_DEPTH", 0, tensor("Q8", (1, 2, 3, 4)), "height and width of the input are divisible"),
    ("BATCH_TO_SPACE_ND", 1, vector(2, 0), "the values of block_shape are 1 or more"),
    ("BATCH_TO_SPACE_ND", 1, vector(2, 2, 2), "block_shape has dimensions [2]"),
    ("BATCH_TO_SPACE_ND", 0, tensor("F32", (6, 1, 1, 2)), "divisible by the number of pixels of a block"),
    ("SPACE_TO_BATCH_ND", 2, pairs((0, 0), (0, 0)), "with the paddings are divisible by the block"),
    ("SLICE", 1, vector(1, -1), "a slice begins at 0 or behind"),
    ("SLICE", 2, vector(4, 3), "leaves it inside the input"),
    ("SLICE", 2, vector(2), "size has one dimension, with an element per dimension of input"),
    ("STRIDED_SLICE", 3, vector(-2, 0), "strides are not 0"),
    ("STRIDED_SLICE", 3, vector(-2, -1), "a dimension that is shrunk away has a positive stride"),
    ("STRIDED_SLICE", 2, vector(-5, 2), "a slice of one element"),
    ("STRIDED_SLICE", 7, tensor("F32", (3,)), "has dimensions [3], [2] by its operands"),
    ("TILE", 1, vector(2, 1, 1), "multiples has one dimension"),
    ("TILE", 1, vector(2, -1), "the values of multiples are 0 or more"),
    ("REVERSE", 1, vector(0, 1), "axis has dimensions [1]"),
    ("REVERSE", 1, vector(2), "axis are in [-n, n)"),
    ("CHANNEL_SHUFFLE", 1, 4, "is divisible by groups"),
    ("GATHER", 2, vector(3), "indices are in [0, s)"),
    ("EMBEDDING_LOOKUP", 0, vector(3, 0), "lookups are in [0, s)"),
    ("HASHTABLE_LOOKUP", 1, vector(1, 7, 5), "keys ascend"),
    ("HASHTABLE_LOOKUP", 1, vector(1, 5), "values has a row for each element of keys"),
    ("HASHTABLE_LOOKUP", 4, tensor("Q8", (2,), 1.0, 1), "hits has as TENSOR_QUANT8_ASYMM scale 1"),
    ("MEAN", 1, vector(2), "axes are in [-n, n)"),
    ("REDUCE_MAX", 3, tensor("Q8", (1,), 2.0), "quantized, output has the scale and zero point of input"),
    ("ARGMAX", 1, 1, "axis is in [-n, n)"),
    ("TOPK_V2", 1, 4, "k is not more than the last dimension of input"),
    ("TOPK_V2", 1, 0, "k is 1 or more"),
    ("SOFTMAX", 1, 0.0, "beta is above 0"),
    ("SOFTMAX", 2, -3, "axis is in [-n, n)"),
    ("SOFTMAX", 3, tensor("Q8", (2, 3), 1 / 128), "has scale 0.0078125 and zero point 0; output has as"),
    ("SOFTMAX", 3, tensor("Q8", (3, 2), 1 / 256), "output has the dimensions of input"),
    ("LOG_SOFTMAX", 1, -1.0, "beta is above 0"),
    ("L2_NORMALIZATION", 1, tensor("Q8S", (2, 3), 1 / 128, 1), "output has as TENSOR_QUANT8_ASYMM scale"),
    ("LOCAL_RESPONSE_NORMALIZATION", 2, 0.0, "bias is not 0"),
    ("LOCAL_RESPONSE_NORMALIZATION", 1, -1, "radius is 0 or more"),
    ("INSTANCE_NORMALIZATION", 0, tensor("F32", (4, 2)), "input has 4 dimensions"),
    ("RESIZE_BILINEAR", 4, True, "align_corners and half_pixel_centers are not both true"),
    ("RESIZE_BILINEAR", 1, 0, "(width) is 0"),
    ("RESIZE_NEAREST_NEIGHBOR", 2, -1.0, "(height_scale) is -1.0"),
    ("LOGISTIC", 1, tensor("Q8S", (2,), 1 / 256), "output has as TENSOR_QUANT8_ASYMM scale 0.00390625"),
    ("TANH", 1, tensor("Q8", (2,), 1 / 128), "zero point 128"),
    ("RELU", 1, tensor("Q8", (1, 4, 4, 2), 0.25, 3), "quantized, output has the scale"),
    ("CAST", 1, tensor("I32", (3,)), "output has the dimensions of input"),
    ("SELECT", 0, tensor("B8", (1,)), "first, second and output have the dimensions of condition"),
    ("EQUAL", 1, tensor("B8", (3, 2)), "(second) has dimensions"),
    ("PRELU", 1, tensor("Q8", (3,)), "(alpha) has dimensions [3]"),
)


def test_no_operation_is_left_out() -> None:
    """Sequences and detection have calls of their own."""
    modules = (along_axes, elements, rearrangements, reshaping, selections, sliding_windows)
    elsewhere = {"LSH_PROJECTION", "RANDOM_MULTINOMIAL", "IF", "WHILE", "OEM_OPERATION"}
    names = {row.type.name for family in modules for row in family.ROWS}
    assert {name.split()[0] for name in CALLS} == names - elsewhere


@pytest.mark.parametrize("name", CALLS)
def test_legal(name: str) -> None:
    assert fault(name.split()[0], *CALLS[name]) == ""


@pytest.mark.parametrize(("name", "position", "other", "said"), SPOILED)
def test_spoiled(name: str, position: int, other: Value, said: str) -> None:
    inputs, outputs = CALLS[name]
    operands = [*inputs, *outputs]
    operands[position] = other
    message = fault(name.split()[0], operands[: len(inputs)], operands[len(inputs) :])
    assert said in message
    assert message.startswith("operations[0]")


def test_what_is_left_open_is_not_refused() -> None:
    """A batch and a layout that only the request says."""
    layout = Spec(scalar(True).type)
    open_image = tensor("F32", (0, 0, 4, 0))
    operands = [open_image, tensor("F32", (3, 2, 2, 2)), tensor("F32", (3,)), 2, 1, 1, 0, layout]
    assert fault("CONV_2D", operands, [tensor("F32", (0, 0, 0, 0))]) == ""


def test_known_sizes_count_beside_open_ones() -> None:
    open_batch = tensor("F32", (0, 4, 4, 3))
    operands = [open_batch, tensor("F32", (3, 2, 2, 2)), tensor("F32", (3,)), 2, 1, 1, 0]
    message = fault("CONV_2D", operands, [tensor("F32", (0, 3, 3, 3))])
    assert message == (
        "operations[0].inputs[0]: operands[0] (input) has dimensions [?, 4, 4, 3]; input has dimensions "
        "[?, ?, ?, depth] ([?, depth, ?, ?] if nchw), depth as filter has it"
    )


def test_only_optional_arguments_may_be_omitted() -> None:
    omitted = Spec(scalar(1).type, omitted=True)
    message = fault("ARGMAX", [tensor("F32", (3,)), omitted], [tensor("I32", (1,))])
    assert (
        message == "operations[0].inputs[1]: operands[1] (axis) has no value, which this argument must have"
    )
    assert fault("SOFTMAX", [tensor("F32", (3,)), 1.0, omitted], [tensor("F32", (3,))]) == ""


@pytest.mark.parametrize(
    ("operation", "inputs", "output", "version", "said"),
    [
        ("CONCATENATION", [CODES, CODES, 3], tensor("Q8", (1, 4, 4, 4), 1.0), HalVersion.V1_1, "before V1_2"),
        ("CONCATENATION", [CODES, CODES, 3], tensor("Q8", (1, 4, 4, 4), 1.0), HalVersion.V1_2, ""),
        (
            "CONV_2D",
            [CODES, FILTER, BIAS, 1, 2, 2, 0],
            tensor("Q8", (1, 2, 2, 3), 0.125),
            HalVersion.V1_1,
            "is above that of input times that of filter",
        ),
        (
            "CONV_2D",
            [CODES, FILTER, BIAS, 1, 2, 2, 0],
            tensor("Q8", (1, 2, 2, 3), 0.125),
            HalVersion.V1_2,
            "",
        ),
        ("SOFTMAX", [tensor("F32", (3,)), 1.0], tensor("F32", (3,)), HalVersion.V1_1, "2 or 4 dimensions"),
        ("RELU", [tensor("F16", (3,))], tensor("F16", (3,)), HalVersion.V1_2, ""),
        ("RESIZE_BILINEAR", [IMAGE, 0.5, 0.5], tensor("F32", (1, 2, 2, 2)), HalVersion.V1_1, "is FLOAT32"),
        ("RESIZE_BILINEAR", [IMAGE, 0.5, 0.5], tensor("F32", (1, 2, 2, 2)), HalVersion.V1_2, ""),
    ],
)
def test_versions_differ(
    operation: str, inputs: list[Value], output: Spec, version: HalVersion, said: str
) -> None:
    message = fault(operation, inputs, [output], version=version)
    assert said in message if said else not message
