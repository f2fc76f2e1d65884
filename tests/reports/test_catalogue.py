"""Tables of what there is: operators, capabilities, plain columns."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from npusim.cli.operators_table import chosen, coverage, operations, standard
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.performance import ReferenceRun, capabilities
from npusim.reports.run import capabilities as report
from npusim.reports.run.coverage import Coverage, Standard, Way, details, standard_table, table
from npusim.reports.words.quantities import columns


def test_columns_are_aligned() -> None:
    text = columns(("name", "MACs"), [("a", "10"), ("longer\n", "2")], right=(1,))
    assert text.splitlines() == ["name      MACs", "a           10", "longer\\n     2"]


def test_the_last_column_is_wrapped() -> None:
    text = columns(("name", "words"), [("a", " ".join(["abcdefgh"] * 8))], width=42)
    assert text.splitlines() == [
        "name  words",
        *["a     abcdefgh abcdefgh abcdefgh abcdefgh"],
        "      abcdefgh abcdefgh abcdefgh abcdefgh",
    ]


ROWS = [
    Coverage(
        "conv_2d",
        {"TFLite": ["CONV_2D"], "ONNX": []},
        ("int8", "float32", "int32"),
        (
            Way("mac", ("int8",), ("kernels are 1..255", "8 bits")),
            Way("vector", ("float32",), ("float lanes",)),
        ),
        ("int32",),
    ),
    Coverage(
        "arg_max", {"TFLite": ["ARG_MAX"]}, ("int8",), (Way("host", ("int8",), ("finds no positions",)),)
    ),
    Coverage("reshape", {"TFLite": ["RESHAPE", "SQUEEZE"]}, ("any",), (Way("dma", ("any",), ()),)),
]


def test_operator_table() -> None:
    assert table(ROWS).splitlines() == [
        "operator  what runs it, and what model formats call it",
        "conv_2d   MAC array: int8",
        "          vector unit: float32",
        "          host: int32",
        "          called TFLite CONV_2D",
        "arg_max   host: int8",
        "          called TFLite ARG_MAX",
        "reshape   DMA: any",
        "          called TFLite RESHAPE, SQUEEZE",
        "",
        "3 operators, 2 on the NPU, 1 on the host only.",
        "Where a condition does not hold the host computes; npusim ops OP says which there are.",
    ]


def test_one_operator_whole() -> None:
    assert details(ROWS[0]).splitlines() == [
        "conv_2d",
        "  TFLite: CONV_2D",
        "  ONNX: -",
        "  MAC array: int8, if",
        "    kernels are 1..255",
        "    8 bits",
        "  vector unit: float32, if",
        "    float lanes",
        "  host: int32, and where no condition holds",
    ]


def test_operators_are_found_by_any_of_their_names() -> None:
    assert [row.op for row in chosen(ROWS, ["squeeze", "CONV_2D", "reshape"])] == ["reshape", "conv_2d"]
    with pytest.raises(NpusimError, match="conv_3d: no operator has this name; did you mean conv_2d"):
        chosen(ROWS, ["conv_3d"])


@pytest.fixture(scope="module")
def everything() -> list[Coverage]:
    """The rows of all operators, which take a second."""
    return coverage()


def test_types_of_a_way_are_those_that_its_rules_let_pass(everything: list[Coverage]) -> None:
    rows = {row.op: row for row in everything}
    convolution, quantize = rows["conv_2d"], rows["quantize"]
    assert convolution.places == {"mac": ("int8", "uint8", "int16", "float16", "float32")}
    assert convolution.names["NN HAL"] == ("CONV_2D", "GROUPED_CONV_2D")
    assert {"int8", "uint8", "float16", "float32"} <= set(quantize.places["vector"])
    assert rows["add"].places == {
        "vector": ("int8", "uint8", "int16", "float16", "float32", "int32", "int64")
    }  # nothing is left to the host
    assert rows["div"].places["host"] == ("int16", "int32", "int64")
    assert rows["while"].places == {"host": ("bool",)}


def test_every_operation_is_an_operator_or_decides(everything: list[Coverage]) -> None:
    known = {row.op for row in everything}
    without = [row.name for row in operations() if not set(row.operators) & known]
    assert set(without) <= {"RANK", "IF", "WHILE", "OEM_OPERATION"}
    assert len(operations()) == 107


def test_table_of_nnadapter() -> None:
    rows = [
        Standard(14, "CONV_2D", "input filter > output", ("conv_2d", "depthwise_conv_2d"), ROWS[0]),
        Standard(5, "ARG_MAX", "input axis:i > output", ("arg_max",), ROWS[1]),
        Standard(73, "SHAPE", "input:s > output", (), None),
    ]
    assert standard_table(rows).splitlines() == [
        "code  operation  becomes  runs on      of",
        "  14  CONV_2D    conv_2d  MAC array    int8",
        "                          vector unit  float32",
        "                          host         int32",
        "   5  ARG_MAX    arg_max  host         int8",
        "  73  SHAPE      -        nothing      constants: known before anything runs",
        "",
        "3 operations, 1 on the NPU, 1 on the host only, 1 known before anything runs.",
        "Where a condition does not hold the host computes; npusim ops OP says which there are.",
    ]


def test_operations_of_onnx(everything: list[Coverage]) -> None:
    found = {row.name: row for row in standard(everything, format="onnx")}
    assert found["Conv"].operators[0] == "conv_2d"
    assert found["Shape"].main is None
    assert "com.microsoft.QLinearAdd" in found
    assert [row.name for row in standard(everything, ["conv"], "onnx")] == ["Conv"]
    assert standard_table([found["Shape"]]).splitlines()[:2] == [
        "operation  becomes  runs on  of",
        "Shape      -        nothing  constants: known before anything runs",
    ]
    with pytest.raises(NpusimError, match="no operation of ONNX; did you mean Conv"):
        standard(everything, ["convv"], "onnx")


def test_operations_of_nnadapter(everything: list[Coverage]) -> None:
    rows = everything
    listed = standard(rows)
    assert [row.code for row in listed] == list(range(96))
    assert {row.name for row in listed if not row.operators} == {"RANGE", "SHAPE"}
    known = {row.op for row in rows}
    assert all(set(row.operators) <= known for row in listed)
    [gather] = standard(rows, ["gather"])
    assert gather.arguments == "input indices axis:i > output=input"
    with pytest.raises(NpusimError, match="sof: no operation of NNAdapter; did you mean SOFTMAX"):
        standard(rows, ["sof"])


def test_capabilities_table_and_json() -> None:
    work = Workload("gemm", macs=10**6, inner_k=100, weight_bytes=1000, input_bytes=1000, output_bytes=1000)
    done = ReferenceRun(100.0, 5.0, [work])
    table = capabilities(lambda reference: done, done, Hardware(name="bench"))
    file = StringIO()
    Console(file=file, width=100).print(report.table(table))
    text = file.getvalue()
    assert "PerformanceInfo of bench" in text
    ratio = table.cells["quantized8"].performance
    assert ratio is not None
    assert f"{ratio.execTime:.3g}" in text
    assert "TENSOR_QUANT8_ASYMM_SIGNED" in text
    plain = json.loads(report.to_json(table))
    assert plain["cells"]["quantized8"]["execTime"] == ratio.execTime
    assert "mobilenet_v1" in plain["cells"]["quantized8"]["provenance"]
