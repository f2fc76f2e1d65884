"""Each rule of the HAL, broken once in a small legal model: its status, its place, its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import npusim.hal as hal
from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import RULES, check_model
from npusim.frontends.nn_hal.request import REQUEST_RULES, check_request
from npusim.hal import DataLocation, ErrorStatus, HalVersion, OperandLifeTime, OperandType, OperationType

from .hal_models import Maker, addition, branches, convolution, hashes, loop, request_of

T, L = OperandType, OperandLifeTime


class Case(NamedTuple):
    """A rule, a legal model, what is done to it, and the message then."""

    rule: str
    model: Callable[[], hal.Model]
    change: Callable[[hal.Model], Any]
    message: str


def put(name: str, value: object) -> Callable[[Any], None]:
    """Sets a field: "operands[3].location.offset"."""

    def change(struct: Any) -> None:
        *steps, last = re.findall(r"\w+", name)
        for step in steps:
            struct = struct[int(step)] if step.isdigit() else getattr(struct, step)
        if last.isdigit():
            struct[int(last)] = value
        else:
            setattr(struct, last, value)

    return change


def both(*changes: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(struct: Any) -> None:
        for each in changes:
            each(struct)

    return change


CASES = (
    Case(
        "G1",
        addition,
        put("operands[0].scale", float("nan")),
        "operands[0].scale: is nan, must be a finite float32",
    ),
    Case(
        "G1",
        addition,
        put("operands[3].dimensions[1]", -1),
        "operands[3].dimensions[1]: is -1, must be 0..4294967295",
    ),
    Case("G1", addition, put("operations", 5), "operations: is 5, must be a sequence"),
    Case(
        "G1",
        addition,
        put("relaxComputationFloat32toFloat16", True),
        "relaxComputationFloat32toFloat16: is of V1_1; the model is V1_0",
    ),
    Case(
        "G1",
        convolution,
        lambda model: setattr(model, "referenced", branches().referenced),
        "referenced: is of V1_3; the model is V1_2",
    ),
    Case("G1", addition, put("version", 9), "version: is 9, which is none of HalVersion"),
    Case(
        "E1", addition, put("operands[0].type", 77), "operands[0].type: is 77, which is none of OperandType"
    ),
    Case(
        "E1",
        addition,
        put("operands[0].type", T.TENSOR_FLOAT16),
        "operands[0].type: is TENSOR_FLOAT16, which is of V1_2; the model is V1_0",
    ),
    Case(
        "E2",
        addition,
        put("operations[1].type", 103),
        "operations[1].type: is PACK, which is of AIDL_V2; the model is V1_0",
    ),
    Case(
        "E2",
        convolution,
        put("operations[0].type", 0x20003),
        "operations[0].type: is 131075 of the extension 2, which extensionNameToPrefix does not have",
    ),
    Case(
        "G1",
        addition,
        put("extensionNameToPrefix", [hal.ExtensionNameAndPrefix("com.acme.ops", 2)]),
        "extensionNameToPrefix: is of V1_2; the model is V1_0",
    ),
    Case(
        "G1",
        convolution,
        put("extensionNameToPrefix", [hal.ExtensionNameAndPrefix("", 2)]),
        "extensionNameToPrefix[0].name: is '', must be a name of 1 to 60 characters",
    ),
    Case(
        "G1",
        convolution,
        put(
            "extensionNameToPrefix", [hal.ExtensionNameAndPrefix("a", 2), hal.ExtensionNameAndPrefix("b", 2)]
        ),
        "extensionNameToPrefix[1].prefix: is 2 again, each must occur once",
    ),
    Case(
        "E3",
        addition,
        put("operands[2].lifetime", 6),
        "operands[2].lifetime: is SUBGRAPH, which is of V1_3; the model is V1_0",
    ),
    Case(
        "T1",
        addition,
        put("operands[2].dimensions", [1]),
        "operands[2].dimensions: is [1], must be empty for INT32",
    ),
    Case(
        "T2",
        addition,
        put("operands[3].dimensions", ()),
        "operands[3].dimensions: is empty, a tensor must have at least one",
    ),
    Case(
        "T2",
        convolution,
        put("operands[2].dimensions", ()),
        "operands[2].dimensions: is empty, a tensor must have at least one",
    ),
    Case(
        "T3",
        addition,
        put("operands[1].dimensions", [0, 3]),
        "operands[1].dimensions: is [0, 3], a constant must have no 0",
    ),
    Case(
        "T4",
        addition,
        put("operands[0].scale", 0),
        "operands[0].scale: is 0, must be above 0 for TENSOR_QUANT8_ASYMM",
    ),
    Case(
        "T4",
        convolution,
        put("operands[2].scale", -1),
        "operands[2].scale: is -1, must be at least 0 for TENSOR_INT32",
    ),
    Case(
        "T4",
        convolution,
        put("operands[1].scale", 1),
        "operands[1].scale: is 1, must be 0 for TENSOR_QUANT8_SYMM_PER_CHANNEL",
    ),
    Case(
        "T5",
        addition,
        put("operands[0].zeroPoint", 256),
        "operands[0].zeroPoint: is 256, must be 0..255 for TENSOR_QUANT8_ASYMM",
    ),
    Case("T5", addition, put("operands[2].zeroPoint", 1), "operands[2].zeroPoint: is 1, must be 0 for INT32"),
    Case(
        "T6",
        convolution,
        put("operands[1].extraParams", None),
        "operands[1].extraParams: is None, must be SymmPerChannelQuantParams for TENSOR_QUANT8_SYMM_PER_CHANNEL",
    ),
    Case(
        "T6",
        convolution,
        put("operands[1].extraParams.channelDim", 4),
        "operands[1].extraParams.channelDim: is 4, must be below the rank 4",
    ),
    Case(
        "T6",
        convolution,
        put("operands[1].extraParams.scales", [1.0]),
        "operands[1].extraParams.scales: are 1, must be 3: one per channel",
    ),
    Case(
        "T6",
        convolution,
        put("operands[1].extraParams.scales[2]", 0),
        "operands[1].extraParams.scales[2]: is 0, must be above 0",
    ),
    Case(
        "T6",
        addition,
        put("operands[0].extraParams", hal.SymmPerChannelQuantParams([1.0], 0)),
        "operands[0].extraParams: must be None for TENSOR_QUANT8_ASYMM",
    ),
    Case(
        "L1",
        addition,
        put("operations[0].outputs", []),
        "operands[3]: is output of 0 operations, a TEMPORARY_VARIABLE must be of exactly one",
    ),
    Case(
        "L2",
        addition,
        put("operations[1].outputs", [4, 0]),
        "operands[0]: is output of an operation, a MODEL_INPUT must be of none",
    ),
    Case(
        "L3",
        addition,
        put("operations[0].outputs", [3, 4]),
        "operands[4]: is output of 2 operations, a MODEL_OUTPUT must be of exactly one",
    ),
    Case(
        "L4",
        addition,
        put("operations[1].outputs", [4, 2]),
        "operands[2]: is output of an operation, a CONSTANT_COPY must be of none",
    ),
    Case(
        "L5",
        addition,
        put("operations[1].outputs", [4, 1]),
        "operands[1]: is output of an operation, a CONSTANT_REFERENCE must be of none",
    ),
    Case(
        "L6a",
        addition,
        both(
            put("operands[2].lifetime", L.NO_VALUE),
            put("operands[2].location", DataLocation()),
            put("operations[1].outputs", [4, 2]),
        ),
        "operands[2]: is output of an operation, a NO_VALUE must be of none",
    ),
    Case(
        "L7",
        addition,
        put("outputIndexes", [4, 0]),
        "outputIndexes[1]: is 0, which is an input of the graph too",
    ),
    Case("M1", addition, put("inputIndexes", []), "inputIndexes: is empty, must have at least one index"),
    Case("M2", addition, put("outputIndexes", [5]), "outputIndexes[0]: is 5, there are 5 operands"),
    Case(
        "M3",
        addition,
        put("inputIndexes", [0, 3]),
        "inputIndexes[1]: is 3, a TEMPORARY_VARIABLE; must be a MODEL_INPUT",
    ),
    Case(
        "M4", addition, put("inputIndexes", [0, 0]), "inputIndexes[1]: is 0 again, each index must occur once"
    ),
    Case(
        "M5",
        convolution,
        both(put("operands[3].lifetime", L.MODEL_INPUT), put("operands[3].location", DataLocation())),
        "operands[3]: is a MODEL_INPUT, must be listed in inputIndexes",
    ),
    Case(
        "C1",
        addition,
        put("operands[1].numberOfConsumers", 1),
        "operands[1].numberOfConsumers: is 1, must be 2",
    ),
    Case(
        "D1",
        addition,
        put("operands[3].location.length", 4),
        "operands[3].location: must be all 0 for TEMPORARY_VARIABLE",
    ),
    Case(
        "D2",
        addition,
        put("operands[2].location.poolIndex", 1),
        "operands[2].location.poolIndex: is 1, must be 0 for CONSTANT_COPY",
    ),
    Case(
        "D3",
        addition,
        put("operands[2].location.offset", 2),
        "operands[2].location: ends at byte 6 of operandValues, which has 4",
    ),
    Case("D4", addition, put("pools", []), "operands[1].location.poolIndex: is 0, there are 0 pools"),
    Case(
        "D5",
        addition,
        put("operands[1].location.offset", 2**32 - 1),
        "operands[1].location: ends at byte 4294967301 of pools[0], which has 6",
    ),
    Case(
        "D6",
        addition,
        put("operands[1].location.length", 5),
        "operands[1].location.length: is 5, TENSOR_QUANT8_ASYMM [2, 3] has 6 bytes",
    ),
    Case("P1", addition, put("pools[0]", 17), "pools[0]: is 17, must be a C-contiguous buffer"),
    Case(
        "P1",
        addition,
        put("pools[0]", np.zeros((6, 2), np.uint8)[:, 0]),
        "pools[0]: must be a C-contiguous array of plain elements",
    ),
    Case(
        "O1",
        addition,
        put("operations[1].inputs", [3, 9, 2]),
        "operations[1].inputs[1]: is 9, there are 5 operands",
    ),
    Case(
        "O2",
        addition,
        lambda model: model.operations.reverse(),
        "operations[0].inputs[0]: is 3, which no operation before this one writes",
    ),
    Case(
        "S1",
        branches,
        put("operands[1].lifetime", L.TEMPORARY_VARIABLE),
        "operands[1].lifetime: is TEMPORARY_VARIABLE for type SUBGRAPH",
    ),
    Case(
        "S1",
        branches,
        both(put("operands[3].lifetime", L.SUBGRAPH), put("inputIndexes", [0])),
        "operands[3].lifetime: is SUBGRAPH for type TENSOR_FLOAT32; SUBGRAPH must be both or neither",
    ),
    Case(
        "S2",
        branches,
        put("operands[2].location.offset", 2),
        "operands[2].location.offset: is 2, there are 2 referenced graphs",
    ),
    Case(
        "S2",
        branches,
        put("operands[2].location.length", 1),
        "operands[2].location: must be (0, index of a referenced graph, 0)",
    ),
    Case(
        "S3",
        branches,
        lambda model: model.referenced[1].operands.append(
            hal.Operand(T.SUBGRAPH, lifetime=L.SUBGRAPH, location=DataLocation(0, 1, 0))
        ),
        "referenced[1]: referenced[1].operands[4] refers to referenced[1], which must not execute itself",
    ),
    Case(
        "S5",
        branches,
        put("operands[0].type", T.TENSOR_INT32),
        "operations[0].inputs[0]: must be a TENSOR_BOOL8 of one element",
    ),
    Case(
        "S5",
        branches,
        put("referenced[1].operands[3].type", T.TENSOR_FLOAT16),
        "operations[0].inputs[2]: outputs of referenced[1]: referenced[1].operands[3] is TENSOR_FLOAT16 scale 0 "
        "zeroPoint 0, operands[4] is TENSOR_FLOAT32 scale 0 zeroPoint 0; they must agree",
    ),
    Case(
        "S5",
        loop,
        put("referenced[0].operands[2].dimensions", [2]),
        "operations[0].inputs[0]: referenced[0] must have one output, a TENSOR_BOOL8 of one element",
    ),
    Case(
        "S5",
        loop,
        put("referenced[1].operands[0].dimensions", [7]),
        "operations[0].inputs[1]: inputs of referenced[1]: referenced[1].operands[0] has dimensions [7], operands[2] "
        "[1]; they must agree",
    ),
)


def parameter(index: int, value: int) -> Callable[[hal.Model], None]:
    """Sets the value of an INT32 constant."""

    def change(model: hal.Model) -> None:
        where = model.operands[index].location
        memory = bytearray(model.operandValues)
        memory[where.offset : where.offset + 4] = np.int32(value).tobytes()
        model.operandValues = memory

    return change


def without(model: hal.Model) -> None:
    """The activation of `addition` has no value."""
    model.operands[2].lifetime = L.NO_VALUE
    model.operands[2].location = DataLocation()


OPERATION_CASES = (
    Case(
        "O3",
        addition,
        both(put("operations[0].inputs", [0, 1]), put("operands[2].numberOfConsumers", 1)),
        "operations[0]: ADD has 2 inputs and 1 outputs, takes 3 and gives 1",
    ),
    Case(
        "O4",
        addition,
        put("operands[2].type", T.UINT32),
        "operations[0].inputs[2]: operands[2] is UINT32, must be INT32 here for ADD",
    ),
    Case(
        "O5", addition, parameter(2, 4), "operations[0].inputs[2]: operands[2] (activation) is 4; the fused"
    ),
    Case(
        "O5",
        convolution,
        parameter(3, 3),
        "operations[0].inputs[3]: operands[3] (padding) is 3; the implicit",
    ),
    Case(
        "O6",
        addition,
        put("operands[4].dimensions", [2, 4]),
        "operations[1].outputs[0]: operands[4] (output) has dimensions [2, 4]",
    ),
    Case(
        "O6",
        convolution,
        put("operands[0].dimensions", [1, 4, 4, 3]),
        "operations[0].inputs[0]: operands[0] (input) has dimensions [1, 4, 4, 3]",
    ),
    Case(
        "O7",
        convolution,
        put("operands[2].scale", 0.5),
        "operations[0].inputs[2]: operands[2] (bias) has scale 0.5 and zero point 0",
    ),
    Case(
        "L6",
        branches,
        both(put("operands[3].lifetime", L.NO_VALUE), put("inputIndexes", [0])),
        "operations[0].inputs[3]: operands[3] has no value, which this argument must have",
    ),
    Case("L6", addition, without, "operations[0].inputs[2]: operands[2] (activation) has no value"),
)
"""What the table of operations says; its own tests break each rule of it."""


@pytest.mark.parametrize("model", [addition, convolution, branches, loop, hashes])
def test_the_models_themselves_break_no_rule(model: Callable[[], hal.Model]) -> None:
    checked = check_model(model())
    assert isinstance(checked, CheckedModel), checked
    assert not isinstance(check_request(request_of(model()), checked), Fault)


@pytest.mark.parametrize(
    "case", [*CASES, *OPERATION_CASES], ids=lambda case: f"{case.rule} {case.message[:40]}"
)
def test_a_broken_rule_of_a_model(case: Case) -> None:
    model = case.model()
    case.change(model)
    fault = check_model(model)
    assert isinstance(fault, Fault)
    assert fault.message.startswith(case.message)
    assert fault.status is ErrorStatus.INVALID_ARGUMENT
    assert fault.rule == case.rule


def test_every_rule_of_a_model_is_broken_here() -> None:
    named = {name for rule in RULES for name in rule.names}
    assert named - {case.rule for case in (*CASES, *OPERATION_CASES)} == set()
    assert all(rule.check.__doc__ for rule in RULES)


# Requests


class RequestCase(NamedTuple):
    """A rule, a legal model, what is done to a legal request of it, and the message then."""

    rule: str
    model: Callable[[], hal.Model]
    change: Callable[[hal.Request], Any]
    message: str


def open_addition() -> hal.Model:
    return addition(HalVersion.V1_1, [0, 3])


def read_only_output(request: hal.Request) -> None:
    request.pools[1] = bytes(6)  # type: ignore[index]


def output_on_input(request: hal.Request) -> None:
    request.pools[1] = np.frombuffer(request.pools[0], np.int16)  # type: ignore[index]


REQUESTS = (
    RequestCase("G1", addition, put("inputs", 5), "inputs: is 5, must be a sequence"),
    RequestCase(
        "G1", addition, put("inputs[0].hasNoValue", "no"), "inputs[0].hasNoValue: is 'no', must be a bool"
    ),
    RequestCase("P1", addition, put("pools[1]", None), "pools[1]: is None, must be a C-contiguous buffer"),
    RequestCase("R1", addition, put("inputs", []), "inputs: are 0 arguments, the model has 1"),
    RequestCase(
        "R2",
        hashes,
        put("inputs[1].hasNoValue", True),
        "inputs[1].location: must be all 0 where hasNoValue is True",
    ),
    RequestCase(
        "R2",
        hashes,
        put("inputs[1]", hal.RequestArgument(hasNoValue=True, dimensions=[3])),
        "inputs[1].dimensions: must be empty where hasNoValue is True",
    ),
    RequestCase(
        "R3",
        addition,
        put("outputs[0].hasNoValue", True),
        "outputs[0].hasNoValue: is True, no output is optional",
    ),
    RequestCase(
        "R3",
        addition,
        put("inputs[0]", hal.RequestArgument(hasNoValue=True)),
        "inputs[0].hasNoValue: is True, operations[0].inputs[0] must have a value",
    ),
    RequestCase(
        "R4",
        addition,
        put("outputs[0].location.poolIndex", 2),
        "outputs[0].location.poolIndex: is 2, the request has 2 pools",
    ),
    RequestCase(
        "R5",
        addition,
        put("inputs[0].location.offset", 1),
        "inputs[0].location: ends at byte 7 of pools[0], which has 6",
    ),
    RequestCase(
        "R6", addition, put("inputs[0].dimensions", [6]), "inputs[0].dimensions: are 1, the model has 2"
    ),
    RequestCase(
        "R7",
        addition,
        put("inputs[0].dimensions", [2, 0]),
        "inputs[0].dimensions[1]: is 0, all must be specified",
    ),
    RequestCase(
        "R8",
        addition,
        put("outputs[0].dimensions", [2, 4]),
        "outputs[0].dimensions[1]: is 4, the model has 3",
    ),
    RequestCase(
        "R9",
        open_addition,
        put("inputs[0].dimensions", ()),
        "inputs[0].dimensions: is empty, the model leaves [0, 3] open",
    ),
    RequestCase(
        "R9",
        open_addition,
        both(
            put("inputs[0]", hal.RequestArgument(location=DataLocation(1, 0, 3), dimensions=[1, 3])),
            put("pools[1]", bytearray(3)),
        ),
        "outputs[0].dimensions: is empty, the model leaves [0, 3] open",
    ),
    RequestCase(
        "R10",
        addition,
        put("inputs[0].location.length", 5),
        "inputs[0].location.length: is 5, TENSOR_QUANT8_ASYMM [2, 3] has 6 bytes",
    ),
    RequestCase("R13", addition, output_on_input, "outputs[0].location: overlaps inputs[0]"),
    RequestCase(
        "R15", addition, read_only_output, "outputs[0]: pools[1] is read-only, an output must be writable"
    ),
)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: f"{case.rule} {case.message[:40]}")
def test_a_broken_rule_of_a_request(case: RequestCase) -> None:
    checked = check_model(case.model())
    assert isinstance(checked, CheckedModel)
    request = request_of(case.model())
    case.change(request)
    fault = check_request(request, checked)
    assert isinstance(fault, Fault)
    assert (fault.rule, fault.message) == (case.rule, case.message)


def splits() -> hal.Model:
    """Two outputs of six bytes."""
    maker = Maker()
    x = maker.input(T.TENSOR_QUANT8_ASYMM, [2, 6], scale=1)
    parameters = [maker.scalar(0), maker.scalar(2)]
    halves = [maker.output(T.TENSOR_QUANT8_ASYMM, [1, 6], scale=1) for _ in range(2)]
    maker.operation(OperationType.SPLIT, [x, *parameters], halves)
    return maker.model(HalVersion.V1_2)


def outputs_at(first: int, second: int) -> Fault | object:
    """The check of a request whose outputs begin at these bytes of one pool."""
    checked = check_model(splits())
    assert isinstance(checked, CheckedModel)
    outputs = [hal.RequestArgument(location=DataLocation(1, offset, 6)) for offset in (first, second)]
    inputs = [hal.RequestArgument(location=DataLocation(0, 0, 12))]
    return check_request(hal.Request(inputs, outputs, [bytearray(12), bytearray(100)]), checked)


def test_outputs_may_touch_but_not_overlap() -> None:
    assert not isinstance(outputs_at(0, 6), Fault)
    for first, second in ((0, 5), (5, 0), (7, 7)):
        fault = outputs_at(first, second)
        assert isinstance(fault, Fault)
        assert fault.rule == "R12"
        assert "outputs[0]" in fault.message
        assert "outputs[1]" in fault.message


def test_an_output_must_not_overlap_a_constant_of_the_model() -> None:
    model = addition()
    memory = np.zeros(20, np.uint8)
    model.pools = [memory[7:13]]
    checked = check_model(model)
    assert isinstance(checked, CheckedModel)
    for offset, free in ((0, True), (1, True), (2, False), (12, False), (13, True)):
        request = request_of(model)
        request.pools = [request.pools[0], memory.view(np.int16)]
        request.outputs[0].location = DataLocation(1, offset, 6)
        fault = check_request(request, checked)
        assert isinstance(fault, Fault) is not free, offset
        if isinstance(fault, Fault):
            assert (fault.rule, fault.message) == ("R14", "outputs[0].location: overlaps operands[1]")


def test_empty_ranges_overlap_nothing() -> None:
    checked = check_model(splits())
    assert isinstance(checked, CheckedModel)
    pool = bytearray(12)
    outputs = [hal.RequestArgument(location=DataLocation(0, 5, 0)) for _ in range(2)]
    request = hal.Request([hal.RequestArgument(location=DataLocation(0, 0, 12))], outputs, [pool])
    assert not isinstance(check_request(request, checked), Fault)


def test_every_rule_of_a_request_is_broken_here() -> None:
    assert set(REQUEST_RULES) - {case.rule for case in REQUESTS} == {
        "R11",
        "R12",
        "R14",
    }  # in tests of their own


def test_a_graph_that_is_never_executed_keeps_the_rules_too() -> None:
    model = branches()
    model.operands[0].lifetime = L.CONSTANT_COPY
    model.operands[0].location = DataLocation(0, len(model.operandValues), 1)
    model.operandValues = bytes(model.operandValues) + b"\1"
    model.inputIndexes = [3]
    with hal.Device() as device:
        assert device.prepareModel(model).status is ErrorStatus.NONE
        model.referenced[1].operands[2].type = T.UINT32
        prepared = device.prepareModel(model)
    assert prepared.status is ErrorStatus.INVALID_ARGUMENT
    assert prepared.message.startswith(
        "referenced[1].operations[0].inputs[2]: operands[2] is UINT32, must be INT32"
    )
