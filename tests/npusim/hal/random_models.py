"""Legal HAL models and requests drawn at random. The source is a function that picks integers, as for random graphs.

What is legal is written here once more, from the texts of the operations: it is the other side of the rules.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.hal import HalVersion, OperandLifeTime, OperandType, OperationType

from .hal_models import Maker

Pick = Callable[[int, int], int]
"""An integer between two bounds, both included."""

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741
Shape = tuple[int, ...]

_TYPES = {
    T.TENSOR_FLOAT32: ("float32", HalVersion.V1_0),
    T.TENSOR_QUANT8_ASYMM: ("uint8", HalVersion.V1_0),
    T.TENSOR_FLOAT16: ("float16", HalVersion.V1_2),
    T.TENSOR_QUANT8_ASYMM_SIGNED: ("int8", HalVersion.V1_3),
    T.TENSOR_INT32: ("int32", HalVersion.V1_3),
}
"""The types of inputs that are drawn: elements, and since when ADD takes them."""

_QUANTIZED = (T.TENSOR_QUANT8_ASYMM, T.TENSOR_QUANT8_ASYMM_SIGNED)
_FLOATS = (T.TENSOR_FLOAT32, T.TENSOR_FLOAT16)
_MOST_ELEMENTS = 4000


@dataclass(frozen=True)
class Value:
    """A tensor of the model: its operand, and the shape that it has when the model is executed."""

    operand: int
    type: OperandType
    shape: Shape
    scale: float = 0.0
    zero: int = 0

    @property
    def scaling(self) -> dict[str, Any]:
        return {"scale": self.scale, "zeroPoint": self.zero}


@dataclass(frozen=True)
class Drawn:
    """A legal model with a legal request, and the shapes that its outputs have."""

    model: hal.Model
    request: hal.Request
    shapes: list[Shape]


class Growth(Maker):
    """A random graph while it grows: each step adds an operation."""

    def __init__(self, pick: Pick, version: HalVersion, within: Maker | None = None) -> None:
        super().__init__(within and within.values, within and within.pool)
        self.pick = pick
        self.version = version
        self.live: list[Value] = []
        self.shapes: dict[int, Shape] = {}
        self.referenced: list[hal.Subgraph] = []

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.pick(0, len(options) - 1)]

    def scaling(self, type_: OperandType) -> dict[str, Any]:
        if type_ not in _QUANTIZED:
            return {}
        low = 0 if type_ is T.TENSOR_QUANT8_ASYMM else -128
        return {"scale": 2.0 ** self.pick(-6, 2), "zeroPoint": low + self.pick(0, 255)}

    def add_input(self) -> None:
        kinds = [type_ for type_, (_, since) in _TYPES.items() if since <= self.version]
        shape = tuple(self.pick(1, 6) for _ in range(self.pick(1, 4)))
        self._new(self.choose(kinds), shape, L.MODEL_INPUT)

    def _new(
        self,
        type_: OperandType,
        shape: Shape,
        lifetime: OperandLifeTime = L.TEMPORARY_VARIABLE,
        **fields: Any,
    ) -> Value:
        fields = fields or self.scaling(type_)
        operand = self.operand(type_, shape, lifetime=lifetime, **fields)
        self.shapes[operand] = shape
        value = Value(operand, type_, shape, fields.get("scale", 0.0), fields.get("zeroPoint", 0))
        self.live.append(value)
        return value

    def _weights(self, type_: OperandType, shape: Shape, **fields: Any) -> int:
        """A constant, or an input of the model that is none of `live`."""
        fields = fields or self.scaling(type_)
        if self.pick(0, 5) == 0:
            operand = self.input(type_, shape, **fields)
            self.shapes[operand] = shape
            return operand
        data = np.zeros(shape, _TYPES[type_][0])
        data.reshape(-1)[:] = np.arange(data.size) % 7
        return self.constant(type_, data, self.choose(("copy", "reference")), **fields)

    def _do(self, type_: OperationType, inputs: Sequence[int], outputs: Sequence[Value]) -> None:
        self.operation(type_, inputs, [output.operand for output in outputs])

    def step(self) -> None:
        x = self.choose(self.live)
        self.choose(_STEPS)(self, x)

    # Each of these adds an operation that reads a value, or nothing where none is legal.

    def elementwise(self, x: Value) -> None:
        subtracts = HalVersion.V1_2 if x.scale else HalVersion.V1_1
        kinds = [O.ADD, O.MUL, *([O.SUB] if self.version >= subtracts else [])]
        shape = tuple(self.choose((1, size)) for size in x.shape)[self.pick(0, len(x.shape) - 1) :]
        type_ = self.choose(kinds)
        scaling = (
            {**x.scaling, "scale": x.scale * x.scale * 2 if type_ is O.MUL else x.scale} if x.scale else {}
        )
        other = self._weights(x.type, shape, **(x.scaling if x.scale else {}))
        activation = 0 if x.type is T.TENSOR_INT32 else self.pick(0, 3)
        operands = [x.operand, other] if self.pick(0, 1) else [other, x.operand]
        self._do(type_, [*operands, self.scalar(activation)], [self._new(x.type, x.shape, **scaling)])

    def twice(self, x: Value) -> None:
        if x.type in _FLOATS:
            self._do(
                O.ADD, [x.operand, x.operand, self.scalar(self.pick(0, 3))], [self._new(x.type, x.shape)]
            )

    def rectified(self, x: Value) -> None:
        if x.type is not T.TENSOR_INT32:
            self._do(self.choose((O.RELU, O.RELU1, O.RELU6)), [x.operand], [self._like(x)])

    def _like(self, x: Value, shape: Shape | None = None) -> Value:
        return self._new(x.type, x.shape if shape is None else shape, **(x.scaling if x.scale else {}))

    def table(self, x: Value) -> None:
        if x.type is not T.TENSOR_INT32 and (
            self.version >= HalVersion.V1_2 or x.type is not T.TENSOR_QUANT8_ASYMM
        ):
            kind, scale, zero = self.choose(((O.LOGISTIC, 1 / 256, 0), (O.TANH, 1 / 128, 128)))
            low = 128 if x.type is T.TENSOR_QUANT8_ASYMM_SIGNED else 0
            scaling = {"scale": scale, "zeroPoint": zero - low} if x.type in _QUANTIZED else {}
            self._do(kind, [x.operand], [self._new(x.type, x.shape, **scaling)])

    def softmax(self, x: Value) -> None:
        if len(x.shape) not in (2, 4) or x.type not in (T.TENSOR_FLOAT32, *_QUANTIZED):
            return
        low = 128 if x.type is T.TENSOR_QUANT8_ASYMM_SIGNED else 0
        scaling = {"scale": 1 / 256, "zeroPoint": -low} if x.type in _QUANTIZED else {}
        beta = self.constant(T.FLOAT32, np.float32(self.pick(1, 8) / 4))
        axis = (
            [self.scalar(self.pick(-len(x.shape), len(x.shape) - 1))] if self._since(HalVersion.V1_2) else []
        )
        self._do(O.SOFTMAX, [x.operand, beta, *axis], [self._new(x.type, x.shape, **scaling)])

    def _since(self, version: HalVersion) -> bool:
        """Whether to do what came with a version: by chance, where it may be done."""
        return self.version >= version and bool(self.pick(0, 1))

    def reshape(self, x: Value) -> None:
        if x.type is not T.TENSOR_INT32:
            count = prod(x.shape)
            size = self.choose([size for size in range(1, count + 1) if count % size == 0])
            shape = (size, count // size)
            given = (shape, (-1, shape[1]), (shape[0], -1))[self.pick(0, 2)]
            target = self.constant(T.TENSOR_INT32, np.array(given, np.int32))
            self._do(O.RESHAPE, [x.operand, target], [self._like(x, shape)])

    def transpose(self, x: Value) -> None:
        if self.version >= HalVersion.V1_1 and x.type is not T.TENSOR_INT32:
            perm = sorted(range(len(x.shape)), key=lambda _: self.pick(0, 99))
            order = self.constant(T.TENSOR_INT32, np.array(perm, np.int32))
            self._do(O.TRANSPOSE, [x.operand, order], [self._like(x, tuple(x.shape[axis] for axis in perm))])

    def concatenation(self, x: Value) -> None:
        if x.type is T.TENSOR_INT32:
            return
        axis, count = self.pick(0, len(x.shape) - 1), self.pick(1, 3)
        others, total = [x.operand], x.shape[axis]
        for _ in range(count):
            size = self.pick(1, 3)
            shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
            others.append(self._weights(x.type, shape, **(x.scaling if x.scale else {})))
            total += size
        shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
        self._do(O.CONCATENATION, [*others, self.scalar(axis)], [self._like(x, shape)])

    def pool(self, x: Value) -> None:
        if len(x.shape) != 4 or x.type is T.TENSOR_INT32:
            return
        height, width = self.pick(1, x.shape[1]), self.pick(1, x.shape[2])
        strides = self.pick(1, 2), self.pick(1, 2)
        parameters = [2, strides[1], strides[0], width, height, self.pick(0, 3)]
        rows, columns = (
            (size - window) // stride + 1
            for size, window, stride in zip(x.shape[1:3], (height, width), strides, strict=True)
        )
        kind = self.choose((O.AVERAGE_POOL_2D, O.MAX_POOL_2D))
        shape = (x.shape[0], rows, columns, x.shape[3])
        self._do(kind, [x.operand, *map(self.scalar, parameters)], [self._like(x, shape)])

    def convolution(self, x: Value) -> None:
        if len(x.shape) != 4 or x.type is T.TENSOR_INT32:
            return
        depth, kernel = self.pick(1, 5), (self.pick(1, x.shape[1]), self.pick(1, x.shape[2]))
        scaling = self.scaling(x.type)
        weights = self._weights(x.type, (depth, *kernel, x.shape[3]), **scaling)
        bias = self._bias(x, depth, scaling.get("scale", 0.0))
        result = {**self.scaling(x.type), "scale": x.scale * scaling["scale"] * 4} if x.scale else {}
        shape = (x.shape[0], x.shape[1] - kernel[0] + 1, x.shape[2] - kernel[1] + 1, depth)
        parameters = [0, 0, 0, 0, 1, 1, self.pick(0, 3)]
        operands = [x.operand, weights, bias, *map(self.scalar, parameters)]
        self._do(O.CONV_2D, operands, [self._new(x.type, shape, **result)])

    def connected(self, x: Value) -> None:
        if len(x.shape) not in (2, 3, 4) or x.type is T.TENSOR_INT32:
            return
        units, size = self.pick(1, 6), x.shape[-1]
        scaling = self.scaling(x.type)
        weights = self._weights(x.type, (units, size), **scaling)
        bias = self._bias(x, units, scaling.get("scale", 0.0))
        result = {**self.scaling(x.type), "scale": x.scale * scaling["scale"] * 4} if x.scale else {}
        operands = [x.operand, weights, bias, self.scalar(self.pick(0, 3))]
        self._do(O.FULLY_CONNECTED, operands, [self._new(x.type, (prod(x.shape[:-1]), units), **result)])

    def _bias(self, x: Value, depth: int, scale: float) -> int:
        if x.scale:
            return self._weights(T.TENSOR_INT32, (depth,), scale=x.scale * scale)
        return self._weights(x.type, (depth,))

    def pad(self, x: Value) -> None:
        if self.version < HalVersion.V1_1 or x.type not in (T.TENSOR_FLOAT32, T.TENSOR_FLOAT16):
            return
        amounts = [(self.pick(0, 2), self.pick(0, 2)) for _ in x.shape]
        shape = tuple(size + sum(pair) for size, pair in zip(x.shape, amounts, strict=True))
        if prod(shape) <= _MOST_ELEMENTS:
            paddings = self.constant(T.TENSOR_INT32, np.array(amounts, np.int32))
            self._do(O.PAD, [x.operand, paddings], [self._like(x, shape)])

    def split(self, x: Value) -> None:
        if self.version < HalVersion.V1_2:
            return
        axis = self.pick(0, len(x.shape) - 1)
        count = self.choose([count for count in range(1, x.shape[axis] + 1) if x.shape[axis] % count == 0])
        shape = (*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])
        parameters = [self.scalar(axis - len(x.shape) * self.pick(0, 1)), self.scalar(count)]
        self._do(O.SPLIT, [x.operand, *parameters], [self._like(x, shape) for _ in range(count)])

    def gather(self, x: Value) -> None:
        if self.version < HalVersion.V1_2:
            return
        axis = self.pick(0, len(x.shape) - 1)
        indices = np.array([self.pick(0, x.shape[axis] - 1) for _ in range(self.pick(1, 4))], np.int32)
        shape = (*x.shape[:axis], indices.size, *x.shape[axis + 1 :])
        operands = [x.operand, self.scalar(axis), self.constant(T.TENSOR_INT32, indices)]
        self._do(O.GATHER, operands, [self._like(x, shape)])

    def branch(self, x: Value) -> None:
        """IF on an input of the model: each branch adds another constant, or something."""
        if self.version < HalVersion.V1_3 or x.type not in _FLOATS:
            return
        condition = self.input(T.TENSOR_BOOL8, [1])
        self.shapes[condition] = (1,)
        operands = [condition]
        for _ in range(2):
            inner = Growth(self.pick, self.version, self)
            y = inner._new(x.type, x.shape, L.MODEL_INPUT)
            constant = inner.constant(x.type, np.ones(1, _TYPES[x.type][0]))
            result = inner._new(x.type, x.shape, L.MODEL_OUTPUT)
            inner._do(O.ADD, [y.operand, constant, inner.scalar(self.pick(0, 3))], [result])
            operands.append(self.graph(len(self.referenced)))
            self.referenced.append(inner.subgraph())
        self._do(O.IF, [*operands, x.operand], [self._like(x)])


_STEPS: tuple[Callable[[Growth, Value], None], ...] = (
    *(Growth.elementwise, Growth.elementwise, Growth.twice, Growth.rectified, Growth.table, Growth.softmax),
    *(
        Growth.reshape,
        Growth.transpose,
        Growth.concatenation,
        Growth.pool,
        Growth.convolution,
        Growth.connected,
    ),
    *(Growth.pad, Growth.split, Growth.gather, Growth.branch),
)


def draw(pick: Pick) -> Drawn:
    """A legal model with a legal request."""
    version = HalVersion(pick(1, 7))
    growth = Growth(pick, version)
    for _ in range(pick(1, 2)):
        growth.add_input()
    for _ in range(pick(1, 6)):
        growth.step()
    if not growth.operations:
        x = growth.live[0]
        growth.elementwise(x)
    _end(growth)
    model = growth.model(version, growth.referenced)
    if model.pools:
        model.pools = [memory_of(pick, bytes(growth.pool), False)]
    _open(growth, model)
    request = _request(growth, model)
    return Drawn(model, request, [growth.shapes[index] for index in model.outputIndexes])


def _end(growth: Growth) -> None:
    """What nobody reads is an output of the model, and now and then what somebody reads too."""
    written = {index for operation in growth.operations for index in operation.outputs}
    for index in sorted(written):
        if not growth.operands[index].numberOfConsumers or growth.pick(0, 4) == 0:
            growth.operands[index].lifetime = L.MODEL_OUTPUT


def _open(growth: Growth, model: hal.Model) -> None:
    """Some sizes are left open: the request gives those of inputs, the rest follows."""
    if growth.pick(0, 2):
        return
    for index, operand in enumerate(model.operands):
        is_open = index in growth.shapes and operand.type not in (T.TENSOR_BOOL8,) and growth.pick(0, 1)
        if is_open and operand.extraParams is None:
            if growth.version >= HalVersion.V1_2 and growth.pick(0, 2) == 0:
                operand.dimensions = []
            else:
                operand.dimensions = [size * growth.pick(0, 1) for size in operand.dimensions]


def _request(growth: Growth, model: hal.Model) -> hal.Request:
    """Arguments in one pool, at any alignment."""
    pick = growth.pick
    arguments: list[list[hal.RequestArgument]] = []
    offset = 0
    for indexes in (model.inputIndexes, model.outputIndexes):
        arguments.append([])
        for index in indexes:
            operand, shape = model.operands[index], growth.shapes[index]
            output = operand.lifetime == L.MODEL_OUTPUT
            size_bytes = prod(shape) * _bytes_of(OperandType(operand.type))
            is_open = not operand.dimensions or 0 in operand.dimensions
            required = is_open and not (output and growth.version >= HalVersion.V1_2)
            given = list(shape) if required or pick(0, 2) == 0 else []
            offset += pick(0, 3)
            length = size_bytes + (pick(0, 5) if output else 0)
            arguments[-1].append(hal.RequestArgument(False, hal.DataLocation(0, offset, length), given))
            offset += length
    rng = np.random.default_rng(pick(0, 2**20))
    data = bytearray(rng.integers(0, 100, offset, np.uint8).tobytes())
    for index, argument in zip(model.inputIndexes, arguments[0], strict=True):
        _fill(data, OperandType(model.operands[index].type), argument.location, rng)
    return hal.Request(*arguments, [memory_of(pick, bytes(data), True)])


def _fill(data: bytearray, type_: OperandType, where: hal.DataLocation, rng: np.random.Generator) -> None:
    name = "bool" if type_ is T.TENSOR_BOOL8 else _TYPES[type_][0]
    values = rng.integers(0, 2 if name == "bool" else 50, where.length // np.dtype(name).itemsize)
    data[where.offset : where.offset + where.length] = values.astype(name).tobytes()


def _bytes_of(type_: OperandType) -> int:
    return 1 if type_ is T.TENSOR_BOOL8 else np.dtype(_TYPES[type_][0]).itemsize


def memory_of(pick: Pick, data: bytes, writable: bool) -> Any:
    """Memory of some kind that holds these bytes."""
    kind = pick(0, 4 if writable else 5)
    padded = data + bytes(-len(data) % 8)
    if kind == 0:
        memory = mmap.mmap(-1, max(len(data), 1))
        memory[: len(data)] = data
        return memory
    if kind == 1:
        return np.frombuffer(padded, np.float64).copy()
    if kind == 2:
        return np.frombuffer(padded, np.int16).copy().reshape(-1, 2)
    if kind == 3:
        return memoryview(bytearray(data))
    return bytearray(data) if kind == 4 else data
