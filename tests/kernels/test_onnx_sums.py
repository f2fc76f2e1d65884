"""Weighted sums with the rescale "float32" beside ONNX Runtime: live on random nodes, and on recorded ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.host import host_functions

from ..onnx_sums import OPERATIONS, Read, read

onnx = pytest.importorskip("onnx")
EDGE = hardware("edge-128")
LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}
NODES = 25
"""For each operation and pair of types."""


def saturates() -> bool:
    """Whether the processor lacks VNNI: ONNX Runtime's products of uint8 and int8 then saturate in pairs."""
    try:
        return "vnni" not in Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return True


def computed(node: Read) -> Any:
    """What the machine and the reference give, in ONNX's layout; they agree."""
    (by_reference,) = (evaluate(node.graph, node.inputs)[each] for each in node.graph.outputs)
    program = compile_graph(node.graph, EDGE)
    outputs = execute(program, node.inputs, host_functions=host_functions(program)).outputs
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], by_reference)
    return node.to_onnx(by_reference)


class _Node:
    """A random node: operands by name, which of them the model holds, attributes."""

    def __init__(self, rng: np.random.Generator, x: str, w: str) -> None:
        self.rng, self.x, self.w = rng, x, w
        self.held: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.how: dict[str, Any] = {}

    def codes(self, dtype: str, *shape: int) -> Any:
        low, high = LIMITS[dtype]
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def scale(self, around: float, *shape: int) -> Any:
        return (around * self.rng.uniform(0.5, 2, shape)).astype(np.float32)

    def convolution(self, rescaled: bool) -> list[str]:
        """QLinearConv or ConvInteger."""
        rng = self.rng
        groups, depth, filters = int(rng.choice([1, 1, 2, 3])), *(int(each) for each in rng.integers(1, 7, 2))
        kernel = [int(each) for each in rng.integers(1, 4, 2)]
        self.given["x"] = self.codes(self.x, int(rng.integers(1, 3)), groups * depth, *rng.integers(6, 14, 2))
        self.held["w"] = self.codes(self.w, groups * filters, depth, *kernel)
        self.how = {
            "group": groups,
            "strides": [int(each) for each in rng.integers(1, 3, 2)],
            "dilations": [int(each) for each in rng.integers(1, 3, 2)],
            "pads": [int(each) for each in rng.integers(0, 3, 4)],
        }
        return self.operands(rescaled, groups * filters, int(np.prod(kernel)) * depth)

    def product(self, rescaled: bool) -> list[str]:
        """QLinearMatMul or MatMulInteger; the second matrix a constant or not."""
        rng = self.rng
        rows, inner, columns = (int(each) for each in rng.integers(1, 90, 3))
        batch = [int(each) for each in rng.integers(1, 4, int(rng.integers(0, 3)))]
        self.given["x"] = self.codes(self.x, *batch, rows, inner)
        constant = bool(rng.integers(0, 2))
        second = self.codes(self.w, *([] if constant else batch), inner, columns)
        (self.held if constant else self.given)["w"] = second
        return self.operands(rescaled, columns, inner)

    def operands(self, rescaled: bool, channels: int, terms: int) -> list[str]:
        """Scales, zero points, bias; the inputs of the node in order."""
        rng = self.rng
        weights = (self.held | self.given)["w"]
        flat = weights.ndim == 2 or "group" in self.how  # ONNX Runtime: only then one number for each channel
        per_channel = rescaled and flat and self.w == "int8" and bool(rng.integers(0, 2))
        count = [channels] if per_channel else []
        self.held |= {
            "xz": self.codes(self.x),
            "wz": np.zeros(count, self.w) if per_channel else self.codes(self.w),
        }
        if not rescaled:
            return ["x", "w", "xz", "wz"]
        xs, ws = self.scale(0.05), self.scale(0.02, *count)
        y = str(rng.choice([self.x]))
        around = float(xs * np.mean(ws)) * 5000 * terms**0.5 / 40
        if rng.random() < 0.3:  # powers of two: ties
            xs, ws = np.float32(2.0**-5), np.full(count, 2.0**-6, np.float32)
            around = float(2.0 ** np.round(np.log2(2.0**-11 * 5000 * terms**0.5 / 40)))
            self.held["ys"] = np.float32(around)
        else:
            self.held["ys"] = self.scale(around)
        self.held |= {"xs": np.float32(xs), "ws": ws, "yz": self.codes(y)}
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
        if "group" in self.how and rng.integers(0, 2):
            self.held["b"] = rng.integers(-(1 << 14), 1 << 14, channels).astype(np.int32)
            names.append("b")
        return names

    def model(self, operation: str, names: list[str]) -> Any:
        """The file of it."""
        kinds = onnx.helper.np_dtype_to_tensor_dtype
        out = np.int32 if operation.endswith("Integer") else self.held["yz"].dtype
        inputs = [
            onnx.helper.make_tensor_value_info(name, kinds(value.dtype), value.shape)
            for name, value in self.given.items()
        ]
        held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in self.held.items()]
        node = onnx.helper.make_node(operation, names, ["y"], **self.how)
        output = onnx.helper.make_tensor_value_info("y", kinds(np.dtype(out)), None)
        graph = onnx.helper.make_graph([node], "one", inputs, [output], held)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


PAIRS = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("int8", "uint8"))
REFUSED = "NOT_IMPLEMENTED"


@pytest.mark.slow
@pytest.mark.cases(5)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each != "QGemm"])
def test_random_nodes(operation: str, pair: tuple[str, str]) -> None:
    """Every value equals ONNX Runtime's, of the reference and of the machine."""
    runtime = pytest.importorskip("onnxruntime")
    if pair[0] != pair[1] and saturates():
        pytest.skip("without VNNI, ONNX Runtime's products of uint8 and int8 saturate")
    rng = np.random.default_rng([OPERATIONS.index(operation), PAIRS.index(pair)])
    seen: set[int] = set()
    for _ in range(NODES):
        node = _Node(rng, *pair)
        rescaled = operation.startswith("QLinear")
        names = (node.convolution if "Conv" in operation else node.product)(rescaled)
        model = node.model(operation, names)
        try:
            session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception as fault:
            if REFUSED in str(fault):
                pytest.skip(f"ONNX Runtime has no {operation} of {' and '.join(pair)}")
            raise
        (wanted,) = session.run(None, node.given)
        found = computed(read(model, node.given))
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
        seen |= set(np.unique(wanted).tolist())
    assert len(seen) > 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["QLinearConv", "QLinearMatMul", "ms.QGemm", "ConvInteger", "MatMulInteger"]
)
def test_recorded_nodes(family: str, shared: Path) -> None:
    """All values of all cases, whole numbers and float32 results alike."""
    folder = shared / "onnx" / "ops"
    if not folder.is_dir():
        pytest.skip("no ../shared/onnx")
    cases = json.loads((folder / f"{family}.json").read_text("utf-8"))["cases"]
    with np.load(folder / f"{family}.npz") as arrays:
        for number in range(len(cases)):
            model = onnx.load_from_string(arrays[f"c{number}_model"].tobytes())
            held = {each.name for each in model.graph.initializer}
            names = [each.name for each in model.graph.input if each.name not in held]
            values = {name: arrays[f"c{number}_x{at}"] for at, name in enumerate(names)}
            found, wanted = computed(read(model, values)), arrays[f"c{number}_y0"]
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), number
            np.testing.assert_array_equal(found, wanted, err_msg=f"case {number}")
