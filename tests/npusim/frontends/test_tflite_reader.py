"""Reading TFLite files: against what LiteRT says of the same files, and against files made field by field."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from npusim.frontends import frontend as formats
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.operators import OPERATORS
from npusim.isa.base.errors import FormatError, GraphError, NpusimError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.parameters import Unchecked
from npusim.models.writer import ModelWriter

sys.path.insert(0, str(Path(__file__).parent))
from tflite_builder import Builder, Table, int32, serialize, small_model, table

REFERENCE = Path(__file__).resolve().parents[4] / "shared"
# Without the folder one case, which skips and says why.
MODELS = sorted(path.stem for path in REFERENCE.glob("golden/*.json")) or ["no model"]
CASES = sorted(path.stem for path in REFERENCE.glob("ops_litert_ref/*.npz")) or ["no case"]


def said(node: Node) -> dict[str, Any]:
    """The parameters of a node by name, those with their default included, as plain values; all rescale as TFLite."""
    values = node.parameters.values if isinstance(node.parameters, Unchecked) else vars(node.parameters)
    plain: dict[str, Any] = json.loads(json.dumps(values))
    assert plain.pop("rescale", "fixed_point") == "fixed_point"
    return plain


def test_small_model() -> None:
    graph = tflite.parse(small_model(), "small")
    assert [(node.name, node.op, node.inputs, node.outputs, said(node)) for node in graph.nodes] == [
        (
            "features",
            "conv_2d",
            (0, 1, 2),
            (3,),
            # 9 positions at stride 2 with 3 taps: (5 - 1) * 2 + 3 - 9 = 2
            {
                "strides": [2, 2],
                "dilations": [1, 1],
                "padding": [[1, 1], [1, 1]],
                "activation": "relu",
            },
        ),
        ("pooled", "mean", (3,), (4,), {"axes": [1, 2], "keep_dims": False}),
        ("scores", "fully_connected", (4, 7, None), (6,), {"activation": "none", "keep_num_dims": False}),
        ("probabilities", "softmax", (6,), (8,), {"axis": -1, "beta": 1.0}),
    ]
    assert (graph.name, graph.inputs, graph.outputs, graph.states) == ("small", (0,), (8,), ())
    assert graph.tensors[0].type == TensorType("int8", (1, 9, 9, 2), Quantization((0.5,), (-3,)))
    filters = tuple(float(np.float32(scale)) for scale in (0.1, 0.2, 0.3, 0.4))
    assert graph.tensors[1].type.quantization == Quantization(filters, (0, 0, 0, 0), axis=0)


# Files of others


@pytest.mark.parametrize("name", MODELS)
def test_model_agrees_with_litert(shared: Path, name: str) -> None:
    graph = formats.read(shared / "models" / f"{name}.tflite")
    golden = json.loads((shared / "golden" / f"{name}.json").read_text())
    counts: dict[str, int] = {}
    for kind, count in golden["ops"].items():
        op = OPERATORS[kind if kind in OPERATORS else f"CUSTOM {kind}"].op
        counts[op] = counts.get(op, 0) + count
    assert {op: sum(node.op == op for node in graph.nodes) for op in counts} == counts
    assert len(graph.nodes) == sum(counts.values())
    for numbers, ends in ((graph.inputs, golden["inputs"]), (graph.outputs, golden["outputs"])):
        assert [described(graph, number) for number in numbers] == [
            (end["index"], end["name"], end["dtype"], end["shape"], end["scale"], end["zero_point"])
            for end in ends
        ]
    for row in golden["intermediates"]:
        tensor = graph.tensors[row["tensor"]]
        assert row["tensor"] in graph.nodes[row["op_index"]].outputs
        assert (tensor.name, list(tensor.type.shape), tensor.type.dtype) == (
            row["name"],
            row["shape"],
            row["dtype"],
        )


def described(graph: Graph, number: int) -> tuple[Any, ...]:
    tensor = graph.tensors[number]
    quantization = tensor.type.quantization or Quantization((), ())
    return (
        number,
        tensor.name,
        tensor.type.dtype,
        list(tensor.type.shape),
        list(quantization.scales),
        list(quantization.zero_points),
    )


def test_biases_that_name_the_axis_of_their_weights(shared: Path) -> None:
    original = formats.read(shared / "models" / "tflm_person_detect_int8.tflite")
    patched = formats.read(shared / "models" / "tflm_person_detect_int8_patched.tflite")
    assert [tensor.type for tensor in original.tensors] == [tensor.type for tensor in patched.tensors]
    assert original.nodes == patched.nodes


def test_lstm_state_and_intermediates(shared: Path) -> None:
    graph = formats.read(shared / "models" / "tflm_mnist_lstm_int8.tflite")
    lstm = graph.nodes[0]
    assert [state.before for state in graph.states] == [16, 17]
    assert lstm.inputs == (
        0,
        *range(15, 7, -1),
        None,
        None,
        None,
        7,
        6,
        5,
        4,
        None,
        None,
        16,
        17,
        *[None] * 4,
    )
    assert said(lstm) == {
        "activation": "tanh",
        "cell_clip": 10.0,
        "proj_clip": 0.0,
        "time_major": False,
        "intermediates": [None, None, None, None, [0.007816792465746403, 0]],
    }


def test_options_of_the_detection_operator(shared: Path) -> None:
    graph = formats.read(shared / "models" / "edgetpu_ssd_mnv1_head.tflite")
    (detection,) = (node for node in graph.nodes if node.op == "detection_post_process")
    assert said(detection) == {
        "max_detections": 20,
        "max_classes_per_detection": 1,
        "num_classes": 90,
        "detections_per_class": 100,
        "use_regular_nms": False,
        "nms_score_threshold": float(np.float32(0.3)),
        "nms_iou_threshold": float(np.float32(0.6)),
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }


@pytest.mark.cases(36)
@pytest.mark.parametrize("name", CASES)
def test_one_operator_files(shared: Path, name: str) -> None:
    """Types and constants of each tensor; parameters that explain the shape or the bytes of the output."""
    rows = json.loads((shared / "ops_litert_ref" / f"{name}.json").read_text())["cases"]
    arrays = np.load(shared / "ops_litert_ref" / f"{name}.npz")
    for row in rows[::3]:  # every third: all 4244 read, in 5 s
        case = f"c{row['case']}"
        graph = tflite.parse(arrays[f"{case}_model"].tobytes(), case)
        (node,) = graph.nodes
        assert node.op == OPERATORS[row["op"]].op
        for tensor, expected in zip(graph.tensors, row["tensors"], strict=True):
            quantization = tensor.type.quantization or Quantization((), ())
            assert (tensor.type.dtype, list(tensor.type.shape)) == (expected["dtype"], expected["shape"])
            assert list(quantization.scales) == (expected["scale"] or [])
            assert (tensor.data is not None) == (expected["role"] == "const")
            if tensor.data is not None:
                np.testing.assert_array_equal(tensor.data, arrays[expected["key"]])
        values = [arrays[tensor["key"]] for tensor in row["tensors"]]
        if node.op in MEANINGS:
            inputs = [values[index] for index in node.inputs if index is not None]
            MEANINGS[node.op](node, inputs, values[node.outputs[0]])


# What parameters mean, in numpy, for the operators whose arithmetic does not hide it


def window_fits(node: Node, inputs: list[np.ndarray], output: np.ndarray) -> None:
    """The positions of a sliding window are as many as the output has."""
    window = said(node)
    kernel = window.get("filter", inputs[1].shape[1:3] if len(inputs) > 1 else None)
    dilations = window.get("dilations", [1, 1])
    for axis in range(2):
        padded = inputs[0].shape[axis + 1] + sum(window["padding"][axis])
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        assert (padded - reach) // window["strides"][axis] + 1 == output.shape[axis + 1]


def transposed_window_fits(node: Node, inputs: list[np.ndarray], output: np.ndarray) -> None:
    window_fits(node, [output, inputs[1]], inputs[0])


def same(function: Callable[[Mapping[str, Any], list[np.ndarray]], np.ndarray]) -> Callable[..., None]:
    def check(node: Node, inputs: list[np.ndarray], output: np.ndarray) -> None:
        np.testing.assert_array_equal(function(said(node), inputs).reshape(output.shape), output)

    return check


def strided(box: Mapping[str, Any], inputs: list[np.ndarray]) -> np.ndarray:
    rows = zip(box["begin"], box["size"], box["strides"], strict=True)
    return inputs[0][np.ix_(*([begin + i * stride for i in range(size)] for begin, size, stride in rows))]


def cut(box: Mapping[str, Any], inputs: list[np.ndarray]) -> np.ndarray:
    return strided({**box, "strides": [1] * inputs[0].ndim}, inputs)


def pads(node: Node, inputs: list[np.ndarray], output: np.ndarray) -> None:
    """PADV2 says the value; what PAD pads with, the zero point, is not a parameter."""
    paddings, value = said(node)["paddings"], said(node)["pad_value"]
    assert tuple(np.add(inputs[0].shape, np.sum(paddings, axis=1))) == output.shape
    if value is not None:
        padded = np.pad(inputs[0], paddings, constant_values=value)
        np.testing.assert_array_equal(padded, output)


MEANINGS: dict[str, Callable[[Node, list[np.ndarray], np.ndarray], None]] = {
    "conv_2d": window_fits,
    "depthwise_conv_2d": window_fits,
    "average_pool_2d": window_fits,
    "max_pool_2d": window_fits,
    "transpose_conv": transposed_window_fits,
    "slice": same(cut),
    "strided_slice": same(strided),
    "pad": pads,
    "mirror_pad": same(lambda a, x: np.pad(x[0], a["paddings"], mode=a["mode"])),
    "transpose": same(lambda a, x: x[0].transpose(a["perm"])),
    "tile": same(lambda a, x: np.tile(x[0], a["multiples"])),
    "gather": same(lambda a, x: np.take(x[0], x[1], a["axis"])),
    "reduce_max": same(lambda a, x: x[0].max(tuple(a["axes"]))),
    "reduce_min": same(lambda a, x: x[0].min(tuple(a["axes"]))),
    "arg_max": same(lambda a, x: x[0].argmax(a["axis"])),
    "arg_min": same(lambda a, x: x[0].argmin(a["axis"])),
}


# What a file may leave out or say in an old way


def one_layer(
    code: str,
    options: Table | None = None,
    *operands: int,
    source: tuple[int, ...] = (1, 4, 4, 2),
    result: tuple[int, ...] = (1, 4, 4, 2),
    build: Builder | None = None,
    **fields: Any,
) -> Graph:
    """A graph of one operator that reads "x" and the operands of `build` and writes "y"."""
    build = build or Builder()
    x, y = build.tensor("x", source), build.tensor("y", result)
    build.operator(code, [x, *operands], [y], options, **fields)
    return tflite.parse(build.file([x], [y]), "one")


def tensor_type(kind: str = "INT8", shape: tuple[int, ...] = (3,), **fields: Any) -> TensorType:
    """The type of a tensor that is both input and output of a model without operators."""
    build = Builder()
    number = build.tensor("t", shape, kind, **fields)
    return tflite.parse(build.file([number], [number]), "one").tensors[0].type


@pytest.mark.parametrize(
    ("given", "quantization"),
    [
        ({"scales": [0.5], "zero_points": [3]}, Quantization((0.5,), (3,))),
        ({"scales": [0.5], "zero_points": None}, Quantization((0.5,), (0,))),
        ({"scales": [0.5], "zero_points": [3], "axis": 7}, Quantization((0.5,), (3,))),
        ({"scales": None, "zero_points": None}, None),
        ({"scales": None, "Quantization": None}, None),
        ({"scales": [1, 2, 4], "zero_points": None}, Quantization((1, 2, 4), (0, 0, 0), 0)),
        ({"scales": [1, 2, 4], "zero_points": [5], "axis": 3}, Quantization((1, 2, 4), (5, 5, 5), 0)),
        (
            {"scales": [1, 2], "zero_points": [5, 6], "shape": (3, 2), "axis": 1},
            Quantization((1, 2), (5, 6), 1),
        ),
        ({"scales": [0], "zero_points": [0], "kind": "INT32"}, None),
        ({"scales": [0.5], "zero_points": [0], "kind": "FLOAT32"}, None),
    ],
)
def test_forms_of_quantization(given: dict[str, Any], quantization: Quantization | None) -> None:
    assert tensor_type(**given).quantization == quantization


def test_shape_counts_where_the_signature_is_dynamic() -> None:
    assert tensor_type(shape=(1, 3), ShapeSignature=int32(-1, 3)).shape == (1, 3)


def test_tensors_and_nodes_without_names() -> None:
    build = Builder()
    x = build.tensor(None, [4])
    y, z = build.tensor("twin", [4]), build.tensor("twin", [4])
    build.operator("RELU", [x], [y])
    build.operator("RELU", [y], [z])
    graph = tflite.parse(build.file([x], [z]), "one")
    assert [tensor.name for tensor in graph.tensors] == ["tensor_0", "twin", "twin"]
    assert [node.name for node in graph.nodes] == ["twin", "twin_1"]


@pytest.mark.parametrize(
    ("old", "new", "op"), [(14, 0, "logistic"), (0, 14, "logistic"), (127, 150, "gelu"), (14, 14, "logistic")]
)
def test_the_larger_operator_code_is_meant(old: int, new: int, op: str) -> None:
    build = Builder()
    x, y = build.tensor("x", [4]), build.tensor("y", [4])
    build.operator("LOGISTIC", [x], [y])
    build.codes[0] = table("OperatorCode", DeprecatedBuiltinCode=old, BuiltinCode=new)
    assert tflite.parse(build.file([x], [y]), "one").nodes[0].op == op


def test_options_left_out_have_their_defaults() -> None:
    (node,) = one_layer("FULLY_CONNECTED", None, 0, source=(1, 4), result=(1, 3), build=with_matrix()).nodes
    assert said(node) == {"activation": "none", "keep_num_dims": False}
    assert node.inputs == (1, 0, None)


def with_matrix() -> Builder:
    build = Builder()
    build.tensor("matrix", [3, 4], data=np.ones((3, 4), np.int8))
    return build


def test_shape_arithmetic_of_models_with_a_variable_batch_is_left_out() -> None:
    """x -> RESHAPE to PACK(STRIDED_SLICE(SHAPE(x)), 32), as converters write a flatten layer."""
    build = Builder()
    x, y = build.tensor("x", [1, 4, 4, 2]), build.tensor("y", [1, 32])
    plain: dict[str, Any] = {"kind": "INT32", "scales": None, "zero_points": None}
    shape, batch, packed = (
        build.tensor(name, size, **plain) for name, size in (("s", [4]), ("b", []), ("p", [2]))
    )
    zero, one = build.constant(0), build.constant(1)
    rest = build.tensor("rest", [], data=int32(32), **plain)
    build.operator("SHAPE", [x], [shape])
    build.operator("STRIDED_SLICE", [shape, zero, one, one], [batch], table("StridedSliceOptions"))
    build.operator("PACK", [batch, rest], [packed], table("PackOptions", ValuesCount=2))
    build.operator("RESHAPE", [x, packed], [y])
    (node,) = tflite.parse(build.file([x], [y]), "one").nodes
    assert (node.op, node.inputs, node.outputs, said(node)) == ("reshape", (x,), (y,), {"shape": [1, 32]})


def test_only_the_first_subgraph_is_read() -> None:
    build = Builder()
    number = build.tensor("t", [3])
    first = table("SubGraph", Tensors=build.tensors, Inputs=int32(number), Outputs=int32(number))
    second = table("SubGraph", Tensors=[table("Tensor", Type=99)])
    graph = tflite.parse(build.file([], [], Subgraphs=[first, second]), "two")
    assert [tensor.name for tensor in graph.tensors] == ["t"]


def test_data_behind_the_flatbuffer() -> None:
    data = np.arange(6, dtype=np.int8)

    def file(offset: int, size: int) -> bytes:
        build = Builder()
        x, y = build.tensor("x", [2, 3]), build.tensor("y", [2, 3])
        far = build.tensor("far", [2, 3], Buffer=1)
        build.buffers.append(table("Buffer", Offset=offset, Size=size))
        build.operator("ADD", [x, far], [y], table("AddOptions"))
        return build.file([x], [y])

    end = len(file(1000, 6))
    graph = tflite.parse(file(end, 6) + data.tobytes(), "far")
    np.testing.assert_array_equal(graph.tensors[2].data, data.reshape(2, 3))
    with pytest.raises(FormatError, match=rf"^buffer 1: reaches to byte {end + 6}, the file has {end + 5};"):
        tflite.parse(file(end, 6) + data.tobytes()[:-1], "far")


def test_constants_are_read_only_views_of_the_file() -> None:
    data = small_model()
    filters = tflite.parse(data, "small").tensors[1].data
    assert filters is not None
    assert not filters.flags.writeable
    assert np.shares_memory(filters, np.frombuffer(data, np.uint8))


def test_float_model() -> None:
    build = Builder()
    weights = build.tensor("w", [3, 4], "FLOAT32", np.eye(3, 4, dtype=np.float32), scales=None)
    x, y = (
        build.tensor("x", [1, 4], "FLOAT32", scales=None),
        build.tensor("y", [1, 3], "FLOAT32", scales=None),
    )
    build.operator("FULLY_CONNECTED", [x, weights], [y], table("FullyConnectedOptions"))
    graph = tflite.parse(build.file([x], [y]), "float")
    assert graph.tensors[weights].type == TensorType("float32", (3, 4))
    np.testing.assert_array_equal(graph.tensors[weights].data, np.eye(3, 4, dtype=np.float32))


# Attributes that the files of others do not exercise


def options(kind: str, **fields: Any) -> Table:
    return table(kind, **fields)


def with_constants(*constants: tuple[int, ...]) -> Builder:
    build = Builder()
    for values in constants:
        build.constant(*values)
    return build


@pytest.mark.parametrize(
    ("code", "table_", "constants", "result", "op", "parameters"),
    [
        ("MEAN", options("ReducerOptions", KeepDims=True), [(-2, 1)], (1, 1, 1, 2), "mean",
         {"axes": [1, 2], "keep_dims": True}),
        ("SUM", options("ReducerOptions"), [(-1, 3)], (1, 4, 4), "sum", {"axes": [3], "keep_dims": False}),
        ("CONCATENATION", options("ConcatenationOptions", Axis=-1), [], (1, 4, 4, 2), "concatenation",
         {"axis": 3, "activation": "none"}),
        ("SQUEEZE", options("SqueezeOptions"), [], (4, 4, 2), "squeeze", {"axes": []}),
        ("EXPAND_DIMS", None, [(0,)], (1, 1, 4, 4, 2), "reshape",
         {"shape": [1, 1, 4, 4, 2]}),
        ("RESHAPE", None, [(-1, 2)], (16, 2), "reshape", {"shape": [16, 2]}),
        ("PACK", options("PackOptions", Axis=-1, ValuesCount=1), [], (1, 4, 4, 2, 1), "pack", {"axis": 4}),
        ("RELU_N1_TO_1", None, [], (1, 4, 4, 2), "relu_n1_to_1", {}),
        ("SLICE", None, [(0, 1, 2, 0), (1, -1, 2, -1)], (1, 3, 2, 2), "slice",
         {"begin": [0, 1, 2, 0], "size": [1, 3, 2, 2], "strides": []}),
        ("STRIDED_SLICE", options("StridedSliceOptions", BeginMask=1, EndMask=5, ShrinkAxisMask=2),
         [(9, -1, 1), (9, 0, 0), (1, 1, 2)], (1, 2, 2), "strided_slice",
         {"begin": [0, 3, 1, 0], "size": [1, 1, 2, 2], "strides": [1, 1, 2, 1], "shape": [1, 2, 2]}),
        ("STRIDED_SLICE", options("StridedSliceOptions", EllipsisMask=1, NewAxisMask=2),
         [(0, 0, 1), (0, 0, -9), (1, 1, -1)], (1, 4, 4, 1, 2), "strided_slice",
         {"begin": [0, 0, 0, 1], "size": [1, 4, 4, 2], "strides": [1, 1, 1, -1], "shape": [1, 4, 4, 1, 2]}),
        ("STRIDED_SLICE", options("StridedSliceOptions", Offset=True),
         [(0, 1), (1, 2), (1, 1)], (1, 2, 4, 2), "strided_slice",
         {"begin": [0, 1, 0, 0], "size": [1, 2, 4, 2], "strides": [1, 1, 1, 1], "shape": [1, 2, 4, 2]}),
    ],
)  # fmt: skip
def test_parameters(
    code: str,
    table_: Table | None,
    constants: list[tuple[int, ...]],
    result: tuple[int, ...],
    op: str,
    parameters: dict[str, Any],
) -> None:
    build = with_constants(*constants)
    (node,) = one_layer(code, table_, *range(len(constants)), result=result, build=build).nodes
    assert (node.op, said(node)) == (op, parameters)
    assert node.inputs == (len(constants),)


@pytest.mark.parametrize(
    ("code", "operands", "position", "op"), [("SPLIT", 2, 1, "split"), ("SPLIT_V", 3, 0, "split")]
)
def test_splits(code: str, operands: int, position: int, op: str) -> None:
    build = with_constants((-1,), (1, 1))
    x, a, b = (build.tensor(name, shape) for name, shape in (("x", [4, 2]), ("a", [4, 1]), ("b", [4, 1])))
    inputs = [0, x] if operands == 2 else [x, 1, 0]
    build.operator(
        code, inputs, [a, b], table(f"{'SplitV' if operands == 3 else 'Split'}Options", NumSplits=2)
    )
    (node,) = tflite.parse(build.file([x], [a, b]), "one").nodes
    assert inputs[position] == x
    assert (node.op, node.inputs, node.outputs, said(node)) == (
        op,
        (x,),
        (a, b),
        {"axis": 1, "sizes": [1, 1]},
    )


# Errors: the text says where, what is, what may be


SAME_3X3 = options("Conv2DOptions", StrideH=1, StrideW=1)


@pytest.mark.parametrize(
    ("code", "table_", "constants", "error", "text"),
    [
        ("ADD", options("AddOptions", FusedActivationFunction=4), [(1,)], GraphError,
         'layer "y" (ADD version 1, operator 0): FusedActivationFunction is 4, '
         "may be 0 (none), 1 (relu), 2 (relu_n1_to_1), 3 (relu6)"),
        ("ADD", options("MulOptions"), [(1,)], FormatError,
         'layer "y" (ADD version 1, operator 0): has MulOptions, must have AddOptions'),
        ("ADD", None, [], GraphError, 'layer "y" (ADD version 1, operator 0): has 1 operands, may have 2..2'),
        ("MEAN", None, [(4,)], GraphError,
         'layer "y" (MEAN version 1, operator 0): axis 4, may be -4..3'),
        ("MAX_POOL_2D", options("Pool2DOptions", FilterHeight=2, FilterWidth=2, StrideH=1), [], GraphError,
         'layer "y" (MAX_POOL_2D version 1, operator 0): StrideW is 0, may be 1 or more'),
        ("SOFTMAX", options("SoftmaxOptions", Beta=float("nan")), [], GraphError,
         'layer "y" (SOFTMAX version 1, operator 0): Beta is nan, must be finite'),
        ("CONV_2D", SAME_3X3, [(1,)], GraphError,
         'layer "y" (CONV_2D version 1, operator 0): operand 1 has shape [1], must have 4 dimensions'),
        ("ARG_MAX", options("ArgMaxOptions", OutputType=2), [(1,)], GraphError,
         'layer "y" (ARG_MAX version 1, operator 0): the output is int8, its option OutputType says int32'),
        ("TRANSPOSE", None, [(0, 1, 1, 2)], GraphError,
         'layer "y" (TRANSPOSE version 1, operator 0): operand 1 (permutation) is [0, 1, 1, 2], '
         "must have each of 0..3 once"),
        ("PAD", None, [(0, 1, 1, 2)], GraphError,
         'layer "y" (PAD version 1, operator 0): operand 1 (paddings) has 4 values, must have 8'),
        ("RESHAPE", None, [(16, 3)], GraphError,
         'layer "y" (RESHAPE version 1, operator 0): shape [16, 3] for 32 elements of shape [1, 4, 4, 2]'),
        ("RESHAPE", None, [(-1, 3)], GraphError,
         'layer "y" (RESHAPE version 1, operator 0): shape [-1, 3] for 32 elements of shape [1, 4, 4, 2]'),
        ("RESHAPE", None, [(-1, -1)], GraphError,
         'layer "y" (RESHAPE version 1, operator 0): shape [-1, -1], may have one -1 and sizes from 0 on'),
        ("RESHAPE", None, [(-1, 16)], GraphError,
         'layer "y" (reshape): output "y" has shape [1, 4, 4, 2], '
         "[2, 16] by its operands and parameters"),
        ("RESHAPE", options("ReshapeOptions", NewShape=int32(16, 2)), [], GraphError,
         'layer "y" (reshape): output "y" has shape [1, 4, 4, 2], '
         "[16, 2] by its operands and parameters"),
        ("SQUEEZE", options("SqueezeOptions", SqueezeDims=int32(-4)), [], GraphError,
         'layer "y" (squeeze): output "y" has shape [1, 4, 4, 2], '
         "[4, 4, 2] by its operands and parameters"),
        ("SQUEEZE", options("SqueezeOptions", SqueezeDims=int32(1)), [], GraphError,
         'layer "y" (SQUEEZE version 1, operator 0): SqueezeDims is [1], '
         "which must be axes of one in the input shape [1, 4, 4, 2]"),
        ("EXPAND_DIMS", None, [(-1,)], GraphError,
         'layer "y" (reshape): output "y" has shape [1, 4, 4, 2], '
         "[1, 4, 4, 2, 1] by its operands and parameters"),
        ("RESIZE_BILINEAR", None, [(8, 8)], GraphError,
         'layer "y" (resize_bilinear): output "y" has shape [1, 4, 4, 2], '
         "[1, 8, 8, 2] by its operands and parameters"),
        ("TRANSPOSE", None, [(0, 2, 3, 1)], GraphError,
         'layer "y" (transpose): output "y" has shape [1, 4, 4, 2], '
         "[1, 4, 2, 4] by its operands and parameters"),
    ],
)  # fmt: skip
def test_faults_of_a_layer(
    code: str, table_: Table | None, constants: list[tuple[int, ...]], error: type[NpusimError], text: str
) -> None:
    with pytest.raises(error) as fault:
        one_layer(code, table_, *range(len(constants)), build=with_constants(*constants))
    assert str(fault.value) == text


def test_an_offset_and_a_mask_of_one_end_must_agree() -> None:
    def sliced(length: int, mask: int) -> Graph:
        table_ = options("StridedSliceOptions", Offset=True, EndMask=mask)
        ends = with_constants((1, 1), (length, 2), (1, 1))
        return one_layer(
            "STRIDED_SLICE", table_, 0, 1, 2, source=(4, 3), result=(length, 2), build=ends, version=4
        )

    assert said(sliced(2, 2).nodes[0]) == {
        "begin": [1, 1],
        "size": [2, 2],
        "strides": [1, 1],
        "shape": [2, 2],
    }
    assert said(sliced(3, 1).nodes[0])["size"] == [3, 2]
    with pytest.raises(
        GraphError, match=r"takes 2 elements by its option Offset and 3 by EndMask; may have one of"
    ):
        sliced(2, 1)


def test_a_matrix_product_has_the_shape_that_its_kernel_gives() -> None:
    for keep, shape in ((0, [16, 3]), (1, [1, 4, 4, 3])):
        build = Builder()
        weights = build.tensor("w", [3, 2], data=np.zeros((3, 2), np.int8))
        table_ = options("FullyConnectedOptions", KeepNumDims=keep)
        with pytest.raises(GraphError) as fault:
            one_layer("FULLY_CONNECTED", table_, weights, result=(1, 16, 3), build=build)
        assert str(fault.value) == (
            f'layer "y" (fully_connected): output "y" has shape [1, 16, 3], {shape} '
            "by its operands and parameters"
        )


def test_operands_that_become_parameters_must_be_constant() -> None:
    build = Builder()
    axes = build.tensor("axes", [1], "INT32", scales=None)
    with pytest.raises(GraphError) as fault:
        one_layer("MEAN", None, axes, result=(1, 4, 2), build=build)
    assert str(fault.value) == (
        'layer "y" (MEAN version 1, operator 0): operand 1 (axes) is computed while running, must be constant'
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"scales": [float("nan")]}, 'tensor 0 "t": scale nan, must be finite and positive'),
        ({"scales": [0.0]}, 'tensor 0 "t": scale 0.0, must be finite and positive'),
        ({"scales": [-1.0], "kind": "INT32"}, 'tensor 0 "t": scale -1.0, must be finite and positive'),
        ({"zero_points": [128]}, 'tensor 0 "t": zero point 128, int8 may have -128..127'),
        ({"zero_points": [-1], "kind": "UINT8"}, 'tensor 0 "t": zero point -1, uint8 may have 0..255'),
        ({"zero_points": [1, 2]}, 'tensor 0 "t": 2 zero points for 1 scales, may be as many or 1'),
        ({"scales": [1, 2], "shape": (3, 2)}, 'tensor 0 "t": 2 scales along axis 0 of shape [3, 2]'),
        ({"scales": [1, 2], "shape": (3, 2), "axis": 2},
         'tensor 0 "t": 2 scales along axis 2 of shape [3, 2]'),
        ({"shape": (1,) * 9}, "tensor 0: 9 dimensions, may have 8"),
        ({"shape": (65536, 65536)}, 'tensor 0 "t": 4294967296 bytes, may have 2147483647'),
        ({"shape": (0, 65536, 65536)}, 'tensor 0 "t": 4294967296 bytes, may have 2147483647'),
        ({"Buffer": 3}, 'tensor 0 "t": buffer 3, the model has 1'),
        ({"data": np.zeros(4, np.int8)}, 'tensor 0 "t": int8[3] takes 3 bytes, its buffer has 4'),
        ({"Sparsity": table("SparsityParameters")},
         'tensor 0 "t": is sparse, may be dense; convert the model without sparsity'),
    ],
)  # fmt: skip
def test_faults_of_a_tensor(given: dict[str, Any], text: str) -> None:
    with pytest.raises(FormatError) as fault:
        tensor_type(**given)
    assert str(fault.value) == text


def test_element_types_without_a_numpy_dtype_are_refused() -> None:
    with pytest.raises(
        FormatError, match=r'^tensor 0 "t": element type INT4, which only constants may have$'
    ):
        tensor_type("INT4")
    with pytest.raises(FormatError, match=r'^tensor 0 "t": element type type 77, may be INT8, '):
        tensor_type(Type=77)


def relu(inputs: list[int], outputs: list[int], ends: tuple[list[int], list[int]]) -> Callable[[], Graph]:
    """A graph of two RELU over tensors 0, 1, 2, the second of which is 1 -> 2; tensor 3 is constant."""

    def read() -> Graph:
        build = Builder()
        for name in "abc":
            build.tensor(name, [4])
        build.tensor("k", [4], data=np.zeros(4, np.int8))
        build.operator("RELU", inputs, outputs)
        build.operator("RELU", [1], [2])
        return check(tflite.parse(build.file(*ends), "wired"))

    return read


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (relu([2], [1], ([0], [2])),
         'layer "b" (relu): reads tensor 2 "c", which has no data and nothing before it writes; '
         'layer "c" writes it later'),
        (relu([0], [2], ([0, 1], [2])),
         'layer "c_1" (relu): writes tensor 2 "c", which is an input, has data or is written already'),
        (relu([0], [3], ([0, 1], [2])),
         'layer "k" (relu): writes tensor 3 "k", which is an input, has data or is written already'),
        (relu([0], [1], ([0, 0], [2])), "model inputs [0, 0]: a tensor is named twice"),
        (relu([0], [1], ([3], [2])), 'model input "k" is a constant'),
        (relu([0], [1], ([0], [])), "the model has no output"),
        (relu([0], [1], ([0], [4])), "model outputs: tensor 4, the model has 4"),
        (relu([0], [], ([0], [2])), "operator 0 (RELU version 1): has no output"),
        (relu([-1], [1], ([0], [2])), 'layer "b" (RELU version 1, operator 0): operand 0 is absent'),
        (relu([9], [1], ([0], [2])), 'layer "b" (RELU version 1, operator 0): tensor 9, the model has 4'),
        (relu([0], [1], ([0], [2])), None),
    ],
)  # fmt: skip
def test_wiring(read: Callable[[], Graph], text: str | None) -> None:
    if text is None:
        assert [node.name for node in read().nodes] == ["b", "c"]
        return
    with pytest.raises(NpusimError) as fault:
        read()
    assert str(fault.value) == text


def test_custom_operators_and_their_options() -> None:
    def detection(values: dict[str, Any], code: str = "TFLite_Detection_PostProcess") -> Graph:
        build = Builder()
        boxes = [
            build.tensor(name, [1, 5, 4], "FLOAT32", scales=None) for name in ("boxes", "scores", "anchors")
        ]
        outputs = [build.tensor(f"out{i}", [], "FLOAT32", scales=None) for i in range(4)]
        packed = np.frombuffer(bytes(flexbuffers.Dumps(values)), np.uint8)
        build.operator("CUSTOM", boxes, outputs, custom=code, CustomOptions=packed)
        return tflite.parse(build.file(boxes, outputs), "custom")

    reals = ("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")
    values = dict.fromkeys(("max_detections", "max_classes_per_detection", "num_classes"), 3) | dict.fromkeys(
        reals, 2
    )
    (node,) = detection(values).nodes
    assert said(node) == values | {"detections_per_class": 100, "use_regular_nms": False}
    assert {type(said(node)[name]) for name in reals} == {float}
    (node,) = detection(values | {"nms_score_threshold": -20.0, "h_scale": -5.0}).nodes
    assert (said(node)["nms_score_threshold"], said(node)["h_scale"]) == (-20.0, -5.0)
    del values["num_classes"]
    with pytest.raises(GraphError, match=r"its custom options lack num_classes$"):
        detection(values)
    with pytest.raises(GraphError, match=r"max_detections: -3 is not a whole number from 1 to 2147483647$"):
        detection(values | {"num_classes": 3, "max_detections": -3})
    with pytest.raises(GraphError, match=r"max_detections is nan, must be finite$"):
        detection(values | {"num_classes": 3, "max_detections": float("nan")})
    (unknown,) = detection(values, code="ADD").nodes
    assert (unknown.op, unknown.inputs, said(unknown)) == ('custom "ADD"', (0, 1, 2), {})


# Files and formats


def test_read_goes_by_content_before_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(small_model())
    assert formats.read(path).name == "model"
    assert formats.read(str(path)).nodes


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("absent.tflite", None, "no such file"),
        ("empty.tflite", b"", "is empty"),
        ("short.tflite", b"TFL", "truncated: 3 bytes, a TFLite file has at least 8"),
        ("text.tflite", b"plain text", "not a TFLite file: identifier b'n te' at byte 4, should be b'TFL3'"),
        ("old.tflite", serialize(table("Model", Version=1)), "schema version 1, may be 3"),
        ("bare.tflite", serialize(table("Model", Version=3)), "the model has no subgraph, needs one"),
        ("table.xlsx", b"plain text",
         "neither content nor suffix '.xlsx' is of a known model format: TensorFlow Lite (.tflite, .lite), NN HAL "
         "(.hal), NNEF (.nnef, .tgz, .tar.gz, .tar), ONNX (.onnx), Paddle (.pdmodel), Hugging Face configuration "
         "(.json), GGUF (.gguf)"),
    ],
)  # fmt: skip
def test_faults_of_a_file(tmp_path: Path, name: str, content: bytes | None, text: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FormatError) as fault:
        formats.read(path)
    assert str(fault.value) == f"{path}: {text}"


def test_folders_are_no_model_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as fault:
        formats.read(tmp_path)
    assert (
        str(fault.value)
        == f"{tmp_path}: is a folder, not a model; npusim run FOLDER tries every model below it"
    )


def test_truncated_file_says_where_it_should_end(shared: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(shared / "models" / "mlperf_vww96_int8.tflite", tmp_path))
    path.write_bytes(path.read_bytes()[:300_000])
    with pytest.raises(FormatError) as fault:
        formats.read(path)
    assert str(fault.value) == (
        f"{path}: operator codes: an offset leads to byte 333112, the file has 300000; "
        "it is truncated or damaged"
    )


def test_a_permutation_that_litert_would_misread() -> None:
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType("int32", (2, 3), None))
    perm = writer.constant("perm", np.array([1, 0], np.int64))
    out = writer.operator("TRANSPOSE", (ifm, perm), TensorType("int32", (3, 2), None))
    with pytest.raises(GraphError, match=r"operand 1 \(permutation\) is int64, must be int32"):
        tflite.parse(writer.finish([out]), "model")
