"""Operations on 8-bit codes of which LiteRT has a kernel: every byte beside LiteRT, live, with all zero points 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, TensorType
from npusim.models.writer import ModelWriter, per_tensor
from tests.litert.live import by_litert, needs_litert

from .single import coded, plain, run

CUBE, COLUMN, IMAGE = (2, 3, 40), (3, 1), (2, 4, 5, 3)
AXIS = (np.array([1], np.int32),)
SLOPE = {"options": "LeakyReluOptions", "fields": {"Alpha": 0.1}}
REDUCED = {"options": "ReducerOptions", "fields": {"KeepDims": False}}


@dataclass(frozen=True)
class Beside:
    """An operation and the operator of LiteRT.

    shapes:    of the inputs.
    arguments: of the operation; constants: those of the operator.
    scale:     of the output, if the kernel has only one; alike: of all operands.
    result:    shape of the output, if inputs do not broadcast to it; truth: it is a truth.
    """

    name: str
    code: str
    shapes: Sequence[tuple[int, ...]] = (CUBE,)
    arguments: Sequence[Any] = ()
    constants: Sequence[Array] = ()
    scale: float = 0.0
    alike: bool = False
    result: tuple[int, ...] | None = None
    truth: bool = False
    writing: Any = None


def _pair(name: str, code: str, **more: Any) -> Beside:
    return Beside(name, code, (CUBE, COLUMN), **more)


def _options(code: str) -> dict[str, Any]:
    return {"options": f"{code.title()}Options", "fields": {}}


TABLE = (
    Beside("abs", "ABS"),
    Beside("relu", "RELU"),
    Beside("relu6", "RELU6"),
    Beside("tanh", "TANH"),
    Beside("sigmoid", "LOGISTIC", scale=1 / 256),
    Beside("exp", "EXP"),
    Beside("log", "LOG"),
    Beside("hard_swish", "HARD_SWISH"),
    Beside("gelu", "GELU"),
    Beside("leaky_relu", "LEAKY_RELU", arguments=[0.1], writing=SLOPE),
    Beside("lp_normalization", "L2_NORMALIZATION", arguments=[2, 2, 1e-12], scale=1 / 128),
    *(_pair(code.lower(), code, writing=_options(code)) for code in ("ADD", "SUB", "MUL", "DIV")),
    _pair("max", "MAXIMUM", alike=True),
    _pair("min", "MINIMUM", alike=True),
    *(
        _pair(code.lower(), code, truth=True)
        for code in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ),
    Beside("reduce_mean", "MEAN", arguments=[[1]], constants=AXIS, result=(2, 40), writing=REDUCED),
    Beside("reduce_max", "REDUCE_MAX", arguments=[[1]], constants=AXIS, result=(2, 40), alike=True, writing=REDUCED),
)  # fmt: skip


@pytest.mark.cases(12)
@needs_litert
@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_codes_of_litert(row: Beside) -> None:
    rng = np.random.default_rng([*row.name.encode()])
    for _ in range(5):
        scales = [float(np.float32(10 ** rng.uniform(-2.5, -0.5))) for _ in (*row.shapes, 0)]
        if row.alike:
            scales = [scales[0]] * len(scales)
        target = row.scale or scales.pop()
        values = [rng.integers(-128, 128, shape).astype(np.int8) for shape in row.shapes]
        [expected] = by_litert(_file(row, scales, target), values)
        types = [coded(scale, shape) for scale, shape in zip(scales, row.shapes, strict=False)]
        output = plain("bool") if row.truth else coded(target)
        [found] = run(row.name, values, *row.arguments, types=types, outputs=[output])
        assert found.shape == expected.shape
        assert np.array_equal(found, expected)


def _file(row: Beside, scales: Sequence[float], target: float) -> bytes:
    writer = ModelWriter(row.name)
    operands = [
        writer.input(f"x{number}", TensorType("int8", shape, per_tensor(scale, 0)))
        for number, (shape, scale) in enumerate(zip(row.shapes, scales, strict=False))
    ]
    operands += [writer.constant(f"c{number}", data) for number, data in enumerate(row.constants)]
    shape = row.result or np.broadcast_shapes(*row.shapes)
    kind = TensorType("bool", shape) if row.truth else TensorType("int8", shape, per_tensor(target, 0))
    return writer.finish([writer.operator(row.code, operands, kind, **(row.writing or {}))])
