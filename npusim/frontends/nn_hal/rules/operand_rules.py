"""Rules of single operands: types, sizes, scales, and the memory of constants."""

from __future__ import annotations

from collections.abc import Iterator

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperand
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime, OperandType
from npusim.frontends.nn_hal.fault import Fault, Rule

_UINT32 = 1 << 32


def scalar_without_dimensions(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A scalar has no dimensions."""
    for operand in graph.operands:
        if not operand.row.tensor and operand.dimensions:
            yield Fault(
                f"{operand.place}.dimensions", f"is {_sizes(operand)}, must be empty for {_type(operand)}"
            )


def tensor_with_dimensions(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A tensor has at least one dimension; from V1_2 only a constant must."""
    for operand in graph.operands:
        if operand.dimensions is None and (operand.constant or model.version < HalVersion.V1_2):
            yield Fault(f"{operand.place}.dimensions", "is empty, a tensor must have at least one")


def constant_of_known_size(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The dimensions of a constant are fully specified."""
    for operand in graph.operands:
        if operand.constant and operand.dimensions and not operand.known:
            yield Fault(f"{operand.place}.dimensions", f"is {_sizes(operand)}, a constant must have no 0")


def scale(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A scale is above 0 for the quantized types with one scale, at least 0 for TENSOR_INT32, 0 for all others."""
    for operand in graph.operands:
        kind, value = operand.row.scaling, operand.scale
        if kind == "one" and not value > 0:
            text = "above 0"
        elif kind == "optional" and not value >= 0:
            text = "at least 0"
        elif kind in ("none", "per channel") and value != 0:
            text = "0"
        else:
            continue
        yield Fault(f"{operand.place}.scale", f"is {value:g}, must be {text} for {_type(operand)}")


def zero_point(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A zero point is a value of the type: 0..255 for QUANT8_ASYMM, -128..127 for its signed twin, 0..65535 for
    QUANT16_ASYMM; 0 for all others."""
    for operand in graph.operands:
        low, high = operand.row.zero_points
        if not low <= operand.zero_point <= high:
            allowed = f"{low}..{high}" if low < high else str(low)
            yield Fault(
                f"{operand.place}.zeroPoint",
                f"is {operand.zero_point}, must be {allowed} for {_type(operand)}",
            )


def channels(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """extraParams is for per-channel types: channelDim inside the rank, that dimension known, one scale above 0 per
    channel; None for all others."""
    for operand in graph.operands:
        place, given = f"{operand.place}.extraParams", operand.channels
        if operand.row.scaling != "per channel":
            if given is not None:
                yield Fault(place, f"must be None for {_type(operand)}")
        elif given is None:
            yield Fault(place, f"is None, must be SymmPerChannelQuantParams for {_type(operand)}")
        else:
            yield from _channel_faults(f"{place}.", operand)


def _channel_faults(prefix: str, operand: CheckedOperand) -> Iterator[Fault]:
    given, sizes = operand.channels, operand.dimensions or ()
    assert given is not None
    if given.axis >= len(sizes):
        yield Fault(f"{prefix}channelDim", f"is {given.axis}, must be below the rank {len(sizes)}")
    elif not sizes[given.axis]:
        yield Fault(f"{prefix}channelDim", f"is {given.axis}, that dimension must be specified")
    elif len(given.scales) != sizes[given.axis]:
        yield Fault(
            f"{prefix}scales", f"are {len(given.scales)}, must be {sizes[given.axis]}: one per channel"
        )
    for index, value in enumerate(given.scales):
        if not value > 0:
            yield Fault(f"{prefix}scales[{index}]", f"is {value:g}, must be above 0")


def location_of_no_data(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """location is all 0 for TEMPORARY_VARIABLE, MODEL_INPUT, MODEL_OUTPUT, NO_VALUE."""
    for operand in graph.operands:
        elsewhere = operand.constant or operand.lifetime is OperandLifeTime.SUBGRAPH
        if not (elsewhere or operand.location.zero):
            yield Fault(f"{operand.place}.location", f"must be all 0 for {operand.lifetime.name}")


def constant_by_copy(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """CONSTANT_COPY: poolIndex is 0; offset + length within operandValues, without a 32-bit wrap."""
    for operand in graph.operands:
        if operand.lifetime is OperandLifeTime.CONSTANT_COPY:
            if operand.location.pool:
                yield Fault(
                    f"{operand.place}.location.poolIndex",
                    f"is {operand.location.pool}, must be 0 for CONSTANT_COPY",
                    "D2",
                )
            yield from _outside(operand, "operandValues", model.values.size, "D3")


def constant_by_reference(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """CONSTANT_REFERENCE: poolIndex names a pool; offset + length within it, without a 32-bit wrap."""
    for operand in graph.operands:
        if operand.lifetime is OperandLifeTime.CONSTANT_REFERENCE:
            pool = operand.location.pool
            if pool < len(model.pools):
                yield from _outside(operand, f"pools[{pool}]", model.pools[pool].size, "D5")
            else:
                yield Fault(
                    f"{operand.place}.location.poolIndex",
                    f"is {pool}, there are {len(model.pools)} pools",
                    "D4",
                )


def _outside(operand: CheckedOperand, memory: str, size_bytes: int, rule: str) -> Iterator[Fault]:
    end = operand.location.offset + operand.location.length
    if end > size_bytes or end >= _UINT32:
        yield Fault(
            f"{operand.place}.location", f"ends at byte {end} of {memory}, which has {size_bytes}", rule
        )


def length_of_constant(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The length of a constant is the size of its type times its dimensions."""
    for operand in graph.operands:
        if operand.constant and operand.type is not OperandType.SUBGRAPH:
            size_bytes = operand.size_bytes
            if size_bytes is not None and operand.location.length != size_bytes:
                what = f"{_type(operand)} {_sizes(operand)}" if operand.row.tensor else _type(operand)
                yield Fault(
                    f"{operand.place}.location.length",
                    f"is {operand.location.length}, {what} has {size_bytes} bytes",
                )


def _type(operand: CheckedOperand) -> str:
    return operand.type.name


def _sizes(operand: CheckedOperand) -> str:
    return str(list(operand.dimensions or ()))


RULES: tuple[Rule, ...] = (
    Rule(("T1",), scalar_without_dimensions),
    Rule(("T2",), tensor_with_dimensions),
    Rule(("T3",), constant_of_known_size),
    Rule(("T4",), scale),
    Rule(("T5",), zero_point),
    Rule(("T6",), channels),
    Rule(("D1",), location_of_no_data),
    Rule(("D2", "D3"), constant_by_copy),
    Rule(("D4", "D5"), constant_by_reference),
    Rule(("D6",), length_of_constant),
)
