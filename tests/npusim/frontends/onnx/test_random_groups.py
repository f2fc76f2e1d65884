"""Random graphs with DequantizeLinear and QuantizeLinear here and there, beside ONNX Runtime: the same codes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from tests.examples import examples
from tests.npusim.frontends.onnx.small_models import beside, model

pytestmark = pytest.mark.filterwarnings("ignore::npusim.frontends.frontend.ModelWarning")

SHAPE = (1, 3, 4, 6)
TYPES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
EXACT = ("Relu", "Abs", "Neg", "LeakyRelu", "Identity", "HardSigmoid")
NEARLY = ("Sigmoid", "Tanh", "Exp", "Erf")
"""Functions that may be an ulp off; so a code may be one off, now and then."""
PAIRS = ("Add", "Sub", "Mul", "Max", "Min")


@dataclass
class Sketch:
    """A model under construction: its lines, constants, and the real values that it has, with their shapes."""

    random: np.random.Generator
    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    approximate: bool = False

    def pick(self, among: Any) -> Any:
        """One of several."""
        return among[int(self.random.integers(len(among)))]

    def constant(self, value: Any) -> str:
        """The name of a new constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def line(self, operation: str, inputs: str, attributes: str = "") -> str:
        """The name of a new value."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {operation}({inputs}) {attributes}")
        return name

    def scale(self) -> tuple[str, str]:
        """Scale and zero point of new codes, as inputs of the two operations; ties are many."""
        dtype = self.pick(("uint8", "int8", "uint8", "int8", "uint16", "int16"))
        low, high = TYPES[dtype]
        zero = int(self.random.integers(low, high + 1)) if self.random.random() < 0.5 else max(low, 0)
        step = self.pick((0.0625, 0.05, 0.0371)) * (1 if high < 256 else 1 / 64)
        return self.constant(np.float32(step)), self.constant(np.array(zero, dtype))

    def quantised(self, name: str, scale: tuple[str, str] | None = None) -> str:
        """A value behind codes; the names of both are kept."""
        how = ", ".join(scale or self.scale())
        codes = self.line("QuantizeLinear", f"{name}, {how}")
        self.codes.append(codes)
        return self.line("DequantizeLinear", f"{codes}, {how}")

    def step(self) -> None:
        """One more operation, with codes behind it or not."""
        name = self.pick(list(self.values))
        shape = self.values[name]
        kind = self.pick(("unary", "pair", "number", "move", "conv", "bounds", "requantise", "concat"))
        made, target = getattr(self, f"_{kind}")(name, shape)
        if self.random.random() < 0.7:
            made = self.quantised(made)
        self.values[made] = target

    def _unary(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        operation = self.pick(EXACT + NEARLY)
        self.approximate |= operation in NEARLY
        return self.line(operation, name), shape

    def _bounds(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        low, high = sorted(self.random.uniform(-3, 3, 2))
        limits = self.constant(np.float32(low)), self.constant(np.float32(high))
        return self.line("Clip", f"{name}, {', '.join(limits)}"), shape

    def _requantise(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        return self.quantised(name), shape

    def _number(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        number = self.constant(np.float32(self.random.normal()))
        return self.line(self.pick((*PAIRS, "Div")), f"{name}, {number}"), shape

    def _pair(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        others = [each for each, sizes in self.values.items() if sizes == shape]
        return self.line(self.pick(PAIRS), f"{name}, {self.pick(others)}"), shape

    def _concat(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        others = [each for each, sizes in self.values.items() if sizes == shape]
        axis = int(self.random.integers(len(shape)))
        target = tuple(2 * size if place == axis else size for place, size in enumerate(shape))
        return self.line("Concat", f"{name}, {self.pick(others)}", f"axis={axis}"), target

    def _move(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        if len(shape) != 4 or self.random.random() < 0.3:
            target = SHAPE if np.prod(shape) == np.prod(SHAPE) else (int(np.prod(shape)),)
            return self.line("Reshape", f"{name}, {self.constant(np.array(target))}"), target
        if self.random.random() < 0.5 or min(shape[2:]) < 2:
            order = self.random.permutation(4)
            perm = "[" + ",".join(map(str, order)) + "]"
            return self.line("Transpose", name, f"perm={perm}"), tuple(shape[axis] for axis in order)
        target = (*shape[:2], shape[2] - 1, shape[3] - 1)
        return self.line("MaxPool", name, "kernel_shape=[2,2]"), target

    def _conv(self, name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        if len(shape) != 4:
            return self._unary(name, shape)
        self.approximate = True
        weights = self.constant(self.random.integers(-127, 128, (2, shape[1], 1, 1)).astype(np.int8))
        scales = self.constant(self.random.uniform(0.001, 0.01, 2).astype(np.float32))
        dw = self.line("DequantizeLinear", f"{weights}, {scales}", "axis=0")
        return self.line("Conv", f"{self.quantised(name)}, {dw}"), (shape[0], 2, *shape[2:])


def sketched(seed: int, steps: int) -> tuple[Any, bool]:
    """A model on codes x, and whether its codes may be one off."""
    sketch = Sketch(np.random.default_rng(seed))
    scale = sketch.constant(np.float32(0.03)), sketch.constant(np.uint8(120))
    sketch.values[sketch.line("DequantizeLinear", f"x, {', '.join(scale)}")] = SHAPE
    for _ in range(steps):
        sketch.step()
    last = list(sketch.values)[-1]
    outputs = {f"v{len(sketch.lines) - 1}", last, sketch.pick(list(sketch.values))}
    if sketch.codes:
        outputs.add(sketch.pick(sketch.codes))
    inputs = {"x": ("uint8", SHAPE)}
    return model("\n".join(sketch.lines), sketch.constants, inputs, sorted(outputs)), sketch.approximate


@given(st.integers(0, 1 << 30), st.integers(1, 8))
@examples(60)
def test_random_groups(seed: int, steps: int) -> None:
    proto, approximate = sketched(seed, steps)
    x = np.random.default_rng(seed).integers(0, 256, SHAPE).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.onnx"
        path.write_bytes(proto.SerializeToString())
        outputs = npusim.run(path, inputs=[x]).outputs or ()
    for found, wanted in zip(outputs, beside(proto, [x]), strict=True):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if not approximate:
            np.testing.assert_array_equal(found, wanted)
            continue
        apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        limit = 0 if found.dtype.kind == "f" else 3
        coarse = 1e-5 * np.maximum(1, np.abs(wanted.astype(np.float64)))
        assert np.count_nonzero(apart > coarse + limit) <= found.size // 50
        assert found.dtype.kind == "f" or np.count_nonzero(apart) <= max(1, found.size // 50)
