"""The check of a request: structs in, checked arguments or a broken rule out.

R11, a too short output, is decided by who computes its size (`npusim.hal.prepared`); here an output has the length that
it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npusim.frontends.nn_hal import field_values
from npusim.frontends.nn_hal.checked import (
    Bytes,
    CheckedArgument,
    CheckedModel,
    CheckedOperand,
    CheckedRequest,
    Location,
)
from npusim.frontends.nn_hal.cleaning import location, memories
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.field_values import Broken, Fields, broken
from npusim.frontends.nn_hal.operations import operation_table
from npusim.frontends.nn_hal.operations.named_arguments import Call, Known
from npusim.frontends.nn_hal.structs import Request, RequestArgument

_UINT32 = 1 << 32

REQUEST_RULES: dict[str, str] = {
    "R1": "A request has one argument per model input and per model output.",
    "R2": "Where hasNoValue is true, location is all 0 and dimensions are empty.",
    "R3": "hasNoValue is true only where the argument of every reader is optional; no output is.",
    "R4": "poolIndex names a pool of the request.",
    "R5": "offset + length is within the pool, without a 32-bit wrap.",
    "R6": "Dimensions given are as many as in the model, where the rank is known there.",
    "R7": "No dimension given is 0.",
    "R8": "A dimension given equals that of the model where it has one.",
    "R9": "Where no dimensions are given, none is unspecified in the model; outputs only before V1_2.",
    "R10": "The length of an input is the size of its data.",
    "R11": "The length of an output is at least the size of its data: else OUTPUT_INSUFFICIENT_SIZE.",
    "R12": "An output overlaps no other output.",
    "R13": "An output overlaps no input.",
    "R14": "An output overlaps no CONSTANT_REFERENCE operand.",
    "R15": "The pool of an output is writable.",
}
"""The rules of a request."""


def check_request(request: object, model: CheckedModel) -> CheckedRequest | Fault:
    """Return the arguments of a request as plain values if it keeps the rules for a model, or one broken rule.

    Nothing that a field holds makes it raise.
    """
    try:
        return _checked(field_values.instance("request", request, Request), model)
    except Broken as fault:
        return fault.fault


def _checked(struct: Request, model: CheckedModel) -> CheckedRequest:
    fields = {name: field_values.field("", struct, name) for name in ("inputs", "outputs", "pools")}
    pools = memories("pools", fields["pools"])
    graph = model.main
    checked: dict[str, tuple[CheckedArgument, ...]] = {}
    for name, indexes in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        arguments = field_values.vec(name, fields[name])
        if len(arguments) != len(indexes):
            raise broken(name, f"are {len(arguments)} arguments, the model has {len(indexes)}", "R1")
        checked[name] = tuple(
            [
                _argument(f"{name}[{number}]", argument, graph.operands[index], model, pools)
                for number, (argument, index) in enumerate(zip(arguments, indexes, strict=True))
            ]
        )
    result = CheckedRequest(checked["inputs"], checked["outputs"])
    for fault in _overlaps(result, model):
        raise Broken(fault)
    return result


def _argument(
    place: str, value: object, operand: CheckedOperand, model: CheckedModel, pools: Sequence[Bytes]
) -> CheckedArgument:
    fields = Fields(place, value, RequestArgument)
    omitted = fields.read("hasNoValue", field_values.truth)
    where = fields.read("location", location)
    given = fields.read("dimensions", field_values.uint32s)
    output = operand.lifetime is OperandLifeTime.MODEL_OUTPUT
    if omitted:
        if output:
            raise broken(f"{place}.hasNoValue", "is True, no output is optional", "R3")
        _require_empty(place, where, given)
        reader = reader_in_need(operand, model)
        if reader:
            raise broken(f"{place}.hasNoValue", f"is True, {reader} must have a value", "R3")
        return CheckedArgument(place, operand, operand.dimensions, None)
    sizes = _sizes(place, given, operand)
    if not given and not operand.known and not (output and model.version >= HalVersion.V1_2):
        text = f"is empty, the model leaves {_shown(operand.dimensions)} open"
        raise broken(f"{place}.dimensions", text, "R9")
    memory = _memory(place, where, pools)
    argument = CheckedArgument(place, operand, sizes, memory)
    if output:
        if not memory.flags.writeable and memory.size:
            raise broken(place, f"pools[{where.pool}] is read-only, an output must be writable", "R15")
    elif argument.size_bytes is not None and memory.size != argument.size_bytes:
        text = f"is {memory.size}, {operand.type.name} {_shown(sizes)} has {argument.size_bytes} bytes"
        raise broken(f"{place}.location.length", text, "R10")
    return argument


def _require_empty(place: str, where: Location, given: tuple[int, ...]) -> None:
    if not where.zero:
        raise broken(f"{place}.location", "must be all 0 where hasNoValue is True", "R2")
    if given:
        raise broken(f"{place}.dimensions", "must be empty where hasNoValue is True", "R2")


def reader_in_need(operand: CheckedOperand, model: CheckedModel) -> str:
    """Return the first operation input that reads an operand and must have a value; "" if all may be omitted."""
    graph = model.main
    for operation in graph.operations:
        if operand.index in operation.inputs:
            row = operation_table.row(operation.type)
            call = row and row.call(operation, Known(graph), model.version, model.referenced)
            arguments = call.inputs if isinstance(call, Call) else ()
            optional = [given.optional for given in arguments if given.operand.index == operand.index]
            if not optional or not all(optional):
                return f"{operation.place}.inputs[{operation.inputs.index(operand.index)}]"
    return ""


def _sizes(place: str, given: tuple[int, ...], operand: CheckedOperand) -> tuple[int, ...] | None:
    """Return the dimensions of an argument: those given, which must agree with known ones of the model."""
    place, known = f"{place}.dimensions", operand.dimensions
    if not given:
        return known
    if known is not None and len(given) != len(known):
        raise broken(place, f"are {len(given)}, the model has {len(known)}", "R6")
    for number, size in enumerate(given):
        if not size:
            raise broken(f"{place}[{number}]", "is 0, all must be specified", "R7")
        if known is not None and known[number] not in (0, size):
            raise broken(f"{place}[{number}]", f"is {size}, the model has {known[number]}", "R8")
    return given


def _memory(place: str, where: Location, pools: Sequence[Bytes]) -> Bytes:
    if where.pool >= len(pools):
        text = f"is {where.pool}, the request has {len(pools)} pools"
        raise broken(f"{place}.location.poolIndex", text, "R4")
    pool, end = pools[where.pool], where.offset + where.length
    if end > pool.size or end >= _UINT32:
        text = f"ends at byte {end} of pools[{where.pool}], which has {pool.size}"
        raise broken(f"{place}.location", text, "R5")
    return pool[where.offset : end]


def _overlaps(request: CheckedRequest, model: CheckedModel) -> Iterator[Fault]:
    """Outputs that share memory with other outputs, inputs, or constants by reference."""
    ranges = [
        *((*_addresses(argument.bytes), argument.place, "R12") for argument in request.outputs),
        *((*_addresses(argument.bytes), argument.place, "R13") for argument in request.inputs),
        *(
            (*_addresses(operand.bytes), operand.place, "R14")
            for graph in model.graphs
            for operand in graph.operands
            if operand.lifetime is OperandLifeTime.CONSTANT_REFERENCE
        ),
    ]
    for first, last in _meetings(sorted(range_ for range_ in ranges if range_[0] < range_[1])):
        # The output of the two comes first; of two outputs the later one.
        other, output = sorted((first, last), key=lambda range_: range_[3] == "R12")
        yield Fault(f"{output[2]}.location", f"overlaps {other[2]}", other[3])


_Range = tuple[int, int, str, str]


def _meetings(ranges: list[_Range]) -> Iterator[tuple[_Range, _Range]]:
    """Yield ranges that overlap, at least one of them an output; ranges are sorted by their first address."""
    furthest: dict[bool, _Range] = {}
    for own in ranges:
        is_output = own[3] == "R12"
        for theirs in (True, False) if is_output else (True,):
            if theirs in furthest and own[0] < furthest[theirs][1]:
                yield furthest[theirs], own
        if is_output not in furthest or furthest[is_output][1] < own[1]:
            furthest[is_output] = own


def _addresses(memory: Bytes | None) -> tuple[int, int]:
    """Return the first address of bytes and the address behind them."""
    if memory is None or not memory.size:
        return 0, 0
    begin: int = memory.__array_interface__["data"][0]
    return begin, begin + memory.size


def _shown(sizes: tuple[int, ...] | None) -> str:
    return "its rank" if sizes is None else str(list(sizes))
