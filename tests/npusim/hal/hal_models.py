"""Small legal models of the HAL, made fresh for every test that breaks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.hal import HalVersion, OperandLifeTime, OperandType, OperationType

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741


class Maker:
    """Operands and operations of a graph in the making, and the memory of its constants."""

    def __init__(self, values: bytearray | None = None, pool: bytearray | None = None) -> None:
        self.operands: list[hal.Operand] = []
        self.operations: list[hal.Operation] = []
        self.values = bytearray() if values is None else values
        self.pool = bytearray() if pool is None else pool

    def operand(self, type_: int, dimensions: Sequence[int] = (), **fields: Any) -> int:
        self.operands.append(hal.Operand(type_, list(dimensions), **fields))
        return len(self.operands) - 1

    def input(self, type_: int, dimensions: Sequence[int], **fields: Any) -> int:
        return self.operand(type_, dimensions, lifetime=L.MODEL_INPUT, **fields)

    def output(self, type_: int, dimensions: Sequence[int], **fields: Any) -> int:
        return self.operand(type_, dimensions, lifetime=L.MODEL_OUTPUT, **fields)

    def constant(self, type_: int, data: Any, by: str = "copy", **fields: Any) -> int:
        """A constant of the elements of an array, a scalar of one of none; `by` copy or reference."""
        array = np.asarray(data)
        memory = self.values if by == "copy" else self.pool
        place = hal.DataLocation(0, len(memory), array.nbytes)
        memory += array.tobytes()
        lifetime = L.CONSTANT_COPY if by == "copy" else L.CONSTANT_REFERENCE
        return self.operand(type_, array.shape, lifetime=lifetime, location=place, **fields)

    def scalar(self, value: int) -> int:
        return self.constant(T.INT32, np.int32(value))

    def graph(self, number: int) -> int:
        return self.operand(T.SUBGRAPH, lifetime=L.SUBGRAPH, location=hal.DataLocation(0, number, 0))

    def operation(self, type_: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.operations.append(hal.Operation(type_, list(inputs), list(outputs)))
        for index in inputs:
            self.operands[index].numberOfConsumers += 1

    def indexes(self, lifetime: OperandLifeTime) -> list[int]:
        return [index for index, operand in enumerate(self.operands) if operand.lifetime == lifetime]

    def subgraph(self) -> hal.Subgraph:
        ends = self.indexes(L.MODEL_INPUT), self.indexes(L.MODEL_OUTPUT)
        return hal.Subgraph(self.operands, self.operations, *ends)

    def model(self, version: HalVersion, referenced: Sequence[hal.Subgraph] = ()) -> hal.Model:
        ends = self.indexes(L.MODEL_INPUT), self.indexes(L.MODEL_OUTPUT)
        pools = [self.pool] if self.pool else []
        return hal.Model(
            *(self.operands, self.operations, *ends),
            operandValues=bytes(self.values),
            pools=pools,
            referenced=list(referenced),
            version=version,
        )


def addition(version: HalVersion = HalVersion.V1_0, sizes: Sequence[int] = (2, 3)) -> hal.Model:
    """operands: 0 input, 1 constant by reference, 2 activation, 3 temporary, 4 output: twice the constant added."""
    maker = Maker()
    quantized = {"scale": 0.5, "zeroPoint": 128}
    x = maker.input(T.TENSOR_QUANT8_ASYMM, sizes, **quantized)
    c = maker.constant(T.TENSOR_QUANT8_ASYMM, np.ones((2, 3), np.uint8), "reference", **quantized)
    none = maker.scalar(0)
    t = maker.operand(T.TENSOR_QUANT8_ASYMM, sizes, **quantized)
    y = maker.output(T.TENSOR_QUANT8_ASYMM, sizes, **quantized)
    maker.operation(O.ADD, [x, c, none], [t])
    maker.operation(O.ADD, [t, c, none], [y])
    return maker.model(version)


def convolution(version: HalVersion = HalVersion.V1_2) -> hal.Model:
    """operands: 0 input, 1 filter per channel, 2 bias, 3 padding, 4, 5 strides, 6 activation, 7 output."""
    maker = Maker()
    x = maker.input(T.TENSOR_QUANT8_ASYMM, [1, 4, 4, 2], scale=0.5, zeroPoint=3)
    channels = hal.SymmPerChannelQuantParams([0.25, 0.5, 1.0], 0)
    f = maker.constant(T.TENSOR_QUANT8_SYMM_PER_CHANNEL, np.ones((3, 1, 1, 2), np.int8), extraParams=channels)
    b = maker.constant(T.TENSOR_INT32, np.arange(3, dtype=np.int32))
    parameters = [maker.scalar(value) for value in (1, 1, 1, 0)]
    y = maker.output(T.TENSOR_QUANT8_ASYMM, [1, 4, 4, 3], scale=1.0, zeroPoint=128)
    maker.operation(O.CONV_2D, [x, f, b, *parameters], [y])
    return maker.model(version)


def branch(activation: int, sizes: Sequence[int] = (3,)) -> hal.Subgraph:
    """A graph: 0 input, 1 constant, 2 activation, 3 output; its memory is `branches().operandValues`."""
    maker = Maker(bytearray(4 * activation))
    x = maker.input(T.TENSOR_FLOAT32, sizes)
    c = maker.operand(T.TENSOR_FLOAT32, [1], lifetime=L.CONSTANT_COPY, location=hal.DataLocation(0, 0, 4))
    a = maker.operand(T.INT32, lifetime=L.CONSTANT_COPY, location=hal.DataLocation(0, 4 + 4 * activation, 4))
    y = maker.output(T.TENSOR_FLOAT32, sizes)
    maker.operation(O.ADD, [x, c, a], [y])
    return maker.subgraph()


def branches() -> hal.Model:
    """IF. operands: 0 condition, 1 graph 0, 2 graph 1, 3 input, 4 output; referenced as `branch` has them."""
    values = bytearray(np.float32(1.5).tobytes() + np.int32([0, 1]).tobytes())
    maker = Maker(values)
    condition = maker.input(T.TENSOR_BOOL8, [1])
    graphs = [maker.graph(0), maker.graph(1)]
    x = maker.input(T.TENSOR_FLOAT32, [3])
    y = maker.output(T.TENSOR_FLOAT32, [3])
    maker.operation(O.IF, [condition, *graphs, x], [y])
    return maker.model(HalVersion.V1_3, [branch(0), branch(1)])


def loop() -> hal.Model:
    """WHILE x < 10: x = x + 1.5. operands: 0 condition graph, 1 body graph, 2 input, 3 output."""
    values = bytearray(np.float32(1.5).tobytes() + np.int32([0]).tobytes())
    condition = Maker(values)
    x = condition.input(T.TENSOR_FLOAT32, [1])
    most = condition.constant(T.TENSOR_FLOAT32, np.float32([10]))
    truth = condition.output(T.TENSOR_BOOL8, [1])
    condition.operation(O.LESS, [x, most], [truth])
    maker = Maker(values)
    graphs = [maker.graph(0), maker.graph(1)]
    start = maker.input(T.TENSOR_FLOAT32, [1])
    end = maker.output(T.TENSOR_FLOAT32, [1])
    maker.operation(O.WHILE, [*graphs, start], [end])
    return maker.model(HalVersion.V1_3, [condition.subgraph(), branch(0, [1])])


def hashes() -> hal.Model:
    """LSH_PROJECTION, whose weight is optional. operands: 0 seeds, 1 input, 2 weight, 3 type, 4 output."""
    maker = Maker()
    seeds = maker.constant(T.TENSOR_FLOAT32, np.float32([[0.1, 0.2], [0.3, 0.4]]))
    x = maker.input(T.TENSOR_INT32, [3, 2])
    weight = maker.input(T.TENSOR_FLOAT32, [3])
    kind = maker.scalar(2)
    y = maker.output(T.TENSOR_INT32, [4])
    maker.operation(O.LSH_PROJECTION, [seeds, x, weight, kind], [y])
    return maker.model(HalVersion.V1_2)


def request_of(model: hal.Model) -> hal.Request:
    """A legal request of a model whose sizes are known: inputs one after the other in pool 0, outputs in pool 1."""
    pools = [bytearray(), bytearray()]
    arguments: list[list[hal.RequestArgument]] = []
    for pool, indexes in zip(pools, (model.inputIndexes, model.outputIndexes), strict=True):
        arguments.append([])
        for index in indexes:
            size_bytes = bytes_of(model.operands[index])
            place = hal.DataLocation(len(arguments) - 1, len(pool), size_bytes)
            arguments[-1].append(hal.RequestArgument(location=place))
            pool += bytes(size_bytes)
    return hal.Request(*arguments, pools)


def bytes_of(operand: hal.Operand) -> int:
    """Bytes of the data of an operand of known size."""
    from npusim.frontends.nn_hal.enumerations import row_of

    return int(np.prod(operand.dimensions, dtype=np.int64)) * (
        row_of(OperandType(operand.type)).element_bytes or 0
    )
