"""What calls of operations become: operators, their parameters and operands."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.frontends.nn_hal.fault import Refused
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.operations.graph_parts import GraphParts, unsupported
from npusim.frontends.nn_hal.operations.named_arguments import Known, Needs
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.graph import UNKNOWN, Graph
from npusim.kernels.operators.convolution import conv_2d, depthwise_conv_2d, transpose_conv
from npusim.kernels.operators.movement.joining import SplitParameters
from npusim.kernels.operators.movement.padding import PadParameters
from npusim.kernels.operators.movement.permuting import TransposeParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.movement.slicing import StridedSliceParameters
from npusim.kernels.operators.pooling.window_pools import AveragePool2dParameters
from npusim.kernels.operators.resize.grid_resize import ResizeNearestNeighborParameters
from tests.npusim.frontends.nn_hal.single import NOTHING, Spec, graph, model, pairs, scalar, tensor, vector

IMAGE = tensor("F32", (1, 5, 7, 2))
FILTER, BIAS = tensor("F32", (3, 2, 3, 2)), tensor("F32", (3,))


def ops(made: Graph) -> list[str]:
    return [node.op for node in made.nodes]


def test_windows_are_height_before_width() -> None:
    """left, right, top, bottom, stride width, stride height, filter width, filter height."""
    made = graph("AVERAGE_POOL_2D", [IMAGE, 1, 2, 0, 1, 3, 2, 4, 2, 1], [tensor("F32", (1, 3, 3, 2))])
    assert made.nodes[0].parameters == AveragePool2dParameters(
        filter=(2, 4), strides=(2, 3), padding=((0, 1), (1, 2)), activation="relu"
    )


def test_same_padding_is_what_the_window_needs() -> None:
    made = graph("CONV_2D", [IMAGE, FILTER, BIAS, 1, 3, 2, 2], [tensor("F32", (1, 3, 3, 3))])
    assert made.nodes[0].parameters == conv_2d.Parameters(
        strides=(2, 3), padding=((0, 1), (1, 1)), activation="relu_n1_to_1"
    )


def test_dilation_is_width_before_height() -> None:
    made = graph("CONV_2D", [IMAGE, FILTER, BIAS, 2, 1, 1, 3, False, 1, 3], [tensor("F32", (1, 2, 5, 3))])
    assert made.nodes[0].parameters == conv_2d.Parameters(dilations=(3, 1), activation="relu6")


def test_channels_first_is_turned_on_both_sides() -> None:
    """The filter stays as it is."""
    stored = tensor("F32", (1, 2, 5, 7))
    made = graph("CONV_2D", [stored, FILTER, BIAS, 2, 1, 1, 0, True], [tensor("F32", (1, 3, 4, 5))])
    assert ops(made) == ["transpose", "conv_2d", "transpose"]
    first, last = made.nodes[0].parameters, made.nodes[2].parameters
    assert (first, last) == (TransposeParameters(perm=(0, 2, 3, 1)), TransposeParameters(perm=(0, 3, 1, 2)))
    assert made.tensors[made.outputs[0]].type.shape == (1, 3, 4, 5)


def test_filters_and_biases_may_be_inputs() -> None:
    made = graph("CONV_2D", [IMAGE, FILTER, BIAS, 2, 1, 1, 0], [tensor("F32", (1, 4, 5, 3))])
    assert list(made.nodes[0].inputs) == list(made.inputs)


def test_depthwise_takes_the_multiplier() -> None:
    filters, bias = tensor("F32", (1, 2, 3, 6)), tensor("F32", (6,))
    made = graph("DEPTHWISE_CONV_2D", [IMAGE, filters, bias, 2, 1, 1, 3, 0], [tensor("F32", (1, 4, 5, 6))])
    assert made.nodes[0].parameters == depthwise_conv_2d.Parameters(depth_multiplier=3)


def test_transposed_convolution_of_a_given_size() -> None:
    """SAME: (5 - 1) * 2 + 2 - 10 = 0 rows and (7 - 1) * 1 + 3 - 7 = 2 columns of padding."""
    operands = [IMAGE, FILTER, BIAS, vector(1, 10, 7, 3), 1, 1, 2, 0, False]
    made = graph("TRANSPOSE_CONV_2D", operands, [tensor("F32", (1, 10, 7, 3))])
    assert made.nodes[0].parameters == transpose_conv.Parameters(
        strides=(2, 1), padding=((0, 0), (1, 1)), size=(10, 7)
    )


def test_types_and_scales_of_tensors() -> None:
    channels = tensor("Q8C", (3, 2, 2, 2), channels=((0.5, 0.25, 1.0), 0))
    operands = [tensor("Q8S", (1, 2, 2, 2), 0.5, -3), channels, tensor("I32", (3,)), 2, 1, 1, 0]
    made = graph("CONV_2D", operands, [tensor("Q8S", (1, 1, 1, 3), 2.0, 7)])
    assert [made.tensors[number].type for number in (*made.inputs, *made.outputs)] == [
        TensorType("int8", (1, 2, 2, 2), Quantization((0.5,), (-3,))),
        TensorType("int8", (3, 2, 2, 2), Quantization((0.5, 0.25, 1.0), (0, 0, 0), 0)),
        TensorType("int32", (3,)),
        TensorType("int8", (1, 1, 1, 3), Quantization((2.0,), (7,))),
    ]


def test_strided_slices_are_resolved() -> None:
    """Begin 3 by -2 down to the first of 4; all of 5 by the masks; element 2 of 6 without its dimension."""
    operands = [
        *(tensor("F32", (4, 5, 6)), vector(3, 9, 2), vector(-9, 0, 3), vector(-2, 2, 1)),
        *(0b010, 0b010, 0b100),
    ]
    made = graph("STRIDED_SLICE", operands, [tensor("F32", (2, 3))])
    assert made.nodes[0].parameters == StridedSliceParameters(
        begin=(3, 0, 2), size=(2, 3, 1), strides=(-2, 2, 1), shape=(2, 3)
    )


def test_shrinking_everything_leaves_one_dimension() -> None:
    operands = [tensor("F32", (4,)), vector(-1), vector(4), vector(1), 0, 0, 1]
    assert graph("STRIDED_SLICE", operands, [tensor("F32", (1,))]).nodes[
        0
    ].parameters == StridedSliceParameters(begin=(3,), size=(1,), strides=(1,), shape=(1,))


@pytest.mark.parametrize(
    ("axes", "shape"),
    [(NOTHING, (3,)), (vector(0), (3, 1)), (vector(-1), (1, 3))],
    ids=["all", "first", "last"],
)
def test_squeeze(axes: Spec, shape: tuple[int, ...]) -> None:
    made = graph("SQUEEZE", [tensor("F32", (1, 3, 1)), axes], [tensor("F32", shape)])
    assert made.nodes[0].parameters == ReshapeParameters(shape=shape)


def test_nothing_left_is_one_element() -> None:
    made = graph("SQUEEZE", [tensor("F32", (1, 1)), NOTHING], [tensor("F32", (1,))])
    assert made.nodes[0].parameters == ReshapeParameters(shape=(1,))
    made = graph("MEAN", [tensor("F32", (2, 3)), vector(0, -1, 1), 0], [tensor("F32", (1,))])
    assert ops(made) == ["mean", "reshape"]


def test_an_omitted_permutation_turns_round() -> None:
    made = graph("TRANSPOSE", [tensor("F32", (2, 3, 4)), NOTHING], [tensor("F32", (4, 3, 2))])
    assert made.nodes[0].parameters == TransposeParameters(perm=(2, 1, 0))


def test_split_is_of_equal_parts() -> None:
    made = graph("SPLIT", [tensor("F32", (2, 6)), -1, 2], [tensor("F32", (2, 3))] * 2)
    assert made.nodes[0].parameters == SplitParameters(axis=1, sizes=(3, 3))


def test_padding_with_a_code() -> None:
    made = graph("PAD_V2", [tensor("Q8", (2,)), pairs((1, 2)), 9], [tensor("Q8", (5,))])
    assert made.nodes[0].parameters == PadParameters(paddings=((1, 2),), pad_value=9)


def test_resize_by_scales_rounds_down() -> None:
    """Width comes first: 7 * 0.5 and 5 * 1.5 without their fractions."""
    made = graph("RESIZE_NEAREST_NEIGHBOR", [IMAGE, 0.5, 1.5, False], [tensor("F32", (1, 7, 3, 2))])
    assert made.nodes[0].parameters == ResizeNearestNeighborParameters(size=(7, 3))


def test_the_rank_is_a_constant() -> None:
    made = graph("RANK", [tensor("F32", (2, 3, 4))], [Spec(scalar(1).type)])
    assert not made.nodes
    assert made.tensors[made.outputs[0]].array == np.int32(3)


def test_values_of_inputs_that_decide_are_asked_for() -> None:
    operands = [tensor("F32", (4, 5)), tensor("I32", (2,)), vector(2, 3)]
    checked = check_model(model("SLICE", operands, [tensor("F32", (2, 3))]))
    assert isinstance(checked, CheckedModel)
    parts = GraphParts("test", Known(checked.main), checked.version)
    with pytest.raises(Needs) as needs:
        parts.add(checked.main.operations[0])
    assert needs.value.operand == 1
    assert not parts.builder.tensors, "nothing of the failed call is left"
    made = graph("SLICE", operands, [tensor("F32", (2, 3))], values={1: [1, 2]})
    assert len(made.inputs) == 1, "what decides is no input of the graph"
    with pytest.raises(Refused, match=r"operations\[0\].inputs\[2\]: operands\[2\] \(size\) is \[2, 3\]"):
        graph("SLICE", operands, [tensor("F32", (2, 3))], values={1: [3, 2]})


def test_sizes_are_known_from_the_operands() -> None:
    """The batch of the request, of the result too."""
    open_image = tensor("F32", (0, 5, 7, 2))
    checked = check_model(
        model("CONV_2D", [open_image, FILTER, BIAS, 2, 1, 1, 0], [tensor("F32", (0, 0, 0, 3))])
    )
    assert isinstance(checked, CheckedModel)
    known = Known(checked.main)
    known.shapes[0] = (4, 5, 7, 2)
    parts = GraphParts("test", known, checked.version)
    (operation,) = checked.main.operations
    parts.add(operation)
    assert known.shape(operation.outputs[0]) == (4, 4, 5, 3)
    assert UNKNOWN not in parts.builder.shape(parts.tensor(operation.outputs[0]))


def test_what_nobody_computes_is_refused_as_such() -> None:
    checked = check_model(model("OEM_OPERATION", [IMAGE], [IMAGE]))
    assert isinstance(checked, CheckedModel)
    parts = GraphParts("test", Known(checked.main), checked.version)
    with pytest.raises(Refused) as refused:
        parts.add(checked.main.operations[0])
    assert refused.value.fault.status is ErrorStatus.GENERAL_FAILURE
    unsupported = [entry.type.name for entry in OPERATIONS if not (entry.op or entry.convert)]
    assert unsupported == ["IF", "WHILE"]


def test_a_legal_call_that_no_operator_takes_is_not_supported() -> None:
    """Parameters are finite here."""
    checked = check_model(
        model("PAD_V2", [tensor("F32", (2,)), pairs((0, 1)), float("inf")], [tensor("F32", (3,))])
    )
    assert isinstance(checked, CheckedModel)
    (fault,) = unsupported(checked, checked.main).values()
    assert fault.status is ErrorStatus.GENERAL_FAILURE
    assert fault.message == "operations[0]: PAD_V2: pad_value: inf is not a finite number"


@pytest.mark.parametrize("operation", ["MAXIMUM", "SELECT"])
def test_codes_are_chosen_on_the_scale_of_the_output(operation: str) -> None:
    codes, other = tensor("Q8", (2,), 0.5), tensor("Q8", (2,), 0.25)
    operands = [codes, other] if operation == "MAXIMUM" else [tensor("B8", (2,)), codes, other]
    made = graph(operation, operands, [codes])
    assert ops(made) == [operation.lower()]
    assert made.nodes[0].parameters.by_value


def test_casts_to_codes_stay_inside_them() -> None:
    made = graph("CAST", [tensor("I32", (2,))], [tensor("Q8", (2,))])
    assert ops(made) == ["cast"]
    assert made.nodes[0].parameters.saturating


def test_codes_are_compared_by_what_they_mean() -> None:
    made = graph("EQUAL", [tensor("Q8", (2,), 0.5), tensor("Q8", (2,), 0.25)], [tensor("B8", (2,))])
    assert made.nodes[0].parameters.by_value
