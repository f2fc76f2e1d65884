"""Tables of what there is: operators, capabilities, plain columns."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.performance import ReferenceRun, capabilities
from npusim.reports.run import capabilities as report
from npusim.reports.run.coverage import Coverage, Way, table
from npusim.reports.words.text_table import columns


def test_columns_are_aligned() -> None:
    text = columns(("name", "MACs"), [("a", "10"), ("longer\n", "2")], right=(1,))
    assert text.splitlines() == ["name      MACs", "a           10", "longer\\n     2"]


def test_operator_table() -> None:
    rows = [
        Coverage(
            "conv_2d",
            {"TFLite": ["CONV_2D"], "ONNX": []},
            ["int8", "float32"],
            [Way("MAC array", ["kernels are 1..255", "8 bits"]), Way("vector unit", ["float lanes"])],
        ),
        Coverage("arg_max", {"TFLite": ["ARG_MAX"]}, ["int8"], [Way("host", ["finds no positions"])]),
        Coverage("reshape", {"TFLite": ["RESHAPE", "SQUEEZE"]}, ["int8"], [Way("nothing moves", [])]),
    ]
    assert table(rows).splitlines() == [
        "operator  TFLite            ONNX  of             runs on        if (else on the host), or why on the host",
        "conv_2d   CONV_2D           -     int8, float32  MAC array      kernels are 1..255",
        "                                                                8 bits",
        "                                                 vector unit    float lanes",
        "arg_max   ARG_MAX           -     int8           host           finds no positions",
        "reshape   RESHAPE, SQUEEZE  -     int8           nothing moves",
        "",
        "3 operators, 2 on the NPU, 1 on the host only.",
    ]


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
