"""Operators on codes out of ONNX models of one operator, as they lie in ../shared/onnx/ops, beside what they gave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType

FOLDER = Path(__file__).parents[3] / "shared" / "onnx" / "ops"


@dataclass(frozen=True)
class Codes:
    """An operand: its elements, and what they stand for."""

    data: Array
    scale: float
    zero: int

    @property
    def kind(self) -> TensorType:
        """Its type."""
        scaling = Quantization((self.scale,), (self.zero,))
        return TensorType(self.data.dtype.name, self.data.shape, scaling)


@dataclass(frozen=True)
class Case:
    """The operator, its attributes, its operands (an array where it is not codes), and the expected results."""

    name: str
    op: str
    attributes: dict[str, Any]
    operands: list[Codes | Array | None]
    result: Codes
    opset: int


def cases(family: str) -> Iterator[Case]:
    """The cases of a family whose operator takes codes to one tensor of codes of 8 bits, with one scale each."""
    import onnx
    from onnx import numpy_helper

    arrays = np.load(FOLDER / f"{family}.npz")
    for case in json.loads((FOLDER / f"{family}.json").read_text())["cases"]:
        number = case["case"]
        model = onnx.load_from_string(arrays[f"c{number}_model"].tobytes())
        values: dict[str, Any] = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        values |= {
            each.name: arrays[f"c{number}_x{position}"] for position, each in enumerate(model.graph.input)
        }
        found = _case(f"{family} {number}", model, values, arrays[f"c{number}_y0"])
        if found is not None:
            yield found


def _case(name: str, model: Any, values: dict[str, Any], expected: Array) -> Case | None:
    from onnx import helper

    nodes = list(model.graph.node)
    opset = next(each.version for each in model.opset_import if each.domain == "")

    def codes(tensor: str, scale: str, zero: str = "") -> Codes | None:
        zeros = values[zero] if zero else np.zeros((), np.uint8)
        if np.size(values[scale]) != 1:
            return None
        return Codes(values[tensor], float(np.ravel(values[scale])[0]), int(np.ravel(zeros)[0]))

    if len(nodes) == 1:
        (node,) = nodes
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        given = list(node.input)
        triples = [given[i : i + 3] for i in range(0, len(given) - 2, 3)]
        operands = [codes(*triple) for triple in triples]
        values["result"] = expected
        result = codes("result", *given[3 * len(triples) :])
        assert result is not None
        return Case(name, node.op_type, attributes, operands, result, opset)
    reals: dict[str, Codes | None] = {}
    middle = [node for node in nodes if node.op_type not in ("DequantizeLinear", "QuantizeLinear")]
    if len(middle) > 1 or nodes[-1].op_type != "QuantizeLinear":
        return None
    for node in nodes:
        if node.op_type == "DequantizeLinear":
            if node.input[0] not in values:
                return None
            reals[node.output[0]] = codes(*node.input)
    node = middle[0] if middle else nodes[-1]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    operands: list[Any] = [
        reals[each] if each in reals else values.get(each) if each else None
        for each in (node.input if middle else node.input[:1])
    ]
    values["result"] = expected
    result = codes("result", *nodes[-1].input[1:])
    if result is None or any(each is None for each in operands[:1]):
        return None
    return Case(name, node.op_type, attributes, operands, result, opset)
